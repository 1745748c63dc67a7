//! How the runtime reads the text of a skill, for a person to look at.
//!
//! It is a tree and no HTML: the page makes an element of each node, and everything else stays text. The parser is the one
//! that decides which inline commands run ([`shell::find`]), so that a reviewer sees what would.

use std::fmt::Write as _;
use std::ops::Range;

use herm::skill::shell::{self, Snippet};
use herm::skill::{Document, FrontMatterValue};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
use serde::Serialize;
use utoipa::ToSchema;

/// Nodes deeper than this lose their element and keep their text.
const DEEPEST: usize = 24;
/// The part of a body that is read, in bytes.
const LONGEST: usize = 200_000;
/// How many nodes are made of a body.
const MOST_NODES: usize = 20_000;

/// A skill's text as the runtime reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillReading {
    /// The entries of the front matter, in the order of the text.
    front_matter: Vec<FrontMatterEntry>,
    /// What stands below the front matter.
    blocks: Vec<TextNode>,
    /// Whether the blocks are only the beginning.
    cut: bool,
    /// The inline commands of the whole text, in order. Whether they run is for the operator and the skill's author.
    commands: Vec<String>,
}

/// An entry of the front matter; those of a mapping are `key.name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FrontMatterEntry {
    /// The key of the front matter entry, as it was written.
    name: String,
    /// The value as text, with one line for each item of a list.
    value: String,
}

/// A block, or a piece of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TextNode {
    /// What it is, which says which of the other fields it has.
    kind: NodeKind,
    /// The text of `text`, `code`, `command`, `codeBlock` and `html`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The level of a heading, from 1 to 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    /// The first number of a list that has numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    /// What the fence of a block of code says behind its marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    /// Where a link or an image leads, as it was written. It may be anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The nodes that stand inside this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    children: Vec<TextNode>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum NodeKind {
    Paragraph,
    Heading,
    Quote,
    List,
    Item,
    /// Its children are rows, of which the first is the head.
    Table,
    Row,
    Cell,
    CodeBlock,
    /// Markup as it was written: it is shown, and never obeyed.
    Html,
    Rule,
    Text,
    Code,
    /// Inline code that is a command: it runs where inline shell is on for the skill.
    Command,
    Strong,
    Emphasis,
    Link,
    Image,
    Break,
}

impl TextNode {
    fn new(kind: NodeKind) -> Self {
        Self { kind, text: None, level: None, start: None, language: None, to: None, children: Vec::new() }
    }

    fn with_text(kind: NodeKind, text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::new(kind) }
    }
}

/// Reads the main file of a skill.
pub(crate) fn reading(text: &str) -> SkillReading {
    let document = Document::read(text.as_bytes()).ok();
    let body = document.as_ref().map_or(text, Document::body);
    let commands = shell::find(body);
    // The extension for tables may split inline code at a bar, and so hide a command that runs: then a table stays text.
    let tree = Some(Tree::of(body, Options::ENABLE_TABLES, &commands)).filter(|tree| tree.shows_all(&commands));
    let tree = tree.unwrap_or_else(|| Tree::of(body, Options::empty(), &commands));
    SkillReading {
        front_matter: document.as_ref().map(front_matter).unwrap_or_default(),
        cut: tree.end < body.len(),
        blocks: tree.done,
        commands: commands.iter().map(|snippet| snippet.command.to_owned()).collect(),
    }
}

/// The inline commands of a skill's main file, as they would run.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let document = Document::read(text.as_bytes()).ok();
    let body = document.as_ref().map_or(text, Document::body);
    shell::find(body).iter().map(|snippet| snippet.command.to_owned()).collect()
}

fn front_matter(document: &Document) -> Vec<FrontMatterEntry> {
    let mut entries = Vec::new();
    let mut push = |name: String, value: &FrontMatterValue| {
        let mut text = String::new();
        write_value(value, &mut text);
        entries.push(FrontMatterEntry { name, value: text });
    };
    for key in document.keys() {
        match document.value(key) {
            Some(FrontMatterValue::Map(map)) => {
                map.iter().for_each(|(name, value)| push(format!("{key}.{name}"), value))
            }
            Some(value) => push(key.to_owned(), &value),
            None => push(key.to_owned(), &FrontMatterValue::Null),
        }
    }
    entries
}

/// A value as lines; the front matter bounds how deep they are.
fn write_value(value: &FrontMatterValue, text: &mut String) {
    let separate = |text: &mut String, first: bool| {
        if !first {
            text.push('\n');
        }
    };
    match value {
        FrontMatterValue::Null => {}
        FrontMatterValue::Text(said) => text.push_str(said),
        FrontMatterValue::List(items) => {
            for (number, item) in items.iter().enumerate() {
                separate(text, number == 0);
                write_value(item, text);
            }
        }
        FrontMatterValue::Map(map) => {
            for (number, (key, value)) in map.iter().enumerate() {
                separate(text, number == 0);
                let _ = write!(text, "{key}: ");
                write_value(value, text);
            }
        }
    }
}

