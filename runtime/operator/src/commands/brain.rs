//! `herm brain`: look at brains, check them, see how they moved.

use herm::brain::{self, OnChanged, OnDrift, OnLoss};
use herm::bundle::{BrainOrigin, BundlePart};
use herm::{Brain, BrainId, Reader, Result};
use serde_json::{Value, json};

use super::{finish, history, restore, to_json};
use crate::cli;
use crate::config::Settings;
use crate::exit;
use crate::output::{Answer, columns, cut};

pub(super) fn run(settings: &Settings, command: &cli::Brain) -> Result<Answer> {
    match command {
        cli::Brain::List => list(settings),
        cli::Brain::Show { id } => show(settings, &id.parse()?),
        cli::Brain::Verify { id } => verify(settings, &id.parse()?),
        cli::Brain::History { id, limit, files } => history::history(settings, &id.parse()?, *limit, *files),
        cli::Brain::Diff { id, from, to, stat } => history::diff(settings, &id.parse()?, *from, *to, *stat),
        cli::Brain::Undo { id, change, force, dry_run } => {
            let on_changed = if *force { OnChanged::Overwrite } else { OnChanged::Refuse };
            match dry_run {
                true => history::plan_undo(settings, &id.parse()?, *change, on_changed),
                false => history::undo(settings, &id.parse()?, *change, on_changed),
            }
        }
        cli::Brain::Fork { id, new, version } => restore::fork(settings, &id.parse()?, &new.parse()?, *version),
        cli::Brain::Adopt { id } => adopt(settings, &id.parse()?),
        cli::Brain::Repair { id, accept_loss } => {
            let on_loss = if *accept_loss { OnLoss::Accept } else { OnLoss::Report };
            repair(settings, &id.parse()?, on_loss)
        }
    }
}

fn list(settings: &Settings) -> Result<Answer> {
    let mut rows = vec![["ID", "NAME", "VERSION", "HASH", "UPDATED"].map(str::to_owned).to_vec()];
    let mut brains = Vec::new();
    for id in brain::list(&settings.layout)? {
        // One damaged brain must not hide its neighbours.
        let looked = Reader::open(&settings.layout, &id).and_then(|reader| Ok((name(&reader)?, reader)));
        match looked {
            Ok((name, reader)) => {
                let lock = reader.lock();
                rows.push(vec![
                    id.to_string(),
                    name.clone().unwrap_or_else(|| "-".to_owned()),
                    lock.version.to_string(),
                    lock.bundle_hash.short(),
                    lock.last_updated.to_string(),
                ]);
                brains.push(json!({
                    "id": id,
                    "name": name,
                    "version": lock.version,
                    "bundleHash": lock.bundle_hash,
                    "lastUpdated": lock.last_updated,
                }));
            }
            Err(error) => {
                rows.push(vec![id.to_string(), "-".into(), "-".into(), "-".into(), error.message().to_owned()]);
                brains.push(json!({ "id": id, "error": { "kind": error.kind().name(), "message": error.message() } }));
            }
        }
    }
    let text = if brains.is_empty() {
        format!("no brains in {}\n", settings.layout.brains().display())
    } else {
        columns(&rows)
    };
    let answer = Answer::new(text, json!({ "brains": brains }));
    Ok(if rows.len() == 1 { answer.note("make one with `herm init 1`") } else { answer })
}

fn name(reader: &Reader) -> Result<Option<String>> {
    Ok(reader.manifest()?.map(|manifest| manifest.name))
}

fn show(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let (text, brain) = describe(settings, &reader)?;
    Ok(Answer::new(text, json!({ "brain": brain })))
}

