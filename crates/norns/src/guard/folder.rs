//! The folder of an agent: spare files that programs take, and the files of the programs that run
//! (`norns_wire::guarding`).
//!
//! It is in memory (`/dev/shm`) where there is such a thing: a program writes to its file as to memory, and no disk
//! is in its way. Every file is written to its last byte before it gets its name, so that a full disk shows here
//! and not in the program.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use norns_hive::BuildId;
use norns_wire::guarding::{
    ATTENTION, ATTENTION_AT, SIZE, SPARES, TAKEN_BYTES_AT, TASK_AT, Task, WANTED, prepare,
};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::random_digits;

/// How the folders of sessions begin.
const PREFIX: &str = "norns-guard-";
/// A folder in which something has changed so recently is left alone.
const YOUNG: Duration = Duration::from_secs(10);
/// What its programs were given, for an agent that takes over a folder that stays.
const GIVEN: &str = "given.json";
/// Locked by the agent for as long as it lives.
const LOCK: &str = "agent.lock";

pub struct Folder {
    path: PathBuf,
    // held for its lock
    _lock: File,
    /// Whether the folder is removed with its agent.
    of_session: bool,
}

/// A file that a process has taken.
pub struct Taken {
    file: File,
    path: PathBuf,
    inode: u64,
    pub build: BuildId,
    pub process: u32,
}

