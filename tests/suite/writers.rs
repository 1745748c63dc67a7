//! Everything that writes skills unattended asks one gate: what is pinned by its record or by its own text, what a
//! person wrote and what came with the agent stays as it is.

use herm::curator::{self, CuratorPolicy, CuratorSkipReason};
use herm::evolver::consolidation::pass::{self as merging, ConsolidationMemory};
use herm::evolver::pass::{
    self as evolving, EvolverCandidateReason, EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions,
};
use herm::evolver::review_queue::{self, ReviewOutcome};
use herm::evolver::select::RankerChain;
use herm::evolver::verification::VerificationOptions;
use herm::evolver::{EvolverApproval, SkillApplyReason, SkillUpdate, apply};
use herm::memory::{Evidence, EvidenceStatus, ImportedSession, OutcomeValue, ReviewStatus, Trial, TrialState};
use herm::skill::provenance::{PriorUndo, SkillFacts, SkillSource, SkillWriter};
use herm::skill::{CreatedBy, SkillState};
use herm::successor::apply::{apply as apply_patch, stage};
use herm::successor::{Patch, PatchChange};
use herm::trial::pass::TrialMemory;
use herm::{Brain, Digest, Draft, ErrorKind, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{rel, slug};
use serde_json::json;

use crate::trials::{look, until_it_ends};

const DAY: i64 = 24 * 60 * 60 * 1_000;

/// What keeps a skill from unattended code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    ByRecord,
    ByText,
    AsAPersons,
    AsTheSeeds,
}

const ALL: [Kept; 4] = [Kept::ByRecord, Kept::ByText, Kept::AsAPersons, Kept::AsTheSeeds];

fn text(name: &str, body: &str, kept: Option<Kept>) -> String {
    let pin = if kept == Some(Kept::ByText) { "pinned: true\n" } else { "" };
    format!("---\nname: {name}\ndescription: Does {name}. Use when {name} is asked for.\n{pin}---\n\n{body}\n")
}

fn step(brain: &mut Brain, kind: StepKind, change: impl FnOnce(&mut herm::brain::Editor<'_>)) {
    let mut draft = Draft::new();
    change(&mut brain.edit(&mut draft));
    brain.settle(&draft, kind, "a step").expect("settled");
}

/// Adds a skill that is kept from unattended code, or one of the agent's own; it was used once.
fn add(brain: &mut Brain, name: &str, body: &str, kept: Option<Kept>) -> String {
    let text = text(name, body, kept);
    let by = match kept {
        Some(Kept::AsAPersons) => CreatedBy::User,
        Some(Kept::AsTheSeeds) => CreatedBy::Seed,
        _ => CreatedBy::Agent,
    };
    step(brain, StepKind::Maintenance, |editor| {
        editor.create_skill(&slug(name), &text, by).expect("made");
        editor.pin_skill(&slug(name), kept == Some(Kept::ByRecord)).expect("pinned");
    });
    text
}

fn now(brain: &Brain, name: &str) -> Option<String> {
    let bytes = brain.read_content(&rel(&format!("skills/{name}.md"))).expect("read")?;
    Some(String::from_utf8(bytes).expect("text"))
}

#[test]
fn what_is_known_of_a_skill_is_its_maker_and_both_kinds_of_pin() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let known = |brain: &Brain, name: &str| brain.skill_facts(&slug(name)).expect("read");
    let facts = |source, pinned| Some(SkillFacts { source, pinned });
    for (kept, expected) in [
        (None, facts(SkillSource::LocalAgentCreated, false)),
        (Some(Kept::ByRecord), facts(SkillSource::LocalAgentCreated, true)),
        (Some(Kept::ByText), facts(SkillSource::LocalAgentCreated, true)),
        (Some(Kept::AsAPersons), facts(SkillSource::User, false)),
        (Some(Kept::AsTheSeeds), facts(SkillSource::Bundled, false)),
    ] {
        let name = format!("skill-{}", ALL.iter().position(|one| Some(*one) == kept).map_or(9, |at| at));
        assert_eq!(known(&brain, &name), None);
        add(&mut brain, &name, "Do it.", kept);
        assert_eq!(known(&brain, &name), expected);
        step(&mut brain, StepKind::Maintenance, |editor| editor.archive_skill(&slug(&name)).expect("archived"));
        assert_eq!(known(&brain, &name), expected, "the archive keeps it so");
    }
}

