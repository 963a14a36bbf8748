//! What comments and documents cite can be opened: files are in the repository, and papers are in
//! docs/references.md.
//!
//! A citation of a file is a word of a comment that ends in `.md` or `.rs`, or a path that begins
//! with one of the folders of the repository; it may be written relative to any folder above the
//! file. In documents the targets of links count as well. A citation of a paper is `Author YEAR`,
//! `Author and Other YEAR` or `Author et al. YEAR`, with or without parentheses around the year.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of the repository, relative to its root.
fn files() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git is installed: sudo apt-get install git");
    assert!(output.status.success(), "this is no checkout of git");
    let names = String::from_utf8(output.stdout).expect("the names of files are UTF-8");
    let there = |name: &&str| root().join(name).is_file();
    names.lines().filter(there).map(str::to_string).collect()
}

/// A run of neighbouring comment lines: the number of the first, and the text without its marks.
type Comment = (usize, String);

/// What introduces a comment in a file of this name; `None` if its comments are not looked at.
fn comment_mark(name: &str) -> Option<&'static str> {
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    match ending {
        Some("rs" | "c" | "cpp" | "h") => Some("//"),
        Some("csp" | "cspm") => Some("--"),
        Some("sh" | "toml" | "yml" | "yaml") => Some("#"),
        None => Some("#"),
        _ => None,
    }
}

fn comments(text: &str, mark: &str) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let mut last = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let starts = line.find(mark).filter(|&at| !line[..at].ends_with(':'));
        let Some(at) = starts else { continue };
        let words = line[at..]
            .trim_start_matches(mark)
            .trim_start_matches(['/', '!']);
        match comments.last_mut() {
            Some((_, text)) if last + 1 == number => *text += words,
            _ => comments.push((number, words.to_string())),
        }
        last = number;
    }
    comments
}

/// The words of a comment that look like files of this repository.
fn cited_files(text: &str) -> impl Iterator<Item = &str> {
    let name = |letter: char| letter.is_alphanumeric() || "_-./+".contains(letter);
    let words = text.split(move |letter| !name(letter));
    words
        .map(|word| word.trim_end_matches(['.', '/']))
        .filter(|word| {
            let folders = [
                "crates/",
                "tests/",
                "bench/",
                "docs/",
                "scripts/",
                "examples/",
            ];
            let stem = word
                .strip_suffix(".md")
                .or_else(|| word.strip_suffix(".rs"));
            let cites = stem.is_some_and(|stem| stem.ends_with(char::is_alphanumeric));
            cites || folders.iter().any(|folder| word.starts_with(folder))
        })
}

/// Whether a file or folder is cited by the end of its path, below a folder above the citing file.
fn exists(cited: &str, files: &[String]) -> bool {
    let cited = cited.trim_start_matches("../").trim_start_matches("./");
    files.iter().any(|file| {
        let folders = file.match_indices('/').map(|(at, _)| &file[..at]);
        let mut paths = folders.chain([file.as_str()]);
        paths.any(|path| path == cited || path.ends_with(&format!("/{cited}")))
    })
}

/// The keys of the papers that a text cites: author and year.
fn cited_papers(text: &str) -> Vec<String> {
    let plain: String = text.replace(['(', ')'], " ");
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is_name = |word: &str| {
        word.starts_with(char::is_uppercase) && word.chars().all(|c| c.is_alphabetic() || c == '-')
    };
    let mut keys = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let year: String = word.chars().take_while(char::is_ascii_digit).collect();
        let rest = &word[year.len()..];
        let is_year = year.len() == 4 && (year.starts_with("19") || year.starts_with("20"));
        if !is_year || rest.starts_with(|c: char| c.is_alphanumeric() || c == '-') {
            continue;
        }
        match words[..at] {
            [.., author, "et", "al."] if is_name(author) => {
                keys.push(format!("{author} et al. {year}"));
            }
            [.., author, "and", other] if is_name(author) && is_name(other) => {
                keys.push(format!("{author} and {other} {year}"));
            }
            [.., author] if is_name(author) => keys.push(format!("{author} {year}")),
            _ => {}
        }
    }
    keys
}

/// The keys in the table of docs/references.md.
fn listed_papers() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/references.md")).expect("a readable document");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let keys = rows
        .filter_map(|row| row.split_once(" |"))
        .map(|(key, _)| key.to_string());
    keys.filter(|key| key.ends_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Every comment of the repository, with the file and line that it is in.
fn all_comments(files: &[String]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for name in files {
        let Some(mark) = comment_mark(name) else {
            continue;
        };
        let Ok(text) = fs::read_to_string(root().join(name)) else {
            continue;
        };
        for (line, comment) in comments(&text, mark) {
            all.push((format!("{name}:{line}"), comment));
        }
    }
    all
}

#[test]
fn cited_files_are_in_the_repository() {
    let files = files();
    let mut dangling = Vec::new();
    for (place, comment) in all_comments(&files) {
        for cited in cited_files(&comment) {
            if !exists(cited, &files) {
                dangling.push(format!("{place}: {cited}"));
            }
        }
    }
    for name in files.iter().filter(|name| name.ends_with(".md")) {
        let text = fs::read_to_string(root().join(name)).expect("a readable document");
        let folder = root().join(name).with_file_name("");
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap_or_default();
            if !link.contains("://") && !folder.join(target).exists() {
                dangling.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(
        dangling.is_empty(),
        "cited, but not there:\n{}",
        dangling.join("\n")
    );
}

#[test]
fn cited_papers_are_the_listed_ones() {
    let mut cited: BTreeMap<String, String> = BTreeMap::new();
    for (place, comment) in all_comments(&files()) {
        for key in cited_papers(&comment) {
            cited.entry(key).or_insert(place.clone());
        }
    }
    let listed = listed_papers();
    let unlisted = cited.iter().filter(|(key, _)| !listed.contains(*key));
    let unlisted: Vec<String> = unlisted
        .map(|(key, place)| format!("{place}: {key}"))
        .collect();
    assert!(
        unlisted.is_empty(),
        "not in docs/references.md:\n{}",
        unlisted.join("\n")
    );
    let unused: Vec<&String> = listed
        .iter()
        .filter(|key| !cited.contains_key(*key))
        .collect();
    assert!(
        unused.is_empty(),
        "in docs/references.md, cited nowhere: {unused:?}"
    );
}

#[test]
fn citations_are_recognised() {
    let comment =
        "Follows Said et al. (2011), section 5, and Pearce and Kelly 2007; see `docs/x.md`,
        graph.rs and tests/programs. Not `a.b.c`, 2003 or norns.toml.";
    let papers = ["Said et al. 2011", "Pearce and Kelly 2007"];
    assert_eq!(cited_papers(comment), papers);
    let files: Vec<&str> = cited_files(comment).collect();
    assert_eq!(files, ["docs/x.md", "graph.rs", "tests/programs"]);
}
