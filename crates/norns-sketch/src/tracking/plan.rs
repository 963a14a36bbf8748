//! What a run is to look at: plans as values and as text, and how a slice becomes plans.
//!
//! Kasikci (2015), section 4.3.3, sets a watchpoint just before an access, and asks which accesses dominate others so
//! as not to set it twice. Here it is set with the memory itself, when the program starts or when the block is
//! allocated, so one watchpoint serves all accesses; a piece of memory is named once in a plan.

use norns_wire::tracking::{LONGEST_PLAN, Planned, SITES, SiteOf, Target, WATCHPOINTS, file_name};

use super::{MOST, Means};

/// What one run is to watch: plain data, in the form of `norns_wire::tracking`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For each watchpoint the memory that it watches, whichever comes first.
    pub watches: Vec<Vec<Target>>,
    pub sites: Vec<Site>,
    /// Of how many accesses a watchpoint tells at most, and of how many passages a site.
    pub most: u32,
}

/// The sites of one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub of: SiteOf,
    /// Without its folder.
    pub file: String,
    pub line: u32,
}

impl Plan {
    /// A plan that watches nothing.
    pub fn nothing() -> Plan {
        Plan {
            most: MOST,
            ..Plan::default()
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut put = |planned: Planned| {
            let written = planned.encode(&mut text);
            written.expect("a string takes everything");
        };
        put(Planned::Begin);
        put(Planned::Most(self.most));
        for (number, targets) in (0..).zip(&self.watches) {
            for &target in targets {
                put(Planned::Watch { number, target });
            }
        }
        for Site { of, file, line } in &self.sites {
            put(Planned::Site {
                of: *of,
                line: *line,
                file,
            });
        }
        put(Planned::End);
        text
    }

    /// `None` if the text is not a whole plan of this version.
    pub fn parse(text: &str) -> Option<Plan> {
        let mut lines = text.strip_suffix('\n')?.split('\n').map(Planned::parse);
        if text.len() >= LONGEST_PLAN || lines.next()?? != Planned::Begin {
            return None;
        }
        let mut plan = Plan::default();
        while let Some(line) = lines.next() {
            match line? {
                Planned::Begin => return None,
                Planned::End => return lines.next().is_none().then_some(plan),
                Planned::Most(most) => plan.most = most,
                Planned::Watch { number, target } => {
                    let number = number as usize;
                    if number >= WATCHPOINTS {
                        return None;
                    }
                    if plan.watches.len() <= number {
                        plan.watches.resize(number + 1, Vec::new());
                    }
                    plan.watches[number].push(target);
                }
                Planned::Site { of, line, file } => plan.sites.push(Site {
                    of,
                    file: file.into(),
                    line,
                }),
            }
        }
        None
    }
}

/// A statement of the slice, as far as it can be tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trackable {
    pub file: String,
    pub line: u32,
    /// Whether it decides what runs next.
    pub decides: bool,
    /// The memory that it accesses; of each piece all places where it can be.
    pub memory: Vec<Vec<Target>>,
}

/// The plans for the first `sigma` statements: together they watch all of their memory, and each has all of
/// their sites.
pub fn plans(slice: &[Trackable], sigma: usize, means: Means) -> Vec<Plan> {
    let tracked = &slice[..sigma.min(slice.len())];
    let sites = sites(tracked, means);
    let mut memory: Vec<Vec<Target>> = Vec::new();
    if means.watchpoints {
        for piece in tracked.iter().flat_map(|statement| &statement.memory) {
            if !memory.contains(piece) {
                memory.push(piece.clone());
            }
        }
    }
    let plan = |watches: &[Vec<Target>]| Plan {
        watches: watches.to_vec(),
        sites: sites.clone(),
        most: MOST,
    };
    let plans: Vec<Plan> = memory.chunks(WATCHPOINTS).map(plan).collect();
    match plans.is_empty() {
        true => vec![plan(&[])],
        false => plans,
    }
}

/// The sites of these statements, the closest first; so many as a plan can have.
fn sites(tracked: &[Trackable], means: Means) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    // Half of the text is for watchpoints.
    let mut room = LONGEST_PLAN / 2;
    for statement in tracked {
        let branch = (means.sites && statement.decides).then_some(SiteOf::Branch);
        let access = (means.sites && !means.watchpoints).then_some(SiteOf::Access);
        for of in branch.into_iter().chain(access) {
            let site = Site {
                of,
                file: file_name(&statement.file).into(),
                line: statement.line,
            };
            let length = site.file.len() + 32;
            if sites.len() < SITES && length <= room && !sites.contains(&site) {
                room -= length;
                sites.push(site);
            }
        }
    }
    sites
}
