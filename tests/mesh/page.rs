//! The page about gates shows documents that are real.

use herm::successor::gate::vote::VoteStatus;
use herm::successor::gate::{SignedApproval, StewardApproval, Vote};
use herm_tests::can_sandbox;
use serde_json::Value;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operate/gates.md");
    std::fs::read_to_string(path).unwrap()
}

/// The examples in JSON that are whole.
fn examples() -> Vec<Value> {
    let page = page();
    let blocks = page.split("```json\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    blocks.filter_map(|(block, _)| serde_json::from_str(block).ok()).collect()
}

#[test]
fn the_approval_of_the_page_is_signed_by_the_steward_of_the_page() {
    if !can_sandbox() {
        return;
    }
    let page = page();
    let line = page.lines().find(|line| line.starts_with("{\"payloadType\"")).unwrap();
    let signed = SignedApproval::parse(line).unwrap();
    let shown: StewardApproval = serde_json::from_value(examples()[0].clone()).unwrap();
    assert_eq!(*signed.predicate(), shown);
    assert!(page.contains(&format!("keys = [\"{}\"]", signed.key())), "{}", signed.key());
}

#[test]
fn the_vote_of_the_page_is_one() {
    if !can_sandbox() {
        return;
    }
    let shown: Vote = serde_json::from_value(examples()[1].clone()).unwrap();
    assert_eq!(serde_json::to_value(&shown).unwrap(), examples()[1]);
}

#[test]
fn the_page_names_every_standing() {
    if !can_sandbox() {
        return;
    }
    for standing in [VoteStatus::Approve, VoteStatus::Reject, VoteStatus::NeedsRevision, VoteStatus::Equivocation] {
        let name = serde_json::to_string(&standing).unwrap().replace('"', "`");
        assert!(page().contains(&name), "{name}");
    }
}

#[test]
fn the_configuration_of_the_page_is_one() {
    if !can_sandbox() {
        return;
    }
    let page = page();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    // A quorum of three needs three members; the page shows two of them.
    let text = text.replace("quorum = 3", "quorum = 2");
    let operator = herm_tests::operator::Operator::new(super::HERM).configured(&text);
    let run = operator.herm().run(&["doctor"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("human: 1 stewards, 2 of 2 nodes of the mesh"), "{run:?}");
}
