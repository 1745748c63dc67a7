//! What there is to see, without the brain's lock.

use herm::evolver::report::{self, ChangeOutcome, EvidenceReport};
use herm::evolver::select::{by_words, ranked_for};
use herm::evolver::{Estimate, OutcomeSide, OutcomeVerdict, lessons};
use herm::memory::{ReviewStatus, window_start};
use herm::{BrainId, Digest, Result, Slug};
use serde_json::json;

use super::rankers::Rankers;
use super::{check_days, looking, with_id};
use crate::cli::{Analyze, Candidates};
use crate::commands::to_json;
use crate::config::Settings;
use crate::output::{Answer, columns, cut};

/// How many rows of a skill are searched for what recurs.
const LESSON_ROWS: usize = 200;
/// How many skills and tools are listed for people; JSON has all.
const LISTED: usize = 20;

pub(super) fn status(settings: &Settings, id: &BrainId) -> Result<Answer> {
    looking(settings, id, |ground| {
        let totals = ground.evidence.totals()?;
        let waiting = ground.rows.queue(Some(ReviewStatus::Pending), None)?.len();
        let changes = ground.rows.changes(None)?;
        let standing = changes.iter().filter(|change| change.rolled_back_at.is_none()).count();
        let passed = ground.rows.passed_at()?;
        let drill = ground.rows.drill()?;
        let span = match (totals.oldest, totals.newest) {
            (Some(oldest), Some(newest)) => format!(", from {oldest} to {newest}"),
            _ => String::new(),
        };
        let text = format!(
            "evidence    {} tool events, {} turns, {} sessions{span}\n\
             changes     {standing} applied, {} taken back\nwaiting     {waiting}\nlast pass   {}\nlast drill  {}\n",
            totals.tool_events,
            totals.turn_events,
            totals.session_events,
            changes.len() - standing,
            passed.map_or_else(|| "never".to_owned(), |at| at.to_string()),
            drill.as_ref().map_or_else(
                || "never".to_owned(),
                |drill| format!("{} of step {}", drill["status"].as_str().unwrap_or("?"), drill["manifest"])
            ),
        );
        let json = json!({
            "id": id, "evidence": to_json(&totals)?, "changesApplied": standing,
            "changesTakenBack": changes.len() - standing, "waiting": waiting, "passedAt": passed, "drill": drill,
        });
        let answer = Answer::new(text, json);
        Ok(match waiting {
            0 => answer,
            _ => answer.note(format!("see what waits with `herm evolve queue list {id}`")),
        })
    })
}

pub(super) fn report(settings: &Settings, id: &BrainId, days: u32) -> Result<Answer> {
    check_days(days)?;
    looking(settings, id, |ground| {
        let report = report::report(ground, days, None)?;
        Ok(Answer::new(report_text(&report), with_id(id, &report)?))
    })
}

pub(super) fn analyze(settings: &Settings, arguments: &Analyze) -> Result<Answer> {
    let (id, skill): (BrainId, Slug) = (arguments.id.parse()?, arguments.skill.parse()?);
    let days = check_days(arguments.days)?;
    looking(settings, &id, |ground| {
        let report = report::report(ground, days, Some(&skill))?;
        let rows = ground.evidence.of_skill(&skill, window_start(ground.now, days), LESSON_ROWS)?;
        let lessons = lessons(&rows);
        let digest: Option<Digest> = ground.text(&skill)?.map(|text| text.digest);
        if digest.is_none() && rows.is_empty() && report.outcomes.is_empty() {
            return Err(super::unknown_skill(&id, &skill));
        }
        let source = ground.source(&skill);
        let mut text = format!("skill   {skill} ({})\n", source.name());
        text.push_str(&match digest {
            Some(digest) => format!("digest  {digest}\n"),
            None => "digest  none: the brain has no such skill\n".to_owned(),
        });
        text.push_str(&report_text(&report));
        if !lessons.is_empty() {
            text.push_str("\nwhat recurs\n");
            for lesson in &lessons {
                text.push_str(&format!("  {}\n", lesson.sentence()));
            }
        }
        let mut json = with_id(&id, &report)?;
        json["skill_digest"] = json!(digest);
        json["source"] = json!(source);
        json["lessons"] = to_json(&lessons)?;
        Ok(Answer::new(text, json))
    })
}

