//! The managed block: the one part of a skill's text that the evolver writes, between two markers.
//!
//! Everything outside the markers belongs to the author of the skill and is kept byte for byte. A text
//! whose markers are anything but one plain pair is not touched: whatever a guess would keep, it might
//! also delete. A marker counts wherever it stands, in a code fence of the skill's own text too: there
//! a pair is an example that somebody wrote, and its lines are not ours to replace.

mod render;

use std::ops::Range;

pub use render::MAX_BLOCK_BYTES;
pub use render::render;
pub(super) use render::{BlockLines, Form, Rendered, bullets, rendered, row_line};

/// The line that begins the block.
pub const START: &str = "<!-- curator-evolver:auto:start -->";
/// The line that ends the block.
pub const END: &str = "<!-- curator-evolver:auto:end -->";

/// What there is of a block in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockMatch {
    /// No marker at all.
    None,
    /// One block: from its first marker to the end of its last, without the line break behind it.
    One(Range<usize>),
    /// Markers that are not one pair, and why: `markers-unbalanced`, `markers-nested`,
    /// `markers-reversed`, `markers-repeated`, `markers-inline` where one shares its line, or
    /// `markers-fenced` where the pair stands inside a fenced piece of code.
    Broken(&'static str),
}

/// Finds the block of a text. A marker counts wherever it stands.
pub fn find(text: &str) -> BlockMatch {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    let mut is_inline = false;
    // One cheap search for one character: skills are searched at every pass, and most have no block.
    for (at, _) in text.match_indices('<') {
        let rest = text.get(at..).unwrap_or_default();
        let marker = match (rest.starts_with(START), rest.starts_with(END)) {
            (true, _) => START,
            (_, true) => END,
            _ => continue,
        };
        if marker == START { &mut starts } else { &mut ends }.push(at);
        is_inline |= !is_alone(text, at..at + marker.len());
    }
    let range = match (starts.as_slice(), ends.as_slice()) {
        ([], []) => return BlockMatch::None,
        ([start], [end]) if start < end => *start..*end + END.len(),
        (starts, ends) if starts.len() != ends.len() => return BlockMatch::Broken("markers-unbalanced"),
        // The n-th end must come after the n-th start, or something was ended that had not begun.
        (starts, ends) if starts.iter().zip(ends).any(|(start, end)| end < start) => {
            return BlockMatch::Broken("markers-reversed");
        }
        (starts, ends) if starts.iter().skip(1).zip(ends).any(|(start, end)| start < end) => {
            return BlockMatch::Broken("markers-nested");
        }
        _ => return BlockMatch::Broken("markers-repeated"),
    };
    if is_inline {
        BlockMatch::Broken("markers-inline")
    } else if is_fenced(text, &range) {
        BlockMatch::Broken("markers-fenced")
    } else {
        BlockMatch::One(range)
    }
}

/// Whether a block is one that the evolver wrote: by its first line. A pair of markers around anything else is the
/// text of somebody else.
pub(super) fn is_ours(text: &str, range: &Range<usize>) -> bool {
    let inside = text.get(range.start + START.len()..range.end).unwrap_or_default();
    inside.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.trim_end() == render::HEADING)
}

/// Whether a range stands between two fences. One that is opened above and never closed does not count:
/// a block that was appended to such a text is ours all the same.
fn is_fenced(text: &str, range: &Range<usize>) -> bool {
    let mut open: Option<(char, usize)> = None;
    for line in text.get(..range.start).unwrap_or_default().split(['\n', '\r']) {
        let Some((mark, length, rest)) = fence(line) else { continue };
        open = match open {
            None if mark == '`' && rest.contains('`') => None,
            None => Some((mark, length)),
            Some(opened) if closes(opened, (mark, length, rest)) => None,
            still => still,
        };
    }
    let mut after = text.get(range.end..).unwrap_or_default().split(['\n', '\r']);
    open.is_some_and(|opened| after.any(|line| fence(line).is_some_and(|found| closes(opened, found))))
}

/// The mark of a fence line, how often it stands there, and what stands behind.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let text = line.trim_start_matches(' ');
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    (length >= 3 && line.len() - text.len() <= 3).then_some((mark, length, rest))
}

fn closes(opened: (char, usize), (mark, length, rest): (char, usize, &str)) -> bool {
    mark == opened.0 && length >= opened.1 && rest.trim().is_empty()
}

/// Whether nothing but white space at its end shares the line with a marker.
fn is_alone(text: &str, marker: Range<usize>) -> bool {
    let before = text.get(..marker.start).unwrap_or_default();
    let after = text.get(marker.end..).unwrap_or_default();
    let begins = before.is_empty() || before == "\u{feff}" || before.ends_with(['\n', '\r']);
    let rest = after.trim_start_matches([' ', '\t']);
    begins && (rest.is_empty() || rest.starts_with(['\n', '\r']))
}

/// The text with this block: in the place of the one it has, or at its end after a blank line.
///
/// The block is taken literally and gets the line breaks of the text. Where the text does not end with
/// a line break, the block does not either, so that [`remove`] gives back exactly what was there.
pub fn put(text: &str, block: &str) -> Result<String, &'static str> {
    put_at(text, &find(text), block)
}

/// [`put`] into a text whose block was looked for already.
pub(super) fn put_at(text: &str, found: &BlockMatch, block: &str) -> Result<String, &'static str> {
    let line_break = line_break(text);
    let lines = block.lines().collect::<Vec<_>>().join(line_break);
    match find(&lines) {
        BlockMatch::One(range) if range == (0..lines.len()) => {}
        BlockMatch::Broken(reason) => return Err(reason),
        BlockMatch::None | BlockMatch::One(_) => return Err("markers-unbalanced"),
    }
    match found {
        BlockMatch::Broken(reason) => Err(reason),
        BlockMatch::One(range) => {
            Ok([text.get(..range.start).unwrap_or_default(), &lines, text.get(range.end..).unwrap_or_default()]
                .concat())
        }
        BlockMatch::None if text.is_empty() => Ok([&lines, line_break].concat()),
        BlockMatch::None if text.ends_with(['\n', '\r']) => Ok([text, line_break, &lines, line_break].concat()),
        BlockMatch::None => Ok([text, line_break, line_break, &lines].concat()),
    }
}

/// The text without its block, and without the blank line before it.
///
/// For every text without a block, `remove(put(text, block))` is that text again. A text that was
/// edited around the block since then loses the block and one blank line, and nothing else.
pub fn remove(text: &str) -> Result<String, &'static str> {
    let range = match find(text) {
        BlockMatch::None => return Ok(text.to_owned()),
        BlockMatch::Broken(reason) => return Err(reason),
        BlockMatch::One(range) => range,
    };
    let line_break = line_break(text);
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    let without = |text| str::strip_suffix(text, line_break).unwrap_or(text);
    Ok(match after.strip_prefix(line_break) {
        Some(after) => [without(before), after].concat(),
        None if after.is_empty() => without(without(before)).to_owned(),
        None => [before, after].concat(),
    })
}

/// The line break that a text uses, by its first one.
fn line_break(text: &str) -> &'static str {
    match text.find(['\n', '\r']) {
        Some(at) if text.get(at..).is_some_and(|rest| rest.starts_with("\r\n")) => "\r\n",
        Some(at) if text.get(at..).is_some_and(|rest| rest.starts_with('\r')) => "\r",
        _ => "\n",
    }
}

#[cfg(test)]
mod tests;
