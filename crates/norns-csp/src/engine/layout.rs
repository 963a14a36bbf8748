//! How a state is packed: each field gets just enough bits, and no field crosses a word.

#[derive(Clone, Copy, Debug)]
struct Field {
    word: u32,
    shift: u32,
    mask: u64,
}

#[derive(Clone, Debug)]
pub struct Layout {
    fields: Vec<Field>,
    /// Words in a state, at least one.
    pub words: usize,
}

impl Layout {
    /// The layout for fields of these widths. Wide fields are placed first, each in the last
    /// word with room.
    pub fn new(bits: &[u32]) -> Self {
        let mut order: Vec<usize> = (0..bits.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(bits[i]));
        let mut used: Vec<u32> = vec![0];
        let mut fields = vec![
            Field {
                word: 0,
                shift: 0,
                mask: 0
            };
            bits.len()
        ];
        for i in order {
            let width = bits[i];
            if width == 0 {
                continue;
            }
            let word = match used.iter().rposition(|&u| u + width <= 64) {
                Some(word) => word,
                None => {
                    used.push(0);
                    used.len() - 1
                }
            };
            fields[i] = Field {
                word: word as u32,
                shift: used[word],
                mask: u64::MAX >> (64 - width),
            };
            used[word] += width;
        }
        Layout {
            fields,
            words: used.len(),
        }
    }

    #[inline]
    pub fn get(&self, state: &[u64], field: usize) -> u64 {
        let f = self.fields[field];
        (state[f.word as usize] >> f.shift) & f.mask
    }

    #[inline]
    pub fn set(&self, state: &mut [u64], field: usize, value: u64) {
        let f = self.fields[field];
        let word = &mut state[f.word as usize];
        *word = (*word & !(f.mask << f.shift)) | (value << f.shift);
    }
}
