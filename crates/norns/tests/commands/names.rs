//! What objects are called in findings, and which findings are one to a person.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

const NORNS: &str = env!("CARGO_BIN_EXE_norns");

/// Two deadlocks, one between fields of globals and one between mutexes on the heap, and races on
/// two fields within one line.
const BANK: &str = r"
#include <pthread.h>
#include <stdlib.h>
struct queue { int length; pthread_mutex_t mut; };
static struct queue queue = { 0, PTHREAD_MUTEX_INITIALIZER };
struct account { int balance; pthread_mutex_t lock; };
static struct account table[3];
static struct account *make(void) {
    struct account *a = malloc(sizeof *a);
    pthread_mutex_init(&(a->lock), NULL);
    return a;
}
static struct account *left, *right;
static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}
static void *one(void *arg) {
    both(&left->lock, &right->lock);
    pthread_mutex_lock(&queue.mut);
    pthread_mutex_lock(&table[2].lock);
    pthread_mutex_unlock(&table[2].lock);
    pthread_mutex_unlock(&queue.mut);
    table[1].balance++; queue.length = 1;
    return arg;
}
static void *two(void *arg) {
    both(&right->lock, &left->lock);
    pthread_mutex_lock(&table[2].lock);
    pthread_mutex_lock(&queue.mut);
    pthread_mutex_unlock(&queue.mut);
    pthread_mutex_unlock(&table[2].lock);
    table[1].balance++; queue.length = 2;
    return arg;
}
int main(void) {
    pthread_t a, b;
    pthread_mutex_init(&table[2].lock, NULL);
    left = make();
    right = make();
    pthread_create(&a, NULL, one, NULL);
    pthread_create(&b, NULL, two, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
";

/// A folder with the program, in which `norns` runs.
struct Shop(PathBuf);

impl Shop {
    fn new(name: &str) -> Shop {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("names-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("bank.c"), BANK).unwrap();
        Shop(folder)
    }

    fn norns(&self, compiler: &str, words: &[&str]) -> String {
        let output = Command::new(NORNS)
            .args(words)
            .env("NORNS_RUNS", self.0.join("runs"))
            .env("NORNS_CC", compiler)
            .current_dir(&self.0)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

fn check(compiler: &str) {
    let shop = Shop::new(compiler);
    let printed = shop.norns(compiler, &["check", "--format", "json", "bank.c"]);
    let found: Value = serde_json::from_str(&printed).unwrap();
    let mut objects: Vec<&str> = Vec::new();
    let mut deadlocks = String::new();
    for finding in found["findings"].as_array().unwrap() {
        objects.push(finding["object"].as_str().unwrap());
        if finding["kind"] == "deadlock" {
            let id = finding["id"].as_str().unwrap();
            deadlocks += &shop.norns(compiler, &["show", id]);
        }
    }
    objects.sort_unstable();
    // Both races are between the same two lines.
    assert_eq!(
        objects,
        [
            "mutex 1 made at bank.c:10, mutex 2 made at bank.c:10",
            "queue.length",
            "queue.mut, table[2].lock",
            "table[].balance",
        ],
        "{compiler}"
    );
    for name in [
        "`queue.mut`",
        "`table[2].lock`",
        "`a->lock #1`",
        "`a->lock #2`",
    ] {
        assert!(
            deadlocks.contains(name),
            "{compiler}: no {name}: {deadlocks}"
        );
    }
    assert!(
        deadlocks.contains("(made at bank.c:10, taken at bank.c:15)"),
        "{deadlocks}"
    );
    let balance = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["object"] == "table[].balance");
    let variants = balance.and_then(|finding| finding["variants"].as_array());
    assert!(
        variants.is_some_and(|variants| !variants.is_empty()),
        "{found}"
    );
    let variant = &variants.unwrap()[0];
    let shown = shop.norns(compiler, &["show", variant["id"].as_str().unwrap()]);
    assert!(shown.contains("table[1].balance"), "{shown}");
}

#[test]
fn objects_have_the_names_of_the_source() {
    check("gcc");
    check("clang-19");
}