/// What a brain is, for people and for programs.
pub(super) fn describe(settings: &Settings, reader: &Reader) -> Result<(String, Value)> {
    let (id, lock, skills) = (reader.id(), reader.lock(), reader.skills()?);
    let counts = reader.counts(&skills)?;
    let manifest = reader.manifest()?;
    let title = manifest.as_ref().map_or("", |manifest| manifest.name.as_str());
    let mut text = format!("brain {id}  {title}").trim_end().to_owned() + "\n";
    if let Some(summary) = manifest.as_ref().and_then(|manifest| manifest.summary.as_ref()) {
        text.push_str(&format!("{}\n", cut(summary, 100)));
    }
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let mut rows = vec![
        row("version", format!("{}, {}", lock.version, lock.last_updated)),
        row("hash", lock.bundle_hash.to_string()),
        row("parent", lock.parent.map_or("none".to_owned(), |parent| parent.to_string())),
        row("origin", origin(&lock.origin)),
        row("path", settings.layout.brain(id).display().to_string()),
        row("skills", format!("{} ({} archived)", counts.skills, counts.archived)),
        row("patterns", counts.patterns.to_string()),
        row(
            "memory",
            [plural(counts.messages, "message"), plural(counts.facts, "fact"), plural(counts.tasks, "task")].join(", "),
        ),
        row("history", plural(counts.steps, "step")),
    ];
    if let Some(tools) = manifest.as_ref().and_then(|manifest| manifest.tools.as_ref()) {
        rows.push(row("tools", tools.join(", ")));
    }
    text.push_str(&columns(&rows));
    text.push_str("\nparts\n");
    let parts: Vec<_> =
        BundlePart::ALL.iter().map(|part| row(part.name(), lock.parts.get(*part).to_string())).collect();
    text.push_str(&columns(&parts));
    if !skills.is_empty() {
        text.push_str("\nskills\n");
        let listed: Vec<_> = skills
            .entries()
            .take(12)
            .map(|entry| row(entry.place.slug.as_str(), cut(&entry.description, 70)))
            .collect();
        text.push_str(&columns(&listed));
        if skills.len() > 12 {
            text.push_str(&format!("  … and {} more: herm skills list {id}\n", skills.len() - 12));
        }
    }
    let brain = json!({
        "id": id,
        "name": manifest.as_ref().map(|manifest| &manifest.name),
        "summary": manifest.as_ref().and_then(|manifest| manifest.summary.as_ref()),
        "tools": manifest.as_ref().and_then(|manifest| manifest.tools.as_ref()),
        "path": settings.layout.brain(id).display().to_string(),
        "lock": to_json(lock)?,
        "counts": to_json(&counts)?,
        "problems": to_json(&skills.problems())?,
    });
    Ok((text, brain))
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn origin(origin: &BrainOrigin) -> String {
    match origin {
        BrainOrigin::Seed { seed } => format!("seed {seed}"),
        BrainOrigin::Manifest { expected: Some(_) } => "manifest, checked against its hash".to_owned(),
        BrainOrigin::Manifest { expected: None } => "manifest".to_owned(),
        BrainOrigin::Directory => "directory".to_owned(),
        BrainOrigin::Fork { brain, version, .. } => format!("fork of version {version} of brain {brain}"),
    }
}

fn verify(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let examined = brain::examine_with(
        &settings.layout,
        id,
        settings.lock_wait,
        &settings.open_options(OnDrift::Refuse).receipt_keys()?,
    )?;
    let (version, report) = (examined.lock.version, examined.report);
    let sound = report.is_sound();
    let mut lines = report.drift.lines();
    lines.extend(report.odd.iter().map(|odd| format!("not allowed: {} is {}", odd.path, odd.what)));
    lines.extend(report.database.iter().map(|problem| format!("damaged: memory.db: {problem}")));
    lines.extend(report.journal.wrong.iter().map(|problem| format!("not as signed: {problem}")));
    if !sound && lines.is_empty() {
        lines.push("changed: bundle.lock.json or rows of memory.db".to_owned());
    }
    let mut text = if sound {
        format!(
            "brain {id} is exactly what its lock says: version {version}, {} files, {} bytes\n{}\n",
            report.files, report.bytes, report.computed
        )
    } else {
        let mut text = format!(
            "brain {id} is not what its lock says\n  lock      {}\n  content   {}\n",
            report.expected, report.computed
        );
        for line in &lines {
            text.push_str(&format!("  {line}\n"));
        }
        text
    };
    if report.journal.unbound > 0 {
        text.push_str(&format!(
            "  not checked: the journal of {}, whose receipts do not bind it\n",
            plural(report.journal.unbound, "step")
        ));
    }
    if !report.journal.lost.is_empty() {
        text.push_str(&format!("  lost, as a repair says: {:?}\n", report.journal.lost));
    }
    for path in &report.stray {
        text.push_str(&format!("  not part of the brain, not hashed: {path}\n"));
    }
    let json = json!({
        "id": id,
        "sound": sound,
        "version": version,
        "expected": report.expected,
        "computed": report.computed,
        "drift": to_json(&report.drift)?,
        "notAllowed": report.odd.iter().map(|odd| json!({ "path": odd.path, "what": odd.what })).collect::<Vec<_>>(),
        "stray": report.stray,
        "database": report.database,
        "journal": to_json(&report.journal)?,
        "files": report.files,
        "bytes": report.bytes,
    });
    let answer = Answer::new(text, json);
    let is_whole = report.database.is_empty() && report.journal.wrong.is_empty();
    Ok(match (sound, report.odd.is_empty(), is_whole) {
        (true, ..) => answer,
        (false, _, false) => answer.code(exit::CORRUPT).note("restore the brain from a snapshot"),
        (false, false, _) => {
            answer.code(exit::CORRUPT).note("replace what is not allowed with regular files, or remove it")
        }
        (false, true, _) => answer
            .code(exit::CORRUPT)
            .note(format!("if the edits are yours, take them over with `herm brain adopt {id}`")),
    })
}

fn adopt(settings: &Settings, id: &BrainId) -> Result<Answer> {
    settings.while_leased(id, || adopt_now(settings, id))
}

fn adopt_now(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Report))?;
    let lock_file = brain.drift().is_some_and(|drift| drift.lock_file);
    let adopted = brain.adopt()?;
    let unfinished = finish(brain)?;
    let text = match &adopted {
        None if lock_file => format!("brain {id} has its lock file back; its content is what the lock says\n"),
        None => format!("brain {id} has nothing to adopt: it is what its lock says\n"),
        Some(settled) => {
            let mut text = format!("brain {id} is now version {}\n", settled.version);
            for path in &settled.files {
                text.push_str(&format!("  adopted: {path}\n"));
            }
            text
        }
    };
    Ok(Answer::new(text, json!({ "id": id, "settled": to_json(&adopted)? })).unfinished(unfinished))
}

