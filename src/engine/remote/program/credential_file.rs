//! The credential of a worker on disk, readable by its user only.
#![allow(clippy::disallowed_methods, reason = "the folder is the program's own")]

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::remote::message::Credential;

/// A credential with the private key that renews it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCredential {
    pub credential: Credential,
    pub private_key: String,
}

/// The file of the credential.
#[derive(Debug)]
pub struct CredentialFile(PathBuf);

impl CredentialFile {
    /// The file in the state folder of a worker.
    pub fn new(state: &Path) -> Self {
        Self(state.join("worker.json"))
    }

    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn read(&self) -> Result<StoredCredential, String> {
        let text = std::fs::read_to_string(&self.0).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound => {
                "this worker is not enrolled: an admin makes a code in the server, then start it with --code".to_owned()
            }
            _ => self.fault(&cause),
        })?;
        serde_json::from_str(&text).map_err(|cause| self.fault(&cause))
    }

    /// Replaces the file, mode 0600.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, stored: &StoredCredential) -> Result<(), String> {
        let fault = |cause: std::io::Error| self.fault(&cause);
        let folder = self.0.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fault)?;
        let draft = self.0.with_extension("draft");
        let text = serde_json::to_string(stored).map_err(|cause| self.fault(&cause))?;
        let _ = std::fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(fault)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
        std::fs::rename(&draft, &self.0).map_err(fault)
    }

    fn fault(&self, cause: &dyn std::fmt::Display) -> String {
        format!("{}: {cause}", self.0.display())
    }
}
