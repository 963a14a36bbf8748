//! Folding of long lists: blocks that are repeated stand once, and of what is still long the
//! middle is left out.

use std::ops::Range;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fold {
    /// Shown one by one.
    Steps(Range<usize>),
    /// `range`, and then the same again until it was there so many times.
    Repeated { range: Range<usize>, times: usize },
    /// Left out.
    Left(Range<usize>),
}

// Lists up to this length are shown as they are.
const SHORT: usize = 24;
const LONGEST_BLOCK: usize = 16;
const FEWEST_TIMES: usize = 3;
// Of what does not repeat, this many are shown at each end.
const ENDS: usize = 40;

/// How a list is shown.
pub fn folds<T: PartialEq>(items: &[T]) -> Vec<Fold> {
    if items.len() <= SHORT {
        return vec![Fold::Steps(0..items.len())];
    }
    let mut all = Vec::new();
    let mut at = 0;
    let mut plain = 0;
    while at < items.len() {
        let best = (1..=LONGEST_BLOCK)
            .map(|block| (block, times(&items[at..], block)))
            .filter(|&(_, times)| times >= FEWEST_TIMES)
            .max_by_key(|&(block, times)| (block * times, std::cmp::Reverse(block)));
        let Some((block, times)) = best else {
            at += 1;
            continue;
        };
        push_plain(&mut all, plain..at);
        all.push(Fold::Repeated {
            range: at..at + block,
            times,
        });
        at += block * times;
        plain = at;
    }
    push_plain(&mut all, plain..at);
    all
}

fn push_plain(all: &mut Vec<Fold>, range: Range<usize>) {
    if range.len() > 2 * ENDS + SHORT {
        let (from, to) = (range.start + ENDS, range.end - ENDS);
        all.push(Fold::Steps(range.start..from));
        all.push(Fold::Left(from..to));
        all.push(Fold::Steps(to..range.end));
    } else if !range.is_empty() {
        all.push(Fold::Steps(range));
    }
}

/// How often the first `block` items stand there in a row.
fn times<T: PartialEq>(items: &[T], block: usize) -> usize {
    let mut times = 1;
    while items.len() >= block * (times + 1)
        && items[block * times..block * (times + 1)] == items[..block]
    {
        times += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::{Fold, folds};

    #[test]
    fn blocks_are_folded_and_nothing_is_lost() {
        let text: Vec<char> = format!("xy{}z", "abc".repeat(20)).chars().collect();
        assert_eq!(
            folds(&text),
            [
                Fold::Steps(0..2),
                Fold::Repeated {
                    range: 2..5,
                    times: 20
                },
                Fold::Steps(62..63)
            ]
        );
        let short: Vec<char> = "aaaa".chars().collect();
        assert_eq!(folds(&short), [Fold::Steps(0..4)]);
        let long: Vec<usize> = (0..500).collect();
        assert_eq!(
            folds(&long),
            [
                Fold::Steps(0..40),
                Fold::Left(40..460),
                Fold::Steps(460..500)
            ]
        );
    }
}
