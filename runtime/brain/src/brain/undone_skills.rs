//! What a person took back of skills, from the journal, and what a trial found to do harm, from the archive: unattended
//! code does not bring it up again.
//!
//! The steps of kind `rollback` say what went and the journal keeps what it said, so nothing more is written down. What
//! a later step of a person's brings back is theirs again, and so is what a person brings back from the archive. What a
//! machine brings back, or moves into the archive, is not brought back by a person.

use std::collections::{BTreeMap, BTreeSet};

use super::history::StepKind;
use super::open::Brain;
use super::{diff, journal};
use crate::error::Result;
use crate::ids::{Digest, RelPath, Slug};
use crate::layout::{ARCHIVE_DIR, SKILLS_DIR};
use crate::memory::{TrialState, sql};
use crate::skill::change::SkillProposal;
use crate::skill::provenance::PriorUndo;
use crate::skill::quotation::{ChangeFingerprint, SIMILARITY_THRESHOLD, TextFingerprint};
use crate::skill::{Document, all_skills, store};

/// The field of a change's manifest that says that no person decided about it.
pub const UNATTENDED: &str = "unattended";

/// So many texts are compared, the last that were taken back.
const MOST: usize = 500;

/// The skills, and the texts of skills, that a person took back or a trial found to do harm.
#[derive(Debug, Clone, Default)]
pub struct UndoneSkills {
    texts: Vec<Text>,
    /// Those in the archive that a trial found to do harm.
    harmful: BTreeSet<Slug>,
}

#[derive(Debug, Clone)]
struct Text {
    shape: TextFingerprint,
    /// The skill that went with it, where the undo left none.
    gone: Option<Slug>,
}

impl UndoneSkills {
    /// Whether a skill is in the archive because it did harm on trial. Only a person brings it back.
    pub fn did_harm(&self, skill: &Slug) -> bool {
        self.harmful.contains(skill)
    }

    /// Whether a file of a skill is something that was taken back. `new` is the skill that it would make.
    pub fn judge(&self, content: &[u8], new: Option<&Slug>) -> PriorUndo {
        if self.texts.is_empty() {
            return PriorUndo::Nothing;
        }
        let shape = TextFingerprint::of_file(content);
        if !shape.is_empty() && self.texts.iter().any(|text| text.shape == shape) {
            return PriorUndo::Same;
        }
        let Some(new) = new else { return PriorUndo::Nothing };
        let is_alike = |text: &Text| {
            text.gone.as_ref().is_some_and(|gone| gone == new || text.shape.similarity(&shape) >= SIMILARITY_THRESHOLD)
        };
        if self.texts.iter().any(is_alike) { PriorUndo::Alike } else { PriorUndo::Nothing }
    }
}

impl UndoneSkills {
    /// What was taken back of what a change would leave in the files of a skill, and of the skill itself. A skill that is
    /// there was not taken back, so nothing is too much like it.
    pub fn judge_all<'f>(&self, skill: &Slug, is_there: bool, files: impl IntoIterator<Item = &'f [u8]>) -> PriorUndo {
        if self.did_harm(skill) {
            return PriorUndo::Same;
        }
        let new = (!is_there).then_some(skill);
        let mut worst = PriorUndo::Nothing;
        for content in files {
            match self.judge(content, new) {
                PriorUndo::Same => return PriorUndo::Same,
                PriorUndo::Alike => worst = PriorUndo::Alike,
                PriorUndo::Nothing => {}
            }
        }
        worst
    }
}

/// Whether a skill says of itself that it keeps the examples of a procedure.
fn is_procedure(content: &[u8]) -> bool {
    let metadata = Document::read(content).ok().and_then(|document| document.value("metadata"));
    metadata.is_some_and(|metadata| metadata.get("kind").and_then(|kind| kind.as_text()) == Some("procedure"))
}

/// What a step did to one file.
struct Moved {
    path: RelPath,
    before: Option<Digest>,
    after: Option<Digest>,
}

impl Brain {
    /// What a person took back of skills, or a trial found to do harm, and nobody brought back since.
    pub fn undone_skills(&self) -> Result<UndoneSkills> {
        let (mut texts, harmful) = self.harmful_skills()?;
        let harmful = harmful.into_iter().collect();
        texts.extend(self.taken_back_skills()?);
        Ok(UndoneSkills { texts, harmful })
    }

    /// The archived skills that a trial found to do harm. The skill of a procedure is known by its name alone: its text
    /// is made of the same words as that of any other procedure.
    fn harmful_skills(&self) -> Result<(Vec<Text>, Vec<Slug>)> {
        let harmful: BTreeSet<Slug> = self
            .trials()?
            .into_iter()
            .filter_map(|trial| (trial.state == TrialState::Harmful).then_some(trial.skill))
            .collect();
        if harmful.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let archive = format!("{ARCHIVE_DIR}/");
        let entries = journal::entries(&self.database.connection)?;
        let paths: Vec<RelPath> = entries.keys().filter(|path| path.as_str().starts_with(&archive)).cloned().collect();
        let (mut texts, mut slugs) = (Vec::new(), Vec::new());
        for (slug, main) in store::archived_skills(&paths).into_iter().filter(|(slug, _)| harmful.contains(slug)) {
            slugs.push(slug.clone());
            let Some(digest) = entries.get(&main) else { continue };
            let Some(content) = diff::content(&self.database, &self.root, digest)? else { continue };
            let shape =
                if is_procedure(&content) { TextFingerprint::of_file(b"") } else { TextFingerprint::of_file(&content) };
            texts.push(Text { shape, gone: Some(slug) });
        }
        texts.truncate(MOST);
        Ok((texts, slugs))
    }

