//! Exceptions of C++: from a throw to the landing pad that handles it or cleans up.

use super::{Machine, Stop, give_up};
use crate::memory::{Region, object_of};
use crate::op::{Op, Pad};
use crate::outcome::{Channel, End};
use crate::state::{After, Resume};

/// How many bases of a class are followed.
const MAX_BASES: usize = 32;

impl Machine<'_> {
    /// Goes to the landing pad for an exception that leaves what the innermost frame called.
    pub(crate) fn unwind(&mut self, exception: u64) -> Result<(), Stop> {
        if !self.is_caught(exception)? {
            return self.terminate();
        }
        loop {
            let Some(target) = self.pad_of_call() else {
                if self.state.threads[self.state.current].frames.is_empty() {
                    return self.terminate();
                }
                self.leave_called()?;
                continue;
            };
            let Some((selector, _)) = self.selector(target.1, exception)? else {
                self.leave_called()?;
                continue;
            };
            self.thread().thrown = (exception, selector);
            let frame = self
                .thread()
                .frames
                .last_mut()
                .expect("the frame has the call");
            frame.pc = target.0;
            return Ok(());
        }
    }

    /// Leaves a frame by an exception. What called it may have to be undone.
    fn leave_called(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.leave_frame() else {
            return Ok(());
        };
        match (frame.after, frame.saved) {
            (After::Again, Resume::Called(once)) => {
                // `pthread_once` runs its function again after an exception.
                let onces = &mut self.state.synchronisation_mut().onces;
                match onces.remove(&once) {
                    Some(_) => Ok(()),
                    None => give_up("an exception out of a destructor"),
                }
            }
            (After::Again, _) => give_up("an exception through a function of the library"),
            _ => Ok(()),
        }
    }

    /// The landing pad of the call that the innermost frame stands on.
    fn pad_of_call(&self) -> Option<(u32, usize)> {
        let depth = self.state.threads[self.state.current]
            .frames
            .len()
            .checked_sub(1)?;
        self.pad_at(depth).map(|target| (target, depth))
    }

    pub(super) fn pad_at(&self, depth: usize) -> Option<u32> {
        let frame = &self.state.threads[self.state.current].frames[depth];
        let function = &self.code.functions[frame.function as usize];
        match function.ops.get(frame.pc as usize)? {
            Op::Call { call } => function.calls[*call as usize].unwind,
            _ => None,
        }
    }

    fn pad(&self, depth: usize) -> Option<&Pad> {
        let frame = &self.state.threads[self.state.current].frames[depth];
        let function = &self.code.functions[frame.function as usize];
        let mut at = self.pad_at(depth)?;
        // Phis of the pad's block stand before it.
        loop {
            match function.ops.get(at as usize)? {
                Op::LandingPad { .. } => return function.pads.get(&at),
                Op::Jump(target) => at = *target,
                _ => at += 1,
            }
        }
    }

    /// The selector for a frame's pad and whether it is a handler; `None` if the frame is passed over.
    fn selector(&self, depth: usize, exception: u64) -> Result<Option<(u64, bool)>, Stop> {
        let Some(pad) = self.pad(depth) else {
            return Ok(None);
        };
        if pad.has_filter {
            return give_up("a landing pad with a filter");
        }
        let thrown = self
            .state
            .exceptions
            .get(&exception)
            .map_or(0, |exception| exception.r#type);
        for &wanted in &pad.catches {
            if wanted == 0 || self.is_of_type(thrown, wanted)? {
                return Ok(Some((type_selector(wanted), true)));
            }
        }
        Ok(pad.is_cleanup.then_some((0, false)))
    }

    fn is_caught(&self, exception: u64) -> Result<bool, Stop> {
        for depth in (0..self.state.threads[self.state.current].frames.len()).rev() {
            if let Some((_, true)) = self.selector(depth, exception)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a type is another one or derives from it, by single inheritance.
    fn is_of_type(&self, thrown: u64, wanted: u64) -> Result<bool, Stop> {
        let mut current = thrown;
        for _ in 0..MAX_BASES {
            if current == wanted {
                return Ok(true);
            }
            let Some(name) = self.type_name(current) else {
                return Ok(false);
            };
            if let Some(is_base) = known_base(&name, &self.type_name(wanted).unwrap_or_default()) {
                return Ok(is_base);
            }
            let Ok(table) = self.state.memory.load(current, 8) else {
                return give_up(format!("the type {name}"));
            };
            let table = self.type_name(table).unwrap_or_default();
            if table.contains("__si_class_type_info") {
                current = self.state.memory.load(current + 16, 8)?;
            } else if table.contains("__vmi_class_type_info") {
                return give_up("an exception of a type with several bases");
            } else {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The linker's name of the global that an address is in.
    fn type_name(&self, address: u64) -> Option<String> {
        let object = object_of(address);
        match self.state.memory.object(object)?.region {
            Region::Global(number) | Region::Constant(number) | Region::Unknown(number) => {
                Some(self.program.globals[number as usize].name.clone())
            }
            Region::ThreadLocal
            | Region::Heap
            | Region::Mapped
            | Region::Stack(_)
            | Region::Library
            | Region::Foreign => None,
        }
    }

    pub(crate) fn terminate(&mut self) -> Result<(), Stop> {
        let place = self.place_id();
        self.note_write(Channel::Error, b"terminate called\n", place);
        Err(Box::new(End::Signal(6)))
    }
}

/// The number that a landing pad compares with `llvm.eh.typeid.for`.
pub(crate) fn type_selector(address: u64) -> u64 {
    match address {
        0 => u64::from(u32::MAX),
        _ => u64::from(object_of(address).0),
    }
}

/// Whether a class of the standard library derives from another one; `None` if it is not of the library.
fn known_base(thrown: &str, wanted: &str) -> Option<bool> {
    const BASES: &[(&str, &[&str])] = &[
        ("_ZTISt13runtime_error", &["_ZTISt9exception"]),
        ("_ZTISt11logic_error", &["_ZTISt9exception"]),
        (
            "_ZTISt12out_of_range",
            &["_ZTISt11logic_error", "_ZTISt9exception"],
        ),
        (
            "_ZTISt12length_error",
            &["_ZTISt11logic_error", "_ZTISt9exception"],
        ),
        (
            "_ZTISt16invalid_argument",
            &["_ZTISt11logic_error", "_ZTISt9exception"],
        ),
        (
            "_ZTISt12system_error",
            &["_ZTISt13runtime_error", "_ZTISt9exception"],
        ),
        (
            "_ZTISt12future_error",
            &["_ZTISt11logic_error", "_ZTISt9exception"],
        ),
        ("_ZTISt9bad_alloc", &["_ZTISt9exception"]),
        ("_ZTISt9exception", &[]),
    ];
    let (_, bases) = BASES.iter().find(|(name, _)| *name == thrown)?;
    Some(thrown == wanted || bases.contains(&wanted))
}
