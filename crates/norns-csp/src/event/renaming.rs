//! Renamings of events.

use super::EventId;

/// A renaming. An event that it does not speak of keeps its name; one that it gives several names
/// may become any of them.
///
/// Events with consecutive numbers that are renamed in parallel (`[[ c <- d ]]` for two channels of
/// the same type) are one entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Renaming {
    // Sorted; no two overlap.
    segments: Box<[Segment]>,
    // What the first event of each segment becomes, one list after the other; each is sorted.
    targets: Box<[u32]>,
}

/// Events that are renamed in the same way: `first + i` to each of its targets plus `i`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Segment {
    first: u32,
    last: u32,
    // Its part of `targets`.
    from: u32,
    to: u32,
}

impl Renaming {
    /// The renaming with these pairs (old, new).
    pub fn new(pairs: impl IntoIterator<Item = (EventId, EventId)>) -> Self {
        Renaming::of_runs(pairs.into_iter().map(|(from, to)| (from, to, 1)))
    }

    /// The renaming with these runs (first old, first new, how many).
    pub fn of_runs(runs: impl IntoIterator<Item = (EventId, EventId, u32)>) -> Self {
        // (first, last, what the first becomes)
        let mut runs: Vec<(u32, u32, u32)> = runs
            .into_iter()
            .filter(|run| run.2 > 0)
            .map(|(from, to, count)| {
                assert!(
                    from.is_visible() && to.is_visible(),
                    "tau and tick cannot be renamed"
                );
                (from.0, from.0 + (count - 1), to.0)
            })
            .collect();
        runs.sort_unstable();
        // Where the set of runs that cover an event changes.
        let mut bounds: Vec<u32> = runs
            .iter()
            .flat_map(|run| [run.0, run.1.saturating_add(1)])
            .collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut segments: Vec<Segment> = Vec::new();
        let mut targets: Vec<u32> = Vec::new();
        let mut open: Vec<(u32, u32, u32)> = Vec::new();
        let mut next = 0;
        for bound in bounds.windows(2) {
            let (first, last) = (bound[0], bound[1] - 1);
            open.retain(|run| run.1 >= first);
            while next < runs.len() && runs[next].0 <= first {
                open.push(runs[next]);
                next += 1;
            }
            if open.is_empty() {
                continue;
            }
            let mut images: Vec<u32> = open.iter().map(|run| run.2 + (first - run.0)).collect();
            images.sort_unstable();
            images.dedup();
            if let Some(before) = segments.last_mut()
                && before.last + 1 == first
                && (before.to - before.from) as usize == images.len()
                && targets[before.from as usize..]
                    .iter()
                    .zip(&images)
                    .all(|(old, new)| old + (first - before.first) == *new)
            {
                before.last = last;
                continue;
            }
            let from = targets.len() as u32;
            targets.extend(images);
            segments.push(Segment {
                first,
                last,
                from,
                to: targets.len() as u32,
            });
        }
        Renaming {
            segments: segments.into(),
            targets: targets.into(),
        }
    }

    /// Whether no event gets another name.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Memory of the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.len() * size_of::<Segment>() + self.targets.len() * 4
    }

    /// What an event becomes, sorted; nothing if the renaming does not speak of it.
    pub fn images(&self, event: EventId) -> impl ExactSizeIterator<Item = EventId> + '_ {
        let after = self.segments.partition_point(|s| s.first <= event.0);
        let segment = after.checked_sub(1).map(|at| self.segments[at]);
        let (targets, offset) = match segment {
            Some(segment) if event.0 <= segment.last => (
                &self.targets[segment.from as usize..segment.to as usize],
                event.0 - segment.first,
            ),
            _ => (&[][..], 0),
        };
        targets.iter().map(move |to| EventId(to + offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_random::Random;

    #[test]
    fn runs_rename_like_their_pairs() {
        let mut random = Random::new(11);
        for _ in 0..20_000 {
            let mut event = || EventId(2 + random.below(16) as u32);
            let ends: Vec<(EventId, EventId)> = (0..3).map(|_| (event(), event())).collect();
            let runs: Vec<(EventId, EventId, u32)> = ends
                .into_iter()
                .map(|(from, to)| (from, to, random.below(7) as u32))
                .collect();
            let pairs: Vec<(EventId, EventId)> = runs
                .iter()
                .flat_map(|run| (0..run.2).map(|i| (EventId(run.0.0 + i), EventId(run.1.0 + i))))
                .collect();
            let renaming = Renaming::of_runs(runs.iter().copied());
            assert_eq!(renaming.is_empty(), pairs.is_empty());
            for from in (0..30).map(EventId) {
                let mut wanted: Vec<EventId> = pairs
                    .iter()
                    .filter(|pair| pair.0 == from)
                    .map(|pair| pair.1)
                    .collect();
                wanted.sort_unstable();
                wanted.dedup();
                let images: Vec<EventId> = renaming.images(from).collect();
                assert_eq!(images, wanted, "{from:?} under {runs:?}");
            }
            assert_eq!(renaming, Renaming::new(pairs), "{runs:?}");
        }
    }
}
