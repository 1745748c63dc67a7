//! A skill's new text, worked out in full before anything is written: with the block inside, or with a
//! short block and a file beside the skill where the text would grow too long, or not at all.

use super::Brief;
use super::block::{self, BlockLines, BlockMatch, Form, Rendered};
use super::lessons::FailureLesson;
use super::variants::VariantSpec;
use crate::skill::{Document, Rule, rules};

/// Up to here the block stands in the skill, in characters of the whole file.
pub const SOFT_CAP: usize = 90_000;
/// No skill grows past this, in characters of the whole file.
pub const HARD_CAP: usize = rules::MAX_SKILL_CHARS;
/// The file beside a skill that holds what does not fit. There is one, and a new one takes its place.
pub const SUPPORT_PATH: &str = "references/curator-evolver-auto.md";
/// What such a file begins with; a file of that name without it belongs to someone else.
pub const SUPPORT_HEAD: &str = "# Auto-curated evidence of `";
/// The largest such file.
pub const MAX_SUPPORT_BYTES: usize = 256 * 1024;
/// How many characters of a row's text stand in it.
const SUPPORT_ROW_CHARS: usize = 500;

/// Where the evidence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeStrategy {
    /// The rows stand in the skill itself.
    Inline,
    /// In a file beside it, with a pointer in the skill.
    Spilled,
}

/// The file beside the skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportFile {
    /// Where it is, from the skill's directory.
    pub path: &'static str,
    /// What is in it.
    pub content: String,
}

/// A skill's new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedSkill {
    /// The whole main file.
    pub content: String,
    /// Its length in characters.
    pub content_chars: usize,
    /// Where the evidence stands.
    pub size: SizeStrategy,
    /// The file beside it, where there is one.
    pub support: Option<SupportFile>,
    /// Whether the main file differs from what it was.
    pub changed: bool,
    /// Whether a file from an earlier pass is there and no longer needed.
    pub drop_support: bool,
}

impl PreparedSkill {
    /// Whether there is nothing to write: neither the main file nor the one beside it, whose text so far
    /// is given as `support`.
    pub fn is_settled(&self, support: Option<&str>) -> bool {
        !self.changed && support == self.support.as_ref().map(|file| file.content.as_str())
    }
}

/// Nothing failed again and again: a list of calls that went well helps nobody.
pub const NOTHING_TO_SAY: &str = "nothing-to-say";

/// Why a skill's text is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct PrepareSkip {
    /// `skill-content-hard-cap`, what is wrong with the markers (`markers-…`), or [`NOTHING_TO_SAY`].
    pub reason: &'static str,
}

/// The skill's new text; without a lesson it is not written. `has_support` says whether a file from an earlier pass lies
/// beside the main file.
pub fn prepare(
    text: &str,
    brief: &Brief<'_>,
    lessons: &[FailureLesson],
    spec: &VariantSpec,
    has_support: bool,
) -> Result<PreparedSkill, PrepareSkip> {
    let subject = Subject::new(text, brief, lessons, has_support);
    let (prepared, _) = subject.prepare(spec)?;
    Ok(subject.with_support(prepared))
}

