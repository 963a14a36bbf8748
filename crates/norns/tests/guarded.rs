//! Guarded programs: `norns cc` puts sites into them, and the runtime tries the tasks that this test, in the place of
//! the agent, gives to them through their file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use norns_hive::embedded::build_of;
use norns_hive::protocol::Build;
use norns_wire::environment;
use norns_wire::guarding::{
    ATTENTION, ATTENTION_AT, Attempt, Evidence, FailureKind, Outcome, SIZE, State, TASK_AT, Task,
    View, prepare,
};

/// A program with sites, in a folder of its own in which its files of an agent are.
struct Guarded {
    folder: PathBuf,
    program: PathBuf,
    build: Build,
}

/// The text of a program of tests/programs.
fn test_program(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    fs::read_to_string(root.join(name)).expect("the program is in the repository")
}

fn norns(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_norns"));
    command.current_dir(folder).args(words);
    command.env_remove(environment::GUARD);
    command.stdin(Stdio::null());
    command
}

impl Guarded {
    /// Scans and builds a C program.
    fn new(name: &str, text: &str, options: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("guarded")
            .join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("agent")).expect("the folder of the tests is writable");
        fs::write(folder.join("program.c"), text).expect("the folder is new");
        let scanned = norns(&folder, &["scan", "--format", "json", "program.c"])
            .output()
            .expect("norns runs");
        fs::write(folder.join("sites.json"), &scanned.stdout).expect("the folder is new");
        let built = norns(
            &folder,
            &["cc", "-g", "-pthread", "program.c", "-o", "program"],
        )
        .args(options)
        .env("NORNS_GUARD_SITES", "sites.json")
        .output()
        .expect("norns runs");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{name}: {said}");
        let program = folder.join("program");
        let build = build_of(&program).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
        Self {
            folder,
            program,
            build,
        }
    }

    /// The two lines of a task: the access that is to come first, and the other.
    fn lines(&self, attempt: &Attempt) -> [u32; 2] {
        let line = |number| {
            let site = self.build.sites.iter().find(|site| site.number.0 == number);
            site.map_or(0, |site| site.line)
        };
        let mut lines = attempt.sides.map(|side| line(side.site));
        lines.sort_unstable();
        lines
    }

    /// Every candidate in both orders.
    fn orders(&self) -> Vec<[u32; 2]> {
        let mut orders = Vec::new();
        for candidate in &self.build.candidates {
            for one in &candidate.sites[0] {
                for other in &candidate.sites[1] {
                    orders.extend([[one.0, other.0], [other.0, one.0]]);
                }
            }
        }
        orders.dedup();
        orders
    }

    fn spare(&self, task: &Task) {
        let mut image = vec![0; SIZE];
        prepare(&mut image, self.build.id.as_str(), task).expect("an image of the right size");
        let spare = format!("agent/{}-0", self.build.id);
        fs::write(self.folder.join(spare), image).expect("the folder is writable");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env(environment::GUARD, self.folder.join("agent"));
        command
    }

    /// Where the process with this id has its file.
    fn file_of(&self, process: u32) -> PathBuf {
        let name = format!("agent/{}-run-{process}", self.build.id);
        self.folder.join(name)
    }

    fn run(&self, task: &Task) -> Run {
        self.spare(task);
        let mut command = self.command();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let file = self.file_of(child.id());
        let output = child.wait_with_output().expect("the program ends");
        Run {
            file: fs::read(&file).expect("the program has taken its file"),
            output,
        }
    }

    /// Runs the program with all its tasks by turns, as a hive would, until a race is found or the runs are over.
    /// The lines of the race, and how often it ran.
    fn search(&self, most: u64) -> Option<([u32; 2], u64)> {
        let orders = self.orders();
        let waits = [1, 50, 100, 150, 200];
        let rounds = waits
            .iter()
            .flat_map(|tau| orders.iter().map(move |order| (*order, *tau)));
        let mut serial = 0;
        for (order, tau_ms) in rounds.cycle() {
            serial += 1;
            if serial > most || orders.is_empty() {
                return None;
            }
            let run = self.run(&task(serial, order, tau_ms));
            if let Some(race) = run.race() {
                return Some((self.lines(&race), serial));
            }
        }
        None
    }
}

fn task(serial: u64, [first, second]: [u32; 2], tau_ms: u32) -> Task {
    Task {
        serial,
        first,
        second,
        tau_ms,
    }
}

/// What a run has left.
struct Run {
    file: Vec<u8>,
    output: Output,
}

impl Run {
    fn view(&self) -> View<'_> {
        View::of(&self.file).expect("the header is as the test has written it")
    }

    fn status(&self) -> ExitStatus {
        self.output.status
    }

    fn race(&self) -> Option<Attempt> {
        let mut attempts = self.view().attempts(0);
        attempts.find(|attempt| attempt.outcome == Outcome::Race)
    }
}

/// Waits for what another process does, without a limit of its own: the test runner has one.
fn until<T>(mut get: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(got) = get() {
            return got;
        }
        std::thread::yield_now();
    }
}

