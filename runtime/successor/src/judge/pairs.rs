//! Samples, put in pairs: what belongs together, what checks came to over the repetitions of a case,
//! and what is wrong with what was handed in. Nothing here depends on the order of the samples.

use std::collections::{BTreeMap, BTreeSet};

use crate::evaluation::{Evaluation, EvaluationPart};
use crate::judge::figures::line;
use crate::measure::{EvaluationArm, EvaluationSample};

/// Both sides of one repetition of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) baseline: &'a EvaluationSample,
    pub(crate) patched: &'a EvaluationSample,
}

impl Pair<'_> {
    /// Whether both sides ran. Only then is there anything to compare.
    pub(crate) fn ran(&self) -> bool {
        self.baseline.failure.is_none() && self.patched.failure.is_none()
    }
}

/// A case with its pairs, in the order of the repetitions.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) part: &'a str,
    pub(crate) name: &'a str,
    pub(crate) pairs: Vec<Pair<'a>>,
}

impl<'a> Case<'a> {
    /// The samples of one side.
    pub(crate) fn side(&self, arm: EvaluationArm) -> impl Iterator<Item = &'a EvaluationSample> {
        self.pairs.iter().map(move |pair| match arm {
            EvaluationArm::Baseline => pair.baseline,
            EvaluationArm::Patched => pair.patched,
        })
    }

    /// How many repetitions of a side could not be run.
    pub(crate) fn failures(&self, arm: EvaluationArm) -> usize {
        self.side(arm).filter(|sample| sample.failure.is_some()).count()
    }

    /// Whether it ran in most repetitions of the baseline.
    pub(crate) fn runs_in_the_baseline(&self) -> bool {
        self.failures(EvaluationArm::Baseline) * 2 < self.pairs.len()
    }

    /// The case by part and name, for sentences.
    pub(crate) fn label(&self) -> String {
        label(self.part, self.name)
    }
}

/// A case by part and name, for sentences.
pub(crate) fn label(part: &str, case: &str) -> String {
    format!("“{}” of “{}”", line(case, 60), line(part, 60))
}

/// All samples of an evaluation, as pairs of baseline and patched, by case.
#[derive(Debug)]
pub(crate) struct Pairing<'a> {
    /// By part and name.
    pub(crate) cases: Vec<Case<'a>>,
    /// What is wrong with the samples.
    pub(crate) flaws: Vec<Flaw>,
}

/// What can be wrong with samples. Each of them makes a comparison worthless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The same side of the same pair more than once.
    Twice(String),
    /// A side of a pair is not there.
    Missing(String),
    /// The evaluation has no such part, case or repetition.
    Unknown(String),
    /// The two sides, or two repetitions, were not checked for the same.
    ChecksDiffer(String),
}

impl Flaw {
    /// The reason that a verdict rejected for this flaw carries.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Twice(_) => "sample_twice",
            Self::Missing(_) => "sample_missing",
            Self::Unknown(_) => "sample_unknown",
            Self::ChecksDiffer(_) => "checks_differ",
        }
    }

    /// The flaw in one sentence, for the summary or a caveat.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Twice(of) => format!("{of} was handed in twice."),
            Self::Missing(of) => format!("{of} is missing."),
            Self::Unknown(of) => format!("{of} is not part of the evaluation."),
            Self::ChecksDiffer(of) => format!("{of} was not checked for the same on both sides."),
        }
    }
}

