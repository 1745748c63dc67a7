//! A pass: who is eligible, what is planned, and what is written.

use herm::error::Result;
use herm::evolver::pass::{EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions};
use herm::evolver::prepare::{HARD_CAP, SUPPORT_PATH};
use herm::evolver::select::{LexicalRanker, Ranker, RankerChain};
use herm::evolver::verification::VerificationOptions;
use herm::evolver::{EvolverApproval, EvolverPolicy, EvolverView, RollbackReason};
use herm::memory::{CandidateKind, ReviewStatus};
use herm::skill::CreatedBy;
use herm::{Draft, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};
use proptest::prelude::*;

use super::{END, START, add_skill, applying, fate, file_of, last_step, look, own, pass, seen, text_of, with_evidence};

#[test]
fn a_dry_run_plans_and_writes_nothing() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let (before, step) = (text_of(&brain, "pump"), last_step(&brain));
    let run = pass(&mut brain, &EvolverPassOptions::default());
    assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Planned, "3 events, 2 errors")]);
    let plan = run.candidates[0].plan.as_ref().expect("a plan");
    assert!(plan.new_content_changed && plan.support_files.is_empty());
    assert_eq!((text_of(&brain, "pump"), last_step(&brain)), (before, step));
}

#[test]
fn an_approved_pass_appends_the_block_and_keeps_everything_before_it() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let (before, version) = (text_of(&brain, "pump"), brain.lock().version);
    let run = pass(&mut brain, &applying());
    assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Applied, "applied")]);
    let after = text_of(&brain, "pump");
    assert!(after.starts_with(&before) && after.contains(START) && after.trim_end().ends_with(END));
    assert!(after.contains("connection refused"), "{after}");
    // One step, with a receipt of its own.
    assert_eq!(brain.lock().version, version + 1);
    let receipts = brain.receipts(1, u64::MAX).expect("receipts");
    assert_eq!(receipts.last().expect("a receipt").step, last_step(&brain));
}

#[test]
fn a_second_pass_on_the_same_evidence_changes_nothing() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &applying());
    let (text, step, hash) = (text_of(&brain, "pump"), last_step(&brain), brain.lock().bundle_hash);
    brains.clock.advance_ms(3_600_000);
    let again = pass(&mut brain, &applying());
    assert_eq!(fate(&again), [("pump", EvolverCandidateStatus::Unchanged, "no-new-evidence")]);
    assert_eq!((text_of(&brain, "pump"), last_step(&brain), brain.lock().bundle_hash), (text, step, hash));
}

#[test]
fn without_failures_that_recur_there_is_no_block_no_proposal_and_no_write() {
    for said in [&["fine", "fine", "fine"][..], &["fine", "!an accident", "fine"]] {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        own(&mut brain, "pump");
        seen(&mut brain, "pump", said);
        let (text, step) = (text_of(&brain, "pump"), last_step(&brain));
        for mode in [EvolverPassMode::DryRun, EvolverPassMode::Pending, EvolverPassMode::ApplyLowRisk] {
            let run = pass(&mut brain, &EvolverPassOptions { mode, ..applying() });
            assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Unchanged, "nothing-to-say")]);
        }
        assert_eq!((text_of(&brain, "pump"), last_step(&brain)), (text, step));
        assert!(brain.evolver_rows().queue(None, None).expect("a queue").is_empty());
    }
}

#[test]
fn a_window_that_slides_and_settings_that_differ_are_no_new_evidence() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    own(&mut brain, "pump");
    let now = brain.clock().now();
    // Taken in newest first, so that the older session has the higher numbers.
    for (task, days) in [("new", 1), ("old", 6)] {
        let at = herm::Timestamp(now.millis() - days * super::DAY);
        brain
            .import_evidence([super::session(task, &["pump"], &["!refused", "!refused", "fine"], at)])
            .expect("taken in");
    }
    pass(&mut brain, &applying());
    let step = last_step(&brain);
    brains.clock.advance_ms(2 * super::DAY);
    for options in
        [applying(), EvolverPassOptions { variants: 4, ..applying() }, EvolverPassOptions { days: 8, ..applying() }]
    {
        assert_eq!(fate(&pass(&mut brain, &options)), [("pump", EvolverCandidateStatus::Unchanged, "no-new-evidence")]);
    }
    assert_eq!(last_step(&brain), step);
}

