//! Skills: two forms, one identity; written strictly, archived and never lost.

use std::collections::BTreeMap;
use std::path::Path;

use herm::brain::Editor;
use herm::skill::{CreatedBy, Form, SkillState};
use herm::{Brain, Draft, ErrorKind, Result, Slug, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};

fn settle(brain: &mut Brain, change: impl FnOnce(&mut Editor<'_>) -> Result<()>) {
    let mut draft = Draft::new();
    change(&mut brain.edit(&mut draft)).expect("a change");
    assert!(brain.settle(&draft, StepKind::Maintenance, "a change").expect("settled").moved);
}

fn refused(brain: &Brain, change: impl FnOnce(&mut Editor<'_>) -> Result<()>) -> herm::Error {
    let mut draft = Draft::new();
    change(&mut brain.edit(&mut draft)).expect_err("refused")
}

fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(at).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(dir).expect("inside").display().to_string();
                found.insert(name, std::fs::read(path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn the_life_of_a_skill() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let name = slug("learned");
    settle(&mut brain, |e| e.create_skill(&name, &skill_text("learned", "Step one."), CreatedBy::Agent).map(drop));
    assert_eq!(brain.skills().expect("an index").get(&name).expect("listed").place.form, Form::Flat);

    settle(&mut brain, |e| e.patch_skill(&name, None, "Step one.", "Step two.").map(drop));
    settle(&mut brain, |e| e.write_skill_file(&name, "scripts/run.sh", b"#!/bin/sh\n".to_vec()).map(drop));
    let entry = brain.skills().expect("an index").get(&name).expect("listed").clone();
    assert_eq!((entry.place.form, entry.place.main.as_str()), (Form::Directory, "skills/learned/SKILL.md"));
    assert!(!brains.file("1", "skills/learned.md").exists(), "promoted, not copied");
    assert!(brain.skill_text(&name).expect("a text").contains("Step two."));

    settle(&mut brain, |e| e.remove_skill_file(&name, "scripts/run.sh").map(drop));
    settle(&mut brain, |e| e.pin_skill(&name, true));
    let usage = brain.usage().expect("usage").remove(&name).expect("a record");
    assert_eq!((usage.created_by, usage.patch_count, usage.pinned), (CreatedBy::Agent, 3, true));
    assert!(usage.last_used_at.is_none(), "making and changing is not using");
}

#[test]
fn an_archived_skill_comes_back_byte_for_byte_and_nothing_is_overwritten() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let dir = brains.file("1", "skills/dir-one");
    let before = tree(&dir);
    settle(&mut brain, |e| e.archive_skill(&slug("dir-one")));
    assert!(!dir.exists() && brain.skills().expect("an index").get(&slug("dir-one")).is_none());
    assert_eq!(brain.usage().expect("usage")[&slug("dir-one")].state, SkillState::Archived);
    let error =
        refused(&brain, |e| e.create_skill(&slug("dir-one"), &skill_text("dir-one", "x"), CreatedBy::Agent).map(drop));
    assert!(error.hint_text().expect("a hint").contains("restore"), "{error:?}");

    settle(&mut brain, |e| e.restore_skill(&slug("dir-one")).map(drop));
    assert_eq!(tree(&dir), before);
    assert_eq!(refused(&brain, |e| e.restore_skill(&slug("dir-one")).map(drop)).kind(), ErrorKind::Conflict);

    // Archived again and again: each keeps its own place, and the latest comes back.
    for n in 1..=3 {
        settle(&mut brain, |e| e.edit_skill(&slug("flat-one"), &skill_text("flat-one", &format!("v{n}"))).map(drop));
        settle(&mut brain, |e| e.archive_skill(&slug("flat-one")));
        let archived = tree(&brains.file("1", "skills/.archive"));
        assert_eq!(archived.len(), n, "{:?}", archived.keys());
        if n < 3 {
            std::fs::copy(
                brains.file(
                    "1",
                    if n == 1 { "skills/.archive/flat-one.md" } else { "skills/.archive/flat-one.archived-2.md" },
                ),
                brains.file("1", "skills/flat-one.md"),
            )
            .expect("copied");
            brain.close().expect("closed");
            let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
            brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
            brain.adopt().expect("adopted");
        }
    }
    settle(&mut brain, |e| e.restore_skill(&slug("flat-one")).map(drop));
    assert!(brain.skill_text(&slug("flat-one")).expect("a text").contains("v3"));
    assert_eq!(tree(&brains.file("1", "skills/.archive")).len(), 2);
}

#[test]
fn what_breaks_a_rule_is_never_written() {
    let brains = TempBrains::new();
    let brain = brains.make("1");
    let name = slug("new-one");
    let long = "x".repeat(100_001);
    let cases = [
        ("no front matter", "just text".to_owned()),
        ("another name", skill_text("other-name", "x")),
        ("no description", "---\nname: new-one\n---\nbody\n".to_owned()),
        ("an empty body", "---\nname: new-one\ndescription: d\n---\n".to_owned()),
        ("too long", skill_text("new-one", &long)),
        ("an anchor", "---\nname: new-one\ndescription: &a d\n---\nbody\n".to_owned()),
    ];
    for (what, content) in cases {
        let error = refused(&brain, |e| e.create_skill(&name, &content, CreatedBy::Agent).map(drop));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert!(error.hint_text().is_some(), "{what}");
    }
    for bad in ["../x", "/etc/x", "notes.md", "other/x.md", "references/../../x", "references", "references/"] {
        let error = refused(&brain, |e| e.write_skill_file(&slug("dir-one"), bad, b"x".to_vec()).map(drop));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}: {error}");
    }
    let huge = vec![0; (1 << 20) + 1];
    assert!(
        refused(&brain, |e| e.write_skill_file(&slug("dir-one"), "assets/x", huge).map(drop)).kind()
            == ErrorKind::InvalidInput
    );
    for (find, kind) in
        [("absent text", ErrorKind::NotFound), ("dir-one", ErrorKind::Conflict), ("", ErrorKind::InvalidInput)]
    {
        assert_eq!(
            refused(&brain, |e| e.patch_skill(&slug("dir-one"), None, find, "y").map(drop)).kind(),
            kind,
            "{find:?}"
        );
    }
    assert_eq!(
        refused(&brain, |e| e.patch_skill(&slug("nobody"), None, "a", "b").map(drop)).kind(),
        ErrorKind::NotFound
    );
    let breaking = refused(&brain, |e| e.patch_skill(&slug("dir-one"), None, "name: dir-one", "name: other").map(drop));
    assert_eq!(breaking.kind(), ErrorKind::InvalidInput, "a patch that breaks the rules is refused");
}

#[test]
fn a_broken_skill_is_reported_and_never_fatal_to_its_neighbours() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let skills = brains.file("1", "skills");
    let put = |path: &str, content: &[u8]| {
        let path = skills.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("written");
    };
    put("not-utf8.md", &[b'-', 0xff, 0xfe]);
    put("has-nul.md", b"a\0b");
    put("broken-yaml.md", b"---\nname: broken-yaml\ndescription: Use when: always\nlist: [open\n---\nBody.\n");
    put("no-front-matter.md", b"# Title\n\nThe first prose line.\n");
    put("Other Case/skill.md", b"---\nname: whatever\ndescription: lower-case file\n---\nBody.\n");
    put("cat/deep-one/SKILL.md", skill_text("deep-one", "x").as_bytes());
    put("cat/flat-two.md", skill_text("flat-two", "x").as_bytes());
    put("cat/DESCRIPTION.md", b"---\ndescription: a category\n---\n");
    put("dir-one/inner/SKILL.md", skill_text("inner", "a part of dir-one").as_bytes());
    std::fs::create_dir_all(skills.join("a-directory/SKILL.md")).expect("a directory");
    put("cat/sub/too-deep.md", skill_text("too-deep", "x").as_bytes());
    put("z/flat-one/SKILL.md", skill_text("flat-one", "a second claimant").as_bytes());
    put(".git/x/SKILL.md", b"not a skill");
    std::os::unix::fs::symlink("/etc/hostname", skills.join("link.md")).expect("linked");
    std::os::unix::fs::symlink("/etc", skills.join("linked-dir")).expect("linked");

    let reader = herm::Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader");
    let index = reader.skills().expect("an index");
    let listed: Vec<(String, String)> =
        index.entries().map(|e| (e.place.slug.to_string(), e.description.to_string())).collect();
    let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["broken-yaml", "deep-one", "dir-one", "flat-one", "flat-two", "no-front-matter", "other-case"]);
    let description = |name: &str| &listed.iter().find(|(n, _)| n == name).expect("listed").1;
    assert_eq!(description("broken-yaml"), "Use when: always");
    assert_eq!(description("no-front-matter"), "The first prose line.");
    let problems: Vec<(&str, &str)> = index.problems().iter().map(|p| (p.path.as_str(), p.reason.as_str())).collect();
    let paths: Vec<&str> = problems.iter().map(|(path, _)| *path).collect();
    assert_eq!(
        paths,
        [
            "skills/a-directory/SKILL.md",
            "skills/has-nul.md",
            "skills/link.md",
            "skills/linked-dir",
            "skills/not-utf8.md",
            "skills/z/flat-one/SKILL.md"
        ],
        "{problems:#?}"
    );
    let deep = index.get(&slug("deep-one")).expect("listed");
    assert_eq!(deep.category.as_deref(), Some("cat"));
}

