use super::*;
use crate::clock::Timestamp;
use crate::memory::{Evidence, EvidenceStatus};
use proptest::prelude::*;

fn seen(text: &str) -> MiningObservation {
    MiningObservation { text: text.to_owned(), refs: vec!["session:1".to_owned()], ..MiningObservation::default() }
}

fn kind(text: &str) -> (CandidateKind, f64) {
    let candidate = mine(&seen(text));
    (candidate.kind, candidate.confidence)
}

fn row(number: i64, status: EvidenceStatus, skills: &[&str], summary: &str) -> crate::evolver::EvidenceRow {
    let evidence = Evidence {
        task: "t-1".to_owned(),
        turn: 1,
        tool: "http_get".to_owned(),
        status,
        skills: skills.iter().map(|name| name.parse().unwrap()).collect(),
        args: Digest::of(b"{}"),
        arguments: None,
        summary: summary.to_owned(),
        millis: 3,
        at: Timestamp(0),
    };
    (number, evidence)
}

const STEPS: &str = "1. open the valve\n2. wait for pressure\n3. close it";

#[test]
fn a_candidate_says_everything_and_needs_a_person() {
    let observation = MiningObservation {
        text: "connection refused".to_owned(),
        refs: vec!["b".to_owned(), "a".to_owned(), "b".to_owned()],
        target_skill: Some("pump".to_owned()),
        tool: Some("http_get".to_owned()),
        is_error: true,
        skill_chars: None,
    };
    let candidate = mine(&observation);
    assert_eq!(
        json!(candidate),
        json!({
            "id": candidate.id,
            "kind": "replay_benchmark",
            "title": "Replay a failure of http_get: connection refused",
            "rationale": "connection refused",
            "confidence": 0.75,
            "evidence_refs": ["a", "b"],
            "target_skill": "pump",
            "auto_apply_allowed": false,
            "requires_human_review": true,
            "metadata": { "rule": "failure", "tool": "http_get" },
        })
    );
    candidate.check().unwrap();
    assert_eq!(serde_json::from_value::<ReviewCandidate>(json!(candidate)).unwrap(), candidate);
}

#[test]
fn the_first_rule_that_fits_decides() {
    use CandidateKind::{Ignore, Memory, ReplayBenchmark, SkillNew, SkillUpdate};
    // A listing, even of rules and steps.
    assert_eq!(kind("1|never do this\n2|always that"), (Ignore, 0.2));
    // At the cap comes before rules.
    assert_eq!(kind("The skill is over the cap. Never add to it."), (SkillUpdate, 0.7));
    // Rules before failures, failures before steps, steps before what passes.
    assert_eq!(kind("Never retry: it failed with exit code 2"), (Memory, 0.9));
    assert_eq!(kind(&format!("Error: no route\n{STEPS}")), (ReplayBenchmark, 0.75));
    assert_eq!(kind(&format!("{STEPS} (TODO)")), (SkillNew, 0.65));
    assert_eq!(kind("TODO"), (Ignore, 0.2));
    assert_eq!(kind("The weather was fine."), (Ignore, 0.1));
}

#[test]
fn a_listing_of_a_file_is_nothing_unless_it_failed_or_its_size_is_known() {
    let listing = "  1|# Title\n  2|never mind\n";
    assert_eq!(mine(&seen(listing)).kind, CandidateKind::Ignore);
    assert_ne!(mine(&MiningObservation { is_error: true, ..seen(listing) }).kind, CandidateKind::Ignore);
    let large = MiningObservation { skill_chars: Some(95_000), ..seen(listing) };
    assert_eq!(mine(&large).kind, CandidateKind::SkillUpdate);
    assert_eq!(kind("1|one line").1, 0.1, "one is no listing");
}

#[test]
fn a_skill_near_its_cap_is_to_be_split_and_not_added_to() {
    let of = |chars| {
        mine(&MiningObservation { skill_chars: Some(chars), target_skill: Some("pump".to_owned()), ..seen(STEPS) })
    };
    let candidate = of(90_000);
    assert_eq!((candidate.kind, candidate.confidence), (CandidateKind::SkillUpdate, 0.7));
    assert_eq!(candidate.title, "Make room in pump before more is added");
    assert_eq!(
        candidate.metadata,
        *json!({ "rule": "near-cap", "direct_append_allowed": false, "skill_chars": 90_000 }).as_object().unwrap()
    );
    assert_eq!(of(89_999).confidence, 0.65);
    for text in ["SKILL.md is near the cap", "this skill is too large now", "技能内容接近上限"] {
        assert_eq!(kind(text), (CandidateKind::SkillUpdate, 0.7), "{text}");
    }
    assert_ne!(kind("the response was too large").0, CandidateKind::SkillUpdate);
}

