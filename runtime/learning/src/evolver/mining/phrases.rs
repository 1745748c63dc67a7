//! What a text is about, by words and shapes alone. English and Chinese.

use serde_json::Value;

use crate::evolver::failure;

/// Where the words of a JSON result are looked for, best first.
const SAYING: [&str; 6] = ["summary", "text", "output", "content", "error", "exception"];
/// How deep a result is opened.
const MAX_DEPTH: usize = 8;
/// How many entries of a list of results are read.
const MAX_RESULTS: usize = 5;

/// Words that a skill has grown to its bounds.
const CAP: [&str; 12] = [
    "near cap",
    "near-cap",
    "near the cap",
    "over cap",
    "over-cap",
    "over the cap",
    "above the cap",
    "hard cap",
    "soft cap",
    "size cap",
    "接近上限",
    "超过上限",
];
/// The same, where the text speaks of a skill at all.
const CAP_OF_SKILL: [&str; 9] = [
    "size limit",
    "character limit",
    "near the limit",
    "over the limit",
    "exceeds the limit",
    "too large",
    "too long",
    "过大",
    "过长",
];

/// Beginnings of a sentence that lays down a rule.
const RULE_STARTS: [&str; 14] = [
    "never ",
    "always ",
    "do not ",
    "don't ",
    "don’t ",
    "must never ",
    "remember to ",
    "remember that ",
    "remember: ",
    "from now on",
    "under no circumstances",
    "prefer ",
    "policy: ",
    "safety: ",
];
/// What may stand before it.
const RULE_LEADS: [&str; 9] =
    ["please ", "rule: ", "policy: ", "safety: ", "note: ", "important: ", "user: ", "and ", "so "];
/// Phrases that lay down a rule wherever they stand.
const RULES: [&str; 26] = [
    "user prefers",
    "users prefer",
    "the user wants",
    "without approval",
    "without asking",
    "without permission",
    "without confirmation",
    "without human review",
    "requires approval",
    "require approval",
    "requires human approval",
    "require human approval",
    "approval before",
    "ask before",
    "ask the user before",
    "confirm before",
    "confirmation before",
    "you must not",
    "agents must not",
    "we must not",
    "agent must not",
    "safety policy",
    "safety rule",
    "memory policy",
    "standing instruction",
    "should never",
];
/// The same in Chinese, where a rule has no fixed place.
const RULES_ZH: [&str; 22] = [
    "永远不要",
    "永远不能",
    "绝不",
    "决不",
    "禁止",
    "严禁",
    "不得",
    "务必",
    "切勿",
    "请勿",
    "不要",
    "必须先",
    "必须经过",
    "未经",
    "先确认",
    "需要批准",
    "需经批准",
    "记住",
    "从现在起",
    "以后都",
    "用户偏好",
    "安全策略",
];

/// Words that put things in order.
const STEP_WORDS: [&str; 11] = [
    "first",
    "firstly",
    "then",
    "next",
    "finally",
    "afterwards",
    "lastly",
    "second",
    "third",
    "subsequently",
    "before",
];

/// The words of a result that is JSON, and whether its structure says that it failed. A text that is
/// not JSON is itself.
pub(super) fn unwrap(text: &str) -> (String, bool) {
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str::<Value>(trimmed)
    {
        let said = saying(&value, 0).unwrap_or_else(|| trimmed.to_owned());
        return (said, failure::structure(&value).unwrap_or(false));
    }
    (trimmed.to_owned(), false)
}

