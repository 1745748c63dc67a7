//! Outcomes and trials of a brain: what a step writes of them, and what is said of a task after it was settled.
//!
//! Feedback on a settled task is a step of its own ([`Brain::record_outcome`]): it has a receipt, and the bundle hash
//! sees it in the task log. Everything here is taken away again by a rewind; an undo leaves it, like all that happened.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::json;

use super::draft::Draft;
use super::history::StepKind;
use super::journal;
use super::open::Brain;
use super::reader::Reader;
use super::settle::{SettledStep, Step};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Slug, TaskId, sha256};
use crate::memory::{
    self, Arm, Database, LoggedTask, MAX_REPORTS, OutcomeCounts, OutcomeReport, OutcomeSource, OutcomeValue, TaskEntry,
    TaskOutcome, Trial, TrialState, TrialTask, TrialWriter,
};

/// What a step says of outcomes and trials.
#[derive(Debug, Clone, Default)]
pub(super) struct OutcomeWrites {
    /// By task, what is said of its answer.
    reports: Vec<(String, Vec<OutcomeReport>)>,
    trials: Vec<Trial>,
    trial_tasks: Vec<TrialTask>,
}

impl OutcomeWrites {
    pub(super) fn extend(&mut self, other: Self) {
        self.reports.extend(other.reports);
        self.trials.extend(other.trials);
        self.trial_tasks.extend(other.trial_tasks);
    }

    /// Leaves what the step says of where these skills stand, and nothing of others.
    pub(super) fn keep_trials(&mut self, kept: impl FnMut(&Trial) -> bool) {
        self.trials.retain(kept);
    }

    /// Whether the step says where a skill stands.
    pub(super) fn has_trial_of(&self, skill: &Slug) -> bool {
        self.trials.iter().any(|trial| trial.skill == *skill)
    }

    /// What the step says of the answer of a task that it puts into the log.
    pub(super) fn of_task(&self, task: &str) -> OutcomeValue {
        let said = self.reports.iter().filter(|(of, _)| of == task).flat_map(|(_, reports)| reports.iter().cloned());
        TaskOutcome::of(said.collect()).value
    }

    /// What the step says of tasks that were in the log before it.
    pub(super) fn of_earlier_tasks<'a>(
        &'a self,
        new: &'a [TaskEntry],
    ) -> impl Iterator<Item = (&'a str, &'a [OutcomeReport])> {
        let said = self.reports.iter().map(|(task, reports)| (task.as_str(), reports.as_slice()));
        said.filter(|(task, _)| !new.iter().any(|entry| entry.task == *task))
    }

    /// Writes it with the step it belongs to.
    pub(super) fn keep(&self, connection: &Connection, step: i64) -> Result<()> {
        for (task, reports) in &self.reports {
            for report in reports {
                memory::add_report(connection, step, task, report)?;
            }
        }
        let writer = TrialWriter::new(connection, step);
        for trial in &self.trials {
            writer.put_trial(trial)?;
        }
        for task in &self.trial_tasks {
            writer.add_task(task)?;
        }
        Ok(())
    }
}

impl Draft {
    /// Says how good the answer of a task is: of one that this draft puts into the log, or of an earlier one. Its sources
    /// count; the value is made of them.
    pub fn outcome(&mut self, task: &TaskId, outcome: TaskOutcome) {
        // The lowest first: the order in which they are kept says nothing, but should be one.
        let mut reports = TaskOutcome::of(outcome.sources).sources;
        reports.reverse();
        if !reports.is_empty() {
            self.telemetry.outcomes.reports.push((task.to_string(), reports));
        }
    }

    /// Says where a learned skill stands, if the step happens.
    pub fn trial(&mut self, trial: Trial) {
        self.telemetry.outcomes.trials.push(trial);
    }

    /// Adds a task to a trial, if the step happens.
    pub fn trial_task(&mut self, task: TrialTask) {
        self.telemetry.outcomes.trial_tasks.push(task);
    }
}

