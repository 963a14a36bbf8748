//! The assertions: no deadlock, and no race on any cell.

use std::collections::BTreeSet;

use super::{Alphabet, Writer, set};

impl Writer<'_> {
    pub(super) fn deadlock_check(&mut self) {
        let leaves: Alphabet = self
            .model
            .thread_ids()
            .map(|thread| format!("leaves.{}", thread.0))
            .collect();
        self.line("-- deadlock: a schedule that gets stuck before all threads have ended");
        self.line("LIVE = live -> LIVE");
        self.line(format!("ends = union({{endthreads}}, {})", set(&leaves)));
        let steps = set(&self.all_steps);
        self.line(format!("steps = union(ends, {steps})"));
        self.line("assert LIVE [F= ((PROGRAM [| ends |> SKIP) \\ steps) ; LIVE");
        self.line("");
    }

    pub(super) fn race_checks(&mut self) {
        self.line("-- race: two conflicting accesses of a cell that are both begun");
        self.line("writes(a) = a == W or a == AW");
        self.line("atomic(a) = a == AR or a == AW");
        self.line("conflict(a, b) = (writes(a) or writes(b)) and not (atomic(a) and atomic(b))");
        self.line("RACE(k, threads, begun) =");
        self.line("  at?t:threads!k?a -> (if empty({ u | (u, b) <- begun, conflict(a, b) })");
        self.line(
            "               then RACE(k, threads, union(begun, {(t, a)})) else race -> STOP)",
        );
        self.line("  [] access?t:threads!k?a -> RACE(k, threads, diff(begun, {(t, a)}))");
        for i in 0..self.cells.len() {
            let name = format!("RACE_k{i}");
            let alphabet = self.alphabets.get(&name).cloned().unwrap_or_default();
            let threads: BTreeSet<String> = alphabet
                .iter()
                .filter_map(|event| event.split('.').nth(1))
                .map(str::to_string)
                .collect();
            let mut all = BTreeSet::new();
            for thread in &threads {
                for kind in ["R", "W", "AR", "AW"] {
                    all.insert(format!("at.{thread}.k{i}.{kind}"));
                    all.insert(format!("access.{thread}.k{i}.{kind}"));
                }
            }
            self.line(format!("events_k{i} = {}", set(&all)));
            let threads = set(&threads);
            self.line(format!(
                "assert STOP [T= (PROGRAM [| events_k{i} |] RACE(k{i}, {threads}, {{}})) |\\ {{race}}"
            ));
        }
    }
}
