//! Tools that change skills with the editor itself, past the calls of the gate: what they do is ruled on when the task is
//! closed, as if it had been asked for.

use std::collections::BTreeSet;

use herm::Draft;
use herm::StepKind;
use herm::brain::{Editor, OnChanged};
use herm::memory::{Trial, TrialState};
use herm::skill::CreatedBy;
use herm::skill::import::{OnNameConflict, SkillFilter};
use herm::tool::SkillChange;
use herm_tests::brains::{skill_text, slug};

use super::gate::{all_makers, files, made_by, waiting};
use super::*;

/// A tool that imports skills with the editor itself, over those of the same name.
struct Importer(ToolSpec, std::path::PathBuf);

#[async_trait]
impl Tool for Importer {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let path = self.1.clone();
        cx.with_working_copy(move |desk| {
            let library = desk.brain()?.skill_library(&path)?;
            let report = desk.edit()?.import_skills(library, &SkillFilter::new(&[]), OnNameConflict::Replace)?;
            Ok(ToolOutput::new(format!("{} imported", report.imported.len()), "imported"))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_by_an_agent_makes_new_skills_and_replaces_nothing_that_is_not_the_agents() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let library = tempfile::tempdir().expect("a directory");
    for name in ["brand-new", "by-person", "by-agent", "dir-one"] {
        let dir = library.path().join(name);
        std::fs::create_dir(&dir).expect("made");
        std::fs::write(dir.join("SKILL.md"), skill_text(name, "From elsewhere.")).expect("written");
    }
    let mut tools = toolbox();
    let card = ToolSpec::new("take_over", "Imports.", Permission::WriteBrain, json!({ "type": "object" }));
    tools.add(Arc::new(Importer(card, library.path().to_owned()))).expect("added");
    let words = [call("take_over", json!({})), ANSWER.to_owned()];
    let harness = builder(&brains).toolbox(tools).backend(ScriptedBackend::new(words)).build().expect("a harness");
    let (person, seed) = (files(&brains, "by-person"), files(&brains, "dir-one"));
    let outcome = harness.run(&"1".parse().expect("an id"), task("go")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    assert!(outcome.warnings.iter().filter(|said| said.contains("waits for a person")).count() == 2, "{outcome:?}");
    assert_eq!((files(&brains, "by-person"), files(&brains, "dir-one")), (person, seed));
    assert!(files(&brains, "by-agent")[0].1.contains("From elsewhere."));
    assert!(files(&brains, "brand-new")[0].1.contains("From elsewhere."));
    assert_eq!((made_by(&brains, "by-person"), made_by(&brains, "brand-new")), (CreatedBy::User, CreatedBy::Imported));
    let proposed: Vec<String> =
        waiting(&brains).iter().filter_map(|row| Some(row.skill.as_ref()?.to_string())).collect();
    assert_eq!(BTreeSet::from_iter(proposed), BTreeSet::from(["by-person", "dir-one"].map(str::to_owned)));
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

type Direct = Arc<dyn Fn(&mut Editor<'_>) -> Result<()> + Send + Sync>;

/// A tool that does something with the editor itself.
struct EditsItself(ToolSpec, Direct);

#[async_trait]
impl Tool for EditsItself {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let edit = Arc::clone(&self.1);
        cx.with_working_copy(move |desk| {
            edit(&mut desk.edit()?)?;
            Ok(ToolOutput::new("done", "done"))
        })
        .await
    }
}

fn with_tool(edit: impl Fn(&mut Editor<'_>) -> Result<()> + Send + Sync + 'static) -> Toolbox {
    let mut tools = toolbox();
    let card = ToolSpec::new("edit_itself", "Edits.", Permission::WriteBrain, json!({ "type": "object" }));
    tools.add(Arc::new(EditsItself(card, Arc::new(edit)))).expect("added");
    tools
}

/// Runs a task whose one call edits skills past the gate.
async fn run(
    brains: &TempBrains,
    asked: Task,
    edit: impl Fn(&mut Editor<'_>) -> Result<()> + Send + Sync + 'static,
) -> (herm::Outcome, Toolbox) {
    let tools = with_tool(edit);
    let words = [call("edit_itself", json!({})), ANSWER.to_owned()];
    let backend = ScriptedBackend::new(words);
    let harness = builder(brains).toolbox(tools.clone()).backend(backend).build().expect("a harness");
    let outcome = harness.run(&"1".parse().expect("an id"), asked).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    assert_eq!(outcome.answer.as_deref(), Some(ANSWER), "{outcome:?}");
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
    (outcome, tools)
}

fn create(name: &'static str, text: String) -> impl Fn(&mut Editor<'_>) -> Result<()> + Send + Sync + 'static {
    move |editor| editor.create_skill(&slug(name), &text, CreatedBy::Agent).map(drop)
}

fn there(brains: &TempBrains, name: &str) -> bool {
    brains.file("1", &format!("skills/{name}.md")).exists()
}

const STEPS: &str =
    "1. Call `echo` with the first number.\n2. Go on until all things are counted.\n3. Say the last number.";

/// A brain in which a person took back a skill that a task had made past the gate.
async fn with_undone() -> TempBrains {
    let brains = TempBrains::new();
    brain(&brains);
    let (outcome, _) = run(&brains, task("go"), create("count-things", skill_text("count-things", STEPS))).await;
    assert_eq!((outcome.skills_changed.len(), there(&brains, "count-things")), (1, true), "{outcome:?}");
    assert_eq!(outcome.skills_changed[0].change, SkillChange::Created);
    let mut brain = brains.open("1").expect("opened");
    brain.undo(brain.last_step().expect("a step"), OnChanged::Refuse).expect("undone");
    brain.close().expect("closed");
    assert!(!there(&brains, "count-things"));
    brains
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_does_not_bring_back_what_a_person_took_back_and_what_is_like_it_waits() {
    let brains = with_undone().await;
    let (outcome, _) = run(&brains, task("go"), create("count-things", skill_text("count-things", STEPS))).await;
    assert_eq!((outcome.skills_changed, outcome.skills_proposed), (vec![], vec![]));
    assert!(outcome.warnings.iter().any(|said| said.contains("taken back by a person")), "{:?}", outcome.warnings);
    assert!(!there(&brains, "count-things"));
    // The name alone is a question for a person.
    let other = skill_text("count-things", "Look at the clock, and say which hour it is.");
    let (outcome, _) = run(&brains, task("go"), create("count-things", other)).await;
    assert_eq!((outcome.skills_changed.len(), outcome.skills_proposed.len()), (0, 1), "{:?}", outcome.warnings);
    assert!(!there(&brains, "count-things"));
    assert_eq!(waiting(&brains)[0].skill, Some(slug("count-things")));
    // In a file beside a skill of the agent's own.
    let support = |editor: &mut Editor<'_>| {
        editor.create_skill(&slug("fresh"), &skill_text("fresh", "Read the notes."), CreatedBy::Agent)?;
        let undone = skill_text("count-things", STEPS).into_bytes();
        editor.write_skill_file(&slug("fresh"), "references/notes.md", undone).map(drop)
    };
    let (outcome, _) = run(&brains, task("go"), support).await;
    assert_eq!(outcome.skills_changed, [], "{:?}", outcome.warnings);
    assert!(!brains.file("1", "skills/fresh").exists() && !there(&brains, "fresh"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_does_not_bring_a_harmful_skill_back_from_the_archive() {
    let brains = TempBrains::new();
    let mut made = brains.make("1");
    let mut draft = Draft::new();
    made.edit(&mut draft).create_skill(&slug("hurts"), &skill_text("hurts", "Guess."), CreatedBy::Agent).expect("made");
    made.settle(&draft, StepKind::Maintenance, "made").expect("settled");
    let since = made.clock().now();
    let mut draft = Draft::new();
    made.edit(&mut draft).archive_skill(&slug("hurts")).expect("archived");
    let state = TrialState::Harmful;
    draft.trial(Trial { skill: slug("hurts"), state, since, decided: Some(since), reason: "it hurts".to_owned() });
    made.settle(&draft, StepKind::Learn, "trial: archived hurts").expect("settled");
    made.close().expect("closed");
    let (outcome, _) = run(&brains, task("go"), |editor| editor.restore_skill(&slug("hurts")).map(drop)).await;
    assert_eq!(outcome.skills_changed, [], "{:?}", outcome.warnings);
    assert!(outcome.warnings.iter().any(|said| said.contains("did harm on trial")), "{:?}", outcome.warnings);
    assert!(!there(&brains, "hurts") && brains.file("1", "skills/.archive/hurts.md").exists());
    let trial = brains.open("1").expect("opened").trial(&slug("hurts")).expect("read").expect("there");
    assert_eq!(trial.state, TrialState::Harmful);
}

pub(super) const SECRET: &str = "our unreleased vault at seven elm street holds all of the treasury funds until march";

fn of_alice() -> Task {
    Task { subscriber: Some("alice".parse().expect("an id")), ..task(&format!("Remember: {SECRET}.")) }
}

/// A tool that writes what a subscriber said into a skill.
pub(super) fn that_keeps_a_secret() -> Toolbox {
    with_tool(create("by-tool", skill_text("by-tool", SECRET)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_does_not_write_a_subscribers_words_into_skills() {
    let brains = TempBrains::new();
    brain(&brains);
    let (made, _) = run(&brains, of_alice(), create("own", skill_text("own", "Ask where things are kept."))).await;
    assert_eq!(made.skills_changed.len(), 1, "{:?}", made.warnings);
    let quoting: [Direct; 4] = [
        Arc::new(create("vault", skill_text("vault", SECRET))),
        Arc::new(|editor| editor.edit_skill(&slug("own"), &skill_text("own", SECRET)).map(drop)),
        Arc::new(|editor| {
            editor.write_skill_file(&slug("own"), "references/notes.md", SECRET.as_bytes().to_vec()).map(drop)
        }),
        Arc::new(|editor| {
            editor.patch_skill(&slug("own"), None, "Ask where", &format!("{SECRET}. Ask where")).map(drop)
        }),
    ];
    for edit in quoting {
        let (outcome, _) = run(&brains, of_alice(), move |editor| edit(editor)).await;
        assert_eq!((outcome.skills_changed, outcome.skills_proposed), (vec![], vec![]));
        assert!(
            outcome.warnings.iter().any(|said| said.contains("the subscriber's own words")),
            "{:?}",
            outcome.warnings
        );
        assert!(!there(&brains, "vault") && there(&brains, "own"));
        assert!(!std::fs::read_to_string(brains.file("1", "skills/own.md")).expect("read").contains("elm street"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_edits_itself_and_what_a_call_changed_are_ruled_on_once_each() {
    let brains = TempBrains::new();
    brain(&brains);
    let tools = with_tool(create("by-tool", skill_text("by-tool", "Look at the map.")));
    let words = [
        call(
            "skill_manage",
            json!({ "action": "create", "name": "by-call", "content": skill_text("by-call", "Ask.") }),
        ),
        call("edit_itself", json!({})),
        ANSWER.to_owned(),
    ];
    let harness =
        builder(&brains).toolbox(tools.clone()).backend(ScriptedBackend::new(words)).build().expect("a harness");
    let id = "1".parse().expect("an id");
    let outcome = harness.run(&id, task("go")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let changed: Vec<String> = outcome.skills_changed.iter().map(|changed| changed.slug.to_string()).collect();
    assert_eq!((changed, outcome.warnings), (vec!["by-call".to_owned(), "by-tool".to_owned()], vec![]));
    // The receipt names both, and a replay comes to the same.
    let seq = outcome.settled.expect("settled").version;
    let work = tempfile::tempdir().expect("a directory");
    let replayed = herm::harness::replay(&brains.layout(), &id, seq, &tools, work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.diverged.is_empty(), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_own_edits_were_taken_out_replays_to_the_same_hash_whatever_was_undone_since() {
    let brains = with_undone().await;
    let text = skill_text("count-things", STEPS);
    let both = move |editor: &mut Editor<'_>| {
        editor.create_skill(&slug("count-things"), &text, CreatedBy::Agent)?;
        editor.create_skill(&slug("kept"), &skill_text("kept", "Count the sheep at night."), CreatedBy::Agent).map(drop)
    };
    let (outcome, tools) = run(&brains, task("go"), both).await;
    let changed: Vec<String> = outcome.skills_changed.iter().map(|changed| changed.slug.to_string()).collect();
    assert_eq!(changed, ["kept"], "{:?}", outcome.warnings);
    let seq = outcome.settled.expect("settled").version;
    // What a person takes back later is no part of the task.
    let mut brain = brains.open("1").expect("opened");
    brain.undo(brain.last_step().expect("a step"), OnChanged::Refuse).expect("undone");
    brain.close().expect("closed");
    let (work, id) = (tempfile::tempdir().expect("a directory"), "1".parse().expect("an id"));
    let replayed = herm::harness::replay(&brains.layout(), &id, seq, &tools, work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.diverged.is_empty(), "{replayed:?}");
}