#[test]
fn an_index_brought_up_to_date_is_the_index_built_anew() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    brain.skills().expect("an index");
    let root = herm::fsio::Root::open(&brains.file("1", "")).expect("a root");
    for n in 0..30_u32 {
        let name = slug(&format!("s{}", n % 7));
        let text = skill_text(name.as_str(), &format!("round {n}"));
        settle(&mut brain, |e| match n % 5 {
            0 | 1 => e
                .edit_skill(&name, &text)
                .or_else(|_| e.create_skill(&name, &text, CreatedBy::Agent))
                .or_else(|_| e.restore_skill(&name))
                .map(drop),
            2 => e.write_skill_file(&name, "references/x.md", vec![n as u8; 4]).map(drop).or_else(|_| {
                e.create_skill(&name, &text, CreatedBy::Agent).or_else(|_| e.restore_skill(&name)).map(drop)
            }),
            3 => e
                .archive_skill(&name)
                .or_else(|_| e.restore_skill(&name).map(drop))
                .or_else(|_| e.create_skill(&name, &text, CreatedBy::Agent).map(drop)),
            _ => e
                .restore_skill(&name)
                .map(drop)
                .or_else(|_| e.edit_skill(&name, &text).map(drop))
                .or_else(|_| e.create_skill(&name, &text, CreatedBy::Agent).map(drop)),
        });
        let kept: Vec<herm::skill::SkillEntry> = brain.skills().expect("an index").entries().cloned().collect();
        let fresh = herm::skill::Index::build(&root, "skills").expect("an index");
        assert_eq!(kept, fresh.entries().cloned().collect::<Vec<_>>(), "round {n}");
    }
}

