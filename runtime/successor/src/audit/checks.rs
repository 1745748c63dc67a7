//! What the verifier checks before it forks, and after. Pure: what was read goes in, findings come out. The checks in
//! words are in `docs/operate/autogenesis.md`.

use super::folder::{Folder, Thing};
use super::{APPROVAL_FILE, AUDIT_FILE, AuditArea, AuditFinding, CONSENSUS_FILE};
use crate::evaluation::{Evaluation, EvaluationPart};
use crate::judge::conditions::{GoalStatus, find, goal_status};
use crate::judge::judge;
use crate::measure::EvaluationSample;
use crate::patch::Patch;
use crate::receipt::{Envelope, PublicKey};
use crate::records::{EVALUATION, MEASUREMENTS, PATCH, REPORT, SIGNED, VERDICT, json};
use crate::verdict::{MetricComparison, Verdict, VerdictRuling};

/// A goal that carries an approval rests on at least so many units: cases, or repetitions of a noisy metric.
pub const LEAST_UNITS: usize = crate::judge::statistics::FEW;
/// An approval that rests on noisy metrics alone needs at least so many units.
pub const NOISY_UNITS: usize = 20;
/// And a sign-flip test at least as clear as this.
pub const NOISY_P: f64 = 0.01;
/// A guard that allows more than this is none.
pub const LOOSEST_SLACK: f64 = 0.5;
/// The fewest escapes that must have been tried before the patch was loaded.
pub const LEAST_CANARY: usize = 12;
/// Walls without which nothing that was measured counts.
const NEEDED_LAYERS: [&str; 5] = ["MountView", "ProcessNamespace", "NetworkNamespace", "Seccomp", "Canary"];
/// How much processor time may be booked beyond the share of the wall time: starting and ending count as well.
const CPU_GRACE_MILLIS: u64 = 1_000;
/// Ends of an evaluation that the judge has no part in, by how their names begin.
const WITHOUT_A_JUDGE: [&str; 4] = ["sandbox_", "budget_", "worker_", "patch_refused"];

/// What was in a record.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) verdict: Verdict,
    pub(super) patch: Patch,
    pub(super) evaluation: Evaluation,
}

/// What looking at a record gave.
#[derive(Debug)]
pub(super) struct RecordCheck {
    pub(super) findings: Vec<AuditFinding>,
    pub(super) opened: Option<Opened>,
}

/// Everything that can be said of a record without running anything.
pub(super) fn look(folder: &Folder, name: &str, key: &PublicKey) -> RecordCheck {
    let mut findings = Vec::new();
    let opened = open(folder, name, key, &mut findings);
    if let Some(opened) = &opened {
        let Opened { verdict, evaluation, .. } = opened;
        findings.extend(artifacts(folder, verdict));
        findings.extend(oracle(folder, verdict, evaluation));
        findings.extend(method(verdict, evaluation));
        findings.extend(budgets(verdict, evaluation));
        findings.extend(walls(verdict, "the first successor"));
    }
    RecordCheck { findings, opened }
}

