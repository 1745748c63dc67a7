//! One thing that was seen, as it is read from a line of JSON or from the brain's own evidence.

use serde::Deserialize;
use serde_json::Value;

use crate::evolver::EvidenceRow;
use crate::ids::Slug;
use crate::memory::EvidenceStatus;

/// How a reference to a row of the brain's evidence begins.
const ROW_REF: &str = "evidence:";

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MiningObservation {
    /// What was said or came out.
    pub text: String,
    /// Where it is from.
    pub refs: Vec<String>,
    /// The skill it is about.
    pub target_skill: Option<String>,
    /// The tool it came from.
    pub tool: Option<String>,
    /// Whether it was a failure.
    pub is_error: bool,
    /// How many characters the skill has.
    pub skill_chars: Option<u64>,
}

impl MiningObservation {
    /// The skill, by the name it has in a brain.
    pub(super) fn target(&self) -> Option<Slug> {
        let given = self.target_skill.as_deref()?;
        given.parse().ok().or_else(|| Slug::from_title(given))
    }

    /// From a JSON object with `text`, `evidence_ref` or `evidence_refs`, `target_skill`, `tool_name`,
    /// `is_error` and `skill_md_size`. All may be absent or null, and other fields are not a concern of
    /// this; a value of a wrong type is a reason to refuse.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let Value::Object(fields) = value else { return Err("it is not a JSON object".to_owned()) };
        let get = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let text_of = |name: &str| get(name).map(|value| plain(value, name)).transpose();
        let mut refs = Vec::new();
        for name in ["evidence_ref", "evidence_refs"] {
            match get(name) {
                Some(Value::Array(many)) => {
                    for one in many.iter().filter(|one| !one.is_null()) {
                        refs.push(plain(one, name)?);
                    }
                }
                Some(one) => refs.push(plain(one, name)?),
                None => {}
            }
        }
        let text = match get("text") {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Ok(Self {
            text,
            refs,
            target_skill: text_of("target_skill")?.filter(|name| !name.trim().is_empty()),
            tool: text_of("tool_name")?.filter(|name| !name.trim().is_empty()),
            is_error: get("is_error").map(truth).transpose()?.unwrap_or(false),
            skill_chars: get("skill_md_size").map(count).transpose()?,
        })
    }
}

impl<'de> Deserialize<'de> for MiningObservation {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn plain(value: &Value, name: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("{name} is neither a text nor a number")),
    }
}

fn truth(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::Number(number) if number.as_f64() == Some(0.0) => Ok(false),
        Value::Number(number) if number.as_f64() == Some(1.0) => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.is_empty() || text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err("is_error is neither true nor false".to_owned()),
    }
}

fn count(value: &Value) -> Result<u64, String> {
    let found = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    found.ok_or_else(|| "skill_md_size is not a number of characters".to_owned())
}

/// What a row of evidence suggests looking at; `None` where the call went well.
pub fn from_evidence(row: &EvidenceRow) -> Option<MiningObservation> {
    let (number, evidence) = row;
    match evidence.status {
        EvidenceStatus::Ok => None,
        EvidenceStatus::Failed | EvidenceStatus::Refused => Some(MiningObservation {
            text: evidence.summary.clone(),
            refs: vec![format!("{ROW_REF}{number}")],
            // With several skills loaded, nobody can say which of them it was about.
            target_skill: match evidence.skills.as_slice() {
                [one] => Some(one.as_str().to_owned()),
                _ => None,
            },
            tool: Some(evidence.tool.clone()),
            is_error: true,
            skill_chars: None,
        }),
    }
}

/// Whether a reference is the number of a row.
pub(super) fn is_row_ref(reference: &str) -> bool {
    reference.strip_prefix(ROW_REF).is_some_and(|number| number.parse::<i64>().is_ok())
}
