//! The server as it runs, over SQLite and over PostgreSQL: every case of `cases` over both.

#![forbid(unsafe_code)]

mod cases;
mod fits;
mod harness;
mod page;
mod surroundings;

use libtest_mimic::{Arguments, Trial};

use harness::{Cluster, Place};

/// A case and its name.
type Case = (&'static str, fn(&Place));

fn main() {
    let arguments = Arguments::from_args();
    let cluster: &'static Cluster = Box::leak(Box::default());
    let mut trials = Vec::new();
    for (name, case) in cases::CASES {
        trials.push(Trial::test(format!("sqlite/{name}"), || {
            case(&Place::folder(name));
            Ok(())
        }));
        trials.push(Trial::test(format!("postgres/{name}"), || {
            case(&cluster.database(name));
            Ok(())
        }));
    }
    trials.push(Trial::test("postgres/several_processes_share_it", || {
        surroundings::several_processes_share_it(&cluster.database("shared"));
        Ok(())
    }));
    for (name, case) in surroundings::CASES {
        trials.push(Trial::test(*name, || {
            case(&Place::folder(name));
            Ok(())
        }));
    }
    if cfg!(feature = "chromium") {
        trials.push(Trial::test("page", || {
            page::looks_right(&Place::folder("page"));
            Ok(())
        }));
    }
    let done = libtest_mimic::run(&arguments, trials);
    cluster.stop();
    done.exit();
}