#[test]
fn notes_that_a_person_took_out_do_not_come_back_on_the_same_evidence() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let before = text_of(&brain, "pump");
    pass(&mut brain, &applying());
    let step = last_step(&brain);
    let mut draft = Draft::new();
    brain.edit(&mut draft).edit_skill(&slug("pump"), &before).expect("edited");
    brain.settle(&draft, StepKind::Maintenance, "by a person").expect("settled");
    assert_eq!(
        fate(&pass(&mut brain, &applying())),
        [("pump", EvolverCandidateStatus::Unchanged, "removed-and-no-new-evidence")]
    );
    // Newer evidence is for a person to judge; it may be held.
    brains.clock.advance_ms(1_000);
    seen(&mut brain, "pump", &["!newer"]);
    assert_eq!(
        fate(&pass(&mut brain, &applying())),
        [("pump", EvolverCandidateStatus::Skipped, "removed-needs-a-person")]
    );
    // And a rollback of what is out already is remembered as one.
    let done = herm::evolver::rollback(&mut brain, step, herm::brain::OnChanged::Refuse).expect("an answer");
    assert_eq!(done.reason, RollbackReason::AlreadyAsBefore);
    assert!(brain.evolver_rows().changes(None).expect("changes")[0].rolled_back_at.is_some());
}

#[test]
fn what_a_person_edited_by_hand_is_theirs_and_what_a_person_applied_stays_the_agents() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["by-hand", "by-apply"]);
    let change = herm::evolver::SkillUpdate {
        skill: slug("by-apply"),
        expected: super::digest_of(&brain, "by-apply"),
        content: skill_text("by-apply", "A person's words."),
        support: Vec::new(),
        why: serde_json::json!({ "by": "operator" }),
    };
    let done = herm::evolver::apply(&mut brain, &change, EvolverApproval::Given, &VerificationOptions::default())
        .expect("applied");
    assert!(done.applied);
    brain.close().expect("closed");
    std::fs::write(brains.file("1", "skills/by-hand.md"), skill_text("by-hand", "Another's.")).expect("written");
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut brain = herm::Brain::open(&brains.layout(), &slug_id(), &opening).expect("opened");
    brain.adopt().expect("adopted");
    let run = pass(&mut brain, &applying());
    let told: Vec<(&str, &str)> = run.candidates.iter().map(|one| (one.source.name(), super::told(one))).collect();
    assert_eq!(told, [("local-agent-created", "applied"), ("user", "source-not-agent-created")]);
}

#[test]
fn new_evidence_replaces_the_block_and_nothing_else() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let before = text_of(&brain, "pump");
    pass(&mut brain, &applying());
    brains.clock.advance_ms(60_000);
    seen(&mut brain, "pump", &["!disk full"]);
    let run = pass(&mut brain, &applying());
    assert_eq!(run.candidates[0].status, EvolverCandidateStatus::Applied);
    let after = text_of(&brain, "pump");
    assert!(after.starts_with(&before) && after.matches(START).count() == 1 && after.contains("disk full"));
}

#[test]
fn without_approval_nothing_is_written() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let step = last_step(&brain);
    let run =
        pass(&mut brain, &EvolverPassOptions { mode: EvolverPassMode::ApplyLowRisk, ..EvolverPassOptions::default() });
    assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Skipped, "auto-approval-required")]);
    assert_eq!(last_step(&brain), step);
}

#[test]
fn pinned_skills_are_left_alone_by_record_and_by_front_matter() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let text = skill_text("valve", "x").replacen("---\n#", "pinned: \"yes\"\n---\n#", 1);
    add_skill(&mut brain, "valve", &text, CreatedBy::Agent);
    seen(&mut brain, "valve", &["a", "b"]);
    let mut draft = Draft::new();
    brain.edit(&mut draft).pin_skill(&slug("pump"), true).expect("pinned");
    brain.settle(&draft, StepKind::Maintenance, "pin").expect("settled");
    let run = pass(&mut brain, &applying());
    assert_eq!(
        fate(&run),
        [
            ("pump", EvolverCandidateStatus::Skipped, "pinned-skill"),
            ("valve", EvolverCandidateStatus::Skipped, "pinned-skill")
        ]
    );
}

