//! Tasks carry their own proof: the id of a task says all of it and is signed, so that a report is counted
//! only if this hive, or another process of it, gave exactly that task to that participant, and nothing has
//! to be stored when a task is given.

use hmac::{Hmac, KeyInit, Mac};
use norns_hive::{
    BuildId, CandidateId, Order, ParticipantId, ProgramName, SiteNumber, Task, TaskId, TaskReport,
};
use sha2::Sha256;

/// For how long a task can be reported: a site may be without a network for a while.
pub const VALID_SECONDS: i64 = 7 * 24 * 3600;

/// Whom a task is given to.
#[derive(Clone, Copy)]
pub struct Holder<'a> {
    pub program: &'a ProgramName,
    pub build: &'a BuildId,
    pub participant: &'a ParticipantId,
}

/// A task that this hive has signed.
pub struct Signed {
    pub task: Task,
    pub nonce: i64,
}

/// Why a task is not one of this hive's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotGiven {
    Forged,
    TooOld,
}

pub struct Signer {
    mac: Hmac<Sha256>,
}

impl Signer {
    pub fn new(secret: &str) -> Self {
        let mac = Hmac::new_from_slice(secret.as_bytes());
        Self {
            mac: mac.expect("HMAC takes a key of any length"),
        }
    }

    pub fn sign(
        &self,
        holder: Holder<'_>,
        what: (CandidateId, [SiteNumber; 2], Order, u32),
        nonce: i64,
        now: i64,
    ) -> Task {
        let (candidate, sites, order, tau_ms) = what;
        let letter = match order {
            Order::Primary => 'p',
            Order::Alternate => 'a',
        };
        let [one, other] = sites.map(|site| site.0);
        let minute = now / 60;
        let text = format!("{candidate}.{one}.{other}.{letter}.{tau_ms}.{minute:x}.{nonce:x}");
        let id = TaskId::new(format!("{text}.{}", self.signature(holder, &text)));
        let id = id.expect("digits, letters and points, fewer than 128");
        Task {
            id,
            candidate,
            sites,
            order,
            tau_ms,
        }
    }

    fn signature(&self, holder: Holder<'_>, text: &str) -> String {
        let mut mac = self.mac.clone();
        let parts = [
            holder.program.as_str(),
            holder.build.as_str(),
            holder.participant.as_str(),
            text,
        ];
        for part in parts {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        let bytes = mac.finalize().into_bytes();
        bytes[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The task that an id stands for.
    pub fn read(&self, holder: Holder<'_>, id: &TaskId, now: i64) -> Result<Signed, NotGiven> {
        let (text, signature) = id.as_str().rsplit_once('.').ok_or(NotGiven::Forged)?;
        let expected = self.signature(holder, text);
        let differing = expected
            .bytes()
            .zip(signature.bytes())
            .fold(0, |all, (a, b)| all | (a ^ b));
        if expected.len() != signature.len() || differing != 0 {
            return Err(NotGiven::Forged);
        }
        let (task, nonce, minute) = parse(id, text).ok_or(NotGiven::Forged)?;
        match now - minute * 60 > VALID_SECONDS {
            true => Err(NotGiven::TooOld),
            false => Ok(Signed { task, nonce }),
        }
    }

    /// The task that a report is about: what it says besides must be what was asked for.
    pub fn reported(
        &self,
        holder: Holder<'_>,
        report: &TaskReport,
        now: i64,
    ) -> Result<Signed, NotGiven> {
        let signed = self.read(holder, &report.task, now)?;
        let said = (&report.candidate, report.sites, report.order, report.tau_ms);
        let task = &signed.task;
        match said == (&task.candidate, task.sites, task.order, task.tau_ms) {
            true => Ok(signed),
            false => Err(NotGiven::Forged),
        }
    }
}

fn parse(id: &TaskId, text: &str) -> Option<(Task, i64, i64)> {
    let parts: Vec<&str> = text.split('.').collect();
    let [candidate, one, other, letter, tau_ms, minute, nonce] = parts[..] else {
        return None;
    };
    let site = |text: &str| text.parse().ok().map(SiteNumber);
    let task = Task {
        id: id.clone(),
        candidate: CandidateId::new(candidate).ok()?,
        sites: [site(one)?, site(other)?],
        order: if letter == "p" {
            Order::Primary
        } else {
            Order::Alternate
        },
        tau_ms: tau_ms.parse().ok()?,
    };
    let nonce = i64::from_str_radix(nonce, 16).ok()?;
    let minute = i64::from_str_radix(minute, 16).ok()?;
    Some((task, nonce, minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_holder_can_report_only_that_task_and_only_for_a_while() {
        let signer = Signer::new("secret");
        let program = ProgramName::new("server").expect("a name");
        let build = BuildId::new("abcdef01").expect("8 digits");
        let participant = ParticipantId::new("0".repeat(32)).expect("32 digits");
        let other = ParticipantId::new("1".repeat(32)).expect("32 digits");
        let holder = Holder {
            program: &program,
            build: &build,
            participant: &participant,
        };
        let candidate =
            CandidateId::new("0123456789abcdef-123456").expect("16 digits and a number");
        let sites = [SiteNumber(u32::MAX), SiteNumber(u32::MAX)];
        let what = (candidate, sites, Order::Alternate, 200);
        let task = signer.sign(holder, what, i64::MAX, 1_800_000_000);
        let read = |holder, now| {
            signer
                .read(holder, &task.id, now)
                .map(|it| (it.task, it.nonce))
        };
        assert_eq!(read(holder, 1_800_000_100), Ok((task.clone(), i64::MAX)));
        let late = 1_800_000_100 + VALID_SECONDS;
        assert_eq!(read(holder, late), Err(NotGiven::TooOld));
        let elsewhere = Holder {
            participant: &other,
            ..holder
        };
        assert_eq!(read(elsewhere, 1_800_000_100), Err(NotGiven::Forged));
        let changed = TaskId::new(task.id.as_str().replacen("012", "112", 1)).expect("printable");
        assert!(signer.read(holder, &changed, 1_800_000_100).is_err());
        assert!(
            Signer::new("another")
                .read(holder, &task.id, 1_800_000_100)
                .is_err()
        );
    }
}
