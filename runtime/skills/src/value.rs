//! A front-matter value in which every scalar is the text that was written.
//!
//! Skills carry versions, dates and switches that YAML would turn into numbers and booleans; `1.10` would come back as
//! `1.1`. Nothing here needs the types, so the text is kept and nothing is lost.

use std::collections::BTreeMap;

use serde::Serialize;

/// A value as it was written in the front matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FrontMatterValue {
    /// Nothing, `~` or `null`.
    Null,
    /// Any scalar, as written.
    Text(String),
    /// A sequence, in the order of the text.
    List(Vec<FrontMatterValue>),
    /// A mapping, by its keys as text.
    Map(BTreeMap<String, FrontMatterValue>),
}

impl FrontMatterValue {
    /// The text, if this is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            FrontMatterValue::Text(text) => Some(text),
            FrontMatterValue::Null | FrontMatterValue::List(_) | FrontMatterValue::Map(_) => None,
        }
    }

    /// The value under a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&FrontMatterValue> {
        match self {
            FrontMatterValue::Map(map) => map.get(key),
            FrontMatterValue::Null | FrontMatterValue::Text(_) | FrontMatterValue::List(_) => None,
        }
    }

    /// The words that a list, a comma-separated text or a map of lists stands for.
    ///
    /// A map keeps its keys as prefixes: `{mcp: [mail]}` is `mcp:mail`, since a bare `mail` would lose what it is.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        self.collect_words("", &mut words);
        words
    }

    fn collect_words(&self, prefix: &str, words: &mut Vec<String>) {
        match self {
            FrontMatterValue::Null => {}
            FrontMatterValue::Text(text) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                words.extend(parts.map(|part| format!("{prefix}{part}")));
            }
            // Inside a list a comma belongs to the item: the list has already done the separating.
            FrontMatterValue::List(items) => {
                for item in items {
                    match item {
                        FrontMatterValue::Text(text) if text.trim().is_empty() => {}
                        FrontMatterValue::Text(text) => words.push(format!("{prefix}{}", text.trim())),
                        FrontMatterValue::Null | FrontMatterValue::List(_) | FrontMatterValue::Map(_) => {
                            item.collect_words(prefix, words)
                        }
                    }
                }
            }
            FrontMatterValue::Map(map) => {
                for (key, value) in map {
                    value.collect_words(&format!("{prefix}{key}:"), words);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> FrontMatterValue {
        FrontMatterValue::Text(text.to_owned())
    }

    #[test]
    fn a_comma_separated_text_is_a_list_of_words() {
        assert_eq!(text(" a, b c ,,d").words(), ["a", "b c", "d"]);
    }

    #[test]
    fn a_comma_inside_a_list_item_belongs_to_the_item() {
        assert_eq!(FrontMatterValue::List(vec![text("a, b"), text(" c ")]).words(), ["a, b", "c"]);
    }

    #[test]
    fn a_map_of_lists_keeps_its_keys_as_prefixes() {
        let map = BTreeMap::from([
            ("env".to_owned(), text("TOKEN")),
            ("mcp".to_owned(), FrontMatterValue::List(vec![text("mail"), FrontMatterValue::Null])),
        ]);
        assert_eq!(FrontMatterValue::Map(map).words(), ["env:TOKEN", "mcp:mail"]);
    }

    #[test]
    fn a_value_is_serialised_as_the_plain_json_it_stands_for() {
        let value = FrontMatterValue::List(vec![FrontMatterValue::Null, text("1.0")]);
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"[null,"1.0"]"#);
    }
}
