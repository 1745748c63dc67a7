//! `herm keys`: who may call.

use herm::ids::SystemRandom;
use herm::{Clock as _, Error, Result, SubscriberId, SystemClock, Timestamp};
use serde_json::{Value, json};

use crate::cli::{CreateKey, Keys};
use crate::config::Settings;
use crate::output::{Answer, columns};
use crate::server_db::marker::{KeysMarker, MarkerState};
use crate::server_db::{self, keys};
use crate::server_layout::ServerLayout;

pub(super) fn run(settings: &Settings, command: &Keys) -> Result<Answer> {
    match command {
        Keys::Create(arguments) => create(settings, arguments),
        Keys::List => list(settings),
        Keys::Revoke { key } => revoke(settings, key),
        Keys::Reset { forget } => reset(settings, *forget),
    }
}

fn create(settings: &Settings, arguments: &CreateKey) -> Result<Answer> {
    if arguments.name.trim().is_empty() || arguments.name.chars().any(char::is_control) {
        return Err(Error::invalid("a key needs a name without control characters"));
    }
    if arguments.rate == 0 {
        return Err(Error::invalid("a key that may call 0 times a minute opens nothing").hint("leave --rate out"));
    }
    let budget = arguments.budget.map(micro_usd).transpose()?;
    let subscriber = arguments.subscriber.as_deref().map(str::parse::<SubscriberId>).transpose()?;
    let agents = match arguments.agents.is_empty() {
        true => None,
        false => Some(arguments.agents.iter().map(|id| id.trim().parse()).collect::<Result<_>>()?),
    };
    let now = SystemClock.now();
    let (text, id, hash) = keys::make(&SystemRandom)?;
    let key = keys::Key {
        id,
        name: arguments.name.clone(),
        hash,
        subscriber,
        agents,
        operations: arguments.operations.iter().map(|operation| (*operation).into()).collect(),
        rate: arguments.rate,
        micro_usd: budget,
        spent: 0,
        created_at: now,
        expires_at: arguments.expires.map(|days| Timestamp(now.millis() + i64::from(days) * 86_400_000)),
        revoked_at: None,
    };
    let marker = KeysMarker::new(&settings.layout, &settings.signer);
    marker.check_there()?;
    let connection = server_db::open(&ServerLayout::of(&settings.layout).database())?;
    let was_keyless = keys::all(&connection)?.is_empty();
    marker.check(!was_keyless)?;
    keys::add(&connection, &key)?;
    let mut note = "this is the only time the key is shown: keep it now".to_owned();
    // The key is made: what cannot be written now, the next start of the server writes.
    if was_keyless && let Err(error) = marker.make() {
        note.push_str(&format!("\nthat there are keys is not written down outside the database yet: {error}"));
    }
    if was_keyless {
        note.push_str("\nit is the first one: from now on the server answers nobody without a key");
    }
    let mut document = shown(&key);
    document["key"] = json!(text);
    Ok(Answer::new(format!("{text}\n"), document).note(note))
}

fn micro_usd(dollars: f64) -> Result<u64> {
    let micros = (dollars * 1e6).round();
    if !(1.0..=1e15).contains(&micros) {
        return Err(Error::invalid(format!("a budget of {dollars} dollars cannot be")).hint("write it like 5.00"));
    }
    // In range: checked above.
    Ok(micros as u64)
}

fn shown(key: &keys::Key) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "subscriber": key.subscriber,
        "agents": key.agents,
        "operations": key.operations.iter().map(|operation| operation.name()).collect::<Vec<_>>(),
        "ratePerMinute": key.rate,
        "microUsd": key.micro_usd,
        "spentMicroUsd": key.spent,
        "createdAt": key.created_at,
        "expiresAt": key.expires_at,
        "revokedAt": key.revoked_at,
    })
}

