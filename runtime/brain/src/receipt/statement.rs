//! What a receipt says: an in-toto statement about one move of a brain.

use serde_json::{Value, json};

use crate::brain::{Receipt, StepChange, StepKind, StepSigner};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BrainId, Digest, sha256};
use crate::signing::{Envelope, LazySigner, PublicKey, Signer};

/// The type of every statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The predicate of a receipt.
pub const RECEIPT_TYPE: &str = "urn:herm:receipt:1";
/// The predicate of a checkpoint.
pub const CHECKPOINT_TYPE: &str = "urn:herm:checkpoint:1";

impl StepSigner for Signer {
    fn sign_step(&self, moved: &StepChange<'_>) -> Result<Receipt> {
        let payload = to_bytes(&statement(moved))?;
        let digest = sha256(&payload);
        Ok(Receipt { seq: moved.seq, envelope: Envelope::seal(&payload, self).to_line()?, digest })
    }

    fn public_key(&self) -> Result<Option<PublicKey>> {
        Ok(Some(self.public().clone()))
    }
}

impl StepSigner for LazySigner {
    fn sign_step(&self, moved: &StepChange<'_>) -> Result<Receipt> {
        self.get()?.sign_step(moved)
    }

    fn public_key(&self) -> Result<Option<PublicKey>> {
        match self.existing() {
            Ok(signer) => Ok(Some(signer.public().clone())),
            // It has signed nothing yet.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn to_bytes(statement: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(statement).map_err(|source| Error::internal("a statement cannot be written").because(source))
}

fn statement(moved: &StepChange<'_>) -> Value {
    let mut subject = Vec::new();
    if let Some(result) = moved.report.and_then(|report| report["result"]["sha256"].as_str()) {
        subject.push(json!({ "name": "result", "digest": { "sha256": result } }));
    }
    if let Some(before) = moved.before {
        subject.push(bundle_subject("bundle/before", &before.bundle_hash));
    }
    subject.push(bundle_subject("bundle/after", &moved.after.bundle_hash));
    let parts: Vec<&str> = match moved.before {
        Some(before) => before.parts.moved(&moved.after.parts).into_iter().map(|part| part.name()).collect(),
        None => Vec::new(),
    };
    let is_task = moved.kind == StepKind::Task;
    let mut statement = json!({
        "_type": STATEMENT_TYPE,
        "subject": subject,
        "predicateType": RECEIPT_TYPE,
        "predicate": {
            "brain": moved.brain,
            "seq": moved.seq,
            "kind": moved.kind,
            "version": moved.after.version,
            "at": moved.at,
            "previous": moved.previous.map(|digest| json!({ "sha256": digest })),
            "moved": parts,
            "files": moved.files.len(),
            "parts": moved.after.parts,
            "task": moved.report.filter(|_| is_task),
        }
    });
    if let Some(action) = moved.kind.action() {
        statement["predicate"]["action"] = json!(action);
    }
    if let Some(step) = moved.kind.undoes() {
        statement["predicate"]["undoes"] = json!(step);
    }
    if let Some(journal) = &moved.journal {
        statement["predicate"]["journal"] = json!({ "blake3": journal });
    }
    if let Some(change) = moved.report.filter(|_| !is_task) {
        statement["predicate"]["change"] = change.clone();
    }
    statement
}

fn bundle_subject(name: &str, digest: &Digest) -> Value {
    json!({ "name": name, "digest": { "blake3": digest } })
}

/// A signed statement of where a receipt log ends. A person who keeps one notices when lines at the end were cut off.
pub fn checkpoint(
    brain: &BrainId,
    seq: u64,
    last: &str,
    bundle: &Digest,
    at: Timestamp,
    signer: &Signer,
) -> Result<String> {
    let statement = json!({
        "_type": STATEMENT_TYPE,
        "subject": [
            { "name": "receipt/last", "digest": { "sha256": last } },
            bundle_subject("bundle/after", bundle),
        ],
        "predicateType": CHECKPOINT_TYPE,
        "predicate": { "brain": brain, "seq": seq, "at": at }
    });
    Envelope::seal(&to_bytes(&statement)?, signer).to_line()
}
