use super::*;
use crate::clock::Timestamp;
use crate::evolver::lessons::lessons;
use crate::evolver::variants::SPECS;
use crate::evolver::{EvidenceCounts, EvidenceRow};
use crate::ids::{Digest, Slug};
use crate::memory::{Evidence, EvidenceStatus};

const SKILL: &str = "---\nname: pump\ndescription: Checks pumps.\n---\n# Pump\n\nSteps.\n";

fn rows(count: i64) -> Vec<EvidenceRow> {
    let evidence = |id: i64| Evidence {
        task: "t".to_owned(),
        turn: 1,
        tool: "fetch".to_owned(),
        status: if id % 2 == 0 { EvidenceStatus::Failed } else { EvidenceStatus::Ok },
        skills: Vec::new(),
        args: Digest::of(&id.to_le_bytes()),
        arguments: None,
        summary: format!("said {id} \0 <!-- curator-evolver:auto:end -->\n---"),
        millis: 1,
        at: Timestamp(1_794_733_200_000 + id * 1_000),
    };
    (0..count).rev().map(|id| (id, evidence(id))).collect()
}

fn prepared(
    text: &str,
    rows: &[EvidenceRow],
    spec: &VariantSpec,
    has_support: bool,
) -> Result<PreparedSkill, PrepareSkip> {
    let skill: Slug = "pump".parse().unwrap();
    let counts = EvidenceCounts { tool_events: 9, skill_events: 1, error_events: 4 };
    let through = rows.first().map(|(_, evidence)| evidence.at);
    prepare(text, &Brief { skill: &skill, days: 7, through, counts, rows }, &lessons(rows), spec, has_support)
}

fn long(chars: usize) -> String {
    let mut text = SKILL.to_owned();
    text.extend(std::iter::repeat_n('ä', chars - 1 - SKILL.len()));
    text.push('\n');
    text
}

#[test]
fn a_second_pass_over_the_same_evidence_changes_nothing() {
    for (text, spec) in
        [(SKILL.to_owned(), &SPECS[0]), (SKILL.replace('\n', "\r\n"), &SPECS[2]), (long(89_500), &SPECS[0])]
    {
        let rows = rows(6);
        let first = prepared(&text, &rows, spec, false).unwrap();
        assert!(first.changed && first.content.starts_with(&text));
        let second = prepared(&first.content, &rows, spec, first.support.is_some()).unwrap();
        assert_eq!(second, PreparedSkill { changed: false, ..first.clone() });
        assert!(second.is_settled(first.support.as_ref().map(|file| file.content.as_str())));
        assert_eq!(structural(&second.content), Ok(()));
    }
}

#[test]
fn up_to_the_soft_cap_the_block_stands_in_the_skill_and_above_it_beside() {
    let rows = rows(30);
    let block = prepared(SKILL, &rows, &SPECS[0], false).unwrap().content.chars().count() - SKILL.chars().count();
    let fits = prepared(&long(SOFT_CAP - block), &rows, &SPECS[0], false).unwrap();
    assert_eq!((fits.size, fits.content_chars, fits.support), (SizeStrategy::Inline, SOFT_CAP, None));

    let spilled = prepared(&long(SOFT_CAP - block + 1), &rows, &SPECS[0], false).unwrap();
    assert_eq!(spilled.size, SizeStrategy::Spilled);
    assert_eq!(spilled.content_chars, spilled.content.chars().count());
    assert!(spilled.content.contains("- All of it: `references/curator-evolver-auto.md` beside this skill\n"));
    assert_eq!(spilled.content.lines().filter(|line| line.starts_with("- 2026")).count(), 1);
    let support = spilled.support.unwrap();
    assert_eq!(support.path, "references/curator-evolver-auto.md");
    assert_eq!(support.content.lines().filter(|line| line.starts_with("- 2026")).count(), 30);
    assert!(
        support.content.contains("## Recurring problems\n\n- `fetch` failed 15 times in 1 task"),
        "{}",
        support.content
    );
    assert_eq!(block::find(&support.content), BlockMatch::None);
    assert!(!support.content.contains('\0'));
}

