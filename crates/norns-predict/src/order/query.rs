//! What a bug requires of a schedule that shows it: which events are next after the schedule, and
//! which have taken place in it.

use norns_model::{Bug, Model};
use norns_order::{Literal, Node};
use norns_trace::EventIndex;

use super::engine::Constraint;
use super::objects::clause::node;
use super::stuck;

/// An event that has to take place in the schedule.
#[derive(Clone, Copy, Debug)]
pub struct Required {
    pub event: EventIndex,
    /// It has to come before this event.
    pub before: Option<EventIndex>,
}

impl Required {
    pub fn anywhere(event: EventIndex) -> Required {
        Required {
            event,
            before: None,
        }
    }
}

/// The event of the same thread before this one.
pub fn previous(model: &Model<'_>, event: EventIndex) -> Option<EventIndex> {
    let position = model.position_of(event).checked_sub(1)?;
    Some(model.threads[model.thread_of(event).index()][position])
}

/// The direct predecessors of `event` that have to take place for it to be next in its thread.
pub fn predecessors(model: &Model<'_>, event: EventIndex) -> impl Iterator<Item = EventIndex> {
    previous(model, event)
        .into_iter()
        .chain(model.needed_before(event))
}

/// What has taken place when the bug shows.
pub fn required(model: &Model<'_>, bug: &Bug) -> Vec<Required> {
    if let Bug::Stuck { blocked } = bug {
        return stuck::required(model, blocked);
    }
    let events = bug.pending().into_iter();
    let predecessors = events.flat_map(|event| predecessors(model, event));
    let mut all: Vec<Required> = predecessors.map(Required::anywhere).collect();
    if let Bug::Atomicity { accesses } = bug {
        all.extend(accesses.windows(2).map(|pair| Required {
            event: pair[0],
            before: Some(pair[1]),
        }));
    }
    all
}

/// The requirements as edges. An event takes place if it comes before the end of the schedule.
pub fn edges(required: &[Required], end: Node) -> impl Iterator<Item = (Node, Node)> + '_ {
    let take_place = required.iter().map(move |r| (node(r.event), end));
    let ordered = required.iter().filter_map(|r| {
        let before = r.before.filter(|&before| before != r.event)?;
        Some((node(r.event), node(before)))
    });
    take_place.chain(ordered)
}

/// The clause of a constraint that was added to the engine.
pub fn constraint_clause(
    constraint: &Constraint,
    end: Node,
    before: &mut impl FnMut(Node, Node) -> Literal,
) -> Vec<Literal> {
    match constraint {
        Constraint::Before(a, b) => {
            vec![before(node(*a), node(*b)), before(end, node(*b))]
        }
        Constraint::NotInThisOrder(events) => {
            let pairs = events.windows(2);
            let mut literals: Vec<Literal> = pairs
                .map(|pair| before(node(pair[1]), node(pair[0])))
                .collect();
            literals.extend(events.last().map(|&last| before(end, node(last))));
            literals
        }
    }
}
