//! A patch that a model drafts: one question, within its money, and an answer that may only turn the knobs that
//! templates turn. Whatever else it says is refused; what it says is marked, and judged like any other patch.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Author, Drafted, Material, evaluation_for};
use crate::backend::{Ask, Chain, ChatMessage, Purpose, Speaker};
use crate::error::{Error, Result};
use crate::session::reply::{self, Object};
use crate::successor::bottleneck::Bottleneck;
use crate::successor::broker::Broker;
use crate::successor::patch::{Change, Patch};
use crate::text;
use crate::tuning::{Component, Tuning};

/// What a draft may take, in tokens and in bytes.
const MOST_TOKENS: u32 = 2_048;
const MOST_BYTES: usize = 32 << 10;
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(120);
/// What a draft may cost, in millionths of a dollar.
pub const MOST_MICRO_USD: u64 = 250_000;
/// The most changes of a draft.
const MOST_CHANGES: usize = 4;

/// Asks the first backend of a chain once for a patch against the worst of these bottlenecks. `Ok(None)` where nothing
/// of the brain could show whether such a patch helps.
pub async fn draft(
    chain: Chain,
    bottlenecks: &[Bottleneck],
    tuning: &Tuning,
    material: &Material,
) -> Result<Option<Drafted>> {
    let evaluable = bottlenecks.iter().find_map(|one| match evaluation_for(one, material) {
        Ok(evaluation) => evaluation.map(|evaluation| Ok((one.clone(), evaluation))),
        Err(error) => Some(Err(error)),
    });
    let Some((bottleneck, evaluation)) = evaluable.transpose()? else { return Ok(None) };
    let broker = Broker::new(chain, MOST_MICRO_USD, Instant::now() + WITHIN);
    let backend = broker.first().map(|backend| backend.name().to_owned()).unwrap_or_default();
    let answered = broker.ask(&question(bottlenecks, tuning)?).await.map_err(|error| {
        Error::unavailable(format!("{backend} drafted no patch: {error}"))
            .hint("leave out --draft-with: the templates need no model")
    })?;
    let patch = read(&answered.text, &backend, &answered.model)?;
    Ok(Some(Drafted { bottleneck, patch, evaluation, author: Author::Model { backend, model: answered.model } }))
}

/// What the model is asked. Nothing of any task is in it: figures, names of tools, and the tuning.
fn question(bottlenecks: &[Bottleneck], tuning: &Tuning) -> Result<Ask> {
    let components: Vec<String> =
        knobs().map(|one| format!("{}: {}", one.name(), one.registered().join(", "))).collect();
    let system = format!(
        "You tune an agent runtime. You are told what holds it up and how it is tuned. Reply with one JSON object and \
         nothing else: {{\"title\": \"…\", \"why\": \"…\", \"changes\": […]}}, with 1 to {MOST_CHANGES} changes. A change \
         is {{\"kind\": \"component\", \"component\": NAME, \"to\": NAME}} or {{\"kind\": \"constants\", \"set\": \
         {{NAME: NUMBER}}}}. Components and what they can be: {}. Constants and their ranges: turns 1-8, contextBytes \
         16384-16777216, replyTokens 16-1048576, indexBytes 0-1048576, indexBest 0-1000, shrunkBytes 64-65536, \
         searchCandidates 1-100000, recencyPercent 0-1000, recencyDays 1-36500, staleDays 1-36500, archiveDays 1-36500 \
         (not below staleDays). Change as little as possible.",
        components.join("; ")
    );
    let held_up: Vec<String> = bottlenecks.iter().map(Bottleneck::sentence).collect();
    let now = serde_json::to_value(tuning).map_err(|source| Error::internal("a tuning is JSON").because(source))?;
    let user = json!({ "heldUpBy": held_up, "tuning": now }).to_string();
    let message = |role, content: String| ChatMessage { role, content: content.into() };
    Ok(Ask {
        messages: vec![message(Speaker::System, system), message(Speaker::User, user)],
        purpose: Purpose::Draft,
        legal: Arc::new(Value::Bool(true)),
        max_output_tokens: MOST_TOKENS,
        max_output_bytes: MOST_BYTES,
        temperature: 0.2,
    })
}

/// The components a model may swap: who speaks is for the operator.
fn knobs() -> impl Iterator<Item = Component> {
    Component::ALL.into_iter().filter(|component| *component != Component::Backend)
}

/// The patch in a model's reply, marked as such. Everything that is not a patch of constants and components is refused.
pub fn read(said: &str, backend: &str, model: &str) -> Result<Patch> {
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
    let changes: Vec<Change> = serde_json::from_value(value["changes"].clone())
        .map_err(|source| refuse(format!("the draft has changes that no patch has: {source}")))?;
    if changes.len() > MOST_CHANGES {
        return Err(refuse(format!("the draft has {} changes, and {MOST_CHANGES} are the most", changes.len())));
    }
    for change in &changes {
        let who_speaks = match change {
            Change::Component { component, .. } => *component == Component::Backend,
            Change::Constants { set } => set.backend.is_some(),
            Change::Role { .. } | Change::Tool { .. } | Change::Migration(_) | Change::Files { .. } => {
                return Err(refuse("a model may draft constants and components, nothing else".to_owned()));
            }
        };
        if who_speaks {
            return Err(refuse("a model may not choose who speaks".to_owned()));
        }
    }
    let title = said("title", 120).filter(|title| !title.is_empty()).unwrap_or_else(|| "A drafted patch".to_owned());
    let why = said("why", 600).unwrap_or_default();
    let marked = format!("Drafted by the model {model:?} through {backend}, not by a person. It says: {why}");
    let made = Patch::new(&title, Some(marked), changes)?;
    // As anyone would read it.
    Patch::parse(made.bytes())
}
