//! Sets of values, as symbolic as they can stay.
//!
//! Sets of events are kept by the numbers of the events (`channels`); products, unions and the
//! infinite sets are kept as such. A set that must be compared or be an element gets its canonical
//! form first (`Evaluator::canonical`): `Explicit` for a finite set, but `Events` for a large set of
//! events and for one that is given by what it lacks.

use std::sync::Arc;

use super::machine::{Error, Evaluator};
use super::value::Value;
use crate::diagnostic::{Diagnostic, Stage};
use crate::event::EventSet;
use crate::resolve::{DefId, DefKind};
use crate::syntax::source::Span;

/// Sets of more events than this are kept by the numbers of their events.
pub(super) const MAX_LISTED_EVENTS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Set {
    /// Sorted, no two alike.
    Explicit(Vec<Value>),
    Ints,
    IntsFrom(i64),
    Chars,
    Processes,
    /// All values of a datatype.
    Datatype(DefId),
    /// Events by their numbers.
    Events(EventSet),
    /// Dots with one part from each set.
    Dots(Vec<Arc<Set>>),
    Tuples(Vec<Arc<Set>>),
    /// The sets may overlap.
    Union(Vec<Arc<Set>>),
    Subsets(Arc<Set>),
    Seqs(Arc<Set>),
    Maps(Arc<Set>, Arc<Set>),
}

impl Set {
    pub fn explicit(mut elements: Vec<Value>) -> Set {
        if !elements.is_sorted_by(|a, b| a < b) {
            elements.sort();
            elements.dedup();
        }
        Set::Explicit(elements)
    }

    pub fn one(value: Value) -> Set {
        Set::Explicit(vec![value])
    }

    pub fn none() -> Set {
        Set::Explicit(Vec::new())
    }
}

/// How many combinations there are, if their number is one.
fn product(sizes: impl Iterator<Item = usize>) -> Option<usize> {
    sizes
        .into_iter()
        .try_fold(1usize, |all, size| all.checked_mul(size))
}

/// All ways to take one element of each list, the last varying fastest.
fn combinations(lists: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let mut all: Vec<Vec<Value>> = vec![Vec::new()];
    for list in lists {
        let mut longer = Vec::with_capacity(all.len() * list.len());
        for start in &all {
            for value in list {
                let mut next = start.clone();
                next.push(value.clone());
                longer.push(next);
            }
        }
        all = longer;
    }
    all
}

impl Evaluator {
    fn set_error(&self, span: Span, message: &str) -> Error {
        Box::new(Diagnostic::new(Stage::Evaluation, span, message))
    }

    pub(super) fn too_large(&self, span: Span) -> Error {
        let message = format!("this set has more than {} elements", self.limits.elements);
        self.spent(
            span,
            message,
            "a larger memory budget allows larger sets (--memory)",
        )
    }

    /// The budget ended while a value was computed.
    pub(super) fn spent(&self, span: Span, message: impl Into<String>, help: &str) -> Error {
        Box::new(Diagnostic::new(Stage::Budget, span, message).help(help))
    }

