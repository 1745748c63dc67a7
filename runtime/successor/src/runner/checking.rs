//! Checks and metrics of a case, from what the worker says happened and what the parent saw. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::evaluation::EvaluationCheck;
use crate::measure::{EvaluationArm, EvaluationSample, Metric, SampleCheck};
use crate::memory::EvidenceStatus;
use crate::text;
use crate::wire::CaseResult;

/// Where a case stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) part: &'a str,
    pub(crate) name: &'a str,
    pub(crate) repetition: u32,
    pub(crate) arm: EvaluationArm,
}

impl Case<'_> {
    fn sample(self) -> EvaluationSample {
        EvaluationSample {
            part: self.part.to_owned(),
            case: self.name.to_owned(),
            repetition: self.repetition,
            arm: self.arm,
            checks: Vec::new(),
            metrics: BTreeMap::new(),
            failure: None,
        }
    }

    /// A case that could not be run. All its checks failed.
    pub(crate) fn failed(self, checks: &[EvaluationCheck], why: String) -> EvaluationSample {
        let checks = checks
            .iter()
            .map(|check| SampleCheck { name: check.words(), passed: false, found: Some("it did not run".to_owned()) })
            .collect();
        EvaluationSample { checks, failure: Some(text::line(&why, 500)), ..self.sample() }
    }

    /// A case that ran; `wall` is what the parent saw.
    pub(crate) fn ran(self, checks: &[EvaluationCheck], result: &CaseResult, wall: Duration) -> EvaluationSample {
        let checks: Vec<SampleCheck> = checks.iter().map(|check| checked(check, result, wall)).collect();
        let mut metrics = BTreeMap::new();
        let mut put = |metric, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) {
                metrics.insert(metric, value);
            }
        };
        put(Metric::Turns, result.turns.map(f64::from));
        if let Some(calls) = &result.calls {
            let count =
                |wanted: fn(EvidenceStatus) -> bool| calls.iter().filter(|call| wanted(call.status)).count() as f64;
            put(Metric::ToolCalls, Some(count(|status| status != EvidenceStatus::Refused)));
            put(Metric::ToolErrors, Some(count(|status| status != EvidenceStatus::Ok)));
        }
        put(Metric::Tokens, result.tokens.map(|tokens| tokens as f64));
        put(Metric::ContextBytes, result.context_bytes.map(|bytes| bytes as f64));
        put(Metric::KeptFacts, result.kept_facts.filter(|share| (0.0..=1.0).contains(share)));
        put(Metric::RetiredUsed, result.retired_used.map(|skills| skills as f64));
        put(Metric::DeadKept, result.dead_kept.map(|skills| skills as f64));
        put(Metric::CpuMicros, result.cpu_micros.map(|micros| micros as f64));
        put(Metric::WallMicros, Some(wall.as_micros() as f64));
        put(Metric::LatencyP99Micros, result.latency_p99_micros.map(|micros| micros as f64));
        put(Metric::MemoryBytes, result.memory_bytes.map(|bytes| bytes as f64));
        if !checks.is_empty() {
            put(Metric::Solved, Some(checks.iter().filter(|check| check.passed).count() as f64 / checks.len() as f64));
        }
        EvaluationSample { checks, metrics, ..self.sample() }
    }
}

fn checked(check: &EvaluationCheck, result: &CaseResult, wall: Duration) -> SampleCheck {
    let found = match check {
        EvaluationCheck::Status(wanted) => match result.status {
            Some(status) if status == *wanted => None,
            Some(status) => Some(format!("it ended {}", status.name())),
            None => Some("it did not end".to_owned()),
        },
        EvaluationCheck::AnswerHas(wanted) => match &result.answer {
            Some(answer) if answer.contains(wanted) => None,
            answer => Some(shown(answer.as_deref(), result)),
        },
        EvaluationCheck::AnswerLacks(unwanted) => match &result.answer {
            Some(answer) if !answer.contains(unwanted) => None,
            answer => Some(shown(answer.as_deref(), result)),
        },
        EvaluationCheck::AnswerAt { pointer, equals } => {
            let answer: Option<Value> = result.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok());
            match answer.as_ref().and_then(|answer| answer.pointer(pointer)) {
                Some(value) if value == equals => None,
                Some(value) => Some(text::line(&value.to_string(), 200)),
                None => Some("there is nothing".to_owned()),
            }
        }
        EvaluationCheck::TurnsAtMost(most) => beyond(result.turns.map(u64::from), u64::from(*most), "turns"),
        EvaluationCheck::CallsAtMost(most) => {
            beyond(result.calls.as_ref().map(|calls| calls.len() as u64), u64::from(*most), "tool calls")
        }
        EvaluationCheck::Called(tool) => (!ran(result, tool)).then(|| "it did not run".to_owned()),
        EvaluationCheck::NotCalled(tool) => ran(result, tool).then(|| "it ran".to_owned()),
        EvaluationCheck::TokensAtMost(most) => beyond(result.tokens, *most, "tokens"),
        EvaluationCheck::MillisAtMost(most) => beyond(u64::try_from(wall.as_millis()).ok(), *most, "ms"),
        EvaluationCheck::MemoryAtMost(most) => beyond(result.memory_bytes, *most, "bytes"),
    };
    SampleCheck { name: check.words(), passed: found.is_none(), found }
}

