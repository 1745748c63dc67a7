//! What came of it, counted.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::arms::{BenchArm, COMPARED};
use super::run::BenchOptions;
use super::statistics::{PairedCounts, SolvedCount, mean};

/// The version of the JSON document.
const SCHEMA: &str = "herm/learning-table@1";
/// Where a difference is called one.
pub(super) const SIGNIFICANT: f64 = 0.05;
/// How much of an answer the list of tasks has.
const MOST_ANSWER: usize = 500;

/// One task of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskResult {
    pub(super) task: String,
    /// Whether every check of the task passed.
    pub solved: bool,
    pub(super) turns: u32,
    pub(super) calls: u32,
    pub(super) model: Option<String>,
    /// Whether the prompt had something to go by: an example, or a skill whole.
    pub(super) shown: bool,
    /// Whether no backend answered.
    pub(super) unanswered: bool,
    /// Why it is not solved.
    pub(super) why: Option<String>,
    pub(super) answer: Option<String>,
}

/// One arm of one family.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ArmResult {
    pub(super) arm: BenchArm,
    /// How many skills it had after the learning half, beside the one it was given.
    pub(super) learned: usize,
    /// How many changes the evolver made while it learned: lessons and merges.
    pub(super) evolved: u64,
    /// What there is to say of the tools that were started for it.
    pub(super) remarks: Vec<String>,
    pub(super) learn: Vec<TaskResult>,
    pub(super) held_out: Vec<TaskResult>,
}

/// What was measured of one family.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FamilyResult {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) group: Option<String>,
    /// How many demonstrations the arms that learn were given.
    pub(super) demonstrations: usize,
    pub(super) remarks: Vec<String>,
    pub(super) arms: Vec<ArmResult>,
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchTable {
    pub(super) backend: String,
    /// The model, as it names itself.
    pub(super) model: String,
    pub(super) labels: bool,
    pub(super) families: Vec<FamilyResult>,
}

/// One arm of one family, or of several together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) arm: BenchArm,
    pub(super) learned: usize,
    pub(super) evolved: u64,
    pub(super) learn: SolvedCount,
    pub(super) held_out: SolvedCount,
    /// How many held-out tasks had something to go by in the prompt.
    pub(super) shown: usize,
    /// Against no learning, on the held-out tasks; nothing where that was not measured, or where this is it.
    pub(super) against_none: Option<PairedCounts>,
    /// Turns and calls of a held-out task, in the mean.
    pub(super) turns: Option<f64>,
    pub(super) calls: Option<f64>,
}

/// Two arms that both learn, task by task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Comparison {
    pub(super) arm: BenchArm,
    pub(super) against: BenchArm,
    pub(super) counts: PairedCounts,
}

/// The rows of one family, or of several together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowGroup {
    pub(super) title: String,
    /// Whether it is several families together.
    pub(super) pooled: bool,
    pub(super) families: usize,
    pub(super) rows: Vec<Row>,
    pub(super) comparisons: Vec<Comparison>,
}

impl FamilyResult {
    fn arm(&self, arm: BenchArm) -> Option<&ArmResult> {
        self.arms.iter().find(|result| result.arm == arm)
    }

    /// Whether a held-out task was solved by one arm and by the other, task by task.
    fn pairs(&self, arm: BenchArm, against: BenchArm) -> Option<PairedCounts> {
        let (this, other) = (self.arm(arm)?, self.arm(against).filter(|_| arm != against)?);
        let pairs = this.held_out.iter().zip(&other.held_out).map(|(this, other)| (this.solved, other.solved));
        Some(PairedCounts::of(pairs))
    }
}

impl BenchTable {
    pub(super) fn new(backend: &str, options: &BenchOptions, families: Vec<FamilyResult>) -> Self {
        let arms = families.iter().flat_map(|family| &family.arms);
        let tasks = arms.flat_map(|arm| arm.learn.iter().chain(&arm.held_out));
        let models: BTreeSet<&str> = tasks.filter_map(|task| task.model.as_deref()).collect();
        let model = match models.is_empty() {
            true => backend.to_owned(),
            false => models.into_iter().collect::<Vec<_>>().join(", "),
        };
        Self { backend: backend.to_owned(), model, labels: options.labels, families }
    }

    /// The arms that were measured anywhere, in the order of the table.
    pub(super) fn arms(&self) -> Vec<BenchArm> {
        let arms: BTreeSet<BenchArm> =
            self.families.iter().flat_map(|family| &family.arms).map(|arm| arm.arm).collect();
        arms.into_iter().collect()
    }

