//! Everything that real skill files get wrong is still read, and said.

use herm::skill::{Document, FrontMatterValue, Rule};

fn read(text: &str) -> Document {
    let document = Document::read(text.as_bytes()).unwrap();
    assert_eq!(document.raw(), text);
    document
}

fn found(document: &Document) -> Vec<(Rule, Option<usize>)> {
    document.findings().iter().map(|finding| (finding.rule, finding.line)).collect()
}

fn text(value: &str) -> FrontMatterValue {
    FrontMatterValue::Text(value.to_owned())
}

fn list<const N: usize>(items: [&str; N]) -> FrontMatterValue {
    FrontMatterValue::List(items.map(text).to_vec())
}

#[test]
fn a_sound_skill_is_read_without_findings() {
    let skill = read("---\nname: mail\ndescription: Send mail.\n---\n\n# Mail\n");
    assert_eq!(skill.name().as_deref(), Some("mail"));
    assert_eq!(skill.description().as_deref(), Some("Send mail."));
    assert_eq!(skill.body(), "\n# Mail\n");
    assert_eq!(found(&skill), []);
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    let reason = |bytes: &[u8]| Document::read(bytes).unwrap_err().reason;
    assert_eq!(reason(b"ab\xff"), "The file is not UTF-8 text at byte 2.");
    assert_eq!(reason(b"abc\0"), "The file has a NUL byte at byte 3; it is not text.");
    assert_eq!(reason(&[b'a'; 1_048_577]), "The file has 1048577 bytes; a skill has at most 1048576.");
    assert!(Document::read(&[b'a'; 1_048_576]).is_ok());
}

#[test]
fn a_byte_order_mark_does_not_hide_the_front_matter() {
    let mut skill = read("\u{feff}---\nname: a\n---\nbody");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(found(&skill), [(Rule::ByteOrderMark, Some(1))]);
    skill.set("version", "2");
    assert_eq!(skill.raw(), "\u{feff}---\nname: a\nversion: \"2\"\n---\nbody");
}

#[test]
fn windows_line_breaks_are_read_and_kept() {
    let mut skill = read("---\r\nname: a\r\ndescription: >\r\n  one\r\n  two\r\n---\r\nbody\r\n");
    assert_eq!(skill.description().as_deref(), Some("one two"));
    assert_eq!(found(&skill), []);
    skill.set("license", "MIT");
    skill.set("description", "new");
    assert_eq!(skill.raw(), "---\r\nname: a\r\ndescription: new\r\nlicense: MIT\r\n---\r\nbody\r\n");
}

#[test]
fn lone_carriage_returns_end_lines_too() {
    let mut skill = read("---\rname: a\rdescription: b\r---\rbody");
    assert_eq!(skill.description().as_deref(), Some("b"));
    assert_eq!(skill.body(), "body");
    assert_eq!(found(&skill), [(Rule::LoneCarriageReturn, Some(1))]);
    skill.set("x", "z");
    assert_eq!(skill.raw(), "---\rname: a\rdescription: b\rx: z\r---\rbody");
}

#[test]
fn blank_lines_before_the_fence_are_passed_over() {
    let skill = read("\n  \n---\nname: a\n---\nbody");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(found(&skill), [(Rule::LeadingBlankLines, Some(1))]);
}

#[test]
fn unclosed_front_matter_ends_at_the_first_line_that_cannot_belong_to_it() {
    let mut skill = read("---\nname: a\ndescription: b\n\n# Title\n\nprose\n");
    assert_eq!(skill.description().as_deref(), Some("b"));
    assert_eq!(skill.body(), "\n# Title\n\nprose\n");
    assert_eq!(found(&skill), [(Rule::FrontMatterUnclosed, Some(1))]);
    skill.set("license", "MIT");
    assert_eq!(skill.raw(), "---\nname: a\ndescription: b\nlicense: MIT\n---\n\n# Title\n\nprose\n");
    assert_eq!(found(&skill), []);
}

#[test]
fn a_file_without_front_matter_is_all_body() {
    let mut skill = read("# Title\n\nDoes a thing.\n");
    assert!(!skill.has_front_matter());
    assert_eq!(skill.name(), None);
    assert_eq!(skill.description().as_deref(), Some("Does a thing."));
    assert_eq!(skill.body(), skill.raw());
    assert_eq!(found(&skill), [(Rule::FrontMatterMissing, Some(1))]);
    skill.set("name", "a");
    assert_eq!(skill.raw(), "---\nname: a\n---\n# Title\n\nDoes a thing.\n");
}

