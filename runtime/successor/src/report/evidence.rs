//! What was found: goals and guards, charts, checks, statistics.

use super::{Column, VerdictReport, more, row, table};
use crate::judge::conditions::{GoalStatus, GuardStatus, find, goal_status, guard_status};
use crate::judge::figures::{counted, number, percent, quantity, signed_percent};
use crate::judge::pairs::{Case, Outcome, Pairing, Tally};
use crate::judge::statistics::{RESAMPLES, values, wilson};
use crate::judge::summary::capitalised;
use crate::measure::{EvaluationSample, Metric};
use crate::report::chart::{Point, Wanted, before_and_after, changes, safe, split, told};
use crate::verdict::{Direction, MetricComparison};

/// The most checks in the table.
const MAX_CHECKS: usize = 100;
/// The most cards with a chart.
const MAX_CARDS: usize = 12;
/// The most goals and guards in the table.
const MAX_ASKED: usize = 64;

fn subject(metric: Metric, part: Option<&str>) -> String {
    let part = part.map(|part| format!("<small>in {}</small>", safe(part, 80)));
    format!("<b>{}</b>{}", metric.title(), part.unwrap_or_default())
}

fn tag(tone: &str, words: &str) -> String {
    format!("<span class=\"tag {tone}\">{words}</span>")
}

fn found(comparison: Option<&MetricComparison>) -> String {
    let Some(one) = comparison else { return "–".to_owned() };
    let [low, high] = one.interval;
    if one.direction == Direction::Same {
        return "no change".to_owned();
    }
    format!(
        "{} <span class=\"dim\">({} to {})</span>",
        signed_percent(one.change),
        signed_percent(low),
        signed_percent(high)
    )
}

