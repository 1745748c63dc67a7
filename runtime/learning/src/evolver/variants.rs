//! Variants of a block: up to four ways to say the same, and a rule that picks one.
//!
//! The rule counts points, with no model and no clock, so the same evidence always picks the same one:
//!
//! | what | points |
//! |---|---|
//! | the variant is skipped | −1 000 000 |
//! | it stands in the skill and not in a file beside it | +100 |
//! | a lesson it states | +3 each |
//! | a different failure among the rows it shows | +2 each |
//! | a row it shows | +1 each, at most 5 |
//! | 1 000 characters below the hard cap | +1 each, at most 10 |
//! | 1 000 characters by which the text changes | −1 each, at most 20 |
//! | 100 characters above the soft cap | −1 each |
//!
//! Size alone would always pick the variant that says least, so what is said counts too: a row is worth
//! more than the space it takes, and a failure that no other shown row tells of is worth more than a
//! row. What stands in the skill beats what is beside it whatever else counts. Of equals the
//! variant with the lowest index wins.

use std::collections::BTreeSet;

use super::Brief;
use super::block::Rendered;
use super::lessons::FailureLesson;
use super::prepare::{HARD_CAP, PrepareSkip, PreparedSkill, SOFT_CAP, SUPPORT_PATH, SizeStrategy, Subject};
use crate::memory::EvidenceStatus;

/// What the guidance begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guidance {
    /// The reader shall check results first.
    VerifyFirst,
    /// What the rows show.
    EvidenceFirst,
    /// What went wrong; rows that failed stand first, too.
    ErrorsFirst,
}

/// How a block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct VariantSpec {
    /// Its place among the variants.
    #[serde(skip)]
    pub index: usize,
    /// The name that reports have for it.
    #[serde(skip)]
    pub name: &'static str,
    /// How many rows it shows.
    pub evidence_limit: usize,
    /// What its guidance begins with.
    #[serde(rename = "guidance_style")]
    pub guidance: Guidance,
    /// Whether the evidence goes to a file beside the skill even where it would fit.
    #[serde(rename = "force_spillover")]
    pub force_spill: bool,
}

/// The ways to write a block, the default first.
pub const SPECS: [VariantSpec; 4] = [
    VariantSpec::DEFAULT,
    VariantSpec {
        index: 1,
        name: "compact-evidence-first",
        evidence_limit: 3,
        guidance: Guidance::EvidenceFirst,
        force_spill: false,
    },
    VariantSpec {
        index: 2,
        name: "wide-errors-first",
        evidence_limit: 8,
        guidance: Guidance::ErrorsFirst,
        force_spill: false,
    },
    VariantSpec {
        index: 3,
        name: "spillover-minimal-inline",
        evidence_limit: 1,
        guidance: Guidance::VerifyFirst,
        force_spill: true,
    },
];

impl VariantSpec {
    /// How a block is written where nothing else is asked for.
    pub const DEFAULT: VariantSpec = VariantSpec {
        index: 0,
        name: "default-verify-first",
        evidence_limit: 5,
        guidance: Guidance::VerifyFirst,
        force_spill: false,
    };
}

/// One way to write a skill's new text, and what it is worth.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct Variant {
    /// Its place among the variants.
    pub index: usize,
    /// The name that reports have for it.
    pub name: &'static str,
    /// How it is written.
    pub spec: VariantSpec,
    /// Where the evidence stands; nothing where it is skipped.
    pub size_strategy: Option<SizeStrategy>,
    /// Why it cannot be written.
    pub skipped_reason: Option<&'static str>,
    /// How long the main file would be, in characters.
    pub content_chars: usize,
    /// The files beside the skill that it has.
    pub support_files: Vec<&'static str>,
    /// What it is worth.
    pub score: i64,
    /// What that is made of.
    pub score_breakdown: Vec<Points>,
    /// Whether it is the one that is written.
    pub selected: bool,
    /// The text itself. Only the selected variant carries the text of the file beside the skill: the
    /// others would make every row harmless for nothing.
    #[serde(skip)]
    pub prepared: Option<PreparedSkill>,
}