#[test]
fn the_curator_moves_nothing_that_is_kept_from_it_however_old_or_unused() {
    for kept in ALL {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        add(&mut brain, "used", "Do it.", Some(kept));
        add(&mut brain, "own-used", "Do that.", None);
        add(&mut brain, "idle", "Do another thing.", Some(kept));
        add(&mut brain, "own-idle", "Do one more.", None);
        step(&mut brain, StepKind::Maintenance, |editor| {
            editor.used(&slug("used")).expect("counted");
            editor.used(&slug("own-used")).expect("counted");
        });
        brains.clock.advance_ms(400 * DAY);
        let policy = CuratorPolicy::default().archiving_unshown(Some(180)).expect("a policy");
        let report = curator::run(&mut brain, policy).expect("a pass");
        let moved: Vec<&str> = report.plan.transitioned.iter().map(|moved| moved.slug.as_str()).collect();
        assert_eq!(moved, ["own-idle", "own-used"], "{kept:?}");
        let reason = match kept {
            Kept::ByRecord | Kept::ByText => CuratorSkipReason::Pinned,
            Kept::AsAPersons | Kept::AsTheSeeds => CuratorSkipReason::NotAgentCreated,
        };
        for name in ["idle", "used"] {
            let skipped = report.plan.skipped.iter().find(|skipped| skipped.slug == slug(name));
            assert_eq!(skipped.map(|skipped| &skipped.reason), Some(&reason), "{kept:?} {name}");
            assert_eq!(brain.usage().expect("usage")[&slug(name)].state, SkillState::Active, "{kept:?} {name}");
        }
    }
}

#[test]
fn a_trial_neither_begins_nor_archives_what_is_kept_from_it() {
    for kept in ALL {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let text = add(&mut brain, "kept", "Do it.", Some(kept));
        add(&mut brain, "own", "Do that.", None);
        assert_eq!(look(&mut brain, &mut TrialMemory::default()).began, [slug("own")], "{kept:?}");
        let since = brain.clock().now();
        let reason = "by mistake".to_owned();
        let trial = Trial { skill: slug("kept"), state: TrialState::Trial, since, decided: None, reason };
        brain.write_trials(|writer| writer.put_trial(&trial)).expect("written");
        let worse = [OutcomeValue::Bad, OutcomeValue::Good];
        assert_eq!(until_it_ends(&mut brain, "kept", worse, 40), None, "{kept:?}");
        assert_eq!(now(&brain, "kept"), Some(text), "{kept:?}");
        let (_, ended) = until_it_ends(&mut brain, "own", worse, 40).expect("it ends");
        assert_eq!(ended.ended[0].state, TrialState::Harmful);
        assert_eq!(brain.step(brain.last_step().expect("a step")).expect("read").kind, StepKind::Learn);
    }
}

const DESK: &str = "1. Ask the cloakroom desk with the ticket number.\n2. If the desk says closed, ask the porter at the \
    north gate.\n3. Answer with the shelf and the drawer.\n";
const DESK_AGAIN: &str = "- Ask the cloakroom desk; give it the ticket number.\n- If the desk says closed, the porter at \
    the north gate knows.\n- Answer with the shelf and the drawer.\n- Umbrellas stand in the cellar.\n";

fn applying() -> EvolverPassOptions {
    let (mode, approval) = (EvolverPassMode::ApplyLowRisk, EvolverApproval::Given);
    EvolverPassOptions { mode, approval, ..EvolverPassOptions::default() }
}

fn holding() -> EvolverPassOptions {
    EvolverPassOptions { mode: EvolverPassMode::Pending, ..EvolverPassOptions::default() }
}

