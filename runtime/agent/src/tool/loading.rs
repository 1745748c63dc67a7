//! Loading a skill for use. Counted here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::embeddings::Embeddings;
use super::external_skills::{self, ExternalListing, ExternalSkills};
use super::gate::{RecordedSkillChanges, SkillRules};
use super::working_copy::{WorkingCopy, no_such_skill};
use crate::error::{Error, Result};
use crate::ids::{Digest, Slug, TaskId};
use crate::memory::vectors::NearSkills;
use crate::memory::{QueryVector, fuse};
use crate::skill::command::{self, CommandMatch, Invocation};
use crate::skill::preprocess::{self, InlineShell};
use crate::skill::setup::{self, MissingSetup, Needs, Setting};
use crate::skill::template::Variables;
use crate::skill::{CreatedBy, Delta, Document, SkillLocation, SkillUsage, file_path, file_text, shell};
use crate::tuning::{Selector, Tuning};

/// What skills find around a brain: the same for every task of a harness.
#[derive(Debug, Default)]
pub struct SkillEnv {
    /// Whether template variables stay as they are.
    pub raw_templates: bool,
    /// Whether inline shell runs, in skills that people wrote and no agent has changed.
    pub inline_shell: bool,
    /// Where its sandboxes are; without them it runs as this process does.
    pub shell_sandbox_root: Option<PathBuf>,
    /// How long each command of it may take; [`shell::TIMEOUT`] unless said.
    pub shell_timeout: Option<Duration>,
    /// The environment variables that have a value; names alone.
    pub environment: BTreeSet<String>,
    /// The configuration that skills ask for, by key.
    pub settings: BTreeMap<String, String>,
    /// What the operator tells a model that is asked to follow a skill.
    pub runtime_note: Option<String>,
    /// Skills outside the brains.
    pub outside: Option<ExternalSkills>,
    /// Skills that no task sees.
    pub disabled: BTreeSet<Slug>,
}

/// The surroundings of one session.
#[derive(Debug, Clone, Default)]
pub struct SessionEnv {
    /// What the harness gives.
    pub surroundings: Arc<SkillEnv>,
    /// The task that the session runs; none where a tool is called outside a task.
    pub task: Option<TaskId>,
    /// When it has to be done.
    pub until: Option<Instant>,
    /// Where the brain really is, if the one in the working copy is itself a copy: a replay.
    pub original: Option<PathBuf>,
    /// Which components and constants the brain runs with.
    pub tuning: Arc<Tuning>,
    /// Which rules hold for what it writes into skills.
    pub rules: SkillRules,
    /// What the record says that the task did to skills, where a task that did not fail is replayed.
    pub moved: Option<Arc<RecordedSkillChanges>>,
}

impl SessionEnv {
    /// Whether loading a skill may run a process, or read directories outside the brain.
    pub(super) fn is_slow(&self) -> bool {
        self.surroundings.inline_shell || self.surroundings.outside.is_some()
    }

    /// What the variables of a skill in `dir` stand for.
    fn variables<'a>(&'a self, dir: &'a str) -> Variables<'a> {
        match self.surroundings.raw_templates {
            true => Variables { skill_dir: None, session_id: None },
            false => Variables { skill_dir: Some(dir), session_id: self.task.as_ref().map(TaskId::as_str) },
        }
    }
}

/// Runs the snippets of one skill, each within a time of its own and all within that of the task.
struct Timed<'a> {
    dir: &'a str,
    walls: Option<&'a Path>,
    variables: Variables<'a>,
    timeout: Duration,
    /// When the task has to be done.
    until: Option<Instant>,
}

impl shell::Runner for Timed<'_> {
    fn run(&self, command: &str) -> std::result::Result<String, String> {
        let of_task = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = of_task.map_or(self.timeout, |of_task| of_task.min(self.timeout));
        if left.is_zero() {
            return Err("the task has no time left".to_owned());
        }
        match self.walls {
            #[cfg(feature = "sandbox")]
            Some(root) => shell::SandboxedRunner::new(root, self.dir, left).variables(&self.variables).run(command),
            #[cfg(not(feature = "sandbox"))]
            Some(_) => Err("this build has no sandbox".to_owned()),
            None => shell::ProcessRunner::new(self.dir).timeout(left).variables(&self.variables).run(command),
        }
    }
}