fn repair(settings: &Settings, id: &BrainId, on_loss: OnLoss) -> Result<Answer> {
    let trusted = crate::operations::receipt_check::trusted(settings, None)?.0;
    let opening = settings.open_options(OnDrift::Report);
    let repaired = herm::receipt::repair(&settings.layout, id, &opening, &trusted, on_loss)?;
    let mut text = String::new();
    for lost in &repaired.lost {
        let what = [
            lost.kind.clone(),
            lost.receipt.map(|seq| format!("receipt {seq}")),
            lost.task.as_ref().map(|task| format!("task {task}")),
            lost.bundle_hash.map(|hash| format!("hash {hash}")),
        ];
        let what: Vec<String> = what.into_iter().flatten().collect();
        text.push_str(&format!("lost: the step to version {} ({})\n", lost.version, what.join(", ")));
    }
    if let Some(settled) = &repaired.settled {
        text.push_str(&format!("brain {id} is now version {}; its receipt names what is lost\n", settled.version));
        for path in &settled.files {
            text.push_str(&format!("  taken over as it stands: {path}\n"));
        }
    }
    if let Some(aside) = &repaired.aside {
        text.push_str(&format!("the damaged files are kept in {}\n", aside.display()));
    }
    let is_open = (!repaired.lost.is_empty() || repaired.surplus_bytes > 0) && repaired.settled.is_none();
    if repaired.lost.is_empty() && is_open {
        text.push_str(&format!(
            "receipts.ndjson ends in {} bytes that are no receipt of this brain\n",
            repaired.surplus_bytes
        ));
    }
    if text.is_empty() {
        text = format!("brain {id} has nothing to repair: nothing beside memory.db is ahead of it\n");
    }
    let json = json!({
        "id": id,
        "lost": to_json(&repaired.lost)?,
        "surplusBytes": repaired.surplus_bytes,
        "settled": to_json(&repaired.settled)?,
        "aside": repaired.aside,
    });
    let answer = Answer::new(text, json);
    Ok(match is_open {
        false => answer,
        true => answer.code(exit::CORRUPT).note(format!(
            "nothing was changed; a snapshot may have these steps (`herm snapshot list {id}`), or go on without them \
             with `herm brain repair {id} --accept-loss`"
        )),
    })
}
