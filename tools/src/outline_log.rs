//! The shape of a log: its time span, levels and sources, and the exceptions in it.

use std::collections::BTreeMap;

use herm::backend::LogSpan;

use crate::fit;
use crate::outline::Shape;

const LEVELS: [&str; 12] =
    ["FATAL", "CRITICAL", "CRIT", "SEVERE", "ERROR", "ERR", "WARN", "WARNING", "NOTICE", "INFO", "DEBUG", "TRACE"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// How many different sources are counted, and how many shown.
const MAX_SOURCES: usize = 1_000;
const SHOWN_SOURCES: usize = 20;

/// The time a line begins with, and the rest: ISO dates with a time behind `T` or a space, and syslog's.
pub(crate) fn split_time(line: &str) -> Option<(&str, &str)> {
    let trimmed = line.trim_start_matches('[');
    let digits = |text: &str, n: usize| text.len() >= n && text.bytes().take(n).all(|b| b.is_ascii_digit());
    let is_clock = |word: &str| digits(word, 2) && word.as_bytes().get(2) == Some(&b':');
    let mut words = trimmed.splitn(3, ' ').filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_date = digits(first, 4) && matches!(first.as_bytes().get(4), Some(b'-' | b'/'));
    let length = if is_date && (first.contains('T') || first.len() > 16) {
        first.len()
    } else if is_date && words.next().is_some_and(is_clock) {
        end_of_word(trimmed, 2)
    } else if MONTHS.contains(&first) {
        let clock = trimmed.split_whitespace().nth(2)?;
        if !is_clock(clock) {
            return None;
        }
        end_of_word(trimmed, 3)
    } else if is_clock(first) && first.len() >= 8 {
        first.len()
    } else {
        return None;
    };
    let (time, rest) = trimmed.split_at_checked(length)?;
    Some((time.trim_end_matches(']'), rest))
}

/// Where the `n`th word of a line ends.
fn end_of_word(line: &str, n: usize) -> usize {
    let mut words = 0;
    let mut in_word = false;
    for (at, c) in line.char_indices() {
        match (in_word, c.is_whitespace()) {
            (false, false) => {
                in_word = true;
                words += 1;
            }
            (true, true) if words == n => return at,
            (true, true) => in_word = false,
            _ => {}
        }
    }
    line.len()
}

fn bare(word: &str) -> &str {
    let word = word.trim_matches(|c: char| matches!(c, '[' | ']' | '(' | ')' | ':' | ',' | '|' | '-' | '<' | '>'));
    word.split('[').next().unwrap_or(word)
}

fn level(word: &str) -> Option<&'static str> {
    let word = bare(word);
    LEVELS.into_iter().find(|level| word.eq_ignore_ascii_case(level))
}

/// Whether a line without a time names an exception.
fn is_exception(line: &str) -> bool {
    if line.starts_with("Caused by:") || line.starts_with("Traceback ") || line.starts_with("panic:") {
        return true;
    }
    let first = line.split([':', ' ']).next().unwrap_or_default();
    let last = first.rsplit('.').next().unwrap_or_default();
    (last.ends_with("Exception") || last.ends_with("Error")) && !line.starts_with(char::is_whitespace)
}

