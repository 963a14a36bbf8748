//! What a program gets from outside while it runs: clients of servers, standard input, files, the time and
//! random bytes.

use std::fs;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("inputs-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn program(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/inputs");
    programs.join(format!("{name}.c"))
}

/// Runs `norns` in a folder of its own.
fn norns(folder: &Path, words: &[&str]) -> Output {
    Command::new(NORNS)
        .args(words)
        .env("NORNS_RUNS", folder.join("runs"))
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Checks a program of `tests/programs/inputs` with these options and arguments: the exit status, what
/// it says and what it does not say.
fn check(
    name: &str,
    source: &str,
    options: &[&str],
    arguments: &[&str],
    status: i32,
    said: &[&str],
    unsaid: &[&str],
) {
    let folder = folder(name);
    let source = program(source);
    let mut words = vec!["check", source.to_str().unwrap()];
    words.extend(options);
    words.push("--");
    words.extend(arguments);
    let output = norns(&folder, &words);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(status), "{name}: {text}");
    for sentence in said {
        assert!(text.contains(sentence), "{name} lacks `{sentence}`: {text}");
    }
    for sentence in unsaid {
        assert!(!text.contains(sentence), "{name} says `{sentence}`: {text}");
    }
}

/// A client with two connections that are open at the same time, and three requests through each.
const TWO_CONNECTIONS: &str = r#"bash -c '
    exec 3<>/dev/tcp/127.0.0.1/$NORNS_PORT 4<>/dev/tcp/127.0.0.1/$NORNS_PORT
    for i in 1 2 3; do
        echo "add 1" >&3; read -r sum <&3
        echo "add 2" >&4; read -r sum <&4
    done'"#;

#[test]
fn a_server_is_checked_with_its_client() {
    for way in ["", "plain"] {
        check(
            &format!("server-{way}"),
            "server",
            &["--client", TWO_CONNECTIONS],
            &[way],
            1,
            &["confirmed", "server.c:23"],
            &["signal", "not analysed", "the client"],
        );
    }
}

#[test]
fn a_server_that_does_not_stop_is_killed() {
    check(
        "stubborn",
        "server",
        &["--client", TWO_CONNECTIONS, "--runs", "1"],
        &["stubborn"],
        1,
        &["confirmed", "did not end after SIGTERM and was killed"],
        &[],
    );
}

#[test]
fn what_is_wrong_with_a_client_is_said() {
    let one = ["--runs", "1", "--client"];
    check(
        "client-fails",
        "server",
        &[&one[..], &["echo no server >&2; exit 7"]].concat(),
        &[],
        2,
        &["the client exited with status 7", "`no server`"],
        &[],
    );
    let folder = folder("client-not-started");
    fs::write(folder.join("program.c"), "int main(void) { return 0; }").unwrap();
    let words = [&["check", "program.c"], &one[..], &["true"]].concat();
    let output = norns(&folder, &words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("was not started, since the program did not listen"),
        "{text}"
    );
}

#[test]
fn a_program_is_stopped_when_its_time_is_over() {
    check(
        "until",
        "server",
        &["--until", "0.5", "--runs", "1"],
        &["plain"],
        2,
        &["nothing was analysed"],
        &["signal 15", "in the time"],
    );
    check(
        "until-never",
        "server",
        &["--until", "soon"],
        &[],
        2,
        &["it must be a number of seconds above 0"],
        &[],
    );
}

#[test]
fn a_server_is_recorded_with_its_client() {
    let folder = folder("record");
    let build = Command::new(NORNS)
        .args(["cc", "-g", "-pthread", "-o", "server"])
        .arg(program("server"))
        .current_dir(&folder)
        .status()
        .unwrap();
    assert!(build.success());
    let words = ["record", "--client", TWO_CONNECTIONS, "./server", "plain"];
    let output = norns(&folder, &words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("of 3 threads"), "{text}");
}

/// Checks `reader` with this standard input: what it printed in its recordings.
fn check_reader(name: &str, input: Stdio) -> String {
    let folder = folder(name);
    let output = Command::new(NORNS)
        .args(["check", "--runs", "3"])
        .arg(program("reader"))
        .env("NORNS_RUNS", folder.join("runs"))
        .current_dir(&folder)
        .stdin(input)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{name}: {text}");
    // A replay can show it only with the same numbers.
    assert!(text.contains("reader.c:14"), "{name}: {text}");
    let printed = Command::new("sh")
        .args(["-c", "cat runs/*/output.txt"])
        .current_dir(&folder)
        .output()
        .unwrap();
    String::from_utf8(printed.stdout).unwrap()
}

#[test]
fn every_run_reads_the_same_standard_input() {
    let mut numbers = Command::new("printf")
        .arg("1 2 7 3")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = numbers.stdout.take().unwrap();
    let piped = check_reader("piped", pipe.into());
    numbers.wait().unwrap();
    assert_eq!(
        piped.matches("other at -1\n4 numbers").count(),
        3,
        "{piped}"
    );

    let folder = folder("regular-file");
    fs::write(folder.join("numbers"), "5 1 2 7 3").unwrap();
    let mut file = fs::File::open(folder.join("numbers")).unwrap();
    file.seek(SeekFrom::Start(2)).unwrap();
    let regular = check_reader("regular", file.into());
    assert_eq!(
        regular.matches("regular at 2\n4 numbers").count(),
        3,
        "{regular}"
    );
}

