//! Strongly connected components of directed graphs whose nodes are numbers.

/// The number of the strongly connected component of each node (Tarjan 1972, without recursion).
/// Components are numbered from 0 without gaps, and an edge between two of them leads to the one
/// with the smaller number.
pub fn strongly_connected<I: Iterator<Item = u32>>(n: usize, next: impl Fn(u32) -> I) -> Vec<u32> {
    const NEW: u32 = u32::MAX;
    let mut index = vec![NEW; n];
    let mut low = vec![0u32; n];
    let mut component = vec![NEW; n];
    let (mut count, mut found) = (0, 0);
    let mut path: Vec<u32> = Vec::new();
    let mut calls: Vec<(u32, I)> = Vec::new();
    for root in 0..n as u32 {
        if index[root as usize] != NEW {
            continue;
        }
        index[root as usize] = count;
        low[root as usize] = count;
        count += 1;
        path.push(root);
        calls.push((root, next(root)));
        while let Some((s, iter)) = calls.last_mut() {
            let s = *s;
            if let Some(to) = iter.next() {
                if index[to as usize] == NEW {
                    index[to as usize] = count;
                    low[to as usize] = count;
                    count += 1;
                    path.push(to);
                    calls.push((to, next(to)));
                } else if component[to as usize] == NEW {
                    low[s as usize] = low[s as usize].min(index[to as usize]);
                }
                continue;
            }
            calls.pop();
            if let Some((parent, _)) = calls.last() {
                low[*parent as usize] = low[*parent as usize].min(low[s as usize]);
            }
            if low[s as usize] == index[s as usize] {
                while let Some(member) = path.pop() {
                    component[member as usize] = found;
                    if member == s {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use norns_random::Random;

    use super::strongly_connected;

    /// Two nodes share a component if each reaches the other; the numbers follow the edges.
    fn check(seed: u64) {
        let mut random = Random::new(seed);
        let n = random.below(12);
        let edges: Vec<(usize, usize)> = (0..random.below(2 * n + 1))
            .map(|_| (random.below(n), random.below(n)))
            .collect();
        // A bit for every node that can be reached.
        let mut reaches: Vec<u32> = (0..n).map(|node| 1 << node).collect();
        for _ in 0..n {
            for &(from, to) in &edges {
                reaches[from] |= reaches[to];
            }
        }
        let reaches = |from: usize, to: usize| reaches[from] & 1 << to != 0;
        let component = strongly_connected(n, |node| {
            let out = edges.iter().filter(move |edge| edge.0 == node as usize);
            out.map(|edge| edge.1 as u32)
        });
        for a in 0..n {
            for b in 0..n {
                let same = reaches(a, b) && reaches(b, a);
                assert_eq!(component[a] == component[b], same, "seed {seed}: {a}, {b}");
                assert!(
                    !reaches(a, b) || component[b] <= component[a],
                    "seed {seed}: {a}, {b}"
                );
            }
        }
        let count = component.iter().max().map_or(0, |most| most + 1);
        assert!(
            (0..count).all(|number| component.contains(&number)),
            "seed {seed}"
        );
    }

    #[test]
    fn components_are_classes_of_mutual_reachability() {
        for seed in 0..2000 {
            check(seed);
        }
    }

    #[test]
    fn a_long_path_needs_no_deep_stack() {
        let n = 1_000_000;
        let next = |node| (node + 1 < n).then_some(node + 1).into_iter();
        assert_eq!(strongly_connected(n as usize, next)[0], n - 1);
    }
}
