//! A brain in one file: the objects of one snapshot, one after the other.
//!
//! The file is a line `herm/export@1 ID`, then for each object a line of JSON with `name` and `bytes`, and
//! the bytes. It is checked as every snapshot is.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::restore::{RestoreOptions, RestoreReport, RowInspector};
use super::store::{MemoryStore, ObjectName, Store};
use super::vault::{Encryption, Vault};
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

/// What [`export`] wrote into the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// The version of the brain in the file.
    pub version: u64,
    /// Objects in the file.
    pub objects: u64,
    /// The size of the file in bytes.
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
pub enum SecretPolicy {
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
    secrecy: Encryption,
    (random, clock): (Arc<dyn Random>, Arc<dyn Clock>),
) -> Result<ExportReport> {
    let store = Arc::new(MemoryStore::new());
    let vault = Vault::new(store.clone(), secrecy, "export", random, clock).forgetful();
    let head = vault.export_to(layout, id).await?;
    let mut file = begun(id);
    let listed = store.list(&ObjectName::new("brains")?, None).await?;
    for object in &listed {
        let Some(content) = store.get(&object.name, u64::MAX).await? else { continue };
        add(&mut file, &object.name, &content)?;
        if file.len() as u64 > MAX_BYTES {
            return Err(Error::refused(format!("brain {id} does not fit into a file of {MAX_BYTES} bytes"))
                .hint("snapshot it to a store instead"));
        }
    }
    // For its owner alone: without encryption it is the whole brain.
    fsio::create_private(to, &file)?;
    Ok(ExportReport { version: head.version, objects: listed.len() as u64, bytes: file.len() as u64 })
}

/// One object of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: ObjectName,
    pub(super) content: Vec<u8>,
}

fn begun(id: &BrainId) -> Vec<u8> {
    format!("{SCHEMA} {id}\n").into_bytes()
}

fn add(file: &mut Vec<u8>, name: &ObjectName, content: &[u8]) -> Result<()> {
    let line = Line { name: name.to_string(), bytes: content.len() as u64 };
    let line = serde_json::to_vec(&line).map_err(|source| Error::internal("not JSON").because(source))?;
    file.extend(line);
    file.push(b'\n');
    file.extend(content);
    Ok(())
}

/// Objects of a brain in the form of a file.
pub(super) fn write(id: &BrainId, entries: &[Entry]) -> Result<Vec<u8>> {
    let mut file = begun(id);
    for entry in entries {
        add(&mut file, &entry.name, &entry.content)?;
    }
    Ok(file)
}

/// The objects in a file of a brain, or what is wrong with it.
pub(super) fn read(id: &BrainId, bytes: &[u8]) -> std::result::Result<Vec<Entry>, String> {
    match parsed(bytes) {
        Ok((found, entries)) if found == *id => Ok(entries),
        Ok((found, _)) => Err(format!("is of brain {found}")),
        Err(how) => Err(format!("is none: {how}")),
    }
}

/// Takes a brain out of a file, as thoroughly checked as any snapshot.
pub async fn import(
    layout: &Layout,
    from: &Path,
    secrecy: Encryption,
    mut how: RestoreOptions,
    on_secret: SecretPolicy,
    (random, clock): (Arc<dyn Random>, Arc<dyn Clock>),
) -> Result<RestoreReport> {
    let bytes = fsio::read_regular(from, MAX_BYTES)?;
    let store = Arc::new(MemoryStore::new());
    let id = unpack(&bytes, &store, from).await?;
    drop(bytes);
    if on_secret == SecretPolicy::Refuse {
        how.inspect = Some(RowInspector(Arc::new(refuse_secrets)));
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
    let (id, entries) = parsed(bytes).map_err(|how| broken(from, how))?;
    for entry in entries {
        if store.create(&entry.name, entry.content).await? != super::store::CreateOutcome::Yes {
            return Err(broken(from, "an object in it is there twice"));
        }
    }
    Ok(id)
}

fn parsed(bytes: &[u8]) -> std::result::Result<(BrainId, Vec<Entry>), &'static str> {
    let line_of = |bytes: &[u8]| -> Option<(Vec<u8>, usize)> {
        let end = bytes.iter().take(4_096).position(|byte| *byte == b'\n')?;
        Some((bytes.get(..end)?.to_vec(), end + 1))
    };
    let (first, mut at) = line_of(bytes).ok_or("it has no first line")?;
    let id =
        std::str::from_utf8(&first).ok().and_then(|line| line.strip_prefix(SCHEMA)?.strip_prefix(' ')?.parse().ok());
    let id: BrainId = id.ok_or("it does not begin like one")?;
    let place = format!("brains/{id}/");
    let mut entries = Vec::new();
    for _ in 0..MAX_OBJECTS {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok((id, entries));
        }
        let (line, length) = line_of(rest).ok_or("it is cut short")?;
        let line: Line = serde_json::from_slice(&line).map_err(|_| "a line in it is no object's")?;
        let name = ObjectName::new(line.name).map_err(|_| "an object in it has no name")?;
        let content = usize::try_from(line.bytes)
            .ok()
            .and_then(|bytes| rest.get(length..length.checked_add(bytes)?))
            .ok_or("it is cut short")?;
        if !name.as_str().starts_with(&place) {
            return Err("an object in it belongs elsewhere");
        }
        at += length + content.len();
        entries.push(Entry { name, content: content.to_vec() });
    }
    Err("it has too many objects")
}