/// The verdict that this operator signed, with its patch and evaluation.
fn open(folder: &Folder, name: &str, key: &PublicKey, findings: &mut Vec<AuditFinding>) -> Option<Opened> {
    let mut fault = |sentence: String| findings.push(AuditFinding::fault(AuditArea::Integrity, sentence));
    let mut content = |file: &'static str| {
        let content = folder.contents.get(file);
        if content.is_none() {
            fault(format!("{file} is missing or cannot be read."));
        }
        content
    };
    let (signed, plain) = (content(SIGNED), content(VERDICT));
    let (patch_file, evaluation_file) = (content(PATCH), content(EVALUATION));
    let envelope = match Envelope::parse(&String::from_utf8_lossy(signed?)) {
        Ok(envelope) => envelope,
        Err(_) => {
            fault(format!("{SIGNED} is not a DSSE envelope."));
            return None;
        }
    };
    let by = envelope.keyid().unwrap_or_default().to_owned();
    if by != key.to_string() {
        fault(format!("The verdict is signed by {by:?}, not by this operator's key {key}."));
        return None;
    }
    let verdict = match Verdict::open(&envelope, key) {
        Ok(verdict) => verdict,
        Err(error) => {
            fault(format!("The signature of the verdict does not hold: {}.", error.message()));
            return None;
        }
    };
    if envelope.to_line().ok().as_deref().map(str::as_bytes) != signed.map(Vec::as_slice) {
        fault(format!("{SIGNED} was changed around its envelope."));
    }
    match verdict.hash() {
        Ok(hash) if hash.starts_with(&format!("sha256:{name}")) => {}
        _ => fault(format!("The directory is named {name}, and its verdict is another one.")),
    }
    if plain.is_some_and(|plain| json(&verdict).ok().as_ref() != Some(plain)) {
        fault(format!("{VERDICT} is not the verdict that was signed."));
    }
    let patch = patch_file.and_then(|bytes| match Patch::parse(bytes) {
        Ok(patch) if patch.hash() == verdict.patch_hash => Some(patch),
        Ok(patch) => {
            fault(format!("{PATCH} has the hash {}, and the verdict is about {}.", patch.hash(), verdict.patch_hash));
            None
        }
        Err(error) => {
            fault(format!("{PATCH} is no patch any more: {}.", error.message()));
            None
        }
    });
    let evaluation = evaluation_file.and_then(|bytes| match Evaluation::read_back(bytes) {
        Err(error) => {
            fault(format!("{EVALUATION} is no evaluation any more: {}.", error.message()));
            None
        }
        Ok(evaluation) => {
            let hash = evaluation.hash().unwrap_or_default();
            if hash != verdict.evaluation_hash {
                fault(format!(
                    "{EVALUATION} has the hash {hash}, and the verdict is about {}.",
                    verdict.evaluation_hash
                ));
                return None;
            }
            if json(&evaluation).ok().as_ref() != Some(bytes) {
                fault(format!("{EVALUATION} was changed around its content."));
            }
            Some(evaluation)
        }
    });
    Some(Opened { verdict, patch: patch?, evaluation: evaluation? })
}

/// Whether every file is the one that was signed for, and no other is there.
fn artifacts(folder: &Folder, verdict: &Verdict) -> Vec<AuditFinding> {
    let mut findings = Vec::new();
    let mut fault = |sentence: String| findings.push(AuditFinding::fault(AuditArea::Artifacts, sentence));
    for artifact in &verdict.artifacts {
        let path = &artifact.path;
        match folder.things.get(path) {
            None => fault(format!("The artifact {path} is gone.")),
            Some(Thing::Odd(what)) => fault(format!("The artifact {path} is no regular file: {what}.")),
            Some(Thing::File { bytes, .. }) if *bytes != artifact.bytes => {
                fault(format!("The artifact {path} has {bytes} bytes, and {} were signed for.", artifact.bytes));
            }
            Some(Thing::File { sha256, .. }) if *sha256 != artifact.sha256 => {
                fault(format!("The artifact {path} has the SHA-256 {sha256}, and {} was signed for.", artifact.sha256));
            }
            Some(Thing::File { .. }) => {}
        }
    }
    for needed in [REPORT, MEASUREMENTS] {
        if !verdict.artifacts.iter().any(|artifact| artifact.path == needed) {
            fault(format!("The verdict does not name {needed} among its artifacts."));
        }
    }
    // Documents that others sign, or that are signed later, are checked by the code that relies on them.
    let ours = [VERDICT, SIGNED, PATCH, EVALUATION, AUDIT_FILE, APPROVAL_FILE, CONSENSUS_FILE];
    for (path, thing) in &folder.things {
        let is_known = ours.contains(&path.as_str()) || verdict.artifacts.iter().any(|artifact| artifact.path == *path);
        match thing {
            Thing::Odd(what) if !verdict.artifacts.iter().any(|artifact| artifact.path == *path) => {
                fault(format!("{path} is no regular file: {what}."));
            }
            Thing::File { .. } if !is_known => fault(format!("{path} is in the record, and nobody signed for it.")),
            Thing::File { .. } | Thing::Odd(_) => {}
        }
    }
    if folder.is_cut {
        fault("The record holds more files than any record has.".to_owned());
    }
    findings
}

