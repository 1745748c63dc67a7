//! Undoing one step: its files and what it decided about skills, put back as a step of their own.
//!
//! What was said, noted, counted and signed stays: messages, facts, the task log, counts and receipts
//! are facts about what happened, and an undo is one more of them.

use super::diff::{self, SkillDiff};
use super::draft::Draft;
use super::history::{self, ChangeRecord, StepKind, StepRecord};
use super::journal;
use super::journal::FileChange;
use super::journal_check;
use super::open::Brain;
use super::settle::SettledStep;
use crate::error::{Error, Result};
use crate::ids::{RelPath, Slug};
use crate::layout;
use crate::memory::{Table, TrialState, undo};
use crate::skill::{self, CreatedBy, SkillLifecycle, SkillState};
use crate::text;

/// The most characters of a summary.
const MOST_SUMMARY: usize = 300;
/// How many things that changed since are named in an error.
const MOST_NAMED: usize = 5;

/// What to do about something that the step changed and that was changed again since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChanged {
    /// Refuse, and name it.
    Refuse,
    /// Put it back all the same; the step says that it was forced.
    Overwrite,
}

/// What a step changed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UndoTarget {
    /// The content of a file.
    File(RelPath),
    /// Where a skill stands.
    Skill(Slug),
}

impl std::fmt::Display for UndoTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{path}"),
            Self::Skill(slug) => write!(f, "the state of skill {slug}"),
        }
    }
}

/// Something that was changed again after the step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LaterChange {
    /// The file or the skill that was changed again.
    #[serde(flatten)]
    pub target: UndoTarget,
    /// The later steps that changed it.
    pub steps: Vec<i64>,
}

/// Rows of a step that are not undone.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RetainedRows {
    /// The table's name in `memory.db`: messages, facts or the task log.
    pub table: &'static str,
    /// How many rows the step wrote there. They stay.
    pub rows: u64,
}

/// What undoing a step changes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoPlan {
    /// The step that is undone.
    pub step: i64,
    /// What it was, in a line.
    pub summary: String,
    /// The files that move: as they are now, and as they will be.
    pub files: Vec<ChangeRecord>,
    /// The skills that move: where they stand now, and where they will.
    pub skills: Vec<SkillDiff>,
    /// What was changed since, and is put back all the same.
    pub overwritten: Vec<LaterChange>,
    /// What the step wrote into the memory, which stays.
    pub kept: Vec<RetainedRows>,
}

impl UndoPlan {
    /// Whether everything is already as it was before the step.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.skills.is_empty()
    }

    /// The step that undoes, in a line.
    fn line(&self) -> String {
        let forced = if self.overwritten.is_empty() { "" } else { " (forced)" };
        text::line(&format!("undo of step {}{forced}: {}", self.step, self.summary), MOST_SUMMARY)
    }
}

/// How an undo went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoOutcome {
    /// What the undo changed; empty where everything was already as before the step.
    pub plan: UndoPlan,
    /// How the brain moved; `None` where everything was already as before the step.
    pub settled: Option<SettledStep>,
}

impl Brain {
    /// Puts what step `seq` changed back to what it was before, as a step of kind `rollback`.
    ///
    /// Files that were changed again since are a conflict unless they may be overwritten, and so are
    /// skills whose state was. The step that made the brain cannot be undone; an undo can.
    pub fn undo(&mut self, seq: i64, on_changed: OnChanged) -> Result<UndoOutcome> {
        let (plan, mut draft) = self.prepare_undo(seq, on_changed)?;
        if plan.is_empty() {
            return Ok(UndoOutcome { plan, settled: None });
        }
        draft.rolled_back(seq);
        let settled = self.settle(&draft, StepKind::Undo { of: Some(seq) }, &plan.line())?;
        Ok(UndoOutcome { plan, settled: Some(settled) })
    }

    /// What [`undo`](Self::undo) would do. Nothing happens, and it is refused where the undo would be.
    pub fn plan_undo(&self, seq: i64, on_changed: OnChanged) -> Result<UndoPlan> {
        self.prepare_undo(seq, on_changed).map(|(plan, _)| plan)
    }

