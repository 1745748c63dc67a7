//! Skills as a person keeps them with the command line: read, dropped into a brain, called alike.

use std::path::Path;

use herm_tests::brains::{seed_files, skill_text};
use herm_tests::{Herm, TempBrains};
use serde_json::{Value, json};

use crate::HERM;

fn place() -> (TempBrains, Herm) {
    let brains = TempBrains::new();
    let herm = Herm::new(HERM, &brains.path());
    let from = tempfile::tempdir().expect("a directory");
    for (path, text) in seed_files() {
        put(&from.path().join(path), text);
    }
    let made = herm.run(&["init", "1", "--from", from.path().to_str().expect("UTF-8")]);
    assert_eq!(made.code, 0, "{made:?}");
    (brains, herm)
}

fn put(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    std::fs::write(path, content).expect("written");
}

fn receipts(herm: &Herm) -> Value {
    let (code, report) = herm.json(&["receipts", "verify", "1"]);
    assert_eq!(code, 0, "{report:#}");
    herm.json(&["receipts", "list", "1"]).1["receipts"].clone()
}

#[test]
fn any_text_file_of_a_skill_can_be_viewed_and_is_listed() {
    let (brains, herm) = place();
    put(&brains.file("1", "skills/pptx/SKILL.md"), skill_text("pptx", "See editing.md."));
    put(&brains.file("1", "skills/pptx/editing.md"), "how to edit\n");
    put(&brains.file("1", "skills/pptx/ooxml/a.xsd"), "<a/>\n");
    put(&brains.file("1", "skills/pptx/logo.bin"), [0xff, 0, 1]);
    put(&brains.file("1", "skills/pptx/huge.txt"), "x".repeat((1 << 20) + 1));
    assert_eq!(herm.run(&["brain", "adopt", "1"]).code, 0);
    let (code, view) = herm.json(&["skills", "view", "1", "pptx"]);
    assert_eq!((code, &view["files"]), (0, &json!(["editing.md", "huge.txt", "logo.bin", "ooxml/a.xsd"])), "{view:#}");
    let said = herm.run(&["skills", "view", "1", "pptx"]);
    assert!(said.stderr.contains("files: editing.md, huge.txt, logo.bin, ooxml/a.xsd"), "{said:?}");
    for (file, text) in [("editing.md", "how to edit\n"), ("ooxml/a.xsd", "<a/>\n")] {
        let run = herm.run(&["skills", "view", "1", "pptx", file]);
        assert_eq!((run.code, run.stdout.as_str()), (0, text), "{run:?}");
    }
    for (file, code, says) in [
        ("logo.bin", 3, "is not text"),
        ("huge.txt", 3, "has more than 1048576 bytes"),
        ("nothing.md", 4, "has no file"),
        ("../../system.md", 2, "path"),
        ("/etc/hostname", 2, "path"),
        (".git/config", 4, "holds none"),
    ] {
        let run = herm.run(&["skills", "view", "1", "pptx", file]);
        assert!(run.code == code && run.stderr.contains(says), "{file}: {run:?}");
    }
}

#[test]
fn a_skill_dropped_into_a_brain_is_taken_in_by_a_reload_with_a_receipt() {
    let (brains, herm) = place();
    let (code, nothing) = herm.json(&["skills", "reload", "1"]);
    assert_eq!((code, &nothing["unchanged"], &nothing["settled"]), (0, &json!(2), &Value::Null), "{nothing:#}");
    put(&brains.file("1", "skills/cat/dropped/SKILL.md"), skill_text("dropped", "Drop it."));
    put(&brains.file("1", "skills/cat/dropped/notes.md"), "notes\n");
    put(&brains.file("1", "skills/dir-one/SKILL.md"), skill_text("dir-one", "Changed by hand."));
    std::fs::remove_file(brains.file("1", "skills/flat-one.md")).expect("removed");
    assert_eq!(herm.run(&["run", "1", "hello"]).code, 7, "a brain that differs runs nothing");
    let (code, delta) = herm.json(&["skills", "reload", "1"]);
    assert_eq!(code, 0, "{delta:#}");
    let field = |name: &str| delta[name].clone();
    assert_eq!(
        [field("added"), field("removed"), field("changed"), field("unchanged"), field("total")],
        [json!(["dropped"]), json!(["flat-one"]), json!(["dir-one"]), json!(0), json!(2)]
    );
    let made_by = |name: &str| herm.json(&["skills", "view", "1", name]).1["usage"]["created_by"].clone();
    assert_eq!((made_by("dropped"), made_by("dir-one")), (json!("user"), json!("user")));
    assert_eq!(receipts(&herm)[0]["kind"], "import");
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
    assert_eq!(herm.run(&["run", "1", "hello"]).code, 0);

    // Whatever else was edited is not the skills', and stays to be adopted knowingly.
    put(&brains.file("1", "skills/another.md"), skill_text("another", "x"));
    put(&brains.file("1", "system.md"), "You are another agent.\n");
    let run = herm.run(&["skills", "reload", "1"]);
    assert!(run.code == 7 && run.stderr.contains("system.md") && run.stderr.contains("adopt"), "{run:?}");
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 7, "nothing was taken over");
}

