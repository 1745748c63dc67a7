//! Results on standard output, errors and activity on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use herm::Error;
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::exit;

/// What a command found: the same thing for people and for programs.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For people: printed unless `--json` is given.
    pub(crate) text: String,
    /// For programs: one JSON document with stable field names.
    pub(crate) json: Value,
    /// A remark for people that is not part of the result.
    pub(crate) note: Option<String>,
    /// The exit code, one of those in `exit`.
    pub(crate) code: u8,
}

impl Answer {
    /// A result with exit code 0.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, note: None, code: exit::DONE }
    }

    /// Adds a remark, which goes to standard error unless `--quiet` or `--json` is given.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Says what of a settled step could not be finished, if anything.
    pub(crate) fn unfinished(mut self, what: Option<String>) -> Self {
        self.json["unfinished"] = json!(what);
        self.note = what.or(self.note);
        self
    }

    /// Sets the exit code.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// How to print: what `--json` and `--quiet` say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    json: bool,
    quiet: bool,
}

impl Style {
    /// As the flags say.
    pub(crate) fn of(cli: &Cli) -> Self {
        Self { json: cli.json, quiet: cli.quiet }
    }
}

/// Prints a result on standard output, and its note on standard error.
pub(crate) fn answer(answer: &Answer, style: Style) -> ExitCode {
    let printed = if style.json { print_json(&answer.json) } else { print_text(&answer.text) };
    if let Some(note) = answer.note.as_ref().filter(|_| !style.quiet && !style.json) {
        say(note);
    }
    finished(printed, answer.code)
}

/// Prints an error on standard error, or with `--json` as a document on standard output.
pub(crate) fn error(error: &Error, style: Style) -> ExitCode {
    let code = exit::code(error.kind());
    if style.json {
        let document = json!({
            "error": { "kind": error.kind().name(), "message": error.message(), "hint": error.hint_text() }
        });
        return finished(print_json(&document), code);
    }
    say(&format!("error: {}", error.message()));
    if let Some(hint) = error.hint_text() {
        say(&format!("  hint: {hint}"));
    }
    ExitCode::from(code)
}

/// A reader that has seen enough closes the pipe; any other failure to print is one.
fn finished(printed: std::io::Result<()>, code: u8) -> ExitCode {
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say(&format!("error: the result could not be written: {error}"));
            ExitCode::from(exit::UNAVAILABLE)
        }
        _ => ExitCode::from(code),
    }
}

/// Prints what the argument parser says: help and version are results, the rest is misuse.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is not reported.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::DONE })
}

fn print_json(value: &Value) -> std::io::Result<()> {
    print(&format!("{value:#}\n"))
}

/// Prints text for people; to a terminal without what would steer it.
pub(crate) fn print_text(text: &str) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() { print(&printable(text)) } else { print(text) }
}

pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Says something on standard error.
pub(crate) fn say(text: &str) {
    // Nowhere is left to say that nothing can be said.
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// Text without control characters but for line ends and tabs: content must not steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c }).collect()
}

/// Whether a character moves the cursor, or turns the text around it: what is shown would not be what is there.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Rows as aligned columns, two spaces apart; the last column is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    // A cell is one line, whatever its content says.
    let plain = |cell: &String| cell.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect::<String>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(plain).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Cuts a text for a table.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= most {
        return flat;
    }
    let mut shown: String = flat.chars().take(most.saturating_sub(1)).collect();
    shown.truncate(shown.trim_end().len());
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_is_there() {
        assert_eq!(printable("a\u{1b}[31m\tb\n\u{202e}c\u{2066}d é 日"), "a\u{fffd}[31m\tb\n\u{fffd}c\u{fffd}d é 日");
        assert_eq!(columns(&[vec!["a\nb".to_owned(), "c\u{202e}".to_owned()]]), "a\u{fffd}b  c\u{fffd}\n");
    }
}
