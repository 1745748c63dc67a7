//! The verifier: a second, independent successor audits the verdict of a first one.
//!
//! - `folder` reads what is left of the first: every file of its record, bounded, links never followed.
//! - `checks` are pure: whether it is what was signed, whether the figures follow from the measurements, whether the
//!   method, the budgets and the walls carry the ruling.
//! - [`audit`] then forks again, from the brain as it is *now*, with [another seed](second_seed) and, where they are
//!   given, held-out tasks, and asks for the same ruling.
//!
//! What came of it is an [`Audit`], signed like a verdict and kept beside it.
//! `docs/operate/autogenesis.md` has the checks in words.

mod checks;
mod folder;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::budget::SuccessorBudget;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::evaluation::Evaluation;
use crate::fork::SuccessorFork;
use crate::fsio::{Root, SyncTiming};
use crate::harness::Harness;
use crate::ids::sha256;
use crate::receipt::{Envelope, PublicKey, STATEMENT_TYPE, Signer};
use crate::records::VerdictStore;
use crate::verdict::{PatchBase, Verdict, VerdictRuling};

pub use checks::{LEAST_CANARY, LEAST_UNITS, LOOSEST_SLACK, NOISY_P, NOISY_UNITS};
use folder::Folder;

/// The format this build writes.
pub const AUDIT_SCHEMA: &str = "herm/audit@1";
/// What the predicate of a signed audit is.
pub const AUDIT_TYPE: &str = "urn:herm:audit:1";
/// The file of an audit, in the directory of the verdict it is about.
pub const AUDIT_FILE: &str = "audit.dsse.json";
/// What gates keep in the same directory: a steward's approval, and what came of asking the mesh.
pub const APPROVAL_FILE: &str = "approval.dsse.json";
/// What came of asking the mesh about the verdict, beside [`APPROVAL_FILE`].
pub const CONSENSUS_FILE: &str = "consensus.dsse.json";
/// Seeds stay exact in every reader of JSON.
const SEED_BITS: u32 = 53;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditArea {
    /// Whether the record is what was signed, and whether its figures follow from its measurements.
    Integrity,
    /// The files of the record.
    Artifacts,
    /// Whether goals, guards and the number of pairs carry the ruling.
    Method,
    /// What it could use and did use.
    Budgets,
    /// What it stood in.
    Walls,
    /// What the second successor found.
    Second,
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditSeverity {
    /// The verdict does not stand.
    Fault,
    /// Worth knowing before relying on it.
    Caveat,
}

/// One thing the verifier found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditFinding {
    /// What it is about.
    pub area: AuditArea,
    /// How much it weighs.
    pub weight: AuditSeverity,
    /// What was found, in a sentence.
    pub sentence: String,
}

impl AuditFinding {
    pub(super) fn fault(area: AuditArea, sentence: impl Into<String>) -> Self {
        Self { area, weight: AuditSeverity::Fault, sentence: sentence.into() }
    }

    pub(super) fn caveat(area: AuditArea, sentence: impl Into<String>) -> Self {
        Self { area, weight: AuditSeverity::Caveat, sentence: sentence.into() }
    }
}

/// What the verifier says about a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// The format, [`AUDIT_SCHEMA`]; [`Audit::open`] refuses any other.
    pub schema: String,
    /// The verdict that was audited: `sha256:…`, as its directory is named where it could not be read.
    pub about: String,
    /// Whether nothing speaks against it and the second successor came to the same ruling.
    pub agrees: bool,
    /// What was found; faults first.
    pub findings: Vec<AuditFinding>,
    /// The verdict of the second successor: `sha256:…`; nothing where it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The ruling of the second successor; nothing where it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<VerdictRuling>,
    /// The seed of the second successor ([`second_seed`]); 0 where it was not run.
    pub seed: u64,
    /// Whether it ran tasks that the first had not seen.
    pub held_out: bool,
    /// The brain that the second judged against, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<PatchBase>,
    /// When the audit began, before the record was read.
    pub started_at: Timestamp,
    /// When the findings were complete, after the second successor ended.
    pub ended_at: Timestamp,
}

impl Audit {
    /// The hash that names it: SHA-256 of the statement that is signed.
    pub fn hash(&self) -> Result<String> {
        Ok(format!("sha256:{}", sha256(&self.statement()?)))
    }

    /// Signs the audit, which [`audit`] keeps as [`AUDIT_FILE`] beside the verdict.
    pub fn seal(&self, signer: &Signer) -> Result<Envelope> {
        Ok(Envelope::seal(&self.statement()?, signer))
    }

    /// The audit in an envelope that `key` signed.
    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self> {
        let payload = envelope.open(key)?;
        let statement: Value = serde_json::from_slice(&payload)
            .map_err(|source| Error::invalid(format!("the audit is not JSON: {source}")))?;
        if statement["predicateType"] != AUDIT_TYPE {
            return Err(Error::invalid("the envelope holds something else than an audit")
                .hint("audit the verdict again with `herm successor audit`"));
        }
        let audit: Self = serde_json::from_value(statement["predicate"].clone())
            .map_err(|source| Error::invalid(format!("that is not an audit: {source}")))?;
        if audit.schema != AUDIT_SCHEMA {
            return Err(Error::invalid(format!("the audit has the format {:?}", audit.schema)));
        }
        Ok(audit)
    }

    /// The sentences that speak against the verdict.
    pub fn faults(&self) -> impl Iterator<Item = &AuditFinding> {
        self.findings.iter().filter(|finding| finding.weight == AuditSeverity::Fault)
    }

