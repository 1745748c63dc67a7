//! `herm doctor`: does this machine have what herm needs?

use std::path::Path;
use std::time::Duration;

use herm::fsio::{self, OsLock, Root, SyncTiming};
use herm::successor::{VerdictRecord, VerdictRuling, VerdictStore, base_from_reader};
use herm::{Clock as _, Reader, Result, SystemClock, Timestamp};
use herm_tools::Pattern;
use serde_json::json;

use crate::config::{Gates, Settings};
use crate::exit;
use crate::output::{Answer, columns};
use crate::seeds;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

struct Check {
    level: Level,
    what: &'static str,
    detail: String,
}

pub(super) fn run(settings: &Settings) -> Result<Answer> {
    let brains = settings.layout.brains();
    let mut checks = vec![
        check("brains directory", writable(brains)),
        check("locks", locks(settings)),
        check("free disk", disk(brains)),
        check("sqlite", sqlite()),
        check("clock", clock(SystemClock.now())),
        check("seeds", embedded_seeds()),
        check("gates", gates(settings)),
    ];
    if settings.semantic.is_configured() {
        checks.push(check("semantic", models(settings)));
    }
    let worst_is_error = checks.iter().any(|check| check.level == Level::Error);
    let rows: Vec<_> =
        checks.iter().map(|c| vec![c.level.name().to_owned(), c.what.to_owned(), c.detail.clone()]).collect();
    let json: Vec<_> =
        checks.iter().map(|c| json!({ "level": c.level.name(), "check": c.what, "detail": c.detail })).collect();
    let answer = Answer::new(columns(&rows), json!({ "ok": !worst_is_error, "checks": json }));
    Ok(if worst_is_error { answer.code(exit::NEGATIVE) } else { answer })
}

fn check(what: &'static str, found: Result<(Level, String)>) -> Check {
    match found {
        Ok((level, detail)) => Check { level, what, detail },
        Err(error) => {
            let hint = error.hint_text().map(|hint| format!(" ({hint})")).unwrap_or_default();
            Check { level: Level::Error, what, detail: format!("{}{hint}", error.message()) }
        }
    }
}

/// Writes, syncs, reads and removes a file where brains live.
fn writable(brains: &Path) -> Result<(Level, String)> {
    fsio::create_dirs(brains)?;
    let probe_dir = brains.join(format!(".doctor-{}", std::process::id()));
    fsio::create_dirs(&probe_dir)?;
    let tried = Root::open(&probe_dir).and_then(|root| {
        let path = "probe".parse()?;
        root.replace(&path, b"probe", SyncTiming::Now)?;
        root.read(&path, 16)
    });
    fsio::remove_tree(&probe_dir)?;
    match tried?.as_deref() {
        Some(b"probe") => Ok((Level::Ok, format!("{} is writable", brains.display()))),
        _ => Ok((Level::Error, format!("{} does not give back what was written", brains.display()))),
    }
}

/// A lock must keep a second holder out.
fn locks(settings: &Settings) -> Result<(Level, String)> {
    let dir = settings.layout.locks();
    fsio::create_dirs(&dir)?;
    let path = dir.join("doctor.lock");
    let _held = OsLock::acquire(&path, "the doctor's lock", settings.lock_wait)?;
    Ok(match OsLock::acquire(&path, "the doctor's lock", Duration::ZERO) {
        Err(error) if error.kind() == herm::ErrorKind::Conflict => (Level::Ok, "a held lock keeps others out".into()),
        Ok(_) | Err(_) => (Level::Error, format!("locks do not hold in {}", dir.display())),
    })
}

fn disk(brains: &Path) -> Result<(Level, String)> {
    let free = fsio::free_bytes(brains)? >> 20;
    let level = match free {
        0..64 => Level::Error,
        64..1_024 => Level::Warn,
        _ => Level::Ok,
    };
    Ok((level, format!("{free} MiB free")))
}

