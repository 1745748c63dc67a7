//! `scan`: where the signals of patterns stand in a text, by line.

use std::sync::Arc;

use async_trait::async_trait;
use herm::backend::{ScanHit, ScanHits};
use herm::tool::{Permission, Tool, ToolContext, ToolData, ToolOutput, ToolPurpose, ToolSpec};
use herm::{Error, Result, Slug};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::library::{PatternLibrary, Volume};
use herm::skill::PatternSeverity as Severity;

use crate::pattern::Pattern;
use crate::{arguments, fit, pattern_search};

/// A line that a signal matches.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PatternHit {
    /// The line, counted from 1.
    pub line: usize,
    /// The name of the pattern that hit.
    pub pattern: Slug,
    /// How bad the pattern is.
    pub severity: Severity,
    /// The line's text, cut at 200 characters.
    pub text: String,
}

impl PatternHit {
    fn to_data(&self) -> ScanHit {
        let (pattern, text) = (self.pattern.as_str().to_owned(), self.text.clone());
        ScanHit { line: self.line as u64, severity: self.severity, pattern, text }
    }
}

const SHOWN_CHARS: usize = 200;

/// Runs every signal over every line; one hit a pattern and line, worst first, then by line.
pub fn scan(patterns: &[Pattern], input: &str) -> Vec<PatternHit> {
    let patterns: Vec<&Pattern> = patterns.iter().collect();
    first_hits(&patterns, input, usize::MAX).0
}

/// At most the first `most` hits of each pattern, worst first, then by line; and how many each has.
fn first_hits(patterns: &[&Pattern], input: &str, most: usize) -> (Vec<PatternHit>, Vec<usize>) {
    let mut hits = Vec::new();
    let mut counts = vec![0; patterns.len()];
    for (number, line) in (1..).zip(input.lines()) {
        for (pattern, count) in patterns.iter().zip(&mut counts) {
            if pattern.signals.iter().any(|signal| signal.is_match(line)) {
                *count += 1;
                if *count <= most {
                    hits.push(PatternHit {
                        line: number,
                        pattern: pattern.slug.clone(),
                        severity: pattern.severity,
                        text: line.trim().chars().take(SHOWN_CHARS).collect(),
                    });
                }
            }
        }
    }
    hits.sort_by(|a, b| (a.severity, a.line, &a.pattern).cmp(&(b.severity, b.line, &b.pattern)));
    (hits, counts)
}

const DEFAULT_LIMIT: u32 = 60;
/// How many characters the hits may take: the counts behind them always fit.
const HITS_CHARS: usize = 16_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Only this pattern.
    #[schemars(length(max = 200))]
    pattern: Option<String>,
    /// How many hits at most; 60 unless said.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
}

/// Looks for the patterns of the library in the task's input.
#[derive(Debug)]
pub struct Scan {
    card: ToolSpec,
    library: Arc<PatternLibrary>,
}

impl Scan {
    /// Over a library that other tools share.
    pub fn new(library: Arc<PatternLibrary>) -> Self {
        let description = "Runs the signals of the pattern library over the task's input. Hits come worst first, a \
                           line each: `L12 high reentrancy: text`. A hit is a hint to be confirmed.";
        let card = ToolSpec::new("scan", description, Permission::Read, arguments::schema::<Args>()).with_few_shot(
            "Is anything wrong with this text?",
            json!({}),
            "1 hit: late-fee, line 3: a fee without a limit",
            "a fee without a limit in line 3",
        );
        let card = card.for_purpose(ToolPurpose::Scans);
        Self { card: ToolSpec { output_cap: HITS_CHARS + 8_000, ..card }, library }
    }
}

#[async_trait]
impl Tool for Scan {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        let mut volumes = self.library.volumes(cx).await?;
        if let Some(name) = arguments::given(args.pattern.as_ref()) {
            let wanted = pattern_search::find(&volumes, name)?.name.clone();
            volumes.retain(|volume| volume.name == wanted);
        }
        let input = cx.task().words().to_owned();
        let limit = usize::try_from(args.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX);
        // Without the working copy: a long input must not keep other tools from the brain.
        tokio::task::spawn_blocking(move || report(&volumes, &input, limit))
            .await
            .map_err(|_| Error::internal("the scan did not finish"))
    }
}

