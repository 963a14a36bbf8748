//! Where the program and its libraries lay in the recorded process.
//!
//! Without address-space randomisation what is there from the start lies at the same addresses in every run.
//! A library that the program loads while it runs (`dlopen`) can lie elsewhere: what else was mapped by
//! then depends on the schedule. A schedule therefore says where each module lay, the runtime translates
//! its addresses, and the report of the run is translated back here, so that all places are those of the
//! recording.

use std::fmt::Write as _;
use std::path::Path;

use norns_trace::{Info, info};
use norns_wire::schedule::Record;

use crate::report::Report;

/// The files of the program's code, as they were mapped. Sorted by address.
#[derive(Clone, Debug, Default)]
pub struct Modules(Vec<Module>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Module {
    start: u64,
    end: u64,
    path: String,
}

/// Variables that begin as zero lie behind the mappings of a module's file, before the next module, and no
/// further than this.
const MOST_ZEROED: u64 = 1 << 20;

impl Modules {
    /// From what a recording says.
    pub fn of(info: &[Info]) -> Self {
        let all = info.iter().filter(|info| info.key == info::MODULE);
        let mapping = |info: &Info| {
            let [start, end, _, path, ..] = info.values.as_slice() else {
                return None;
            };
            let address = |text: &str| u64::from_str_radix(text, 16).ok();
            Some(Module {
                start: address(start)?,
                end: address(end)?,
                path: path.clone(),
            })
        };
        Self::joined(all.filter_map(mapping).collect())
    }

    /// From the lines of `/proc/PID/maps`.
    fn of_maps(maps: &str) -> Self {
        let mapping = |line: &str| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let address = |text: &str| u64::from_str_radix(text, 16).ok();
            Some(Module {
                start: address(start)?,
                end: address(end)?,
                path: rest[rest.find('/')?..].to_string(),
            })
        };
        Self::joined(maps.lines().filter_map(mapping).collect())
    }

    /// One module of all mappings of a file that follow each other.
    fn joined(mut mappings: Vec<Module>) -> Self {
        mappings.sort_by_key(|mapping| mapping.start);
        let mut modules: Vec<Module> = Vec::new();
        for mapping in mappings {
            match modules.last_mut() {
                Some(last) if last.path == mapping.path => last.end = last.end.max(mapping.end),
                _ => modules.push(mapping),
            }
        }
        for index in 0..modules.len() {
            let next = modules.get(index + 1).map_or(u64::MAX, |next| next.start);
            let module = &mut modules[index];
            module.end = next
                .min(module.end.saturating_add(MOST_ZEROED))
                .max(module.end);
        }
        Self(modules)
    }

    /// The records of a schedule.
    pub fn write(&self, schedule: &mut String) {
        for module in &self.0 {
            let record = Record::Module {
                start: module.start,
                end: module.end,
                path: &module.path,
            };
            let _ = record.encode(schedule);
            let _ = writeln!(schedule);
        }
    }

    /// The path of the module with this address.
    pub fn path_at(&self, address: u64) -> Option<&Path> {
        let at = self.0.partition_point(|module| module.start <= address);
        let module = self.0[..at].last()?;
        (address < module.end).then(|| Path::new(&module.path))
    }

    /// Whether the module with this address is there in a run, as far as its report says.
    pub fn is_in(&self, report: &Report, address: u64) -> bool {
        let present = Self::of_maps(&report.maps);
        let Some(path) = self.path_at(address) else {
            return present.path_at(address).is_some();
        };
        present
            .0
            .iter()
            .any(|module| Path::new(&module.path) == path)
    }

    /// Gives the places of a report the addresses that they had in the recording.
    pub fn translate(&self, report: &mut Report) {
        let present = Self::of_maps(&report.maps);
        let recorded_start = |path: &str| {
            let mut same = self.0.iter().filter(|module| module.path == path);
            let start = same.next()?.start;
            same.next().is_none().then_some(start)
        };
        let moved = present.0.iter().filter_map(|module| {
            let start = recorded_start(&module.path)?;
            (start != module.start).then_some((module, start))
        });
        let moved: Vec<_> = moved.collect();
        if moved.is_empty() {
            return;
        }
        report.for_each_address(|address| {
            let is_here =
                |(module, _): &&(&Module, u64)| (module.start..module.end).contains(address);
            if let Some((module, start)) = moved.iter().find(is_here) {
                *address = *address - module.start + start;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use norns_wire::report::HEADER;

    use super::*;

    fn recorded(start: u64) -> Modules {
        let mapping = |start: u64, path: &str| Info {
            key: info::MODULE.into(),
            values: vec![
                format!("{start:x}"),
                format!("{:x}", start + 0x1000),
                "0".into(),
                path.into(),
                "id".into(),
            ],
        };
        Modules::of(&[
            mapping(0x1000, "/program"),
            mapping(start, "/late one.so"),
            mapping(start + 0x1000, "/late one.so"),
        ])
    }

    #[test]
    fn a_schedule_says_where_modules_lay() {
        let mut schedule = String::new();
        recorded(0x8000).write(&mut schedule);
        assert_eq!(
            schedule,
            "module 1000 8000 /program\nmodule 8000 10a000 /late one.so\n"
        );
    }

    #[test]
    fn places_of_a_moved_module_are_those_of_the_recording() {
        let text = format!(
            "{HEADER}
map 1000-2000 r-xp 0 08:01 7 /program
map 5000-6000 r-xp 0 08:01 9 /late one.so
map 6000-7000 rw-p 1000 08:01 9 /late one.so
race may-wait T0.1 w 6010 4 5219 T0 w 6010 4 1200 5300
"
        );
        let mut report = Report::parse(text.as_bytes()).expect("a report of this version");
        let modules = recorded(0x8000);
        assert!(modules.is_in(&report, 0x8219));
        modules.translate(&mut report);
        let race = &report.races[0];
        assert_eq!((race.earlier.pc, race.later.pc), (0x8219, 0x1200));
        assert_eq!(
            (race.earlier.address, &race.stack[..]),
            (0x9010, &[0x8300][..])
        );
    }
}