    fn statement(&self) -> Result<Vec<u8>> {
        let digest = |text: &str| text.strip_prefix("sha256:").unwrap_or(text).to_owned();
        let mut subject = vec![json!({ "name": "verdict", "digest": { "sha256": digest(&self.about) } })];
        if let Some(second) = &self.verdict {
            subject.push(json!({ "name": "verdict/second", "digest": { "sha256": digest(second) } }));
        }
        let statement = json!({
            "_type": STATEMENT_TYPE,
            "subject": subject,
            "predicateType": AUDIT_TYPE,
            "predicate": self,
        });
        serde_json::to_vec(&statement).map_err(|source| Error::internal("an audit cannot be written").because(source))
    }
}

/// How a verdict is audited.
#[derive(Debug, Clone, Default)]
pub struct AuditOptions {
    /// Tasks that the first successor had not seen; the first's own, with another seed, where there are none.
    pub held_out: Option<Evaluation>,
    /// What the second successor may use up.
    pub budget: SuccessorBudget,
}

/// The seed of the second successor: the first 53 bits of the SHA-256 of `herm/audit/seed@1`, the hash of the first
/// verdict and its seed, each on a line of its own. It follows from what is audited, so nobody can choose it, and it is
/// never the seed of the first.
pub fn second_seed(verdict_hash: &str, first: u64) -> u64 {
    let digest = sha256(format!("herm/audit/seed@1\n{verdict_hash}\n{first}\n").as_bytes());
    let drawn = digest.get(..16).and_then(|head| u64::from_str_radix(head, 16).ok()).unwrap_or(0);
    let seed = drawn >> (u64::BITS - SEED_BITS);
    if seed == first { seed ^ 1 } else { seed }
}

/// Audits the verdict whose name, or hash, begins so, and writes down what came of it. Everything that is wrong with the
/// verdict is part of the audit; an error means that the verifier itself could not do its part.
pub async fn audit(harness: &Harness, wanted: &str, how: AuditOptions) -> Result<Audit> {
    let started_at = harness.now();
    let (name, path) = VerdictStore::new(harness.layout()).place(wanted)?;
    let (key, there) = (harness.signer().public().clone(), path.clone());
    let named = name.clone();
    let looked = blocking(move || {
        let folder = Folder::read(&there)?;
        Ok(checks::look(&folder, &named, &key))
    })
    .await?;
    let mut findings = looked.findings;
    let mut audit = Audit {
        schema: AUDIT_SCHEMA.to_owned(),
        about: format!("sha256:{name}"),
        agrees: false,
        findings: Vec::new(),
        verdict: None,
        ruling: None,
        seed: 0,
        held_out: how.held_out.is_some(),
        base: None,
        started_at,
        ended_at: started_at,
    };
    let is_sound = findings.iter().all(|finding| finding.weight != AuditSeverity::Fault);
    match looked.opened {
        Some(opened) if is_sound => {
            let first = &opened.verdict;
            audit.about = first.hash()?;
            audit.seed = second_seed(&audit.about, first.seed);
            let (evaluation, caveats) = checks::second_evaluation(&opened.evaluation, how.held_out, audit.seed);
            findings.extend(caveats);
            let mut fork = SuccessorFork::new(harness, &first.base.brain, opened.patch.clone()).await?;
            let second = fork.evaluate(&evaluation, how.budget).await;
            fork.destroy().await?;
            let second = second?;
            findings.extend(checks::second(first, &second));
            audit.verdict = Some(second.hash()?);
            audit.ruling = Some(second.verdict);
            audit.base = Some(second.base);
        }
        Some(opened) => {
            audit.about = opened.verdict.hash()?;
            findings.push(not_run());
        }
        None => findings.push(not_run()),
    }
    findings.sort_by_key(|finding| (finding.weight != AuditSeverity::Fault, finding.area));
    audit.agrees = audit.verdict.is_some() && findings.iter().all(|finding| finding.weight != AuditSeverity::Fault);
    audit.findings = findings;
    audit.ended_at = harness.now();
    let line = audit.seal(harness.signer())?.to_line()?;
    blocking(move || {
        let root = Root::open(&path)?;
        root.replace(&AUDIT_FILE.parse()?, line.as_bytes(), SyncTiming::Now)?;
        root.clear_temporaries()
    })
    .await?;
    Ok(audit)
}

/// The faults of a record as it is now, without running anything: for a caller that relies on an earlier audit.
pub fn recheck(record: &Path, name: &str, key: &PublicKey) -> Result<Vec<AuditFinding>> {
    let findings = checks::look(&Folder::read(record)?, name, key).findings;
    Ok(findings.into_iter().filter(|finding| finding.weight == AuditSeverity::Fault).collect())
}

fn not_run() -> AuditFinding {
    AuditFinding::caveat(AuditArea::Second, "No second successor was run: what was found before says enough.")
}

/// The last audit of a verdict, if there is one and `key` signed it for this verdict.
pub fn last_audit(record: &Path, verdict: &Verdict, key: &PublicKey) -> Result<Option<Audit>> {
    let Some(bytes) = Root::open(record)?.read(&AUDIT_FILE.parse()?, 1 << 20)? else { return Ok(None) };
    let audit = Audit::open(&Envelope::parse(&String::from_utf8_lossy(&bytes))?, key)?;
    if audit.about != verdict.hash()? {
        return Err(Error::corrupt("the audit beside this verdict is about another one")
            .hint("audit it again with `herm successor audit`"));
    }
    Ok(Some(audit))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("the audit was interrupted"))?
}