/// What all variants of one skill's text share, so that none of it is done twice.
pub(super) struct Subject<'a> {
    text: &'a str,
    brief: &'a Brief<'a>,
    lessons: &'a [FailureLesson],
    has_support: bool,
    pub(super) chars: usize,
    found: BlockMatch,
    notes: BlockLines<'a>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(text: &'a str, brief: &'a Brief<'a>, lessons: &'a [FailureLesson], has_support: bool) -> Self {
        let notes = BlockLines::new(brief.rows);
        let found = match block::find(text) {
            BlockMatch::One(range) if !block::is_ours(text, &range) => BlockMatch::Broken("markers-not-ours"),
            found => found,
        };
        Self { text, brief, lessons, has_support, chars: text.chars().count(), found, notes }
    }

    /// The new text, without the file beside it, and what of the evidence is in it.
    pub(super) fn prepare(&self, spec: &VariantSpec) -> Result<(PreparedSkill, Rendered), PrepareSkip> {
        if self.chars > HARD_CAP {
            return Err(PrepareSkip { reason: "skill-content-hard-cap" });
        }
        if let BlockMatch::Broken(reason) = self.found {
            return Err(PrepareSkip { reason });
        }
        if self.lessons.is_empty() {
            return Err(PrepareSkip { reason: NOTHING_TO_SAY });
        }
        if !spec.force_spill {
            let (content, rendered) = self.with_block(spec, Form::Full)?;
            let chars = content.chars().count();
            if chars <= SOFT_CAP {
                return Ok((self.prepared(content, chars, SizeStrategy::Inline), rendered));
            }
        }
        let (content, rendered) = self.with_block(spec, Form::Compact)?;
        let chars = content.chars().count();
        if chars > HARD_CAP {
            return Err(PrepareSkip { reason: "skill-content-hard-cap" });
        }
        Ok((self.prepared(content, chars, SizeStrategy::Spilled), rendered))
    }

    fn with_block(&self, spec: &VariantSpec, form: Form) -> Result<(String, Rendered), PrepareSkip> {
        let rendered = block::rendered(self.brief, self.lessons, spec, form, &self.notes);
        let content = block::put_at(self.text, &self.found, &rendered.text).map_err(|reason| PrepareSkip { reason })?;
        Ok((content, rendered))
    }

    fn prepared(&self, content: String, content_chars: usize, size: SizeStrategy) -> PreparedSkill {
        let drop_support = self.has_support && size == SizeStrategy::Inline;
        let changed = content != self.text;
        PreparedSkill { content, content_chars, size, support: None, changed, drop_support }
    }

    /// Adds the file beside the skill, where the text points at one.
    pub(super) fn with_support(&self, mut prepared: PreparedSkill) -> PreparedSkill {
        if prepared.size == SizeStrategy::Spilled {
            prepared.support = Some(SupportFile { path: SUPPORT_PATH, content: self.support() });
        }
        prepared
    }

    /// Everything that is known: the counts, the lessons and every row, as far as there is room.
    fn support(&self) -> String {
        let mut page = format!("{SUPPORT_HEAD}{}`\n\n", self.brief.skill.as_str());
        page.push_str("Written from records of tool calls, without anyone's review: observations, never orders.\n\n");
        page.push_str(&block::bullets(self.brief));
        page.push('\n');
        if !self.lessons.is_empty() {
            page.push_str("\n## Recurring problems\n\n");
            for lesson in self.lessons {
                page.push_str(&format!("- {}\n", lesson.sentence()));
            }
        }
        page.push_str("\n## Evidence, newest first\n\n");
        for (at, (_, evidence)) in self.brief.rows.iter().enumerate() {
            let line = block::row_line(evidence, SUPPORT_ROW_CHARS);
            // Room for the last line is kept.
            if page.len() + line.len() + 64 > MAX_SUPPORT_BYTES {
                page.push_str(&format!(
                    "- and {} older ones, for which there is no room\n",
                    self.brief.rows.len() - at
                ));
                break;
            }
            page.push_str(&line);
            page.push('\n');
        }
        page
    }
}

/// What of a front matter's flaws keeps it from being a YAML mapping.
const NOT_A_MAPPING: [Rule; 6] = [
    Rule::FrontMatterMissing,
    Rule::FrontMatterUnclosed,
    Rule::FrontMatterTooLarge,
    Rule::MergeConflict,
    Rule::InvalidYaml,
    Rule::UnquotedColon,
];

/// The structural check of a skill's text: short enough, text, markers that are one pair or none, and
/// front matter, where it begins with some, that is a YAML mapping. The message says what is wrong.
pub fn structural(text: &str) -> Result<(), String> {
    let chars = text.chars().count();
    if chars > HARD_CAP {
        return Err(format!("the skill has {chars} characters; the most is {HARD_CAP}"));
    }
    if let BlockMatch::Broken(reason) = block::find(text) {
        return Err(format!("the block's markers are not one pair: {reason}"));
    }
    let document = Document::read(text.as_bytes()).map_err(|unreadable| unreadable.reason)?;
    if !text.trim_start_matches('\u{feff}').starts_with("---") {
        return Ok(());
    }
    if let Some(flaw) = document.findings().into_iter().find(|finding| NOT_A_MAPPING.contains(&finding.rule)) {
        return Err(format!("the front matter is not a YAML mapping: {}", flaw.message));
    }
    match document.keys().next() {
        Some(_) => Ok(()),
        None => Err("the front matter is not a YAML mapping: it has no keys".to_owned()),
    }
}

#[cfg(test)]
mod tests;
