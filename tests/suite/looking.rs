//! A process that only looks at a brain writes nothing to it: whether it is of this herm or an earlier one, closed, left by
//! a power cut, or behind its own receipts.

use std::collections::BTreeSet;
use std::path::Path;

use herm_tests::Herm;

use crate::HERM;
use crate::damage::{bytes, crashed, cut_first_edition};
use crate::first_edition;
use crate::lost_steps::{lost, lost_from, with_key};

/// A look at a verdict that is not there.
const NO_VERDICT: &str = "successor show 0123456789abcdef";

/// Every command that looks at brain 1, which has this skill.
fn looks(skill: &str) -> Vec<String> {
    let lines = [
        "brain list",
        "brain show 1",
        "brain verify 1",
        "brain history 1 --files",
        "brain diff 1 1 2",
        "brain repair 1",
        "receipts list 1",
        "receipts show 1 1",
        "receipts verify 1",
        "receipts export 1",
        "receipts replay 1 2",
        "receipts key",
        "skills list 1 --all",
        "skills list 1 --archived",
        "skills view 1 SKILL",
        "memory show 1",
        "memory search 1 question",
        "learn status 1",
        "learn trials 1",
        "learn show 1 SKILL",
        "learn report 1",
        "evolve status 1",
        "evolve report 1",
        "evolve analyze 1 --skill SKILL",
        "evolve propose 1 --skill SKILL",
        "evolve candidates 1 --query question",
        "evolve mine 1 --dry-run",
        "evolve queue list 1 --all",
        "evolve auto-run 1",
        "successor list",
        "successor drafts",
        "successor lineage 1",
        NO_VERDICT,
        "snapshot list 1",
        "snapshot show 1",
        "snapshot verify 1",
        "snapshot status 1",
        "doctor",
    ];
    lines.map(|line| line.replace("SKILL", skill)).into()
}

/// Runs every look; those that did not end with exit 0, with what they said. The brain is what it was, byte for byte.
fn look(herm: &Herm, brain: &Path, skill: &str) -> Vec<(String, i32, String)> {
    let before = bytes(brain);
    let mut ended = Vec::new();
    for look in looks(skill) {
        let run = herm.run(&look.split(' ').collect::<Vec<_>>());
        assert!(bytes(brain) == before, "{look} wrote something: {run:?}");
        if run.code != 0 {
            ended.push((look, run.code, run.stdout + &run.stderr));
        }
    }
    ended
}

fn names(ended: &[(String, i32, String)]) -> Vec<(&str, i32)> {
    ended.iter().map(|(look, code, _)| (look.as_str(), *code)).collect()
}

#[test]
fn looking_at_a_brain_of_the_first_edition_writes_nothing() {
    let operator = first_edition::operator();
    let brain = operator.brains().join("1");
    let ended = look(&operator.herm(), &brain, "check-reentrancy-and-share-inflation");
    // Version 9 is not what this operator pushed last.
    assert_eq!(names(&ended), [(NO_VERDICT, 4), ("snapshot status 1", 1)], "{ended:#?}");
}

#[test]
fn looking_at_a_brain_with_a_log_writes_nothing() {
    let made = crashed();
    with_key(&made);
    for brains in [made, cut_first_edition()] {
        let ended = look(&Herm::new(HERM, &brains.path()), &brains.file("1", ""), "flat-one");
        // It has learned nothing, was never pushed, and there is no key for snapshots.
        let mut expected = vec![
            ("learn show 1 flat-one", 4),
            (NO_VERDICT, 4),
            ("snapshot list 1", 4),
            ("snapshot show 1", 3),
            ("snapshot verify 1", 3),
            ("snapshot status 1", 1),
        ];
        // Its second step is not of a task as the harness runs one.
        if ended.iter().any(|(look, _, said)| look == "receipts replay 1 2" && said.contains("is not of a task")) {
            expected.insert(0, ("receipts replay 1 2", 2));
        }
        assert_eq!(names(&ended), expected, "{ended:#?}");
    }
}

#[test]
fn looking_at_a_brain_that_has_lost_steps_is_refused_and_writes_nothing() {
    let made = lost();
    with_key(&made);
    // These do not open the brain, or name what is wrong with it.
    let others = ["brain list", "receipts key", "successor list", "successor drafts", "doctor"];
    for brains in [made, lost_from(cut_first_edition())] {
        let ended = look(&Herm::new(HERM, &brains.path()), &brains.file("1", ""), "flat-one");
        for look in looks("flat-one") {
            let (code, said) = ended
                .iter()
                .find_map(|(name, code, said)| (*name == look).then_some((*code, said.as_str())))
                .unwrap_or_default();
            match look.as_str() {
                other if others.contains(&other) => assert_eq!(code, 0, "{look}: {said}"),
                "snapshot list 1" | NO_VERDICT => assert_eq!(code, 4, "{look}: {said}"),
                "snapshot show 1" | "snapshot verify 1" => assert_eq!(code, 3, "{look}: {said}"),
                "brain repair 1" => assert!(code == 7 && said.contains("lost: the step to version 7"), "{said}"),
                _ => assert!(code == 7 && said.contains("it has lost steps that were acknowledged"), "{look}: {said}"),
            }
        }
    }
}

#[test]
fn what_the_server_is_asked_for_writes_nothing_either() {
    let operator = first_edition::operator();
    let brain = operator.brains().join("1");
    let look = || {
        let mut found = bytes(&brain);
        // While a file is open, an empty log stands beside it.
        found.retain(|path, content| !path.ends_with("memory.db-wal") || !content.is_empty());
        found
    };
    let before = look();
    let key = operator.key(&["boss", "--operations", "operate"]);
    let serving = operator.serve();
    let client = serving.client().key(&key);
    let skill = "check-reentrancy-and-share-inflation";
    let agent = |path: &str| format!("/v1/agents/1{path}");
    let mut asked: Vec<String> = [
        "/v1/agents",
        "/v1/tasks",
        "/v1/key",
        "/v1/models",
        "/v1/operator/status",
        "/metrics",
        "/healthz",
        "/readyz",
        "/",
    ]
    .map(str::to_owned)
    .into();
    asked.extend(
        [
            "",
            "/skills?state=all",
            "/memory/search?q=vault",
            "/receipts",
            "/receipts/1",
            "/history",
            "/charts",
            "/learning",
            "/snapshots",
            "/diff?from=1&to=2",
            "/proposals?status=all",
        ]
        .map(agent),
    );
    asked.extend([agent(&format!("/skills/{skill}")), agent(&format!("/skills/{skill}/versions/2"))]);
    let mut statuses = BTreeSet::new();
    for path in &asked {
        let answer = client.get(path);
        statuses.insert((path.as_str(), answer.status));
        assert!(look() == before, "{path} wrote something: {answer:?}");
    }
    let refused: Vec<_> = statuses.iter().filter(|(_, status)| *status != 200).collect();
    assert_eq!(refused, Vec::<&(&str, u16)>::new());
    assert!(serving.stop().success());
    assert!(bytes(&brain) == before, "the end of the server wrote something");
}
