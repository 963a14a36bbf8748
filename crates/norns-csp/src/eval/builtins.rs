//! The built-in values and functions.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::machine::{CallKey, Evaluator, Result};
use super::set::Set;
use super::value::{Code, Function, Seq, Value};
use crate::builtin::Builtin;
use crate::event::EventSet;
use crate::event::{EventId, Priority};
use crate::process::{Compression, ProcId, Resolution, Watchdog};
use crate::syntax::source::Span;

fn as_set(value: &Value) -> &Arc<Set> {
    match value {
        Value::Set(set) => set,
        _ => unreachable!("the type checker allows only sets here"),
    }
}

fn as_seq(value: &Value) -> &Seq {
    match value {
        Value::Seq(seq) => seq,
        _ => unreachable!("the type checker allows only sequences here"),
    }
}

fn as_map(value: &Value) -> &Arc<BTreeMap<Value, Value>> {
    match value {
        Value::Map(map) => map,
        _ => unreachable!("the type checker allows only maps here"),
    }
}

fn as_process(value: &Value) -> ProcId {
    match value {
        Value::Process(process) => *process,
        _ => unreachable!("the type checker allows only processes here"),
    }
}

fn as_pair(value: &Value) -> (&Value, &Value) {
    match value {
        Value::Tuple(items) => (&items[0], &items[1]),
        _ => unreachable!("the type checker allows only pairs here"),
    }
}

impl Evaluator {
    pub(super) fn builtin_value(&mut self, builtin: Builtin) -> Value {
        use Builtin::*;
        let constant = |value: super::set::Set| Value::Set(Arc::new(value));
        match builtin {
            STOP => Value::Process(self.processes.stop()),
            SKIP => Value::Process(self.processes.skip()),
            DIV => Value::Process(self.processes.div()),
            Int => constant(super::set::Set::Ints),
            Bool => constant(super::set::Set::Explicit(vec![
                Value::Bool(false),
                Value::Bool(true),
            ])),
            Char => constant(super::set::Set::Chars),
            Proc => constant(super::set::Set::Processes),
            Events => constant(super::set::Set::Events(EventSet::all())),
            True => Value::Bool(true),
            False => Value::Bool(false),
            emptyMap => Value::Map(Arc::default()),
            _ => self.builtin_function(builtin),
        }
    }

