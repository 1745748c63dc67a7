//! `note`: a fact by key, found again by `recall`.

use async_trait::async_trait;
use herm::memory::Fact;
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolPurpose, ToolSpec};
use herm::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::arguments;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What it is about, in a few words. A later note with the same key replaces this one.
    #[schemars(length(min = 1, max = 128))]
    key: String,
    /// What is so.
    #[schemars(length(min = 1, max = 4000))]
    value: String,
}

/// The tool `note`: keeps a fact under a key in the brain's database.
#[derive(Debug)]
pub struct Note {
    card: ToolSpec,
}

impl Default for Note {
    fn default() -> Self {
        let description = "Notes a fact under a key. It is not in the prompt; `recall` finds it in later tasks. \
                           A note made for one user is found for that user alone.";
        Self {
            card: ToolSpec::new("note", description, Permission::WriteBrain, arguments::schema::<Args>())
                .quick()
                .for_purpose(ToolPurpose::Writes),
        }
    }
}

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        let key = args.key.split_whitespace().collect::<Vec<_>>().join(" ");
        let value = args.value.trim().to_owned();
        if key.is_empty() || value.is_empty() {
            return Err(Error::invalid("a note needs a key and a value that say something").hint("give both some text"));
        }
        if key.chars().any(char::is_control) {
            return Err(Error::invalid("the key has a control character").hint("use plain words"));
        }
        let task = cx.task();
        let subscriber = task.subscriber;
        let done = match subscriber {
            Some(_) => "Noted for this user.",
            None => "Noted for everyone.",
        };
        let said = format!("{key}: {value}");
        let fact = Fact { subscriber, key, value, task: task.task.to_string(), at: task.at };
        cx.with_working_copy(move |desk| {
            desk.check_text(&said)?;
            desk.fact(fact);
            Ok(())
        })
        .await?;
        Ok(ToolOutput::new(done, done))
    }
}
