//! Which object of a reply counts: a call before an answer, the answer that the role asks for before others, and what the
//! model is told where none of them does.

use serde_json::{Map, Value};

use super::super::reply::{Edition, Object, ObjectProblem, ParsedReply, ReplyEnd};
use super::{Legal, Machine, ToolCall};

/// What a reply leads to.
pub(super) enum Chosen {
    /// A call of a permitted tool.
    Call(ToolCall),
    /// An answer that is legal now.
    Answer(String),
    /// A final answer after calls that all went wrong.
    Unproven(String),
    /// An answer that says too little, and what the model is told.
    Doubt { answer: String, told: String },
    /// An answer, and something beside it that cannot be read.
    Mixed,
    /// A call of a permitted tool with arguments that cannot be used.
    Fault(ObjectProblem),
    /// Nothing that is legal now.
    Nothing,
}

impl Machine {
    /// What a reply leads to. What stands after a broken object may be a piece of it: it is never used.
    pub(super) fn chosen(&self, reading: &ParsedReply<'_>, legal: Legal) -> Chosen {
        let whole: Vec<&Object<'_>> =
            reading.objects.iter().take_while(|object| !matches!(object, Object::Broken { .. })).collect();
        let answers = legal != Legal::Call && self.finals_allowed();
        if self.rules.reading == Edition::First {
            let found = whole.into_iter().find_map(|object| match object {
                Object::Call { .. } if legal != Legal::Final => self.call_of(object, answers).map(Chosen::Call),
                Object::Final { text, .. } if answers => Some(Chosen::Answer(text.to_string())),
                _ => None,
            });
            return found.unwrap_or(Chosen::Nothing);
        }
        let mut fault = None;
        if legal != Legal::Final {
            // A call goes before an answer, wherever it stands: models quote data before they call.
            if let Some(call) = whole.iter().find_map(|object| self.call_of(object, answers)) {
                return Chosen::Call(call);
            }
            fault = whole.iter().find_map(|object| self.fault_of(object, answers));
            if reading.quoted.iter().any(|tool| self.knows(tool)) {
                fault = fault.or(Some(ObjectProblem::Quoted));
            }
        }
        // An answer after calls that all went wrong is heard too: it may be all there is to say.
        let unproven = self.rules.reading >= Edition::Third && !self.finals_allowed() && self.executed() > 0;
        let answer = if answers || unproven { self.best_answer(&whole) } else { None };
        match (answer, fault) {
            (_, Some(problem)) => Chosen::Fault(problem),
            (Some(text), None) if unproven => Chosen::Unproven(text.to_owned()),
            (None, None) => Chosen::Nothing,
            // While a tool may be called, what cannot be read may be a call.
            (Some(_), None) if legal != Legal::Final && whole.len() < reading.objects.len() => Chosen::Mixed,
            (Some(_), None) if legal != Legal::Final && reading.end != ReplyEnd::Clean => Chosen::Mixed,
            (Some(text), None) => match self.lacks(text) {
                Some(told) if self.doubted.is_none() && self.turn < self.rules.turns => {
                    Chosen::Doubt { answer: text.to_owned(), told }
                }
                _ => Chosen::Answer(text.to_owned()),
            },
        }
    }

    /// The call of a permitted tool that an object is. Where an answer is legal, what has all keys of one is an answer.
    fn call_of(&self, object: &Object<'_>, answers: bool) -> Option<ToolCall> {
        match object {
            Object::Call { tool, args, .. } => {
                self.knows(tool).then(|| ToolCall { tool: tool.clone(), args: args.clone() })
            }
            Object::Foreign { calls, otherwise, .. } if !(answers && self.is_complete(otherwise.as_deref())) => {
                let mut known = calls.iter().filter(|call| self.knows(&call.tool));
                known.find_map(|call| Some(ToolCall { tool: call.tool.clone(), args: call.args.clone().ok()? }))
            }
            _ => None,
        }
    }

    /// What is wrong with an object that names a permitted tool in the notation of another harness.
    fn fault_of(&self, object: &Object<'_>, answers: bool) -> Option<ObjectProblem> {
        let Object::Foreign { calls, otherwise, .. } = object else { return None };
        if answers && self.is_complete(otherwise.as_deref()) {
            return None;
        }
        calls.iter().filter(|call| self.knows(&call.tool)).find_map(|call| call.args.clone().err())
    }

    /// Whether a text has all keys that the role requires of an answer, where it requires any.
    fn is_complete(&self, answer: Option<&str>) -> bool {
        !self.rules.answer_keys.is_empty() && answer.is_some_and(|answer| self.lacks(answer).is_none())
    }

    /// The answer among the objects: the first that has what the role requires, else the first that says something, else
    /// the first of them.
    fn best_answer<'r>(&self, objects: &[&'r Object<'_>]) -> Option<&'r str> {
        let texts: Vec<&str> = objects
            .iter()
            .filter_map(|object| match object {
                Object::Final { text, .. } => Some(text.as_ref()),
                // A call of a permitted tool is none, also where calls are over.
                Object::Foreign { calls, otherwise, .. } => otherwise.as_deref().filter(|answer| {
                    !calls.iter().any(|call| self.knows(&call.tool)) || self.is_complete(Some(answer))
                }),
                _ => None,
            })
            .collect();
        let complete = texts.iter().find(|text| self.lacks(text).is_none());
        complete.or_else(|| texts.iter().find(|text| !is_empty(text))).or(texts.first()).copied()
    }

    /// What an answer lacks, as a sentence to the model.
    fn lacks(&self, answer: &str) -> Option<String> {
        let keys = serde_json::from_str::<Map<String, Value>>(answer).unwrap_or_default();
        let missing: Vec<String> = self
            .rules
            .answer_keys
            .iter()
            .filter(|key| !keys.contains_key(*key))
            .map(|key| format!("{key:?}"))
            .collect();
        if !missing.is_empty() {
            return Some(format!(
                "That answer lacks {}, which the schema in the role requires. Reply with the whole answer as one JSON \
                 object, or call a tool if you are not done.",
                missing.join(", ")
            ));
        }
        keys.is_empty().then(|| {
            "{} is an empty answer. Reply with the final answer as one JSON object that says what you found, or call a \
             tool if you are not done."
                .to_owned()
        })
    }
}

fn is_empty(answer: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(answer).is_ok_and(|keys| keys.is_empty())
}
