//! Prints the program that modules of bitcode make: `cargo run -p norns-ir --example show -- a.bc b.bc`.
//! With `--promote` first, local variables are values.

use std::process::ExitCode;

use norns_ir::Linker;

fn main() -> ExitCode {
    let mut linker = Linker::new();
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let promote = names.first().is_some_and(|name| name == "--promote");
    for name in names.drain(usize::from(promote)..) {
        let outcome = std::fs::read(&name)
            .map_err(|error| format!("cannot read {name}: {error}"))
            .and_then(|bytes| linker.add(&name, &bytes).map_err(|error| error.to_string()));
        if let Err(error) = outcome {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    }
    let mut program = linker.finish();
    if promote {
        program.promote_locals();
    }
    print!("{program}");
    for omission in &program.omissions {
        eprintln!(
            "{}: not understood: {} ({} times)",
            omission.module, omission.what, omission.count
        );
    }
    ExitCode::SUCCESS
}
