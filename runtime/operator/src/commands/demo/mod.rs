//! `herm demo learn`: does an agent solve more once it has learned? Measured on tasks whose answer needs a procedure that
//! its role does not give, with three arms as in the literature: no skill, a skill that a person wrote, and one that the
//! agent wrote itself.

mod house;
mod table;

use std::path::Path;
use std::sync::Arc;

use herm::backend::{Backend, Router};
use herm::tool::Toolbox;
use herm::{
    Brain, BrainId, BrainOptions, BrainSource, Error, Harness, Layout, Reader, Result, Seed, Task, TaskStatus, fsio,
};
use serde_json::json;

use self::house::{FindThing, ROLE, Thing, skill, things};
use self::table::{Arm, Measured};
use crate::backends;
use crate::cli::Demo;
use crate::commands::in_runtime;
use crate::config::Settings;
use crate::output::Answer;
use crate::spinner::Spinner;

/// The fewest tasks a family may have.
const LEAST_TASKS: usize = 4;

pub(super) fn run(settings: &Settings, command: &Demo) -> Result<Answer> {
    let Demo::Learn(arguments) = command;
    let things = things(arguments.tasks)?;
    if things.len() < LEAST_TASKS {
        return Err(Error::invalid(format!("a family has at least {LEAST_TASKS} tasks")));
    }
    let id: BrainId = "1".parse()?;
    let speaker = backends::backend_named(settings, &id, &arguments.backend, arguments.model.as_deref())?;
    let place = std::env::temp_dir().join(format!("herm-demo-{}", std::process::id()));
    let measured = in_runtime(measure(&place, &id, &speaker, &things));
    fsio::remove_tree(&place)?;
    let (arms, written) = measured?;
    let model = arms.iter().find_map(|arm| arm.model.clone()).unwrap_or_else(|| arguments.backend.clone());
    let text = table::text(&model, things.len(), &arms, &written);
    let json = json!({ "model": model, "tasks": things.len(), "arms": arms, "written": written });
    Ok(Answer::new(text, json))
}

/// The arms, and the skills that the agent wrote.
async fn measure(
    place: &Path,
    id: &BrainId,
    speaker: &Arc<dyn Backend>,
    things: &[Thing],
) -> Result<(Vec<Arm>, Vec<String>)> {
    let mut spinner = Spinner::start();
    let (cold, warm) = things.split_at(things.len() / 2);
    let mut arms = Vec::new();
    let mut run = async |name: &str, layout: &Layout, learning, tasks: &[Thing]| -> Result<()> {
        let harness = harness(layout, speaker, things, learning)?;
        let mut arm = Arm::new(name);
        for (at, thing) in tasks.iter().enumerate() {
            if let Some(spinner) = &mut spinner {
                spinner.say(&format!("{name}: task {} of {}", at + 1, tasks.len()));
            }
            let outcome = harness.run(id, Task::new(thing.question())).await?;
            let answer = outcome.answer.as_deref().unwrap_or_default();
            let solved = outcome.status == TaskStatus::Converged && thing.is_in(answer);
            arm.model = outcome.model.clone().or(arm.model);
            arm.measured.push(Measured {
                solved,
                turns: outcome.turns,
                calls: outcome.calls.len(),
                skills: outcome.skills_changed.len(),
            });
        }
        harness.shutdown().await?;
        arms.push(arm);
        Ok(())
    };
    let bare = made(place, "none", id, None)?;
    run("no skill", &bare, false, warm).await?;
    let curated = made(place, "curated", id, Some(&skill()))?;
    run("curated skill", &curated, false, warm).await?;
    let learner = made(place, "learner", id, None)?;
    run("first half, learning", &learner, true, cold).await?;
    run("self-written skill", &learner, false, warm).await?;
    let index = Reader::open(&learner, id)?.skills()?;
    let read = |entry: &herm::skill::SkillEntry| {
        fsio::read_regular(&learner.brain(id).join(entry.place.main.as_str()), 1 << 20)
    };
    let written = index.entries().map(read).collect::<Result<Vec<_>>>()?;
    Ok((arms, written.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()))
}

fn made(place: &Path, name: &str, id: &BrainId, skill: Option<&str>) -> Result<Layout> {
    let layout = Layout::new(place.join(name));
    let mut files: Vec<(&str, &[u8])> = vec![("system.md", ROLE.as_bytes())];
    if let Some(skill) = skill {
        files.push(("skills/find-a-thing.md", skill.as_bytes()));
    }
    let (brain, _) =
        Brain::hydrate(&layout, id, &BrainSource::Seed(Seed { id, files: &files }), &BrainOptions::default())?;
    brain.close()?;
    Ok(layout)
}

fn harness(layout: &Layout, speaker: &Arc<dyn Backend>, things: &[Thing], learning: bool) -> Result<Harness> {
    // The prompt has an index of skills where there is a tool to read one.
    let mut toolbox: Toolbox = herm_tools::standard()?.only(&["skill_view".to_owned()]);
    toolbox.add(Arc::new(FindThing::new(things)))?;
    Harness::builder()
        .brains(layout.brains())
        .router(Router::single(Arc::clone(speaker)))
        .toolbox(toolbox)
        .learning(learning)
        .sharing(true)
        .curating(None)
        .evolving(None)
        .build()
}
