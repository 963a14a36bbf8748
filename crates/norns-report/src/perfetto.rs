//! Both schedules as a Chrome trace that Perfetto opens: process 1 is what ran, process 2 what
//! can run, one slice per step. The time axis is the step number.

use serde_json::{Value, json};

use crate::sketch::{Row, Sketch};

pub fn trace(sketch: &Sketch) -> Value {
    let mut events: Vec<Value> = Vec::new();
    let panels = [
        (1, "what ran (time = step)", &sketch.ran),
        (2, "what can run", &sketch.can),
    ];
    for (pid, name, panel) in panels {
        events.push(
            json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0,
            "args": {"name": name}}),
        );
        for (lane, thread) in sketch.lanes.iter().enumerate() {
            events.push(
                json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": lane + 1,
                "args": {"name": format!("{} {}", thread.thread, thread.function)}}),
            );
        }
        for row in &panel.rows {
            let Row::Step(step) = row else { continue };
            events.push(
                json!({"ph": "X", "name": step.what, "pid": pid, "tid": step.lane + 1,
                "ts": step.number, "dur": 1,
                "args": {"place": step.place, "value": step.value, "pending": step.pending}}),
            );
        }
        for (at, edge) in panel.edges.iter().enumerate() {
            let (Row::Step(from), Row::Step(to)) = (&panel.rows[edge.from], &panel.rows[edge.to])
            else {
                continue;
            };
            let id = format!("{pid}-{at}");
            events.push(
                json!({"ph": "s", "id": id, "name": "order", "cat": "sync", "pid": pid,
                "tid": from.lane + 1, "ts": from.number}),
            );
            events.push(
                json!({"ph": "f", "bp": "e", "id": id, "name": "order", "cat": "sync",
                "pid": pid, "tid": to.lane + 1, "ts": to.number}),
            );
        }
    }
    json!({"traceEvents": events, "displayTimeUnit": "ns"})
}