#[test]
fn no_merge_takes_in_or_changes_what_is_kept_from_it() {
    for (kept, names) in ALL.into_iter().flat_map(|kept| [(kept, [Some(kept), None]), (kept, [None, Some(kept)])]) {
        for options in [holding(), applying()] {
            let brains = TempBrains::new();
            let mut brain = brains.make("1");
            let first = add(&mut brain, "lost-things", DESK, names[0]);
            brains.clock.advance_ms(1_000);
            let second = add(&mut brain, "find-lost", DESK_AGAIN, names[1]);
            let report = merging::run(&mut brain, &options, &mut ConsolidationMemory::default()).expect("a pass");
            assert!(report.is_empty(), "{kept:?}: {report:?}");
            assert_eq!((now(&brain, "lost-things"), now(&brain, "find-lost")), (Some(first), Some(second)));
        }
    }
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    add(&mut brain, "lost-things", DESK, None);
    add(&mut brain, "find-lost", DESK_AGAIN, None);
    let report = merging::run(&mut brain, &applying(), &mut ConsolidationMemory::default()).expect("a pass");
    assert!(report.applied[0].applied, "the agent's own are merged: {report:?}");
}

#[test]
fn a_merge_whose_skills_were_pinned_since_is_not_made() {
    for pinned in ["lost-things", "find-lost"] {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        add(&mut brain, "lost-things", DESK, None);
        add(&mut brain, "find-lost", DESK_AGAIN, None);
        let report = merging::run(&mut brain, &holding(), &mut ConsolidationMemory::default()).expect("a pass");
        step(&mut brain, StepKind::Maintenance, |editor| editor.pin_skill(&slug(pinned), true).expect("pinned"));
        let last = brain.last_step().expect("a step");
        let accepted = review_queue::accept(&mut brain, &report.proposed[0], &VerificationOptions::default());
        let ReviewOutcome::Change(applied) = accepted.expect("an answer") else { panic!("no change") };
        let why = applied.detail.unwrap_or_default();
        assert_eq!((applied.reason, brain.last_step().expect("a step")), (SkillApplyReason::HashMismatch, last));
        assert_eq!(why, format!("skill {pinned} is pinned by the operator and stays as it is"));
    }
}

/// Three events of a skill, of which two failed in the same way.
fn seen(brain: &mut Brain, skill: &str) {
    let at = brain.clock().now();
    let row = |(number, failed): (usize, bool)| Evidence {
        task: format!("seen-{skill}"),
        turn: 1,
        tool: "terminal".to_owned(),
        status: if failed { EvidenceStatus::Failed } else { EvidenceStatus::Ok },
        skills: vec![slug(skill)],
        args: Digest::of(format!("{skill} {number}").as_bytes()),
        arguments: None,
        summary: if failed { "connection refused" } else { "fine again" }.to_owned(),
        millis: 3,
        at,
    };
    let session = ImportedSession {
        task: format!("seen-{skill}"),
        at,
        model: "m".to_owned(),
        platform: "p".to_owned(),
        tools: [true, true, false].into_iter().enumerate().map(row).collect(),
        turns: Vec::new(),
        skills: vec![slug(skill)],
        completed: true,
    };
    brain.import_evidence([session]).expect("taken in");
}

#[test]
fn the_evolver_writes_nothing_into_what_is_kept_from_it() {
    for kept in ALL {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let text = add(&mut brain, "pump", "Do it.", Some(kept));
        add(&mut brain, "valve", "Do that.", None);
        seen(&mut brain, "pump");
        seen(&mut brain, "valve");
        let run = evolving::run(&mut brain, &applying(), RankerChain::default(), &[]).expect("a pass");
        let fate: Vec<(&str, String)> =
            run.candidates.iter().map(|one| (one.skill_name.as_str(), one.reason.to_string())).collect();
        let reason = match kept {
            Kept::ByRecord | Kept::ByText => "pinned-skill",
            Kept::AsAPersons | Kept::AsTheSeeds => "source-not-agent-created",
        };
        assert_eq!(fate, [("pump", reason.to_owned()), ("valve", "applied".to_owned())], "{kept:?}");
        assert_eq!(now(&brain, "pump"), Some(text), "{kept:?}");
        let waiting = brain.evolver_rows().queue(Some(ReviewStatus::Pending), None).expect("the queue").len();
        assert_eq!(waiting, usize::from(reason == "source-not-agent-created"), "no person is asked about a pin");
    }
}

/// A brain with a skill of the agent's own and evidence about it.
fn with_pump(brains: &TempBrains) -> (Brain, String) {
    let mut brain = brains.make("1");
    let text = add(&mut brain, "pump", "Do it.", None);
    seen(&mut brain, "pump");
    (brain, text)
}