    /// The elements in order; an error for an infinite set.
    pub(super) fn elements(&mut self, set: &Set, span: Span) -> Result<Vec<Value>, Error> {
        match set {
            Set::Explicit(elements) => Ok(elements.clone()),
            Set::Ints | Set::IntsFrom(_) => Err(Box::new(
                Diagnostic::new(
                    Stage::Evaluation,
                    span,
                    "the infinite set of integers cannot be enumerated",
                )
                .help("give a finite range such as {0..3}"),
            )),
            Set::Chars => Ok((0u8..128).map(|c| Value::Char(c as char)).collect()),
            Set::Datatype(def) => {
                if !self.is_finite(set) {
                    let name = self.resolved.name(*def).to_owned();
                    return Err(Box::new(
                        Diagnostic::new(
                            Stage::Evaluation,
                            span,
                            format!("the infinite datatype `{name}` cannot be enumerated"),
                        )
                        .help("it is recursive, or a field of it is infinite"),
                    ));
                }
                let mut all = Vec::new();
                for constructor in self.constructors(*def) {
                    let head = Value::Dot([Value::Head(constructor)].into());
                    let part = self.productions_shallow(&head, span)?;
                    all.extend(self.elements(&part, span)?);
                }
                all.sort();
                Ok(all)
            }
            Set::Processes => {
                Err(self.set_error(span, "the set of all processes cannot be enumerated"))
            }
            Set::Seqs(_) => Err(Box::new(
                Diagnostic::new(
                    Stage::Evaluation,
                    span,
                    "the infinite set of all sequences cannot be enumerated",
                )
                .help("Seq(S) has sequences of any length; take a finite set of sequences"),
            )),
            Set::Events(events) => self.values_of(events, span),
            Set::Dots(parts) => {
                let lists = self.all_elements(parts, span)?;
                let mut all = Vec::new();
                for combination in combinations(&lists) {
                    self.work(1, span)?;
                    let mut flat = Vec::new();
                    for value in combination {
                        match value {
                            // Parts without a head dissolve.
                            Value::Dot(inner) if !matches!(inner[0], Value::Head(_)) => {
                                flat.extend(inner.iter().cloned());
                            }
                            other => flat.push(other),
                        }
                    }
                    all.push(Value::Dot(flat.into()));
                }
                all.sort();
                all.dedup();
                Ok(all)
            }
            Set::Tuples(parts) => {
                let lists = self.all_elements(parts, span)?;
                Ok(combinations(&lists)
                    .into_iter()
                    .map(|items| Value::Tuple(items.into()))
                    .collect())
            }
            Set::Union(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(self.elements(part, span)?);
                }
                all.sort();
                all.dedup();
                Ok(all)
            }
            Set::Subsets(of) => {
                let elements = self.elements(of, span)?;
                if elements.len() >= 60 || 1 << elements.len() > self.limits.elements {
                    return Err(self.too_large(span));
                }
                // Half of the elements each, on average, and a set to hold them.
                let size = (elements.len() / 2 + 3) << elements.len();
                self.room_for(size, span)?;
                let mut all = Vec::with_capacity(1 << elements.len());
                for mask in 0..1usize << elements.len() {
                    self.work(1, span)?;
                    let chosen = elements
                        .iter()
                        .enumerate()
                        .filter(|(index, _)| mask >> index & 1 == 1)
                        .map(|(_, value)| value.clone());
                    all.push(Value::Set(Arc::new(Set::Explicit(chosen.collect()))));
                }
                all.sort();
                Ok(all)
            }
            Set::Maps(keys, values) => {
                let keys = self.elements(keys, span)?;
                let values = self.elements(values, span)?;
                let size = product(keys.iter().map(|_| values.len() + 1));
                if size.is_none_or(|size| size > self.limits.elements) {
                    return Err(self.too_large(span));
                }
                let mut all = vec![std::collections::BTreeMap::new()];
                for key in keys {
                    let mut next = all.clone();
                    for map in &all {
                        self.work(values.len(), span)?;
                        for value in &values {
                            let mut map = map.clone();
                            map.insert(key.clone(), value.clone());
                            next.push(map);
                        }
                    }
                    all = next;
                }
                let mut all: Vec<Value> = all
                    .into_iter()
                    .map(|map| Value::Map(Arc::new(map)))
                    .collect();
                all.sort();
                Ok(all)
            }
        }
    }

    fn all_elements(&mut self, parts: &[Arc<Set>], span: Span) -> Result<Vec<Vec<Value>>, Error> {
        let mut lists = Vec::new();
        for part in parts {
            lists.push(self.elements(part, span)?);
        }
        match product(lists.iter().map(Vec::len)) {
            Some(size) if size <= self.limits.elements => Ok(lists),
            _ => Err(self.too_large(span)),
        }
    }

    pub(super) fn constructors(&self, datatype: DefId) -> Vec<DefId> {
        let DefKind::Datatype(decl) = self.resolved.def(datatype).kind else {
            unreachable!("only datatypes have constructors");
        };
        self.resolved.binds[&decl][1..].to_vec()
    }

    pub(super) fn is_finite(&mut self, set: &Set) -> bool {
        match set {
            Set::Explicit(_) | Set::Chars | Set::Events(_) => true,
            Set::Datatype(def) => {
                if let Some(&finite) = self.finite.get(def) {
                    return finite;
                }
                // A datatype that is reached again from itself has values of any size.
                self.finite.insert(*def, false);
                let span = self.resolved.def(*def).span;
                let finite = self.constructors(*def).into_iter().all(|constructor| {
                    match self.fields_of(constructor, span) {
                        Ok(fields) => fields.iter().all(|field| self.is_finite(field)),
                        Err(_) => false,
                    }
                });
                self.finite.insert(*def, finite);
                finite
            }
            Set::Ints | Set::IntsFrom(_) | Set::Processes => false,
            Set::Seqs(of) => matches!(&**of, Set::Explicit(elements) if elements.is_empty()),
            Set::Dots(parts) | Set::Tuples(parts) | Set::Union(parts) => {
                parts.iter().all(|part| self.is_finite(part))
            }
            Set::Subsets(of) => self.is_finite(of),
            Set::Maps(keys, values) => self.is_finite(keys) && self.is_finite(values),
        }
    }

    /// The same set in the form in which equal sets are equal values. Infinite sets stay as they
    /// are.
    pub(super) fn canonical_set(&mut self, set: &Arc<Set>, span: Span) -> Result<Arc<Set>, Error> {
        match &**set {
            Set::Explicit(elements) => {
                if elements.len() <= MAX_LISTED_EVENTS {
                    return Ok(set.clone());
                }
                Ok(match self.as_events(set, span)? {
                    Some(events) => Arc::new(Set::Events(events)),
                    None => set.clone(),
                })
            }
            Set::Events(EventSet::Only(members)) if members.len() <= MAX_LISTED_EVENTS => {
                Ok(Arc::new(Set::Explicit(self.elements(set, span)?)))
            }
            Set::Events(_) => Ok(set.clone()),
            other if self.is_finite(other) => {
                let listed = Arc::new(Set::Explicit(self.elements(other, span)?));
                self.canonical_set(&listed, span)
            }
            _ => Ok(set.clone()),
        }
    }

    pub(super) fn contains(&mut self, set: &Set, value: &Value, span: Span) -> Result<bool, Error> {
        Ok(match (set, value) {
            (Set::Explicit(elements), _) => elements.binary_search(value).is_ok(),
            (Set::Ints, _) => matches!(value, Value::Int(_)),
            (Set::IntsFrom(low), Value::Int(value)) => value >= low,
            (Set::IntsFrom(_), _) => false,
            (Set::Chars, _) => matches!(value, Value::Char(_)),
            (Set::Processes, _) => matches!(value, Value::Process(_)),
            (Set::Datatype(def), _) => match super::dots::head(value) {
                Some(head) => self.constructors(*def).contains(&head),
                None => false,
            },
            (Set::Events(events), _) => events.contains(self.event(value, span)?),
            (Set::Union(parts), _) => {
                for part in parts {
                    if self.contains(part, value, span)? {
                        return Ok(true);
                    }
                }
                false
            }
            (Set::Dots(parts), Value::Dot(items)) if items.len() == parts.len() => {
                for (part, item) in parts.iter().zip(items.iter()) {
                    if !self.contains(part, item, span)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Set::Dots(_), _) => self.elements(set, span)?.binary_search(value).is_ok(),
            (Set::Tuples(parts), Value::Tuple(items)) if items.len() == parts.len() => {
                for (part, item) in parts.iter().zip(items.iter()) {
                    if !self.contains(part, item, span)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Set::Tuples(_), _) => false,
            (Set::Subsets(of), Value::Set(inner)) => {
                for element in self.elements(inner, span)? {
                    if !self.contains(of, &element, span)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Set::Seqs(of), Value::Seq(seq)) => {
                for element in seq.items() {
                    if !self.contains(of, element, span)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Set::Maps(keys, values), Value::Map(map)) => {
                for (key, value) in map.iter() {
                    if !self.contains(keys, key, span)? || !self.contains(values, value, span)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Set::Subsets(_) | Set::Seqs(_) | Set::Maps(..), _) => false,
        })
    }

    /// Whether all elements of `a` are in `b`. An infinite `a` is compared with `b` only where
    /// their kinds decide it.
    pub(super) fn is_subset(&mut self, a: &Set, b: &Set, span: Span) -> Result<bool, Error> {
        if let Some((EventSet::Only(a), b)) = self.both_events(a, b, span)? {
            let left = EventSet::Only(a).difference(&b);
            return Ok(left == EventSet::empty());
        }
        if !self.is_finite(a) {
            match (a, b) {
                _ if a == b => return Ok(true),
                (_, Set::Ints) => return Ok(true),
                (Set::IntsFrom(x), Set::IntsFrom(y)) => return Ok(x >= y),
                _ if self.is_finite(b) => return Ok(false),
                (Set::Ints, Set::IntsFrom(_)) => return Ok(false),
                (Set::Seqs(x), Set::Seqs(y)) | (Set::Subsets(x), Set::Subsets(y)) => {
                    return self.is_subset(x, y, span);
                }
                _ => {}
            }
        }
        for element in self.elements(a, span)? {
            self.work(1, span)?;
            if !self.contains(b, &element, span)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn union(
        &mut self,
        a: &Arc<Set>,
        b: &Arc<Set>,
        span: Span,
    ) -> Result<Arc<Set>, Error> {
        if let Some((a, b)) = self.both_events(a, b, span)? {
            return Ok(Arc::new(Set::Events(a.union(&b))));
        }
        Ok(match (&**a, &**b) {
            (Set::Explicit(x), _) if x.is_empty() => b.clone(),
            (_, Set::Explicit(y)) if y.is_empty() => a.clone(),
            (Set::Ints, _) | (_, Set::Ints) => Arc::new(Set::Ints),
            (Set::Processes, _) | (_, Set::Processes) => Arc::new(Set::Processes),
            (Set::IntsFrom(x), Set::IntsFrom(y)) => Arc::new(Set::IntsFrom(*x.min(y))),
            _ if self.is_finite(a) && self.is_finite(b) => {
                let x = self.elements(a, span)?;
                let y = self.elements(b, span)?;
                self.work(x.len() + y.len(), span)?;
                let mut all = Vec::with_capacity(x.len() + y.len());
                let (mut x, mut y) = (x.into_iter().peekable(), y.into_iter().peekable());
                while let (Some(p), Some(q)) = (x.peek(), y.peek()) {
                    match p.cmp(q) {
                        std::cmp::Ordering::Less => all.extend(x.next()),
                        std::cmp::Ordering::Greater => all.extend(y.next()),
                        std::cmp::Ordering::Equal => {
                            all.extend(x.next());
                            y.next();
                        }
                    }
                }
                all.extend(x);
                all.extend(y);
                Arc::new(Set::Explicit(all))
            }
            _ => Arc::new(Set::Union(vec![a.clone(), b.clone()])),
        })
    }

    /// Two sets as sets of events, if one of them is kept by numbers and so the other can be.
    fn both_events(
        &mut self,
        a: &Set,
        b: &Set,
        span: Span,
    ) -> Result<Option<(EventSet, EventSet)>, Error> {
        if !matches!(a, Set::Events(_)) && !matches!(b, Set::Events(_)) {
            return Ok(None);
        }
        // The other one may be a product or a union of events that are numbered one by one.
        let mut both = Vec::with_capacity(2);
        for set in [a, b] {
            both.push(match self.as_events(set, span)? {
                Some(events) => events,
                None if self.is_finite(set) => self.events_in(set, span)?,
                None => return Ok(None),
            });
        }
        let b = both.pop().expect("two sets");
        Ok(both.pop().map(|a| (a, b)))
    }

    pub(super) fn intersection(
        &mut self,
        a: &Arc<Set>,
        b: &Arc<Set>,
        span: Span,
    ) -> Result<Arc<Set>, Error> {
        if let Some((a, b)) = self.both_events(a, b, span)? {
            return Ok(Arc::new(Set::Events(a.intersection(&b))));
        }
        match (&**a, &**b) {
            (Set::Ints, Set::Ints | Set::IntsFrom(_)) => return Ok(b.clone()),
            (Set::IntsFrom(_), Set::Ints) => return Ok(a.clone()),
            (Set::IntsFrom(x), Set::IntsFrom(y)) => {
                return Ok(Arc::new(Set::IntsFrom(*x.max(y))));
            }
            _ => {}
        }
        // The side that lists its elements is filtered by the other.
        let (listed, filter) = match !self.is_finite(a) || matches!(**a, Set::Events(_)) {
            true => (b, a),
            false => (a, b),
        };
        let mut left = Vec::new();
        for element in self.elements(listed, span)? {
            self.work(1, span)?;
            if self.contains(filter, &element, span)? {
                left.push(element);
            }
        }
        Ok(Arc::new(Set::Explicit(left)))
    }

    pub(super) fn difference(
        &mut self,
        a: &Arc<Set>,
        b: &Arc<Set>,
        span: Span,
    ) -> Result<Arc<Set>, Error> {
        if let Some((a, b)) = self.both_events(a, b, span)? {
            return Ok(Arc::new(Set::Events(a.difference(&b))));
        }
        let mut left = Vec::new();
        for element in self.elements(a, span)? {
            self.work(1, span)?;
            if !self.contains(b, &element, span)? {
                left.push(element);
            }
        }
        Ok(Arc::new(Set::Explicit(left)))
    }

    pub(super) fn is_empty(&mut self, set: &Set, span: Span) -> Result<bool, Error> {
        Ok(match set {
            Set::Explicit(elements) => elements.is_empty(),
            Set::Ints | Set::IntsFrom(_) | Set::Chars | Set::Processes => false,
            Set::Datatype(def) if !self.is_finite(set) => self.constructors(*def).is_empty(),
            Set::Datatype(_) => self.elements(set, span)?.is_empty(),
            Set::Subsets(_) | Set::Maps(..) | Set::Seqs(_) => false,
            Set::Dots(parts) | Set::Tuples(parts) => {
                for part in parts {
                    if self.is_empty(part, span)? {
                        return Ok(true);
                    }
                }
                false
            }
            Set::Union(parts) => {
                for part in parts {
                    if !self.is_empty(part, span)? {
                        return Ok(false);
                    }
                }
                true
            }
            Set::Events(EventSet::Only(members)) => members.is_empty(),
            Set::Events(_) => self.elements(set, span)?.is_empty(),
        })
    }
}
