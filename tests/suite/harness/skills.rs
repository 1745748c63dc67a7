//! Skills in a task: called by command, made ready for the model, counted, curated.

use herm::harness::CuratorOptions;
use herm::skill::CreatedBy;
use herm::{Draft, StepKind};
use herm_tests::brains::{skill_text, slug};

use super::*;

/// A call that looks at what was asked: a skill alone vouches for no answer.
const OUTLINE: &str = r#"{"tool": "outline", "args": {}}"#;

fn write_skill(brains: &TempBrains, name: &str, text: &str, by: CreatedBy) {
    let mut brain = brains.open("1").expect("opened");
    let mut draft = Draft::new();
    brain.edit(&mut draft).create_skill(&slug(name), text, by).expect("made");
    brain.settle(&draft, StepKind::Maintenance, "made a skill").expect("settled");
    brain.close().expect("closed");
}

/// Runs one task that looks once; what the model was asked first, and what it was told then.
async fn ask(
    brains: &TempBrains,
    input: &str,
    look: Value,
    change: impl FnOnce(HarnessBuilder) -> HarnessBuilder,
) -> herm::Result<(String, String, herm::Outcome)> {
    let backend = Arc::new(ScriptedBackend::new([call("skill_view", look), OUTLINE.to_owned(), ANSWER.to_owned()]));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = change(builder(brains).router(router)).build().expect("a harness");
    let outcome = harness.run(&"1".parse().expect("an id"), task(input)).await;
    harness.shutdown().await.expect("closed");
    let outcome = outcome?;
    let asked = backend.asked();
    let first = asked[0].messages[1].content.to_string();
    let told = asked[1].messages.last().expect("a message").content.to_string();
    Ok((first, told, outcome))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_loads_its_skill_and_both_spellings_mean_the_same() {
    for typed in ["/dir-one look at this", "/dir_one look at this", "/Dir-One look at this"] {
        let brains = TempBrains::new();
        brain(&brains);
        let (first, _, outcome) =
            ask(&brains, typed, json!({ "name": "flat-one" }), |builder| builder).await.expect("an outcome");
        assert!(first.contains("See [notes](references/notes.md)."), "the body: {first}");
        assert!(first.contains("references/notes.md") && first.contains("skills/dir-one"), "files and place: {first}");
        assert!(first.trim_end().ends_with("look at this"), "the words come last: {first}");
        let loaded: Vec<&str> = outcome.skills_loaded.iter().map(herm::Slug::as_str).collect();
        assert_eq!(loaded, ["dir-one", "flat-one"]);
        let usage = brains.open("1").expect("opened").usage().expect("usage");
        assert_eq!((usage[&slug("dir-one")].view_count, usage[&slug("dir-one")].use_count), (1, 1));
        // The receipt and the memory have what the subscriber wrote.
        let found = reader(&brains).transcript(2).expect("read").expect("a transcript");
        assert!(String::from_utf8(found).expect("text").contains(typed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_command_says_what_is_near_and_costs_nothing() {
    let brains = TempBrains::new();
    brain(&brains);
    let error = ask(&brains, "/flat-on do it", json!({}), |builder| builder).await.expect_err("unknown");
    assert_eq!(error.kind(), herm::ErrorKind::NotFound);
    assert!(error.hint_text().is_some_and(|hint| hint.contains("/flat-one")), "{error:?}");
    assert_eq!(brains.open("1").expect("opened").lock().version, 1, "nothing happened");
    // A word that no skill is near to is a command all the same, and an unknown one.
    let error = ask(&brains, "/tmp is full", json!({}), |builder| builder).await.expect_err("unknown");
    assert_eq!(error.kind(), herm::ErrorKind::NotFound);
    assert!(error.hint_text().is_some_and(|hint| hint.contains("\\/tmp")), "{error:?}");
    // What only looks like one is a text.
    for text in [
        "\\/tmp is full",
        "\\/flat-on do it",
        "/etc/passwd is world readable",
        "// a comment",
        "/* a comment */ contract A {}",
    ] {
        let (first, _, _) =
            ask(&brains, text, json!({ "name": "flat-one" }), |builder| builder).await.expect("an outcome");
        assert_eq!(first, text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_began_with_a_command_replays() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    ask(&brains, "/flat-one go", json!({ "name": "dir-one" }), |builder| builder).await.expect("an outcome");
    let work = tempfile::tempdir().expect("a directory");
    let replayed = herm::harness::replay(&brains.layout(), &id, 2, &toolbox(), work.path()).await.expect("replayed");
    assert!(replayed.is_same(), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_are_filled_in_and_unknown_ones_stay_visible() {
    let brains = TempBrains::new();
    brain(&brains);
    let body = "Run ${HERM_SKILL_DIR}/run.sh in ${HERMES_SESSION_ID}; ${UNKNOWN} stays.";
    write_skill(&brains, "with-variables", &skill_text("with-variables", body), CreatedBy::Agent);
    let look = json!({ "name": "with-variables" });
    let (_, told, outcome) = ask(&brains, "go", look.clone(), |builder| builder).await.expect("an outcome");
    let dir = brains.path().join("1/skills");
    assert!(
        told.contains(&format!("Run {}/run.sh in {}; ${{UNKNOWN}} stays.", dir.display(), outcome.task.as_str())),
        "{told}"
    );
    let (_, told, _) = ask(&brains, "go", look, |builder| builder.templates(false)).await.expect("an outcome");
    assert!(told.contains(body), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_shell_runs_only_where_the_operator_allows_it_and_a_person_wrote_it() {
    let brains = TempBrains::new();
    brain(&brains);
    let text = |name: &str| skill_text(name, "Today: !`printf ran-%s it`.");
    write_skill(&brains, "by-user", &text("by-user"), CreatedBy::User);
    write_skill(&brains, "by-agent", &text("by-agent"), CreatedBy::Agent);
    write_skill(&brains, "by-import", &text("by-import"), CreatedBy::Imported);
    write_skill(&brains, "changed", &text("changed"), CreatedBy::User);
    let mut changed = brains.open("1").expect("opened");
    let mut draft = Draft::new();
    changed.edit(&mut draft).patch_skill(&slug("changed"), None, "Today", "Now").expect("patched");
    changed.settle(&draft, StepKind::Maintenance, "patched").expect("settled");
    changed.close().expect("closed");
    for (name, enabled, runs) in [
        ("by-user", false, false),
        ("by-user", true, true),
        ("by-agent", true, false),
        ("by-import", true, false),
        // An agent may have written what stands there now.
        ("changed", true, false),
    ] {
        let (_, told, _) = ask(&brains, "go", json!({ "name": name }), |builder| builder.inline_shell(enabled))
            .await
            .expect("an outcome");
        assert_eq!(told.contains("ran-it"), runs, "{name}, {enabled}: {told}");
        assert_eq!(told.contains("inline shell was not run"), enabled && !runs, "{name}, {enabled}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_that_is_missing_is_said_by_name_alone() {
    let brains = TempBrains::new();
    brain(&brains);
    let text = "---\nname: needs\ndescription: Needs things. Use when asked.\nrequires_env: [HERM_TEST_MISSING, PATH]\n\
                metadata:\n  hermes:\n    config:\n      - key: wiki.path\n        description: Where the wiki is\n---\n# Needs\n";
    write_skill(&brains, "needs", text, CreatedBy::User);
    let look = json!({ "name": "needs" });
    let (_, told, _) = ask(&brains, "go", look.clone(), |builder| builder).await.expect("an outcome");
    assert!(
        told.contains("Setup needed") && told.contains("HERM_TEST_MISSING") && told.contains("wiki.path"),
        "{told}"
    );
    let after = told.split("Setup needed").nth(1).expect("a list");
    let path = std::env::var("PATH").expect("set");
    assert!(!after.contains("PATH\n") && !told.contains(&path), "{after}");
    let (_, told, _) =
        ask(&brains, "go", look, |builder| builder.skill_settings([("wiki.path".to_owned(), "/srv/wiki".to_owned())]))
            .await
            .expect("an outcome");
    assert!(!told.split("Setup needed").nth(1).expect("a list").contains("wiki.path"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_values_reach_the_model_by_view_and_by_command() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let text = "---\nname: wiki\ndescription: Keeps a wiki. Use when asked.\nrequires_env: [PATH]\nmetadata:\n  hermes:\n    \
                config:\n      - key: wiki.path\n        description: Where the wiki is\n        default: ~/wiki\n      \
                - key: wiki.pages\n        description: How many\n        default: 50\n---\n# Wiki\n";
    write_skill(&brains, "wiki", text, CreatedBy::User);
    let set = |builder: HarnessBuilder| {
        builder
            .skill_settings([("wiki.path".to_owned(), "/srv/wiki".to_owned()), ("other".to_owned(), "x".to_owned())])
            .runtime_note("Answer in German.")
    };
    let (first, told, _) = ask(&brains, "/wiki add a page", json!({ "name": "wiki" }), set).await.expect("an outcome");
    let list = "- wiki.path = /srv/wiki\n- wiki.pages = 50 (default)\n";
    assert!(first.contains(&format!("Settings of the skill:\n{list}")), "{first}");
    assert!(told.contains(&format!("Settings of this skill:\n{list}")), "{told}");
    assert!(!first.contains("other =") && !told.contains("other ="), "only what the skill declares");
    // What the harness has to say stands before the user's own words.
    let note = first.split("runtime note] ").nth(1).expect("a note").lines().next().expect("a line");
    assert!(note.starts_with("The task began at ") && note.ends_with("Answer in German."), "{note}");
    assert!(first.trim_end().ends_with("add a page"), "{first}");
    // A replay has no configuration, and reads what was said.
    let work = tempfile::tempdir().expect("a directory");
    let replayed = herm::harness::replay(&brains.layout(), &id, 3, &toolbox(), work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.diverged.is_empty(), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_costs_the_next_no_time() {
    let brains = TempBrains::new();
    brain(&brains);
    let body = "One: !`exec sleep 600`. Two: !`printf ran-%s it`.";
    write_skill(&brains, "slow", &skill_text("slow", body), CreatedBy::User);
    let timed = |builder: HarnessBuilder| {
        builder.inline_shell(true).inline_shell_timeout(std::time::Duration::from_millis(300))
    };
    let (_, told, _) = ask(&brains, "go", json!({ "name": "slow" }), timed).await.expect("an outcome");
    assert!(told.contains("One: [inline-shell error: ") && told.contains("Two: ran-it."), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_text_file_of_a_skill_is_read_and_named() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let library = tempfile::tempdir().expect("a directory");
    let write = |path: &str, content: &[u8]| {
        let path = library.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, content).expect("written");
    };
    write("pptx/SKILL.md", skill_text("pptx", "To edit, read [editing.md](editing.md).").as_bytes());
    write("pptx/editing.md", b"how to edit\n");
    write("pptx/ooxml/schema/a.xsd", b"<a/>\n");
    write("pptx/logo.bin", &[0xff, 0, 1]);
    let mut made = brains.open("1").expect("opened");
    let read = made.skill_library(library.path()).expect("a library");
    let mut draft = Draft::new();
    made.edit(&mut draft).import_skills(read, &Default::default(), Default::default()).expect("imported");
    made.settle(&draft, StepKind::Import, "imported").expect("settled");
    made.close().expect("closed");
    let words = [
        call("skill_view", json!({ "name": "pptx" })),
        call("skill_view", json!({ "name": "pptx", "file": "editing.md" })),
        call("skill_view", json!({ "name": "pptx", "file": "ooxml/schema/a.xsd" })),
        call("skill_view", json!({ "name": "pptx", "file": "logo.bin" })),
        call("skill_view", json!({ "name": "pptx", "file": "../dir-one/SKILL.md" })),
        call("skill_view", json!({ "name": "pptx", "file": "nothing.md" })),
        ANSWER.to_owned(),
    ];
    let backend = Arc::new(ScriptedBackend::new(words));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = builder(&brains).router(router).learning(false).build().expect("a harness");
    harness.run(&id, task("edit the slides")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let asked = backend.asked();
    let told = |n: usize| asked[n].messages.last().expect("a message").content.to_string();
    assert!(told(1).contains("Files:\n- editing.md\n- logo.bin\n- ooxml/schema/a.xsd\n"), "{}", told(1));
    assert!(told(2).contains("how to edit"), "{}", told(2));
    assert!(told(3).contains("<a/>"), "{}", told(3));
    assert!(told(4).contains("logo.bin of skill pptx is not text"), "{}", told(4));
    assert!(!told(5).contains("Does dir-one"), "{}", told(5));
    assert!(told(6).contains("its files: editing.md"), "{}", told(6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_in_a_task_takes_in_a_dropped_skill_asks_no_model_and_replays() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let backend = Arc::new(ScriptedBackend::new([call("skill_view", json!({ "name": "dropped" })), ANSWER.to_owned()]));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = builder(&brains).router(router).build().expect("a harness");
    // The brain is open in the pool when someone drops a skill into its directory.
    assert_eq!(harness.reload(&id).await.expect("reloaded").total, 2);
    std::fs::create_dir(brains.file("1", "skills/dropped")).expect("made");
    std::fs::write(brains.file("1", "skills/dropped/SKILL.md"), skill_text("dropped", "Drop it.")).expect("written");
    for (typed, added, unchanged) in [("/reload-skills", vec!["dropped"], 2), (" /reload_skills \n", vec![], 3)] {
        let outcome = harness.run(&id, task(typed)).await.expect("an outcome");
        let answer: Value = serde_json::from_str(outcome.answer.as_deref().expect("an answer")).expect("JSON");
        assert_eq!(
            answer,
            json!({ "added": added, "removed": [], "changed": [], "unchanged": unchanged, "total": 3 }),
            "{typed}"
        );
        assert_eq!((outcome.turns, outcome.model), (0, None));
    }
    assert!(backend.asked().is_empty(), "no model was asked");
    let outcome = harness.run(&id, task("use it")).await.expect("an outcome");
    assert_eq!(outcome.skills_loaded, [slug("dropped")]);
    // For the operator alone, without words, and never as a trial.
    for (refused, kind) in [
        (
            Task { subscriber: Some("alice".parse().expect("an id")), ..task("/reload-skills") },
            herm::ErrorKind::Refused,
        ),
        (task("/reload-skills now"), herm::ErrorKind::InvalidInput),
        (Task { keep: herm::task::SettleMode::DryRun, ..task("/reload-skills") }, herm::ErrorKind::InvalidInput),
    ] {
        assert_eq!(harness.run(&id, refused).await.expect_err("refused").kind(), kind);
    }
    harness.shutdown().await.expect("closed");
    let usage = brains.open("1").expect("opened").usage().expect("usage");
    assert_eq!(usage[&slug("dropped")].created_by, CreatedBy::User);
    let work = tempfile::tempdir().expect("a directory");
    for seq in [3, 4] {
        let replayed =
            herm::harness::replay(&brains.layout(), &id, seq, &toolbox(), work.path()).await.expect("replayed");
        assert!(replayed.is_same(), "{seq}: {replayed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_at_once_lose_no_count() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let words = (0..16)
        .flat_map(|_| [call("skill_view", json!({ "name": "flat-one" })), OUTLINE.to_owned(), ANSWER.to_owned()]);
    // Replies are taken in order, and one brain runs one task at a time: those of a task stay together.
    let harness = harness(&brains, ScriptedBackend::new(words));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..16 {
        let (harness, id) = (harness.clone(), id.clone());
        tasks.spawn(async move { harness.run(&id, task(&format!("task {n}"))).await.expect("an outcome") });
    }
    for outcome in tasks.join_all().await {
        assert_eq!(outcome.status, herm::TaskStatus::Converged, "{:?}", outcome.message);
    }
    harness.shutdown().await.expect("closed");
    let usage = brains.open("1").expect("opened").usage().expect("usage");
    assert_eq!((usage[&slug("flat-one")].view_count, usage[&slug("flat-one")].use_count), (16, 16));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curator_passes_by_itself_after_a_session_and_not_too_often() {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let brains = TempBrains::new();
    let id = brain(&brains);
    let look = |name: &str| call("skill_view", json!({ "name": name }));
    write_skill(&brains, "mine", &skill_text("mine", "Do it."), CreatedBy::Agent);
    let words =
        [look("mine"), OUTLINE.to_owned(), ANSWER.to_owned(), look("flat-one"), OUTLINE.to_owned(), ANSWER.to_owned()];
    let harness = harness(&brains, ScriptedBackend::new(words));
    harness.run(&id, task("use it")).await.expect("an outcome");
    // What follows the session is done before the clock moves on.
    harness.maintain(&id).await.expect("maintained");
    brains.clock.advance_ms(100 * DAY);
    let outcome = harness.run(&id, task("something else")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let steps = reader(&brains).history(1).expect("history");
    assert_eq!((steps[0].kind, steps[0].summary.as_str()), (StepKind::Curate, "curator: 1 archived"));
    assert!(steps[0].version > i64::try_from(outcome.settled.expect("settled").version).expect("small"));
    assert_eq!(reader(&brains).last_receipt().expect("receipts"), steps[0].seq.unsigned_abs(), "with its own receipt");

    // Off, and not too often.
    let brains = TempBrains::new();
    let id = brain(&brains);
    for name in ["first", "second"] {
        write_skill(&brains, name, &skill_text(name, "Do it."), CreatedBy::Agent);
    }
    let words =
        [look("first"), OUTLINE.to_owned(), ANSWER.to_owned(), look("second"), OUTLINE.to_owned(), ANSWER.to_owned()];
    let weekly = CuratorOptions { every: Duration::from_secs(7 * 24 * 3_600), ..CuratorOptions::default() };
    let harness =
        builder(&brains).backend(ScriptedBackend::new(words)).curating(Some(weekly)).build().expect("a harness");
    harness.run(&id, task("one")).await.expect("an outcome");
    harness.maintain(&id).await.expect("maintained");
    brains.clock.advance_ms(5 * DAY);
    harness.run(&id, task("two")).await.expect("an outcome");
    harness.maintain(&id).await.expect("maintained");
    brains.clock.advance_ms(26 * DAY);
    assert!(harness.maintain(&id).await.expect("maintained").curator.is_some(), "the first is stale");
    brains.clock.advance_ms(5 * DAY);
    assert!(harness.maintain(&id).await.expect("maintained").curator.is_none(), "due, and too soon");
    brains.clock.advance_ms(3 * DAY);
    assert!(harness.maintain(&id).await.expect("maintained").curator.is_some());
    harness.shutdown().await.expect("closed");
    let off = builder(&brains).backend(ScriptedBackend::new([""; 0])).curating(None).build().expect("a harness");
    brains.clock.advance_ms(200 * DAY);
    assert!(off.maintain(&id).await.expect("maintained").curator.is_none());
    off.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_says_what_changed_and_the_list_has_categories() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let mut made = brains.open("1").expect("opened");
    let mut draft = Draft::new();
    made.edit(&mut draft).create_skill(&slug("extra"), &skill_text("extra", "x"), CreatedBy::User).expect("made");
    made.settle(&draft, StepKind::Maintenance, "made").expect("settled");
    made.close().expect("closed");
    // A person moves it into a category, which says what it is about.
    std::fs::create_dir(brains.file("1", "skills/writing")).expect("made");
    std::fs::rename(brains.file("1", "skills/extra.md"), brains.file("1", "skills/writing/extra.md")).expect("moved");
    std::fs::write(brains.file("1", "skills/writing/DESCRIPTION.md"), "---\ndescription: Texts of all kinds.\n---\n")
        .expect("written");
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut edited = herm::Brain::open(&brains.layout(), &id, &opening).expect("opened");
    edited.adopt().expect("adopted");
    edited.close().expect("closed");
    let words = [
        call("skills_list", json!({ "reload": true })),
        call("skills_list", json!({ "category": "writing" })),
        call("skills_list", json!({ "category": "cooking" })),
        ANSWER.to_owned(),
    ];
    let backend = Arc::new(ScriptedBackend::new(words));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = builder(&brains).router(router).learning(false).build().expect("a harness");
    harness.run(&id, task("list")).await.expect("an outcome");
    let asked = backend.asked();
    let told = |n: usize| asked[n].messages.last().expect("a message").content.to_string();
    assert!(told(1).contains("[reloaded: 3 unchanged, 3 in all]"), "{}", told(1));
    assert!(told(1).contains("extra: Does extra. Use when extra is asked for. [writing]"), "{}", told(1));
    assert!(
        told(1).contains("[categories: writing (1) Texts of all kinds.; give `category` to see one]"),
        "{}",
        told(1)
    );
    assert!(told(2).contains("extra:") && !told(2).contains("flat-one"), "{}", told(2));
    assert!(told(3).contains("no category \"cooking\""), "{}", told(3));
    let prefix = |n: usize| asked[n].messages[0].content.clone();
    assert!((1..4).all(|n| prefix(n) == prefix(0)), "the prompt's beginning stays as it is");
    assert_eq!(harness.reload(&id).await.expect("reloaded").unchanged, 3);
    harness.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_outside_the_brain_are_seen_loaded_called_and_never_changed() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let library = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let path = library.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    write("team/shared-way/SKILL.md", &skill_text("shared-way", "In ${HERM_SKILL_DIR}: !`printf ran-it`."));
    write("team/shared-way/references/more.md", "more of it\n");
    write("flat-one.md", &skill_text("flat-one", "The other one."));
    write("off.md", &skill_text("off", "Not here."));
    let outside = |builder: HarnessBuilder| {
        builder
            .external_skills(vec![library.path().to_owned()])
            .disabled_skills([slug("off"), slug("dir-one")])
            .inline_shell(true)
    };
    let (first, told, outcome) =
        ask(&brains, "/shared_way go", json!({ "name": "shared-way", "file": "references/more.md" }), outside)
            .await
            .expect("an outcome");
    let dir = library.path().join("team/shared-way");
    assert!(first.contains(&format!("In {}: !`printf ran-it`.", dir.display())), "{first}");
    assert!(told.contains("more of it"), "{told}");
    assert_eq!(outcome.skills_loaded, [slug("shared-way")]);
    let usage = brains.open("1").expect("opened").usage().expect("usage");
    assert!(!usage.contains_key(&slug("shared-way")), "it is not the brain's, and is not counted");

    // The brain's own skill wins its name; what is turned off is neither seen nor loaded nor called.
    let (_, told, _) = ask(&brains, "go", json!({ "name": "flat-one" }), outside).await.expect("an outcome");
    assert!(told.contains("Do the flat thing.") && !told.contains("The other one."), "{told}");
    for name in ["off", "dir-one"] {
        let (_, told, _) = ask(&brains, "go", json!({ "name": name }), outside).await.expect("an outcome");
        assert!(told.contains("turned off"), "{told}");
        ask(&brains, &format!("/{name} go"), json!({}), outside).await.expect_err("not a command either");
    }
    let words = [
        call("skills_list", json!({})),
        call(
            "skill_manage",
            json!({ "action": "create", "name": "shared-way", "content": skill_text("shared-way", "Mine.") }),
        ),
        call("skill_manage", json!({ "action": "archive", "name": "shared-way" })),
        call("skills_list", json!({ "reload": true })),
        ANSWER.to_owned(),
    ];
    let backend = Arc::new(ScriptedBackend::new(words));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = outside(builder(&brains)).router(router).learning(false).build().expect("a harness");
    // What changes outside while a session runs is heard of when the model asks for it.
    harness.run(&id, task("list")).await.expect("an outcome");
    let asked = backend.asked();
    let told = |n: usize| asked[n].messages.last().expect("a message").content.to_string();
    assert!(asked[0].messages[0].content.contains("shared-way"), "in the index");
    assert!(!asked[0].messages[0].content.contains("- off:"), "not in the index");
    assert!(told(1).contains("shared-way: Does shared-way.") && !told(1).contains("dir-one"), "{}", told(1));
    assert!(told(2).contains("outside the brain") && told(3).contains("there is no skill"), "{} {}", told(2), told(3));
    harness.shutdown().await.expect("closed");
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_hears_of_skills_that_appear_while_it_works() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let library = tempfile::tempdir().expect("a directory");
    let appears = library.path().join("new-one.md");
    let write = move |_: &Map<String, Value>| {
        std::fs::write(&appears, skill_text("new-one", "New.")).expect("written");
        Ok("done".to_owned())
    };
    let mut tools = toolbox();
    tools.add(made("publish", write)).expect("added");
    let words = [call("publish", json!({})), call("skills_list", json!({ "reload": true })), ANSWER.to_owned()];
    let backend = Arc::new(ScriptedBackend::new(words));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let dirs = vec![library.path().to_owned()];
    let harness = builder(&brains).toolbox(tools).router(router).external_skills(dirs).build().expect("a harness");
    harness.run(&id, task("go")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let asked = backend.asked();
    let told = |n: usize| asked[n].messages.last().expect("a message").content.to_string();
    assert!(told(1).contains("[the skills outside changed: added new-one]"), "it hears without asking: {}", told(1));
    assert!(told(2).contains("[reloaded: 3 unchanged, 3 in all]") && told(2).contains("new-one:"), "{}", told(2));
    assert!(!told(2).contains("skills outside changed"), "and only once");
    assert_eq!(asked[2].messages[0].content, asked[0].messages[0].content, "the prompt's beginning stays as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_of_a_skill_keeps_to_the_deadline_and_out_of_the_front_matter() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let text = "---\nname: slow\ndescription: Runs !`printf in-front` things. Use when asked.\n---\n\
                !`sleep 60` !`sleep 60` !`printf late`\n";
    write_skill(&brains, "slow", text, CreatedBy::User);
    let backend =
        Arc::new(ScriptedBackend::new([call("skill_view", json!({ "name": "flat-one" })), ANSWER.to_owned()]));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = builder(&brains).router(router).inline_shell(true).build().expect("a harness");
    let limits = herm::TaskLimits { deadline_secs: 2, ..herm::TaskLimits::default() };
    let ran = harness.run(&id, Task { limits, ..task("/slow") });
    // Three snippets of a minute each would outlast this by far.
    let outcome =
        tokio::time::timeout(Duration::from_secs(40), ran).await.expect("within its time").expect("an outcome");
    assert_eq!(outcome.stop, herm::StopReason::Deadline, "{outcome:?}");
    harness.shutdown().await.expect("closed");
    let text = "---\nname: front\ndescription: Runs !`printf in-%s front` things. Use when asked.\n---\n!`printf in-%s body`\n";
    write_skill(&brains, "front", text, CreatedBy::User);
    let look = json!({ "name": "front" });
    let (_, told, _) = ask(&brains, "go", look, |builder| builder.inline_shell(true)).await.expect("an outcome");
    assert!(told.contains("in-body") && told.contains("!`printf in-%s front`"), "{told}");
}

/// Main files inside another skill's directory are that skill's own, in the archive too.
#[test]
fn a_skill_inside_an_archived_skill_is_not_brought_back_in_anothers_name() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut step = |change: &dyn Fn(&mut herm::brain::Editor<'_>)| {
        let mut draft = Draft::new();
        change(&mut brain.edit(&mut draft));
        brain.settle(&draft, StepKind::Maintenance, "a step").expect("settled");
    };
    let own = skill_text("daily", "The person's own.");
    step(&|editor| drop(editor.create_skill(&slug("daily"), &own, CreatedBy::User).expect("made")));
    step(&|editor| drop(editor.create_skill(&slug("zfoo"), &skill_text("zfoo", "x"), CreatedBy::Agent).expect("made")));
    for hidden in ["references/daily/SKILL.md", "references/daily.archived-9/SKILL.md"] {
        let text = skill_text("daily", "Today: !`cmd`.");
        step(&|editor| {
            drop(editor.write_skill_file(&slug("zfoo"), hidden, text.clone().into_bytes()).expect("written"))
        });
    }
    step(&|editor| editor.archive_skill(&slug("daily")).expect("archived"));
    step(&|editor| editor.archive_skill(&slug("zfoo")).expect("archived"));
    step(&|editor| drop(editor.restore_skill(&slug("daily")).expect("restored")));
    step(&|editor| drop(editor.restore_skill(&slug("zfoo")).expect("restored")));
    let found = std::fs::read_to_string(brains.file("1", "skills/daily.md")).expect("the person's skill");
    assert_eq!(found, own);
    assert!(brains.file("1", "skills/zfoo/references/daily/SKILL.md").exists(), "whole again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_with_variables_replays_without_a_difference() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let body = "In ${HERM_SKILL_DIR}, for ${HERM_SESSION_ID}.";
    write_skill(&brains, "with-variables", &skill_text("with-variables", body), CreatedBy::User);
    ask(&brains, "go", json!({ "name": "with-variables" }), |builder| builder).await.expect("an outcome");
    let work = tempfile::tempdir().expect("a directory");
    let replayed = herm::harness::replay(&brains.layout(), &id, 3, &toolbox(), work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.diverged.is_empty(), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_interval_holds_across_processes_and_stuck_records_cost_one_pass() {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let brains = TempBrains::new();
    let id = brain(&brains);
    for name in ["first", "second", "gone"] {
        write_skill(&brains, name, &skill_text(name, "Do it."), CreatedBy::Agent);
    }
    let mut used = brains.open("1").expect("opened");
    let mut use_it = |name: &str| {
        let mut draft = Draft::new();
        used.edit(&mut draft).used(&slug(name)).expect("counted");
        used.settle(&draft, StepKind::Maintenance, "used").expect("settled");
    };
    use_it("first");
    brains.clock.advance_ms(5 * DAY);
    use_it("second");
    used.close().expect("closed");
    let weekly = CuratorOptions { every: Duration::from_secs(7 * 24 * 3_600), ..CuratorOptions::default() };
    // A harness of its own each time, as with one process after another.
    let pass = async |curating: CuratorOptions| {
        let harness = builder(&brains)
            .backend(ScriptedBackend::new([""; 0]))
            .curating(Some(curating))
            .build()
            .expect("a harness");
        let passed = harness.maintain(&id).await.expect("maintained").curator;
        let again = harness.maintain(&id).await.expect("maintained").curator;
        harness.shutdown().await.expect("closed");
        (passed.map(|report| report.plan.transitioned.len()), again.is_some())
    };
    brains.clock.advance_ms(26 * DAY);
    assert_eq!(pass(weekly).await, (Some(1), false), "the first is stale");
    brains.clock.advance_ms(5 * DAY);
    assert_eq!(pass(weekly).await, (None, false), "the second is due, and it is too soon");
    brains.clock.advance_ms(3 * DAY);
    assert_eq!(pass(weekly).await, (Some(1), false));

    // A record without files stays due, and is looked at once.
    let mut gone = brains.open("1").expect("opened");
    let mut draft = Draft::new();
    gone.edit(&mut draft).used(&slug("gone")).expect("counted");
    gone.settle(&draft, StepKind::Maintenance, "used").expect("settled");
    let made = gone.history(20).expect("history").into_iter().find(|step| {
        step.changes.iter().any(|change| change.path.as_str() == "skills/gone.md" && change.before.is_none())
    });
    gone.undo(made.expect("the step").seq, herm::brain::OnChanged::Refuse).expect("undone");
    gone.close().expect("closed");
    brains.clock.advance_ms(31 * DAY);
    assert_eq!(
        pass(CuratorOptions::default()).await,
        (Some(0), false),
        "nothing moves, and the next session does not try"
    );
}