#[test]
fn an_empty_file_and_a_lone_fence_are_read() {
    for text in ["", "---", "---\n", "\u{feff}", "\n\n", "---\n---", "---\n---\n"] {
        let mut skill = read(text);
        assert_eq!((skill.name(), skill.description(), skill.keys().count()), (None, None, 0), "{text:?}");
        skill.set("name", "a");
        assert_eq!(skill.name().as_deref(), Some("a"), "{text:?}");
    }
    assert!(read("---\n---").has_front_matter());
    assert!(!read("---").has_front_matter());
}

#[test]
fn unquoted_colons_cost_nothing() {
    let skill = read("---\nname: a\ndescription: Use when: asked # or not\nwrapped: one: two\n  three \"four\"\n---\n");
    assert_eq!(skill.description().as_deref(), Some("Use when: asked # or not"));
    assert_eq!(skill.text("wrapped").as_deref(), Some("one: two three \"four\""));
    assert_eq!(found(&skill), [(Rule::UnquotedColon, Some(3)), (Rule::UnquotedColon, Some(4))]);
}

#[test]
fn folded_and_literal_blocks_are_read_as_yaml_reads_them() {
    let skill = read(
        "---\nfolded: >\n  one\n  two\n\n  three\nliteral: |\n  one\n    # two\n\nstripped: >-\n  one\nkept: |+\n  one\n\nnext: x\n---\n",
    );
    assert_eq!(skill.text("folded").as_deref(), Some("one two\nthree\n"));
    assert_eq!(skill.text("literal").as_deref(), Some("one\n  # two\n"));
    assert_eq!(skill.text("stripped").as_deref(), Some("one"));
    assert_eq!(skill.text("kept").as_deref(), Some("one\n\n"));
    assert_eq!(found(&skill), []);
}

#[test]
fn signs_inside_a_block_are_text() {
    let skill = read("---\ndescription: |\n  Takes &x and\n  *y, !z\n---\n");
    assert_eq!(skill.description().as_deref(), Some("Takes &x and\n*y, !z"));
    assert_eq!(found(&skill), []);
}

#[test]
fn a_description_on_the_next_line_is_read() {
    let skill = read("---\nname:\n  a\ndescription:\n  one\n  two\n---\n");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(skill.description().as_deref(), Some("one two"));
    assert_eq!(found(&skill), []);
}

#[test]
fn wrapped_text_without_indentation_is_kept() {
    let skill = read("---\ndescription: \"one\ntwo\"\nname: a\n---\n");
    assert_eq!(skill.description().as_deref(), Some("one two"));
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(found(&skill)[0], (Rule::InvalidYaml, Some(2)));
}

#[test]
fn flow_lists_and_block_lists_are_the_same_list() {
    let skill =
        read("---\na: [x, 'y, z', 1.10]\nb:\n- x\n- 'y, z'\n- 1.10\nc: [\n  x,\n  'y, z', # note\n  1.10\n]\n---\n");
    for key in ["a", "b", "c"] {
        assert_eq!(skill.value(key), Some(list(["x", "y, z", "1.10"])), "{key}");
    }
    assert_eq!(found(&skill), []);
}

#[test]
fn nested_metadata_keeps_its_scalars_as_written() {
    let skill = read(
        "---\nmetadata:\n  version: 1.10\n  hermes:\n    tags: [a, b]\n    triggers:\n      - send mail\n    since: 2024-01-01\n  on: yes\n---\n",
    );
    let metadata = skill.value("metadata").unwrap();
    assert_eq!(metadata.get("version"), Some(&text("1.10")));
    assert_eq!(metadata.get("on"), Some(&text("yes")));
    assert_eq!(metadata.get("hermes").unwrap().get("since"), Some(&text("2024-01-01")));
    assert_eq!(skill.version().as_deref(), Some("1.10"));
    assert_eq!(skill.tags(), ["a", "b"]);
    assert_eq!(skill.triggers(), ["send mail"]);
    assert_eq!(found(&skill), []);
}

