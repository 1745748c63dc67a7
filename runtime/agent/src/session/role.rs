//! `system.md`: the role, and in its front matter what a good answer is.

use serde_json::{Map, Value};

use super::grounding::Grounding;
use crate::checks::Check;
use crate::error::{Error, Result};
use crate::skill::{Document, FrontMatterValue};

/// The role that `system.md` has for the prompt: without the front matter that says what a good answer is.
pub fn role_text(system: &[u8]) -> Result<String> {
    Role::read(system, None).map(|role| role.text)
}

/// A role as a task goes by it.
#[derive(Debug, Clone, Default)]
pub(super) struct Role {
    /// What the prompt begins with.
    pub(super) text: String,
    /// What holds for a good answer.
    pub(super) checks: Vec<Check>,
    /// How much of an answer has to come from results.
    pub(super) grounding: Grounding,
}

impl Role {
    /// Reads `system.md`. Its front matter, where it has one that names `checks` or `grounding`, is for herm alone; any
    /// other beginning is part of the role, as it always was. `manifest` has the checks of the manifest.
    pub(super) fn read(bytes: &[u8], manifest: Option<&Value>) -> Result<Self> {
        let whole = std::str::from_utf8(bytes)
            .map_err(|source| Error::corrupt("system.md is not UTF-8 text").because(source))?;
        let mut role = Self { text: whole.to_owned(), ..Self::default() };
        let document = Document::read(bytes).ok().filter(Document::has_front_matter);
        if let Some(document) = document {
            let (checks, grounding) = (document.value("checks"), document.value("grounding"));
            if checks.is_some() || grounding.is_some() {
                role.text = document.body().trim_start().to_owned();
            }
            if let Some(checks) = checks {
                role.checks = Check::parse_all(&json_of(&checks)).map_err(in_role)?;
            }
            if let Some(grounding) = grounding {
                let name = grounding.as_text().unwrap_or_default();
                role.grounding = Grounding::parse(name).ok_or_else(|| {
                    Error::invalid(format!("system.md asks for the grounding {name:?}"))
                        .hint("it is one of off, reports and strict")
                })?;
            }
        }
        if let Some(checks) = manifest {
            role.checks.extend(Check::parse_all(checks).map_err(|error| {
                Error::invalid(format!("manifest.json: {}", error.message()))
                    .hint("docs/reference/checks.md has every form")
            })?);
        }
        Ok(role)
    }
}

/// Whether a role says what a good answer is: in the front matter of `system.md`, or in the manifest's `checks`.
pub fn role_has_checks(system: &[u8], manifest: Option<&Value>) -> Result<bool> {
    Role::read(system, manifest).map(|role| !role.checks.is_empty())
}

fn in_role(error: Error) -> Error {
    Error::invalid(format!("system.md: {}", error.message())).hint("docs/reference/checks.md has every form")
}

/// A value of a front matter as JSON. Plain words that are numbers or truth values are those.
fn json_of(value: &FrontMatterValue) -> Value {
    match value {
        FrontMatterValue::Map(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), json_of(value))).collect::<Map<_, _>>())
        }
        FrontMatterValue::List(items) => items.iter().map(json_of).collect(),
        other => other.as_text().map_or(Value::Null, |text| match serde_json::from_str::<Value>(text) {
            Ok(plain @ (Value::Number(_) | Value::Bool(_))) => plain,
            _ => Value::from(text),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_and_grounding_stand_in_the_front_matter_and_not_in_the_prompt() {
        let text = "---\nchecks:\n  - contains: box 12\n  - at: /total\n    equals: 7\n  - regex: \"^[a-z]+$\"\n\
            grounding: strict\n---\nYou find things.\n";
        let role = Role::read(text.as_bytes(), None).unwrap();
        assert_eq!((role.text.as_str(), role.checks.len()), ("You find things.\n", 3));
        assert_eq!(role.grounding, Grounding::Strict);
        let manifest = serde_json::json!([{ "calls": "find" }]);
        assert_eq!(Role::read(text.as_bytes(), Some(&manifest)).unwrap().checks.len(), 4);
    }

    #[test]
    fn a_role_that_begins_otherwise_is_read_as_it_always_was() {
        for text in ["You find things.", "---\n\nYou find things.\n---\n", "---\nname: x\n---\nYou find things."] {
            let role = Role::read(text.as_bytes(), None).unwrap();
            assert_eq!((role.text.as_str(), role.checks.len()), (text, 0));
        }
    }

    #[test]
    fn what_cannot_be_used_says_where_it_stands() {
        let error = Role::read(b"---\nchecks:\n  - contians: x\n---\nRole", None).unwrap_err();
        assert!(error.message().starts_with("system.md: check 1 cannot be used"), "{error}");
        assert!(Role::read(b"---\ngrounding: some\n---\nRole", None).unwrap_err().message().contains("\"some\""));
        let manifest = serde_json::json!([{}]);
        assert!(Role::read(b"Role", Some(&manifest)).unwrap_err().message().starts_with("manifest.json: check 1"));
        assert!(Role::read(&[0xff], None).is_err());
    }
}
