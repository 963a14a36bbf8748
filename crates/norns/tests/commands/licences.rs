//! Every crate that Norns is built from, or tested with, has a licence that allows its use in a
//! program under the MIT licence. The peers behind features, which only tests link, are not looked
//! at.

use std::iter::Peekable;
use std::process::Command;

use serde_json::Value;

/// SPDX identifiers. None of them asks for more than to keep a notice.
const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn all_dependencies_have_an_allowed_licence() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "only {} packages", packages.len());
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("no licence");
        assert!(
            is_allowed(licence),
            "{} {}: {licence}",
            package["name"],
            package["version"]
        );
    }
}

/// Whether one alternative of an SPDX expression needs only licences of the list.
fn is_allowed(expression: &str) -> bool {
    // Old manifests separate alternatives by a slash.
    let expression = expression.replace('/', " OR ");
    let words = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words = words.split_whitespace().peekable();
    any_of(&mut words) && words.next().is_none()
}

fn any_of<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    let mut allowed = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> bool {
    match words.next() {
        Some("(") => {
            let allowed = any_of(words);
            allowed && words.next() == Some(")")
        }
        Some(licence) => {
            // An exception only takes back conditions.
            if words.next_if_eq(&"WITH").is_some() {
                words.next();
            }
            ALLOWED.contains(&licence)
        }
        None => false,
    }
}

#[test]
fn expressions_are_read_as_spdx_defines_them() {
    for allowed in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-3.0-only) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "GPL-2.0-only AND MIT OR ISC",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "(MIT OR ISC) AND GPL-3.0-only",
        "MIT Apache-2.0",
    ] {
        assert!(!is_allowed(refused), "{refused}");
    }
}
