//! What a report promises.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::budget::{SuccessorBudget, SuccessorUsage};
use crate::clock::Timestamp;
use crate::evaluation::Goal;
use crate::judge::fixtures::{evaluation, goal, guard, pairs};
use crate::judge::judge;
use crate::measure::{EvaluationArm, Metric, SampleCheck};
use crate::verdict::{Artifact, PatchBase, RuntimeIdentity, SandboxSummary, VERDICT_SCHEMA};

fn patch(title: &str, why: &str) -> Patch {
    // A patch with control characters is no patch.
    let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let (title, why) = (plain(title), plain(why));
    let file = json!({
        "schema": "herm/patch@1", "title": title, "why": why,
        "changes": [
            { "kind": "component", "component": "compressor", "to": "salient" },
            { "kind": "constants", "set": { "shrunkBytes": 640 } },
            { "kind": "role", "edits": [{ "find": why, "replace": title }] },
        ],
    });
    Patch::parse(&serde_json::to_vec(&file).unwrap()).unwrap()
}

/// The verdict of these samples, with every text that a worker or a file could choose set to `text`.
fn verdict(evaluation: &Evaluation, samples: &[EvaluationSample], text: &str) -> Verdict {
    let judged = judge(evaluation, samples, 7);
    let at = Timestamp::parse("2026-11-16T03:04:05.678Z").unwrap();
    Verdict {
        schema: VERDICT_SCHEMA.to_owned(),
        verdict: judged.verdict,
        confidence: judged.confidence,
        patch_hash: format!("sha256:{}", "ab".repeat(32)),
        evaluation_hash: format!("sha256:{}", "cd".repeat(32)),
        evaluation_summary: judged.summary,
        caveats: judged.caveats.into_iter().chain([text.to_owned()]).collect(),
        left_out: Vec::new(),
        artifacts: vec![Artifact { kind: text.to_owned(), path: text.to_owned(), sha256: text.to_owned(), bytes: 9 }],
        reason: judged.reason,
        base: PatchBase {
            brain: "1".parse().unwrap(),
            version: 4,
            bundle_hash: "0f".repeat(32).parse().unwrap(),
            touched: None,
        },
        identity: RuntimeIdentity { before: text.to_owned(), after: None },
        budget: SuccessorBudget::default(),
        spent: SuccessorUsage {
            wall_millis: 94_300,
            cpu_millis: 120_000,
            memory_bytes: 300_000_000,
            ..SuccessorUsage::default()
        },
        walls: SandboxSummary {
            tier: Some("own namespaces".to_owned()),
            layers: vec!["seccomp".to_owned(), text.to_owned()],
            canary: vec![text.to_owned()],
        },
        seed: 7,
        checks: judged.checks,
        statistics: judged.statistics,
        started_at: at,
        ended_at: at,
    }
}

fn page(evaluation: &Evaluation, samples: &[EvaluationSample], patch: &Patch, text: &str) -> String {
    let verdict = verdict(evaluation, samples, text);
    VerdictReport { verdict: &verdict, patch, evaluation, samples }.to_html()
}

/// Twelve cases with facts, tokens and a check; one of them regresses if `broken`.
fn measured(broken: bool) -> (Evaluation, Vec<EvaluationSample>) {
    let values: Vec<[f64; 2]> = (0..12).map(|n| [0.4 + 0.01 * f64::from(n), 0.6 + 0.02 * f64::from(n)]).collect();
    let mut samples = pairs(Metric::KeptFacts, &values);
    for (index, sample) in samples.iter_mut().enumerate() {
        let is_patched = sample.arm == EvaluationArm::Patched;
        let less = if is_patched { 2.0 } else { 0.0 };
        sample.metrics.insert(Metric::Tokens, 100.0 + (index / 2) as f64 - less);
        sample.metrics.insert(Metric::Turns, 3.0);
        let passed = !(broken && is_patched && index == 1);
        let found = (!passed).then(|| "something else".to_owned());
        sample.checks.push(SampleCheck { name: "the answer has \"yes\"".to_owned(), passed, found });
    }
    let goals = vec![goal(Metric::KeptFacts, 0.1)];
    (Evaluation { goals, guards: vec![guard(Metric::Tokens, 0.05)], ..evaluation(1) }, samples)
}

/// The headings, captions and rulings of a page, in order.
fn outline(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in page.match_indices('<') {
        let tag = &page[at..];
        for name in ["<h1>", "<h2>", "<h3>", "<caption>", "<b>"] {
            if let Some(rest) = tag.strip_prefix(name) {
                found.push(rest.split('<').next().unwrap());
            }
        }
    }
    found
}

#[test]
fn a_report_has_what_a_reader_looks_for_in_this_order() {
    let (evaluation, samples) = measured(false);
    let page = page(&evaluation, &samples, &patch("Keep more", "Facts get lost"), "A caveat.");
    let shown: Vec<&str> = outline(&page).into_iter().filter(|text| !text.starts_with("case ")).collect();
    assert_eq!(
        shown,
        [
            "Keep more",
            "100 %",
            "Before relying on it",
            "What was asked",
            "Goals and guards, and how they stand",
            "facts kept",
            "tokens",
            "What changed",
            "Before and after",
            "Facts kept",
            "Tokens",
            "Checks",
            "24 of 24",
            "Checks that passed on both sides",
            "Statistics",
            "Means over pairs. The interval comes from 2,000 resamples of cases from the seed 7; p is that of a \
             sign-flip test.",
            "facts kept",
            "tokens",
            "turns",
            "The patch",
            "What it was evaluated against",
            "Budgets",
            "What the successor used of what it was allowed",
            "Walls",
            "own namespaces",
            "Layers",
            "Do it again",
            "Artifacts",
        ]
    );
    for text in
        ["APPROVE", "herm successor evaluate 1 --patch", "2026-11-16T03:04:05.678Z", "▲ 56 % better", "1 min 34 s"]
    {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<svg role=\"img\"").count(), page.matches("<desc id=").count());
}