impl<'a> Pairing<'a> {
    /// Puts samples in pairs and finds what is wrong with them.
    pub(crate) fn of(evaluation: &Evaluation, samples: &'a [EvaluationSample]) -> Self {
        let mut sorted: Vec<&EvaluationSample> = samples.iter().collect();
        sorted.sort_by(|a, b| (&a.part, &a.case, a.repetition, a.arm).cmp(&(&b.part, &b.case, b.repetition, b.arm)));
        let mut pairing = Self { cases: Vec::new(), flaws: Vec::new() };
        let same_case = |a: &&EvaluationSample, b: &&EvaluationSample| a.part == b.part && a.case == b.case;
        let same_pair = |a: &&EvaluationSample, b: &&EvaluationSample| a.repetition == b.repetition;
        let known = known_cases(evaluation);
        for samples in sorted.chunk_by(same_case) {
            let first = samples[0];
            let mut case = Case { part: &first.part, name: &first.case, pairs: Vec::new() };
            let is_known =
                known.get(case.part).is_some_and(|names| names.as_ref().is_none_or(|names| names.contains(case.name)));
            for sides in samples.chunk_by(same_pair) {
                let is_expected = is_known && sides[0].repetition < evaluation.repeat;
                pairing.pair(&mut case, sides, is_expected);
            }
            if let Some(flaw) = unlike_checks(&case) {
                pairing.flaws.push(flaw);
            }
            pairing.cases.push(case);
        }
        pairing
    }

    fn pair(&mut self, case: &mut Case<'a>, sides: &[&'a EvaluationSample], is_expected: bool) {
        let repetition = sides[0].repetition;
        let name = |arm: EvaluationArm| format!("Repetition {repetition} of {} ({})", case.label(), arm.name());
        if !is_expected {
            self.flaws.push(Flaw::Unknown(name(sides[0].arm)));
        }
        for arm in EvaluationArm::BOTH {
            match sides.iter().filter(|sample| sample.arm == arm).count() {
                0 => self.flaws.push(Flaw::Missing(name(arm))),
                1 => {}
                _ => self.flaws.push(Flaw::Twice(name(arm))),
            }
        }
        let side = |arm: EvaluationArm| sides.iter().find(|sample| sample.arm == arm).copied();
        if let (Some(baseline), Some(patched)) = (side(EvaluationArm::Baseline), side(EvaluationArm::Patched)) {
            case.pairs.push(Pair { baseline, patched });
        }
    }

    /// What every check came to, in the order of the cases.
    pub(crate) fn tallies(&self) -> Vec<Tally<'a>> {
        self.cases.iter().flat_map(tally).collect()
    }
}

/// The cases the evaluation has by part, where it names them: those of suites.
fn known_cases(evaluation: &Evaluation) -> BTreeMap<&str, Option<BTreeSet<&str>>> {
    evaluation.parts.iter().map(|part| (part.name(), task_names(part))).collect()
}

fn task_names(part: &EvaluationPart) -> Option<BTreeSet<&str>> {
    match part {
        EvaluationPart::Suite { tasks, .. } => Some(tasks.iter().map(|task| task.name.as_str()).collect()),
        _ => None,
    }
}

fn unlike_checks(case: &Case<'_>) -> Option<Flaw> {
    let mut ran = case.pairs.iter().filter(|pair| pair.ran()).flat_map(|pair| [pair.baseline, pair.patched]);
    let first = ran.next()?;
    let names = |sample: &EvaluationSample| sample.checks.iter().map(|check| check.name.clone()).collect::<Vec<_>>();
    let wanted = names(first);
    ran.any(|sample| names(sample) != wanted).then(|| Flaw::ChecksDiffer(case.label()))
}

/// One check of a case, over its repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally<'a> {
    pub(crate) part: &'a str,
    pub(crate) case: &'a str,
    pub(crate) check: &'a str,
    /// Repetitions that ran on both sides.
    pub(crate) runs: usize,
    /// How many of them passed in the baseline.
    pub(crate) baseline: usize,
    /// How many of them passed with the patch.
    pub(crate) patched: usize,
    /// What the patched side gave instead, the first time it failed.
    pub(crate) found: Option<&'a str>,
}

/// What became of a check. The order is the one in which a reader wants to see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Passed before, fails with the patch.
    Regressed,
    /// Fails on both sides.
    Failing,
    /// Failed before, passes with the patch.
    Fixed,
    /// Passes on both sides.
    Passing,
}

