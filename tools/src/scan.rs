//! `scan`: where the signals of patterns stand in a text, by line.

use herm::Slug;

use crate::pattern::{Pattern, Severity};

/// A line that a signal matches.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Hit {
    /// The line, counted from 1.
    pub line: usize,
    /// The pattern.
    pub pattern: Slug,
    /// How bad the pattern is.
    pub severity: Severity,
    /// The line's text, cut at 200 characters.
    pub text: String,
}

const SHOWN_CHARS: usize = 200;

/// Runs every signal over every line; one hit a pattern and line, worst first, then by line.
pub fn scan(patterns: &[Pattern], input: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (number, line) in (1..).zip(input.lines()) {
        for pattern in patterns {
            if pattern.signals.iter().any(|signal| signal.is_match(line)) {
                hits.push(Hit {
                    line: number,
                    pattern: pattern.slug.clone(),
                    severity: pattern.severity,
                    text: line.trim().chars().take(SHOWN_CHARS).collect(),
                });
            }
        }
    }
    hits.sort_by(|a, b| (a.severity, a.line, &a.pattern).cmp(&(b.severity, b.line, &b.pattern)));
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_by_line_and_worst_first() {
        let pattern = |slug: &str, severity: &str, signal: &str| {
            let text = format!(
                "---\nname: {slug}\ndescription: d\nseverity: {severity}\nsignals:\n  - '{signal}'\n---\nbody\n"
            );
            Pattern::parse(slug.parse().unwrap(), text.as_bytes()).unwrap()
        };
        let patterns = [pattern("low-one", "low", "foo"), pattern("high-one", "high", r"ba[rz]\(")];
        let found = scan(&patterns, "foo\nbar(1)\n  foo baz(2)\n");
        let seen: Vec<(usize, &str)> = found.iter().map(|hit| (hit.line, hit.pattern.as_str())).collect();
        assert_eq!(seen, [(2, "high-one"), (3, "high-one"), (1, "low-one"), (3, "low-one")]);
    }

    #[test]
    fn a_signal_that_does_not_compile_is_named() {
        let text = b"---\nname: x\ndescription: d\nseverity: low\nsignals:\n  - '(unclosed'\n---\n";
        let error = Pattern::parse("x".parse().unwrap(), text).unwrap_err();
        assert!(error.message().contains("(unclosed"), "{error}");
    }
}
