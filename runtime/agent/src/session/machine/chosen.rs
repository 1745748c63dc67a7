//! What the machine makes of a reply.

use super::ToolCall;
use crate::session::reply::ObjectProblem;

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
