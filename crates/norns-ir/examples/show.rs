//! Prints a program: `cargo run -p norns-ir --example show -- [--promote] a.bc b.bc`, or one executable that
//! norns-cc built with its bitcode. With `--promote`, local variables are values.

use std::error::Error;
use std::fs;
use std::path::Path;

use norns_ir::{Linker, Program};

fn main() -> Result<(), Box<dyn Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let promote = names.first().is_some_and(|name| name == "--promote");
    names.drain(..usize::from(promote));
    let mut program = read(&names)?;
    if promote {
        program.promote_locals();
    }
    print!("{program}");
    for omission in &program.omissions {
        let (module, what, count) = (&omission.module, &omission.what, omission.count);
        eprintln!("not read: {module}: {what} ({count})");
    }
    Ok(())
}

fn read(names: &[String]) -> Result<Program, Box<dyn Error>> {
    let mut linker = Linker::new();
    for name in names {
        let bytes = fs::read(name)?;
        if bytes.starts_with(b"\x7fELF") {
            return Ok(Program::from_executable(Path::new(name))?);
        }
        linker.add(name, &bytes)?;
    }
    Ok(linker.finish())
}
