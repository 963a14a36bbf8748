//! The stacks of reports: from return addresses of a process to functions, files and lines.
//!
//! Paths leave a site only in the form in which the build has them, relative to the folder of its sources; of all others the
//! last part.

use norns_hive::Frame;
use norns_hive::protocol::{Build, MAX_FRAMES, MAX_NAME};
use norns_trace::SourcePlace;
use norns_trace::symbolise::Symboliser;
use norns_wire::guarding::Stack;

use crate::runtime_library;

/// The frames of a stack, innermost first, in a process where this was mapped (`/proc/self/maps`).
pub fn frames(build: &Build, maps: &str, stack: &Stack) -> Vec<Frame> {
    let mut symboliser = Symboliser::new([maps]);
    let mut frames = Vec::new();
    for &pc in stack.frames() {
        let module = last_part(symboliser.module(pc)).to_owned();
        // The runtime stands between the program's `main` and the C library's code before it.
        if module.is_empty() || module == runtime_library::NAME {
            continue;
        }
        let offset = pc.wrapping_sub(symboliser.bias(pc).unwrap_or(0));
        let places = symboliser.frames(pc).to_vec();
        let unknown = [SourcePlace::default()];
        let places = if places.is_empty() {
            &unknown[..]
        } else {
            &places
        };
        frames.extend(places.iter().map(|place| Frame {
            module: fit(&module),
            offset,
            function: fit(&place.function),
            file: fit(relative(build, &place.file)),
            line: place.line,
        }));
    }
    frames.truncate(MAX_FRAMES);
    frames
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn relative<'a>(build: &'a Build, path: &'a str) -> &'a str {
    let ends_with = |file: &str| {
        path.strip_suffix(file)
            .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    };
    let mut known = build.sites.iter().map(|site| site.file.as_str());
    known
        .find(|file| !file.starts_with('/') && !file.contains("..") && ends_with(file))
        .unwrap_or_else(|| last_part(path))
}

/// As the hive accepts it.
fn fit(text: &str) -> String {
    let mut fit = String::new();
    for letter in text.chars().filter(|letter| !letter.is_control()) {
        if fit.len() + letter.len_utf8() > MAX_NAME {
            break;
        }
        fit.push(letter);
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_hive::{Access, BuildId, ProgramName, Site, SiteNumber};

    #[test]
    fn no_folder_of_this_machine_is_in_a_path() {
        let build = Build {
            format: 1,
            program: ProgramName::new("server").expect("a name"),
            id: BuildId::new("00112233").expect("digits"),
            label: String::new(),
            sites: vec![Site {
                number: SiteNumber(0),
                file: "src/a.c".into(),
                line: 1,
                column: 1,
                function: "f".into(),
                access: Access::Read,
                size: 4,
            }],
            candidates: Vec::new(),
            sources: Default::default(),
        };
        assert_eq!(relative(&build, "/home/someone/server/src/a.c"), "src/a.c");
        assert_eq!(relative(&build, "src/a.c"), "src/a.c");
        assert_eq!(relative(&build, "/home/someone/xsrc/a.c"), "a.c");
        assert_eq!(relative(&build, "../../secret/b.c"), "b.c");
        assert_eq!(fit("a\nb"), "ab");
        assert_eq!(fit(&"é".repeat(MAX_NAME)).len(), MAX_NAME);
    }
}
