//! `herm skills`: list, read and keep skills.

use herm::brain::OnDrift;
use herm::skill::{Document, SkillLocation, body, file_path, file_text};
use herm::{Brain, BrainId, Draft, Error, Reader, Result, Slug, StepKind};
use serde_json::json;

use super::{finish, to_json};
use crate::cli::{self, OneSkill};
use crate::config::Settings;
use crate::output::{Answer, columns, cut};

pub(super) fn run(settings: &Settings, command: &cli::Skills) -> Result<Answer> {
    match command {
        cli::Skills::List { id, archived: true, search, .. } => archived(settings, &id.parse()?, search.as_deref()),
        cli::Skills::List { id, all, .. } => super::skill_list::run(settings, &id.parse()?, *all),
        cli::Skills::View { id, slug, file } => view(settings, &id.parse()?, &slug.parse()?, file.as_deref()),
        cli::Skills::Reload { id } => reload(settings, &id.parse()?),
        cli::Skills::Validate { paths } => super::validate::run(paths),
        cli::Skills::Import(arguments) => super::import::run(settings, arguments),
        cli::Skills::Archive(one) => keep(settings, one, Keeping::Archive),
        cli::Skills::Restore(one) => keep(settings, one, Keeping::Restore),
        cli::Skills::Pin(one) => keep(settings, one, Keeping::Pin),
        cli::Skills::Unpin(one) => keep(settings, one, Keeping::Unpin),
    }
}

fn archived(settings: &Settings, id: &BrainId, query: Option<&str>) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let usage = reader.usage()?;
    let wanted: Vec<String> = query.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
    let mut rows = vec![["SKILL", "ARCHIVED", "DESCRIPTION"].map(str::to_owned).to_vec()];
    let mut json = Vec::new();
    for (slug, main) in reader.archived_skills()? {
        // One that cannot be read can still be restored: it is found by its name.
        let text = reader.text(&main).ok().flatten().unwrap_or_default();
        let searched = format!("{slug} {text}").to_lowercase();
        if !wanted.iter().all(|word| searched.contains(word.as_str())) {
            continue;
        }
        let described = Document::read(text.as_bytes()).ok().and_then(|document| document.description());
        let description = described.unwrap_or_default();
        let at = usage.get(&slug).and_then(|usage| usage.archived_at);
        let when = at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        rows.push(vec![slug.to_string(), when, cut(&description, 70)]);
        json.push(json!({ "slug": slug, "archivedAt": at, "description": description }));
    }
    let text = match (json.is_empty(), query) {
        (true, None) => "no archived skills\n".to_owned(),
        (true, Some(_)) => "no archived skill has these words\n".to_owned(),
        (false, _) => columns(&rows),
    };
    Ok(Answer::new(text, json!({ "id": id, "archived": json })))
}

fn view(settings: &Settings, id: &BrainId, slug: &Slug, file: Option<&str>) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let index = reader.skills()?;
    let Some(entry) = index.get(slug) else {
        return match view_external(settings, id, slug, file)? {
            Some(answer) => Ok(answer),
            None => Err(not_found(&reader, slug)?),
        };
    };
    let SkillLocation { main, .. } = &entry.place;
    if let Some(file) = file.filter(|file| *file != main.name()) {
        let path = file_path(&entry.place, file)?;
        let Some(bytes) = reader.file(&path)? else {
            return Err(Error::not_found(format!("skill {slug} has no file {file}"))
                .hint(format!("see its files with `herm --json skills view {id} {slug}`")));
        };
        let text = file_text(slug, file, bytes)?;
        let json = json!({ "id": id, "slug": slug, "path": path, "content": text });
        return Ok(Answer::new(text, json));
    }
    let text = reader.text(main)?.unwrap_or_default();
    let files = match entry.place.dir() {
        Some(dir) => reader.skill_files(&dir, main)?,
        None => Vec::new(),
    };
    let json = json!({
        "id": id,
        "slug": slug,
        "files": files,
        "name": entry.name,
        "description": entry.description,
        "category": entry.category.as_deref(),
        "form": entry.place.form,
        "path": main,
        "linkedFiles": body::linked_files(&text),
        "usage": reader.usage()?.get(slug),
        "content": text,
    });
    Ok(naming(Answer::new(text, json), &files))
}

