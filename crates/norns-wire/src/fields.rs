//! The fields of a line of text, which are separated by one space, and enums of words.

use core::str::FromStr;

/// What is left of a line; `None` after its last field.
pub struct Fields<'a>(Option<&'a str>);

impl<'a> Fields<'a> {
    pub fn of(line: &'a str) -> Self {
        Fields(Some(line))
    }

    /// The next field; `None` at the end of the line, or if the field is empty.
    pub fn word(&mut self) -> Option<&'a str> {
        let rest = self.0?;
        let (word, rest) = match rest.split_once(' ') {
            Some((word, rest)) => (word, Some(rest)),
            None => (rest, None),
        };
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    /// All fields that are left; `None` at the end of the line.
    pub fn rest(&mut self) -> Option<&'a str> {
        self.0.take()
    }

    /// A decimal number without sign.
    pub fn number<T: FromStr>(&mut self) -> Option<T> {
        let field = self.word()?;
        let has_sign = field.starts_with(['+', '-']);
        (!has_sign).then(|| field.parse().ok())?
    }

    /// A hexadecimal number without prefix and sign.
    pub fn hexadecimal(&mut self) -> Option<u64> {
        hexadecimal(self.word()?)
    }

    /// `value` if no field is left.
    pub fn end<T>(self, value: T) -> Option<T> {
        self.0.is_none().then_some(value)
    }
}

pub fn hexadecimal(field: &str) -> Option<u64> {
    let has_sign = field.starts_with(['+', '-']);
    (!has_sign).then(|| u64::from_str_radix(field, 16).ok())?
}

/// Defines an enum without fields whose variants each stand for one word of a message.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use words;
