//! `norns detect` as people who come from ThreadSanitizer use it: suppressions, `TSAN_OPTIONS`,
//! exit statuses, forked children and programs that a process becomes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

struct Bench {
    folder: PathBuf,
}

impl Bench {
    /// A folder with one program, built.
    fn with(name: &str, source: &str) -> Bench {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("detect-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("app.c");
        fs::write(&path, source).unwrap();
        let built = Command::new(NORNS)
            .args(["cc", "-g", "-pthread", "app.c", "-o", "app"])
            .current_dir(&folder)
            .status();
        assert!(built.unwrap().success());
        Bench { folder }
    }

    fn detect(&self, words: &[&str], tsan_options: &str) -> Output {
        let mut command = Command::new(NORNS);
        command.args(["detect", "--format", "json"]);
        let at = words.iter().position(|word| *word == "--").unwrap_or(0);
        command.args(&words[..at]).args(["--", "./app"]);
        command.args(words.get(at + 1..).unwrap_or_default());
        command
            .env("TSAN_OPTIONS", tsan_options)
            .current_dir(&self.folder)
            .output()
            .unwrap()
    }

    /// The status, and the lines of all findings.
    fn check(&self, words: &[&str], tsan_options: &str, status: i32, lines: &[u64]) -> String {
        let output = self.detect(words, tsan_options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let found: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("no findings for {words:?}: {said}"));
        let mut places: Vec<u64> = found["findings"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|finding| finding["places"].as_array().unwrap())
            .map(|place| place["line"].as_u64().unwrap())
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places, lines, "{words:?} {tsan_options}: {said}");
        assert_eq!(
            output.status.code(),
            Some(status),
            "{words:?} {tsan_options}: {said}"
        );
        said
    }
}

const RACES: &str = "#include <pthread.h>
int counter, other;
static void touch(void) { counter++; }
static void *work(void *unused) {
    touch();
    return unused;
}
static void *rest(void *unused) {
    other++;
    return unused;
}
int main(int count, char **words) {
    pthread_t a, b;
    pthread_create(&a, 0, count > 2 ? rest : work, 0);
    pthread_create(&b, 0, count > 2 ? rest : work, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 7;
}
";

#[test]
fn suppressions_and_statuses() {
    let bench = Bench::with("options", RACES);
    bench.check(&["--"], "", 1, &[3]);
    bench.check(&["--"], "exitcode=66", 66, &[3]);
    // As ThreadSanitizer: the program's own status when nothing is found, or it is asked for.
    bench.check(&["--"], "exitcode=0", 7, &[3]);
    bench.check(&["--"], "report_bugs=0", 0, &[]);
    let write = |name: &str, text: &str| fs::write(bench.folder.join(name), text).unwrap();
    for (name, line) in [
        ("top", "race_top:^touch$"),
        ("function", "race:touch"),
        ("caller", "race:^work"),
        ("file", "race:app.c"),
        ("module", "race:/app"),
        ("global", "race:^counter$"),
        ("wild", "# all of it\nrace:t*ch"),
    ] {
        write(name, &format!("{line}\nthread:x\ncalled_from_lib:y\n"));
        let said = bench.check(&["--suppressions", name, "--"], "", 0, &[]);
        assert!(said.contains("suppressed"), "{said}");
        bench.check(&["--"], &format!("suppressions={name}:exitcode=9"), 7, &[]);
    }
    for line in [
        "race_top:^work$",
        "race:nothing",
        "deadlock:touch",
        "race:^ouch",
    ] {
        write("other", line);
        bench.check(&["--suppressions", "other", "--"], "", 1, &[3]);
    }
    // Only what a line names is left out.
    write("touch", "race:touch");
    let path = bench.folder.join("touch");
    let options = format!("suppressions='{}'", path.display());
    bench.check(&["--", "the", "other"], &options, 1, &[9]);
    // What cannot be read is no silence.
    for options in ["suppressions=missing", "exitcode=x"] {
        assert_eq!(bench.detect(&["--"], options).status.code(), Some(2));
    }
}

#[test]
fn forked_and_executed_programs_are_watched() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/detect/forked.c");
    let source = fs::read_to_string(source).unwrap();
    let line = source
        .lines()
        .position(|line| line.contains("// finds"))
        .unwrap() as u64
        + 1;
    let bench = Bench::with("forked", &source);
    let said = bench.check(&["--"], "", 1, &[line]);
    assert!(said.contains("1 child process"), "{said}");
    assert!(said.contains("status 3"), "{said}");
    let said = bench.check(&["--", "exec"], "", 1, &[line]);
    assert!(said.contains("status 5"), "{said}");
    let said = bench.check(&["--", "alone"], "", 0, &[]);
    assert!(!said.contains("child process"), "{said}");
}
