//! The human gate: what passes, every refusal, and replays.

use std::time::Duration;

use proptest::prelude::*;

use super::super::approval::{ApprovalDecision, LONGEST_APPROVAL, SignedApproval, StewardApproval, Stewards, check};
use super::super::nonce::{Nonce, NonceStore};
use super::super::signed::Signed;
use super::super::{GateGrant, Grantor};
use super::{Counting, DAY, NOW, base, brains, key, patch, proposal, refusal, verdict};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, SystemRandom};
use crate::{BaseDigests, Direction, Metric, MetricComparison, MetricPolarity, PatchBase, Verdict, VerdictRuling};

const STEWARD: u8 = 1;

fn stewards() -> Stewards {
    Stewards::new([key(STEWARD).public().clone(), key(2).public().clone()])
}

fn approval() -> StewardApproval {
    let day = Duration::from_secs(24 * 3_600);
    StewardApproval::new(&verdict(VerdictRuling::Approve), ApprovalDecision::Approve, NOW, day, &SystemRandom).unwrap()
}

/// Asks the gate, with everything as it should be but what `with` changes.
struct Asking {
    approval: SignedApproval,
    verdict: Verdict,
    base: PatchBase,
    now: Timestamp,
}

impl Asking {
    fn with(approval: SignedApproval) -> Self {
        Self { approval, verdict: verdict(VerdictRuling::Approve), base: base(), now: NOW }
    }

    fn ask(&self, nonces: &mut NonceStore) -> Result<GateGrant> {
        check(&self.approval, &self.verdict, &self.base, &stewards(), self.now, nonces)
    }

    /// Asks, and asserts that a refusal uses nothing up.
    fn refused(&self) -> String {
        let (_dir, layout) = brains();
        let mut nonces = NonceStore::open(&layout).unwrap();
        let said = refusal(self.ask(&mut nonces));
        assert!(!nonces.is_spent(self.approval.key(), &self.approval.predicate().nonce).unwrap());
        said
    }
}

fn signed(approval: StewardApproval) -> SignedApproval {
    approval.sign(&key(STEWARD)).unwrap()
}

/// What no steward's tool would sign.
fn signed_anyway(approval: StewardApproval) -> SignedApproval {
    Signed::seal(approval, &key(STEWARD)).unwrap()
}

#[test]
fn a_steward_s_approval_opens_the_gate_once() {
    let (_dir, layout) = brains();
    let mut nonces = NonceStore::open(&layout).unwrap();
    let asking = Asking::with(signed(approval().noting("looked at the report")));
    let granted = asking.ask(&mut nonces).unwrap();
    assert_eq!(
        granted,
        GateGrant {
            patch_hash: patch("shorter").hash(),
            base: base(),
            verdict_hash: verdict(VerdictRuling::Approve).hash().unwrap(),
            by: Grantor::Steward(key(STEWARD).public().to_string()),
            document: asking.approval.hash().to_owned(),
        }
    );
    let again = refusal(asking.ask(&mut nonces));
    assert_eq!(again, format!("the approval {} was used before", asking.approval.hash()));
}

#[test]
fn an_approval_used_before_a_restart_is_used() {
    let (_dir, layout) = brains();
    let asking = Asking::with(signed(approval()));
    asking.ask(&mut NonceStore::open(&layout).unwrap()).unwrap();
    let mut reopened = NonceStore::open(&layout).unwrap();
    assert!(refusal(asking.ask(&mut reopened)).ends_with("was used before"));
    // Another approval of the same patch is another one.
    Asking::with(signed(approval())).ask(&mut reopened).unwrap();
}

#[test]
fn of_many_at_once_one_uses_the_approval() {
    let (_dir, layout) = brains();
    let asking = Asking::with(signed(approval()));
    let passed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| usize::from(asking.ask(&mut NonceStore::open(&layout).unwrap()).is_ok())))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 1);
}

#[test]
fn the_nonce_of_one_steward_is_not_the_nonce_of_another() {
    let (_dir, layout) = brains();
    let mut nonces = NonceStore::open(&layout).unwrap();
    let said = approval();
    Asking::with(said.clone().sign(&key(STEWARD)).unwrap()).ask(&mut nonces).unwrap();
    Asking::with(said.sign(&key(2)).unwrap()).ask(&mut nonces).unwrap();
}

