//! Every path of a brain, named once. The page for readers is `docs/reference/brain.md`.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, RelPath, Slug};

/// The role and the schema of its final answer.
pub const SYSTEM: &str = "system.md";
/// Name and tool whitelist.
pub const MANIFEST: &str = "manifest.json";
/// Which components and constants the brain runs with.
pub const TUNING: &str = "tuning.json";
/// Programs that stand in for tools.
pub const TOOLS_DIR: &str = "tools";
/// What the agent remembers for everyone, frozen into each prompt.
pub const MEMORY_LAYER: &str = "MEMORY.md";
/// What it remembers of its users in general.
pub const USER_LAYER: &str = "USER.md";
/// Layer 1 of single subscribers.
pub const USERS_DIR: &str = "users";
/// Skills the agent wrote or was given.
pub const SKILLS_DIR: &str = "skills";
/// Archived skills: out of the index, never deleted.
pub const ARCHIVE_DIR: &str = "skills/.archive";
/// The telemetry sidecar, written from `memory.db`.
pub const USAGE_SIDECAR: &str = "skills/.usage.json";
/// Shared knowledge that tasks can read and not write.
pub const PATTERNS_DIR: &str = "patterns";
/// SQLite: messages, facts, task log, usage, and the settle journal.
pub const DATABASE: &str = "memory.db";
/// SQLite's write-ahead log of it.
pub const DATABASE_LOG: &str = "memory.db-wal";
/// The lock: bundle hash, version, parts.
pub const LOCK: &str = "bundle.lock.json";
/// The receipt log: one signed receipt a line, written from `memory.db`.
pub const RECEIPTS: &str = "receipts.ndjson";
/// A reserved name: evidence is in `memory.db`, and a file with this name in a brain is ignored.
pub const EVIDENCE: &str = "evidence.sqlite";
/// What is not content: temporaries and caches.
pub const INTERNAL_DIR: &str = ".herm";
/// What the last survey of the files found, so that the next open reads only what changed.
pub const SURVEY_CACHE: &str = ".herm/survey";
/// What the skills said when they were last indexed.
pub const INDEX_CACHE: &str = ".herm/index";
/// What the last snapshot was made of.
pub const SNAPSHOT_CACHE: &str = ".herm/snapshot";
/// How the uploads of snapshots went.
pub const OUTBOX: &str = ".herm/outbox.json";
/// What a folder of skills is about.
pub const CATEGORY_FILE: &str = "DESCRIPTION.md";
/// The main file of a skill in directory form.
pub const SKILL_FILE: &str = "SKILL.md";
/// Directories below `skills/` that hold no skills.
pub const PRUNED_DIRS: [&str; 4] = [".git", ".github", ".hub", ".archive"];
/// The largest file a brain may hold.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// Where brains, their locks, keys and snapshots are on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    brains: PathBuf,
}

impl Layout {
    /// The layout below the directory `brains`, which need not exist yet.
    pub fn new(brains: impl Into<PathBuf>) -> Self {
        Self { brains: brains.into() }
    }

    /// The directory of all brains.
    pub fn brains(&self) -> &Path {
        &self.brains
    }

    /// The directory of one brain.
    pub fn brain(&self, id: &BrainId) -> PathBuf {
        self.brains.join(id.as_str())
    }

    /// The directory of the lock files. They stand beside the brains, not inside, so that a brain
    /// can be locked before it exists and while it is being replaced.
    pub fn locks(&self) -> PathBuf {
        self.brains.join(".locks")
    }

    /// The file whose lock owns a brain.
    pub fn lock_file(&self, id: &BrainId) -> PathBuf {
        self.locks().join(format!("{id}.lock"))
    }

    /// The key that signs the receipts of the brains here, unless another is given.
    pub fn signing_key(&self) -> PathBuf {
        self.brains.join(".keys").join("receipts.pem")
    }

    /// The key that wraps the keys of snapshots, unless another is given.
    pub fn snapshot_key(&self) -> PathBuf {
        self.brains.join(".keys").join("snapshot.key")
    }

    /// Where snapshots are kept, unless another store is given.
    pub fn snapshots(&self) -> PathBuf {
        self.brains.join(".snapshots")
    }

    /// What a restore has fetched so far.
    pub fn incoming(&self, id: &BrainId) -> PathBuf {
        self.brains.join(".incoming").join(id.as_str())
    }

    /// Brains that made room for a restored one.
    pub fn replaced_brains(&self) -> PathBuf {
        self.brains.join(".aside")
    }

    /// The newest snapshot of a brain that this machine has seen. It stands beside the brains, for
    /// it must outlive them.
    pub fn last_seen_snapshot(&self, id: &BrainId) -> PathBuf {
        self.brains.join(".seen").join(format!("{id}.json"))
    }

    /// What the operator's process remembers beside the brains: keys of callers, tasks it accepted, paused brains.
    pub fn server_db(&self) -> PathBuf {
        self.brains.join(".operator").join("book.db")
    }

    /// The signed word that keys of callers were made. It stands beside the brains, not in the server database: it
    /// must outlive the database.
    pub fn keys_marker(&self) -> PathBuf {
        self.brains.join(".keys-made.json")
    }

    /// The file whose lock belongs to the one server of these brains.
    pub fn server_lock(&self) -> PathBuf {
        self.brains.join(".operator").join("serve.lock")
    }

    /// What successors leave behind: verdicts, approvals, and forks while they live.
    pub fn successors(&self) -> PathBuf {
        self.brains.join(".successor")
    }

    /// Where a new brain is put together before it is renamed into place.
    pub fn staging(&self, id: &BrainId) -> PathBuf {
        self.brains.join(format!(".staging-{id}"))
    }
}

/// A path of this file's constants, which are all valid.
pub fn rel(path: &str) -> Result<RelPath> {
    path.parse().map_err(|_| Error::internal(format!("{path:?} is not a path inside a brain")))
}

/// Layer 1 of one subscriber.
pub fn user_layer(subscriber: &Digest) -> Result<RelPath> {
    rel(&format!("{USERS_DIR}/{subscriber}.md"))
}

/// The main file of a flat skill.
pub fn flat_skill(slug: &Slug) -> Result<RelPath> {
    rel(&format!("{SKILLS_DIR}/{slug}.md"))
}

/// Whether a path below a brain is not content: never hashed, never in a snapshot's bundle.
pub fn is_not_content(path: &str) -> bool {
    match path.split_once('/') {
        None => {
            matches!(path, LOCK | RECEIPTS | EVIDENCE | INTERNAL_DIR)
                || path.starts_with(DATABASE)
                || path.starts_with(EVIDENCE)
        }
        Some((INTERNAL_DIR, _)) => true,
        // Where someone made a directory of it, what is below is no content either.
        Some((SKILLS_DIR, _))
            if path.strip_prefix(USAGE_SIDECAR).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) =>
        {
            true
        }
        Some((SKILLS_DIR, rest)) => rest.split('/').any(|part| matches!(part, ".git" | ".github" | ".hub")),
        Some(_) => false,
    }
}
