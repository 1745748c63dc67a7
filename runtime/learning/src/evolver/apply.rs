//! The guarded change of one skill: approved, against the very bytes that were read, verified before it
//! is made, and then one step of the brain. Before that step nothing has changed; after it everything
//! has, the main file and its support files together, under one receipt.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::review_queue;
use super::verification::{self, SkillVerification, VerificationOptions, VerificationTrial};
use crate::brain::{Brain, Draft, Editor, SettledStep, Step, StepKind, UNATTENDED};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
pub use crate::skill::change::SkillUpdate;
use crate::skill::change::{MergedSkill, SkillAction, SkillProposal};
use crate::skill::provenance::{PriorUndo, SkillWriter, WriteRuling, rule};
use crate::skill::{CreatedBy, Files as _, Form, MAIN_FILES, SkillLocation, store, support_path};

/// The schema of a manifest.
pub const MANIFEST_SCHEMA: &str = "herm/evolver-change/v1";
/// What the summaries of the evolver's steps begin with.
pub const SUMMARY: &str = "evolver: ";

/// Whether someone said yes to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvolverApproval {
    /// A person did, to this one.
    Given,
    /// The operator did once, to all that a pass makes. No person has looked at this one.
    Standing,
    /// Nobody did: the change is not made.
    Missing,
}

impl EvolverApproval {
    /// What the approval of a pass is for one of its changes.
    pub(super) fn of_a_pass(self) -> Self {
        match self {
            Self::Given | Self::Standing => Self::Standing,
            Self::Missing => Self::Missing,
        }
    }
}

/// Why a change was made, or was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillApplyReason {
    /// The change was made, in a step of its own.
    Applied,
    /// Everything is as the change would make it.
    Unchanged,
    /// Nobody approved the change, so nothing was looked at.
    ApprovalRequired,
    /// The skill is not where the change expects it.
    TargetNotFound,
    /// What the change would replace is not what it was made for.
    HashMismatch,
    /// A stage of the verification failed.
    VerifyFailed,
    /// The brain would break a rule with it.
    RulesBroken,
}

impl SkillApplyReason {
    /// The name that reports and the command have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::ApprovalRequired => "approval-required",
            Self::TargetNotFound => "target-not-found",
            Self::HashMismatch => "hash-mismatch",
            Self::VerifyFailed => "verify-failed",
            Self::RulesBroken => "rules-broken",
        }
    }
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillApplyResult {
    /// Whether it was made.
    pub applied: bool,
    /// Why it was made or not; the command prints its name.
    pub reason: SkillApplyReason,
    /// What exactly stood in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The skill that the change is for.
    pub skill: Slug,
    /// Its main file, as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_path: Option<RelPath>,
    /// The digest of the main file before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_digest: Option<Digest>,
    /// The digest of the main file as it is to be.
    pub new_digest: Digest,
    /// How it was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<SkillVerification>,
    /// The number of the step: what `rollback` and `drill` take as their manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<i64>,
    /// How the brain moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledStep>,
}

impl SkillApplyResult {
    fn refused(change: &SkillUpdate, reason: SkillApplyReason) -> Self {
        Self {
            applied: false,
            reason,
            detail: None,
            skill: change.skill.clone(),
            target_path: None,
            original_digest: None,
            new_digest: Digest::of(change.content.as_bytes()),
            verify: None,
            manifest: None,
            settled: None,
        }
    }

