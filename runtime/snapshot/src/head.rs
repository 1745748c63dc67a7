//! The pointer: which snapshot of a brain is the last one.
//!
//! Heads are numbered objects that are only ever created, never replaced. The writer that creates number N+1 has
//! moved the brain; one that comes second is told. See `docs/reference/snapshot.md`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::manifest::ReceiptHead;
use super::store::{CreateOutcome, ObjectName, Store, claim};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio;
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;

/// The format this build reads and writes.
pub const HEAD_SCHEMA: &str = "herm/head@1";
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// One state of a brain in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotHead {
    /// The format, [`HEAD_SCHEMA`]; a head with any other is refused.
    pub schema: String,
    /// The brain whose state it is.
    pub brain: BrainId,
    /// 1, 2, 3, …
    pub number: u64,
    /// The digest of the head before.
    pub previous: Option<Digest>,
    /// The version of the brain that the snapshot is of.
    pub version: u64,
    /// The hash of the brain's bundle at that version.
    pub bundle_hash: Digest,
    /// The last receipt the brain has in the snapshot; nothing where it has none.
    pub receipt: Option<ReceiptHead>,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The name of the manifest's object, below the brain's place in the store.
    pub object: String,
    /// New chunks go to this generation; pruning begins a new one.
    pub generation: u64,
    /// Who wrote it, and a number that only its writer knows before it is there.
    pub writer: HeadWriter,
    /// When, by its writer's clock.
    pub at: Timestamp,
    /// That someone with the brain's key wrote all of this; null where nothing is encrypted.
    pub seal: Option<Digest>,
}

/// Who wrote a head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadWriter {
    /// The operator's name for people, as the vault was given it.
    pub owner: String,
    /// Chosen for this one head: after a failed write it tells whether it arrived.
    pub nonce: String,
}

impl SnapshotHead {
    /// A line of JSON, and its digest: a head that rotted is told from one that says something else.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let line = serde_json::to_string(self)
            .map_err(|source| Error::internal("a head cannot be written").because(source))?;
        Ok(format!("{line}\n{}\n", Digest::of(line.as_bytes())).into_bytes())
    }

    /// What the seal is of: everything but the seal.
    pub(super) fn sealed_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&Self { seal: None, ..self.clone() })
            .map_err(|source| Error::internal("a head cannot be written").because(source))
    }

    fn parse(bytes: &[u8], brain: &BrainId, number: u64) -> Result<Self> {
        let broken = |how: String| {
            Error::corrupt(format!("head {number} of brain {brain} in the store is damaged: {how}"))
                .hint("put the object back from a copy of the store, or restore an earlier version")
        };
        let (line, sum) = std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.strip_suffix('\n')?.split_once('\n'))
            .ok_or_else(|| broken("it is not two lines of text".to_owned()))?;
        if Digest::of(line.as_bytes()).to_string() != sum {
            return Err(broken("its digest is another".to_owned()));
        }
        let head: Self = serde_json::from_str(line).map_err(|source| broken(source.to_string()))?;
        if head.schema != HEAD_SCHEMA || head.brain != *brain || head.number != number || head.version == 0 {
            return Err(broken("it belongs elsewhere".to_owned()));
        }
        Ok(head)
    }

    /// The last receipt, as a pair.
    pub fn receipt(&self) -> Option<(u64, &str)> {
        self.receipt.as_ref().map(|receipt| (receipt.seq, receipt.sha256.as_str()))
    }
}

/// The place of a brain in a store.
pub(super) fn place(brain: &BrainId, rest: &str) -> Result<ObjectName> {
    ObjectName::new(format!("brains/{brain}/{rest}"))
}

/// The name of a head.
pub(super) fn name(brain: &BrainId, number: u64) -> Result<ObjectName> {
    place(brain, &format!("head/{number:020}"))
}