#[test]
fn lists_are_found_at_the_top_in_the_metadata_and_with_vendors() {
    assert_eq!(read("---\ntriggers: a, b c\n---\n").triggers(), ["a", "b c"]);
    assert_eq!(read("---\nmetadata:\n  triggers: [a]\n  x:\n    triggers: [b]\n---\n").triggers(), ["a"]);
    assert_eq!(read("---\nrequires: {mcp: [mail], env: TOKEN}\n---\n").requires(), ["env:TOKEN", "mcp:mail"]);
    assert_eq!(read("---\nplatforms: [linux, macos]\n---\n").platforms(), ["linux", "macos"]);
    assert_eq!(read("---\nplatforms: linux\n---\n").platforms(), ["linux"]);
    assert_eq!(read("---\nname: a\n---\n").platforms(), Vec::<String>::new());
}

#[test]
fn numbers_dates_and_switches_are_text() {
    let skill = read("---\nname: 123\nversion: 1.0\ndate: 2024-01-01\non: true\nhex: 0x1F\n---\n");
    assert_eq!(skill.name().as_deref(), Some("123"));
    assert_eq!(skill.version().as_deref(), Some("1.0"));
    for (key, value) in [("date", "2024-01-01"), ("on", "true"), ("hex", "0x1F")] {
        assert_eq!(skill.value(key), Some(text(value)));
    }
}

#[test]
fn the_first_of_two_like_keys_counts() {
    let mut skill = read("---\nname: a\nname: b\nmetadata:\n  k: 1\n  k: 2\n---\n");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(skill.value("metadata").unwrap().get("k"), Some(&text("1")));
    assert_eq!(found(&skill), [(Rule::DuplicateKey, Some(3)), (Rule::DuplicateKey, Some(6))]);
    skill.set("name", "c");
    assert!(skill.raw().starts_with("---\nname: c\nname: b\n"));
}

#[test]
fn the_first_side_of_a_merge_conflict_is_read_and_no_side_is_lost() {
    let conflict = "---\nname: a\n<<<<<<< HEAD\ndescription: one\n=======\ndescription: two\n>>>>>>> b\n---\nbody";
    let mut skill = read(conflict);
    assert_eq!(skill.description().as_deref(), Some("one"));
    assert_eq!(found(&skill), [(Rule::MergeConflict, Some(3))]);
    skill.set("description", "new");
    assert_eq!(skill.raw(), conflict.replace("one", "new"));
}

#[test]
fn null_metadata_is_no_metadata() {
    for text in ["---\nmetadata: null\n---\n", "---\nmetadata:\n---\n", "---\nmetadata: ~\n---\n"] {
        let skill = read(text);
        assert_eq!(skill.value("metadata"), Some(FrontMatterValue::Null));
        assert_eq!((skill.version(), skill.tags()), (None, Vec::new()));
    }
}

#[test]
fn tabs_are_read_as_indentation() {
    let skill = read("---\nname:\ta\nmetadata:\n\tk: v\n---\n");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(skill.value("metadata").unwrap().get("k"), Some(&text("v")));
    assert_eq!(found(&skill), [(Rule::InvalidYaml, Some(2)), (Rule::InvalidYaml, Some(4))]);
}

#[test]
fn fences_may_have_trailing_blanks_or_dots() {
    assert_eq!(found(&read("---  \nname: a\n---\t\nbody")), []);
    let skill = read("---\nname: a\n...\nbody");
    assert_eq!(skill.body(), "body");
    assert_eq!(found(&skill), [(Rule::FenceForm, Some(3))]);
    let mut skill = read("---\nname: a\n  ---\n\nbody\n---\n");
    assert_eq!((skill.name().as_deref(), skill.body()), (Some("a"), "\nbody\n---\n"));
    assert_eq!(found(&skill), [(Rule::FenceForm, Some(3))]);
    skill.set("license", "MIT");
    assert_eq!(skill.raw(), "---\nname: a\nlicense: MIT\n---\n\nbody\n---\n");
}

#[test]
fn comments_and_quoted_keys_are_understood_and_kept() {
    let mut skill = read("---\n# top\n\"name\": a # why\n\n'description': 'it''s'\n  # below\n---\n");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(skill.description().as_deref(), Some("it's"));
    assert_eq!(skill.keys().collect::<Vec<_>>(), ["name", "description"]);
    assert_eq!(found(&skill), []);
    skill.set("name", "b");
    skill.set("description", "c: d");
    assert_eq!(skill.raw(), "---\n# top\n\"name\": b # why\n\n'description': \"c: d\"\n  # below\n---\n");
}

#[test]
fn control_characters_are_reported_once_with_their_number() {
    let skill = read("---\nname: a\u{80}\n---\nb\u{1b}[0m\n");
    assert_eq!(skill.name().as_deref(), Some("a\u{80}"));
    let findings = skill.findings();
    assert_eq!((findings[0].rule, findings[0].line), (Rule::ControlCharacter, Some(2)));
    assert_eq!(findings[0].message, "Control character U+0080; 2 in all.");
}

