//! One process for each object, fork, join and order, made from the events that it takes part in.

use std::collections::BTreeSet;

use norns_trace::{ObjectId, Op};

use super::{Alphabet, Writer, set};

impl Writer<'_> {
    /// The processes of locks and conditions offer `sleep` to more threads than use it. All that they
    /// offer must be in their alphabets, so that it cannot happen without a thread.
    pub(super) fn complete_sleeps(&mut self) {
        let sleeps: Alphabet = self.events_of("CONDITION", "sleep");
        let lockers: Alphabet = self.events_of("LOCK", "lock");
        let mut all = sleeps.clone();
        for sleep in &sleeps {
            let parts: Vec<&str> = sleep.split('.').collect();
            for other in &sleeps {
                let others: Vec<&str> = other.split('.').collect();
                if parts[3] == others[3] {
                    all.insert(format!("sleep.{}.{}.{}", parts[1], others[2], parts[3]));
                }
            }
        }
        for sleep in all.clone() {
            let parts: Vec<&str> = sleep.split('.').collect();
            for locker in &lockers {
                let lock: Vec<&str> = locker.split('.').collect();
                if lock[2] == parts[2] {
                    all.insert(format!("sleep.{}.{}.{}", lock[1], parts[2], parts[3]));
                }
            }
        }
        for sleep in all {
            let parts: Vec<String> = sleep.split('.').map(str::to_string).collect();
            self.joins_in(format!("LOCK_{}", parts[2]), &sleep);
            self.joins_in(format!("CONDITION_{}", parts[3]), &sleep);
        }
    }

    fn events_of(&self, process: &str, channel: &str) -> Alphabet {
        let processes = self
            .alphabets
            .iter()
            .filter(|(name, _)| name.starts_with(process));
        let events = processes.flat_map(|(_, alphabet)| alphabet);
        let prefix = format!("{channel}.");
        events
            .filter(|event| event.starts_with(&prefix))
            .cloned()
            .collect()
    }

    /// One process for each object, fork, join and order.
    pub(super) fn objects(&mut self) {
        self.line("-- objects");
        for (name, alphabet) in self.alphabets.clone() {
            let threads = |channel: &str| -> String {
                let prefix = format!("{channel}.");
                let events = alphabet
                    .iter()
                    .filter_map(|event| event.strip_prefix(&prefix));
                let threads: BTreeSet<&str> = events
                    .map(|event| event.split('.').next().unwrap_or(""))
                    .collect();
                format!("{{{}}}", threads.into_iter().collect::<Vec<_>>().join(", "))
            };
            let (kind, id) = name.split_once('_').expect("names are KIND_id");
            let text = match kind {
                "FORK" => format!(
                    "{name} = fork?t:{}!{id} -> start.{id} -> STOP",
                    threads("fork")
                ),
                "JOIN" => join_text(&name, id, &threads),
                "LOCK" => lock_text(&name, id, &threads, &alphabet),
                "CONDITION" => condition_text(&name, id, &threads, &alphabet),
                "BARRIER" => barrier_text(&name, id, &threads, self.number(id)),
                "SEMAPHORE" => {
                    let value = self.number(id);
                    semaphore_text(&name, id, &threads, value, value + self.posts(id))
                }
                "ONCE" => once_text(&name, id, &threads),
                "ORDER" => format!(
                    "{name} = mark.{id} -> {name}_DONE\n{name}_DONE = marked.{id} -> {name}_DONE"
                ),
                "VARIABLE" => variable_text(&name, &alphabet),
                _ => continue,
            };
            self.line(text);
        }
        self.line("");
    }

    /// The count of a barrier or the first value of a semaphore.
    fn number(&self, id: &str) -> i64 {
        let object: usize = id.parse().expect("objects are numbers");
        self.model.number[object]
    }

    /// How often a semaphore is posted: it has no more states than that.
    fn posts(&self, id: &str) -> i64 {
        let object: u32 = id.parse().expect("objects are numbers");
        let posts = self.model.trace.events.iter();
        posts
            .filter(|event| {
                let object = ObjectId(object);
                event.op == Op::SemPost(object) || event.op == Op::Give(object)
            })
            .count() as i64
    }
}