    pub(super) fn apply_builtin(
        &mut self,
        builtin: Builtin,
        function: &Function,
        arguments: Vec<Value>,
        span: Span,
    ) -> Result<Value> {
        use Builtin::*;
        let a = &arguments;
        Ok(match builtin {
            union => Value::Set(self.union(as_set(&a[0]), as_set(&a[1]), span)?),
            inter => Value::Set(self.intersection(as_set(&a[0]), as_set(&a[1]), span)?),
            diff => Value::Set(self.difference(as_set(&a[0]), as_set(&a[1]), span)?),
            Union => {
                let mut all = Arc::new(super::set::Set::none());
                for element in self.elements(as_set(&a[0]), span)? {
                    all = self.union(&all, as_set(&element), span)?;
                }
                Value::Set(all)
            }
            Inter => {
                let mut elements = self.elements(as_set(&a[0]), span)?.into_iter();
                let Some(first) = elements.next() else {
                    return self.error_help(
                        span,
                        "the intersection of no sets",
                        "Inter needs a set with at least one set in it",
                    );
                };
                let mut all = as_set(&first).clone();
                for element in elements {
                    all = self.intersection(&all, as_set(&element), span)?;
                }
                Value::Set(all)
            }
            member => {
                let value = self.canonical(a[0].clone(), span)?;
                Value::Bool(self.contains(as_set(&a[1]), &value, span)?)
            }
            card => Value::Int(self.elements(as_set(&a[0]), span)?.len() as i64),
            empty => Value::Bool(self.is_empty(as_set(&a[0]), span)?),
            set => {
                let items = self.seq_full(as_seq(&a[0]).clone(), span)?;
                self.make_set(items.items().to_vec(), span)?
            }
            Set => {
                let of = self.canonical_set(as_set(&a[0]), span)?;
                Value::Set(Arc::new(super::set::Set::Subsets(of)))
            }
            Seq => {
                let of = self.canonical_set(as_set(&a[0]), span)?;
                Value::Set(Arc::new(super::set::Set::Seqs(of)))
            }
            seq => {
                let elements = self.elements(as_set(&a[0]), span)?;
                Value::Seq(super::value::Seq::new(elements))
            }
            length => {
                let items = self.seq_full(as_seq(&a[0]).clone(), span)?;
                Value::Int(items.items().len() as i64)
            }
            null => {
                let items = self.seq_prefix(as_seq(&a[0]).clone(), 1)?;
                Value::Bool(items.items().is_empty())
            }
            head => {
                let items = self.seq_prefix(as_seq(&a[0]).clone(), 1)?;
                match items.items().first() {
                    Some(first) => first.clone(),
                    None => return self.error(span, "`head` of an empty sequence"),
                }
            }
            tail => {
                let items = self.seq_prefix(as_seq(&a[0]).clone(), 1)?;
                if items.items().is_empty() {
                    return self.error(span, "`tail` of an empty sequence");
                }
                Value::Seq(items.slice(1, 0))
            }
            concat => {
                let outer = self.seq_full(as_seq(&a[0]).clone(), span)?;
                let mut items = Vec::new();
                for inner in outer.items() {
                    let inner = self.seq_full(as_seq(inner).clone(), span)?;
                    self.room_for(items.len() + inner.items().len(), span)?;
                    items.extend(inner.items().iter().cloned());
                }
                Value::Seq(super::value::Seq::new(items))
            }
            elem => {
                let items = self.seq_full(as_seq(&a[1]).clone(), span)?;
                let value = self.canonical(a[0].clone(), span)?;
                let mut found = false;
                for item in items.items() {
                    if self.canonical(item.clone(), span)? == value {
                        found = true;
                        break;
                    }
                }
                Value::Bool(found)
            }
            mapFromList | mapUpdateMultiple => {
                let (start, pairs) = match builtin {
                    mapFromList => (BTreeMap::new(), as_seq(&a[0])),
                    _ => ((**as_map(&a[0])).clone(), as_seq(&a[1])),
                };
                let pairs = self.seq_full(pairs.clone(), span)?;
                let mut result = start;
                for item in pairs.items() {
                    let (key, value) = as_pair(item);
                    let key = self.canonical(key.clone(), span)?;
                    result.insert(key, value.clone());
                }
                Value::Map(Arc::new(result))
            }
            mapLookup => {
                let key = self.canonical(a[1].clone(), span)?;
                match as_map(&a[0]).get(&key) {
                    Some(value) => value.clone(),
                    None => {
                        let shown = self.show(&key);
                        return self.error_help(
                            span,
                            format!("the map has no key {shown}"),
                            "ask `mapMember` first",
                        );
                    }
                }
            }
            mapMember => {
                let key = self.canonical(a[1].clone(), span)?;
                Value::Bool(as_map(&a[0]).contains_key(&key))
            }
            mapToList => {
                let pairs = as_map(&a[0])
                    .iter()
                    .map(|(key, value)| Value::Tuple([key.clone(), value.clone()].into()));
                Value::Seq(super::value::Seq::new(pairs.collect()))
            }
            mapUpdate => {
                let key = self.canonical(a[1].clone(), span)?;
                let mut result = (**as_map(&a[0])).clone();
                result.insert(key, a[2].clone());
                Value::Map(Arc::new(result))
            }
            mapDelete => {
                let key = self.canonical(a[1].clone(), span)?;
                let mut result = (**as_map(&a[0])).clone();
                result.remove(&key);
                Value::Map(Arc::new(result))
            }
            Map => Value::Set(Arc::new(super::set::Set::Maps(
                as_set(&a[0]).clone(),
                as_set(&a[1]).clone(),
            ))),
            extensions => {
                let values = self.extensions(&a[0], span)?;
                self.make_set(values, span)?
            }
            productions => Value::Set(self.productions(&a[0], span)?),
            error => {
                let text = self.seq_full(as_seq(&a[0]).clone(), span)?;
                let text: String = text
                    .items()
                    .iter()
                    .filter_map(|item| match item {
                        Value::Char(character) => Some(*character),
                        _ => None,
                    })
                    .collect();
                return self.error(span, format!("the script says: {text}"));
            }
            show => {
                let value = self.canonical(a[0].clone(), span)?;
                let text = self.show(&value);
                let items = text.chars().map(Value::Char).collect();
                Value::Seq(super::value::Seq::new(items))
            }
            CHAOS => {
                let events = self.listed_events(as_set(&a[0]), span)?;
                Value::Process(self.processes.chaos(events))
            }
            RUN => {
                let events = self.listed_events(as_set(&a[0]), span)?;
                Value::Process(self.processes.run(events))
            }
            BUFFER => return self.buffer(&a[0], as_set(&a[1]), span),
            WEAK_BUFFER | SIGNAL_BUFFER => {
                let name = builtin.name();
                let message =
                    format!("`{name}` is not supported: no document says what follows its signals");
                return self.unsupported(span, message);
            }
            explicate | lazyenumerate => self.compressed(Compression::Explicate, &a[0]),
            diamond => self.compressed(Compression::Diamond, &a[0]),
            normal | normalise | lazynorm => self.compressed(Compression::Normal, &a[0]),
            // Any compression that keeps all models will do.
            sbisim | model_compress => self.compressed(Compression::Sbisim, &a[0]),
            tau_loop_factor => self.compressed(Compression::TauLoopFactor, &a[0]),
            wbisim => self.compressed(Compression::Wbisim, &a[0]),
            dbisim => self.compressed(Compression::Dbisim, &a[0]),
            chase | chase_nocache | deter => {
                let how = match builtin {
                    deter => Resolution::Deter,
                    _ => Resolution::Chase,
                };
                Value::Process(self.processes.resolve(how, as_process(&a[0])))
            }
            prioritise | prioritise_nocache => self.prioritised(&a[0], as_seq(&a[1]), span)?,
            prioritisepo => self.prioritised_by_order(a, span)?,
            trace_watchdog | failure_watchdog => {
                let what = match builtin {
                    trace_watchdog => Watchdog::Traces,
                    _ => Watchdog::Failures,
                };
                let events = self.listed_events(as_set(&a[1]), span)?;
                let bark = self.event(&a[2], span)?;
                let spec = as_process(&a[0]);
                Value::Process(self.processes.watchdog(what, spec, events, bark))
            }
            WAIT => self.wait(function, &a[0], span)?,
            timed_priority => self.timed_priority(function, as_process(&a[0]), span)?,
            mtransclose => self.representatives(as_set(&a[0]), as_set(&a[1]), span)?,
            r#loop => return self.call(CallKey::Loop(as_process(&a[0])), &None),
            transpose => {
                let mut turned = Vec::new();
                for element in self.elements(as_set(&a[0]), span)? {
                    let (x, y) = as_pair(&element);
                    turned.push(Value::Tuple([y.clone(), x.clone()].into()));
                }
                self.make_set(turned, span)?
            }
            relational_image | relational_inverse_image => {
                if function.key.is_empty() {
                    let relation = self.canonical(a[0].clone(), span)?;
                    return Ok(Value::Function(Arc::new(Function {
                        code: Code::Builtin(builtin),
                        arguments: Vec::new(),
                        env: None,
                        instance: 0,
                        key: vec![relation],
                    })));
                }
                let wanted = self.canonical(a[0].clone(), span)?;
                let mut image = Vec::new();
                for element in self.elements(as_set(&function.key[0]), span)? {
                    let (x, y) = as_pair(&element);
                    let (from, to) = match builtin {
                        relational_image => (x, y),
                        _ => (y, x),
                    };
                    if *from == wanted {
                        image.push(to.clone());
                    }
                }
                self.make_set(image, span)?
            }
            STOP | SKIP | DIV | Int | Bool | Char | Proc | Events | True | False | emptyMap => {
                unreachable!("not functions")
            }
        })
    }

