//! Our verdicts beside those of the public validator, skills-ref 0.1.1, which were recorded by
//! `tests/data/record_skills_ref.py`. Where the two differ, the record says why.

use std::collections::BTreeSet;

use herm::skill::{Document, Rule, rules};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    dir: String,
    file_name: String,
    content: Option<String>,
    content_base64: Option<String>,
    fill: Option<Fill>,
    skills_ref_valid: bool,
    herm_valid: bool,
    why_different: Option<String>,
}

/// What the `@@` in a long case stands for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fill {
    text: String,
    times: usize,
}

impl Case {
    fn file(&self) -> Vec<u8> {
        match (&self.content, &self.content_base64, &self.fill) {
            (Some(content), None, None) => content.clone().into_bytes(),
            (Some(content), None, Some(fill)) => content.replace("@@", &fill.text.repeat(fill.times)).into_bytes(),
            (None, Some(encoded), None) => decode(encoded),
            _ => panic!("{}: exactly one of content and content_base64", self.case),
        }
    }
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../data/skills_ref.json")).unwrap()
}

fn decode(encoded: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<usize> = encoded.trim_end_matches('=').chars().map(|digit| DIGITS.find(digit).unwrap()).collect();
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let number = chunk.iter().chain([0; 3].iter()).take(4).fold(0, |number, digit| number << 6 | digit);
        let bytes = [number >> 16, number >> 8, number].map(|byte| (byte & 0xff) as u8);
        bytes.into_iter().take(chunk.len() - 1)
    });
    bytes.collect()
}

#[test]
fn our_verdict_is_the_recorded_one() {
    for case in cases() {
        let findings = match Document::read(&case.file()) {
            Ok(document) => rules::check(&document, Some(&case.dir)),
            Err(unreadable) => vec![unreadable.finding()],
        };
        let report: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(rules::is_valid(&findings), case.herm_valid, "{}: {report:#?}", case.case);
    }
}

#[test]
fn every_difference_from_the_public_validator_has_a_reason() {
    for case in cases() {
        let differs = case.herm_valid != case.skills_ref_valid;
        assert_eq!(case.why_different.is_some(), differs, "{}", case.case);
    }
}

#[test]
fn cases_are_distinct_and_named_as_skills_are() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.case.as_str()).collect();
    assert_eq!(names.len(), cases.len());
    assert!(names.iter().all(|name| rules::is_valid_name(name)));
    assert!(cases.iter().all(|case| case.file_name.eq_ignore_ascii_case("skill.md")));
}

#[test]
fn the_cases_cover_every_rule() {
    let mut uncovered: BTreeSet<Rule> = Rule::ALL.iter().copied().collect();
    for case in cases() {
        match Document::read(&case.file()) {
            Ok(document) => rules::check(&document, Some(&case.dir)).iter().for_each(|finding| {
                uncovered.remove(&finding.rule);
            }),
            Err(unreadable) => {
                uncovered.remove(&unreadable.finding().rule);
            }
        }
    }
    assert_eq!(uncovered, BTreeSet::new());
}

/// On CI the recorded verdicts are compared with the live tool, so that the record cannot rot.
#[test]
fn the_recorded_verdicts_are_those_of_the_live_validator() {
    let Some(validator) = std::env::var_os("HERM_SKILLS_REF") else {
        let get = "pip install skills-ref, and HERM_SKILLS_REF names its `agentskills`";
        return herm_untested::not_run("the recorded verdicts are the live validator's", "the public validator", get);
    };
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/record_skills_ref.py");
    let run = std::process::Command::new("python3").arg(script).arg(validator).arg("--check").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}
