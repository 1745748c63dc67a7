//! A learned skill is tried by the tasks that come, and by kept tasks that run again: what hurts is archived, what helps is
//! shown always, and a rehearsal settles nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use herm::backend::{Backend, BackendError, Capabilities, Completion, CompletionRequest, FinishReason, Price};
use herm::evolver::review_queue;
use herm::harness::{RehearsalCalls, RehearsalOptions, RehearsedChange};
use herm::memory::TrialState;
use herm::skill::change::SkillUpdate;
use herm::skill::{CreatedBy, SkillState};
use herm::task::LearningOptions;
use herm::tool::Permissions;
use herm::{BrainSource, Digest, Draft, ErrorKind, Seed, StepKind};
use herm_tests::brains::{skill_text, slug};

use super::*;

/// A model that asks the list which its prompt names, or else its usual one; an answer that it does not know, it makes up.
#[derive(Debug)]
struct Imitates {
    usual: &'static str,
    price: Option<Price>,
}

/// A token that is read costs a millionth of a dollar.
const PRICE: Price = Price { input: 1_000_000, output: 0 };

#[async_trait]
impl Backend for Imitates {
    fn name(&self) -> &str {
        "imitates"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { preload_bytes: 1_200, price: self.price, ..Capabilities::default() }
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let [system, question, ..] = ask.messages.as_slice() else { panic!("a question") };
        let last = ask.messages.last().map(|said| said.content.to_string()).unwrap_or_default();
        let named = ["attic", "cellar"].into_iter().find(|list| system.content.contains(&format!("Ask the {list}.")));
        let text = if let Some((_, found)) = last.split_once("is in ") {
            json!({ "answer": found.split('.').next() }).to_string()
        } else if ask.messages.len() > 2 {
            json!({ "answer": "box 0" }).to_string()
        } else {
            let thing = question.content.split("the ").last().unwrap_or_default().trim_end_matches(['?', '\n']);
            call("find", json!({ "thing": thing, "list": named.unwrap_or(self.usual) }))
        };
        let model = "imitates-1".to_owned();
        Ok(Completion { text, finish: FinishReason::Stop, model, tokens: None, attestation: None })
    }
}

/// Everything lies in the cellar; counts how often it is asked.
fn find(permission: Permission, asked: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["thing", "list"], "properties": {
        "thing": { "type": "string" }, "list": { "enum": ["attic", "cellar"] } } });
    let card = ToolSpec::new("find", "Says where a thing lies.", permission, schema);
    let asked = Arc::clone(asked);
    let run = move |args: &Map<String, Value>| {
        asked.fetch_add(1, Ordering::SeqCst);
        match args["list"].as_str() {
            Some("cellar") => Ok(format!("The {} is in box 28.", args["thing"].as_str().unwrap_or_default())),
            _ => Err(herm::Error::not_found("that list does not have it")),
        }
    };
    Arc::new(Made { card, run })
}

const CHECKED: &str = "---\nchecks:\n  - calls: find\n  - contains: box 28\n---\nYou find things.\n";

struct House {
    brains: TempBrains,
    id: BrainId,
    asked: Arc<AtomicUsize>,
}

impl House {
    fn new(role: &str) -> Self {
        let brains = TempBrains::new();
        let id: BrainId = "1".parse().expect("an id");
        let seed = BrainSource::Seed(Seed { id: &id, files: &[("system.md", role.as_bytes())] });
        let (brain, _) = herm::Brain::hydrate(&brains.layout(), &id, &seed, &brains.opening()).expect("a brain");
        brain.close().expect("closed");
        Self { brains, id, asked: Arc::default() }
    }

    fn harness(&self, usual: &'static str, permission: Permission) -> Harness {
        self.rehearsing(usual, permission, 0)
    }

    /// The same, where the model costs something.
    fn priced(&self, usual: &'static str) -> Harness {
        self.asking(Imitates { usual, price: Some(PRICE) }, Permission::Read, 0)
    }

    /// The same, where each skill on trial is rehearsed by itself on so many tasks.
    fn rehearsing(&self, usual: &'static str, permission: Permission, rehearsals: usize) -> Harness {
        self.asking(Imitates { usual, price: None }, permission, rehearsals)
    }

