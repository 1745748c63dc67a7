//! Receipts, checked: what they prove, what they do not, and what is wrong with them.

use herm::brain::LogState;
use herm::receipt::{ChainReport, Envelope, PublicKey, TrustedKeys, check};
use herm::{BrainId, Digest, Error, Reader, Result};
use serde_json::{Value, json};

use super::to_json;
use crate::config::Settings;

/// Receipts that were checked.
pub(crate) struct ReceiptCheck {
    /// The chain, with what is wrong in it.
    pub(crate) chain: ChainReport,
    /// What the receipts prove, a sentence each. Empty where something is wrong.
    pub(crate) proven: Vec<String>,
    /// What they do not prove.
    pub(crate) not_proven: Vec<String>,
    /// The brain or the file that was checked, as fields of the document.
    about: Value,
}

impl ReceiptCheck {
    /// The document for programs.
    pub(crate) fn json(&self) -> Result<Value> {
        let mut json = self.about.clone();
        json["sound"] = json!(self.chain.is_sound());
        json["checked"] = to_json(&self.chain)?;
        json["proven"] = json!(self.proven);
        json["notProven"] = json!(self.not_proven);
        Ok(json)
    }
}

/// The statement inside an envelope. Not checked here.
pub(crate) fn statement(envelope: &str) -> Result<Value> {
    let payload = Envelope::parse(envelope)?.payload()?;
    serde_json::from_slice(&payload).map_err(|source| Error::corrupt("a receipt is not JSON").because(source))
}

/// The keys that receipts are checked against, and how a person reads them: the one given, or this operator's and those
/// that the configuration trusts.
pub(crate) fn trusted(settings: &Settings, key: Option<&str>) -> Result<(TrustedKeys, String)> {
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

/// The hash that the content of a brain gives, or what is wrong with it, where that could be looked at.
pub(crate) type ContentCheck = Option<Result<Digest, String>>;

/// Checks every receipt of a brain, all of one moment, and its content as `content` looks at it.
pub(crate) fn check_brain(
    settings: &Settings,
    id: &BrainId,
    key: Option<&str>,
    content: impl FnOnce(&Settings, &BrainId) -> Result<ContentCheck>,
) -> Result<ReceiptCheck> {
    let reader = Reader::open(&settings.layout, id)?;
    let (trusted, who) = trusted(settings, key)?;
    let account = reader.receipt_log()?;
    let mut checked = check(account.receipts.iter().map(|receipt| receipt.envelope.as_str()), &trusted);
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
    for receipt in &account.receipts {
        let named = statement(&receipt.envelope)?["predicate"]["task"]["transcript"]["sha256"].clone();
        if let (Some(named), Some(kept)) = (named.as_str(), reader.transcript(receipt.step)?)
            && herm::ids::sha256(&kept) != named
        {
            wrong(format!("the transcript of receipt {} is not the one that was signed", receipt.seq));
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
    let about = json!({ "id": id, "journal": to_json(&account.journal)? });
    Ok(ReceiptCheck { chain: checked, proven, not_proven: open, about })
}

/// Whether the content is what the lock says; nothing where someone else holds the brain.
pub(crate) fn content(settings: &Settings, id: &BrainId) -> Result<ContentCheck> {
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

/// Checks the text of an export, a receipt a line. `path` is named in the document.
pub(crate) fn check_export(text: &str, path: &std::path::Path, trusted: &TrustedKeys, who: &str) -> ReceiptCheck {
    let chain = check(text.lines(), trusted);
    let (proven, not_proven) = (proven(&chain, who), not_proven(&chain, false));
    ReceiptCheck { chain, proven, not_proven, about: json!({ "file": path }) }
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
