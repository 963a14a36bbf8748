//! The attributes of functions: only those that say that an argument is passed by value.

use std::collections::HashMap;

use super::Fault;
use super::record::Fields;
use super::stream::{Item, Record, Stream};
use super::types::TypeTable;
use crate::types::TypeId;

const BY_VALUE: u64 = 3;

/// Parameters, counted from 0, whose pointer stands for a value of the type.
type ByValue = Vec<(u32, TypeId)>;

#[derive(Default)]
pub(super) struct Attributes {
    groups: HashMap<u64, (u32, TypeId)>,
    lists: Vec<ByValue>,
}

impl Attributes {
    /// The parameters that are passed by value, for the number of a list in a record; 0 is no list.
    pub(super) fn by_value(&self, list: u64) -> ByValue {
        let index = usize::try_from(list)
            .ok()
            .and_then(|list| list.checked_sub(1));
        let list = index.and_then(|index| self.lists.get(index));
        list.cloned().unwrap_or_default()
    }

    /// Reads the block of groups that the stream has just entered.
    pub(super) fn read_groups<'a>(
        &mut self,
        stream: &mut Stream<'a>,
        record: &mut Record<'a>,
        types: &TypeTable,
    ) -> Result<(), Fault> {
        loop {
            match stream.next(record)? {
                Item::End => return Ok(()),
                Item::Block(_) => stream.skip()?,
                Item::Record => {
                    let mut fields = Fields::new(&record.fields);
                    let group = fields.take()?;
                    // 0 is the result, the largest number the function itself.
                    let parameter = fields.take()?.checked_sub(1);
                    let parameter = parameter.and_then(|parameter| u32::try_from(parameter).ok());
                    if let (Some(parameter), Some(r#type)) = (parameter, find_by_value(fields)) {
                        self.groups.insert(group, (parameter, types.get(r#type)?));
                    }
                }
            }
        }
    }

    /// Reads the block of lists of groups that the stream has just entered.
    pub(super) fn read_lists<'a>(
        &mut self,
        stream: &mut Stream<'a>,
        record: &mut Record<'a>,
    ) -> Result<(), Fault> {
        loop {
            match stream.next(record)? {
                Item::End => return Ok(()),
                Item::Block(_) => stream.skip()?,
                Item::Record => {
                    let groups = record.fields.iter();
                    let found = groups.filter_map(|group| self.groups.get(group).copied());
                    self.lists.push(found.collect());
                }
            }
        }
    }
}

/// The number of the type of a `byval` attribute among those of a group.
fn find_by_value(mut fields: Fields<'_>) -> Option<u64> {
    const ENUM: u64 = 0;
    const INTEGER: u64 = 1;
    const KEY: u64 = 3;
    const KEY_AND_VALUE: u64 = 4;
    const NO_TYPE: u64 = 5;
    const WITH_TYPE: u64 = 6;
    while fields.left() > 0 {
        match fields.take().ok()? {
            ENUM | NO_TYPE => {
                fields.take().ok()?;
            }
            INTEGER => {
                fields.take_many(2).ok()?;
            }
            form @ (KEY | KEY_AND_VALUE) => {
                for _ in 0..form - 2 {
                    while fields.take().ok()? != 0 {}
                }
            }
            WITH_TYPE => {
                let kind = fields.take().ok()?;
                let r#type = fields.take().ok()?;
                if kind == BY_VALUE {
                    return Some(r#type);
                }
            }
            // Ranges of newer versions come after `byval`.
            _ => return None,
        }
    }
    None
}
