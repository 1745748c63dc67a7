//! A patch that a model drafts: one question, within its money, and an answer that may only change what templates change:
//! settings, the role, skills, and which tools may be called. Whatever else it says is refused; what it says is marked, and
//! judged like any other patch.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Author, DraftContext, DraftTarget, EvaluationInputs, PatchDraft, evaluation_for};
use crate::backend::{Chain, ChatMessage, CompletionRequest, Purpose, Role};
use crate::bottleneck::Bottleneck;
use crate::broker::Broker;
use crate::error::{Error, Result};
use crate::layout;
use crate::patch::{Patch, PatchChange};
use crate::session::reply::{self, Object};
use crate::text;
use crate::tuning::Component;

/// What a draft may take, in tokens and in bytes.
const MOST_TOKENS: u32 = 4_096;
const MOST_BYTES: usize = 32 << 10;
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(120);
/// What a draft may cost, in millionths of a dollar.
pub const MOST_MICRO_USD: u64 = 250_000;
/// How much of the role, and how many names of skills, the model is shown.
const MOST_ROLE: usize = 16 << 10;
const MOST_SKILLS: usize = 200;
/// The most changes of a draft.
const MOST_CHANGES: usize = 4;

/// Asks the first backend of a chain once for a patch against the worst of these bottlenecks. `Ok(None)` where nothing
/// of the brain could show whether such a patch helps.
pub async fn draft(
    chain: Chain,
    bottlenecks: &[Bottleneck],
    scene: &DraftContext,
    material: &EvaluationInputs,
) -> Result<Option<PatchDraft>> {
    let evaluable = bottlenecks.iter().find_map(|one| match evaluation_for(one, material) {
        Ok(evaluation) => evaluation.map(|evaluation| Ok((one.clone(), evaluation))),
        Err(error) => Some(Err(error)),
    });
    let Some((bottleneck, evaluation)) = evaluable.transpose()? else { return Ok(None) };
    let broker = Broker::new(chain, MOST_MICRO_USD, Instant::now() + WITHIN);
    let backend = broker.first().map(|backend| backend.name().to_owned()).unwrap_or_default();
    let answered = broker.ask(&question(bottlenecks, scene)?).await.map_err(|error| {
        Error::unavailable(format!("{backend} drafted no patch: {error}"))
            .hint("leave out --draft-with: the templates need no model")
    })?;
    let patch = read(&answered.text, &backend, &answered.model, scene)?;
    let aim = patch.changes().first().map_or(DraftTarget::Setting, aim_of);
    Ok(Some(PatchDraft {
        bottleneck,
        aim,
        patch,
        evaluation,
        author: Author::Model { backend, model: answered.model },
    }))
}

/// What a change is of.
fn aim_of(change: &PatchChange) -> DraftTarget {
    match change {
        PatchChange::Role { .. } => DraftTarget::Role,
        PatchChange::Files { set, .. } if set.contains_key(layout::MANIFEST) => DraftTarget::Tools,
        PatchChange::Files { .. } => DraftTarget::Skill,
        PatchChange::Constants { .. }
        | PatchChange::Component { .. }
        | PatchChange::Tool { .. }
        | PatchChange::Migration(_) => DraftTarget::Setting,
    }
}

/// What the model is asked. Nothing of any task is in it: figures, names of tools and skills, the role and the tuning.
fn question(bottlenecks: &[Bottleneck], scene: &DraftContext) -> Result<CompletionRequest> {
    let tuning = &scene.tuning;
    let components: Vec<String> =
        knobs().map(|one| format!("{}: {}", one.name(), one.registered().join(", "))).collect();
    let system = format!(
        "You tune an agent runtime. You are told what holds it up and how it is tuned. Reply with one JSON object and \
         nothing else: {{\"title\": \"…\", \"why\": \"…\", \"changes\": […]}}, with 1 to {MOST_CHANGES} changes. A change \
         is {{\"kind\": \"component\", \"component\": NAME, \"to\": NAME}}, {{\"kind\": \"constants\", \"set\": \
         {{NAME: NUMBER}}}}, {{\"kind\": \"role\", \"content\": THE WHOLE ROLE}}, {{\"kind\": \"files\", \"set\": \
         {{\"skills/NAME.md\": A SKILL WITH name AND description IN ITS FRONT MATTER}}}} or {{\"kind\": \"tools\", \
         \"allow\": [NAMES OF TOOLS]}}. Components and what they can be: {}. Constants and their ranges: turns 1-8, contextBytes \
         16384-16777216, replyTokens 16-1048576, indexBytes 0-1048576, indexBest 0-1000, shrunkBytes 64-65536, \
         searchCandidates 1-100000, recencyPercent 0-1000, recencyDays 1-36500, staleDays 1-36500, archiveDays 1-36500 \
         (not below staleDays). Change as little as possible.",
        components.join("; ")
    );
    let held_up: Vec<String> = bottlenecks.iter().map(Bottleneck::sentence).collect();
    let now = serde_json::to_value(tuning).map_err(|source| Error::internal("a tuning is JSON").because(source))?;
    let tools: Vec<&str> = scene.tools.iter().map(|tool| tool.name.as_str()).collect();
    let user = json!({
        "heldUpBy": held_up,
        "tuning": now,
        "role": text::head(&scene.role, MOST_ROLE),
        "skills": scene.skills.iter().take(MOST_SKILLS).collect::<Vec<_>>(),
        "tools": tools,
        "allowed": scene.whitelist(),
    })
    .to_string();
    let message = |role, content: String| ChatMessage { role, content: content.into() };
    Ok(CompletionRequest {
        messages: vec![message(Role::System, system), message(Role::User, user)],
        purpose: Purpose::Draft,
        tools: Default::default(),
        reply_schema: Arc::new(Value::Bool(true)),
        max_output_tokens: MOST_TOKENS,
        max_output_bytes: MOST_BYTES,
        temperature: 0.2,
    })
}