    fn because(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// Makes a change of a skill that is there, or says why not. See [`apply_proposed`].
pub fn apply(
    brain: &mut Brain,
    change: &SkillUpdate,
    approval: EvolverApproval,
    verification: &VerificationOptions,
) -> Result<SkillApplyResult> {
    apply_proposed(brain, &SkillProposal::from(change.clone()), approval, verification)
}

/// Makes a change, or says why not. The process that has the brain open holds its lock, so between reading
/// the skill and settling the step nobody else can write it.
pub fn apply_proposed(
    brain: &mut Brain,
    proposed: &SkillProposal,
    approval: EvolverApproval,
    verification: &VerificationOptions,
) -> Result<SkillApplyResult> {
    let change = &proposed.change;
    if approval == EvolverApproval::Missing {
        return Ok(SkillApplyResult::refused(change, SkillApplyReason::ApprovalRequired)
            .because("nobody approved it: say --approve"));
    }
    let mut draft = Draft::new();
    let editor = brain.edit(&mut draft);
    let place = match find(&editor, proposed)? {
        Ok(place) => place,
        Err((reason, detail)) => return Ok(SkillApplyResult::refused(change, reason).because(detail)),
    };
    // The bytes that are hashed here are the bytes that are replaced: `read` checks them against the tree.
    let before = editor.read(&place.main)?.unwrap_or_default();
    let original = Digest::of(&before);
    let report = SkillApplyResult {
        target_path: Some(place.main.clone()),
        original_digest: Some(original),
        ..SkillApplyResult::refused(change, SkillApplyReason::HashMismatch)
    };
    if proposed.act == SkillAction::Edit && proposed.merges.is_empty() && is_there(&editor, &place, change, original)? {
        return Ok(SkillApplyResult { reason: SkillApplyReason::Unchanged, ..report });
    }
    if original != change.expected {
        let detail = format!("it has {original}, and the change was made for {}", change.expected);
        return Ok(report.because(detail));
    }
    if let Some(detail) = changed_file(&editor, &place, proposed)? {
        return Ok(report.because(detail));
    }
    for merged in &proposed.merges {
        if let Some(detail) = unfit_to_merge(&editor, merged)? {
            return Ok(report.because(detail));
        }
    }
    if let Some(detail) = kept_from_merging(brain, proposed)? {
        return Ok(report.because(detail));
    }
    let files = match write(brain, &mut draft, proposed, &before) {
        Ok(files) => files,
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Refused | ErrorKind::Conflict) => {
            return Ok(SkillApplyResult { reason: SkillApplyReason::RulesBroken, ..report }.because(error.message()));
        }
        Err(error) => return Err(error),
    };
    if files.is_empty() {
        return Ok(SkillApplyResult { reason: SkillApplyReason::Unchanged, ..report });
    }
    let new = report.new_digest;
    let mut manifest = manifest(brain, change, &place.main, original, new, &files);
    if let Some(fields) = manifest.as_object_mut().filter(|_| approval == EvolverApproval::Standing) {
        fields.insert(UNATTENDED.to_owned(), json!(true));
    }
    let verified = match proposed.act {
        // Its text is as it was.
        SkillAction::Archive => verification::verify(&VerificationOptions::default(), &change.content, None),
        _ => tried(brain, change, &before, (original, new), verification, &manifest)?,
    };
    if !verified.passed {
        let detail = format!("{} failed", verified.failed_stage.unwrap_or("the verification"));
        return Ok(SkillApplyResult { reason: SkillApplyReason::VerifyFailed, verify: Some(verified), ..report }
            .because(detail));
    }
    if let Some(fields) = manifest.as_object_mut() {
        fields.insert("verify".to_owned(), json!(verified));
    }
    draft.evolved(change.skill.clone(), manifest.clone());
    let summary = format!("{SUMMARY}{} of {}", what(change), change.skill);
    // A receipt is for strangers too: that it was verified is signed, what the verifier said is not.
    let mut told = manifest.clone();
    if let Some(fields) = told.as_object_mut() {
        fields.insert("verify".to_owned(), json!({ "enabled": verified.enabled, "passed": verified.passed }));
    }
    let step = Step { kind: StepKind::Evolve, summary: &summary, report: Some(&told), transcript: None };
    let settled = brain.settle_step(&draft, &step)?;
    if !settled.moved {
        return Ok(SkillApplyResult { reason: SkillApplyReason::Unchanged, verify: Some(verified), ..report });
    }
    for skill in [&change.skill].into_iter().chain(proposed.merges.iter().map(|merged| &merged.skill)) {
        if let Err(error) = review_queue::supersede(brain, skill) {
            // Accepting one of them would be refused all the same.
            tracing::warn!(brain = %brain.id(), %error, "held changes of the skill still wait");
        }
    }
    Ok(SkillApplyResult {
        applied: true,
        reason: SkillApplyReason::Applied,
        verify: Some(verified),
        manifest: Some(brain.last_step()?),
        settled: Some(settled),
        ..report
    })
}

/// Where the skill of a change stands, or why the change cannot be made.
fn find(editor: &Editor<'_>, proposed: &SkillProposal) -> Result<Result<SkillLocation, (SkillApplyReason, String)>> {
    let skill = &proposed.change.skill;
    let active = store::find(editor, skill)?;
    let archived = store::archived_skills(&editor.below(layout::ARCHIVE_DIR)?);
    let archived = archived.into_iter().find(|(name, _)| name == skill).map(|(slug, main)| {
        let form = if MAIN_FILES.contains(&main.name()) { Form::Directory } else { Form::Flat };
        SkillLocation { slug, main, form }
    });
    Ok(match (proposed.act, active, archived) {
        (SkillAction::Edit | SkillAction::Archive, Some(place), _) => Ok(place),
        (SkillAction::Edit | SkillAction::Archive, None, _) => {
            Err((SkillApplyReason::TargetNotFound, format!("there is no skill {skill}")))
        }
        (SkillAction::Create, None, None) => {
            Ok(SkillLocation { slug: skill.clone(), main: layout::flat_skill(skill)?, form: Form::Flat })
        }
        (SkillAction::Restore, None, Some(place)) => Ok(place),
        (SkillAction::Restore, None, None) => {
            Err((SkillApplyReason::TargetNotFound, format!("skill {skill} is not in the archive")))
        }
        (SkillAction::Create | SkillAction::Restore, _, _) => {
            Err((SkillApplyReason::HashMismatch, format!("skill {skill} is there by now")))
        }
    })
}

/// A support file that is not as the change expects it, in a sentence. An archive takes the whole directory, so every file
/// in it must be known.
fn changed_file(editor: &Editor<'_>, place: &SkillLocation, proposed: &SkillProposal) -> Result<Option<String>> {
    for (file, expected) in &proposed.before {
        let there = match place.dir() {
            Some(dir) => editor.read(&dir.join(file)?)?,
            None => None,
        };
        if there.as_deref().map(Digest::of) != *expected {
            return Ok(Some(format!("{file} beside it is not as it was when the change was made")));
        }
    }
    let Some(dir) = place.dir().filter(|_| proposed.act == SkillAction::Archive) else { return Ok(None) };
    let inside = format!("{dir}/");
    let mut files = editor.below(dir.as_str())?.into_iter().filter(|path| *path != place.main);
    let added = files.find_map(|path| {
        let file = path.as_str().strip_prefix(&inside)?;
        (!proposed.before.contains_key(file)).then(|| file.to_owned())
    });
    Ok(added.map(|file| {
        format!(
            "{file} was added since the change was made, and would go with it: archive the skill by hand, or reject"
        )
    }))
}

/// Why a skill cannot be taken in by another as it was meant to, in a sentence.
fn unfit_to_merge(editor: &Editor<'_>, merged: &MergedSkill) -> Result<Option<String>> {
    let skill = &merged.skill;
    let Some(place) = store::find(editor, skill)? else {
        return Ok(Some(format!("there is no skill {skill} any more")));
    };
    let alone = match place.dir() {
        Some(dir) => editor.below(dir.as_str())?.iter().all(|path| *path == place.main),
        None => true,
    };
    let is_as_expected = editor.read(&place.main)?.as_deref().map(Digest::of) == Some(merged.expected);
    Ok(match (alone, is_as_expected) {
        (false, _) => Some(format!("skill {skill} has files beside it by now")),
        (_, false) => Some(format!("skill {skill} is not as it was when the change was made")),
        (true, true) => None,
    })
}

/// Why the gate keeps one of the skills of a merge from it, in a sentence. A merge is of the agent's own skills, also where
/// a person accepts it: what was pinned or made a person's since is not what was proposed.
fn kept_from_merging(brain: &Brain, proposed: &SkillProposal) -> Result<Option<String>> {
    if proposed.merges.is_empty() {
        return Ok(None);
    }
    for skill in [&proposed.change.skill].into_iter().chain(proposed.merges.iter().map(|merged| &merged.skill)) {
        if let Some(facts) = brain.skill_facts(skill)?
            && let WriteRuling::Refuse(reason) | WriteRuling::Propose(reason) =
                rule(SkillWriter::Merge, Some(facts), PriorUndo::Nothing)
        {
            return Ok(Some(format!("skill {skill} {}", reason.words())));
        }
    }
    Ok(None)
}

/// Whether everything is as the change would make it.
fn is_there(editor: &Editor<'_>, place: &SkillLocation, change: &SkillUpdate, original: Digest) -> Result<bool> {
    if original != Digest::of(change.content.as_bytes()) {
        return Ok(false);
    }
    for (file, content) in &change.support {
        let there = if place.dir().is_some() { editor.read(&support_path(place, file)?)? } else { None };
        if there.as_deref() != content.as_ref().map(String::as_bytes) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn what(change: &SkillUpdate) -> &str {
    change.why.get("what").and_then(Value::as_str).unwrap_or("change")
}

/// Puts the change into the draft; the files that really change, with their digests before and after. The skill stays
/// whose it was, no matter who accepts the change; a skill that an agent thought of is the agent's.
fn write(brain: &Brain, draft: &mut Draft, proposed: &SkillProposal, before: &[u8]) -> Result<Vec<Value>> {
    let change = &proposed.change;
    let mut editor = brain.edit(draft);
    match proposed.act {
        SkillAction::Edit => {}
        SkillAction::Create => drop(editor.create_skill(&change.skill, &change.content, CreatedBy::Agent)?),
        SkillAction::Archive => editor.archive_skill(&change.skill)?,
        SkillAction::Restore => drop(editor.restore_skill(&change.skill)?),
    }
    if proposed.act != SkillAction::Archive {
        for (file, content) in &change.support {
            match content {
                // First, for it may give the skill a directory of its own.
                Some(content) => drop(editor.write_skill_file(&change.skill, file, content.clone().into_bytes())?),
                None => drop(editor.remove_skill_file(&change.skill, file)?),
            }
        }
    }
    let is_edited =
        matches!(proposed.act, SkillAction::Edit | SkillAction::Restore) && change.content.as_bytes() != before;
    if is_edited {
        editor.edit_skill(&change.skill, &change.content)?;
    }
    for merged in &proposed.merges {
        editor.archive_skill(&merged.skill)?;
    }
    let mut files = Vec::new();
    for (path, content) in draft.files() {
        let (before, after) = (brain.content_digest(path)?, content.map(Digest::of));
        if before != after {
            files.push(json!({ "path": path, "before": before, "after": after }));
        }
    }
    Ok(files)
}

fn manifest(
    brain: &Brain,
    change: &SkillUpdate,
    target: &RelPath,
    original: Digest,
    new: Digest,
    files: &[Value],
) -> Value {
    let mut manifest = json!({
        "schema": MANIFEST_SCHEMA,
        "brain": brain.id(),
        "skill": change.skill,
        "targetPath": target,
        "originalDigest": original,
        "newDigest": new,
        "appliedAt": brain.clock().now(),
        "files": files,
    });
    if let (Some(fields), Some(why)) = (manifest.as_object_mut(), change.why.as_object()) {
        for (name, value) in why {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    manifest
}

/// Runs the stages. Where commands have a say, the change is laid out for them beside the brain.
fn tried(
    brain: &Brain,
    change: &SkillUpdate,
    before: &[u8],
    (original, new): (Digest, Digest),
    verification: &VerificationOptions,
    manifest: &Value,
) -> Result<SkillVerification> {
    if !verification.has_commands() {
        return Ok(verification::verify(verification, &change.content, None));
    }
    let staging = brain.staging();
    // A name of its own: a verifier that outlived the process that started it must not meet this one.
    let place = staging.join(format!("{}-{}", std::process::id(), brain.last_step()?));
    let laid_out = lay_out(brain, &place, change, before, manifest);
    let verified = laid_out.map(|()| {
        let target = place.join(change.skill.as_str()).join(layout::SKILL_FILE);
        let trial = VerificationTrial {
            skill: &change.skill,
            target: &target,
            backup: &place.join(BACKUP),
            manifest: &place.join(MANIFEST),
            original,
            new,
        };
        verification::verify(verification, &change.content, Some(&trial))
    });
    let cleared = fsio::remove_tree(&staging);
    let verified = verified?;
    cleared?;
    Ok(verified)
}

const BACKUP: &str = "before.md";
const MANIFEST: &str = "manifest.json";

fn lay_out(brain: &Brain, place: &Path, change: &SkillUpdate, before: &[u8], manifest: &Value) -> Result<()> {
    let staging = brain.staging();
    if staging.symlink_metadata().is_ok() {
        fsio::remove_tree(&staging)?;
    }
    fsio::create_dirs(place)?;
    let root = Root::open(place)?;
    let put = |name: &str, content: &[u8]| root.replace(&name.parse()?, content, SyncTiming::Later);
    // In a directory of its name, as validators expect it.
    let skill = |file: &str| format!("{}/{file}", change.skill);
    // What the skill has beside it, so that links and scripts are where its text says.
    for (file, content) in brain.skill_files(&change.skill)? {
        put(&skill(&file), &content)?;
    }
    put(&skill(layout::SKILL_FILE), change.content.as_bytes())?;
    put(BACKUP, before)?;
    let text = serde_json::to_vec_pretty(manifest)
        .map_err(|source| Error::internal("a manifest could not be written as JSON").because(source))?;
    put(MANIFEST, &text)?;
    for (file, content) in &change.support {
        match content {
            Some(content) => put(&skill(file), content.as_bytes())?,
            None => root.remove(&skill(file).parse()?)?,
        }
    }
    Ok(())
}
