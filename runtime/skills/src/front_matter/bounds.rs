//! How much and how deeply nested a text may be before the YAML parser is asked to read it: the parser calls itself for
//! every level, so a line of brackets could overflow the stack.

use super::lines::{KeyLine, Line, Lines, byte, is_blank, is_gap, slice};
use super::scalar::{self, Head};

/// The most front matter that is given to the YAML parser at once.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// How deep a collection may be nested.
pub(crate) const MAX_DEPTH: usize = 16;

/// So many brackets may be open where quotes keep the count from being exact.
const MAX_BRACKETS: usize = 64;

/// Why a text is not given to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// It is too large.
    Size,
    /// It is nested too deep.
    Depth,
}

/// Whether the text may be parsed.
pub(crate) fn check(text: &str) -> Result<(), Bound> {
    if text.len() > MAX_BYTES {
        return Err(Bound::Size);
    }
    if is_too_deep(text) { Err(Bound::Depth) } else { Ok(()) }
}

/// Whether the text could nest deeper than the parser's stack should be asked to go. Counts too much rather than too
/// little: behind a line whose quotes do not end on it, every bracket counts as one that is never closed.
fn is_too_deep(text: &str) -> bool {
    let mut indents: Vec<usize> = Vec::new();
    let mut brackets = 0usize;
    let mut is_exact = true;
    for line in Lines::between(text, 0, text.len()).filter(|line| !line.is_blank()) {
        while indents.last().is_some_and(|indent| *indent >= line.indent) {
            indents.pop();
        }
        indents.push(line.indent);
        if indents.len() + compact_levels(text, line) > 2 * MAX_DEPTH {
            return true;
        }
        if is_exact && brackets == 0 {
            match one_line_depth(value(text, line)) {
                Some(depth) if depth > MAX_DEPTH => return true,
                Some(_) => continue,
                None => {}
            }
        }
        let content = line.content(text);
        let is_clean = !content.contains(['"', '\'', '#']);
        is_exact &= is_clean;
        for sign in content.bytes() {
            match sign {
                b'[' | b'{' => brackets += 1,
                b']' | b'}' if is_exact => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            if brackets > MAX_BRACKETS {
                return true;
            }
        }
    }
    false
}

/// How many collections a line such as `- - ? a` opens at once.
fn compact_levels(text: &str, line: Line) -> usize {
    let words = line.content(text).split([' ', '\t']).filter(|word| !word.is_empty());
    words.take_while(|word| matches!(*word, "-" | "?" | ":")).count()
}

/// What stands behind the dashes and the key of a line.
fn value(text: &str, line: Line) -> &str {
    let mut inner = line;
    while inner.is_item(text) {
        inner = inner.behind_dash(text);
    }
    let start = KeyLine::read(text, inner).map_or(inner.content, |key| key.value);
    slice(text, start, inner.end)
}

/// How deep the brackets of a value are nested that ends on its line; `None` if it may go on or is none.
fn one_line_depth(value: &str) -> Option<usize> {
    match scalar::read(value) {
        Head::Empty | Head::Scalar { .. } | Head::Block => Some(0),
        Head::Flow => {
            let flow = flow_extent(value)?;
            scalar::is_rest_empty(slice(value, flow.end, value.len())).then_some(flow.depth)
        }
        Head::Flawed(_) | Head::OpenQuote => None,
    }
}

/// Where a flow collection ends, and how deep it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowExtent {
    /// Past its last bracket.
    pub(crate) end: usize,
    /// The most brackets that are open at once.
    pub(crate) depth: usize,
    /// Whether an anchor, alias or tag stands in it.
    pub(crate) has_sign: bool,
}

/// Finds the end of the flow collection at the start of `text`; `None` if it has none.
pub(crate) fn flow_extent(text: &str) -> Option<FlowExtent> {
    let mut found = FlowExtent { end: 0, depth: 0, has_sign: false };
    let (mut at, mut open) = (0usize, 0usize);
    loop {
        match byte(text, at) {
            0 => return None,
            b'[' | b'{' => {
                open += 1;
                found.depth = found.depth.max(open);
                at += 1;
            }
            b']' | b'}' => {
                open = open.saturating_sub(1);
                at += 1;
                if open == 0 {
                    return Some(FlowExtent { end: at, ..found });
                }
            }
            b'"' | b'\'' => at += scalar::quoted_end(slice(text, at, text.len()))?,
            b'#' if is_gap(byte(text, at - 1)) => {
                while !matches!(byte(text, at), b'\n' | b'\r' | 0) {
                    at += 1;
                }
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            sign => {
                found.has_sign |= matches!(sign, b'&' | b'*' | b'!');
                at = bare_end(text, at);
            }
        }
    }
}

/// Where a bare scalar in a flow collection ends.
fn bare_end(text: &str, start: usize) -> usize {
    let mut at = start;
    loop {
        match byte(text, at) {
            b',' | b'[' | b']' | b'{' | b'}' | b'\n' | b'\r' | 0 => return at,
            b':' if is_gap(byte(text, at + 1)) || b",[]{}".contains(&byte(text, at + 1)) => return at,
            b'#' if at > start && is_blank(byte(text, at - 1)) => return at,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_nests_too_deep_is_held_back() {
        for deep in ["- ".repeat(8_000), "? ".repeat(8_000), "[".repeat(100), "- ? ".repeat(4_000)] {
            assert_eq!(check(&deep), Err(Bound::Depth));
        }
        let stairs: String = (0..100).map(|depth| format!("{}k:\n", " ".repeat(depth))).collect();
        assert_eq!(check(&stairs), Err(Bound::Depth));
        assert_eq!(check(&format!("a: {}{}", "[".repeat(17), "]".repeat(17))), Err(Bound::Depth));
    }

    #[test]
    fn brackets_in_quotes_and_comments_close_nothing() {
        for deep in [
            format!("a: {}", "[\"]\", ".repeat(2_000)),
            format!("a:\n  {}", "[ # ]\n  ".repeat(1_000)),
            format!("a: [\"\n{}", " k: [\",[[[\"]\n".repeat(500)),
            format!("a: {}", "[']', ".repeat(2_000)),
        ] {
            assert_eq!(check(&deep), Err(Bound::Depth), "{deep:.40}");
        }
    }

    #[test]
    fn brackets_that_are_text_or_closed_count_nothing() {
        let many: String = (0..200).map(|n| format!("k{n}: [\"a\", 'it''s']\nt{n}: see [1, it's [2\n")).collect();
        assert_eq!(check(&many), Ok(()));
        let spread: String = (0..100).map(|n| format!("k{n}: [\n  a,\n  b\n]\n")).collect();
        assert_eq!(check(&spread), Ok(()));
    }

    #[test]
    fn text_over_the_cap_is_held_back() {
        assert_eq!(check(&format!("a: {}", "x".repeat(MAX_BYTES))), Err(Bound::Size));
    }

    #[test]
    fn the_end_of_a_flow_collection_is_found_behind_quotes_and_comments() {
        let extent = |end, depth, has_sign| Some(FlowExtent { end, depth, has_sign });
        assert_eq!(flow_extent("[a, ']', \"]\"] x"), extent(13, 1, false));
        assert_eq!(flow_extent("{a: [b], c: it's}"), extent(17, 2, false));
        assert_eq!(flow_extent("[ # ]\n*x]"), extent(9, 1, true));
        assert_eq!(flow_extent("[a&b, 2*3]"), extent(10, 1, false));
        for open in ["[a", "[\"a]", "{a: [b}", "[a # ]"] {
            assert_eq!(flow_extent(open), None, "{open}");
        }
    }
}
