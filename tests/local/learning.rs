//! `herm learn bench` with real models: one task of one family by default; with `HERM_LONG=1` twenty of each half of every
//! family, also with Qwen2.5-Coder-0.5B, and what the tables have to show. The tables are in `target/tmp/learning`, with
//! the replies: a run that was interrupted goes on. `HERM_FAMILIES=a,b` measures these families alone; a bound of a family
//! that was not measured is passed over.

use std::path::{Path, PathBuf};

use herm_tests::command::Herm;
use serde_json::{Value, json};

/// Where a difference is called one.
const SIGNIFICANT: f64 = 0.05;

/// What an arm has to solve of the held-out tasks of a family, or of a group of families.
struct Bound {
    of: &'static str,
    arm: &'static str,
    solved: u64,
    tasks: u64,
    /// How improbable the difference to no learning has to be.
    p: f64,
}

const fn bound(of: &'static str, arm: &'static str, solved: u64, tasks: u64, p: f64) -> Bound {
    Bound { of, arm, solved, tasks, p }
}

const SMOLLM2: [Bound; 4] = [
    bound("one call", "examples-trials", 42, 60, 0.01),
    bound("one call", "plans", 51, 60, 0.01),
    // Each begins with one demonstration.
    bound("ferry-cabins", "plans", 12, 20, 0.01),
    bound("parcel-vans", "plans", 12, 20, 0.01),
];
const QWEN: [Bound; 1] = [bound("one call", "plans", 52, 60, 0.01)];
/// Arms that are never significantly below no learning, whatever the family.
const HARMLESS: [&str; 2] = ["examples-trials", "trials"];

/// Whether every bound needs its row.
#[derive(Clone, Copy, PartialEq)]
enum Families {
    /// All were measured: a row that is missing is a fault.
    All,
    /// `HERM_FAMILIES` names some: the bounds of others are passed over.
    Some,
}

/// What of a table is not as it has to be, each in a sentence.
fn broken(table: &Value, bounds: &[Bound], measured: Families) -> Vec<String> {
    let mut broken = Vec::new();
    let groups = table["table"].as_array().expect("groups");
    let row = |title: &str, arm: &str| -> Option<&Value> {
        let group = groups.iter().find(|group| group["title"] == title)?;
        group["rows"].as_array().expect("rows").iter().find(|row| row["arm"] == arm)
    };
    for Bound { of, arm, solved, tasks, p } in bounds {
        let Some(row) = row(of, arm) else {
            if measured == Families::All {
                broken.push(format!("{of}, {arm}: it was not measured"));
            }
            continue;
        };
        let held_out = |field: &str| row["heldOut"][field].as_u64().expect("a count");
        let (found, all) = (held_out("solved"), held_out("tasks"));
        if found * tasks < solved * all {
            broken.push(format!("{of}, {arm}: {found} of {all}, and at least {solved} of {tasks} are due"));
        }
        if !is_above(&row["againstNone"], *p) {
            broken.push(format!("{of}, {arm}: not above no learning with p < {p}: {}", row["againstNone"]));
        }
    }
    // All families together; one alone stands for itself.
    let whole = groups.last().and_then(|group| group["title"].as_str()).unwrap_or_default();
    if let Some(curated) = row(whole, "curated")
        && !is_above(&curated["againstNone"], SIGNIFICANT)
    {
        broken.push(format!("{whole}: curated skills are not above no learning: {}", curated["againstNone"]));
    }
    let compared = groups.last().and_then(|group| group["compared"].as_array()).into_iter().flatten();
    for pair in compared.filter(|pair| pair["arm"] == "examples" && pair["against"] == "random") {
        if !is_above(pair, SIGNIFICANT) {
            broken.push(format!("{whole}: a random example is not below the nearest: {pair}"));
        }
    }
    for group in groups {
        for row in
            group["rows"].as_array().expect("rows").iter().filter(|row| HARMLESS.iter().any(|arm| row["arm"] == *arm))
        {
            let against = &row["againstNone"];
            if against["p"].as_f64().is_some_and(|p| p < SIGNIFICANT)
                && against["worse"].as_u64() > against["better"].as_u64()
            {
                broken.push(format!("{}, {}: below no learning: {against}", group["title"], row["arm"]));
            }
        }
    }
    broken
}

