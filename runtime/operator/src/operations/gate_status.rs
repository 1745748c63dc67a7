//! How the gates of this operator stand for a verdict, without using anything up.

use herm::successor::VerdictRecord;
use herm::successor::audit::CONSENSUS_FILE;
use herm::successor::auto::GateStatus;
use herm::successor::gate::vote::VoteTally;
use herm::successor::gate::{self, ApprovalDecision, Mesh, NonceStore, SignedConsensus, Stewards};
use herm::{Clock as _, Error, Result, SystemClock, fsio};

use super::patches::{MAX_GATE_DOCUMENT, decisions};
use crate::config::Settings;

/// How the gates stand for a verdict: the first that does not open says so.
pub(crate) fn standing(settings: &Settings, record: &VerdictRecord) -> Result<GateStatus> {
    let gates = settings.gates()?;
    let mut opened = Vec::new();
    if gates.gate.needs_steward() {
        match of_steward(settings, record, &gates.stewards)? {
            GateStatus::Open { by } => opened.push(by),
            other => return Ok(other),
        }
    }
    if let (true, Some(mesh)) = (gates.gate.needs_mesh(), &gates.mesh) {
        match of_mesh(record, mesh)? {
            GateStatus::Open { by } => opened.push(by),
            other => return Ok(other),
        }
    }
    Ok(GateStatus::Open { by: opened.join(" and ") })
}

fn of_steward(settings: &Settings, record: &VerdictRecord, stewards: &Stewards) -> Result<GateStatus> {
    let waiting = |why: &str| GateStatus::Waiting {
        whom: "a steward".to_owned(),
        how: format!("{why}`herm successor approve {} --key FILE`, then run this again", record.name),
    };
    if stewards.is_empty() {
        return Ok(waiting("name their keys in `[stewards]` of the configuration, read the report, "));
    }
    let (hash, now) = (record.verdict.hash()?, SystemClock.now());
    let decisions = decisions(settings, record)?;
    if let Some(rejection) = gate::rejection(&decisions, &hash, stewards, now) {
        let note = rejection.predicate().note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        return Ok(GateStatus::Shut { why: format!("the steward {} rejected it{note}", rejection.key()) });
    }
    let nonces = NonceStore::open(&settings.layout)?;
    let mut standing = waiting("read the report, ");
    for approval in decisions.iter().filter(|one| one.predicate().decision == ApprovalDecision::Approve) {
        let said = approval.predicate();
        standing = if !stewards.has(approval.key()) {
            waiting("the key that signed is not a steward's here; ")
        } else if said.verdict_hash != hash || said.base != record.verdict.base {
            waiting("the approval is for another verdict; ")
        } else if now >= said.expires_at {
            waiting("the approval has ended; ")
        } else if nonces.is_spent(approval.key(), &said.nonce)? {
            waiting("the approval was used before; ")
        } else {
            return Ok(GateStatus::Open { by: format!("the steward {} approved", approval.key()) });
        };
    }
    Ok(standing)
}

fn of_mesh(record: &VerdictRecord, mesh: &Mesh) -> Result<GateStatus> {
    let waiting =
        |how: String| GateStatus::Waiting { whom: format!("the {} members of the mesh", mesh.members().len()), how };
    let Some((tally, is_ours)) = counted(record, mesh)? else {
        return Ok(waiting(format!("`herm successor propose {}` asks them", record.name)));
    };
    if !tally.is_decided() {
        return Ok(waiting(format!("too few answered ({}); run this again when they are back", tally.words())));
    }
    Ok(match tally.passed && is_ours {
        true => GateStatus::Open { by: format!("the mesh agreed, {}", tally.words()) },
        false => GateStatus::Shut { why: format!("the mesh did not agree: {}", tally.words()) },
    })
}

/// What the mesh said last, counted again, and whether it is about this verdict's patch and brain.
pub(crate) fn counted(record: &VerdictRecord, mesh: &Mesh) -> Result<Option<(VoteTally, bool)>> {
    let Some(line) = document(record, CONSENSUS_FILE)? else { return Ok(None) };
    let consensus = SignedConsensus::parse(&line)?;
    let about = &consensus.predicate().about;
    let is_ours = about.patch_hash == record.verdict.patch_hash && about.base.moved(&record.verdict.base).is_none();
    Ok(Some((consensus.recount(mesh)?, is_ours)))
}

fn document(record: &VerdictRecord, name: &str) -> Result<Option<String>> {
    let path = record.path.join(name);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let bytes = fsio::read_regular(&path, MAX_GATE_DOCUMENT)?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| Error::corrupt(format!("{name} of verdict {} is not text", record.name)).hint("make it again"))
}
