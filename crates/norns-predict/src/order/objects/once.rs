//! `once` objects as registers (equation 4 of Said et al. 2011): the first caller needs the object
//! untouched, and a caller that returns without running the function needs it done.

use norns_model::Model;
use norns_order::Node;
use norns_trace::Op;

use super::registers::{Access, Register};

const IDLE: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;

pub fn onces(model: &Model<'_>) -> Vec<Register> {
    let mut accesses: Vec<Vec<Access>> = vec![Vec::new(); model.trace.objects.len()];
    for (i, event) in model.trace.events.iter().enumerate() {
        let (object, needs, writes) = match event.op {
            Op::OnceBegin(o) => (o, Some(IDLE), Some(RUNNING)),
            Op::OnceEnd(o) => (o, None, Some(DONE)),
            Op::OncePass(o) => (o, Some(DONE), None),
            _ => continue,
        };
        accesses[object.index()].push(Access {
            node: Node(i as u32),
            needs,
            writes,
        });
    }
    let used = accesses.into_iter().filter(|accesses| !accesses.is_empty());
    used.map(|accesses| Register::new(model, accesses, IDLE))
        .collect()
}
