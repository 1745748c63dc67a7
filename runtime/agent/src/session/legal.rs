//! The replies that are legal, as a JSON Schema: for backends that hold replies to one. Pure.

use serde_json::{Map, Value, json};

use super::machine::{Legal, ToolCall};
use super::{few_shot, retry};
use crate::tool::ToolSpec;

/// What the legal replies follow from.
#[derive(Debug, Clone, Copy)]
pub struct LegalReplies<'a> {
    /// Whether a call or an answer is due.
    pub legal: Legal,
    /// The cards of the tools that the task may use.
    pub tools: &'a [&'a ToolSpec],
    /// The same, with arguments held to the words of the task; none where they are not held.
    pub held: Option<&'a [ToolSpec]>,
    /// The schema of the answer, where the role declares one.
    pub answer: Option<&'a Value>,
    /// Whether the model had to be shown how to reply. It answers in the shape of its examples, where the role declares none.
    pub examples: bool,
    /// Calls that went wrong since the last that went well: their values are not legal again.
    pub failed: &'a [ToolCall],
}

impl<'a> LegalReplies<'a> {
    /// Those of a session in which nothing happened yet.
    pub fn new(legal: Legal, tools: &'a [&'a ToolSpec], answer: Option<&'a Value>, examples: bool) -> Self {
        Self { legal, tools, held: None, answer, examples, failed: &[] }
    }

    /// The JSON Schema that every legal reply fits.
    pub fn schema(&self) -> Value {
        let mut shapes = Vec::new();
        if self.legal != Legal::Final {
            shapes.extend(self.calls());
        }
        if self.legal != Legal::Call {
            let any = match self.examples {
                true => few_shot::usual_answer(),
                false => json!({ "type": "object", "not": { "required": ["tool"] } }),
            };
            shapes.push(self.answer.cloned().unwrap_or(any));
        }
        json!({ "anyOf": shapes })
    }

    fn calls(&self) -> Vec<Value> {
        let mut shapes = Vec::new();
        for (at, card) in self.tools.iter().enumerate() {
            let held = self.held.and_then(|held| held.get(at)).map_or(&card.schema, |held| &held.schema);
            for args in retry::untried(&card.schema, held, &args_of(self.failed, card)) {
                shapes.push(json!({
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["tool", "args"],
                    "properties": { "tool": { "const": card.name }, "args": args },
                }));
            }
        }
        shapes
    }
}

/// The arguments of the calls of a tool.
pub(super) fn args_of<'c>(calls: &'c [ToolCall], card: &ToolSpec) -> Vec<&'c Map<String, Value>> {
    calls.iter().filter(|call| call.tool == card.name).map(|call| &call.args).collect()
}
