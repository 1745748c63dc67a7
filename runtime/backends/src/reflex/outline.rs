//! Where a line of the input stands, by the outline of it.

use herm_agent::backend::{InputForm, InputOutline};

use super::wording::count;

/// Words that begin a declaration whose name says where a line is.
const NAMED: [&str; 8] = ["function", "modifier", "fn", "def", "constructor", "receive", "fallback", "func"];

/// The shape of the input, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Outline<'a>(pub(super) Option<&'a InputOutline>);

impl<'a> Outline<'a> {
    /// `114 lines, 4310 characters; Solidity`
    pub(super) fn size(self) -> Option<String> {
        let InputOutline { lines, characters, form, .. } = self.0?;
        Some(format!("{}, {}; {}", count(*lines, "line"), count(*characters, "character"), form.name()))
    }

    /// When a log begins and ends.
    pub(super) fn span(self) -> Option<String> {
        let span = self.0?.span.as_ref()?;
        Some(format!("Time as written: {} (L{}) to {} (L{})", span.first, span.first_line, span.last, span.last_line))
    }

    /// Facts about the whole.
    pub(super) fn facts(self) -> Vec<String> {
        let levels = self.0.map(|outline| outline.levels.as_slice()).filter(|levels| !levels.is_empty());
        let levels = levels.map(|levels| {
            let counted: Vec<String> = levels.iter().map(|(level, count)| format!("{level} {count}")).collect();
            format!("Levels: {}", counted.join(", "))
        });
        self.span().into_iter().chain(levels).collect()
    }

    /// The entry a line stands under. Those of a log are exceptions, and say nothing of other lines.
    fn entry(self, line: u64) -> Option<&'a str> {
        let outline = self.0.filter(|outline| outline.form != InputForm::Log)?;
        let at = outline.entries.partition_point(|entry| entry.line <= line);
        at.checked_sub(1).and_then(|at| outline.entries.get(at)).map(|entry| entry.text.trim())
    }

    /// The function a line stands in.
    pub(super) fn function(self, line: u64) -> Option<&'a str> {
        let entry = self.entry(line)?;
        let mut words = entry.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).filter(|w| !w.is_empty());
        let at = words.find(|word| NAMED.contains(word))?;
        if matches!(at, "constructor" | "receive" | "fallback") { Some(at) } else { words.next() }
    }

    /// The number of the clause a line stands in, or else its heading.
    pub(super) fn clause(self, line: u64) -> Option<&'a str> {
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
    use herm_agent::backend::{LogSpan, OutlineEntry};

    fn outline(form: InputForm, entries: &[(u64, &str)]) -> InputOutline {
        let entries = entries.iter().map(|(line, text)| OutlineEntry { line: *line, text: (*text).to_owned() });
        InputOutline { lines: 9, characters: 99, form, entries: entries.collect(), ..InputOutline::default() }
    }

    #[test]
    fn a_line_is_placed_in_its_function_and_its_clause() {
        let entries = [(2, "contract A"), (4, "function f(uint256 x) external"), (7, "state address owner")];
        let code = outline(InputForm::Solidity, &entries);
        let code = Outline(Some(&code));
        assert_eq!((code.function(6), code.function(3), code.function(8)), (Some("f"), None, None));
        assert_eq!(code.size().as_deref(), Some("9 lines, 99 characters; Solidity"));
        let text = outline(InputForm::Prose, &[(1, "Agreement"), (3, "3. Term"), (5, "3.1 The term is long.")]);
        let text = Outline(Some(&text));
        assert_eq!((text.clause(5), text.clause(4), text.clause(2)), (Some("3.1"), Some("3. Term"), Some("Agreement")));
        let mut log = outline(InputForm::Log, &[(3, "java.lang.Error")]);
        log.span = Some(LogSpan { first: "a".into(), first_line: 1, last: "b".into(), last_line: 9 });
        log.levels = vec![("ERROR".to_owned(), 2)];
        let log = Outline(Some(&log));
        let facts = vec!["Time as written: a (L1) to b (L9)".to_owned(), "Levels: ERROR 2".to_owned()];
        assert_eq!((log.clause(4), log.facts()), (None, facts));
    }
}