/// Whether the judge, given the measurements once more, says what was signed.
fn oracle(folder: &Folder, verdict: &Verdict, evaluation: &Evaluation) -> Vec<AuditFinding> {
    let fault = |sentence: String| vec![AuditFinding::fault(AuditArea::Integrity, sentence)];
    if verdict.seed != evaluation.seed {
        return fault(format!("The verdict says seed {}, and its evaluation has {}.", verdict.seed, evaluation.seed));
    }
    let Some(content) = folder.contents.get(MEASUREMENTS) else {
        return fault(format!("{MEASUREMENTS} is missing, so the verdict cannot be judged again."));
    };
    let samples: Vec<EvaluationSample> = match serde_json::from_slice(content) {
        Ok(samples) => samples,
        Err(error) => return fault(format!("{MEASUREMENTS} cannot be read, so nothing can be judged again: {error}.")),
    };
    let reason = verdict.reason.as_deref().unwrap_or_default();
    if WITHOUT_A_JUDGE.iter().any(|beginning| reason.starts_with(beginning)) {
        let is_plain =
            verdict.verdict == VerdictRuling::Reject && verdict.confidence == 1.0 && verdict.statistics.is_empty();
        return match is_plain {
            true => vec![AuditFinding::caveat(
                AuditArea::Integrity,
                format!("It ended with {reason} before anything was compared: there is nothing to judge again."),
            )],
            false => fault(format!("It ended with {reason}, and yet the verdict has more than a rejection.")),
        };
    }
    let again = judge(&evaluation.without(&verdict.left_out), &samples, verdict.seed);
    let mut findings = Vec::new();
    let mut differs = |what: &str, found: String, signed: String| {
        if found != signed {
            let sentence = format!("Judged again from {MEASUREMENTS}, {what} is {found}, and {signed} was signed.");
            findings.push(AuditFinding::fault(AuditArea::Integrity, sentence));
        }
    };
    differs("the ruling", again.verdict.name().to_owned(), verdict.verdict.name().to_owned());
    differs("the confidence", again.confidence.to_string(), verdict.confidence.to_string());
    differs("the reason", format!("{:?}", again.reason), format!("{:?}", verdict.reason));
    differs("the count of checks", format!("{:?}", again.checks), format!("{:?}", verdict.checks));
    if again.summary != verdict.evaluation_summary {
        differs("the summary", format!("{:?}", again.summary), format!("{:?}", verdict.evaluation_summary));
    }
    if again.statistics.len() != verdict.statistics.len() {
        let count = |statistics: &[MetricComparison]| format!("{} comparisons", statistics.len());
        differs("the list of statistics", count(&again.statistics), count(&verdict.statistics));
    }
    for (again, signed) in again.statistics.iter().zip(&verdict.statistics) {
        if again != signed {
            let figure = |one: &MetricComparison| format!("{} → {} ({:+})", one.baseline, one.patched, one.change);
            let part = signed.part.as_deref().unwrap_or("all parts");
            let what = format!("{} in {part}", signed.metric.title());
            let (mut found, said) = (figure(again), figure(signed));
            if found == said {
                found.push_str(" with another interval");
            }
            differs(&what, found, said);
        }
    }
    if !again.caveats.iter().all(|caveat| verdict.caveats.contains(caveat)) {
        differs("the list of caveats", "longer".to_owned(), "a shorter one".to_owned());
    }
    findings
}

