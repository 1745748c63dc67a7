//! What holds for every document: nothing panics, nothing is lost, and writing one thing changes one thing.

use std::time::{Duration, Instant};

use herm::skill::{Document, body, rules};
use proptest::prelude::*;

/// Asks a document everything there is to ask.
fn exercise(document: &Document) {
    let keys: Vec<String> = document.keys().take(50).map(str::to_owned).collect();
    for key in &keys {
        let _ = (document.text(key), document.value(key));
    }
    let _ = (document.name(), document.description(), document.version());
    let _ = (document.platforms(), document.triggers(), document.tags(), document.requires());
    let _ = (document.findings(), rules::check(document, Some("expected")));
    let _ = (body::headings(document.body()), body::linked_files(document.body()));
}

/// Text made of what front matter is made of, broken in every way.
fn rubble() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "---\n",
        "---",
        "--- \n",
        "...\n",
        "\u{feff}",
        "\n",
        "\r\n",
        "\r",
        " ",
        "  ",
        "\t",
        "name: a\n",
        "name:a\n",
        "description: Use when: x\n",
        "description: >\n  folded\n  text\n",
        "  more\n",
        "\n\n",
        "tags: [a, b]\n",
        "tags:\n- a\n- b\n",
        "metadata:\n  hermes:\n    tags: [x]\n",
        "metadata: null\n",
        "<<<<<<< HEAD\n",
        "=======\n",
        ">>>>>>> b\n",
        "# comment\n",
        "  # comment\n",
        "\"quoted\": 'v'\n",
        "a: \"open\n",
        "a: [open\n",
        "a: &x [*x]\n",
        "prose line\n",
        "Note: prose\n",
        "# Title\n",
        "- item\n",
        "\u{80}",
        "\u{1b}",
        "é",
        "x: |\n  lit\n\n",
        "k",
        ":",
        "\"",
        "version: 1.0 # c\n",
        "? q\n",
        "`code`",
    ]);
    let start = prop::sample::select(vec!["", "---\n", "---\n", "---\nname: a\n"]);
    (start, prop::collection::vec(piece, 0..14)).prop_map(|(start, pieces)| format!("{start}{}", pieces.concat()))
}

/// The bytes of every entry but those of one key.
fn other_entries(document: &Document, key: &str) -> Vec<(String, Option<herm::skill::FrontMatterValue>)> {
    let others = document.keys().filter(|other| *other != key);
    others.map(|other| (other.to_owned(), document.value(other))).collect()
}

/// Whether the lines of one text stand in another in the same order; a closing fence may have been set straight.
fn keeps_every_line(text: &str, grown: &str) -> bool {
    let mut lines = strip_mark(grown).split(['\n', '\r']);
    let is_fence = |line: &str| line.trim() == "---";
    let stands = |line: &str| lines.any(|other| other == line || (is_fence(other) && is_fence(line)));
    strip_mark(text).split(['\n', '\r']).all(stands)
}

