//! What a skill needs before it works: environment variables and keys of the configuration, as its
//! front matter declares them.
//!
//! Read leniently, in the spellings that are in use. Of an environment variable the name and the explanation are shown
//! and never the value, which nothing here sees; the value of a configuration key is for the model to know.

use std::fmt;

use super::document::Document;
use super::value::FrontMatterValue;
use crate::redact;
use crate::text;

/// How many needs of a skill are read.
const MAX_NEEDS: usize = 64;
/// The most bytes of a variable's or key's name.
const MAX_NAME: usize = 128;
/// How many characters of an explanation are shown.
const MAX_HELP: usize = 200;
/// How many characters of a configured value are shown.
const MAX_VALUE: usize = 500;
/// Whose parts of the metadata are read, and the key that declares configuration there.
const VENDORS: [(&str, &str); 2] = [("herm", "metadata.herm.config"), ("hermes", "metadata.hermes.config")];

/// What kind of thing is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SetupKind {
    /// An environment variable, whose value is never shown.
    Environment,
    /// A key of the configuration.
    Config,
}

/// One thing a skill needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// What kind of thing.
    pub kind: SetupKind,
    /// The name of the variable, or the key of the configuration.
    pub name: String,
    /// What it is and where to get it, on one line.
    pub help: Option<String>,
    /// Whether the skill works without it: it says so, or gives a value to start from.
    pub optional: bool,
    /// The value to start from, of a configuration key.
    pub default: Option<String>,
}

/// A configuration key that a skill asks for, with its value.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// The key in the operator's configuration.
    pub name: String,
    /// Its value, on one line and without secrets.
    pub value: String,
    /// Whether the skill gave the value, because the operator set none.
    pub is_default: bool,
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} = {}", self.name, self.value)?;
        if self.is_default { formatter.write_str(" (default)") } else { Ok(()) }
    }
}

/// The configuration keys of a skill that have a value: `config` says the operator's, else the skill's own default
/// counts. Environment variables are never among them.
pub fn settings(needs: &Needs, config: &dyn Fn(&str) -> Option<String>) -> Vec<Setting> {
    let of_config = needs.needs.iter().filter(|need| need.kind == SetupKind::Config);
    of_config
        .filter_map(|need| {
            let set = config(&need.name);
            let is_default = set.is_none();
            let value = set.or_else(|| need.default.clone())?;
            Some(Setting { name: need.name.clone(), value: text::line(&redact::redact(&value), MAX_VALUE), is_default })
        })
        .collect()
}

/// A part of the declaration that could not be read. It never quotes: a value may stand there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct InvalidSetup {
    /// The key of the front matter.
    pub key: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// What a skill declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// In the order they are declared, each once.
    pub needs: Vec<Need>,
    /// What could not be read.
    pub oddities: Vec<InvalidSetup>,
}

/// Something a skill needs that is not there.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MissingSetup {
    /// What kind of thing.
    pub kind: SetupKind,
    /// The name of the variable or key.
    pub name: String,
    /// What it is and where to get it.
    pub help: Option<String>,
}

impl fmt::Display for MissingSetup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SetupKind::Environment => "environment variable",
            SetupKind::Config => "configuration key",
        };
        write!(formatter, "{kind} {}", self.name)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(formatter, ": {help}"))
    }
}

/// What is needed, one line each.
pub fn list(needed: &[MissingSetup]) -> String {
    needed.iter().map(|needed| format!("- {needed}\n")).collect()
}

/// What a skill declares in its front matter.
pub fn needs(document: &Document) -> Needs {
    let mut found = Needs::default();
    for key in ["required_environment_variables", "requires_env"] {
        if let Some(value) = declared(document, key) {
            found.read(key, SetupKind::Environment, &value);
        }
    }
    if let Some(value) = document.value("prerequisites").as_ref().and_then(|value| value.get("env_vars")) {
        found.read("prerequisites.env_vars", SetupKind::Environment, value);
    }
    let metadata = document.value("metadata");
    for (vendor, key) in VENDORS {
        let config = metadata.as_ref().and_then(|metadata| metadata.get(vendor)?.get("config"));
        if let Some(value) = config {
            found.read(key, SetupKind::Config, value);
        }
    }
    found
}