#[test]
fn who_is_no_steward_cannot_approve() {
    let stranger = key(9);
    let said = Asking::with(approval().sign(&stranger).unwrap()).refused();
    assert_eq!(said, format!("{} signed the approval and is no steward here", stranger.public()));
}

#[test]
fn where_nobody_is_a_steward_nobody_can_approve() {
    let (_dir, layout) = brains();
    let asking = Asking::with(signed(approval()));
    let mut nonces = NonceStore::open(&layout).unwrap();
    let nobody = Stewards::default();
    assert!(nobody.is_empty());
    let said = refusal(check(&asking.approval, &asking.verdict, &asking.base, &nobody, NOW, &mut nonces));
    assert!(said.ends_with("is no steward here"), "{said}");
}

#[test]
fn a_rejection_opens_nothing() {
    let rejection = StewardApproval { decision: ApprovalDecision::Reject, ..approval() };
    let said = Asking::with(signed(rejection)).refused();
    assert_eq!(said, format!("the steward {} rejected this patch", key(STEWARD).public()));
}

#[test]
fn an_approval_that_has_ended_is_refused() {
    let mut asking = Asking::with(signed(approval()));
    asking.now = Timestamp(NOW.millis() + DAY);
    assert_eq!(
        asking.refused(),
        format!("the approval was good until {}, and it is {}", asking.approval.predicate().expires_at, asking.now)
    );
    asking.now = Timestamp(NOW.millis() + DAY - 1);
    let (_dir, layout) = brains();
    asking.ask(&mut NonceStore::open(&layout).unwrap()).unwrap();
}

#[test]
fn an_approval_from_the_future_is_refused() {
    let mut asking = Asking::with(signed(approval()));
    asking.now = Timestamp(NOW.millis() - 60_001);
    assert_eq!(asking.refused(), format!("the approval is good from {NOW} on, and it is {}", asking.now));
    // A clock that is a minute ahead does not matter.
    asking.now = Timestamp(NOW.millis() - 60_000);
    let (_dir, layout) = brains();
    asking.ask(&mut NonceStore::open(&layout).unwrap()).unwrap();
}

#[test]
fn an_approval_for_longer_than_30_days_is_neither_signed_nor_taken() {
    let most = i64::try_from(LONGEST_APPROVAL.as_millis()).unwrap();
    let long = StewardApproval { expires_at: Timestamp(NOW.millis() + most + 1), ..approval() };
    let rule = format!("the approval is good from {NOW} until {}, and 30 days are the most", long.expires_at);
    assert_eq!(refusal(long.clone().sign(&key(STEWARD))), rule);
    assert_eq!(Asking::with(signed_anyway(long)).refused(), rule);
    signed(StewardApproval { expires_at: Timestamp(NOW.millis() + most), ..approval() });
    let forever = StewardApproval { issued_at: Timestamp(i64::MIN), expires_at: Timestamp(i64::MAX), ..approval() };
    assert!(refusal(forever.sign(&key(STEWARD))).ends_with("30 days are the most"));
}

#[test]
fn an_approval_that_ends_before_it_begins_is_neither_signed_nor_taken() {
    let none = StewardApproval { expires_at: NOW, ..approval() };
    assert_eq!(refusal(none.clone().sign(&key(STEWARD))), "the approval ends before it begins");
    assert_eq!(Asking::with(signed_anyway(none)).refused(), "the approval ends before it begins");
}

#[test]
fn an_approval_of_another_patch_is_refused() {
    let other = patch("another").hash();
    let asking = Asking::with(signed(StewardApproval { patch_hash: other.clone(), ..approval() }));
    assert_eq!(asking.refused(), format!("the approval is for the patch {other}, not for {}", patch("shorter").hash()));
}

#[test]
fn an_approval_for_another_brain_version_or_content_is_refused() {
    let others = [
        PatchBase { brain: "2".parse().unwrap(), ..base() },
        PatchBase { version: 3, ..base() },
        PatchBase { bundle_hash: Digest::of(b"another brain"), ..base() },
    ];
    for other in others {
        let said = Asking::with(signed(StewardApproval { base: other, ..approval() })).refused();
        assert!(said.starts_with("the approval is for brain "), "{said}");
        assert!(said.contains("and the verdict is about brain 1 version 4"), "{said}");
    }
}

