//! `herm receipts`: the signed account of how a brain moved.

use std::sync::Arc;

use herm::backend::Backend;
use herm::harness::replay_with_backend;
use herm::receipt::{TrustedKeys, check, checkpoint};
use herm::{BrainId, Clock as _, Error, Reader, Result, SystemClock, fsio};
use serde_json::{Value, json};

use super::to_json;
use crate::backends;
use crate::cli;
use crate::config::Settings;
use crate::exit;
use crate::operations::receipt_check::{self, ReceiptCheck, statement, trusted};
use crate::output::{Answer, columns};

/// The largest export that is checked.
const MAX_EXPORT_BYTES: u64 = 1 << 30;

pub(super) fn run(settings: &Settings, command: &cli::Receipts) -> Result<Answer> {
    match command {
        cli::Receipts::List { id, limit } => list(settings, &id.parse()?, *limit),
        cli::Receipts::Show { id, seq } => show(settings, &id.parse()?, *seq),
        cli::Receipts::Verify { id: Some(id), key, .. } => {
            report(&receipt_check::check_brain(settings, &id.parse()?, key.as_deref(), receipt_check::content)?)
        }
        cli::Receipts::Verify { file: Some(path), key, .. } => verify_file(settings, path, key.as_deref()),
        cli::Receipts::Verify { .. } => Err(Error::invalid("verify what?").hint("name an agent, or --file FILE")),
        cli::Receipts::Replay { id, seq, speak, model } => {
            let speaker =
                speak.as_deref().map(|name| backends::backend_named(settings, &id.parse()?, name, model.as_deref()));
            replay(settings, &id.parse()?, *seq, speaker.transpose()?)
        }
        cli::Receipts::Export { id } => export(settings, &id.parse()?),
        cli::Receipts::Key => key(settings),
    }
}

fn list(settings: &Settings, id: &BrainId, limit: u64) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let last = reader.last_receipt()?;
    let first = last.saturating_sub(limit.saturating_sub(1)).max(1);
    let mut rows = Vec::new();
    let mut listed = Vec::new();
    for taped in reader.receipts(first, last)?.into_iter().rev().take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let statement = statement(&taped.envelope)?;
        let predicate = &statement["predicate"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = predicate["task"]["status"].as_str().unwrap_or("");
        rows.push(vec![
            taped.seq.to_string(),
            text(&predicate["at"]),
            text(&predicate["kind"]),
            format!("v{}", predicate["version"]),
            status.to_owned(),
            text(&predicate["task"]["model"]),
        ]);
        listed.push(json!({
            "seq": taped.seq, "at": predicate["at"], "kind": predicate["kind"], "version": predicate["version"],
            "task": predicate["task"]["id"], "status": predicate["task"]["status"],
        }));
    }
    let text = if rows.is_empty() { "no receipts\n".to_owned() } else { columns(&rows) };
    Ok(Answer::new(text, json!({ "id": id, "receipts": listed })))
}

fn show(settings: &Settings, id: &BrainId, seq: u64) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let taped = reader.receipts(seq, seq)?.pop().ok_or_else(|| {
        Error::not_found(format!("brain {id} has no receipt {seq}"))
            .hint(format!("see them with `herm receipts list {id}`"))
    })?;
    let statement = statement(&taped.envelope)?;
    let envelope: Value = serde_json::from_str(&taped.envelope)
        .map_err(|source| Error::corrupt("a receipt is not JSON").because(source))?;
    Ok(Answer::new(format!("{statement:#}\n"), json!({ "id": id, "statement": statement, "envelope": envelope })))
}

fn verify_file(settings: &Settings, path: &std::path::Path, key: Option<&str>) -> Result<Answer> {
    let bytes = fsio::read_regular(path, MAX_EXPORT_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|source| {
        Error::invalid(format!("{} is not an export of receipts: it is not text", path.display()))
            .hint("make one with `herm receipts export ID`")
            .because(source)
    })?;
    let (trusted, who) = trusted(settings, key)?;
    report(&receipt_check::check_export(&text, path, &trusted, &who))
}

/// A check for people: what is proven, what is not, what is wrong.
fn report(found: &ReceiptCheck) -> Result<Answer> {
    let mut text = String::new();
    for (head, lines) in [("proven", &found.proven), ("not proven", &found.not_proven)] {
        if lines.is_empty() {
            continue;
        }
        text.push_str(&format!("{head}\n"));
        for line in lines {
            text.push_str(&format!("  - {line}\n"));
        }
    }
    for finding in &found.chain.findings {
        let place = if finding.line == 0 { "the log".to_owned() } else { format!("line {}", finding.line) };
        text.push_str(&format!("WRONG {place}: {}\n", finding.what));
    }
    let sound = found.chain.is_sound();
    text.push_str(if sound { "sound\n" } else { "not sound\n" });
    Ok(Answer::new(text, found.json()?).code(if sound { exit::DONE } else { exit::NEGATIVE }))
}

fn replay(settings: &Settings, id: &BrainId, seq: u64, speaker: Option<Arc<dyn Backend>>) -> Result<Answer> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
    let toolbox = herm_tools::standard()?;
    let workspace = std::env::temp_dir();
    let (layout, toolbox) = (&settings.layout, &toolbox);
    let replayed = match speaker {
        Some(speaker) => runtime.block_on(replay_with_backend(layout, id, seq, toolbox, &workspace, speaker)),
        None => runtime.block_on(herm::harness::replay(layout, id, seq, toolbox, &workspace)),
    }?;
    let same = replayed.is_same();
    let mut text =
        format!("before    {}\nexpected  {}\nreached   {}\n", replayed.before, replayed.expected, replayed.reached);
    if !replayed.same_prompt {
        text.push_str("the system message would differ: the runtime or its tools changed since\n");
    }
    if !replayed.recorded.is_empty() {
        text.push_str(&format!("taken from the record: {}\n", replayed.recorded.join(", ")));
    }
    for line in &replayed.diverged {
        text.push_str(&format!("differs: {line}\n"));
    }
    text.push_str(if same { "same\n" } else { "not the same\n" });
    let mut json = to_json(&replayed)?;
    json["id"] = json!(id);
    json["same"] = json!(same);
    Ok(Answer::new(text, json).code(if same { exit::DONE } else { exit::NEGATIVE }))
}

fn export(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let signer = settings.signer.get()?;
    let mut lines: Vec<String> = reader.receipts(1, u64::MAX)?.into_iter().map(|taped| taped.envelope).collect();
    let checked = check(lines.iter().map(String::as_str), &TrustedKeys::FirstSeen);
    if let Some(last) = &checked.last {
        lines.push(checkpoint(id, checked.receipts, last, &reader.lock().bundle_hash, SystemClock.now(), signer)?);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    let envelopes: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok(Answer::new(text, json!({ "id": id, "envelopes": envelopes })))
}

fn key(settings: &Settings) -> Result<Answer> {
    let key = settings.signer.get()?.public().to_string();
    Ok(Answer::new(format!("{key}\n"), json!({ "key": key })))
}
