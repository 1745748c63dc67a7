//! The human gate: a steward signs that one patch may be applied to one brain as it is now, because of one verdict,
//! once, and not for ever. The format and the rules are in `docs/operate/gates.md`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::nonce::{Nonce, NonceStore};
use super::signed::{Predicate, Signed, StatementSubject, check_hash};
use super::{GateGrant, Grantor};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::Random;
use crate::receipt::{PublicKey, Signer};
use crate::{PatchBase, Verdict, VerdictRuling};

/// What the predicate of an approval is.
pub const APPROVAL_TYPE: &str = "urn:herm:approval:1";
/// The longest that an approval may be good for.
pub const LONGEST_APPROVAL: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long an approval is good for, unless said.
pub const USUAL_APPROVAL: Duration = Duration::from_secs(24 * 3_600);
/// How far a steward's clock may be ahead.
const AHEAD: i64 = 60_000;
/// The longest note, in characters.
const MAX_NOTE: usize = 2_000;

/// What a steward decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDecision {
    /// The patch may be applied.
    Approve,
    /// It must not be applied: this shuts the gate until it expires or the same steward approves later.
    Reject,
}

/// What a steward signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StewardApproval {
    /// The patch: `sha256:…` of its file.
    pub patch_hash: String,
    /// The brain, as it was evaluated and as it must still be.
    pub base: PatchBase,
    /// The verdict the steward saw: `sha256:…`.
    pub verdict_hash: String,
    /// What the steward decides.
    pub decision: ApprovalDecision,
    /// Good for one time.
    pub nonce: Nonce,
    /// From when it is good.
    pub issued_at: Timestamp,
    /// From when it is no longer good: at most [`LONGEST_APPROVAL`] after it was issued.
    pub expires_at: Timestamp,
    /// What the steward adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An approval with a steward's signature.
pub type SignedApproval = Signed<StewardApproval>;

impl Predicate for StewardApproval {
    const TYPE: &'static str = APPROVAL_TYPE;
    const WHAT: &'static str = "an approval";

    fn subjects(&self) -> Vec<StatementSubject> {
        vec![
            StatementSubject::document("patch", &self.patch_hash),
            StatementSubject::document("verdict", &self.verdict_hash),
            StatementSubject::brain(&self.base),
        ]
    }

    fn validate(&self) -> Result<()> {
        check_hash("a patch", &self.patch_hash)?;
        check_hash("a verdict", &self.verdict_hash)?;
        if self.note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
            return Err(Error::invalid(format!("the note of an approval has at most {MAX_NOTE} characters")));
        }
        Ok(())
    }
}

impl StewardApproval {
    /// A decision about a verdict, good from now on for a while.
    pub fn new(
        verdict: &Verdict,
        decision: ApprovalDecision,
        now: Timestamp,
        lasts: Duration,
        random: &dyn Random,
    ) -> Result<Self> {
        let millis = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
        Ok(Self {
            patch_hash: verdict.patch_hash.clone(),
            base: verdict.base.clone(),
            verdict_hash: verdict.hash()?,
            decision,
            nonce: Nonce::new(random)?,
            issued_at: now,
            expires_at: Timestamp(now.millis().saturating_add(millis)),
            note: None,
        })
    }

    /// The same with a note.
    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Signs it with a steward's key. What no gate would take is not signed.
    pub fn sign(self, steward: &Signer) -> Result<SignedApproval> {
        check_span(&self)?;
        Signed::seal(self, steward)
    }
}

/// The people who may approve, by their keys.
#[derive(Debug, Clone, Default)]
pub struct Stewards {
    keys: Vec<PublicKey>,
}

