//! A task as it happens, on standard error.

use std::io::Write as _;

use herm::TaskEvent;
use herm::memory::EvidenceStatus;

use crate::output::{cut, printable};
use crate::spinner::{Above, Spinner};

/// Shows events: a spinner on a terminal, plain lines elsewhere, nothing where asked to be quiet.
pub(crate) struct ProgressDisplay {
    spinner: Option<Spinner>,
    quiet: bool,
}

impl ProgressDisplay {
    /// For this process's standard error. Dropping it takes the spinner away.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { spinner: if quiet { None } else { Spinner::start() }, quiet }
    }

    /// Whether something is to move while nothing happens.
    pub(crate) fn moves(&self) -> bool {
        self.spinner.is_some()
    }

    /// Shows that it still goes on.
    pub(crate) fn tick(&mut self) {
        if let Some(spinner) = &mut self.spinner {
            spinner.tick();
        }
    }

    /// Shows one event: what passes goes on the spinner, what stays is a line.
    pub(crate) fn show(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::Started { brain, version, backend, .. } => {
                self.line(&format!("brain {brain} · version {version} · {backend}"));
            }
            TaskEvent::TurnStarted { turn, of } => self.doing(&format!("turn {turn} of {of}")),
            TaskEvent::Retry { backend, class, wait_millis } => {
                let then = match wait_millis {
                    Some(millis) => format!("again in {:.1} s", *millis as f64 / 1_000.0),
                    None => "no further try".to_owned(),
                };
                self.line(&format!("  {backend}: {class}; {then}"));
            }
            TaskEvent::ToolCall { tool, .. } => self.doing(&format!("calling {tool}")),
            TaskEvent::ToolResult { turn, tool, status, summary, millis } => {
                let mark = match status {
                    EvidenceStatus::Ok => "✓",
                    EvidenceStatus::Failed => "✗",
                    EvidenceStatus::Refused => "–",
                };
                self.line(&format!("  {turn} {mark} {tool} · {} ({millis} ms)", cut(summary, 90)));
            }
            TaskEvent::Nudge { turn, .. } => self.line(&format!("  {turn} – not a legal reply; told the model")),
            TaskEvent::SkillWritten { slug, change } => self.line(&format!("  ★ skill {slug} {}", verb(*change))),
            TaskEvent::Reply { .. } | TaskEvent::Settled { .. } => {}
        }
    }

    fn doing(&mut self, text: &str) {
        if let Some(spinner) = &mut self.spinner {
            spinner.say(&printable(text));
        }
    }

    /// Shows a line that stays.
    fn line(&self, text: &str) {
        if !self.quiet {
            // Nowhere is left to say that nothing can be said.
            let _ = Above.write_all(format!("{}\n", printable(text)).as_bytes());
        }
    }
}

/// What was done to a skill.
pub(crate) fn verb(change: herm::tool::SkillChange) -> &'static str {
    match change {
        herm::tool::SkillChange::Created => "learned",
        herm::tool::SkillChange::Changed => "improved",
        herm::tool::SkillChange::Archived => "archived",
    }
}

/// The same of what is not done yet.
pub(crate) fn wish(change: herm::tool::SkillChange) -> &'static str {
    match change {
        herm::tool::SkillChange::Created => "create",
        herm::tool::SkillChange::Changed => "change",
        herm::tool::SkillChange::Archived => "archive",
    }
}
