//! What to call next, from what was called so far.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use herm_agent::backend::ToolPurpose;

use super::report::{self, Finding};
use super::talk::{Skill, Talk, Tool};

/// With fewer calls than this the outline is left out: the hits are worth more.
const CALLS_FOR_OUTLINE: usize = 3;
/// How much of the input is searched for words, and how much is handed to a tool.
const READ_BYTES: usize = 200_000;
const GIVEN_CHARS: usize = 8_000;
/// How long a query gets.
const QUERY_CHARS: usize = 200;
const QUERY_WORDS: usize = 6;
/// How many patterns one search is asked for: their beginnings fit a result.
const SEARCHED: usize = 9;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) args: Map<String, Value>,
}

/// The next call; `None` where it is time to answer.
pub(super) fn next(talk: &Talk<'_>) -> Option<Call> {
    if talk.tools.is_empty() || talk.calls_left == 0 {
        return None;
    }
    let findings = report::findings(talk);
    outline(talk)
        .or_else(|| once(talk, ToolPurpose::Scans, Map::new()))
        .or_else(|| search(talk, &findings))
        .or_else(|| once(talk, ToolPurpose::LoadsSkill, object(&[("name", best_skill(talk, &findings)?)])))
        .or_else(|| once(talk, ToolPurpose::Recalls, object(&[("query", &query(talk.input, &findings)?)])))
        .or_else(|| any_other(talk))
}

fn object(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// A call of a tool that was not called yet, where its required arguments are there.
fn once(talk: &Talk<'_>, purpose: ToolPurpose, args: Map<String, Value>) -> Option<Call> {
    let card = talk.tool(purpose).filter(|card| !talk.tried(&card.name))?;
    required(card).all(|name| args.contains_key(name)).then(|| Call { tool: card.name.clone(), args })
}

fn required(tool: &Tool) -> impl Iterator<Item = &str> {
    tool.args.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn outline(talk: &Talk<'_>) -> Option<Call> {
    let has_time = talk.calls_left >= CALLS_FOR_OUTLINE || talk.tool(ToolPurpose::Scans).is_none();
    let has_scanned = talk.calls(ToolPurpose::Scans).next().is_some();
    once(talk, ToolPurpose::Outlines, Map::new()).filter(|_| has_time && !has_scanned)
}

/// The worst pattern in full, then the others: in full where it is one, their beginnings where
/// there are more of them.
fn search(talk: &Talk<'_>, findings: &[Finding<'_>]) -> Option<Call> {
    let card = talk.tool(ToolPurpose::ExplainsPatterns)?;
    let calls: Vec<_> = talk.calls(ToolPurpose::ExplainsPatterns).collect();
    // A search that failed will fail for another pattern too.
    if calls.len() >= 2 || calls.iter().any(|step| !step.is_ok()) {
        return None;
    }
    let named = |finding: &&Finding<'_>| calls.iter().any(|step| step.arg("name") == Some(finding.pattern));
    let left: Vec<&Finding<'_>> = findings.iter().filter(|finding| !named(finding)).collect();
    let properties = card.args.get("properties");
    let has = |name: &str| properties.is_none_or(|properties| properties.get(name).is_some());
    let args = match left.as_slice() {
        [] => return None,
        [worst, rest @ ..] if calls.is_empty() || rest.is_empty() || !has("query") => {
            object(&[("name", worst.pattern)])
        }
        several => {
            let several = several.get(..SEARCHED).unwrap_or(several);
            let words: Vec<&str> = several.iter().map(|finding| finding.pattern).collect();
            let mut args = object(&[("query", &cut(&words.join(" "), 2 * QUERY_CHARS))]);
            if has("limit") {
                // A little more than asked for: other patterns share words with these.
                args.insert("limit".to_owned(), json!(several.len() + 3));
            }
            args
        }
    };
    required(card).all(|name| args.contains_key(name)).then(|| Call { tool: card.name.clone(), args })
}

/// The skill that has most in common with the hits, and with the input where that decides.
fn best_skill<'a>(talk: &Talk<'a>, findings: &[Finding<'_>]) -> Option<&'a str> {
    let mut weights: BTreeMap<String, usize> = BTreeMap::new();
    for word in words(talk.input) {
        weights.insert(stem(word), 1);
    }
    for (rank, finding) in findings.iter().take(6).enumerate() {
        for word in words(finding.pattern) {
            let weight = weights.entry(stem(word)).or_default();
            *weight = (*weight).max(12 - rank);
        }
    }
    let score = |skill: &Skill<'_>| {
        let name: BTreeSet<String> = words(skill.name).map(stem).collect();
        let described: BTreeSet<String> = words(skill.description).map(stem).collect();
        let weight = |word: &String| weights.get(word).copied().unwrap_or(0);
        // The best word of the name: two words of one pattern are worth no more than one of a worse one.
        4 * name.iter().map(weight).max().unwrap_or(0) + described.iter().map(weight).sum::<usize>()
    };
    let scored = talk.skills.iter().map(|skill| (score(skill), skill.name)).filter(|(score, _)| *score > 0);
    // Of equals the first of the index: `max_by_key` would take the last.
    scored.rev().max_by_key(|(score, _)| *score).map(|(_, name)| name)
}

/// The words that say most about an input: names first, then what it repeats; and the worst pattern.
fn query(input: &str, findings: &[Finding<'_>]) -> Option<String> {
    let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (at, word) in words(input).enumerate() {
        // What has digits in it is more often an id or a secret than a name.
        if word.len() <= 40 && !word.contains(|c: char| c.is_ascii_digit()) {
            seen.entry(word).or_insert((0, at)).0 += 1;
        }
    }
    let is_compound = |word: &str| word.chars().skip(1).any(char::is_uppercase) && word.contains(char::is_lowercase);
    let is_name = |word: &str| word.starts_with(char::is_uppercase);
    let worth =
        |word: &str, times: usize| times.min(5) + 6 * usize::from(is_compound(word)) + 2 * usize::from(is_name(word));
    let mut ranked: Vec<(usize, usize, &str)> =
        seen.into_iter().map(|(word, (times, at))| (usize::MAX - worth(word, times), at, word)).collect();
    ranked.sort_unstable();
    let worst = findings.first().map(|finding| finding.pattern);
    let words: Vec<&str> = ranked.into_iter().map(|(_, _, word)| word).take(QUERY_WORDS).chain(worst).collect();
    (!words.is_empty()).then(|| cut(&words.join(" "), QUERY_CHARS))
}

/// Words that are in every text of a kind and tell nothing apart.
const COMMON: [&str; 64] = [
    "about",
    "address",
    "after",
    "also",
    "always",
    "amount",
    "before",
    "between",
    "bool",
    "bytes",
    "calldata",
    "code",
    "const",
    "contract",
    "each",
    "emit",
    "error",
    "event",
    "every",
    "external",
    "false",
    "from",
    "function",
    "have",
    "import",
    "indexed",
    "info",
    "input",
    "interface",
    "internal",
    "into",
    "line",
    "lines",
    "mapping",
    "memory",
    "more",
    "must",
    "only",
    "other",
    "over",
    "payable",
    "pragma",
    "private",
    "public",
    "require",
    "return",
    "returns",
    "self",
    "shall",
    "solidity",
    "string",
    "such",
    "that",
    "their",
    "then",
    "they",
    "this",
    "true",
    "uint",
    "view",
    "warn",
    "when",
    "with",
    "your",
];

/// The words of a text that tell something.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let end = (0..=READ_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = text.get(..end).unwrap_or_default();
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.len() >= 4 && COMMON.binary_search(&word.to_ascii_lowercase().as_str()).is_err())
}

