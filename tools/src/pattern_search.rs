//! `pattern_search`: the pattern library by name or by words.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use herm::skill::PatternNote;
use herm::tool::{Permission, Tool, ToolContext, ToolData, ToolOutput, ToolPurpose, ToolSpec};
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
            card: ToolSpec::new("pattern_search", description, Permission::Read, arguments::schema::<Args>())
                .for_purpose(ToolPurpose::ExplainsPatterns),
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
    let (text, notes) = match &volume.pattern {
        Ok(pattern) => {
            let body = herm::text::cut(pattern.body.trim().to_owned(), BODY_CHARS);
            (format!("{}\n\n{body}", title(pattern)), vec![note(pattern).with_lines(body.lines())])
        }
        Err(broken) => {
            let text = format!(
                "{} (scan does not use it: {})\n\n{}",
                volume.name,
                broken.reason,
                herm::text::cut(broken.text.clone(), BODY_CHARS)
            );
            (text, Vec::new())
        }
    };
    ToolOutput::new(text, format!("pattern {}", volume.name)).with_data(ToolData::Patterns(notes))
}

fn title(pattern: &Pattern) -> String {
    format!("{} ({}): {}", pattern.slug, pattern.severity.name(), description(pattern))
}

fn description(pattern: &Pattern) -> String {
    herm::text::line(&pattern.description, LINE_CHARS)
}

/// What the title of a pattern says, as data.
fn note(pattern: &Pattern) -> PatternNote {
    PatternNote::new(pattern.slug.as_str(), pattern.severity, &description(pattern))
}

fn list(volumes: &[Arc<Volume>]) -> ToolOutput {
    if volumes.is_empty() {
        return ToolOutput::new("There are no patterns in this brain.", "0 patterns");
    }
    let mut listing = fit::Listing::new(LIST_CHARS);
    let mut notes = Vec::new();
    for volume in volumes {
        let line = match &volume.pattern {
            Ok(pattern) => title(pattern),
            Err(broken) => format!("{} (not usable: {})", volume.name, broken.reason),
        };
        if !listing.add(&line) {
            break;
        }
        notes.extend(volume.pattern.as_ref().ok().map(note));
    }
    let left = volumes.len() - listing.shown();
    let mut text = listing.into_text();
    if left > 0 {
        text.push_str(&format!("[{left} more: find them with `query`]\n"));
    }
    ToolOutput::new(text, fit::count(volumes.len(), "pattern")).with_data(ToolData::Patterns(notes))
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
        return ToolOutput::new(text, "0 patterns").with_data(ToolData::Patterns(Vec::new()));
    }
    let mut notes = Vec::new();
    let mut text = String::new();
    for (_, pattern) in &hits {
        text.push_str(&format!("{}\n", title(pattern)));
        let lines = pattern.body.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let first: Vec<String> = lines.take(FIRST_LINES).map(|line| herm::text::line(line, LINE_CHARS)).collect();
        for line in &first {
            text.push_str(&format!("  {line}\n"));
        }
        notes.push(note(pattern).with_lines(first.iter().map(String::as_str)));
        text.push('\n');
    }
    match found - hits.len() {
        0 => text.push_str("[first lines only: call with `name` for a whole pattern]\n"),
        more => text.push_str(&format!("[first lines only: call with `name` for a whole pattern; {more} more fit]\n")),
    }
    let summary = format!("{} of {}", hits.len(), fit::count(found, "pattern"));
    ToolOutput::new(text, summary).with_data(ToolData::Patterns(notes))
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
    fn the_data_says_what_the_text_shows() {
        let body = "# Stale\n\n**What it is.** Old.\n\n**Fix.** Ask again.\n";
        let volumes = [volume("stale-oracle", "low", "It lies.", body)];
        let mut expected = PatternNote::new("stale-oracle", herm::skill::PatternSeverity::Low, "It lies.");
        assert_eq!(list(&volumes).data, Some(ToolData::Patterns(vec![expected.clone()])));
        (expected.what, expected.fix) = ("Old.".into(), "Ask again.".into());
        // The list leaves headings out.
        assert_eq!(ranked(&volumes, "oracle", 5).data, Some(ToolData::Patterns(vec![expected.clone()])));
        expected.title = Some("Stale".into());
        assert_eq!(whole(&volumes[0]).data, Some(ToolData::Patterns(vec![expected])));
    }

    #[test]
    fn a_misspelt_name_gets_near_ones() {
        let volumes = [volume("reentrancy", "high", "x", "x"), volume("zero-slippage", "high", "x", "x")];
        let error = find(&volumes, "reentrency").unwrap_err();
        assert!(error.hint_text().unwrap().starts_with("near it: reentrancy; "), "{error:?}");
        assert!(find(&volumes, "Zero_Slippage.md").is_ok());
    }
}
