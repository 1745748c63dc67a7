//! Following a chain of receipts from its first. Pure: lines in, findings out.

use serde::Serialize;
use serde_json::Value;

use super::statement::{CHECKPOINT_TYPE, RECEIPT_TYPE, STATEMENT_TYPE};
use crate::brain::{self, BrainOptions, OnLoss, RepairReport, VerifiedReceipt};
use crate::error::{Error, Result};
use crate::ids::{BrainId, sha256};
use crate::layout::Layout;
use crate::signing::{Envelope, PublicKey};

/// Whose signatures count when receipts are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedKeys {
    /// Those of these keys. A receipt of another key is a finding.
    Keys(Vec<PublicKey>),
    /// Those of the key that signed the first receipt. This proves that one holder made the chain, not
    /// who the holder is.
    FirstSeen,
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainFinding {
    /// The line of the receipt log, from 1; 0 for the log as a whole.
    pub line: usize,
    /// What does not hold.
    pub what: String,
}

/// What a receipt log says, as far as it could be followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct ChainReport {
    /// The brain it belongs to.
    pub brain: Option<String>,
    /// How many receipts it has.
    pub receipts: u64,
    /// The keys that signed.
    pub keys: Vec<String>,
    /// The bundle hash after the last receipt.
    pub after: Option<String>,
    /// The version after the last receipt.
    pub version: u64,
    /// The digest of the last statement.
    pub last: Option<String>,
    /// The number a checkpoint says is the last, where the log ends with one.
    pub checkpoint: Option<u64>,
    /// What does not hold.
    pub findings: Vec<ChainFinding>,
}

impl ChainReport {
    /// Whether every line held: there are no findings.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Takes one more line of a receipt log that is read piece by piece. The error says what does not hold about it.
    pub fn take_line(&mut self, line: &str, trusted: &TrustedKeys) -> Result<VerifiedReceipt, String> {
        let statement = take(self, line, trusted)?;
        let text = |value: Option<&str>| value.map(str::to_owned);
        Ok(VerifiedReceipt {
            digest: self.last.clone().unwrap_or_default(),
            version: self.version,
            before: text(subject(&statement, "bundle/before", "blake3")),
            after: text(subject(&statement, "bundle/after", "blake3")),
            transcript: text(statement["predicate"]["task"]["transcript"]["sha256"].as_str()),
        })
    }
}

/// Repairs a brain whose `memory.db` has lost steps that were acknowledged; `trusted` says whose receipts of them count.
pub fn repair(
    layout: &Layout,
    id: &BrainId,
    opening: &BrainOptions,
    trusted: &TrustedKeys,
    on_loss: OnLoss,
) -> Result<RepairReport> {
    let mut checked = ChainReport::default();
    brain::repair(layout, id, opening, on_loss, &mut |line| {
        checked.take_line(line, trusted).map_err(|what| Error::corrupt(format!("a receipt does not hold: {what}")))
    })
}

/// Checks every line: signature, shape, number, link to the receipt before, and that each step begins
/// where the one before ended. Lines of white space alone count, and are passed over. The report lists
/// at most `MAX_FINDINGS` findings.
pub fn check<'l>(lines: impl IntoIterator<Item = &'l str>, trusted: &TrustedKeys) -> ChainReport {
    let mut checked = ChainReport::default();
    for (number, line) in (1..).zip(lines) {
        if line.trim().is_empty() {
            continue;
        }
        if let Err(what) = take(&mut checked, line, trusted) {
            checked.findings.push(ChainFinding { line: number, what });
            if checked.findings.len() >= MAX_FINDINGS {
                checked
                    .findings
                    .push(ChainFinding { line: number, what: "more may be wrong; stopped here".to_owned() });
                break;
            }
        }
    }
    if checked.receipts == 0 && checked.findings.is_empty() {
        checked.findings.push(ChainFinding { line: 0, what: "there are no receipts".to_owned() });
    }
    checked
}

const MAX_FINDINGS: usize = 20;

