//! `herm receipts`: the signed account of how a brain moved.

use std::sync::Arc;

use herm::backend::Backend;
use herm::brain::LogState;
use herm::harness::replay_with_backend;
use herm::receipt::{ChainReport, Envelope, PublicKey, TrustedKeys, check, checkpoint};
use herm::{BrainId, Clock as _, Digest, Error, Reader, Result, SystemClock, fsio};
use serde_json::{Value, json};

use super::to_json;
use crate::backends;
use crate::cli;
use crate::config::Settings;
use crate::exit;
use crate::output::{Answer, columns};

/// The largest export that is checked.
const MAX_EXPORT_BYTES: u64 = 1 << 30;

pub(super) fn run(settings: &Settings, command: &cli::Receipts) -> Result<Answer> {
    match command {
        cli::Receipts::List { id, limit } => list(settings, &id.parse()?, *limit),
        cli::Receipts::Show { id, seq } => show(settings, &id.parse()?, *seq),
        cli::Receipts::Verify { id: Some(id), key, .. } => verify(settings, &id.parse()?, key.as_deref()),
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

/// The statement inside an envelope. Not checked here.
fn statement(envelope: &str) -> Result<Value> {
    let payload = Envelope::parse(envelope)?.payload()?;
    serde_json::from_slice(&payload).map_err(|source| Error::corrupt("a receipt is not JSON").because(source))
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

pub(super) fn trusted(settings: &Settings, key: Option<&str>) -> Result<(TrustedKeys, String)> {
    match key {
        Some(key) => {
            let key: PublicKey = key.parse()?;
            Ok((TrustedKeys::Keys(vec![key.clone()]), format!("{key}, as given")))
        }
        None => {
            let key = settings.signer.existing()?.public().clone();
            let others = settings.trusted_keys()?;
            let said = match others.len() {
                0 => format!("{key}, this operator's"),
                count => format!("{key}, this operator's, and {count} that the configuration trusts"),
            };
            Ok((TrustedKeys::Keys(std::iter::once(key).chain(others).collect()), said))
        }
    }
}

fn verify(settings: &Settings, id: &BrainId, key: Option<&str>) -> Result<Answer> {
    verified(settings, id, key, content)
}

/// The hash that the content of a brain gives, or what is wrong with it, where that could be looked at.
pub(crate) type ContentCheck = Option<Result<Digest, String>>;

/// Checks every receipt of a brain, all of one moment, and its content as `content` looks at it.
pub(crate) fn verified(
    settings: &Settings,
    id: &BrainId,
    key: Option<&str>,
    content: impl FnOnce(&Settings, &BrainId) -> Result<ContentCheck>,
) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let (trusted, who) = trusted(settings, key)?;
    let account = reader.receipt_log()?;
    let mut checked = check(account.receipts.iter().map(|taped| taped.envelope.as_str()), &trusted);
    let mut wrong = |what: String| checked.findings.push(herm::receipt::ChainFinding { line: 0, what });
    let hash = account.lock.bundle_hash;
    if !account.receipts.is_empty() && checked.after.as_deref() != Some(hash.to_string().as_str()) {
        wrong(format!("the last receipt does not end at {hash}, which the brain's lock says"));
    }
    if account.log == LogState::Differs {
        wrong("receipts.ndjson is not what memory.db has; the next command that writes puts it right".to_owned());
    }
    if account.unsigned_steps > 0 {
        wrong(format!("{} steps of the brain have no receipt", account.unsigned_steps));
    }
    for taped in &account.receipts {
        let named = statement(&taped.envelope)?["predicate"]["task"]["transcript"]["sha256"].clone();
        if let (Some(named), Some(kept)) = (named.as_str(), reader.transcript(taped.step)?)
            && herm::ids::sha256(&kept) != named
        {
            wrong(format!("the transcript of receipt {} is not the one that was signed", taped.seq));
        }
    }
    for what in &account.journal.wrong {
        wrong(what.clone());
    }
    let looked = content(settings, id)?;
    if let Some(Err(what)) = &looked {
        wrong(what.clone());
    }
    let mut proven = proven(&checked, &who);
    if checked.is_sound() {
        proven.push(format!("the brain's lock is where the last receipt ends ({hash})"));
        if account.journal.bound > 0 {
            proven.push(format!("the journal of {} steps is the one that was signed", account.journal.bound));
        }
        if let Some(Ok(computed)) = &looked {
            // Someone may have settled between the two looks.
            let which =
                if *computed == hash { "that hash".to_owned() } else { format!("{computed}, its hash by then") };
            proven.push(format!("every file and row, hashed again from nothing, gives {which}"));
        }
    }
    let mut open = not_proven(&checked, looked.is_some());
    if account.journal.unbound > 0 {
        open.push(format!(
            "that the journal of {} steps is as it was: their receipts do not bind it",
            account.journal.unbound
        ));
    }
    if !account.journal.lost.is_empty() {
        open.push(format!("what {} steps did that are lost but for their receipts", account.journal.lost.len()));
    }
    let json = json!({ "id": id, "journal": to_json(&account.journal)? });
    Ok(report(&checked, proven, open, json))
}

/// Whether the content is what the lock says; nothing where someone else holds the brain.
fn content(settings: &Settings, id: &BrainId) -> Result<ContentCheck> {
    match herm::brain::examine(&settings.layout, id, settings.lock_wait) {
        Ok(examined) => Ok(Some(outcome(id, &examined.report))),
        Err(error) if error.kind() == herm::ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same for a brain that is open.
pub(crate) fn content_of(brain: &herm::Brain) -> Result<ContentCheck> {
    Ok(Some(outcome(brain.id(), &brain.verify()?)))
}

fn outcome(id: &BrainId, found: &herm::brain::BrainVerifyReport) -> Result<Digest, String> {
    match found.is_sound() {
        true => Ok(found.computed),
        false if found.computed == found.expected => Err(format!(
            "the content has the lock's hash, and yet not all of the brain is sound: see `herm brain verify {id}`"
        )),
        false => Err(format!("the content hashes to {}: see `herm brain verify {id}`", found.computed)),
    }
}

fn verify_file(settings: &Settings, path: &std::path::Path, key: Option<&str>) -> Result<Answer> {
    let bytes = fsio::read_regular(path, MAX_EXPORT_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|source| {
        Error::invalid(format!("{} is not a tape of receipts: it is not text", path.display()))
            .hint("make one with `herm receipts export ID`")
            .because(source)
    })?;
    let (trusted, who) = trusted(settings, key)?;
    let checked = check(text.lines(), &trusted);
    let proven = proven(&checked, &who);
    Ok(report(&checked, proven, not_proven(&checked, false), json!({ "file": path })))
}

fn proven(checked: &ChainReport, who: &str) -> Vec<String> {
    if !checked.is_sound() {
        return Vec::new();
    }
    let mut proven = vec![
        format!("all {} receipts are signed by {who}", checked.receipts),
        "each names the one before it, from the first on: none was changed, added or left out between".to_owned(),
        "each step begins at the bundle hash where the one before ended".to_owned(),
    ];
    if let Some(seq) = checked.checkpoint {
        proven.push(format!("a signed checkpoint says that receipt {seq} was the last when it was made"));
    }
    proven
}

fn not_proven(checked: &ChainReport, with_brain: bool) -> Vec<String> {
    let mut open = Vec::new();
    if !with_brain {
        open.push("that a brain has this content: `herm brain verify ID` recomputes it".to_owned());
    }
    if checked.checkpoint.is_none() && !with_brain {
        open.push("that nothing was cut off at the end: the file has no checkpoint".to_owned());
    }
    open.push(
        "that the model spoke as recorded: that is the operator's word, unless a receipt has an attestation".to_owned(),
    );
    open.push("that a task leads where its receipt says: `herm receipts replay ID N` runs it again".to_owned());
    open
}

fn report(checked: &ChainReport, proven: Vec<String>, open: Vec<String>, mut json: Value) -> Answer {
    let mut text = String::new();
    for (head, lines) in [("proven", &proven), ("not proven", &open)] {
        if lines.is_empty() {
            continue;
        }
        text.push_str(&format!("{head}\n"));
        for line in lines {
            text.push_str(&format!("  - {line}\n"));
        }
    }
    for finding in &checked.findings {
        let place = if finding.line == 0 { "the tape".to_owned() } else { format!("line {}", finding.line) };
        text.push_str(&format!("WRONG {place}: {}\n", finding.what));
    }
    let sound = checked.is_sound();
    text.push_str(if sound { "sound\n" } else { "not sound\n" });
    json["sound"] = json!(sound);
    json["checked"] = to_json(checked).unwrap_or_default();
    json["proven"] = json!(proven);
    json["notProven"] = json!(open);
    Answer::new(text, json).code(if sound { exit::DONE } else { exit::NEGATIVE })
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
