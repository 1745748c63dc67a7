//! Families as their authors write them, well and badly.

#![expect(clippy::disallowed_methods, reason = "tests write families as their authors do")]

use std::path::Path;

use serde_json::json;

use super::*;
use crate::{built_in, built_in_names};

const TOOL: &str = r#"{"name": "look_up", "description": "Looks.", "schema": {"properties": {"piece": {"type": "string"}}},
  "table": [{"args": {"piece": "lamp"}, "result": "bay 4"}]}"#;
const TWO_TASKS: &str = "{\"input\": \"a\", \"check\": \"x\"}\n{\"input\": \"b\", \"check\": 4}\n";

/// A directory with a small family, and `family.json` as given.
fn directory(family: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [("family.json", family), ("system.md", "You look.\n"), ("tasks.jsonl", TWO_TASKS)] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn small() -> tempfile::TempDir {
    directory(&format!("{{\"tools\": [{TOOL}]}}"))
}

fn refused(path: &Path) -> Error {
    let error = Family::open(path).expect_err("it is refused");
    assert!(error.hint_text().is_some_and(|hint| !hint.is_empty()), "no next step: {error:?}");
    error
}

#[test]
fn every_built_in_family_is_read_and_has_eighty_tasks_and_a_skill() {
    let names: Vec<_> = built_in_names().collect();
    assert_eq!(names.len(), 8);
    for name in names {
        let family = built_in(name).unwrap();
        assert_eq!((family.name.as_str(), family.sizes()), (name, (40, 40)));
        assert!(family.skill.is_some() && family.remarks.is_empty(), "{name}: {:?}", family.remarks);
        assert!(!family.about.is_empty() && !family.role.is_empty());
        let two_calls = family.group.as_deref() == Some("two calls");
        assert_eq!(family.demonstrated(), usize::from(two_calls), "{name}");
    }
    let error = built_in("nothing").unwrap_err();
    assert!(error.hint_text().unwrap().contains("ferry-cabins"), "{error:?}");
}

#[test]
fn the_least_family_has_a_role_a_tool_and_two_tasks() {
    let dir = small();
    for path in [dir.path().to_owned(), dir.path().join("family.json")] {
        let family = Family::open(&path).unwrap();
        assert_eq!(
            (family.sizes(), family.tool_names()),
            ((1, 1), vec!["look_up".to_owned(), "skill_view".to_owned()])
        );
        assert_eq!(family.remarks.len(), 1, "it has no curated skill: {:?}", family.remarks);
        let schema = &family.tools[0].spec.schema;
        assert_eq!(schema, &json!({ "properties": { "piece": { "type": "string" } }, "type": "object" }));
    }
}

#[test]
fn what_does_no_harm_is_let_pass() {
    let tool = TOOL.replace("\"schema\"", "\"input_schema\"").replace("[{\"args\"", "[{\"comment\": 1, \"args\"");
    let dir = directory(&format!(
        "\u{feff}{{\r\n\"schema\": \"herm/learning-family@1\", \"comment\": [\"why\"], \"turns\": 5, \"standard_tools\": [],\r\n\
         \"name\": \"Größen im Haus 2\", \"tools\": [{tool}]}}"
    ));
    std::fs::write(dir.path().join("skill.md"), "# Look twice\n\nCall look_up with the piece.\n").unwrap();
    std::fs::write(dir.path().join("notes.txt"), "not of the format").unwrap();
    let family = Family::open(dir.path()).unwrap();
    let (slug, skill) = family.skill.clone().unwrap();
    assert!(skill.contains(&format!("name: {slug}\ndescription: \"Look twice\"\n")), "{skill}");
    assert_eq!((family.name.as_str(), family.turns, family.standard_tools.len()), ("Größen im Haus 2", Some(5), 0));
}

#[test]
fn tools_in_the_forms_of_others_are_read() {
    for (tool, name) in [
        (
            r#"{"type": "function", "function": {"name": "Get.Weather", "description": "d", "parameters": {"properties": {"p": {}}},
             "strict": true}, "otherwise": "no"}"#,
            "Get.Weather",
        ),
        (r#"{"type": "function", "name": "lookUp", "description": "d", "strict": null, "otherwise": "no"}"#, "lookUp"),
        (r#"{"name": "recall", "description": "d", "parameters": null, "otherwise": {"result": 1}}"#, "recall"),
    ] {
        let dir = directory(&format!("{{\"tools\": [{tool}]}}"));
        let family = Family::open(dir.path()).unwrap();
        assert_eq!(family.tool_names(), [name, "skill_view"]);
        assert_eq!(family.tools[0].spec.schema["type"], "object");
    }
    for (tools, said) in [
        (
            r#"[{"name": "recall", "description": "d", "otherwise": "no"}], "standard_tools": ["recall"]"#,
            "line 1: the family has a tool named \"recall\" itself",
        ),
        (
            r#"[{"name": "skill_view", "description": "d", "otherwise": "no"}]"#,
            "herm's prompts mean the tool that herm has",
        ),
        (
            r#"[{"type": "function", "function": {"name": "a b", "description": "d"}, "otherwise": "no"}]"#,
            "tool 1 \"a b\" cannot be used: that is not a name for a tool",
        ),
        (r#"[{"name": "..", "description": "d", "otherwise": "no"}]"#, "that is not a name for a tool"),
        (r#"[{"type": "function", "function": "look"}]"#, "line 1: tool 1 cannot be used: missing field `name`"),
        (
            r#"[{"name": "look", "otherwise": "no"}]"#,
            "line 1: tool 1 \"look\" cannot be used: missing field `description`",
        ),
    ] {
        let dir = directory(&format!("{{\"tools\": {tools}}}"));
        let error = refused(dir.path());
        assert!(error.message().contains(said), "{tools}: {error:?}");
    }
}

#[test]
fn line_ends_and_marks_of_other_editors_change_nothing() {
    let plain = small();
    let skill = "---\nname: look-twice\ndescription: \"Looks. Use when asked.\"\n---\nLook.\nTwice.\n";
    std::fs::write(plain.path().join("skill.md"), skill).unwrap();
    let other = tempfile::tempdir().unwrap();
    for name in ["family.json", "system.md", "tasks.jsonl", "skill.md"] {
        let text = std::fs::read_to_string(plain.path().join(name)).unwrap();
        std::fs::write(other.path().join(name), format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap();
    }
    let read = |dir: &Path| {
        let family = Family::open(dir).unwrap();
        let inputs: Vec<_> = family.learn.iter().chain(&family.held_out).map(|task| task.input.clone()).collect();
        (family.role, family.skill, inputs, family.tools[0].rows.clone())
    };
    assert_eq!(read(plain.path()), read(other.path()));
}

#[test]
fn a_directory_of_families_names_those_right_below_it() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b", "a", "c/deep"] {
        let family = dir.path().join(name);
        std::fs::create_dir_all(&family).unwrap();
        std::fs::write(family.join("family.json"), "{}").unwrap();
    }
    assert_eq!(Family::below(dir.path()).unwrap(), [dir.path().join("a"), dir.path().join("b")]);
    assert_eq!(Family::below(&dir.path().join("a")).unwrap(), Vec::<std::path::PathBuf>::new());
    assert_eq!(Family::below(&dir.path().join("c/none")).unwrap(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_table_may_stand_in_a_file_of_its_own() {
    let dir = directory(&format!(
        "{{\"tools\": [{}]}}",
        TOOL.replace("[{\"args\": {\"piece\": \"lamp\"}, \"result\": \"bay 4\"}]", "\"rows/all.jsonl\"")
    ));
    let error = refused(dir.path());
    assert!(error.message().contains("family.json, line 2: the table of look_up is to be in"), "{error:?}");
    std::fs::create_dir(dir.path().join("rows")).unwrap();
    let rows = dir.path().join("rows/all.jsonl");
    std::fs::write(&rows, "{\"args\": {\"piece\": \"lamp\"}, \"result\": {\"bay\": 4}}\n\n{\"failure\": \"no\"}\n")
        .unwrap();
    assert_eq!(Family::open(dir.path()).unwrap().tools[0].rows.len(), 2);
    for (line, said) in [
        (
            "{\"args\": {\"pice\": 1}, \"failure\": \"no\"}",
            "all.jsonl, line 2: look_up has no argument \"pice\"; it has piece",
        ),
        ("{\"result\": 1, \"failure\": \"no\"}", "all.jsonl, line 2: it has a result and a failure"),
        ("{\"args\": {}}", "all.jsonl, line 2: it needs \"result\" or \"failure\""),
        ("nonsense", "all.jsonl, line 2: it is not an object"),
        ("{\"args\": }", "all.jsonl, line 2, column 10: expected value"),
        ("{\"arg\": {}}", "all.jsonl, line 2, column 6: unknown field `arg`"),
    ] {
        std::fs::write(&rows, format!("{{\"failure\": \"no\"}}\n{line}")).unwrap();
        let error = refused(dir.path());
        assert!(error.message().contains(said), "{line}: {error:?}");
    }
}

#[test]
fn a_file_outside_of_the_family_is_not_read() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("rows.jsonl"), "{\"failure\": \"no\"}").unwrap();
    let elsewhere = outside.path().join("rows.jsonl").display().to_string();
    for file in ["../rows.jsonl", "/etc/passwd", elsewhere.as_str(), "a/../../x", "", "."] {
        let dir = directory(
            &json!({ "tools": [{ "name": "t", "description": "d", "schema": {}, "table": file }] }).to_string(),
        );
        let error = refused(dir.path());
        assert!(error.message().contains("family.json, line 1"), "{file}: {error:?}");
    }
    let dir = directory(r#"{"tools": [{"name": "t", "description": "d", "schema": {}, "table": "rows.jsonl"}]}"#);
    std::os::unix::fs::symlink(outside.path().join("rows.jsonl"), dir.path().join("rows.jsonl")).unwrap();
    assert!(refused(dir.path()).message().contains("symbolic link"));
}

#[test]
fn what_is_wrong_with_a_family_is_said_with_its_line() {
    let tool = |change: &[(&str, &str)]| {
        let changed = change.iter().fold(TOOL.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        format!("{{\n\"tools\": [\n{changed}]}}")
    };
    for (family, said) in [
        (String::new(), "family.json is empty"),
        (" \n".to_owned(), "family.json is empty"),
        ("{".to_owned(), "family.json, line 1, column 1: EOF while parsing"),
        ("[]".to_owned(), "family.json, line 1: it is not a JSON object"),
        ("{\"tools\": [5]}".to_owned(), "line 1: tool 1 cannot be used: it is not an object"),
        ("{}".to_owned(), "family.json has no tools"),
        ("{\n \"tool\": []}".to_owned(), "family.json, line 2, column 7: unknown field `tool`"),
        (format!("{{\"schema\": \"herm/learning-family@2\", \"tools\": [{TOOL}]}}"), "line 1: this herm reads"),
        (format!("{{\"name\": \"../x\", \"tools\": [{TOOL}]}}"), "line 1: \"../x\" is not a name for a family"),
        (format!("{{\"about\": \"a\\nb\", \"tools\": [{TOOL}]}}"), "\"about\" is not one line"),
        (format!("{{\"turns\": 9, \"tools\": [{TOOL}]}}"), "a task has 1 to 8 turns"),
        (format!("{{\"role\": \"x\", \"tools\": [{TOOL}]}}"), "line 1: the role stands here and in"),
        (
            format!("{{\"standard_tools\": [\n\"skillview\"], \"tools\": [{TOOL}]}}"),
            "line 2: herm has no tool \"skillview\"",
        ),
        (format!("{{\"tools\": [{TOOL},\n\n{TOOL}]}}"), "line 4: there are two tools named \"look_up\""),
        (tool(&[("look_up", "look up")]), "line 3: tool 1 \"look up\" cannot be used: that is not a name"),
        (tool(&[("look_up", "skill_view")]), "with this name herm's prompts mean the tool that herm has"),
        (tool(&[("\"description\": \"Looks.\", ", "")]), "missing field `description`"),
        (tool(&[("Looks.", " ")]), "its description has to have 1 to 4,000 bytes"),
        (
            tool(&[("\"string\"", "\"text\"")]),
            "line 3: tool 1 \"look_up\" cannot be used: its schema is not a JSON Schema",
        ),
        (tool(&[("\"table\"", "\"rows\"")]), "unknown field `rows`"),
        (
            tool(&[("[{\"args\": {\"piece\": \"lamp\"}, \"result\": \"bay 4\"}]", "5")]),
            "line 4: the table of look_up is neither",
        ),
        (
            tool(&[("[{\"args\": {\"piece\": \"lamp\"}, \"result\": \"bay 4\"}]", "[[]]")]),
            "line 4: row 1 of look_up: it is not an object",
        ),
        (
            tool(&[("\"lamp\"}", "\"lamp\", \"list\": 1}")]),
            "line 4: row 1 of look_up: look_up has no argument \"list\"",
        ),
        (tool(&[("\"result\": \"bay 4\"", "\"reslt\": 1")]), "line 4: row 1 of look_up: unknown field `reslt`"),
        (tool(&[("Looks.\",", "Looks.\", \"otherwise\": {\"resul\": 1},")]), "\"otherwise\": unknown field `resul`"),
        (
            tool(&[(
                "Looks.\",",
                "Looks.\", \"example\": {\"question\": \"q\", \"args\": {\"piece\": 1}, \"result\": \"r\", \"answer\": \"a\"},",
            )]),
            "the arguments of its example do not fit its schema",
        ),
        ("{\"mcp\": {\"a\": {}}}".to_owned(), "missing field `command`"),
        ("{\"mcp\": {\"a\": {\"command\": \" \"}}}".to_owned(), "the MCP server \"a\" has no command"),
        ("{\"mcp\": {\"a\": {\"command\": \"x\", \"timeout_secs\": 0}}}".to_owned(), "out of bounds"),
    ] {
        let error = refused(directory(&family).path());
        assert!(error.message().contains(said), "{family}\n{error:?}");
    }
}

#[test]
fn a_file_that_is_missing_empty_too_large_or_no_text_is_named() {
    assert!(refused(Path::new("/nonexistent/family")).message().contains("/nonexistent/family"));
    let dir = small();
    let path = |name: &str| dir.path().join(name);
    assert!(refused(&path("system.md")).message().contains("not a directory"));
    for (name, content, said) in [
        ("tasks.jsonl", &b""[..], "tasks.jsonl has no tasks"),
        ("tasks.jsonl", b"{\"input\": \"a\"\xff", "tasks.jsonl, line 1: it is not UTF-8 text"),
        ("tasks.jsonl", b"\n\n\0", "tasks.jsonl, line 3: it has a NUL character"),
        ("system.md", b" \n", "system.md is empty"),
        ("skill.md", b"", "skill.md is empty"),
        ("skill.md", b"---\nname: x\n---\nbody", "skill.md"),
        ("skill.md", b"---\nname: [\n---\n", "skill.md"),
    ] {
        let before = std::fs::read(path(name)).ok();
        std::fs::write(path(name), content).unwrap();
        let error = refused(dir.path());
        assert!(error.message().contains(said), "{name}: {error:?}");
        match before {
            Some(before) => std::fs::write(path(name), before).unwrap(),
            None => std::fs::remove_file(path(name)).unwrap(),
        }
    }
    for name in ["system.md", "tasks.jsonl", "family.json"] {
        let before = std::fs::read(path(name)).unwrap();
        std::fs::remove_file(path(name)).unwrap();
        let error = refused(dir.path());
        assert!(error.kind() == herm::ErrorKind::NotFound && error.message().contains(name), "{error:?}");
        std::fs::write(path(name), before).unwrap();
    }
    let large = std::fs::File::create(path("system.md")).unwrap();
    large.set_len(MOST_PAGE + 1).unwrap();
    assert!(refused(dir.path()).message().contains("larger than the 65536 bytes"));
}

#[test]
fn a_check_may_only_ask_for_calls_of_tools_that_are_there() {
    let dir = small();
    let tasks = |tool: &str| format!("{TWO_TASKS}{{\"input\": \"c\", \"check\": {{\"calls\": \"{tool}\"}}}}\n");
    for good in ["look_up", "skill_view"] {
        std::fs::write(dir.path().join("tasks.jsonl"), tasks(good)).unwrap();
        assert!(Family::open(dir.path()).is_ok());
    }
    std::fs::write(dir.path().join("tasks.jsonl"), tasks("lookup")).unwrap();
    let error = refused(dir.path());
    assert!(error.message().contains("tasks.jsonl, line 3") && error.hint_text().unwrap().contains("look_up"));
}

#[test]
fn a_held_out_task_that_was_learned_from_is_remarked_on() {
    let dir = small();
    std::fs::write(dir.path().join("tasks.jsonl"), TWO_TASKS.replace("\"b\"", "\" a\"")).unwrap();
    let family = Family::open(dir.path()).unwrap();
    assert!(family.remarks[0].contains("1 of the held-out tasks"), "{:?}", family.remarks);
}

#[test]
fn the_programs_of_a_family_are_known_before_one_is_started() {
    let dir = directory(r#"{"mcp": {"here": {"command": "./server", "args": ["--fast"], "timeout_secs": 9}}}"#);
    let family = Family::open(dir.path()).unwrap();
    assert_eq!(family.programs(), ["./server --fast"]);
    assert_eq!(family.servers[0].directory, dir.path().canonicalize().unwrap());
}
