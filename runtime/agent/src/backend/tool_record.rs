//! What a session knows of its tools, typed: what each is for, and what its calls came to. A language model reads the messages;
//! a backend without one goes by this.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::memory::{EvidenceStatus, MemorySource};
use crate::skill::{PatternNote, PatternSeverity};

/// What a tool is for, where a backend without a language model plans by it. The model never sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ToolPurpose {
    /// It says how the task's input is built. It returns [`ToolData::Outline`].
    Outlines,
    /// It looks for known patterns in the task's input. It returns [`ToolData::Hits`].
    Scans,
    /// It says what a pattern means: the one that the argument `name` names, in full, or those that the words of `query` fit. It
    /// returns [`ToolData::Patterns`].
    ExplainsPatterns,
    /// It loads the skill that the argument `name` names.
    LoadsSkill,
    /// It lists the skills that can be loaded.
    ListsSkills,
    /// It searches earlier tasks for the words of the argument `query`. It returns [`ToolData::Recalled`].
    Recalls,
    /// It changes what the agent keeps. Only a model should decide on that.
    Writes,
    /// It reaches out of the task: to a network, or to another agent.
    ReachesOut,
}

/// A tool of the task and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRole {
    /// The name that it is called by.
    pub tool: String,
    /// What it is for.
    pub purpose: ToolPurpose,
}

/// What a session knows of its tools, beside the words of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolRecord {
    /// The tools that say what they are for.
    pub roles: Vec<ToolRole>,
    /// The calls so far, in order, refused ones included.
    pub calls: Vec<Arc<CallResult>>,
}

impl ToolRecord {
    /// What a tool is for, where it says so.
    pub fn purpose(&self, tool: &str) -> Option<ToolPurpose> {
        self.roles.iter().find(|role| role.tool == tool).map(|role| role.purpose)
    }
}

/// A call and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The name of the tool, as the model gave it.
    pub tool: String,
    /// The arguments; empty where the reply named no tool of the task.
    pub args: Map<String, Value>,
    /// Whether the tool succeeded, failed, or was not run at all.
    pub status: EvidenceStatus,
    /// What the model reads of it, whole.
    pub text: Arc<str>,
    /// The same as data, where the tool gives any. A result that comes from the record of a task has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Arc<ToolData>>,
}

/// What a call found, as data: what its text says to a model, for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ToolData {
    /// How the task's input is built.
    Outline(InputOutline),
    /// Where patterns hit in the task's input.
    Hits(ScanHits),
    /// What the pattern library says of patterns, best fit first.
    Patterns(Vec<PatternNote>),
    /// What earlier tasks said, best fit first.
    Recalled(Vec<RecalledLine>),
}

/// How the task's input is built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputOutline {
    /// How many lines it has.
    pub lines: u64,
    /// How many characters it has.
    pub characters: u64,
    /// What kind of text it is.
    pub form: InputForm,
    /// When the first and the last line of a log that say when were written.
    #[serde(default)]
    pub span: Option<LogSpan>,
    /// How many lines of a log have which level, the worst level first.
    #[serde(default)]
    pub levels: Vec<(String, u64)>,
    /// Headings, clauses, declarations or exceptions, in the order of the input.
    #[serde(default)]
    pub entries: Vec<OutlineEntry>,
}

/// What kind of text an input is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputForm {
    /// The source of contracts in Solidity.
    Solidity,
    /// Source code in another language.
    Code,
    /// Lines that begin with a time.
    Log,
    /// A text that is none of these, told as it came.
    #[default]
    Prose,
}

impl InputForm {
    /// Its name in a sentence: `Solidity`, `code`, `a log`, `text`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Solidity => "Solidity",
            Self::Code => "code",
            Self::Log => "a log",
            Self::Prose => "text",
        }
    }
}

/// The first and the last time in a log, as they are written there, with their lines from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpan {
    /// The first time, as the log writes it.
    pub first: String,
    /// The line of the first time.
    pub first_line: u64,
    /// The last time, as the log writes it.
    pub last: String,
    /// The line of the last time.
    pub last_line: u64,
}

/// A place of the input that an outline lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlineEntry {
    /// The line, from 1.
    pub line: u64,
    /// What stands there: a heading, a clause, a declaration.
    pub text: String,
}

/// Where patterns hit in the input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanHits {
    /// The hits that the result shows, worst first, then by line.
    pub hits: Vec<ScanHit>,
    /// How many lines each pattern hits, shown or not.
    pub counts: BTreeMap<String, u64>,
}

/// A line of the input that a pattern hits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanHit {
    /// The line, from 1.
    pub line: u64,
    /// How bad it is when the pattern applies.
    pub severity: PatternSeverity,
    /// The name of the pattern.
    pub pattern: String,
    /// What the line says; the end of a long one may be missing.
    pub text: String,
}

/// Something that an earlier task said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalledLine {
    /// The day it was kept: `2026-11-16`.
    pub date: String,
    /// Whether it is a message, a noted fact, or the end of a task.
    pub source: MemorySource,
    /// What was said, on one line.
    pub text: String,
}
