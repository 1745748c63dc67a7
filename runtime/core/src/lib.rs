//! What every other package of herm stands on: errors, ids, time, files, texts, secrets in them, and JSON Schema.
//!
//! Knows nothing of brains, skills, models or tools.

pub mod clock;
pub mod error;
pub mod fsio;
pub mod ids;
pub mod layout;
pub mod redact;
pub mod schema;
pub mod text;

pub use clock::{Clock, SystemClock, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use ids::{BrainId, Digest, RelPath, Slug, SubscriberId, TaskId};
pub use layout::Layout;
