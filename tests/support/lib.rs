//! What the suites and benches share: temporary brains, a clock that stands still, generated
//! data, a model server with every quirk, a terminal, and a way to run the command line.

pub mod brains;
pub mod clock;
pub mod command;
pub mod generate;
pub mod http;
pub mod hub_server;
pub mod meaning;
pub mod model_server;
pub mod models;
#[cfg(feature = "cloud")]
pub mod object_server;
pub mod operator;
pub mod retrieval;
#[cfg(feature = "cloud")]
pub mod s3_server;
pub mod terminal;
pub mod walls;
pub mod web_server;

pub use brains::{TempBrains, signer};
pub use clock::ManualClock;
pub use command::{Herm, Run};
pub use walls::can_sandbox;
