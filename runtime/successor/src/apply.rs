//! A patch as a step of a brain: the same for the copy in the sandbox and, behind the gates, for the brain itself.
//!
//! What a patch does to skills passes the gate of [`provenance`](crate::skill::provenance) like everything that writes
//! them. A steward who approved it is a person, who may do everything; where the mesh alone agreed, no person looked at
//! the skills, and it may do what unattended code may.

use serde_json::{Value, json};

use crate::brain::{Brain, BrainManifest, Draft, SettledStep, SkillEdits, SkillFileEdit, Step, StepKind, UndoneSkills};
use crate::error::{Error, Result};
use crate::ids::{RelPath, sha256};
use crate::layout;
use crate::patch::{Patch, PatchChange, PatchEdit};
use crate::skill::provenance::{SkillWriter, WriteRuling};
use crate::skill::{CreatedBy, Files as _, all_skills, guard};
use crate::tuning::{ExecutableTool, Migration, ToolSwap, Tuning};

/// How the summary of an applied patch begins.
pub const SUMMARY: &str = "patch: ";

/// What decides how a brain runs: the version of herm, its role, its manifest and its tuning (which names its
/// programs by digest), as one SHA-256. With a draft, what it will be.
pub fn identity(brain: &Brain, draft: Option<&Draft>) -> Result<String> {
    let mut said = json!({ "herm": env!("CARGO_PKG_VERSION") });
    for path in [layout::SYSTEM, layout::MANIFEST, layout::TUNING] {
        let drafted = draft.and_then(|draft| draft.files().find(|(drafted, _)| drafted.as_str() == path));
        let content = match drafted {
            Some((_, content)) => content.map(<[u8]>::to_vec),
            None => brain.read_content(&layout::rel(path)?)?,
        };
        said[path] = content.map_or(Value::Null, |content| sha256(&content).into());
    }
    Ok(format!("sha256:{}", sha256(said.to_string().as_bytes())))
}

/// The backend that a brain asks for, by its tuning or else by its manifest. With a draft, what it will ask for.
pub(super) fn backend(brain: &Brain, draft: Option<&Draft>) -> Result<Option<String>> {
    let content = |path: &str| {
        let drafted = draft.and_then(|draft| draft.files().find(|(drafted, _)| drafted.as_str() == path));
        match drafted {
            Some((_, content)) => Ok(content.map(<[u8]>::to_vec)),
            None => brain.read_content(&layout::rel(path)?),
        }
    };
    let tuned = content(layout::TUNING)?.map(|content| Tuning::parse(&content)).transpose()?;
    let manifest = content(layout::MANIFEST)?.map(|content| BrainManifest::parse(&content)).transpose()?;
    Ok(tuned.and_then(|tuning| tuning.backend).or_else(|| manifest.and_then(|manifest| manifest.backend)))
}

/// Puts a patch into a draft; `writer` decided about it. Nothing of the brain changes.
pub fn stage(brain: &Brain, patch: &Patch, writer: SkillWriter) -> Result<Draft> {
    let mut draft = Draft::new();
    let mut tuning = brain.tuning()?;
    for change in patch.changes() {
        stage_change(brain, &mut draft, &mut tuning, change, writer)?;
    }
    check_skills(brain, &draft, writer)?;
    tuning.validate()?;
    if tuning != brain.tuning()? {
        let path = layout::rel(layout::TUNING)?;
        let mut editor = brain.edit(&mut draft);
        match tuning.is_as_built() {
            true => editor.remove(path),
            false => editor.write(path, tuning.to_bytes()?),
        }
    }
    if draft.is_empty() {
        return Err(Error::invalid("the patch changes nothing: the brain is that already")
            .hint("compare it with `herm brain show` and tuning.json"));
    }
    Ok(draft)
}

/// Refuses a patch that does to a skill what its writer may not.
fn check_skills(brain: &Brain, draft: &Draft, writer: SkillWriter) -> Result<()> {
    if writer == SkillWriter::Person {
        return Ok(());
    }
    let edits = brain.skill_edits(draft)?;
    let undone = if edits.is_empty() { UndoneSkills::default() } else { brain.undone_skills()? };
    for SkillEdits { slug, files, .. } in edits {
        let written = SkillFileEdit::written(files);
        let written = written.iter().filter_map(|file| file.after.as_deref());
        if let WriteRuling::Propose(reason) | WriteRuling::Refuse(reason) =
            brain.rule_on(writer, &slug, written, &undone)?
        {
            return Err(Error::refused(format!("the patch changes skill {slug}, which {}", reason.words())).hint(
                "only a person decides about that: have a steward approve the patch, with gate `human` or `both`",
            ));
        }
    }
    Ok(())
}

