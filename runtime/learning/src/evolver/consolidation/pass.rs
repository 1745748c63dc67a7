//! Looks whether a brain has skills to merge, and proposes or makes the merges, as the operator allows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::json;

use super::{MergeCandidate, SkillGroup, merged, overlapping};
use crate::brain::Brain;
use crate::error::Result;
use crate::evolver::apply::{EvolverApproval, SkillApplyResult, apply_proposed};
use crate::evolver::mining::CONSOLIDATION;
use crate::evolver::pass::{EvolverPassMode, EvolverPassOptions, drill_missing};
use crate::evolver::policy::SkillSource;
use crate::evolver::prepare::SOFT_CAP;
use crate::evolver::{review_queue, rollback};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::{EvolverChange, TrialState};
use crate::skill::change::{MergedSkill, SkillProposal, SkillUpdate};
use crate::skill::provenance::{SkillFacts, SkillWriter, WriteRuling};
use crate::skill::{Document, SkillState, SkillUsage, all_skills};

/// The most skills that are compared with each other, the newest.
const MOST_SKILLS: usize = 200;
/// The most merges that one pass proposes or makes.
const MOST_MERGES: usize = 3;
/// What the skills of procedures are called. They keep examples, and are merged by their tools already.
const PROCEDURE: &str = "how-to-";

/// The skills that a process has compared, by what they say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsolidationMemory(Option<Digest>);

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ConsolidationReport {
    /// Merges that wait for a person, by their ids in the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<String>,
    /// Merges that were made, or could not be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<SkillApplyResult>,
}

impl ConsolidationReport {
    /// Whether no merge was tried and none waits for a person.
    pub fn is_empty(&self) -> bool {
        self.proposed.is_empty() && self.applied.is_empty()
    }

    /// How many merges were made, or wait to be.
    pub fn changed(&self) -> usize {
        self.proposed.len() + self.applied.iter().filter(|merge| merge.applied).count()
    }
}

/// Passes over a brain, where its own skills are not those of the last pass.
pub fn run(
    brain: &mut Brain,
    options: &EvolverPassOptions,
    memory: &mut ConsolidationMemory,
) -> Result<ConsolidationReport> {
    let mut report = ConsolidationReport::default();
    if !options.may_hold() {
        return Ok(report);
    }
    let own = own_skills(brain, options)?;
    let said: Vec<_> = own.iter().map(|skill| (&skill.skill, skill.digest)).collect();
    let compared = ConsolidationMemory(Some(Digest::of(json!(said).to_string().as_bytes())));
    if own.len() < 2 || *memory == compared {
        return Ok(report);
    }
    let skills = read(brain, own)?;
    let merges = proposals(brain, &skills)?;
    if options.mode == EvolverPassMode::ApplyLowRisk {
        for (proposed, _) in &merges {
            if drill_missing(brain, options)?.is_some() {
                break;
            }
            report.applied.push(apply_proposed(brain, proposed, EvolverApproval::Standing, &options.verification)?);
        }
    } else {
        report.proposed = review_queue::enqueue_merges(brain, &merges)?;
    }
    // Only now: what failed above is looked at again.
    *memory = compared;
    Ok(report)
}

/// A skill that may be merged, before its text is read.
struct OwnSkill {
    skill: Slug,
    main: RelPath,
    digest: Digest,
    has_files: bool,
    usage: SkillUsage,
}

/// The skills that by their records may be merged.
fn own_skills(brain: &Brain, options: &EvolverPassOptions) -> Result<Vec<OwnSkill>> {
    let mut usage = brain.usage()?;
    usage.retain(|slug, usage| {
        let facts = SkillFacts::recorded(Some(usage));
        facts.allow(SkillWriter::Merge)
            && usage.state != SkillState::Archived
            && !slug.as_str().starts_with(PROCEDURE)
            && options.policy.objection(slug, facts).is_none()
    });
    if usage.len() < 2 {
        return Ok(Vec::new());
    }
    let paths = brain.skill_paths()?;
    let mut own = Vec::new();
    for place in all_skills(&paths, layout::SKILLS_DIR) {
        let (Some(usage), Some(digest)) = (usage.remove(&place.slug), brain.content_digest(&place.main)?) else {
            continue;
        };
        let inside = place.dir().map(|dir| format!("{dir}/"));
        let has_files = inside
            .is_some_and(|inside| paths.iter().any(|path| path.as_str().starts_with(&inside) && *path != place.main));
        own.push(OwnSkill { skill: place.slug, main: place.main, digest, has_files, usage });
    }
    own.sort_by(|a, b| (b.usage.created_at, &b.skill).cmp(&(a.usage.created_at, &a.skill)));
    own.truncate(MOST_SKILLS);
    Ok(own)
}

