#![expect(clippy::disallowed_methods, reason = "tampering changes files without `fsio`")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::checks::{RecordCheck, look, second, second_evaluation};
use super::folder::Folder;
use super::*;
use crate::budget::SuccessorUsage;
use crate::evaluation::{EvaluationPart, WrittenTask};
use crate::judge::fixtures::{evaluation, goal, guard, pairs};
use crate::judge::judge;
use crate::layout::Layout;
use crate::measure::{EvaluationSample, Metric};
use crate::patch::{Patch, PatchChange};
use crate::records::{EVALUATION, MEASUREMENTS, PATCH, REPORT, SIGNED, Saved, VERDICT, VerdictStore};
use crate::tuning::Component;
use crate::verdict::{RuntimeIdentity, SandboxSummary, VERDICT_SCHEMA};

/// A record of a real judgement on disk, and the key that signed it.
struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
    name: String,
    verdict: Verdict,
    evaluation: Evaluation,
    signer: Signer,
}

fn walls() -> SandboxSummary {
    let layers = ["MountView", "ProcessNamespace", "NetworkNamespace", "Seccomp", "Canary"];
    SandboxSummary {
        tier: Some("namespaces".to_owned()),
        layers: layers.map(|layer| format!("{layer} (on)")).to_vec(),
        canary: (0..12).map(|number| format!("probe {number}")).collect(),
    }
}

/// Twelve cases that keep more facts with the patch, and as many turns.
fn samples() -> Vec<EvaluationSample> {
    let values: Vec<[f64; 2]> = (0..12).map(|at| [0.2 + 0.013 * f64::from(at), 0.7 + 0.017 * f64::from(at)]).collect();
    let mut samples = pairs(Metric::KeptFacts, &values);
    for sample in &mut samples {
        sample.metrics.insert(Metric::Turns, 4.0);
    }
    samples
}

fn usual() -> Evaluation {
    Evaluation { goals: vec![goal(Metric::KeptFacts, 0.02)], guards: vec![guard(Metric::Turns, 0.05)], ..evaluation(1) }
}

fn verdict_of(evaluation: &Evaluation, samples: &[EvaluationSample], patch: &Patch) -> Verdict {
    let judged = judge(evaluation, samples, evaluation.seed);
    let bundle_hash = crate::ids::Digest::of(b"a brain");
    Verdict {
        schema: VERDICT_SCHEMA.to_owned(),
        verdict: judged.verdict,
        confidence: judged.confidence,
        patch_hash: patch.hash(),
        evaluation_hash: evaluation.hash().unwrap(),
        evaluation_summary: judged.summary,
        caveats: judged.caveats,
        left_out: Vec::new(),
        artifacts: Vec::new(),
        reason: judged.reason,
        base: PatchBase { brain: "1".parse().unwrap(), version: 4, bundle_hash, touched: None },
        identity: RuntimeIdentity { before: "sha256:a".to_owned(), after: Some("sha256:b".to_owned()) },
        budget: SuccessorBudget::default(),
        spent: SuccessorUsage { wall_millis: 2_000, cpu_millis: 1_000, ..SuccessorUsage::default() },
        walls: walls(),
        seed: evaluation.seed,
        checks: judged.checks,
        statistics: judged.statistics,
        started_at: Timestamp(1_767_323_045_000),
        ended_at: Timestamp(1_767_323_047_000),
    }
}

impl Bench {
    fn new() -> Self {
        Self::of(usual(), samples(), |_| {})
    }

    fn of(evaluation: Evaluation, samples: Vec<EvaluationSample>, change: impl FnOnce(&mut Verdict)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let signer = Signer::from_seed([3; 32]);
        let swap = PatchChange::Component { component: Component::Compressor, to: "salient".to_owned() };
        let patch = Patch::new("Swap the compressor", None, vec![swap]).unwrap();
        let mut verdict = verdict_of(&evaluation, &samples, &patch);
        change(&mut verdict);
        let making = VerdictStore::new(&Layout::new(dir.path())).begin(&dir.path().join("making")).unwrap();
        let saved = Saved { verdict, patch: &patch, evaluation: &evaluation, samples: &samples };
        let (verdict, path) = making.finish(saved, &signer).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Self { _dir: dir, path, name, verdict, evaluation, signer }
    }

    fn look(&self) -> RecordCheck {
        look(&Folder::read(&self.path).unwrap(), &self.name, self.signer.public())
    }

    fn sentences(&self) -> Vec<String> {
        let faults = self.look().findings.into_iter().filter(|finding| finding.weight == AuditSeverity::Fault);
        faults.map(|finding| finding.sentence).collect()
    }

    /// The one fault after a file was changed.
    fn after(file: &str, change: impl FnOnce(String) -> String) -> Vec<String> {
        let bench = Self::new();
        let path = bench.path.join(file);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
        bench.sentences()
    }
}

