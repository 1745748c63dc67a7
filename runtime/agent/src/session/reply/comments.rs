//! Comments, and blanks that JSON does not know. Neither means anything outside of strings.

use super::{byte, is_blank};

/// The place after a blank at this place that JSON does not know: a no-break space, a zero-width space, a byte order mark.
pub(super) fn odd_blank(text: &str, at: usize) -> Option<usize> {
    let here = text.get(at..)?.chars().next().filter(|c| !c.is_ascii())?;
    let zero_width = matches!(here, '\u{feff}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{180e}');
    (here.is_whitespace() || zero_width).then(|| at + here.len_utf8())
}

/// The place after a comment at this place. One that never ends goes to the end.
pub(super) fn comment_end(text: &str, at: usize) -> Option<usize> {
    Comments::default().end(text, at)
}

/// The first place at or after this one that is neither blank nor in a comment.
pub(super) fn next_meant(text: &str, at: usize) -> usize {
    Comments::default().next_meant(text, at)
}

/// Where the next end of a line and of a comment is, so that nobody looks for it twice.
#[derive(Default)]
pub(super) struct Comments {
    line: Option<CachedMark>,
    block: Option<CachedMark>,
}

/// Between `from` and `mark` there is no other mark; it ends at `end`.
#[derive(Clone, Copy)]
struct CachedMark {
    from: usize,
    mark: usize,
    end: usize,
}

impl Comments {
    fn end(&mut self, text: &str, at: usize) -> Option<usize> {
        let (known, mark) = match text.as_bytes().get(at..)? {
            [b'/', b'/', ..] => (&mut self.line, "\n"),
            [b'/', b'*', ..] => (&mut self.block, "*/"),
            _ => return None,
        };
        let from = at + 2;
        if let Some(known) = known.filter(|known| (known.from..=known.mark).contains(&from)) {
            return Some(known.end);
        }
        let found = text.get(from..)?.find(mark).map(|found| from + found);
        let end = found.map_or(text.len(), |found| found + mark.len());
        *known = Some(CachedMark { from, mark: found.unwrap_or(end), end });
        Some(end)
    }

    pub(super) fn next_meant(&mut self, text: &str, mut at: usize) -> usize {
        loop {
            let after = match byte(text, at) {
                Some(here) if is_blank(here) => Some(at + 1),
                Some(b'/') => self.end(text, at),
                Some(0x80..) => odd_blank(text, at),
                _ => None,
            };
            match after {
                Some(after) => at = after,
                None => return at,
            }
        }
    }
}