fn report(volumes: &[Arc<Volume>], input: &str, limit: usize) -> ToolOutput {
    let mut patterns: Vec<&Pattern> = volumes.iter().filter_map(|volume| volume.pattern.as_ref().ok()).collect();
    patterns.sort_by(|a, b| (a.severity, &a.slug).cmp(&(b.severity, &b.slug)));
    let (hits, counts) = first_hits(&patterns, input, limit);
    let total: usize = counts.iter().sum();
    let lines = fit::count(input.lines().count(), "line");
    let mut data = ScanHits::default();
    let mut text = if patterns.is_empty() {
        "No hits: there are no patterns to look for.\n".to_owned()
    } else if total == 0 {
        format!("No hits: {} looked at {lines}.\n", fit::count(patterns.len(), "pattern"))
    } else {
        let mut listing = fit::Listing::new(HITS_CHARS);
        for hit in hits.iter().take(limit) {
            if !listing.add(&format!("L{} {} {}: {}", hit.line, hit.severity.name(), hit.pattern, hit.text)) {
                break;
            }
            data.hits.push(hit.to_data());
        }
        let shown = listing.shown();
        let mut text = listing.into_text();
        if shown < total {
            text.push_str(&format!(
                "[{shown} of {total} hits shown: use `pattern` to see the others of one pattern]\n"
            ));
        }
        let counted = patterns.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let counted: Vec<String> = counted
            .map(|(pattern, count)| {
                data.counts.insert(pattern.slug.as_str().to_owned(), *count as u64);
                format!("{} {count}", pattern.slug)
            })
            .collect();
        text.push_str(&format!("Hits in {lines}: {}\n", counted.join(", ")));
        text
    };
    let broken: Vec<String> = volumes
        .iter()
        .filter_map(|volume| volume.pattern.as_ref().err().map(|broken| format!("{} ({})", volume.name, broken.reason)))
        .collect();
    if !broken.is_empty() {
        text.push_str(&format!(
            "Not looked for, as they cannot be read: {}\n",
            herm::text::line(&broken.join(", "), 1_000)
        ));
    }
    let of_patterns = counts.iter().filter(|count| **count > 0).count();
    ToolOutput::new(text, format!("{} of {}", fit::count(total, "hit"), fit::count(of_patterns, "pattern")))
        .with_data(ToolData::Hits(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Broken;

    fn pattern(slug: &str, severity: &str, signal: &str) -> Pattern {
        let text =
            format!("---\nname: {slug}\ndescription: d\nseverity: {severity}\nsignals:\n  - '{signal}'\n---\nbody\n");
        Pattern::parse(slug.parse().unwrap(), text.as_bytes()).unwrap()
    }

    fn volumes() -> Vec<Arc<Volume>> {
        let of = |pattern: Pattern| Arc::new(Volume { name: pattern.slug.as_str().to_owned(), pattern: Ok(pattern) });
        vec![of(pattern("low-one", "low", "foo")), of(pattern("high-one", "high", r"ba[rz]\("))]
    }

    #[test]
    fn hits_are_by_line_and_worst_first() {
        let patterns = [pattern("low-one", "low", "foo"), pattern("high-one", "high", r"ba[rz]\(")];
        let found = scan(&patterns, "foo\nbar(1)\n  foo baz(2)\n");
        let seen: Vec<(usize, &str)> = found.iter().map(|hit| (hit.line, hit.pattern.as_str())).collect();
        assert_eq!(seen, [(2, "high-one"), (3, "high-one"), (1, "low-one"), (3, "low-one")]);
    }

    #[test]
    fn a_signal_that_does_not_compile_is_named() {
        let text = b"---\nname: x\ndescription: d\nseverity: low\nsignals:\n  - '(unclosed'\n---\n";
        let error = Pattern::parse("x".parse().unwrap(), text).unwrap_err();
        assert!(error.message().contains("(unclosed"), "{error}");
    }

    #[test]
    fn the_report_has_the_hits_and_then_the_counts() {
        let output = report(&volumes(), "foo\nbar(1)\n  foo baz(2)\n", 3);
        assert_eq!(
            output.text,
            "L2 high high-one: bar(1)\nL3 high high-one: foo baz(2)\nL1 low low-one: foo\n\
             [3 of 4 hits shown: use `pattern` to see the others of one pattern]\n\
             Hits in 3 lines: high-one 2, low-one 2\n"
        );
        assert_eq!(output.summary, "4 hits of 2 patterns");
        let hit = |line, severity, pattern: &str, text: &str| ScanHit {
            line,
            severity,
            pattern: pattern.into(),
            text: text.into(),
        };
        let expected = ScanHits {
            hits: vec![
                hit(2, Severity::High, "high-one", "bar(1)"),
                hit(3, Severity::High, "high-one", "foo baz(2)"),
                hit(1, Severity::Low, "low-one", "foo"),
            ],
            counts: [("high-one".to_owned(), 2), ("low-one".to_owned(), 2)].into(),
        };
        assert_eq!(output.data, Some(ToolData::Hits(expected)));
    }

    #[test]
    fn nothing_found_is_said_plainly() {
        assert_eq!(report(&volumes(), "x\ny", 60).text, "No hits: 2 patterns looked at 2 lines.\n");
        assert_eq!(report(&[], "x\ny", 60).text, "No hits: there are no patterns to look for.\n");
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_one_line_and_stops_nothing() {
        let mut volumes = volumes();
        let broken = Broken { reason: "the signal \"(\" is no expression".into(), text: String::new() };
        volumes.push(Arc::new(Volume { name: "broken".into(), pattern: Err(broken) }));
        let output = report(&volumes, "foo", 60);
        let last = output.text.lines().last().unwrap();
        assert!(output.text.starts_with("L1 low low-one: foo\n") && last.contains("broken (the signal"), "{output:?}");
    }

    #[test]
    fn a_flood_of_hits_stays_within_the_cap() {
        let input = format!("foo bar({})\n", "x".repeat(300)).repeat(5_000);
        let output = report(&volumes(), &input, 200);
        assert!(output.text.chars().count() < 24_000);
        assert!(output.text.ends_with("Hits in 5000 lines: high-one 5000, low-one 5000\n"));
    }
}