fn ran(result: &CaseResult, tool: &str) -> bool {
    let calls = result.calls.iter().flatten();
    calls.into_iter().any(|call| call.tool == tool && call.status != EvidenceStatus::Refused)
}

fn beyond(found: Option<u64>, most: u64, what: &str) -> Option<String> {
    match found {
        Some(found) if found <= most => None,
        Some(found) => Some(format!("{found} {what}")),
        None => Some("it was not measured".to_owned()),
    }
}

fn shown(answer: Option<&str>, result: &CaseResult) -> String {
    let said = answer.or(result.message.as_deref()).unwrap_or("there is no answer");
    text::line(said, 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{CallRecord, TaskStatus};

    fn result() -> CaseResult {
        let call = |tool: &str, status| CallRecord {
            turn: 1,
            tool: tool.to_owned(),
            status,
            summary: String::new(),
            millis: 1,
        };
        CaseResult {
            status: Some(TaskStatus::Converged),
            answer: Some(r#"{"total": 7, "note": "fine"}"#.to_owned()),
            turns: Some(3),
            calls: Some(vec![call("scan", EvidenceStatus::Ok), call("fetch_url", EvidenceStatus::Refused)]),
            tokens: Some(900),
            memory_bytes: Some(4_096),
            ..CaseResult::default()
        }
    }

    #[test]
    fn every_kind_of_check_can_pass_and_fail() {
        let passes = |check: EvaluationCheck| checked(&check, &result(), Duration::from_millis(20)).passed;
        for (good, bad) in [
            (EvaluationCheck::Status(TaskStatus::Converged), EvaluationCheck::Status(TaskStatus::Failed)),
            (EvaluationCheck::AnswerHas("fine".into()), EvaluationCheck::AnswerHas("APPROVE".into())),
            (EvaluationCheck::AnswerLacks("bad".into()), EvaluationCheck::AnswerLacks("fine".into())),
            (
                EvaluationCheck::AnswerAt { pointer: "/total".into(), equals: 7.into() },
                EvaluationCheck::AnswerAt { pointer: "/nothing".into(), equals: 7.into() },
            ),
            (EvaluationCheck::TurnsAtMost(3), EvaluationCheck::TurnsAtMost(2)),
            (EvaluationCheck::CallsAtMost(2), EvaluationCheck::CallsAtMost(1)),
            (EvaluationCheck::Called("scan".into()), EvaluationCheck::Called("fetch_url".into())),
            (EvaluationCheck::NotCalled("fetch_url".into()), EvaluationCheck::NotCalled("scan".into())),
            (EvaluationCheck::TokensAtMost(900), EvaluationCheck::TokensAtMost(899)),
            (EvaluationCheck::MillisAtMost(20), EvaluationCheck::MillisAtMost(19)),
            (EvaluationCheck::MemoryAtMost(4_096), EvaluationCheck::MemoryAtMost(4_095)),
        ] {
            assert!(passes(good.clone()) && !passes(bad.clone()), "{good:?} and {bad:?}");
        }
        let nothing = CaseResult::default();
        assert!(
            !checked(&EvaluationCheck::AnswerLacks("x".into()), &nothing, Duration::ZERO).passed,
            "no answer lacks nothing"
        );
    }

    #[test]
    fn figures_that_cannot_be_are_left_out() {
        let case = Case { part: "p", name: "c", repetition: 0, arm: EvaluationArm::Patched };
        let forged = CaseResult { kept_facts: Some(17.0), ..CaseResult::default() };
        let sample = case.ran(&[], &forged, Duration::ZERO);
        assert!(!sample.metrics.contains_key(&Metric::KeptFacts));
        assert!(!sample.metrics.contains_key(&Metric::Solved), "nothing was checked");
    }
}