impl Stewards {
    /// Those with these keys.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        Self { keys: keys.into_iter().collect() }
    }

    /// Those with these `did:key`s.
    pub fn parse<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        Ok(Self { keys: keys.into_iter().map(str::parse).collect::<Result<_>>()? })
    }

    /// Whether a key is a steward's.
    pub fn has(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Lets an approval through the gate, once. `base_now` is the brain as it is at this moment; a brain that has moved
/// since the verdict is another one. Every refusal says which rule it was; the nonce is used up only by an approval
/// that passes them all.
pub fn check(
    approval: &SignedApproval,
    verdict: &Verdict,
    base_now: &PatchBase,
    stewards: &Stewards,
    now: Timestamp,
    nonces: &mut NonceStore,
) -> Result<GateGrant> {
    let granted = examine(approval, verdict, base_now, stewards, now, nonces)?;
    spend(approval, nonces)?;
    Ok(granted)
}

/// Uses an approval up.
pub(super) fn spend(approval: &SignedApproval, nonces: &mut NonceStore) -> Result<()> {
    match nonces.spend(approval.key(), &approval.predicate().nonce, approval.hash())? {
        true => Ok(()),
        false => Err(used_before(approval)),
    }
}

fn used_before(approval: &SignedApproval) -> Error {
    Error::refused(format!("the approval {} was used before", approval.hash()))
        .hint("an approval is good for one time; have a steward sign a new one")
}

/// Asks everything of an approval, and uses nothing up.
pub(super) fn examine(
    approval: &SignedApproval,
    verdict: &Verdict,
    base_now: &PatchBase,
    stewards: &Stewards,
    now: Timestamp,
    nonces: &NonceStore,
) -> Result<GateGrant> {
    let said = approval.predicate();
    if !stewards.has(approval.key()) {
        return Err(Error::refused(format!("{} signed the approval and is no steward here", approval.key()))
            .hint("have a steward sign it, or name the key in `[stewards]` of the configuration"));
    }
    if said.decision == ApprovalDecision::Reject {
        return Err(Error::refused(format!("the steward {} rejected this patch", approval.key()))
            .hint("change the patch and have it evaluated again"));
    }
    check_span(said)?;
    if said.issued_at.millis() > now.millis().saturating_add(AHEAD) {
        return Err(Error::refused(format!("the approval is good from {} on, and it is {now}", said.issued_at))
            .hint("wait, or set the clock of the machine that signed it"));
    }
    if now >= said.expires_at {
        return Err(Error::refused(format!("the approval was good until {}, and it is {now}", said.expires_at))
            .hint("have a steward sign a new one"));
    }
    if said.patch_hash != verdict.patch_hash {
        return Err(Error::refused(format!(
            "the approval is for the patch {}, not for {}",
            said.patch_hash, verdict.patch_hash
        ))
        .hint("have a steward sign for this patch"));
    }
    if said.base != verdict.base {
        return Err(Error::refused(format!(
            "the approval is for {}, and the verdict is about {}",
            words(&said.base),
            words(&verdict.base)
        ))
        .hint("have a steward sign for this verdict"));
    }
    let verdict_hash = verdict.hash()?;
    if said.verdict_hash != verdict_hash {
        return Err(Error::refused(format!(
            "the approval is for the verdict {}, not for {verdict_hash}",
            said.verdict_hash
        ))
        .hint("have a steward look at this verdict and sign for it"));
    }
    check_verdict(verdict, base_now)?;
    if nonces.is_spent(approval.key(), &said.nonce)? {
        return Err(used_before(approval));
    }
    Ok(GateGrant {
        patch_hash: said.patch_hash.clone(),
        base: said.base.clone(),
        verdict_hash,
        by: Grantor::Steward(approval.key().to_string()),
        document: approval.hash().to_owned(),
    })
}

/// What every gate asks of a verdict: it approves, and its brain has not moved since.
pub(super) fn check_verdict(verdict: &Verdict, base_now: &PatchBase) -> Result<()> {
    if verdict.verdict != VerdictRuling::Approve {
        return Err(Error::refused(format!("the verdict is {}, and no gate opens for that", verdict.verdict.name()))
            .hint("change the patch and have it evaluated again"));
    }
    check_base(verdict, base_now)
}

/// Refuses a verdict whose brain is no longer what was judged.
pub(super) fn check_base(verdict: &Verdict, base_now: &PatchBase) -> Result<()> {
    match verdict.base.moved(base_now) {
        None => Ok(()),
        Some(moved) => Err(Error::refused(format!("the brain has moved: {moved}"))
            .hint("have the patch evaluated again against the brain as it is")),
    }
}

fn check_span(approval: &StewardApproval) -> Result<()> {
    let lasts = approval.expires_at.millis().saturating_sub(approval.issued_at.millis());
    if lasts <= 0 {
        return Err(Error::refused("the approval ends before it begins").hint("give it a day"));
    }
    if u128::from(lasts.unsigned_abs()) > LONGEST_APPROVAL.as_millis() {
        return Err(Error::refused(format!(
            "the approval is good from {} until {}, and 30 days are the most",
            approval.issued_at, approval.expires_at
        ))
        .hint("give it a day; what is not applied by then should be looked at again"));
    }
    Ok(())
}

fn words(base: &PatchBase) -> String {
    format!("brain {} version {} ({})", base.brain, base.version, base.bundle_hash.short())
}
