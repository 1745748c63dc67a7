//! The verdict: what the parent found, signed. The child never grades itself. The format, the conditions
//! of each ruling and the meaning of confidence are in `docs/reference/verdict.md`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::budget::{SuccessorBudget, SuccessorUsage};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, sha256};
use crate::layout;
use crate::measure::{Metric, MetricPolarity};
use crate::receipt::{Envelope, PublicKey, STATEMENT_TYPE, Signer};

/// The format this build writes.
pub const VERDICT_SCHEMA: &str = "herm/verdict@1";
/// What the predicate of a signed verdict is.
pub const VERDICT_TYPE: &str = "urn:herm:verdict:1";

/// What a verdict says about its patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VerdictRuling {
    /// Something got better, nothing got worse, and the evidence carries it.
    Approve,
    /// Something got worse, or it could not be evaluated within its bounds.
    Reject,
    /// Neither a gain nor a loss is shown.
    NeedsRevision,
}

impl VerdictRuling {
    /// The name in verdict files and output: `APPROVE`, `REJECT` or `NEEDS_REVISION`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::Reject => "REJECT",
            Self::NeedsRevision => "NEEDS_REVISION",
        }
    }
}

/// How a metric moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The interval lies on the good side of zero.
    Better,
    /// The interval lies on the bad side of zero.
    Worse,
    /// Not one pair differs.
    Same,
    /// The interval holds zero.
    Unclear,
}

/// One metric, compared over pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricComparison {
    /// The metric that was compared.
    pub metric: Metric,
    /// The part; all, where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Which way it is better.
    pub better: MetricPolarity,
    /// Pairs: both sides ran and have the metric.
    pub pairs: usize,
    /// Cases they belong to.
    pub cases: usize,
    /// What was resampled: cases, or repetitions where a noisy metric has few cases.
    pub units: usize,
    /// The mean of the baseline.
    pub baseline: f64,
    /// The mean of the patched side.
    pub patched: f64,
    /// The mean difference, patched less baseline, as a share of the baseline's mean; of the patched
    /// side's mean, where the baseline's is 0.
    pub change: f64,
    /// The 95 % interval of that share.
    pub interval: [f64; 2],
    /// The probability of a difference at least as large if the patch changed nothing (sign-flip test).
    pub p: f64,
    /// How the metric moved, by where the interval lies.
    pub direction: Direction,
}

impl MetricComparison {
    /// How good the change is: more than zero is better, whichever way the metric goes.
    pub fn gain(&self) -> f64 {
        self.better.gain(self.change)
    }

    /// The interval of [`MetricComparison::gain`], the bad end first.
    pub fn gain_interval(&self) -> [f64; 2] {
        let [low, high] = self.interval.map(|end| self.better.gain(end));
        [low.min(high), low.max(high)]
    }
}

/// Checks, counted: one for each check of each case, decided by most of its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckCounts {
    /// Checks on each side.
    pub total: u64,
    /// Passed by the baseline.
    pub baseline_passed: u64,
    /// Passed with the patch.
    pub patched_passed: u64,
    /// Passed before, failed with the patch.
    pub regressed: u64,
    /// Failed before, passed with the patch.
    pub fixed: u64,
    /// Those whose repetitions disagree.
    #[serde(default)]
    pub flaky: u64,
}

/// A file that survives the successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// What it is: `report`, `measurements`, `output`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The path of the file in the record's directory.
    pub path: String,
    /// The SHA-256 of the file's content, in hexadecimal.
    pub sha256: String,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// What was evaluated against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchBase {
    /// The brain that the patch is for.
    pub brain: BrainId,
    /// The version of the brain at that moment.
    pub version: u64,
    /// The hash of the brain's bundle at that version.
    pub bundle_hash: Digest,
    /// What of the brain the patch rests on: as long as that stands, so does the verdict. Verdicts of earlier versions
    /// have none and are bound to the whole brain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<BaseDigests>,
}

impl PatchBase {
    /// What of the brain is no longer as it was here, in words; `None` while this still stands for `now`. With
    /// [`PatchBase::touched`] only that counts: tasks, memory rows and versions do not.
    pub fn moved(&self, now: &Self) -> Option<String> {
        let whole =
            |base: &Self| format!("brain {} version {} ({})", base.brain, base.version, base.bundle_hash.short());
        let differ = || Some(format!("it was {}, and now it is {}", whole(self), whole(now)));
        match (&self.touched, &now.touched) {
            _ if self.brain != now.brain => differ(),
            (Some(then), Some(is)) => {
                let changed = then.difference(is)?;
                Some(format!("{changed} is not as it was at version {}, now {}", self.version, now.version))
            }
            _ if (self.version, self.bundle_hash) != (now.version, now.bundle_hash) => differ(),
            _ => None,
        }
    }

    /// Whether another document names this base. One that was written by an earlier version of
    /// herm leaves out [`PatchBase::touched`].
    pub(super) fn is_named_by(&self, other: &Self) -> bool {
        let touched = other.touched.is_none() || other.touched == self.touched;
        touched && (&self.brain, self.version, self.bundle_hash) == (&other.brain, other.version, other.bundle_hash)
    }
}

/// What of a brain a patch rests on: the role, the manifest, the tuning, and the files it changes, by the digests of the
/// bundle. Nothing where there is no such file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BaseDigests {
    /// The digest of `system.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Digest>,
    /// The digest of `manifest.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Digest>,
    /// The digest of `tuning.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Digest>,
    /// The files that the patch changes, together: `sha256:` of a line for each, in the order of their paths, of the path,
    /// a space and its digest or `-`. Nothing where it changes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
}