#[test]
fn a_task_reloads_the_skills_by_its_command() {
    let (brains, herm) = place();
    put(&brains.file("1", "skills/dropped.md"), skill_text("dropped", "Drop it."));
    let run = herm.run(&["run", "1", "/reload-skills"]);
    assert_eq!(run.code, 0, "{run:?}");
    let answer: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(answer, json!({ "added": ["dropped"], "removed": [], "changed": [], "unchanged": 2, "total": 3 }));
    assert_eq!(receipts(&herm).as_array().map(Vec::len), Some(3), "the brain, what was taken in, and the task");
    let unknown = herm.run(&["run", "1", "/reload-skill"]);
    assert!(unknown.code == 4 && unknown.stderr.contains("no skill for the command"), "{unknown:?}");
}

#[test]
fn a_directory_in_the_place_of_the_usage_file_blocks_no_task() {
    let (brains, herm) = place();
    let sidecar = brains.file("1", "skills/.usage.json");
    std::fs::remove_file(&sidecar).expect("removed");
    put(&sidecar.join("SKILL.md"), skill_text("usage", "x"));
    for _ in 0..2 {
        let run = herm.run(&["run", "1", "/flat-one hello"]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    let (code, report) = herm.json(&["brain", "verify", "1"]);
    assert_eq!(code, 0, "{report:#}");
    let listed = herm.json(&["skills", "list", "1"]).1;
    assert_eq!(listed["skills"].as_array().map(Vec::len), Some(2), "{listed:#}");
    assert_eq!(listed["skills"][1]["usage"]["use_count"], 2);
    // Once it is out of the way, the file is written again.
    std::fs::remove_dir_all(&sidecar).expect("removed");
    assert_eq!(herm.run(&["run", "1", "/flat-one hello"]).code, 0);
    let written: Value = serde_json::from_slice(&std::fs::read(&sidecar).expect("there")).expect("JSON");
    assert_eq!(written["flat-one"]["use_count"], 3);
}

#[test]
fn skills_of_one_name_are_reported_with_the_command_of_each() {
    let (brains, herm) = place();
    put(&brains.file("1", "skills/a-way.md"), skill_text("Send Mail", "x"));
    put(&brains.file("1", "skills/b-way.md"), skill_text("send_mail", "x"));
    assert_eq!(herm.run(&["skills", "reload", "1"]).code, 0);
    let listed = herm.json(&["skills", "list", "1"]).1;
    assert_eq!(listed["sameNames"], json!([{ "key": "send-mail", "winner": "a-way", "loser": "b-way" }]));
    let said = herm.run(&["skills", "list", "1"]);
    assert!(said.stderr.contains("b-way and a-way have one name: /send-mail is a-way"), "{said:?}");
}

#[test]
fn platform_restricts_like_platforms() {
    let (brains, herm) = place();
    for (name, line) in [("mac", "platform: macos"), ("here", "platform: [linux, macos]"), ("win", "platforms: win32")]
    {
        let text = format!("---\nname: {name}\ndescription: For some. Use when there.\n{line}\n---\nDo it.\n");
        put(&brains.file("1", &format!("skills/{name}.md")), text);
    }
    assert_eq!(herm.run(&["skills", "reload", "1"]).code, 0);
    let listed = herm.json(&["skills", "list", "1"]).1;
    let slugs = |list: &Value| -> Vec<String> {
        list.as_array().expect("a list").iter().map(|one| one["slug"].as_str().expect("a slug").to_owned()).collect()
    };
    assert_eq!(slugs(&listed["hidden"]), ["mac", "win"], "{listed:#}");
    assert!(slugs(&listed["skills"]).contains(&"here".to_owned()));
}

#[cfg(not(feature = "semantic"))]
#[test]
fn without_models_built_in_there_are_no_vectors_to_make_and_it_says_so() {
    let (_brains, herm) = place();
    let run = herm.run(&["semantic", "index", "1"]);
    assert!(run.code == 6 && run.stderr.contains("--features semantic"), "{run:?}");
}

#[test]
fn a_link_inside_the_skills_is_no_part_of_a_brain_and_is_not_adopted() {
    for (link, target) in [("skills/linked.md", "/etc/hostname"), ("skills/dir-one/references/linked.md", "notes.md")] {
        let (brains, herm) = place();
        std::os::unix::fs::symlink(target, brains.file("1", link)).expect("linked");
        // The hash of the lock still holds: a link has no leaf.
        let run = herm.run(&["brain", "verify", "1"]);
        assert!(run.code == 7 && run.stdout.contains(&format!("not allowed: {link} is a symbolic link")), "{run:?}");
        assert!(run.stderr.contains("replace what is not allowed with regular files, or remove it"), "{run:?}");
        let (code, report) = herm.json(&["brain", "verify", "1"]);
        assert_eq!((code, &report["expected"]), (7, &report["computed"]));
        assert_eq!(report["notAllowed"], json!([{ "path": link, "what": "a symbolic link" }]));
        let run = herm.run(&["brain", "adopt", "1"]);
        let sentence = format!("{link} is a symbolic link and cannot be part of a brain");
        assert!(run.code == 3 && run.stderr.contains(&sentence), "{run:?}");
        assert!(run.stderr.contains("replace it with a regular file, or remove it"), "{run:?}");
        std::fs::remove_file(brains.file("1", link)).expect("removed");
        assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
        assert_eq!(receipts(&herm).as_array().map(Vec::len), Some(1), "nothing was taken over");
    }
}
