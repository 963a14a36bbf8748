//! `./norns install`, and the question before system packages are installed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_installed_norns_needs_nothing_of_the_checkout() {
    let folder = folder("install");
    let prefix = folder.join("usr");
    let built = Path::new(env!("CARGO_BIN_EXE_norns")).parent().unwrap();
    succeed(
        Command::new(root().join("scripts/install.sh"))
            .arg("--prefix")
            .arg(&prefix)
            .env("NORNS_BUILT", built),
    );
    for file in [
        "share/man/man1/norns-check.1",
        "share/bash-completion/completions/norns",
        "share/zsh/site-functions/_norns",
        "share/fish/vendor_completions.d/norns.fish",
        "share/doc/norns/README.md",
        "share/doc/norns/LICENSE",
    ] {
        let text = fs::read_to_string(prefix.join(file)).expect(file);
        assert!(!text.is_empty(), "{file}");
    }

    let program = folder.join("program");
    let source = root().join("tests/programs/race/lost_update.c");
    succeed(
        Command::new(prefix.join("bin/norns-cc"))
            .args(["-pthread", "-o"])
            .args([&program, &source])
            .env("HOME", &folder),
    );
    let libraries = succeed(Command::new("ldd").arg(&program));
    let runtime = fs::canonicalize(&prefix).unwrap();
    let runtime = runtime.join("lib/norns/libnorns_rt.so");
    assert!(libraries.contains(runtime.to_str().unwrap()), "{libraries}");
    // Linker script and hooks are part of the installation, not made in the user's cache.
    assert!(!folder.join(".cache").exists());

    let checked = Command::new(prefix.join("bin/norns"))
        .args(["check", "--"])
        .arg(&program)
        .current_dir(&folder)
        .env("HOME", &folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
}

#[test]
fn a_prefix_that_cannot_be_written_is_an_error() {
    let folder = folder("install-nowhere");
    let file = folder.join("file");
    fs::write(&file, "").unwrap();
    let output = Command::new(root().join("scripts/install.sh"))
        .arg("--prefix")
        .arg(file.join("usr"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Asks for the package `left-pad`, which is missing, with stand-ins for dpkg and apt; the answer
/// is typed on a terminal, if there is one. Returns what apt was asked to install.
fn ensure_packages(name: &str, answer: Option<&str>) -> (Output, String) {
    let folder = folder(name);
    let stand_in = |program: &str, text: &str| {
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    stand_in("dpkg-query", "exit 1");
    stand_in("id", "echo 0");
    let log = folder.join("apt.log");
    stand_in("apt-get", &format!("echo \"$*\" >>'{}'", log.display()));
    let script = folder.join("ask.sh");
    let packages = root().join("scripts/packages.sh");
    fs::write(
        &script,
        format!(
            "set -eu\nPATH='{folder}':$PATH\n. '{packages}'\nensure_packages '{folder}' left-pad\n",
            folder = folder.display(),
            packages = packages.display()
        ),
    )
    .unwrap();
    let mut command = match answer {
        // `script` gives the shell a terminal, and passes on its exit status.
        Some(_) => {
            let mut command = Command::new("script");
            let shell = format!("sh '{}'", script.display());
            command.args(["-qec", &shell, "/dev/null"]);
            command
        }
        None => {
            let mut command = Command::new("sh");
            command.arg(&script);
            command
        }
    };
    let mut child = command
        .env_remove("CI")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(answer.unwrap_or("").as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let installed = fs::read_to_string(&log).unwrap_or_default();
    (output, installed)
}

#[test]
fn on_a_terminal_missing_packages_are_named_and_asked_for() {
    let (output, installed) = ensure_packages("packages-no", Some("n\n"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(installed, "");
    let asked = String::from_utf8_lossy(&output.stdout);
    assert!(asked.contains("left-pad"), "{asked}");

    let (output, installed) = ensure_packages("packages-yes", Some("y\n"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(installed.contains("left-pad"), "{installed}");
}

#[test]
fn without_a_terminal_missing_packages_are_installed() {
    let (output, installed) = ensure_packages("packages", None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(installed.contains("left-pad"), "{installed}");
}