/// The nodes of a body while they are made.
struct Tree {
    done: Vec<TextNode>,
    /// Those whose end is still to come, the outermost first.
    open: Vec<TextNode>,
    /// How many beginnings were too deep for a node of their own.
    flat: usize,
    nodes: usize,
    /// How many commands were met.
    commands: usize,
    /// How far the body was read.
    end: usize,
}

impl Tree {
    fn of(body: &str, options: Options, commands: &[Snippet<'_>]) -> Self {
        let mut tree = Self { done: Vec::new(), open: Vec::new(), flat: 0, nodes: 0, commands: 0, end: body.len() };
        for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
            if tree.nodes >= MOST_NODES || range.start >= LONGEST {
                tree.end = range.start;
                break;
            }
            tree.take(event, &range, commands);
        }
        while !tree.open.is_empty() {
            tree.close();
        }
        tree
    }

    /// Whether every command that was passed became a node.
    fn shows_all(&self, commands: &[Snippet<'_>]) -> bool {
        self.commands >= commands.iter().filter(|command| command.range.end <= self.end).count()
    }

    fn take(&mut self, event: Event<'_>, range: &Range<usize>, commands: &[Snippet<'_>]) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(_) => self.close(),
            Event::Code(code) => {
                let is_command = commands.binary_search_by_key(&range.end, |command| command.range.end).is_ok();
                self.commands += usize::from(is_command);
                self.add(TextNode::with_text(if is_command { NodeKind::Command } else { NodeKind::Code }, &code));
            }
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => self.add(TextNode::new(NodeKind::Break)),
            Event::Rule => self.add(TextNode::new(NodeKind::Rule)),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        let mut node = TextNode::new(match &tag {
            Tag::Heading { .. } => NodeKind::Heading,
            Tag::BlockQuote(_) => NodeKind::Quote,
            Tag::CodeBlock(_) => NodeKind::CodeBlock,
            Tag::HtmlBlock => NodeKind::Html,
            Tag::List(_) => NodeKind::List,
            Tag::Item => NodeKind::Item,
            Tag::Table(_) => NodeKind::Table,
            Tag::TableHead | Tag::TableRow => NodeKind::Row,
            Tag::TableCell => NodeKind::Cell,
            Tag::Emphasis => NodeKind::Emphasis,
            Tag::Strong => NodeKind::Strong,
            Tag::Link { .. } => NodeKind::Link,
            Tag::Image { .. } => NodeKind::Image,
            // The others belong to extensions that are off.
            _ => NodeKind::Paragraph,
        });
        match tag {
            Tag::Heading { level, .. } => node.level = Some(level as u8),
            Tag::List(start) => node.start = start,
            Tag::CodeBlock(CodeBlockKind::Fenced(language)) if !language.is_empty() => {
                node.language = Some(language.into_string());
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => node.to = Some(dest_url.into_string()),
            _ => {}
        }
        if self.open.len() >= DEEPEST {
            self.flat += 1;
            return;
        }
        self.nodes += 1;
        self.open.push(node);
    }

    fn close(&mut self) {
        if self.flat > 0 {
            self.flat -= 1;
            return self.text("\n");
        }
        if let Some(node) = self.open.pop() {
            self.place(node);
        }
    }

    fn add(&mut self, node: TextNode) {
        self.nodes += 1;
        self.place(node);
    }

