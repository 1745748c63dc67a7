//! From a configuration file to what it names: the harness with its backends and tools, the store of snapshots, and the gates
//! of patches.
//!
//! - [`config`] is what the file may hold, and [`Settings`], the settings in force: flags over the file over defaults.
//! - [`backends`] makes the harness: backends, permissions, secrets, what is learned.
//! - [`stores`] opens the store of snapshots with its key, and holds the lease of a brain.
//! - [`mcp`] connects the MCP servers, and [`local_models`] finds the models of this machine.
//!
//! An error names the field and the section it is in. Secrets are in the environment or in files of their own, and are read
//! when they are used.
//!
//! It uses the facade `herm` and the standard tools as any program does. It knows nothing of HTTP servers, and nothing of a
//! command line but [`SettingsFlags`]. Hints name commands of `herm`.
//!
//! ```no_run
//! use herm::{Harness, Result};
//! use herm_settings::{Settings, SettingsFlags, backends, in_runtime, mcp};
//!
//! fn main() -> Result<()> {
//!     let flags = SettingsFlags { config: Some("herm.toml".into()), brains: Some("brains".into()) };
//!     let settings = Settings::load(&flags)?;
//!     in_runtime(async {
//!         let (tools, warnings) = mcp::connect(&settings).await?;
//!         for warning in warnings {
//!             eprintln!("{warning}");
//!         }
//!         let snapshotting = settings.snapshotting().await?;
//!         let harness: Harness = backends::harness(&settings, None, None, tools, snapshotting)?;
//!         drop(harness);
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `s3`, `gcs`, `azure`, `webdav` | off | snapshots in that store; `cloud` is all four |
//! | `local` | off | a language model inside the process: the backend `local` |
//! | `semantic` | off | `[semantic]` in the configuration: texts compared by what they mean |
//! | `mcp` | off | MCP servers as tools |

pub mod backends;
pub mod config;
pub mod local_models;
pub mod mcp;
mod runtime;
pub mod stores;

pub use config::{ConfigFile, Settings, SettingsFlags};
pub use runtime::in_runtime;
