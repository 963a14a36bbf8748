//! What the C and C++ libraries do: a model for each function that is known.
//!
//! What is not here has no model, and the run is given up on by the function's name.

mod arithmetic;
mod containers;
mod cxx;
mod descriptor;
mod format;
mod heap;
mod process;
mod ready;
mod scan;
mod signal;
mod socket;
mod stdio;
mod strings;
mod strings_cxx;
mod symbolic;
mod thread;
mod thread_cxx;
mod time;

use crate::machine::{Machine, Stop};
use crate::op::Shape;
use crate::synchronisation::Wait;

pub(crate) use symbolic::Before;

/// A call of a function of the library.
pub(crate) struct Call<'m, 'p> {
    pub(crate) machine: &'m mut Machine<'p>,
    pub(crate) arguments: Vec<u64>,
    pub(crate) shapes: &'p [Shape],
    pub(crate) name: &'p str,
}

/// How a call goes on.
pub(crate) enum Flow {
    Return(u64),
    /// A result of two parts.
    Two(u64, u64),
    /// Returns, and another thread may go on.
    Yield(u64),
    /// The thread waits and executes the call again when that is over, or at the deadline.
    Wait(Wait, Option<u64>),
    /// The thread goes on in another frame.
    Elsewhere,
    /// The thread has ended.
    Ended,
}

pub(crate) type Done = Result<Flow, Stop>;
pub(crate) type Model = fn(&mut Call<'_, '_>) -> Done;

/// The model of a function by the linker's name.
pub(crate) fn find(name: &str) -> Option<Model> {
    heap::find(name)
        .or_else(|| strings::find(name))
        .or_else(|| thread::find(name))
        .or_else(|| stdio::find(name))
        .or_else(|| descriptor::find(name))
        .or_else(|| signal::find(name))
        .or_else(|| ready::find(name))
        .or_else(|| socket::find(name))
        .or_else(|| process::find(name))
        .or_else(|| time::find(name))
        .or_else(|| arithmetic::find(name))
        .or_else(|| cxx::find(name))
        .or_else(|| containers::find(name))
        .or_else(|| strings_cxx::find(name))
        .or_else(|| thread_cxx::find(name))
}

impl Call<'_, '_> {
    /// An argument; 0 if the program passes fewer.
    pub(crate) fn argument(&self, index: usize) -> u64 {
        self.arguments.get(index).copied().unwrap_or_default()
    }

    /// An `int` argument.
    pub(crate) fn int(&self, index: usize) -> i32 {
        self.argument(index) as i32
    }

    pub(crate) fn string(&self, index: usize) -> Result<Vec<u8>, Stop> {
        Ok(self
            .machine
            .state
            .memory
            .string(self.argument(index))?
            .to_vec())
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.machine.state.memory.write(address, bytes)?;
        self.machine.forget_history(address, bytes.len() as u64);
        Ok(())
    }

    pub(crate) fn load(&self, address: u64, bytes: u8) -> Result<u64, Stop> {
        Ok(self.machine.state.memory.load(address, bytes)?)
    }

    pub(crate) fn store(&mut self, address: u64, bytes: u8, value: u64) -> Result<(), Stop> {
        self.write(address, &value.to_le_bytes()[..bytes as usize])
    }

    /// Returns -1 and sets `errno`.
    pub(crate) fn fail(&mut self, error: i32) -> Done {
        self.set_errno(error)?;
        Ok(Flow::Return(u64::MAX))
    }

    pub(crate) fn set_errno(&mut self, error: i32) -> Result<(), Stop> {
        let address = self.machine.errno();
        Ok(self
            .machine
            .state
            .memory
            .store(address, 4, error as u32 as u64)?)
    }
}

/// A value of type `int` as a result.
pub(crate) fn int(value: i32) -> Done {
    Ok(Flow::Return(u64::from(value as u32)))
}
