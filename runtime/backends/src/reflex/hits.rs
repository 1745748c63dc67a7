//! What `scan` returned: `L12 high reentrancy: text`, worst first, and how many hits each pattern has.

use std::collections::BTreeMap;

use crate::skill::PatternSeverity as Severity;

/// A line that a signal matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit<'a> {
    /// The line, from 1.
    pub(super) line: u64,
    /// How bad the pattern is.
    pub(super) severity: Severity,
    pub(super) pattern: &'a str,
    pub(super) text: &'a str,
}

/// Whether a text is a name as patterns, skills and tools have them.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

/// The hits of a scan, in its order. Lines that are not hits are passed over.
pub(super) fn hits(text: &str) -> Vec<Hit<'_>> {
    text.split('\n').filter_map(hit).collect()
}

fn hit(line: &str) -> Option<Hit<'_>> {
    let (number, rest) = line.strip_prefix('L')?.split_once(' ')?;
    let (severity, rest) = rest.split_once(' ')?;
    let (pattern, text) = rest.split_once(':')?;
    let line = number.parse().ok().filter(|number| *number > 0)?;
    let severity = Severity::named(severity)?;
    is_name(pattern).then_some(Hit { line, severity, pattern, text: text.trim() })
}

/// How many hits each pattern has, as the scan counted them: it may show fewer.
pub(super) fn counts(text: &str) -> BTreeMap<&str, u64> {
    let line = text.split('\n').rfind(|line| line.starts_with("Hits in "));
    let (_, counts) = line.and_then(|line| line.split_once(": ")).unwrap_or_default();
    counts
        .split(", ")
        .filter_map(|count| count.split_once(' '))
        .filter_map(|(pattern, count)| Some((pattern, count.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_and_counts_are_read_and_the_rest_is_passed_over() {
        let text = "L68 high reentrancy: a: b\nL0 high x: y\nLine 3\nL7 awful x: y\nL9 low Not A Name: y\n\
                    [1 of 4 hits shown: use `pattern` to see the others of one pattern]\n\
                    Hits in 114 lines: reentrancy 3, tx-origin-auth 1\n";
        let expected = Hit { line: 68, severity: Severity::High, pattern: "reentrancy", text: "a: b" };
        assert_eq!(hits(text), [expected]);
        assert_eq!(counts(text), BTreeMap::from([("reentrancy", 3), ("tx-origin-auth", 1)]));
        assert_eq!((hits("No hits: 20 patterns looked at 3 lines.\n"), counts("")), (vec![], BTreeMap::new()));
    }
}
