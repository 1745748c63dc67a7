//! What calls have in common: the arguments that stay the same from task to task, and those that are a task's own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::NamedCall;
use crate::evolver::sanitize::sanitize;
use crate::memory::Evidence;

/// In the place of a value that differs from task to task.
const DIFFERS: &str = "…";
/// How many characters of arguments are shown.
const ARGUMENT_CHARS: usize = 240;
/// So many tasks must have a value before it is more than the matter of one.
const LEAST_TASKS: usize = 2;

/// The arguments that most calls have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CallPattern<'a> {
    /// By name; with the value that most of the tasks have, where there is one.
    fields: Vec<(&'a str, Option<&'a Value>)>,
}

impl<'a> CallPattern<'a> {
    /// What these calls have in common. Calls whose arguments are not known do not count; a task counts once, however
    /// often it made its call.
    pub(super) fn of(calls: impl Iterator<Item = &'a Evidence>) -> Self {
        let mut tasks: BTreeSet<&str> = BTreeSet::new();
        let mut names: Vec<&str> = Vec::new();
        // By name and value: the tasks that have it.
        let mut seen: BTreeMap<&str, BTreeMap<String, (&Value, BTreeSet<&str>)>> = BTreeMap::new();
        for call in calls {
            let Some(arguments) = &call.arguments else { continue };
            tasks.insert(&call.task);
            for (name, value) in arguments.entries() {
                if !names.contains(&name) {
                    names.push(name);
                }
                let (_, having) =
                    seen.entry(name).or_default().entry(value.to_string()).or_insert((value, BTreeSet::new()));
                having.insert(&call.task);
            }
        }
        let is_most = |count: usize| 2 * count > tasks.len();
        let field = |name: &'a str| {
            let values = seen.get(name)?;
            let with_it: BTreeSet<&str> = values.values().flat_map(|(_, having)| having.iter().copied()).collect();
            let (value, having) = values.values().max_by_key(|(_, having)| having.len())?;
            let is_constant = is_most(having.len()) && having.len() >= LEAST_TASKS && is_whole(value);
            is_most(with_it.len()).then_some((name, is_constant.then_some(*value)))
        };
        Self { fields: names.into_iter().filter_map(field).collect() }
    }

    /// Whether any argument is the same in most tasks.
    pub(super) fn has_constants(&self) -> bool {
        self.fields.iter().any(|(_, value)| value.is_some())
    }

    /// The arguments as JSON, `…` for what differs.
    pub(super) fn shown(&self) -> String {
        let value = |value: &Option<&Value>| value.map_or_else(|| json!(DIFFERS), Value::clone);
        let fields: Map<String, Value> =
            self.fields.iter().map(|(name, one)| ((*name).to_owned(), value(one))).collect();
        Value::Object(fields).to_string()
    }

    /// The arguments that stay the same, as JSON, in the order of their names.
    pub(super) fn constants(&self) -> String {
        let constants: BTreeMap<&str, &Value> =
            self.fields.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        json!(constants).to_string()
    }

    /// The pattern for a reader, and how many of these calls have its constants. `None` where there are no arguments to
    /// show, or none that may be shown.
    pub(super) fn named<'c>(&self, calls: impl Iterator<Item = &'c Evidence>) -> Option<NamedCall> {
        if self.fields.is_empty() {
            return None;
        }
        let arguments = sanitize(&self.shown(), ARGUMENT_CHARS);
        let like_this = calls.filter(|call| self.fits(call)).count();
        let named = NamedCall { arguments, calls: super::count_of(like_this) };
        (named.arguments.starts_with('{') && named.calls > 0).then_some(named)
    }

    fn fits(&self, call: &Evidence) -> bool {
        let Some(arguments) = &call.arguments else { return false };
        self.fields.iter().all(|(name, value)| value.is_none_or(|value| arguments.get(name) == Some(value)))
    }

    /// What a call was about: its values that are not the same in most tasks.
    pub(super) fn matter<'c>(&self, call: &'c Evidence) -> Vec<&'c Value> {
        let is_constant = |name: &str| self.fields.iter().any(|(known, value)| *known == name && value.is_some());
        let Some(arguments) = &call.arguments else { return Vec::new() };
        arguments
            .entries()
            .filter(|(name, value)| !is_constant(name) && says_what(value))
            .map(|(_, value)| value)
            .collect()
    }
}

/// Whether another call was for the same: it had the same arguments, or all that the failed one was about.
pub(super) fn is_about_the_same(failed: &Evidence, other: &Evidence, matter: &[&Value]) -> bool {
    if failed.args == other.args && !is_without_arguments(failed) {
        return true;
    }
    let Some(told) = &other.arguments else { return false };
    let has = |value: &Value| told.entries().any(|(_, one)| one == value);
    !matter.is_empty() && matter.iter().all(|value| has(value))
}

/// Whether a call has no arguments, or none that are known: then equal ones say nothing.
fn is_without_arguments(call: &Evidence) -> bool {
    [None, Some(&Map::new())].into_iter().any(|none| call.args == Evidence::digest_of_args(none))
}

/// Whether a value is there in full: nothing of it was cut or redacted.
fn is_whole(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains(DIFFERS) && !text.contains("[redacted]"),
        Value::Array(many) => many.iter().all(is_whole),
        Value::Object(fields) => fields.iter().all(|(name, value)| name != DIFFERS && is_whole(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Whether a value can be what a call is about.
fn says_what(value: &Value) -> bool {
    let is_said = match value {
        Value::String(text) => !text.is_empty(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
        Value::Null | Value::Bool(_) => false,
    };
    is_said && is_whole(value)
}
