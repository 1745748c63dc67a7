//! The tools an agent may call, one file a tool. [`standard`] is all of them.
//!
//! | tool | what it touches |
//! |---|---|
//! | [`SkillsList`], [`SkillView`], [`SkillManage`] | skills: procedures the agent wrote or was given |
//! | [`Memory`] | the small notes that stand in every prompt |
//! | [`Note`], [`Recall`] | facts, messages and tasks in the database, each subscriber's apart |
//! | [`PatternSearch`], [`Scan`] | the pattern library, and where its signals stand in the input |
//! | [`Outline`] | the shape of the input |
//! | [`FetchUrl`], [`HttpSecret`] | the public internet, by the rules of [`net`] |
//! | [`AskAgent`] | other agents of the harness |
//! | `mcp`, behind the feature of that name | tools of MCP servers that the operator configured |
//!
//! A tool's arguments are one type: it gives the schema the model reads, the schema a call is checked against, and
//! the value the tool works with. An error of a tool is read by the model, so each names a next step.
//!
//! It uses the facade `herm` as any program does, and knows nothing of servers, command lines and configuration files.
//!
//! ```
//! use herm::tool::Permissions;
//!
//! fn main() -> herm::Result<()> {
//!     let toolbox = herm_tools::standard()?;
//!     assert!(toolbox.get("skill_view").is_some());
//!
//!     // Tools that reach out need a permission of the operator beside the brain's own list.
//!     let harness = herm::Harness::builder().toolbox(toolbox).permissions(Permissions { network: true, process: false });
//!     # drop(harness);
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `mcp` | off | tools of MCP servers, over pipes and HTTP |

mod arguments;
mod ask_agent;
mod fetch_url;
mod fit;
mod html;
mod http_secret;
mod library;
#[cfg(feature = "mcp")]
pub mod mcp;
mod memory;
mod near;
pub mod net;
mod note;
mod outline;
mod outline_code;
mod outline_log;
mod outline_prose;
mod outline_solidity;
mod pattern;
mod pattern_search;
mod recall;
mod redaction;
mod scan;
mod skill_manage;
mod skill_names;
mod skill_view;
mod skills_list;
mod standard;
mod web;

pub use ask_agent::AskAgent;
pub use fetch_url::FetchUrl;
pub use herm::skill::PatternSeverity as Severity;
pub use http_secret::HttpSecret;
pub use library::PatternLibrary;
pub use memory::Memory;
pub use note::Note;
pub use outline::Outline;
pub use pattern::Pattern;
pub use pattern_search::PatternSearch;
pub use recall::Recall;
pub use scan::{PatternHit, Scan, scan};
pub use skill_manage::SkillManage;
pub use skill_view::SkillView;
pub use skills_list::SkillsList;
pub use standard::standard;
