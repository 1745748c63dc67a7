//! A brain in one file: the objects of one snapshot, one after the other.
//!
//! The file is a line `herm/export@1 ID`, then for each object a line of JSON with `name` and `bytes`, and
//! the bytes. It is checked as every snapshot is.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::restore::{Inspect, Restored, Restoring};
use super::store::{MemoryStore, ObjectName, Store};
use super::vault::{Secrecy, Vault};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio;
use crate::ids::{BrainId, Random};
use crate::layout::Layout;
use crate::redact;

const SCHEMA: &str = "herm/export@1";
/// No file of this kind is larger.
const MAX_BYTES: u64 = 1 << 30;
/// Objects in a file, at most.
const MAX_OBJECTS: usize = 1_000_000;
/// Tables that hold nothing but digests and signatures.
const NO_TEXTS: [&str; 2] = ["entries", "receipts"];

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The brain's version.
    pub version: u64,
    /// Objects in the file.
    pub objects: u64,
    /// Its bytes.
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    bytes: u64,
}

/// What to do about secrets in what is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSecret {
    /// Import nothing, and say what was found.
    Refuse,
    /// Import all the same.
    Allow,
}

/// Writes a brain into one file that must not be there.
pub async fn export(
    layout: &Layout,
    id: &BrainId,
    to: &Path,
    secrecy: Secrecy,
    (random, clock): (Arc<dyn Random>, Arc<dyn Clock>),
) -> Result<Exported> {
    let store = Arc::new(MemoryStore::new());
    let vault = Vault::new(store.clone(), secrecy, "export", random, clock).forgetful();
    let head = vault.export_to(layout, id).await?;
    let mut file = format!("{SCHEMA} {id}\n").into_bytes();
    let listed = store.list(&ObjectName::new("brains")?, None).await?;
    for object in &listed {
        let Some(content) = store.get(&object.name, u64::MAX).await? else { continue };
        let line = Line { name: object.name.to_string(), bytes: content.len() as u64 };
        let line = serde_json::to_vec(&line).map_err(|source| Error::internal("not JSON").because(source))?;
        file.extend(line);
        file.push(b'\n');
        file.extend(content);
        if file.len() as u64 > MAX_BYTES {
            return Err(Error::refused(format!("brain {id} does not fit into a file of {MAX_BYTES} bytes"))
                .hint("snapshot it to a store instead"));
        }
    }
    // For its owner alone: without encryption it is the whole brain.
    fsio::create_private(to, &file)?;
    Ok(Exported { version: head.version, objects: listed.len() as u64, bytes: file.len() as u64 })
}

/// Takes a brain out of a file, as thoroughly checked as any snapshot.
pub async fn import(
    layout: &Layout,
    from: &Path,
    secrecy: Secrecy,
    mut how: Restoring,
    on_secret: OnSecret,
    (random, clock): (Arc<dyn Random>, Arc<dyn Clock>),
) -> Result<Restored> {
    let bytes = fsio::read_regular(from, MAX_BYTES)?;
    let store = Arc::new(MemoryStore::new());
    let id = unpack(&bytes, &store, from).await?;
    drop(bytes);
    if on_secret == OnSecret::Refuse {
        how.inspect = Some(Inspect(Arc::new(refuse_secrets)));
    }
    let vault = Vault::new(store, secrecy, "import", random, clock).forgetful();
    vault.restore(layout, &id, &how).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => broken(from, "it holds no snapshot that this key opens"),
        _ => error,
    })
}

/// The agent that a file says it holds. Nothing is checked.
pub fn peek(from: &Path) -> Result<BrainId> {
    let bytes = fsio::read_regular(from, MAX_BYTES)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let id = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix(SCHEMA)?.strip_prefix(' ')?.parse().ok());
    id.ok_or_else(|| broken(from, "it does not begin like one"))
}

fn refuse_secrets(table: &str, rows: &[u8]) -> Result<()> {
    if NO_TEXTS.contains(&table) {
        return Ok(());
    }
    match redact::find(&String::from_utf8_lossy(rows)).first() {
        None => Ok(()),
        Some(found) => Err(Error::refused(format!("the file holds {} in its {table}", found.what))
            .hint("take it out where the brain comes from, or import it all the same with --allow-secrets")),
    }
}

fn broken(from: &Path, what: &str) -> Error {
    Error::corrupt(format!("{} is no exported brain: {what}", from.display())).hint("export the brain again")
}

async fn unpack(bytes: &[u8], store: &MemoryStore, from: &Path) -> Result<BrainId> {
    let line_of = |bytes: &[u8]| -> Option<(Vec<u8>, usize)> {
        let end = bytes.iter().take(4_096).position(|byte| *byte == b'\n')?;
        Some((bytes.get(..end)?.to_vec(), end + 1))
    };
    let (first, mut at) = line_of(bytes).ok_or_else(|| broken(from, "it has no first line"))?;
    let id =
        std::str::from_utf8(&first).ok().and_then(|line| line.strip_prefix(SCHEMA)?.strip_prefix(' ')?.parse().ok());
    let id: BrainId = id.ok_or_else(|| broken(from, "it does not begin like one"))?;
    let place = format!("brains/{id}/");
    for _ in 0..MAX_OBJECTS {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(id);
        }
        let (line, length) = line_of(rest).ok_or_else(|| broken(from, "it is cut short"))?;
        let line: Line = serde_json::from_slice(&line).map_err(|_| broken(from, "a line in it is no object's"))?;
        let name = ObjectName::new(line.name).map_err(|_| broken(from, "an object in it has no name"))?;
        let content = usize::try_from(line.bytes)
            .ok()
            .and_then(|bytes| rest.get(length..length.checked_add(bytes)?))
            .ok_or_else(|| broken(from, "it is cut short"))?;
        if !name.as_str().starts_with(&place)
            || store.create(&name, content.to_vec()).await? != super::store::Created::Yes
        {
            return Err(broken(from, "an object in it belongs elsewhere or is there twice"));
        }
        at += length + content.len();
    }
    Err(broken(from, "it has too many objects"))
}