/// Whether the evaluation could carry the ruling. What is not approved needs no such carrying: there it is a caveat.
fn method(verdict: &Verdict, evaluation: &Evaluation) -> Vec<AuditFinding> {
    let mut findings = Vec::new();
    let mut weigh = |sentence: String| {
        findings.push(match verdict.verdict {
            VerdictRuling::Approve => AuditFinding::fault(AuditArea::Method, sentence),
            VerdictRuling::Reject | VerdictRuling::NeedsRevision => AuditFinding::caveat(AuditArea::Method, sentence),
        });
    };
    if let Err(error) = evaluation.validate() {
        weigh(format!("The evaluation breaks a rule: {}.", error.message()));
    }
    if evaluation.goals.is_empty() {
        weigh("The evaluation has no goal, so nothing could be shown to get better.".to_owned());
    }
    if evaluation.guards.is_empty() && verdict.checks.total == 0 {
        weigh("The evaluation has neither guards nor checks: anything could have got worse unseen.".to_owned());
    }
    for guard in evaluation.guards.iter().filter(|guard| guard.slack > LOOSEST_SLACK) {
        weigh(format!(
            "The guard on {} lets it be {:.0} % worse: that guards nothing.",
            guard.metric.title(),
            guard.slack * 100.0
        ));
    }
    let met: Vec<&MetricComparison> = evaluation
        .goals
        .iter()
        .filter(|goal| goal_status(evaluation, goal, &verdict.statistics) == GoalStatus::Met)
        .filter_map(|goal| find(&verdict.statistics, goal.metric, goal.part.as_deref()))
        .collect();
    if verdict.verdict == VerdictRuling::Approve {
        if met.is_empty() {
            weigh("No goal is met, and yet it was approved.".to_owned());
        }
        if !met.is_empty() && met.iter().all(|one| one.metric.is_noisy()) {
            let is_clear = |one: &&&MetricComparison| one.units >= NOISY_UNITS && one.p <= NOISY_P;
            match met.iter().find(is_clear) {
                None => weigh(format!(
                    "Only noisy metrics got better, and none with {NOISY_UNITS} units and p at most {NOISY_P}: the \
                     machine could have done that."
                )),
                Some(one) => findings.push(AuditFinding::caveat(
                    AuditArea::Method,
                    format!(
                        "Only noisy metrics got better; {} with {} units and p = {:.4}.",
                        one.metric.title(),
                        one.units,
                        one.p
                    ),
                )),
            }
        }
    }
    findings
}

/// Whether no budget was exceeded. Each sandbox has half of it: one for each side, and two more for each
/// repetition of a command.
fn budgets(verdict: &Verdict, evaluation: &Evaluation) -> Vec<AuditFinding> {
    let (budget, spent) = (&verdict.budget, &verdict.spent);
    let mut findings = Vec::new();
    let mut fault = |sentence: String| findings.push(AuditFinding::fault(AuditArea::Budgets, sentence));
    if let Err(error) = budget.validate() {
        fault(format!("The budget breaks a rule: {}.", error.message()));
    }
    let reason = verdict.reason.as_deref().unwrap_or_default();
    if reason.starts_with("budget_") {
        if verdict.verdict != VerdictRuling::Reject {
            fault(format!("A budget was crossed ({reason}), and yet the ruling is {}.", verdict.verdict.name()));
        }
        return findings;
    }
    let commands = evaluation.parts.iter().filter(|part| matches!(part, EvaluationPart::Command { .. })).count() as u64;
    let sandboxes = 2 + 2 * commands * u64::from(evaluation.repeat);
    let share = |whole: u64| (whole / 2).saturating_mul(sandboxes);
    let cpu = spent.wall_millis.saturating_mul(u64::from(budget.cpu_percent)) / 100;
    for (what, used, most) in [
        ("ms on the wall", spent.wall_millis, budget.wall_secs.saturating_mul(1_000)),
        ("ms on processors", spent.cpu_millis, cpu.saturating_add(CPU_GRACE_MILLIS)),
        ("millionths of a dollar", spent.micro_usd, budget.micro_usd),
        ("bytes on disk", spent.disk_bytes, share(budget.disk_bytes)),
        ("bytes of memory", spent.memory_bytes, share(budget.memory_bytes)),
        ("processes", u64::from(spent.processes), share(u64::from(budget.processes))),
        ("files", spent.files, share(budget.files)),
    ] {
        if used > most {
            fault(format!("It used {used} {what}, and {most} were allowed."));
        }
    }
    findings
}

