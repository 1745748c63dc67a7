//! The life of a skill: what goes unused is retired, nothing is ever lost.

use std::collections::BTreeMap;

use herm::curator::{self, CuratorPolicy};
use herm::skill::{CreatedBy, SkillState};
use herm::{Brain, Draft, Slug, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};
use herm_tests::generate::Random;

use crate::HERM;

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn is_due(brain: &Brain) -> bool {
    curator::due(brain, CuratorPolicy::default()).expect("looked") > 0
}

fn create(brain: &mut Brain, name: &str, by: CreatedBy) {
    let mut draft = Draft::new();
    brain.edit(&mut draft).create_skill(&slug(name), &skill_text(name, "Do it."), by).expect("made");
    brain.settle(&draft, StepKind::Maintenance, "made a skill").expect("settled");
}

fn touch(brain: &mut Brain, name: &str) {
    let mut draft = Draft::new();
    brain.edit(&mut draft).used(&slug(name)).expect("counted");
    brain.settle(&draft, StepKind::Maintenance, "used a skill").expect("settled");
}

/// Every file of a brain that is content or archive, with its bytes.
fn files(brains: &TempBrains, below: &str) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &std::path::Path, top: &std::path::Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, top, found);
            } else {
                let name = path.strip_prefix(top).expect("inside").to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).expect("read"));
            }
        }
    }
    let top = brains.file("1", below);
    let mut found = BTreeMap::new();
    walk(&top, &top, &mut found);
    found
}

fn state(brain: &Brain, name: &str) -> SkillState {
    brain.usage().expect("usage")[&slug(name)].state
}

#[test]
fn an_idle_skill_grows_stale_is_archived_and_comes_back_byte_for_byte() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    let mut draft = Draft::new();
    brain
        .edit(&mut draft)
        .write_skill_file(&slug("mine"), "scripts/run.sh", b"#!/bin/sh\n\xff\x00".to_vec())
        .expect("written");
    brain.settle(&draft, StepKind::Maintenance, "a support file").expect("settled");
    touch(&mut brain, "mine");
    let before = files(&brains, "skills/mine");
    assert_eq!(before.len(), 2);

    brains.clock.advance_ms(30 * DAY);
    let report = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert_eq!(report.plan.transitioned.len(), 1);
    assert_eq!((state(&brain, "mine"), report.settled.is_some()), (SkillState::Stale, true));
    assert!(brain.skills().expect("skills").get(&slug("mine")).is_some(), "stale is still in the index");

    brains.clock.advance_ms(60 * DAY);
    assert!(is_due(&brain));
    let report = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert_eq!(report.plan.transitioned[0].to, SkillState::Archived);
    assert!(brain.skills().expect("skills").get(&slug("mine")).is_none());
    assert_eq!(files(&brains, "skills/.archive/mine"), before, "moved with all its files");
    let last = brain.history(1).expect("history").remove(0);
    assert_eq!((last.kind, last.summary.as_str()), (StepKind::Curate, "curator: 1 archived"));

    let mut draft = Draft::new();
    brain.edit(&mut draft).restore_skill(&slug("mine")).expect("restored");
    brain.settle(&draft, StepKind::Maintenance, "restored").expect("settled");
    assert_eq!(files(&brains, "skills/mine"), before);
    assert_eq!(state(&brain, "mine"), SkillState::Active);
    assert!(!is_due(&brain), "whoever brings it back wants it");
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn old_enough_goes_straight_to_the_archive_and_a_stale_one_that_is_used_is_active() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    for name in ["long-gone", "back-again", "never-used"] {
        create(&mut brain, name, CreatedBy::Agent);
    }
    touch(&mut brain, "long-gone");
    brains.clock.advance_ms(50 * DAY);
    touch(&mut brain, "back-again");
    brains.clock.advance_ms(40 * DAY);
    curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert_eq!(state(&brain, "long-gone"), SkillState::Archived, "stale is passed over");
    assert_eq!(state(&brain, "back-again"), SkillState::Stale);
    assert_eq!(state(&brain, "never-used"), SkillState::Active, "never active is never old");
    touch(&mut brain, "back-again");
    assert_eq!(state(&brain, "back-again"), SkillState::Active);
    // A look reactivates too, at the next pass.
    brains.clock.advance_ms(31 * DAY);
    curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    let mut draft = Draft::new();
    brain.edit(&mut draft).viewed(&slug("back-again")).expect("counted");
    brain.settle(&draft, StepKind::Maintenance, "looked").expect("settled");
    assert_eq!(state(&brain, "back-again"), SkillState::Stale);
    let report = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert_eq!(
        (report.plan.transitioned[0].from, report.plan.transitioned[0].to),
        (SkillState::Stale, SkillState::Active)
    );
}

