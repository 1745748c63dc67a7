use proptest::prelude::*;

use super::*;

/// Sessions of `turns` turns each, give or take one, so that the mean has an interval.
fn sample(sessions: u64, turns: u64, calls: u64, errors: u64) -> OutcomeSample {
    let each = |at: u64| turns + at % 2;
    OutcomeSample {
        sessions,
        calls,
        errors,
        turns_sum: (0..sessions).map(each).sum(),
        turns_squares: (0..sessions).map(|at| each(at) * each(at)).sum(),
        completed: sessions,
        rated: 0,
        score_hundredths: 0,
    }
}

fn verdict_of(before: OutcomeSample, after: OutcomeSample) -> OutcomeVerdict {
    compare(&before, &after).verdict
}

#[test]
fn rates_and_intervals_are_those_of_the_textbook() {
    // Newcombe (1998), example (a): 56/70 against 48/80.
    let found = compare(&sample(10, 3, 80, 48), &sample(10, 3, 70, 56));
    let rounded = |found: Option<Estimate>| found.map(|e| [e.value, e.low, e.high].map(|n| (n * 1e4).round() / 1e4));
    assert_eq!(rounded(found.error_rate_change), Some([0.2, 0.0524, 0.3339]));
    // Wilson: 0 of 20 is not "never".
    let none = compare(&sample(5, 3, 20, 0), &sample(5, 3, 20, 20));
    assert_eq!(rounded(none.before.error_rate), Some([0.0, 0.0, 0.1611]));
    assert_eq!(rounded(none.after.error_rate), Some([1.0, 0.8389, 1.0]));
}

#[test]
fn more_errors_are_worse_and_fewer_are_better() {
    let (few, many) = (sample(10, 3, 100, 5), sample(10, 3, 100, 40));
    assert_eq!((verdict_of(few, many), verdict_of(many, few)), (OutcomeVerdict::Worse, OutcomeVerdict::Better));
    assert_eq!(verdict_of(few, few), OutcomeVerdict::NoDifference);
}

#[test]
fn turns_decide_where_errors_do_not() {
    let (short, long) = (sample(20, 2, 100, 10), sample(20, 6, 100, 10));
    assert_eq!((verdict_of(short, long), verdict_of(long, short)), (OutcomeVerdict::Worse, OutcomeVerdict::Better));
    let long_and_clean = OutcomeSample { errors: 0, ..long };
    assert_eq!(verdict_of(OutcomeSample { errors: 50, ..short }, long_and_clean), OutcomeVerdict::Better);
}

#[test]
fn outcomes_decide_before_errors_and_turns_where_there_are_enough() {
    let rated =
        |sample: OutcomeSample, rated: u64, score_hundredths: u64| OutcomeSample { rated, score_hundredths, ..sample };
    let (clean, failing) = (sample(10, 3, 100, 5), sample(10, 3, 100, 40));
    // The answers are right now, whatever the tools do.
    assert_eq!(verdict_of(rated(clean, 10, 100), rated(failing, 10, 1_000)), OutcomeVerdict::Better);
    assert_eq!(verdict_of(rated(clean, 10, 1_000), rated(failing, 10, 100)), OutcomeVerdict::Worse);
    // Few calls do not matter then; few outcomes, or outcomes that do not differ, leave it to the errors.
    let few_calls = sample(10, 3, 2, 0);
    assert_eq!(verdict_of(rated(few_calls, 9, 0), rated(few_calls, 9, 900)), OutcomeVerdict::Better);
    assert_eq!(verdict_of(rated(clean, 4, 0), rated(failing, 10, 1_000)), OutcomeVerdict::Worse);
    assert_eq!(verdict_of(rated(clean, 10, 500), rated(failing, 10, 600)), OutcomeVerdict::Worse);
    let graded = compare(&rated(clean, 10, 250), &rated(clean, 10, 750));
    assert_eq!(graded.score_change.map(|change| change.value), Some(0.5));
}

#[test]
fn few_sessions_or_calls_say_nothing() {
    let (good, bad) = (sample(10, 3, 100, 0), sample(10, 3, 100, 100));
    for few in [sample(4, 3, 100, 100), sample(10, 3, 19, 19), OutcomeSample::default()] {
        assert_eq!((verdict_of(good, few), verdict_of(few, bad)), (OutcomeVerdict::TooFew, OutcomeVerdict::TooFew));
    }
    assert_eq!(verdict_of(good, bad), OutcomeVerdict::Worse);
}

#[test]
fn nothing_is_estimated_from_nothing() {
    let found = compare(&OutcomeSample::default(), &sample(1, 3, 0, 0));
    assert_eq!((found.before.error_rate, found.before.mean_turns), (None, None));
    assert_eq!(found.after.mean_turns, Some(Estimate { value: 3.0, low: 3.0, high: 3.0 }));
    assert_eq!((found.error_rate_change, found.turns_change), (None, None));
    assert_eq!(
        serde_json::to_value(found.after).unwrap(),
        serde_json::json!({
            "sessions": 1, "calls": 0, "errors": 0, "turns_sum": 3, "turns_squares": 9, "completed": 1,
            "rated": 0, "score_hundredths": 0,
            "error_rate": null, "mean_turns": {"value": 3.0, "low": 3.0, "high": 3.0}, "mean_score": null,
        })
    );
}

fn any_sample() -> impl Strategy<Value = OutcomeSample> {
    let number = || prop_oneof![0u64..4, 0u64..200, any::<u64>()];
    let rest = (number(), number(), number());
    (number(), number(), number(), number(), number(), rest).prop_map(
        |(sessions, calls, errors, turns_sum, turns_squares, (completed, rated, score_hundredths))| OutcomeSample {
            sessions,
            calls,
            errors,
            turns_sum,
            turns_squares,
            completed,
            rated,
            score_hundredths,
        },
    )
}

proptest! {
    #[test]
    fn no_counts_however_odd_give_anything_but_numbers(before in any_sample(), after in any_sample()) {
        let found = compare(&before, &after);
        let estimates = [
            found.before.error_rate, found.before.mean_turns, found.after.error_rate, found.after.mean_turns,
            found.error_rate_change, found.turns_change, found.before.mean_score, found.after.mean_score,
            found.score_change,
        ];
        for estimate in estimates.into_iter().flatten() {
            prop_assert!(estimate.value.is_finite() && estimate.low.is_finite() && estimate.high.is_finite());
            prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high, "{:?}", estimate);
        }
        for rate in [found.before.error_rate, found.after.error_rate].into_iter().flatten() {
            prop_assert!(rate.low >= 0.0 && rate.high <= 1.0);
        }
    }

    #[test]
    fn what_is_better_one_way_is_worse_the_other(before in any_sample(), after in any_sample()) {
        let turned = |verdict| match verdict {
            OutcomeVerdict::Better => OutcomeVerdict::Worse,
            OutcomeVerdict::Worse => OutcomeVerdict::Better,
            same => same,
        };
        prop_assert_eq!(verdict_of(before, after), turned(verdict_of(after, before)));
    }
}