/// The threads that use a channel of the object, as a set.
type Threads<'a> = &'a dyn Fn(&str) -> String;

fn join_text(name: &str, id: &str, threads: Threads) -> String {
    let (tries, joins) = (threads("tryjoin"), threads("join"));
    let first = choice(&[
        (id.to_string(), format!("end.{id} -> {name}_DONE")),
        (tries.clone(), format!("tryjoin?t:{tries}!{id} -> {name}")),
    ]);
    let then = if joins == "{}" {
        "STOP".to_string()
    } else {
        format!("join?t:{joins}!{id} -> {name}_DONE")
    };
    format!("{name} =\n  {first}\n{name}_DONE = {then}")
}

fn barrier_text(name: &str, id: &str, threads: Threads, count: i64) -> String {
    let (enters, exits) = (threads("barrier_enter"), threads("barrier_exit"));
    let enter = format!(
        "barrier_enter?t:{enters}!{id} -> {name}_WAITING(if card(waiting) + 1 >= {count} then {{}} else \
         union(waiting, {{t}}))"
    );
    let exit = format!("barrier_exit?t:diff({exits}, waiting)!{id} -> {name}_WAITING(waiting)");
    let choice = choice(&[(enters, enter), (exits, exit)]);
    format!("{name} = {name}_WAITING({{}})\n{name}_WAITING(waiting) =\n  {choice}")
}

/// `most` is a bound of the value: a semaphore has no more states than posts can give it.
fn semaphore_text(name: &str, id: &str, threads: Threads, value: i64, most: i64) -> String {
    let (posts, waits) = (threads("sem_post"), threads("sem_wait"));
    let tries = threads("sem_try");
    let post = format!("n < {most} & sem_post?t:{posts}!{id} -> {name}_VALUE(n + 1)");
    let wait = format!("n > 0 & sem_wait?t:{waits}!{id} -> {name}_VALUE(n - 1)");
    let fail = format!("n == 0 & sem_try?t:{tries}!{id} -> {name}_VALUE(n)");
    let choice = choice(&[(posts, post), (waits, wait), (tries, fail)]);
    format!("{name} = {name}_VALUE({value})\n{name}_VALUE(n) =\n  {choice}")
}

fn once_text(name: &str, id: &str, threads: Threads) -> String {
    let (begins, passes) = (threads("oncebegin"), threads("oncepass"));
    let (ends, unbegun) = (threads("onceend"), threads("unbegun"));
    let step = |threads: &str, channel: &str, then: &str| {
        let text = format!("{channel}?t:{threads}!{id} -> {name}{then}");
        if threads == "{}" {
            "STOP".to_string()
        } else {
            text
        }
    };
    let first = choice(&[
        (begins.clone(), step(&begins, "oncebegin", "_RUNS")),
        (unbegun.clone(), step(&unbegun, "unbegun", "")),
    ]);
    let first = if first.is_empty() {
        "STOP".to_string()
    } else {
        first
    };
    format!(
        "{name} =\n  {first}\n{name}_RUNS = {}\n{name}_DONE = {}",
        step(&ends, "onceend", "_DONE"),
        step(&passes, "oncepass", "_DONE")
    )
}