#[test]
fn a_record_that_nobody_touched_has_no_fault_and_reads_back_as_it_was_judged() {
    let bench = Bench::new();
    assert_eq!(bench.verdict.verdict, VerdictRuling::Approve);
    let looked = bench.look();
    assert_eq!(looked.findings, []);
    assert_eq!(looked.opened.unwrap().verdict, bench.verdict);
}

#[test]
fn a_changed_byte_of_a_report_or_of_measurements_is_found() {
    let report = Bench::after("report.html", |text| text.replacen("<html", "<HTML", 1));
    assert!(report.len() == 1 && report[0].starts_with("The artifact report.html has the SHA-256 "), "{report:?}");
    let longer = Bench::after("report.html", |text| text + " ");
    assert!(longer.len() == 1 && longer[0].starts_with("The artifact report.html has "), "{longer:?}");
    // A figure that makes the patch look worse: the digest does not fit, and neither does the judgement.
    let measured = Bench::after("measurements.json", |text| text.replacen("0.887", "0.187", 1));
    assert!(measured.iter().any(|found| found.starts_with("The artifact measurements.json has ")), "{measured:?}");
    let judged = "Judged again from measurements.json, facts kept in all parts is ";
    assert!(measured.iter().any(|found| found.starts_with(judged)), "{measured:?}");
}

#[test]
fn a_changed_verdict_is_found_whichever_copy_it_is() {
    let plain = Bench::after("verdict.json", |text| text.replacen("0.05", "0.06", 1).replacen("APPROVE", "REJECT", 1));
    assert_eq!(plain, ["verdict.json is not the verdict that was signed."]);
    let signed = Bench::after("verdict.dsse.json", |text| {
        let at = text.find("\"payload\":\"").unwrap() + 400;
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        format!("{}{other}{}", &text[..at], &text[at + 1..])
    });
    assert!(signed.len() == 1 && signed[0].starts_with("The signature of the verdict does not hold: "), "{signed:?}");
    let spaced = Bench::after("verdict.dsse.json", |text| text + "\n");
    assert_eq!(spaced, ["verdict.dsse.json was changed around its envelope."]);
    let garbage = Bench::after("verdict.dsse.json", |_| "{}".to_owned());
    assert_eq!(garbage, ["verdict.dsse.json is not a DSSE envelope."]);
}

#[test]
fn a_changed_patch_or_evaluation_is_found() {
    let patch = Bench::after("patch.json", |text| text.replace("salient", "oldest-first"));
    assert!(patch.len() == 1 && patch[0].starts_with("patch.json has the hash sha256:"), "{patch:?}");
    let broken = Bench::after("patch.json", |text| text.replace("salient", "psychic"));
    assert!(broken.len() == 1 && broken[0].starts_with("patch.json is no patch any more: "), "{broken:?}");
    let evaluation = Bench::after("evaluation.json", |text| text.replace("\"seed\": 1", "\"seed\": 2"));
    assert!(evaluation.len() == 1 && evaluation[0].starts_with("evaluation.json has the hash sha256:"));
    let spaced = Bench::after("evaluation.json", |text| text + " ");
    assert_eq!(spaced, ["evaluation.json was changed around its content."]);
}

#[test]
fn a_file_more_or_less_and_links_are_found() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path.join(".hidden")).unwrap();
    fs::write(bench.path.join(".hidden/notes.txt"), "x").unwrap();
    assert_eq!(bench.sentences(), [".hidden/notes.txt is in the record, and nobody signed for it."]);

    let bench = Bench::new();
    std::os::unix::fs::symlink("/etc/hostname", bench.path.join("extra")).unwrap();
    assert_eq!(bench.sentences(), ["extra is no regular file: a symbolic link."]);

    let bench = Bench::new();
    let (report, aside) = (bench.path.join("report.html"), bench._dir.path().join("report.html"));
    fs::rename(&report, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &report).unwrap();
    assert_eq!(bench.sentences(), ["The artifact report.html is no regular file: a symbolic link."]);

    let bench = Bench::new();
    fs::remove_file(bench.path.join("report.html")).unwrap();
    assert_eq!(bench.sentences(), ["The artifact report.html is gone."]);

    let bench = Bench::new();
    fs::remove_file(bench.path.join("patch.json")).unwrap();
    assert_eq!(bench.sentences(), ["patch.json is missing or cannot be read."]);
}