#[test]
fn a_text_that_a_person_took_back_is_not_written_by_the_evolver_and_does_not_wait() {
    let twin = TempBrains::new();
    let (mut brain, before) = with_pump(&twin);
    let run = evolving::run(&mut brain, &applying(), RankerChain::default(), &[]).expect("a pass");
    assert_eq!(run.candidates[0].reason, SkillApplyReason::Applied.into());
    let manifest = &brain.evolver_rows().changes(None).expect("changes")[0].manifest;
    assert_eq!(manifest["unattended"], true, "the receipt says that no person looked at it");
    let evolved = now(&brain, "pump").expect("there");
    assert_ne!(evolved, before);
    for options in [applying(), holding()] {
        // A person wrote the very same and took it back; the evolver never did.
        let brains = TempBrains::new();
        let (mut brain, before) = with_pump(&brains);
        step(&mut brain, StepKind::Maintenance, |editor| {
            editor.edit_skill(&slug("pump"), &evolved).expect("edited");
        });
        let written = brain.last_step().expect("a step");
        brain.undo(written, herm::brain::OnChanged::Refuse).expect("undone");
        let last = brain.last_step().expect("a step");
        let run = evolving::run(&mut brain, &options, RankerChain::default(), &[]).expect("a pass");
        let fate = (run.candidates[0].status, &run.candidates[0].reason);
        assert_eq!(fate, (EvolverCandidateStatus::Skipped, &EvolverCandidateReason::UndoneNeedsPerson));
        assert_eq!((now(&brain, "pump"), brain.last_step().expect("a step")), (Some(before), last));
        assert_eq!(brain.evolver_rows().queue(Some(ReviewStatus::Pending), None).expect("the queue").len(), 0);
    }
}

fn patch(set: &[(&str, &str)], remove: &[&str]) -> Patch {
    let owned = |text: &&str| (*text).to_owned();
    let set = set.iter().map(|(path, content)| (owned(path), owned(content))).collect();
    let change = PatchChange::Files { set, remove: remove.iter().map(owned).collect() };
    Patch::new("A change of skills", None, vec![change]).expect("a patch")
}

#[test]
fn a_patch_that_no_steward_approved_leaves_alone_what_is_kept_from_it() {
    for kept in ALL {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let before = add(&mut brain, "kept", "Do it.", Some(kept));
        step(&mut brain, StepKind::Maintenance, |editor| {
            editor.write_skill_file(&slug("kept"), "references/notes.md", b"notes\n".to_vec()).expect("written");
        });
        let main = "skills/kept/SKILL.md";
        let other = text("kept", "Do it otherwise.", None);
        for patch in [
            patch(&[(main, &other)], &[]),
            patch(&[("skills/kept/references/notes.md", "other notes\n")], &[]),
            patch(&[("skills/kept/references/more.md", "more\n")], &[]),
            patch(&[], &[main, "skills/kept/references/notes.md"]),
            patch(&[("skills/.archive/kept.md", &before)], &[main, "skills/kept/references/notes.md"]),
        ] {
            let last = brain.last_step().expect("a step");
            let refused = apply_patch(&mut brain, &patch, SkillWriter::Patch, json!(null)).expect_err("refused");
            assert_eq!(refused.kind(), ErrorKind::Refused, "{kept:?}");
            assert!(refused.message().starts_with("the patch changes skill kept, which "), "{}", refused.message());
            assert_eq!(brain.last_step().expect("a step"), last);
            assert!(stage(&brain, &patch, SkillWriter::Person).is_ok(), "a steward's is a person's act: {kept:?}");
        }
    }
}

#[test]
fn a_patch_changes_the_agents_own_and_what_it_makes_is_the_agents_or_the_stewards() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    add(&mut brain, "own", "Do it.", None);
    let changed = text("own", "Do it otherwise.", None);
    let made = text("reply", "Say it.", None);
    let both = patch(&[("skills/own.md", &changed), ("skills/reply.md", &made)], &[]);
    apply_patch(&mut brain, &both, SkillWriter::Patch, json!(null)).expect("applied");
    assert_eq!((now(&brain, "own"), now(&brain, "reply")), (Some(changed), Some(made)));
    let by_steward = patch(&[("skills/greet.md", &text("greet", "Greet.", None))], &[]);
    apply_patch(&mut brain, &by_steward, SkillWriter::Person, json!(null)).expect("applied");
    let usage = brain.usage().expect("usage");
    let makers = ["own", "reply", "greet"].map(|name| usage[&slug(name)].created_by);
    assert_eq!(makers, [CreatedBy::Agent, CreatedBy::Agent, CreatedBy::User]);
    apply_patch(&mut brain, &patch(&[], &["skills/reply.md"]), SkillWriter::Patch, json!(null)).expect("removed");
    assert_eq!(now(&brain, "reply"), None);
}

