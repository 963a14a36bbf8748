//! From a schedule to the rows of a panel: visible steps, and folds for what lies between them.

use std::collections::{BTreeMap, BTreeSet};

use norns_model::{Bug, Witness};
use norns_trace::{Event, EventIndex, ThreadId, Trace};

use super::Sources;
use super::edges::EdgeFinder;
use super::names::Names;
use super::operation::with_expression;
use super::visible::is_synchronisation;
use crate::describe::{describe, is_call, place_name};
use crate::sketch::{Edge, Fold, Panel, Row, Step, grouped};

/// One finding's schedules, as rows and edges.
pub(super) struct View<'a> {
    pub(super) trace: &'a Trace,
    pub(super) bug: &'a [EventIndex],
    pub(super) lanes: &'a [ThreadId],
    pub(super) visible: &'a BTreeSet<EventIndex>,
    pub(super) sources: Sources<'a>,
    pub(super) names: &'a Names,
}

impl View<'_> {
    /// What ran, and what can run.
    pub(super) fn panels(
        &self,
        witness: &Witness,
        histories: &[Vec<EventIndex>],
    ) -> (Panel, Panel) {
        let last_visible = self.visible.last().copied().unwrap_or(EventIndex(0));
        let mut observed: Vec<EventIndex> = histories
            .iter()
            .flatten()
            .copied()
            .filter(|&index| index <= last_visible)
            .collect();
        observed.sort_unstable();
        let pending =
            { self.bug.iter().copied() }.filter(|event| witness.bug.pending().contains(event));
        let pending: Vec<EventIndex> = pending.collect();
        let possible: Vec<EventIndex> = witness
            .schedule
            .iter()
            .copied()
            .filter(|&index| {
                self.lane(index).is_some() && !is_call(self.trace.events[index.index()].op)
            })
            .chain(
                pending
                    .iter()
                    .copied()
                    .filter(|&index| self.lane(index).is_some()),
            )
            .collect();
        let moved = self.moved(&possible);

        let mut ran = self.panel(&observed, &moved, usize::MAX, "recorded run");
        let done = possible.len() - pending.len().min(possible.len());
        let mut can = self.panel(&possible, &moved, done, "witness");
        if let Bug::Race { first, second } = &witness.bug {
            for panel in [&mut ran, &mut can] {
                panel.missing = match (panel.row_of(first.0), panel.row_of(second.0)) {
                    (Some(a), Some(b)) => Some(Edge {
                        from: a.min(b),
                        to: a.max(b),
                    }),
                    _ => None,
                };
            }
        }
        (ran, can)
    }

    fn lane(&self, index: EventIndex) -> Option<usize> {
        let thread = self.trace.events[index.index()].thread;
        self.lanes.iter().position(|&lane| lane == thread)
    }

    /// Visible steps that overtook another thread's visible step.
    fn moved(&self, possible: &[EventIndex]) -> BTreeSet<EventIndex> {
        let position: BTreeMap<EventIndex, usize> = possible
            .iter()
            .enumerate()
            .filter(|(_, index)| self.visible.contains(index))
            .map(|(at, &index)| (index, at))
            .collect();
        let overtook = |&later: &EventIndex| {
            self.visible.range(..later).any(|earlier| {
                self.lane(*earlier) != self.lane(later)
                    && position
                        .get(earlier)
                        .is_none_or(|&at| at > position[&later])
            })
        };
        position.keys().copied().filter(overtook).collect()
    }

    /// The rows of one schedule; the events from `done` on are those that the threads are stopped
    /// before.
    pub(super) fn panel(
        &self,
        order: &[EventIndex],
        moved: &BTreeSet<EventIndex>,
        done: usize,
        caption: &str,
    ) -> Panel {
        let mut rows: Vec<Row> = Vec::new();
        let mut hidden: Vec<EventIndex> = Vec::new();
        let mut edges = EdgeFinder::default();
        for (at, &index) in order.iter().enumerate() {
            if !self.visible.contains(&index) {
                hidden.push(index);
                edges.pass(self.trace, index, None);
                continue;
            }
            self.fold(&mut hidden, &mut rows);
            edges.pass(self.trace, index, Some(rows.len()));
            let lane = self
                .lane(index)
                .expect("only events of lanes are in the order");
            let described = describe(self.trace, index);
            let what = with_expression(self.trace, index, self.sources, described.what);
            let what = self.names.apply(what);
            rows.push(Row::Step(Step {
                event: index.0,
                number: at + 1,
                lane,
                mark: described.mark,
                what,
                value: described.value,
                place: place_name(self.trace, index),
                moved: moved.contains(&index),
                operation: self
                    .bug
                    .iter()
                    .position(|&bug| bug == index)
                    .map_or(0, |at| at + 1),
                pending: at >= done,
            }));
        }
        self.fold(&mut hidden, &mut rows);
        Panel {
            caption: caption.into(),
            rows,
            edges: edges.found,
            missing: None,
            steps: order.len(),
            reordered: done != usize::MAX,
        }
    }

    fn fold(&self, hidden: &mut Vec<EventIndex>, rows: &mut Vec<Row>) {
        if hidden.is_empty() {
            return;
        }
        let mut folds = Vec::new();
        for lane in 0..self.lanes.len() {
            let mine: Vec<&Event> = hidden
                .iter()
                .filter(|&&index| self.lane(index) == Some(lane))
                .map(|index| &self.trace.events[index.index()])
                .collect();
            if mine.is_empty() {
                continue;
            }
            let synchronisation = mine
                .iter()
                .filter(|event| is_synchronisation(event.op))
                .count();
            let accesses = mine.len() - synchronisation;
            let what = match (synchronisation, accesses) {
                (0, _) => counted(accesses, "access", "accesses"),
                (_, 0) => counted(synchronisation, "sync step", "sync steps"),
                _ => format!(
                    "{} sync, {}",
                    grouped(synchronisation),
                    counted(accesses, "access", "accesses")
                ),
            };
            folds.push(Fold {
                lane,
                steps: mine.len(),
                what,
            });
        }
        hidden.clear();
        rows.push(Row::Folded(folds));
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", grouped(number))
}