    /// The rows of each family, then of each group of several, then of all together.
    pub(super) fn groups(&self) -> Vec<RowGroup> {
        let each = |family: &FamilyResult| self.rows(&family.name, false, &[family]);
        let mut groups: Vec<RowGroup> = self.families.iter().map(each).collect();
        let names: BTreeSet<&str> = self.families.iter().filter_map(|family| family.group.as_deref()).collect();
        for name in names {
            let of_group = |family: &&FamilyResult| family.group.as_deref() == Some(name);
            let members: Vec<&FamilyResult> = self.families.iter().filter(of_group).collect();
            if members.len() > 1 && members.len() < self.families.len() {
                groups.push(self.rows(name, true, &members));
            }
        }
        if self.families.len() > 1 {
            groups.push(self.rows("all", true, &self.families.iter().collect::<Vec<_>>()));
        }
        groups
    }

    /// Several families together. An arm that one of them does not have is left out: its count would be of other tasks.
    fn rows(&self, title: &str, pooled: bool, families: &[&FamilyResult]) -> RowGroup {
        let pairs = |arm, against| -> Option<PairedCounts> {
            let each: Option<Vec<PairedCounts>> = families.iter().map(|family| family.pairs(arm, against)).collect();
            Some(each?.into_iter().fold(PairedCounts::default(), PairedCounts::plus))
        };
        let row = |arm: BenchArm| -> Option<Row> {
            let results: Vec<&ArmResult> = families.iter().map(|family| family.arm(arm)).collect::<Option<_>>()?;
            let held_out = || results.iter().flat_map(|result| &result.held_out);
            let count = |of: fn(&ArmResult) -> &Vec<TaskResult>| {
                let each = results.iter().map(|result| SolvedCount::of(of(result).iter().map(|task| task.solved)));
                each.fold(SolvedCount::default(), SolvedCount::plus)
            };
            Some(Row {
                arm,
                evolved: results.iter().map(|result| result.evolved).sum(),
                learned: results.iter().map(|result| result.learned).sum(),
                learn: count(|result| &result.learn),
                held_out: count(|result| &result.held_out),
                shown: held_out().filter(|task| task.shown).count(),
                against_none: pairs(arm, BenchArm::None),
                turns: mean(held_out().map(|task| task.turns)),
                calls: mean(held_out().map(|task| task.calls)),
            })
        };
        let rows = self.arms().into_iter().filter_map(row).collect();
        let compare = |(arm, against)| pairs(arm, against).map(|counts| Comparison { arm, against, counts });
        let comparisons = COMPARED.into_iter().filter_map(compare).collect();
        RowGroup { title: title.to_owned(), pooled, families: families.len(), rows, comparisons }
    }

    /// The document for programs.
    pub fn json(&self) -> Value {
        let solved =
            |tasks: &[TaskResult]| -> String { tasks.iter().map(|task| if task.solved { '1' } else { '0' }).collect() };
        let families = self.families.iter().map(|family| {
            let arms = family.arms.iter().map(
                |arm| json!({ "arm": arm.arm.name(), "learn": solved(&arm.learn), "heldOut": solved(&arm.held_out) }),
            );
            json!({
                "name": family.name, "about": family.about, "group": family.group,
                "demonstrations": family.demonstrations, "remarks": family.remarks, "solved": arms.collect::<Vec<_>>(),
            })
        });
        let groups = self.groups().into_iter().map(|group| {
            let rows: Vec<Value> = group.rows.iter().map(Row::json).collect();
            let compared: Vec<Value> = group.comparisons.iter().map(Comparison::json).collect();
            json!({
                "title": group.title, "pooled": group.pooled, "families": group.families, "rows": rows,
                "compared": compared,
            })
        });
        json!({
            "schema": SCHEMA, "backend": self.backend, "model": self.model, "labels": self.labels,
            "families": families.collect::<Vec<_>>(), "table": groups.collect::<Vec<_>>(),
        })
    }

    /// Every task of every arm, one JSON object a line.
    pub fn task_lines(&self) -> String {
        let mut lines = String::new();
        for family in &self.families {
            for arm in &family.arms {
                for (half, tasks) in [("learn", &arm.learn), ("held_out", &arm.held_out)] {
                    for task in tasks {
                        let answer = task.answer.as_deref().map(|answer| herm::text::line(answer, MOST_ANSWER));
                        let line = json!({
                            "family": family.name, "arm": arm.arm.name(), "half": half, "task": task.task,
                            "solved": task.solved, "shown": task.shown, "turns": task.turns, "calls": task.calls,
                            "answer": answer, "why": task.why,
                        });
                        lines.push_str(&format!("{line}\n"));
                    }
                }
            }
        }
        lines
    }
}

impl Row {
    /// Whether it differs from no learning: better or worse, where it does.
    pub(super) fn difference(&self) -> Option<bool> {
        let counts = self.against_none.filter(|counts| counts.p() < SIGNIFICANT)?;
        Some(counts.better > counts.worse)
    }

