//! `herm demo learn` through the command line: four tasks by default, the whole family with `HERM_LONG=1`.

use herm_tests::command::Herm;
use serde_json::Value;

#[test]
fn the_measurement_of_learning_has_all_its_arms_and_counts_what_it_says() {
    let Some(model) = herm_tests::models::smollm2() else { return };
    let tasks = if std::env::var_os("HERM_LONG").is_some() { 40 } else { 4 };
    let brains = tempfile::tempdir().expect("a directory");
    let model = model.to_str().expect("a path").to_owned();
    let herm = Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), brains.path());
    let (code, said): (i32, Value) =
        herm.json(&["demo", "learn", "--backend", "local", "--model", &model, "--tasks", &tasks.to_string()]);
    assert_eq!(code, 0, "{said}");
    let arms: Vec<&str> = said["arms"].as_array().expect("arms").iter().filter_map(|arm| arm["arm"].as_str()).collect();
    assert_eq!(arms, ["no skill", "curated skill", "first half, learning", "self-written skill"]);
    for arm in said["arms"].as_array().expect("arms") {
        let measured = arm["measured"].as_array().expect("tasks");
        assert_eq!(measured.len(), tasks / 2);
        let solved = measured.iter().filter(|task| task["solved"] == true).count();
        assert_eq!(arm["solved"], solved);
        let [low, high] = [0, 1].map(|at| arm["interval"][at].as_f64().expect("a share"));
        let rate = solved as f64 / measured.len() as f64;
        assert!(low <= rate && rate <= high, "{arm}");
    }
    assert!(said["model"].as_str().expect("a model").starts_with("SmolLM2-135M-Instruct"));
    println!("{said:#}");
}
