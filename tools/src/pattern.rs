//! A pattern: read-only shared knowledge, with the signals that hint at it.

use herm::skill::{Document, FrontMatterValue, PatternSeverity as Severity};
use herm::{Error, Result, Slug};
use regex::{Regex, RegexBuilder};

/// A pattern, ready to be looked for.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Its identity: the file's name without `.md`.
    pub slug: Slug,
    /// What it is, in a sentence.
    pub description: String,
    /// How bad it is.
    pub severity: Severity,
    /// Regular expressions that hint at it, tried line by line.
    pub signals: Vec<Regex>,
    /// What it is, how to confirm it and how to fix it.
    pub body: String,
}

/// A compiled expression may take this much memory: signals come from data.
const MAX_SIGNAL_BYTES: usize = 1 << 20;
/// A pattern may have this many signals.
const MAX_SIGNALS: usize = 64;

impl Pattern {
    /// Reads a pattern file. Every signal must compile; the first that does not is named.
    pub fn parse(slug: Slug, content: &[u8]) -> Result<Self> {
        let document = Document::read(content)
            .map_err(|unreadable| Error::invalid(format!("pattern {slug} cannot be read: {}", unreadable.reason)))?;
        let named = document.text("severity");
        let severity = named.as_deref().and_then(Severity::named).ok_or_else(|| {
            Error::invalid(format!("pattern {slug} has the severity {named:?}"))
                .hint("severity is one of critical, high, medium, low, info")
        })?;
        let sources = match document.value("signals") {
            Some(FrontMatterValue::List(items)) => items,
            Some(single @ FrontMatterValue::Text(_)) => vec![single],
            _ => Vec::new(),
        };
        if sources.len() > MAX_SIGNALS {
            return Err(Error::invalid(format!(
                "pattern {slug} has {} signals, and may have {MAX_SIGNALS}",
                sources.len()
            ))
            .hint("join some with |, or make it two patterns"));
        }
        let mut signals = Vec::with_capacity(sources.len());
        for source in &sources {
            let FrontMatterValue::Text(source) = source else {
                return Err(Error::invalid(format!("a signal of pattern {slug} is not text")));
            };
            let regex = RegexBuilder::new(source).size_limit(MAX_SIGNAL_BYTES).build().map_err(|error| {
                Error::invalid(format!("the signal {source:?} of pattern {slug} is not a regular expression: {error}"))
            })?;
            signals.push(regex);
        }
        Ok(Self {
            description: document.description().unwrap_or_default(),
            severity,
            signals,
            body: document.body().to_owned(),
            slug,
        })
    }
}
