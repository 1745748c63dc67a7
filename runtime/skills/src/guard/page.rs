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

/// The marks that a block of code begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn of(line: &str) -> Option<(Self, &str)> {
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let length = line.len() - rest.len();
        (length >= 3).then_some((Self { mark, length }, rest))
    }

    /// What follows the marks names a language. Backticks on the same line close what would be code in a sentence.
    fn opened_by(line: &str) -> Option<Self> {
        Self::of(line).filter(|(fence, rest)| fence.mark == '~' || !rest.contains('`')).map(|(fence, _)| fence)
    }

    /// A line that closes has as many marks, and nothing else: "```sh" inside of a block is code.
    fn is_closed_by(self, line: &str) -> bool {
        Self::of(line).is_some_and(|(other, rest)| {
            other.mark == self.mark && other.length >= self.length && rest.trim().is_empty()
        })
    }
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
        let (mut start, mut fence, mut heading, mut announced) = (0, None::<Fence>, None, None);
        let mut above = Vec::new();
        for line in text.split('\n') {
            let trimmed = line.trim_start();
            let was_open = fence.is_some();
            match fence {
                None => fence = Fence::opened_by(trimmed),
                Some(open) if open.is_closed_by(trimmed) => fence = None,
                Some(_) => {}
            }
            let is_fence_line = was_open != fence.is_some();
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

    /// The source of a program: code from its first line to its last, whose readers see its comments.
    pub(super) fn of_program(text: &'a str) -> Self {
        let mut page = Self::new(text);
        page.lines.iter_mut().for_each(|line| line.is_code = true);
        page.comments.clear();
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

    /// What stands in the same paragraph right before `at`, on earlier lines too.
    fn before_in_paragraph(&self, at: usize) -> &'a str {
        let before = last_of(self.text.get(..at).unwrap_or_default(), AROUND);
        let blank = before.rmatch_indices('\n').find(|(end, _)| {
            let line = before.get(..*end).and_then(|above| above.rsplit('\n').next());
            line.is_some_and(|line| line.trim().is_empty())
        });
        blank.and_then(|(end, _)| before.get(end + 1..)).unwrap_or(before)
    }

    /// What stands in the same paragraph right behind `at`.
    fn after_in_paragraph(&self, at: usize) -> &'a str {
        let after = first_of(self.text.get(at..).unwrap_or_default(), AROUND);
        let mut end = 0;
        for line in after.split_inclusive('\n') {
            if end > 0 && line.trim().is_empty() {
                break;
            }
            end += line.len();
        }
        after.get(..end).unwrap_or(after)
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
        // A quotation may have begun on an earlier line.
        let wrapped = || {
            let (above, below) = (self.before_in_paragraph(start), self.after_in_paragraph(end));
            above.matches('"').count() % 2 == 1 && below.contains('"')
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
            || is_reported(&lower)
            || same('"')
            || wrapped()
            || same('`')
            || pair('“', '”')
            || pair('‘', '’')
            || pair('«', '»')
            || pair('「', '」')
            || single()
    }
}

/// Whether what follows is what something does or somebody tells a model, and not what the page tells its reader: "inputs
/// that", "texts that tell the agent to", "telling the model to". At the head of a sentence it would be an order itself.
fn is_reported(before: &str) -> bool {
    // A verb behind one of these says what is done, or is named: it orders nothing.
    const SUBJECTS: [&str; 12] =
        ["that", "which", "who", "these", "those", "they", "could", "might", "phrase", "phrases", "words", "wording"];
    const TELLING: [&str; 8] = ["tells", "telling", "told", "asks", "asking", "instructs", "instructing", "instructed"];
    const TELL: [&str; 3] = ["tell", "ask", "instruct"];
    const SPEAKS_OF: [&str; 6] = ["not", "never", "cannot", "that", "which", "who"];
    const LISTENERS: [&str; 7] = ["agent", "agents", "model", "models", "assistant", "ai", "llm"];
    let sentence = before.rsplit(['.', ':', ';', '!', '?']).next().unwrap_or_default();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    if words.last().is_some_and(|last| SUBJECTS.contains(last)) {
        return true;
    }
    let [earlier @ .., verb, _, listener, "to"] = words.as_slice() else { return false };
    let is_spoken_of = || TELL.contains(verb) && earlier.iter().any(|word| SPEAKS_OF.contains(word));
    LISTENERS.contains(listener) && (TELLING.contains(verb) || is_spoken_of())
}

fn speaks_of_attacks(text: &str) -> bool {
    const ENOUGH: usize = 4_000;
    let lower = first_of(text, ENOUGH).to_lowercase();
    ATTACKS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_code_ends_where_readers_see_it_end() {
        // What each line is: `c` is code.
        for (text, expected) in [
            ("a\n```\nb\n```\nc", ".ccc."),
            ("```sh\nb\n```\nc", "ccc."),
            ("```\n```sh\nb\n```\nc", "cccc."),
            ("```\n``` sh\nb\n```  \nc", "cccc."),
            ("````\n```\nb\n````\nc", "cccc."),
            ("```\n~~~\nb\n```\nc", "cccc."),
            ("~~~ `sh`\nb\n~~~~\nc", "ccc."),
            ("```not a block``` of code\nb", ".."),
            ("``\nb\n``", "..."),
            ("1. Do:\n   ```\n   b\n   ```\nc", ".ccc."),
            ("```\nnever closed", "cc"),
        ] {
            let page = Page::new(text);
            let found: String = page.lines.iter().map(|line| if line.is_code { 'c' } else { '.' }).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
