//! What only the build knows: the commit, and for an executable that is installed alone the
//! runtime library. Also puts the links `norns-cc` and `norns-c++` beside the executable, so that a
//! build folder on PATH is enough for `CC=norns-cc make`.
//!
//! `cargo install` copies nothing but executables. There the runtime is built by a second cargo,
//! into a target folder of its own, and `runtime_library.rs` includes it. Builds in the checkout
//! leave it out (`NORNS_EMBED_RUNTIME=no` in `.cargo/config.toml`): the library stands beside the
//! executable, and a change of norns-rt does not rebuild norns.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=NORNS_BUILD={}", build(&here));

    println!("cargo::rerun-if-env-changed=NORNS_EMBED_RUNTIME");
    let embedded = out.join("libnorns_rt.so");
    if env::var_os("NORNS_EMBED_RUNTIME").is_some_and(|set| set == "no") {
        fs::write(&embedded, "").expect("the folder of build results can be written");
        // The folder of build results is target/<profile>/build/<package>-<hash>/out.
        if let Some(profile) = out.ancestors().nth(3) {
            link_wrappers(profile);
        }
    } else {
        let built = build_runtime(&here, &out.join("runtime"));
        fs::copy(&built, &embedded)
            .unwrap_or_else(|error| panic!("cannot copy {}: {error}", built.display()));
    }
}

fn link_wrappers(folder: &Path) {
    for name in ["norns-cc", "norns-c++"] {
        let made = std::os::unix::fs::symlink("norns", folder.join(name));
        if let Err(error) = made
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            println!("cargo::warning=cannot link {name}: {error}");
        }
    }
}

/// The commit in parentheses, or nothing where git cannot tell.
fn build(here: &Path) -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").current_dir(here).args(words).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
    };
    // Of another repository that contains an unpacked archive of Norns the commit says nothing.
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_none() {
        return String::new();
    }
    // Every commit and checkout adds a line there.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={}", here.join(log).display());
    }
    git(&["rev-parse", "--short=10", "HEAD"]).map_or(String::new(), |commit| format!(" ({commit})"))
}

fn build_runtime(here: &Path, target: &Path) -> PathBuf {
    let root = here.join("../..");
    for part in ["crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let status = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args(["build", "--release", "--locked", "--package", "norns-rt"])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        // With a target triple the result would stand in another folder.
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .unwrap_or_else(|error| panic!("cannot run cargo for the runtime library: {error}"));
    assert!(status.success(), "the runtime library does not build");
    target.join("release/libnorns_rt.so")
}