fn take(checked: &mut ChainReport, line: &str, trusted: &TrustedKeys) -> Result<Value, String> {
    let say = |error: crate::error::Error| error.message().to_owned();
    let envelope = Envelope::parse(line).map_err(say)?;
    let key = signer_of(&envelope, checked, trusted)?;
    let payload = envelope.open(&key).map_err(say)?;
    let did = key.to_string();
    if !checked.keys.contains(&did) {
        checked.keys.push(did);
    }
    let statement: Value =
        serde_json::from_slice(&payload).map_err(|error| format!("the statement is not JSON: {error}"))?;
    if statement["_type"] != STATEMENT_TYPE {
        return Err(format!("the statement is of type {}", statement["_type"]));
    }
    if checked.checkpoint.is_some() {
        return Err("something stands after the checkpoint".to_owned());
    }
    match statement["predicateType"].as_str() {
        Some(RECEIPT_TYPE) => follow(checked, &statement, sha256(&payload))?,
        Some(CHECKPOINT_TYPE) => close(checked, &statement)?,
        _ => return Err(format!("the predicate is of type {}", statement["predicateType"])),
    }
    Ok(statement)
}

fn signer_of(envelope: &Envelope, checked: &ChainReport, trusted: &TrustedKeys) -> Result<PublicKey, String> {
    let keyid = envelope.keyid().ok_or("the envelope has no signature")?;
    let known = match trusted {
        TrustedKeys::Keys(keys) => {
            return keys
                .iter()
                .find(|key| key.to_string() == keyid)
                .cloned()
                .ok_or_else(|| format!("signed by {keyid}, which is not a trusted key"));
        }
        TrustedKeys::FirstSeen => checked.keys.first(),
    };
    match known {
        Some(first) if first != keyid => Err(format!("signed by {keyid}, and the log began with {first}")),
        _ => keyid.parse().map_err(|error: crate::error::Error| error.message().to_owned()),
    }
}

fn subject<'s>(statement: &'s Value, name: &str, algorithm: &str) -> Option<&'s str> {
    let subjects = statement["subject"].as_array()?;
    subjects.iter().find(|subject| subject["name"] == name)?["digest"][algorithm].as_str()
}

/// Takes one receipt. The state goes on even where something is wrong, so that one bad link gives one finding.
fn follow(checked: &mut ChainReport, statement: &Value, digest: String) -> Result<(), String> {
    let predicate = &statement["predicate"];
    let mut wrong = Vec::new();
    let brain = predicate["brain"].as_str().unwrap_or_default();
    if checked.brain.as_deref().is_some_and(|known| known != brain) {
        wrong.push(format!("it is a receipt of brain {brain}"));
    }
    let seq = predicate["seq"].as_u64().unwrap_or_default();
    if seq != checked.receipts + 1 {
        wrong.push(format!("its number is {seq}, and {} was expected", checked.receipts + 1));
    }
    if predicate["previous"]["sha256"].as_str() != checked.last.as_deref() {
        wrong.push("it does not name the receipt before it".to_owned());
    }
    let before = subject(statement, "bundle/before", "blake3");
    if before != checked.after.as_deref() {
        let from = before.unwrap_or("nothing");
        let ended = checked.after.as_deref().unwrap_or("nothing");
        wrong.push(format!("the brain moved from {from}, and the receipt before ended at {ended}"));
    }
    let version = predicate["version"].as_u64().unwrap_or_default();
    if version <= checked.version {
        wrong.push(format!("its version is {version}, after {}", checked.version));
    }
    match subject(statement, "bundle/after", "blake3") {
        Some(after) => checked.after = Some(after.to_owned()),
        None => wrong.push("it does not say where the brain moved to".to_owned()),
    }
    checked.brain = Some(brain.to_owned());
    checked.receipts = seq.max(checked.receipts);
    checked.version = version;
    checked.last = Some(digest);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn close(checked: &mut ChainReport, statement: &Value) -> Result<(), String> {
    let seq = statement["predicate"]["seq"].as_u64().unwrap_or_default();
    checked.checkpoint = Some(seq);
    if statement["predicate"]["brain"].as_str() != checked.brain.as_deref() {
        return Err("the checkpoint is of another brain".to_owned());
    }
    if seq != checked.receipts || subject(statement, "receipt/last", "sha256") != checked.last.as_deref() {
        return Err(format!(
            "the checkpoint says that receipt {seq} is the last, and the log ends with {}: it was cut",
            checked.receipts
        ));
    }
    if subject(statement, "bundle/after", "blake3") != checked.after.as_deref() {
        return Err("the checkpoint names another bundle hash than the last receipt".to_owned());
    }
    Ok(())
}
