//! The tables that `docs/operate/learning` has: their counts and curves are what their tasks make, so nobody edited them.

use std::path::Path;

use serde_json::Value;

use super::arms::BenchArm;
use super::run::BenchOptions;
use super::table::{ArmResult, BenchTable, FamilyResult, TaskResult, tests};

fn tasks(digits: &Value, model: &str) -> Vec<TaskResult> {
    let one = |solved: char| TaskResult {
        task: String::new(),
        solved: solved == '1',
        turns: 0,
        calls: 0,
        model: Some(model.to_owned()),
        shown: false,
        unanswered: false,
        why: None,
        answer: None,
    };
    digits.as_str().unwrap().chars().map(one).collect()
}

/// The table that a document is of, as far as its tasks say.
fn of_tasks(document: &Value) -> BenchTable {
    let model = document["model"].as_str().unwrap();
    let arm = |said: &Value| ArmResult {
        arm: BenchArm::named(said["arm"].as_str().unwrap()).unwrap(),
        learned: 0,
        evolved: 0,
        remarks: Vec::new(),
        learn: tasks(&said["learn"], model),
        held_out: tasks(&said["heldOut"], model),
    };
    let family = |said: &Value| FamilyResult {
        name: said["name"].as_str().unwrap().to_owned(),
        about: String::new(),
        group: said["group"].as_str().map(str::to_owned),
        demonstrations: 0,
        remarks: Vec::new(),
        arms: said["solved"].as_array().unwrap().iter().map(arm).collect(),
    };
    let families = document["families"].as_array().unwrap().iter().map(family).collect();
    let options = BenchOptions { arms: Vec::new(), learn: None, held_out: None, demonstrations: None, labels: true };
    BenchTable::new(document["backend"].as_str().unwrap(), &options, families)
}

/// What the tasks of a table say of each row: the counts, the intervals and the paired tests.
fn counted(document: &Value) -> Vec<(Value, Vec<[Value; 4]>, Value)> {
    let row = |row: &Value| ["arm", "learn", "heldOut", "againstNone"].map(|field| row[field].clone());
    let rows = |group: &Value| group["rows"].as_array().unwrap().iter().map(row).collect();
    let groups = document["table"].as_array().unwrap().iter();
    groups.map(|group| (group["title"].clone(), rows(group), group["compared"].clone())).collect()
}

#[test]
fn a_table_is_made_again_of_its_tasks() {
    let table = tests::table();
    let mut document = table.json();
    let again = of_tasks(&document);
    assert_eq!((again.curves(), counted(&again.json())), (table.curves(), counted(&document)));
    document["families"][0]["solved"][0]["heldOut"] = "00000001".into();
    assert_ne!(counted(&of_tasks(&document).json()), counted(&document));
}

#[test]
fn the_tables_of_the_documents_are_what_their_tasks_make() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/learning");
    // A published package has no documents.
    let Ok(models) = std::fs::read_dir(documents) else { return };
    for model in models.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let document: Value = serde_json::from_slice(&std::fs::read(model.join("table.json")).unwrap()).unwrap();
        let table = of_tasks(&document);
        assert_eq!(counted(&table.json()), counted(&document), "{}", model.display());
        let curves = std::fs::read_to_string(model.join("curves.svg")).unwrap();
        assert!(curves == table.curves(), "{}: the curves are others", model.display());
    }
}