/// The components a model may swap: who speaks is for the operator.
fn knobs() -> impl Iterator<Item = Component> {
    Component::ALL.into_iter().filter(|component| *component != Component::Backend)
}

/// The patch in a model's reply, marked as such. Everything but settings, the role, new or other skills, and a whitelist of
/// known tools is refused.
pub fn read(said: &str, backend: &str, model: &str, scene: &DraftContext) -> Result<Patch> {
    let refuse = |what: String| Error::refused(what).hint("leave out --draft-with: the templates need no model");
    let reading = reply::read(said, false);
    let object = reading.objects.iter().find_map(|object| match object {
        Object::Final { text, .. } => Some(text.as_ref()),
        Object::Call { .. } | Object::Foreign { .. } | Object::Broken { .. } => None,
    });
    let Some(object) = object else {
        return Err(refuse(format!("{backend} drafted no patch, but said {:?}", text::line(said, 120))));
    };
    let value: Value =
        serde_json::from_str(object).map_err(|source| refuse(format!("the draft is not JSON: {source}")))?;
    let said = |name: &str, most: usize| value[name].as_str().map(|said| text::line(said, most));
    let written: Vec<Value> = serde_json::from_value(value["changes"].clone())
        .map_err(|source| refuse(format!("the draft has changes that no patch has: {source}")))?;
    if written.len() > MOST_CHANGES {
        return Err(refuse(format!("the draft has {} changes, and {MOST_CHANGES} are the most", written.len())));
    }
    let changes = written.into_iter().map(|one| change(one, scene).map_err(refuse)).collect::<Result<Vec<_>>>()?;
    let title = said("title", 120).filter(|title| !title.is_empty()).unwrap_or_else(|| "A drafted patch".to_owned());
    let why = said("why", 600).unwrap_or_default();
    let marked = format!("Drafted by the model {model:?} through {backend}, not by a person. It says: {why}");
    let made = Patch::new(&title, Some(marked), changes)?;
    // As anyone would read it.
    Patch::parse(made.bytes())
}

/// One change that a model wrote, if it may; otherwise why not.
fn change(written: Value, scene: &DraftContext) -> std::result::Result<PatchChange, String> {
    const MAY: &str = "a model may draft settings, the role, skills and a whitelist of tools, nothing else";
    if written["kind"] == "tools" {
        return allowing(&written["allow"], scene);
    }
    let change: PatchChange = serde_json::from_value(written)
        .map_err(|source| format!("the draft has changes that no patch has: {source}"))?;
    let who_speaks = match &change {
        PatchChange::Component { component, .. } => *component == Component::Backend,
        PatchChange::Constants { set } => set.backend.is_some(),
        PatchChange::Role { .. } => false,
        PatchChange::Files { set, remove } => {
            let skills = format!("{}/", layout::SKILLS_DIR);
            if !remove.is_empty() || set.is_empty() || !set.keys().all(|path| path.starts_with(&skills)) {
                return Err(MAY.to_owned());
            }
            false
        }
        PatchChange::Tool { .. } | PatchChange::Migration(_) => return Err(MAY.to_owned()),
    };
    if who_speaks { Err("a model may not choose who speaks".to_owned()) } else { Ok(change) }
}

/// A whitelist: of what the brain may call already, and of tools that touch nothing but the brain.
fn allowing(allow: &Value, scene: &DraftContext) -> std::result::Result<PatchChange, String> {
    let names: Vec<String> =
        serde_json::from_value(allow.clone()).map_err(|source| format!("a whitelist is a list of names: {source}"))?;
    let Some(list) = scene.whitelist() else {
        return Err("the brain has no whitelist: which tools it may call is for the operator".to_owned());
    };
    let may = |name: &&String| list.contains(name) || scene.tool(name).is_some_and(|tool| tool.is_harmless);
    if let Some(other) = names.iter().find(|name| !may(name)) {
        return Err(format!("{other:?} is no tool that a model may allow"));
    }
    match super::texts::whitelist(scene, names) {
        Ok(Some(change)) => Ok(change),
        Ok(None) => Err("the brain has no manifest".to_owned()),
        Err(error) => Err(error.message().to_owned()),
    }
}
