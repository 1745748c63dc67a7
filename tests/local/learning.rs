//! `herm learn bench` with real models: two tasks of one family by default; with `HERM_LONG=1` twenty of each half of every
//! family, also with Qwen2.5-Coder-0.5B, and the tables are in `target/tmp/learning`.

use std::path::{Path, PathBuf};

use herm_tests::command::Herm;
use serde_json::Value;

fn measure(model: &Path, arguments: &[&str]) -> Value {
    let brains = tempfile::tempdir().expect("a directory");
    let herm = Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), brains.path());
    let model = model.to_str().expect("a path").to_owned();
    let mut all = vec!["learn", "bench", "--backend", "local", "--model", &model];
    all.extend(arguments);
    let (code, said): (i32, Value) = herm.json(&all);
    assert_eq!(code, 0, "{said:#}");
    said
}

fn is_long() -> bool {
    std::env::var_os("HERM_LONG").is_some()
}

/// Every family with all arms, kept where a person can look at it.
fn whole(model: &Path) {
    let name = model.file_stem().and_then(|name| name.to_str()).expect("a name");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("learning").join(name);
    let out = out.to_str().expect("a path").to_owned();
    let table = measure(model, &["--tasks", "20", "--out", &out]);
    let groups = table["table"].as_array().expect("groups");
    let row = |title: &str, arm: &str| -> &Value {
        let group = groups.iter().find(|group| group["title"] == title).expect(title);
        group["rows"].as_array().expect("rows").iter().find(|row| row["arm"] == arm).expect(arm)
    };
    let solved = |title: &str, arm: &str| row(title, arm)["heldOut"]["solved"].as_u64().expect("a count");
    println!("{}", std::fs::read_to_string(PathBuf::from(&out).join("table.md")).expect("the table"));
    assert!(solved("all", "curated") > solved("all", "none"), "a curated skill helps");
    assert!(solved("one call", "plans") > solved("one call", "none"), "an example with its plan helps");
}

#[test]
fn the_measurement_of_learning_is_the_same_at_every_run() {
    let Some(model) = herm_tests::models::smollm2() else { return };
    let arguments = ["--family", "museum-registers", "--arms", "none,curated", "--tasks", "1"];
    let table = measure(&model, &arguments);
    assert!(table["model"].as_str().expect("a model").starts_with("SmolLM2-135M-Instruct"), "{table:#}");
    assert_eq!(measure(&model, &arguments), table);
}

#[test]
fn the_whole_measurement_with_smollm2() {
    match herm_tests::models::smollm2() {
        Some(model) if is_long() => whole(&model),
        _ => {}
    }
}

#[test]
fn the_whole_measurement_with_qwen() {
    if !is_long() {
        return;
    }
    if let Some(model) = herm_tests::models::qwen_coder() {
        whole(&model);
    }
}
