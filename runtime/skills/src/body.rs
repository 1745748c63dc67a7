//! What the Markdown below the front matter says: its headings, its first prose, and the files it points to.
//!
//! The body is only ever looked at, never rewritten.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use super::front_matter::lines::{LineIndex, slice};
use super::rules::SUPPORT_DIRS;

/// How much of a body is searched for its first prose.
const PROSE_WINDOW: usize = 16 * 1024;

/// A heading of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// From 1 (`#`) to 6.
    pub level: u8,
    /// Its text without markup.
    pub text: String,
    /// The line of the body it stands on, counted from 1.
    pub line: usize,
}

fn events(body: &str) -> pulldown_cmark::OffsetIter<'_> {
    // Without the extension a table would count as prose.
    Parser::new_ext(body, Options::ENABLE_TABLES).into_offset_iter()
}

/// The headings of a body, in order.
pub fn headings(body: &str) -> Vec<Heading> {
    let index = LineIndex::new(body);
    let mut found = Vec::new();
    let mut open: Option<Heading> = None;
    for (event, range) in events(body) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                open = Some(Heading { level: level as u8, text: String::new(), line: index.line(range.start) });
            }
            Event::End(TagEnd::Heading(_)) => {
                found.extend(open.take().map(|heading| Heading { text: collapse(&heading.text), ..heading }))
            }
            _ => {
                if let Some(heading) = &mut open {
                    push_text(&mut heading.text, &event);
                }
            }
        }
    }
    found
}

/// The first prose of a body: its first paragraph, or failing that its first list item, on one line.
pub fn first_prose(body: &str) -> Option<String> {
    let mut item: Option<String> = None;
    let mut lists = 0usize;
    let mut text = String::new();
    let mut is_open = false;
    for (event, _) in events(window(body)) {
        match event {
            Event::Start(Tag::List(_)) => {
                lists += 1;
                is_open = false;
            }
            Event::End(TagEnd::List(_)) => lists = lists.saturating_sub(1),
            Event::Start(Tag::Paragraph | Tag::Item) => {
                text.clear();
                is_open = true;
            }
            Event::Start(Tag::CodeBlock(_) | Tag::Heading { .. } | Tag::HtmlBlock | Tag::Table(_)) => is_open = false,
            Event::End(TagEnd::Paragraph | TagEnd::Item) if is_open => {
                is_open = false;
                let prose = collapse(&text);
                if prose.is_empty() {
                    continue;
                }
                if lists == 0 {
                    return Some(prose);
                }
                item.get_or_insert(prose);
            }
            _ if is_open => push_text(&mut text, &event),
            _ => {}
        }
    }
    item
}

/// The start of a body, cut at a line: a description is not looked for on the tenth page.
fn window(body: &str) -> &str {
    if body.len() <= PROSE_WINDOW {
        return body;
    }
    let head = body.get(..body.floor_char_boundary(PROSE_WINDOW)).unwrap_or(body);
    slice(head, 0, head.rfind(['\n', '\r']).unwrap_or(head.len()))
}

/// The files a body points to: relative targets of links and images, and paths into the support directories that are
/// written as inline code. Sorted, each once, and never leading out of the skill.
pub fn linked_files(body: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (event, _) in events(body) {
        match event {
            // An address in angle brackets has no scheme to tell it from a file.
            Event::Start(Tag::Link { link_type: LinkType::Email, .. }) => {}
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                found.extend(link_target(&dest_url));
            }
            Event::Code(code) => found.extend(code.split_whitespace().filter_map(code_path)),
            _ => {}
        }
    }
    found.into_iter().collect()
}

fn link_target(url: &str) -> Option<String> {
    let path = url.split(['#', '?']).next().unwrap_or_default();
    normalise(&percent_decode(path)?)
}

