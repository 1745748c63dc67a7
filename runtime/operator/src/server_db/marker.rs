//! That keys were ever made, known outside the database: a server whose database is lost or emptied must not take that for
//! "nobody has a key", and answer as the operator.

use herm::fsio;
use herm::receipt::Envelope;
use herm::{Clock as _, Error, ErrorKind, Result, SystemClock};
use serde_json::{Value, json};

use super::{ServerDb, keys};
use crate::config::Settings;

/// The predicate of the marker.
const MARKER_TYPE: &str = "urn:herm:keys-made:1";
/// The largest marker that is read.
const MAX_BYTES: u64 = 64 << 10;

/// What stands where the marker belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// No file: no key was made here, or the file was removed.
    Absent,
    /// This operator's word that keys were made.
    Signed,
    /// Something that this operator's key did not sign.
    NotOurs,
}

/// Looks at the marker.
pub(crate) fn look(settings: &Settings) -> Marker {
    let is_ours = |bytes: Vec<u8>| {
        let line = String::from_utf8(bytes).ok()?;
        let key = settings.signer.existing().ok()?;
        let payload = Envelope::parse(line.trim()).ok()?.open(key.public()).ok()?;
        let statement: Value = serde_json::from_slice(&payload).ok()?;
        (statement["predicateType"] == MARKER_TYPE).then_some(())
    };
    match fsio::read_regular(&settings.layout.keys_marker(), MAX_BYTES) {
        Ok(bytes) => is_ours(bytes).map_or(Marker::NotOurs, |()| Marker::Signed),
        Err(error) if error.kind() == ErrorKind::NotFound => Marker::Absent,
        // Something is there that cannot be read: that is not the same as nothing.
        Err(_) => Marker::NotOurs,
    }
}

/// Writes the marker, whole and on the disk, in the place of whatever is there.
pub(crate) fn make(settings: &Settings) -> Result<()> {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [],
        "predicateType": MARKER_TYPE,
        "predicate": { "at": SystemClock.now() },
    });
    let line = Envelope::seal(statement.to_string().as_bytes(), settings.signer.get()?).to_line()?;
    // The database has keys, or this would not be called: a moment without a marker does no harm.
    remove(settings)?;
    fsio::create_private(&settings.layout.keys_marker(), format!("{line}\n").as_bytes())
}

/// Takes the marker away.
pub(crate) fn remove(settings: &Settings) -> Result<()> {
    fsio::remove_file(&settings.layout.keys_marker())
}

/// Refuses to go on where keys were made and the database that had them is gone. Makes nothing.
pub(crate) fn check_there(settings: &Settings) -> Result<()> {
    let marker = look(settings);
    if marker == Marker::Absent {
        return Ok(());
    }
    match settings.layout.server_db().metadata() {
        Ok(meta) if meta.len() > 0 => Ok(()),
        Ok(_) => Err(lost(settings, marker, "is empty")),
        Err(_) => Err(lost(settings, marker, "is missing")),
    }
}

/// Refuses to go on where keys were made and the database has none of them; writes the marker where it has some and the
/// marker is missing or is not ours.
pub(crate) fn check(settings: &Settings, has_keys: bool) -> Result<()> {
    match (look(settings), has_keys) {
        (Marker::Absent, false) | (Marker::Signed, true) => Ok(()),
        (Marker::Absent | Marker::NotOurs, true) => {
            if let Err(error) = make(settings) {
                tracing::warn!(%error, "that keys were made is not written down outside the database; the next start tries again");
            }
            Ok(())
        }
        (marker, false) => Err(lost(settings, marker, "has no keys")),
    }
}

/// Opens the database for a server: never one that has lost its keys.
pub(crate) fn open_book(settings: &Settings) -> Result<ServerDb> {
    check_there(settings)?;
    let book = ServerDb::open(&settings.layout)?;
    let has_keys = !book.read(keys::all)?.is_empty();
    check(settings, has_keys)?;
    Ok(book)
}

fn lost(settings: &Settings, marker: Marker, what: &str) -> Error {
    let (book, file) = (settings.layout.server_db(), settings.layout.keys_marker());
    let word = match marker {
        Marker::NotOurs => {
            format!("{} says that keys were made here, though this operator did not sign it", file.display())
        }
        Marker::Absent | Marker::Signed => "keys were made for the server of these brains".to_owned(),
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
