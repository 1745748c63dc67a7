use super::*;
use crate::clock::Timestamp;
use crate::evolver::lessons::lessons;
use crate::evolver::prepare::prepare;
use crate::evolver::{EvidenceCounts, EvidenceRow};
use crate::ids::{Digest, Slug};
use crate::memory::Evidence;

const SKILL: &str = "---\nname: pump\ndescription: Checks pumps.\n---\n# Pump\n\nSteps.\n";

fn row(id: i64, status: EvidenceStatus, summary: &str) -> EvidenceRow {
    let evidence = Evidence {
        task: "t".to_owned(),
        turn: 1,
        tool: "fetch".to_owned(),
        status,
        skills: Vec::new(),
        args: Digest::of(&id.to_le_bytes()),
        arguments: None,
        summary: summary.to_owned(),
        millis: 1,
        at: Timestamp(1_794_733_200_000 + id * 1_000),
    };
    (id, evidence)
}

fn with<T>(rows: &[EvidenceRow], use_it: impl FnOnce(&Brief<'_>) -> T) -> T {
    let skill: Slug = "pump".parse().unwrap();
    let counts = EvidenceCounts { tool_events: 9, skill_events: 1, error_events: 4 };
    use_it(&Brief { skill: &skill, days: 7, through: None, counts, rows })
}

/// The lessons of these rows, and where nothing recurs in them, one of others: without a lesson there is no text at all.
fn taught(rows: &[EvidenceRow]) -> Vec<FailureLesson> {
    let others = [-99, -98].map(|id| row(id, EvidenceStatus::Failed, "no such page"));
    Some(lessons(rows)).filter(|found| !found.is_empty()).unwrap_or_else(|| lessons(&others))
}

fn generated(text: &str, rows: &[EvidenceRow], n: usize) -> Vec<Variant> {
    with(rows, |brief| generate(text, brief, &taught(rows), false, n))
}

fn selected(variants: &[Variant]) -> Vec<usize> {
    variants.iter().filter(|variant| variant.selected).map(|variant| variant.index).collect()
}

fn fine(count: i64) -> Vec<EvidenceRow> {
    let said = "a page of some length that says what was found there, and a little more than that ".repeat(3);
    (0..count).rev().map(|id| row(id, EvidenceStatus::Ok, &said)).collect()
}

#[test]
fn the_first_of_one_is_the_default_to_the_byte() {
    for text in [SKILL.to_owned(), format!("{SKILL}{}\n", "x".repeat(90_000))] {
        let rows = fine(9);
        let variants = generated(&text, &rows, 1);
        let default = with(&rows, |brief| prepare(&text, brief, &taught(&rows), &VariantSpec::DEFAULT, false)).unwrap();
        assert_eq!(variants.iter().map(|variant| variant.prepared.clone()).collect::<Vec<_>>(), [Some(default)]);
    }
}

#[test]
fn there_are_one_to_four_and_the_same_each_time() {
    let rows = fine(9);
    for (asked, given) in [(0, 1), (1, 1), (3, 3), (4, 4), (9, 4)] {
        let variants = generated(SKILL, &rows, asked);
        assert_eq!(variants.len(), given);
        assert_eq!(variants, generated(SKILL, &rows, asked));
        assert_eq!(selected(&variants), [select(&variants)]);
    }
}

#[test]
fn saying_less_is_not_better_by_itself() {
    let variants = generated(SKILL, &fine(9), 4);
    assert_eq!(selected(&variants), [0], "{variants:#?}");
}

#[test]
fn failures_that_only_the_wide_one_shows_make_it_the_best() {
    let mut rows = fine(6);
    for (id, said) in [(-1, "no route"), (-2, "no key"), (-3, "bad name")] {
        rows.push(row(id, EvidenceStatus::Failed, said));
    }
    assert_eq!(selected(&generated(SKILL, &rows, 4)), [2]);
    // The same failure thrice tells no more than once.
    let mut rows = fine(3);
    rows.insert(0, row(20, EvidenceStatus::Failed, "no route after 1 s"));
    rows.extend((1..4).map(|id| row(-id, EvidenceStatus::Failed, &format!("no route after {id} s"))));
    assert_eq!(selected(&generated(SKILL, &rows, 4)), [0]);
}

#[test]
fn variants_show_other_rows_where_the_evidence_differs() {
    // The newest five are all alike; what differs is older.
    let mut rows = fine(6);
    rows.push(row(-1, EvidenceStatus::Failed, "no route after 3 s"));
    rows.push(row(-2, EvidenceStatus::Refused, "there is no such page"));
    rows.push(row(-3, EvidenceStatus::Failed, "no key"));
    let shown = |at: usize| {
        let text = generated(SKILL, &rows, 3)[at].prepared.clone().unwrap().content;
        ["no route", "there is no such page", "no key", "a page of"]
            .map(|said| text.matches(&format!("— `{said}")).count())
    };
    assert_eq!(shown(0), [0, 0, 0, 5], "the newest five");
    assert_eq!(shown(1), [1, 1, 0, 1], "the newest of three kinds");
    assert_eq!(shown(2), [1, 1, 1, 5], "all that failed, and the newest");
    // Where all is alike, they show the same rows, as many as each has room for.
    let alike = fine(9);
    let count = |at: usize| {
        let variants = generated(SKILL, &alike, 3);
        variants[at].prepared.as_ref().unwrap().content.matches("— `a page of").count()
    };
    assert_eq!([count(0), count(1), count(2)], [5, 3, 8]);
    assert_eq!((selected(&generated(SKILL, &rows, 4)), selected(&generated(SKILL, &alike, 4))), (vec![2], vec![0]));
}

#[test]
fn what_stands_in_the_skill_beats_what_is_beside_it() {
    let variants = generated(SKILL, &fine(9), 4);
    let last = variants.last().unwrap();
    assert_eq!(last.size_strategy, Some(SizeStrategy::Spilled));
    assert_eq!(last.support_files, ["references/curator-evolver-auto.md"]);
    assert!(variants.iter().take(3).all(|variant| variant.score > last.score));
    // Near the soft cap only the short one still fits.
    let length = |at: usize| generated(SKILL, &fine(9), 4)[at].content_chars - SKILL.len();
    let text = format!("{SKILL}{}\n", "x".repeat(SOFT_CAP - SKILL.len() - 1 - length(1)));
    assert!(length(1) < length(0));
    let variants = generated(&text, &fine(9), 4);
    assert_eq!(selected(&variants), [1]);
    assert_eq!(variants[0].size_strategy, Some(SizeStrategy::Spilled));
}

#[test]
fn only_the_selected_one_carries_the_file_beside_the_skill() {
    let text = format!("{SKILL}{}\n", "x".repeat(95_000));
    let variants = generated(&text, &fine(9), 4);
    let carried: Vec<_> = variants
        .iter()
        .map(|variant| variant.prepared.as_ref().is_some_and(|prepared| prepared.support.is_some()))
        .collect();
    assert_eq!(carried, variants.iter().map(|variant| variant.selected).collect::<Vec<_>>());
}

#[test]
fn where_nothing_recurs_there_is_no_text() {
    let once = [row(1, EvidenceStatus::Failed, "no route"), row(2, EvidenceStatus::Ok, "a page")];
    for rows in [&[][..], &once[1..], &once[..]] {
        let variants = with(rows, |brief| generate(SKILL, brief, &lessons(rows), false, 4));
        assert!(
            variants
                .iter()
                .all(|one| one.skipped_reason == Some(PrepareSkipReason::NothingToSay) && one.prepared.is_none())
        );
    }
}

#[test]
fn a_skipped_one_says_why() {
    let variants = generated(&"x".repeat(HARD_CAP + 1), &fine(2), 2);
    let reasons: Vec<_> = variants.iter().map(|variant| (variant.skipped_reason, variant.score)).collect();
    assert_eq!(reasons, [(Some(PrepareSkipReason::HardCap), -1_000_000); 2]);
    assert_eq!(selected(&variants), [0]);
}

#[test]
fn a_variant_is_reported_with_these_fields() {
    let variants = generated(SKILL, &[row(1, EvidenceStatus::Failed, "no route")], 1);
    let mut json = serde_json::to_value(&variants).unwrap();
    json[0]["content_chars"] = 0.into();
    let expected = serde_json::json!([{
        "index": 0,
        "name": "default-verify-first",
        "spec": {"evidence_limit": 5, "guidance_style": "verify-first", "force_spillover": false},
        "size_strategy": "inline",
        "skipped_reason": null,
        "content_chars": 0,
        "support_files": [],
        "score": 116,
        "score_breakdown": [
            {"what": "inline", "points": 100},
            {"what": "lessons", "points": 3},
            {"what": "different-failures", "points": 2},
            {"what": "rows", "points": 1},
            {"what": "slack", "points": 10},
        ],
        "selected": true,
    }]);
    assert_eq!(json, expected);
}