#[test]
fn a_brain_that_has_moved_since_is_refused() {
    for moved in [PatchBase { version: 5, ..base() }, PatchBase { bundle_hash: Digest::of(b"moved"), ..base() }] {
        let mut asking = Asking::with(signed(approval()));
        asking.base = moved;
        let said = asking.refused();
        assert!(said.starts_with("the brain has moved: it was brain 1 version 4"), "{said}");
    }
}

/// The same brain, bound to what a patch touches.
fn touching(version: u64, tuning: &[u8], files: Option<&str>) -> PatchBase {
    let touched = BaseDigests {
        role: Some(Digest::of(b"role")),
        manifest: None,
        tuning: Some(Digest::of(tuning)),
        files: files.map(str::to_owned),
    };
    PatchBase { version, bundle_hash: Digest::of(&version.to_be_bytes()), touched: Some(touched), ..base() }
}

#[test]
fn a_verdict_stands_while_what_its_patch_touches_does_whatever_else_moves() {
    let then = touching(4, b"a", Some("sha256:1"));
    assert_eq!(then.moved(&touching(99, b"a", Some("sha256:1"))), None);
    let changed = then.moved(&touching(99, b"b", Some("sha256:1"))).unwrap();
    assert_eq!(changed, "tuning.json is not as it was at version 4, now 99");
    let changed = then.moved(&touching(99, b"a", Some("sha256:2"))).unwrap();
    assert_eq!(changed, "a file that the patch changes is not as it was at version 4, now 99");
    // Of what a brain runs with, each part alone voids it.
    let touched = then.touched.clone().unwrap();
    for (file, now) in [
        ("system.md", BaseDigests { role: Some(Digest::of(b"another role")), ..touched.clone() }),
        ("manifest.json", BaseDigests { manifest: Some(Digest::of(b"a manifest")), ..touched.clone() }),
        ("tuning.json", BaseDigests { tuning: None, ..touched }),
    ] {
        let now = PatchBase { version: 99, touched: Some(now), ..then.clone() };
        assert_eq!(then.moved(&now).unwrap(), format!("{file} is not as it was at version 4, now 99"));
    }
    assert!(then.moved(&PatchBase { brain: "2".parse().unwrap(), ..then.clone() }).is_some());
    // Documents of earlier versions are bound to the whole brain, and are written as they were.
    assert_eq!(base().moved(&PatchBase { touched: then.touched.clone(), ..base() }), None);
    assert!(base().moved(&PatchBase { version: 5, touched: then.touched.clone(), ..base() }).is_some());
    let written = serde_json::to_string(&base()).unwrap();
    assert!(!written.contains("touched"), "{written}");
    assert_eq!(serde_json::from_str::<PatchBase>(&written).unwrap(), base());
    assert_eq!(serde_json::from_str::<PatchBase>(&serde_json::to_string(&then).unwrap()).unwrap(), then);
}

#[test]
fn an_approval_of_another_verdict_is_refused() {
    let mut asking = Asking::with(signed(approval()));
    asking.verdict.confidence = 0.51;
    assert_eq!(
        asking.refused(),
        format!(
            "the approval is for the verdict {}, not for {}",
            asking.approval.predicate().verdict_hash,
            asking.verdict.hash().unwrap()
        )
    );
}

#[test]
fn a_verdict_that_does_not_approve_cannot_be_approved() {
    for ruling in [VerdictRuling::Reject, VerdictRuling::NeedsRevision] {
        let day = Duration::from_secs(24 * 3_600);
        let said = StewardApproval::new(&verdict(ruling), ApprovalDecision::Approve, NOW, day, &SystemRandom).unwrap();
        let asking = Asking { verdict: verdict(ruling), ..Asking::with(signed(said)) };
        assert_eq!(asking.refused(), format!("the verdict is {}, and no gate opens for that", ruling.name()));
    }
}