fn lock_text(name: &str, id: &str, threads: Threads, alphabet: &Alphabet) -> String {
    let sleeps = alphabet.iter().filter(|event| event.starts_with("sleep."));
    let conditions: BTreeSet<String> = sleeps
        .filter_map(|event| event.rsplit('.').next())
        .map(str::to_string)
        .collect();
    let conditions = set(&conditions);
    let (locks, reads) = (threads("lock"), threads("rdlock"));
    let (tries, read_tries) = (threads("trylock"), threads("tryrdlock"));
    let free = if reads == "{}" {
        name.to_string()
    } else {
        format!("{name}_READ(0)")
    };
    let held = choice(&[
        ("held".to_string(), format!("unlock.t.{id} -> {free}")),
        (
            conditions.clone(),
            format!("sleep.t.{id}?c:{conditions} -> {free}"),
        ),
        (
            tries.clone(),
            format!("trylock?u:diff({tries}, {{t}})!{id} -> {name}_HELD(t)"),
        ),
        (
            read_tries.clone(),
            format!("tryrdlock?u:diff({read_tries}, {{t}})!{id} -> {name}_HELD(t)"),
        ),
    ]);
    let lock = format!("lock?t:{locks}!{id} -> {name}_HELD(t)");
    if reads == "{}" {
        let lock = if locks == "{}" {
            "STOP".to_string()
        } else {
            lock
        };
        return format!("{name} = {lock}\n{name}_HELD(t) =\n  {held}");
    }
    // Every thread reads at most once at a time, so counting is enough.
    let most = reads.split(',').count();
    let readers = choice(&[
        (locks, format!("n == 0 & {lock}")),
        (
            reads.clone(),
            format!("n < {most} & rdlock?t:{reads}!{id} -> {name}_READ(n + 1)"),
        ),
        (
            "held".to_string(),
            format!("n > 0 & unlock?t:{reads}!{id} -> {name}_READ(n - 1)"),
        ),
        (
            tries.clone(),
            format!("n > 0 & trylock?u:{tries}!{id} -> {name}_READ(n)"),
        ),
    ]);
    format!("{name} = {name}_READ(0)\n{name}_READ(n) =\n  {readers}\n{name}_HELD(t) =\n  {held}")
}

fn condition_text(name: &str, id: &str, threads: Threads, alphabet: &Alphabet) -> String {
    let slept = alphabet.iter().filter(|event| event.starts_with("sleep."));
    let mutexes: BTreeSet<String> = slept
        .filter_map(|event| event.split('.').nth(2))
        .map(str::to_string)
        .collect();
    let mutexes = set(&mutexes);
    let asleep = |then: &str| format!("{name}_ASLEEP({then})");
    let (sleeps, wakes, spurious) = (threads("sleep"), threads("wake"), threads("spurious"));
    let (broadcasts, signals) = (threads("broadcast"), threads("signal"));
    let sleep = format!(
        "sleep?t:{sleeps}?m:{mutexes}!{id} -> {}",
        asleep("union(asleep, {t})")
    );
    let wake = format!("wake?t:diff({wakes}, asleep)!{id} -> {}", asleep("asleep"));
    let by_itself = format!(
        "spurious?t:{spurious}!{id} -> {}",
        asleep("diff(asleep, {t})")
    );
    let all = format!("broadcast?t:{broadcasts}!{id} -> {}", asleep("{}"));
    let one = format!(
        "signal?t:{signals}!{id} -> (if empty(asleep) then {} else |~| w:asleep @ {})",
        asleep("asleep"),
        asleep("diff(asleep, {w})")
    );
    let choice = choice(&[
        (sleeps, sleep),
        (wakes, wake),
        (spurious, by_itself),
        (broadcasts, all),
        (signals, one),
    ]);
    format!(
        "{name} = {}\n{} =\n  {choice}",
        asleep("{}"),
        asleep("asleep")
    )
}

/// A choice of the branches whose set of threads is not empty; at least one set is not.
fn choice(branches: &[(String, String)]) -> String {
    let open = branches.iter().filter(|(threads, _)| threads != "{}");
    open.map(|(_, text)| text.as_str())
        .collect::<Vec<_>>()
        .join("\n  [] ")
}

/// The last write of a cell: a read needs the write that it saw.
fn variable_text(name: &str, alphabet: &Alphabet) -> String {
    let mut branches = Vec::new();
    for event in alphabet {
        let parts: Vec<&str> = event.split('.').collect();
        branches.push(match parts[0] {
            "read" => format!("last == {} & {event} -> {name}_LAST(last)", parts[3]),
            "write" => format!("{event} -> {name}_LAST({})", parts[3]),
            _ => format!(
                "last == {} & {event} -> {name}_LAST({})",
                parts[3], parts[4]
            ),
        });
    }
    format!(
        "{name} = {name}_LAST(0)\n{name}_LAST(last) =\n  {}",
        branches.join("\n  [] ")
    )
}