#[test]
fn above_the_hard_cap_a_skill_is_left_alone() {
    let skip = Err(PrepareSkip { reason: PrepareSkipReason::HardCap });
    assert_eq!(prepared(&long(HARD_CAP + 1), &rows(1), &SPECS[0], false), skip);
    assert_eq!(prepared(&long(HARD_CAP - 10), &rows(3), &SPECS[0], false), skip);
    assert_eq!(prepared(&long(97_000), &rows(3), &SPECS[0], false).map(|found| found.size), Ok(SizeStrategy::Spilled));
}

#[test]
fn where_nothing_failed_again_and_again_there_is_no_block() {
    // One of two rows failed, and once is an accident.
    for count in [0, 1, 2] {
        let skip = Err(PrepareSkip { reason: PrepareSkipReason::NothingToSay });
        assert_eq!(prepared(SKILL, &rows(count), &SPECS[0], false), skip, "{count}");
    }
    assert!(prepared(SKILL, &rows(3), &SPECS[0], false).is_ok_and(|prepared| prepared.changed));
}

#[test]
fn broken_markers_are_a_reason_to_leave_it_alone_too() {
    let text = format!("{SKILL}\n{}\n\nmore of the user's\n", block::START);
    let skip = PrepareSkip { reason: PrepareSkipReason::Markers(BlockFlaw::Unbalanced) };
    assert_eq!(prepared(&text, &rows(1), &SPECS[0], false), Err(skip));
}

#[test]
fn a_file_that_is_no_longer_needed_is_said_to_be_so() {
    let inline = prepared(SKILL, &rows(3), &SPECS[0], true).unwrap();
    assert!(inline.drop_support && !inline.is_settled(Some("old")));
    let again = prepared(&inline.content, &rows(3), &SPECS[0], true).unwrap();
    assert_eq!((again.changed, again.drop_support, again.is_settled(Some("old"))), (false, true, false));
    assert!(again.is_settled(None));
    let spilled = prepared(SKILL, &rows(3), &SPECS[3], true).unwrap();
    assert!(!spilled.drop_support);
}

#[test]
fn the_file_beside_a_skill_is_bounded() {
    let mut rows = rows(2_000);
    for (_, evidence) in &mut rows {
        evidence.summary = "ä x".repeat(200);
    }
    let support = prepared(SKILL, &rows, &SPECS[3], false).unwrap().support.unwrap().content;
    assert!(support.len() <= MAX_SUPPORT_BYTES && support.len() > MAX_SUPPORT_BYTES / 2);
    assert!(support.ends_with("older ones, for which there is no room\n"));
}

#[test]
fn the_structural_check_names_what_is_wrong() {
    for text in [SKILL, "# No front matter\n", "\u{feff}---\nname: x\n---\n", &SKILL.replace('\n', "\r\n")] {
        assert_eq!(structural(text), Ok(()), "{text:?}");
    }
    let marked = |text: &str| text.replace('S', block::START).replace('E', block::END);
    for (text, part) in [
        (long(HARD_CAP + 1), "100001 characters; the most is 100000"),
        (marked("a\nE\nS\n"), "markers-reversed"),
        (marked("a\nS\n"), "markers-unbalanced"),
        ("a\0b".to_owned(), "NUL"),
        ("---\n---\nbody\n".to_owned(), "it has no keys"),
        ("---\nname: x\n".to_owned(), "not closed"),
        ("---\n- a\n- b\n---\n".to_owned(), "YAML mapping"),
        ("---\nname: [x\n---\n".to_owned(), "YAML"),
        ("---\nname: a: b\n---\n".to_owned(), "YAML"),
    ] {
        let error = structural(&text).unwrap_err();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}