#[test]
fn protected_skills_with_the_most_evidence_do_not_starve_the_others() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    // Twenty-five with more evidence than any other: seeds, imports, core names, and one that is gone.
    for n in 0..25 {
        let (name, by) = match n % 3 {
            0 => (format!("hub-{n}"), CreatedBy::Hub),
            1 => (format!("shipped-{n}"), CreatedBy::Bundled),
            _ => (format!("github-{n}"), CreatedBy::Agent),
        };
        add_skill(&mut brain, &name, &skill_text(&name, "x"), by);
        seen(&mut brain, &name, &["1", "2", "3", "4", "5", "6", "7", "8"]);
    }
    seen(&mut brain, "gone", &["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    for name in ["a-own", "b-own", "c-own", "d-own"] {
        own(&mut brain, name);
        seen(&mut brain, name, &["!no", "!no"]);
    }
    let run = pass(&mut brain, &applying());
    let written: Vec<&str> = run
        .candidates
        .iter()
        .filter(|one| one.status == EvolverCandidateStatus::Applied)
        .map(|one| one.skill_name.as_str())
        .collect();
    assert_eq!(written, ["a-own", "b-own", "c-own"], "the cap counts what is written, and there is no cap of 20");
    assert_eq!(run.summary["not_reached"], 1);
    assert!(fate(&run).contains(&("gone", EvolverCandidateStatus::Skipped, "skill-file-not-found")));
}

#[test]
fn only_what_the_agent_wrote_is_written_and_the_rest_is_shown_for_review() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let makers = [
        ("from-hub", CreatedBy::Hub, "hub"),
        ("from-plugin", CreatedBy::Plugin, "plugin"),
        ("of-user", CreatedBy::User, "user"),
        ("taken-over", CreatedBy::Imported, "imported"),
    ];
    for (name, by, _) in makers {
        add_skill(&mut brain, name, &skill_text(name, "x"), by);
        seen(&mut brain, name, &["!no", "!no"]);
    }
    seen(&mut brain, "flat-one", &["!no", "!no"]);
    seen(&mut brain, "on-shelf", &["!no", "!no"]);
    let open_policy = EvolverPolicy { protect_core_skills: false, allow: vec!["*".to_owned()], block: Vec::new() };
    let options = EvolverPassOptions { policy: open_policy, max_skills: 10, ..applying() };
    let step = last_step(&brain);
    let run = pass::run(&mut brain, &options, RankerChain::default(), &[slug("on-shelf")]).expect("a pass");
    assert!(
        fate(&run)
            .iter()
            .all(|(_, status, why)| (*status, *why) == (EvolverCandidateStatus::Skipped, "source-not-agent-created"))
    );
    assert_eq!(last_step(&brain), step);
    // What is in the brain waits for a person all the same.
    let held: Vec<&str> =
        run.candidates.iter().filter(|one| one.held.is_some()).map(|one| one.skill_name.as_str()).collect();
    assert_eq!(held, ["flat-one", "from-hub", "from-plugin", "of-user", "taken-over"]);
    let queue =
        brain.evolver_rows().queue(Some(ReviewStatus::Pending), Some(CandidateKind::Change)).expect("the queue");
    assert_eq!(queue.len(), 5);
    let before = super::text_of(&brain, "of-user");
    let row = queue.iter().find(|row| row.skill == Some(slug("of-user"))).expect("queued");
    let accepted =
        herm::evolver::review_queue::accept(&mut brain, &row.id, &VerificationOptions::default()).expect("accepted");
    assert!(accepted.is_done());
    let after = super::text_of(&brain, "of-user");
    assert!(after.starts_with(&before) && after.contains(super::START), "{after}");
    assert_eq!(brain.usage().expect("usage")[&slug("of-user")].created_by, CreatedBy::User);
    let sources: Vec<(&str, &str)> =
        run.candidates.iter().map(|one| (one.skill_name.as_str(), one.source.name())).collect();
    assert_eq!(
        sources,
        [
            ("flat-one", "bundled"),
            ("from-hub", "hub"),
            ("from-plugin", "plugin"),
            ("of-user", "user"),
            ("on-shelf", "external"),
            ("taken-over", "imported"),
        ]
    );
    let dry = look(&brain, &EvolverPassOptions { mode: EvolverPassMode::DryRun, ..options });
    let shown = dry.candidates.iter().filter(|one| one.status == EvolverCandidateStatus::Planned).count();
    assert_eq!(shown, 4, "all but the one outside of the brain and the one that is done: {:?}", fate(&dry));
}