/// A word of inline code that is a path into a support directory.
fn code_path(word: &str) -> Option<String> {
    let word = word.trim_start_matches(['"', '\'', '(']).trim_end_matches(['"', '\'', ')', ',', ';', ':', '.']);
    // `scripts/*.py` and `references/<topic>.md` are patterns, not files.
    if word.contains(['<', '>', '*', '?', '{', '}', '$', '|', '[', ']', '#', '=']) {
        return None;
    }
    let path = normalise(word)?;
    let (directory, file) = path.split_once('/')?;
    (SUPPORT_DIRS.contains(&directory) && !file.is_empty()).then_some(path)
}

/// A relative path inside the skill in its shortest form; `None` for anything else.
fn normalise(path: &str) -> Option<String> {
    let is_foreign = path.starts_with(['/', '~']) || path.contains(['\\', ':']) || path.chars().any(char::is_control);
    if is_foreign || path.ends_with('/') {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() || parts.iter().any(|part| part.trim().is_empty() || part.trim() == "..") {
        return None;
    }
    Some(parts.join("/"))
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let decoded =
            code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        match decoded {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok()
}

fn push_text(text: &mut String, event: &Event<'_>) {
    match event {
        Event::Text(part) | Event::Code(part) => text.push_str(part),
        Event::SoftBreak | Event::HardBreak => text.push(' '),
        _ => {}
    }
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_their_level_text_and_line() {
        let body = "\n# One `two`\n\ntext\n\nThree\n---\n\n```\n# not one\n```\n### **Four**\n";
        let heading = |level, text: &str, line| Heading { level, text: text.to_owned(), line };
        assert_eq!(headings(body), [heading(1, "One two", 2), heading(2, "Three", 6), heading(3, "Four", 12)]);
    }

    #[test]
    fn the_first_prose_is_the_first_paragraph_on_one_line() {
        let body = "# Title\n\n<!-- note -->\n\n```\ncode\n```\n\n| a |\n|---|\n| b |\n\n- item\n\nSend *mail*\nwith `x`.\n\nMore.";
        assert_eq!(first_prose(body).as_deref(), Some("Send mail with x."));
    }

    #[test]
    fn a_list_item_stands_in_for_missing_prose() {
        assert_eq!(first_prose("# T\n\n- one\n- two\n").as_deref(), Some("one"));
        assert_eq!(first_prose("# T\n\n1. one\n\n   more\n").as_deref(), Some("one"));
        assert_eq!(first_prose("# Only a title\n"), None);
        assert_eq!(first_prose(""), None);
    }

    #[test]
    fn only_the_start_of_a_huge_body_is_searched_for_prose() {
        let body = format!("{}\nlate prose", "# title\n".repeat(20_000));
        assert_eq!(first_prose(&body), None);
    }

    #[test]
    fn linked_files_are_relative_normalised_and_sorted() {
        let body = "See [a](./references/a.md#part), ![b](assets//b%20c.png \"t\"), [n](NOTES.md?x=1).\n\
                    Run `python scripts/run.py --fast` or (`./assets/b.png`), `\"templates/t.md\"`; not `lib/x.py`.\n";
        assert_eq!(
            linked_files(body),
            ["NOTES.md", "assets/b c.png", "assets/b.png", "references/a.md", "scripts/run.py", "templates/t.md"]
        );
    }

    #[test]
    fn nothing_outside_the_skill_is_a_linked_file() {
        let body = "[a](https://x.y/z) [b](#part) [c](/etc/passwd) [d](../other/SKILL.md) [e](mailto:a@b.c) <a@b.c>\n\
                    [f](references/%2e%2e/x) [g](C:/x) [h](references/) [i](..\\x) [j](references/.. /x)\n\
                    `/scripts/x.sh` `scripts/../../x` `scripts/` `scripts/*.py` `references/<topic>.md`\n\
                    ```\nscripts/fenced.sh\n```\n";
        assert_eq!(linked_files(body), Vec::<String>::new());
    }
}