impl WorkingCopy {
    /// Loads a skill for use: its text, ready for the model, or one of its files.
    pub fn load_skill(&mut self, slug: &Slug, file: Option<&str>) -> Result<String> {
        let (head, body) = self.load_parts(slug, file)?;
        Ok(format!("{head}{body}"))
    }

    /// The same in two parts: the front matter as it is, and what comes after it.
    fn load_parts(&mut self, slug: &Slug, file: Option<&str>) -> Result<(String, String)> {
        if self.around.surroundings.disabled.contains(slug) {
            return Err(Error::refused(format!("skill {slug} is turned off by the operator")).hint("use another one"));
        }
        let Some(place) = self.skill_place(slug)? else { return self.load_from_outside(slug, file) };
        let path = match file {
            None => place.main.clone(),
            Some(file) => file_path(&place, file)?,
        };
        let bytes = self.read(&path)?.ok_or_else(|| {
            Error::not_found(format!("skill {slug} has no file {:?}", file.unwrap_or_default()))
                .hint("view the skill without a file first; it names the files it has")
        })?;
        let text = file_text(slug, file.unwrap_or_else(|| path.name()), bytes)?;
        if file.is_some() {
            return Ok((String::new(), text));
        }
        if self.note_loaded(slug.clone(), Digest::of(text.as_bytes())) {
            self.edit()?.viewed(slug)?;
        }
        self.made_ready(&place, &text)
    }

    /// Whether a skill stands outside the brain.
    pub fn is_outside(&self, slug: &Slug) -> bool {
        self.around.surroundings.outside.as_ref().is_some_and(|outside| outside.held().shelf.get(slug).is_some())
    }

    /// Loads a skill from outside the brain. It has no telemetry, and its shell never runs.
    fn load_from_outside(&mut self, slug: &Slug, file: Option<&str>) -> Result<(String, String)> {
        let around = self.around.clone();
        let Some(outside) = &around.surroundings.outside else { return Err(no_such_skill(slug)) };
        let held = outside.held();
        let Some(dir) = held.dir_of(slug) else { return Err(no_such_skill(slug)) };
        let text = held.shelf.read(slug, file)?;
        if file.is_some() {
            return Ok((String::new(), text));
        }
        self.note_loaded(slug.clone(), Digest::of(text.as_bytes()));
        let dir = dir.to_string_lossy();
        let (head, body) = split(&text);
        Ok((head.to_owned(), preprocess::prepare(body, &around.variables(&dir), InlineShell::Off).into_owned()))
    }

    /// A skill's text with its variables filled in, and its shell run where that is allowed.
    fn made_ready(&mut self, place: &SkillLocation, text: &str) -> Result<(String, String)> {
        let around = self.around.clone();
        let dir = self.skill_dir(place)?;
        let variables = around.variables(&dir);
        let (head, body) = split(text);
        let plain = || preprocess::prepare(body, &variables, InlineShell::Off).into_owned();
        if !around.surroundings.inline_shell || shell::find(body).is_empty() {
            return Ok((head.to_owned(), plain()));
        }
        let usage = self.edit()?.recorded_usage(&place.slug)?;
        let body = match shell::may_run(last_hand(usage.as_ref()), true) {
            Ok(()) => {
                let walls = around.surroundings.shell_sandbox_root.as_deref();
                let timeout = around.surroundings.shell_timeout.unwrap_or(shell::TIMEOUT);
                let runner = Timed { dir: &dir, walls, variables, timeout, until: around.until };
                preprocess::prepare(body, &variables, InlineShell::On(&runner)).into_owned()
            }
            Err(refusal) => format!("{}\n[inline shell was not run: {refusal}]\n", plain()),
        };
        Ok((head.to_owned(), body))
    }

    /// Where a skill's files are, for the programs and the model that use them.
    fn skill_dir(&mut self, place: &SkillLocation) -> Result<String> {
        let inside = match place.dir() {
            Some(dir) => dir.to_string(),
            None => place.main.parent().map(|dir| dir.to_string()).unwrap_or_default(),
        };
        let brain = self.around.original.clone();
        let dir = brain.map_or_else(|| self.brain().map(|brain| brain.path().to_owned()), Ok)?.join(inside);
        let dir = std::path::absolute(&dir).map_err(|source| Error::io("find", &dir, source))?;
        Ok(dir.to_string_lossy().into_owned())
    }

