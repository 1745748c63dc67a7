//! What accepting a change of the review queue would do to a skill.

use herm::evolver::{SkillMainFile, review_queue};
use herm::memory::QueueRow;
use herm::skill::change::{SkillAction, SkillProposal};
use herm::text::diff;
use herm::{Result, Slug};

/// Lines around a change.
const CONTEXT: usize = 3;

/// What accepting a change would do.
pub(crate) struct AcceptPreview {
    /// What it does to the skill's text, and to the files beside it.
    pub(crate) diff: String,
    /// Whether the skill is still as it was when the change was thought of.
    pub(crate) stands: bool,
    /// The text that the skill's main file would have; nothing where it leaves its place.
    pub(crate) text: Option<String>,
}

/// What accepting an entry of the queue would do; nothing where it is no change.
pub(crate) fn accept_preview(
    row: &QueueRow,
    text: impl FnOnce(&Slug) -> Result<Option<SkillMainFile>>,
) -> Result<Option<AcceptPreview>> {
    let Some(SkillProposal { change, act, merges, .. }) = review_queue::proposed_of(row) else { return Ok(None) };
    let now = text(&change.skill)?;
    let stands = match (act, &now) {
        (SkillAction::Edit | SkillAction::Archive, now) => {
            now.as_ref().is_some_and(|now| now.digest == change.expected)
        }
        (SkillAction::Create | SkillAction::Restore, now) => now.is_none(),
    };
    let before = now.map(|now| now.text).unwrap_or_default();
    let mut diff = match act {
        SkillAction::Archive => format!("moves {} to the archive\n", change.skill),
        _ => diff::unified(&before, &change.content, CONTEXT),
    };
    for (file, content) in &change.support {
        match content {
            None => diff.push_str(&format!("removes {file} of {}\n", change.skill)),
            Some(content) => {
                diff.push_str(&format!("writes {file} of {}:\n", change.skill));
                diff.extend(content.lines().map(|line| format!("+{line}\n")));
            }
        }
    }
    for merged in &merges {
        diff.push_str(&format!("moves {} to the archive\n", merged.skill));
    }
    let text = match act {
        SkillAction::Archive => None,
        SkillAction::Create | SkillAction::Edit | SkillAction::Restore => Some(change.content),
    };
    Ok(Some(AcceptPreview { diff, stands, text }))
}
