//! What is written down after a hard task.

use super::*;
use crate::skill::{guard, rules};
use herm_agent::backend::Completion;
use session::Turn;
use session::synthesis::{self, SynthesizedSkill};

/// The turns of a session, as the transcript keeps them.
fn turns(seed: &Seed, failing: &str) -> Vec<Turn> {
    let (role, input) = (seed.role(), seed.input());
    let scene = Scene { role: &role, input: &input, tools: seed_tools(), skills: seed.skills(), turns: 8 };
    let mut turns = Vec::new();
    scene.run(|tool, args| {
        let report = if tool == failing { failed("gone") } else { seed.call(tool, args) };
        let call = session::machine::ToolCall { tool: tool.to_owned(), args: args.clone() };
        turns.push(Turn { reply: completion(String::new()), call: Some(call), report: Some(report.clone()) });
        report
    });
    turns
}

fn completion(text: String) -> Completion {
    let model = "reflex-1 (no language model)".to_owned();
    Completion { text, finish: FinishReason::Stop, model, tokens: None, attestation: None }
}

fn decide(seed: &Seed, failing: &str, skills: &[SkillSummary], archived: &[&str]) -> (Value, Option<SynthesizedSkill>) {
    let archived: Vec<_> = archived.iter().map(|slug| slug.parse().unwrap()).collect();
    let answer = run(seed, 8).stop.answer.unwrap();
    let turns = turns(seed, failing);
    let ask = synthesis::question(
        roles(&seed_tools()),
        &seed.input(),
        &turns,
        &answer,
        skills,
        &archived,
        &TaskLimits::default(),
    );
    let text = reply(&ask);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(problems(&ask.reply_schema, &value), Vec::<String>::new());
    (value, synthesis::decide(&completion(text), Default::default()).unwrap())
}

#[test]
fn a_procedure_is_named_after_its_patterns_and_breaks_no_rule() {
    for (seed, expected) in [
        (&AUDIT, "check-reentrancy-and-share-inflation"),
        (&TRIAGE, "check-connection-pool-exhausted-and-upstream-timeout"),
        (&CLAUSE, "check-termination-imbalance-and-unilateral-change"),
    ] {
        let (value, decision) = decide(seed, "", &seed.skills(), &[]);
        let Some(SynthesizedSkill { slug, description, body }) = decision else { panic!("{value}") };
        assert_eq!((slug.as_str(), value["action"].as_str()), (expected, Some("create")));
        assert!(rules::is_valid_name(slug.as_str()) && description.starts_with("Use when scan hits "), "{description}");
        assert_eq!(guard::objections(&format!("{description}\n{body}")), Vec::new());
        assert!(body.contains("No language model wrote it.") && body.contains("1. Call `outline`"), "{body}");
    }
}

#[test]
fn nothing_is_written_twice() {
    let (value, _) = decide(&AUDIT, "", &AUDIT.skills(), &[]);
    let written = SkillSummary {
        slug: value["name"].as_str().unwrap().parse().unwrap(),
        description: value["description"].as_str().unwrap().into(),
        category: None,
        external: false,
    };
    assert_eq!(decide(&AUDIT, "", std::slice::from_ref(&written), &[]).1, None);
    let renamed = SkillSummary { slug: "my-own-name".parse().unwrap(), ..written };
    let (value, decision) = decide(&AUDIT, "", &[renamed], &[]);
    assert_eq!((decision, value["reason"].as_str()), (None, Some("the skill my-own-name covers these patterns")));
}

#[test]
fn an_archived_procedure_is_brought_back() {
    let (value, _) = decide(&AUDIT, "", &[], &["check-reentrancy-and-share-inflation"]);
    assert_eq!(value["action"], "update");
}

#[test]
fn what_failed_is_said_and_without_hits_nothing_is_learned() {
    let (value, _) = decide(&AUDIT, "recall", &[], &[]);
    assert!(value["body"].as_str().unwrap().ends_with("Did not work, and was done without: `recall`.\n"), "{value}");
    assert_eq!(decide(&AUDIT, "scan", &[], &[]).1, None);
}
