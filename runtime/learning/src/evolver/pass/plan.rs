//! What a pass would do: each skill in its order, until enough are ready. Reads, and decides; writes nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::lessons::FailureLesson;
use super::super::mining::ReviewStatus;
use super::super::policy::{NOT_AGENT_CREATED, PINNED, SkillSource};
use super::super::prepare::{HARD_CAP, NOTHING_TO_SAY, PreparedSkill, SOFT_CAP, SUPPORT_HEAD, SUPPORT_PATH};
use super::super::review_queue::Decisions;
use super::super::rollback::DrillGate;
use super::super::select::{QUERY_ROWS, RankedSkill, RankerChain, RankerQuery, select_asked};
use super::super::variants;
use super::super::view::{EvolverView, SkillMainFile};
use super::super::{Brief, EvidenceCounts, EvidenceRow, block, lessons};
use super::{
    EvolverApproval, EvolverCandidate, EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions, EvolverPassReport,
    PlannedSkillUpdate, RUN_SCHEMA, SkillUpdate, Tried,
};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;
use crate::memory::{EvolverChange, window_start};

/// How many rows of a skill are searched for lessons, and how many of them a block may show.
const LESSON_ROWS: usize = 100;
const BRIEF_ROWS: usize = 20;

/// A plan that leaves out what was tried already.
pub(super) fn beyond(
    ground: &EvolverView<'_>,
    options: &EvolverPassOptions,
    ranking: RankerChain<'_>,
    tried: &Tried,
) -> Result<EvolverPassReport> {
    options.check()?;
    let since = window_start(ground.now, options.days);
    let summary = ground.evidence.summary(since)?;
    let beginning = |slug: &Slug| ground.text(slug).ok().flatten().map(|text| text.text);
    let asks = RankerQuery { tallies: &summary.skills, recent: &ground.evidence.recent(since, QUERY_ROWS)? };
    let selection = select_asked(&asks, options.min_evidence, ranking, &beginning);
    let changes = ground.rows.changes(None)?;
    let pass = Pass { ground, options, since, changes: &changes, decisions: Decisions::read(&ground.rows)? };
    let most = options.max_skills.saturating_sub(tried.changed);
    let (mut ready, mut shown) = (0, 0);
    let mut candidates = Vec::new();
    for chosen in selection.order.iter().filter(|chosen| !tried.skills.contains(&chosen.slug)) {
        if ready >= most {
            break;
        }
        let candidate = pass.candidate(chosen, shown < options.max_skills)?;
        // Only what is still to be done takes a place: nothing that is held already, or only shown.
        ready += usize::from(candidate.change.is_some());
        shown += usize::from(candidate.status == EvolverCandidateStatus::Planned && candidate.change.is_none());
        candidates.push(candidate);
    }
    let mut run = EvolverPassReport {
        schema_version: RUN_SCHEMA,
        mode: options.mode,
        safety: safety(options, &changes, ground, selection.model_executed)?,
        config: config(options),
        selection,
        summary: Value::Null,
        error: None,
        candidates,
    };
    run.count();
    Ok(run)
}

/// A skill's plan and the change that makes it true, or what became of it instead, and why.
type Ready = Result<(PlannedSkillUpdate, SkillUpdate), (EvolverCandidateStatus, &'static str)>;

struct Pass<'a> {
    ground: &'a EvolverView<'a>,
    options: &'a EvolverPassOptions,
    since: Timestamp,
    changes: &'a [EvolverChange],
    decisions: Decisions,
}

