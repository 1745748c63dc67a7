//! What the tools found, joined: hits by pattern, with what the library says of each.

use std::collections::{BTreeMap, BTreeSet};

use super::outline::Outline;
use super::talk::{Step, Talk, is_name};
use crate::skill::{PatternNote, PatternSeverity as Severity};
use herm_agent::backend::ScanHit;

/// Words in the name of a pattern whose lines are never repeated.
const SECRET_WORDS: [&str; 5] = ["secret", "credential", "password", "private-key", "api-key"];

/// A pattern that hit, with all its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding<'a> {
    pub(super) pattern: &'a str,
    /// How bad it is.
    pub(super) severity: Severity,
    /// Its lines that the scan showed, in order; never empty.
    pub(super) lines: Vec<u64>,
    /// How many lines it hits, shown or not.
    pub(super) total: u64,
}

impl Finding<'_> {
    /// The number of the first line that the scan showed.
    pub(super) fn line(&self) -> u64 {
        self.lines.first().copied().unwrap_or(1)
    }
}

/// What there is to say.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) talk: &'a Talk<'a>,
    /// The shape of the input.
    pub(super) outline: Outline<'a>,
    /// The findings, the worst first.
    pub(super) findings: Vec<Finding<'a>>,
    /// How many findings were left out to keep the answer short.
    pub(super) left_out: usize,
    /// The texts of the lines that hit, as they stand in the input.
    pub(super) lines: BTreeMap<u64, &'a str>,
    notes: Vec<&'a PatternNote>,
    secret_lines: BTreeSet<u64>,
}

impl<'a> Report<'a> {
    /// Joins what a conversation holds, with `most` findings.
    pub(super) fn of(talk: &'a Talk<'a>, most: usize) -> Self {
        let hits = hits(&talk.steps);
        let mut findings = findings(talk);
        let left_out = findings.len().saturating_sub(most);
        findings.truncate(most);
        let is_secret = |hit: &&&ScanHit| SECRET_WORDS.iter().any(|word| hit.pattern.contains(word));
        Self {
            outline: Outline(talk.steps.iter().find_map(Step::outline)),
            lines: lines(talk.input, &hits),
            notes: talk.steps.iter().filter_map(Step::notes).flatten().collect(),
            secret_lines: hits.iter().filter(is_secret).map(|hit| hit.line).collect(),
            talk,
            findings,
            left_out,
        }
    }

    /// What the library says of a pattern; the fullest note where several were read.
    pub(super) fn note(&self, pattern: &str) -> Option<&'a PatternNote> {
        self.notes.iter().copied().filter(|note| note.pattern == pattern).max_by_key(|note| note.fix.len())
    }

    /// How many lines hit, over all findings.
    pub(super) fn hits(&self) -> u64 {
        // A tool says what it likes.
        self.findings.iter().fold(0, |sum, finding| sum.saturating_add(finding.total))
    }

    /// Whether a line may be repeated.
    pub(super) fn may_quote(&self, line: u64) -> bool {
        !self.secret_lines.contains(&line)
    }
}

/// The hits of all scans, in their order. What no scan of lines by named patterns could say is left out.
pub(super) fn hits<'a>(steps: &[Step<'a>]) -> Vec<&'a ScanHit> {
    let hits = steps.iter().filter_map(Step::hits).flat_map(|found| &found.hits);
    hits.filter(|hit| hit.line > 0 && is_name(&hit.pattern)).collect()
}

/// The patterns that hit, worst first, each once.
pub(super) fn findings<'a>(talk: &Talk<'a>) -> Vec<Finding<'a>> {
    let counts: BTreeMap<&str, u64> = talk
        .steps
        .iter()
        .filter_map(Step::hits)
        .flat_map(|found| found.counts.iter().map(|(pattern, count)| (pattern.as_str(), *count)))
        .collect();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut findings: Vec<Finding<'a>> = Vec::new();
    for hit in hits(&talk.steps) {
        let place = *places.entry(&hit.pattern).or_insert(findings.len());
        if place == findings.len() {
            findings.push(Finding { pattern: &hit.pattern, severity: hit.severity, lines: Vec::new(), total: 0 });
        }
        findings.get_mut(place).into_iter().for_each(|finding| finding.lines.push(hit.line));
    }
    for finding in &mut findings {
        finding.lines.sort_unstable();
        finding.lines.dedup();
        let shown = finding.lines.len() as u64;
        finding.total = counts.get(finding.pattern).copied().unwrap_or(shown).max(shown);
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// The lines that hit. The scan cuts long ones, so they are read from the input; where that disagrees
/// the scan is believed.
fn lines<'a>(input: &'a str, hits: &[&'a ScanHit]) -> BTreeMap<u64, &'a str> {
    let mut lines: BTreeMap<u64, &'a str> = hits.iter().map(|hit| (hit.line, hit.text.trim())).collect();
    for (number, line) in (1..).zip(input.lines()) {
        if let Some(shown) = lines.get_mut(&number)
            && line.trim().starts_with(*shown)
        {
            *shown = line.trim();
        }
    }
    lines
}
