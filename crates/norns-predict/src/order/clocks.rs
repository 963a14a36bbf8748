//! Vector clocks of must-happen-before (`must`): what is ordered in every schedule.
//!
//! One entry a thread for every event.

use norns_order::Node;
use norns_trace::EventIndex;

pub(super) struct Clocks {
    threads: usize,
    thread: Vec<u32>,
    position: Vec<u32>,
    /// For every event and thread: how many events of the thread come before it or are it.
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

    /// The next event of the trace; `before` are those that it must follow.
    pub fn push(&mut self, thread: usize, before: impl Iterator<Item = EventIndex>) {
        let event = self.thread.len();
        self.known.resize((event + 1) * self.threads, 0);
        self.thread.push(thread as u32);
        let mut position = 0;
        for earlier in before {
            if self.thread[earlier.index()] == thread as u32 {
                position = position.max(self.position[earlier.index()] + 1);
            }
            self.join(event, earlier.index());
        }
        self.position.push(position);
        self.known[event * self.threads + thread] = position + 1;
    }

    /// Adds what comes before `earlier` to what comes before the last event.
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

    /// Whether `a` comes before `b` in every schedule. False for nodes that are no events.
    pub fn ordered(&self, a: Node, b: Node) -> bool {
        if a == b || a.index() >= self.thread.len() || b.index() >= self.thread.len() {
            return false;
        }
        let thread = self.thread[a.index()] as usize;
        self.position[a.index()] < self.known[b.index() * self.threads + thread]
    }

    /// How many events of `thread` come before `event` or are it.
    pub fn known(&self, event: EventIndex, thread: usize) -> u32 {
        self.known[event.index() * self.threads + thread]
    }
}
