//! A conversation as OpenAI's clients send it, and the task it asks for.

use herm::skill::command;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::super::problem::{HandlerResult, Problem};

/// What a client sends. Fields that mean nothing here are passed over.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatRequest {
    /// `agent-1` is agent 1.
    pub(crate) model: String,
    /// The conversation; the last message is the task.
    pub(crate) messages: Vec<ChatMessage>,
    /// Whether the answer is sent in pieces, as server-sent events.
    #[serde(default)]
    pub(crate) stream: bool,
    /// What the pieces of a stream hold.
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// The most tokens of a reply.
    #[serde(default)]
    max_tokens: Option<u32>,
    /// The same, by its later name.
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    /// How many answers; one.
    #[serde(default)]
    n: Option<u32>,
}

/// What the pieces of a stream hold.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct StreamOptions {
    /// Whether the last piece says what was used.
    #[serde(default)]
    include_usage: bool,
}

/// One message of the conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatMessage {
    /// Who speaks, such as `user`, `assistant` or `system`.
    role: String,
    /// What they say: a text, or a list of parts.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    content: Value,
}

impl ChatMessage {
    fn text(&self) -> HandlerResult<String> {
        match &self.content {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            Value::Array(parts) => {
                let mut text = String::new();
                for part in parts {
                    match (part["type"].as_str(), part["text"].as_str()) {
                        (Some("text" | "input_text" | "output_text"), Some(said)) => text.push_str(said),
                        (kind, _) => {
                            let kind = kind.unwrap_or("nothing").chars().take(40).collect::<String>();
                            return Err(Problem::invalid(format!("a message has a part of the kind {kind:?}"))
                                .hint("agents read text"));
                        }
                    }
                }
                Ok(text)
            }
            _ => Err(Problem::invalid("the content of a message is neither a text nor a list of parts")),
        }
    }
}

impl ChatRequest {
    /// Refuses what cannot be had here.
    pub(super) fn check(&self) -> HandlerResult<()> {
        match self.n {
            None | Some(1) => Ok(()),
            Some(n) => Err(Problem::invalid(format!("n is {n}, and an agent gives one answer"))),
        }
    }

    /// Whether the last piece of a stream says what was used.
    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    /// The most tokens of a reply.
    pub(super) fn reply_tokens(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens).filter(|most| *most > 0)
    }

    /// The task: the last message, with what was said before it as context.
    pub(super) fn input(&self) -> HandlerResult<String> {
        let Some((last, earlier)) = self.messages.split_last() else {
            return Err(Problem::invalid("there are no messages"));
        };
        if last.role != "user" {
            return Err(Problem::invalid(format!(
                "the last message is of the role {:?}, and must be the user's",
                last.role.chars().take(40).collect::<String>()
            )));
        }
        let task = last.text()?;
        if task.trim().is_empty() {
            return Err(Problem::invalid("the last message is empty"));
        }
        let mut before = String::new();
        for message in earlier {
            let text = message.text()?;
            if !text.trim().is_empty() {
                let role: String = message.role.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
                before.push_str(&format!("{role}: {text}\n"));
            }
        }
        Ok(match (before.is_empty(), command::parse(&task)) {
            (true, _) => task,
            (false, Some(_)) if command::is_reload(&task).is_ok_and(|is| is) => task,
            // A command comes first, or it is none.
            (false, Some(_)) => format!("{task}\n\nEarlier in this conversation:\n{before}"),
            (false, None) => format!("Earlier in this conversation:\n{before}\nNow:\n{task}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(messages: Value) -> Result<String, String> {
        let request: ChatRequest =
            serde_json::from_value(serde_json::json!({ "model": "agent-1", "messages": messages })).unwrap();
        request.input().map_err(|problem| problem.detail.clone())
    }

    #[test]
    fn one_message_is_the_task_word_for_word() {
        assert_eq!(input(serde_json::json!([{ "role": "user", "content": " a\nb " }])), Ok(" a\nb ".into()));
        let parts = serde_json::json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        assert_eq!(input(serde_json::json!([{ "role": "user", "content": parts }])), Ok("ab".into()));
    }

    #[test]
    fn what_was_said_before_is_context() {
        let messages = serde_json::json!([
            { "role": "system", "content": "be brief" }, { "role": "user", "content": "hi" },
            { "role": "assistant", "content": null }, { "role": "user", "content": "and now?" },
        ]);
        let expected = "Earlier in this conversation:\nsystem: be brief\nuser: hi\n\nNow:\nand now?";
        assert_eq!(input(messages), Ok(expected.into()));
    }

    #[test]
    fn what_an_agent_cannot_read_is_refused() {
        let image = serde_json::json!([{ "type": "image_url", "image_url": { "url": "x" } }]);
        let cases = [
            (serde_json::json!([]), "there are no messages"),
            (
                serde_json::json!([{ "role": "assistant", "content": "x" }]),
                "the last message is of the role \"assistant\", and must be the user's",
            ),
            (serde_json::json!([{ "role": "user", "content": "  " }]), "the last message is empty"),
            (
                serde_json::json!([{ "role": "user", "content": image }]),
                "a message has a part of the kind \"image_url\"",
            ),
            (
                serde_json::json!([{ "role": "user", "content": 7 }]),
                "the content of a message is neither a text nor a list of parts",
            ),
        ];
        for (messages, why) in cases {
            assert_eq!(input(messages), Err(why.to_owned()));
        }
    }
}
