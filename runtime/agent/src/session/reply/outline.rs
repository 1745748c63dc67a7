//! The parsed object: its entries, and whether keys occur twice in them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::foreign::{self, Announced};
use super::{Edition, Object, ObjectProblem, broken};

/// Keys beside `tool` and `args` in which models like to talk. They are not arguments.
const REMARKS: [&str; 3] = ["thought", "reasoning", "comment"];

/// Keys that other harnesses write for `args`, in an object that has the key `tool`.
const OTHER_ARGS: [&str; 6] = ["arguments", "parameters", "params", "input", "tool_input", "action_input"];

/// The entries of an object in the order of the text; a key that occurs twice is there twice.
#[derive(Default)]
pub(super) struct Outline(Vec<(String, CheckedValue)>);

impl Outline {
    /// What the object is. `text` is its source, owned if and only if it was repaired.
    pub(super) fn object<'r>(self, text: Cow<'r, str>, announced: &Announced<'_>, edition: Edition) -> Object<'r> {
        let repaired = matches!(text, Cow::Owned(_));
        let count = |wanted: &str| self.0.iter().filter(|(key, _)| key == wanted).count();
        if count("tool") > 1 || count("args") > 1 {
            return broken(ObjectProblem::RepeatedKey);
        }
        if count("tool") == 0 {
            if edition == Edition::First {
                return Object::Final { text, repaired };
            }
            return foreign::object(&self.0, text, announced);
        }
        let mut entries = self.0;
        let mut take = |wanted: &str| {
            let at = entries.iter().position(|(key, _)| key == wanted)?;
            Some(entries.remove(at).1)
        };
        let (tool, args) = (take("tool").unwrap_or_default(), take("args"));
        let Value::String(tool) = tool.value else { return broken(ObjectProblem::ToolNotText) };
        let loose: Vec<&(String, CheckedValue)> =
            entries.iter().filter(|(key, _)| !REMARKS.contains(&key.as_str())).collect();
        let args = match (args, loose.as_slice()) {
            (None, [(key, args)]) if edition != Edition::First && OTHER_ARGS.contains(&key.as_str()) => {
                // Under a name of its own, text may be an argument and not the arguments.
                arguments(Some(args.clone()), edition).map_err(|problem| match problem {
                    ObjectProblem::RepeatedArgument => problem,
                    _ => ObjectProblem::LooseArguments,
                })
            }
            (None, [_, ..]) => Err(ObjectProblem::LooseArguments),
            (args, _) => arguments(args, edition),
        };
        match args {
            Ok(args) => Object::Call { tool, args, repaired },
            Err(problem) => broken(problem),
        }
    }
}

/// The arguments of a call. Some models write them as JSON inside a string, which has only one meaning.
pub(super) fn arguments(args: Option<CheckedValue>, edition: Edition) -> Result<Map<String, Value>, ObjectProblem> {
    let Some(args) = args else { return Ok(Map::new()) };
    let repeated = |kept: &CheckedValue| kept.repeated && edition != Edition::First;
    match args {
        kept if repeated(&kept) => Err(ObjectProblem::RepeatedArgument),
        CheckedValue { value: Value::Null, .. } => Ok(Map::new()),
        CheckedValue { value: Value::Object(args), .. } => Ok(args),
        CheckedValue { value: Value::String(text), .. } => match serde_json::from_str::<CheckedValue>(&text) {
            Ok(kept) if repeated(&kept) => Err(ObjectProblem::RepeatedArgument),
            Ok(CheckedValue { value: Value::Object(args), .. }) => Ok(args),
            _ => Err(ObjectProblem::ArgsTextNotJson),
        },
        _ => Err(ObjectProblem::ArgsNotObject),
    }
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OutlineVisitor)
    }
}

struct OutlineVisitor;

impl<'de> Visitor<'de> for OutlineVisitor {
    type Value = Outline;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline, A::Error> {
        let mut outline = Outline::default();
        while let Some(entry) = map.next_entry()? {
            outline.0.push(entry);
        }
        Ok(outline)
    }
}

/// A value, and whether a key occurs twice in one of its objects: a [`Value`] alone forgets the first of the two.
#[derive(Default, Clone)]
pub(super) struct CheckedValue {
    pub(super) value: Value,
    pub(super) repeated: bool,
}

impl From<Value> for CheckedValue {
    fn from(value: Value) -> Self {
        Self { value, repeated: false }
    }
}

impl<'de> Deserialize<'de> for CheckedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeptVisitor)
    }
}

struct KeptVisitor;

impl<'de> Visitor<'de> for KeptVisitor {
    type Value = CheckedValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<CheckedValue, E> {
        Ok(CheckedValue::default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<CheckedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<CheckedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<CheckedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<CheckedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<CheckedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_string<E>(self, value: String) -> Result<CheckedValue, E> {
        Ok(Value::from(value).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CheckedValue, A::Error> {
        let (mut items, mut repeated) = (Vec::new(), false);
        while let Some(item) = seq.next_element::<CheckedValue>()? {
            repeated |= item.repeated;
            items.push(item.value);
        }
        Ok(CheckedValue { value: Value::Array(items), repeated })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CheckedValue, A::Error> {
        let (mut entries, mut repeated) = (Map::new(), false);
        while let Some((key, kept)) = map.next_entry::<String, CheckedValue>()? {
            repeated |= kept.repeated;
            repeated |= entries.insert(key, kept.value).is_some();
        }
        Ok(CheckedValue { value: Value::Object(entries), repeated })
    }
}
