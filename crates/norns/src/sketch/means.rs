//! How a program can be looked at while it runs as it is: by watchpoints, if the kernel allows them, and by
//! sites, if they were put into it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use norns_sketch::tracking::{self, Plan};
use norns_wire::environment;
use norns_wire::tracking::Target;

use crate::check::build;
use crate::runtime_library;

/// What a tracked run can see, and why not everything.
#[derive(Clone, Debug)]
pub struct Means {
    /// The kernel's number of the error, if it refuses watchpoints.
    pub refused: Option<i32>,
    /// Why the program has no sites.
    pub no_sites: Option<String>,
}

impl Means {
    /// Asks the kernel; files are written to this folder.
    pub fn of_kernel(folder: &Path) -> Means {
        Means {
            refused: refusal(folder),
            no_sites: None,
        }
    }

    /// Compiles the sources as a user would, with sites if there is a clang with the plug-in for them.
    pub fn compile(&mut self, sources: &[PathBuf], flags: &[OsString], file: &Path) -> Result<()> {
        let sites = match self.refused {
            Some(_) => build::TrackSites::Accesses,
            None => build::TrackSites::Branches,
        };
        self.no_sites = build::build_plain(sources, flags, file, sites)?;
        Ok(())
    }

    /// Looks for the sites of a program that is there.
    pub fn find_sites(&mut self, program: &Path) {
        let bytes = fs::read(program).unwrap_or_default();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        let is_there = has(b"norns_sites\0") && has(b"\0branch\0\0");
        let why = "it was not built by norns-cc with NORNS_TRACK_SITES";
        self.no_sites = (!is_there).then(|| why.into());
    }

    pub fn of_runs(&self) -> tracking::Means {
        tracking::Means {
            watchpoints: self.refused.is_none(),
            sites: self.no_sites.is_none(),
        }
    }

    /// What cannot be seen, in sentences.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if let Some(error) = self.refused {
            let name = match error {
                1 => "EPERM",
                13 => "EACCES",
                28 => "ENOSPC",
                _ => "an error",
            };
            let instead = match self.no_sites {
                None => "accesses were seen by sites, and only at these statements",
                Some(_) => "no data was watched: without --track the accesses are recorded",
            };
            gaps.push(format!(
                "the kernel refuses watchpoints ({name}; see norns doctor), so {instead}"
            ));
        }
        if let Some(why) = &self.no_sites {
            gaps.push(format!(
                "the program has no sites, so branches were not tracked: {why}"
            ));
        }
        gaps
    }
}

/// The kernel's number of the error, if programs may not watch their own memory. Writes to this folder.
pub fn refusal(folder: &Path) -> Option<i32> {
    const UNKNOWN: i32 = 0;
    let (plan, seen) = (folder.join("probe.plan"), folder.join("probe.observations"));
    // Nothing is allocated there: the watchpoint is only reserved.
    let reserved = Plan {
        watches: vec![vec![Target::Allocated {
            from: 1,
            to: 2,
            nth: 1,
            offset: 0,
            size: 8,
        }]],
        ..Plan::nothing()
    };
    let is_written = fs::write(&plan, reserved.text()).is_ok();
    let runtime = runtime_library::find().unwrap_or_default();
    let _ = Command::new("true")
        .env(environment::MODE, environment::Mode::Track.word())
        .env(environment::TRACK, &plan)
        .env(environment::REPORT, &seen)
        .env("LD_PRELOAD", &runtime)
        .status();
    let text = fs::read_to_string(&seen).unwrap_or_default();
    for file in [&plan, &seen] {
        let _ = fs::remove_file(file);
    }
    match norns_trace::read_observations(&text) {
        Ok(seen) if is_written => seen.refused,
        _ => Some(UNKNOWN),
    }
}