    fn prepare_undo(&self, seq: i64, on_changed: OnChanged) -> Result<(UndoPlan, Draft)> {
        self.check_usable()?;
        let step = history::expect(&self.database, self.id(), seq)?;
        if step.kind == StepKind::Create {
            return Err(Error::refused(format!("step {seq} made brain {}: there is nothing before it", self.id()))
                .hint("undo a later step, or make another brain with `herm init`"));
        }
        // What the journal keeps is used only where it is what the receipts were signed with.
        let journal =
            journal_check::check(&self.database.connection, seq, &self.receipt_keys()?)?.into_result(self.id())?;
        if journal.lost.contains(&seq) {
            return Err(Error::refused(format!(
                "step {seq} is lost but for its receipt: there is nothing to put back"
            ))
            .hint("undo another step, or restore the brain from a snapshot"));
        }
        let mut plan = UndoPlan {
            step: seq,
            summary: step.summary.clone(),
            files: Vec::new(),
            skills: Vec::new(),
            overwritten: Vec::new(),
            kept: self.kept_rows(seq)?,
        };
        let mut draft = Draft::new();
        self.undo_files(&step, &mut plan, &mut draft)?;
        self.undo_standings(seq, &mut plan, &mut draft)?;
        self.undo_trials(seq, &plan, &mut draft)?;
        match on_changed {
            OnChanged::Refuse if !plan.overwritten.is_empty() => Err(self.changed_since(&step, &plan.overwritten)),
            OnChanged::Refuse | OnChanged::Overwrite => Ok((plan, draft)),
        }
    }

    fn undo_files(&self, step: &StepRecord, plan: &mut UndoPlan, draft: &mut Draft) -> Result<()> {
        let later = journal::changes(&self.database.connection, step.seq.saturating_add(1), i64::MAX)?;
        for change in &step.changes {
            let now = self.tree()?.get(&change.path);
            if now == change.before {
                continue;
            }
            if now != change.after {
                let steps = later.iter().filter(|(_, later)| later.path == change.path).map(|(seq, _)| *seq).collect();
                plan.overwritten.push(LaterChange { target: UndoTarget::File(change.path.clone()), steps });
            }
            let content = match change.before {
                None => None,
                Some(digest) => match diff::content(&self.database, &self.root, &digest)? {
                    Some(content) => Some(content),
                    None => return Err(self.content_lost(step, &change.path)),
                },
            };
            if content.is_none() && skill::MAIN_FILES.contains(&change.path.name()) {
                self.left_behind(step, &change.path, &later, plan, draft)?;
            }
            draft.files.insert(change.path.clone(), content);
            plan.files.push(ChangeRecord { path: change.path.clone(), before: now, after: change.before });
        }
        Ok(())
    }

    /// Files of a skill that would lose its main file, which later steps put there: without it they
    /// would be nobody's, or skills of their own.
    fn left_behind(
        &self,
        step: &StepRecord,
        main: &RelPath,
        later: &[(i64, FileChange)],
        plan: &mut UndoPlan,
        draft: &mut Draft,
    ) -> Result<()> {
        let Some(dir) = main.parent() else { return Ok(()) };
        for path in self.tree()?.below(dir.as_str()) {
            if path == main || step.changes.iter().any(|change| change.path == *path && change.before.is_none()) {
                continue;
            }
            let steps = later.iter().filter(|(_, later)| later.path == *path).map(|(seq, _)| *seq).collect();
            plan.overwritten.push(LaterChange { target: UndoTarget::File(path.clone()), steps });
            // Taken along where it is forced.
            draft.files.insert(path.clone(), None);
            plan.files.push(ChangeRecord { path: path.clone(), before: self.tree()?.get(path), after: None });
        }
        Ok(())
    }

