//! The review queue: what observations suggest, for a person to decide.
//!
//! An observation is a text with what is known around it. [`mine`] says what kind of work it suggests,
//! by rules whose first match wins, and how sure that is. Nothing here applies anything: every
//! [`ReviewCandidate`] needs a person. The same observation gives the same candidate, and different ones
//! never share an id.

mod lines;
mod observation;
mod phrases;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::failure;
use crate::error::{Error, Result};
use crate::ids::{Digest, Slug};
use crate::memory::QueueRow;
use crate::redact::redact;
use crate::skill::change::SkillProposal;
use crate::text;

pub use lines::{MAX_LINE_BYTES, MAX_LINES, MiningReport, read_lines};
pub use observation::{MiningObservation, from_evidence};

/// A skill text of so many characters is near its cap: more is not simply added to it.
pub const NEAR_CAP_CHARS: u64 = 90_000;
/// Characters of a title.
pub const MAX_TITLE: usize = 100;
/// Characters of a rationale.
pub const MAX_RATIONALE: usize = 140;
/// References a candidate carries.
pub const MAX_REFS: usize = 50;
/// Characters of one reference.
const MAX_REF: usize = 200;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;
/// What proposes merges of skills.
pub(super) const CONSOLIDATION: &str = "consolidation";
/// Characters of the observation that a title shows.
const TITLE_EXCERPT: usize = 60;

/// What kind of work a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateKind {
    /// A skill that exists should say more, or be split.
    SkillUpdate,
    /// A way of working that no skill holds yet.
    SkillNew,
    /// Something to remember in every session.
    Memory,
    /// A failure to play again until it works.
    ReplayBenchmark,
    /// Nothing to do: the observation teaches nothing.
    Ignore,
    /// A change that is ready and waits for a person to accept it.
    Change,
    /// A change whose skill did worse since: accepting takes it back.
    Rollback,
}

impl CandidateKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::SkillUpdate,
        Self::SkillNew,
        Self::Memory,
        Self::ReplayBenchmark,
        Self::Ignore,
        Self::Change,
        Self::Rollback,
    ];

    /// The name that candidates, the queue and the commands have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SkillUpdate => "skill_update",
            Self::SkillNew => "skill_new",
            Self::Memory => "memory",
            Self::ReplayBenchmark => "replay_benchmark",
            Self::Ignore => "ignore",
            Self::Change => QueueRow::CHANGE,
            Self::Rollback => "rollback",
        }
    }
}

impl std::str::FromStr for CandidateKind {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::invalid(format!("{:?} is not a kind of candidate", text::line(name, 40)))
                .hint(format!("there are {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// What a person decided about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStatus {
    /// No person has decided yet.
    #[default]
    Pending,
    /// It shall be done.
    Accepted,
    /// A person said no: it shall not be done.
    Rejected,
    /// Nothing, and a newer one took its place.
    Superseded,
}

impl ReviewStatus {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Accepted, Self::Rejected, Self::Superseded];

    /// The name that the queue and the commands have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Superseded => "superseded",
        }
    }
}