impl Pass<'_> {
    fn candidate(&self, chosen: &RankedSkill, may_show: bool) -> Result<EvolverCandidate> {
        let slug = &chosen.slug;
        let source = self.ground.source(slug);
        let mut candidate = EvolverCandidate {
            skill_name: slug.clone(),
            risk: "low",
            selection: chosen.clone(),
            target_path: self.ground.place(slug).map(|place| place.main.clone()),
            source,
            source_writable: source.is_writable(),
            status: EvolverCandidateStatus::Skipped,
            reason: String::new(),
            plan: None,
            apply_result: None,
            held: None,
            change: None,
            proposal: None,
        };
        let text = match self.ground.text(slug) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let reason = if source == SkillSource::External { NOT_AGENT_CREATED } else { "skill-file-not-found" };
                return Ok(EvolverCandidate { reason: reason.to_owned(), ..candidate });
            }
            Err(error) => return Ok(EvolverCandidate { reason: error.message().to_owned(), ..candidate }),
        };
        let objection = self.options.policy.objection(slug, self.ground.facts(slug, &text.text));
        // Not even shown for review: no person is asked about it.
        if objection == Some(PINNED) {
            return Ok(EvolverCandidate { reason: PINNED.to_owned(), ..candidate });
        }
        // Its author can be asked; what the operator keeps out by name is not brought up.
        let may_propose = objection == Some(NOT_AGENT_CREATED) && self.options.may_hold();
        if let Some(objection) = objection
            && ((self.options.mode != EvolverPassMode::DryRun && !may_propose) || !may_show)
        {
            return Ok(EvolverCandidate { reason: objection.to_owned(), ..candidate });
        }
        if let Some((status, reason)) = self.nothing_to_do(chosen, &text) {
            return Ok(EvolverCandidate { status, reason: reason.to_owned(), ..candidate });
        }
        if let Some(held) = self.decisions.of(slug, text.digest, chosen.last) {
            let waits = held.status == ReviewStatus::Pending.name();
            // What waits keeps others from holding it again; who may write by themselves need not wait.
            if !waits || self.options.mode == EvolverPassMode::Pending {
                candidate.hold(held);
                return Ok(candidate);
            }
        }
        match self.prepare(chosen, &text, source)? {
            Ok((plan, change)) => {
                candidate.status = EvolverCandidateStatus::Planned;
                candidate.reason = match objection {
                    Some(objection) if may_propose => objection.to_owned(),
                    Some(objection) => format!("for review only: {objection}"),
                    None => format!(
                        "{} events, {} errors",
                        plan.evidence_summary.tool_events, plan.evidence_summary.error_events
                    ),
                };
                candidate.plan = Some(plan);
                match objection {
                    None => candidate.change = Some(change),
                    Some(_) if may_propose => candidate.proposal = Some(change),
                    Some(_) => {}
                }
            }
            Err((status, reason)) => (candidate.status, candidate.reason) = (status, reason.to_owned()),
        }
        Ok(candidate)
    }

    /// Why there is nothing to do about a skill, by the last notes of it: they rest on all the evidence there
    /// is, or they were taken back, which only a person goes back on. The evidence decides, not how it is
    /// asked: two who look with other settings would take turns rewriting.
    fn nothing_to_do(
        &self,
        chosen: &RankedSkill,
        text: &SkillMainFile,
    ) -> Option<(EvolverCandidateStatus, &'static str)> {
        let notes = |change: &&EvolverChange| change.skill == chosen.slug && change.manifest["evidence"].is_object();
        let last = self.changes.iter().find(notes)?;
        let is_new = last.manifest["evidence"]["through"].as_i64().is_none_or(|through| chosen.last > through);
        let (unchanged, skipped) = match (last.rolled_back_at, text.text.contains(block::START)) {
            (Some(_), _) => ("rolled-back-and-no-new-evidence", "rolled-back-needs-a-person"),
            // Someone took the block out by hand.
            (None, false) => ("removed-and-no-new-evidence", "removed-needs-a-person"),
            (None, true) => return (!is_new).then_some((EvolverCandidateStatus::Unchanged, "no-new-evidence")),
        };
        match (is_new, self.options.mode) {
            (false, _) => Some((EvolverCandidateStatus::Unchanged, unchanged)),
            (true, EvolverPassMode::ApplyLowRisk) => Some((EvolverCandidateStatus::Skipped, skipped)),
            (true, _) => None,
        }
    }

    /// The lessons of a skill that a person does not want: those of changes that were taken back, or whose block was taken
    /// out by hand, and that do not stand in the text again. However much new evidence says the same, they do not
    /// come back by themselves.
    fn undone_lessons(&self, slug: &Slug, text: &SkillMainFile) -> BTreeSet<String> {
        let has_block = text.text.contains(block::START);
        let of_skill: Vec<&EvolverChange> = self.changes.iter().filter(|change| change.skill == *slug).collect();
        let standing = of_skill.iter().find(|change| has_block && change.rolled_back_at.is_none());
        let taken_back = of_skill.iter().filter(|change| change.rolled_back_at.is_some() || !has_block);
        let remembered = of_skill.iter().flat_map(|change| shapes(change, "undone"));
        let stands: BTreeSet<&str> = standing.into_iter().flat_map(|change| shapes(change, "lessons")).collect();
        taken_back
            .flat_map(|change| shapes(change, "lessons"))
            .chain(remembered)
            .filter(|shape| !stands.contains(shape))
            .map(str::to_owned)
            .collect()
    }

    fn prepare(&self, chosen: &RankedSkill, text: &SkillMainFile, source: SkillSource) -> Result<Ready> {
        let slug = &chosen.slug;
        let rows: Vec<EvidenceRow> = self.ground.evidence.of_skill(slug, self.since, LESSON_ROWS)?;
        let tally = self.ground.evidence.counts_of(slug, self.since)?;
        let counts =
            EvidenceCounts { tool_events: tally.events, skill_events: tally.skill_events, error_events: tally.errors };
        let mut lessons = lessons::lessons(&rows);
        let undone = self.undone_lessons(slug, text);
        let had_any = !lessons.is_empty();
        lessons.retain(|lesson| !undone.contains(&lesson.shape().to_string()));
        if had_any && lessons.is_empty() {
            return Ok(Err((EvolverCandidateStatus::Unchanged, "undone-and-no-new-lesson")));
        }
        let shown = rows.get(..BRIEF_ROWS.min(rows.len())).unwrap_or_default();
        let through = rows.first().map(|(_, row)| row.at);
        let brief = Brief { skill: slug, days: self.options.days, through, counts, rows: shown };
        let beside = self.ground.support(slug, SUPPORT_PATH)?;
        let is_foreign = beside.as_ref().is_some_and(|text| !text.starts_with(SUPPORT_HEAD));
        let old_support = beside.filter(|_| !is_foreign);
        let mut variants =
            variants::generate(&text.text, &brief, &lessons, old_support.is_some(), self.options.variants);
        let best = variants::select(&variants);
        let Some(winner) = variants.get_mut(best) else {
            return Ok(Err((EvolverCandidateStatus::Skipped, "no-variant")));
        };
        let Some(prepared) = winner.prepared.take() else {
            let reason = winner.skipped_reason.unwrap_or("no-variant");
            let is_silent = reason == NOTHING_TO_SAY;
            let status = if is_silent { EvolverCandidateStatus::Unchanged } else { EvolverCandidateStatus::Skipped };
            return Ok(Err((status, reason)));
        };
        if is_foreign && prepared.support.is_some() {
            return Ok(Err((EvolverCandidateStatus::Skipped, "support-file-not-ours")));
        }
        if prepared.is_settled(old_support.as_deref()) {
            return Ok(Err((EvolverCandidateStatus::Unchanged, "nothing-new-to-say")));
        }
        let selected = json!({ "index": winner.index, "name": winner.name, "score": winner.score });
        let ids: Vec<i64> =
            shown.iter().map(|(id, _)| *id).chain(lessons.iter().flat_map(|lesson| lesson.ids.clone())).collect();
        let why = json!({
            "what": "notes",
            "by": "auto-run",
            "source": source,
            "days": self.options.days,
            "variants": self.options.variants,
            "variant": winner.name,
            "evidence": { "through": tally.last, "counts": counts, "ids": sorted(ids) },
            // By name alone: a receipt is for strangers too.
            "lessons": lessons.iter().map(FailureLesson::shape).collect::<Vec<_>>(),
            "undone": undone,
        });
        let plan = PlannedSkillUpdate {
            variants_requested: self.options.variants,
            selected_variant: selected,
            current_digest: text.digest,
            new_content_changed: prepared.changed,
            size_strategy: prepared.size,
            support_files: prepared.support.iter().map(|file| file.path).collect(),
            content_size: json!({
                "current_chars": text.text.chars().count(),
                "updated_chars": prepared.content_chars,
                "soft_limit_chars": SOFT_CAP,
                "hard_limit_chars": HARD_CAP,
            }),
            evidence_summary: counts,
            variants,
        };
        Ok(Ok((plan, change(slug, text, prepared, why))))
    }
}