const TWO_WRITERS: &str = "#include <pthread.h>
#include <stdlib.h>
int shared;
static void *write_one(void *unused) {
    shared = 1;
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, write_one, 0);
    shared = 2;
    pthread_join(thread, 0);
    if (getenv(\"FAILS\"))
        abort();
    return shared == 0 ? 1 : 7;
}
";

#[test]
fn races_behind_an_accidental_order_are_found_by_steering() {
    for (name, lines) in [
        ("race/hidden_by_lock_order.c", [12, 19]),
        ("race/hidden_by_two_locks.c", [0, 0]),
        ("race/hidden_by_a_third.c", [0, 0]),
        ("race/lost_update.c", [0, 0]),
        ("race/write_under_read_locks.c", [9, 18]),
    ] {
        let text = test_program(name);
        let guarded = Guarded::new(&name.replace('/', "-"), &text, &[]);
        let (found, runs) = guarded
            .search(49)
            .unwrap_or_else(|| panic!("{name}: no race in 49 runs"));
        let finds = |line: u32| {
            let line = text.lines().nth(line as usize - 1).unwrap_or("");
            line.contains("// finds: data-race")
        };
        assert!(
            found.into_iter().all(finds),
            "{name}: {found:?} after {runs}"
        );
        assert!(lines == [0, 0] || lines == found, "{name}: {found:?}");
    }
}

#[test]
fn what_synchronisation_orders_never_races() {
    for name in [
        "no_race/condition.c",
        "no_race/polled_pipe.c",
        "no_race/reference_count.c",
        "no_race/reused_block.c",
        "no_race/unusual_locking.c",
        "no_race/two_queues.c",
        "spin_loop/locked_flag.c",
        "spin_loop/test_and_set.c",
    ] {
        let folder = name.replace('/', "-");
        let Some(guarded) = Guarded::if_it_has_sites(&folder, &test_program(name)) else {
            continue;
        };
        assert_eq!(guarded.search(8), None, "{name}");
    }
}

impl Guarded {
    /// `None` where the scan already knows that nothing races.
    fn if_it_has_sites(name: &str, text: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("guarded")
            .join(name);
        fs::create_dir_all(&folder).expect("the folder of the tests is writable");
        fs::write(folder.join("program.c"), text).expect("the folder is writable");
        let scanned = norns(&folder, &["scan", "--format", "json", "program.c"])
            .output()
            .expect("norns runs");
        let text_of_scan = String::from_utf8_lossy(&scanned.stdout);
        let has_race = text_of_scan.contains("\"data-race\"");
        has_race.then(|| Self::new(name, text, &[]))
    }
}

#[test]
fn the_data_behind_a_flag_does_not_race_even_where_the_flag_does() {
    for name in [
        "spin_loop/with_yield.c",
        "spin_loop/two_flags.c",
        "spin_loop/sleeping.c",
    ] {
        let text = test_program(name);
        let guarded = Guarded::new(&name.replace('/', "-"), &text, &[]);
        for (serial, order) in (1..).zip(guarded.orders()) {
            for tau_ms in [1, 50] {
                let Some(race) = guarded.run(&task(serial, order, tau_ms)).race() else {
                    continue;
                };
                for line in guarded.lines(&race) {
                    let line = text.lines().nth(line as usize - 1).unwrap_or("");
                    assert!(line.contains("// finds: data-race"), "{name}: {line}");
                }
            }
        }
    }
}

#[test]
fn a_race_has_both_stacks_and_what_is_mapped() {
    let guarded = Guarded::new("stacks", TWO_WRITERS, &["-O2"]);
    let order = guarded.orders()[0];
    let (run, race) = until(|| {
        let run = guarded.run(&task(1, order, 200));
        run.race().map(|race| (run, race))
    });
    assert_eq!(guarded.lines(&race), [5, 11]);
    assert_ne!(race.evidence, Evidence::None);
    assert_ne!(race.sides[0].thread, race.sides[1].thread);
    assert_eq!(race.sides[0].address, race.sides[1].address);
    let is_mapped = |pc: u64| {
        run.view().maps().lines().any(|line| {
            let (from, to) = line
                .split_once(' ')
                .and_then(|it| it.0.split_once('-'))
                .unwrap_or(("0", "0"));
            let bound = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            line.ends_with("/program") && (bound(from)..bound(to)).contains(&pc)
        })
    };
    for side in &race.sides {
        assert!(side.writes && side.size == 4);
        assert!(is_mapped(side.stack.frames()[0]), "{}", run.view().maps());
    }
    assert_eq!(run.view().applied(), 1);
    let process = run.view().process().expect("a process");
    assert_eq!((process.state, process.status), (State::Ended, 7));
}

#[test]
fn the_program_does_not_notice() {
    let guarded = Guarded::new("notices-nothing", TWO_WRITERS, &["-O2"]);
    let alone = Command::new(&guarded.program).status().expect("it starts");
    assert_eq!(alone.code(), Some(7));
    // No folder, an empty one, a file of another build, one that is cut off.
    let status = |prepare: &dyn Fn()| {
        prepare();
        let status = guarded.command().status();
        status.expect("it starts").code()
    };
    assert_eq!(status(&|| {}), Some(7));
    let spare = guarded.folder.join(format!("agent/{}-0", guarded.build.id));
    assert_eq!(
        status(&|| fs::write(&spare, "short").expect("writable")),
        Some(7)
    );
    let mut foreign = vec![0; SIZE];
    prepare(&mut foreign, "0123456789abcdef", &Task::NONE).expect("an image of the right size");
    assert_eq!(
        status(&|| fs::write(&spare, &foreign).expect("writable")),
        Some(7)
    );
    assert_eq!(guarded.run(&Task::none(1)).status().code(), Some(7));
    for order in guarded.orders() {
        assert_eq!(guarded.run(&task(1, order, 50)).status().code(), Some(7));
    }
}

#[test]
fn a_failure_is_written_down_and_happens_all_the_same() {
    let guarded = Guarded::new("failure", TWO_WRITERS, &[]);
    guarded.spare(&task(5, guarded.orders()[0], 50));
    let mut child = guarded
        .command()
        .env("FAILS", "1")
        .spawn()
        .expect("it starts");
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(6), "SIGABRT");
    let file = fs::read(guarded.file_of(child.id())).expect("it has taken its file");
    let view = View::of(&file).expect("a file of ours");
    let failure = view.failure().expect("it has failed");
    assert_eq!((failure.kind, failure.serial), (FailureKind::Abort, 5));
    assert!(!failure.stack.frames().is_empty());
    assert_eq!(view.process().map(|it| it.state), Some(State::Dying));
}