#[test]
fn rules_of_conduct_are_for_memory_in_english_and_chinese() {
    for text in [
        "Never push to main.",
        "- always run the tests first",
        "Please do not email customers",
        "User: don't touch the billing table",
        "It was fine. From now on use metric units",
        "The user prefers short answers",
        "Deploying requires human approval",
        "Ask before deleting anything",
        "Agents must not read that folder",
        "永远不要直接推送到主分支",
        "未经批准禁止删除数据",
        "请记住用户喜欢简短的回答",
    ] {
        assert_eq!(kind(text), (CandidateKind::Memory, 0.9), "{text}");
    }
    for text in ["It never happened again", "name must not be empty", "the valve is always open", "不同的结果"] {
        assert_ne!(kind(text).0, CandidateKind::Memory, "{text}");
    }
}

#[test]
fn failures_are_to_be_replayed_and_no_errors_is_no_failure() {
    for text in [
        "Traceback (most recent call last):\n  File \"x.py\"",
        "error: linking failed",
        "error[E0308]: mismatched types",
        "the build failed with 3 problems",
        "exit code 2",
        "process exited with code 137",
        "{\"success\": false, \"output\": \"nothing\"}",
        "{\"exit_code\": 3, \"output\": \"nothing\"}",
        "{\"error\": \"no such host\"}",
        "编译失败",
    ] {
        assert_eq!(kind(text), (CandidateKind::ReplayBenchmark, 0.75), "{text}");
    }
    for text in [
        "0 errors, all fine",
        "finished without error: nothing to do",
        "exit code 0",
        "{\"success\": true, \"error\": null, \"output\": \"fine\"}",
        "{\"exit_code\": \"0\", \"output\": \"fine\"}",
        "the error handling chapter",
    ] {
        assert_eq!(kind(text).0, CandidateKind::Ignore, "{text}");
    }
}

#[test]
fn a_way_to_do_things_updates_its_skill_or_makes_one() {
    for text in [
        STEPS,
        "1) open 2) close",
        "Step 1 open the valve. Step 2 close it",
        "First look at the gauge, then run `pump --reset` on it",
        "Run `make build` and `make install`",
        "第一步打开阀门，第二步关闭",
        "首先检查压力，然后重启",
    ] {
        assert_eq!(kind(text), (CandidateKind::SkillNew, 0.65), "{text}");
        let targeted = mine(&MiningObservation { target_skill: Some("pump".to_owned()), ..seen(text) });
        assert_eq!((targeted.kind, targeted.confidence), (CandidateKind::SkillUpdate, 0.65), "{text}");
    }
    for text in ["version 1. is out", "then and next", "use `x`", "first `a b", "costs 3. and 7. more"] {
        assert_eq!(kind(text).0, CandidateKind::Ignore, "{text}");
    }
}

#[test]
fn what_will_mean_nothing_tomorrow_is_ignored() {
    for text in
        ["", "  \n", "#123", "deadbeef1", "0e8b5250e8b5250e8b5250e8b5250e8b5250e8b52", "PR 7 merged", "todo: x", "WIP"]
    {
        assert_eq!(kind(text), (CandidateKind::Ignore, 0.2), "{text:?}");
    }
    assert_eq!(kind("#12 things"), (CandidateKind::Ignore, 0.1));
    assert_eq!(mine(&seen("")).title, "Nothing to do");
}

