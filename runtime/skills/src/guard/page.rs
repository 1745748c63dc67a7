//! Where on a page something stands: in code, in a quotation, in a comment that nobody sees, below a heading.

use std::cell::OnceCell;

/// What is known of each line of a text, and of its comments.
pub(super) struct Page<'a> {
    text: &'a str,
    lines: Vec<Line<'a>>,
    /// Headings and announcements, and whether they speak of attacks; found out once for all lines below.
    above: Vec<(&'a str, OnceCell<bool>)>,
    /// HTML comments outside of code, in bytes.
    comments: Vec<(usize, usize)>,
}

struct Line<'a> {
    start: usize,
    text: &'a str,
    is_code: bool,
    /// The nearest heading above, and the line that announces what follows, by number.
    heading: Option<usize>,
    announced: Option<usize>,
    /// Whether the line speaks of attacks; found out once.
    speaks: OnceCell<bool>,
}

/// So much around a place says what it is: lines may be as long as files.
const AROUND: usize = 400;

/// The last bytes of a text.
fn last_of(text: &str, bytes: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(bytes))..).unwrap_or_default()
}

/// The first bytes of a text.
fn first_of(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// Words that speak of attacks: on a line, in the heading above it, or in the line that announces it. "This file
/// contains:" and "Examples" are none.
const ATTACKS: [&str; 17] = [
    "inject",
    "attack",
    "adversar",
    "malicious",
    "jailbreak",
    "untrusted",
    "red flag",
    "suspicious",
    "exploit",
    "payload",
    "poison",
    "hijack",
    "threat",
    "sanitiz",
    "social engineering",
    "red team",
    "red-team",
];

/// Words right before an order that turn it round.
const NEGATIONS: [&str; 9] =
    ["never ", "not ", "n't ", "n’t ", "cannot ", "trying to ", "tries to ", "try to ", "refuse to "];

impl<'a> Page<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lines = Vec::new();
        let (mut start, mut fence, mut heading, mut announced) = (0, None::<&str>, None, None);
        let mut above = Vec::new();
        for line in text.split('\n') {
            let trimmed = line.trim_start();
            let opens = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            let is_fence_line = match (fence, opens) {
                (None, Some(mark)) => {
                    fence = Some(mark);
                    true
                }
                (Some(open), Some(mark)) if open == mark => {
                    fence = None;
                    true
                }
                _ => false,
            };
            let is_code = is_fence_line || fence.is_some() || line.starts_with("    ") || line.starts_with('\t');
            lines.push(Line { start, text: line, is_code, heading, announced, speaks: OnceCell::new() });
            let mut keep = || {
                above.push((trimmed, OnceCell::new()));
                Some(above.len() - 1)
            };
            if !is_code && trimmed.starts_with('#') {
                heading = keep();
            }
            let is_item =
                trimmed.starts_with(['-', '*', '+', '>', '|']) || trimmed.starts_with(|c: char| c.is_ascii_digit());
            if trimmed.trim_end().ends_with(':') {
                announced = keep();
            } else if !trimmed.is_empty() && !is_item && !is_code {
                announced = None;
            }
            start += line.len() + 1;
        }
        let mut page = Self { text, lines, above, comments: Vec::new() };
        page.comments = page.find_comments();
        page
    }

    fn find_comments(&self) -> Vec<(usize, usize)> {
        let mut comments = Vec::new();
        let mut from = 0;
        while let Some(at) = self.text.get(from..).and_then(|rest| rest.find("<!--")) {
            let start = from + at;
            let end =
                self.text.get(start..).and_then(|rest| rest.find("-->")).map_or(self.text.len(), |end| start + end);
            let is_spelled = self.before(start).matches('`').count() % 2 == 1;
            if !self.line(start).is_some_and(|line| line.is_code) && !is_spelled {
                comments.push((start, end));
            }
            from = end.max(start + 4);
        }
        comments
    }

    fn line(&self, at: usize) -> Option<&Line<'a>> {
        let after = self.lines.partition_point(|line| line.start <= at);
        self.lines.get(after.checked_sub(1)?)
    }

    /// What stands on the same line right before `at`.
    fn before(&self, at: usize) -> &'a str {
        let start = self.line(at).map_or(0, |line| line.start);
        last_of(self.text.get(start..at).unwrap_or_default(), AROUND)
    }

    /// The number of the line that `at` is on, from 1.
    pub(super) fn number(&self, at: usize) -> usize {
        self.lines.partition_point(|line| line.start <= at).max(1)
    }

    /// Whether nobody who looks at the page sees this.
    pub(super) fn is_comment(&self, at: usize) -> bool {
        // They are in order, and none lies in another.
        let after = self.comments.partition_point(|(start, _)| *start <= at);
        after.checked_sub(1).and_then(|last| self.comments.get(last)).is_some_and(|(_, end)| at < *end)
    }

    /// Whether a line is code, a quotation or a table, or speaks of attacks.
    pub(super) fn is_shown(&self, number: usize) -> bool {
        let Some(line) = number.checked_sub(1).and_then(|at| self.lines.get(at)) else { return false };
        let is_quotation = line.text.trim_start().starts_with(['>', '|']);
        let above = |number: Option<usize>| {
            let found = number.and_then(|number| self.above.get(number));
            found.is_some_and(|(text, speaks)| *speaks.get_or_init(|| speaks_of_attacks(text)))
        };
        line.is_code
            || is_quotation
            || *line.speaks.get_or_init(|| speaks_of_attacks(line.text))
            || above(line.announced)
            || above(line.heading)
    }

    /// Whether something is quoted, or spoken of, rather than said.
    pub(super) fn is_quoted(&self, start: usize, end: usize) -> bool {
        let before = self.before(start);
        let line_end = self.line(end).map_or(end, |line| line.start + line.text.len());
        let after = first_of(self.text.get(end..line_end).unwrap_or_default(), AROUND);
        let same = |quote: char| before.matches(quote).count() % 2 == 1 && after.contains(quote);
        let pair = |open: char, close: char| {
            before.rfind(open).is_some_and(|at| before.get(at..).is_some_and(|rest| !rest.contains(close)))
                && after.contains(close)
        };
        let single = || {
            let opens = |at: usize| !before.get(..at).is_some_and(|text| text.ends_with(char::is_alphanumeric));
            before.match_indices('\'').any(|(at, _)| opens(at)) && after.contains('\'')
        };
        let lower = before.to_lowercase();
        let is_negated = NEGATIONS.iter().any(|word| {
            let rest = lower.rfind(word).and_then(|at| lower.get(at..)).unwrap_or_default();
            !rest.is_empty() && rest.split_whitespace().count() <= 4 && !rest.contains([':', '.', ',', ';', '!', '?'])
        });
        self.is_shown(self.number(start))
            || is_negated
            || same('"')
            || same('`')
            || pair('“', '”')
            || pair('‘', '’')
            || pair('«', '»')
            || pair('「', '」')
            || single()
    }
}

fn speaks_of_attacks(text: &str) -> bool {
    const ENOUGH: usize = 4_000;
    let lower = first_of(text, ENOUGH).to_lowercase();
    ATTACKS.iter().any(|word| lower.contains(word))
}