    /// Looks at the files of the skills again, in the brain and outside, and says what changed.
    pub fn reload(&mut self) -> Result<Delta> {
        let mut delta = self.brain()?.reload()?;
        if let Some(outside) = &self.around.surroundings.outside {
            delta.extend(outside.update()?);
            self.heard = Some(ExternalListing { known: outside.known(), at: Instant::now(), took: Duration::ZERO });
        }
        Ok(delta)
    }

    /// What changed outside the brain since the session last heard of it, in a line. Looking never takes
    /// more than a part of the session: directories that take long are looked at less often.
    pub fn external_skill_changes(&mut self) -> Result<Option<String>> {
        const PAUSE: u32 = 20;
        let around = self.around.clone();
        let (Some(outside), Some(heard)) = (&around.surroundings.outside, &self.heard) else { return Ok(None) };
        let started = Instant::now();
        if started.saturating_duration_since(heard.at) < heard.took.saturating_mul(PAUSE) {
            return Ok(None);
        }
        outside.update()?;
        let known = outside.known();
        let said = external_skills::news(&heard.known, &known);
        self.heard = Some(ExternalListing { known, at: Instant::now(), took: started.elapsed() });
        Ok(said)
    }

    /// The skills that fit `text` best, best first: the brain's own, then those outside.
    pub fn best_skills(&mut self, text: &str, most: usize) -> Result<Vec<Slug>> {
        let mut best = match self.around.tuning.selector.unwrap_or_default() {
            Selector::BestMatch => Vec::new(),
            // Half of the places for what proved useful, the rest for what is near.
            Selector::MostUsed => self.most_used(most / 2)?,
        };
        best.extend(self.brain()?.best_skills(text, most - best.len().min(most))?);
        if let Some(outside) = &self.around.surroundings.outside {
            best.extend(outside.best(text, most));
        }
        Ok(best)
    }

    /// The same by words and by meaning: what was used most keeps its half where the tuning says so, and the rest is one
    /// order made of both. Skills without a vector are noted, and found by their words until they have one.
    pub(crate) fn best_skills_near(
        &mut self,
        text: &str,
        most: usize,
        sought: &QueryVector,
        meaning: &Embeddings,
    ) -> Result<Vec<Slug>> {
        const LACKING: usize = 256;
        let cards = self.skills()?;
        let pairs = cards.iter().map(|card| (card.slug.as_str(), &*card.description));
        let brain = self.brain()?;
        let NearSkills { order: near, lacking } = brain.nearest_skills(sought, pairs, LACKING)?;
        meaning.want(&brain.id().clone(), lacking);
        let mut by_words = self.best_skills(text, most)?;
        let used = match self.around.tuning.selector.unwrap_or_default() {
            Selector::BestMatch => 0,
            Selector::MostUsed => self.most_used(most / 2)?.len(),
        };
        let rest = by_words.split_off(used.min(by_words.len()));
        let vote = |slugs: Vec<Slug>| slugs.into_iter().map(|slug| (slug, 1.0)).collect::<Vec<_>>();
        let near =
            near.into_iter().take(most).filter_map(|(at, _)| cards.get(at)).map(|card| card.slug.clone()).collect();
        let fused = fuse(&[vote(rest), vote(near)]).into_iter().map(|(slug, _)| slug);
        let mut best = by_words;
        best.extend(fused.take(most.saturating_sub(used)));
        Ok(best)
    }

    /// The skills that were used most, the later used first among equals.
    fn most_used(&mut self, most: usize) -> Result<Vec<Slug>> {
        let mut used: Vec<(Slug, SkillUsage)> =
            self.brain()?.usage()?.into_iter().filter(|(_, usage)| usage.use_count > 0).collect();
        used.sort_by(|a, b| {
            (b.1.use_count, b.1.last_used_at).cmp(&(a.1.use_count, a.1.last_used_at)).then_with(|| a.0.cmp(&b.0))
        });
        Ok(used.into_iter().take(most).map(|(slug, _)| slug).collect())
    }

    /// What a skill still needs before it works.
    pub fn setup_needed(&mut self, slug: &Slug) -> Result<Vec<MissingSetup>> {
        let needs = self.declared_needs(slug)?;
        let around = &self.around.surroundings;
        let env = |name: &str| around.environment.contains(name);
        let config = |name: &str| around.settings.contains_key(name);
        Ok(setup::missing(&needs, &env, &config))
    }