/// What is needed and not there. `env` and `config` say whether a name has a value.
pub fn missing(needs: &Needs, env: &dyn Fn(&str) -> bool, config: &dyn Fn(&str) -> bool) -> Vec<MissingSetup> {
    let is_there = |need: &Need| match need.kind {
        SetupKind::Environment => env(&need.name),
        SetupKind::Config => config(&need.name),
    };
    let missing = needs.needs.iter().filter(|need| !need.optional && !is_there(need));
    missing.map(|need| MissingSetup { kind: need.kind, name: need.name.clone(), help: need.help.clone() }).collect()
}

/// The value under a key at the top, in the metadata, or in a vendor's part of it.
fn declared(document: &Document, key: &str) -> Option<FrontMatterValue> {
    document.value(key).or_else(|| {
        let metadata = document.value("metadata")?;
        let of_vendor = || VENDORS.iter().find_map(|(vendor, _)| metadata.get(vendor)?.get(key));
        metadata.get(key).or_else(of_vendor).cloned()
    })
}

impl Needs {
    fn read(&mut self, key: &'static str, kind: SetupKind, value: &FrontMatterValue) {
        match value {
            FrontMatterValue::Null => {}
            FrontMatterValue::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.read_item(key, kind, &format!("entry {}", at + 1), item);
                }
            }
            FrontMatterValue::Text(text) => {
                for (at, name) in text.split(',').map(str::trim).filter(|name| !name.is_empty()).enumerate() {
                    self.read_item(key, kind, &format!("entry {}", at + 1), &FrontMatterValue::Text(name.to_owned()));
                }
            }
            FrontMatterValue::Map(_) => self.read_item(key, kind, "the value", value),
        }
    }

    fn read_item(&mut self, key: &'static str, kind: SetupKind, what: &str, item: &FrontMatterValue) {
        let names: &[&str] = match kind {
            SetupKind::Environment => &["name", "env_var"],
            SetupKind::Config => &["key"],
        };
        let name = match item {
            FrontMatterValue::Null => return,
            FrontMatterValue::Text(name) => Some(name.as_str()),
            FrontMatterValue::Map(_) => names.iter().find_map(|name| item.get(name)?.as_text()),
            FrontMatterValue::List(_) => None,
        };
        let Some(name) = name.map(str::trim) else {
            let expected = names.join("` or `");
            return self.odd(key, format!("{what} is not a name, nor a map with `{expected}`"));
        };
        if !is_name(kind, name) {
            return self.odd(key, format!("{what} is not a name: {}", rule(kind)));
        }
        if kind == SetupKind::Config && item.get("description").and_then(FrontMatterValue::as_text).is_none() {
            self.odd(key, format!("{what} has no `description`"));
        }
        let is_yes = |key: &str| {
            item.get(key).and_then(FrontMatterValue::as_text).is_some_and(|text| text.eq_ignore_ascii_case("true"))
        };
        let default = item.get("default").filter(|value| **value != FrontMatterValue::Null);
        let has_default = default.is_some();
        let default = default.filter(|_| kind == SetupKind::Config).map(|value| match value {
            FrontMatterValue::Text(text) => text.clone(),
            other => other.words().join(", "),
        });
        let optional = match kind {
            SetupKind::Environment => is_yes("optional"),
            SetupKind::Config => has_default,
        };
        self.add(key, Need { kind, name: name.to_owned(), help: help(item), optional, default });
    }

    /// Takes a need in; one that is there already only gains what it lacked.
    fn add(&mut self, key: &'static str, need: Need) {
        let known = self.needs.iter_mut().find(|known| known.kind == need.kind && known.name == need.name);
        if let Some(known) = known {
            known.optional &= need.optional;
            known.help = known.help.take().or(need.help);
            known.default = known.default.take().or(need.default);
        } else if self.needs.len() < MAX_NEEDS {
            self.needs.push(need);
        } else {
            self.odd(key, format!("more than {MAX_NEEDS} needs; the rest is passed over"));
        }
    }

    fn odd(&mut self, key: &'static str, reason: String) {
        let oddity = InvalidSetup { key, reason };
        if self.oddities.len() < MAX_NEEDS && !self.oddities.contains(&oddity) {
            self.oddities.push(oddity);
        }
    }
}