    fn compressed(&mut self, compression: Compression, value: &Value) -> Value {
        Value::Process(self.processes.compress(compression, as_process(value)))
    }

    /// `prioritise(P, <A0, A1, …>)`.
    fn prioritised(&mut self, process: &Value, levels: &Seq, span: Span) -> Result<Value> {
        let levels = self.seq_full(levels.clone(), span)?;
        if levels.items().is_empty() {
            return self.error_help(
                span,
                "`prioritise` needs at least one set of events",
                "the first set ranks with tau and tick; `<{}, A>` puts A below them",
            );
        }
        let mut sets = Vec::with_capacity(levels.items().len());
        for level in levels.items() {
            sets.push(self.events_in(as_set(level), span)?);
        }
        let priority = Priority::Classes(sets.into());
        Ok(Value::Process(
            self.processes.prioritise(as_process(process), priority),
        ))
    }

    /// `prioritisepo(P, prioritised, order, maximal)`, the order as pairs (higher, lower).
    fn prioritised_by_order(&mut self, a: &[Value], span: Span) -> Result<Value> {
        let prioritised = self.events_in(as_set(&a[1]), span)?;
        let maximal = self.events_in(as_set(&a[3]), span)?;
        let mut order = Vec::new();
        for pair in self.elements(as_set(&a[2]), span)? {
            let (higher, lower) = as_pair(&pair);
            order.push((self.event(higher, span)?, self.event(lower, span)?));
        }
        let priority = Priority::order(&prioritised, order.iter().copied(), &maximal);
        let Priority::Order { pairs, .. } = &priority else {
            unreachable!("an order was built");
        };
        let above_itself = |event: EventId| {
            order.contains(&(event, event))
                || pairs.iter().any(|&(lower, higher)| {
                    lower == event && pairs.binary_search(&(higher, event)).is_ok()
                })
        };
        let mentioned = order.iter().flat_map(|&(higher, lower)| [higher, lower]);
        let maximal_members = maximal.members().into_iter().flat_map(|runs| runs.iter());
        let mut problem = None;
        for event in mentioned.chain(maximal_members) {
            problem = problem.or(match event {
                _ if !prioritised.contains(event) => {
                    Some((event, "is not among the prioritised events"))
                }
                _ if above_itself(event) => Some((event, "is above itself in the order")),
                _ if maximal.contains(event) && pairs.iter().any(|pair| pair.0 == event) => {
                    Some((event, "is declared maximal, but another event is above it"))
                }
                _ => None,
            });
        }
        if let Some((event, what)) = problem {
            let name = self.processes.events.name(event).into_owned();
            return self.error_help(
                span,
                format!("the event {name} {what}"),
                "prioritisepo(P, prioritised events, {(higher, lower), …}, maximal events)",
            );
        }
        Ok(Value::Process(
            self.processes.prioritise(as_process(&a[0]), priority),
        ))
    }

