//! The patch generator: from what holds a brain up to a patch that could help, and to the evaluation that would show it.
//!
//! - [`candidates`] are the templates for each [bottleneck](super::bottleneck), the smallest first: another registered
//!   component or a constant moved one step, a line of the role, a skill, the whitelist of tools. Pure and deterministic;
//!   every value stays in the ranges of the tuning. What could not change anything is not among them.
//! - [`evaluation_for`] builds what the successor runs from the brain's own tasks ([`EvaluationInputs`]), with goals on what the
//!   patch is to make better and guards on checks, turns and tool errors.
//! - [`model::draft`] asks a backend instead, behind an option; what it may change is the same, and it writes the text.
//!
//! The templates in words are in `docs/operate/autogenesis.md`.

mod draft_context;
pub mod material;
pub mod model;
#[cfg(test)]
mod tests;
mod texts;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::bottleneck::{Bottleneck, BottleneckKind};
use crate::curator;
use crate::error::Result;
use crate::evaluation::{BackendChoice, EVALUATION_SCHEMA, Evaluation, EvaluationPart, Goal, Guard, WrittenTask};
use crate::measure::Metric;
use crate::patch::{Patch, PatchChange};
use crate::session::{context, prompt};
use crate::task::MAX_TURNS;
use crate::tuning::{Component, Compressor, ReplyPolicy, SearchRanking, SearchWeights, Selector, Tuning};

pub use draft_context::{DraftContext, ToolFacts};
pub use material::{EvaluationInputs, material, material_within};

/// The most skills of an index, the most bytes of it and the most bytes a text shrinks to: the ends of their ranges.
const MOST_INDEX_BEST: usize = 1_000;
const MOST_INDEX_BYTES: usize = 1 << 20;
const MOST_SHRUNK_BYTES: usize = 64 << 10;
const MOST_CANDIDATES: u32 = 100_000;
const MOST_REPLY_TOKENS: u32 = 1 << 20;
/// A search is not made to look at fewer rows than this.
const LEAST_CANDIDATES: u32 = 50;
/// Skills are not retired sooner than this.
const LEAST_STALE_DAYS: u32 = 7;
const LEAST_ARCHIVE_DAYS: u32 = 14;

/// Names of the parts that a drafted evaluation is made of.
const LONG: &str = "long sessions";
const REPLAY: &str = "what it did before";
const EVERYDAY: &str = "everyday work";
const UNFINISHED: &str = "what it did not finish";
const SEARCHES: &str = "many searches";

/// Sessions that are generated to see what a compressor keeps.
const SESSIONS: u32 = 40;
/// How often cases are repeated where only time can be measured.
const TIMED_REPEATS: u32 = 24;
/// The fewest cases an evaluation of the brain's own tasks may rest on.
const LEAST_CASES: u32 = crate::judge::statistics::FEW as u32;

/// Who drafted a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Author {
    /// A template of [`candidates`] did.
    Template,
    /// A model wrote it, in answer to [`model::draft`].
    Model {
        /// The backend it was asked through.
        backend: String,
        /// As it names itself.
        model: String,
    },
}

/// What a draft changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DraftTarget {
    /// A component or a constant of the tuning.
    Setting,
    /// The text of `system.md`.
    Role,
    /// A skill file, which the patch writes into the bundle.
    Skill,
    /// Which tools the brain may call.
    Tools,
}

/// A patch, and how to see whether it helps.
#[derive(Debug, Clone, PartialEq)]
pub struct PatchDraft {
    /// What it is to help against.
    pub bottleneck: Bottleneck,
    /// What it changes; of a model's draft, the first change.
    pub aim: DraftTarget,
    /// The drafted patch; it obeys the rules of patches.
    pub patch: Patch,
    /// What would show it.
    pub evaluation: Evaluation,
    /// Who drafted it: a template, or a model.
    pub author: Author,
}

/// Whether who speaks for the brain does what a draft says. The embedded backend obeys no role and no skill, so no evaluation
/// in which it speaks could show that either helps.
fn is_obeyed(aim: DraftTarget, material: &EvaluationInputs) -> bool {
    let is_text = matches!(aim, DraftTarget::Role | DraftTarget::Skill);
    !(is_text && material.voice == material::BackendPricing::Embedded)
}

