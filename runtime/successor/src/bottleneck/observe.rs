//! Observing a brain: the last tasks from their transcripts, walked through the pure machine once more, so that nudges,
//! repairs and shrinking are seen as they happened. It takes no lock and writes nothing.

use std::sync::Arc;
use std::time::Instant;

use super::{BrainStats, ObservedCall, SEARCH, TaskObservation};
use crate::backend::FinishReason;
use crate::brain::{MemoryLayer, Reader, StepKind, StepRecord};
use crate::error::Result;
use crate::layout;
use crate::memory::{EvidenceStatus, layers};
use crate::session::few_shot::ExampleNames;
use crate::session::machine::{Machine, Next, ReplyEffect, SessionRules};
use crate::session::prompt::{self, Prompt, PromptSkills};
use crate::session::{Transcript, context, reply};
use crate::skill::CreatedBy;
use crate::tool::{SkillSummary, ToolSpec, Toolbox};
use crate::tuning::Tuning;

/// The most tasks that are ever looked at.
pub const MOST_TASKS: usize = 500;
/// How many steps are looked at for each task: curators, people and evolvers make steps as well.
const STEPS_PER_TASK: usize = 4;
/// How a search that found nothing begins to say so.
const NOTHING_FOUND: &str = "Nothing found";
/// The tool that loads skills: without it the prompt shows none.
const LOADS: &str = "skill_view";

/// What a brain runs with that is not in the brain.
#[derive(Debug, Clone)]
pub struct ObservationEnv {
    /// The tools of this harness: the prompt is built again from those that the brain may call.
    pub toolbox: Toolbox,
    /// The most bytes a conversation may have for who speaks, where it is known.
    pub context_bytes: Option<usize>,
}

/// What [`observe`] read of a brain.
#[derive(Debug, Clone, PartialEq)]
pub struct BrainObservation {
    /// The tasks, newest first.
    pub tasks: Vec<TaskObservation>,
    /// What is not part of single tasks.
    pub standing: BrainStats,
    /// The tuning they are held against.
    pub tuning: Tuning,
}

/// Observes the last `most` tasks of a brain whose transcripts are kept. Tasks from before the tuning or the role was
/// last changed say nothing about what the brain is now, and are left out.
pub fn observe(reader: &Reader, around: &ObservationEnv, most: usize) -> Result<BrainObservation> {
    observe_within(reader, around, most, None)
}

/// The same for as many of them as can be read until a moment. A task whose walk is not over by then does not count, so
/// a long transcript takes no longer than its parsing and one turn.
pub fn observe_within(
    reader: &Reader,
    around: &ObservationEnv,
    most: usize,
    until: Option<Instant>,
) -> Result<BrainObservation> {
    observe_while(reader, around, most, || until.is_none_or(|until| Instant::now() < until))
}

/// The same for as long as `has_time` says so; it is asked before each task and before each turn of one.
pub fn observe_while(
    reader: &Reader,
    around: &ObservationEnv,
    most: usize,
    mut has_time: impl FnMut() -> bool,
) -> Result<BrainObservation> {
    let tuning = reader.tuning()?;
    let most = most.clamp(1, MOST_TASKS);
    let bench = Bench::new(reader, around, &tuning)?;
    let mut tasks = Vec::new();
    for step in reader.history(most.saturating_mul(STEPS_PER_TASK))? {
        if tasks.len() >= most || changes_the_runtime(&step) || !has_time() {
            break;
        }
        if step.kind == StepKind::Task
            && let Some(content) = reader.transcript(step.seq)?
        {
            match bench.walk(&step, &Transcript::parse(&content)?, &mut has_time) {
                Some(task) => tasks.push(task),
                None => break,
            }
        }
    }
    Ok(BrainObservation { tasks, standing: standing(reader, bench.fits)?, tuning })
}

/// Whether a step made another runtime of the brain.
fn changes_the_runtime(step: &StepRecord) -> bool {
    step.changes.iter().any(|change| matches!(change.path.as_str(), layout::TUNING | layout::SYSTEM | layout::MANIFEST))
}

