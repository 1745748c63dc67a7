//! `herm learn bench`: families that are data, measured with a model that imitates what it is shown.

use std::path::{Path, PathBuf};

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::{Herm, Run, imitator};
use serde_json::{Value, json};

use crate::HERM;

/// How many tasks each half has.
const HALF: usize = 8;
const THINGS: [&str; 2 * HALF] = [
    "lamp", "rope", "kettle", "ladder", "mirror", "violin", "globe", "clock", "candle", "bucket", "drum", "easel",
    "fan", "guitar", "helmet", "jar",
];

/// A directory with brains and a family: every thing is on the list `cellar`. Who asks in the learning half says so.
struct Bench {
    dir: tempfile::TempDir,
    herm: Herm,
    server: ModelServer,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let herm = Herm::new(HERM, &dir.path().join("brains"));
        let bench = Self { dir, herm, server: imitator::serve() };
        std::fs::create_dir(bench.family()).expect("a directory");
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["thing", "list"],
            "properties": { "thing": { "type": "string" }, "list": { "enum": ["attic", "cellar", "garage"] } },
        });
        let row = |(at, thing): (usize, &&str)| json!({ "args": { "thing": thing, "list": "cellar" }, "result": format!("The {thing} is in box {}.", 20 + at) });
        let bell = json!({ "args": { "thing": "bell", "list": "cellar" }, "result": "The bell is in box 90." });
        let tool = json!({
            "name": "find_thing", "description": "Says where a thing is.", "schema": schema,
            "table": THINGS.iter().enumerate().map(row).chain([bell]).collect::<Vec<_>>(),
            "otherwise": "the {list} has no {thing}",
        });
        bench.write("family.json", &json!({ "name": "cellar", "tools": [tool] }).to_string());
        bench.write("system.md", "You find things. Look every thing up with a tool, then answer with its box.\n");
        bench.write(
            "skill.md",
            "---\nname: find-a-thing\ndescription: \"Finds a thing: ask the list cellar. Use when someone asks where a thing \
             is.\"\n---\nCall find_thing with the list cellar. Answer with the box.\n",
        );
        let task = |(at, thing): (usize, &&str)| {
            let said = if at < HALF { " Look on the list cellar." } else { "" };
            json!({ "input": format!("Where is the {thing}?{said}"), "check": format!("box {}", 20 + at) }).to_string()
        };
        bench.write("tasks.jsonl", &THINGS.iter().enumerate().map(task).collect::<Vec<_>>().join("\n"));
        bench
    }

    fn family(&self) -> PathBuf {
        self.dir.path().join("cellar")
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.family().join(name), content).expect("it is written");
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let family = self.family().display().to_string();
        let mut all = vec!["learn", "bench", "--family", &family, "--backend", "openai", "--model", "imitator-1"];
        all.extend(arguments);
        let mut command = self.herm.command(&all);
        command.env("OPENAI_BASE_URL", format!("{}/v1", self.server.url())).env("OPENAI_API_KEY", "sk-test-0123456789");
        let output = command.output().expect("it starts");
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[&["--json"], arguments].concat());
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&run.stdout).expect("one JSON document")
    }
}

