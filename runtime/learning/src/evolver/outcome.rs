//! Whether a skill's tasks went better or worse after its block was written, and how sure that is.
//!
//! Error rates are compared by proportions: each with its Wilson interval, their difference with
//! Newcombe's, which holds for few calls and for rates near zero, where most of these are. Turns are
//! compared by their means, with a normal interval. Where outcomes say how good the answers were, they decide first:
//! a score from 0 to 1 varies no more than good and bad do, so the intervals of proportions hold for it. All
//! intervals are of 95 %.

/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;
/// Fewer sessions on either side say nothing.
pub const LEAST_SESSIONS: u64 = 5;
/// Fewer calls on either side say nothing.
pub const LEAST_CALLS: u64 = 20;
/// Fewer answers with an outcome on either side say nothing of how good answers are.
pub const LEAST_RATED: u64 = 5;

/// What is counted on one side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct OutcomeSample {
    /// Sessions that had the skill loaded.
    pub sessions: u64,
    /// Tool calls in them.
    pub calls: u64,
    /// Those that failed or were refused.
    pub errors: u64,
    /// Turns, summed over the sessions.
    pub turns_sum: u64,
    /// The squares of each session's turns, summed.
    pub turns_squares: u64,
    /// Sessions that ended with an answer, right or wrong.
    pub completed: u64,
    /// Sessions whose answers have an outcome.
    pub rated: u64,
    /// The scores of these outcomes, in hundredths, summed: good is 100, bad 0.
    pub score_hundredths: u64,
}