/// Locks and unlocks for every line of its input, and answers with one.
const SERVER: &str = "#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int requests;
static void *work(void *unused) {
    requests++;
    return unused;
}
int main(void) {
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        pthread_t one, other;
        pthread_create(&one, 0, work, 0);
        pthread_create(&other, 0, work, 0);
        pthread_join(one, 0);
        pthread_join(other, 0);
        if (line[0] == 'f') {
            pid_t child = fork();
            if (child == 0) {
                pthread_mutex_lock(&lock);
                requests++;
                _exit(0);
            }
            waitpid(child, 0, 0);
        }
        puts(\"done\");
        fflush(stdout);
    }
    return 0;
}
";

struct Server {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    file: File,
}

impl Server {
    fn start(guarded: &Guarded) -> Self {
        guarded.spare(&Task::none(1));
        let mut child = guarded
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Server {
            file: File::open("/dev/null").expect("it is there"),
            child,
            answers,
        };
        server.asks("first");
        let path = guarded.file_of(server.child.id());
        let opened = File::options().read(true).write(true).open(path);
        server.file = opened.expect("it has taken its file");
        server
    }

    fn asks(&mut self, what: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{what}").expect("the server reads");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        assert_eq!(answer, "done\n");
    }

    fn gives(&self, task: &Task) {
        let put = |bytes: &[u8], at| self.file.write_all_at(bytes, at as u64).expect("writable");
        put(&task.encode(), TASK_AT);
        put(&[ATTENTION], ATTENTION_AT);
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        self.file.read_exact_at(&mut bytes, 0).expect("readable");
        bytes
    }
}

#[test]
fn a_task_is_given_and_taken_back_while_the_program_runs() {
    let guarded = Guarded::new("server", SERVER, &["-O1"]);
    let order = guarded.orders()[0];
    let mut server = Server::start(&guarded);
    assert_eq!(View::of(&server.read()).expect("ours").applied(), 1);
    server.gives(&task(2, order, 200));
    let race = until(|| {
        server.asks("again");
        let bytes = server.read();
        let view = View::of(&bytes).expect("a file of ours");
        assert_eq!(view.applied(), 2);
        view.attempts(0).next()
    });
    assert_eq!(race.serial, 2);
    server.gives(&Task::none(3));
    server.asks("again");
    let bytes = server.read();
    assert_eq!(View::of(&bytes).expect("ours").applied(), 3);
    drop(server.child.stdin.take());
    assert!(server.child.wait().expect("it ends").success());
}

#[test]
fn a_forked_child_leaves_the_file_alone() {
    let guarded = Guarded::new("forks", SERVER, &["-O1"]);
    let mut server = Server::start(&guarded);
    server.gives(&task(2, guarded.orders()[0], 1));
    server.asks("fork");
    let process = |server: &Server| {
        let bytes = server.read();
        let view = View::of(&bytes).expect("a file of ours");
        view.process().map(|it| (it.id, it.state))
    };
    assert_eq!(process(&server), Some((server.child.id(), State::Running)));
    drop(server.child.stdin.take());
    assert!(server.child.wait().expect("it ends").success());
    assert_eq!(process(&server), Some((server.child.id(), State::Ended)));
}
