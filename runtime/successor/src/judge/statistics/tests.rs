//! What the statistics promise.

use proptest::prelude::*;

use super::*;
use crate::judge::fixtures::{evaluation, pairs, sample, swapped};
use crate::judge::pairs::Pairing;
use crate::measure::{EvaluationArm, EvaluationSample};

fn compared(metric: Metric, samples: &[EvaluationSample], seed: u64) -> MetricComparison {
    let evaluation = evaluation(100);
    let pairing = Pairing::of(&evaluation, samples);
    let mut all = compare(&pairing.cases, &[(metric, None)], seed);
    all.remove(0).unwrap().comparison
}

/// About normal, with mean 0 and deviation 1: the sum of twelve uniform numbers less six.
fn normal(stream: &mut SplitMix64) -> f64 {
    (0..12).map(|_| stream.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

#[test]
fn the_stream_is_splitmix64() {
    // The first numbers of the reference implementation (Vigna) from the seed 1234567.
    let mut stream = SplitMix64::new(1_234_567);
    let numbers = [(); 3].map(|()| stream.next_u64());
    assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn a_comparison_has_the_means_the_change_its_interval_and_p() {
    let values: Vec<[f64; 2]> = (0..10).map(|n| [100.0 + f64::from(n), 80.0 + f64::from(n)]).collect();
    let found = compared(Metric::Tokens, &pairs(Metric::Tokens, &values), 1);
    assert_eq!((found.pairs, found.cases, found.units), (10, 10, 10));
    assert_eq!((found.baseline, found.patched), (104.5, 84.5));
    assert!((found.change + 20.0 / 104.5).abs() < 1e-12, "{found:?}");
    assert!(found.interval[0] < found.change && found.change < found.interval[1], "{found:?}");
    // Of 1,024 ways to set the signs, two are as far from zero as all alike.
    assert_eq!((found.p, found.direction), (2.0 / 1_024.0, Direction::Better));
}

#[test]
fn a_baseline_of_nothing_makes_any_rise_one_whole() {
    let found = compared(Metric::ToolErrors, &pairs(Metric::ToolErrors, &[[0.0, 3.0]; 6]), 1);
    assert_eq!((found.change, found.interval, found.direction), (1.0, [1.0, 1.0], Direction::Worse));
    let found = compared(Metric::ToolErrors, &pairs(Metric::ToolErrors, &[[0.0, 0.0]; 6]), 1);
    assert_eq!((found.change, found.interval, found.direction), (0.0, [0.0, 0.0], Direction::Same));
}

#[test]
fn what_cannot_be_a_value_does_not_count() {
    let mut values = vec![[10.0, 9.0]; 6];
    let sound = compared(Metric::Turns, &pairs(Metric::Turns, &values), 1);
    values.extend([[10.0, f64::NAN], [f64::INFINITY, 1.0], [10.0, -1.0], [10.0, 1e300], [10.0, f64::NEG_INFINITY]]);
    let found = compared(Metric::Turns, &pairs(Metric::Turns, &values), 1);
    assert_eq!((found.pairs, found.baseline, found.patched), (6, sound.baseline, sound.patched));
    assert!(found.interval.iter().all(|end| end.is_finite()));
}

#[test]
fn repetitions_of_a_case_are_no_evidence_of_their_own() {
    let repeated = |times: u32| {
        let mut samples = Vec::new();
        for (case, after) in [("a", 5.0), ("b", 14.0), ("c", 6.0), ("d", 13.0), ("e", 8.0), ("f", 11.0)] {
            for repetition in 0..times {
                for (arm, value) in [(EvaluationArm::Baseline, 10.0), (EvaluationArm::Patched, after)] {
                    let mut sample = sample(case, repetition, arm);
                    sample.metrics.insert(Metric::Turns, value);
                    sample.metrics.insert(Metric::WallMicros, value);
                    samples.push(sample);
                }
            }
        }
        samples
    };
    for metric in [Metric::Turns, Metric::WallMicros] {
        let (once, often) = (compared(metric, &repeated(1), 7), compared(metric, &repeated(50), 7));
        assert_eq!((often.pairs, often.cases, often.units), (300, 6, 6));
        assert_eq!((once.change, once.interval, once.p), (often.change, often.interval, often.p));
    }
}

#[test]
fn a_noisy_metric_of_few_cases_rests_on_its_repetitions() {
    let mut samples = Vec::new();
    for repetition in 0..12 {
        for (arm, value) in [(EvaluationArm::Baseline, 100.0), (EvaluationArm::Patched, 80.0 + f64::from(repetition))] {
            let mut sample = sample("only", repetition, arm);
            sample.metrics.insert(Metric::LatencyP99Micros, value);
            sample.metrics.insert(Metric::Tokens, value);
            samples.push(sample);
        }
    }
    let noisy = compared(Metric::LatencyP99Micros, &samples, 1);
    assert_eq!((noisy.cases, noisy.units, noisy.direction), (1, 12, Direction::Better));
    assert_eq!(compared(Metric::Tokens, &samples, 1).units, 1);
}

#[test]
fn the_interval_holds_the_truth_about_as_often_as_it_says() {
    // Every simulated evaluation has another size of noise per case; the true change is −10 %.
    for (units, seed) in [(6, 11), (12, 12), (40, 13)] {
        let mut stream = SplitMix64::new(seed);
        let held = (0..200)
            .filter(|round| {
                let values: Vec<[f64; 2]> = (0..units)
                    .map(|_| {
                        let size = 1_000.0 + 200.0 * normal(&mut stream);
                        [size, (0.9 * size + 80.0 * normal(&mut stream)).max(0.0)]
                    })
                    .collect();
                let found = compared(Metric::WallMicros, &pairs(Metric::WallMicros, &values), *round);
                (found.interval[0]..=found.interval[1]).contains(&-0.1)
            })
            .count();
        assert!((180..=198).contains(&held), "{units} units: {held} of 200");
    }
}

#[test]
fn without_a_difference_the_sign_flip_test_is_seldom_small() {
    let mut stream = SplitMix64::new(5);
    for units in [8, 30] {
        let small = (0..400)
            .filter(|round| {
                let differences: Vec<f64> = (0..units).map(|_| normal(&mut stream)).collect();
                sign_flip(&differences, *round) <= 0.05
            })
            .count();
        assert!((5..=36).contains(&small), "{units} units: {small} of 400");
    }
}

#[test]
fn a_rate_has_an_interval_even_where_all_pass() {
    let [low, high] = wilson(12, 12);
    assert!((low - 0.757_5).abs() < 1e-3 && high == 1.0, "{low}");
    assert_eq!(wilson(0, 0), [0.0, 1.0]);
    let [low, high] = wilson(50, 100);
    assert!((low - 0.403_8).abs() < 1e-3 && (high - 0.596_2).abs() < 1e-3);
}

#[test]
fn tails_are_those_of_student() {
    for (free, quantile) in [(4.0, 2.776), (9.0, 2.262), (29.0, 2.045), (1_000.0, 1.962)] {
        assert!((student(free) - quantile).abs() < 0.01, "{free}");
    }
    for (x, share) in [(0.0, 0.5), (1.0, 0.158_655), (1.959_964, 0.025), (3.0, 0.001_35)] {
        assert!((normal_tail(x) - share).abs() < 1e-6, "{x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equal_sides_are_the_same(values in prop::collection::vec(0.0..1e6_f64, 1..30), seed: u64) {
        let values: Vec<[f64; 2]> = values.into_iter().map(|value| [value, value]).collect();
        let found = compared(Metric::Tokens, &pairs(Metric::Tokens, &values), seed);
        prop_assert_eq!((found.direction, found.change, found.interval, found.p), (Direction::Same, 0.0, [0.0; 2], 1.0));
    }

    #[test]
    fn exchanged_sides_exchange_better_and_worse(
        values in prop::collection::vec(prop::array::uniform2(prop_oneof![Just(0.0), 0.0..50.0_f64]), 1..30),
        seed: u64,
    ) {
        let samples = pairs(Metric::Tokens, &values);
        let one = compared(Metric::Tokens, &samples, seed);
        let other = compared(Metric::Tokens, &swapped(&samples), seed);
        let expected = match one.direction {
            Direction::Better => Direction::Worse,
            Direction::Worse => Direction::Better,
            same => same,
        };
        prop_assert_eq!(other.direction, expected);
        prop_assert_eq!(other.p, one.p);
    }

    #[test]
    fn every_number_is_finite_and_in_order(
        values in prop::collection::vec(prop::array::uniform2(prop::num::f64::ANY), 1..30),
        seed: u64,
    ) {
        let samples = pairs(Metric::MemoryBytes, &values);
        let evaluation = evaluation(1);
        let pairing = Pairing::of(&evaluation, &samples);
        for found in compare(&pairing.cases, &[(Metric::MemoryBytes, None)], seed).into_iter().flatten() {
            let found = found.comparison;
            prop_assert!([found.baseline, found.patched, found.change, found.p].iter().all(|n| n.is_finite()));
            prop_assert!(found.interval[0] <= found.interval[1]);
            prop_assert!((0.0..=1.0).contains(&found.p));
        }
    }
}