fn report_text(report: &EvidenceReport) -> String {
    let summary = &report.summary;
    let mut text = format!(
        "{} days: {} tool events, {} of them failed, {} about skills; {} turns, {} sessions\n",
        report.days,
        summary.tool_events,
        summary.error_events,
        summary.skill_events,
        summary.turn_events,
        summary.session_events
    );
    let answers = &report.task_outcomes;
    let mean = match answers.scored {
        0 => String::new(),
        scored => format!(" (mean {:.2})", answers.score_sum / scored as f64),
    };
    text.push_str(&format!(
        "answers: {} good, {} bad, {} with a score{mean}, {} unknown\n",
        answers.good, answers.bad, answers.scored, answers.unknown
    ));
    if !summary.skills.is_empty() {
        let mut rows = vec![["SKILL", "EVENTS", "FAILED"].map(str::to_owned).to_vec()];
        for tally in summary.skills.iter().take(LISTED) {
            rows.push(vec![tally.skill.to_string(), tally.events.to_string(), tally.errors.to_string()]);
        }
        text.push_str(&format!("\n{}", columns(&rows)));
    }
    if !summary.tools.is_empty() {
        let mut rows = vec![["TOOL", "EVENTS", "FAILED"].map(str::to_owned).to_vec()];
        for tally in summary.tools.iter().take(LISTED) {
            rows.push(vec![tally.tool.clone(), tally.events.to_string(), tally.errors.to_string()]);
        }
        text.push_str(&format!("\n{}", columns(&rows)));
    }
    let failed = report.skill_evidence.iter().filter(|(_, row)| row.status.name() != "ok");
    let failed: Vec<String> = failed
        .map(|(id, row)| format!("  {id}  {}  {} {}: {}\n", row.at, row.tool, row.status.name(), cut(&row.summary, 90)))
        .collect();
    if !failed.is_empty() {
        text.push_str(&format!("\nlatest failures\n{}", failed.concat()));
    }
    if !report.outcomes.is_empty() {
        text.push_str("\nwhat came of the changes\n");
        text.extend(report.outcomes.iter().map(outcome_line));
    }
    text
}

fn outcome_line(change: &ChangeOutcome) -> String {
    let rate = |estimate: Option<Estimate>| match estimate {
        Some(rate) => format!("{:.0} % ({:.0}–{:.0})", rate.value * 100.0, rate.low * 100.0, rate.high * 100.0),
        None => "nothing".to_owned(),
    };
    let turns = |estimate: Option<Estimate>| match estimate {
        Some(turns) => format!("{:.1}", turns.value),
        None => "-".to_owned(),
    };
    let (before, after) = (&change.outcome.before, &change.outcome.after);
    let verdict = match change.outcome.verdict {
        OutcomeVerdict::TooFew => "too few sessions to say",
        OutcomeVerdict::NoDifference => "no difference",
        OutcomeVerdict::Better => "better",
        OutcomeVerdict::Worse => "worse",
    };
    let score = |side: &OutcomeSide| match side.mean_score {
        Some(mean) => format!("{:.2} of {}", mean.value, side.sample.rated),
        None => "unknown".to_owned(),
    };
    let answers = match before.sample.rated + after.sample.rated {
        0 => String::new(),
        _ => format!("; answers {} before, {} after", score(before), score(after)),
    };
    let then = match (change.rolled_back_at, change.proposed_rollback) {
        (Some(_), _) => ", taken back since",
        (None, true) => ": proposed for rollback",
        (None, false) => "",
    };
    format!(
        "  {} of {}: errors {} of {} calls before, {} of {} after; turns {} and {}{answers}; {verdict}{then}\n",
        match change.changes {
            1 => format!("step {}", change.manifest),
            many => format!("{many} changes from step {} to {}", change.first, change.manifest),
        },
        change.skill,
        rate(before.error_rate),
        before.sample.calls,
        rate(after.error_rate),
        after.sample.calls,
        turns(before.mean_turns),
        turns(after.mean_turns),
    )
}

pub(super) fn candidates(settings: &Settings, arguments: &Candidates) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    looking(settings, &id, |ground| {
        let mut texts = Vec::new();
        for slug in ground.skills() {
            // One that cannot be read fits nothing; `skills validate` tells why.
            if let Ok(Some(text)) = ground.text(slug) {
                texts.push((slug.clone(), text.text));
            }
        }
        let skills = || texts.iter().map(|(slug, text)| (slug, text.as_str()));
        let executes = arguments.execute_semantic || (arguments.rerank && !arguments.semantic);
        let wished = if executes || arguments.semantic { Rankers::of(settings)? } else { Rankers::by_words() };
        let ranking = wished.ranking(executes, arguments.rerank);
        let lexical = || by_words(&arguments.query, skills(), arguments.limit);
        let (mode, found, error) = match ranking.ranker {
            None if arguments.semantic => ("semantic-plan", lexical(), None),
            None => ("lexical", lexical(), None),
            Some(_) => match ranked_for(&arguments.query, skills(), ranking, arguments.limit) {
                Ok(found) => (if arguments.rerank { "ranked-reranked" } else { "ranked" }, found, None),
                Err(error) => ("ranking-unavailable", lexical(), Some(error.message().to_owned())),
            },
        };
        let mut rows = vec![["SKILL", "SCORE", "WHY"].map(str::to_owned).to_vec()];
        for one in &found {
            rows.push(vec![one.skill_name.to_string(), format!("{:.4}", one.score), one.reasons.join(", ")]);
        }
        let json = json!({
            "id": id, "mode": mode, "query": arguments.query, "rankers": wished.names(),
            "models": wished.models(), "executed": executes && error.is_none(), "candidates": to_json(&found)?, "error": error,
            "ranking_remark": wished.remark(),
        });
        let answer = Answer::new(columns(&rows), json);
        Ok(match (error, wished.remark()) {
            (Some(error), _) => answer.note(format!("{error}; ordered by shared words instead")),
            (None, Some(remark)) if executes => answer.note(remark),
            (None, remark) if arguments.semantic && !executes => {
                let then = remark.map(|remark| format!("; {remark}")).unwrap_or_default();
                answer.note(format!("would rank with {}; --execute-semantic does{then}", wished.names().join(" and ")))
            }
            _ => answer,
        })
    })
}
