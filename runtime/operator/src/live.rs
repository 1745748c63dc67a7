//! A task as it happens, on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use herm::Event;
use herm::memory::EvidenceStatus;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{cut, printable};

/// Shows events: a spinner on a terminal, plain lines elsewhere, nothing where asked to be quiet.
pub(crate) struct Live {
    spinner: Option<ProgressBar>,
    quiet: bool,
}

impl Live {
    /// For this process's standard error.
    pub(crate) fn new(quiet: bool) -> Self {
        let spinner = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let spinner = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                spinner.set_style(style);
            }
            spinner.enable_steady_tick(Duration::from_millis(100));
            spinner
        });
        Self { spinner, quiet }
    }

    /// Shows one event.
    pub(crate) fn show(&self, event: &Event) {
        match event {
            Event::Started { brain, version, backend, .. } => {
                self.line(&format!("brain {brain} · version {version} · {backend}"));
            }
            Event::TurnStarted { turn, of } => self.doing(&format!("turn {turn} of {of}")),
            Event::Retry { backend, class, wait_millis } => {
                let then = match wait_millis {
                    Some(millis) => format!("again in {:.1} s", *millis as f64 / 1_000.0),
                    None => "no further try".to_owned(),
                };
                self.line(&format!("  {backend}: {class}; {then}"));
            }
            Event::ToolCall { tool, .. } => self.doing(&format!("calling {tool}")),
            Event::ToolResult { turn, tool, status, summary, millis } => {
                let mark = match status {
                    EvidenceStatus::Ok => "✓",
                    EvidenceStatus::Failed => "✗",
                    EvidenceStatus::Refused => "–",
                };
                self.line(&format!("  {turn} {mark} {tool} · {} ({millis} ms)", cut(summary, 90)));
            }
            Event::Nudge { turn, .. } => self.line(&format!("  {turn} – not a legal reply; told the model")),
            Event::SkillWritten { slug, change } => self.line(&format!("  ★ skill {slug} {}", verb(*change))),
            Event::Reply { .. } | Event::Settled { .. } => {}
        }
    }

    fn doing(&self, text: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(printable(text));
        }
    }

    /// Shows a line that stays.
    pub(crate) fn line(&self, text: &str) {
        let text = printable(text);
        match &self.spinner {
            Some(spinner) => spinner.println(text),
            None if self.quiet => {}
            // Nowhere is left to say that nothing can be said.
            None => drop(writeln!(std::io::stderr().lock(), "{text}")),
        }
    }

    /// Takes the spinner away.
    pub(crate) fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
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
