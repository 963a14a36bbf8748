//! Random damage to texts, for the tests.

use norns_random::Random;

/// Changes the text in a few random places: bytes, fields and lines are replaced, doubled, removed.
pub fn damage(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if text.is_empty() {
            return;
        }
        let at = random.below(text.len());
        match random.below(6) {
            0 => text[at] = random.draw() as u8,
            1 => text[at] = random.pick(b" \n0-+xf"),
            2 => text.truncate(at),
            3 => text.insert(at, random.pick(b" \n09:f\0\xff")),
            4 => {
                let end = at + random.below(text.len() - at);
                text.drain(at..end);
            }
            _ => {
                let end = at + random.below((text.len() - at).min(40));
                let copy = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, copy);
            }
        }
    }
}