fn change(slug: &Slug, text: &SkillMainFile, prepared: PreparedSkill, why: Value) -> SkillUpdate {
    let mut support = Vec::new();
    if let Some(file) = prepared.support {
        support.push((file.path.to_owned(), Some(file.content)));
    } else if prepared.drop_support {
        support.push((SUPPORT_PATH.to_owned(), None));
    }
    SkillUpdate { skill: slug.clone(), expected: text.digest, content: prepared.content, support, why }
}

/// The names of lessons in a manifest. Changes of an earlier herm have none.
fn shapes<'m>(change: &'m EvolverChange, of: &str) -> impl Iterator<Item = &'m str> {
    change.manifest[of].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn safety(
    options: &EvolverPassOptions,
    changes: &[EvolverChange],
    ground: &EvolverView<'_>,
    model_executed: bool,
) -> Result<Value> {
    let gate = DrillGate::judge(changes, ground.rows.drill()?.as_ref());
    Ok(json!({
        "writes": options.mode == EvolverPassMode::ApplyLowRisk && options.approval == EvolverApproval::Given,
        "approved": options.approval == EvolverApproval::Given,
        "writable_source": SkillSource::LocalAgentCreated,
        "policy": options.policy,
        "restore_drill": { "required": options.require_restore_drill, "state": gate },
        "model_executed": model_executed,
    }))
}

fn config(options: &EvolverPassOptions) -> Value {
    json!({
        "days": options.days,
        "max_skills": options.max_skills,
        "min_evidence": options.min_evidence,
        "variants": options.variants,
        "staged_verify": options.verification.staged || options.verification.pre_verify.is_some(),
        "pre_verify_command": options.verification.pre_verify,
        "verify_command": options.verification.verify,
    })
}