/// The first patch against a bottleneck from its templates that is not one of `tried`; `None` where there is no template,
/// none of them could change anything, or nothing of the brain could show whether it helps.
pub fn draft(
    bottleneck: &Bottleneck,
    scene: &DraftContext,
    material: &EvaluationInputs,
    tried: &[Vec<PatchChange>],
) -> Result<Option<PatchDraft>> {
    let is_open = |(aim, changes): &(DraftTarget, _)| is_obeyed(*aim, material) && !tried.contains(changes);
    let open = candidates(bottleneck, scene)?.into_iter().find(is_open);
    let Some((aim, changes)) = open else { return Ok(None) };
    let Some(evaluation) = evaluation_for(bottleneck, material)? else { return Ok(None) };
    let why = format!("Drafted by a template, because {}.", bottleneck.sentence());
    let patch = Patch::new(&title(bottleneck, aim), Some(why), changes)?;
    Ok(Some(PatchDraft { bottleneck: bottleneck.clone(), aim, patch, evaluation, author: Author::Template }))
}

/// The first patch against any of these bottlenecks, the worst first, and why those before it have none.
pub fn first(
    bottlenecks: &[Bottleneck],
    scene: &DraftContext,
    material: &EvaluationInputs,
    tried: &[Vec<PatchChange>],
) -> Result<(Option<PatchDraft>, Vec<String>)> {
    let mut passed = Vec::new();
    for one in bottlenecks {
        if let Some(drafted) = draft(one, scene, material, tried)? {
            return Ok((Some(drafted), passed));
        }
        let templates = candidates(one, scene)?;
        let open = templates.iter().find(|(_, changes)| !tried.contains(changes));
        passed.push(match (open, templates.first()) {
            (Some((aim, _)), _) if !is_obeyed(*aim, material) => format!(
                "“{}” cannot be judged: the embedded backend obeys no role and no skill; give the brain a backend with a price",
                title(one, *aim)
            ),
            (_, Some((aim, changes))) if tried.contains(changes) => {
                format!("“{}” was tried on this runtime", title(one, *aim))
            }
            (_, Some(_)) => format!("nothing of the brain could show whether a patch helps: {}", one.kind.words()),
            (_, None) => format!("no patch and evaluation for this: {}", one.kind.words()),
        });
    }
    Ok((None, passed))
}

fn title(bottleneck: &Bottleneck, aim: DraftTarget) -> String {
    let subject = bottleneck.subject.as_deref().unwrap_or("a tool");
    match (aim, bottleneck.kind) {
        (DraftTarget::Role, kind) => format!("Say it in the role: {}", kind.words()),
        (DraftTarget::Skill, _) => format!("A skill that says how to call {subject}"),
        (DraftTarget::Tools, _) => format!("Another whitelist of tools: {subject}"),
        (DraftTarget::Setting, kind) => setting_title(kind).to_owned(),
    }
}

fn setting_title(kind: BottleneckKind) -> &'static str {
    match kind {
        BottleneckKind::ContextPressure => "Keep more of conversations that are too long",
        BottleneckKind::IndexMisses => "Show the skills that are looked for",
        BottleneckKind::Nudges => "Take replies that an unambiguous repair makes JSON",
        BottleneckKind::CutReplies => "Let replies be longer",
        BottleneckKind::Ceiling => "Allow all turns",
        BottleneckKind::SlowSearch => "Search fewer rows",
        BottleneckKind::LowRecall => "Find more in the memory",
        BottleneckKind::UnusedSkills => "Retire unused skills sooner",
        BottleneckKind::NonConvergence
        | BottleneckKind::ToolErrors
        | BottleneckKind::SlowTool
        | BottleneckKind::SlowReplies => "No template",
    }
}

/// Everything that could help against a bottleneck, the smallest change first. What cannot change anything, as things
/// stand, is not among it.
pub fn candidates(bottleneck: &Bottleneck, scene: &DraftContext) -> Result<Vec<(DraftTarget, Vec<PatchChange>)>> {
    let all = [
        (DraftTarget::Setting, settings_for(bottleneck.kind, scene)),
        (DraftTarget::Tools, texts::tools(bottleneck, scene)?.into_iter().collect()),
        (DraftTarget::Role, texts::role(bottleneck, scene).into_iter().collect()),
        (DraftTarget::Skill, texts::skill(bottleneck, scene).into_iter().collect()),
    ];
    Ok(all.into_iter().filter(|(_, changes)| !changes.is_empty()).collect())
}

