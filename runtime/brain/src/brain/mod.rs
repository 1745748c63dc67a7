//! A brain on disk: opened by one owner at a time, changed one settled step at a time.
//!
//! - [`Brain`] holds the lock of its directory; [`Reader`] looks beside whoever holds it.
//! - [`Draft`] collects the changes of a step, [`Editor`] makes them with their rules, and
//!   [`Brain::settle`] commits them in one SQLite transaction, the only commit point there is.
//! - A [`StepSigner`] signs every step inside that transaction; the receipts are the brain's tape.
//! - [`Reader::compare`] says what differs between two versions, and [`Brain::undo`] takes one step
//!   back as a step of its own.
//! - After a crash, [`Brain::open`] brings the files to what the transaction said.
//!
//! The layout is described in `docs/reference/brain.md`.

mod adopt;
mod ahead;
mod arrival;
mod behind;
mod beside;
mod bundle_files;
mod carry;
mod commit;
mod copy;
mod draft;
mod editor;
mod evidence;
mod evolving;
mod fork;
mod history;
mod hydrate;
mod import;
mod journal;
mod journal_check;
mod ledger;
mod lookup;
mod manifest;
mod open;
mod reader;
mod repair;
mod rewind;
mod settle;
mod skills;
mod taken_back;
mod tape;
mod undo;
mod verify;
mod witness;

pub use arrival::OnExisting;
pub use arrival::{RestoreTarget, VerifiedReceipt};
pub use carry::{ReadView, refuse_collisions};
pub use draft::Draft;
pub use editor::{Editor, MemoryLayer};
pub use history::{ChangeRecord, StepKind, StepRecord};
pub use hydrate::{BrainSource, HydrateOutcome, Seed};
pub use journal_check::JournalCheck;
pub use ledger::{BrainDiff, FileChangeKind, FileDiff, SkillDiff};
pub use lookup::{BrainGrowth, FileVersion, StoredTask, read_summary};
pub use manifest::{BrainManifest, MANIFEST_SCHEMA, MAX_MANIFEST_BYTES};
pub use open::{Brain, BrainOptions, OnDrift, STEPS_BETWEEN_FLUSHES, list};
pub use reader::{BrainCounts, Reader};
pub(crate) use repair::repair;
pub use repair::{LostStep, OnLoss, RepairReport};
pub use settle::{SettledStep, Step, StepTranscript};
pub use taken_back::UndoneSkills;
pub use tape::{LogState, ReceiptLog, StoredReceipt};
pub use undo::{LaterChange, OnChanged, RetainedRows, UndoOutcome, UndoPlan, UndoTarget};
pub use verify::{BrainVerifyReport, Drift, VerifiedBrain, examine};
pub use witness::{Receipt, StepChange, StepSigner};
