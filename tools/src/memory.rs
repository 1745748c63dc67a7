//! `memory`: the small notes that stand in every later prompt.

use async_trait::async_trait;
use herm::brain::MemoryLayer;
use herm::memory::layers::{self, LayerEdit};
use herm::skill::guard;
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolPurpose, ToolSpec, WorkingCopy};
use herm::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::arguments;

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Add,
    Replace,
    Remove,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Target {
    Memory,
    User,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to do with an entry.
    action: Action,
    /// memory: lessons that hold for every task. user: what is known of the one who asks.
    target: Target,
    /// add, replace: the entry, in a sentence or two.
    #[schemars(length(max = 2000))]
    content: Option<String>,
    /// replace, remove: text that only the entry in question contains.
    #[schemars(length(max = 2000))]
    old_text: Option<String>,
}

/// Keeps the small notes.
#[derive(Debug)]
pub struct Memory {
    card: ToolSpec,
}

impl Default for Memory {
    fn default() -> Self {
        let description = "Adds, replaces or removes an entry of the notes that stand in every later prompt. They are \
                           small: keep what holds beyond this task, and write procedures into skills instead.";
        Self {
            card: ToolSpec::new("memory", description, Permission::WriteBrain, arguments::schema::<Args>())
                .quick()
                .for_purpose(ToolPurpose::Writes),
        }
    }
}

#[async_trait]
impl Tool for Memory {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        let edit = edit(&args)?;
        // What is known of one subscriber is never written where another's prompt reads it.
        let (layer, name) = match (args.target, &cx.task().subscriber) {
            (Target::Memory, Some(subscriber)) if cx.task().is_private() => {
                (MemoryLayer::Subscriber(*subscriber), "the notes on this user")
            }
            (Target::Memory, _) => (MemoryLayer::Memory, "MEMORY.md"),
            (Target::User, Some(subscriber)) => (MemoryLayer::Subscriber(*subscriber), "the notes on this user"),
            (Target::User, None) => (MemoryLayer::User, "USER.md"),
        };
        cx.with_working_copy(move |desk| change(desk, layer, name, &edit)).await
    }
}

fn edit(args: &Args) -> Result<LayerEdit> {
    let content = || {
        arguments::given(args.content.as_ref())
            .map(str::to_owned)
            .ok_or_else(|| Error::invalid("add and replace need `content`").hint("give the entry in a sentence"))
    };
    let find = || {
        arguments::given(args.old_text.as_ref()).map(str::to_owned).ok_or_else(|| {
            Error::invalid("replace and remove need `old_text`").hint("give text that only that entry contains")
        })
    };
    Ok(match args.action {
        Action::Add => LayerEdit::Add { content: content()? },
        Action::Replace => LayerEdit::Replace { find: find()?, content: content()? },
        Action::Remove => LayerEdit::Remove { find: find()? },
    })
}

fn change(desk: &mut WorkingCopy, layer: MemoryLayer, name: &str, edit: &LayerEdit) -> Result<ToolOutput> {
    let before = desk.layer(layer)?;
    let edits = std::slice::from_ref(edit);
    let after = layers::apply(&before, edits, layer.cap())?;
    if let LayerEdit::Add { content } | LayerEdit::Replace { content, .. } = edit {
        desk.check_text(content)?;
        // Two harmless entries may read as one instruction.
        if guard::objections(&before).is_empty() {
            desk.check_text(&after)?;
        }
    }
    desk.edit()?.edit_layer(layer, edits)?;
    let (had, has) = (layers::entries(&before), layers::entries(&after));
    let (done, expected) = match edit {
        LayerEdit::Add { .. } if had == has => (format!("That is in {name} already."), had.len()),
        LayerEdit::Add { .. } => (format!("Added to {name}."), had.len() + 1),
        LayerEdit::Replace { .. } => (format!("Replaced in {name}."), had.len()),
        LayerEdit::Remove { .. } => (format!("Removed from {name}."), had.len().saturating_sub(1)),
    };
    let dropped = match expected.saturating_sub(has.len()) {
        0 => String::new(),
        dropped => format!(" Dropped to make room, the oldest first: {dropped}."),
    };
    let used = after.chars().count();
    Ok(ToolOutput::new(format!("{done}{dropped} {used} of {} characters are used.", layer.cap()), done))
}