    fn taken_back_skills(&self) -> Result<Vec<Text>> {
        // Each file that went, and the skill that went with it.
        let mut went: Vec<(Digest, Option<Slug>)> = Vec::new();
        let steps = self.moves_since_the_first_undo()?;
        let there: Vec<RelPath> = match steps.is_empty() {
            true => Vec::new(),
            false => journal::entries(&self.database.connection)?.into_keys().collect(),
        };
        let archive = format!("{ARCHIVE_DIR}/");
        for (seq, kind, moves) in steps {
            let came: BTreeSet<Digest> = moves.iter().filter_map(|moved| moved.after).collect();
            if self.is_a_persons(seq, kind)? {
                let back = moves.iter().filter(|moved| !moved.path.as_str().starts_with(&archive));
                let back: BTreeSet<Digest> = back.filter_map(|moved| moved.after).collect();
                went.retain(|(digest, _)| !back.contains(digest));
            }
            if !matches!(kind, StepKind::Undo { .. }) {
                continue;
            }
            // Among all files: a support file looks like a skill of its own where it stands alone.
            let mut paths = there.clone();
            paths.extend(moves.iter().filter(|moved| moved.before.is_some()).map(|moved| moved.path.clone()));
            paths.sort();
            paths.dedup();
            let places: BTreeMap<RelPath, Slug> =
                all_skills(&paths, SKILLS_DIR).map(|place| (place.main, place.slug)).collect();
            for Moved { path, before, after } in moves {
                let Some(digest) = before.filter(|digest| !came.contains(digest)) else { continue };
                let gone = places.get(&path).filter(|_| after.is_none()).cloned();
                went.push((digest, gone));
            }
        }
        let skip = went.len().saturating_sub(MOST);
        let mut texts = Vec::new();
        for (digest, gone) in went.into_iter().skip(skip) {
            // Content that the journal has lost cannot be compared.
            if let Some(content) = diff::content(&self.database, &self.root, &digest)? {
                texts.push(Text { shape: TextFingerprint::of_file(&content), gone });
            }
        }
        Ok(texts)
    }

    /// Whether a step is something that a person did, or said yes to.
    fn is_a_persons(&self, seq: i64, kind: StepKind) -> Result<bool> {
        match kind {
            StepKind::Task | StepKind::Curate | StepKind::Learn | StepKind::Feedback => Ok(false),
            // The evolver's own are marked. Before there was a mark, the gate held what was taken back as well.
            StepKind::Evolve => {
                let changes = self.evolver_rows().changes_of(seq)?;
                Ok(!changes.iter().any(|change| change.manifest[UNATTENDED] == true))
            }
            // One that no steward approved does not pass the gate with what was taken back.
            StepKind::Patch => Ok(true),
            StepKind::Create
            | StepKind::Maintenance
            | StepKind::Import
            | StepKind::Adopt
            | StepKind::Repair
            | StepKind::Undo { .. } => Ok(true),
        }
    }

    /// What a proposed change says; `None` where what it was made for is lost.
    pub fn change_fingerprint(&self, proposed: &SkillProposal) -> Result<Option<ChangeFingerprint>> {
        let change = &proposed.change;
        let written = change.support.iter().filter_map(|(name, _)| *proposed.before.get(name)?);
        let mut before = Vec::new();
        for digest in [change.expected].into_iter().chain(written) {
            match diff::content(&self.database, &self.root, &digest)? {
                Some(content) => before.push(content),
                // A skill that is to be made was nothing.
                None if digest == Digest::of(b"") => {}
                None => return Ok(None),
            }
        }
        let support = change.support.iter().filter_map(|(_, content)| content.as_deref());
        let after = [change.content.as_str()].into_iter().chain(support).map(str::as_bytes);
        Ok(Some(ChangeFingerprint::of(before.iter().map(Vec::as_slice), after)))
    }

    /// What the steps from the first undo on did to the files of skills.
    fn moves_since_the_first_undo(&self) -> Result<Vec<(i64, StepKind, Vec<Moved>)>> {
        let failed = |source| sql("read memory.db", source);
        let connection = &self.database.connection;
        let first: Option<i64> = connection
            .prepare_cached("SELECT min(seq) FROM steps WHERE kind = 'rollback' OR kind LIKE 'undo:%'")
            .and_then(|mut first| first.query_row([], |row| row.get(0)))
            .map_err(failed)?;
        let Some(first) = first else { return Ok(Vec::new()) };
        let mut kinds: BTreeMap<i64, StepKind> = BTreeMap::new();
        let mut statement =
            connection.prepare_cached("SELECT seq, kind, summary FROM steps WHERE seq >= ?1").map_err(failed)?;
        let mut rows = statement.query([first]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (kind, summary): (String, String) = (row.get(1).map_err(failed)?, row.get(2).map_err(failed)?);
            kinds.insert(row.get(0).map_err(failed)?, StepKind::read(&kind, &summary)?);
        }
        let (skills, archive) = (format!("{SKILLS_DIR}/"), format!("{ARCHIVE_DIR}/"));
        let mut steps: BTreeMap<i64, Vec<Moved>> = BTreeMap::new();
        for (seq, change) in journal::changes(connection, first, i64::MAX)? {
            if change.path.as_str().starts_with(&skills) || change.path.as_str().starts_with(&archive) {
                let moved = Moved { path: change.path, before: change.before, after: change.after };
                steps.entry(seq).or_default().push(moved);
            }
        }
        Ok(steps.into_iter().filter_map(|(seq, moves)| Some((seq, *kinds.get(&seq)?, moves))).collect())
    }
}
