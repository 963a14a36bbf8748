//! The programs that the tests run besides Norns. One that is missing fails its test, with the
//! package that has it: `./test` installs them all (`scripts/packages.sh`).

use std::process::Command;

/// The name, if the program can be run.
pub fn need(program: &'static str, package: &str) -> &'static str {
    let runs = Command::new(program).arg("--version").output();
    assert!(
        runs.is_ok_and(|output| output.status.success()),
        "{program} is not installed: sudo apt-get install {package}"
    );
    program
}

/// The compilers to wrap: C, C++.
pub fn compilers() -> [(&'static str, &'static str); 3] {
    [
        (need("gcc", "gcc"), need("g++", "g++")),
        (need("clang-14", "clang-14"), need("clang++-14", "clang-14")),
        (need("clang-19", "clang-19"), need("clang++-19", "clang-19")),
    ]
}