/// The names and contents of the files in a folder, as `find` and `cat` know them.
fn listing(folder: &Path) -> String {
    let command =
        "find . -mindepth 1 | sort; for f in log stale new renamed folder/inside; do cat $f; done";
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with the files that `files` wants to find.
fn folder_of_files(name: &str) -> PathBuf {
    let folder = folder(name);
    for (file, text) in [("log", "one\n"), ("stale", "stale\n"), ("old", "old\n")] {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

#[test]
fn only_the_recorded_run_changes_files() {
    let alone = folder_of_files("files-alone");
    let runs = folder("files-runs");
    let build = Command::new(NORNS)
        .args(["cc", "-g", "-pthread", "-o"])
        .arg(runs.join("files"))
        .arg(program("files"))
        .status()
        .unwrap();
    assert!(build.success());
    let status = Command::new(runs.join("files"))
        .current_dir(&alone)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));

    let checked = folder_of_files("files-checked");
    let norns = |words: &[&str]| {
        let output = Command::new(NORNS)
            .args(words)
            .env("NORNS_RUNS", runs.join("runs"))
            .current_dir(&checked)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let program = runs.join("files");
    let (status, text) = norns(&["check", "--runs", "3", "--", program.to_str().unwrap()]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("files.c:41"), "{text}");
    assert!(!text.contains("not analysed"), "{text}");
    assert_eq!(listing(&checked), listing(&alone));
    // The kept run changes nothing either, and happens as often as it is asked for.
    let id = text.split_whitespace().rfind(|word| word.len() == 4);
    let (status, text) = norns(&["replay", id.unwrap(), "--times", "3"]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(listing(&checked), listing(&alone));
}

/// A client that talks to the server once only.
fn once(client: &str) -> String {
    format!("if mkdir used; then {client}; else exit 9; fi")
}

#[test]
fn replays_need_no_client() {
    let folder = folder("played");
    let source = program("server");
    let client = once(TWO_CONNECTIONS);
    let check = ["check", source.to_str().unwrap(), "--runs", "1"];
    let output = norns(&folder, &[&check[..], &["--client", &client]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("not analysed"), "{text}");
    let id = text.split_whitespace().rfind(|word| word.len() == 4);
    let output = norns(&folder, &["replay", id.unwrap(), "--times", "3"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("happened 3 of 3 times"), "{text}");
}

#[test]
fn a_client_whose_words_are_not_seen_talks_to_replays() {
    let folder = folder("not-played");
    let source = fs::read_to_string(program("server")).unwrap();
    // The C library reads by itself.
    let source = source.replace(
        "while ((length = read(connection, line, sizeof line - 1)) > 0) {",
        "FILE *stream = fdopen(connection, \"r\");\n\
         while (fgets(line, sizeof line, stream) && (length = strlen(line)) > 0) {",
    );
    fs::write(folder.join("server.c"), source).unwrap();
    let output = norns(
        &folder,
        &[
            "check",
            "server.c",
            "--runs",
            "1",
            "--client",
            TWO_CONNECTIONS,
        ],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for sentence in [
        "read in a way that is not seen",
        "so the client talks to every replay",
    ] {
        assert!(text.contains(sentence), "lacks `{sentence}`: {text}");
    }
}

#[test]
fn replays_get_the_recorded_time_and_random_bytes() {
    let folder = folder("chance");
    let source = program("chance");
    let words = [
        "check",
        source.to_str().unwrap(),
        "--runs",
        "1",
        "--",
        "log",
    ];
    let output = norns(&folder, &words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("not analysed"), "{text}");
    let recorded = fs::read_to_string(folder.join("log")).unwrap();
    assert!(recorded.ends_with("| waited\n"), "{recorded}");
    assert_eq!(recorded.lines().count(), 1, "{recorded}");
    assert_eq!(written_by_last_replay(&folder, "log"), recorded);
}

#[test]
fn replays_know_themselves_by_the_recorded_process_id() {
    let folder = folder("process_id");
    let source = program("process_id");
    let source = source.to_str().unwrap();
    let output = norns(&folder, &["check", source, "--runs", "1", "--", "log"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let recorded = fs::read_to_string(folder.join("log")).unwrap();
    assert!(recorded.ends_with(" agrees agrees\n"), "{recorded}");
    assert_eq!(written_by_last_replay(&folder, "log"), recorded);
}

/// What the last replay has left in its own copy of a file.
fn written_by_last_replay(folder: &Path, name: &str) -> String {
    let find = format!("cat $(find runs -path '*/replays/files/*' -name {name})");
    let output = Command::new("sh")
        .args(["-c", &find])
        .current_dir(folder)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
