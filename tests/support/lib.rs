//! What the suites and benches share: temporary brains, a clock that stands still, generated
//! data, and a way to run the command line.

pub mod brains;
pub mod clock;
pub mod command;
pub mod generate;

pub use brains::TempBrains;
pub use clock::ManualClock;
pub use command::{Herm, Run};
