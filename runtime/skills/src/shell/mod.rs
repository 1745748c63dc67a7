//! Inline shell: `` !`cmd` `` in a skill's text becomes what the command prints.
//!
//! Off unless the operator turns it on, and even then [`may_run`] decides by who made the skill: no
//! command that a model wrote ever runs. Finding and replacing are pure; a [`Runner`] runs.

mod group;
mod process;
#[cfg(feature = "sandbox")]
mod sandboxed;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use pulldown_cmark::{Event, Parser};

use super::usage::CreatedBy;
use crate::error::Error;
use crate::text;

pub use process::{CommandEnd, CommandResult, ProcessRunner, TIMEOUT};
#[cfg(feature = "sandbox")]
pub use sandboxed::SandboxedRunner;

/// How many characters of a command's output are kept.
pub const MAX_OUTPUT: usize = 4_000;
/// How many snippets of one text are run: each may take its full time.
pub const MAX_SNIPPETS: usize = 20;
/// How many characters of an error are kept.
const MAX_ERROR: usize = 300;

/// A command in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet<'a> {
    /// Where it stands, in bytes, with its mark and backticks.
    pub range: Range<usize>,
    /// The command, without spaces around it.
    pub command: &'a str,
}

/// Runs the command of a snippet.
pub trait Runner {
    /// What the command printed, or why that is not known. Both are shown to a model, so neither may hold a secret.
    fn run(&self, command: &str) -> Result<String, String>;
}

/// The snippets of a text, in order: an exclamation mark right before inline code of one line that
/// stands between single backticks. What Markdown takes for a block of code, for HTML or for a
/// longer piece of inline code holds no snippets, so a skill can show the syntax without running it.
pub fn find(body: &str) -> Vec<Snippet<'_>> {
    if !body.contains("!`") {
        return Vec::new();
    }
    let code = Parser::new(body).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Code(_) => Some(range),
        _ => None,
    });
    code.filter_map(|code| snippet(body, code)).collect()
}

fn snippet(body: &str, code: Range<usize>) -> Option<Snippet<'_>> {
    let before = body.get(..code.start)?.strip_suffix('!')?;
    let is_escaped = before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    let inside = body.get(code.clone())?.strip_prefix('`')?.strip_suffix('`')?;
    let command = inside.trim();
    let is_one = !inside.contains(['`', '\n', '\r']) && !command.is_empty();
    (is_one && !is_escaped).then_some(Snippet { range: before.len()..code.end, command })
}

/// The text with every snippet replaced by its output, or by a mark that says what went wrong.
pub fn expand(body: &str, runner: &dyn Runner) -> String {
    expand_around(body, runner, Cow::Borrowed)
}

/// The same, with everything between the snippets put through `between`.
pub(super) fn expand_around<'b>(
    body: &'b str,
    runner: &dyn Runner,
    between: impl Fn(&'b str) -> Cow<'b, str>,
) -> String {
    let mut expanded = String::with_capacity(body.len());
    let mut copied = 0;
    for (number, snippet) in find(body).into_iter().enumerate() {
        expanded.push_str(&between(body.get(copied..snippet.range.start).unwrap_or_default()));
        expanded.push_str(&if number < MAX_SNIPPETS {
            shown(runner.run(snippet.command))
        } else {
            shown(Err(format!("only the first {MAX_SNIPPETS} commands of a skill are run")))
        });
        copied = snippet.range.end;
    }
    expanded.push_str(&between(body.get(copied..).unwrap_or_default()));
    expanded
}

/// What stands in the text instead of a snippet.
fn shown(result: Result<String, String>) -> String {
    match result {
        Ok(mut output) => {
            output.truncate(output.trim_end_matches(['\n', '\r']).len());
            if let Some((end, _)) = output.char_indices().nth(MAX_OUTPUT) {
                output.truncate(end);
                output.push_str(&format!("\n[cut here: the output has more than {MAX_OUTPUT} characters]"));
            }
            output
        }
        Err(reason) => format!("[inline-shell error: {}]", text::line(&reason, MAX_ERROR)),
    }
}

/// Why the commands of a skill are not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellRefusal {
    /// A model wrote the skill.
    ByAgent,
    /// The skill came from elsewhere and nobody here reviewed it.
    Imported,
    /// The operator has not turned inline shell on.
    Off,
}

impl fmt::Display for ShellRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ByAgent => "inline shell does not run in a skill that an agent wrote",
            Self::Imported => "inline shell does not run in an imported skill",
            Self::Off => "inline shell is off",
        })
    }
}

impl From<ShellRefusal> for Error {
    fn from(refusal: ShellRefusal) -> Self {
        let hint = match refusal {
            ShellRefusal::ByAgent | ShellRefusal::Imported => {
                "read it, and save it as a skill of your own if its commands shall run"
            }
            ShellRefusal::Off => "the operator turns it on in the configuration",
        };
        Error::refused(refusal.to_string()).hint(hint)
    }
}

/// Whether the commands of a skill may run. Who made it comes first: no setting makes a command run
/// that a model wrote.
pub fn may_run(created_by: CreatedBy, enabled: bool) -> Result<(), ShellRefusal> {
    match created_by {
        CreatedBy::Agent => Err(ShellRefusal::ByAgent),
        CreatedBy::Imported | CreatedBy::Hub | CreatedBy::Plugin | CreatedBy::Bundled => Err(ShellRefusal::Imported),
        CreatedBy::Seed | CreatedBy::User if !enabled => Err(ShellRefusal::Off),
        CreatedBy::Seed | CreatedBy::User => Ok(()),
    }
}

#[cfg(test)]
mod tests;