/// What a declaration says about a need, on one line and without secrets.
fn help(item: &FrontMatterValue) -> Option<String> {
    let said =
        |key: &str| item.get(key).and_then(FrontMatterValue::as_text).map(str::trim).filter(|text| !text.is_empty());
    let what = ["help", "description", "prompt"].into_iter().find_map(said);
    let purpose = said("required_for").map(|purpose| format!("(for {purpose})"));
    let whole = [what.map(str::to_owned), purpose].into_iter().flatten().collect::<Vec<_>>().join(" ");
    (!whole.is_empty()).then(|| text::line(&redact::redact(&whole), MAX_HELP))
}

fn is_name(kind: SetupKind, name: &str) -> bool {
    if name.is_empty() || name.len() > MAX_NAME {
        return false;
    }
    match kind {
        SetupKind::Environment => {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !name.starts_with(|first: char| first.is_ascii_digit())
        }
        SetupKind::Config => name.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        }),
    }
}

fn rule(kind: SetupKind) -> &'static str {
    match kind {
        SetupKind::Environment => "letters, digits and underscores, no digit first",
        SetupKind::Config => "letters, digits, hyphens and underscores, in parts separated by dots",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(front_matter: &str) -> Needs {
        needs(&Document::read(format!("---\n{front_matter}---\nbody\n").as_bytes()).unwrap())
    }

    fn need(kind: SetupKind, name: &str, help: Option<&str>, optional: bool) -> Need {
        Need { kind, name: name.to_owned(), help: help.map(str::to_owned), optional, default: None }
    }

    fn env(name: &str) -> Need {
        need(SetupKind::Environment, name, None, false)
    }

    #[test]
    fn every_spelling_is_understood() {
        let read = read(concat!(
            "required_environment_variables:\n",
            "  - PLAIN\n",
            "  - name: GIF_KEY\n    prompt: Your key\n    help: From the maker's page.\n    required_for: searching\n",
            "  - env_var: OTHER\n    prompt: Another\n    optional: true\n",
            "requires_env: [ONE, PLAIN]\n",
            "prerequisites:\n  env_vars: [TWO]\n  commands: [git]\n",
            "metadata:\n  hermes:\n    config:\n",
            "      - key: gif.size\n        description: How large\n        default: small\n",
            "      - key: gif.place\n        description: Where to put them\n        prompt: Where?\n",
        ));
        assert_eq!(
            read,
            Needs {
                needs: vec![
                    env("PLAIN"),
                    need(SetupKind::Environment, "GIF_KEY", Some("From the maker's page. (for searching)"), false),
                    need(SetupKind::Environment, "OTHER", Some("Another"), true),
                    env("ONE"),
                    env("TWO"),
                    Need {
                        default: Some("small".to_owned()),
                        ..need(SetupKind::Config, "gif.size", Some("How large"), true)
                    },
                    need(SetupKind::Config, "gif.place", Some("Where to put them"), false),
                ],
                oddities: Vec::new(),
            }
        );
    }

    #[test]
    fn a_single_name_and_a_single_map_are_lists_of_one() {
        assert_eq!(read("requires_env: A, B\n").needs, [env("A"), env("B")]);
        assert_eq!(read("required_environment_variables:\n  name: A\n").needs, [env("A")]);
        assert_eq!(read("metadata:\n  requires_env: [A]\n").needs, [env("A")]);
        assert_eq!(read("metadata:\n  hermes:\n    requires_env: [A]\n").needs, [env("A")]);
    }

    #[test]
    fn a_bad_shape_is_reported_without_its_content_and_costs_nothing_else() {
        let read = read(concat!(
            "requires_env:\n  - TOKEN=hunter2\n  - [A]\n  - 1X\n  - \n  - GOOD\n",
            "prerequisites: git\n",
            "metadata:\n  hermes:\n    config:\n      - key: a..b\n      - nokey: x\n      - key: fine\n",
        ));
        let odd = |key, reason: &str| InvalidSetup { key, reason: reason.to_owned() };
        assert_eq!(
            read,
            Needs {
                needs: vec![env("GOOD"), need(SetupKind::Config, "fine", None, false)],
                oddities: vec![
                    odd("requires_env", "entry 1 is not a name: letters, digits and underscores, no digit first"),
                    odd("requires_env", "entry 2 is not a name, nor a map with `name` or `env_var`"),
                    odd("requires_env", "entry 3 is not a name: letters, digits and underscores, no digit first"),
                    odd(
                        "metadata.hermes.config",
                        "entry 1 is not a name: letters, digits, hyphens and underscores, in parts separated by dots"
                    ),
                    odd("metadata.hermes.config", "entry 2 is not a name, nor a map with `key`"),
                    odd("metadata.hermes.config", "entry 3 has no `description`"),
                ],
            }
        );
    }

    #[test]
    fn what_is_missing_is_listed_by_name_and_help() {
        let needs = read(concat!(
            "required_environment_variables:\n  - SET\n  - name: UNSET\n    help: |\n      Two\n      lines.\n",
            "  - name: MAYBE\n    optional: true\n",
            "metadata:\n  hermes:\n    config:\n      - {key: a.b, description: B}\n      - {key: c, description: C, default: x}\n",
        ));
        let missing = missing(&needs, &|name| name == "SET", &|_| false);
        assert_eq!(list(&missing), "- environment variable UNSET: Two lines.\n- configuration key a.b: B\n");
        assert_eq!(super::missing(&needs, &|_| true, &|_| true), []);
    }

    #[test]
    fn configured_values_are_said_and_defaults_stand_in_for_them() {
        let needs = read(concat!(
            "requires_env: [TOKEN]\n",
            "metadata:\n  hermes:\n    config:\n",
            "      - {key: wiki.path, description: Where, default: ~/wiki}\n",
            "      - {key: wiki.size, description: How large, default: 10}\n",
            "      - {key: wiki.unset, description: Nothing}\n",
        ));
        let key = format!("sk-ant-{}", "a1B2".repeat(8));
        let config = |name: &str| (name == "wiki.path").then(|| format!("/srv/wiki\n{key}"));
        let shown: Vec<String> = settings(&needs, &config).iter().map(Setting::to_string).collect();
        assert_eq!(shown, ["wiki.path = /srv/wiki [redacted]", "wiki.size = 10 (default)"]);
    }

    #[test]
    fn a_secret_in_the_help_is_not_shown() {
        let key = format!("sk-ant-{}", "a1B2".repeat(8));
        let needs = read(&format!("required_environment_variables:\n  - name: A\n    help: Use {key}\n"));
        assert_eq!(needs.needs.first().unwrap().help.as_deref(), Some("Use [redacted]"));
    }

    #[test]
    fn a_skill_that_declares_without_end_is_read_to_a_limit() {
        let names: Vec<String> = (0..200).map(|number| format!("A{number}")).collect();
        let read = read(&format!("requires_env: [{}]\n", names.join(", ")));
        assert_eq!((read.needs.len(), read.oddities.len()), (MAX_NEEDS, 1));
    }

    proptest! {
        #[test]
        fn any_front_matter_can_be_read(
            text in "((required_environment_variables|requires_env|prerequisites|metadata|  hermes|    config|  - name|      - key|env_vars):|[ \\[\\]{},:\n-]|[A-Z_=1]{1,3}){0,40}"
        ) {
            for need in read(&format!("{text}\n")).needs {
                prop_assert!(is_name(need.kind, &need.name));
            }
        }
    }
}