fn sqlite() -> Result<(Level, String)> {
    let version = rusqlite::version();
    // Before 3.51.3 a write-ahead log could be reset while it was in use.
    let level = if rusqlite::version_number() >= 3_051_003 { Level::Ok } else { Level::Error };
    let fts = herm::memory::Database::probe_full_text()?;
    Ok(match fts {
        true => (level, format!("SQLite {version} with FTS5")),
        false => (Level::Error, format!("SQLite {version} without FTS5")),
    })
}

fn clock(now: Timestamp) -> Result<(Level, String)> {
    // Steps are stamped with this clock; one before herm existed is certainly wrong.
    let level = if now >= Timestamp::parse("2026-01-01T00:00:00Z")? { Level::Ok } else { Level::Warn };
    Ok((level, now.to_string()))
}

/// What must happen before a patch is applied.
fn gates(settings: &Settings) -> Result<(Level, String)> {
    let gates = settings.gates()?;
    let mesh = gates.mesh.as_ref().map_or_else(
        || "no mesh".to_owned(),
        |mesh| format!("{} of {} nodes of the mesh", mesh.quorum(), mesh.members().len()),
    );
    if gates.gate.needs_steward() && gates.stewards.is_empty() {
        let gate = gates.gate.name();
        return Ok(match wants_a_steward(settings, &gates)? {
            Some(why) => (
                Level::Warn,
                format!(
                    "{gate}: it cannot open, for there are no stewards, and {why}; name their keys in `[stewards]`"
                ),
            ),
            None => {
                (Level::Ok, format!("{gate}: no stewards, {mesh}; patches can be applied once `[stewards]` names keys"))
            }
        });
    }
    Ok((Level::Ok, format!("{}: {} stewards, {mesh}", gates.gate.name(), gates.stewards.len())))
}

/// What cannot go on without a steward; nothing, where no patch is expected.
fn wants_a_steward(settings: &Settings, gates: &Gates) -> Result<Option<String>> {
    if settings.applying()?.is_automatic() {
        return Ok(Some("the server is to apply patches by itself".to_owned()));
    }
    if gates.mesh.is_some() {
        return Ok(Some("a mesh is to agree on patches".to_owned()));
    }
    let (records, _) = VerdictStore::new(&settings.layout).all()?;
    let waits = |record: &&VerdictRecord| {
        let base = &record.verdict.base;
        // What cannot be compared waits for nothing.
        let now =
            Reader::open(&settings.layout, &base.brain).and_then(|reader| base_from_reader(&reader, &record.patch));
        record.verdict.verdict == VerdictRuling::Approve && now.is_ok_and(|now| base.moved(&now).is_none())
    };
    let waiting: Vec<_> = records.iter().filter(waits).map(|record| record.name.as_str()).collect();
    Ok((!waiting.is_empty()).then(|| format!("a verdict waits for one: {}", waiting.join(", "))))
}

/// Opens the models of `[semantic]` and reads what they are, not their weights.
fn models(settings: &Settings) -> Result<(Level, String)> {
    let models = &settings.semantic;
    let (running, uses) = (models.running()?, models.uses()?);
    let (embedder, reranker) = (models.embedder()?, models.reranker()?);
    let mut said = vec![
        format!("embedder {}", embedder.as_ref().map_or("none", |model| model.name())),
        format!("reranker {}", reranker.as_ref().map_or("none", |model| model.name())),
        format!("{} characters of a text", running.text_limit()),
    ];
    said.extend(
        [(uses.recall, "recall"), (uses.skills, "skills")]
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| (*name).to_owned()),
    );
    let level = if running.remark().is_some() { Level::Warn } else { Level::Ok };
    said.extend(running.remark().map(str::to_owned));
    Ok((level, said.join(", ")))
}

fn embedded_seeds() -> Result<(Level, String)> {
    let mut patterns = 0;
    let mut agents = 0;
    for id in seeds::ids() {
        agents += 1;
        for (path, content) in seeds::files(id).unwrap_or_default() {
            let slug = path.strip_prefix("patterns/").and_then(|name| name.strip_suffix(".md"));
            if let Some(slug) = slug {
                Pattern::parse(slug.parse()?, content)?;
                patterns += 1;
            }
        }
    }
    Ok((Level::Ok, format!("{agents} agents, {patterns} patterns, every signal compiles")))
}
