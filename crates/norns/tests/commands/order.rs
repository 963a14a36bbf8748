//! `norns order`: what it refutes, and what Z3 says of that (`--second-opinion`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Figure 3 of Said et al. (2011), with a second write of the value that is read, and a race on
/// `z`. To come to its write of `y` (10) the second thread has to read 1 in `x`, which the first
/// writes (3 and 13) after its own write of `y` (1).
const TRACE: &str = "norns-trace 1
info accesses ordered
thread T0
thread T1 T0
object mutex 0x0 l
place 0x1
T0 fork T1 @0
T0 write 0x1008 4 @0 r= w=01000000
T0 lock o0 @0
T0 write 0x1000 4 @0 r= w=01000000
T0 unlock o0 @0
T0 write 0x1010 4 @0 r= w=01000000
T1 write 0x1010 4 @0 r= w=02000000
T1 lock o0 @0
T1 read 0x1000 4 @0 r=01000000 w=
T1 unlock o0 @0
T1 write 0x1008 4 @0 r= w=02000000
T0 lock o0 @0
T0 write 0x1000 4 @0 r= w=00000000
T0 write 0x1000 4 @0 r= w=01000000
T0 unlock o0 @0
";

struct Bench {
    folder: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("order-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("trace.txt"), TRACE).unwrap();
        let bench = Bench { folder };
        let imported = bench
            .norns(&["trace", "import", "-o", "trace.norns", "trace.txt"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&imported.stderr);
        assert!(imported.status.success(), "{said}");
        bench
    }

    fn norns(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_norns"));
        command.args(words).current_dir(&self.folder);
        command
    }

    /// Only this program is on the PATH, under the name `z3`; without, none is.
    fn with_z3(&self, words: &[&str], script: Option<&str>) -> Output {
        let bin = self.folder.join("bin");
        if let Some(script) = script {
            let z3 = bin.join("z3");
            fs::write(&z3, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")).unwrap();
            fs::set_permissions(&z3, fs::Permissions::from_mode(0o755)).unwrap();
        }
        self.norns(words).env("PATH", &bin).output().unwrap()
    }
}

/// The status, the standard output, and what the error says.
fn check(output: &Output, status: i32, out: &str, error: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{said}");
    assert!(said.contains(error), "{said}");
}

const ASK: [&str; 8] = [
    "order",
    "--second-opinion",
    "--race",
    "1,10",
    "--race",
    "3,8",
    "--race",
    "5,6",
];

const OURS: &str = "race 1,10: impossible\nrace 3,8: impossible\nrace 5,6: after 5 events\n";

fn ask() -> Vec<&'static str> {
    [&ASK[..], &["trace.norns"]].concat()
}

#[test]
fn z3_refutes_what_our_solver_refutes() {
    let bench = Bench::new("agrees");
    let output = bench.norns(&ask()).output().unwrap();
    let theirs = "race 1,10: impossible says Z3 too\nrace 3,8: impossible says Z3 too\n";
    check(&output, 1, &format!("{OURS}{theirs}"), "");
    // Everything is refuted: nothing was found.
    let words = ["order", "--second-opinion", "--race", "1,10", "trace.norns"];
    let output = bench.norns(&words).output().unwrap();
    let out = "race 1,10: impossible\nrace 1,10: impossible says Z3 too\n";
    check(&output, 0, out, "");
}

#[test]
fn a_solver_that_disagrees_stops_the_command() {
    let bench = Bench::new("disagrees");
    let output = bench.with_z3(&ask(), Some("exec sed -n 's/(check-sat)/sat/p'"));
    let error = "Z3 finds a schedule for race 1,10, which our solver has refuted";
    check(&output, 2, OURS, error);
}

#[test]
fn a_solver_that_does_not_know_is_said() {
    let bench = Bench::new("unknown");
    let output = bench.with_z3(&ask(), Some("exec sed -n 's/(check-sat)/unknown/p'"));
    let theirs = "race 1,10: Z3 does not know\nrace 3,8: Z3 does not know\n";
    check(&output, 1, &format!("{OURS}{theirs}"), "");
}

#[test]
fn a_solver_that_fails_or_is_not_there_is_said() {
    let bench = Bench::new("fails");
    let output = bench.with_z3(&ask(), Some("cat >/dev/null; echo '(error \"no\")'"));
    check(
        &output,
        2,
        OURS,
        "z3 was asked 2 questions and said: (error \"no\")",
    );

    let bench = Bench::new("absent");
    let output = bench.with_z3(&ask(), None);
    check(&output, 2, OURS, "apt-get install z3");
}

#[test]
fn a_cycle_that_is_none_is_refused() {
    let bench = Bench::new("no-cycle");
    let words = [
        "order",
        "--second-opinion",
        "--deadlock",
        "2,7",
        "trace.norns",
    ];
    let output = bench.norns(&words).output().unwrap();
    check(&output, 2, "", "events 2,7 are no cycle");
}