    fn place(&mut self, node: TextNode) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(node),
            None => self.done.push(node),
        }
    }

    fn text(&mut self, text: &str) {
        let siblings = match self.open.last_mut() {
            Some(parent) if matches!(parent.kind, NodeKind::CodeBlock | NodeKind::Html) => {
                return parent.text.get_or_insert_default().push_str(text);
            }
            Some(parent) => &mut parent.children,
            None => &mut self.done,
        };
        match siblings.last_mut() {
            Some(TextNode { kind: NodeKind::Text, text: Some(said), .. }) => said.push_str(text),
            _ => self.add(TextNode::with_text(NodeKind::Text, text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blocks(body: &str) -> Value {
        serde_json::to_value(reading(body).blocks).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({ "kind": "text", "text": text })
    }

    #[test]
    fn every_kind_of_block_becomes_a_node() {
        let body = "# One\n\nA *b* **c** `d`  \ne\n\n> q\n\n3. x\n4. y\n\n- z\n\n---\n\n```sh\nls\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
        let cell = |said: &str| json!({ "kind": "cell", "children": [text(said)] });
        let item = |said: &str| json!({ "kind": "item", "children": [text(said)] });
        assert_eq!(
            blocks(body),
            json!([
                { "kind": "heading", "level": 1, "children": [text("One")] },
                { "kind": "paragraph", "children": [
                    text("A "), { "kind": "emphasis", "children": [text("b")] }, text(" "),
                    { "kind": "strong", "children": [text("c")] }, text(" "), { "kind": "code", "text": "d" },
                    { "kind": "break" }, text("e"),
                ] },
                { "kind": "quote", "children": [{ "kind": "paragraph", "children": [text("q")] }] },
                { "kind": "list", "start": 3, "children": [item("x"), item("y")] },
                { "kind": "list", "children": [item("z")] },
                { "kind": "rule" },
                { "kind": "codeBlock", "language": "sh", "text": "ls\n" },
                { "kind": "table", "children": [
                    { "kind": "row", "children": [cell("a"), cell("b")] },
                    { "kind": "row", "children": [cell("1"), cell("2")] },
                ] },
            ])
        );
    }

    #[test]
    fn what_would_run_is_marked_and_what_is_only_shown_is_not() {
        let body = "Today is !`date`, not `date`.\n\n```\n!`rm -r x`\n```\n\n<p>\n!`rm -r y`\n</p>\n";
        let read = reading(body);
        assert_eq!(read.commands, ["date"]);
        let shown = serde_json::to_value(&read.blocks).unwrap();
        let expected = json!([
            { "kind": "paragraph", "children": [
                text("Today is !"), { "kind": "command", "text": "date" }, text(", not "), { "kind": "code", "text": "date" }, text("."),
            ] },
            { "kind": "codeBlock", "text": "!`rm -r x`\n" },
            { "kind": "html", "text": "<p>\n!`rm -r y`\n</p>\n" },
        ]);
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_table_hides_no_command() {
        let row = "| a | b |\n|---|---|\n| 1 | !`cat x | sh` |\n";
        let read = reading(row);
        assert_eq!(read.commands, ["cat x | sh"]);
        let shown = serde_json::to_string(&read.blocks).unwrap();
        assert!(shown.contains(r#"{"kind":"command","text":"cat x | sh"}"#) && !shown.contains("table"), "{shown}");
        let harmless = reading(&row.replace(" | sh", ""));
        let shown = serde_json::to_string(&harmless.blocks).unwrap();
        assert!(shown.contains(r#"{"kind":"command","text":"cat x"}"#) && shown.contains("table"), "{shown}");
    }

    #[test]
    fn front_matter_is_read_as_the_runtime_reads_it() {
        let read = reading("---\nname: mail\nversion: 1.10\nmetadata:\n  by: me\ntags: [a, b]\nempty:\n---\nSend.\n");
        let entries: Vec<(&str, &str)> =
            read.front_matter.iter().map(|entry| (entry.name.as_str(), entry.value.as_str())).collect();
        assert_eq!(
            entries,
            [("name", "mail"), ("version", "1.10"), ("metadata.by", "me"), ("tags", "a\nb"), ("empty", "")]
        );
        assert_eq!(
            serde_json::to_value(read.blocks).unwrap(),
            json!([{ "kind": "paragraph", "children": [text("Send.")] }])
        );
        assert_eq!(commands("---\nname: !`not this`\n---\n!`this`\n"), ["this"]);
    }

    #[test]
    fn depth_length_and_number_of_nodes_have_bounds() {
        let deep = reading(&format!("{} end", ">".repeat(50_000)));
        let said = serde_json::to_string(&deep.blocks).unwrap();
        assert!(said.contains("end") && said.matches("quote").count() == DEEPEST, "{}", said.len());
        let long = reading(&"word\n\n".repeat(LONGEST));
        assert!(long.cut && long.blocks.len() <= MOST_NODES);
        let many = reading(&"*a* ".repeat(LONGEST / 4));
        assert!(many.cut && serde_json::to_string(&many).unwrap().len() < 40 * MOST_NODES);
        assert!(!reading("short").cut);
    }

    /// The browser's test of hostile texts shows this very tree.
    #[test]
    fn a_hostile_text_is_a_tree_of_texts() {
        let read = reading(include_str!("../../../../tests/page/hostile.md"));
        let kept: Value = serde_json::from_str(include_str!("../../../../tests/page/hostile.json")).unwrap();
        let now = serde_json::to_value(&read).unwrap();
        assert_eq!(now, kept, "tests/page/hostile.json is to be:\n{}", serde_json::to_string_pretty(&now).unwrap());
    }
}
