//! From the functions of norns-ir to operations on registers.
//!
//! What has no operation becomes `GiveUp` with its reason, so that a program can be run as long as it does
//! not come there.

mod constant;
mod control;
mod function;
mod intrinsic;
mod scalar;
mod value;

use norns_ir::{FunctionId, Program};

use crate::library;
use crate::op::{Code, CodeFunction};

pub(crate) use constant::initial_bytes;

/// The code of a whole program.
pub(crate) fn lower(program: &Program) -> Code {
    let functions = program.functions.iter().map(|function| {
        if function.is_declaration() {
            return CodeFunction {
                library: library::find(&function.name),
                ..CodeFunction::default()
            };
        }
        function::lower(program, function)
    });
    let is_main = |name: &str| name == "main";
    let main = program
        .functions
        .iter()
        .position(|function| is_main(&function.name) && !function.is_declaration());
    Code {
        functions: functions.collect(),
        main: main.map(FunctionId::from_index),
        constructors: program.constructors.clone(),
    }
}
