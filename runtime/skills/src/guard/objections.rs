//! Everything that speaks against a text.

use super::page::Page;
use super::{fold, hidden, phrases};
use crate::redact;

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Objection {
    /// What the text does against the rules, such as "holds a secret".
    pub rule: &'static str,
    /// The words that break it, cut short; never a secret.
    pub words: String,
    /// The line it stands on, from 1; 0 in what front matter says once it is decoded.
    pub line: usize,
    /// What it means for a skill that a person imports. What an agent writes is refused for either.
    pub weight: ObjectionWeight,
}

/// What an objection means for a skill that a person imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectionWeight {
    /// A person should know: an attack is quoted, a key was made up, a phrase has an innocent meaning too.
    Warning,
    /// A secret, or an order that is hidden or meant.
    Refusal,
}

/// More of them say nothing new.
const MOST: usize = 50;

/// Marks of chat templates, and whether in a skill that a person imports they are refused outside of code.
const TEMPLATE_MARKS: [(&str, ObjectionWeight); 9] = [
    ("<|im_start|>", ObjectionWeight::Refusal),
    ("<|im_end|>", ObjectionWeight::Warning),
    ("<|system|>", ObjectionWeight::Refusal),
    ("<|start_header_id|>", ObjectionWeight::Refusal),
    ("<|endoftext|>", ObjectionWeight::Warning),
    ("[inst]", ObjectionWeight::Refusal),
    ("<<sys>>", ObjectionWeight::Refusal),
    ("</s>", ObjectionWeight::Warning),
    ("<|eot_id|>", ObjectionWeight::Warning),
];

/// Marks that begin a message only together with a role.
const ROLE_FOLLOWS: [&str; 2] = ["<|im_start|>", "<|start_header_id|>"];

/// Whether a text begins with a role, whatever is not seen or is markup before it: `**system**`, `<b>system`.
fn begins_with_role(text: &str) -> bool {
    const ENOUGH: usize = 200;
    let head = text.get(..text.floor_char_boundary(ENOUGH)).unwrap_or_default();
    let seen: String = head.chars().filter(|c| !fold::is_unseen(*c)).collect();
    let is_markup = |c: char| c.is_whitespace() || "*_~`#>\\\"'".contains(c);
    let mut rest = seen.trim_start_matches(is_markup);
    // A tag, but no other mark of a template.
    while let Some((_, behind)) =
        rest.strip_prefix('<').filter(|tag| !tag.starts_with('|')).and_then(|tag| tag.split_once('>'))
    {
        rest = behind.trim_start_matches(is_markup);
    }
    let words = fold::words(rest);
    let Some(first) = words.words.first().filter(|word| word.start == 0).map(|word| words.text(word)) else {
        return false;
    };
    let roles = ["system", "user", "assistant", "developer", "tool", "ipython"];
    roles.iter().any(|role| first.starts_with(&fold::fold_word(role)))
}

/// Everything that speaks against a text.
pub fn objections(text: &str) -> Vec<Objection> {
    on_page(text, &Page::new(text))
}

/// Everything that speaks against the source of a program, where an attack in plain letters counts as quoted, as it
/// does in a block of code.
pub(super) fn program_objections(text: &str) -> Vec<Objection> {
    on_page(text, &Page::of_program(text))
}

