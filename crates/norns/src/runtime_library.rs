//! Where the runtime library is, and what the wrapper keeps on disk to link it: a folder for gcc,
//! an object with the hooks of an executable.
//!
//! The library stands beside the `norns` executable, or in `../lib/norns` of an installation. An
//! executable that `cargo install` put somewhere alone contains it, and writes it to the user's
//! data folder when it is first needed. `NORNS_RUNTIME` names another one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

pub const NAME: &str = "libnorns_rt.so";

/// The library itself, empty where it stands beside the executable: `build.rs`.
const EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnorns_rt.so"));

/// The hooks that are linked into executables themselves.
const HOOKS: &str = include_str!("../../norns-rt/src/fast.s");

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
    if EMBEDDED.is_empty() {
        bail!(
            "the runtime {NAME} is not beside {}\n help: cargo build --release --workspace",
            own.display()
        )
    }
    unpack()
}

/// Writes the embedded library, unless it is there already. Programs are linked with its absolute
/// path, so every version has a folder of its own, which stays.
fn unpack() -> anyhow::Result<PathBuf> {
    let data = env::var_os("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/share")))
        .context("there is no folder for the runtime: neither XDG_DATA_HOME nor HOME is set")?;
    let folder = data
        .join("norns")
        .join(format!("runtime-{:016x}", fnv(EMBEDDED)));
    ensure_file(&folder, NAME, EMBEDDED)
        .with_context(|| format!("cannot write {}", folder.join(NAME).display()))?;
    Ok(folder.join(NAME))
}

/// A folder with a `libtsan.so` that is a linker script naming the runtime: what `-ltsan` finds.
/// It is made when missing, beside the runtime or else in the user's cache.
pub fn gcc_shim(runtime: &Path) -> anyhow::Result<PathBuf> {
    let script = format!(
        "/* The ThreadSanitizer runtime that gcc asks for is Norns's. */\nINPUT(\"{}\")\n",
        runtime.display()
    );
    let mut last_error = None;
    for folder in own_folders(runtime) {
        match ensure_file(&folder, "libtsan.so", script.as_bytes()) {
            Ok(()) => return Ok(folder),
            Err(error) => last_error = Some((folder, error)),
        }
    }
    let (folder, error) = last_error.expect("at least one folder was tried");
    Err(error).with_context(|| format!("cannot write {}", folder.join("libtsan.so").display()))
}

/// Where files of ours that go with this runtime may be: beside it, or else in the user's cache.
pub fn own_folders(runtime: &Path) -> impl Iterator<Item = PathBuf> {
    let beside = runtime
        .parent()
        .unwrap_or(Path::new("/"))
        .join("norns-gcc-shim");
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    // One folder for every runtime, since several may be used by turns.
    let name = format!(
        "gcc-shim-{:016x}",
        fnv(runtime.as_os_str().as_encoded_bytes())
    );
    let cache = cache.map(|cache| cache.join("norns").join(name));
    [Some(beside), cache].into_iter().flatten()
}

/// The object with the hooks of an executable, assembled when it is missing. Without it the
/// program calls the hooks of the runtime, which is slower and the same otherwise; so `None` when
/// this compiler cannot assemble it.
pub fn hooks_object(runtime: &Path, compiler: &[OsString]) -> Option<PathBuf> {
    let stem = format!("hooks-{:016x}", fnv(HOOKS.as_bytes()));
    let name = format!("{stem}.o");
    let found = own_folders(runtime)
        .map(|folder| folder.join(&name))
        .find(|path| path.exists());
    if found.is_some() {
        return found;
    }
    own_folders(runtime).find_map(|folder| {
        let source = format!("{stem}.s");
        ensure_file(&folder, &source, HOOKS.as_bytes()).ok()?;
        // Many compilers run at once: the file appears whole or not at all.
        let draft = folder.join(format!(".{name}.{}", std::process::id()));
        let (program, words) = compiler.split_first()?;
        let assembled = Command::new(program)
            .args(words)
            .args(["-c", "-x", "assembler"])
            .arg(folder.join(source))
            .arg("-o")
            .arg(&draft)
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success());
        let path = folder.join(&name);
        let placed = assembled && fs::rename(&draft, &path).is_ok();
        if !placed {
            let _ = fs::remove_file(&draft);
        }
        placed.then_some(path)
    })
}

/// Keeps a file in one of our folders, under a name that says what it is and its content.
pub fn keep(content: &[u8], what: &str) -> anyhow::Result<PathBuf> {
    let name = format!("{what}-{:016x}", fnv(content));
    let runtime = find()?;
    let mut folders = own_folders(&runtime);
    let kept = folders.find_map(|folder| {
        ensure_file(&folder, &name, content).ok()?;
        Some(folder.join(&name))
    });
    kept.with_context(|| format!("there is no folder in which the file {name} can be written"))
}

fn ensure_file(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    // Many compilers run at once: the file appears whole or not at all.
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    let written = fs::File::create(&draft).and_then(|mut file| file.write_all(content));
    let placed = written.and_then(|()| fs::rename(&draft, &path));
    if placed.is_err() {
        let _ = fs::remove_file(&draft);
    }
    placed
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf29ce484222325, |hash, &byte| {
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
