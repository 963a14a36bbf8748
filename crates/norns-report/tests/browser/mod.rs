//! The page in a real browser: headless Chromium opens `probe.html`, which looks at the page in
//! frames of several widths, with scripts and without, light and dark.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What is wrong with a page.
pub fn problems(name: &str, page: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("report.html"), page).unwrap();
    fs::write(folder.join("probe.html"), include_str!("probe.html")).unwrap();
    let mut all = Vec::new();
    for (theme, setting) in [("dark", 0), ("light", 1)] {
        all.extend(look(&folder, theme, setting));
    }
    all
}

fn look(folder: &Path, theme: &str, setting: u32) -> Vec<String> {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        // The probe is a file that looks into another file.
        .args(["--allow-file-access-from-files", "--disable-web-security"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=5000"])
        .arg(format!("--blink-settings=preferredColorScheme={setting}"))
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg("--dump-dom")
        .arg(format!("file://{}", folder.join("probe.html").display()))
        .output()
        .expect("chromium is installed: sudo apt-get install chromium");
    let dom = String::from_utf8_lossy(&output.stdout);
    let answers = dom
        .split_once("<pre id=\"answers\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .map_or_else(
            || {
                panic!(
                    "no page from chromium: {}",
                    String::from_utf8_lossy(&output.stderr)
                )
            },
            |(answers, _)| answers,
        );
    let mut lines = answers.lines();
    assert_eq!(lines.next(), Some(format!("looked in {theme}").as_str()));
    let said = lines.map(|line| format!("{theme}: {line}"));
    // What the page's own policy refuses is an error here; that frames without scripts refuse
    // them is what they are for.
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = log
        .lines()
        .filter(|line| line.contains("CONSOLE") && !line.contains("sandboxed"))
        .map(|line| format!("{theme}: {line}"));
    said.chain(refused).collect()
}