/// The numbers of the heads that are there, in order.
pub(super) async fn numbers(store: &dyn Store, brain: &BrainId, after: Option<u64>) -> Result<Vec<u64>> {
    let after = after.map(|number| name(brain, number)).transpose()?;
    let listed = store.list(&place(brain, "head")?, after.as_ref()).await?;
    // Only names that herm gives: 20 digits.
    let named = listed.iter().map(|object| object.name.last()).filter(|name| name.len() == 20);
    Ok(named.filter_map(|name| name.parse().ok()).collect())
}

/// One head with the digest of its bytes; `None` where there is none.
pub(super) async fn read(store: &dyn Store, brain: &BrainId, number: u64) -> Result<Option<(SnapshotHead, Digest)>> {
    match store.get(&name(brain, number)?, MAX_HEAD_BYTES).await? {
        None => Ok(None),
        Some(bytes) => Ok(Some((SnapshotHead::parse(&bytes, brain, number)?, Digest::of(&bytes)))),
    }
}

/// Where the last head is, as far as the writer of the mark knew: it saves a listing. It may be behind, never ahead,
/// and every number that was pruned is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark(u64);

impl Mark {
    fn to_bytes(self) -> Vec<u8> {
        let line = format!("herm/mark@1 {}", self.0);
        format!("{line}\n{}\n", Digest::of(line.as_bytes())).into_bytes()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = std::str::from_utf8(bytes).ok()?.strip_prefix("herm/mark@1 ")?.lines().next()?;
        let mark = Self(number.parse().ok()?);
        (mark.to_bytes() == bytes).then_some(mark)
    }
}

/// Where the last head is, as far as the mark knows.
pub(super) async fn mark(store: &dyn Store, brain: &BrainId) -> Result<Option<u64>> {
    let Some(bytes) = store.get(&place(brain, "mark")?, 4 << 10).await? else { return Ok(None) };
    match Mark::parse(&bytes) {
        Some(Mark(number)) => Ok(Some(number)),
        None => Err(Error::corrupt(format!("the mark of brain {brain} in the store is damaged")).hint(format!(
            "remove brains/{brain}/mark; it only saves a listing, and comes back with the next snapshot"
        ))),
    }
}

/// Says where the last head is. A late writer must not set it back.
pub(super) async fn set_mark(store: &dyn Store, brain: &BrainId, number: u64) -> Result<()> {
    if mark(store, brain).await?.is_some_and(|known| known >= number) {
        return Ok(());
    }
    store.put(&place(brain, "mark")?, Mark(number).to_bytes()).await
}

/// The last head. Neither the mark nor a listing is the last word: both may be behind. Heads are numbered without
/// gaps above the oldest, so a reader who asks for the next one finds what they left out.
pub(super) async fn last(store: &dyn Store, brain: &BrainId) -> Result<Option<(SnapshotHead, Digest)>> {
    let mut found = match mark(store, brain).await? {
        Some(number) => read(store, brain, number).await?,
        None => None,
    };
    if found.is_none()
        && let Some(number) = numbers(store, brain, None).await?.last()
    {
        found = Some(read(store, brain, *number).await?.ok_or_else(|| {
            Error::unavailable(format!("head {number} of brain {brain} is listed and not there")).hint("try again")
        })?);
    }
    loop {
        let after = found.as_ref().map_or(Some(1), |(head, _)| head.number.checked_add(1));
        let Some(number) = after else { return Err(too_far(brain)) };
        match read(store, brain, number).await? {
            Some(next) => found = Some(next),
            None => return Ok(found),
        }
    }
}

/// A number that no brain reaches by its steps.
fn too_far(brain: &BrainId) -> Error {
    Error::corrupt(format!("the last head of brain {brain} has a number that no herm gave"))
        .hint("find out who wrote it; nothing was done")
}

/// How the creation of a head went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Commit {
    /// The brain is there now.
    Done,
    /// Someone else's head has this number, or a later one.
    Lost,
}