fn is_above(counts: &Value, most: f64) -> bool {
    counts["p"].as_f64().is_some_and(|p| p < most) && counts["better"].as_u64() > counts["worse"].as_u64()
}

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

/// Every family with all arms, kept where a person can look at it, and held against the bounds.
fn whole(model: &Path, bounds: &[Bound]) {
    let name = model.file_stem().and_then(|name| name.to_str()).expect("a name");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("learning").join(name);
    std::fs::create_dir_all(&out).expect("a directory");
    let replies = out.join("replies.jsonl").to_str().expect("a path").to_owned();
    let out = out.to_str().expect("a path").to_owned();
    let mut arguments = vec!["--tasks", "20", "--out", &out, "--replies", &replies];
    let families = std::env::var("HERM_FAMILIES").unwrap_or_default();
    for family in families.split(',').map(str::trim).filter(|family| !family.is_empty()) {
        arguments.extend(["--family", family]);
    }
    let measured = if families.is_empty() { Families::All } else { Families::Some };
    let table = measure(model, &arguments);
    println!("{}", std::fs::read_to_string(PathBuf::from(&out).join("table.md")).expect("the table"));
    let broken = broken(&table, bounds, measured);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
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
        Some(model) if is_long() => whole(&model, &SMOLLM2),
        _ => {}
    }
}

#[test]
fn the_whole_measurement_with_qwen() {
    if !is_long() {
        return;
    }
    if let Some(model) = herm_tests::models::qwen_coder() {
        whole(&model, &QWEN);
    }
}

/// A row of a table, with its count of the held-out tasks and against no learning.
fn row(arm: &str, solved: u64, (better, worse, p): (u64, u64, f64)) -> Value {
    json!({
        "arm": arm, "heldOut": { "solved": solved, "tasks": 60 },
        "againstNone": { "better": better, "worse": worse, "p": p },
    })
}

#[test]
fn a_table_below_a_bound_is_named_with_the_bound() {
    let table = |rows: Vec<Value>, random: Value| {
        let pair = json!([{ "arm": "examples", "against": "random", "better": 20, "worse": 1, "p": 0.0001 }]);
        let compared = if random.is_null() { pair } else { random };
        json!({ "table": [{ "title": "one call", "rows": rows, "compared": compared }] })
    };
    let good = [
        row("curated", 40, (20, 0, 0.0001)),
        row("examples-trials", 42, (30, 0, 0.0001)),
        row("plans", 51, (40, 0, 0.0001)),
    ];
    assert_eq!(broken(&table(good.to_vec(), Value::Null), &SMOLLM2, Families::Some), Vec::<String>::new());
    // Families that were not measured have no bounds, where not all were to be measured.
    let other = json!({ "table": [{ "title": "bus-times", "rows": [], "compared": [] }] });
    assert_eq!(broken(&other, &SMOLLM2, Families::Some), Vec::<String>::new());
    assert_eq!(broken(&other, &SMOLLM2, Families::All).len(), SMOLLM2.len());
    let bad = vec![
        row("curated", 40, (4, 2, 0.6875)),
        row("examples-trials", 41, (0, 8, 0.0078)),
        row("plans", 50, (40, 0, 0.02)),
        row("self-written", 0, (0, 30, 0.0001)),
    ];
    let random = json!([{ "arm": "examples", "against": "random", "better": 3, "worse": 1, "p": 0.625 }]);
    let said = broken(&table(bad, random), &SMOLLM2, Families::Some);
    let begins = [
        "one call, examples-trials: 41 of 60, and at least 42 of 60 are due",
        "one call, examples-trials: not above no learning with p < 0.01",
        "one call, plans: 50 of 60, and at least 51 of 60 are due",
        "one call, plans: not above no learning with p < 0.01",
        "one call: curated skills are not above no learning",
        "one call: a random example is not below the nearest",
        "\"one call\", \"examples-trials\": below no learning",
    ];
    assert_eq!(said.len(), begins.len(), "{said:#?}");
    assert!(said.iter().zip(begins).all(|(said, begin)| said.starts_with(begin)), "{said:#?}");
}
