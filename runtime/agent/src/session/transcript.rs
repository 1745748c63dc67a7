//! Everything that was said and done in a task: what a replay needs, and what a receipt names by its
//! digest. The format is described in `docs/reference/transcript.md`.

use serde::{Deserialize, Serialize};

use super::machine::{Stop, ToolCall};
use super::reply::Edition;
use crate::backend::Completion;
use crate::checks::MadeCall;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, Slug, TaskId};
use crate::memory::{Arm, TaskOutcome};
use crate::task::{ShownSkill, TaskLimits};
use crate::tool::{SkillRules, ToolReport};

/// The format this build writes.
pub const TRANSCRIPT_SCHEMA: &str = "herm/transcript@1";

/// A reply of the model and, where it led to one, a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// What the model said.
    pub reply: Completion,
    /// The call that followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolCall>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ToolReport>,
}

/// Which tasks leave an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HarvestRule {
    /// No task leaves an example.
    #[default]
    Never,
    /// Those with a good outcome.
    Good,
    /// Those too of which nobody says how good they were, where every fact of the answer comes from a result.
    Grounded,
}

impl HarvestRule {
    fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// What was said and done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transcript {
    /// The format: always [`TRANSCRIPT_SCHEMA`], anything else is not read.
    pub schema: String,
    /// The name of the task, which the receipt has too.
    pub task: TaskId,
    /// The brain that the task ran on.
    pub brain: BrainId,
    /// When the task began; what it wrote carries this moment.
    pub at: Timestamp,
    /// Who asked, as the brain knows them.
    pub subscriber: Option<Digest>,
    /// The task's input, whole.
    pub input: String,
    /// What the task could use up, as the brain's tuning had lowered it.
    pub limits: TaskLimits,
    /// The tools it could use.
    pub tools: Vec<String>,
    /// Who was to speak.
    pub backend: String,
    /// Whether a hard task was to be learned from.
    pub learning: bool,
    /// Whether what a subscriber said could be kept for everyone.
    #[serde(default)]
    pub sharing: bool,
    /// Whether the model had to be shown how to call and to answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub examples: bool,
    /// Whether the gate ruled on what the task wrote into skills; not in transcripts from before there was one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gated: bool,
    /// Whether it ruled in the same way on edits that a tool made past the calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gated_edits: bool,
    /// By which rules replies were read; a transcript that does not say was read by the first.
    #[serde(default = "Edition::first", skip_serializing_if = "Edition::is_first")]
    pub reading: Edition,
    /// The SHA-256 of the system message.
    pub prompt: String,
    /// The skills the prompt was to show before others, where what they mean had a part in choosing them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<Slug>>,
    /// What of the learned was shown, or held back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<ShownSkill>,
    /// How good the answer was, as those said who were asked when the task ended.
    #[serde(default, skip_serializing_if = "says_nothing")]
    pub outcome: TaskOutcome,
    /// Whether it was to leave an example.
    #[serde(default, skip_serializing_if = "HarvestRule::is_never")]
    pub harvest: HarvestRule,
    /// Whether the texts of its example were looked at for orders, chat marks and pieces of examples; a transcript from
    /// before they were does not say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
    /// The turns in order: replies, calls and results.
    pub turns: Vec<Turn>,
    /// What was said when asked to write a skill down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<Completion>,
    /// Why the task ended, with the answer or a message.
    pub stop: Stop,
}

fn says_nothing(outcome: &TaskOutcome) -> bool {
    outcome.sources.is_empty()
}

impl Transcript {
    /// Which rules held for what the task wrote into skills.
    pub fn rules(&self) -> SkillRules {
        match (self.gated, self.gated_edits) {
            (true, true) => SkillRules::Gated,
            (true, false) => SkillRules::GatedCalls,
            (false, _) => SkillRules::Ungated,
        }
    }

    /// The calls that ran, as checks see them.
    pub fn made_calls(&self) -> Vec<MadeCall<'_>> {
        self.turns
            .iter()
            .filter_map(|turn| {
                let (call, report) = (turn.call.as_ref()?, turn.report.as_ref()?);
                Some(MadeCall { tool: &call.tool, args: &call.args, status: report.status })
            })
            .collect()
    }

    /// The procedures whose examples were shown.
    pub(super) fn shown_examples(&self) -> Vec<Slug> {
        let of_example = |shown: &&ShownSkill| shown.arm == Arm::Shown && shown.example.is_some();
        self.shown.iter().filter(of_example).map(|shown| shown.skill.clone()).collect()
    }

    /// The bytes that are kept and named.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|source| Error::internal("a transcript cannot be written").because(source))
    }

    /// Reads a transcript back; another format, or text that is not one, is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let transcript: Self = serde_json::from_slice(bytes).map_err(|source| {
            Error::corrupt(format!("the transcript cannot be read: {source}")).hint("this task cannot be replayed")
        })?;
        if transcript.schema != TRANSCRIPT_SCHEMA {
            return Err(Error::invalid(format!("the transcript has the format {:?}", transcript.schema))
                .hint(format!("this herm reads {TRANSCRIPT_SCHEMA:?}")));
        }
        Ok(transcript)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_from_before_the_gate_says_so_by_saying_nothing() {
        let text = r#"{"schema":"herm/transcript@1","task":"01a1e9b6a231-ce391dce8f74b0e5","brain":"1",
            "at":"2026-11-16T03:04:05.000Z","subscriber":null,"input":"count","limits":LIMITS,"tools":[],"backend":"b",
            "learning":true,"prompt":"p","turns":[],"stop":{"reason":"final","answer":"{}","message":null}}"#;
        let limits = serde_json::to_string(&TaskLimits::default()).unwrap();
        let mut transcript = Transcript::parse(text.replace("LIMITS", &limits).as_bytes()).unwrap();
        assert_eq!(transcript.rules(), SkillRules::Ungated);
        assert!(!String::from_utf8(transcript.to_bytes().unwrap()).unwrap().contains("gated"));
        transcript.gated = true;
        assert_eq!(Transcript::parse(&transcript.to_bytes().unwrap()).unwrap().rules(), SkillRules::GatedCalls);
        transcript.gated_edits = true;
        assert_eq!(Transcript::parse(&transcript.to_bytes().unwrap()).unwrap().rules(), SkillRules::Gated);
    }
}