    /// `mtransclose(R, S)`: each element of S that the symmetric and transitive closure of R
    /// relates to a smaller element of S, as a pair of the smallest one and itself.
    fn representatives(&mut self, relation: &Set, of: &Arc<Set>, span: Span) -> Result<Value> {
        let mut numbers: FxHashMap<Value, usize> = FxHashMap::default();
        let mut parents: Vec<usize> = Vec::new();
        fn root(parents: &mut [usize], mut node: usize) -> usize {
            while parents[node] != node {
                parents[node] = parents[parents[node]];
                node = parents[node];
            }
            node
        }
        for pair in self.elements(relation, span)? {
            let (a, b) = as_pair(&pair);
            let mut roots = [0; 2];
            for (slot, value) in roots.iter_mut().zip([a, b]) {
                let next = parents.len();
                let number = *numbers.entry(value.clone()).or_insert(next);
                if number == next {
                    parents.push(next);
                }
                *slot = root(&mut parents, number);
            }
            parents[roots[1]] = roots[0];
        }
        let mut smallest: FxHashMap<usize, Value> = FxHashMap::default();
        let mut pairs = Vec::new();
        // In ascending order, so the first element of each class represents it.
        for element in self.elements(of, span)? {
            let Some(&number) = numbers.get(&element) else {
                continue;
            };
            match smallest.entry(root(&mut parents, number)) {
                Entry::Vacant(entry) => {
                    entry.insert(element);
                }
                Entry::Occupied(entry) => {
                    pairs.push(Value::Tuple([entry.get().clone(), element].into()));
                }
            }
        }
        self.make_set(pairs, span)
    }

    fn buffer(&mut self, bound: &Value, pairs: &Arc<Set>, span: Span) -> Result<Value> {
        let Value::Int(bound) = *bound else {
            unreachable!("the type checker allows only integers here");
        };
        if bound <= 0 {
            return self.error(span, format!("a buffer cannot have the capacity {bound}"));
        }
        let pairs = self.canonical_set(pairs, span)?;
        let mut seen = Vec::new();
        for element in self.elements(&pairs, span)? {
            let (input, output) = as_pair(&element);
            seen.push(self.event(input, span)?);
            seen.push(self.event(output, span)?);
        }
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|two| two[0] == two[1]) {
            let name = self.processes.events.name(twice[0]).into_owned();
            return self.error(span, format!("the event {name} is twice in the buffer"));
        }
        self.call(CallKey::Buffer(bound, pairs, Vec::new()), &None)
    }
}
