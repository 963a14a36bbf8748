//! States on disk, for a search that outgrows its memory.
//!
//! New states are not looked up one by one: what one level of a breadth-first search reaches is
//! collected, sorted and merged with the sorted runs of states that are on disk already (delayed
//! duplicate detection). The states of a level also go to a log in the order of their
//! numbers, from which they are read when the next level is expanded. Runs are merged with each
//! other when they are of similar size, so there are few of them.
//!
//! The files are removed from their folder as soon as they are open: nothing stays behind.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

// Words that are read or written at once.
const BLOCK: usize = 1 << 13;

/// An open file that no folder lists any more.
fn anonymous(folder: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("norns-csp-{}-{number}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => {
                let file = file?;
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}

/// Reads words at a place that is counted in words.
fn read_words(file: &File, at: u64, words: &mut [u64]) -> io::Result<()> {
    let mut bytes = vec![0; words.len() * 8];
    file.read_exact_at(&mut bytes, at * 8)?;
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    }
    Ok(())
}

/// A file of words that grows at its end.
#[derive(Debug)]
struct Writer {
    file: File,
    // Words in the file; those in `buffer` come after them.
    written: u64,
    buffer: Vec<u64>,
}

impl Writer {
    fn new(folder: &Path) -> io::Result<Self> {
        Ok(Writer {
            file: anonymous(folder)?,
            written: 0,
            buffer: Vec::new(),
        })
    }

    fn push(&mut self, words: &[u64]) -> io::Result<()> {
        self.buffer.extend_from_slice(words);
        if self.buffer.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes: Vec<u8> = self.buffer.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, self.written * 8)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Records in ascending order, without duplicates: a state and its number.
#[derive(Debug)]
struct Run {
    file: File,
    records: u64,
}

/// A place in a run.
struct Cursor<'a> {
    run: &'a Run,
    record: usize,
    // The records `first..first + block.len() / record`.
    first: u64,
    block: Vec<u64>,
    at: u64,
}

impl<'a> Cursor<'a> {
    fn new(run: &'a Run, record: usize) -> io::Result<Self> {
        let mut cursor = Cursor {
            run,
            record,
            first: 0,
            block: Vec::new(),
            at: 0,
        };
        cursor.load(0)?;
        Ok(cursor)
    }

    fn load(&mut self, first: u64) -> io::Result<()> {
        let most = (BLOCK / self.record).max(1) as u64;
        let count = most.min(self.run.records - first) as usize;
        self.first = first;
        self.block.resize(count * self.record, 0);
        read_words(&self.run.file, first * self.record as u64, &mut self.block)
    }

    /// The record that the cursor is at; none at the end.
    fn get(&self) -> Option<&[u64]> {
        let at = (self.at - self.first) as usize * self.record;
        self.block.get(at..at + self.record)
    }

    fn next(&mut self) -> io::Result<()> {
        self.at += 1;
        if self.get().is_none() && self.at < self.run.records {
            self.load(self.at)?;
        }
        Ok(())
    }

