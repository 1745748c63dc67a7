//! What stewards decided about verdicts: one document of each steward for each verdict. What one of them signs never takes
//! the place of what another one signed.

use super::GateGrant;
use super::approval::{ApprovalDecision, SignedApproval, Stewards, examine};
use super::nonce::{NonceStore, gates};
use super::signed::{Signed, check_hash};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fsio::{Root, SyncTiming};
use crate::ids::{RelPath, sha256};
use crate::layout::Layout;
use crate::{PatchBase, Verdict};

/// The most bytes of a signed decision that are read.
const MAX_BYTES: u64 = 1 << 20;

/// What stewards decided, beside these brains.
#[derive(Debug)]
pub struct DecisionStore {
    root: Root,
}

impl DecisionStore {
    /// Opens the decisions that are kept in the directory of these brains, and creates it where it is missing.
    pub fn open(layout: &Layout) -> Result<Self> {
        Ok(Self { root: gates(layout, &["approvals"])? })
    }

    /// Keeps what a steward decided. The same steward's earlier decision about the same verdict goes.
    pub fn keep(&self, decision: &SignedApproval) -> Result<()> {
        let whose = sha256(decision.key().to_string().as_bytes());
        let place = place(&decision.predicate().verdict_hash)?.join(&format!("{whose}.dsse.json"))?;
        self.root.replace(&place, decision.to_line()?.as_bytes(), SyncTiming::Now)
    }

    /// What all signers decided about a verdict. Their keys are not checked here: some may be no steward's.
    pub fn about(&self, verdict_hash: &str) -> Result<Vec<SignedApproval>> {
        let Some(dir) = self.root.below(&place(verdict_hash)?)? else { return Ok(Vec::new()) };
        let mut decisions = Vec::new();
        for entry in dir.list()?.into_iter().filter(|entry| entry.name.ends_with(".dsse.json")) {
            let Some(bytes) = dir.read(&entry.name.parse()?, MAX_BYTES)? else { continue };
            let decision = Signed::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| {
                Error::corrupt(format!("{} is not what was written there: {}", entry.name, error.message()))
                    .hint("move the file aside and have the steward sign again")
            })?;
            decisions.push(decision);
        }
        Ok(decisions)
    }
}

fn place(verdict_hash: &str) -> Result<RelPath> {
    check_hash("a verdict", verdict_hash)?;
    format!("approvals/{}", verdict_hash.trim_start_matches("sha256:")).parse()
}

/// The rejection that shuts the gate for a verdict, where there is one: a steward's, that has not ended, and that the same
/// steward did not take back with a later approval.
pub fn rejection<'a>(
    decisions: &'a [SignedApproval],
    verdict_hash: &str,
    stewards: &Stewards,
    now: Timestamp,
) -> Option<&'a SignedApproval> {
    let shuts = |one: &SignedApproval| {
        one.predicate().decision == ApprovalDecision::Reject
            && one.predicate().verdict_hash == verdict_hash
            && stewards.has(one.key())
            && now < one.predicate().expires_at
    };
    standing(decisions).into_iter().find(|one| shuts(one))
}

/// The last word of each steward on each verdict, newest first. Of two of the same moment, the rejection is the last.
fn standing(decisions: &[SignedApproval]) -> Vec<&SignedApproval> {
    let order =
        |one: &SignedApproval| (one.predicate().issued_at, one.predicate().decision == ApprovalDecision::Reject);
    let is_later = |other: &SignedApproval, one: &SignedApproval| {
        other.key() == one.key()
            && other.predicate().verdict_hash == one.predicate().verdict_hash
            && order(other) > order(one)
    };
    let mut last: Vec<&SignedApproval> =
        decisions.iter().filter(|one| !decisions.iter().any(|other| is_later(other, one))).collect();
    last.sort_by_key(|one| std::cmp::Reverse(order(one)));
    last
}

/// The approval that opens the gate, of all that stewards decided. One rejection that stands shuts
/// it, whatever others approve.
pub(super) fn choose<'a>(
    decisions: &'a [SignedApproval],
    verdict: &Verdict,
    base_now: &PatchBase,
    stewards: &Stewards,
    now: Timestamp,
    nonces: &NonceStore,
) -> Result<(&'a SignedApproval, GateGrant)> {
    if let Some(rejected) = rejection(decisions, &verdict.hash()?, stewards, now) {
        return examine(rejected, verdict, base_now, stewards, now, nonces).map(|granted| (rejected, granted));
    }
    let mut refusal = None;
    for one in standing(decisions) {
        match examine(one, verdict, base_now, stewards, now, nonces) {
            Ok(granted) => return Ok((one, granted)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| {
        Error::refused("the gate stays shut: no steward approved").hint("run `herm successor approve`")
    }))
}