#[test]
fn what_the_curator_did_can_be_undone_and_stays_undone() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    touch(&mut brain, "mine");
    let before = files(&brains, "skills");
    brains.clock.advance_ms(100 * DAY);
    curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    let step = brain.history(1).expect("history").remove(0);
    let changed: Vec<&str> = step.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(changed, ["skills/.archive/mine.md", "skills/mine.md"], "the ledger has every file, with digests");
    let undone = brain.undo(step.seq, herm::brain::OnChanged::Refuse).expect("undone");
    assert!(undone.settled.is_some_and(|settled| settled.moved));
    assert_eq!(files(&brains, "skills"), before);
    assert_eq!(state(&brain, "mine"), SkillState::Active);
    let report = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert!(report.plan.transitioned.is_empty(), "{report:?}");
}

#[test]
fn an_undo_on_the_usual_road_stays_undone_too() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    touch(&mut brain, "mine");
    for days in [40, 60] {
        brains.clock.advance_ms(days * DAY);
        curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    }
    assert_eq!(state(&brain, "mine"), SkillState::Archived);
    let step = brain.history(1).expect("history").remove(0);
    brain.undo(step.seq, herm::brain::OnChanged::Refuse).expect("undone");
    curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert_eq!(state(&brain, "mine"), SkillState::Active, "looked at just now");
}

#[test]
fn a_skill_that_a_person_puts_in_an_old_ones_place_is_the_persons() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    touch(&mut brain, "mine");
    let made = brain.history(2).expect("history").remove(1);
    brain.undo(made.seq, herm::brain::OnChanged::Refuse).expect("undone");
    brains.clock.advance_ms(100 * DAY);
    // A record without files is due for ever, and nothing moves.
    assert!(is_due(&brain));
    assert!(curator::run(&mut brain, CuratorPolicy::default()).expect("a pass").settled.is_none());
    brain.close().expect("closed");
    std::fs::write(brains.file("1", "skills/mine.md"), skill_text("mine", "A person's.")).expect("written");
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    brain.adopt().expect("adopted");
    assert_eq!(brain.usage().expect("usage")[&slug("mine")].created_by, CreatedBy::User);
    brain.close().expect("closed");
    let mut brain = brains.open("1").expect("opened");
    brains.clock.advance_ms(100 * DAY);
    assert!(curator::run(&mut brain, CuratorPolicy::default()).expect("a pass").plan.transitioned.is_empty());
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn a_large_pass_goes_on_the_next_time() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut draft = Draft::new();
    let mut editor = brain.edit(&mut draft);
    for n in 0..300 {
        let name = format!("skill-{n:03}");
        editor.create_skill(&slug(&name), &skill_text(&name, "x"), CreatedBy::Agent).expect("made");
        editor.used(&slug(&name)).expect("counted");
    }
    brain.settle(&draft, StepKind::Maintenance, "made").expect("settled");
    brains.clock.advance_ms(100 * DAY);
    let first = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass").plan.transitioned.len();
    let second = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass").plan.transitioned.len();
    assert_eq!((first, second), (250, 50));
    assert!(!is_due(&brain));
}

