//! How a task changes skills: every change passes here. The gate of [`provenance`](crate::skill::provenance) rules on
//! each one: it becomes part of the step, waits in the review queue for a person, or is refused. What would be written
//! is looked at as it would stand, whole files with their names, before anything is.

mod direct;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::working_copy::{SkillChange, WorkingCopy};
use crate::brain::{Draft, Editor, SkillFileEdit, UndoneSkills};
use crate::checks::words;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath, Slug, sha256};
use crate::layout;
use crate::memory::QueueRow;
use crate::skill::change::{SkillAction, SkillProposal, SkillUpdate};
use crate::skill::provenance::{PriorUndo, SkillFacts, SkillSource, SkillWriter, WriteObjection, WriteRuling, rule};
use crate::skill::quotation::{QuotableTexts, QuotationProgress};
use crate::skill::{CreatedBy, Document, Files as _, FrontMatterValue, SkillLocation, guard, store};
use crate::text::words::is_stop_word;

/// So many proposals of tasks may wait for one skill, and for a brain: a person has to read them.
const MOST_WAITING_OF_SKILL: usize = 10;
const MOST_WAITING: usize = 100;
/// With so many changes that a person rejected a new one is compared, the last ones.
const MOST_REJECTED: usize = 200;

/// Which rules hold for what a task writes into skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkillRules {
    /// The gate rules on every change.
    #[default]
    Gated,
    /// It rules on calls, and on who made a skill where a tool edits past it: a task of that time is replayed.
    GatedCalls,
    /// As before there was a gate: a task of that time is replayed.
    Ungated,
}

/// The skills that a receipt says a task moved, with the SHA-256 of the main file as the task left it; with none where
/// it left no skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedSkillChanges(pub BTreeMap<Slug, Option<String>>);

/// What became of a change of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SkillWriteOutcome {
    /// It is part of the step.
    Done,
    /// It waits for a person. Why, in a sentence or two for the caller.
    Waits(String),
}

/// A change that a task may not make, and proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskProposal {
    /// The change as the review queue keeps it for a person.
    pub proposed: SkillProposal,
    /// What it does to the skill.
    pub change: SkillChange,
    /// Why it waits, in a line.
    pub why: String,
}

