//! Puts an example into the step of its task: into the skill of its procedure, which is made where it is not there.

use super::file::{self, EXAMPLES_FILE, RoomRule};
use super::{Example, procedure_slug};
use crate::error::Result;
use crate::ids::{RelPath, Slug, TaskId};
use crate::memory::{Trial, TrialState};
use crate::skill::SkillLocation;
use crate::skill::provenance::SkillWriter;
use crate::tool::{SkillWriteOutcome, WorkingCopy, Write};

/// Where the examples of a procedure's skill stand.
pub(crate) fn file_of(place: &SkillLocation) -> Option<RelPath> {
    place.dir().and_then(|dir| format!("{dir}/{EXAMPLES_FILE}").parse().ok())
}

/// Keeps an example. Nothing happens where it says nothing new, where the skill is not the agent's own, and where it was
/// archived: what was found to do harm, or was taken back, does not return by itself. Returns the skill that moved.
pub fn keep(desk: &mut WorkingCopy, example: Example, rule: RoomRule) -> Result<Option<Slug>> {
    let Some(slug) = procedure_slug(example.tools()) else { return Ok(None) };
    if desk.archived()?.contains(&slug) {
        return Ok(None);
    }
    let place = desk.skill_place(&slug)?;
    let is_new = place.is_none();
    if !is_new && !desk.may_change(SkillWriter::Synthesis, &slug)? {
        return Ok(None);
    }
    let known = match place.as_ref().and_then(file_of) {
        Some(path) => desk.read(&path)?.map(|bytes| file::parse(&String::from_utf8_lossy(&bytes))),
        None => None,
    };
    let main = file::skill_text(&slug, &example);
    let Some(examples) = file::with(known.unwrap_or_default(), example, rule) else { return Ok(None) };
    let content = file::write(&examples)?;
    let by = SkillWriter::Synthesis;
    let written = desk.atomically(|desk| {
        if is_new && desk.create_skill_by(by, &slug, &main)? != SkillWriteOutcome::Done {
            return Ok(false);
        }
        let done = desk.write_skill(by, &slug, Write::File { file: EXAMPLES_FILE, content: &content })?;
        Ok(done == SkillWriteOutcome::Done)
    })?;
    if !written {
        return Ok(None);
    }
    if is_new {
        begin_trial(desk, &slug, "learned from a task that went well")?;
    }
    Ok(Some(slug))
}

/// Puts a skill that was just learned on trial.
pub(crate) fn begin_trial(desk: &mut WorkingCopy, skill: &Slug, reason: &str) -> Result<()> {
    let (skill, since) = (skill.clone(), desk.at());
    desk.step()?.1.trial(Trial { skill, state: TrialState::Trial, since, decided: None, reason: reason.to_owned() });
    Ok(())
}

/// Takes the example of a task away again, where its outcome turned out bad. Returns the skill that moved.
pub fn drop_of(desk: &mut WorkingCopy, task: &TaskId) -> Result<Option<Slug>> {
    let procedures: Vec<Slug> = desk.skills()?.into_iter().map(|card| card.slug).filter(super::is_procedure).collect();
    for slug in procedures {
        let Some(path) = desk.skill_place(&slug)?.as_ref().and_then(file_of) else { continue };
        let Some(bytes) = desk.read(&path)? else { continue };
        let examples = file::parse(&String::from_utf8_lossy(&bytes));
        let Some(left) = file::without(examples, task) else { continue };
        if !desk.may_change(SkillWriter::Synthesis, &slug)? {
            continue;
        }
        let by = SkillWriter::Synthesis;
        let content = file::write(&left)?;
        let done = desk.write_skill(by, &slug, Write::File { file: EXAMPLES_FILE, content: &content })?;
        return Ok((done == SkillWriteOutcome::Done).then_some(slug));
    }
    Ok(None)
}
