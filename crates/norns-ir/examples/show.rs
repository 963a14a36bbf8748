//! Prints the program that modules of bitcode make: `cargo run -p norns-ir --example show -- a.bc b.bc`.

use std::process::ExitCode;

use norns_ir::Linker;

fn main() -> ExitCode {
    let mut linker = Linker::new();
    for name in std::env::args().skip(1) {
        let outcome = std::fs::read(&name)
            .map_err(|error| format!("cannot read {name}: {error}"))
            .and_then(|bytes| linker.add(&name, &bytes).map_err(|error| error.to_string()));
        if let Err(error) = outcome {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    }
    let program = linker.finish();
    print!("{program}");
    for omission in &program.omissions {
        eprintln!(
            "{}: not understood: {} ({} times)",
            omission.module, omission.what, omission.count
        );
    }
    ExitCode::SUCCESS
}
