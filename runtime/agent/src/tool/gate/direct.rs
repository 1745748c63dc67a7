//! What reached skills past the gate, through the editor itself: an import that a tool makes, for one. It is ruled on when
//! the task is closed.

use super::{SkillChange, SkillRules, SkillWriteOutcome, WorkingCopy, refused};
use crate::brain::{Draft, SkillEdits, SkillFileEdit};
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath};
use crate::layout;
use crate::skill::provenance::{PriorUndo, SkillWriter, WriteObjection, WriteRuling, rule};

/// What becomes of edits.
enum Ruled {
    /// They stay in the step.
    Stay,
    /// They leave it: they wait for a person, or do not happen.
    Leave(WriteRuling),
    /// They say what may not be said.
    Unsaid(Error),
}

impl WorkingCopy {
    /// The gate has ruled on these edits.
    pub(super) fn note_ruled(&mut self, edits: &[SkillFileEdit]) {
        let after = |edit: &SkillFileEdit| (edit.path.clone(), edit.after.as_deref().map(Digest::of));
        self.gate.ruled.extend(edits.iter().map(after));
    }

    /// Whether a file of the skills is not as a call left it. Most tasks leave none, and nothing is looked up for them.
    fn has_direct_edits(&mut self) -> Result<bool> {
        let skills = format!("{}/", layout::SKILLS_DIR);
        let drafted: Vec<(RelPath, Option<Digest>)> = {
            let files = self.step()?.1.files();
            let of_skills = files.filter(|(path, _)| path.as_str().starts_with(&skills));
            of_skills.map(|(path, after)| (path.clone(), after.map(Digest::of))).collect()
        };
        Ok(drafted.iter().any(|(path, after)| self.gate.ruled.get(path) != Some(after)))
    }

    /// Takes out of the step what reached skills past the gate. It waits for a person like everything else; what cannot wait
    /// is said, and does not happen.
    pub(crate) fn gate_direct_edits(&mut self) -> Result<Vec<String>> {
        // Not in a replay of a task from before there was a gate.
        if self.around.rules == SkillRules::Ungated {
            return Ok(Vec::new());
        }
        if !self.has_direct_edits()? {
            return Ok(Vec::new());
        }
        let (brain, draft) = self.step()?;
        let mut edited = brain.skill_edits(draft)?;
        let ruled = &self.gate.ruled;
        let is_ruled = |edit: &SkillFileEdit| ruled.get(&edit.path) == Some(&edit.after.as_deref().map(Digest::of));
        edited.retain(|edits| !edits.files.iter().all(is_ruled));
        let mut said = Vec::new();
        for edits in edited {
            let slug = &edits.slug;
            let ruling = match self.rule_on_direct(&edits)? {
                Ruled::Stay => continue,
                Ruled::Leave(ruling) => ruling,
                Ruled::Unsaid(error) => {
                    self.take_out(&edits)?;
                    said.push(format!("skill {slug} was not changed: {}", error.message()));
                    continue;
                }
            };
            let taken = self.take_out(&edits)?;
            let (reason, waits) = match ruling {
                WriteRuling::Refuse(reason) => (reason, Err(refused(slug, reason))),
                WriteRuling::Propose(reason) => {
                    (reason, self.propose(SkillWriter::Tool, slug, change_of(&edits), taken, reason))
                }
                WriteRuling::Allow => continue,
            };
            said.push(match waits {
                Ok(SkillWriteOutcome::Done | SkillWriteOutcome::Waits(_)) => {
                    format!("skill {slug} {}: the change waits for a person", reason.words())
                }
                Err(error) => format!("skill {slug} was not changed: {}", error.message()),
            });
        }
        Ok(said)
    }

    fn rule_on_direct(&mut self, edits: &SkillEdits) -> Result<Ruled> {
        let slug = &edits.slug;
        let there = self.brain()?.skill_facts(slug)?;
        let by_maker = rule(SkillWriter::Tool, there, PriorUndo::Nothing);
        let leave = |ruling| if ruling == WriteRuling::Allow { Ruled::Stay } else { Ruled::Leave(ruling) };
        if self.around.rules == SkillRules::GatedCalls {
            // Then, it was asked for skills of the index alone.
            return Ok(if edits.active.0 { leave(by_maker) } else { Ruled::Stay });
        }
        if let Some(moved) = &self.around.moved {
            // What was decided then holds.
            if moved.0.contains_key(slug) {
                self.note_change(slug, change_of(edits));
                return Ok(Ruled::Stay);
            }
            let unknown = WriteRuling::Refuse(WriteObjection::Undone(PriorUndo::Alike));
            return Ok(Ruled::Leave(if by_maker == WriteRuling::Allow { unknown } else { by_maker }));
        }
        let written = SkillFileEdit::written(edits.files.clone());
        let mut so_far = self.gate.so_far.clone();
        if let Err(error) = written.iter().try_for_each(|file| self.check_words(file, &mut so_far)) {
            return Ok(Ruled::Unsaid(error));
        }
        let undone = self.undone(slug, there.is_some(), &written)?;
        self.gate.so_far = so_far;
        let ruling = rule(SkillWriter::Tool, there, undone);
        if ruling == WriteRuling::Allow {
            self.note_change(slug, change_of(edits));
        }
        Ok(leave(ruling))
    }

    /// Takes what is done to a skill out of the step, into one of its own.
    fn take_out(&mut self, edits: &SkillEdits) -> Result<Draft> {
        let is_its = |path: &RelPath| edits.files.iter().any(|edit| edit.path == *path);
        let taken = self.step()?.1.split_off(&edits.slug, is_its);
        self.forget_change(&edits.slug);
        Ok(taken)
    }
}

fn change_of(edits: &SkillEdits) -> SkillChange {
    match edits.active {
        (false, true) => SkillChange::Created,
        (true, false) => SkillChange::Archived,
        _ => SkillChange::Changed,
    }
}
