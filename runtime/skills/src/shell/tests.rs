use std::cell::RefCell;

use super::*;
use proptest::prelude::*;

/// Answers with what `answer` makes of a command, and remembers the commands.
struct Scripted<F> {
    answer: F,
    asked: RefCell<Vec<String>>,
}

impl<F: Fn(&str) -> Result<String, String>> Scripted<F> {
    fn new(answer: F) -> Self {
        Self { answer, asked: RefCell::default() }
    }
}

impl<F: Fn(&str) -> Result<String, String>> Runner for Scripted<F> {
    fn run(&self, command: &str) -> Result<String, String> {
        self.asked.borrow_mut().push(command.to_owned());
        (self.answer)(command)
    }
}

fn commands(body: &str) -> Vec<&str> {
    find(body).into_iter().map(|snippet| snippet.command).collect()
}

#[test]
fn a_snippet_is_a_mark_and_inline_code() {
    let body = "Now: !`date -u`, on !` uname `.";
    assert_eq!(find(body), [Snippet { range: 5..15, command: "date -u" }, Snippet { range: 20..30, command: "uname" }]);
    assert_eq!(
        commands("# Today !`a`\n\n1. !`b | c`\n\n   !`d`\n\n> !`e`\n\n| x |\n|---|\n| !`f | g` |\n**!`h`**"),
        ["a", "b | c", "d", "e", "f | g", "h"]
    );
    assert_eq!(commands("wow!`a`!`b`"), ["a", "b"]);
}

#[test]
fn what_only_shows_the_syntax_is_no_snippet() {
    for body in [
        "```sh\n!`a`\n```\n",
        "~~~~\n!`a`\n~~~\n!`b`\n~~~~\n",
        "```\n!`never closed`\n",
        "- item\n\n  ```\n  !`a`\n  ```\n",
        "> ```\n> !`a`\n> ```\n",
        "text\n\n    !`indented code`\n",
        "`` !`a` ``",
        "!``a``",
        "\\!`a`",
        "<!-- !`a` -->\n",
        "![`a`](b.png)",
        "! `a`",
        "`a`",
    ] {
        assert_eq!(find(body), [], "{body:?}");
    }
    assert_eq!(commands("\\\\!`a`"), ["a"], "an escaped backslash escapes nothing");
    assert_eq!(commands("```\n!`a`\n```\n!`b`\n"), ["b"]);
}

#[test]
fn a_command_has_one_line_and_says_something() {
    for body in ["!``", "!` `", "!`\t`", "!`a\nb`", "!`a\r\nb`", "!`a", "!`", "!"] {
        assert_eq!(find(body), [], "{body:?}");
    }
}

#[test]
fn a_snippet_becomes_its_output_and_all_else_stays() {
    let runner = Scripted::new(|command: &str| Ok(format!("<{command}>\n\n")));
    assert_eq!(expand("ä !`a` ö\n!`b`\n\n```\n!`c`\n```\n", &runner), "ä <a> ö\n<b>\n\n```\n!`c`\n```\n");
    assert_eq!(*runner.asked.borrow(), ["a", "b"]);
}

#[test]
fn an_error_is_seen_on_one_line() {
    let runner = Scripted::new(|_: &str| Err(format!("exit code 1:\nno {}", "x".repeat(500))));
    let text = expand("!`a`", &runner);
    assert!(text.starts_with("[inline-shell error: exit code 1: no xxx") && text.ends_with("…]"), "{text}");
    assert!(!text.contains('\n'));
}

#[test]
fn output_is_cut_with_a_mark() {
    let long = Scripted::new(|_: &str| Ok("ä".repeat(MAX_OUTPUT + 1)));
    let mark = "\n[cut here: the output has more than 4000 characters]";
    assert_eq!(expand("!`a`", &long), format!("{}{mark}", "ä".repeat(MAX_OUTPUT)));
    let fits = Scripted::new(|_: &str| Ok("ä".repeat(MAX_OUTPUT) + "\n"));
    assert_eq!(expand("!`a`", &fits), "ä".repeat(MAX_OUTPUT));
}

#[test]
fn output_is_not_looked_at_again() {
    let runner = Scripted::new(|_: &str| Ok("!`b` ${HERM_SKILL_DIR}".to_owned()));
    assert_eq!(expand("!`a`", &runner), "!`b` ${HERM_SKILL_DIR}");
    assert_eq!(*runner.asked.borrow(), ["a"]);
}

#[test]
fn a_text_full_of_snippets_runs_only_the_first_ones() {
    let runner = Scripted::new(|_: &str| Ok("x".to_owned()));
    let text = expand(&"!`a`\n".repeat(MAX_SNIPPETS + 2), &runner);
    assert_eq!(runner.asked.borrow().len(), MAX_SNIPPETS);
    assert_eq!(text.matches("[inline-shell error: only the first 20 commands of a skill are run]").count(), 2);
}

#[test]
fn who_made_a_skill_decides_before_any_setting() {
    use CreatedBy::{Agent, Imported, Seed, User};
    let decided = |enabled| [Agent, Imported, Seed, User].map(|created_by| may_run(created_by, enabled));
    assert_eq!(decided(true), [Err(ShellRefusal::ByAgent), Err(ShellRefusal::Imported), Ok(()), Ok(())]);
    assert_eq!(
        decided(false),
        [Err(ShellRefusal::ByAgent), Err(ShellRefusal::Imported), Err(ShellRefusal::Off), Err(ShellRefusal::Off)]
    );
}

proptest! {
    #[test]
    fn snippets_are_in_order_apart_and_whole(body in "([!`\\\\ a\n~>-]|```\n|!`ä`|[^\u{0}]){0,60}") {
        let mut end = 0;
        for snippet in find(&body) {
            prop_assert!(snippet.range.start >= end);
            end = snippet.range.end;
            let whole = body.get(snippet.range).unwrap();
            let inside = whole.strip_prefix("!`").unwrap().strip_suffix('`').unwrap();
            prop_assert_eq!(inside.trim(), snippet.command);
            prop_assert!(!snippet.command.is_empty() && !inside.contains('\n'));
        }
    }

    #[test]
    fn without_its_snippets_the_text_is_what_it_was(body in "([!` a\n]|!`ä`|.){0,20}") {
        let runner = Scripted::new(|command: &str| Ok(format!("!`{command}`")));
        let mut normal = body.clone();
        // The runner gives back the snippet without the spaces around its command.
        for snippet in find(&body).into_iter().rev() {
            normal.replace_range(snippet.range, &format!("!`{}`", snippet.command));
        }
        prop_assert_eq!(expand(&body, &runner), normal);
    }
}