/// The setting that could help against a bottleneck, given what the brain runs with now. Nothing where none would.
pub fn settings_for(kind: BottleneckKind, scene: &DraftContext) -> Vec<PatchChange> {
    let (tuning, standing) = (&scene.tuning, &scene.standing);
    let candidates = tuning.search_candidates.unwrap_or(SearchWeights::default().candidates);
    let swap = |component, to: &str| vec![PatchChange::Component { component, to: to.to_owned() }];
    let set = |change: Tuning| vec![PatchChange::Constants { set: Box::new(change) }];
    let none = Vec::new;
    let doubled = |now: usize, most: usize| now.saturating_mul(2).min(most);
    match kind {
        BottleneckKind::ContextPressure if tuning.compressor.unwrap_or_default() != Compressor::Salient => {
            swap(Component::Compressor, "salient")
        }
        BottleneckKind::ContextPressure => {
            let now = tuning.shrunk_bytes.unwrap_or(context::SHRUNK_BYTES);
            match doubled(now, MOST_SHRUNK_BYTES) {
                next if next > now => set(Tuning { shrunk_bytes: Some(next), ..Tuning::default() }),
                _ => none(),
            }
        }
        // Every skill is shown: neither which are chosen nor how many changes anything.
        BottleneckKind::IndexMisses if standing.index_fits => none(),
        BottleneckKind::IndexMisses if tuning.selector.unwrap_or_default() != Selector::MostUsed => {
            swap(Component::Selector, "most-used")
        }
        BottleneckKind::IndexMisses => {
            let bytes = tuning.index_bytes.unwrap_or(prompt::INDEX_BYTES);
            let best = tuning.index_best.unwrap_or(prompt::INDEX_BEST);
            let next = (doubled(bytes.max(1), MOST_INDEX_BYTES), doubled(best.max(1), MOST_INDEX_BEST));
            match next > (bytes, best) {
                true => set(Tuning { index_bytes: Some(next.0), index_best: Some(next.1), ..Tuning::default() }),
                false => none(),
            }
        }
        BottleneckKind::Nudges if tuning.replies == Some(ReplyPolicy::Strict) => swap(Component::Replies, "repairing"),
        // A tuning only lowers limits: where it says nothing, there is nothing to raise.
        BottleneckKind::CutReplies => match tuning.reply_tokens {
            Some(now) if now < MOST_REPLY_TOKENS => {
                let next = now.saturating_mul(2).min(MOST_REPLY_TOKENS);
                set(Tuning { reply_tokens: Some(next), ..Tuning::default() })
            }
            _ => none(),
        },
        BottleneckKind::Ceiling => match tuning.turns {
            Some(now) if now < MAX_TURNS => set(Tuning { turns: Some(MAX_TURNS), ..Tuning::default() }),
            _ => none(),
        },
        BottleneckKind::SlowSearch => {
            // A memory of fewer rows is looked at whole either way.
            match (candidates / 2).max(LEAST_CANDIDATES) {
                next if next < candidates && u64::from(next) < standing.rows => {
                    set(Tuning { search_candidates: Some(next), ..Tuning::default() })
                }
                _ => none(),
            }
        }
        // Where there is hardly anything, nothing is to be found in another order.
        BottleneckKind::LowRecall if standing.rows < 2 => none(),
        BottleneckKind::LowRecall if tuning.ranking.unwrap_or_default() != SearchRanking::Words => {
            swap(Component::Ranking, "words")
        }
        BottleneckKind::LowRecall => match candidates.saturating_mul(2).min(MOST_CANDIDATES) {
            next if next > candidates && u64::from(candidates) < standing.rows => {
                set(Tuning { search_candidates: Some(next), ..Tuning::default() })
            }
            _ => none(),
        },
        BottleneckKind::UnusedSkills => {
            let usual = curator::CuratorPolicy::default();
            let now =
                (tuning.stale_days.unwrap_or(usual.stale_days), tuning.archive_days.unwrap_or(usual.archive_days));
            // Never later than now, also where someone chose less than the floor.
            let stale = (now.0 / 2).max(LEAST_STALE_DAYS).min(now.0);
            let archive = (now.1 / 2).max(LEAST_ARCHIVE_DAYS).min(now.1).max(stale);
            match (stale, archive) == now {
                true => none(),
                false => set(Tuning { stale_days: Some(stale), archive_days: Some(archive), ..Tuning::default() }),
            }
        }
        BottleneckKind::Nudges
        | BottleneckKind::NonConvergence
        | BottleneckKind::ToolErrors
        | BottleneckKind::SlowTool
        | BottleneckKind::SlowReplies => none(),
    }
}