/// What is to be done to a skill.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Write<'a> {
    /// A new skill with this main file.
    Create(&'a str),
    /// Another main file in the place of the old one.
    Edit(&'a str),
    /// Back from the archive, with another main file.
    Restore(&'a str),
    /// One place of the main file or of a support file.
    Patch { file: Option<&'a str>, find: &'a str, replacement: &'a str },
    /// One support file, new or in the place of the old one.
    File { file: &'a str, content: &'a str },
    /// No such support file any more.
    RemoveFile(&'a str),
    /// The skill goes to the archive.
    Archive,
}

impl Write<'_> {
    fn put(self, editor: &mut Editor<'_>, slug: &Slug) -> Result<()> {
        match self {
            Self::Create(content) => editor.create_skill(slug, content, CreatedBy::Agent).map(drop),
            Self::Edit(content) => editor.edit_skill(slug, content).map(drop),
            Self::Restore(content) => {
                editor.restore_skill(slug)?;
                editor.edit_skill(slug, content).map(drop)
            }
            Self::Patch { file, find, replacement } => editor.patch_skill(slug, file, find, replacement).map(drop),
            Self::File { file, content } => editor.write_skill_file(slug, file, content.as_bytes().to_vec()).map(drop),
            Self::RemoveFile(file) => editor.remove_skill_file(slug, file).map(drop),
            Self::Archive => editor.archive_skill(slug),
        }
    }

    fn change(self) -> SkillChange {
        match self {
            Self::Create(_) => SkillChange::Created,
            Self::Archive => SkillChange::Archived,
            _ => SkillChange::Changed,
        }
    }
}

/// The step that a proposal would be, and the proposal.
#[derive(Debug, Clone)]
pub(super) struct Overlay {
    draft: Draft,
    proposal: TaskProposal,
}

/// What a working copy knows for the gate.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// What the task has seen of its subscriber; nothing where the task is not private.
    private: Option<QuotableTexts>,
    /// What the task has written into skills that its subscriber said, in pieces too short to be a quotation.
    so_far: QuotationProgress,
    taken_back: Option<UndoneSkills>,
    pub(super) proposed: BTreeMap<Slug, Overlay>,
    /// Something that went well then is replayed: it is not judged again.
    went_well: bool,
    /// The files that calls have changed and the gate has ruled on, as they left them.
    ruled: BTreeMap<RelPath, Option<Digest>>,
}

impl WorkingCopy {
    /// The task is a subscriber's: its words, and whatever else it sees of the subscriber, do not get into skills.
    pub(super) fn keep_private(&mut self, input: &str) {
        self.gate.private.get_or_insert_default().add(input);
    }

    /// The task has seen this of its subscriber.
    pub(super) fn saw_private(&mut self, text: &str) {
        if let Some(private) = &mut self.gate.private {
            private.add(text);
        }
    }

    /// Whether the task in this working copy is a subscriber's.
    pub(super) fn is_private(&self) -> bool {
        self.gate.private.is_some()
    }

    /// Everything that the task has seen of its subscriber; nothing where it is not private.
    pub(crate) fn private_words(&self) -> Option<&QuotableTexts> {
        self.gate.private.as_ref()
    }

    /// Another answer that was given in the subscriber's name: what another agent said. A call that a replay does not run
    /// again also names it in its output: see [`ToolOutput::with_disclosures`](super::ToolOutput::with_disclosures).
    pub fn add_private_text(&mut self, text: &str) {
        self.saw_private(text);
    }

    /// Does something that is replayed. Where it went well then, what was decided then holds, and
    /// nothing is judged again.
    pub(crate) fn as_recorded<T>(&mut self, went_well: bool, work: impl FnOnce(&mut Self) -> T) -> T {
        self.gate.went_well = went_well;
        let done = work(self);
        self.gate.went_well = false;
        done
    }

    /// Refuses a text that may not be written down. Tools ask here and not the guard, so that a replay comes
    /// to what was decided then.
    pub fn check_text(&self, text: &str) -> Result<()> {
        if self.gate.went_well { Ok(()) } else { guard::check(text) }
    }

    /// Refuses a skill that says nothing beyond the role: it takes room, and nothing is learned from it. In a replay what
    /// was decided then holds.
    pub(super) fn check_says_something(&mut self, content: &str) -> Result<()> {
        if self.gate.went_well || self.around.rules == SkillRules::Ungated {
            return Ok(());
        }
        let (Some(role), Ok(document)) =
            (self.read(&layout::rel(layout::SYSTEM)?)?, Document::read(content.as_bytes()))
        else {
            return Ok(());
        };
        let said = words(&format!("{}\n{}", document.text("description").unwrap_or_default(), document.body()));
        match says_nothing_new(&said, &String::from_utf8_lossy(&role)) {
            true => Err(Error::refused("the skill says nothing that the role does not say")
                .hint("write down what this task taught: which calls, with which arguments; or go on without it")),
            false => Ok(()),
        }
    }

    /// Refuses a skill that the record has otherwise than it is now.
    pub(crate) fn check_moved(&mut self, slug: &Slug) -> Result<()> {
        let Some(moved) = self.around.moved.clone() else { return Ok(()) };
        let now = match self.skill_place(slug)? {
            Some(place) => self.read(&place.main)?.map(|content| sha256(&content)),
            None => None,
        };
        match moved.0.get(slug) == Some(&now) {
            true => Ok(()),
            false => Err(Error::refused(format!("the record has skill {slug} otherwise"))),
        }
    }

    /// The changes that the task proposes, by skill.
    pub fn proposals(&self) -> impl Iterator<Item = &TaskProposal> {
        self.gate.proposed.values().map(|overlay| &overlay.proposal)
    }

    /// Changes a skill, or says why not.
    pub(crate) fn write_skill(&mut self, by: SkillWriter, slug: &Slug, write: Write<'_>) -> Result<SkillWriteOutcome> {
        let there = self.subject(slug)?;
        if self.gate.went_well {
            return self.write_as_recorded(by, slug, there, write);
        }
        let first = match self.gate.proposed.contains_key(slug) {
            true => WriteRuling::Propose(WriteObjection::Undone(PriorUndo::Alike)),
            false => rule(by, there, PriorUndo::Nothing),
        };
        let base = match first {
            WriteRuling::Allow => self.step()?.1.clone(),
            // What the task proposes already is changed further, so that one proposal says all of it.
            WriteRuling::Propose(_) => {
                self.gate.proposed.get(slug).map(|overlay| overlay.draft.clone()).unwrap_or_default()
            }
            WriteRuling::Refuse(reason) => return Err(refused(slug, reason)),
        };
        let (staged, edits) = self.stage(&base, slug, write)?;
        let written = SkillFileEdit::written(edits.clone());
        let mut so_far = self.gate.so_far.clone();
        for file in &written {
            check(file)?;
            self.check_words(file, &mut so_far)?;
        }
        let undone = self.undone(slug, there.is_some(), &written)?;
        let written = match rule(by, there, undone) {
            WriteRuling::Refuse(reason) => Err(refused(slug, reason)),
            WriteRuling::Allow if first == WriteRuling::Allow => {
                self.let_in(slug, write.change(), staged, &edits)?;
                Ok(SkillWriteOutcome::Done)
            }
            WriteRuling::Allow => {
                self.propose(by, slug, write.change(), staged, WriteObjection::Undone(PriorUndo::Alike))
            }
            WriteRuling::Propose(reason) => {
                let staged = match first {
                    // Beside the step, not in it.
                    WriteRuling::Allow => self.stage(&Draft::new(), slug, write)?.0,
                    _ => staged,
                };
                self.propose(by, slug, write.change(), staged, reason)
            }
        }?;
        self.gate.so_far = so_far;
        Ok(written)
    }

    /// A draft with the change in it, and what it does to files.
    fn stage(&mut self, base: &Draft, slug: &Slug, write: Write<'_>) -> Result<(Draft, Vec<SkillFileEdit>)> {
        let at = self.at();
        let brain = self.brain()?;
        let mut staged = base.clone();
        write.put(&mut brain.edit(&mut staged).at(at), slug)?;
        let known: BTreeMap<&RelPath, Option<&[u8]>> = base.files().collect();
        let mut edits = Vec::new();
        for (path, after) in staged.files() {
            let before = match known.get(path) {
                Some(before) => before.map(<[u8]>::to_vec),
                None => brain.read_content(path)?,
            };
            if before.as_deref() != after {
                let is_new = before.is_none();
                edits.push(SkillFileEdit { path: path.clone(), before, after: after.map(<[u8]>::to_vec), is_new });
            }
        }
        Ok((staged, edits))
    }

    /// Makes what was ruled on part of the step.
    fn let_in(&mut self, slug: &Slug, change: SkillChange, staged: Draft, edits: &[SkillFileEdit]) -> Result<()> {
        *self.step()?.1 = staged;
        self.note_ruled(edits);
        self.note_change(slug, change);
        Ok(())
    }

    /// What is known of a skill before this task; what the task made itself is the agent's.
    fn subject(&mut self, slug: &Slug) -> Result<Option<SkillFacts>> {
        if let Some(facts) = self.brain()?.skill_facts(slug)? {
            return Ok(Some(facts));
        }
        let is_made_here = self.skill_place(slug)?.is_some();
        Ok(is_made_here.then_some(SkillFacts { source: SkillSource::LocalAgentCreated, pinned: false }))
    }

    /// Whether a writer may change a skill that is there by itself.
    pub(crate) fn may_change(&mut self, by: SkillWriter, slug: &Slug) -> Result<bool> {
        Ok(self.subject(slug)?.is_some_and(|facts| facts.allow(by)))
    }

    fn undone(&mut self, slug: &Slug, is_there: bool, files: &[SkillFileEdit]) -> Result<PriorUndo> {
        if self.gate.taken_back.is_none() {
            self.gate.taken_back = Some(self.brain()?.undone_skills()?);
        }
        let Some(taken_back) = &self.gate.taken_back else { return Ok(PriorUndo::Nothing) };
        Ok(taken_back.judge_all(slug, is_there, files.iter().filter_map(|file| file.after.as_deref())))
    }

    /// Refuses a file that repeats what the task has seen of its subscriber, alone or together with what the task wrote
    /// before: in its name or its content, where it did not stand there already.
    fn check_words(&self, file: &SkillFileEdit, so_far: &mut QuotationProgress) -> Result<()> {
        let Some(private) = &self.gate.private else { return Ok(()) };
        let Some(after) = &file.after else { return Ok(()) };
        let name = file.path.as_str().strip_prefix(layout::SKILLS_DIR).unwrap_or_default();
        let said = |content: &[u8], name: &str| {
            let text = String::from_utf8_lossy(content).into_owned();
            // Front matter may be written in escapes, and a sentence may go on from one field into the next.
            let read = Document::read(content).ok().map(|document| {
                let fields = ["name", "description"].iter().filter_map(|key| document.text(key)).collect::<Vec<_>>();
                let others = document.keys().filter_map(|key| document.value(key)).map(|value| said_by(&value));
                let others = others.collect::<Vec<_>>().join(" ");
                format!("{} {}\n\u{b6}\n{others}", fields.join(" "), document.body())
            });
            let decoded = guard::decoded_text(&text).unwrap_or_default();
            format!("{name} {text}\n\u{b6}\n{}\n\u{b6}\n{decoded}", read.unwrap_or_default())
        };
        let before = match &file.before {
            Some(before) => said(before, if file.is_new { "" } else { name }),
            None => String::new(),
        };
        let mut words = private.repeated_after(so_far, &said(after, name), &before);
        if file.before.is_none() {
            let body = Document::read(after).map(|document| document.body().to_owned());
            let body = body.unwrap_or_else(|_| String::from_utf8_lossy(after).into_owned());
            words = words.or(private.continued_quotation(so_far, &body));
        }
        match words {
            Some(words) => Err(Error::refused(format!("that repeats the subscriber's own words ({words:?})"))
                .hint("write the procedure in words of your own")),
            None => Ok(()),
        }
    }

    fn propose(
        &mut self,
        by: SkillWriter,
        slug: &Slug,
        change: SkillChange,
        staged: Draft,
        reason: WriteObjection,
    ) -> Result<SkillWriteOutcome> {
        let proposed = self.proposed_by(by, slug, &staged, reason)?;
        self.check_queue(slug, &proposed)?;
        let why = format!("a task would {}: skill {slug} {}", verb(change), reason.words());
        let proposal = TaskProposal { proposed, change, why };
        self.gate.proposed.insert(slug.clone(), Overlay { draft: staged, proposal });
        Ok(waits(slug, reason))
    }

    /// What a draft does to one skill, as a change that a person can accept.
    fn proposed_by(
        &mut self,
        by: SkillWriter,
        slug: &Slug,
        staged: &Draft,
        reason: WriteObjection,
    ) -> Result<SkillProposal> {
        let task = self.around.task.clone();
        let brain = self.brain()?;
        let (mut nothing, mut staged) = (Draft::new(), staged.clone());
        let settled = brain.edit(&mut nothing);
        let place = store::find(&settled, slug)?;
        let archived = archived_main(&settled, slug)?;
        let was = |main: &RelPath| settled.read(main).map(Option::unwrap_or_default);
        let (old, old_files) = match (&place, &archived) {
            (Some(place), _) => (was(&place.main)?, support_files(&settled, place)?),
            (None, Some(main)) => (was(main)?, BTreeMap::new()),
            (None, None) => (Vec::new(), BTreeMap::new()),
        };
        let after = brain.edit(&mut staged);
        let will_be = store::find(&after, slug)?;
        let act = match (&place, &archived, &will_be) {
            (Some(_), _, None) => SkillAction::Archive,
            (Some(_), _, Some(_)) => SkillAction::Edit,
            (None, Some(_), _) => SkillAction::Restore,
            (None, None, _) => SkillAction::Create,
        };
        let (new, new_files) = match &will_be {
            Some(place) => (after.read(&place.main)?.unwrap_or_default(), support_files(&after, place)?),
            None => (old.clone(), old_files.clone()),
        };
        let mut support = Vec::new();
        let mut before = BTreeMap::new();
        let names: BTreeSet<&String> = old_files.keys().chain(new_files.keys()).collect();
        for name in names {
            let (had, has) = (old_files.get(name), new_files.get(name));
            // What comes back with a skill is not known before it is back.
            let is_touched = had != has && act != SkillAction::Restore;
            if is_touched {
                support.push((name.clone(), has.map(|content| text_of(name, content)).transpose()?));
            }
            if is_touched || act == SkillAction::Archive {
                before.insert(name.clone(), had.map(|content| Digest::of(content)));
            }
        }
        let source = match reason {
            WriteObjection::NotAgentCreated(source) => source,
            WriteObjection::Pinned | WriteObjection::Undone(_) => SkillSource::LocalAgentCreated,
        };
        let what = match by {
            SkillWriter::Synthesis => "lesson of a task",
            _ => "change of a task",
        };
        let why = json!({ "what": what, "by": "task", "task": task, "source": source, "reason": reason.words() });
        let content = text_of("its text", &new)?;
        let change = SkillUpdate { skill: slug.clone(), expected: Digest::of(&old), content, support, why };
        Ok(SkillProposal { change, act, before, merges: Vec::new() })
    }

    /// Refuses what a person said no to before, and more than a person can be asked to read.
    fn check_queue(&mut self, slug: &Slug, proposed: &SkillProposal) -> Result<()> {
        if self.around.original.is_some() {
            // A replay: what was decided since had no part in the task.
            return Ok(());
        }
        let rows = self.brain()?.evolver_rows().queue(None, Some(QueueRow::CHANGE))?;
        let (expected, content) = (json!(proposed.change.expected), json!(proposed.digest()));
        let is_it = |row: &QueueRow| {
            let about = &row.entry["metadata"];
            row.skill.as_ref() == Some(slug)
                && about["expected_digest"] == expected
                && about["content_digest"] == content
        };
        let known = rows.iter().find(|row| is_it(row)).map(|row| row.status.as_str());
        match known {
            Some("pending") => return Ok(()),
            Some("rejected") => {
                return Err(Error::refused(format!("a person rejected this very change of skill {slug} before"))
                    .hint("go on without it"));
            }
            _ => {}
        }
        if self.says_what_was_rejected(slug, proposed, &rows)? {
            return Err(Error::refused(format!("a person rejected a change of skill {slug} that says the same"))
                .hint("go on without it"));
        }
        let of_tasks = || rows.iter().filter(|row| row.status == "pending" && row.entry["metadata"]["by"] == "task");
        let of_skill = of_tasks().filter(|row| row.skill.as_ref() == Some(slug)).count();
        if of_skill >= MOST_WAITING_OF_SKILL || of_tasks().count() >= MOST_WAITING {
            return Err(Error::refused(format!(
                "a person decides about changes of skill {slug}, and so many wait already that no more are taken"
            ))
            .hint("go on without it"));
        }
        Ok(())
    }

    /// Whether a change says, in the same words or nearly, what a person rejected for this skill; a new skill, for any.
    fn says_what_was_rejected(&mut self, slug: &Slug, proposed: &SkillProposal, rows: &[QueueRow]) -> Result<bool> {
        let creates = proposed.act == SkillAction::Create;
        let is_asked = |row: &&QueueRow| {
            let of_skill = row.skill.as_ref() == Some(slug);
            row.status == "rejected"
                && (of_skill || creates && row.entry["metadata"]["act"] == json!(SkillAction::Create))
        };
        let brain = self.brain()?;
        let Some(gist) = brain.change_fingerprint(proposed)? else { return Ok(false) };
        for row in rows.iter().rev().filter(is_asked).take(MOST_REJECTED) {
            let content = brain.evolver_rows().queued(&row.id)?.and_then(|row| row.content);
            let known = content.and_then(|content| serde_json::from_str::<SkillProposal>(&content).ok());
            let known = known.map(|known| brain.change_fingerprint(&known)).transpose()?.flatten();
            if known.is_some_and(|known| known.is_similar(&gist)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a change that was made then, whatever would be ruled now. A skill that the record does not have among
    /// those that moved was not changed: the change waited.
    fn write_as_recorded(
        &mut self,
        by: SkillWriter,
        slug: &Slug,
        there: Option<SkillFacts>,
        write: Write<'_>,
    ) -> Result<SkillWriteOutcome> {
        if self.around.moved.as_ref().is_some_and(|moved| !moved.0.contains_key(slug)) {
            let reason = match rule(by, there, PriorUndo::Nothing) {
                WriteRuling::Propose(reason) | WriteRuling::Refuse(reason) => reason,
                WriteRuling::Allow => WriteObjection::Undone(PriorUndo::Alike),
            };
            return Ok(waits(slug, reason));
        }
        let base = self.step()?.1.clone();
        let (staged, edits) = self.stage(&base, slug, write)?;
        self.let_in(slug, write.change(), staged, &edits)?;
        Ok(SkillWriteOutcome::Done)
    }
}

fn waits(slug: &Slug, reason: WriteObjection) -> SkillWriteOutcome {
    SkillWriteOutcome::Waits(format!(
        "Skill {slug} {}: only a person changes that. The change is not made; it waits for a person in the review queue. \
         Go on without it.",
        reason.words()
    ))
}

/// Whether no telling word is new to those who know the role.
pub(crate) fn says_nothing_new(said: &[String], role: &str) -> bool {
    let in_role: BTreeSet<String> = words(role).into_iter().collect();
    !said.iter().any(|word| !is_stop_word(word) && !in_role.contains(word) && word.len() > 2)
}

/// What no skill may say: the whole file as it would stand, so that what stood there before cannot
/// complete what a change begins.
fn check(file: &SkillFileEdit) -> Result<()> {
    let Some(text) = file.after.as_deref().and_then(|after| std::str::from_utf8(after).ok()) else { return Ok(()) };
    match file.path.name().ends_with(".md") {
        true => guard::check_skill(text),
        false => guard::check(text),
    }
}

/// Every text in a value of front matter.
fn said_by(value: &FrontMatterValue) -> String {
    match value {
        FrontMatterValue::Null => String::new(),
        FrontMatterValue::Text(text) => text.clone(),
        FrontMatterValue::List(list) => list.iter().map(said_by).collect::<Vec<_>>().join(" "),
        FrontMatterValue::Map(map) => {
            map.iter().map(|(key, value)| format!("{key} {}", said_by(value))).collect::<Vec<_>>().join(" ")
        }
    }
}

fn refused(slug: &Slug, reason: WriteObjection) -> Error {
    Error::refused(format!("skill {slug} {}", reason.words())).hint(match reason {
        WriteObjection::Pinned | WriteObjection::NotAgentCreated(_) => "leave it as it is",
        WriteObjection::Undone(_) => "go on without it; only a person brings it back",
    })
}

fn verb(change: SkillChange) -> &'static str {
    match change {
        SkillChange::Created => "create it",
        SkillChange::Changed => "change it",
        SkillChange::Archived => "archive it",
    }
}

fn archived_main(editor: &Editor<'_>, slug: &Slug) -> Result<Option<RelPath>> {
    let archived = store::archived_skills(&editor.below(layout::ARCHIVE_DIR)?);
    Ok(archived.into_iter().find(|(name, _)| name == slug).map(|(_, main)| main))
}

/// The support files of a skill, by their path inside it.
fn support_files(editor: &Editor<'_>, place: &SkillLocation) -> Result<BTreeMap<String, Vec<u8>>> {
    let Some(dir) = place.dir() else { return Ok(BTreeMap::new()) };
    let inside = format!("{dir}/");
    let mut files = BTreeMap::new();
    for path in editor.below(dir.as_str())?.iter().filter(|path| **path != place.main) {
        if let (Some(name), Some(content)) = (path.as_str().strip_prefix(&inside), editor.read(path)?) {
            files.insert(name.to_owned(), content);
        }
    }
    Ok(files)
}

fn text_of(name: &str, content: &[u8]) -> Result<String> {
    String::from_utf8(content.to_vec()).map_err(|source| {
        Error::refused(format!("{name} is not UTF-8 text, and a change that waits holds text alone")).because(source)
    })
}