/// Those that may be merged by what they say as well.
fn read(brain: &Brain, own: Vec<OwnSkill>) -> Result<Vec<MergeCandidate>> {
    let mut skills = Vec::new();
    for OwnSkill { skill, main, has_files, usage, .. } in own {
        let Some(text) = brain.read_content(&main)?.and_then(|bytes| String::from_utf8(bytes).ok()) else { continue };
        if !SkillFacts::of(Some(&usage), text.as_bytes()).allow(SkillWriter::Merge) {
            continue;
        }
        let uses = u64::from(usage.use_count) + u64::from(usage.view_count);
        let created_at = usage.created_at;
        let proven = brain.trial(&skill)?.is_some_and(|trial| trial.state == TrialState::Proven);
        skills.push(MergeCandidate { skill, text, proven, uses, created_at, has_files });
    }
    skills.retain(|skill| !is_procedure(&skill.text));
    Ok(skills)
}

/// Whether a skill says of itself that it keeps the examples of a procedure.
fn is_procedure(text: &str) -> bool {
    let metadata = Document::read(text.as_bytes()).ok().and_then(|document| document.value("metadata"));
    metadata.is_some_and(|metadata| metadata.get("kind").and_then(|kind| kind.as_text()) == Some("procedure"))
}

/// The merges of skills that nobody rejected or took back, each with its reason.
fn proposals(brain: &Brain, skills: &[MergeCandidate]) -> Result<Vec<(SkillProposal, String)>> {
    let groups = overlapping(skills);
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let texts: BTreeMap<&Slug, &str> = skills.iter().map(|skill| (&skill.skill, skill.text.as_str())).collect();
    let mut refused = review_queue::rejected_merges(&brain.evolver_rows())?;
    refused.extend(rolled_back_merges(brain)?);
    let undone = brain.undone_skills()?;
    let mut found = Vec::new();
    for group in groups {
        let names: BTreeSet<String> =
            group.others.iter().map(|(slug, _)| slug.to_string()).chain([group.keeper.to_string()]).collect();
        // One change of a skill is tried at a time.
        if refused.contains(&names) || rollback::change_on_trial(brain, &group.keeper)?.is_some() {
            continue;
        }
        let Some((proposed, why)) = proposal(&group, &texts) else { continue };
        let written = [proposed.change.content.as_bytes()];
        if brain.rule_on(SkillWriter::Merge, &proposed.change.skill, written, &undone)? == WriteRuling::Allow {
            found.push((proposed, why));
        }
        if found.len() == MOST_MERGES {
            break;
        }
    }
    Ok(found)
}

/// One merge as a change; `None` where the text would grow too long.
fn proposal(group: &SkillGroup, texts: &BTreeMap<&Slug, &str>) -> Option<(SkillProposal, String)> {
    let keeper = *texts.get(&group.keeper)?;
    let mut merges = Vec::new();
    let mut others = Vec::new();
    for (skill, _) in &group.others {
        let text = *texts.get(skill)?;
        merges.push(MergedSkill { skill: skill.clone(), expected: Digest::of(text.as_bytes()) });
        others.push(text);
    }
    let content = merged(keeper, others);
    if content.chars().count() > SOFT_CAP {
        return None;
    }
    let least = group.others.iter().map(|(_, overlap)| *overlap).fold(1.0, f64::min);
    let why = format!("they share {:.0} % of their words; what the others say beyond it is taken in", least * 100.0);
    let names: Vec<&Slug> = group.others.iter().map(|(skill, _)| skill).collect();
    let change = SkillUpdate {
        skill: group.keeper.clone(),
        expected: Digest::of(keeper.as_bytes()),
        content,
        support: Vec::new(),
        why: json!({
            "what": CONSOLIDATION, "by": "auto-run", "source": SkillSource::LocalAgentCreated, "merges": names,
            "reason": why,
        }),
    };
    Some((SkillProposal { merges, ..SkillProposal::from(change) }, why))
}

/// The skills of the merges that were made and rolled back: of each, the names of all of them.
fn rolled_back_merges(brain: &Brain) -> Result<Vec<BTreeSet<String>>> {
    let changes = brain.evolver_rows().changes(None)?;
    let back =
        changes.iter().filter(|change| change.rolled_back_at.is_some() && change.manifest["what"] == CONSOLIDATION);
    let names = |change: &EvolverChange| {
        let merged = change.manifest["merges"].as_array().cloned().unwrap_or_default();
        let merged = merged.into_iter().filter_map(|name| name.as_str().map(str::to_owned));
        merged.chain([change.skill.to_string()]).collect()
    };
    Ok(back.map(names).collect())
}