#[test]
fn a_pass_that_cannot_be_saved_reports_nothing() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    touch(&mut brain, "mine");
    brain.close().expect("closed");
    brains.clock.advance_ms(100 * DAY);
    // Where the archive should be stands a file that is not herm's.
    let mut brain = brains.open("1").expect("opened");
    std::fs::write(brains.file("1", "skills/.archive"), "in the way").expect("written");
    curator::run(&mut brain, CuratorPolicy::default()).expect_err("it cannot be moved");
    assert_eq!(state(&brain, "mine"), SkillState::Active);
    assert!(brains.file("1", "skills/mine.md").exists());
    std::fs::remove_file(brains.file("1", "skills/.archive")).expect("removed");
    let report = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
    assert_eq!(report.plan.transitioned.len(), 1);
    assert!(!brains.file("1", "skills/mine.md").exists());
}

/// 200 days with random use: nothing is ever deleted, nothing that is the agent's and idle stays
/// active, and nothing else moves.
#[test]
fn two_hundred_days_lose_nothing() {
    for seed in 1..=6 {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let mut random = Random::new(seed);
        let makers = [CreatedBy::Agent, CreatedBy::Agent, CreatedBy::Agent, CreatedBy::User, CreatedBy::Imported];
        let mut texts: BTreeMap<Slug, (CreatedBy, bool, String)> = BTreeMap::new();
        let mut draft = Draft::new();
        for n in 0..24 {
            let (name, by) = (format!("skill-{n:02}"), makers[n % makers.len()]);
            let text = skill_text(&name, &format!("Version {}.", random.number()));
            let pinned = n % 7 == 0;
            let mut editor = brain.edit(&mut draft);
            editor.create_skill(&slug(&name), &text, by).expect("made");
            editor.pin_skill(&slug(&name), pinned).expect("pinned");
            // Every third has files of its own.
            if n % 3 == 0 {
                editor.write_skill_file(&slug(&name), "assets/a.bin", vec![n as u8, 0, 255]).expect("written");
            }
            texts.insert(slug(&name), (by, pinned, text));
        }
        brain.settle(&draft, StepKind::Maintenance, "made").expect("settled");
        for _ in 0..200 {
            brains.clock.advance_ms(DAY);
            let mut draft = Draft::new();
            for _ in 0..random.below(2) {
                let name = slug(&format!("skill-{:02}", random.below(24)));
                if brain.skills().expect("skills").get(&name).is_some() {
                    let mut editor = brain.edit(&mut draft);
                    if random.below(3) == 0 { editor.viewed(&name) } else { editor.used(&name) }.expect("counted");
                }
            }
            if random.below(40) == 0
                && let Some(name) = archived(&brain).first()
            {
                brain.edit(&mut draft).restore_skill(name).expect("restored");
            }
            if !draft.is_empty() {
                brain.settle(&draft, StepKind::Maintenance, "a day").expect("settled");
            }
            curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
            check(&mut brain, &brains, &texts);
        }
        assert!(brain.verify().expect("verified").is_sound());
        assert!(!archived(&brain).is_empty(), "seed {seed}: the pass did something");
    }
}

fn archived(brain: &Brain) -> Vec<Slug> {
    let usage = brain.usage().expect("usage");
    usage.into_iter().filter(|(_, usage)| usage.state == SkillState::Archived).map(|(slug, _)| slug).collect()
}

fn check(brain: &mut Brain, brains: &TempBrains, texts: &BTreeMap<Slug, (CreatedBy, bool, String)>) {
    let usage = brain.usage().expect("usage");
    let now = herm::Clock::now(&*brains.clock);
    for (name, (by, pinned, text)) in texts {
        let record = &usage[name];
        let dir = match record.state {
            SkillState::Archived => "skills/.archive",
            SkillState::Active | SkillState::Stale => "skills",
        };
        let number: u8 = name.as_str()[6..].parse().expect("a number");
        let main = if number.is_multiple_of(3) { format!("{dir}/{name}/SKILL.md") } else { format!("{dir}/{name}.md") };
        let found = std::fs::read_to_string(brains.file("1", &main)).expect("nothing is ever deleted");
        assert_eq!(&found, text, "and nothing is changed");
        if number.is_multiple_of(3) {
            let own = std::fs::read(brains.file("1", &format!("{dir}/{name}/assets/a.bin"))).expect("its files too");
            assert_eq!(own, [number, 0, 255]);
        }
        if *by != CreatedBy::Agent || *pinned {
            assert_eq!(record.state, SkillState::Active, "{name} is not the curator's");
            continue;
        }
        let idle = record.last_activity().map(|at| now.millis() - at.millis());
        match (record.state, idle) {
            (SkillState::Active, None) => {}
            (SkillState::Active, Some(idle)) => assert!(idle < 30 * DAY, "{name} is idle and active"),
            (SkillState::Stale, idle) => assert!(idle.is_some_and(|idle| (30 * DAY..90 * DAY).contains(&idle))),
            (SkillState::Archived, idle) => assert!(idle.is_some_and(|idle| idle >= 90 * DAY)),
        }
    }
}

