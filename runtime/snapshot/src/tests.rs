//! Archives made by someone who means harm: each is refused, and nothing of it is left.

use std::sync::Arc;
use std::time::Duration;

use super::cipher::{Cipher, ObjectKind};
use super::head::{SnapshotHead, place};
use super::manifest::{FILES, SnapshotManifest};
use super::restore::RestoreOptions;
use super::store::{MemoryStore, Store};
use super::vault::{Encryption, Vault, chunk_name};
use crate::brain::{Brain, BrainOptions, BrainSource, OnExisting, Seed};
use crate::clock::SystemClock;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BrainId, Digest, SystemRandom};
use crate::layout::Layout;
use crate::receipt::{Signer, TrustedKeys};

/// A store with one honest snapshot in plain text, to be spoiled.
struct Forge {
    dir: tempfile::TempDir,
    store: Arc<MemoryStore>,
    vault: Vault,
    head: SnapshotHead,
    manifest: SnapshotManifest,
    rims: Vec<Vec<u8>>,
}

fn id() -> BrainId {
    "7".parse().unwrap()
}

impl Forge {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("from"));
        let opening = BrainOptions { signer: Some(Arc::new(Signer::from_seed([7; 32]))), ..BrainOptions::default() };
        let files: [(&str, &[u8]); 2] = [("system.md", b"You answer.\n"), ("skills/a.md", b"---\nname: a\n---\n")];
        let seed = Seed { id: &id(), files: &files };
        Brain::hydrate(&layout, &id(), &BrainSource::Seed(seed), &opening).unwrap().0.close().unwrap();
        let store = Arc::new(MemoryStore::new());
        let (random, clock) = (Arc::new(SystemRandom), Arc::new(SystemClock));
        let vault = Vault::new(store.clone(), Encryption::Plaintext, "forger", random, clock);
        let head = vault.push(&layout, &id()).await.unwrap().head;
        let bytes = vault.manifest_bytes(&head, &Cipher::Plain).await.unwrap();
        let (manifest, rims) = SnapshotManifest::parse(&bytes).unwrap();
        let rims = rims.into_iter().map(<[u8]>::to_vec).collect();
        Self { dir, store, vault, head, manifest, rims }
    }

    /// Puts what was forged in the place of the honest snapshot, and restores it.
    async fn restore(mut self) -> Result<()> {
        for (table, rim) in self.manifest.tables.iter_mut().zip(&self.rims) {
            table.rim = rim.len() as u64;
        }
        let bytes = self.manifest.to_bytes(&self.rims).unwrap();
        let digest = Digest::of(&bytes);
        let what = ObjectKind::Manifest { version: self.head.version, digest: &digest };
        let object = Cipher::Plain.seal(&id(), what, &bytes).unwrap();
        self.store.put(&place(&id(), &self.head.object).unwrap(), object).await.unwrap();
        self.head.manifest = digest;
        let head = place(&id(), &format!("head/{:020}", self.head.number)).unwrap();
        self.store.put(&head, self.head.to_bytes().unwrap()).await.unwrap();
        let layout = Layout::new(self.dir.path().join("to"));
        let how = RestoreOptions {
            version: None,
            in_place: OnExisting::Refuse,
            trusted: TrustedKeys::Keys(vec![Signer::from_seed([7; 32]).public().clone()]),
            wait: Duration::from_secs(5),
            progress: None,
            inspect: None,
        };
        let restored = self.vault.restore(&layout, &id(), &how).await.map(|_| ());
        if restored.is_err() {
            let mut left = Vec::new();
            for entry in std::fs::read_dir(layout.brains()).into_iter().flatten() {
                left.push(entry.unwrap().file_name().into_string().unwrap());
            }
            left.retain(|name| name != ".locks");
            assert_eq!(left, Vec::<String>::new(), "nothing is left of what was refused");
        }
        restored
    }

    fn table(&self, name: &str) -> usize {
        self.manifest.tables.iter().position(|table| table.name == name).unwrap()
    }

    /// Puts one more row into a table.
    fn add_row(&mut self, name: &str, row: &[u8]) {
        let at = self.table(name);
        self.rims[at].extend_from_slice(row);
        self.manifest.tables[at].rows += 1;
        self.manifest.tables[at].bytes += row.len() as u64;
    }

    fn add_file(&mut self, path: &[u8]) {
        let content = Digest::of(b"You answer.\n");
        self.add_row(FILES, &[cell(2, path), cell(3, content.bytes())].concat());
    }

    /// Puts a chunk where the one with `digest` would be.
    async fn put_chunk(&self, digest: &Digest, content: &[u8]) {
        let object = Cipher::Plain.seal(&id(), ObjectKind::Chunk { digest }, content).unwrap();
        self.store.put(&chunk_name(&id(), 0, digest).unwrap(), object).await.unwrap();
    }
}