/// An estimate and the interval it lies in.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct Estimate {
    /// The middle: a rate, a mean or a difference.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    fn new(value: f64, low: f64, high: f64) -> Self {
        // Digits past these are noise, and differ between machines.
        let round = |number: f64| (number * 1e6).round() / 1e6 + 0.0;
        Self { value: round(value), low: round(low), high: round(high) }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct OutcomeSide {
    /// What was counted on this side.
    #[serde(flatten)]
    pub sample: OutcomeSample,
    /// Errors per call; nothing where there are no calls.
    pub error_rate: Option<Estimate>,
    /// Turns per session; nothing where there are no sessions, and without an interval where there is one.
    pub mean_turns: Option<Estimate>,
    /// The mean score of the answers; nothing where none has an outcome.
    pub mean_score: Option<Estimate>,
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct OutcomeComparison {
    /// The tasks before the change.
    pub before: OutcomeSide,
    /// The tasks after the change.
    pub after: OutcomeSide,
    /// By how much the error rate rose; nothing where one side has no calls.
    pub error_rate_change: Option<Estimate>,
    /// By how much the mean turns rose; nothing where one side has fewer than two sessions.
    pub turns_change: Option<Estimate>,
    /// By how much the mean score rose; nothing where one side has no outcomes.
    pub score_change: Option<Estimate>,
    /// Whether the skill did better or worse since, or it cannot be told.
    pub verdict: OutcomeVerdict,
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeVerdict {
    /// There is not enough evidence on both sides.
    TooFew,
    /// The intervals hold zero.
    NoDifference,
    /// Better answers; where they do not decide, fewer errors; or fewer turns, and not more errors.
    Better,
    /// Worse answers; where they do not decide, more errors; or more turns, and not fewer errors.
    Worse,
}

/// Compares what was before a change with what came after it.
pub fn compare(before: &OutcomeSample, after: &OutcomeSample) -> OutcomeComparison {
    let (earlier, later) = (OutcomeSide::new(before), OutcomeSide::new(after));
    let change = |of: fn(&OutcomeSample) -> Option<Estimate>| {
        of(before).zip(of(after)).map(|(before, after)| newcombe(before, after))
    };
    let (error_rate_change, score_change) = (change(error_rate), change(score));
    let turns_change = Turns::of(before).zip(Turns::of(after)).and_then(|(before, after)| {
        let error = (before.squared_error? + after.squared_error?).sqrt();
        let by = after.mean - before.mean;
        Some(Estimate::new(by, by - Z * error, by + Z * error))
    });
    let verdict = verdict([before, after], error_rate_change, turns_change, score_change);
    OutcomeComparison { before: earlier, after: later, error_rate_change, turns_change, score_change, verdict }
}

fn verdict(
    sides: [&OutcomeSample; 2],
    errors: Option<Estimate>,
    turns: Option<Estimate>,
    score: Option<Estimate>,
) -> OutcomeVerdict {
    if sides.iter().all(|side| side.rated >= LEAST_RATED) {
        match score {
            Some(change) if change.low > 0.0 => return OutcomeVerdict::Better,
            Some(change) if change.high < 0.0 => return OutcomeVerdict::Worse,
            _ => {}
        }
    }
    if sides.iter().any(|side| side.sessions < LEAST_SESSIONS || side.calls < LEAST_CALLS) {
        return OutcomeVerdict::TooFew;
    }
    let rose = |change: Option<Estimate>| change.is_some_and(|change| change.low > 0.0);
    let fell = |change: Option<Estimate>| change.is_some_and(|change| change.high < 0.0);
    match (rose(errors), fell(errors)) {
        (true, _) => OutcomeVerdict::Worse,
        (_, true) => OutcomeVerdict::Better,
        _ if rose(turns) => OutcomeVerdict::Worse,
        _ if fell(turns) => OutcomeVerdict::Better,
        _ => OutcomeVerdict::NoDifference,
    }
}

impl OutcomeSide {
    fn new(sample: &OutcomeSample) -> Self {
        let rounded = |rate: Estimate| Estimate::new(rate.value, rate.low, rate.high);
        let (error_rate, mean_score) = (error_rate(sample).map(rounded), score(sample).map(rounded));
        let mean_turns = Turns::of(sample).map(|turns| {
            let within = Z * turns.squared_error.unwrap_or_default().sqrt();
            Estimate::new(turns.mean, (turns.mean - within).max(0.0), turns.mean + within)
        });
        Self { sample: *sample, error_rate, mean_turns, mean_score }
    }
}

/// The error rate with its Wilson interval, not rounded.
fn error_rate(sample: &OutcomeSample) -> Option<Estimate> {
    proportion(sample.errors as f64, sample.calls as f64)
}

/// The mean score with the same interval.
fn score(sample: &OutcomeSample) -> Option<Estimate> {
    proportion(sample.score_hundredths as f64 / 100.0, sample.rated as f64)
}

/// A share of all, with its Wilson interval; nothing of nothing.
fn proportion(part: f64, all: f64) -> Option<Estimate> {
    if all == 0.0 {
        return None;
    }
    // More than all cannot be; a count that is off must not make the square root of a negative.
    let rate = part.min(all) / all;
    let spread = Z * Z / all;
    let centre = (rate + spread / 2.0) / (1.0 + spread);
    let within = Z / (1.0 + spread) * (rate * (1.0 - rate) / all + spread / (4.0 * all)).max(0.0).sqrt();
    // The interval holds the rate, also where rounding would put it just outside.
    let (low, high) = ((centre - within).clamp(0.0, rate), (centre + within).clamp(rate, 1.0));
    Some(Estimate { value: rate, low, high })
}

/// The difference of two rates, with Newcombe's interval from those of the rates.
fn newcombe(before: Estimate, after: Estimate) -> Estimate {
    let by = after.value - before.value;
    let down = (after.value - after.low).hypot(before.high - before.value);
    let up = (after.high - after.value).hypot(before.value - before.low);
    Estimate::new(by, (by - down).max(-1.0), (by + up).min(1.0))
}

/// The turns of one side.
struct Turns {
    mean: f64,
    /// The square of the mean's standard error; nothing for a single session.
    squared_error: Option<f64>,
}

impl Turns {
    fn of(sample: &OutcomeSample) -> Option<Self> {
        if sample.sessions == 0 {
            return None;
        }
        let sessions = sample.sessions as f64;
        let sum = sample.turns_sum as f64;
        let mean = sum / sessions;
        let squared_error = (sample.sessions > 1).then(|| {
            let variance = (sample.turns_squares as f64 - sum * mean).max(0.0) / (sessions - 1.0);
            variance / sessions
        });
        Some(Self { mean, squared_error })
    }
}

#[cfg(test)]
mod tests;