    fn json(&self) -> Value {
        let count = |count: SolvedCount| {
            let interval = count.interval().map(|share| rounded(share, 6));
            json!({ "solved": count.solved, "tasks": count.tasks, "interval": interval })
        };
        let against = self.against_none.map(paired);
        json!({
            "arm": self.arm.name(), "learned": self.learned, "evolved": self.evolved, "learn": count(self.learn), "heldOut": count(self.held_out),
            "shown": self.shown, "againstNone": against, "turns": self.turns.map(|mean| rounded(mean, 4)),
            "calls": self.calls.map(|mean| rounded(mean, 4)),
        })
    }
}

impl Comparison {
    fn json(&self) -> Value {
        let mut said = paired(self.counts);
        (said["arm"], said["against"]) = (self.arm.name().into(), self.against.name().into());
        said
    }
}

fn paired(counts: PairedCounts) -> Value {
    json!({ "better": counts.better, "worse": counts.worse, "p": significant(counts.p()) })
}

/// So many digits behind the point: the last ones of a computation need not be the same on every machine.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Six digits, wherever the point is.
fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn task(solved: bool) -> TaskResult {
        TaskResult {
            task: "t".to_owned(),
            solved,
            turns: 2,
            calls: 1,
            model: Some("tiny".to_owned()),
            shown: solved,
            unanswered: false,
            why: (!solved).then(|| "no".to_owned()),
            answer: Some("{}".to_owned()),
        }
    }

    fn tasks(solved: &str) -> Vec<TaskResult> {
        solved.chars().map(|solved| task(solved == '1')).collect()
    }

    fn arm(arm: BenchArm, learn: &str, held_out: &str) -> ArmResult {
        ArmResult { arm, learned: 1, evolved: 0, remarks: Vec::new(), learn: tasks(learn), held_out: tasks(held_out) }
    }

    /// A table of two families, one of which has no curated skill.
    pub(crate) fn table() -> BenchTable {
        let family = |name: &str, arms| FamilyResult {
            name: name.to_owned(),
            about: "tests".to_owned(),
            group: None,
            demonstrations: 0,
            remarks: Vec::new(),
            arms,
        };
        let arms = crate::arms::ARMS.to_vec();
        let options = BenchOptions { arms, learn: None, held_out: None, demonstrations: None, labels: true };
        let families = vec![
            family(
                "ferry",
                vec![
                    arm(BenchArm::None, "0100", "00000000"),
                    arm(BenchArm::Curated, "0101", "11110000"),
                    arm(BenchArm::Examples, "0111", "11111111"),
                ],
            ),
            family("bus", vec![arm(BenchArm::None, "1111", "11111111"), arm(BenchArm::Examples, "0111", "00001111")]),
        ];
        BenchTable::new("scripted", &options, families)
    }

    #[test]
    fn families_are_counted_alone_and_together_on_the_same_tasks() {
        let table = table();
        let groups = table.groups();
        let shape: Vec<_> = groups.iter().map(|group| (group.title.as_str(), group.rows.len())).collect();
        assert_eq!(shape, [("ferry", 3), ("bus", 2), ("all", 2)], "the curated arm is not of all families");
        let all = groups.last().unwrap().rows.last().unwrap();
        assert_eq!(
            (all.held_out, all.learn),
            (SolvedCount { solved: 12, tasks: 16 }, SolvedCount { solved: 6, tasks: 8 })
        );
        assert_eq!(all.against_none, Some(PairedCounts { better: 8, worse: 4 }));
        assert_eq!(groups[0].rows[2].difference(), Some(true));
        assert_eq!(groups[1].rows[1].difference(), None, "4 of 4 is not significant");
        assert_eq!(groups[0].rows[0].against_none, None);
        assert_eq!(table.model, "tiny");
    }

    #[test]
    fn the_json_document_has_every_task_as_a_digit() {
        let json = table().json();
        assert_eq!(
            json["families"][0]["solved"][2],
            json!({ "arm": "examples", "learn": "0111", "heldOut": "11111111" })
        );
        let row = &json["table"][0]["rows"][2];
        assert_eq!(row["againstNone"], json!({ "better": 8, "worse": 0, "p": 0.0078125 }));
        assert_eq!(row["heldOut"]["interval"], json!([0.675592, 1.0]));
        assert_eq!(table().task_lines().lines().count(), 3 * 12 + 2 * 12);
    }

    #[test]
    fn groups_of_families_have_rows_of_their_own() {
        let mut table = table();
        let mut third = table.families[1].clone();
        third.name = "third".to_owned();
        table.families.push(third);
        for at in [0, 2] {
            table.families[at].group = Some("one call".to_owned());
        }
        let titles: Vec<_> = table.groups().into_iter().map(|group| (group.title, group.families)).collect();
        let wanted = [("ferry", 1), ("bus", 1), ("third", 1), ("one call", 2), ("all", 3)];
        assert_eq!(titles, wanted.map(|(title, count)| (title.to_owned(), count)));
    }
}