/// Whether it stood in walls. A verdict that says there were none is a rejection.
fn walls(verdict: &Verdict, whose: &str) -> Vec<AuditFinding> {
    let walls = &verdict.walls;
    let reason = verdict.reason.as_deref().unwrap_or_default();
    if verdict.verdict == VerdictRuling::Reject && reason.starts_with("sandbox_") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut fault = |sentence: String| findings.push(AuditFinding::fault(AuditArea::Walls, sentence));
    if walls.tier.as_deref().unwrap_or_default().is_empty() {
        fault(format!("The verdict of {whose} names no sandbox."));
    }
    if walls.canary.len() < LEAST_CANARY {
        fault(format!(
            "Before {whose} began, {} escapes were tried, and {LEAST_CANARY} are the fewest.",
            walls.canary.len()
        ));
    }
    for needed in NEEDED_LAYERS {
        let is_on = |layer: &String| layer.split_whitespace().next() == Some(needed);
        if !walls.layers.iter().any(is_on) {
            fault(format!("The layer {needed} was not on around {whose}."));
        }
    }
    findings
}

/// What the second successor runs: held-out tasks, or the same with another seed; and what that does not tell.
pub(super) fn second_evaluation(
    first: &Evaluation,
    held_out: Option<Evaluation>,
    seed: u64,
) -> (Evaluation, Vec<AuditFinding>) {
    let caveat = |sentence: String| AuditFinding::caveat(AuditArea::Second, sentence);
    if let Some(held_out) = held_out {
        let caveats = match held_out.parts == first.parts {
            true => vec![caveat("The held-out tasks are the tasks of the first successor.".to_owned())],
            false => Vec::new(),
        };
        return (Evaluation { seed, ..held_out }, caveats);
    }
    let is_fixed = |part: &&EvaluationPart| match part {
        EvaluationPart::Suite { .. } | EvaluationPart::Replay { .. } | EvaluationPart::Calls { .. } => true,
        // A command has the seed in its environment; what it does with it is its own affair.
        EvaluationPart::Compress { .. } | EvaluationPart::Curate { .. } | EvaluationPart::Command { .. } => false,
    };
    let caveats = first.parts.iter().filter(is_fixed).map(|part| {
        caveat(format!(
            "Part “{}” does not depend on the seed: the second successor ran the same cases again.",
            part.name()
        ))
    });
    (Evaluation { seed, ..first.clone() }, caveats.collect())
}

/// Whether the second successor says the same as the first.
pub(super) fn second(first: &Verdict, second: &Verdict) -> Vec<AuditFinding> {
    let mut findings = walls(second, "the second successor");
    let mut fault = |sentence: String| findings.push(AuditFinding::fault(AuditArea::Second, sentence));
    if second.patch_hash != first.patch_hash {
        fault(format!("The second successor judged {}, not {}.", second.patch_hash, first.patch_hash));
    }
    if second.seed == first.seed {
        fault(format!("Both successors began with the seed {}.", first.seed));
    }
    if second.verdict != first.verdict {
        fault(format!(
            "The second successor ruled {}, and the first {}: {}",
            second.verdict.name(),
            first.verdict.name(),
            second.evaluation_summary
        ));
    }
    let moved = first.base.moved(&second.base);
    if moved.is_none() && second.identity != first.identity {
        fault("The same patch made another runtime of the same brain for the second successor.".to_owned());
    }
    if let Some(moved) = moved {
        findings.push(AuditFinding::caveat(
            AuditArea::Second,
            format!(
                "The brain has moved since: {moved}. The second successor judged what it is now, and a gate asks for a \
                 verdict about that."
            ),
        ));
    }
    findings
}