#[test]
fn the_words_of_a_json_result_are_found() {
    let said = |text: &str| mine(&seen(text)).rationale;
    assert_eq!(said(r#"{"content": "c", "summary": "s"}"#), "s");
    assert_eq!(said(r#"{"summary": "", "output": {"text": "deep"}}"#), "deep");
    assert_eq!(said(r#"{"results": [{"text": "one"}, {"x": 1}, "two"]}"#), "one two");
    assert_eq!(said(r#"{"results": ["late"], "error": "early"}"#), "early");
    assert_eq!(said(r#"{"other": 1}"#), r#"{"other": 1}"#);
    assert_eq!(said("{not json"), "{not json");
}

#[test]
fn ids_cover_the_text_and_nothing_that_is_only_when() {
    let failure = |text: &str| MiningObservation { tool: Some("t".to_owned()), is_error: true, ..seen(text) };
    let prefix = "the same long beginning ".repeat(20);
    let (one, two) = (mine(&failure(&format!("{prefix}a"))), mine(&failure(&format!("{prefix}b"))));
    assert_eq!((&one.title, &one.rationale, &one.evidence_refs), (&two.title, &two.rationale, &two.evidence_refs));
    assert_ne!(one.id, two.id);
    assert_eq!(mine(&failure("x")), mine(&failure("x")));
    let reordered = |refs: &[&str]| {
        let refs = refs.iter().map(|one| (*one).to_owned()).collect();
        mine(&MiningObservation { refs, ..failure("x") }).id
    };
    assert_eq!(reordered(&["a", "b"]), reordered(&["b", "a", "b"]));
    assert_ne!(reordered(&["a", "b"]), reordered(&["ab"]));
    assert_eq!(reordered(&["evidence:1"]), reordered(&["evidence:2"]), "the same failure seen again");
    assert_ne!(mine(&failure("x")).id, mine(&MiningObservation { tool: Some("u".to_owned()), ..failure("x") }).id);
    assert_ne!(
        mine(&failure("x")).id,
        mine(&MiningObservation { target_skill: Some("u".to_owned()), ..failure("x") }).id
    );
}

#[test]
fn failures_of_the_evidence_feed_the_queue_and_nothing_else_does() {
    assert_eq!(from_evidence(&row(3, EvidenceStatus::Ok, &["pump"], "fine")), None);
    let observation = from_evidence(&row(4, EvidenceStatus::Failed, &["pump"], "no route")).unwrap();
    let candidate = mine(&observation);
    assert_eq!(candidate.kind, CandidateKind::ReplayBenchmark);
    assert_eq!(candidate.evidence_refs, ["evidence:4"]);
    assert_eq!(candidate.target_skill.as_ref().map(Slug::as_str), Some("pump"));
    let again = from_evidence(&row(9, EvidenceStatus::Refused, &["pump"], "no route")).unwrap();
    assert_eq!(mine(&again).id, candidate.id);
    let several = from_evidence(&row(5, EvidenceStatus::Failed, &["a", "b"], "no route")).unwrap();
    assert_eq!(several.target_skill, None);
}

#[test]
fn a_target_that_is_no_skill_name_becomes_the_nearest_one_and_is_kept() {
    let of = |name: &str| mine(&MiningObservation { target_skill: Some(name.to_owned()), ..seen(STEPS) });
    let near = of("My Pump!");
    assert_eq!(near.target_skill.as_ref().map(Slug::as_str), Some("my-pump"));
    assert_eq!(near.metadata.get("target_given"), Some(&json!("My Pump!")));
    let none = of("泵");
    assert_eq!((none.kind, none.target_skill), (CandidateKind::SkillNew, None));
}

#[test]
fn what_is_shown_is_one_bounded_line_without_secrets() {
    let key = format!("sk-ant-{}", "a1B2".repeat(8));
    let text = format!("Never use\n\n{key}\u{1b}[31m \u{202e}here {}", "x".repeat(500));
    let refs = vec![format!("log\n{key}"); 3];
    let candidate = mine(&MiningObservation { refs, tool: Some(format!("{key}\n")), ..seen(&text) });
    let shown = json!(candidate).to_string();
    assert!(!shown.contains(&key) && !shown.contains("\\n") && !shown.contains('\u{202e}'), "{shown}");
    assert!(
        candidate.rationale.starts_with("Never use [redacted] [31m here xxx") && candidate.rationale.ends_with('…')
    );
    assert_eq!(candidate.rationale.chars().count(), MAX_RATIONALE);
    assert_eq!(candidate.evidence_refs, ["log [redacted]"]);
    candidate.check().unwrap();
}

#[test]
fn a_candidate_that_claims_to_need_no_person_is_refused() {
    let good = mine(&seen("Never push"));
    let spoilt: [fn(&mut ReviewCandidate); 7] = [
        |one| one.auto_apply_allowed = true,
        |one| one.requires_human_review = false,
        |one| one.confidence = f64::NAN,
        |one| one.id = "../x".to_owned(),
        |one| one.title = " ".to_owned(),
        |one| one.rationale = "a\nb".to_owned(),
        |one| one.evidence_refs = vec!["x".repeat(201)],
    ];
    for spoil in spoilt {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert_eq!(bad.check().unwrap_err().kind(), crate::error::ErrorKind::Refused, "{bad:?}");
    }
}

#[test]
fn a_held_change_names_its_digests_and_is_one_of_its_own() {
    let (skill, before) = ("pump".parse::<Slug>().unwrap(), Digest::of(b"before"));
    let of = |content: &[u8]| ReviewCandidate::change(&skill, before, Digest::of(content), Some(3), "3 failures");
    let change = of(b"after");
    change.check().unwrap();
    assert_eq!(change.change_digests(), Some((before, Digest::of(b"after"))));
    assert_eq!((change.kind.name(), change.title.as_str()), ("change", "Change pump as prepared"));
    assert_eq!(of(b"after"), change);
    assert_ne!(of(b"other").id, change.id);
    assert_eq!(mine(&seen("Never push")).change_digests(), None);
}

#[test]
fn names_of_kinds_and_statuses_are_stable() {
    for kind in CandidateKind::ALL {
        assert_eq!((json!(kind), kind.name().parse::<CandidateKind>().unwrap()), (json!(kind.name()), kind));
    }
    for status in ReviewStatus::ALL {
        assert_eq!((json!(status), status.name().parse::<ReviewStatus>().unwrap()), (json!(status.name()), status));
    }
    assert!("done".parse::<ReviewStatus>().is_err() && "".parse::<CandidateKind>().is_err());
}

#[test]
fn fields_are_read_leniently_and_wrong_types_are_named() {
    let read = |json: &str| MiningObservation::from_json(&serde_json::from_str(json).unwrap());
    assert_eq!(read("{}"), Ok(MiningObservation::default()));
    assert_eq!(
        read(
            r#"{"text": {"output": "x"}, "evidence_ref": 7, "evidence_refs": ["a", null, 3], "target_skill": "pump",
                "tool_name": "t", "is_error": "True", "skill_md_size": "12", "more": []}"#
        ),
        Ok(MiningObservation {
            text: r#"{"output":"x"}"#.to_owned(),
            refs: vec!["7".to_owned(), "a".to_owned(), "3".to_owned()],
            target_skill: Some("pump".to_owned()),
            tool: Some("t".to_owned()),
            is_error: true,
            skill_chars: Some(12),
        })
    );
    for (bad, why) in [
        ("[]", "it is not a JSON object"),
        (r#"{"is_error": "maybe"}"#, "is_error is neither true nor false"),
        (r#"{"skill_md_size": -1}"#, "skill_md_size is not a number of characters"),
        (r#"{"tool_name": []}"#, "tool_name is neither a text nor a number"),
        (r#"{"evidence_refs": [{}]}"#, "evidence_refs is neither a text nor a number"),
    ] {
        assert_eq!(read(bad), Err(why.to_owned()));
    }
}

#[test]
fn one_bad_line_stops_no_other() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(MAX_LINE_BYTES));
    let mut input = b"\xef\xbb\xbf{\"text\": \"Never push\"}\r\n\n{\"text\": \"\xff\"}\nnot json\n{\"text\"".to_vec();
    for line in [&deep, &long, "{\"text\": \"\\ud800\"}", "{\"text\": \"Always test\"}"] {
        input.push(b'\n');
        input.extend_from_slice(line.as_bytes());
    }
    let mined = read_lines(&input);
    let kinds: Vec<&str> = mined.candidates.iter().map(|one| one.kind.name()).collect();
    assert_eq!(kinds, ["memory", "memory"]);
    assert_eq!(mined.bad.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
    assert_eq!(mined.bad[0].1, "it is not UTF-8");
    assert_eq!(mined.bad[2].1, "it is cut off: not a whole JSON object");
    assert_eq!(mined.bad[4].1, "it is longer than 1048576 bytes");
}

#[test]
fn too_many_lines_are_said_and_not_read() {
    let mut input = b"{}\n{}\n".to_vec();
    // Empty lines count as well: reading them is work, too.
    input.resize(input.len() + MAX_LINES - 2, b'\n');
    let mined = read_lines(&input);
    assert_eq!((mined.candidates.len(), mined.bad), (2, Vec::new()));
    input.extend_from_slice(b"{}");
    let mined = read_lines(&input);
    assert_eq!(mined.candidates.len(), 2);
    assert_eq!(mined.bad, [(MAX_LINES + 1, "there are more than 100000 lines; the rest was not read".to_owned())]);
}

proptest! {
    #[test]
    fn whatever_is_seen_gives_one_candidate_that_may_be_stored(
        text in "(?s).{0,300}", tool in prop::option::of(".{0,80}"), target in prop::option::of(".{0,80}"), is_error: bool,
    ) {
        let observation = MiningObservation { tool, target_skill: target, is_error, ..seen(&text) };
        let candidate = mine(&observation);
        prop_assert!(candidate.check().is_ok(), "{:?}", candidate);
        prop_assert_eq!(mine(&observation), candidate);
    }

    #[test]
    fn whatever_the_bytes_reading_them_does_not_panic(input in prop::collection::vec(any::<u8>(), 0..400)) {
        let mined = read_lines(&input);
        prop_assert!(mined.candidates.len() + mined.bad.len() <= input.len() + 1);
    }
}