    fn asking(&self, model: Imitates, permission: Permission, rehearsals: usize) -> Harness {
        let mut tools = herm_tools::standard().expect("tools").only(&["recall".to_owned()]);
        tools.add(find(permission, &self.asked)).expect("added");
        let learning = LearningOptions { synthesis: false, examples: false, ..LearningOptions::default() };
        builder(&self.brains)
            .toolbox(tools)
            .permissions(Permissions { network: true, process: true })
            .backend(model)
            .learning(learning)
            .rehearsals(rehearsals)
            .evolving(None)
            .build()
            .expect("a harness")
    }

    /// The tasks on which a skill was rehearsed.
    fn rehearsed(&self, name: &str) -> usize {
        let known = reader(&self.brains).trial_tasks(&slug(name)).expect("read");
        known.iter().filter(|task| task.rehearsed).count() / 2
    }

    /// The agent learns a skill.
    async fn learn(&self, harness: &Harness, name: &'static str, body: &'static str) {
        let make = move |brain: &mut herm::Brain| {
            let mut draft = Draft::new();
            brain.edit(&mut draft).create_skill(&slug(name), &skill_text(name, body), CreatedBy::Agent)?;
            brain.settle(&draft, StepKind::Maintenance, "learned").map(drop)
        };
        harness.with_brain(&self.id, make).await.expect("learned");
    }

    async fn run(&self, harness: &Harness, number: usize) -> herm::Outcome {
        harness.run(&self.id, task(&format!("Where is the lamp{number}?"))).await.expect("an outcome")
    }

    fn state(&self, name: &str) -> Option<TrialState> {
        reader(&self.brains).trial(&slug(name)).expect("read").map(|trial| trial.state)
    }
}