/// What would show whether a patch against this bottleneck helps, from the brain's own tasks; `None` where the brain has
/// too few of the kind that it takes.
pub fn evaluation_for(bottleneck: &Bottleneck, material: &EvaluationInputs) -> Result<Option<Evaluation>> {
    let mut plan = Plan::default();
    let enough_replays = material.replays >= LEAST_CASES;
    match bottleneck.kind {
        BottleneckKind::ContextPressure => {
            // Sessions that are three and a half times as long as their conversation may be.
            let limit = material.context_limit.clamp(8 << 10, 64 << 10);
            plan.parts.push(EvaluationPart::Compress {
                name: LONG.to_owned(),
                sessions: SESSIONS,
                results: 7,
                result_bytes: limit / 2,
                context_bytes: limit,
            });
            plan.goal(Metric::KeptFacts, LONG, 0.05);
            plan.guard(Metric::ContextBytes, LONG, 0.1);
        }
        BottleneckKind::ToolErrors if enough_replays => plan.goal(Metric::ToolErrors, REPLAY, 0.02),
        BottleneckKind::IndexMisses
        | BottleneckKind::Nudges
        | BottleneckKind::CutReplies
        | BottleneckKind::LowRecall
            if enough_replays =>
        {
            plan.goal(Metric::Turns, REPLAY, 0.02);
            plan.goal(Metric::ToolCalls, REPLAY, 0.02);
        }
        BottleneckKind::UnusedSkills if enough_replays => plan.goal(Metric::ContextBytes, REPLAY, 0.02),
        BottleneckKind::Ceiling | BottleneckKind::NonConvergence
            if material.unfinished.len() >= crate::judge::statistics::FEW =>
        {
            let name = UNFINISHED.to_owned();
            plan.parts.push(EvaluationPart::Suite { name, tasks: material.unfinished.clone() });
            plan.goal(Metric::Solved, UNFINISHED, 0.02);
        }
        BottleneckKind::SlowSearch => {
            let mut args = Map::new();
            args.insert("query".to_owned(), Value::from(material.query.clone()));
            plan.parts.push(EvaluationPart::Calls {
                name: SEARCHES.to_owned(),
                tool: "recall".to_owned(),
                args,
                input: String::new(),
                calls: 200,
                at_once: 4,
            });
            plan.repeat = TIMED_REPEATS;
            plan.goal(Metric::LatencyP99Micros, SEARCHES, 0.05);
            plan.goal(Metric::CpuMicros, SEARCHES, 0.05);
        }
        _ => return Ok(None),
    }
    // Timed cases are repeated: the others beside them are kept few.
    let most = if plan.repeat > 1 { 3 } else { material::MOST_REPLAYS };
    if material.replays > 0 {
        plan.parts.push(EvaluationPart::Replay { name: REPLAY.to_owned(), last: material.replays.min(most) });
        if !plan.goals.iter().any(|goal| goal.metric == Metric::Turns) {
            plan.guard(Metric::Turns, REPLAY, 0.05);
        }
        plan.guard(Metric::ToolErrors, REPLAY, 0.0);
    }
    let everyday: Vec<WrittenTask> = material.everyday.iter().take(most as usize).cloned().collect();
    if !everyday.is_empty() {
        plan.parts.push(EvaluationPart::Suite { name: EVERYDAY.to_owned(), tasks: everyday });
        plan.guard(Metric::Solved, EVERYDAY, 0.0);
    }
    let evaluation = Evaluation {
        schema: EVALUATION_SCHEMA.to_owned(),
        title: format!("Does it help against this: {}?", bottleneck.kind.words()),
        seed: 1,
        repeat: plan.repeat,
        speaker: match material.voice {
            material::BackendPricing::Embedded | material::BackendPricing::Unpriced => BackendChoice::Reflex,
            material::BackendPricing::Priced => BackendChoice::Brain,
        },
        parts: plan.parts,
        goals: plan.goals,
        guards: plan.guards,
    };
    evaluation.validate()?;
    Ok(Some(evaluation))
}

/// An evaluation in the making.
struct Plan {
    repeat: u32,
    parts: Vec<EvaluationPart>,
    goals: Vec<Goal>,
    guards: Vec<Guard>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { repeat: 1, parts: Vec::new(), goals: Vec::new(), guards: Vec::new() }
    }
}

impl Plan {
    fn goal(&mut self, metric: Metric, part: &str, by: f64) {
        self.goals.push(Goal { metric, part: Some(part.to_owned()), by });
    }

    fn guard(&mut self, metric: Metric, part: &str, slack: f64) {
        self.guards.push(Guard { metric, part: Some(part.to_owned()), slack });
    }
}