fn cell(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag][..], &(content.len() as u64).to_le_bytes(), content].concat()
}

fn refused(restored: Result<()>) -> Error {
    let error = restored.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Refused | ErrorKind::InvalidInput), "{error:?}");
    assert!(error.message().len() < 1_000);
    error
}

#[tokio::test]
async fn what_was_not_spoiled_is_restored() {
    Forge::new().await.restore().await.unwrap();
}

#[tokio::test]
async fn names_that_are_no_content_of_a_brain_are_refused() {
    let long = "a".repeat(5_000);
    for path in [
        "../outside",
        "skills/../../outside",
        "/etc/passwd",
        "skills//a",
        "skills/./a",
        "skills/a\0b",
        "skills/a\nb",
        "skills\\a",
        "",
        "memory.db",
        "memory.db-wal",
        "bundle.lock.json",
        "receipts.ndjson",
        ".herm/tmp/x",
        "stray.txt",
        &long,
    ] {
        let mut forge = Forge::new().await;
        forge.add_file(path.as_bytes());
        refused(forge.restore().await);
    }
    let mut forge = Forge::new().await;
    forge.add_file(b"skills/\xff.md");
    refused(forge.restore().await);
}

#[tokio::test]
async fn names_that_meet_are_refused() {
    for (path, says) in [("system.md", "is not one"), ("SYSTEM.md", ""), ("skills/A.md", "differ in case alone")] {
        let mut forge = Forge::new().await;
        forge.add_file(path.as_bytes());
        let error = refused(forge.restore().await);
        assert!(error.message().contains(says), "{error}");
    }
    let mut forge = Forge::new().await;
    forge.add_file(b"skills/a.md/below");
    refused(forge.restore().await);
}

#[tokio::test]
async fn a_million_entries_are_refused_unread() {
    let mut forge = Forge::new().await;
    let at = forge.table(FILES);
    forge.manifest.tables[at].rows = 1_000_000;
    assert!(refused(forge.restore().await).message().contains("1000000 files"));
    let mut forge = Forge::new().await;
    let at = forge.table("messages");
    forge.manifest.tables[at].bytes = 1 << 62;
    assert!(refused(forge.restore().await).message().contains("more than a brain can be"));
    let mut forge = Forge::new().await;
    forge.manifest.tables[at].levels = vec![vec![Digest::of(b"x"); 100_000]];
    assert!(refused(forge.restore().await).message().contains("more chunks"));
}

#[tokio::test]
async fn digests_that_lie_and_nodes_that_list_themselves_are_refused() {
    let lie = Digest::of(b"what it should hold");
    for level in [0, 1, 2] {
        let mut forge = Forge::new().await;
        let at = forge.table("messages");
        forge.manifest.tables[at].levels = vec![Vec::new(); level + 1];
        forge.manifest.tables[at].levels[level] = vec![lie];
        // A node of messages that names itself.
        let own = [&[level as u8, 8][..], b"messages", lie.bytes()].concat();
        forge.put_chunk(&lie, &own).await;
        assert!(refused(forge.restore().await).message().contains("another digest"));
    }
}

