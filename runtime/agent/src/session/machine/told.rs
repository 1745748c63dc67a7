//! What the model is told of its replies.

use crate::session::reply::{ObjectProblem, ReplyEnd};

/// Said where an answer stands beside something that cannot be read.
pub(super) const MIXED: &str = "Your reply holds a JSON object and something beside it that cannot be read, so neither was used. \
Reply with the one object you mean, a call or the final answer, and nothing else.";

/// Said on the last turn.
pub(super) const LAST_TURN: &str = "[This is the last turn. Reply with the final answer now: one JSON object. \
No tool can be called any more. If the work is not finished, answer with what you have and say what is missing.]";

/// Said where a reply holds no object.
pub(super) fn nothing_found(end: ReplyEnd) -> &'static str {
    match end {
        ReplyEnd::Truncated => {
            "Your reply was cut off before its JSON was complete, so nothing of it was used. \
             Reply again, shorter: one complete JSON object and nothing else."
        }
        ReplyEnd::InThought => {
            "Your reply ended inside a block of thought and held no JSON. Reply with one JSON object and nothing else."
        }
        ReplyEnd::Clean => ObjectProblem::NotJson.advice(),
    }
}
