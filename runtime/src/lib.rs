//! herm: an embedded agent harness runtime.
//!
//! Each agent has a number and a *brain*: a directory of skills it wrote itself, a SQLite memory,
//! a role, and a lock with the brain's content hash. A brain moves one settled step at a time.
//!
//! ```
//! use herm::{Brain, BrainId, Draft, Layout, Opening, Seed, Source, StepKind};
//!
//! # fn main() -> herm::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("herm-doc-{}", std::process::id()));
//! let layout = Layout::new(&dir);
//! let id: BrainId = "7".parse()?;
//! let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//! let (mut brain, _) = Brain::hydrate(&layout, &id, &Source::Seed(seed), &Opening::default())?;
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

pub mod backend;
pub mod brain;
pub mod bundle;
pub mod clock;
pub mod curator;
pub mod error;
pub mod evolver;
pub mod fsio;
pub mod harness;
pub mod ids;
pub mod layout;
pub mod memory;
pub mod receipt;
pub mod redact;
pub mod schema;
pub mod semantic;
pub mod session;
pub mod skill;
pub mod snapshot;
pub mod successor;
pub mod task;
pub mod text;
pub mod tool;
pub mod tuning;

pub use brain::{Brain, Draft, Opening, Reader, Seed, Settled, Source, StepKind};
pub use clock::{Clock, Moment, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use harness::{Harness, HarnessBuilder, Watch};
pub use ids::{BrainId, Digest, RelPath, Slug, SubscriberId, TaskId};
pub use layout::Layout;
pub use receipt::Signer;
pub use session::Cancel;
pub use task::{Event, Limits, Outcome, Status, StopReason, Task};
