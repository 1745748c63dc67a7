//! Trials that are simulated: how often they end as they should. The looks were chosen on the tuning seeds; the bounds are
//! asserted, and the table of the decision record is made, on the held-out seeds alone.

use super::Observation;
use super::sequential::{TrialDecision, TrialPolicy, TrialVerdict, decide};
use crate::memory::Arm;

/// Simulations of one line.
const TRIALS: u64 = 1_000;
/// The looks were chosen with seeds below this one.
const HELD_OUT: u64 = 1 << 32;
/// Where the table stands.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/decisions/0033-trials-redraw-their-coins.md");

struct Stream(u64);

impl Stream {
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How scores of one line come about.
#[derive(Clone, Copy)]
enum Scores {
    /// Good with this probability when held back, and when shown.
    GoodOrBad(f64, f64),
    /// Around these means, evenly spread over 0.6.
    Graded(f64, f64),
    /// Good or bad, and easier from task to task, for both arms.
    Easier,
    /// Half of the answers are good; of those only one in four is said to be.
    Complaints,
}

impl Scores {
    fn draw(self, arm: Arm, at: usize, stream: &mut Stream) -> Option<f64> {
        let shown = arm == Arm::Shown;
        let chance = match self {
            Self::Graded(held, with) => {
                let mean = if shown { with } else { held };
                return Some((mean + 0.6 * (stream.fraction() - 0.5)).clamp(0.0, 1.0));
            }
            Self::GoodOrBad(held, with) => {
                if shown {
                    with
                } else {
                    held
                }
            }
            Self::Easier => 0.1 + 0.8 * at as f64 / 200.0,
            Self::Complaints => 0.5,
        };
        let good = stream.fraction() < chance;
        let told = !matches!(self, Self::Complaints) || !good || stream.fraction() < 0.25;
        told.then_some(if good { 1.0 } else { 0.0 })
    }
}

fn simulate(scores: Scores, tasks: usize, seed: u64) -> Option<TrialDecision> {
    let mut stream = Stream(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let observations: Vec<Observation> = (0..tasks)
        .map(|at| {
            let arm = if stream.fraction() < 0.5 { Arm::Shown } else { Arm::HeldBack };
            Observation { arm, score: scores.draw(arm, at, &mut stream), errors: 0, turns: 2, micro_usd: 100 }
        })
        .collect();
    decide(&observations, 0, &TrialPolicy::default())
}

/// How the trials of one line ended within a number of tasks.
struct Ends {
    trials: u64,
    proven: u64,
    harmful: u64,
    /// The tasks of each trial that found something, in order.
    tasks: Vec<usize>,
}

impl Ends {
    fn of(scores: Scores, tasks: usize, seeds: std::ops::Range<u64>) -> Self {
        let mut ends = Self { trials: seeds.end - seeds.start, proven: 0, harmful: 0, tasks: Vec::new() };
        for decision in seeds.filter_map(|seed| simulate(scores, tasks, seed)) {
            match decision.verdict {
                TrialVerdict::Proven => ends.proven += 1,
                TrialVerdict::Harmful => ends.harmful += 1,
                TrialVerdict::Unproven => continue,
            }
            ends.tasks.push(decision.tasks);
        }
        ends.tasks.sort_unstable();
        ends
    }

    /// So many tasks were enough for this share of the trials.
    fn quantile(&self, share: f64) -> String {
        let at = (share * self.trials as f64) as usize;
        self.tasks.get(at).map_or_else(|| "–".to_owned(), usize::to_string)
    }

    fn percent(&self, count: u64) -> String {
        format!("{:.1} %", 100.0 * count as f64 / self.trials as f64)
    }
}

fn held_out() -> std::ops::Range<u64> {
    HELD_OUT..HELD_OUT + TRIALS
}

/// What is planted, the verdict it should get, and within how many tasks in at least nine of ten trials.
const PLANTED: [(&str, Scores, TrialVerdict, usize); 6] = [
    ("good, 0.17 → 0.88", Scores::GoodOrBad(0.17, 0.88), TrialVerdict::Proven, 40),
    ("good, 0.25 → 0.75", Scores::GoodOrBad(0.25, 0.75), TrialVerdict::Proven, 40),
    ("good, graded 0.4 → 0.7", Scores::Graded(0.4, 0.7), TrialVerdict::Proven, 40),
    ("harmful, 0.45 → 0.05", Scores::GoodOrBad(0.45, 0.05), TrialVerdict::Harmful, 60),
    ("harmful, 0.9 → 0.4", Scores::GoodOrBad(0.9, 0.4), TrialVerdict::Harmful, 60),
    ("harmful, 0.75 → 0.25", Scores::GoodOrBad(0.75, 0.25), TrialVerdict::Harmful, 60),
];

/// Skills that do nothing.
const NULLS: [(&str, Scores); 7] = [
    ("0.05 in both arms", Scores::GoodOrBad(0.05, 0.05)),
    ("0.2 in both arms", Scores::GoodOrBad(0.2, 0.2)),
    ("0.5 in both arms", Scores::GoodOrBad(0.5, 0.5)),
    ("0.9 in both arms", Scores::GoodOrBad(0.9, 0.9)),
    ("graded, 0.5 in both arms", Scores::Graded(0.5, 0.5)),
    ("0.1 rising to 0.9 in both arms", Scores::Easier),
    ("0.5; bad answers are always reported, good ones one time in four", Scores::Complaints),
];

/// Planted skills: nine of ten end as they should within their tasks.
fn planted_lines() -> Vec<String> {
    let mut lines = vec![
        "| planted | verdict within | trials | tasks: median | 90 % |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for (name, scores, verdict, within) in PLANTED {
        let soon = Ends::of(scores, within, held_out());
        let right = if verdict == TrialVerdict::Proven { soon.proven } else { soon.harmful };
        assert!(right * 10 >= TRIALS * 9, "{name}: {right} of {TRIALS}");
        let ends = Ends::of(scores, 200, held_out());
        let word = if verdict == TrialVerdict::Proven { "proven" } else { "harmful" };
        let (median, most) = (ends.quantile(0.5), ends.quantile(0.9));
        lines.push(format!("| {name} | {word}, {within} tasks | {} | {median} | {most} |", soon.percent(right)));
    }
    lines
}

/// Skills that do nothing: at most one verdict in twenty is wrong.
fn null_lines() -> Vec<String> {
    let mut lines = vec![
        "| does nothing | proven | harmful | wrong verdicts in 200 tasks |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for (name, scores) in NULLS {
        let ends = Ends::of(scores, 200, held_out());
        let wrong = ends.proven + ends.harmful;
        assert!(wrong * 20 <= TRIALS, "{name}: {wrong} of {TRIALS}");
        let [proven, harmful, wrong] = [ends.proven, ends.harmful, wrong].map(|count| ends.percent(count));
        lines.push(format!("| {name} | {proven} | {harmful} | {wrong} |"));
    }
    lines
}

/// The table of the record is what this finds. `HERM_TABLE=1` writes it.
#[test]
fn planted_skills_get_their_verdict_and_skills_that_do_nothing_rarely_get_one() {
    const BEGIN: &str = "<!-- simulated -->\n";
    const END: &str = "<!-- end of simulated -->";
    let table = format!("{}\n\n{}\n", planted_lines().join("\n"), null_lines().join("\n"));
    let record = std::fs::read_to_string(RECORD).unwrap();
    let (before, rest) = record.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("HERM_TABLE").is_some() {
        let whole = format!("{before}{BEGIN}\n{table}\n{END}{after}");
        let root = crate::fsio::Root::open(std::path::Path::new(RECORD).parent().unwrap()).unwrap();
        let name = RECORD.rsplit('/').next().unwrap().parse().unwrap();
        root.replace(&name, whole.as_bytes(), crate::fsio::SyncTiming::Later).unwrap();
        return;
    }
    assert_eq!(written.trim(), table.trim(), "write the table again with HERM_TABLE=1");
}

#[test]
fn harm_is_found_sooner_than_a_gain_of_the_same_size() {
    let median = |scores| {
        let ends = Ends::of(scores, 200, held_out());
        ends.tasks[ends.tasks.len() / 2]
    };
    for (low, high) in [(0.25, 0.75), (0.17, 0.88), (0.1, 0.6)] {
        let (harm, gain) = (median(Scores::GoodOrBad(high, low)), median(Scores::GoodOrBad(low, high)));
        assert!(harm <= gain, "{high} → {low} took {harm} tasks, {low} → {high} took {gain}");
    }
}
