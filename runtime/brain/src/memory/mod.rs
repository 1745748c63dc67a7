//! Layer 1 and Layer 2 memory.
//!
//! - [`layers`]: the small Markdown files that are frozen into each prompt (pure).
//! - [`Database`]: `memory.db`, one writer with read connections beside it.
//! - [`MemoryWriter`]: row changes inside one transaction, with the logical hash kept in step.
//! - [`PortableTable`]: the rows that travel in a snapshot.
//! - [`Evidence`]: how tool calls went, for the evolver; beside the content, not part of it.
//!   [`EvidenceView`] counts and finds it, [`EvolverRows`] is what the evolver did about it.
//! - [`TaskOutcome`]: how good an answer was and who says so. [`Trial`]: where a learned skill stands.
//! - [`undo`]: what rows were before a step, so that it can be taken back exactly.
//! - [`search`]: full-text search, shaped so that no user text is ever query syntax.
//! - [`vectors`]: what rows mean, where a model says so; [`hybrid`] searches by both.

mod db;
mod detached_index;
mod evidence;
mod evolver_rows;
mod grams;
pub mod hybrid;
mod index;
pub mod layers;
mod logical;
mod migrate;
mod outcome;
mod portable_rows;
mod query;
mod review_states;
mod schema;
pub mod search;
mod skill_outcomes;
mod task_status;
mod trial;
mod trial_sums;
mod trial_window;
pub mod undo;
mod usage_rows;
pub mod vectors;
mod writer;

pub use db::{Access, Database, sql};
pub(crate) use detached_index::DetachedIndex;
pub use evidence::{
    Evidence, EvidenceImportCounts, EvidenceStatus, EvidenceSummary, EvidenceTotals, EvidenceView, ImportedSession,
    ImportedTurn, KeptArguments, SessionEvidence, SessionOrigin, SkillTally, ToolTally, TurnEvidence, UNKNOWN_TOOL,
    preview, window_start,
};
pub(crate) use evidence::{fold as fold_evidence, import_session as take_in_evidence, keep_window, next_number};
pub use evolver_rows::{EvolverChange, EvolverRows, EvolverWriter, QueueRow};
pub(crate) use evolver_rows::{add_change, mark_rolled_back};
pub use hybrid::HybridResults;
pub use hybrid::fuse;
pub use index::{MemorySource, heal as heal_indexes, rebuild as rebuild_indexes};
pub use logical::{Table, recompute, rehash, stored};
pub use migrate::PREFIX as MIGRATION_PREFIX;
pub(crate) use migrate::reconcile as reconcile_migrations;
pub use outcome::{
    LoggedTask, MAX_NOTE_CHARS, MAX_REPORTS, OutcomeCounts, OutcomeReport, OutcomeSource, OutcomeValue, TaskOutcome,
};
pub(crate) use outcome::{add_report, read_log};
pub use portable_rows::{ChangePattern, PortableRow, PortableTable, RowPosition, ScanControl, portable_tables};
pub use portable_rows::{IncomingCell, chunk_of};
pub use query::{MAX_QUERY_CHARS, ParsedQuery, parse_query};
pub use review_states::{CandidateKind, ReviewStatus, StoredWord};
pub use schema::SCHEMA_VERSION;
pub use search::{Search, SearchHit, SearchResults, SearchScope};
pub use task_status::TaskStatus;
pub use trial::{Arm, Trial, TrialState, TrialTask, TrialWriter};
pub use trial_sums::{ArmSum, RatedTask, TrialMark, TrialNews, TrialSum};
pub use trial_window::TrialRestart;
pub use vectors::{QueryVector, Vector};
pub use writer::{Fact, MemoryWriter, MessageEntry, MessageRole, TaskEntry};