fn strip_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// What may stand behind the colon of an entry.
fn entry() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        " plain",
        " \"quoted: text\"",
        " 'single'",
        "",
        " ~",
        " [a, b]",
        " {a: b}",
        " Use when: x",
        " >\n  folded\n\n  text",
        " |\n  literal\n    more\n  # kept",
        "\n  next line",
        "\n- a\n- b",
        "\n  - a: 1\n    b: 2",
        "\n  nested:\n    tags: [x]\n  version: 1.0",
        " wrapped\n  text",
        " &anchor x",
        "\t tabbed",
        " [open",
        " \"open",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_bytes_can_be_read_or_are_refused_with_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        match Document::read(&bytes) {
            Ok(document) => {
                prop_assert_eq!(document.raw().as_bytes(), &bytes);
                exercise(&document);
            }
            Err(unreadable) => prop_assert!(!unreadable.reason.is_empty()),
        }
    }

    #[test]
    fn no_text_is_lost(text in rubble()) {
        let document = Document::read(text.as_bytes()).unwrap();
        prop_assert_eq!(document.raw(), &text);
        prop_assert!(text.ends_with(document.body()));
        exercise(&document);
    }

    #[test]
    fn a_value_that_was_set_reads_back_and_nothing_else_changes(
        text in rubble(),
        key in prop_oneof!["(name|description|version|tags|x|new-key)", "[ !#-&(-\\[\\]-~é]{1,8}"],
        value in prop_oneof!["[ -~é★]{0,40}", "\\PC{0,20}", "[a-z:# '\"\\[\\]{}&*!|>@`,\\\\\n\t-]{0,20}"],
    ) {
        let before = Document::read(text.as_bytes()).unwrap();
        let mut after = before.clone();
        after.set(&key, &value);
        prop_assert_eq!(after.text(&key), Some(value.clone()), "{:?}", after.raw());
        prop_assert_eq!(after.body(), before.body());
        prop_assert_eq!(other_entries(&after, &key), other_entries(&before, &key), "{:?}", after.raw());
        // What was written is what a strict reader gets.
        let reread = Document::read(after.raw().as_bytes()).unwrap();
        prop_assert_eq!(&reread, &after);
        if !before.keys().any(|other| other == key) {
            prop_assert!(keeps_every_line(&text, after.raw()), "{:?} {:?}", text, after.raw());
        }
        after.set(&key, &value);
        prop_assert_eq!(&reread, &after, "setting the same again changes nothing");
    }

    #[test]
    fn setting_one_entry_leaves_the_bytes_of_all_others(
        entries in prop::collection::vec(entry(), 1..6),
        chosen in any::<prop::sample::Index>(),
        value in "[ -~é★]{0,30}",
        line_break in prop::sample::select(vec!["\n", "\r\n"]),
        closing in prop::sample::select(vec!["---", "--- ", "..."]),
    ) {
        let chosen = chosen.index(entries.len());
        let mut parts = vec!["---\n".to_owned()];
        parts.extend(entries.iter().enumerate().map(|(number, entry)| format!("key{number}:{entry}\n# note {number}\n\n")));
        parts.push(format!("{closing}\n\n# Title\n\nbody\n---\nkey0: body\n"));
        let parts: Vec<String> = parts.iter().map(|part| part.replace('\n', line_break)).collect();
        let mut document = Document::read(parts.concat().as_bytes()).unwrap();
        document.set(&format!("key{chosen}"), &value);
        let head = format!("{}key{chosen}: ", parts[..=chosen].concat());
        let tail = format!("{line_break}# note {chosen}{line_break}{line_break}{}", parts[chosen + 2..].concat());
        prop_assert!(document.raw().starts_with(&head), "{:?} {:?}", document.raw(), head);
        prop_assert!(document.raw().ends_with(&tail), "{:?} {:?}", document.raw(), tail);
        let written = document.raw().get(head.len()..document.raw().len() - tail.len()).unwrap();
        prop_assert!(!written.contains(['\n', '\r']), "{:?}", written);
        prop_assert_eq!(document.text(&format!("key{chosen}")), Some(value));
    }

    #[test]
    fn a_body_that_was_replaced_reads_back_and_the_front_matter_stays(text in rubble(), body in rubble()) {
        let before = Document::read(text.as_bytes()).unwrap();
        let mut after = before.clone();
        after.replace_body(&body);
        prop_assert_eq!(after.body(), &body, "{:?}", after.raw());
        prop_assert_eq!(other_entries(&after, ""), other_entries(&before, ""));
    }

    #[test]
    fn a_linked_file_never_leads_out_of_the_skill(target in "[a-z./%2e~:\\\\# -]{0,16}") {
        let text = format!("[x](<{target}>) ![y]({target}) `scripts/{target}` `{target}`");
        for path in body::linked_files(&text) {
            prop_assert!(!path.starts_with('/') && !path.contains([':', '\\']), "{:?} {:?}", text, path);
            prop_assert!(path.split('/').all(|part| !part.is_empty() && part.trim() != ".."), "{:?} {:?}", text, path);
        }
    }

    #[test]
    fn checking_never_panics_and_is_stably_ordered(text in rubble(), name in prop::option::of("[a-z -]{0,8}")) {
        let document = Document::read(text.as_bytes()).unwrap();
        let findings = rules::check(&document, name.as_deref());
        prop_assert_eq!(&findings, &rules::check(&document, name.as_deref()));
        let order: Vec<_> = findings.iter().map(|finding| (finding.line, finding.rule)).collect();
        prop_assert!(order.is_sorted());
    }
}

/// A lot of every shape that makes some reader slow.
fn hostile() -> Vec<String> {
    let fill = |piece: &str| piece.repeat(100_000 / piece.len());
    let mut shapes: Vec<String> = [
        "a:\n",
        "a: b\n",
        "- ",
        "? ",
        "[",
        "{",
        "a: [\n",
        "a: \"\n",
        "a: '\n",
        "  ",
        "\t",
        "\n",
        "\r",
        "\"",
        "'",
        ": ",
        "a: &a [*a]\n",
        "<<<<<<< x\n",
        "=======\n",
        "a: |\n",
        " a:\n",
        "- a\n",
        "#\n",
        "a: {b: c}\n",
        "a: b: c\n",
        "  - - - x\n",
        "name: x\n\n",
        "prose\n\n",
        "\\",
        "a: \"\\\n",
        "---\n",
        "*",
        "_",
        "`",
        "![",
        "](",
        "> ",
    ]
    .into_iter()
    .map(|piece| format!("---\n{}", fill(piece)))
    .collect();
    shapes.extend(shapes.clone().iter().map(|shape| format!("{shape}\n---\nbody\n")));
    shapes.extend(shapes.clone().iter().take(40).map(|shape| shape.replacen("---\n", "---\nk:\n", 1)));
    // Entries that just fit, of lines that could each go on to the end of theirs.
    for line in ["  a: [\n", "  a: \"\n", "  - [\n", "  a: b: c\n", "  \u{e000}: x\n"] {
        let entry = format!("k:\n{}", line.repeat(15_000 / line.len()));
        shapes.push(format!("---\n{}---\n", entry.repeat(6)));
    }
    let marks: String = ('\u{e000}'..='\u{f8ff}').take(5_000).collect();
    shapes.push(format!("---\n{}---\n", format!("k: \"{marks}\n").repeat(6)));
    shapes.push(format!("---\n{}", (0..1_300).map(|depth| format!("{}k:\n", " ".repeat(depth))).collect::<String>()));
    shapes
}

#[test]
fn hostile_text_is_read_in_linear_time() {
    for text in hostile() {
        let start = Instant::now();
        let document = Document::read(text.as_bytes()).unwrap();
        let _ = (document.name(), document.platforms(), document.triggers(), document.description());
        let _ = (document.value("a"), document.value("k"), document.findings());
        let _ = rules::check(&document, Some("x"));
        // A quadratic reader would need minutes for this much text; the bound is loose for slow, busy machines.
        let limit = Duration::from_secs(3);
        let shape: String = text.chars().take(40).collect();
        assert!(start.elapsed() < limit, "{shape:?} took {:?}", start.elapsed());
    }
}