/// Says which files a skill has beside its text.
fn naming(answer: Answer, files: &[String]) -> Answer {
    const NAMED: usize = 40;
    let shown = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len() {
        0 => answer,
        all if all > NAMED => answer.note(format!("files: {shown}, and {} more", all - NAMED)),
        _ => answer.note(format!("files: {shown}")),
    }
}

/// A skill outside the brain; nothing where there is none of that name.
fn view_external(settings: &Settings, id: &BrainId, slug: &Slug, file: Option<&str>) -> Result<Option<Answer>> {
    let mut shelf = settings.skills().skill_dirs()?;
    shelf.update()?;
    let Some(found) = shelf.get(slug) else { return Ok(None) };
    let text = shelf.read(slug, file)?;
    let files = shelf.files(slug)?;
    let json = json!({
        "files": files,
        "id": id,
        "slug": slug,
        "name": found.entry.name,
        "description": found.entry.description,
        "external": found.dir,
        "file": file,
        "content": text,
    });
    let answer = Answer::new(text, json);
    Ok(Some(if file.is_none() { naming(answer, &files) } else { answer }))
}

fn not_found(reader: &Reader, slug: &Slug) -> Result<Error> {
    let id = reader.id();
    let error = Error::not_found(format!("there is no skill {:?} in brain {id}", slug.as_str()));
    Ok(if reader.archived()?.contains(slug) {
        error.hint(format!("it is archived: bring it back with `herm skills restore {id} {slug}`"))
    } else {
        error.hint(format!("see the names with `herm skills list {id}`"))
    })
}

/// Takes in what was done to skills by hand.
fn reload(settings: &Settings, id: &BrainId) -> Result<Answer> {
    settings.while_leased(id, || {
        let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Report))?;
        let (delta, settled) = brain.adopt_skills()?;
        let unfinished = finish(brain)?;
        let mut text = String::new();
        for (what, slugs) in [("added", &delta.added), ("removed", &delta.removed), ("changed", &delta.changed)] {
            slugs.iter().for_each(|slug| text.push_str(&format!("{what}: {slug}\n")));
        }
        text.push_str(&format!(
            "{} added, {} removed, {} changed, {} unchanged, {} in all",
            delta.added.len(),
            delta.removed.len(),
            delta.changed.len(),
            delta.unchanged,
            delta.total
        ));
        text.push_str(&match &settled {
            Some(settled) => format!("; brain {id} is now version {}\n", settled.version),
            None => format!("; brain {id} stays as it is\n"),
        });
        let mut json = to_json(&delta)?;
        json["id"] = json!(id);
        json["settled"] = to_json(&settled)?;
        Ok(Answer::new(text, json).unfinished(unfinished))
    })
}

#[derive(Debug, Clone, Copy)]
enum Keeping {
    Archive,
    Restore,
    Pin,
    Unpin,
}

fn keep(settings: &Settings, one: &OneSkill, keeping: Keeping) -> Result<Answer> {
    let id: BrainId = one.id.parse()?;
    settings.while_leased(&id, || keep_now(settings, &id, one, keeping))
}

fn keep_now(settings: &Settings, id: &BrainId, one: &OneSkill, keeping: Keeping) -> Result<Answer> {
    let slug: Slug = one.slug.parse()?;
    let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
    let mut draft = Draft::new();
    let mut editor = brain.edit(&mut draft);
    let done = match keeping {
        Keeping::Archive => editor.archive_skill(&slug).map(|()| "archived"),
        Keeping::Restore => editor.restore_skill(&slug).map(|_| "restored"),
        Keeping::Pin => editor.pin_skill(&slug, true).map(|()| "pinned"),
        Keeping::Unpin => editor.pin_skill(&slug, false).map(|()| "unpinned"),
    }?;
    let settled = brain.settle(&draft, StepKind::Maintenance, &format!("{done} skill {slug}"))?;
    let unfinished = finish(brain)?;
    let text = if settled.moved {
        format!("{done} {slug}; brain {id} is now version {}\n", settled.version)
    } else {
        format!("{slug} was {done} already; brain {id} stays at version {}\n", settled.version)
    };
    let json = json!({ "id": id, "slug": slug, "done": done, "settled": to_json(&settled)? });
    Ok(Answer::new(text, json).unfinished(unfinished))
}
