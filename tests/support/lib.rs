//! What the suites and benches share: temporary brains, a clock that stands still, generated
//! data, a model server with every quirk, a terminal, and a way to run the command line.

pub mod brains;
pub mod clock;
pub mod command;
pub mod generate;
pub mod http;
pub mod hub_server;
pub mod imitator;
pub mod learned;
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

/// The documents: each Rust block of them compiles.
#[cfg(doctest)]
mod pages {
    macro_rules! page {
        ($name:ident, $path:literal) => {
            #[doc = include_str!(concat!("../../docs/", $path))]
            struct $name;
        };
    }
    page!(Embed, "embed/README.md");
    page!(Tools, "embed/tools.md");
    page!(Backends, "embed/backends.md");
    page!(Brains, "embed/brains.md");
    page!(Successor, "embed/successor.md");
    page!(Autogenesis, "operate/autogenesis.md");
    page!(Recall, "reference/recall.md");
    page!(Sandbox, "reference/sandbox.md");
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../runtime/README.md")]
    struct FacadeReadme;
}