#[test]
fn a_reload_says_what_changed() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let root = herm::fsio::Root::open(&brains.file("1", "")).expect("a root");
    let mut index = herm::skill::Index::build(&root, "skills").expect("an index");
    std::fs::remove_file(brains.file("1", "skills/flat-one.md")).expect("removed");
    std::fs::write(brains.file("1", "skills/new-one.md"), skill_text("new-one", "x")).expect("added");
    let delta = index.update(&root, &[]).expect("a delta");
    assert_eq!(
        (delta.added, delta.removed, delta.unchanged, delta.total),
        (vec![slug("new-one")], vec![slug("flat-one")], 1, 2)
    );
    let again = index.update(&root, &[]).expect("a delta");
    assert_eq!((again.unchanged, again.total), (2, 2));
}

#[test]
fn names_with_dots_and_numbers_keep_their_identity_in_the_archive() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    for (file, name) in [("release-1.md", "release-1"), ("release-1.2.md", "release-1-2")] {
        std::fs::write(brains.file("1", &format!("skills/{file}")), skill_text(name, name)).expect("written");
    }
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    brain.adopt().expect("adopted");
    let skills = brains.file("1", "skills");
    let before = tree(&skills);
    for name in ["release-1", "release-1-2"] {
        settle(&mut brain, |e| e.archive_skill(&slug(name)));
    }
    for name in ["release-1-2", "release-1"] {
        settle(&mut brain, |e| e.restore_skill(&slug(name)).map(drop));
    }
    brain.flush().expect("flushed");
    let mut after = tree(&skills);
    let mut expected = before;
    expected.remove(".usage.json");
    after.remove(".usage.json");
    assert_eq!(after, expected);
}

#[test]
fn restoring_over_files_that_are_in_the_way_is_a_conflict() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, |e| e.archive_skill(&slug("dir-one")));
    brain.close().expect("closed");
    let way = brains.file("1", "skills/dir-one/references/notes.md");
    std::fs::create_dir_all(way.parent().expect("a parent")).expect("a directory");
    std::fs::write(&way, "in the way").expect("written");
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    brain.adopt().expect("adopted");
    assert_eq!(refused(&brain, |e| e.restore_skill(&slug("dir-one")).map(drop)).kind(), ErrorKind::Conflict);
    assert_eq!(std::fs::read_to_string(way).expect("there"), "in the way");
}

#[test]
fn what_calls_for_a_skill_finds_it() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut draft = Draft::new();
    let text = "---\nname: sweep\ndescription: Cleans up.\ntriggers: [dusty shelves, vacuum]\n---\n# Sweep\n";
    brain.edit(&mut draft).create_skill(&slug("sweep"), text, CreatedBy::User).expect("made");
    brain.settle(&draft, StepKind::Maintenance, "made").expect("settled");
    let best = brain.best_skills("The shelf here is very dusty", 3).expect("chosen");
    assert_eq!(best.first().map(Slug::as_str), Some("sweep"), "{best:?}");
}