fn saying(value: &Value, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    match value {
        Value::String(text) => {
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        }
        Value::Array(many) => {
            let said: Vec<String> = many.iter().take(MAX_RESULTS).filter_map(|one| saying(one, depth + 1)).collect();
            (!said.is_empty()).then(|| said.join("\n"))
        }
        Value::Object(fields) => {
            let named = SAYING.iter().chain(&["results"]);
            named.filter_map(|name| fields.get(*name)).find_map(|value| saying(value, depth + 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The beginning of a text in lower case.
fn lower(text: &str) -> String {
    text.chars().take(failure::JUDGED_CHARS).flat_map(char::to_lowercase).collect()
}

fn has_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// At least two lines that begin with a number and a bar: a file as a tool showed it.
pub(super) fn is_listing(text: &str) -> bool {
    let is_numbered = |line: &&str| {
        let line = line.trim_start();
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && line.get(digits..).is_some_and(|rest| rest.starts_with('|'))
    };
    text.lines().filter(is_numbered).take(2).count() == 2
}

/// Whether the text says that a skill is at its bounds.
pub(super) fn speaks_of_cap(text: &str) -> bool {
    let text = lower(text);
    let is_of_skill = text.contains("skill") || text.contains("技能");
    has_any(&text, &CAP) || (is_of_skill && has_any(&text, &CAP_OF_SKILL))
}

/// Whether the text lays down a rule for everything that follows.
pub(super) fn is_policy(text: &str) -> bool {
    let text = lower(text);
    if has_any(&text, &RULES) || has_any(&text, &RULES_ZH) {
        return true;
    }
    // Sentences: after a line end, a full stop with a space, or a semicolon.
    let sentences = text.split(['\n', ';', '!']).flat_map(|line| line.split(". "));
    sentences.into_iter().any(|sentence| {
        let mut sentence = sentence.trim_start_matches(|c: char| c.is_whitespace() || "-*>#\"'“`•".contains(c));
        while let Some(rest) = RULE_LEADS.iter().find_map(|lead| sentence.strip_prefix(lead)) {
            if RULE_STARTS.iter().any(|start| sentence.starts_with(start)) {
                return true;
            }
            sentence = rest.trim_start();
        }
        RULE_STARTS.iter().any(|start| sentence.starts_with(start))
    })
}

/// Whether the text is a way to do something: numbered steps, words of order around a command, or several
/// commands one after the other.
pub(super) fn is_procedure(text: &str) -> bool {
    let text = lower(text);
    let commands = commands(&text);
    let mut ordered: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| STEP_WORDS.contains(w)).collect();
    ordered.sort_unstable();
    ordered.dedup();
    has_numbered_steps(&text) || commands >= 2 || (ordered.len() >= 2 && commands >= 1) || is_chinese_procedure(&text)
}

/// Two steps whose numbers follow each other: `1.`, `2)`, `step 3`.
fn has_numbered_steps(text: &str) -> bool {
    let mut last: Option<u32> = None;
    let mut after_step = false;
    for word in text.split_whitespace() {
        let number = match word.strip_suffix(['.', ')', ':', '、']) {
            Some(number) => number.parse::<u32>().ok(),
            None if after_step => word.parse::<u32>().ok(),
            None => None,
        };
        after_step = word == "step";
        let Some(number) = number.filter(|number| *number < 100) else { continue };
        if last.is_some_and(|last| number == last + 1) {
            return true;
        }
        last = Some(number);
    }
    false
}

/// How many pieces between single backticks look like a command: two words, or a path.
fn commands(text: &str) -> usize {
    let pieces = text.split('`').collect::<Vec<_>>();
    // Every second piece stands between backticks; one without its closing backtick does not.
    let closed = pieces.len().saturating_sub(1) / 2;
    let inside = pieces.iter().skip(1).step_by(2).take(closed);
    inside.filter(|piece| !piece.contains('\n') && (piece.trim().contains(' ') || piece.contains('/'))).count()
}

fn is_chinese_procedure(text: &str) -> bool {
    let steps = ["第一步", "第二步", "第三步", "步骤一", "步骤二", "步骤1", "步骤2", "步骤 1", "步骤 2"];
    let order = ["首先", "然后", "接着", "随后", "最后", "其次"];
    let count = |words: &[&str]| words.iter().filter(|word| text.contains(**word)).count();
    count(&steps) >= 2 || count(&order) >= 2 || (text.contains('先') && text.contains('再') && commands(text) >= 1)
}

/// Whether the text will mean nothing tomorrow: nothing at all, a number of an issue, a commit, the
/// state of a pull request.
pub(super) fn is_passing(text: &str) -> bool {
    let text = lower(text);
    let text = text.trim();
    let is_number = text.strip_prefix('#').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let is_commit = (7..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text.bytes().any(|byte| byte.is_ascii_digit());
    let has_word = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|one| one == word);
    let is_request = has_word("pr") || text.contains("pull request");
    text.is_empty()
        || is_number
        || is_commit
        || (is_request && has_word("merged"))
        || has_word("todo")
        || has_word("wip")
}