#[test]
fn a_regression_stands_first_and_says_what_was_found() {
    let (evaluation, samples) = measured(true);
    let page = page(&evaluation, &samples, &patch("Keep more", "Facts get lost"), "x");
    let row = page.find("Checks that did not pass everywhere").unwrap();
    assert!(page[row..].find("regressed").unwrap() < page[row..].find("passes").unwrap());
    assert!(page.contains("found: something else"));
    assert!(page.contains("<span class=\"tag bad\">check_regressed</span>"));
}

#[test]
fn a_rejection_without_a_comparison_has_a_report_as_well() {
    let (evaluation, _) = measured(false);
    let page = page(&evaluation, &[], &patch("Keep more", "Facts get lost"), "x");
    assert!(page.contains("not measured") && page.ends_with("</html>\n"));
}

#[test]
fn a_report_stands_alone() {
    let (evaluation, samples) = measured(true);
    let page = page(&evaluation, &samples, &patch("Keep more", "Facts get lost"), "x");
    for outside in [
        "<script",
        "<link",
        "<img",
        "<iframe",
        "src=",
        "href=",
        "url(",
        "@import",
        "http://",
        "https://",
        "javascript:",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_report_is_small_whatever_was_measured() {
    let long = "<&\"'😀".repeat(400);
    let mut samples = Vec::new();
    for case in 0..3_000 {
        for arm in EvaluationArm::BOTH {
            let mut sample = crate::judge::fixtures::sample(&format!("{case} {long}"), 0, arm);
            for (index, metric) in Metric::ALL.into_iter().enumerate() {
                sample.metrics.insert(
                    metric,
                    (case * 7 % (100 + index)) as f64 / 200.0
                        + f64::from(u8::from(arm == EvaluationArm::Patched)) / 9.0,
                );
            }
            sample.checks = (0..3)
                .map(|_| SampleCheck { name: long.clone(), passed: case % 2 == 0, found: Some(long.clone()) })
                .collect();
            samples.push(sample);
        }
    }
    let (mut evaluation, _) = measured(false);
    evaluation.title.clone_from(&long);
    evaluation.goals = Metric::ALL.map(|metric| Goal { metric, part: Some("p".to_owned()), by: 0.0 }).to_vec();
    let mut verdict = verdict(&evaluation, &samples, &long);
    verdict.caveats = vec![long.clone(); 5_000];
    verdict.walls.layers = vec![long.clone(); 5_000];
    verdict.walls.canary = vec![long.clone(); 5_000];
    let patch = patch("t", "w");
    let page = VerdictReport { verdict: &verdict, patch: &patch, evaluation: &evaluation, samples: &samples }.to_html();
    assert!(page.len() <= MAX_REPORT_BYTES, "{}", page.len());
    assert!(page.ends_with("</html>\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn hostile_text_never_becomes_markup(noise in "[<>\"'&/a-z\u{202e}\n]{0,12}", which in 0_usize..5) {
        let attack = ["<script>alert(1)</script>", "\"><script>x</script>", "</title><script>", "'onload='x", "</svg><script src=//x>"][which];
        let text = format!("{noise}{attack}{noise}");
        let (mut evaluation, mut samples) = measured(true);
        evaluation.title.clone_from(&text);
        evaluation.parts = vec![crate::judge::fixtures::part(&text)];
        evaluation.goals[0].part = Some(text.clone());
        for sample in &mut samples {
            sample.part.clone_from(&text);
            sample.case = format!("{text}{}", sample.case);
            for check in &mut sample.checks {
                check.name = format!("{text}{}", check.name);
                check.found = Some(text.clone());
            }
        }
        for sample in samples.iter_mut().filter(|sample| sample.case.ends_with("case 003")) {
            sample.failure = Some(text.clone());
        }
        let page = page(&evaluation, &samples, &patch(&text, &text), &text);
        prop_assert!(!page.contains("<script"));
        prop_assert!(!page.contains("'onload='"));
        let turns_text = page.contains('\u{202e}');
        prop_assert!(!turns_text);
        // Every tag that was opened is one of ours: as many as the same page has with harmless texts.
        let calm = |text: &str| text.matches("</").count();
        prop_assert_eq!(calm(&page), calm(&harmless()));
    }
}

/// The page of the test above with texts that need no escape.
fn harmless() -> String {
    let (mut evaluation, mut samples) = measured(true);
    evaluation.goals[0].part = Some("p".to_owned());
    for sample in &mut samples {
        for check in &mut sample.checks {
            check.found = Some("found".to_owned());
        }
    }
    for sample in samples.iter_mut().filter(|sample| sample.case.ends_with("case 003")) {
        sample.failure = Some("why".to_owned());
    }
    page(&evaluation, &samples, &patch("title", "why"), "text")
}
