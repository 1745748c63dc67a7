//! Where the server keeps what must outlive it, beside the brains. The page for readers is `docs/operate/server.md`.

use std::path::PathBuf;

use herm::Layout;

/// The server's own files in a directory of brains.
#[derive(Debug, Clone)]
pub struct ServerLayout {
    brains: PathBuf,
}

impl ServerLayout {
    /// The files of the server of these brains.
    pub fn of(layout: &Layout) -> Self {
        Self { brains: layout.brains().to_owned() }
    }

    /// The server database: keys of callers, tasks that were accepted, paused brains.
    pub fn database(&self) -> PathBuf {
        self.brains.join(".operator").join("book.db")
    }

    /// The signed word that keys of callers were made. It stands beside the brains, not in the server database: it
    /// must outlive the database.
    pub fn keys_marker(&self) -> PathBuf {
        self.brains.join(".keys-made.json")
    }

    /// The file whose lock belongs to the one server of these brains.
    pub fn lock(&self) -> PathBuf {
        self.brains.join(".operator").join("serve.lock")
    }
}
