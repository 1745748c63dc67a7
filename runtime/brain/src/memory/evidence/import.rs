//! Taking in sessions of elsewhere. A call is known by its signature: the task, the tool, the digest of
//! its arguments, and how many equal ones came before it in the session. What is known is not taken in
//! twice, whether it was recorded here as it happened or taken in before.

use std::collections::HashMap;

use rusqlite::Connection;

use super::preview::PREVIEW_CHARS;
use super::{
    Evidence, EvidenceStatus, SessionEvidence, SessionOrigin, TurnEvidence, UNKNOWN_TOOL, next_number, text, write_row,
};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::{Digest, Slug};
use crate::memory::db::sql;
use crate::text::head;

/// The most characters of a name: of a tool, a model, a platform.
const NAME_CHARS: usize = 64;
/// The most characters of a task's id.
const TASK_CHARS: usize = 256;

/// A session that ran elsewhere, as its record tells it. Texts are previews already: redacted, on one line,
/// and of bounded length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSession {
    /// Its id; all its rows carry it as their task.
    pub task: String,
    /// When it began; where its record does not say that, when the record was last changed.
    pub at: Timestamp,
    /// The model that spoke.
    pub model: String,
    /// The platform it ran on, as its record names it; empty where the record does not.
    pub platform: String,
    /// Its tool calls, in order.
    pub tools: Vec<Evidence>,
    /// What was asked and answered, in order.
    pub turns: Vec<ImportedTurn>,
    /// The skills that were loaded in it.
    pub skills: Vec<Slug>,
    /// Whether it came to its end.
    pub completed: bool,
}

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTurn {
    /// Which question of the session, from 1.
    pub number: u32,
    /// The beginning of the question.
    pub asked: String,
    /// The beginning of the answer.
    pub answered: String,
    /// When it was asked; when the session began, where only that is known.
    pub at: Timestamp,
}

/// What was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct EvidenceImportCounts {
    /// Sessions that were offered.
    pub sessions: u64,
    /// Tool calls that were new.
    pub tool_events: u64,
    /// Questions and answers that were new.
    pub turn_events: u64,
    /// Sessions that were new.
    pub session_events: u64,
    /// Tool calls that were known already.
    pub duplicates: u64,
}

/// Takes in what is new of a session, inside a transaction of the caller's. Where everything is known
/// already, nothing is written.
pub(crate) fn import_session(
    connection: &Connection,
    session: &ImportedSession,
    taken: &mut EvidenceImportCounts,
) -> Result<()> {
    let task = head(&session.task, TASK_CHARS);
    let known = find_session(connection, &task)?;
    let mut there = Known::of(connection, &task, known.as_ref())?;
    let mut next = next_number(connection)?;
    let (mut calls, mut errors) = (0_u32, 0_u32);
    for tool in &session.tools {
        let name = head(&tool.tool, NAME_CHARS);
        if there.has(&name, tool) {
            taken.duplicates += 1;
            continue;
        }
        let row = match name == tool.tool && tool.summary.len() <= PREVIEW_CHARS {
            true => None,
            false => Some(Evidence { tool: name, summary: head(&tool.summary, PREVIEW_CHARS), ..tool.clone() }),
        };
        write_row(connection, next, 0, &task, row.as_ref().unwrap_or(tool))?;
        next += 1;
        calls += 1;
        errors += u32::from(tool.status != EvidenceStatus::Ok);
    }
    let turns = take_in_turns(connection, session, &task)?;
    taken.sessions += 1;
    taken.tool_events += u64::from(calls);
    taken.turn_events += turns;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let all_turns = count(session.turns.len());
    let Some(known) = known else {
        taken.session_events += 1;
        let seen = SessionEvidence {
            task,
            at: session.at,
            completed: session.completed,
            interrupted: false,
            model: head(&session.model, NAME_CHARS),
            platform: head(&session.platform, NAME_CHARS),
            turns: all_turns,
            calls: count(session.tools.len()),
            errors: count(session.tools.iter().filter(|tool| tool.status != EvidenceStatus::Ok).count()),
            skills: session.skills.clone(),
            origin: SessionOrigin::Backfill,
        };
        return seen.write(connection, 0);
    };
    let mut seen = known.0.clone();
    seen.calls = seen.calls.saturating_add(calls);
    seen.errors = seen.errors.saturating_add(errors);
    if seen.origin == SessionOrigin::Backfill {
        // What ran here is known better here; what ran elsewhere may have gone on there.
        seen.completed |= session.completed;
        seen.turns = seen.turns.max(all_turns);
        seen.model = head(&session.model, NAME_CHARS);
        for skill in &session.skills {
            if !seen.skills.contains(skill) {
                seen.skills.push(skill.clone());
            }
        }
    }
    if seen != known.0 { seen.write(connection, known.1) } else { Ok(()) }
}