impl Folder {
    /// A folder for one session. Those of agents that were killed are removed.
    pub fn of_session() -> io::Result<Self> {
        let parents = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for parent in parents {
            remove_abandoned(&parent);
            let name = format!("{PREFIX}{}-{}", std::process::id(), random_digits());
            let path = parent.join(name);
            let made = DirBuilder::new().mode(0o700).create(&path);
            match made.and_then(|()| Self::lock(path, true)) {
                Ok(folder) => return Ok(folder),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A folder that stays, for services that are told its name.
    pub fn at(path: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(path)?;
        Self::lock(std::path::absolute(path)?, false)
    }

    fn lock(path: PathBuf, of_session: bool) -> io::Result<Self> {
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock()?;
        Ok(Self {
            path,
            _lock: lock,
            of_session,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a spare file for a build wherever one is missing.
    pub fn keep_spares(&self, build: &BuildId, task: &Task) -> io::Result<()> {
        for number in 0..SPARES {
            let spare = self.path.join(format!("{build}-{number}"));
            if spare.exists() {
                continue;
            }
            let mut image = vec![0; SIZE];
            prepare(&mut image, build.as_str(), task)
                .ok_or_else(|| io::Error::other("the id of the build is too long"))?;
            let new = self.path.join("new");
            if let Err(error) = fs::write(&new, image).and_then(|()| fs::rename(&new, &spare)) {
                let _ = fs::remove_file(&new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts another task into the spare files. A process that takes one meanwhile gets the task as one that runs does.
    pub fn give_spares(&self, build: &BuildId, task: &Task) {
        for number in 0..SPARES {
            let spare = self.path.join(format!("{build}-{number}"));
            if let Ok(file) = File::options().write(true).open(spare) {
                give(&file, task);
            }
        }
    }

    /// Keeps what an agent that is started again has to know.
    pub fn remember(&self, given: &impl Serialize) {
        if self.of_session {
            return;
        }
        let new = self.path.join("given.new");
        let text = serde_json::to_vec(given).unwrap_or_default();
        // Where there is no room, results of tasks that are under way are lost with the agent.
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, self.path.join(GIVEN)));
    }

    /// What the agent before this one has kept.
    pub fn remembered<T: DeserializeOwned>(&self) -> Option<T> {
        let text = fs::read(self.path.join(GIVEN)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The files that processes have taken and that `known` does not have, and the programs for whose builds there
    /// was none.
    pub fn news(&self, known: &[&Taken]) -> (Vec<Taken>, Vec<PathBuf>) {
        let (mut taken, mut wanting) = (Vec::new(), Vec::new());
        let Ok(entries) = fs::read_dir(&self.path) else {
            return (taken, wanting);
        };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(WANTED) {
                let written = fs::read(entry.path()).unwrap_or_default();
                // An empty one is just being written.
                if !written.is_empty() {
                    let _ = fs::remove_file(entry.path());
                    wanting.push(PathBuf::from(OsString::from_vec(written)));
                }
            } else if let Some((build, process)) = name.split_once("-run-")
                && let (Ok(build), Ok(process)) = (BuildId::new(build), process.parse())
                && let Ok(status) = entry.metadata()
                && !known.iter().any(|it| it.inode == status.ino())
                && let Ok(file) = File::options().read(true).write(true).open(entry.path())
            {
                taken.push(Taken {
                    file,
                    path: entry.path(),
                    inode: status.ino(),
                    build,
                    process,
                });
            }
        }
        (taken, wanting)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.of_session {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn remove_abandoned(parent: &Path) {
    let own = fs::metadata("/proc/self").map(|status| status.uid());
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry
                .metadata()
                .is_ok_and(|status| own.as_ref().is_ok_and(|own| *own == status.uid()));
        if !is_ours {
            continue;
        }
        // One that is just being made is not locked yet.
        let changed = entry.metadata().and_then(|status| status.modified());
        let age = changed.map(|changed| changed.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age < YOUNG) {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn give(file: &File, task: &Task) {
    let written = file.write_all_at(&task.encode(), TASK_AT as u64);
    if written.is_ok() {
        let _ = file.write_all_at(&[ATTENTION], ATTENTION_AT as u64);
    }
}

impl Taken {
    /// Reads the file.
    pub fn read(&self, into: &mut Vec<u8>) -> io::Result<()> {
        into.resize(SIZE, 0);
        self.file.read_exact_at(into, 0)
    }

    /// Gives the process another task, or none.
    pub fn give(&self, task: &Task) {
        give(&self.file, task);
    }

    /// Says how many attempts were read, so that their places are used again.
    pub fn has_read(&self, attempts: u64) {
        let count = attempts.to_le_bytes();
        let _ = self.file.write_all_at(&count, TAKEN_BYTES_AT as u64);
    }

    /// The process is over, and everything was read.
    pub fn remove(&self) {
        // After an `exec` the same name can be another file's.
        if fs::metadata(&self.path).is_ok_and(|status| status.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use norns_wire::guarding::View;

    fn build() -> BuildId {
        BuildId::new("00112233445566778899aabbccddeeff").expect("hexadecimal digits")
    }

    #[test]
    fn a_file_is_taken_and_given_a_task() {
        let folder = Folder::of_session().expect("memory for it");
        folder
            .keep_spares(&build(), &Task::NONE)
            .expect("room for spare files");
        let spare = folder.path().join(format!("{}-0", build()));
        let run = folder.path().join(format!("{}-run-42", build()));
        fs::rename(&spare, &run).expect("the spare file is there");
        let (taken, wanting) = folder.news(&[]);
        assert_eq!((taken.len(), wanting.len()), (1, 0));
        assert!(folder.news(&[&taken[0]]).0.is_empty());
        assert_eq!(taken[0].process, 42);
        let task = Task {
            serial: 3,
            first: 1,
            second: 2,
            tau_ms: 50,
        };
        taken[0].give(&task);
        let mut bytes = Vec::new();
        taken[0].read(&mut bytes).expect("the file is whole");
        assert!(View::of(&bytes).is_some());
        assert_eq!(bytes[TASK_AT..][..task.encode().len()], task.encode());
        taken[0].remove();
        assert!(!run.exists());
    }

    #[test]
    fn the_folder_of_an_agent_that_was_killed_is_removed() {
        let folder = Folder::of_session().expect("memory for it");
        let left = folder
            .path()
            .with_file_name(format!("{PREFIX}left-{}", random_digits()));
        fs::create_dir(&left).expect("the same place");
        fs::write(left.join(LOCK), "").expect("the same place");
        let parent = folder.path().parent().expect("it has one");
        remove_abandoned(parent);
        assert!(left.exists(), "it may be just being made");
        let long_ago = std::time::SystemTime::now() - 2 * YOUNG;
        let opened = File::open(&left).expect("it is there");
        opened.set_modified(long_ago).expect("it is ours");
        remove_abandoned(parent);
        assert!(!left.exists() && folder.path().exists());
    }
}