fn list(settings: &Settings) -> Result<Answer> {
    let all = match ServerLayout::of(&settings.layout).database().exists() {
        true => keys::all(&server_db::open(&ServerLayout::of(&settings.layout).database())?)?,
        false => Vec::new(),
    };
    let now = SystemClock.now();
    let heads = ["ID", "NAME", "SUBSCRIBER", "AGENTS", "OPERATIONS", "RATE", "SPENT", "STATE"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for key in &all {
        let dash = || "-".to_owned();
        let agents = key.agents.as_ref().map(|ids| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        let operations: Vec<&str> = key.operations.iter().map(|operation| operation.name()).collect();
        let state = match (key.revoked_at, key.is_valid(now)) {
            (Some(_), _) => "revoked",
            (None, false) => "expired",
            (None, true) => "valid",
        };
        let spent = match key.micro_usd {
            Some(budget) => format!("${:.2} of ${:.2}", key.spent as f64 / 1e6, budget as f64 / 1e6),
            None => format!("${:.2}", key.spent as f64 / 1e6),
        };
        rows.push(vec![
            key.id.clone(),
            key.name.clone(),
            key.subscriber.as_ref().map_or_else(dash, ToString::to_string),
            agents.unwrap_or_else(|| "all".to_owned()),
            operations.join(","),
            format!("{}/min", key.rate),
            spent,
            state.to_owned(),
        ]);
    }
    let text = if all.is_empty() { "no keys\n".to_owned() } else { columns(&rows) };
    let answer = Answer::new(text, json!({ "keys": all.iter().map(shown).collect::<Vec<_>>() }));
    Ok(match all.is_empty() {
        true if KeysMarker::new(&settings.layout, &settings.signer).look() != MarkerState::Absent => answer.note(
            "keys were made here and the database has none of them: the server does not start; put the database back, or see \
             `herm keys reset`",
        ),
        true => {
            answer.note("without keys the server answers on this machine only; make one with `herm keys create NAME`")
        }
        false => answer,
    })
}

fn revoke(settings: &Settings, key: &str) -> Result<Answer> {
    // Someone who only has the key itself can end it, too.
    let id = key.strip_prefix("herm_").and_then(|rest| rest.split('_').next()).unwrap_or(key);
    let missing = || {
        Error::not_found(format!("there is no key {:?}", id.chars().take(32).collect::<String>()))
            .hint("see them with `herm keys list`")
    };
    if !ServerLayout::of(&settings.layout).database().exists() {
        return Err(missing());
    }
    let connection = server_db::open(&ServerLayout::of(&settings.layout).database())?;
    let known = keys::all(&connection)?.into_iter().find(|known| known.id == id).ok_or_else(missing)?;
    let ended = keys::revoke(&connection, id, SystemClock.now())?;
    let text = match ended {
        true => format!("the key {id} ({}) opens nothing any more\n", known.name),
        false => format!("the key {id} ({}) was revoked already\n", known.name),
    };
    Ok(Answer::new(text, json!({ "id": id, "revoked": ended })))
}

/// Begins anew after the database with the keys was lost. Never where it has keys.
fn reset(settings: &Settings, forget: bool) -> Result<Answer> {
    let has_book = ServerLayout::of(&settings.layout).database().exists();
    let known =
        if has_book { keys::all(&server_db::open(&ServerLayout::of(&settings.layout).database())?)?.len() } else { 0 };
    if known > 0 {
        return Err(Error::refused(format!("the database has its keys ({known}): there is nothing to reset"))
            .hint("end single keys with `herm keys revoke`"));
    }
    let (marker, file) =
        (KeysMarker::new(&settings.layout, &settings.signer), ServerLayout::of(&settings.layout).keys_marker());
    if marker.look() == MarkerState::Absent {
        return Ok(Answer::new("no keys were ever made here\n", json!({ "reset": false })));
    }
    if !forget {
        return Err(Error::refused(
            "keys were made here and are lost; after a reset the server answers everyone on this machine as the operator, \
             until a new key is made, and knows none of the accepted tasks and used payments",
        )
        .hint("put .operator/book.db back from a backup if there is one; if not, run `herm keys reset --forget`"));
    }
    marker.remove()?;
    let text = format!("{} is gone: these brains have no keys\n", file.display());
    Ok(Answer::new(text, json!({ "reset": true }))
        .note("make a key with `herm keys create NAME` before you start the server"))
}
