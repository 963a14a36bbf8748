//! Synchronisation between the threads of one schedule: who sent what another one received.

use std::collections::BTreeMap;

use norns_trace::effect::{Channel, Handoff};
use norns_trace::{EventIndex, ThreadId, Trace};

use crate::sketch::Edge;

#[derive(Default)]
pub(super) struct EdgeFinder {
    /// The row (if visible) and the thread of the last one that sent through each channel.
    sent: BTreeMap<Channel, (Option<usize>, ThreadId)>,
    pub(super) found: Vec<Edge>,
}

impl EdgeFinder {
    /// The next event of the schedule, and its row if it is visible.
    pub(super) fn pass(&mut self, trace: &Trace, index: EventIndex, row: Option<usize>) {
        let event = &trace.events[index.index()];
        match event.op.effect().handoff(event.thread) {
            Handoff::Sends(channel) => {
                self.sent.insert(channel, (row, event.thread));
            }
            Handoff::Receives(channel) => {
                if let (Some(to), Some(&(Some(from), sender))) = (row, self.sent.get(&channel))
                    && sender != event.thread
                {
                    self.found.push(Edge { from, to });
                }
            }
            Handoff::None => {}
        }
    }
}
