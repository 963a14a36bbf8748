//! What a run gets from outside, and whether that is written down.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use norns_wire::environment;

use crate::conversation::Conversation;
use crate::process::Error;

/// The inputs of one run.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Where it is written down.
    pub record: Option<PathBuf>,
    /// What is said instead of the client.
    pub play: Option<Arc<Conversation>>,
    /// From which recording the time and random bytes come.
    pub serve: Option<PathBuf>,
}

impl Inputs {
    /// The variables of the environment for the runtime.
    pub fn variables(&self) -> Result<Vec<(&'static str, OsString)>, Error> {
        let mut variables = Vec::new();
        if let Some(path) = &self.record {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::file("replace", path)(error));
                }
                _ => variables.push((environment::INPUTS, path.into())),
            }
        }
        if let Some(path) = self.serve.as_ref().filter(|path| path.exists()) {
            variables.push((environment::SERVED, path.into()));
        }
        Ok(variables)
    }
}
