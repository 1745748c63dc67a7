//! `pattern_search`: the pattern library by name or by words.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
use herm::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::library::{PatternLibrary, Volume};
use crate::pattern::Pattern;
use crate::{arguments, fit, near, skill_names};

const DEFAULT_LIMIT: u32 = 5;
const BODY_CHARS: usize = 14_000;
const LIST_CHARS: usize = 15_000;
/// How much of each hit is shown.
const FIRST_LINES: usize = 6;
const LINE_CHARS: usize = 240;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// A pattern's name, as in a hit of scan: its whole text.
    #[schemars(length(max = 200))]
    name: Option<String>,
    /// Words to look for in names, descriptions and texts.
    #[schemars(length(max = 500))]
    query: Option<String>,
    /// How many hits of a query at most; 5 unless said.
    #[schemars(range(min = 1, max = 20))]
    limit: Option<u32>,
}

/// Searches the pattern library.
#[derive(Debug)]
pub struct PatternSearch {
    card: ToolSpec,
    library: Arc<PatternLibrary>,
}

impl PatternSearch {
    /// Over a library that other tools share.
    pub fn new(library: Arc<PatternLibrary>) -> Self {
        let description = "Reads the pattern library: with `name` one pattern in full (what it is, how to confirm it, \
                           how to fix it), with `query` the patterns that fit some words, with neither the list.";
        Self {
            card: ToolSpec::new("pattern_search", description, Permission::Read, arguments::schema::<Args>()),
            library,
        }
    }
}

#[async_trait]
impl Tool for PatternSearch {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        let volumes = self.library.volumes(cx).await?;
        let limit = usize::try_from(args.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX);
        match (arguments::given(args.name.as_ref()), arguments::given(args.query.as_ref())) {
            (Some(name), None) => find(&volumes, name).map(whole),
            (Some(name), Some(query)) => {
                Ok(find(&volumes, name).map_or_else(|_| ranked(&volumes, query, limit), whole))
            }
            (None, Some(query)) => Ok(ranked(&volumes, query, limit)),
            (None, None) => Ok(list(&volumes)),
        }
    }
}

/// The volume of a name.
pub(crate) fn find<'v>(volumes: &'v [Arc<Volume>], name: &str) -> Result<&'v Volume> {
    let slug = skill_names::slug(name).map(|slug| slug.as_str().to_owned()).unwrap_or_else(|_| name.to_owned());
    volumes.iter().find(|volume| volume.name == slug).map(Arc::as_ref).ok_or_else(|| {
        let names = volumes.iter().map(|volume| volume.name.as_str());
        let all = "pattern_search without arguments has the names";
        Error::not_found(format!("there is no pattern {slug:?}")).hint(near::hint(&slug, names, all))
    })
}

fn whole(volume: &Volume) -> ToolOutput {
    let text = match &volume.pattern {
        Ok(pattern) => format!("{}\n\n{}", title(pattern), herm::text::cut(pattern.body.trim().to_owned(), BODY_CHARS)),
        Err(broken) => {
            format!(
                "{} (scan does not use it: {})\n\n{}",
                volume.name,
                broken.reason,
                herm::text::cut(broken.text.clone(), BODY_CHARS)
            )
        }
    };
    ToolOutput::new(text, format!("pattern {}", volume.name))
}

fn title(pattern: &Pattern) -> String {
    format!("{} ({}): {}", pattern.slug, pattern.severity.name(), herm::text::line(&pattern.description, LINE_CHARS))
}

fn list(volumes: &[Arc<Volume>]) -> ToolOutput {
    if volumes.is_empty() {
        return ToolOutput::new("There are no patterns in this brain.", "0 patterns");
    }
    let mut listing = fit::Listing::new(LIST_CHARS);
    for volume in volumes {
        let line = match &volume.pattern {
            Ok(pattern) => title(pattern),
            Err(broken) => format!("{} (not usable: {})", volume.name, broken.reason),
        };
        if !listing.add(&line) {
            break;
        }
    }
    let left = volumes.len() - listing.shown();
    let mut text = listing.into_text();
    if left > 0 {
        text.push_str(&format!("[{left} more: find them with `query`]\n"));
    }
    ToolOutput::new(text, fit::count(volumes.len(), "pattern"))
}