/// A word in lower case and without the endings that only grammar adds.
fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let bare = word.strip_suffix("ies").or_else(|| word.strip_suffix('s')).or_else(|| word.strip_suffix('y'));
    bare.filter(|bare| bare.len() >= 4).map(str::to_owned).unwrap_or(word)
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// With tools that do not say what they are for: the first whose required arguments the input can fill, until one ran.
fn any_other(talk: &Talk<'_>) -> Option<Call> {
    if talk.steps.iter().any(|step| step.is_ok()) {
        return None;
    }
    // What writes is not called: nothing without a mind should. What reaches out is called only where there is nothing else,
    // and never because the others failed: the input would choose the address.
    let unknown = |tool: &&Tool| match tool.purpose {
        None => true,
        Some(ToolPurpose::ReachesOut) => talk.steps.is_empty(),
        Some(_) => false,
    };
    let listing = talk.tools.iter().filter(|tool| tool.purpose == Some(ToolPurpose::ListsSkills));
    let mut tools = talk.tools.iter().filter(unknown).chain(listing).filter(|tool| !talk.tried(&tool.name));
    tools.find_map(|tool| {
        let args: Option<Map<String, Value>> =
            required(tool).map(|name| Some((name.to_owned(), argument(tool, name, talk.input)?))).collect();
        Some(Call { tool: tool.name.clone(), args: args? })
    })
}

/// A value for a required argument, from its name and what the input is.
fn argument(tool: &Tool, name: &str, input: &str) -> Option<Value> {
    let schema = tool.args.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&Value::Null);
    if let Some(only) = schema.get("const") {
        return Some(only.clone());
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.first().cloned();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => Some("string"),
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    match kind {
        Some("string") => {
            let most = bound("maxLength").map_or(GIVEN_CHARS, |most| usize::try_from(most).unwrap_or(GIVEN_CHARS));
            let text = match name.to_ascii_lowercase().as_str() {
                "input" | "text" | "content" | "question" | "prompt" | "message" | "body" | "source" | "code"
                | "document" => cut(input.trim(), most.min(GIVEN_CHARS)),
                "query" | "q" | "search" | "keywords" | "words" | "topic" => cut(&query(input, &[])?, most),
                "url" | "uri" | "link" => url(input).filter(|url| url.len() <= most)?.to_owned(),
                _ => return None,
            };
            let least = bound("minLength").unwrap_or(1);
            (text.chars().count() as u64 >= least).then(|| json!(text))
        }
        Some("integer" | "number") => Some(schema.get("minimum").cloned().unwrap_or_else(|| json!(1))),
        Some("boolean") => Some(json!(false)),
        Some("array") if bound("minItems").unwrap_or(0) == 0 => Some(json!([])),
        _ => None,
    }
}

/// The first address in a text.
fn url(text: &str) -> Option<&str> {
    let at = text.find("https://").or_else(|| text.find("http://"))?;
    let rest = text.get(at..)?;
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | ']' | '`'));
    rest.get(..end.unwrap_or(rest.len())).map(|url| url.trim_end_matches(['.', ',', ';']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_words_are_in_order() {
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn a_query_has_names_and_no_ids() {
        let input = "contract HarborVault { function withdraw() withdraw tok3n99secret }";
        assert_eq!(query(input, &[]).unwrap(), "HarborVault withdraw");
        assert_eq!(query("1 2 3", &[]), None);
        assert_eq!(url("see (https://a.example/x), and"), Some("https://a.example/x"));
    }
}