#[test]
fn core_names_are_protected_until_they_are_allowed_by_name_and_dry_runs_show_them() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["github-review", "pump"]);
    let dry = look(&brain, &EvolverPassOptions::default());
    assert_eq!(dry.candidates[0].reason.to_string(), "for review only: core-skill-auto-apply-protected");
    assert_eq!(dry.candidates[0].status, EvolverCandidateStatus::Planned);
    let run = pass(&mut brain, &applying());
    assert_eq!(
        fate(&run),
        [
            ("github-review", EvolverCandidateStatus::Skipped, "core-skill-auto-apply-protected"),
            ("pump", EvolverCandidateStatus::Applied, "applied")
        ]
    );
    let allow = EvolverPolicy { allow: vec!["github-review".to_owned()], ..EvolverPolicy::default() };
    let run = pass(&mut brain, &EvolverPassOptions { policy: allow, ..applying() });
    assert_eq!(run.candidates[0].status, EvolverCandidateStatus::Applied);
    assert_eq!(run.candidates[1].reason.to_string(), "auto-apply-not-allowlisted");
}

#[derive(Debug)]
struct Backwards;

impl Ranker for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn rank(&self, _: &str, texts: &[&str]) -> Result<Vec<f64>> {
        Ok((0..texts.len()).map(|at| at as f64).collect())
    }
}

#[test]
fn a_ranker_decides_who_comes_first_and_never_who_is_eligible() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["a-one", "b-two", "c-three"]);
    own(&mut brain, "rare");
    seen(&mut brain, "rare", &["only one"]);
    let options = EvolverPassOptions { max_skills: 1, ..EvolverPassOptions::default() };
    let plan = |ranker: &dyn Ranker| {
        let ground = EvolverView::of_brain(&brain).expect("ground");
        pass::plan(&ground, &options, RankerChain { ranker: Some(ranker), reranker: None }).expect("a plan")
    };
    let run = plan(&Backwards);
    assert_eq!((run.selection.mode, run.candidates[0].skill_name.as_str()), ("ranked", "c-three"));
    assert_eq!(run.selection.eligible_skill_count, 3);
    assert_eq!(plan(&LexicalRanker).selection.rankers, ["lexical"]);
}

#[test]
fn what_would_pass_the_soft_cap_goes_beside_the_skill_and_is_superseded_not_piled_up() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let long = skill_text("large", &"A line of some length that says nothing.\n".repeat(2_190));
    assert!(long.len() > 89_500 && long.len() < 90_000, "{}", long.len());
    add_skill(&mut brain, "large", &long, CreatedBy::Agent);
    seen(&mut brain, "large", &["!first failure of many", "!first failure of many"]);
    let run = pass(&mut brain, &applying());
    assert_eq!(run.candidates[0].status, EvolverCandidateStatus::Applied, "{:?}", fate(&run));
    assert_eq!(run.candidates[0].plan.as_ref().expect("a plan").support_files, [SUPPORT_PATH]);
    // The flat skill has a directory now, and one file beside it.
    let path = format!("skills/large/{SUPPORT_PATH}");
    assert!(file_of(&brain, &path).expect("spilled").contains("first failure of many"));
    assert!(file_of(&brain, "skills/large.md").is_none());
    let first = last_step(&brain);
    brains.clock.advance_ms(1_000);
    seen(&mut brain, "large", &["!second failure"]);
    pass(&mut brain, &applying());
    assert!(file_of(&brain, &path).expect("superseded").contains("second failure"));
    let beside = brain.skill_paths().expect("paths").into_iter().filter(|at| at.as_str().contains("references/cur"));
    assert_eq!(beside.count(), 1);
    // Taking the first change back is refused over the second; taking both back leaves no trace.
    let second = last_step(&brain);
    for step in [second, first] {
        let done = herm::evolver::rollback(&mut brain, step, herm::brain::OnChanged::Refuse).expect("rolled back");
        assert!(done.rolled_back, "{done:?}");
    }
    assert_eq!(file_of(&brain, "skills/large.md").expect("flat again"), long);
    assert!(file_of(&brain, &path).is_none());
}