fn standing(reader: &Reader, index_fits: bool) -> Result<BrainStats> {
    let (skills, usage) = (reader.skills()?, reader.usage()?);
    let own = usage
        .iter()
        .filter(|(slug, one)| one.created_by == CreatedBy::Agent && !one.pinned && skills.get(slug).is_some());
    let (mut own_skills, mut unused) = (0, 0);
    for (_, one) in own {
        own_skills += 1;
        unused += usize::from(one.use_count == 0);
    }
    let counts = reader.counts(&skills)?;
    Ok(BrainStats { own_skills, unused, index_fits, rows: counts.messages + counts.facts + counts.tasks })
}

/// What prompts of the brain are made of, read once.
struct Bench<'a> {
    around: &'a ObservationEnv,
    tuning: &'a Tuning,
    role: String,
    memory: String,
    users: String,
    shown: PromptSkills,
    fits: bool,
}

impl<'a> Bench<'a> {
    fn new(reader: &Reader, around: &'a ObservationEnv, tuning: &'a Tuning) -> Result<Self> {
        let text = |path: &str| -> Result<String> { Ok(reader.text(&layout::rel(path)?)?.unwrap_or_default()) };
        let frozen = |layer: MemoryLayer| -> Result<String> {
            Ok(layers::frozen(&reader.text(&layer.path()?)?.unwrap_or_default(), layer.cap()))
        };
        let skills = reader.skills()?;
        let mut cards: Vec<SkillSummary> = skills
            .entries()
            .map(|entry| SkillSummary {
                slug: entry.place.slug.clone(),
                description: Arc::clone(&entry.description),
                category: entry.category.clone(),
                external: false,
            })
            .collect();
        cards.sort_by(|a, b| a.slug.cmp(&b.slug));
        let most = tuning.index_best.unwrap_or(prompt::INDEX_BEST);
        let first = cards.iter().take(most).map(|card| card.slug.clone()).collect();
        let shown = prompt::choose(cards, &[], tuning.index_bytes.unwrap_or(prompt::INDEX_BYTES), || Ok(first))?;
        Ok(Self {
            around,
            tuning,
            role: text(layout::SYSTEM)?,
            memory: frozen(MemoryLayer::Memory)?,
            users: frozen(MemoryLayer::User)?,
            fits: shown.more == 0,
            shown,
        })
    }

    /// A task once more through the machine, with the replies and results of its transcript. `None` where there is no time
    /// left before a turn of it.
    fn walk(
        &self,
        step: &StepRecord,
        transcript: &Transcript,
        mut has_time: impl FnMut() -> bool,
    ) -> Option<TaskObservation> {
        let toolbox = self.around.toolbox.only(&transcript.tools);
        let cards: Vec<&ToolSpec> = toolbox.iter().map(|tool| tool.spec()).collect();
        // About as long as it was: the memory and the skills of then may have been others.
        let system = prompt::system(&Prompt {
            role: &self.role,
            memory: &self.memory,
            users: &self.users,
            subscriber: "",
            tools: &cards,
            skills: &self.shown,
            turns: transcript.limits.turns,
            answer: None,
            examples: false,
            names: ExampleNames::Same,
            shown: None,
            preloaded: &[],
        });
        let limit = transcript.limits.context_bytes.min(self.around.context_bytes.unwrap_or(usize::MAX));
        let rules = SessionRules {
            turns: transcript.limits.turns,
            tools: transcript.tools.clone(),
            context_bytes: limit,
            compressor: self.tuning.compressor.unwrap_or_default(),
            shrunk_bytes: self.tuning.shrunk_bytes.unwrap_or(context::SHRUNK_BYTES),
            replies: self.tuning.replies.unwrap_or_default(),
            answer_keys: prompt::required_keys(prompt::final_schema(&self.role).as_ref()),
            reading: transcript.reading,
            working_tools: cards.iter().filter(|card| !card.lookup).map(|card| card.name.clone()).collect(),
            ..SessionRules::default()
        };
        let fixed = system.len() + transcript.input.len();
        let mut machine = Machine::new(rules, system.into(), transcript.input.as_str().into());
        let mut seen = TaskObservation {
            step: step.seq,
            at: transcript.at,
            stop: transcript.stop.reason,
            turns: u32::try_from(transcript.turns.len()).unwrap_or(u32::MAX),
            turn_limit: u32::from(transcript.limits.turns),
            millis: u64::try_from(step.at.millis().saturating_sub(transcript.at.millis())).ok(),
            calls: Vec::new(),
            nudges: 0,
            repaired: 0,
            cut: 0,
            context_bytes: fixed as u64,
            context_limit: limit as u64,
            shrunk: false,
            has_index: !self.shown.skills.is_empty() && transcript.tools.iter().any(|tool| tool == LOADS),
        };
        let mut said = 0_usize;
        for turn in &transcript.turns {
            if !has_time() {
                return None;
            }
            if let Next::Ask(question) = machine.next() {
                let sent: usize = question.messages.iter().map(|message| message.content.len()).sum();
                seen.shrunk |= sent < fixed + said;
                seen.context_bytes = seen.context_bytes.max((fixed + said) as u64);
            }
            let cut = turn.reply.finish == FinishReason::Length;
            let reading = reply::read_as(&turn.reply.text, cut, transcript.reading);
            seen.repaired += u32::from(reading.objects.iter().any(reply::Object::is_repaired));
            seen.cut += u32::from(turn.reply.finish == FinishReason::Length);
            said += turn.reply.text.len();
            match machine.hear(&turn.reply.text, turn.reply.finish) {
                ReplyEffect::Nudged(text) => {
                    seen.nudges += 1;
                    said += text.len();
                }
                ReplyEffect::Refused { tool, text } => {
                    said += text.len();
                    seen.calls.push(ObservedCall {
                        tool: self.known(&tool, transcript),
                        status: EvidenceStatus::Refused,
                        millis: 0,
                        found_nothing: false,
                    });
                }
                ReplyEffect::Call | ReplyEffect::Done | ReplyEffect::Ignored => {}
            }
            if let (Some(call), Some(report)) = (&turn.call, &turn.report) {
                machine.take(report);
                said += report.text.len();
                seen.calls.push(ObservedCall {
                    tool: call.tool.clone(),
                    status: report.status,
                    millis: report.millis,
                    found_nothing: call.tool == SEARCH && report.text.starts_with(NOTHING_FOUND),
                });
            }
        }
        Some(seen)
    }

