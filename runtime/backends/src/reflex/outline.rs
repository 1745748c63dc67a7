//! What `outline` returned: how large the input is, what it is, and what stands where.

/// Words that begin a declaration whose name says where a line is.
const NAMED: [&str; 8] = ["function", "modifier", "fn", "def", "constructor", "receive", "fallback", "func"];

/// The shape of the input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Outline<'a> {
    /// `114 lines, 4310 characters; Solidity`
    pub(super) size: Option<&'a str>,
    /// Facts about the whole: the time span of a log.
    pub(super) facts: Vec<&'a str>,
    /// Line and text, in the order of the input.
    entries: Vec<(u64, &'a str)>,
}

impl<'a> Outline<'a> {
    /// Reads an outline. Lines that are neither facts nor entries are passed over.
    pub(super) fn read(text: &'a str) -> Self {
        let mut lines = text.lines();
        let size = lines.next().map(|line| line.trim_end_matches('.')).filter(|line| line.contains(" line"));
        let mut outline = Self { size, ..Self::default() };
        for line in lines {
            let entry = line.strip_prefix('L').and_then(|rest| rest.split_once(' '));
            match entry.and_then(|(number, text)| Some((number.parse().ok()?, text.trim()))) {
                Some(entry) => outline.entries.push(entry),
                None if line.starts_with("Time ") || line.starts_with("Levels") => outline.facts.push(line),
                None => {}
            }
        }
        outline
    }

    /// Whether the input is a log: its entries are exceptions, and say nothing of other lines.
    pub(super) fn is_log(&self) -> bool {
        self.size.is_some_and(|size| size.ends_with("a log"))
    }

    /// The entry a line stands under.
    fn entry(&self, line: u64) -> Option<&'a str> {
        if self.is_log() {
            return None;
        }
        let at = self.entries.partition_point(|(start, _)| *start <= line);
        at.checked_sub(1).and_then(|at| self.entries.get(at)).map(|(_, text)| *text)
    }

    /// The function a line stands in.
    pub(super) fn function(&self, line: u64) -> Option<&'a str> {
        let entry = self.entry(line)?;
        let mut words = entry.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).filter(|w| !w.is_empty());
        let at = words.find(|word| NAMED.contains(word))?;
        if matches!(at, "constructor" | "receive" | "fallback") { Some(at) } else { words.next() }
    }

    /// The number of the clause a line stands in, or else its heading.
    pub(super) fn clause(&self, line: u64) -> Option<&'a str> {
        let entry = self.entry(line)?;
        let first = entry.split_whitespace().next()?;
        let is_number = first.starts_with(|c: char| c.is_ascii_digit())
            && first.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ')'));
        Some(if is_number && first.trim_end_matches('.').contains('.') { first.trim_end_matches('.') } else { entry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_placed_in_its_function_and_its_clause() {
        let code = Outline::read(
            "9 lines, 99 characters; Solidity.\nContracts 1\nL2 contract A\nL4   function f(uint256 x) external\nL7   state address owner\n",
        );
        assert_eq!((code.function(6), code.function(3), code.function(8)), (Some("f"), None, None));
        assert_eq!(code.size, Some("9 lines, 99 characters; Solidity"));
        let text =
            Outline::read("9 lines, 9 characters; text.\nL1 Agreement\nL3   3. Term\nL5     3.1 The term is long.\n");
        assert_eq!((text.clause(5), text.clause(4), text.clause(2)), (Some("3.1"), Some("3. Term"), Some("Agreement")));
        let log =
            Outline::read("9 lines, 9 characters; a log.\nTime as written: a (L1) to b (L9)\nL3 java.lang.Error\n");
        assert_eq!((log.clause(4), log.facts), (None, vec!["Time as written: a (L1) to b (L9)"]));
    }
}
