//! A directory of brains that is gone when the test is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use herm::brain::{HydrateOutcome, OnDrift};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Layout, RelPath, Seed, Slug};

use crate::ManualClock;

/// A skill that obeys every rule.
pub fn skill_text(slug: &str, body: &str) -> String {
    format!("---\nname: {slug}\ndescription: Does {slug}. Use when {slug} is asked for.\n---\n# {slug}\n\n{body}\n")
}

/// The files of the brain that tests begin with: a role, two skills (one of each form), a pattern
/// and some memory.
pub fn seed_files() -> Vec<(&'static str, String)> {
    vec![
        ("system.md", "You are a test agent.\n".into()),
        ("MEMORY.md", "# Memory\n- the first thing\n".into()),
        ("skills/flat-one.md", skill_text("flat-one", "Do the flat thing.")),
        ("skills/dir-one/SKILL.md", skill_text("dir-one", "See [notes](references/notes.md).")),
        ("skills/dir-one/references/notes.md", "notes\n".into()),
        ("patterns/p.md", "---\nname: p\ndescription: d\nseverity: low\n---\nbody\n".into()),
    ]
}

/// Shorthand for a slug.
pub fn slug(text: &str) -> Slug {
    text.parse().expect("a slug")
}

/// Shorthand for a path inside a brain.
pub fn rel(text: &str) -> RelPath {
    text.parse().expect("a path")
}

/// Temporary brains with a clock that stands still.
#[derive(Debug)]
pub struct TempBrains {
    dir: tempfile::TempDir,
    /// The clock every brain of this directory reads.
    pub clock: Arc<ManualClock>,
}

impl TempBrains {
    /// A fresh directory.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory"), clock: Arc::new(ManualClock::new()) }
    }

    /// The directory's layout.
    pub fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    /// The directory.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// A path inside brain `id`.
    pub fn file(&self, id: &str, path: &str) -> PathBuf {
        self.dir.path().join(id).join(path)
    }

    /// The clock that these brains read.
    pub fn clock(&self) -> Arc<dyn herm::Clock> {
        self.clock.clone()
    }

    /// How brains of this directory are opened.
    pub fn opening(&self) -> BrainOptions {
        BrainOptions {
            wait: Duration::from_secs(20),
            clock: self.clock.clone(),
            on_drift: OnDrift::Refuse,
            signer: Some(std::sync::Arc::new(signer())),
            trusted: Vec::new(),
        }
    }

    /// Makes brain `id` from [`seed_files`].
    pub fn make(&self, id: &str) -> Brain {
        let id: BrainId = id.parse().expect("a brain id");
        let files = seed_files();
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
        let seed = Seed { id: &id, files: &files };
        let (brain, hydrated) =
            Brain::hydrate(&self.layout(), &id, &BrainSource::Seed(seed), &self.opening()).expect("a new brain");
        assert_eq!(hydrated, HydrateOutcome::Created);
        brain
    }

    /// Opens brain `id`.
    pub fn open(&self, id: &str) -> herm::Result<Brain> {
        Brain::open(&self.layout(), &id.parse().expect("a brain id"), &self.opening())
    }
}

/// The key that signs in tests.
pub fn signer() -> herm::Signer {
    herm::Signer::from_seed([7; 32])
}

impl Default for TempBrains {
    fn default() -> Self {
        Self::new()
    }
}