impl std::str::FromStr for ReviewStatus {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
            Error::invalid(format!("{:?} is not a status of the queue", text::line(name, 40)))
                .hint(format!("there are {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// Work for a person to decide about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewCandidate {
    /// Its name: the same for the same observation, and for no other.
    pub id: String,
    /// What kind of work.
    pub kind: CandidateKind,
    /// The work in a few words.
    pub title: String,
    /// Why, in a line.
    pub rationale: String,
    /// How sure, from 0 to 1.
    pub confidence: f64,
    /// What it rests on, sorted.
    pub evidence_refs: Vec<String>,
    /// The skill it is about.
    pub target_skill: Option<Slug>,
    /// Never true: a candidate that says otherwise is not stored.
    pub auto_apply_allowed: bool,
    /// Always true: a candidate that says otherwise is not stored.
    pub requires_human_review: bool,
    /// What else is known.
    pub metadata: Map<String, Value>,
}

impl ReviewCandidate {
    /// Whether it may be stored: nothing that says it needs no person, and nothing out of bounds. For
    /// candidates that were read from somewhere.
    pub fn check(&self) -> Result<()> {
        let is_id = self.id.len() == ID_DIGITS && self.id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let is_line = |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
        let rule = if self.auto_apply_allowed {
            "it says it may be applied by itself"
        } else if !self.requires_human_review {
            "it says it needs no person"
        } else if !is_id {
            "its id is not 32 hexadecimal digits"
        } else if !(0.0..=1.0).contains(&self.confidence) {
            "its confidence is not between 0 and 1"
        } else if self.title.trim().is_empty() || !is_line(&self.title, MAX_TITLE) {
            "its title is empty, too long or not one line"
        } else if !is_line(&self.rationale, MAX_RATIONALE) {
            "its rationale is too long or not one line"
        } else if self.evidence_refs.len() > MAX_REFS || self.evidence_refs.iter().any(|one| !is_line(one, MAX_REF)) {
            "it has too many references, or one that is too long"
        } else {
            return Ok(());
        };
        Err(Error::refused(format!("a candidate cannot enter the queue: {rule}"))
            .hint("only what a person reviews is queued; mine it from observations"))
    }

    /// A change that is ready, held until a person accepts it: the text of `skill` whose digest is
    /// `expected` would become the one whose digest is `content`. `through` is the newest evidence it rests
    /// on: what a person says of it holds until there is newer.
    pub fn change(skill: &Slug, expected: Digest, content: Digest, through: Option<i64>, why: &str) -> Self {
        let metadata = Map::from_iter([
            ("expected_digest".to_owned(), json!(expected)),
            ("content_digest".to_owned(), json!(content)),
            ("through".to_owned(), json!(through)),
        ]);
        let identity = format!("{expected} {content}");
        let verdict = Verdict { kind: CandidateKind::Change, confidence: 1.0, metadata };
        let title = format!("Change {skill} as prepared");
        verdict.into_candidate(title, why, &[], Some(skill.clone()), &[&identity])
    }

    /// A change that a task may not make by itself. The same change is the same work, whichever task wants it: who
    /// rejects it is not asked again.
    pub fn proposed(proposed: &SkillProposal, why: &str) -> Self {
        let change = &proposed.change;
        let (skill, expected, content) = (&change.skill, change.expected, proposed.digest());
        let metadata = Map::from_iter([
            ("by".to_owned(), json!("task")),
            ("task".to_owned(), change.why["task"].clone()),
            ("source".to_owned(), change.why["source"].clone()),
            ("act".to_owned(), json!(proposed.act)),
            ("expected_digest".to_owned(), json!(expected)),
            ("content_digest".to_owned(), json!(content)),
        ]);
        let identity = format!("{expected} {content}");
        let verdict = Verdict { kind: CandidateKind::Change, confidence: 0.5, metadata };
        let title = format!("{} {skill} as a task proposed", proposed.act.verb());
        verdict.into_candidate(title, why, &[], Some(skill.clone()), &[&identity])
    }

    /// A merge of skills that say nearly the same. The same merge is the same work.
    pub fn consolidation(proposed: &SkillProposal, why: &str) -> Self {
        let change = &proposed.change;
        let (skill, expected, content) = (&change.skill, change.expected, proposed.digest());
        let names: Vec<&str> = proposed.merges.iter().map(|merged| merged.skill.as_str()).collect();
        let metadata = Map::from_iter([
            ("by".to_owned(), json!(CONSOLIDATION)),
            ("merges".to_owned(), json!(names)),
            ("expected_digest".to_owned(), json!(expected)),
            ("content_digest".to_owned(), json!(content)),
        ]);
        let identity = format!("{expected} {content}");
        let verdict = Verdict { kind: CandidateKind::Change, confidence: 0.8, metadata };
        let title = format!("Merge {} into {skill}", names.join(", "));
        verdict.into_candidate(title, why, &[], Some(skill.clone()), &[&identity])
    }

    /// A proposal to take the changes of a skill back that began with a step.
    pub fn rollback(skill: &Slug, first: i64, why: &str) -> Self {
        let metadata = Map::from_iter([("first".to_owned(), json!(first))]);
        let verdict = Verdict { kind: CandidateKind::Rollback, confidence: 0.95, metadata };
        let title = format!("Take back the changes of {skill} since step {first}");
        verdict.into_candidate(title, why, &[], Some(skill.clone()), &[])
    }

    /// The digests of a held change: what the skill's text must be, and what it becomes. `None` for a
    /// candidate of every kind but [`Change`](CandidateKind::Change).
    pub fn change_digests(&self) -> Option<(Digest, Digest)> {
        let digest = |name: &str| self.metadata.get(name)?.as_str()?.parse::<Digest>().ok();
        (self.kind == CandidateKind::Change).then_some(())?;
        Some((digest("expected_digest")?, digest("content_digest")?))
    }
}

/// What the rules say of a text.
struct Verdict {
    kind: CandidateKind,
    confidence: f64,
    metadata: Map<String, Value>,
}

impl Verdict {
    fn new(kind: CandidateKind, confidence: f64, rule: &str) -> Self {
        Self { kind, confidence, metadata: Map::from_iter([("rule".to_owned(), json!(rule))]) }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.metadata.insert(name.to_owned(), value);
        self
    }

    /// The candidate; `identity` is what tells it from others beside its kind, title, skill and refs.
    fn into_candidate(
        self,
        title: String,
        why: &str,
        refs: &[String],
        target_skill: Option<Slug>,
        identity: &[&str],
    ) -> ReviewCandidate {
        let title = line(&title, MAX_TITLE);
        let mut refs: Vec<String> = refs.iter().map(|one| line(one, MAX_REF)).filter(|one| !one.is_empty()).collect();
        refs.sort();
        refs.dedup();
        // The number of a row says when, not what: the same failure seen again is the same work.
        let named = refs.iter().map(String::as_str).filter(|one| !observation::is_row_ref(one));
        let skill = target_skill.as_ref().map_or("", Slug::as_str);
        let parts = [self.kind.name(), &title, skill].into_iter().chain(identity.iter().copied()).chain(named);
        let id = id_of(parts);
        refs.truncate(MAX_REFS);
        ReviewCandidate {
            id,
            kind: self.kind,
            rationale: line(why, MAX_RATIONALE),
            title,
            confidence: self.confidence,
            evidence_refs: refs,
            target_skill,
            auto_apply_allowed: false,
            requires_human_review: true,
            metadata: self.metadata,
        }
    }
}

/// A text made fit to be shown in the queue: without secrets and control characters, on one line of at
/// most `most` characters, the mark of a cut included.
fn line(shown: &str, most: usize) -> String {
    let printable: String = redact(shown).chars().map(|c| if is_shown(c) { c } else { ' ' }).collect();
    // Once more: what stood inside a key and cannot be seen is gone now.
    let printable = redact(&printable);
    let whole = text::line(&printable, most);
    if whole.chars().count() <= most { whole } else { text::line(&printable, most - 1) }
}

/// Whether a character can be seen and does not steer how others are shown.
fn is_shown(c: char) -> bool {
    let steers = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    !c.is_control() && !steers
}

/// The first digits of a digest of the parts, each with its length, so that no two lists run together.
fn id_of<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    let mut id = Digest::of(&bytes).to_string();
    id.truncate(ID_DIGITS);
    id
}

/// What an observation suggests.
pub fn mine(observation: &MiningObservation) -> ReviewCandidate {
    let (said, is_failure) = phrases::unwrap(&observation.text);
    let target = observation.target();
    let mut verdict = judge(observation, &said, is_failure, target.is_some());
    if let Some(given) =
        observation.target_skill.as_deref().filter(|given| target.as_ref().is_none_or(|t| t.as_str() != *given))
    {
        verdict = verdict.with("target_given", json!(line(given, Slug::MAX)));
    }
    let tool = observation.tool.as_deref().map(|tool| line(tool, Slug::MAX)).filter(|tool| !tool.is_empty());
    if let Some(tool) = &tool {
        verdict = verdict.with("tool", json!(tool));
    }
    let about = target.as_ref().map_or("a skill", Slug::as_str);
    let excerpt = line(&said, TITLE_EXCERPT);
    let title = match verdict.kind {
        CandidateKind::SkillUpdate if verdict.metadata.contains_key("direct_append_allowed") => {
            format!("Make room in {about} before more is added")
        }
        CandidateKind::SkillUpdate => format!("Add a procedure to {about}: {excerpt}"),
        CandidateKind::SkillNew => format!("Write a skill: {excerpt}"),
        CandidateKind::Memory => format!("Remember a rule: {excerpt}"),
        CandidateKind::ReplayBenchmark => {
            format!("Replay a failure of {}: {excerpt}", tool.as_deref().unwrap_or("a tool"))
        }
        // The rules name neither of the last two: those are made, not mined.
        CandidateKind::Ignore | CandidateKind::Change | CandidateKind::Rollback => match excerpt.is_empty() {
            true => "Nothing to do".to_owned(),
            false => format!("Nothing to do: {excerpt}"),
        },
    };
    // The whole text, so that failures that only begin alike stay apart; redacted, for an id is shown.
    let whole = redact(&said);
    let tool = tool.unwrap_or_default();
    verdict.into_candidate(title, &said, &observation.refs, target, &[&tool, &whole])
}

/// The rules. The first that fits decides.
fn judge(observation: &MiningObservation, said: &str, is_failure: bool, has_target: bool) -> Verdict {
    use CandidateKind::{Ignore, Memory, ReplayBenchmark, SkillNew, SkillUpdate};
    let is_failure = is_failure || observation.is_error;
    let is_near_cap = observation.skill_chars.is_some_and(|chars| chars >= NEAR_CAP_CHARS);
    if phrases::is_listing(said) && !observation.is_error && observation.skill_chars.is_none() {
        return Verdict::new(Ignore, 0.2, "file-listing");
    }
    if is_near_cap || phrases::speaks_of_cap(said) {
        let verdict = Verdict::new(SkillUpdate, 0.7, "near-cap").with("direct_append_allowed", json!(false));
        return match observation.skill_chars {
            Some(chars) => verdict.with("skill_chars", json!(chars)),
            None => verdict,
        };
    }
    if phrases::is_policy(said) {
        return Verdict::new(Memory, 0.9, "policy");
    }
    if is_failure || failure::text(said) {
        return Verdict::new(ReplayBenchmark, 0.75, "failure");
    }
    if phrases::is_procedure(said) {
        return Verdict::new(if has_target { SkillUpdate } else { SkillNew }, 0.65, "procedure");
    }
    if phrases::is_passing(said) {
        return Verdict::new(Ignore, 0.2, "passing");
    }
    Verdict::new(Ignore, 0.1, "nothing-fits")
}

#[cfg(test)]
mod tests;
