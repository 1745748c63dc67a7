//! `herm feedback`: how good the answer of a task was. The operator's label, unless a subscriber is named.

use herm::brain;
use herm::harness::{FeedbackFrom, TaskFeedback};
use herm::memory::{OutcomeValue, TaskOutcome};
use herm::{BrainId, Error, Reader, Result, SubscriberId, TaskId};
use serde_json::json;

use super::{in_runtime, to_json};
use crate::backends;
use crate::cli::Feedback;
use crate::config::Settings;
use crate::output::Answer;
use crate::server_db::{self, tasks};

pub(super) fn run(settings: &Settings, arguments: &Feedback) -> Result<Answer> {
    let (id, task, value) = match arguments.said.as_slice() {
        [id, task, value] => (Some(id.parse::<BrainId>()?), task, value),
        [task, value] => (None, task, value),
        _ => return Err(Error::invalid("how good was which answer?").hint("say `herm feedback TASK good`")),
    };
    let value = OutcomeValue::of_words(value)?;
    let task: TaskId = task.parse()?;
    let from = match &arguments.subscriber {
        Some(subscriber) => FeedbackFrom::Subscriber(subscriber.parse::<SubscriberId>()?),
        None => FeedbackFrom::Operator,
    };
    let source = from.source();
    let id = id.map_or_else(|| brain_of(settings, &task), Ok)?;
    let feedback = TaskFeedback { task: task.clone(), value, note: arguments.note.clone(), from };
    let harness = backends::harness_without_model(settings)?;
    let (result, closed) = in_runtime(async {
        let result = harness.feedback(&id, feedback).await;
        Ok((result, harness.shutdown().await))
    })?;
    let result = result?;
    let version = Reader::open(&settings.layout, &id)?.lock().version;
    let unfinished = closed.err().map(|error| {
        format!(
            "the step is settled, but not all files of brain {id} could be written ({}); the next command finishes it",
            error.message()
        )
    });
    let unfinished = unfinished.or(match result.settled {
        Some(_) => tell_server(settings, &task, &result.outcome),
        None => None,
    });
    let text = match &result.settled {
        Some(_) => format!(
            "the {} of task {task} says {value}; its outcome is {}; brain {id} is now version {version}\n",
            source.name(),
            result.outcome.value
        ),
        None => format!(
            "the {} of task {task} says so already; its outcome is {}; brain {id} stays at version {version}\n",
            source.name(),
            result.outcome.value
        ),
    };
    let json = json!({
        "id": id, "task": task, "value": value, "source": source, "outcome": to_json(&result.outcome)?,
        "settled": to_json(&result.settled)?,
    });
    Ok(Answer::new(text, json).unfinished(unfinished))
}

/// The brain of a task: as the server remembers it, else the only one that has it.
fn brain_of(settings: &Settings, task: &TaskId) -> Result<BrainId> {
    let path = settings.layout.server_db();
    if path.is_file()
        && let Some(row) = tasks::get(&server_db::open(&path)?, task)?
    {
        return Ok(row.agent);
    }
    let mut found = Vec::new();
    for id in brain::list(&settings.layout)? {
        // A brain that cannot be read is told of by its own commands, and does not say where the task is.
        let logged = Reader::open(&settings.layout, &id).and_then(|reader| reader.logged_task(task));
        if logged.is_ok_and(|logged| logged.is_some()) {
            found.push(id);
        }
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Error::not_found(format!("no brain here has task {task}"))
            .hint("`herm receipts list ID` names the tasks of a brain")),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Error::conflict(format!("brains {} have task {task}", names.join(", ")))
                .hint(format!("name the brain: `herm feedback ID {task} …`")))
        }
    }
}

/// Brings the list of a server up to date, where it has the task; what could not be written.
fn tell_server(settings: &Settings, task: &TaskId, outcome: &TaskOutcome) -> Option<String> {
    let path = settings.layout.server_db();
    if !path.is_file() {
        return None;
    }
    let value = outcome.value.to_string();
    let told = server_db::open(&path).and_then(|connection| tasks::rate(&connection, task, &value, None));
    told.err()
        .map(|error| format!("the step is settled; the server's list of tasks still has the earlier outcome: {error}"))
}