/// Creates a head. A write whose answer was lost is looked up by its nonce.
pub(super) async fn commit(store: &dyn Store, head: &SnapshotHead) -> Result<Commit> {
    let name = name(&head.brain, head.number)?;
    let ours = claim(store, &name, &head.to_bytes()?).await? == CreateOutcome::Yes;
    if !ours {
        return Ok(Commit::Lost);
    }
    // Numbers that were pruned can be created again by a writer that slept through it. A prune sets the mark
    // before it removes anything.
    if mark(store, &head.brain).await?.is_none_or(|known| known <= head.number) {
        set_mark(store, &head.brain, head.number).await?;
        return Ok(Commit::Done);
    }
    match read(store, &head.brain, head.number + 1).await? {
        // Where it went on from ours, ours counted.
        Some((next, _)) if next.previous == Some(Digest::of(&head.to_bytes()?)) => Ok(Commit::Done),
        _ => {
            store.remove(&name).await?;
            Ok(Commit::Lost)
        }
    }
}

/// The newest head of a brain that this machine has seen, in one store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    store: String,
    number: u64,
    head: Digest,
    version: u64,
}

/// The last head, unless the store shows less than this machine has seen: then someone took it back.
pub(super) async fn last_not_older(
    layout: &Layout,
    store: &dyn Store,
    brain: &BrainId,
) -> Result<Option<(SnapshotHead, Digest)>> {
    // What was seen is read first: heads that come meanwhile are newer.
    let describe = store.describe();
    let seen = seen(layout, brain)?.into_iter().find(|seen| seen.store == describe);
    let found = last(store, brain).await?;
    if let Some(seen) = seen {
        refuse_older(layout, brain, &seen, found.as_ref())?;
    }
    Ok(found)
}

/// What was seen, one entry a store.
fn seen(layout: &Layout, brain: &BrainId) -> Result<Vec<Seen>> {
    let path = layout.last_seen_snapshot(brain);
    match fsio::read_regular(&path, MAX_HEAD_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => serde_json::from_slice(&read?).map_err(|source| {
            Error::corrupt(format!("{} is not what herm wrote", path.display())).hint("remove it").because(source)
        }),
    }
}

fn refuse_older(layout: &Layout, brain: &BrainId, seen: &Seen, found: Option<&(SnapshotHead, Digest)>) -> Result<()> {
    let (number, version, same) = match found {
        Some((head, digest)) => (head.number, head.version, head.number != seen.number || *digest == seen.head),
        None => (0, 0, true),
    };
    if number >= seen.number && version >= seen.version && same {
        return Ok(());
    }
    let what = if same { "an older snapshot" } else { "another snapshot of the same number" };
    Err(Error::refused(format!(
        "the store shows {what} of brain {brain} than this machine has seen: head {number} (version {version}), and head \
         {} (version {}) was here",
        seen.number, seen.version
    ))
    .hint(format!("find out who took the store back; if it was you, remove {}", layout.last_seen_snapshot(brain).display())))
}

/// Remembers the newest head.
pub(super) fn remember(layout: &Layout, store: &str, head: &SnapshotHead, digest: &Digest) -> Result<()> {
    let mut seen = seen(layout, &head.brain)?;
    if seen.iter().any(|seen| seen.store == store && seen.number >= head.number) {
        return Ok(());
    }
    let path = layout.last_seen_snapshot(&head.brain);
    seen.retain(|seen| seen.store != store);
    seen.push(Seen { store: store.to_owned(), number: head.number, head: *digest, version: head.version });
    let bytes = serde_json::to_vec(&seen).map_err(|source| Error::internal("cannot be written").because(source))?;
    write_beside(&path, &bytes)
}

fn write_beside(path: &Path, bytes: &[u8]) -> Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(Error::internal("a file without a name"));
    };
    fsio::create_dirs(dir)?;
    fsio::Root::open(dir)?.replace(&name.parse()?, bytes, fsio::SyncTiming::Now)
}
