//! Calls, returns, and the ends of threads and of the process.

use std::rc::Rc;

use super::{Machine, Pause, Stop, give_up};
use crate::library::{Before, Call, Flow};
use crate::memory::function_at;
use crate::op::{CallSite, Shape, Target};
use crate::outcome::End;
use crate::state::{After, Frame, Handler, Resume, Status, Thread};
use crate::synchronisation::{Mutex, Remains};

/// Deeper recursion overflows a stack of 8 MB in any real program.
const MAX_FRAMES: usize = 200_000;

impl<'p> Machine<'p> {
    /// The site of the call that the running thread stands on.
    pub(super) fn call_site(&self) -> Option<&'p CallSite> {
        let frame = self.state.threads[self.state.current].frames.last()?;
        let function = &self.code.functions[frame.function as usize];
        match function.ops.get(frame.pc as usize)? {
            crate::op::Op::Call { call } => Some(&function.calls[*call as usize]),
            _ => None,
        }
    }

    /// The name of the function of the library that the running thread is in.
    pub(super) fn called_name(&self) -> Option<&'p str> {
        let site = self.call_site()?;
        let callee = self.callee(site)?;
        Some(&self.program.functions[callee].name)
    }

    /// The number of the function that a call of the running thread calls, if it is one.
    pub(super) fn callee(&self, site: &CallSite) -> Option<usize> {
        match site.callee {
            Target::Function(id) => Some(id.index()),
            Target::Register(register) => {
                let function = function_at(self.get(register))?;
                (function < self.code.functions.len()).then_some(function)
            }
        }
    }

    pub(super) fn call(&mut self, call: u32) -> Result<Option<Pause>, Stop> {
        let thread = &self.state.threads[self.state.current];
        let frame = thread.frames.last().expect("a running thread has a frame");
        let code = self.code;
        let site = &code.functions[frame.function as usize].calls[call as usize];
        let base = frame.base as usize;
        let Some(callee) = self.callee(site) else {
            let Target::Register(register) = site.callee else {
                return give_up("a function without a number");
            };
            return Err(self.bad_call(thread.registers[base + register as usize]));
        };
        let function = &code.functions[callee];
        if function.ops.is_empty() {
            return self.call_library(callee, site);
        }
        let thread = &mut self.state.threads[self.state.current];
        if thread.frames.len() > MAX_FRAMES {
            return Err(Box::new(End::Signal(11)));
        }
        let new = thread.registers.len();
        thread.registers.extend_from_slice(&function.template);
        let fixed = (function.parameters as usize).min(site.arguments.len());
        for at in 0..fixed {
            thread.registers[new + at] = thread.registers[base + site.arguments[at] as usize];
        }
        if !thread.shadow.is_empty() {
            for at in 0..fixed {
                let expression = thread.shadow_of(base + site.arguments[at] as usize);
                thread.put_shadow(new + at, expression);
            }
        }
        let variadic = match function.is_variadic {
            true => {
                let registers = &thread.registers;
                let extra = site.arguments.iter().zip(&site.shapes).skip(fixed);
                let extra =
                    extra.map(|(&register, &shape)| (registers[base + register as usize], shape));
                Some(extra.collect::<Rc<[(u64, Shape)]>>())
            }
            false => None,
        };
        let stack = thread.stack.len() as u32;
        thread.frames.push(Frame {
            function: callee as u32,
            pc: 0,
            base: new as u32,
            stack,
            after: After::Caller,
            saved: Resume::None,
            variadic,
        });
        Ok(None)
    }

    fn call_library(&mut self, callee: usize, site: &'p CallSite) -> Result<Option<Pause>, Stop> {
        let name = &self.program.functions[callee].name;
        let Some(model) = self.code.functions[callee].library else {
            return give_up(format!("the function {name}"));
        };
        if let Some(pause) = self.before_library()? {
            return Ok(Some(pause));
        }
        if self.is_cancelled_in(name) {
            return self.cancel();
        }
        // The models of the library read and write memory itself.
        self.drain_buffer(self.state.current)?;
        let arguments = site
            .arguments
            .iter()
            .map(|&register| self.get(register))
            .collect();
        let expressions: Vec<_> = match self.symbolic {
            Some(_) => { site.arguments.iter() }
                .flat_map(|&register| self.expressions_of(register..register + 1))
                .collect(),
            None => Vec::new(),
        };
        let mut call = Call {
            machine: self,
            arguments,
            shapes: &site.shapes,
            name,
        };
        let before = Before::of(&call, &expressions);
        let flow = model(&mut call)?;
        let expression = match before {
            Some(before) => before.follow(&mut call, &flow),
            None => None,
        };
        match flow {
            Flow::Return(value) => {
                self.finish_call(site, &[value]);
                self.put_result(site, expression);
                Ok(None)
            }
            Flow::Two(first, second) => {
                self.finish_call(site, &[first, second]);
                Ok(None)
            }
            Flow::Yield(value) => {
                self.finish_call(site, &[value]);
                self.put_result(site, expression);
                if let Some(text) = self.broken_invariant(false) {
                    return Err(Box::new(End::AssertFailed { text }));
                }
                Ok(Some(Pause::Yield))
            }
            Flow::Wait(wait, deadline) => {
                let deadline = deadline.map(|deadline| self.deadline(deadline));
                self.thread().status = Status::Waiting { wait, deadline };
                Ok(Some(Pause::Blocked))
            }
            // A frame was pushed or removed.
            Flow::Elsewhere => Ok(None),
            Flow::Ended => Ok(Some(Pause::Blocked)),
        }
    }

    pub(super) fn finish_call(&mut self, site: &CallSite, results: &[u64]) {
        let thread = self.thread();
        thread.resume = Resume::None;
        thread.until = None;
        for (at, &value) in (0..site.results).zip(results) {
            self.set(site.d + at, value);
        }
        self.advance_pc();
    }

    /// Enters a function in a thread.
    pub(crate) fn push_frame(
        &mut self,
        thread: usize,
        function: usize,
        arguments: &[u64],
        after: After,
    ) -> Result<(), Stop> {
        let code = &self.code.functions[function];
        if code.ops.is_empty() {
            let name = &self.program.functions[function].name;
            return give_up(format!("a call back to the function {name}"));
        }
        let thread = &mut self.state.threads[thread];
        let base = thread.registers.len();
        thread.registers.extend_from_slice(&code.template);
        for (at, &argument) in arguments.iter().enumerate().take(code.parameters as usize) {
            thread.registers[base + at] = argument;
        }
        thread.frames.push(Frame {
            function: function as u32,
            pc: 0,
            base: base as u32,
            stack: thread.stack.len() as u32,
            after,
            saved: std::mem::replace(&mut thread.resume, Resume::None),
            variadic: code.is_variadic.then(|| Rc::from([])),
        });
        Ok(())
    }

    /// Calls a function of the program for the library, which is then asked again.
    pub(crate) fn call_back(
        &mut self,
        address: u64,
        arguments: &[u64],
        after: After,
    ) -> Result<(), Stop> {
        match function_at(address) {
            Some(function) if function < self.code.functions.len() => {
                self.push_frame(self.state.current, function, arguments, after)
            }
            _ => Err(self.bad_call(address)),
        }
    }

    /// Ends the innermost function of the running thread.
    pub(super) fn leave_frame(&mut self) -> Option<Frame> {
        let thread = &mut self.state.threads[self.state.current];
        let frame = thread.frames.pop()?;
        while thread.stack.len() > frame.stack as usize {
            let object = thread.stack.pop().expect("the stack is longer");
            self.state.memory.release(object);
        }
        thread.registers.truncate(frame.base as usize);
        thread.shadow.truncate(frame.base as usize);
        Some(frame)
    }

    pub(super) fn return_from(&mut self, first: u32, count: u32) -> Result<Option<Pause>, Stop> {
        let mut results = [0; 4];
        let wide: Vec<u64>;
        let results: &[u64] = if count <= 4 {
            for at in 0..count {
                results[at as usize] = self.get(first + at);
            }
            &results[..count as usize]
        } else {
            wide = (0..count).map(|at| self.get(first + at)).collect();
            &wide
        };
        let result = results.first().copied().unwrap_or_default();
        let expressions = self.expressions_of(first..first + count);
        let Some(frame) = self.leave_frame() else {
            return Ok(Some(Pause::Blocked));
        };
        match frame.after {
            After::Caller => {
                if let Some(site) = self.call_site() {
                    for (at, &value) in (0..site.results).zip(results) {
                        self.set(site.d + at, value);
                    }
                    self.put_expressions(site.d, &expressions);
                }
                self.advance_pc();
                Ok(None)
            }
            After::Again => {
                self.thread().returned = result;
                self.follow_sign(&expressions);
                self.thread().resume = frame.saved;
                Ok(None)
            }
            After::Discard => Ok(None),
            After::Main => {
                self.follow_status(expressions.first().copied().flatten());
                self.exit(result as i32)
            }
            After::ExitHandler(status) => self.exit(status),
            After::ThreadStart => {
                self.thread().result = result;
                self.end_thread()
            }
            After::ThreadHandler => self.end_thread(),
            After::Handler => self.leave_handler(frame.saved),
        }
    }

    /// Runs the next exit handler, or ends the process.
    pub(crate) fn exit(&mut self, status: i32) -> Result<Option<Pause>, Stop> {
        self.drain_buffer(self.state.current)?;
        // The handlers of the thread itself come first.
        let handler = match self.thread().at_end.pop() {
            Some(handler) => Some(handler),
            None => self.state.exit_handlers.pop(),
        };
        match handler {
            // A destructor of the standard library that has nothing to do.
            Some(Handler { function, .. })
                if self.is_named(function, "_ZNSt18condition_variableD1Ev") =>
            {
                self.exit(status)
            }
            Some(Handler { function, argument }) => {
                self.call_back(function, &[argument], After::ExitHandler(status))?;
                Ok(None)
            }
            None => {
                self.flush_all_streams();
                Err(Box::new(End::Exited(status & 0xff)))
            }
        }
    }

    /// Runs the next destructor of the running thread, or ends it. Its frames are gone.
    pub(crate) fn end_thread(&mut self) -> Result<Option<Pause>, Stop> {
        let current = self.state.current;
        if let Some(Handler { function, argument }) = self.thread().at_end.pop() {
            self.call_back(function, &[argument], After::ThreadHandler)?;
            return Ok(None);
        }
        let keys = &self.state.keys;
        let thread = &mut self.state.threads[current];
        let mut due = None;
        for (&key, value) in &mut thread.specific {
            let destructor = keys
                .get(key as usize)
                .copied()
                .flatten()
                .unwrap_or_default();
            if *value != 0 && destructor != 0 {
                due = Some((destructor, std::mem::take(value)));
                break;
            }
        }
        if let Some((destructor, value)) = due {
            self.call_back(destructor, &[value], After::ThreadHandler)?;
            return Ok(None);
        }
        self.drain_buffer(current)?;
        self.leave_robust_mutexes(current);
        for object in std::mem::take(&mut self.thread().stack) {
            self.state.memory.release(object);
        }
        self.thread().status = Status::Ended;
        self.thread().registers = Vec::new();
        self.thread().locals.clear();
        self.state.effects += 1;
        Ok(Some(Pause::Blocked))
    }

    /// Whether a landing pad stands between the running function and the start of the thread.
    pub(crate) fn has_cleanups(&self) -> bool {
        let depth = self.state.threads[self.state.current].frames.len();
        (0..depth).any(|at| self.pad_at(at).is_some())
    }

    /// Whether an address is a function without code of its own.
    pub(crate) fn is_library(&self, address: u64) -> bool {
        function_at(address).is_some_and(|function| {
            self.code
                .functions
                .get(function)
                .is_none_or(|function| function.ops.is_empty())
        })
    }

    /// Whether an address is the function with this name.
    pub(crate) fn is_named(&self, address: u64, name: &str) -> bool {
        let function = function_at(address).and_then(|at| self.program.functions.get(at));
        function.is_some_and(|function| function.name == name)
    }

    /// What an ended thread did happens before what its joiner does now.
    pub(crate) fn join_clock(&mut self, ended: usize) {
        let clock = self.state.threads[ended].clock.clone();
        self.thread().clock.join(&clock);
    }

    /// Robust mutexes that a thread held when it ended are for the next one that wants them.
    fn leave_robust_mutexes(&mut self, thread: usize) {
        let is_left = |mutex: &Mutex| mutex.is_robust && mutex.owner == Some(thread);
        let mutexes = &self.state.synchronisation.mutexes;
        if !mutexes.values().any(is_left) {
            return;
        }
        let left: Vec<u64> = { mutexes.iter() }
            .filter(|(_, mutex)| is_left(mutex))
            .map(|(&address, _)| address)
            .collect();
        for address in left {
            self.release(address);
            let mutexes = &mut self.state.synchronisation_mut().mutexes;
            if let Some(mutex) = mutexes.get_mut(&address) {
                mutex.owner = None;
                mutex.remains = Remains::OfDead;
            }
        }
    }

    /// Starts a thread; its number.
    pub(crate) fn start_thread(&mut self, function: u64, argument: u64) -> Result<usize, Stop> {
        let Some(function) = function_at(function) else {
            return give_up("a thread that starts at what is no function");
        };
        self.let_escape(argument);
        let current = self.state.current;
        self.drain_buffer(current)?;
        let number = self.state.threads.len();
        if number >= 4096 {
            return give_up("more than 4,096 threads");
        }
        let mut clock = self.thread().clock.clone();
        clock.advance(number);
        self.thread().clock.advance(current);
        let mask = self.thread().mask;
        let mut thread = Thread::new(clock);
        thread.mask = mask;
        self.state.threads.push(thread);
        self.state.effects += 1;
        self.push_frame(number, function, &[argument], After::ThreadStart)?;
        Ok(number)
    }
}