    /// Goes forward to the first record whose state is not less.
    fn advance(&mut self, state: &[u64]) -> io::Result<()> {
        let words = self.record - 1;
        loop {
            match self.get() {
                Some(record) if record[..words] < *state => {}
                _ => return Ok(()),
            }
            let end = self.block.len() - self.record;
            if self.block[end..end + words] < *state {
                // Past this block: by binary search, in blocks.
                let most = (BLOCK / self.record).max(1) as u64;
                let (mut low, mut high) = (
                    self.first + (self.block.len() / self.record) as u64,
                    self.run.records,
                );
                let mut record = vec![0; self.record];
                while high - low.min(high) > most {
                    let middle = low + (high - low) / 2;
                    let at = middle * self.record as u64;
                    read_words(&self.run.file, at, &mut record)?;
                    if record[..words] < *state {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                self.at = low;
                if low >= self.run.records {
                    self.block.clear();
                    self.first = low;
                    return Ok(());
                }
                self.load(low)?;
                continue;
            }
            let start = (self.at - self.first) as usize;
            let records = self.block[start * self.record..].chunks_exact(self.record);
            let less = records.take_while(|r| r[..words] < *state).count();
            self.at += less as u64;
        }
    }
}

/// The part of a shard that is on disk.
#[derive(Debug)]
pub struct Disk {
    words: usize,
    folder: PathBuf,
    // All states in the order of their numbers.
    log: Writer,
    len: u64,
    runs: Vec<Run>,
    // What the current level has reached, not yet compared with the runs: in memory, and in
    // sorted files of states without numbers (the number is written as 0).
    pending: Vec<u64>,
    pending_limit: usize,
    sorted: Vec<Run>,
}

impl Disk {
    /// `bytes` is the memory that the states of a level may take before they are written.
    pub fn new(words: usize, folder: &Path, bytes: usize) -> io::Result<Self> {
        Ok(Disk {
            words,
            folder: folder.to_owned(),
            log: Writer::new(folder)?,
            len: 0,
            runs: Vec::new(),
            pending: Vec::new(),
            pending_limit: (bytes / 8).max(1 << 12),
            sorted: Vec::new(),
        })
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Memory between commits: what is pending, and as much again while it is sorted.
    pub fn bytes(&self) -> usize {
        (self.pending.capacity() * 2 + BLOCK) * 8
    }

    /// Bytes of all files.
    pub fn on_disk(&self) -> u64 {
        let record = self.words as u64 + 1;
        let runs = self.runs.iter().chain(&self.sorted);
        self.log.written * 8 + runs.map(|run| run.records * record * 8).sum::<u64>()
    }

    /// A state by its number.
    pub fn state(&self, number: usize) -> io::Result<Vec<u64>> {
        let mut state = vec![0; self.words];
        read_words(&self.log.file, (number * self.words) as u64, &mut state)?;
        Ok(state)
    }

    /// The states with these numbers, one after the other.
    pub fn states(&self, numbers: std::ops::Range<usize>) -> io::Result<Vec<u64>> {
        let mut states = vec![0; numbers.len() * self.words];
        let at = (numbers.start * self.words) as u64;
        read_words(&self.log.file, at, &mut states)?;
        Ok(states)
    }

    /// Takes over different states, in the order of their numbers. To be called first.
    pub fn adopt(&mut self, count: usize, state: impl Fn(u32) -> Vec<u64>) -> io::Result<()> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        for &number in &order {
            self.log.push(&state(number))?;
        }
        self.log.flush()?;
        order.sort_by_cached_key(|&number| state(number));
        let mut run = Writer::new(&self.folder)?;
        for number in order {
            run.push(&state(number))?;
            run.push(&[u64::from(number)])?;
        }
        run.flush()?;
        self.len = count as u64;
        if count > 0 {
            self.runs.push(Run {
                file: run.file,
                records: self.len,
            });
        }
        Ok(())
    }

    /// Remembers a state that the current level has reached.
    pub fn reach(&mut self, state: &[u64]) -> io::Result<()> {
        self.pending.extend_from_slice(state);
        if self.pending.len() >= self.pending_limit {
            self.write_pending()?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let mut states: Vec<&[u64]> = self.pending.chunks_exact(self.words).collect();
        states.sort_unstable();
        states.dedup();
        let mut writer = Writer::new(&self.folder)?;
        let records = states.len() as u64;
        for state in states {
            writer.push(state)?;
            writer.push(&[0])?;
        }
        writer.flush()?;
        self.sorted.push(Run {
            file: writer.file,
            records,
        });
        self.pending.clear();
        Ok(())
    }

    /// Ends a level: what it reached and is not there yet gets numbers.
    pub fn commit(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.write_pending()?;
        }
        if self.sorted.is_empty() {
            return Ok(());
        }
        let record = self.words + 1;
        let sorted = std::mem::take(&mut self.sorted);
        let mut new = Writer::new(&self.folder)?;
        let before = self.len;
        {
            let mut known = cursors(&self.runs, record)?;
            let mut reached = cursors(&sorted, record)?;
            while let Some(state) = least(&reached, self.words) {
                for cursor in &mut reached {
                    if cursor.get().is_some_and(|r| r[..self.words] == state[..]) {
                        cursor.next()?;
                    }
                }
                let mut there = false;
                for cursor in &mut known {
                    cursor.advance(&state)?;
                    there |= cursor.get().is_some_and(|r| r[..self.words] == state[..]);
                }
                if !there {
                    self.log.push(&state)?;
                    new.push(&state)?;
                    new.push(&[self.len])?;
                    self.len += 1;
                }
            }
        }
        self.log.flush()?;
        new.flush()?;
        if self.len > before {
            self.runs.push(Run {
                file: new.file,
                records: self.len - before,
            });
            self.merge_similar()?;
        }
        Ok(())
    }

    /// Merges the newest runs while they are not much smaller than the one before them.
    fn merge_similar(&mut self) -> io::Result<()> {
        while let [.., a, b] = &self.runs[..]
            && b.records * 2 >= a.records
        {
            let record = self.words + 1;
            let mut merged = Writer::new(&self.folder)?;
            let records = a.records + b.records;
            let (mut a, mut b) = (Cursor::new(a, record)?, Cursor::new(b, record)?);
            loop {
                let take = match (a.get(), b.get()) {
                    (Some(x), Some(y)) if x < y => &mut a,
                    (_, Some(_)) => &mut b,
                    (Some(_), None) => &mut a,
                    (None, None) => break,
                };
                merged.push(take.get().expect("looked at above"))?;
                take.next()?;
            }
            merged.flush()?;
            self.runs.truncate(self.runs.len() - 2);
            self.runs.push(Run {
                file: merged.file,
                records,
            });
        }
        Ok(())
    }

    /// The number of a state.
    pub fn find(&self, state: &[u64]) -> io::Result<Option<usize>> {
        for run in &self.runs {
            let mut cursor = Cursor::new(run, self.words + 1)?;
            cursor.advance(state)?;
            if let Some(record) = cursor.get()
                && record[..self.words] == *state
            {
                return Ok(Some(record[self.words] as usize));
            }
        }
        Ok(None)
    }
}

fn cursors(runs: &[Run], record: usize) -> io::Result<Vec<Cursor<'_>>> {
    runs.iter().map(|run| Cursor::new(run, record)).collect()
}

/// The least state that a cursor is at.
fn least(cursors: &[Cursor], words: usize) -> Option<Vec<u64>> {
    let states = cursors.iter().filter_map(|c| c.get().map(|r| &r[..words]));
    states.min().map(<[u64]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use norns_random::Random;

    use super::Disk;

    #[test]
    fn a_disk_remembers_what_a_map_does() {
        let mut stream = Random::new(1);
        let mut random = |bound| stream.below(bound) as u64;
        let folder = std::env::temp_dir();
        for words in [1, 3] {
            let mut disk = Disk::new(words, &folder, 1).expect("the folder can be written");
            let mut numbers: HashMap<Vec<u64>, usize> = HashMap::new();
            for level in 0..60 {
                let mut reached: Vec<Vec<u64>> = Vec::new();
                for _ in 0..random(20_000) {
                    let mut state = vec![random(200_000)];
                    state.resize_with(words, || random(2));
                    reached.push(state);
                }
                for state in &reached {
                    disk.reach(state).expect("written");
                }
                disk.commit().expect("written");
                reached.sort();
                reached.dedup();
                for state in reached {
                    let next = numbers.len();
                    numbers.entry(state).or_insert(next);
                }
                assert_eq!(disk.len(), numbers.len(), "level {level}");
            }
            for (state, &number) in numbers.iter().take(2000) {
                assert_eq!(disk.find(state).expect("read"), Some(number));
                assert_eq!(&disk.state(number).expect("read"), state);
            }
            assert_eq!(disk.find(&vec![u64::MAX; words]).expect("read"), None);
        }
    }
}