fn take_in_turns(connection: &Connection, session: &ImportedSession, task: &str) -> Result<u64> {
    let mut added = 0;
    for turn in &session.turns {
        let seen = TurnEvidence {
            task: task.to_owned(),
            number: turn.number,
            at: turn.at,
            model: head(&session.model, NAME_CHARS),
            platform: head(&session.platform, NAME_CHARS),
            asked: head(&turn.asked, PREVIEW_CHARS),
            answered: head(&turn.answered, PREVIEW_CHARS),
        };
        added += u64::from(seen.write(connection, 0)?);
    }
    Ok(added)
}

/// The session of a task, with its step.
fn find_session(connection: &Connection, task: &str) -> Result<Option<(SessionEvidence, i64)>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM evidence_sessions WHERE task = ?1", SessionEvidence::COLUMNS))
        .map_err(failed)?;
    let mut rows = statement.query([task]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) => Ok(Some((SessionEvidence::read(row)?, row.get(11).map_err(failed)?))),
        None => Ok(None),
    }
}

/// The calls that are known of a task, each to be met once.
#[derive(Debug, Default)]
struct Known {
    calls: HashMap<(String, Digest), usize>,
    /// Calls that were refused here before their arguments were looked at, by tool.
    refused: HashMap<String, usize>,
    /// Calls that were counted, and whose rows were let go since.
    gone: usize,
}

impl Known {
    fn of(connection: &Connection, task: &str, session: Option<&(SessionEvidence, i64)>) -> Result<Self> {
        let failed = |source| sql("read memory.db", source);
        let nothing = Evidence::digest_of_args(None);
        let mut known = Self::default();
        let mut statement =
            connection.prepare_cached("SELECT tool, args FROM evidence WHERE task = ?1").map_err(failed)?;
        let mut rows = statement.query([task]).map_err(failed)?;
        let mut kept = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            let (tool, args) = (text(row, 0)?.to_owned(), Digest::from(row.get::<_, [u8; 32]>(1).map_err(failed)?));
            kept += 1;
            match args == nothing {
                true => *known.refused.entry(tool).or_default() += 1,
                false => *known.calls.entry((tool, args)).or_default() += 1,
            }
        }
        known.gone = session.map_or(0, |(session, _)| (session.calls as usize).saturating_sub(kept));
        Ok(known)
    }

    /// Whether a call is among them. The oldest rows are let go first, and calls come in their order.
    fn has(&mut self, tool: &str, call: &Evidence) -> bool {
        let of_refused = || call.status != EvidenceStatus::Ok || call.args == Evidence::digest_of_args(None);
        take(self.calls.get_mut(&(tool.to_owned(), call.args)))
            || (of_refused() && take(self.refused.get_mut(tool)))
            || (of_refused() && take(self.refused.get_mut(UNKNOWN_TOOL)))
            || take(Some(&mut self.gone))
    }
}

fn take(left: Option<&mut usize>) -> bool {
    match left {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}
