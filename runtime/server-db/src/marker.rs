//! That keys were ever made, known outside the database: a server whose database is lost or emptied must not take that for
//! "nobody has a key", and answer as the operator.

use herm::fsio;
use herm::receipt::{Envelope, LazySigner};
use herm::{Clock as _, Error, ErrorKind, Layout, Result, SystemClock};
use serde_json::{Value, json};

use crate::server_layout::ServerLayout;
use crate::{ServerDb, keys};

/// The predicate of the marker.
const MARKER_TYPE: &str = "urn:herm:keys-made:1";
/// The largest marker that is read.
const MAX_BYTES: u64 = 64 << 10;

/// What stands where the marker belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerState {
    /// No file: no key was made here, or the file was removed.
    Absent,
    /// This operator's word that keys were made.
    Signed,
    /// Something that this operator's key did not sign.
    NotOurs,
}

/// The marker of some brains, and the key that signs it.
#[derive(Debug, Clone, Copy)]
pub struct KeysMarker<'a> {
    layout: &'a Layout,
    signer: &'a LazySigner,
}

impl<'a> KeysMarker<'a> {
    /// The marker beside these brains, signed with the key of their operator.
    pub fn new(layout: &'a Layout, signer: &'a LazySigner) -> Self {
        Self { layout, signer }
    }

    /// Looks at the marker.
    pub fn look(&self) -> MarkerState {
        let is_ours = |bytes: Vec<u8>| {
            let line = String::from_utf8(bytes).ok()?;
            let key = self.signer.existing().ok()?;
            let payload = Envelope::parse(line.trim()).ok()?.open(key.public()).ok()?;
            let statement: Value = serde_json::from_slice(&payload).ok()?;
            (statement["predicateType"] == MARKER_TYPE).then_some(())
        };
        match fsio::read_regular(&ServerLayout::of(self.layout).keys_marker(), MAX_BYTES) {
            Ok(bytes) => is_ours(bytes).map_or(MarkerState::NotOurs, |()| MarkerState::Signed),
            Err(error) if error.kind() == ErrorKind::NotFound => MarkerState::Absent,
            // Something is there that cannot be read: that is not the same as nothing.
            Err(_) => MarkerState::NotOurs,
        }
    }

    /// Writes the marker, whole and on the disk, in the place of whatever is there.
    pub fn make(&self) -> Result<()> {
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [],
            "predicateType": MARKER_TYPE,
            "predicate": { "at": SystemClock.now() },
        });
        let line = Envelope::seal(statement.to_string().as_bytes(), self.signer.get()?).to_line()?;
        // The database has keys, or this would not be called: a moment without a marker does no harm.
        self.remove()?;
        fsio::create_private(&ServerLayout::of(self.layout).keys_marker(), format!("{line}\n").as_bytes())
    }

    /// Takes the marker away.
    pub fn remove(&self) -> Result<()> {
        fsio::remove_file(&ServerLayout::of(self.layout).keys_marker())
    }

    /// Refuses to go on where keys were made and the database that had them is gone. Makes nothing.
    pub fn check_there(&self) -> Result<()> {
        let marker = self.look();
        if marker == MarkerState::Absent {
            return Ok(());
        }
        match ServerLayout::of(self.layout).database().metadata() {
            Ok(meta) if meta.len() > 0 => Ok(()),
            Ok(_) => Err(self.lost(marker, "is empty")),
            Err(_) => Err(self.lost(marker, "is missing")),
        }
    }

    /// Refuses to go on where keys were made and the database has none of them; writes the marker where it has some and the
    /// marker is missing or is not ours.
    pub fn check(&self, has_keys: bool) -> Result<()> {
        match (self.look(), has_keys) {
            (MarkerState::Absent, false) | (MarkerState::Signed, true) => Ok(()),
            (MarkerState::Absent | MarkerState::NotOurs, true) => {
                if let Err(error) = self.make() {
                    tracing::warn!(%error, "that keys were made is not written down outside the database; the next start tries again");
                }
                Ok(())
            }
            (marker, false) => Err(self.lost(marker, "has no keys")),
        }
    }

    /// Opens the database for a server: never one that has lost its keys.
    pub fn open_server_db(&self) -> Result<ServerDb> {
        self.check_there()?;
        let book = ServerDb::open(self.layout)?;
        let has_keys = !book.read(keys::all)?.is_empty();
        self.check(has_keys)?;
        Ok(book)
    }

    fn lost(&self, marker: MarkerState, what: &str) -> Error {
        let (book, file) = (ServerLayout::of(self.layout).database(), ServerLayout::of(self.layout).keys_marker());
        let word = match marker {
            MarkerState::NotOurs => {
                format!("{} says that keys were made here, though this operator did not sign it", file.display())
            }
            MarkerState::Absent | MarkerState::Signed => "keys were made for the server of these brains".to_owned(),
        };
        Error::refused(format!(
            "{word}, and {} {what}: without its keys the server would answer everyone on this machine as the operator",
            book.display()
        ))
        .hint(
            "put the database back from a backup; or, if it is lost for good, run `herm keys reset --forget`, which forgets every \
             key, accepted task and payment, and make new keys",
        )
    }
}
