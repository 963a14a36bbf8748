//! The rules of a check: the aspect file and the property file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use norns_rules::{Aspect, Limits, Property};
use serde::{Deserialize, Serialize};

use super::Arguments;
use crate::cc::sites::{self, Orders};
use crate::runs::Run;

const MOST_BYTES: u64 = 2 << 30;

/// Both files as they were, so that a kept run can be judged again.
#[derive(Default, Serialize, Deserialize)]
struct Texts {
    aspect: String,
    /// Its path and its text.
    property: Option<(String, String)>,
}

pub struct Rules {
    texts: Texts,
    aspect: Aspect,
    /// The aspect file, for messages.
    file: PathBuf,
    property: Option<Property>,
    /// Whether sources get the sites of wait loops even without an aspect file.
    wait_loops: bool,
}

impl Rules {
    /// Reads what the arguments name, before anything is compiled or run.
    pub fn read(arguments: &Arguments) -> Result<Rules> {
        let mut texts = Texts::default();
        if let Some(path) = &arguments.aspect {
            texts.aspect = read(path)?;
        }
        if let Some(path) = &arguments.property {
            texts.property = Some((path.display().to_string(), read(path)?));
        }
        if texts.property.is_none() && arguments.aspect.is_some() {
            bail!("an aspect file says which events there are; --property says what is right");
        }
        let mut rules = Rules::understand(texts, arguments.aspect.clone().unwrap_or_default())?;
        rules.wait_loops = arguments.wait_loops;
        Ok(rules)
    }

    fn understand(texts: Texts, file: PathBuf) -> Result<Rules> {
        let mut aspect = sites::parse_aspect(&file, &texts.aspect)?;
        let property = match &texts.property {
            None => None,
            Some((path, text)) => Some(Property::parse(path, text, &mut aspect)?),
        };
        Ok(Rules {
            texts,
            aspect,
            file,
            property,
            wait_loops: false,
        })
    }

    /// Keeps the rules of a run.
    pub fn save(&self, run: &Run) -> Result<()> {
        match self.property {
            Some(_) => run.save("rules.json", &self.texts),
            None => Ok(()),
        }
    }

    /// The aspect file and the property file of a kept run.
    pub fn texts(run: &Run) -> Result<(String, String)> {
        let texts: Texts = run.load("rules.json")?;
        let property = texts.property.map_or(String::new(), |(_, text)| text);
        Ok((texts.aspect, property))
    }

    /// The property of a kept run.
    pub fn load(run: &Run) -> Result<Option<Property>> {
        let texts: Texts = run.load("rules.json")?;
        Ok(Rules::understand(texts, PathBuf::new())?.property)
    }

    /// Which sites are on in every run: those of the events, and those of wait loops.
    pub fn plan(&self) -> String {
        let events = self.aspect.events().into_keys();
        events.chain(["wait-loop"]).collect::<Vec<_>>().join(" ")
    }

    /// The orders for the compiler; `None` when the plug-in is not needed.
    pub fn orders(&self, run: &Run) -> Result<Option<Orders>> {
        if self.aspect.orders.is_empty() && !self.wait_loops {
            return Ok(None);
        }
        let folder = run.path("");
        Orders::in_folder(&self.aspect, &folder).map(Some)
    }

    /// Warns of orders that found nothing in the sources.
    pub fn warn(&self, run: &Run) -> Result<()> {
        if let Some(orders) = self.orders(run)? {
            for warning in orders.warnings(&self.aspect, &self.file) {
                eprintln!("warning: {warning}");
            }
        }
        Ok(())
    }

    /// Warns of events that a program which was built before does not have.
    pub fn warn_of_program(&self, program: &Path) {
        for warning in sites::warnings_of_program(&self.aspect, &self.file, program) {
            eprintln!("warning: {warning}");
        }
    }

    /// The property with its share of the budget.
    pub fn for_check(self, budget: u64) -> Option<(Property, Limits)> {
        Some((self.property?, limits(budget)))
    }
}

/// What one check of a property may use of a budget in seconds.
pub fn limits(budget: u64) -> Limits {
    Limits {
        time: Duration::from_secs(budget.max(1)) / 4,
        memory_bytes: MOST_BYTES,
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