    /// What the step decided about skills. Counts and times of use are never put back.
    fn undo_standings(&self, seq: i64, plan: &mut UndoPlan, draft: &mut Draft) -> Result<()> {
        let connection = &self.database.connection;
        let later = undo::standings(connection, seq.saturating_add(1), i64::MAX)?;
        for undo::PriorLifecycle { slug, standing: before, .. } in undo::standings(connection, seq, seq)? {
            let Some(mut usage) = self.database.skill_usage_of(&slug)? else { continue };
            let now = SkillLifecycle::of(&usage);
            let mut since: Vec<(i64, SkillLifecycle)> =
                later.iter().filter(|later| later.slug == slug).map(|later| (later.step, later.standing)).collect();
            since.push((i64::MAX, now));
            let after = since.first().map_or(now, |(_, standing)| *standing);
            if before == after || now == before {
                continue;
            }
            if now != after {
                let moved = since.iter().zip(since.iter().skip(1)).filter(|((_, from), (_, to))| from != to);
                let steps = moved.map(|((step, _), _)| *step).collect();
                plan.overwritten.push(LaterChange { target: UndoTarget::Skill(slug.clone()), steps });
            }
            let was_retired = matches!(
                (before.state, now.state),
                (SkillState::Active, SkillState::Stale | SkillState::Archived)
                    | (SkillState::Stale, SkillState::Archived)
            );
            if was_retired {
                // A person who undoes this has looked at the skill: the curator does not take it away again at once.
                usage.last_viewed_at = Some(self.clock().now());
            }
            before.put(&mut usage);
            draft.usage.insert(slug.clone(), usage);
            plan.skills.push(SkillDiff { slug, before: now, after: before });
        }
        Ok(())
    }

    /// A skill whose text of before is back stands where it stood with it. Where that was not decided, or the text was
    /// rewritten again since, it is tried anew.
    fn undo_trials(&self, seq: i64, plan: &UndoPlan, draft: &mut Draft) -> Result<()> {
        let rewritten = |path: &RelPath| {
            plan.files.iter().any(|file| file.path == *path && file.before.is_some() && file.after.is_some())
        };
        let paths: Vec<RelPath> = self.tree()?.below(layout::SKILLS_DIR).cloned().collect();
        for place in skill::all_skills(&paths, layout::SKILLS_DIR).filter(|place| rewritten(&place.main)) {
            let slug = place.slug;
            let usage = self.database.skill_usage_of(&slug)?;
            let is_tried = usage.is_some_and(|usage| usage.created_by == CreatedBy::Agent && !usage.pinned);
            if !is_tried || self.trial(&slug)?.is_none_or(|trial| trial.state == TrialState::Harmful) {
                continue;
            }
            let restart = self.database.trial_restart(&slug)?.filter(|restart| restart.step == seq);
            let before = restart.map(|restart| restart.before).filter(|before| before.state != TrialState::Trial);
            let now = self.clock().now();
            let trial = match before {
                Some(before) => Some(before),
                None => self.database.trial_anew(&slug, now, "its text of before is back")?,
            };
            if let Some(trial) = trial {
                draft.trial(trial);
            }
        }
        Ok(())
    }

    fn kept_rows(&self, seq: i64) -> Result<Vec<RetainedRows>> {
        let counts = undo::counts(&self.database.connection, seq)?;
        let stays = |table: &Table| matches!(table, Table::Messages | Table::Facts | Table::TaskLog);
        let kept = counts.into_iter().filter(|(table, _)| stays(table));
        Ok(kept.map(|(table, rows)| RetainedRows { table: table.name(), rows }).collect())
    }

    fn content_lost(&self, step: &StepRecord, path: &RelPath) -> Error {
        let seq = step.seq;
        Error::refused(format!("step {seq} cannot be undone: the journal has lost what {path} was before it"))
            .hint(format!("put the file back by hand, and take it over with `herm brain adopt {}`", self.id()))
    }

    fn changed_since(&self, step: &StepRecord, changed: &[LaterChange]) -> Error {
        let named = |changed: &LaterChange| match changed.steps.as_slice() {
            [] => changed.target.to_string(),
            [one] => format!("{} (step {one})", changed.target),
            several => {
                let numbers: Vec<String> = several.iter().map(i64::to_string).collect();
                format!("{} (steps {})", changed.target, numbers.join(", "))
            }
        };
        let shown: Vec<String> = changed.iter().take(MOST_NAMED).map(named).collect();
        let more = match changed.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (seq, id) = (step.seq, self.id());
        Error::conflict(format!("step {seq} cannot be undone: changed since: {}{more}", shown.join(", "))).hint(format!(
            "see what came later with `herm brain diff {id} {}`; undo the later steps first, or overwrite them with \
             --force",
            step.version
        ))
    }
}
