//! `norns scan` and `norns check --scan` as a user runs them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::tools::need;

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

/// A race, an access that no run comes to, and two that never touch the same memory.
const BANK: &str = "#include <pthread.h>
int balance, fee, totals[2];
int wanted;
static void charge(void) {
    fee = fee + 1;
}
static void *deposit(void *arg) {
    balance = balance + 10;
    totals[(long)arg ^ wanted] = 1;
    if (wanted)
        charge();
    return 0;
}
int main(int count, char **words) {
    pthread_t a, b;
    wanted = count > 1;
    pthread_create(&a, 0, deposit, (void *)0);
    pthread_create(&b, 0, deposit, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
";

const RIGHT: &str = "#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
int balance;
static void *deposit(void *arg) {
    pthread_mutex_lock(&m);
    balance = balance + 10;
    pthread_mutex_unlock(&m);
    return arg;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, deposit, 0);
    pthread_create(&b, 0, deposit, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
";

struct Shop(PathBuf);

impl Shop {
    fn open(test: &str) -> Self {
        need("clang-19", "clang-19");
        let name = format!("scan {test} {}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("bank.c"), BANK).unwrap();
        fs::write(folder.join("right.c"), RIGHT).unwrap();
        Self(folder)
    }

    fn norns(&self, words: &[&str]) -> Output {
        Command::new(NORNS)
            .args(words)
            .current_dir(&self.0)
            .output()
            .unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.norns(words);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            panic!("{words:?}: {error}: {said}")
        })
    }
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn the_exit_status_says_whether_there_are_candidates() {
    let shop = Shop::open("status");
    assert_eq!(status(&shop.norns(&["scan", "bank.c"])), Some(1));
    assert_eq!(status(&shop.norns(&["scan", "right.c"])), Some(0));
    let absent = shop.norns(&["scan", "absent.c"]);
    assert_eq!(status(&absent), Some(2));
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(said.contains("there is no file absent.c"), "{said}");
    fs::write(shop.0.join("broken.c"), "int main( {").unwrap();
    assert_eq!(status(&shop.norns(&["scan", "broken.c"])), Some(2));
    fs::write(shop.0.join("broken.bc"), "BC\u{0}nonsense").unwrap();
    assert_eq!(status(&shop.norns(&["scan", "broken.bc"])), Some(2));
}

#[test]
fn a_change_is_reviewed_by_what_it_adds() {
    let shop = Shop::open("diff");
    let old = shop.norns(&["scan", "--format", "json", "right.c"]);
    fs::write(shop.0.join("old.json"), &old.stdout).unwrap();
    let same = shop.norns(&["scan", "--diff", "old.json", "right.c"]);
    assert_eq!(status(&same), Some(0));
    let without = RIGHT
        .replace("    pthread_mutex_lock(&m);\n", "")
        .replace("    pthread_mutex_unlock(&m);\n", "");
    fs::write(shop.0.join("right.c"), without).unwrap();
    let added = shop.norns(&["scan", "--diff", "old.json", "right.c"]);
    assert_eq!(status(&added), Some(1));
    let text = String::from_utf8_lossy(&added.stdout).into_owned();
    assert!(text.contains("possible data race on balance"), "{text}");
    let sarif = shop.json(&["scan", "--format", "sarif", "--diff", "old.json", "right.c"]);
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "scan/data-race");
    fs::write(shop.0.join("old.json"), "{}").unwrap();
    let refused = shop.norns(&["scan", "--diff", "old.json", "right.c"]);
    assert_eq!(status(&refused), Some(2));
}

#[test]
fn a_check_judges_every_candidate() {
    let shop = Shop::open("check");
    let found = shop.json(&["check", "--scan", "--format", "json", "bank.c"]);
    let judged = |object: &str| -> Vec<(String, String)> {
        let candidates = found["scan"]["candidates"].as_array().unwrap();
        let of_object = candidates
            .iter()
            .filter(|candidate| candidate["object"].as_str().unwrap().starts_with(object));
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let mut all: Vec<_> = of_object
            .map(|candidate| (word(&candidate["judgement"]), word(&candidate["reason"])))
            .collect();
        all.sort();
        all.dedup();
        all
    };
    let pair = |judgement: &str, reason: &str| vec![(judgement.to_owned(), reason.to_owned())];
    assert_eq!(judged("balance"), pair("confirmed", "shown"));
    assert_eq!(judged("fee"), pair("not-reached", "no-place"));
    assert_eq!(judged("totals"), pair("refuted", "other-memory"));
    assert_eq!(
        found["scan"]["unforeseen"].as_array().map(Vec::len),
        Some(0)
    );
    let text = shop.norns(&["check", "--scan", "bank.c"]);
    assert_eq!(status(&text), Some(1));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("not reached by any run, to be tested next:"),
        "{text}"
    );
    let reached = shop.json(&[
        "check", "--scan", "--format", "json", "bank.c", "--", "charge",
    ]);
    let candidates = reached["scan"]["candidates"].as_array().unwrap().iter();
    let not_reached = candidates.filter(|candidate| candidate["judgement"] == "not-reached");
    assert_eq!(not_reached.count(), 0, "{reached}");
}

#[test]
fn a_program_without_bitcode_cannot_be_scanned() {
    let shop = Shop::open("no bitcode");
    let built = shop.norns(&["cc", "-g", "-pthread", "right.c", "-o", "right"]);
    assert!(built.status.success());
    let refused = shop.norns(&["check", "--scan", "--", "./right"]);
    assert_eq!(status(&refused), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("NORNS_BITCODE=1"), "{said}");
}
