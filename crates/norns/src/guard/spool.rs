//! Batches that a hive has not acknowledged yet, on disk: `FOLDER/TIME-ID.json`, the oldest first.
//!
//! Where the disk is full they stay in memory, for as long as the agent lives. When there are too many, the oldest are
//! given up: what a hive has not taken for so long is not worth a site's disk.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use norns_hive::protocol::MAX_BATCH_BYTES;
use norns_hive::{Batch, ProgramName};
use serde::{Deserialize, Serialize};

/// The most batches that are kept, on disk and in memory each.
const MOST: usize = 1000;
const FORMAT: u32 = 1;

pub struct Spool {
    folder: PathBuf,
    in_memory: VecDeque<Kept>,
    /// Files that were sent and could not be removed.
    sent: BTreeSet<PathBuf>,
    /// How many were given up.
    pub lost: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    format: u32,
    pub program: ProgramName,
    pub batch: Batch,
}

/// Where a batch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Memory,
    Disk(PathBuf),
}

impl Spool {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            in_memory: VecDeque::new(),
            sent: BTreeSet::new(),
            lost: 0,
        }
    }

    /// Keeps a batch. When this returns without an error, it is on disk; otherwise it is kept in memory.
    pub fn add(&mut self, program: ProgramName, batch: Batch) -> io::Result<()> {
        let kept = Kept {
            format: FORMAT,
            program,
            batch,
        };
        let written = self.write(&kept);
        if written.is_err() {
            if self.in_memory.len() == MOST {
                self.in_memory.pop_front();
                self.lost += 1;
            }
            self.in_memory.push_back(kept);
        }
        written
    }

    fn write(&mut self, kept: &Kept) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos());
        let name = format!("{now:024}-{}", kept.batch.id);
        let part = self.folder.join(format!("{name}.part"));
        let text = serde_json::to_vec(kept)?;
        let write = |path: &Path| {
            let mut file = fs::File::create(path)?;
            file.write_all(&text)?;
            file.sync_data()?;
            fs::rename(path, self.folder.join(format!("{name}.json")))
        };
        if let Err(error) = write(&part) {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        let names = self.names();
        for name in &names[..names.len().saturating_sub(MOST)] {
            self.lost += u64::from(fs::remove_file(self.folder.join(name)).is_ok());
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
        names.sort();
        names
    }

    /// The oldest batch. What is no batch is removed.
    pub fn oldest(&self) -> Option<(Place, Kept)> {
        for name in self.names() {
            let path = self.folder.join(name);
            if self.sent.contains(&path) {
                continue;
            }
            let too_long = |status: fs::Metadata| status.len() > 4 * MAX_BATCH_BYTES as u64;
            let kept = match fs::metadata(&path).map(too_long) {
                Ok(false) => fs::read(&path).ok(),
                Ok(true) => None,
                // Another agent of this user has sent it meanwhile.
                Err(_) => continue,
            };
            let kept = kept.and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
            if let Some(kept) = kept.filter(|kept| kept.format == FORMAT) {
                return Some((Place::Disk(path), kept));
            }
            let _ = fs::remove_file(&path);
        }
        let first = self.in_memory.front()?;
        Some((Place::Memory, first.clone()))
    }

    /// The hive has it, or will never take it.
    pub fn remove(&mut self, place: &Place) {
        match place {
            Place::Memory => drop(self.in_memory.pop_front()),
            Place::Disk(path) => {
                if fs::remove_file(path).is_err() {
                    self.sent.insert(path.clone());
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.oldest().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_hive::{BatchId, BuildId, ParticipantId};

    fn batch(number: u32) -> Batch {
        Batch {
            format: 1,
            id: BatchId::new(format!("{number:032x}")).expect("digits"),
            participant: ParticipantId::new("0".repeat(32)).expect("digits"),
            build: BuildId::new("00112233").expect("digits"),
            reports: Vec::new(),
        }
    }

    fn spool(name: &str) -> Spool {
        let folder = std::env::temp_dir().join(format!("norns-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Spool::new(folder)
    }

    fn server() -> ProgramName {
        ProgramName::new("server").expect("a name")
    }

    #[test]
    fn batches_come_back_oldest_first_also_to_another_agent() {
        let mut spool = spool("spool");
        (1..=2).for_each(|it| spool.add(server(), batch(it)).expect("a disk with room"));
        fs::write(spool.folder.join("0-broken.json"), "{").expect("room");
        let mut other = Spool::new(spool.folder.clone());
        for number in 1..=2 {
            let (place, kept) = other.oldest().expect("one is left");
            assert_eq!((kept.program, kept.batch), (server(), batch(number)));
            other.remove(&place);
        }
        assert!(other.oldest().is_none() && spool.is_empty());
        let _ = fs::remove_dir_all(&spool.folder);
    }

    #[test]
    fn what_the_disk_does_not_take_stays_in_memory() {
        let mut spool = spool("no-spool");
        fs::write(&spool.folder, "not a folder").expect("room");
        assert!(spool.add(server(), batch(1)).is_err());
        let (place, kept) = spool.oldest().expect("it is in memory");
        assert_eq!((&place, kept.batch), (&Place::Memory, batch(1)));
        spool.remove(&place);
        assert!(spool.is_empty());
        let _ = fs::remove_file(&spool.folder);
    }
}
