//! herm: an embedded agent harness runtime.
//!
//! Each agent has a number and a *brain*: a directory of skills it wrote itself, a SQLite memory,
//! a role, and a lock with the brain's content hash. A brain moves one settled step at a time.
//!
//! ```
//! use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Layout, Seed, StepKind};
//!
//! # fn main() -> herm::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("herm-doc-{}", std::process::id()));
//! let layout = Layout::new(&dir);
//! let id: BrainId = "7".parse()?;
//! let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//! let (mut brain, _) = Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &BrainOptions::default())?;
//!
//! let mut draft = Draft::new();
//! brain.edit(&mut draft).create_skill(
//!     &"say-hello".parse()?,
//!     "---\nname: say-hello\ndescription: Greets. Use when someone arrives.\n---\n# Say hello\n",
//!     herm::skill::CreatedBy::Agent,
//! )?;
//! let settled = brain.settle(&draft, StepKind::Maintenance, "learned to greet")?;
//! assert_eq!(settled.version, 2);
//! brain.close()?;
//! # herm::fsio::remove_tree(&dir)
//! # }
//! ```
//!
//! The map of the house is `docs/ARCHITECTURE.md`; the formats are in `docs/reference/`.

pub use herm_agent::{session, task, tool};
pub use herm_brain::{brain, bundle, memory, receipt, tuning};
pub use herm_core::{clock, error, fsio, ids, layout, redact, schema, text};
pub use herm_harness as harness;
#[cfg(feature = "http")]
pub use herm_http as http;
pub use herm_learning::{curator, evolver};
pub use herm_skills as skill;
#[cfg(feature = "snapshot")]
pub use herm_snapshot as snapshot;
#[cfg(feature = "successor")]
pub use herm_successor as successor;

pub use brain::{Brain, BrainOptions, BrainSource, Draft, Reader, Seed, SettledStep, StepKind};
pub use clock::{Clock, SystemClock, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use harness::{Harness, HarnessBuilder, RunOptions};
pub use ids::{BrainId, Digest, RelPath, Slug, SubscriberId, TaskId};
pub use layout::Layout;
pub use receipt::Signer;
pub use session::CancelToken;
pub use task::{Outcome, StopReason, Task, TaskEvent, TaskLimits, TaskStatus};

/// Who speaks for the agent: the trait, and the backends of this build.
pub mod backend {
    pub use herm_agent::backend::*;
    #[cfg(any(feature = "http", feature = "reflex", feature = "local"))]
    pub use herm_backends::*;
    #[cfg(feature = "http")]
    pub use herm_http::HttpClient;
}

/// What texts mean: the traits, and with the feature `semantic` models that run inside the process.
pub mod semantic {
    pub use herm_brain::semantic::*;
    #[cfg(feature = "semantic")]
    pub use herm_semantic::{embedder, reranker};

    /// Whether this build can run models.
    pub const fn is_built_in() -> bool {
        cfg!(feature = "semantic")
    }

    /// Fails: this build has no models.
    #[cfg(not(feature = "semantic"))]
    pub fn embedder(_: &std::path::Path, _: SemanticOptions) -> crate::Result<std::sync::Arc<dyn Embedder>> {
        Err(not_built_in())
    }

    /// Fails: this build has no models.
    #[cfg(not(feature = "semantic"))]
    pub fn reranker(_: &std::path::Path, _: SemanticOptions) -> crate::Result<std::sync::Arc<dyn Reranker>> {
        Err(not_built_in())
    }

    #[cfg(not(feature = "semantic"))]
    fn not_built_in() -> crate::Error {
        crate::Error::unavailable("this build runs no embedding models and no rerankers")
            .hint("build herm with `--features semantic`")
    }
}
