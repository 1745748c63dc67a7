//! The shape of code in other languages: the lines that declare something.

use crate::outline::Shape;

/// Words that may stand before the one that says what is declared.
const BEFORE: [&str; 27] = [
    "pub",
    "async",
    "export",
    "default",
    "static",
    "public",
    "private",
    "protected",
    "final",
    "abstract",
    "unsafe",
    "const",
    "override",
    "virtual",
    "inline",
    "extern",
    "declare",
    "open",
    "internal",
    "sealed",
    "partial",
    "suspend",
    "data",
    "pub(crate)",
    "pub(super)",
    "\"C\"",
    "synchronized",
];
/// Words that say what is declared.
const DECLARES: [&str; 17] = [
    "fn",
    "def",
    "class",
    "function",
    "func",
    "fun",
    "struct",
    "enum",
    "trait",
    "impl",
    "interface",
    "module",
    "mod",
    "record",
    "namespace",
    "type",
    "union",
];
/// Words of those that give a line's statement access to others: Java and C# methods have nothing else.
const ACCESS: [&str; 5] = ["public", "private", "protected", "static", "internal"];

/// Whether a line declares a function, a type or a module. Strict: prose uses the same words.
pub(crate) fn is_declaration(line: &str) -> bool {
    let line = line.trim();
    let mut rest = line;
    let mut access = false;
    let word = loop {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !BEFORE.contains(&word) || after.is_empty() {
            break word;
        }
        access |= ACCESS.contains(&word);
        rest = after.trim_start();
    };
    if DECLARES.contains(&word) {
        let (_, after) = rest.split_at(word.len());
        return is_named(after.trim_start());
    }
    // `function(` and `impl<T>` have no space behind the word.
    let bare = word.split(['(', '<', '*']).next().unwrap_or_default();
    if bare.len() < word.len() && matches!(bare, "function" | "func" | "impl") {
        return true;
    }
    let is_method = access && line.contains('(') && line.ends_with(['{', ')']) && !line.contains('=');
    let is_arrow = line.contains("=>")
        && line.contains('=')
        && ["const ", "let ", "var ", "export "].iter().any(|start| line.starts_with(start));
    is_method || is_arrow || is_sql(line)
}

/// A name, and behind it what only code has.
fn is_named(rest: &str) -> bool {
    if rest.starts_with(['(', '<', '*']) {
        return true;
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | ':' | '!' | '?');
    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$') {
        return false;
    }
    let after = after.trim_start();
    let next = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    after.is_empty()
        || after.starts_with(['(', '<', '{', '=', ';', '[', ':'])
        || matches!(next, "extends" | "implements" | "for" | "where" | "is" | "struct" | "interface" | "func")
}

fn is_sql(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is = |word: Option<&str>, names: &[&str]| {
        word.is_some_and(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
    };
    is(words.next(), &["create"])
        && is(
            words.find(|word| !is(Some(word), &["or", "replace", "unique", "temporary"])),
            &["table", "view", "function", "procedure", "index", "trigger"],
        )
}

/// The declarations of a text, indented as they are.
pub(crate) fn shape(text: &str) -> Shape {
    let mut shape = Shape::default();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_declaration(line)) {
        let columns: usize =
            line.chars().take_while(|c| c.is_whitespace()).map(|c| if c == '\t' { 4 } else { 1 }).sum();
        shape.entries.add(number, columns / 4, line.trim().trim_end_matches('{'));
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_many_languages_are_seen() {
        for line in [
            "pub(crate) async fn read<T>(x: T) -> T {",
            "    def add(self, x):",
            "class Foo(Bar):",
            "class Foo extends Bar {",
            "export default function main() {",
            "export const handler = async (event) => {",
            "func (s *Server) Run(ctx context.Context) error {",
            "func main() {",
            "type Server struct {",
            "impl<T> Foo for Bar<T> {",
            "impl Foo for Bar {",
            "public static void main(String[] args) {",
            "CREATE OR REPLACE FUNCTION foo() RETURNS int",
            "create table users (",
            "module Foo",
        ] {
            assert!(is_declaration(line), "{line:?}");
        }
    }

    #[test]
    fn prose_and_calls_are_not() {
        for line in [
            "class action lawsuits are excluded",
            "The function of this clause is clear.",
            "type of contract and its term",
            "function of the board",
            "return function_call(x);",
            "x = foo(1)",
            "Create a table of all findings",
            "public opinion (as measured) is divided.",
            "if (x) {",
            "",
        ] {
            assert!(!is_declaration(line), "{line:?}");
        }
    }

    #[test]
    fn the_depth_is_the_indentation() {
        let shown = crate::outline::outline("class A:\n    def f(self):\n        pass\n").text;
        assert_eq!(shown, "3 lines, 39 characters; code.\nL1 class A:\nL2   def f(self):\n");
    }
}
