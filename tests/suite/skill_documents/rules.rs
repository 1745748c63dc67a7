//! The strict rules, one by one: what is found, how bad it is, where it stands and what to write instead.

use herm::skill::{Document, Rule, Severity, SkillFinding, rules};

const BODY: &str = "\n# Send mail\n\nSend it.\n";

fn check(front_matter: &str) -> Vec<SkillFinding> {
    check_file(&format!("---\n{front_matter}---\n{BODY}"))
}

fn check_file(text: &str) -> Vec<SkillFinding> {
    rules::check(&Document::read(text.as_bytes()).unwrap(), Some("send-mail"))
}

/// Checks a skill that is sound but for these lines.
fn check_with(lines: &str) -> Vec<(Rule, usize)> {
    let findings = check(&format!("name: send-mail\ndescription: Sends mail.\n{lines}"));
    findings.iter().map(|finding| (finding.rule, finding.line.unwrap())).collect()
}

#[test]
fn a_sound_skill_has_no_findings() {
    assert_eq!(check("name: send-mail\ndescription: Sends mail.\n"), []);
    let all = "license: MIT\ncompatibility: Needs git\nallowed-tools: Read Bash(a, b)\nmetadata:\n  version: 1.0\n";
    assert_eq!(check_with(all), []);
}

#[test]
fn a_finding_says_what_to_write() {
    let expected = SkillFinding {
        rule: Rule::NameFormat,
        severity: Severity::Error,
        line: Some(2),
        message: "The name `Send_Mail` is not 1 to 64 of a-z, 0-9 and single hyphens between them.".to_owned(),
        fix: "Write `name: send-mail`.".to_owned(),
    };
    assert_eq!(check("name: Send_Mail\ndescription: Sends mail.\n")[0], expected);
    assert_eq!(
        expected.to_string(),
        "line 2: error [name-format] The name `Send_Mail` is not 1 to 64 of a-z, 0-9 and single hyphens between them. \
         Fix: Write `name: send-mail`."
    );
}

#[test]
fn every_finding_has_a_message_and_a_fix_that_end_as_sentences() {
    let text = "\u{feff}\n---\nname: A\nname: b\ndescription: Use when: x\nlicense: [a]\ncompatibility:\nmetadata: &x y\n\
                allowed-tools: [a, b]\nversion: 1\nx: {a: 1, a: 2}\ny: @\n<<<<<<< a\nz:z\n...\n\u{1b}";
    let findings = check_file(text);
    assert!(findings.len() > 12, "{findings:#?}");
    for finding in findings {
        assert!(finding.message.ends_with('.'), "{finding}");
        assert!(finding.fix.ends_with('.'), "{finding}");
        assert_eq!(finding.severity, finding.rule.severity());
    }
}

#[test]
fn the_name_is_present_well_formed_and_that_of_the_directory() {
    let rules_of = |front_matter: &str| check(front_matter).iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert_eq!(rules_of("description: x\n"), [Rule::NameMissing]);
    assert_eq!(rules_of("name: \"\"\ndescription: x\n"), [Rule::NameMissing]);
    assert_eq!(rules_of("name:\n  - a\ndescription: x\n"), [Rule::NameMissing]);
    assert_eq!(rules_of("name: other\ndescription: x\n"), [Rule::NameMismatch]);
    assert_eq!(rules_of("name: Other\ndescription: x\n"), [Rule::NameFormat, Rule::NameMismatch]);
}

#[test]
fn without_an_expected_name_any_good_name_will_do() {
    let skill = Document::read(b"---\nname: other\ndescription: x\n---\nbody\n").unwrap();
    assert_eq!(rules::check(&skill, None), []);
}

#[test]
fn the_description_has_1_to_1024_characters() {
    let rules_of = |description: &str| {
        let findings = check(&format!("name: send-mail\ndescription: {description}\n"));
        findings.iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules_of(&"é".repeat(1024)), []);
    assert_eq!(rules_of(&"é".repeat(1025)), [Rule::DescriptionLength]);
    assert_eq!(rules_of("\"  \""), [Rule::DescriptionMissing]);
    assert_eq!(rules_of("~"), [Rule::DescriptionMissing]);
}