impl Brain {
    /// Takes in what somebody says of the answer of a settled task, as a step of its own. `None` where the same source has
    /// said the same before. Refused as `NotFound` where there is no such task, as `Conflict` where a source other than
    /// the operator has reported too often.
    pub fn record_outcome(&mut self, task: &TaskId, report: OutcomeReport) -> Result<Option<SettledStep>> {
        self.check_usable()?;
        let report = report.checked()?;
        let Some(logged) = self.database.logged_task(task)? else { return Err(no_such_task(self.id(), task)) };
        let reports = self.database.outcome_reports(task)?;
        let of_source = || reports.iter().filter(|earlier| earlier.source == report.source);
        if of_source().next_back().is_some_and(|last| last.says_same(&report)) {
            return Ok(None);
        }
        if report.source != OutcomeSource::Label && of_source().count() >= MAX_REPORTS {
            return Err(Error::conflict(format!("task {task} was reported on {MAX_REPORTS} times"))
                .hint("the last report stands; the operator can still say how good the answer was"));
        }
        let OutcomeReport { source, value, ref note, .. } = report;
        let summary = format!("{} on task {task}: {value}", source.name());
        let outcome = TaskOutcome::of(reports).with(report.clone()).value;
        let note = note.as_ref().map(|note| json!({ "sha256": sha256(note.as_bytes()), "bytes": note.len() }));
        let said = json!({
            "feedback": {
                "task": task, "subscriber": logged.subscriber, "source": source, "value": value, "note": note,
                "outcome": outcome,
            }
        });
        let mut draft = Draft::new();
        draft.telemetry.outcomes.reports.push((task.to_string(), vec![report]));
        let step = Step { kind: StepKind::Feedback, summary: &summary, report: Some(&said), transcript: None };
        self.settle_step(&draft, &step).map(Some)
    }

    /// Writes rows of trials in one transaction that is no step. Where `write` fails, nothing is written.
    pub fn write_trials<T>(&mut self, write: impl FnOnce(&TrialWriter<'_>) -> Result<T>) -> Result<T> {
        self.check_usable()?;
        self.beside_steps(|connection| {
            let step = journal::last_step(connection)?;
            write(&TrialWriter::new(connection, step))
        })
    }
}

/// That a brain has no such task, or none that the caller may know of.
pub fn no_such_task(brain: &BrainId, task: &TaskId) -> Error {
    Error::not_found(format!("brain {brain} has no task {task}")).hint("name a task that was settled in this brain")
}

/// The same questions, of an owner and of a reader.
macro_rules! read_outcomes {
    ($holder:ident) => {
        impl $holder {
            /// A task of the log: how it ended, how good it was, and whose it was.
            pub fn logged_task(&self, task: &TaskId) -> Result<Option<LoggedTask>> {
                self.outcome_rows().logged_task(task)
            }

            /// How good the answer of a task was, and who says so; `None` where there is no such task.
            pub fn outcome(&self, task: &TaskId) -> Result<Option<TaskOutcome>> {
                self.outcome_rows().outcome(task)
            }

            /// How many tasks that began since a moment came to which outcome.
            pub fn outcome_counts(&self, since: Timestamp) -> Result<OutcomeCounts> {
                self.outcome_rows().outcome_counts(since)
            }

            /// By skill, how many of the tasks that had it loaded or in their prompt came to which outcome, of all that
            /// are still known. A skill that no task had is not named.
            pub fn skill_outcomes(&self) -> Result<BTreeMap<Slug, OutcomeCounts>> {
                self.outcome_rows().skill_outcomes()
            }

            /// Where one learned skill stands; `None` where it never was on trial.
            pub fn trial(&self, skill: &Slug) -> Result<Option<Trial>> {
                self.outcome_rows().trial(skill)
            }

            /// Where every skill stands that is or was on trial, by skill.
            pub fn trials(&self) -> Result<Vec<Trial>> {
                self.outcome_rows().trials()
            }

            /// The tasks of a trial, in the order in which they came, each with the score of its outcome as it is now.
            pub fn trial_tasks(&self, skill: &Slug) -> Result<Vec<TrialTask>> {
                self.outcome_rows().trial_tasks(skill)
            }

            /// The skills that a task matched while they were on trial, with what was drawn for it, by skill.
            pub fn trials_of_task(&self, task: &TaskId) -> Result<Vec<(Slug, Arm)>> {
                self.outcome_rows().trials_of_task(task)
            }

            fn outcome_rows(&self) -> &Database {
                &self.database
            }
        }
    };
}

read_outcomes!(Brain);
read_outcomes!(Reader);

impl Reader {
    /// The skills whose trial goes on, by name: not those that a merge or a person archived meanwhile.
    pub fn on_trial(&self) -> Result<Vec<Slug>> {
        let there = self.skills()?;
        let trials = self.trials()?.into_iter();
        let goes_on = |trial: &Trial| trial.state == TrialState::Trial && there.get(&trial.skill).is_some();
        Ok(trials.filter(goes_on).map(|trial| trial.skill).collect())
    }
}
