//! The rules of a check: the aspect file and the property file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use norns_rules::{Aspect, Limits, Property};

use super::Arguments;
use crate::cc::sites::{self, Orders};
use crate::runs::Run;

const MOST_BYTES: u64 = 2 << 30;

pub struct Rules {
    aspect: Aspect,
    /// The aspect file, for messages.
    file: PathBuf,
    property: Option<Property>,
}

impl Rules {
    /// Reads what the arguments name, before anything is compiled or run.
    pub fn read(arguments: &Arguments) -> Result<Rules> {
        let mut aspect = match &arguments.aspect {
            Some(path) => sites::read_aspect(path)?,
            None => Aspect { orders: Vec::new() },
        };
        let property = match &arguments.property {
            None => None,
            Some(path) => Some(read_property(path, &mut aspect)?),
        };
        if property.is_none() && arguments.aspect.is_some() {
            bail!("an aspect file says which events there are; --property says what is right");
        }
        Ok(Rules {
            aspect,
            file: arguments.aspect.clone().unwrap_or_default(),
            property,
        })
    }

    /// The orders for the compiler; `None` when there are none.
    pub fn orders(&self, run: &Run) -> Result<Option<Orders>> {
        if self.aspect.orders.is_empty() {
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

    /// The property with its share of the budget.
    pub fn for_check(self, budget: u64) -> Option<(Property, Limits)> {
        let limits = Limits {
            time: Duration::from_secs(budget.max(1)) / 4,
            memory_bytes: MOST_BYTES,
        };
        Some((self.property?, limits))
    }
}

pub fn read_property(path: &Path, aspect: &mut Aspect) -> Result<Property> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Property::parse(&path.display().to_string(), &text, aspect)?)
}