impl VerdictReport<'_> {
    /// Comparisons without those that only repeat another one for all parts.
    fn shown(&self) -> Vec<&MetricComparison> {
        let all = &self.verdict.statistics;
        let repeats = |one: &MetricComparison| {
            let same = |other: &&MetricComparison| other.metric == one.metric && other.pairs == one.pairs;
            one.part.is_none() && all.iter().filter(same).any(|other| other.part.is_some())
        };
        all.iter().filter(|one| !repeats(one)).collect()
    }

    pub(super) fn asked(&self) -> String {
        let (evaluation, statistics) = (self.evaluation, &self.verdict.statistics);
        let goals = evaluation.goals.iter().map(|goal| {
            let standing = goal_status(evaluation, goal, statistics);
            let tone = match standing {
                GoalStatus::Met => "good",
                GoalStatus::Worse => "bad",
                GoalStatus::Short | GoalStatus::Unclear | GoalStatus::TooFew | GoalStatus::Unmeasured => "warn",
                GoalStatus::Unchanged => "",
            };
            let wanted =
                if goal.by > 0.0 { format!("at least {} better", percent(goal.by)) } else { "better".to_owned() };
            ("Goal", goal.metric, goal.part.as_deref(), wanted, tag(tone, standing.words()))
        });
        let guards = evaluation.guards.iter().map(|guard| {
            let standing = guard_status(guard, statistics);
            let tone = match standing {
                GuardStatus::Holds => "good",
                GuardStatus::Broken => "bad",
                GuardStatus::Doubtful | GuardStatus::TooFew | GuardStatus::Unmeasured => "warn",
            };
            let wanted = if guard.slack > 0.0 {
                format!("at most {} worse", percent(guard.slack))
            } else {
                "not worse".to_owned()
            };
            ("Guard", guard.metric, guard.part.as_deref(), wanted, tag(tone, standing.words()))
        });
        let columns = [
            Column::Words("Metric"),
            Column::Words("Stands"),
            Column::Words("Asked"),
            Column::Numbers("Change (95 % interval)"),
        ];
        let rows: Vec<String> = goals
            .chain(guards)
            .take(MAX_ASKED)
            .map(|(kind, metric, part, wanted, standing)| {
                let asked = format!("<span class=\"say\">{kind}: {wanted}</span>");
                let change = found(find(statistics, metric, part));
                row(&columns, &subject(metric, part), &[standing, asked, change])
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        format!(
            "<section>\n<h2>What was asked</h2>\n<p class=\"dim small\">By the evaluation “{}”. \
             That checks still pass is always asked.</p>\n{}</section>\n",
            safe(&self.evaluation.title, 200),
            table("Goals and guards, and how they stand", &columns, &rows),
        )
    }

    pub(super) fn changes(&self) -> String {
        let shown = self.shown();
        if shown.is_empty() {
            return String::new();
        }
        let of_goals = self.evaluation.goals.iter().map(|goal| (goal.metric, &goal.part, goal.by));
        let of_guards = self.evaluation.guards.iter().map(|guard| (guard.metric, &guard.part, -guard.slack));
        let wanted: Vec<Wanted> = of_goals
            .chain(of_guards)
            .filter(|(metric, part, _)| find(&self.verdict.statistics, *metric, part.as_deref()).is_some())
            .map(|(metric, part, gain)| Wanted { metric, part: part.clone(), gain })
            .collect();
        format!(
            "<section>\n<h2>What changed</h2>\n<p class=\"dim small\">Each metric as a share of its baseline; \
             better is always to the right.</p>\n\
             {}<p class=\"key\">▲ better · ▼ worse · ○ unclear: the interval holds zero · = not one pair differs. \
             The bar is the 95 % \
             interval; a dashed line marks what a goal wants (right of zero) or what a guard allows (left of \
             it).</p>\n</section>\n",
            changes("changes", &shown, &wanted),
        )
    }

    pub(super) fn before_and_after(&self, cases: &[Case<'_>]) -> String {
        let (still, shown): (Vec<_>, Vec<_>) =
            self.shown().into_iter().partition(|one| one.direction == Direction::Same);
        let cards: Vec<String> =
            shown.iter().take(MAX_CARDS).enumerate().filter_map(|(index, one)| card(index, one, cases)).collect();
        let still: Vec<String> = still.iter().take(MAX_ASKED).map(|one| in_words(one)).collect();
        let still = if still.is_empty() {
            String::new()
        } else {
            format!("<p class=\"small\">Not one pair differs in: {}.</p>\n", still.join(", "))
        };
        if cards.is_empty() {
            return if still.is_empty() {
                still
            } else {
                format!("<section>\n<h2>Before and after</h2>\n{still}</section>\n")
            };
        }
        format!(
            "<section>\n<h2>Before and after</h2>\n<div class=\"cards\">\n{}</div>\n<p class=\"key\">Where cases \
             have a row each: ○ before, ▶ ◀ with the \
             patch. Where they are dots: filled is better, a ring is worse, and the line is no \
             change.</p>\n{still}{}</section>\n",
            cards.concat(),
            more(shown.len(), MAX_CARDS, "metrics"),
        )
    }

    pub(super) fn checks(&self, pairing: &Pairing<'_>) -> String {
        let counts = self.verdict.checks;
        let failures = failures(&pairing.cases);
        if counts.total == 0 && failures.is_empty() {
            return String::new();
        }
        let mut tallies = pairing.tallies();
        tallies.sort_by_key(|tally| (tally.outcome(), !tally.is_flaky()));
        let (quiet, loud): (Vec<_>, Vec<_>) =
            tallies.iter().partition(|tally| tally.outcome() == Outcome::Passing && !tally.is_flaky());
        let [low, high] = wilson(counts.patched_passed, counts.total).map(percent);
        let rate = if counts.total == 0 {
            "<p>No check was counted.</p>\n".to_owned()
        } else {
            format!(
                "<p><b>{} of {}</b> passed with the patch <span class=\"dim\">(95 % interval of the rate: {low} \
                 to {high})</span>, \
                 {} before. {} regressed, {} fixed, {} flaky.</p>\n",
                counts.patched_passed,
                counts.total,
                counts.baseline_passed,
                counts.regressed,
                counts.fixed,
                counts.flaky
            )
        };
        let mut html = format!("<section>\n<h2>Checks</h2>\n{rate}{failures}");
        if !loud.is_empty() {
            html.push_str(&check_table("Checks that did not pass everywhere, regressions first", &loud));
        }
        if !quiet.is_empty() {
            let name = counted(quiet.len(), "check that passed on both sides", "checks that passed on both sides");
            let table = check_table("Checks that passed on both sides", &quiet);
            html.push_str(&format!("<details><summary>{name}</summary>\n{table}</details>\n"));
        }
        html.push_str("</section>\n");
        html
    }

    pub(super) fn statistics(&self) -> String {
        let all = self.shown();
        if all.is_empty() {
            return String::new();
        }
        let rows: Vec<String> = all.iter().take(MAX_ASKED).map(|one| statistics_row(one)).collect();
        let caption = format!(
            "Means over pairs. The interval comes from {} resamples of cases from the seed {}; p is that of a \
             sign-flip test.",
            number(RESAMPLES as f64),
            self.verdict.seed,
        );
        let (table, more) = (table(&caption, &STATISTICS, &rows), more(all.len(), MAX_ASKED, "comparisons"));
        format!("<section>\n<h2>Statistics</h2>\n{table}{more}</section>\n")
    }
}

const STATISTICS: [Column; 8] = [
    Column::Words("Metric"),
    Column::Numbers("Before"),
    Column::Numbers("With the patch"),
    Column::Numbers("Change (95 % interval)"),
    Column::Numbers("p"),
    Column::Numbers("Pairs"),
    Column::Numbers("Cases"),
    Column::Words("Moved"),
];

fn statistics_row(one: &MetricComparison) -> String {
    let tone = match one.direction {
        Direction::Better => "good",
        Direction::Worse => "bad",
        Direction::Unclear => "warn",
        Direction::Same => "",
    };
    let words = match one.direction {
        Direction::Better => "better",
        Direction::Worse => "worse",
        Direction::Unclear => "unclear",
        Direction::Same => "same",
    };
    let p = if one.p < 0.001 { "&lt; 0.001".to_owned() } else { format!("{:.3}", one.p) };
    let [before, after] = [one.baseline, one.patched].map(|mean| quantity(one.metric, mean));
    let (pairs, cases) = (one.pairs.to_string(), one.cases.to_string());
    let name = subject(one.metric, one.part.as_deref());
    row(&STATISTICS, &name, &[before, after, found(Some(one)), p, pairs, cases, tag(tone, words)])
}

fn card(index: usize, one: &MetricComparison, cases: &[Case<'_>]) -> Option<String> {
    let in_scope = |case: &&Case<'_>| one.part.as_deref().is_none_or(|part| part == case.part);
    let cases: Vec<&Case<'_>> = cases.iter().filter(in_scope).collect();
    // One case alone is shown by its repetitions.
    let is_alone = one.cases == 1 && one.pairs > 1;
    let points: Vec<Point> = if is_alone {
        cases.iter().flat_map(|case| runs(case, one.metric)).collect()
    } else {
        cases.iter().filter_map(|case| point(case, one.metric)).collect()
    };
    let [better, worse, same] = split(one.metric, &points);
    let count = match is_alone {
        true => format!("1 case, {}", counted(points.len(), "run", "runs")),
        false => counted(points.len(), "case", "cases"),
    };
    let chart = before_and_after(&format!("case-{index}"), one, &points);
    let tone = match one.direction {
        Direction::Better => "good",
        Direction::Worse => "bad",
        Direction::Same | Direction::Unclear => "",
    };
    (!points.is_empty()).then(|| {
        format!(
            "<article>\n<h3>{}</h3>\n<p class=\"leap\">{} <span>→</span> {}</p>\n<p class=\"small\">{} \
             <span class=\"dim\">{count}: {better} better, {worse} worse, {same} the \
             same.</span></p>\n{chart}</article>\n",
            capitalised(&in_words(one)),
            quantity(one.metric, one.baseline),
            quantity(one.metric, one.patched),
            tag(tone, &told(one)),
        )
    })
}

/// A metric with its part, on one line.
fn in_words(one: &MetricComparison) -> String {
    let part = one.part.as_deref().map(|part| format!(" <span class=\"dim\">in {}</span>", safe(part, 40)));
    format!("{}{}", one.metric.title(), part.unwrap_or_default())
}

/// The runs of a case.
fn runs(case: &Case<'_>, metric: Metric) -> Vec<Point> {
    let pairs = case.pairs.iter().filter_map(|pair| Some((pair.baseline.repetition, values(pair, metric)?)));
    pairs.map(|(run, [before, after])| Point { name: format!("run {}", u64::from(run) + 1), before, after }).collect()
}
/// The means of a case over its pairs.
fn point(case: &Case<'_>, metric: Metric) -> Option<Point> {
    let values: Vec<[f64; 2]> = case.pairs.iter().filter_map(|pair| values(pair, metric)).collect();
    let mean = |side: usize| values.iter().map(|pair| pair[side]).sum::<f64>() / values.len() as f64;
    (!values.is_empty()).then(|| Point { name: case.name.to_owned(), before: mean(0), after: mean(1) })
}

const CHECKS: [Column; 5] = [
    Column::Words("Case"),
    Column::Words("So it"),
    Column::Words("What must hold"),
    Column::Words("Before"),
    Column::Words("With the patch"),
];

fn check_table(caption: &str, tallies: &[&Tally<'_>]) -> String {
    let rows: Vec<String> = tallies.iter().take(MAX_CHECKS).map(|tally| check_row(tally)).collect();
    table(caption, &CHECKS, &rows) + &more(tallies.len(), MAX_CHECKS, "checks")
}

fn check_row(tally: &Tally<'_>) -> String {
    let cell = |passed: usize| match (passed, tally.runs) {
        (1, 1) => "✓ passed".to_owned(),
        (0, 1) => "✗ failed".to_owned(),
        (passed, runs) => format!("{} {passed} of {runs} passed", if passed * 2 > runs { "✓" } else { "✗" }),
    };
    let (tone, words) = match tally.outcome() {
        Outcome::Regressed => ("bad", "regressed"),
        Outcome::Failing => ("warn", "fails as before"),
        Outcome::Fixed => ("good", "is fixed"),
        Outcome::Passing if tally.is_flaky() => ("warn", "passes, flaky"),
        Outcome::Passing => ("good", "passes"),
    };
    let found = tally.found.map(|found| format!("<small>found: {}</small>", safe(found, 160)));
    let held = format!("<span class=\"held\">{}{}</span>", safe(tally.check, 160), found.unwrap_or_default());
    let (before, after) = (cell(tally.baseline), cell(tally.patched));
    row(&CHECKS, &case_name(tally.part, tally.case), &[tag(tone, words), held, before, after])
}

fn case_name(part: &str, case: &str) -> String {
    format!("<b>{}</b><small>{}</small>", safe(case, 80), safe(part, 80))
}

/// Cases that could not be run.
fn failures(cases: &[Case<'_>]) -> String {
    let why = |sample: &EvaluationSample| sample.failure.as_deref().map(|why| format!("✗ {}", safe(why, 160)));
    let cell = |why: Option<String>| why.unwrap_or_else(|| "✓ ran".to_owned());
    let failing: Vec<&Case<'_>> = cases.iter().filter(|case| case.pairs.iter().any(|pair| !pair.ran())).collect();
    if failing.is_empty() {
        return String::new();
    }
    let columns = [Column::Words("Case"), Column::Words("Before"), Column::Words("With the patch")];
    let one = |case: &&Case<'_>| {
        let before = case.pairs.iter().find_map(|pair| why(pair.baseline));
        let after = case.pairs.iter().find_map(|pair| why(pair.patched));
        row(&columns, &case_name(case.part, case.name), &[cell(before), cell(after)])
    };
    let rows: Vec<String> = failing.iter().take(MAX_CHECKS).map(one).collect();
    table("Cases that could not be run", &columns, &rows) + &more(failing.len(), MAX_CHECKS, "cases")
}