#[test]
fn a_patch_that_no_steward_approved_does_not_bring_back_what_a_person_took_back() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let text = add(&mut brain, "reply", "1. Look at the letter.\n2. Say what it asks for.", None);
    let made = brain.last_step().expect("a step");
    brain.undo(made, herm::brain::OnChanged::Refuse).expect("undone");
    let again = patch(&[("skills/answer.md", &text.replace("reply", "answer"))], &[]);
    for undone in [patch(&[("skills/reply.md", &text)], &[]), again] {
        let refused = apply_patch(&mut brain, &undone, SkillWriter::Patch, json!(null)).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::Refused, "{}", refused.message());
    }
    let by_steward = patch(&[("skills/reply.md", &text)], &[]);
    apply_patch(&mut brain, &by_steward, SkillWriter::Person, json!(null)).expect("applied");
    assert_eq!(now(&brain, "reply"), Some(text));
}

/// What unattended code may do with a text after a step brought it back, in a brain where a person took it back.
fn after(bring_back: impl FnOnce(&mut Brain, &str)) -> PriorUndo {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let text = add(&mut brain, "reply", "1. Look at the letter.\n2. Say what it asks for.", None);
    let made = brain.last_step().expect("a step");
    brain.undo(made, herm::brain::OnChanged::Refuse).expect("undone");
    bring_back(&mut brain, &text);
    brain.undone_skills().expect("read").judge_all(&slug("fresh"), false, [text.as_bytes()])
}

#[test]
fn only_a_step_of_a_person_brings_back_what_a_person_took_back() {
    assert_eq!(after(|_, _| ()), PriorUndo::Same);
    let by_step = |kind: StepKind| {
        after(|brain, text| {
            step(brain, kind, |editor| {
                editor.create_skill(&slug("reply"), text, CreatedBy::Agent).expect("made");
            });
        })
    };
    for kind in [StepKind::Task, StepKind::Curate, StepKind::Learn, StepKind::Feedback] {
        assert_eq!(by_step(kind), PriorUndo::Same, "{kind:?}");
    }
    for kind in [StepKind::Maintenance, StepKind::Import] {
        assert_eq!(by_step(kind), PriorUndo::Nothing, "{kind:?}");
    }
    // What is put into the archive is not brought back by it.
    let moved = after(|brain, text| {
        step(brain, StepKind::Task, |editor| {
            editor.create_skill(&slug("reply"), text, CreatedBy::Agent).expect("made");
        });
        step(brain, StepKind::Maintenance, |editor| editor.archive_skill(&slug("reply")).expect("archived"));
    });
    assert_eq!(moved, PriorUndo::Same);
    // An undo of the undo is a person's.
    let undone = after(|brain, _| {
        let undo = brain.last_step().expect("a step");
        brain.undo(undo, herm::brain::OnChanged::Refuse).expect("undone");
    });
    assert_eq!(undone, PriorUndo::Nothing);
}

#[test]
fn a_change_of_the_evolvers_own_brings_nothing_back_and_one_that_a_person_approved_does() {
    let evolved = |approval: EvolverApproval| {
        after(|brain, text| {
            add(brain, "other", "Something else.", None);
            let expected = Digest::of(now(brain, "other").expect("there").as_bytes());
            let content = text.replace("name: reply", "name: other");
            let why = json!({ "what": "notes" });
            let support = vec![("references/old.md".to_owned(), Some(text.to_owned()))];
            let change = SkillUpdate { skill: slug("other"), expected, content, support, why };
            let done = apply(brain, &change, approval, &VerificationOptions::default()).expect("an answer");
            assert!(done.applied, "{done:?}");
        })
    };
    assert_eq!(evolved(EvolverApproval::Standing), PriorUndo::Same);
    assert_eq!(evolved(EvolverApproval::Given), PriorUndo::Nothing);
}