fn stage_change(
    brain: &Brain,
    draft: &mut Draft,
    tuning: &mut Tuning,
    change: &PatchChange,
    writer: SkillWriter,
) -> Result<()> {
    match change {
        PatchChange::Constants { set } => tuning.merge(set),
        PatchChange::Component { component, to } => tuning.swap(*component, to),
        PatchChange::Role { content, edits } => {
            let path = layout::rel(layout::SYSTEM)?;
            let mut editor = brain.edit(draft);
            let before = editor.read(&path)?.unwrap_or_default();
            let after = match content {
                Some(content) => content.clone(),
                None => edited(&before, edits)?,
            };
            editor.write(path, after.into_bytes());
            Ok(())
        }
        PatchChange::Tool { name, other, executable } => {
            let swap = match (other, executable) {
                (Some(other), _) => ToolSwap::Use(other.clone()),
                (None, Some(executable)) => {
                    let program = executable.program()?;
                    let said = ExecutableTool {
                        sha256: sha256(&program),
                        description: executable.description.clone(),
                        schema: executable.schema.clone(),
                    };
                    brain.edit(draft).write(layout::rel(&format!("{}/{name}", layout::TOOLS_DIR))?, program);
                    ToolSwap::Executable(said)
                }
                (None, None) => return Err(Error::invalid("a change of a tool names nothing in its place")),
            };
            tuning.tools.insert(name.clone(), swap);
            tuning.validate()
        }
        PatchChange::Migration(migration) => {
            tuning.migrations.push(migration.clone());
            tuning.validate()
        }
        PatchChange::Files { set, remove } => {
            for path in remove {
                let path: RelPath = path.parse()?;
                let mut editor = brain.edit(draft);
                if editor.read(&path)?.is_none() {
                    return Err(Error::not_found(format!("the patch removes {path}, which is not there"))
                        .hint("make the patch from the brain as it is"));
                }
                editor.remove(path);
            }
            set.iter().try_for_each(|(path, content)| stage_file(brain, draft, &path.parse()?, content, writer))
        }
    }
}

/// Skills keep their rules whatever writes them. A new one is made by the writer who decided about the patch.
fn stage_file(brain: &Brain, draft: &mut Draft, path: &RelPath, content: &str, writer: SkillWriter) -> Result<()> {
    let mut editor = brain.edit(draft);
    // Among all files: a file of a skill looks like a skill of its own where it stands alone.
    let mut paths = editor.below(layout::SKILLS_DIR)?;
    if let Err(at) = paths.binary_search(path) {
        paths.insert(at, path.clone());
    }
    let main = all_skills(&paths, layout::SKILLS_DIR).find(|place| place.main == *path);
    match main {
        Some(place) => {
            guard::check_skill(content)?;
            match editor.read(path)? {
                Some(_) => editor.edit_skill(&place.slug, content).map(drop),
                None => editor.create_skill(&place.slug, content, maker(writer)).map(drop),
            }
        }
        None => {
            editor.write(path.clone(), content.as_bytes().to_vec());
            Ok(())
        }
    }
}

fn maker(writer: SkillWriter) -> CreatedBy {
    match writer {
        SkillWriter::Person => CreatedBy::User,
        _ => CreatedBy::Agent,
    }
}

fn edited(before: &[u8], edits: &[PatchEdit]) -> Result<String> {
    let mut text = String::from_utf8(before.to_vec())
        .map_err(|source| Error::corrupt("system.md is not UTF-8 text").because(source))?;
    for edit in edits {
        if text.matches(&edit.find).count() != 1 {
            return Err(Error::conflict(format!("{:?} stands in system.md not exactly once", edit.find))
                .hint("make the patch from the brain as it is"));
        }
        text = text.replacen(&edit.find, &edit.replace, 1);
    }
    Ok(text)
}

/// A patch that has become a step.
#[derive(Debug, Clone)]
pub struct AppliedPatch {
    /// The step as the brain settled it: the version, the bundle hashes and the files that moved.
    pub settled: SettledStep,
    /// The identity before and after.
    pub identity: (String, String),
}

/// Makes a patch a step of the brain, with what led to it in the receipt.
pub fn apply(brain: &mut Brain, patch: &Patch, writer: SkillWriter, because: Value) -> Result<AppliedPatch> {
    let before = identity(brain, None)?;
    let draft = stage(brain, patch, writer)?;
    let present = brain.tuning()?.migrations;
    // What the tuning will ask of memory.db must be possible before it is asked for.
    brain.try_migrations(&migrations_after(brain, &draft)?)?;
    let after = identity(brain, Some(&draft))?;
    let report = json!({
        "patch": { "hash": patch.hash(), "title": patch.title() },
        "identity": { "before": before, "after": after },
        "because": because,
    });
    let summary = format!("{SUMMARY}{}", patch.title());
    let step = Step { kind: StepKind::Patch, summary: &summary, report: Some(&report), transcript: None };
    match brain.settle_step(&draft, &step) {
        Ok(settled) => Ok(AppliedPatch { settled, identity: (before, after) }),
        Err(error) => {
            // The indexes follow the tuning that holds; the next open sees to it as well.
            brain.try_migrations(&present)?;
            Err(error)
        }
    }
}

/// Whether a patch could become a step now. Nothing changes.
pub fn rehearse(brain: &mut Brain, patch: &Patch, writer: SkillWriter) -> Result<()> {
    let draft = stage(brain, patch, writer)?;
    let (present, wanted) = (brain.tuning()?.migrations, migrations_after(brain, &draft)?);
    if wanted == present {
        return Ok(());
    }
    let tried = brain.try_migrations(&wanted);
    brain.try_migrations(&present)?;
    tried
}

/// The migrations of the tuning as the draft leaves it.
fn migrations_after(brain: &Brain, draft: &Draft) -> Result<Vec<Migration>> {
    match draft.files().find(|(path, _)| path.as_str() == layout::TUNING) {
        Some((_, Some(content))) => Ok(Tuning::parse(content)?.migrations),
        Some((_, None)) => Ok(Vec::new()),
        None => Ok(brain.tuning()?.migrations),
    }
}