#[test]
fn a_verdict_of_another_key_or_in_another_place_is_found() {
    let bench = Bench::new();
    let stranger = Signer::from_seed([9; 32]);
    let looked = look(&Folder::read(&bench.path).unwrap(), &bench.name, stranger.public());
    let signer = bench.signer.public();
    let expected =
        format!("The verdict is signed by {:?}, not by this operator's key {}.", signer.to_string(), stranger.public());
    assert_eq!(looked.findings, [AuditFinding::fault(AuditArea::Integrity, expected)]);
    assert!(looked.opened.is_none());
    let moved = look(&Folder::read(&bench.path).unwrap(), "0000000000000000", signer);
    assert_eq!(moved.findings[0].sentence, "The directory is named 0000000000000000, and its verdict is another one.");
}

#[test]
fn a_signed_verdict_that_does_not_follow_from_its_measurements_is_found() {
    let lied = Bench::of(usual(), samples(), |verdict| verdict.confidence = 0.5);
    let found = lied.sentences();
    assert!(
        found.len() == 1 && found[0].starts_with("Judged again from measurements.json, the confidence is 1, "),
        "{found:?}"
    );
    let lied = Bench::of(usual(), samples(), |verdict| {
        verdict.verdict = VerdictRuling::NeedsRevision;
        verdict.statistics[0].patched += 1e-9;
    });
    let found = lied.sentences().join("\n");
    assert!(found.contains("the ruling is APPROVE, and NEEDS_REVISION was signed."), "{found}");
    assert!(found.contains("facts kept in all parts is "), "{found}");
    let silent = Bench::of(usual(), samples().into_iter().take(6).collect(), |verdict| verdict.caveats.clear());
    let found = silent.sentences().join("\n");
    assert!(found.contains("the list of caveats is longer, and a shorter one was signed."), "{found}");
}

#[test]
fn a_method_that_cannot_carry_an_approval_is_found() {
    let few =
        Bench::of(usual(), samples().into_iter().take(6).collect(), |verdict| verdict.verdict = VerdictRuling::Approve);
    let found = few.sentences().join("\n");
    assert!(found.contains("No goal is met, and yet it was approved."), "{found}");

    let loose = Evaluation { guards: vec![guard(Metric::Turns, 0.8)], ..usual() };
    let loose = Bench::of(loose, samples(), |_| {}).sentences();
    assert_eq!(loose, ["The guard on turns lets it be 80 % worse: that guards nothing."]);

    let noisy: Vec<[f64; 2]> = (0..12).map(|at| [100.0 + f64::from(at), 50.0 + f64::from(at)]).collect();
    let timed = Evaluation { goals: vec![goal(Metric::WallMicros, 0.02)], guards: Vec::new(), ..evaluation(1) };
    let timed = Bench::of(timed, pairs(Metric::WallMicros, &noisy), |_| {});
    assert_eq!(timed.verdict.verdict, VerdictRuling::Approve);
    assert!(timed.sentences()[0].starts_with("Only noisy metrics got better, "), "{:?}", timed.sentences());

    let mut unchecked = samples();
    unchecked.iter_mut().for_each(|sample| sample.checks.clear());
    let unguarded = Bench::of(Evaluation { guards: Vec::new(), ..usual() }, unchecked, |_| {}).sentences();
    assert_eq!(unguarded, ["The evaluation has neither guards nor checks: anything could have got worse unseen."]);
}

#[test]
fn budgets_that_were_exceeded_and_walls_that_did_not_stand_are_found() {
    let said = |change: fn(&mut Verdict)| Bench::of(usual(), samples(), change).sentences();
    assert_eq!(
        said(|verdict| verdict.spent.micro_usd = 5_000_001),
        ["It used 5000001 millionths of a dollar, and 5000000 were allowed."]
    );
    assert_eq!(
        said(|verdict| verdict.spent.wall_millis = 3_600_001),
        ["It used 3600001 ms on the wall, and 3600000 were allowed."]
    );
    assert_eq!(
        said(|verdict| verdict.spent.cpu_millis = 5_001),
        ["It used 5001 ms on processors, and 5000 were allowed."]
    );
    assert_eq!(said(|verdict| verdict.walls.tier = None), ["The verdict of the first successor names no sandbox."]);
    assert_eq!(
        said(|verdict| verdict.walls.canary.truncate(11)),
        ["Before the first successor began, 11 escapes were tried, and 12 are the fewest."]
    );
    assert_eq!(
        said(|verdict| verdict.walls.layers.retain(|layer| !layer.starts_with("Seccomp"))),
        ["The layer Seccomp was not on around the first successor."]
    );
}

#[test]
fn a_rejection_before_anything_was_compared_needs_no_judge() {
    let bench = Bench::of(usual(), Vec::new(), |verdict| {
        verdict.verdict = VerdictRuling::Reject;
        verdict.confidence = 1.0;
        verdict.reason = Some("budget_wall".to_owned());
        verdict.statistics.clear();
    });
    assert_eq!(bench.sentences(), Vec::<String>::new());
    let lied = Bench::of(usual(), samples(), |verdict| verdict.reason = Some("budget_wall".to_owned())).sentences();
    assert_eq!(
        lied,
        [
            "It ended with budget_wall, and yet the verdict has more than a rejection.",
            "A budget was crossed (budget_wall), and yet the ruling is APPROVE."
        ]
    );
}