impl Tally<'_> {
    /// A side passes a check if most of its repetitions do; half of them is not most.
    pub(crate) fn outcome(&self) -> Outcome {
        match (self.baseline * 2 > self.runs, self.patched * 2 > self.runs) {
            (true, false) => Outcome::Regressed,
            (false, false) => Outcome::Failing,
            (false, true) => Outcome::Fixed,
            (true, true) => Outcome::Passing,
        }
    }

    /// Whether repetitions of one side disagree.
    pub(crate) fn is_flaky(&self) -> bool {
        [self.baseline, self.patched].iter().any(|passed| (1..self.runs).contains(passed))
    }
}

fn tally<'a>(case: &Case<'a>) -> Vec<Tally<'a>> {
    let ran: Vec<&Pair<'a>> = case.pairs.iter().filter(|pair| pair.ran()).collect();
    let Some(first) = ran.first() else { return Vec::new() };
    let passed = |sample: &EvaluationSample, index: usize| sample.checks.get(index).is_some_and(|check| check.passed);
    let one = |(index, check): (usize, &'a crate::measure::SampleCheck)| Tally {
        part: case.part,
        case: case.name,
        check: &check.name,
        runs: ran.len(),
        baseline: ran.iter().filter(|pair| passed(pair.baseline, index)).count(),
        patched: ran.iter().filter(|pair| passed(pair.patched, index)).count(),
        found: ran
            .iter()
            .filter_map(|pair| pair.patched.checks.get(index))
            .find(|check| !check.passed)
            .and_then(|check| check.found.as_deref()),
    };
    first.baseline.checks.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fixtures::{evaluation, sample};

    fn codes(samples: &[EvaluationSample]) -> Vec<&'static str> {
        Pairing::of(&evaluation(2), samples).flaws.iter().map(Flaw::code).collect()
    }

    #[test]
    fn whole_pairs_have_no_flaws_and_come_in_order() {
        let samples = [
            sample("b", 0, EvaluationArm::Patched),
            sample("b", 0, EvaluationArm::Baseline),
            sample("a", 1, EvaluationArm::Patched),
            sample("a", 1, EvaluationArm::Baseline),
            sample("a", 0, EvaluationArm::Baseline),
            sample("a", 0, EvaluationArm::Patched),
        ];
        let evaluation = evaluation(2);
        let pairing = Pairing::of(&evaluation, &samples);
        assert_eq!(pairing.flaws, []);
        let shape: Vec<_> = pairing.cases.iter().map(|case| (case.name, case.pairs.len())).collect();
        assert_eq!(shape, [("a", 2), ("b", 1)]);
    }

    #[test]
    fn what_is_missing_twice_or_from_elsewhere_is_named() {
        let [baseline, patched] = EvaluationArm::BOTH.map(|arm| sample("a", 0, arm));
        assert_eq!(codes(std::slice::from_ref(&baseline)), ["sample_missing"]);
        assert_eq!(codes(&[baseline.clone(), patched.clone(), patched.clone()]), ["sample_twice"]);
        let late = EvaluationArm::BOTH.map(|arm| sample("a", 2, arm));
        assert_eq!(codes(&late), ["sample_unknown"]);
        let mut elsewhere = [baseline.clone(), patched.clone()];
        elsewhere.iter_mut().for_each(|sample| sample.part = "another".to_owned());
        assert_eq!(codes(&elsewhere), ["sample_unknown"]);
        let mut fewer = patched;
        fewer.checks.clear();
        assert_eq!(codes(&[baseline, fewer]), ["checks_differ"]);
    }

    #[test]
    fn half_of_the_repetitions_is_not_most() {
        let tally = Tally { part: "p", case: "c", check: "x", runs: 2, baseline: 2, patched: 1, found: None };
        assert_eq!((tally.outcome(), tally.is_flaky()), (Outcome::Regressed, true));
        let steady = Tally { patched: 2, ..tally };
        assert_eq!((steady.outcome(), steady.is_flaky()), (Outcome::Passing, false));
    }
}
