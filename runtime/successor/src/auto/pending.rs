//! Where the last run stood, from the verdicts alone: what waits for its gate, and what was tried in vain.

use serde_json::{Value, json};

use super::{PatchLoopStage, StageDecision, StageRecord};
use crate::adopt::base_from_reader;
use crate::audit::{AuditFinding, CONSENSUS_FILE, last_audit, recheck};
use crate::brain::Reader;
use crate::error::Result;
use crate::fsio;
use crate::gate::{Consensus, SignedConsensus};
use crate::harness::Harness;
use crate::layout;
use crate::patch::PatchChange;
use crate::records::{VerdictRecord, VerdictStore};
use crate::verdict::VerdictRuling;

/// After so many versions a brain has done enough for a patch to be tried again.
const AGAIN_AFTER: u64 = 50;
/// The most bytes of a consensus file that are read.
const MOST_CONSENSUS: u64 = 8 << 20;

/// A verdict about the brain as it is that approves, and with which the verifier agrees: it waits for its gate.
/// Its record is looked at once more, for the audit may be of yesterday.
pub(super) fn waiting(harness: &Harness, reader: &Reader) -> Result<Option<(VerdictRecord, Vec<AuditFinding>)>> {
    let key = harness.signer().public();
    let (records, _) = VerdictStore::new(harness.layout()).all()?;
    let stands = |record: &VerdictRecord| {
        record.verdict.verdict == VerdictRuling::Approve
            // What the mesh said no to waits for nothing any more.
            && !is_voted_down(record)
            && record.verdict.base.brain == *reader.id()
            // What cannot be compared does not stand.
            && base_from_reader(reader, &record.patch).is_ok_and(|now| record.verdict.base.moved(&now).is_none())
            && record.envelope.keyid() == Some(&key.to_string())
            // An audit that cannot be read is none.
            && matches!(last_audit(&record.path, &record.verdict, key), Ok(Some(audit)) if audit.agrees)
    };
    let Some(record) = records.into_iter().find(stands) else { return Ok(None) };
    let faults = recheck(&record.path, &record.name, key)?;
    Ok(Some((record, faults)))
}

/// What the stages say that a run goes on from a verdict of an earlier one; `false` where its record was touched since.
pub(super) fn continued(stages: &mut Vec<StageRecord>, record: &VerdictRecord, faults: &[AuditFinding]) -> bool {
    for stage in [PatchLoopStage::Detect, PatchLoopStage::Draft, PatchLoopStage::Evaluate, PatchLoopStage::Verify] {
        stages.push(StageRecord {
            stage,
            decision: StageDecision::Go,
            why: format!("verdict {} of an earlier run still stands for the brain as it is", record.name),
            input: json!({ "verdict": record.name }),
            output: Value::Null,
        });
    }
    let (Some(fault), Some(verify)) = (faults.first(), stages.last_mut()) else { return true };
    verify.decision = StageDecision::Against;
    verify.why = format!(
        "{} It was not so when it was audited; look at it, and `herm successor destroy {}`",
        fault.sentence, record.name
    );
    verify.output = json!({ "findings": faults });
    false
}

/// Whether the mesh said no: enough members answered, and too few approved.
fn is_voted_down(record: &VerdictRecord) -> bool {
    let document = fsio::read_regular(&record.path.join(CONSENSUS_FILE), MOST_CONSENSUS);
    let line = document.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    // What cannot be read says nothing; a gate refuses it by itself.
    let Some(consensus) = line.and_then(|line| SignedConsensus::parse(&line).ok()) else { return false };
    let Consensus { about, tally, .. } = consensus.predicate();
    about.patch_hash == record.verdict.patch_hash && tally.is_decided() && !tally.passed
}

/// The changes that were judged on this runtime and not approved, or not by the verifier or the mesh, lately.
pub(crate) fn tried(harness: &Harness, reader: &Reader) -> Result<Vec<Vec<PatchChange>>> {
    let files =
        [layout::TUNING, layout::SYSTEM, layout::MANIFEST].map(layout::rel).into_iter().collect::<Result<Vec<_>>>()?;
    // Verdicts from before the runtime was changed are about another one.
    let changed = reader.file_versions(&files, 1)?.first().map_or(0, |last| last.version.unsigned_abs());
    let now = reader.lock().version;
    let key = harness.signer().public();
    let (records, _) = VerdictStore::new(harness.layout()).all()?;
    let in_vain = |record: &VerdictRecord| {
        let base = &record.verdict.base;
        base.brain == *reader.id()
            && base.version >= changed
            && now.saturating_sub(base.version) < AGAIN_AFTER
            && (record.verdict.verdict != VerdictRuling::Approve
                || is_voted_down(record)
                || matches!(last_audit(&record.path, &record.verdict, key), Ok(Some(audit)) if !audit.agrees))
    };
    Ok(records.into_iter().filter(in_vain).map(|record| record.patch.changes().to_vec()).collect())
}
