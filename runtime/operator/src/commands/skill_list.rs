//! `herm skills list`: what an agent sees, its own skills and those of external directories.

use std::collections::BTreeMap;

use herm::skill::command::Commands;
use herm::skill::visible::{HiddenReason, VisibilityFilter, VisibleSkill, visible};
use herm::skill::{SkillProblem, SkillState, SkillUsage};
use herm::{BrainId, Reader, Result, Slug};
use serde_json::{Value, json};

use super::to_json;
use crate::config::Settings;
use crate::output::{Answer, columns, cut};

pub(super) fn run(settings: &Settings, id: &BrainId, all: bool) -> Result<Answer> {
    let said = settings.skills();
    let disabled = said.disabled()?;
    let mut shelf = said.skill_dirs()?;
    let reader = Reader::open(&settings.layout, id)?;
    let usage = reader.usage()?;
    let index = reader.skills()?;
    shelf.update()?;
    let filter = VisibilityFilter { platform: std::env::consts::OS, disabled: &disabled };
    let found = visible(index.entries(), shelf.entries(), &filter);

    let mut rows = vec![["SKILL", "STATE", "USES", "DESCRIPTION"].map(str::to_owned).to_vec()];
    rows.extend(found.skills.iter().map(|seen| row(seen, None, &usage)));
    if all {
        rows.extend(found.hidden.iter().map(|(seen, why)| row(seen, Some(why), &usage)));
    }
    let text = if rows.len() == 1 { "no skills\n".to_owned() } else { columns(&rows) };

    let skills: Vec<Value> = found.skills.iter().map(|seen| fields(seen, &usage)).collect();
    let mut hidden = Vec::new();
    for (seen, why) in &found.hidden {
        let mut skill = fields(seen, &usage);
        skill["why"] = to_json(why)?;
        hidden.push(skill);
    }
    // Several skills may be called the same; a command finds one of them under that name.
    let named = found.skills.iter().map(|seen| (&seen.entry.place.slug, seen.entry.name.as_str()));
    let commands = Commands::of(named);
    let problems: Vec<&SkillProblem> = index.problems().iter().chain(shelf.problems()).collect();
    let json = json!({
        "id": id,
        "skills": skills,
        "hidden": hidden,
        "problems": to_json(&problems)?,
        "collisions": to_json(&shelf.collisions())?,
        "sameNames": to_json(&commands.collisions())?,
    });
    let mut notes: Vec<String> =
        problems.iter().map(|problem| format!("not loaded: {}: {}", problem.path, problem.reason)).collect();
    notes.extend(shelf.collisions().iter().map(|collision| {
        let (winner, loser) = (collision.winner.display(), collision.loser.display());
        format!("not loaded: {} of {loser}: {winner} has a skill of this name", collision.slug)
    }));
    notes.extend(commands.collisions().iter().map(|collision| {
        let (key, winner, loser) = (&collision.key, &collision.winner, &collision.loser);
        format!("{loser} and {winner} have one name: /{key} is {winner}, the other is /{loser}")
    }));
    match found.hidden.len() {
        0 => {}
        _ if all => {}
        1 => notes.push("1 skill is hidden: see why with --all".to_owned()),
        more => notes.push(format!("{more} skills are hidden: see why with --all")),
    }
    let answer = Answer::new(text, json);
    Ok(if notes.is_empty() { answer } else { answer.note(notes.join("\n")) })
}

fn row(seen: &VisibleSkill<'_>, why: Option<&HiddenReason>, usage: &BTreeMap<Slug, SkillUsage>) -> Vec<String> {
    let slug = &seen.entry.place.slug;
    // Only the brain's own skills have a state; what stands in the index is not archived, even if its namesake is.
    let usage = usage.get(slug).filter(|_| seen.external.is_none());
    let mut state = match seen.external {
        Some(dir) => format!("external, {}", dir.display()),
        None if usage.is_some_and(|usage| usage.state == SkillState::Stale) => SkillState::Stale.name().to_owned(),
        None => SkillState::Active.name().to_owned(),
    };
    if usage.is_some_and(|usage| usage.pinned) {
        state.push_str(", pinned");
    }
    if let Some(why) = why {
        state.push_str(&format!(", hidden: {why}"));
    }
    let uses = match seen.external {
        Some(_) => "-".to_owned(),
        None => usage.map_or(0, |usage| usage.use_count).to_string(),
    };
    vec![slug.to_string(), state, uses, cut(&seen.entry.description, 70)]
}

fn fields(seen: &VisibleSkill<'_>, usage: &BTreeMap<Slug, SkillUsage>) -> Value {
    let entry = seen.entry;
    // A path of a directory outside begins with the directory's own name.
    let path = match seen.external {
        None => entry.place.main.to_string(),
        Some(_) => entry.place.main.as_str().split_once('/').map_or("", |(_, inside)| inside).to_owned(),
    };
    json!({
        "slug": entry.place.slug,
        "name": entry.name,
        "description": entry.description,
        "category": entry.category.as_deref(),
        "form": entry.place.form,
        "path": path,
        "platforms": entry.platforms,
        "requires": entry.requires,
        "external": seen.external.map(|dir| dir.display().to_string()),
        "usage": usage.get(&entry.place.slug).filter(|_| seen.external.is_none()),
    })
}