/// A part of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Points {
    /// Which rule of the table gives the points.
    pub what: &'static str,
    /// How many points it gives; negative ones count against the variant.
    pub points: i64,
}

/// The first `n` variants of a skill's new text, one to four, with the best of them selected.
pub fn generate(text: &str, brief: &Brief<'_>, lessons: &[FailureLesson], has_support: bool, n: usize) -> Vec<Variant> {
    let subject = Subject::new(text, brief, lessons, has_support);
    let specs = SPECS.iter().take(n.max(1));
    let mut variants: Vec<_> = specs.map(|spec| variant(&subject, brief, spec)).collect();
    let best = select(&variants);
    if let Some(best) = variants.get_mut(best) {
        best.selected = true;
        best.prepared = best.prepared.take().map(|prepared| subject.with_support(prepared));
    }
    variants
}

/// The place of the best variant: the highest score, and of equal ones the lowest index.
pub fn select(variants: &[Variant]) -> usize {
    let best = variants.iter().enumerate().max_by_key(|(at, variant)| (variant.score, std::cmp::Reverse(*at)));
    best.map_or(0, |(at, _)| at)
}

fn variant(subject: &Subject<'_>, brief: &Brief<'_>, spec: &VariantSpec) -> Variant {
    let outcome = subject.prepare(spec);
    let score_breakdown = match &outcome {
        Err(_) => vec![Points { what: "skipped", points: -1_000_000 }],
        Ok((prepared, rendered)) => points(prepared, rendered, brief, subject.chars),
    };
    let (skipped_reason, prepared) = match outcome {
        Err(PrepareSkip { reason }) => (Some(reason), None),
        Ok((prepared, _)) => (None, Some(prepared)),
    };
    let size_strategy = prepared.as_ref().map(|prepared| prepared.size);
    Variant {
        index: spec.index,
        name: spec.name,
        spec: *spec,
        size_strategy,
        skipped_reason,
        content_chars: prepared.as_ref().map_or(subject.chars, |prepared| prepared.content_chars),
        support_files: size_strategy
            .filter(|size| *size == SizeStrategy::Spilled)
            .map(|_| vec![SUPPORT_PATH])
            .unwrap_or_default(),
        score: score_breakdown.iter().map(|part| part.points).sum(),
        score_breakdown,
        selected: false,
        prepared,
    }
}

/// What a variant is worth, part by part; parts that count for nothing are left out.
fn points(prepared: &PreparedSkill, rendered: &Rendered, brief: &Brief<'_>, chars_before: usize) -> Vec<Points> {
    let shown = || rendered.shown.iter().filter_map(|at| brief.rows.get(*at));
    let failures: BTreeSet<(&str, String)> = shown()
        .filter(|(_, evidence)| evidence.status != EvidenceStatus::Ok)
        .map(|(_, evidence)| (evidence.tool.as_str(), crate::text::class(&evidence.summary)))
        .collect();
    let chars = prepared.content_chars;
    let parts = [
        ("inline", usize::from(prepared.size == SizeStrategy::Inline) * 100, 1),
        ("lessons", rendered.lessons * 3, 1),
        ("different-failures", failures.len() * 2, 1),
        ("rows", rendered.shown.len().min(5), 1),
        ("slack", (HARD_CAP.saturating_sub(chars) / 1000).min(10), 1),
        ("change", (chars.abs_diff(chars_before) / 1000).min(20), -1),
        ("over-soft-cap", chars.saturating_sub(SOFT_CAP) / 100, -1),
    ];
    let parts = parts.into_iter().filter(|(_, count, _)| *count > 0);
    parts.map(|(what, count, sign)| Points { what, points: i64::try_from(count).unwrap_or(i64::MAX) * sign }).collect()
}

#[cfg(test)]
mod tests;