#[test]
fn the_quick_look_agrees_with_the_pass() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut random = Random::new(11);
    for n in 0..12 {
        create(&mut brain, &format!("skill-{n:02}"), if n % 4 == 3 { CreatedBy::User } else { CreatedBy::Agent });
    }
    for _ in 0..60 {
        brains.clock.advance_ms(5 * DAY);
        for _ in 0..random.below(3) {
            let name = format!("skill-{:02}", random.below(12));
            if brain.skills().expect("skills").get(&slug(&name)).is_some() {
                touch(&mut brain, &name);
            }
        }
        let plan = curator::preview(&mut brain, CuratorPolicy::default()).expect("a plan");
        let due = is_due(&brain);
        assert_eq!(due, !plan.transitioned.is_empty(), "{plan:?}");
        if random.below(2) == 0 {
            curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
            assert!(!is_due(&brain), "a second pass finds nothing");
        }
    }
}

#[test]
fn the_sidecar_is_sorted_and_stable_and_a_broken_one_harms_nothing() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "zebra", CreatedBy::Agent);
    create(&mut brain, "ape", CreatedBy::Agent);
    touch(&mut brain, "ape");
    brain.close().expect("closed");
    let path = brains.file("1", "skills/.usage.json");
    let first = std::fs::read(&path).expect("written");
    let text = String::from_utf8(first.clone()).expect("text");
    assert!(text.find("\"ape\"").expect("ape") < text.find("\"zebra\"").expect("zebra"));
    assert!(text.starts_with("{\n  \"ape\": {\n    \"archived_at\": null,"), "{text}");
    for (n, broken) in ["", "{", "[]", "{\"ape\": 3}"].into_iter().enumerate() {
        std::fs::write(&path, broken).expect("written");
        let mut brain = brains.open("1").expect("a broken sidecar is nobody's truth");
        assert_eq!(brain.usage().expect("usage")[&slug("ape")].use_count, 1);
        let mut draft = Draft::new();
        brain.edit(&mut draft).pin_skill(&slug("zebra"), n % 2 == 0).expect("pinned");
        brain.settle(&draft, StepKind::Maintenance, "a step").expect("settled");
        brain.close().expect("closed");
    }
    let again = std::fs::read(&path).expect("written again");
    assert_eq!(String::from_utf8_lossy(&again), text, "byte-stable");
}

#[test]
fn curate_by_hand_says_what_would_move_and_then_moves_it() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    // The brain's clock stands in the past; the command's is today's.
    touch(&mut brain, "mine");
    brain.close().expect("closed");
    let herm = herm_tests::Herm::new(HERM, &brains.path());
    let dry = herm.run(&["curate", "1", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stdout.starts_with("would move:\n") && dry.stdout.contains("mine"), "{}", dry.stdout);
    assert!(dry.stdout.contains("stayed: 2 not written by the agent"), "{}", dry.stdout);
    let (code, json) = herm.json(&["curate", "1"]);
    assert_eq!(code, 0);
    assert_eq!(json["transitioned"][0]["slug"], "mine");
    assert_eq!(json["transitioned"][0]["to"], "archived");
    assert_eq!(json["skipped"][0]["reason"], "not-agent-created");
    assert_eq!(json["settled"]["moved"], true);
    let again = herm.run(&["curate", "1"]);
    assert!(again.stdout.starts_with("nothing to retire"), "{}", again.stdout);
    // Out of the index, and still found by its words.
    for (words, found) in [("MINE", true), ("do it", true), ("nothing of it", false)] {
        let (code, json) = herm.json(&["skills", "list", "1", "--archived", "--search", words]);
        assert_eq!(code, 0);
        assert_eq!(json["archived"].as_array().expect("a list").len(), usize::from(found), "{words}");
    }
    assert!(herm.run(&["skills", "list", "1", "--archived"]).stdout.contains("Does mine. Use when mine"));
    assert_eq!(herm.run(&["skills", "restore", "1", "mine"]).code, 0);
    assert!(herm.run(&["curate", "1"]).stdout.starts_with("nothing to retire"));
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
}

