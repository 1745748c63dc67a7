//! Which variables a timer takes along. A timer starts with hardly any, and one that looked at other
//! brains than the shell it was made in would be worse than none. Secrets never go along.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use herm::redact;

/// Variables that name a place: a relative one is made a full path.
const PLACES: [&str; 4] = ["HERM_BRAINS", "HERM_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
/// Variables that are taken as they are.
const WORDS: [&str; 8] = [
    "HERM_BACKEND",
    "HERM_MODEL",
    "HERM_SEMANTIC_DEVICE",
    "HERM_SEMANTIC_TEXT_LIMIT",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "OPENROUTER_BASE_URL",
    "OLLAMA_BASE_URL",
];
/// Keys that a backend may be waiting for.
const KEYS: [&str; 4] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_API_KEY"];
/// What the name of a secret has in it.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// What a timer takes along.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TimerEnvironment {
    /// The variables that are written into the timer's files.
    pub(crate) environment: BTreeMap<String, String>,
    /// Names of variables that are set here and stay here, because they hold secrets or cannot be written down.
    pub(crate) withheld: Vec<String>,
}

/// Chooses from the variables of this process. `here` is the directory relative paths are relative to.
pub(crate) fn carried(variables: impl IntoIterator<Item = (OsString, OsString)>, here: &Path) -> TimerEnvironment {
    let mut carried = TimerEnvironment::default();
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let is_file = name.starts_with("HERM_") && name.ends_with("_FILE");
        let is_place = PLACES.contains(&name) || is_file;
        if !is_place && !WORDS.contains(&name) {
            if KEYS.contains(&name) || (name.starts_with("HERM_") && says_secret(name)) {
                carried.withheld.push(name.to_owned());
            }
            continue;
        }
        let value = if is_place { here.join(value).into_os_string() } else { value };
        match value.into_string() {
            Ok(value) if !value.is_empty() && !holds_secret(&value) && !value.chars().any(char::is_control) => {
                carried.environment.insert(name.to_owned(), value);
            }
            Ok(value) if value.is_empty() => {}
            Ok(_) | Err(_) => carried.withheld.push(name.to_owned()),
        }
    }
    carried.withheld.sort();
    carried
}

/// Whether a variable holds a secret by its name. The name of a file that holds one is none.
pub(super) fn says_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    !name.ends_with("_FILE") && SECRET.iter().any(|word| name.contains(word))
}

/// Whether a value has a secret in it, or an address with a password.
pub(super) fn holds_secret(value: &str) -> bool {
    let has_user = value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.contains('@')
    });
    has_user || !redact::find(value).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_where_and_who_goes_along_and_secrets_stay() {
        let key = format!("sk-ant-{}", "a1B2".repeat(8));
        let set = [
            ("HERM_BRAINS", "my brains"),
            ("HERM_CONFIG", "/etc/herm.toml"),
            ("HERM_BACKEND", "openai"),
            ("HERM_MODEL", ""),
            ("HERM_SIGNING_KEY_FILE", "key.pem"),
            ("HERM_API_KEY", "x"),
            ("OPENAI_API_KEY", key.as_str()),
            ("OPENAI_BASE_URL", "https://me:pw@proxy/v1"),
            ("OLLAMA_BASE_URL", "http://127.0.0.1:11434/v1"),
            ("XDG_DATA_HOME", "/data\n"),
            ("PATH", "/bin"),
            ("MY_TOKEN", "x"),
        ];
        let set = set.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let carried = carried(set, Path::new("/here"));
        let expected = [
            ("HERM_BACKEND", "openai"),
            ("HERM_BRAINS", "/here/my brains"),
            ("HERM_CONFIG", "/etc/herm.toml"),
            ("HERM_SIGNING_KEY_FILE", "/here/key.pem"),
            ("OLLAMA_BASE_URL", "http://127.0.0.1:11434/v1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(carried.environment, BTreeMap::from(expected));
        assert_eq!(carried.withheld, ["HERM_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "XDG_DATA_HOME"]);
    }
}
