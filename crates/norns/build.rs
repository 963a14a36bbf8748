//! Puts the links `norns-cc` and `norns-c++` beside the executable, so that a build folder on PATH
//! is enough for `CC=norns-cc make`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    // target/<profile>/build/<package>-<hash>/out
    if let Some(folder) = Path::new(&out).ancestors().nth(3) {
        for name in ["norns-cc", "norns-c++"] {
            // It may be there already; and nothing but convenience depends on it.
            let _ = std::os::unix::fs::symlink("norns", folder.join(name));
        }
    }
}