#[test]
fn curate_by_hand_says_which_skills_go_badly_and_which_were_never_used() {
    use herm::memory::{Arm, OutcomeValue};

    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "goes-badly", CreatedBy::Agent);
    create(&mut brain, "on-the-shelf", CreatedBy::Agent);
    create(&mut brain, "a-persons", CreatedBy::User);
    let at = brain.clock().now();
    for task in 0..8 {
        let value = if task == 0 { OutcomeValue::Good } else { OutcomeValue::Bad };
        crate::trials::settle(&mut brain, &format!("t{task}"), "goes-badly", Arm::Shown, value, at);
    }
    brain.close().expect("closed");
    let herm = herm_tests::Herm::new(HERM, &brains.path());
    let dry = herm.run(&["curate", "1", "--dry-run"]);
    assert!(dry.stdout.starts_with("nothing to retire"), "never active is never old: {}", dry.stdout);
    assert!(dry.stdout.contains("bad outcomes: goes-badly: 1 good, 7 bad, 0 unknown\n"), "{}", dry.stdout);
    let never = dry.stdout.lines().find(|line| line.starts_with("never used: ")).expect("said");
    assert!(never.contains("on-the-shelf for ") && !never.contains("a-persons"), "{never}");
    let (_, json) = herm.json(&["curate", "1", "--dry-run"]);
    assert_eq!(
        (&json["outcomes"][0]["slug"], &json["outcomes"][0]["clearlyBad"]),
        (&"goes-badly".into(), &true.into())
    );
    assert_eq!(json["neverUsed"][0]["slug"], "on-the-shelf");

    // Where the operator says so, what was never used goes to the archive.
    let config = brains.path().join("herm.toml");
    std::fs::write(&config, "[curator]\nunshown_days = 180\n").expect("written");
    let (code, json) = herm.json(&["--config", &config.display().to_string(), "curate", "1"]);
    assert_eq!((code, &json["transitioned"][0]["slug"]), (0, &"on-the-shelf".into()), "{json:#}");
    assert_eq!(json["transitioned"].as_array().expect("a list").len(), 1);
    let brain = brains.open("1").expect("opened");
    assert_eq!(state(&brain, "on-the-shelf"), SkillState::Archived);
}

#[test]
fn an_archived_skill_stays_archived_when_the_brain_is_seeded_again() {
    let brains = TempBrains::new();
    let herm = herm_tests::Herm::new(HERM, &brains.path());
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    assert_eq!(herm.run(&["skills", "archive", "1", "reentrancy-check"]).code, 0);
    let before = files(&brains, "skills");
    assert_eq!(herm.run(&["init", "1"]).code, 0, "what is there is shown, not made again");
    assert_eq!(files(&brains, "skills"), before);
    assert!(herm.run(&["skills", "list", "1", "--archived"]).stdout.contains("reentrancy-check"));
}

#[test]
fn counting_a_use_leaves_the_index_as_it_is() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", CreatedBy::Agent);
    brain.reload().expect("read");
    for _ in 0..3 {
        touch(&mut brain, "mine");
        let delta = brain.reload().expect("read");
        assert_eq!((delta.unchanged, delta.total), (3, 3), "{delta:?}");
    }
}
