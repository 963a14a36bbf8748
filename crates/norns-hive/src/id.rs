//! The names by which sites and the hive know things. Each is checked when it is read, so that a value of
//! one of these types can be shown, stored and compared without further care.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A name that does not have the form of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct Malformed {
    text: String,
    expected: &'static str,
}

/// A type for text of one form.
macro_rules! text_id {
    ($(#[$documentation:meta])* $name:ident, $expected:literal, $accepts:expr) => {
        $(#[$documentation])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, Malformed> {
                let text = text.into();
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(&text) {
                    return Ok(Self(text));
                }
                let text = text.chars().take(80).collect();
                Err(Malformed { text, expected: $expected })
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Malformed;

            fn try_from(text: String) -> Result<Self, Malformed> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// The name of a program that a hive looks after.
    ProgramName,
    "the name of a program: 1 to 64 letters, digits, `-`, `_`, `.` or `+`, the first a letter or digit",
    |text| (1..=64).contains(&text.len())
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte))
);

text_id!(
    /// One build of a program: the build id that the linker wrote, or a hash of the file where there is none.
    BuildId,
    "the id of a build: 8 to 64 hexadecimal digits in lower case",
    |text| (8..=64).contains(&text.len()) && is_hexadecimal(text)
);

text_id!(
    /// One installation of a program that takes part: 128 random bits that say nothing about it.
    ParticipantId,
    "the id of a participant: 32 hexadecimal digits in lower case",
    |text| text.len() == 32 && is_hexadecimal(text)
);

text_id!(
    /// One batch of reports: 128 random bits. A batch that is sent again has the same id.
    BatchId,
    "the id of a batch: 32 hexadecimal digits in lower case",
    |text| text.len() == 32 && is_hexadecimal(text)
);

text_id!(
    /// A candidate, the same in all builds in which its code is the same: its fingerprint, and a number
    /// where several candidates have the same one.
    CandidateId,
    "the id of a candidate: 16 hexadecimal digits in lower case, and perhaps `-` and a number",
    |text| {
        let (print, number) = text.split_once('-').unwrap_or((text, "2"));
        print.len() == 16
            && is_hexadecimal(print)
            && (1..=6).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit())
    }
);

text_id!(
    /// One task that a hive has given. Only the hive that made it can read it.
    TaskId,
    "the id of a task: 1 to 128 printable characters without white space",
    |text| (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
);

fn is_hexadecimal(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The number of a site, stable for one build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteNumber(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_have_its_form_is_refused() {
        assert!(ProgramName::new("pbzip2-0.9.4").is_ok());
        for bad in ["", "../etc", "<script>", "a b", ".hidden"] {
            assert!(ProgramName::new(bad).is_err(), "{bad}");
        }
        assert!(CandidateId::new("00ff00ff00ff00ff").is_ok());
        assert!(CandidateId::new("00ff00ff00ff00ff-12").is_ok());
        for bad in [
            "00ff",
            "00FF00ff00ff00ff",
            "00ff00ff00ff00ff-",
            "00ff00ff00ff00ff-x",
        ] {
            assert!(CandidateId::new(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<ParticipantId>("\"0123\"").is_err());
        assert!(TaskId::new("a\nb").is_err());
    }
}
