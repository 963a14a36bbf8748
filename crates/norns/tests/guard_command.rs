//! `norns guard` and `norns agent` as a user types them, without a hive, with one, and with one that is away.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A folder in which everything of a test is: sources, programs, state of agents, tokens.
struct Place {
    folder: PathBuf,
}

const RACE: &str = "#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
int shared;
static void *write_one(void *unused) {
    shared = 1;
    return unused;
}
int main(int count, char **words) {
    pthread_t thread;
    pthread_create(&thread, 0, write_one, 0);
    shared = 2;
    pthread_join(thread, 0);
    if (count > 1)
        abort();
    write(1, \"done\\n\", 5);
    return shared == 0 ? 1 : 7;
}
";

impl Place {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("guard-command")
            .join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder of the tests is writable");
        Self { folder }
    }

    fn norns(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_norns"));
        command.current_dir(&self.folder).args(words);
        command.env("XDG_STATE_HOME", self.folder.join("state"));
        command.env("XDG_CONFIG_HOME", self.folder.join("config"));
        command.env("NORNS_RUNS", self.folder.join("runs"));
        command
            .env_remove("NORNS_GUARD")
            .env_remove("NORNS_HIVE_TOKEN");
        command.stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.norns(words).output().expect("norns runs")
    }

    /// The same, with the exit status that it has to have.
    fn says(&self, words: &[&str], status: i32) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn source(&self, text: &str) {
        fs::write(self.folder.join("program.c"), text).expect("the folder is writable");
    }

    /// The source as a guarded program.
    fn builds(&self, text: &str) {
        self.source(text);
        let scanned = self.output(&["scan", "--format", "json", "program.c"]);
        fs::write(self.folder.join("sites.json"), scanned.stdout).expect("the folder is writable");
        let built = self
            .norns(&[
                "cc",
                "-O2",
                "-g",
                "-w",
                "-pthread",
                "program.c",
                "-o",
                "program",
            ])
            .env("NORNS_GUARD_SITES", "sites.json")
            .output()
            .expect("norns runs");
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
    }

    fn spooled(&self) -> usize {
        let hives = fs::read_dir(self.folder.join("state/norns/guard/spool"));
        let hives = hives.into_iter().flatten().filter_map(Result::ok);
        hives
            .flat_map(|hive| fs::read_dir(hive.path()).into_iter().flatten())
            .count()
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn verdicts(races: &Value) -> Vec<&str> {
    let races = races["races"].as_array().expect("a list of races");
    races
        .iter()
        .map(|race| race["verdict"].as_str().expect("a word"))
        .collect()
}

/// Waits for what another process does. The test runner has the limit.
fn until<T>(mut get: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(got) = get() {
            return got;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

struct Hive {
    child: Child,
    url: String,
}

impl Hive {
    fn start(place: &Place, listen: &str) -> Self {
        let server = Path::new(env!("CARGO_BIN_EXE_norns")).with_file_name("norns-hive-server");
        assert!(
            server.exists(),
            "there is no {}: cargo build --release",
            server.display()
        );
        let mut child = Command::new(server)
            .args(["--listen", listen, "--data"])
            .arg(place.folder.join("hive"))
            .env("XDG_CONFIG_HOME", place.folder.join("config"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("hive: listening at ").map(str::to_owned));
        Hive {
            url: url.expect("the server says where it listens"),
            child,
        }
    }
}

impl Drop for Hive {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn runs_without_a_hive_find_a_race_that_check_confirms() {
    let place = Place::new("runs");
    place.source(RACE);
    let words = ["guard", "--runs", "40", "--format", "json", "program.c"];
    let found = json(&place.says(&words, 1));
    assert_eq!(found["format"], 1);
    let race = &found["races"][0];
    assert_eq!(
        (&race["verdict"], &race["program"]),
        (&Value::from("true-race"), &Value::from("program"))
    );
    let mut lines = [0, 1].map(|at| race["places"][at]["line"].as_u64());
    lines.sort_unstable();
    assert_eq!(lines, [Some(6), Some(12)]);
    let file = format!(
        "runs/guard/{}.race.json",
        race["id"].as_str().expect("an id")
    );
    let detail = json(&fs::read_to_string(place.folder.join(&file)).expect("it was written"));
    let stacks = detail["evidence"][0]["report"]["stacks"]
        .as_array()
        .expect("stacks");
    assert_eq!(stacks.len(), 2);
    assert_eq!(stacks[0][0]["file"], "program.c");
    let checked = place.says(
        &["check", "--race", &file, "--format", "json", "program.c"],
        1,
    );
    let checked = json(&checked);
    assert_eq!(checked["findings"][0]["status"], "confirmed");
}

#[test]
fn what_is_ordered_is_no_true_race() {
    let place = Place::new("ordered");
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/no_race/reused_block.c");
    place.source(&fs::read_to_string(program).expect("it is in the repository"));
    let found = json(&place.says(
        &["guard", "--runs", "6", "--format", "json", "program.c"],
        0,
    ));
    assert!(!verdicts(&found).contains(&"true-race"));
}

#[test]
fn the_program_of_a_script_is_found() {
    let place = Place::new("script");
    place.builds(RACE);
    let words = [
        "guard",
        "--runs",
        "40",
        "--format",
        "json",
        "--",
        "sh",
        "-c",
        "./program || true",
    ];
    assert!(verdicts(&json(&place.says(&words, 1))).contains(&"true-race"));
    // What is not guarded is said, and no answer.
    let output = place.output(&["guard", "--runs", "3", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("built for norns guard"));
}

#[test]
fn a_dry_run_shows_what_would_be_sent() {
    let place = Place::new("dry");
    place.builds(RACE);
    let output = place.output(&["guard", "--dry-run", "--", "./program"]);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(7), &b"done\n"[..])
    );
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.contains("would send to /v1/programs/program/task"),
        "{said}"
    );
    assert!(said.contains("\"kind\": \"run\""), "{said}");
    let folder = place.folder.display().to_string();
    assert!(!said.contains(&folder), "a path of this machine: {said}");
    assert_eq!(place.spooled(), 0);
}

#[test]
fn a_hive_that_is_away_is_not_noticed_and_hears_of_the_run_later() {
    let place = Place::new("away");
    place.builds(RACE);
    let hive = Hive::start(&place, "127.0.0.1:0");
    let (url, address) = (
        hive.url.clone(),
        hive.url.trim_start_matches("http://").to_owned(),
    );
    place.says(&["hive", "add", "--hive", &url, "program"], 0);
    drop(hive);
    let guard = ["guard", "--hive", &url, "--", "./program"];
    assert_eq!(place.says(&guard, 7), "done\n");
    until(|| (place.spooled() > 0).then_some(()));
    let _hive = Hive::start(&place, &address);
    // The next run brings it along, if the first one's agent has not done so yet.
    assert_eq!(place.says(&guard, 7), "done\n");
    until(|| (place.spooled() == 0).then_some(()));
}

#[test]
fn a_race_goes_from_the_field_to_a_confirmed_finding() {
    let place = Place::new("field");
    place.builds(RACE);
    let hive = Hive::start(&place, "127.0.0.1:0");
    let url = hive.url.clone();
    let added = place.says(&["hive", "add", "--hive", &url, "program"], 0);
    assert!(added.contains("candidates"), "{added}");
    let listed = || {
        json(&String::from_utf8_lossy(
            &place
                .output(&["hive", "races", "--hive", &url, "--format", "json"])
                .stdout,
        ))
    };
    let races = until(|| {
        assert_eq!(
            place.says(&["guard", "--hive", &url, "--", "./program"], 7),
            "done\n"
        );
        let races = listed();
        verdicts(&races).contains(&"true-race").then_some(races)
    });
    let id = races["races"][0]["id"].as_str().expect("an id").to_owned();
    place.says(&["hive", "pull", "--hive", &url, &id, "-o", "race.json"], 0);
    let checked = place.says(
        &[
            "check",
            "--race",
            "race.json",
            "--format",
            "json",
            "program.c",
        ],
        1,
    );
    assert_eq!(json(&checked)["findings"][0]["status"], "confirmed");
}

#[test]
fn the_program_is_the_process_and_its_failure_is_reported() {
    let place = Place::new("fails");
    // Nothing but the failing run: every task is tried in one.
    place.builds(RACE);
    let hive = Hive::start(&place, "127.0.0.1:0");
    let url = hive.url.clone();
    place.says(&["hive", "add", "--hive", &url, "program"], 0);
    let detail = until(|| {
        let output = place.output(&["guard", "--hive", &url, "--", "./program", "fail"]);
        assert_eq!(output.status.signal(), Some(6), "SIGABRT");
        let races = json(&place_races(&place, &url));
        let races = races["races"].as_array().expect("a list").clone();
        races.into_iter().find_map(|race| {
            let id = race["id"].as_str().expect("an id");
            place.says(&["hive", "pull", "--hive", &url, id, "-o", "race.json"], 0);
            let detail = fs::read_to_string(place.folder.join("race.json")).expect("written");
            let detail = json(&detail);
            let report = detail["evidence"][0]["report"].clone();
            (!report["consequence"].is_null()).then_some(report)
        })
    });
    assert_eq!(detail["consequence"]["kind"], "abort");
    let stack = detail["consequence"]["stack"].as_array().expect("a stack");
    assert!(
        stack.iter().any(|frame| frame["function"] == "main"),
        "{stack:?}"
    );
}

fn place_races(place: &Place, url: &str) -> String {
    let output = place.output(&["hive", "races", "--hive", url, "--format", "json"]);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_program_begins_with_the_signals_that_its_parent_gave() {
    let place = Place::new("signals");
    let look = "grep -E 'Sig(Ign|Blk|Cgt)' /proc/self/status";
    for ignored in ["", "PIPE", "HUP INT"] {
        let begin = match ignored {
            "" => String::new(),
            signals => format!("trap '' {signals}; "),
        };
        let alone = Command::new("sh")
            .args(["-c", &format!("{begin}exec {look}")])
            .output()
            .expect("sh runs");
        let norns = env!("CARGO_BIN_EXE_norns");
        let guard =
            format!("{begin}exec {norns} guard --hive http://127.0.0.1:9 --token t -- {look}");
        let guarded = Command::new("sh")
            .args(["-c", &guard])
            .env("XDG_STATE_HOME", place.folder.join("state"))
            .output()
            .expect("sh runs");
        assert!(alone.status.success());
        assert_eq!(guarded.stdout, alone.stdout, "{ignored}");
    }
}

#[test]
fn a_service_is_guarded_by_an_agent_of_its_own() {
    let place = Place::new("service");
    place.builds(RACE);
    let hive = Hive::start(&place, "127.0.0.1:0");
    let url = hive.url.clone();
    place.says(&["hive", "add", "--hive", &url, "program"], 0);
    let mut agent = place
        .norns(&["agent", "--hive", &url, "--folder", "agent", "program"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("norns runs");
    let mut folder = String::new();
    let mut output = BufReader::new(agent.stdout.take().expect("it is piped"));
    output
        .read_line(&mut folder)
        .expect("it says when it is ready");
    let runs = until(|| {
        let run = Command::new(place.folder.join("program"))
            .env("NORNS_GUARD", folder.trim_end())
            .stdout(Stdio::null())
            .status();
        assert_eq!(run.expect("it starts").code(), Some(7));
        let races = json(&place_races(&place, &url));
        let reports = &races["races"][0]["reports"];
        let words = ["race", "no_race", "timeout", "not_seen"];
        let count: u64 = words.iter().filter_map(|word| reports[word].as_u64()).sum();
        (count > 0).then_some(count)
    });
    assert!(runs > 0);
    let stop = Command::new("kill").arg(agent.id().to_string()).status();
    assert!(stop.expect("kill runs").success());
    assert!(agent.wait().expect("it ends").success());
}

#[test]
fn misuse_is_said() {
    let place = Place::new("misuse");
    let fails = |words: &[&str], what: &str| {
        let output = place.output(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(what), "{words:?}: {said}");
    };
    fails(&["guard"], "nothing to guard");
    fails(&["guard", "--", "true"], "--hive URL");
    fails(&["guard", "--hive", "ftp://x", "--", "true"], "http://");
    fails(
        &["guard", "--runs", "2", "--", "./missing"],
        "there is no program",
    );
    fails(&["guard", "--runs", "0", "--", "true"], "--runs");
    fails(&["agent", "--folder", "here"], "--hive");
}

#[test]
fn a_hive_that_never_answers_does_not_hold_the_program() {
    let place = Place::new("silent");
    place.builds(RACE);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = silent.local_addr().expect("it is bound").port();
    let url = format!("http://127.0.0.1:{port}");
    assert_eq!(
        place.says(
            &["guard", "--hive", &url, "--token", "t", "--", "./program"],
            7
        ),
        "done\n"
    );
}