#[test]
fn one_broken_entry_does_not_hurt_its_neighbours() {
    let skill = read("---\nname: a\nbroken: [unclosed\nalso: \"open\ndescription: b\nat: @x\n---\n");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(skill.description().as_deref(), Some("b"));
    assert_eq!(skill.text("broken").as_deref(), Some("[unclosed"));
    let lines: Vec<_> = found(&skill).into_iter().map(|(rule, line)| (rule.as_str(), line.unwrap())).collect();
    assert_eq!(lines, [("invalid-yaml", 3), ("invalid-yaml", 4), ("invalid-yaml", 6)]);
}

#[test]
fn anchors_aliases_and_tags_are_plain_text() {
    let skill = read("---\na: &x one\nb: *x\nc: !!str 1\nd:\n  e: *x\nf: [*x]\n---\n");
    assert_eq!(skill.text("a").as_deref(), Some("&x one"));
    assert_eq!(skill.text("b").as_deref(), Some("*x"));
    assert_eq!(skill.value("d").unwrap().get("e"), Some(&text("*x")));
    let rules = found(&skill);
    assert_eq!(rules.len(), 5);
    assert!(rules.iter().all(|(rule, _)| *rule == Rule::AliasOrTag));
}

#[test]
fn a_missing_space_after_the_colon_is_forgiven() {
    let mut skill = read("---\nname:a\ndescription: b\n---\n");
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(found(&skill), [(Rule::InvalidYaml, Some(2))]);
    skill.set("name", "c");
    assert_eq!(skill.raw(), "---\nname: c\ndescription: b\n---\n");
}

#[test]
fn front_matter_over_the_cap_is_read_line_by_line() {
    let skill = read(&format!(
        "---\nname: a\ndescription: >\n  one\n  two\nmetadata:\n  k: [1.0]\nlong: {}\n---\nbody",
        "x".repeat(20_000)
    ));
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(skill.description().as_deref(), Some("one two"));
    assert_eq!(skill.value("metadata").unwrap().get("k"), Some(&list(["1.0"])));
    assert_eq!(found(&skill), [(Rule::FrontMatterTooLarge, Some(1))]);
}

#[test]
fn nesting_is_bounded() {
    let deep: String = (0..40).map(|depth| format!("{}k:\n", "  ".repeat(depth))).collect();
    let skill = read(&format!("---\nname: a\n{deep}---\n"));
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(found(&skill).len(), 1);
    let skill = read(&format!("---\nname: a\nk: {}\nl:\n  {}x\n---\n", "[".repeat(5_000), "- ".repeat(5_000)));
    assert_eq!(skill.name().as_deref(), Some("a"));
    assert_eq!(found(&skill).len(), 2);
}

#[test]
fn a_description_borrowed_from_the_body_is_cut_at_two_hundred_characters() {
    let skill = read(&format!("---\nname: a\ndescription: ''\n---\n# T\n\n{}\n", "é".repeat(300)));
    assert_eq!(skill.description().unwrap(), "é".repeat(200));
}

#[test]
fn a_large_body_is_left_alone() {
    let body = "| a | b |\n\n    code  \n".repeat(7_000);
    let mut skill = read(&format!("---\nname: a\n---\n{body}"));
    skill.set("name", "b");
    assert_eq!(skill.body(), body);
}

#[test]
fn a_body_that_begins_with_a_fence_stays_a_body() {
    let mut skill = read("prose\n");
    skill.replace_body("---\nname: x\n---\n");
    assert_eq!(skill.body(), "---\nname: x\n---\n");
    assert_eq!(skill.name(), None);
    let mut skill = read("---\nname: a\n---");
    skill.replace_body("new\n");
    assert_eq!(skill.raw(), "---\nname: a\n---\nnew\n");
}

#[test]
fn unknown_keys_survive_byte_for_byte() {
    let odd = "x-odd:   [ 1,2 ]   # spaced\n\"weird key\": {a:   b}\n  \nunknown: |2\n   kept  \n";
    let mut skill = read(&format!("---\nname: a\n{odd}---\nbody"));
    skill.set("name", "b");
    skill.set("description", "c");
    assert_eq!(skill.raw(), format!("---\nname: b\n{odd}description: c\n---\nbody"));
}