#[test]
fn a_skill_over_the_hard_cap_is_left_alone() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    // By hand, for no rule lets a skill be written so long.
    let long = skill_text("huge", &"0123456789\n".repeat(HARD_CAP / 10));
    std::fs::write(brains.file("1", "skills/huge.md"), &long).expect("written");
    brain = {
        brain.close().expect("closed");
        let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
        let mut brain = herm::Brain::open(&brains.layout(), &slug_id(), &opening).expect("opened");
        brain.adopt().expect("adopted");
        brain
    };
    seen(&mut brain, "huge", &["1", "2"]);
    let run = look(&brain, &EvolverPassOptions::default());
    assert_eq!(fate(&run), [("huge", EvolverCandidateStatus::Skipped, "skill-content-hard-cap")]);
}

fn slug_id() -> herm::BrainId {
    "1".parse().expect("an id")
}

#[test]
fn variants_are_shown_scored_and_only_the_winner_is_written() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let one = look(&brain, &EvolverPassOptions::default());
    let options = EvolverPassOptions { variants: 4, ..EvolverPassOptions::default() };
    let (first, second) = (look(&brain, &options), look(&brain, &options));
    assert_eq!(first, second, "the same evidence gives the same variants");
    let plan = first.candidates[0].plan.as_ref().expect("a plan");
    assert_eq!(plan.variants.len(), 4);
    assert_eq!(plan.variants.iter().filter(|variant| variant.selected).count(), 1);
    assert_eq!(one.candidates[0].plan.as_ref().expect("a plan").variants.len(), 1);
    let winner = plan.selected_variant["name"].clone();
    let run = pass(&mut brain, &EvolverPassOptions { variants: 4, ..applying() });
    assert_eq!(run.candidates[0].plan.as_ref().expect("a plan").selected_variant["name"], winner);
    assert_eq!(text_of(&brain, "pump").matches(START).count(), 1);
}

#[test]
fn a_run_is_one_json_document_with_these_fields() {
    let brains = TempBrains::new();
    let brain = with_evidence(&brains, &["pump"]);
    let json = serde_json::to_value(look(&brain, &EvolverPassOptions::default())).expect("JSON");
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["schema_version", "mode", "safety", "config", "selection", "summary", "candidates"]);
    assert_eq!(
        keys(&json["candidates"][0]),
        [
            "skill_name",
            "risk",
            "selection",
            "target_path",
            "source",
            "source_writable",
            "status",
            "reason",
            "variants_requested",
            "variants",
            "selected_variant",
            "current_digest",
            "new_content_changed",
            "size_strategy",
            "support_files",
            "content_size",
            "evidence_summary",
        ]
    );
}

#[test]
fn a_skill_that_never_verifies_gives_its_place_to_the_next() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["a-bad", "b-good", "c-good"]);
    let verify = Some("test \"$HERM_EVOLVE_SKILL\" != a-bad".to_owned());
    let verification = VerificationOptions { verify, ..VerificationOptions::default() };
    let run = pass(&mut brain, &EvolverPassOptions { max_skills: 1, verification, ..applying() });
    assert_eq!(
        fate(&run),
        [
            ("a-bad", EvolverCandidateStatus::Skipped, "verify-failed"),
            ("b-good", EvolverCandidateStatus::Applied, "applied")
        ]
    );
}