#[test]
fn optional_keys_have_their_types() {
    assert_eq!(check_with("license:\n  - MIT\n"), [(Rule::LicenseType, 4)]);
    assert_eq!(check_with("license:\n"), [(Rule::EmptyValue, 4)]);
    assert_eq!(check_with("compatibility: ''\n"), [(Rule::Compatibility, 4)]);
    assert_eq!(check_with(&format!("compatibility: {}\n", "x".repeat(501))), [(Rule::Compatibility, 4)]);
    assert_eq!(check_with(&format!("compatibility: {}\n", "x".repeat(500))), []);
    assert_eq!(check_with("metadata: text\n"), [(Rule::MetadataType, 4)]);
    assert_eq!(check_with("metadata: null\n"), [(Rule::EmptyValue, 4)]);
    assert_eq!(check_with("metadata:\n  a:\n    b: c\n"), [(Rule::MetadataNested, 4)]);
    assert_eq!(check_with("allowed-tools: Read, Grep\n"), [(Rule::AllowedTools, 4)]);
    assert_eq!(check_with("allowed-tools:\n  - Read\n"), [(Rule::AllowedTools, 4)]);
}

#[test]
fn unknown_keys_are_warnings_that_explain_themselves() {
    assert_eq!(check_with("version: 1\nhomepage: x\n"), [(Rule::UnknownKey, 4), (Rule::UnknownKey, 5)]);
    let findings = check("name: send-mail\ndescription: x\nversion: 1\nhomepage: x\n");
    assert!(rules::is_valid(&findings));
    assert!(findings[0].message.contains("Hermes family"), "{}", findings[0]);
    assert!(findings[1].fix.contains("spelling"), "{}", findings[1]);
}

#[test]
fn yaml_that_other_readers_refuse_is_found() {
    assert_eq!(check_with("metadata:\n  tags: [a]\n"), [(Rule::MetadataNested, 4), (Rule::FlowStyle, 5)]);
    assert_eq!(check_with("metadata:\n  a: &x b\n"), [(Rule::AliasOrTag, 5)]);
    assert_eq!(check_with("license: a\nlicense: b\n"), [(Rule::DuplicateKey, 5)]);
    assert_eq!(check_with("license: a: b\n"), [(Rule::UnquotedColon, 4)]);
    assert_eq!(check_with("license: a --- b\n"), [(Rule::DashesInFrontMatter, 4)]);
    assert_eq!(check_with("license: a\tb\n"), [(Rule::InvalidYaml, 4)]);
    assert_eq!(check_with("metadata:\n  a: b\n   c: d\n"), [(Rule::UnquotedColon, 5)]);
}

#[test]
fn the_parser_has_the_last_word_on_the_whole() {
    // Every entry is sound alone; together their columns are not.
    let findings = check("  name: send-mail\ndescription: Sends mail.\n");
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].rule, findings[0].line), (Rule::InvalidYaml, Some(3)));
}

#[test]
fn without_front_matter_nothing_is_said_about_its_keys() {
    let rules_of = |text: &str| check_file(text).iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert_eq!(rules_of("# Title\n"), [Rule::FrontMatterMissing]);
    assert_eq!(rules_of(""), [Rule::FrontMatterMissing, Rule::BodyEmpty]);
}

#[test]
fn the_body_is_there_and_not_too_long() {
    let file = |body: &str| format!("---\nname: send-mail\ndescription: Sends mail.\n---\n{body}");
    let rules_of = |body: &str| check_file(&file(body)).iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert_eq!(rules_of(" \n\n"), [Rule::BodyEmpty]);
    let room = rules::MAX_SKILL_CHARS - file("").chars().count();
    assert_eq!(rules_of(&"é".repeat(room)), []);
    assert_eq!(rules_of(&"é".repeat(room + 1)), [Rule::TooLong]);
    assert_eq!(rules_of(&"x\n".repeat(496)), []);
    assert_eq!(rules_of(&"x\n".repeat(497)), [Rule::ManyLines]);
}

#[test]
fn a_skill_written_with_set_is_valid() {
    let mut skill = Document::read(b"# Send mail\n").unwrap();
    skill.set("name", "send-mail");
    skill.set("description", "Use when: the user says \"send\" # now\nor later --- maybe");
    let findings = rules::check(&skill, Some("send-mail"));
    assert!(rules::is_valid(&findings), "{findings:#?}\n{}", skill.raw());
}
