//! What a race does to the program, as far as runs have shown it: the classes of Portend (Kasikci 2015,
//! section 5.1) with what was seen in each order of the two accesses.

use std::fmt::Write;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::finding::named;

/// What a race does. Sorted from the worst to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// In some order the program crashes, fails an assertion, hangs or misuses memory.
    SpecViolated,
    /// What the program prints, writes to files or exits with depends on the order.
    OutputDiffers,
    /// Only one of the two orders can happen, although no synchronisation says so.
    SingleOrdering,
    /// No execution showed a difference.
    Harmless,
}

named! { Class "a class":
    SpecViolated = "spec-violated",
    OutputDiffers = "output-differs",
    SingleOrdering = "single-ordering",
    Harmless = "harmless",
}

impl Class {
    /// In plain words.
    pub fn words(self) -> &'static str {
        match self {
            Class::SpecViolated => "specification violated",
            Class::OutputDiffers => "output differs",
            Class::SingleOrdering => "single ordering",
            Class::Harmless => "harmless as far as was tried",
        }
    }
}

/// The memory model under which the executions ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// Sequential consistency: an execution is an interleaving.
    Sc,
    /// Total store order: a write may be delayed past later reads of its thread.
    Tso,
    /// A read may return any write that happens-before does not rule out.
    Weak,
}

named! { Memory "a memory model":
    Sc = "sc",
    Tso = "tso",
    Weak = "weak",
}

/// The class of a race and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consequence {
    pub class: Class,
    /// How many executions of each order stand behind the class, the smaller of the two numbers where
    /// both orders were executed.
    pub k: usize,
    pub memory: Memory,
    pub evidence: Evidence,
    /// The input with which the harm was seen, where that is not the recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Access (1) before (2), then (2) before (1).
    pub orders: [OrderSeen; 2],
    /// What the two orders print differently; empty unless that is the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// How the program ends under a weaker memory model, where only that does the harm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<String>,
    /// What was left out of the comparison, and other reservations, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was seen in the executions of one order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderSeen {
    /// How many times the order was asked for.
    pub tried: usize,
    /// In how many of these the two accesses happened in this order.
    pub happened: usize,
    /// How many of those failed.
    pub failed: usize,
    /// How the first of them failed, to complete "the program"; and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What the program did in one order and not in the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Where it goes: `output`, `exit status` or a file.
    pub to: String,
    /// With (1) before (2), and with (2) before (1); empty if there is nothing.
    pub lines: [Vec<String>; 2],
}

/// The names of the two orders, as the views number the accesses.
const ORDERS: [&str; 2] = ["(1) before (2)", "(2) before (1)"];

impl Consequence {
    /// The class in plain words. What only a weaker memory model does is predicted: no run has shown it.
    pub fn words(&self) -> String {
        let class = self.class.words();
        match self.memory {
            Memory::Sc if self.evidence.predicted.is_some() => format!("{class} (predicted)"),
            Memory::Sc => class.into(),
            Memory::Tso | Memory::Weak => {
                format!("{class} (predicted, memory model {})", self.memory.name())
            }
        }
    }

    /// One sentence: what happens, in which order, how often.
    pub fn sentence(&self) -> String {
        match &self.input {
            Some(input) => format!("{}; with {input}", self.what_happens()),
            None => self.what_happens(),
        }
    }

    fn what_happens(&self) -> String {
        if let Some(predicted) = &self.evidence.predicted {
            return predicted.clone();
        }
        let orders = &self.evidence.orders;
        let times = |at: usize| format!("{} of {}", orders[at].failed, orders[at].happened);
        match self.class {
            Class::SpecViolated => {
                let worst = usize::from(orders[0].failure.is_none());
                let what = orders[worst].failure.as_deref().unwrap_or("failed");
                let mut text = format!("with {} the program {what}", ORDERS[worst]);
                let other = 1 - worst;
                if orders[worst].failed == 0 {
                    text.push_str(", as the check has shown; no execution repeated it");
                    return text;
                }
                write!(text, " ({} executions)", times(worst))
                    .expect("writing to a string cannot fail");
                let rest = match (orders[other].failed, orders[other].happened) {
                    (_, 0) => format!("{} did not happen", ORDERS[other]),
                    (0, _) => format!("with {} it did not fail ({})", ORDERS[other], times(other)),
                    (_, _) => format!(
                        "with {} it failed as well ({})",
                        ORDERS[other],
                        times(other)
                    ),
                };
                write!(text, "; {rest}").expect("writing to a string cannot fail");
                text
            }
            Class::OutputDiffers => match self.evidence.differences.first() {
                Some(difference) => {
                    let one = |lines: &[String]| match lines.first() {
                        Some(line) => format!("`{line}`"),
                        None => "nothing".into(),
                    };
                    let [first, second] = &difference.lines;
                    format!(
                        "{}: {} with {}, {} with {}",
                        difference.to,
                        one(first),
                        ORDERS[0],
                        one(second),
                        ORDERS[1]
                    )
                }
                None => "the two orders differ in what the program prints".into(),
            },
            Class::SingleOrdering => {
                let missing = usize::from(orders[0].happened > 0);
                format!(
                    "{} could not be made to happen in {} executions that asked for it, {} happened in {}",
                    ORDERS[missing],
                    orders[missing].tried,
                    ORDERS[1 - missing],
                    orders[1 - missing].happened
                )
            }
            Class::Harmless => format!(
                "{} executions of each order printed the same and ended in the same way",
                self.k
            ),
        }
    }
}
