//! `herm memory`: search and add to an agent's memory.

use herm::brain::{MemoryLayer, OnDrift};
use herm::memory::vectors::means_something;
use herm::memory::{Fact, HybridResults, QueryVector, Search, SearchResults, SearchScope, layers};
use herm::{Brain, BrainId, Clock as _, Draft, Error, Reader, Result, StepKind, SubscriberId, SystemClock};
use serde_json::json;

use super::{finish, to_json};
use crate::cli::{self, Target};
use crate::config::Settings;
use crate::output::{Answer, columns};

pub(super) fn run(settings: &Settings, command: &cli::Memory) -> Result<Answer> {
    match command {
        cli::Memory::Search { id, query, limit, subscriber } => {
            search(settings, &id.parse()?, &query.join(" "), *limit, subscriber.as_deref())
        }
        cli::Memory::Add { id, text, target, subscriber, fact } => {
            let id = id.parse()?;
            settings.while_leased(&id, || add(settings, &id, text, *target, subscriber.as_deref(), fact.as_deref()))
        }
        cli::Memory::Show { id, subscriber } => show(settings, &id.parse()?, subscriber.as_deref()),
    }
}

fn subscriber(text: Option<&str>) -> Result<Option<SubscriberId>> {
    text.map(str::parse).transpose()
}

fn search(settings: &Settings, id: &BrainId, query: &str, limit: usize, who: Option<&str>) -> Result<Answer> {
    let scope = match subscriber(who)? {
        Some(subscriber) => SearchScope::Subscriber(subscriber.digest()),
        None => SearchScope::Operator,
    };
    let reader = Reader::open(&settings.layout, id)?;
    let wanted = Search {
        text: query,
        scope,
        except_task: None,
        limit: limit.min(1_000),
        now: SystemClock.now(),
        weights: reader.tuning()?.search(),
    };
    let (sought, failure) = match sought(settings, query) {
        Ok(sought) => (sought, None),
        Err(error) => (None, Some(format!("searched by words alone: {}", error.message()))),
    };
    let HybridResults { found, used_vectors: by_meaning } = reader.search_hybrid(&wanted, sought.as_ref())?;
    let healed = found.degraded && heal(settings, id, &wanted)?;
    let rows: Vec<Vec<String>> = found
        .hits
        .iter()
        .map(|hit| {
            let source = to_json(&hit.source).map(|name| name.as_str().unwrap_or_default().to_owned());
            Ok(vec![source?, hit.at.to_string(), hit.task.clone(), hit.snippet.clone()])
        })
        .collect::<Result<_>>()?;
    let text = if rows.is_empty() { "nothing found\n".to_owned() } else { columns(&rows) };
    let json = json!({
        "id": id, "query": query, "hits": to_json(&found.hits)?, "degraded": found.degraded, "healed": healed,
        "byMeaning": by_meaning,
    });
    let answer = failure.into_iter().fold(Answer::new(text, json), Answer::note);
    Ok(match (found.degraded, healed) {
        (true, true) => answer.note("the search index was damaged and has been rebuilt"),
        (true, false) => answer.note("the search index is damaged; it is rebuilt when nobody holds the brain"),
        (false, _) => answer,
    })
}

/// What a question looks for by meaning, where memory is searched so.
fn sought(settings: &Settings, query: &str) -> Result<Option<QueryVector>> {
    if !settings.semantic.uses()?.recall || !means_something(query) {
        return Ok(None);
    }
    settings.semantic.embedder()?.map(|embedder| QueryVector::of(&*embedder, query)).transpose()
}

/// Rebuilds a damaged index, if nobody else holds the brain.
fn heal(settings: &Settings, id: &BrainId, wanted: &Search<'_>) -> Result<bool> {
    match Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse)) {
        Ok(mut brain) => {
            let SearchResults { degraded, .. } = brain.search(wanted)?;
            brain.close()?;
            Ok(degraded)
        }
        // The hits stand; the next process that opens the brain for writing finds out what is wrong.
        Err(error) => {
            tracing::info!(%error, "the search index is not rebuilt now");
            Ok(false)
        }
    }
}

fn add(
    settings: &Settings,
    id: &BrainId,
    text: &str,
    target: Target,
    who: Option<&str>,
    fact: Option<&str>,
) -> Result<Answer> {
    let who = subscriber(who)?.map(|subscriber| subscriber.digest());
    let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
    let mut draft = Draft::new();
    let place = match fact {
        Some(key) => {
            if key.trim().is_empty() || text.trim().is_empty() {
                return Err(Error::invalid("a fact needs a key and a text"));
            }
            draft.fact(Fact {
                subscriber: who,
                key: key.to_owned(),
                value: text.to_owned(),
                task: "operator".to_owned(),
                at: brain.clock().now(),
            });
            format!("fact {key:?}")
        }
        None => {
            let layer = match (target, who) {
                (_, Some(digest)) => MemoryLayer::Subscriber(digest),
                (Target::Memory, None) => MemoryLayer::Memory,
                (Target::User, None) => MemoryLayer::User,
            };
            let entry = layers::LayerEdit::Add { content: text.to_owned() };
            brain.edit(&mut draft).edit_layer(layer, &[entry])?;
            layer.path()?.to_string()
        }
    };
    let settled = brain.settle(&draft, StepKind::Maintenance, &format!("the operator added to {place}"))?;
    let unfinished = finish(brain)?;
    let text = if settled.moved {
        format!("added to {place}; brain {id} is now version {}\n", settled.version)
    } else {
        format!("{place} says so already; brain {id} stays at version {}\n", settled.version)
    };
    let json = json!({ "id": id, "place": place, "settled": to_json(&settled)? });
    Ok(Answer::new(text, json).unfinished(unfinished))
}

fn show(settings: &Settings, id: &BrainId, who: Option<&str>) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let mut layers_shown = vec![MemoryLayer::Memory, MemoryLayer::User];
    layers_shown.extend(subscriber(who)?.map(|subscriber| MemoryLayer::Subscriber(subscriber.digest())));
    let mut text = String::new();
    let mut shown = Vec::new();
    for layer in layers_shown {
        let path = layer.path()?;
        let content = reader.text(&path)?;
        let frozen = content.as_deref().map(|content| layers::frozen(content, layer.cap())).unwrap_or_default();
        let size = content.as_deref().unwrap_or_default().chars().count();
        text.push_str(&format!("== {path} ({size} of {} characters)\n{frozen}", layer.cap()));
        shown.push(json!({ "path": path, "characters": size, "cap": layer.cap(), "text": frozen }));
    }
    Ok(Answer::new(text, json!({ "id": id, "layers": shown })))
}
