//! The fields of one record, taken in order.

use super::Fault;

#[derive(Clone)]
pub(super) struct Fields<'r> {
    all: &'r [u64],
    next: usize,
}

impl<'r> Fields<'r> {
    pub(super) fn new(all: &'r [u64]) -> Self {
        Self { all, next: 0 }
    }

    pub(super) fn take(&mut self) -> Result<u64, Fault> {
        let field = self.all.get(self.next).copied();
        self.next += 1;
        field.ok_or(Fault::Malformed("a record is too short"))
    }

    pub(super) fn take_u32(&mut self) -> Result<u32, Fault> {
        u32::try_from(self.take()?).map_err(|_| Fault::Malformed("a field is out of range"))
    }

    /// The next `count` fields.
    pub(super) fn take_many(&mut self, count: u64) -> Result<&'r [u64], Fault> {
        let too_short = Fault::Malformed("a record is too short");
        let count = usize::try_from(count).map_err(|_| too_short)?;
        let rest = self.rest();
        let taken = rest.get(..count).ok_or(too_short)?;
        self.next += count;
        Ok(taken)
    }

    pub(super) fn rest(&self) -> &'r [u64] {
        self.all.get(self.next..).unwrap_or_default()
    }

    pub(super) fn left(&self) -> usize {
        self.all.len().saturating_sub(self.next)
    }
}

/// A string with one character in each field.
pub(super) fn string(fields: &[u64]) -> String {
    let bytes: Vec<u8> = fields.iter().map(|&field| field as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Bitcode keeps the sign of an integer in its lowest bit. 1 stands for the smallest 64-bit integer.
pub(super) fn signed(field: u64) -> i64 {
    let magnitude = (field >> 1) as i64;
    match field {
        1 => i64::MIN,
        _ if field & 1 == 1 => magnitude.wrapping_neg(),
        _ => magnitude,
    }
}