#[test]
fn an_approval_reads_back_as_itself_and_other_documents_are_none() {
    let approval = signed(approval().noting("ok"));
    let again: SignedApproval = Signed::parse(&approval.to_line().unwrap()).unwrap();
    assert_eq!(again, approval);
    assert!(format!("{approval:?}").contains("did:key:"));
    let other = proposal(1, STEWARD).to_line().unwrap();
    let said = refusal(SignedApproval::parse(&other));
    assert_eq!(said, r#"that is not an approval: it holds "urn:herm:proposal:1", not urn:herm:approval:1"#);
    let verdict = verdict(VerdictRuling::Approve).seal(&key(STEWARD)).unwrap();
    assert!(refusal(SignedApproval::open(verdict)).contains("urn:herm:verdict:1"));
}

#[test]
fn two_signatures_none_or_a_stranger_s_name_beside_one_are_refused() {
    let line = signed(approval()).to_line().unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&line).unwrap();
    let one = document["signatures"][0].clone();
    document["signatures"] = serde_json::json!([]);
    assert!(refusal(SignedApproval::parse(&document.to_string())).ends_with("it needs exactly one signature"));
    document["signatures"] = serde_json::json!([one, one]);
    assert!(refusal(SignedApproval::parse(&document.to_string())).ends_with("it needs exactly one signature"));
    document["signatures"] = serde_json::json!([one]);
    document["signatures"][0]["keyid"] = key(2).public().to_string().into();
    let said = refusal(SignedApproval::parse(&document.to_string()));
    assert_eq!(said, format!("the signature is not one of {}", key(2).public()));
}

#[test]
fn a_note_and_a_nonce_have_their_bounds() {
    let long = approval().noting("x".repeat(2_001));
    assert!(refusal(long.sign(&key(STEWARD))).contains("at most 2000 characters"));
    assert_eq!(Nonce::new(&Counting::default()).unwrap().as_str(), "0102030405060708090a0b0c0d0e0f10");
    for bad in ["", "0102", "0102030405060708090A0B0C0D0E0F10", "../../etc/passwd0000000000000000"] {
        let parsed: Result<Nonce, Error> = bad.parse();
        assert!(parsed.is_err(), "{bad}");
    }
}

#[test]
fn the_steward_s_keys_are_read_as_did_keys() {
    let did = key(1).public().to_string();
    assert!(Stewards::parse([did.as_str()]).unwrap().has(key(1).public()));
    assert!(Stewards::parse(["did:key:nobody"]).is_err());
}

proptest! {
    /// Approvals and votes name a verdict by its hash, so a verdict that was read must have the one it was signed with.
    #[test]
    fn a_verdict_that_was_read_has_the_hash_it_was_signed_with(
        confidence in 0.0..1.0_f64,
        figures in prop::array::uniform6(prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL),
    ) {
        let [baseline, patched, change, low, high, p] = figures;
        let statistics = vec![MetricComparison {
            metric: Metric::KeptFacts,
            part: None,
            better: MetricPolarity::Higher,
            pairs: 8,
            cases: 8,
            units: 8,
            baseline,
            patched,
            change,
            interval: [low, high],
            p,
            direction: Direction::Better,
        }];
        let signed = Verdict { confidence, statistics, ..verdict(VerdictRuling::Approve) };
        let read = Verdict::open(&signed.seal(&key(STEWARD)).unwrap(), key(STEWARD).public()).unwrap();
        prop_assert_eq!(read.hash().unwrap(), signed.hash().unwrap());
    }

    #[test]
    fn an_approval_with_any_one_byte_changed_is_refused(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let good = approval();
        let approval = StewardApproval { nonce: Nonce::new(&Counting::default()).unwrap(), note: Some("é \"quoted\"".to_owned()), ..good };
        let mut bytes = signed(approval).to_line().unwrap().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let (_dir, layout) = brains();
        let mut nonces = NonceStore::open(&layout).unwrap();
        let passed = String::from_utf8(bytes)
            .map_err(|_| Error::invalid("no text"))
            .and_then(|line| SignedApproval::parse(&line))
            .and_then(|forged| Asking::with(forged).ask(&mut nonces));
        prop_assert!(passed.is_err(), "{passed:?}");
    }
}
