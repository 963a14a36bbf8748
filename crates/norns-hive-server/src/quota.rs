//! How much each participant may ask and report in an hour. The counts are kept in memory: a restart forgives.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use norns_hive::{ParticipantId, ProgramName};

/// Reports and requests of one participant in one hour.
pub const PER_HOUR: u32 = 100_000;
/// Participants of one hour that are told apart. What comes from others is refused until the next hour:
/// ids are free, so whoever invents them must not be able to fill the memory.
const MAX_PARTICIPANTS: usize = 2_000_000;

/// What each participant has done in an hour.
#[derive(Default)]
struct Hour {
    /// Hours since 1970.
    number: i64,
    used: HashMap<(ProgramName, ParticipantId), u32>,
}

#[derive(Default)]
pub struct Quota {
    hour: Mutex<Hour>,
}

impl Quota {
    /// Whether a participant may still do this much in the hour.
    pub fn allows(
        &self,
        program: &ProgramName,
        participant: &ParticipantId,
        amount: usize,
        now: i64,
    ) -> bool {
        let mut hour = self.hour.lock().unwrap_or_else(PoisonError::into_inner);
        if hour.number != now / 3600 {
            *hour = Hour {
                number: now / 3600,
                used: HashMap::new(),
            };
        }
        let used = &mut hour.used;
        let key = (program.clone(), participant.clone());
        if used.len() >= MAX_PARTICIPANTS && !used.contains_key(&key) {
            return false;
        }
        let used = used.entry(key).or_default();
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        match used.checked_add(amount) {
            Some(sum) if sum <= PER_HOUR => {
                *used = sum;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_participant_has_its_own_hour() {
        let quota = Quota::default();
        let program = ProgramName::new("server").expect("a name");
        let one = ParticipantId::new("0".repeat(32)).expect("32 digits");
        let other = ParticipantId::new("1".repeat(32)).expect("32 digits");
        let all = PER_HOUR as usize;
        assert!(quota.allows(&program, &one, all, 0));
        assert!(!quota.allows(&program, &one, 1, 3599));
        assert!(quota.allows(&program, &other, 1, 3599));
        assert!(quota.allows(&program, &one, 1, 3600));
    }
}
