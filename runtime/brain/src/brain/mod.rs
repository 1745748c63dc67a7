//! A brain on disk: opened by one owner at a time, changed one settled step at a time.
//!
//! - [`Brain`] holds the lock of its directory; [`Reader`] looks beside whoever holds it.
//! - [`Draft`] collects the changes of a step, [`Editor`] makes them with their rules, and
//!   [`Brain::settle`] commits them in one SQLite transaction, the only commit point there is.
//! - A [`Witness`] signs every step inside that transaction; the receipts are the brain's tape.
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

pub use arrival::InPlace;
pub use arrival::{Arrival, Vouched};
pub use carry::{Moment, refuse_collisions};
pub use draft::Draft;
pub use editor::{Editor, Layer};
pub use history::{ChangeRecord, StepKind, StepRecord};
pub use hydrate::{Hydrated, Seed, Source};
pub use journal_check::JournalCheck;
pub use ledger::{Comparison, FileDifference, FileFate, SkillDifference};
pub use lookup::{FileVersion, KeptTask, Point, glance};
pub use manifest::{MANIFEST_SCHEMA, MAX_MANIFEST_BYTES, Manifest};
pub use open::{Brain, OnDrift, Opening, STEPS_BETWEEN_FLUSHES, list};
pub use reader::{Counts, Reader};
pub(crate) use repair::repair;
pub use repair::{LostStep, OnLoss, Repaired};
pub use settle::{Settled, Step, Transcript};
pub use taken_back::TakenBack;
pub use tape::{Account, LogState, Taped};
pub use undo::{ChangedSince, KeptRows, OnChanged, Target, UndoPlan, Undone};
pub use verify::{Drift, Examined, Report, examine};
pub use witness::{Move, Receipt, Witness};