impl BaseDigests {
    /// The first part that differs, in words.
    fn difference(&self, now: &Self) -> Option<&'static str> {
        if self.role != now.role {
            Some(layout::SYSTEM)
        } else if self.manifest != now.manifest {
            Some(layout::MANIFEST)
        } else if self.tuning != now.tuning {
            Some(layout::TUNING)
        } else {
            (self.files != now.files).then_some("a file that the patch changes")
        }
    }

    /// What the brain runs as, whatever a patch changes beside it.
    pub(super) fn runtime(&self) -> String {
        let word = |digest: &Option<Digest>| digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
        [&self.role, &self.manifest, &self.tuning].map(word).join(" ")
    }
}

/// The walls the successor stood in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSummary {
    /// How it was isolated; nothing where it could not be.
    pub tier: Option<String>,
    /// The layers that were on.
    pub layers: Vec<String>,
    /// The probes that tried to get out before anything else ran, and were stopped.
    pub canary: Vec<String>,
}

/// The judgement of a patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The format, [`VERDICT_SCHEMA`]; [`Verdict::open`] refuses any other.
    pub schema: String,
    /// Whether the patch is approved, is rejected or needs a revision.
    pub verdict: VerdictRuling,
    /// The share of resampled evaluations that come to the same ruling; 1 where no chance is involved.
    pub confidence: f64,
    /// The patch: `sha256:…` of its file.
    pub patch_hash: String,
    /// The evaluation: `sha256:…` of its canonical form.
    pub evaluation_hash: String,
    /// What came of it, in a few sentences.
    pub evaluation_summary: String,
    /// What a reader should know before relying on it.
    pub caveats: Vec<String>,
    /// Parts of the evaluation for which there was nothing to run, and which were not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The files of the record that the signature covers by their digests, such as the report.
    pub artifacts: Vec<Artifact>,
    /// Why it was rejected: `check_regressed`, `guard_broken`, or, where there was nothing to compare,
    /// `sandbox_unavailable`, `budget_wall`, `patch_refused`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it was evaluated against.
    pub base: PatchBase,
    /// The identity of the runtime before and after the patch.
    pub identity: RuntimeIdentity,
    /// What it could use and did use.
    pub budget: SuccessorBudget,
    /// What it did use.
    pub spent: SuccessorUsage,
    /// The sandbox layers around the workers; empty where no sandbox was built.
    pub walls: SandboxSummary,
    /// Where generated data and resampling began.
    pub seed: u64,
    /// How many checks passed, regressed and were fixed; all 0 where nothing was compared.
    pub checks: CheckCounts,
    /// One comparison for each metric and part with pairs; empty where nothing was compared.
    pub statistics: Vec<MetricComparison>,
    /// When the evaluation began, by the parent's clock.
    pub started_at: Timestamp,
    /// When the evaluation ended, by the parent's clock; verdicts are listed by it.
    pub ended_at: Timestamp,
}

/// What the runtime is, by digest: the version of herm, role, manifest and tuning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuntimeIdentity {
    /// The identity of the brain as it is, as `sha256:…`.
    pub before: String,
    /// With the patch; nothing where it could not be applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Verdict {
    /// The hash that names it: SHA-256 of the statement that is signed.
    pub fn hash(&self) -> Result<String> {
        Ok(format!("sha256:{}", sha256(&self.statement()?)))
    }

    /// Signs the verdict; the record keeps the envelope as `verdict.dsse.json`.
    pub fn seal(&self, signer: &Signer) -> Result<Envelope> {
        Ok(Envelope::seal(&self.statement()?, signer))
    }

    /// The verdict in an envelope that `key` signed.
    pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Self> {
        let payload = envelope.open(key)?;
        let statement: Value = serde_json::from_slice(&payload)
            .map_err(|source| Error::invalid(format!("the verdict is not JSON: {source}")))?;
        if statement["predicateType"] != VERDICT_TYPE {
            return Err(Error::invalid("the envelope holds something else than a verdict")
                .hint("give the file verdict.dsse.json that an evaluation wrote"));
        }
        let verdict: Self = serde_json::from_value(statement["predicate"].clone())
            .map_err(|source| Error::invalid(format!("that is not a verdict: {source}")))?;
        if verdict.schema != VERDICT_SCHEMA {
            return Err(Error::invalid(format!("the verdict has the format {:?}", verdict.schema)));
        }
        Ok(verdict)
    }

    fn statement(&self) -> Result<Vec<u8>> {
        let digest = |text: &str| text.strip_prefix("sha256:").unwrap_or(text).to_owned();
        let statement = json!({
            "_type": STATEMENT_TYPE,
            "subject": [
                { "name": "patch", "digest": { "sha256": digest(&self.patch_hash) } },
                { "name": "evaluation", "digest": { "sha256": digest(&self.evaluation_hash) } },
                { "name": format!("brain {} version {}", self.base.brain, self.base.version),
                  "digest": { "blake3": self.base.bundle_hash } },
            ],
            "predicateType": VERDICT_TYPE,
            "predicate": self,
        });
        serde_json::to_vec(&statement).map_err(|source| Error::internal("a verdict cannot be written").because(source))
    }
}
