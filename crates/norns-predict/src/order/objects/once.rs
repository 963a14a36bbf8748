//! `once` objects as registers (equation 4 of Said et al. 2011): the first caller needs the object
//! untouched, and a caller that returns without running the function needs it done.

use norns_model::Model;
use norns_order::Node;
use norns_trace::Effect;
use norns_trace::effect::OnOnce;

use super::registers::{Access, Register};

const IDLE: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;

pub fn onces(model: &Model<'_>) -> Vec<Register> {
    let mut accesses: Vec<Vec<Access>> = vec![Vec::new(); model.trace.objects.len()];
    for (i, event) in model.trace.events.iter().enumerate() {
        let Effect::Once(object, act) = event.op.effect() else {
            continue;
        };
        let (needs, writes) = match act {
            OnOnce::Begin => (Some(IDLE), Some(RUNNING)),
            OnOnce::End => (None, Some(DONE)),
            OnOnce::Pass => (Some(DONE), None),
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