    /// The name of a tool of this herm, whether or not the brain may call it: any other is whatever a model wrote.
    fn known(&self, tool: &str, transcript: &Transcript) -> String {
        let is_there = transcript.tools.iter().any(|known| known == tool) || self.around.toolbox.get(tool).is_some();
        if is_there { tool.to_owned() } else { crate::memory::UNKNOWN_TOOL.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::brain::StepKind;
    use crate::clock::Timestamp;
    use crate::ids::Digest;

    /// A transcript of so many turns.
    fn transcript(turns: usize) -> Transcript {
        let reply = json!({ "text": "I would rather talk.", "finish": "stop", "model": "m", "tokens": null });
        let written = json!({
            "schema": "herm/transcript@1",
            "task": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "brain": "1",
            "at": Timestamp(0),
            "subscriber": null,
            "input": "look",
            "limits": crate::task::TaskLimits::default(),
            "tools": [],
            "backend": "m",
            "learning": false,
            "prompt": "",
            "turns": vec![json!({ "reply": reply }); turns],
            "stop": { "reason": "ceiling", "answer": null, "message": null },
        });
        Transcript::parse(&serde_json::to_vec(&written).unwrap()).unwrap()
    }

    #[test]
    fn the_walk_of_a_long_task_ends_at_the_turn_where_the_time_is_over() {
        let (around, tuning) = (ObservationEnv { toolbox: Toolbox::default(), context_bytes: None }, Tuning::default());
        let empty = || String::new();
        let shown = prompt::choose(Vec::new(), &[], prompt::INDEX_BYTES, || Ok(Vec::new())).unwrap();
        let (role, memory, users) = (empty(), empty(), empty());
        let bench = Bench { around: &around, tuning: &tuning, role, memory, users, shown, fits: true };
        let step = StepRecord {
            seq: 2,
            version: 2,
            kind: StepKind::Task,
            summary: empty(),
            at: Timestamp(0),
            before: None,
            after: Digest::of(b""),
            changes: Vec::new(),
        };
        let mut asked = 0;
        let mut turns_of_time = |left: usize| {
            asked = 0;
            let seen = bench.walk(&step, &transcript(8), || {
                asked += 1;
                asked <= left
            });
            (seen.map(|seen| seen.turns), asked)
        };
        assert_eq!(turns_of_time(8), (Some(8), 8), "there is time for every turn");
        assert_eq!(turns_of_time(3), (None, 4), "what was not seen to its end is not counted");
        assert_eq!(turns_of_time(0), (None, 1));
    }
}