fn ranked(volumes: &[Arc<Volume>], query: &str, limit: usize) -> ToolOutput {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let patterns = volumes.iter().filter_map(|volume| volume.pattern.as_ref().ok());
    let mut hits: Vec<(usize, &Pattern)> =
        patterns.map(|pattern| (score(pattern, &words), pattern)).filter(|(score, _)| *score > 0).collect();
    hits.sort_by_key(|(score, pattern)| (Reverse(*score), pattern.severity, pattern.slug.clone()));
    let found = hits.len();
    hits.truncate(limit);
    if hits.is_empty() {
        let text = "No pattern fits these words. Call without arguments for the list.";
        return ToolOutput::new(text, "0 patterns");
    }
    let mut text = String::new();
    for (_, pattern) in &hits {
        text.push_str(&format!("{}\n", title(pattern)));
        let lines = pattern.body.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        for line in lines.take(FIRST_LINES) {
            text.push_str(&format!("  {}\n", herm::text::line(line, LINE_CHARS)));
        }
        text.push('\n');
    }
    match found - hits.len() {
        0 => text.push_str("[first lines only: call with `name` for a whole pattern]\n"),
        more => text.push_str(&format!("[first lines only: call with `name` for a whole pattern; {more} more fit]\n")),
    }
    ToolOutput::new(text, format!("{} of {}", hits.len(), fit::count(found, "pattern")))
}

/// How well a pattern fits: every word counts once, most where it is in the name.
fn score(pattern: &Pattern, words: &[&str]) -> usize {
    let description = pattern.description.to_lowercase();
    let body = pattern.body.to_lowercase();
    let name = pattern.slug.as_str();
    let of_word = |word: &&str| {
        if name.split('-').any(|part| part == *word) {
            12
        } else if name.contains(word) {
            8
        } else if description.contains(word) {
            4
        } else {
            usize::from(body.contains(word))
        }
    };
    words.iter().map(of_word).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(slug: &str, severity: &str, description: &str, body: &str) -> Arc<Volume> {
        let text = format!("---\nname: {slug}\ndescription: {description}\nseverity: {severity}\n---\n{body}\n");
        let pattern = Pattern::parse(slug.parse().unwrap(), text.as_bytes()).unwrap();
        Arc::new(Volume { name: slug.to_owned(), pattern: Ok(pattern) })
    }

    #[test]
    fn a_name_outranks_a_description_and_that_a_body() {
        let volumes = [
            volume("in-body", "critical", "x", "about oracle prices"),
            volume("in-text", "low", "An oracle lies.", "x"),
            volume("stale-oracle", "low", "x", "x"),
        ];
        let found = ranked(&volumes, "Oracle!", 2);
        let names: Vec<&str> = found.text.lines().filter(|line| line.contains("):")).collect();
        assert_eq!(names, ["stale-oracle (low): x", "in-text (low): An oracle lies."]);
        assert!(found.text.ends_with("; 1 more fit]\n") && found.summary == "2 of 3 patterns");
        assert_eq!(ranked(&volumes, "?!", 5).summary, "0 patterns");
    }

    #[test]
    fn a_misspelt_name_gets_near_ones() {
        let volumes = [volume("reentrancy", "high", "x", "x"), volume("zero-slippage", "high", "x", "x")];
        let error = find(&volumes, "reentrency").unwrap_err();
        assert!(error.hint_text().unwrap().starts_with("near it: reentrancy; "), "{error:?}");
        assert!(find(&volumes, "Zero_Slippage.md").is_ok());
    }
}