#[test]
fn what_goes_wrong_in_the_middle_is_told_with_what_was_done_before() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["a-one", "b-two", "c-three"]);
    // The verifier of the first edits the second by hand, between its plan and its change.
    let path = brains.file("1", "skills/b-two.md");
    let verify = Some(format!("test \"$HERM_EVOLVE_SKILL\" != a-one || echo by hand >> {}", path.display()));
    let verification = VerificationOptions { verify, ..VerificationOptions::default() };
    let run = pass(&mut brain, &EvolverPassOptions { verification, ..applying() });
    let states: Vec<EvolverCandidateStatus> = run.candidates.iter().map(|one| one.status).collect();
    assert_eq!(
        states,
        [EvolverCandidateStatus::Applied, EvolverCandidateStatus::Skipped, EvolverCandidateStatus::Skipped],
        "{:?}",
        fate(&run)
    );
    assert!(run.error.expect("said").contains("skills/b-two.md"));
    assert_eq!(run.summary["applied"], 1);
    assert!(std::fs::read_to_string(&path).expect("read").ends_with("by hand\n"));
}

#[test]
fn the_receipt_of_a_change_says_what_changed_and_not_what_the_verifier_said() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let verification =
        VerificationOptions { verify: Some("echo words of the verifier".to_owned()), ..VerificationOptions::default() };
    pass(&mut brain, &EvolverPassOptions { verification, ..applying() });
    let line = brain.receipts(1, u64::MAX).expect("receipts").pop().expect("one").envelope;
    let envelope = herm::receipt::Envelope::parse(&line).expect("an envelope");
    let statement: serde_json::Value =
        serde_json::from_slice(&envelope.payload().expect("a payload")).expect("a statement");
    let predicate = &statement["predicate"];
    assert_eq!((predicate["kind"].clone(), predicate["task"].clone()), ("maintenance".into(), serde_json::Value::Null));
    assert_eq!(
        (predicate["change"]["skill"].clone(), predicate["change"]["verify"]["passed"].clone()),
        ("pump".into(), true.into())
    );
    assert!(!statement.to_string().contains("words of the verifier"));
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let brains = TempBrains::new();
    let brain = brains.make("1");
    for (options, named) in [
        (EvolverPassOptions { days: 0, ..EvolverPassOptions::default() }, "days"),
        (EvolverPassOptions { max_skills: 26, ..EvolverPassOptions::default() }, "max-skills"),
        (EvolverPassOptions { min_evidence: 0, ..EvolverPassOptions::default() }, "min-evidence"),
        (EvolverPassOptions { variants: 5, ..EvolverPassOptions::default() }, "variants"),
    ] {
        let ground = EvolverView::of_brain(&brain).expect("ground");
        let error = pass::plan(&ground, &options, RankerChain::default()).expect_err("refused");
        assert!(error.message().contains(named), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Whatever the skill says and however its lines end, all of it stays.
    #[test]
    fn everything_outside_the_block_is_kept_to_the_byte(body in "[a-zA-Z`<>!{}\\\\$ \r\n\té-]{0,300}", said in ".{0,200}") {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let text = skill_text("pump", &body);
        let mut draft = Draft::new();
        // A body that the rules of skills refuse is no skill.
        if brain.edit(&mut draft).create_skill(&slug("pump"), &text, CreatedBy::Agent).is_err() {
            return Ok(());
        }
        brain.settle(&draft, StepKind::Maintenance, "a skill").expect("settled");
        let before = text_of(&brain, "pump");
        seen(&mut brain, "pump", &[&said, "!failed", "!failed"]);
        let options = EvolverPassOptions { approval: EvolverApproval::Given, ..applying() };
        let run = pass(&mut brain, &options);
        let after = text_of(&brain, "pump");
        if run.candidates[0].status == EvolverCandidateStatus::Applied {
            prop_assert!(after.starts_with(&before));
            prop_assert_eq!((after.matches(START).count(), after.matches(END).count()), (1, 1));
        } else {
            prop_assert_eq!(after, before);
        }
    }
}