#[test]
fn the_second_seed_follows_from_the_verdict_and_is_never_the_first() {
    let seed = second_seed("sha256:ab", 1);
    assert_eq!(seed, second_seed("sha256:ab", 1));
    assert_ne!(seed, second_seed("sha256:ac", 1));
    assert_ne!(second_seed("sha256:ab", seed), seed);
    let many: BTreeSet<u64> = (0..100).map(|first| second_seed("sha256:ab", first)).collect();
    assert!(many.len() == 100 && many.iter().all(|seed| *seed < 1 << 53));
}

#[test]
fn what_does_not_depend_on_the_seed_is_said() {
    let task = WrittenTask { name: "t".into(), input: "i".into(), replies: None, limits: None, checks: Vec::new() };
    let mut first = usual();
    first.parts.push(EvaluationPart::Suite { name: "everyday".to_owned(), tasks: vec![task] });
    let (again, caveats) = second_evaluation(&first, None, 77);
    assert_eq!(again, Evaluation { seed: 77, ..first.clone() });
    assert_eq!(caveats.len(), 1);
    assert!(caveats[0].sentence.starts_with("Part “everyday” does not depend on the seed"));
    let (held, caveats) = second_evaluation(&first, Some(usual()), 77);
    assert_eq!((held, caveats), (Evaluation { seed: 77, ..usual() }, Vec::new()));
    let (_, caveats) = second_evaluation(&first, Some(first.clone()), 77);
    assert_eq!(caveats[0].sentence, "The held-out tasks are the tasks of the first successor.");
}

#[test]
fn a_second_successor_that_rules_otherwise_is_a_fault_and_a_brain_that_moved_a_caveat() {
    let bench = Bench::new();
    let first = &bench.verdict;
    let same = Verdict { seed: 9, ..first.clone() };
    assert_eq!(second(first, &same), []);
    let other =
        Verdict { verdict: VerdictRuling::Reject, evaluation_summary: "Turns got worse.".to_owned(), ..same.clone() };
    assert_eq!(
        second(first, &other)[0].sentence,
        "The second successor ruled REJECT, and the first APPROVE: Turns got worse."
    );
    let moved = Verdict { base: PatchBase { version: 5, ..first.base.clone() }, ..same.clone() };
    assert_eq!(second(first, &moved).iter().map(|one| one.weight).collect::<Vec<_>>(), [AuditSeverity::Caveat]);
    let changed = Verdict { identity: RuntimeIdentity { before: "sha256:z".to_owned(), after: None }, ..same.clone() };
    assert_eq!(second(first, &changed)[0].weight, AuditSeverity::Fault);
    assert_eq!(
        second(first, &Verdict { seed: first.seed, ..same })[0].sentence,
        "Both successors began with the seed 1."
    );
    assert_eq!(bench.evaluation.hash().unwrap(), first.evaluation_hash);
}

#[test]
fn an_audit_reads_back_from_its_envelope_and_from_no_other_key() {
    let signer = Signer::from_seed([3; 32]);
    let audit = Audit {
        schema: AUDIT_SCHEMA.to_owned(),
        about: "sha256:ab".to_owned(),
        agrees: false,
        findings: vec![AuditFinding::fault(AuditArea::Walls, "It had none.")],
        verdict: Some("sha256:cd".to_owned()),
        ruling: Some(VerdictRuling::Reject),
        seed: 5,
        held_out: false,
        base: None,
        started_at: Timestamp(0),
        ended_at: Timestamp(1),
    };
    let envelope = audit.seal(&signer).unwrap();
    assert_eq!(Audit::open(&envelope, signer.public()).unwrap(), audit);
    assert!(Audit::open(&envelope, Signer::from_seed([4; 32]).public()).is_err());
    let verdict = Bench::new().verdict.seal(&signer).unwrap();
    assert!(Audit::open(&verdict, signer.public()).is_err(), "a verdict is no audit");
}

/// One record for many changes, each taken back again.
static RECORD: std::sync::LazyLock<Bench> = std::sync::LazyLock::new(Bench::new);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_byte_of_a_record_can_be_changed_unseen(file in 0..6_usize, at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let files = [VERDICT, SIGNED, PATCH, EVALUATION, MEASUREMENTS, REPORT];
        let path = RECORD.path.join(files[file]);
        let before = fs::read(&path).unwrap();
        let mut changed = before.clone();
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        fs::write(&path, changed).unwrap();
        let found = RECORD.sentences();
        fs::write(&path, before).unwrap();
        prop_assert!(!found.is_empty(), "{} byte {at}", files[file]);
    }
}
