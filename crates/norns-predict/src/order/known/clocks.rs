//! Vector clocks of must-happen-before: what is ordered in every schedule.
//!
//! Every event has one entry for each thread.

use norns_order::Node;
use norns_trace::EventIndex;

pub struct Clocks {
    threads: usize,
    /// For every event its thread.
    thread: Vec<u32>,
    /// For every event its position in its thread.
    position: Vec<u32>,
    /// For every event and thread: how many events of the thread come before the event or are it.
    known: Vec<u32>,
}

impl Clocks {
    pub fn new(threads: usize) -> Self {
        Clocks {
            threads,
            thread: Vec::new(),
            position: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Adds the next event of the trace. `previous` is the event before it in its thread.
    pub fn push(&mut self, thread: usize, previous: Option<EventIndex>) {
        let event = self.thread.len();
        self.known.resize((event + 1) * self.threads, 0);
        self.thread.push(thread as u32);
        if let Some(previous) = previous {
            self.join(event, previous.index());
        }
        let position = previous.map_or(0, |previous| self.position[previous.index()] + 1);
        self.position.push(position);
        self.known[event * self.threads + thread] = position + 1;
    }

    /// The event that was added last also comes after `earlier` and everything before that.
    pub fn follow(&mut self, earlier: EventIndex) {
        self.join(self.thread.len() - 1, earlier.index());
    }

    fn join(&mut self, event: usize, earlier: usize) {
        let (front, own) = self.known.split_at_mut(event * self.threads);
        let other = &front[earlier * self.threads..(earlier + 1) * self.threads];
        for (mine, theirs) in own.iter_mut().zip(other) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Whether `a` comes before `b` in every schedule. False for nodes that are not events.
    pub fn ordered(&self, a: Node, b: Node) -> bool {
        if a == b || a.index() >= self.thread.len() || b.index() >= self.thread.len() {
            return false;
        }
        let thread = self.thread[a.index()] as usize;
        self.position[a.index()] < self.known[b.index() * self.threads + thread]
    }

    /// How many events of `thread` come before `event` or are it, in every schedule.
    pub fn known(&self, event: EventIndex, thread: usize) -> u32 {
        self.known[event.index() * self.threads + thread]
    }
}
