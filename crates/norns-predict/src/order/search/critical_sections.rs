//! Where each thread holds locks: its outermost critical sections.

use norns_model::Model;
use norns_trace::effect::OnLock;
use norns_trace::{Effect, EventIndex};

pub struct CriticalSections {
    /// For an event with which its thread begins to hold locks: the position from which on it holds
    /// none. 0 for other events.
    end: Vec<u32>,
}

impl CriticalSections {
    pub fn new(model: &Model<'_>) -> Self {
        let mut end = vec![0; model.trace.events.len()];
        for events in &model.threads {
            let mut depth = 0u32;
            let mut first = None;
            for (k, &event) in events.iter().enumerate() {
                let Effect::Lock(_, act) = model.op(event).effect() else {
                    continue;
                };
                match act {
                    OnLock::Acquire(_) => {
                        first = first.or(Some(event));
                        depth += 1;
                    }
                    OnLock::Release => {
                        depth = depth.saturating_sub(1);
                        if depth == 0
                            && let Some(first) = first.take()
                        {
                            end[first.index()] = k as u32 + 1;
                        }
                    }
                    OnLock::FailedAcquire(_) => {}
                }
            }
            if let Some(first) = first {
                end[first.index()] = events.len() as u32;
            }
        }
        CriticalSections { end }
    }

    /// The position after the critical section that begins with this event, if one does.
    pub fn end_of(&self, event: EventIndex) -> Option<u32> {
        Some(self.end[event.index()]).filter(|&end| end != 0)
    }

    /// If a thread with these events holds locks after `count` of them: the position from which on
    /// it holds none.
    pub fn end_around(&self, events: &[EventIndex], count: u32) -> Option<u32> {
        let before = events[..count as usize].iter().rev();
        let end = before.filter_map(|&event| self.end_of(event)).next()?;
        (end > count).then_some(end)
    }
}