fn row<'t>(table: &'t Value, arm: &str) -> &'t Value {
    let rows = table["table"][0]["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["arm"] == arm).unwrap_or_else(|| panic!("no arm {arm}: {table:#}"))
}

fn held_out(table: &Value, arm: &str) -> Value {
    row(table, arm)["heldOut"]["solved"].clone()
}

#[test]
fn what_is_shown_is_imitated_and_what_is_not_learned_is_not() {
    let bench = Bench::new();
    let table = bench.json(&["--arms", "none,curated"]);
    assert_eq!(held_out(&table, "none"), 0, "{table:#}");
    assert_eq!(held_out(&table, "curated"), HALF, "{table:#}");
    let rows = &table["table"][0]["rows"];
    assert_eq!(rows[0]["learn"]["solved"], HALF, "who says where to look is answered: {table:#}");
    assert_eq!(rows[1]["againstNone"], json!({ "better": HALF, "worse": 0, "p": 0.0078125 }));
    assert_eq!(
        table["families"][0]["solved"][1],
        json!({ "arm": "curated", "learn": "11111111", "heldOut": "11111111" })
    );
    assert_eq!((table["model"].clone(), table["labels"].clone()), (json!("imitator-1"), json!(true)));
}

#[test]
fn what_went_well_is_shown_to_the_tasks_that_follow() {
    let bench = Bench::new();
    let table = bench.json(&["--arms", "none,examples,plans,random"]);
    for arm in ["examples", "plans", "random"] {
        assert_eq!(held_out(&table, arm), HALF, "{arm}: {table:#}");
        assert_eq!(row(&table, arm)["shown"], HALF, "{arm}: {table:#}");
        assert_eq!(row(&table, arm)["learned"], 1, "{arm}: {table:#}");
    }
    assert_eq!((held_out(&table, "none"), row(&table, "none")["shown"].clone()), (json!(0), json!(0)));
}

#[test]
fn what_is_on_trial_is_shown_to_some_of_the_tasks() {
    let bench = Bench::new();
    let table = bench.json(&["--arms", "none,examples-trials,trials"]);
    for arm in ["examples-trials", "trials"] {
        let (solved, shown) = (held_out(&table, arm), row(&table, arm)["shown"].clone());
        assert_eq!(solved, shown, "{arm}: {table:#}");
        assert!((1..HALF as u64).contains(&shown.as_u64().expect("a count")), "{arm}: {table:#}");
    }
}

#[test]
fn a_demonstration_teaches_the_arms_that_learn_what_no_task_would() {
    let bench = Bench::new();
    // Nothing says where to look: no task is solved.
    let task = |(at, thing): (usize, &&str)| {
        json!({ "input": format!("Where is the {thing}?"), "check": format!("box {}", 20 + at) }).to_string()
    };
    bench.write("tasks.jsonl", &THINGS.iter().enumerate().map(task).collect::<Vec<_>>().join("\n"));
    let shown = json!({
        "input": "Where is the bell?", "calls": [{ "tool": "find_thing", "args": { "thing": "bell", "list": "cellar" } }],
        "answer": "box 90",
    });
    bench.write("demonstrations.jsonl", &shown.to_string());
    let table = bench.json(&["--arms", "none,curated,examples,plans,self-written"]);
    let solved = ["none", "curated", "examples", "plans", "self-written"].map(|arm| held_out(&table, arm));
    assert_eq!(solved, [json!(0), json!(HALF), json!(HALF), json!(HALF), json!(0)], "{table:#}");
    assert_eq!(
        (row(&table, "examples")["shown"].clone(), row(&table, "examples")["learned"].clone()),
        (json!(HALF), json!(1))
    );
    assert_eq!(table["families"][0]["demonstrations"], 1);
    let table = bench.json(&["--arms", "none,examples", "--demonstrate", "0"]);
    assert_eq!((held_out(&table, "examples"), table["families"][0]["demonstrations"].clone()), (json!(0), json!(0)));
    let checked = bench.run(&["--check"]);
    assert!(
        checked.stdout.starts_with("cellar: 8 tasks to learn from, 8 held out, 1 demonstration; tools: "),
        "{checked:?}"
    );

    // Replies that the loop does not take end the arm, and not the first task.
    bench.write("demonstrations.jsonl", &shown.to_string().replace("\"box 90\"", "{\"tool\": \"find_thing\"}"));
    let run = bench.run(&["--arms", "examples"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("demonstrations.jsonl, line 1: the demonstration does not go well"), "{run:?}");
    bench.write("demonstrations.jsonl", &shown.to_string().replace("cellar", "attic"));
    let run = bench.run(&["--check"]);
    assert!(run.code == 2 && run.stderr.contains("line 1: call 1: find_thing fails: the attic has no bell"), "{run:?}");
}

/// A model that asks the attic first and then the cellar, and writes two skills that say nearly the same.
fn writes_the_same_twice() -> ModelServer {
    ModelServer::answering(|request| {
        let messages: Vec<&str> = request.body["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|said| said["content"].as_str())
            .collect();
        let last = messages.last().copied().unwrap_or_default();
        let skill = |name: &str, about: &str, end: &str| {
            let body = format!(
                "Call find_thing with the list cellar. The list attic has no thing that anybody asks for, so leave it \
                 out.{end} Answer with the box."
            );
            json!({ "action": "create", "name": name, "description": about, "body": body })
        };
        // An example may stand before the question.
        let question = messages.get(1).and_then(|said| said.get(said.rfind("Where is the ")?..)).unwrap_or_default();
        let thing = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).nth(3);
        let call = |list: &str| json!({ "tool": "find_thing", "args": { "thing": thing, "list": list } });
        let said = match messages.first().is_some_and(|said| said.starts_with("You keep the procedures")) {
            true if thing == Some("lamp") => {
                skill("find-in-the-house", "Finds a thing of the house. Use when someone wants to know its place.", "")
            }
            true if thing == Some("rope") => {
                skill("name-a-box", "Names the box where an object lies. Use when a customer is looking.", " It fails.")
            }
            true => json!({ "action": "none", "reason": "nothing new" }),
            false => match last.split_once("is in ") {
                Some((_, place)) => json!({ "answer": place.split('.').next() }),
                None if last.contains("the attic has no") => call("cellar"),
                None => call("attic"),
            },
        };
        Step::chat(&said.to_string())
    })
}

#[test]
fn skills_that_say_the_same_are_merged_in_the_arm_of_everything_alone() {
    let bench = Bench { server: writes_the_same_twice(), ..Bench::new() };
    let table = bench.json(&["--arms", "self-written,trials"]);
    let of = |arm: &str| ["learned", "evolved"].map(|field| row(&table, arm)[field].clone());
    assert_eq!(of("self-written"), [json!(2), json!(0)], "{table:#}");
    // One skill of the two, and the procedure of the examples.
    assert_eq!(of("trials"), [json!(2), json!(1)], "{table:#}");
}

#[test]
fn a_random_example_is_compared_with_the_nearest() {
    let bench = Bench::new();
    let run = bench.run(&["--arms", "examples,random", "--json"]);
    let table: Value = serde_json::from_str(&run.stdout).expect("one JSON document");
    assert_eq!(
        table["table"][0]["compared"],
        json!([{ "arm": "examples", "against": "random", "better": 0, "worse": 0, "p": 1.0 }])
    );
}

#[test]
fn without_labels_examples_are_made_of_answers_that_results_vouch_for() {
    let bench = Bench::new();
    let table = bench.json(&["--arms", "none,examples", "--no-labels"]);
    assert_eq!((held_out(&table, "examples"), table["labels"].clone()), (json!(HALF), json!(false)), "{table:#}");
}

#[test]
fn every_arm_is_measured_and_the_same_command_gives_the_same_files() {
    let bench = Bench::new();
    let read = |out: &Path| {
        ["table.md", "table.json", "curves.svg", "tasks.jsonl"]
            .map(|name| std::fs::read_to_string(out.join(name)).expect(name))
    };
    let [first, second] = ["a/first", "b"].map(|name| {
        let out = bench.dir.path().join(name);
        let run = bench.run(&["--out", out.to_str().expect("UTF-8")]);
        assert_eq!(run.code, 0, "{run:?}");
        let files = read(&out);
        assert_eq!(run.stdout, files[0]);
        assert_eq!(run.stderr.lines().count(), 8, "a line for each arm: {}", run.stderr);
        files
    });
    assert_eq!(first, second);
    let [table, document, curves, tasks] = first;
    assert!(table.starts_with("# What learning brings: imitator-1\n"), "{table}");
    assert_eq!(curves.matches("<polyline").count(), 8);
    assert_eq!(tasks.lines().count(), 8 * 2 * HALF);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let arms: Vec<_> =
        document["families"][0]["solved"].as_array().expect("arms").iter().map(|arm| arm["arm"].clone()).collect();
    assert_eq!(arms, ["none", "curated", "examples", "examples-trials", "plans", "self-written", "trials", "random"]);
}

#[test]
fn replies_that_are_kept_are_not_asked_for_again() {
    let bench = Bench::new();
    let replies = bench.dir.path().join("replies.jsonl").display().to_string();
    let arguments = ["--arms", "none,curated", "--tasks", "3", "--learn", "2", "--replies", &replies];
    let before = bench.json(&arguments);
    let asked = bench.server.requests().len();
    assert!(asked > 0);
    assert_eq!(bench.json(&arguments), before);
    assert_eq!(bench.server.requests().len(), asked, "nothing is asked twice");
    let none = row(&before, "none");
    assert_eq!((none["learn"]["tasks"].clone(), none["heldOut"]["tasks"].clone()), (json!(2), json!(3)));
}

#[test]
fn a_backend_that_does_not_answer_ends_the_measurement_with_a_reason() {
    let bench = Bench::new();
    let family = bench.family().display().to_string();
    let mut command =
        bench.herm.command(&["learn", "bench", "--family", &family, "--backend", "ollama", "--model", "m"]);
    let output = command.env("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("cellar, no learning: the backend does not answer"), "{said}");
}

#[test]
fn families_are_checked_without_asking_a_model() {
    let bench = Bench::new();
    let run = bench.run(&["--check"]);
    assert_eq!(run.stdout, "cellar: 8 tasks to learn from, 8 held out; tools: find_thing, skill_view\n");
    let run = bench.herm.run(&["learn", "bench", "--check"]);
    assert_eq!((run.code, run.stdout.matches("40 tasks to learn from, 40 held out").count()), (0, 8), "{run:?}");
    bench.write("tasks.jsonl", "{\"input\": \"a\"}\n");
    let run = bench.run(&["--check"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stderr.contains("tasks.jsonl, line 1: the task has no check") && run.stderr.contains("hint: "),
        "{run:?}"
    );
    assert_eq!(bench.server.requests().len(), 0);
}

#[test]
fn a_directory_of_families_runs_them_all() {
    let bench = Bench::new();
    let several = bench.dir.path().join("several");
    for name in ["one", "two"] {
        std::fs::create_dir_all(several.join(name)).expect("a directory");
        for file in ["system.md", "tasks.jsonl"] {
            std::fs::copy(bench.family().join(file), several.join(name).join(file)).expect("it is copied");
        }
        let family = std::fs::read_to_string(bench.family().join("family.json")).expect("the family");
        let family = family.replace("\"cellar\",\"tools\"", &format!("\"{name}\",\"tools\""));
        std::fs::write(several.join(name).join("family.json"), family).expect("it is written");
    }
    let run = bench.herm.run(&["learn", "bench", "--check", "--family", &several.display().to_string()]);
    let begins: Vec<_> =
        run.stdout.lines().filter_map(|line| line.split_once(": 8 tasks")).map(|(name, _)| name).collect();
    assert_eq!((run.code, begins), (0, vec!["one", "two"]), "{run:?}");
}

#[test]
fn what_cannot_be_run_is_said_before_anything_is_asked() {
    let bench = Bench::new();
    let other = bench.dir.path().join("other");
    std::fs::create_dir(&other).expect("a directory");
    for name in ["system.md", "tasks.jsonl", "family.json"] {
        std::fs::copy(bench.family().join(name), other.join(name)).expect("it is copied");
    }
    let other = other.display().to_string();
    for (arguments, said) in [
        (&["--arms", "all"][..], "there is no arm \"all\""),
        (&["--tasks", "0"], "no tasks are to be run"),
        (&["--family", &other], "two families are named \"cellar\""),
        (&["--family", "nothing"], "there is no directory and no built-in family \"nothing\""),
        (&["--family", "/nonexistent/x"], "cannot open the family /nonexistent/x"),
        (&["--svg", "/nonexistent/x.svg"], "/nonexistent"),
        (&["--out", "/proc/nothing"], "/proc/nothing"),
    ] {
        let run = bench.run(arguments);
        assert!(run.code > 1 && run.stderr.contains(said), "{arguments:?}: {run:?}");
    }
    bench.write("family.json", r#"{"mcp": {"a": {"command": "./server", "args": ["x"]}}}"#);
    let run = bench.run(&[]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("a family starts a program: ./server x") && run.stderr.contains("--allow-programs"));
    assert_eq!(bench.server.requests().len(), 0);
}

/// The fenced blocks of a page, each with the file that the line before it names.
fn files_of_the_page() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/learning-family.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let named = |name: &&str| name.starts_with('`') && name.ends_with("`:");
    let mut files = Vec::new();
    for (at, name) in page.match_indices("\n\n```").map(|(at, _)| (at, page[..at].lines().last().unwrap_or_default())) {
        if named(&name) {
            let block = page[at + 2..].split_once('\n').expect("a block").1.split("\n```").next().expect("its end");
            files.push((name.trim_matches(['`', ':']).to_owned(), format!("{block}\n")));
        }
    }
    files
}

#[test]
fn the_example_of_the_page_is_a_family() {
    let bench = Bench::new();
    let family = bench.dir.path().join("my-family");
    std::fs::create_dir(&family).expect("a directory");
    let files = files_of_the_page();
    assert_eq!(files.len(), 4, "{files:?}");
    for (name, content) in &files {
        std::fs::write(family.join(name), content).expect("it is written");
    }
    let check = || {
        let mut command = bench.herm.command(&["learn", "bench", "--family", "my-family", "--check"]);
        let output = command.current_dir(bench.dir.path()).output().expect("it starts");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
    };
    assert_eq!(
        check(),
        "my-family: 2 tasks to learn from, 2 held out; tools: find_tool, skill_view\n  Every tool of the workshop hangs on \
         wall 3, and the role does not say so.\n"
    );
    let tasks = std::fs::read_to_string(family.join("tasks.jsonl")).expect("the tasks");
    let wrong = tasks.replace("{\"contains\": \"hook 8\"}", "{\"contians\": \"hook 8\"}");
    std::fs::write(family.join("tasks.jsonl"), wrong).expect("it is written");
    let said = check();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/learning-family.md");
    assert!(std::fs::read_to_string(page).expect("the page").contains(said.trim_end()), "{said}");
}

#[test]
fn the_built_in_families_are_what_their_program_writes() {
    let python = std::env::var("HERM_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/families/generate.py");
    match std::process::Command::new(python).arg(program).arg("--check").output() {
        Ok(run) => assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr)),
        Err(_) => {
            herm_untested::not_run("the built-in families are what their program writes", "Python 3", "install it")
        }
    }
}

/// Runs the program that writes the page of results; what it says where it fails. Nothing where there is no Python.
fn results(arguments: &[&str]) -> Option<Result<(), String>> {
    let python = std::env::var("HERM_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/families/results.py");
    match std::process::Command::new(python).arg(program).args(arguments).output() {
        Ok(run) if run.status.success() => Some(Ok(())),
        Ok(run) => Some(Err(String::from_utf8_lossy(&run.stderr).into_owned())),
        Err(_) => {
            herm_untested::not_run("the page of results is what its tables make", "Python 3", "install it");
            None
        }
    }
}

#[test]
fn the_page_of_results_is_what_its_program_makes_of_the_tables() {
    if let Some(compared) = results(&["--check"]) {
        assert_eq!(compared, Ok(()));
    }
}

#[test]
fn a_table_of_one_family_and_two_arms_makes_a_page_and_an_edited_page_is_found() {
    let bench = Bench::new();
    let (data, page) = (bench.dir.path().join("learning"), bench.dir.path().join("page.md"));
    let out = data.join("tiny").display().to_string();
    assert_eq!(bench.run(&["--arms", "none,curated", "--out", &out]).code, 0);
    let (data, page) = (data.display().to_string(), page.display().to_string());
    let Some(written) = results(&["--data", &data, "--page", &page]) else { return };
    assert_eq!(written, Ok(()));
    let text = std::fs::read_to_string(&page).expect("the page");
    for line in [
        "## imitator-1\n\nBackend `openai`; 1 family, 8 tasks to learn from and 8 held out in each.",
        "](learning/tiny/curves.svg)\n",
        "| family | tasks | no learning | curated skill |\n|---|---:|---:|---:|\n| cellar | 8 | 0 | 8 ↑ |\n",
        "| cellar | curated skill | 8/8 | 68–100 % | +8 −0 | 0.0078 |",
        "No arm of any family is significantly below no learning.",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(results(&["--check", "--data", &data, "--page", &page]), Some(Ok(())));
    std::fs::write(&page, text.replace("0.0078", "0.0001")).expect("it is written");
    assert!(results(&["--check", "--data", &data, "--page", &page]).is_some_and(|found| found.is_err()));
}
