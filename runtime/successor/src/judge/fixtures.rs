//! Small evaluations and samples for tests of the judge.

use std::collections::BTreeMap;

use crate::evaluation::{BackendChoice, EVALUATION_SCHEMA, Evaluation, EvaluationPart, Goal, Guard};
use crate::measure::{EvaluationArm, EvaluationSample, Metric, SampleCheck};

/// An evaluation of one part, `p`, whose cases have any name.
pub(crate) fn evaluation(repeat: u32) -> Evaluation {
    Evaluation {
        schema: EVALUATION_SCHEMA.to_owned(),
        title: "An evaluation".to_owned(),
        seed: 1,
        repeat,
        speaker: BackendChoice::Reflex,
        parts: vec![part("p")],
        goals: Vec::new(),
        guards: Vec::new(),
    }
}

/// A part whose cases have any name.
pub(crate) fn part(name: &str) -> EvaluationPart {
    EvaluationPart::Compress {
        name: name.to_owned(),
        sessions: 1,
        results: 7,
        result_bytes: 12_000,
        context_bytes: 24_000,
    }
}

/// A goal in all parts.
pub(crate) fn goal(metric: Metric, by: f64) -> Goal {
    Goal { metric, part: None, by }
}

/// A guard in all parts.
pub(crate) fn guard(metric: Metric, slack: f64) -> Guard {
    Guard { metric, part: None, slack }
}

/// A sample of part `p` with one check that passed.
pub(crate) fn sample(case: &str, repetition: u32, arm: EvaluationArm) -> EvaluationSample {
    let checks = vec![SampleCheck { name: "it ends".to_owned(), passed: true, found: None }];
    let (part, case) = ("p".to_owned(), case.to_owned());
    EvaluationSample { part, case, repetition, arm, checks, metrics: BTreeMap::new(), failure: None }
}

/// Pairs of one metric, each a case of its own.
pub(crate) fn pairs(metric: Metric, values: &[[f64; 2]]) -> Vec<EvaluationSample> {
    let mut samples = Vec::new();
    for (index, values) in values.iter().enumerate() {
        for (arm, value) in EvaluationArm::BOTH.into_iter().zip(values) {
            let mut sample = sample(&format!("case {index:03}"), 0, arm);
            sample.metrics.insert(metric, *value);
            samples.push(sample);
        }
    }
    samples
}

/// The same samples with the sides exchanged.
pub(crate) fn swapped(samples: &[EvaluationSample]) -> Vec<EvaluationSample> {
    let other = |arm| if arm == EvaluationArm::Baseline { EvaluationArm::Patched } else { EvaluationArm::Baseline };
    samples.iter().map(|sample| EvaluationSample { arm: other(sample.arm), ..sample.clone() }).collect()
}