    /// The configuration that a skill asks for, as it is set.
    pub fn skill_settings(&mut self, slug: &Slug) -> Result<Vec<Setting>> {
        let needs = self.declared_needs(slug)?;
        let around = &self.around.surroundings;
        Ok(setup::settings(&needs, &|name| around.settings.get(name).cloned()))
    }

    fn declared_needs(&mut self, slug: &Slug) -> Result<Needs> {
        let bytes = match self.skill_place(slug)? {
            Some(place) => self.read(&place.main)?.unwrap_or_default(),
            None => match &self.around.surroundings.outside {
                Some(outside) => outside.held().shelf.read(slug, None)?.into_bytes(),
                None => return Err(no_such_skill(slug)),
            },
        };
        Ok(Document::read(&bytes).map(|document| setup::needs(&document)).unwrap_or_default())
    }

    /// What the model is told where a task begins with a command (`/skill words`); `None` where it
    /// does not. The skill counts as loaded.
    pub fn invoke(&mut self, input: &str) -> Result<Option<String>> {
        let Some(typed) = command::parse(input) else { return Ok(None) };
        let Some(slug) = self.resolve(typed.word)? else { return Ok(None) };
        let (_, body) = self.load_parts(&slug, None)?;
        let directory = match self.skill_place(&slug)? {
            Some(place) => self.skill_dir(&place)?,
            None => {
                let outside = self.around.surroundings.outside.as_ref();
                let dir = outside.and_then(|outside| outside.held().dir_of(&slug));
                dir.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default()
            }
        };
        let message = command::invocation(&Invocation {
            name: slug.as_str(),
            directory: &directory,
            body: &body,
            files: &self.skill_files(&slug)?,
            words: typed.rest,
            setup: &self.setup_needed(&slug)?,
            settings: &self.skill_settings(&slug)?,
            note: &self.runtime_note(),
        });
        Ok(Some(message))
    }

    /// What a model that is asked to follow a skill should know of this run.
    fn runtime_note(&self) -> String {
        let facts = format!("The task began at {} on {}.", self.at(), std::env::consts::OS);
        match &self.around.surroundings.runtime_note {
            Some(note) => format!("{facts} {note}"),
            None => facts,
        }
    }

    /// The skill that a typed command stands for: the brain's own first. In a replay, a skill that is not here any more
    /// stands for nothing, and the input is a text.
    fn resolve(&mut self, word: &str) -> Result<Option<Slug>> {
        let around = self.around.clone();
        let is_on = |slug: &Slug| !around.surroundings.disabled.contains(slug);
        let mut near = match self.brain()?.command(word)? {
            CommandMatch::Skill(slug) if is_on(slug) => return Ok(Some(slug.clone())),
            CommandMatch::Skill(_) => return Err(turned_off(word)),
            CommandMatch::Unknown { near } => near,
        };
        match around.surroundings.outside.as_ref().map(|outside| outside.command(word)) {
            Some(Ok(slug)) if is_on(&slug) => return Ok(Some(slug)),
            Some(Err(more)) => near.extend(more),
            Some(Ok(_)) => return Err(turned_off(word)),
            None => {}
        }
        near.dedup();
        match around.original.is_some() {
            true => Ok(None),
            false => Err(unknown_command(word, &near)),
        }
    }
}

/// Front matter and what comes after it.
fn split(text: &str) -> (&str, &str) {
    let head = Document::read(text.as_bytes()).ok().and_then(|read| text.strip_suffix(read.body()).map(str::len));
    text.split_at(head.unwrap_or(0))
}

/// Whose text a skill is: an agent's, once an agent has changed it, no matter who made it. A skill that
/// nobody recorded is trusted no further.
fn last_hand(usage: Option<&SkillUsage>) -> CreatedBy {
    usage.filter(|usage| usage.patch_count == 0).map_or(CreatedBy::Agent, |usage| usage.created_by)
}

fn turned_off(word: &str) -> Error {
    Error::refused(format!("the skill for the command /{word} is turned off by the operator"))
        .hint(format!("write \\/{word} to send it as a text"))
}

fn unknown_command(word: &str, near: &[String]) -> Error {
    let near: Vec<String> = near.iter().map(|name| format!("/{name}")).collect();
    let near = if near.is_empty() { String::new() } else { format!("near it: {}; ", near.join(", ")) };
    Error::not_found(format!("there is no skill for the command /{word}"))
        .hint(format!("{near}write \\/{word} to send it as a text"))
}
