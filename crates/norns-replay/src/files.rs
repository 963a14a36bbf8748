//! What becomes of the files that a run changes.
//!
//! The runtime does it (`norns-rt/src/files`): in the recorded run it keeps what is about to be changed,
//! in later runs it changes copies. Here the folders for both are made ready.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use norns_wire::environment::{self, FilesAre};
use norns_wire::files::{Problem, parse};

use crate::process::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// The program changes them.
    Real,
    /// The program changes them, and they are kept in this folder as they were before.
    Kept { folder: PathBuf },
    /// The program changes copies in `folder`, which begins as a copy of `kept`.
    Private { kept: PathBuf, folder: PathBuf },
}

impl Files {
    /// Makes the folder ready; the variable of the environment that tells the runtime.
    pub fn prepare(&self) -> Result<Option<(&'static str, OsString)>, Error> {
        let (are, folder) = match self {
            Files::Real => return Ok(None),
            Files::Kept { folder } => (FilesAre::Kept, folder),
            Files::Private { folder, .. } => (FilesAre::Private, folder),
        };
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file("replace", folder)(error));
            }
            _ => {}
        }
        fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        match self {
            Files::Private { kept, .. } if kept.exists() => {
                copy(kept, folder).map_err(Error::file("copy", kept))?;
            }
            _ => {}
        }
        let folder = fs::canonicalize(folder).map_err(Error::file("find", folder))?;
        let mut value = OsString::from(are.word());
        value.push(" ");
        value.push(folder);
        Ok(Some((environment::FILES, value)))
    }

    /// What runs could not look after in this folder.
    pub fn problems(folder: &Path) -> BTreeSet<(Problem, String)> {
        let mut notes = folder.as_os_str().to_owned();
        notes.push(".notes");
        let text = fs::read(notes).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all = text.lines().filter_map(parse);
        all.map(|(problem, path)| (problem, path.to_owned()))
            .collect()
    }
}

/// Copies what is in a folder: files, folders and symbolic links.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
            let times = fs::metadata(&from)?.modified()?;
            // A copy that the program must not write cannot be given its time either.
            if let Ok(copy) = fs::File::options().append(true).open(&to) {
                copy.set_modified(times)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_layer_begins_as_the_kept_one() {
        let folder = std::env::temp_dir().join(format!("norns-files-{}", std::process::id()));
        let kept = folder.join("kept");
        fs::create_dir_all(kept.join("a")).unwrap();
        fs::write(kept.join("a/log"), "one").unwrap();
        std::os::unix::fs::symlink("/nowhere", kept.join("a/gone")).unwrap();
        let files = Files::Private {
            kept,
            folder: folder.join("own"),
        };
        for _ in 0..2 {
            let (_, value) = files.prepare().unwrap().unwrap();
            assert!(value.to_str().unwrap().starts_with("private /"));
            let log = folder.join("own/a/log");
            assert_eq!(fs::read_to_string(&log).unwrap(), "one");
            fs::write(log, "two").unwrap();
            let gone = fs::read_link(folder.join("own/a/gone")).unwrap();
            assert_eq!(gone, Path::new("/nowhere"));
        }
        fs::write(folder.join("own.notes"), "large-file /a b\nnew-word /c\n").unwrap();
        let problems = Files::problems(&folder.join("own"));
        assert_eq!(problems, [(Problem::LargeFile, "/a b".to_owned())].into());
        fs::remove_dir_all(folder).unwrap();
    }
}
