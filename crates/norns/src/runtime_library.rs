//! Where the runtime library is, and what the wrapper keeps on disk to link it with gcc.
//!
//! The library stands beside the `norns` executable. `NORNS_RUNTIME` names another one.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const NAME: &str = "libnorns_rt.so";

/// The runtime library's absolute path.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(path) = env::var_os("NORNS_RUNTIME").filter(|path| !path.is_empty()) {
        return fs::canonicalize(&path).with_context(|| {
            format!("cannot find the runtime {} (NORNS_RUNTIME)", path.display())
        });
    }
    let own = env::current_exe().context("cannot find the norns executable")?;
    let own = fs::canonicalize(&own).unwrap_or(own);
    let folder = own.parent().unwrap_or(Path::new("/"));
    // An installed Norns may keep it in lib; a test build of cargo in deps.
    for place in [
        folder.join(NAME),
        folder.join("../lib/norns").join(NAME),
        folder.join("deps").join(NAME),
    ] {
        if let Ok(path) = fs::canonicalize(&place) {
            return Ok(path);
        }
    }
    bail!(
        "the runtime {NAME} is not beside {}\n help: cargo build --release --workspace",
        own.display()
    )
}

/// A folder with a `libtsan.so` that is a linker script naming the runtime: what `-ltsan` finds.
/// It is made when missing, beside the runtime or else in the user's cache.
pub fn gcc_shim(runtime: &Path) -> anyhow::Result<PathBuf> {
    let script = format!(
        "/* The ThreadSanitizer runtime that gcc asks for is Norns's. */\nINPUT(\"{}\")\n",
        runtime.display()
    );
    let beside = runtime
        .parent()
        .unwrap_or(Path::new("/"))
        .join("norns-gcc-shim");
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    // One folder for every runtime, since several may be used by turns.
    let name = format!("gcc-shim-{:016x}", fnv(runtime.as_os_str()));
    let places = [
        Some(beside),
        cache.map(|cache| cache.join("norns").join(&name)),
    ];
    let mut last_error = None;
    for folder in places.into_iter().flatten() {
        match ensure_file(&folder, "libtsan.so", &script) {
            Ok(()) => return Ok(folder),
            Err(error) => last_error = Some((folder, error)),
        }
    }
    let (folder, error) = last_error.expect("at least one folder was tried");
    Err(error).with_context(|| format!("cannot write {}", folder.join("libtsan.so").display()))
}

fn ensure_file(folder: &Path, name: &str, content: &str) -> std::io::Result<()> {
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    // Many compilers run at once: the file appears whole or not at all.
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    let written = fs::File::create(&draft).and_then(|mut file| file.write_all(content.as_bytes()));
    let placed = written.and_then(|()| fs::rename(&draft, &path));
    if placed.is_err() {
        let _ = fs::remove_file(&draft);
    }
    placed
}

fn fnv(text: &OsStr) -> u64 {
    text.as_encoded_bytes()
        .iter()
        .fold(0xcbf29ce484222325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3)
        })
}

/// The file that the shell would run for this name.
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let runs = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return runs(&path).then_some(path);
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| runs(path))
}