fn on_page(text: &str, page: &Page<'_>) -> Vec<Objection> {
    let mut all = Gathered::default();
    // What is not seen may stand inside of a key.
    let shown: String;
    let seen = if text.is_ascii() || !text.contains(fold::is_unseen) {
        text
    } else {
        shown = text.chars().filter(|c| !fold::is_unseen(*c)).collect();
        &shown
    };
    let breaks: Vec<usize> = seen.match_indices('\n').map(|(at, _)| at).collect();
    for secret in redact::find(seen) {
        let line = breaks.partition_point(|at| *at < secret.start) + 1;
        let whose = if secret.whose.is_empty() { String::new() } else { format!(" of {}", secret.whose) };
        let weight = if secret.sample { ObjectionWeight::Warning } else { ObjectionWeight::Refusal };
        all.add("holds a secret", format!("{}{whose}", secret.what), line, weight);
    }
    let words = fold::words(text);
    for found in phrases::find(&words) {
        let span = words.words.get(found.first..=found.last).unwrap_or_default();
        let (Some(first), Some(last)) = (span.first(), span.last()) else { continue };
        let is_spelled = span.len() >= 10;
        let is_own_script = |word: &fold::Word| {
            let letters = text.get(word.start..word.end).unwrap_or_default();
            found.phrase.is_cyrillic && letters.chars().all(|c| phrases::is_cyrillic(c) || matches!(c, '\'' | '’'))
        };
        let is_disguised = is_spelled || span.iter().any(|word| word.is_disguised && !is_own_script(word));
        let is_hidden =
            page.is_comment(first.start) && (found.phrase.is_strong || found.phrase.rule == "hides from people");
        let is_meant = found.phrase.is_strong && !page.is_quoted(first.start, last.end);
        let weight =
            if is_disguised || is_hidden || is_meant { ObjectionWeight::Refusal } else { ObjectionWeight::Warning };
        let words = if found.is_in_pieces { "in pieces".to_owned() } else { said(text, first.start, last.end) };
        all.add(found.phrase.rule, words, first.line, weight);
    }
    // Words that are read only by a reader who wants to obey them.
    if let Some(view) = hidden::unescaped(text) {
        let words = fold::words(&view);
        for found in phrases::find(&words).into_iter().filter(|found| found.phrase.is_strong) {
            let line = words.words.get(found.first).map_or(0, |word| word.line);
            if !all.0.iter().any(|known| known.line == line && known.rule == found.phrase.rule) {
                let weight = if page.is_shown(line) { ObjectionWeight::Warning } else { ObjectionWeight::Refusal };
                all.add(found.phrase.rule, "in escapes".to_owned(), line, weight);
            }
        }
    }
    for (line, said) in hidden::decoded(text) {
        let words = fold::words(&said);
        for found in phrases::find(&words).into_iter().filter(|found| found.phrase.is_strong) {
            let weight = if page.is_shown(line) { ObjectionWeight::Warning } else { ObjectionWeight::Refusal };
            all.add(found.phrase.rule, "in base64".to_owned(), line, weight);
        }
    }
    let lower = text.to_ascii_lowercase();
    for (mark, weight) in TEMPLATE_MARKS {
        for (at, _) in lower.match_indices(mark).take(MOST) {
            let line = lower.get(..at).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
            // Struck out, as HTML has it.
            if mark == "</s>" && (line.contains("<s>") || line.contains("<s ")) {
                continue;
            }
            let is_spoken_of =
                ROLE_FOLLOWS.contains(&mark) && !lower.get(at + mark.len()..).is_some_and(begins_with_role);
            let is_quoted = is_spoken_of || page.is_quoted(at, at + mark.len());
            let weight = if is_quoted { ObjectionWeight::Warning } else { weight };
            all.add("fakes a message", mark.to_owned(), page.number(at), weight);
        }
    }
    for hidden in hidden::find(text) {
        let weight = if hidden.is_message { ObjectionWeight::Refusal } else { ObjectionWeight::Warning };
        all.add("hides text", "characters that are not seen".to_owned(), hidden.line, weight);
    }
    all.0.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.line.cmp(&b.line)));
    all.0
}

#[derive(Default)]
struct Gathered(Vec<Objection>);

impl Gathered {
    fn add(&mut self, rule: &'static str, words: String, line: usize, weight: ObjectionWeight) {
        let is_same = |known: &Objection| known.rule == rule && known.words == words && known.line == line;
        // A refusal is never crowded out by warnings.
        let is_full = self.0.iter().filter(|known| known.weight >= weight).count() >= MOST;
        if !is_full && !self.0.iter().any(is_same) {
            self.0.push(Objection { rule, words, line, weight });
        }
    }
}

/// What was said, on one line and cut short.
fn said(text: &str, start: usize, end: usize) -> String {
    const ENOUGH: usize = 60;
    let words = text.get(start..end).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = |c: &char| !c.is_control() && !fold::is_unseen(*c);
    words.chars().filter(shown).take(ENOUGH).collect()
}