#[tokio::test]
async fn a_chunk_of_another_table_or_of_no_rows_is_refused() {
    for content in [&b"\0\x05factsrows"[..], b"\0\x08messagesno rows", b"", b"\x01\x08messages"] {
        let mut forge = Forge::new().await;
        let at = forge.table("messages");
        let digest = Digest::of(content);
        forge.put_chunk(&digest, content).await;
        forge.manifest.tables[at].levels = vec![vec![digest]];
        forge.manifest.tables[at].bytes = 100;
        forge.manifest.tables[at].rows = 1;
        refused(forge.restore().await);
    }
}

#[tokio::test]
async fn rows_that_no_receipt_speaks_of_are_refused() {
    let message = |id: i64| {
        let number = |n: i64| [&[1u8][..], &n.to_le_bytes()].concat();
        let text = |text: &str| cell(2, text.as_bytes());
        [number(id), text("task"), number(0), text("user"), text("put here later"), number(5)].concat()
    };
    let mut forge = Forge::new().await;
    forge.add_row("messages", &message(1));
    let error = refused(forge.restore().await);
    assert!(error.message().contains("its lock says"), "{error}");
    // A lock that fits what was put in: then the receipts do not.
    let mut forge = Forge::new().await;
    forge.add_row("messages", &message(1));
    forge.manifest.lock.parts.memory = Digest::of(b"another");
    forge.manifest.lock.bundle_hash = forge.manifest.lock.parts.root();
    forge.head.bundle_hash = forge.manifest.lock.bundle_hash;
    refused(forge.restore().await);
    let mut forge = Forge::new().await;
    forge.manifest.lock.version += 1;
    forge.head.version += 1;
    let error = refused(forge.restore().await);
    assert!(error.message().contains("another state than its lock"), "{error}");
    let mut forge = Forge::new().await;
    let receipts = forge.table("receipts");
    forge.rims[receipts].clear();
    forge.manifest.tables[receipts].rows = 0;
    forge.manifest.tables[receipts].bytes = 0;
    forge.manifest.receipt = None;
    forge.head.receipt = None;
    assert!(refused(forge.restore().await).message().contains("no receipts"));
}

/// In a store without encryption, write access is enough to change rows that no hash covers.
#[tokio::test]
async fn steps_and_transcripts_that_no_receipt_speaks_of_are_refused() {
    let mut forge = Forge::new().await;
    let at = forge.table("steps");
    let hash = forge.manifest.lock.bundle_hash.to_string();
    let found = forge.rims[at].windows(hash.len()).position(|window| window == hash.as_bytes()).unwrap();
    forge.rims[at][found] ^= 1;
    let error = refused(forge.restore().await);
    assert!(error.message().contains("not the one its receipt speaks of"), "{error}");
    let mut forge = Forge::new().await;
    let number = |n: i64| [&[1u8][..], &n.to_le_bytes()].concat();
    let digest = crate::ids::sha256(b"{}");
    let row = [number(1), cell(2, b"task"), cell(2, digest.as_bytes()), cell(3, b"{}"), number(1)].concat();
    forge.add_row("transcripts", &row);
    let error = refused(forge.restore().await);
    assert!(error.message().contains("another transcript"), "{error}");
}

#[tokio::test]
async fn more_and_fewer_rows_than_said_and_other_tables_are_refused() {
    let mut forge = Forge::new().await;
    let at = forge.table("steps");
    forge.manifest.tables[at].rows += 1;
    assert!(refused(forge.restore().await).message().contains("fewer rows"));
    let mut forge = Forge::new().await;
    forge.manifest.tables[at].rows -= 1;
    assert!(refused(forge.restore().await).message().contains("more rows"));
    for name in ["sqlite_schema", "state", "messages_fts", "zzz"] {
        let mut forge = Forge::new().await;
        let last = forge.manifest.tables.len() - 1;
        forge.manifest.tables[last].name = name.to_owned();
        refused(forge.restore().await);
    }
    let mut forge = Forge::new().await;
    forge.manifest.database = 99;
    assert!(refused(forge.restore().await).message().contains("schema 99"));
    let mut forge = Forge::new().await;
    forge.manifest.schema = "herm/snapshot@2".to_owned();
    assert!(refused(forge.restore().await).message().contains("herm/snapshot@2"));
}