/// What can be said of a log without reading it.
pub(crate) fn shape(text: &str) -> Shape {
    let mut shape = Shape::default();
    let mut first: Option<(usize, &str)> = None;
    let mut last: Option<(usize, &str)> = None;
    let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sources: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut undated = 0;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let Some((time, rest)) = split_time(line) else {
            undated += 1;
            if is_exception(line) {
                shape.entries.add(number, 0, line);
            }
            continue;
        };
        first.get_or_insert((number, time));
        last = Some((number, time));
        let head = || rest.split_whitespace().take(4);
        if let Some(level) = head().find_map(level) {
            *levels.entry(level).or_default() += 1;
        }
        let source =
            head().map(|word| (bare(word), level(word))).find(|(word, level)| level.is_none() && !word.is_empty());
        if let Some((source, _)) = source
            && (sources.len() < MAX_SOURCES || sources.contains_key(source))
        {
            sources.entry(source).or_insert((0, number)).0 += 1;
        }
    }
    if let (Some((from, begin)), Some((to, end))) = (first, last) {
        shape.facts.push(format!(
            "Time as written: {} (L{from}) to {} (L{to})",
            herm::text::line(begin, 40),
            herm::text::line(end, 40)
        ));
        shape.span = Some(LogSpan {
            first: herm::text::line(begin, 40),
            first_line: from as u64,
            last: herm::text::line(end, 40),
            last_line: to as u64,
        });
    }
    let counted = LEVELS.iter().filter_map(|level| Some(((*level).to_owned(), *levels.get(level)? as u64)));
    shape.levels = counted.collect();
    let counted: Vec<String> = shape.levels.iter().map(|(level, count)| format!("{level} {count}")).collect();
    if !counted.is_empty() {
        shape.facts.push(format!("Levels: {}", counted.join(", ")));
    }
    shape.facts.extend(sources_line(&sources));
    if undated > 0 {
        shape.facts.push(format!("{} without a time: traces and continuations", fit::count(undated, "line")));
    }
    shape
}

fn sources_line(sources: &BTreeMap<&str, (usize, usize)>) -> Option<String> {
    let mut order: Vec<(&str, usize, usize)> = sources.iter().map(|(name, (n, first))| (*name, *n, *first)).collect();
    order.sort_by_key(|(_, count, first)| (std::cmp::Reverse(*count), *first));
    let shown: Vec<String> = order
        .iter()
        .take(SHOWN_SOURCES)
        .map(|(name, count, first)| format!("{} {count} (from L{first})", herm::text::line(name, 40)))
        .collect();
    let more = match order.len().saturating_sub(SHOWN_SOURCES) {
        0 => String::new(),
        more => format!(", {more} more"),
    };
    (!shown.is_empty()).then(|| format!("Sources: {}{more}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline::outline;

    #[test]
    fn times_are_recognised_as_they_are_written() {
        let cases = [
            ("2025-03-11T13:41:02.118Z INFO  gateway", Some("2025-03-11T13:41:02.118Z")),
            ("2025-09-18 09:02:11,340 INFO  [main]", Some("2025-09-18 09:02:11,340")),
            ("Jun 02 00:00:03 cdc-1 connector[811]:", Some("Jun 02 00:00:03")),
            ("Jun  2 00:00:03 cdc-1", Some("Jun  2 00:00:03")),
            ("[2025-03-11T13:41:02Z] x", Some("2025-03-11T13:41:02Z")),
            ("13:41:02.118 INFO", Some("13:41:02.118")),
            ("\tat a.b.C", None),
            ("2025 was a year", None),
            ("2025-03-11", None),
            ("May the best one win", None),
            ("é", None),
        ];
        for (line, time) in cases {
            assert_eq!(split_time(line).map(|(time, _)| time), time, "{line:?}");
        }
    }

    #[test]
    fn a_log_shows_its_span_levels_sources_and_exceptions() {
        let log = "2025-03-11T13:41:02Z INFO  gateway ok\n2025-03-11T13:42:00Z ERROR checkout-7d4 failed\n\
                   java.sql.SQLException: HikariPool-1\n\tat a.b.C(D.java:1)\nCaused by: x\n\
                   2025-03-11T13:43:00Z WARN checkout-7d4 slow\n";
        let shown = outline(log).text;
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "Time as written: 2025-03-11T13:41:02Z (L1) to 2025-03-11T13:43:00Z (L6)",
                "Levels: ERROR 1, WARN 1, INFO 1",
                "Sources: checkout-7d4 2 (from L2), gateway 1 (from L1)",
                "3 lines without a time: traces and continuations",
                "L3 java.sql.SQLException: HikariPool-1",
                "L5 Caused by: x",
            ]
        );
    }
}
