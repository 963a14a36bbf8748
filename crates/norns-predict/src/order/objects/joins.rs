//! Joins that gave up: such a join comes before the end of the thread that it waited for.

use norns_model::Model;
use norns_order::{Formula, Node};
use norns_trace::Effect;
use norns_trace::effect::OnThread;

use super::clause::{Atom, Constraint, CurrentOrder, Frame, node};

pub struct FailedJoin {
    join: Node,
    /// The last event of the thread that it waited for.
    end: Node,
}

pub fn failed_joins(model: &Model<'_>) -> impl Iterator<Item = FailedJoin> {
    let events = model.trace.events.iter().enumerate();
    events.filter_map(|(i, event)| {
        let Effect::Thread(OnThread::FailedJoin(child)) = event.op.effect() else {
            return None;
        };
        let last = *model.threads[child.index()].last()?;
        let ended = model.op(last).effect() == Effect::Thread(OnThread::End);
        ended.then_some(FailedJoin {
            join: Node(i as u32),
            end: node(last),
        })
    })
}

impl Constraint for FailedJoin {
    fn violated(&self, current: &CurrentOrder<'_>, formula: &mut Formula) {
        if current.takes_place(self.join) && current.is_before(self.end, self.join) {
            self.all(current.frame, formula);
        }
    }

    fn all(&self, frame: &Frame, formula: &mut Formula) {
        let atoms = [Atom::Before(self.join, self.end), Atom::Absent(self.join)];
        frame.clause(formula, atoms);
    }
}