fn budget(most_tasks: usize) -> RehearsalOptions {
    RehearsalOptions { most_tasks, ..RehearsalOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_skill_that_hurts_is_archived_by_the_tasks_that_come_and_is_shown_no_more() {
    let house = House::new(CHECKED);
    let harness = house.harness("cellar", Permission::Read);
    house.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    let mut tasks = 0;
    while house.state("ask-the-attic") != Some(TrialState::Harmful) {
        tasks += 1;
        assert!(tasks <= 60, "not archived within 60 tasks");
        let outcome = house.run(&harness, tasks).await;
        let [shown] = outcome.shown.as_slice() else { panic!("{:?}", outcome.shown) };
        assert!(shown.trial);
        // What follows a task waits for its place: then the pass is over.
        harness.with_brain(&house.id, |_| Ok(())).await.expect("free");
    }
    assert_eq!(harness.maintenance_counters().harmful, 1);
    let outcome = house.run(&harness, 100).await;
    assert!(outcome.shown.is_empty() && outcome.outcome.value.score() == Some(1.0), "{outcome:?}");
    harness.shutdown().await.expect("closed");
    let reader = reader(&house.brains);
    assert_eq!(reader.usage().expect("usage")[&slug("ask-the-attic")].state, SkillState::Archived);
    let trial = reader.trial(&slug("ask-the-attic")).expect("read").expect("a trial");
    assert!(trial.reason.contains("0.00 in ") && trial.reason.contains("1.00 in "), "{}", trial.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn rehearsals_prove_a_skill_with_tasks_that_are_kept_and_settle_none_of_them() {
    let house = House::new(CHECKED);
    let harness = house.harness("attic", Permission::Read);
    for number in 0..10 {
        assert_eq!(house.run(&harness, number).await.outcome.value.score(), Some(0.0));
    }
    house.learn(&harness, "ask-the-cellar", "Ask the cellar.").await;
    let before = reader(&house.brains).lock().clone();
    let report = harness.rehearse(&house.id, &slug("ask-the-cellar"), &budget(3)).await.expect("a rehearsal");
    assert_eq!((report.tasks.len(), report.ended.clone(), report.summary.better), (3, None, 3), "{report:?}");
    // What was rehearsed counts, and is not run again.
    let report = harness.rehearse(&house.id, &slug("ask-the-cellar"), &budget(20)).await.expect("a rehearsal");
    assert_eq!((report.tasks.len(), report.summary.better, report.unfit), (5, 8, 0), "{report:?}");
    assert!(report.tasks.iter().all(|task| (task.with, task.without) == (1.0, 0.0)));
    let ended = report.ended.expect("it decides");
    assert_eq!(ended.state, TrialState::Proven);
    assert!(ended.reason.starts_with("in 8 rehearsals 8 tasks went better with it and 0 worse"), "{}", ended.reason);
    harness.shutdown().await.expect("closed");
    let after = reader(&house.brains);
    assert_eq!(*after.lock(), before, "nothing is settled");
    assert_eq!(after.counts(&after.skills().expect("skills")).expect("counts").tasks, 10);
    let rows = after.trial_tasks(&slug("ask-the-cellar")).expect("rows");
    assert!(rows.len() == 16 && rows.iter().all(|row| row.rehearsed), "{rows:?}");
    assert_eq!(house.state("ask-the-cellar"), Some(TrialState::Proven));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_calls_nothing_outside_and_a_call_that_the_record_lacks_decides_nothing() {
    let house = House::new(CHECKED);
    let harness = house.harness("attic", Permission::Network);
    for number in 0..8 {
        assert_eq!(house.run(&harness, number).await.outcome.value.score(), Some(0.0));
    }
    let asked = house.asked.load(Ordering::SeqCst);
    house.learn(&harness, "ask-the-cellar", "Ask the cellar.").await;
    house.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    // With the skill the call is another than the recorded one: how it would have gone is not known.
    let report = harness.rehearse(&house.id, &slug("ask-the-cellar"), &budget(8)).await.expect("a rehearsal");
    assert_eq!((report.tasks.len(), report.unrated.len(), report.ended), (0, 8, None));
    assert_eq!(report.unrated[0], "a call of find that the task did not make is not made in a rehearsal");
    assert_eq!(house.state("ask-the-cellar"), Some(TrialState::Trial));
    // A call that was made then is answered from the record.
    let report = harness.rehearse(&house.id, &slug("ask-the-attic"), &budget(2)).await.expect("a rehearsal");
    assert!(report.unrated.is_empty() && report.tasks.iter().all(|task| (task.with, task.without) == (0.0, 0.0)));
    assert_eq!((report.tasks.len(), house.asked.load(Ordering::SeqCst)), (2, asked), "nothing was called");
    // Where the operator allows calls, they decide.
    let options = RehearsalOptions { calls: RehearsalCalls::All, ..budget(8) };
    let report = harness.rehearse(&house.id, &slug("ask-the-cellar"), &options).await.expect("a rehearsal");
    assert_eq!((report.summary.better, report.ended.map(|ended| ended.state)), (8, Some(TrialState::Proven)));
    assert!(house.asked.load(Ordering::SeqCst) > asked);
    harness.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_ends_where_its_money_does() {
    let house = House::new(CHECKED);
    let harness = house.harness("attic", Permission::Read);
    for number in 0..4 {
        house.run(&harness, number).await;
    }
    house.learn(&harness, "ask-the-cellar", "Ask the cellar.").await;
    let for_money = |most| RehearsalOptions { most_micro_usd: Some(most), ..budget(4) };
    let error = harness.rehearse(&house.id, &slug("ask-the-cellar"), &for_money(9)).await.expect_err("no price");
    assert_eq!(error.message(), "a budget in money cannot be held: imitates has no known price");
    harness.shutdown().await.expect("closed");

    let harness = house.priced("attic");
    let none = harness.rehearse(&house.id, &slug("ask-the-cellar"), &for_money(0)).await.expect("a rehearsal");
    assert_eq!((none.tasks.len(), none.micro_usd), (0, 0));
    let one = harness.rehearse(&house.id, &slug("ask-the-cellar"), &budget(1)).await.expect("a rehearsal");
    assert_eq!(one.tasks.len(), 1);
    assert!(one.micro_usd > 0);
    // Nearly enough for two pairs: the second does not count.
    let most = one.micro_usd * 2 - 1;
    let some = harness.rehearse(&house.id, &slug("ask-the-cellar"), &for_money(most)).await.expect("a rehearsal");
    assert_eq!(some.tasks.len(), 1);
    assert!(some.micro_usd > one.micro_usd && some.micro_usd <= most, "{some:?}");
    harness.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_checks_or_does_not_fit_or_was_not_learned_cannot_be_rehearsed() {
    let house = House::new(CHECKED);
    let harness = house.harness("cellar", Permission::Read);
    house.run(&harness, 1).await;
    let error = harness.rehearse(&house.id, &slug("nothing"), &budget(4)).await.expect_err("not learned");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // Longer than the prompt has room for: no task is shown it.
    let long: &'static str = Box::leak("Go on and on. ".repeat(200).into_boxed_str());
    house.learn(&harness, "long-winded", long).await;
    let report = harness.rehearse(&house.id, &slug("long-winded"), &budget(4)).await.expect("a rehearsal");
    assert_eq!((report.tasks.len(), report.unfit), (0, 1));
    harness.shutdown().await.expect("closed");

    let unchecked = House::new("You find things.\n");
    let harness = unchecked.harness("cellar", Permission::Read);
    let outcome = unchecked.run(&harness, 1).await;
    let report = herm::memory::OutcomeReport {
        source: herm::memory::OutcomeSource::Label,
        value: herm::memory::OutcomeValue::Good,
        note: None,
        at: harness.now(),
    };
    let label = move |brain: &mut herm::Brain| brain.record_outcome(&outcome.task, report);
    harness.with_brain(&unchecked.id, label).await.expect("labelled");
    unchecked.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    let report = harness.rehearse(&unchecked.id, &slug("ask-the-attic"), &budget(4)).await.expect("a rehearsal");
    assert_eq!((report.tasks.len(), report.unrated.len()), (0, 1));
    harness.shutdown().await.expect("closed");
}

/// Waits until something holds that happens by itself.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{what} within a minute");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_trial_is_rehearsed_by_itself_within_its_budget_and_decided_sooner() {
    let house = House::new(CHECKED);
    let harness = house.rehearsing("cellar", Permission::Read, 8);
    house.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    // Too few for the trial to end by itself.
    for number in 1..=9 {
        house.run(&harness, number).await;
    }
    until("a verdict", || house.state("ask-the-attic") == Some(TrialState::Harmful)).await;
    assert_eq!(house.rehearsed("ask-the-attic"), 8);
    let trial = reader(&house.brains).trial(&slug("ask-the-attic")).expect("read").expect("a trial");
    assert!(trial.reason.starts_with("in 8 rehearsals 0 tasks went better with it and 8 worse"), "{}", trial.reason);
    harness.shutdown().await.expect("shut down");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_archived_during_its_trial_keeps_nothing_else_from_its_rehearsals() {
    let house = House::new(CHECKED);
    let harness = house.harness("cellar", Permission::Read);
    house.learn(&harness, "a-look-elsewhere", "Go to the garden.").await;
    house.run(&harness, 1).await;
    let archive = |brain: &mut herm::Brain| {
        let mut draft = Draft::new();
        brain.edit(&mut draft).archive_skill(&slug("a-look-elsewhere"))?;
        brain.settle(&draft, StepKind::Maintenance, "archived").map(drop)
    };
    harness.with_brain(&house.id, archive).await.expect("archived");
    harness.shutdown().await.expect("shut down");
    assert_eq!(house.state("a-look-elsewhere"), Some(TrialState::Trial));

    let harness = house.rehearsing("cellar", Permission::Read, 8);
    house.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    for number in 2..=10 {
        house.run(&harness, number).await;
    }
    until("a verdict", || house.state("ask-the-attic") == Some(TrialState::Harmful)).await;
    assert_eq!((house.rehearsed("ask-the-attic"), house.rehearsed("a-look-elsewhere")), (8, 0));
    assert!(reader(&house.brains).on_trial().expect("read").is_empty());
    harness.shutdown().await.expect("shut down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_used_up_rehearses_no_more_and_without_checks_nothing_is_rehearsed() {
    let house = House::new(CHECKED);
    let harness = house.rehearsing("cellar", Permission::Read, 2);
    house.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    for number in 1..=4 {
        house.run(&harness, number).await;
    }
    until("two rehearsals", || house.rehearsed("ask-the-attic") == 2).await;
    house.run(&harness, 5).await;
    harness.shutdown().await.expect("shut down");
    assert_eq!(house.rehearsed("ask-the-attic"), 2);
    assert_eq!(house.state("ask-the-attic"), Some(TrialState::Trial));
    // A new process goes by what was written down.
    let harness = house.rehearsing("cellar", Permission::Read, 2);
    house.run(&harness, 6).await;
    harness.shutdown().await.expect("shut down");
    assert_eq!(house.rehearsed("ask-the-attic"), 2);

    let unchecked = House::new("You find things.\n");
    let harness = unchecked.rehearsing("cellar", Permission::Read, 8);
    unchecked.learn(&harness, "ask-the-attic", "Ask the attic.").await;
    let asked = unchecked.asked.load(Ordering::SeqCst);
    for number in 1..=3 {
        unchecked.run(&harness, number).await;
    }
    harness.shutdown().await.expect("shut down");
    assert_eq!(unchecked.rehearsed("ask-the-attic"), 0);
    assert_eq!(unchecked.asked.load(Ordering::SeqCst) - asked, 3, "each task asks once, and nobody else does");
}

impl House {
    /// A change of a skill's text that waits for a person, as the evolver holds it; its id in the queue.
    async fn hold(&self, harness: &Harness, name: &'static str, body: &'static str) -> String {
        let hold = move |brain: &mut herm::Brain| {
            let mut draft = Draft::new();
            let editor = brain.edit(&mut draft);
            let place = herm::skill::store::find(&editor, &slug(name))?.expect("the skill");
            let expected = Digest::of(&herm::skill::Files::read(&editor, &place.main)?.expect("its file"));
            let change = SkillUpdate {
                skill: slug(name),
                expected,
                content: skill_text(name, body),
                support: Vec::new(),
                why: json!({ "evidence": { "through": 1 } }),
            };
            review_queue::enqueue_update(brain, &change, "it failed").map(|queued| queued.id)
        };
        harness.with_brain(&self.id, hold).await.expect("held")
    }

    fn text(&self, name: &str) -> String {
        let reader = reader(&self.brains);
        let place = reader.skills().expect("skills").get(&slug(name)).expect("the skill").place.clone();
        reader.text(&place.main).expect("read").expect("its file")
    }

    fn status_of(&self, change: &str) -> String {
        let row = reader(&self.brains).evolver_rows().queued(change).expect("read").expect("a row");
        review_queue::to_json(&row)["status"].as_str().expect("a status").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waits_is_made_where_rehearsals_prove_it_and_rejected_where_they_show_harm() {
    let house = House::new(CHECKED);
    let harness = house.harness("attic", Permission::Read);
    house.learn(&harness, "ask-somewhere", "Ask the attic.").await;
    for number in 0..10 {
        assert_eq!(house.run(&harness, number).await.outcome.value.score(), Some(0.0));
    }
    let better = house.hold(&harness, "ask-somewhere", "Ask the cellar.").await;
    let before = reader(&house.brains).lock().clone();
    let few = harness.rehearse_change(&house.id, &better, &budget(3)).await.expect("a rehearsal");
    assert_eq!((few.report.tasks.len(), few.came), (3, RehearsedChange::Waits));
    assert_eq!(*reader(&house.brains).lock(), before, "nothing is settled");
    assert_eq!(house.status_of(&better), "pending");

    let done = harness.rehearse_change(&house.id, &better, &budget(12)).await.expect("a rehearsal");
    assert!(done.report.tasks.iter().all(|task| (task.with, task.without) == (1.0, 0.0)), "{done:?}");
    let RehearsedChange::Made(made) = &done.came else { panic!("{done:?}") };
    assert!(made.applied && house.text("ask-somewhere").contains("Ask the cellar."), "{made:?}");
    assert_eq!((done.report.tasks.len(), house.status_of(&better).as_str()), (8, "accepted"));
    let step = reader(&house.brains).history(1).expect("history").remove(0);
    assert_eq!(step.kind, StepKind::Evolve);
    let changes = reader(&house.brains).evolver_rows().changes(Some(&slug("ask-somewhere"))).expect("changes");
    assert_eq!(changes[0].manifest["rehearsed"]["better"], json!(8), "{:#}", changes[0].manifest);
    // Its text is another one, so its trial begins anew.
    assert_eq!(house.state("ask-somewhere"), Some(TrialState::Trial));

    let worse = house.hold(&harness, "ask-somewhere", "Ask the attic. Then ask the attic again.").await;
    let done = harness.rehearse_change(&house.id, &worse, &budget(12)).await.expect("a rehearsal");
    assert_eq!((done.came, house.status_of(&worse).as_str()), (RehearsedChange::Rejected, "rejected"));
    assert!(house.text("ask-somewhere").contains("Ask the cellar."));
    let error = harness.rehearse_change(&house.id, &worse, &budget(12)).await.expect_err("decided");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    harness.shutdown().await.expect("shut down");
    assert!(house.brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waits_is_rehearsed_by_itself_where_the_operator_gave_a_budget() {
    let house = House::new(CHECKED);
    let harness = house.harness("attic", Permission::Read);
    house.learn(&harness, "ask-somewhere", "Ask the attic.").await;
    for number in 0..8 {
        house.run(&harness, number).await;
    }
    let better = house.hold(&harness, "ask-somewhere", "Ask the cellar.").await;
    harness.shutdown().await.expect("shut down");
    assert_eq!(house.status_of(&better), "pending", "without a budget it waits for a person");

    let harness = house.rehearsing("attic", Permission::Read, 8);
    house.run(&harness, 9).await;
    until("a change that is made", || house.status_of(&better) == "accepted").await;
    assert!(house.text("ask-somewhere").contains("Ask the cellar."));
    harness.shutdown().await.expect("shut down");
}
