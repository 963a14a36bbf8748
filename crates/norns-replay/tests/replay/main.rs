//! What a schedule is made of, and what a run under it means.

mod schedule;
mod verdict;

use norns_model::{Bug, Witness};
use norns_trace::item::Collector;
use norns_trace::text::{FIRST_LINE, Parser};
use norns_trace::{EventIndex, Trace};

/// Main creates a thread; both lock a global mutex and access a global and an unnamed block of
/// memory. Every event has the place with the number of its event, at the program counter
/// `100 + number` (hexadecimal).
const EVENTS: &str = "
    T0 lock o0
    T0 unlock o0
    T0 fork T0.1
    T0.1 start
    T0.1 lock o0
    T0.1 write 0x8010 4
    T0.1 unlock o0
    T0 read 0x8010 4
    T0 write 0x9000 8
    T0.1 write 0x9000 8
    T0.1 lock o1
    T0.1 unlock o1
    T0.1 end
    T0 join T0.1
";

fn trace() -> Trace {
    let mut lines = vec![
        FIRST_LINE.to_string(),
        "thread T0".into(),
        "thread T0.1 T0".into(),
        "object mutex 0x8000 m".into(),
        "object mutex 0x7000 n".into(),
        "symbol 0x8000 16 m".into(),
        "symbol 0x8010 4 x".into(),
    ];
    let events: Vec<&str> = EVENTS.trim().lines().map(str::trim).collect();
    lines.extend((0..events.len()).map(|number| format!("place {:#x}", 0x100 + number)));
    lines.extend((0..events.len()).map(|number| format!("{} @{number}", events[number])));
    let mut parser = Parser::default();
    let mut collector = Collector::default();
    for line in &lines {
        let item = parser.parse(line);
        let item = item.unwrap_or_else(|problem| panic!("{line}: {problem}"));
        item.into_iter().for_each(|item| collector.push(item));
    }
    collector.finish().0
}

fn events(numbers: impl IntoIterator<Item = u32>) -> Vec<EventIndex> {
    numbers.into_iter().map(EventIndex).collect()
}

fn race(first: u32, second: u32, schedule: impl IntoIterator<Item = u32>) -> Witness {
    Witness {
        schedule: events(schedule),
        bug: Bug::Race {
            first: EventIndex(first),
            second: EventIndex(second),
        },
    }
}
