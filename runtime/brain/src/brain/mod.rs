//! A brain on disk: opened by one owner at a time, changed one settled step at a time.
//!
//! - [`Brain`] holds the lock of its directory; [`Reader`] looks without the lock, while a [`Brain`] may hold it.
//! - [`Draft`] collects the changes of a step, [`Editor`] makes them with their rules, and
//!   [`Brain::settle`] commits them in one SQLite transaction, the only commit point there is.
//! - A [`StepSigner`] signs every step inside that transaction; the receipts make up the brain's receipt log.
//! - [`Reader::compare`] says what differs between two versions, and [`Brain::undo`] takes one step
//!   back as a step of its own.
//! - After a crash, [`Brain::open`] brings the files to what the transaction said.
//!
//! The layout is described in `docs/reference/brain.md`.

mod adopt;
mod bundle_files;
mod commit;
mod copy;
mod diff;
mod draft;
mod editor;
mod evidence;
mod evolver_access;
mod export;
mod fork;
mod history;
mod hydrate;
mod import;
mod journal;
mod journal_check;
mod lookup;
mod lost_steps;
mod manifest;
mod open;
mod outcomes;
mod pending_files;
mod pipeline;
mod reader;
mod receipt_keys;
mod receipt_log;
mod repair;
mod restore_target;
mod rewind;
mod settle;
mod skill_edits;
mod skills;
mod step_signer;
mod trials;
mod undo;
mod undone_skills;
mod verify;

pub use diff::{BrainDiff, FileChangeKind, FileDiff, SkillDiff};
pub use draft::Draft;
pub use editor::{Editor, MemoryLayer};
pub use export::{ReadView, refuse_collisions};
pub use history::{ChangeRecord, StepKind, StepRecord};
pub use hydrate::{BrainSource, HydrateOutcome, Seed};
pub use journal_check::JournalCheck;
pub use lookup::{BrainGrowth, FileVersion, StoredTask, read_summary};
pub use manifest::{BrainManifest, MANIFEST_SCHEMA, MAX_MANIFEST_BYTES};
pub use open::{Brain, BrainOptions, OnDrift, STEPS_BETWEEN_FLUSHES, list};
pub use outcomes::no_such_task;
pub use reader::{BrainCounts, Reader};
pub use receipt_keys::ReceiptKeys;
pub use receipt_log::{LogState, ReceiptLog, StoredReceipt};
pub(crate) use repair::repair;
pub use repair::{LostStep, OnLoss, RepairReport};
pub use restore_target::OnExisting;
pub use restore_target::{RestoreTarget, VerifiedReceipt};
pub use settle::{SettledStep, Step, StepTranscript};
pub use skill_edits::{SkillEdits, SkillFileEdit};
pub use step_signer::{Receipt, StepChange, StepSigner};
pub use undo::{LaterChange, OnChanged, RetainedRows, UndoOutcome, UndoPlan, UndoTarget};
pub use undone_skills::{UNATTENDED, UndoneSkills};
pub use verify::{BrainVerifyReport, Drift, VerifiedBrain, examine, examine_with};
