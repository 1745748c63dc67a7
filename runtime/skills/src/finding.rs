//! What was found wrong with a skill file, in a shape that a person, a model and a program can all act on.
//!
//! Every [`Rule`] has one severity, kept here and nowhere else, so the lenient reader and the strict rules cannot
//! disagree about how bad a thing is. A [`Finding`] always says what to write instead.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How many findings of one rule are kept: a hostile file must not turn into a hundred megabytes of advice.
const MAX_PER_RULE: usize = 20;

/// Whether a finding makes a skill invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The skill must not be written like this.
    Error,
    /// The skill works here, but some other reader may refuse it or understand it differently.
    Warning,
}

/// Declares the rules with their kebab-case names and severities in one table.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident => $name:literal, $severity:ident;)+) => {
        /// The rule that a finding is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Rule {
            $($(#[$doc])* $rule,)+
        }

        impl Rule {
            /// Every rule, in the order in which findings of one line are listed.
            pub const ALL: &'static [Rule] = &[$(Rule::$rule),+];

            /// The rule's name as it is written in reports and JSON.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Rule::$rule => $name,)+
                }
            }

            /// How much a breach of this rule weighs.
            pub const fn severity(self) -> Severity {
                match self {
                    $(Rule::$rule => Severity::$severity,)+
                }
            }
        }
    };
}

rules! {
    /// The file cannot be read as text at all.
    Unreadable => "unreadable", Error;
    /// The file starts with a byte order mark.
    ByteOrderMark => "byte-order-mark", Error;
    /// Blank lines stand before the opening fence.
    LeadingBlankLines => "leading-blank-lines", Error;
    /// A control character other than tab and line breaks.
    ControlCharacter => "control-character", Error;
    /// A carriage return without a line feed ends a line.
    LoneCarriageReturn => "lone-carriage-return", Warning;
    /// There is no front matter.
    FrontMatterMissing => "front-matter-missing", Error;
    /// The front matter has no closing fence.
    FrontMatterUnclosed => "front-matter-unclosed", Error;
    /// A fence is indented, or closes with three dots.
    FenceForm => "fence-form", Error;
    /// The front matter is too large to be given to a YAML parser.
    FrontMatterTooLarge => "front-matter-too-large", Error;
    /// Merge-conflict markers were left in the front matter.
    MergeConflict => "merge-conflict", Error;
    /// The front matter is not well-formed YAML.
    InvalidYaml => "invalid-yaml", Error;
    /// An unquoted value contains a colon followed by a space.
    UnquotedColon => "unquoted-colon", Error;
    /// An anchor, alias or tag.
    AliasOrTag => "alias-or-tag", Error;
    /// A key stands twice in one map.
    DuplicateKey => "duplicate-key", Error;
    /// A flow collection (`[…]` or `{…}`).
    FlowStyle => "flow-style", Warning;
    /// Three dashes inside the front matter that are not a fence.
    DashesInFrontMatter => "dashes-in-front-matter", Warning;
    /// The front matter has no name that can be used.
    NameMissing => "name-missing", Error;
    /// The name breaks the naming rule.
    NameFormat => "name-format", Error;
    /// The name differs from the directory or file it stands in.
    NameMismatch => "name-mismatch", Error;
    /// The front matter has no description that can be used.
    DescriptionMissing => "description-missing", Error;
    /// The description is too long.
    DescriptionLength => "description-length", Error;
    /// The licence is not text.
    LicenseType => "license-type", Error;
    /// The compatibility note is empty, too long or not text.
    Compatibility => "compatibility", Error;
    /// The metadata is not a map.
    MetadataType => "metadata-type", Error;
    /// The metadata holds more than text.
    MetadataNested => "metadata-nested", Warning;
    /// The allowed tools are not one space-separated text.
    AllowedTools => "allowed-tools", Warning;
    /// A known optional key has no value.
    EmptyValue => "empty-value", Warning;
    /// A top-level key that the specification does not know.
    UnknownKey => "unknown-key", Warning;
    /// Nothing stands below the front matter.
    BodyEmpty => "body-empty", Error;
    /// The whole file is too long.
    TooLong => "too-long", Error;
    /// The whole file has more lines than a skill should have.
    ManyLines => "many-lines", Warning;
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// One thing that is wrong with a skill file, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillFinding {
    /// The rule that was broken.
    pub rule: Rule,
    /// Whether this makes the skill invalid.
    pub severity: Severity,
    /// The line it was found on, counted from 1; none when it is about the whole file.
    pub line: Option<usize>,
    /// What was found, in a sentence for a person.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl SkillFinding {
    /// A finding with the severity of its rule.
    pub fn new(rule: Rule, line: Option<usize>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        SkillFinding { rule, severity: rule.severity(), line, message: message.into(), fix: fix.into() }
    }

    /// Whether this finding makes the skill invalid.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for SkillFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        write!(formatter, "{} [{}] {} Fix: {}", self.severity, self.rule, self.message, self.fix)
    }
}

/// Gathers findings, the first few of each rule, and puts them into their stable order.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    findings: Vec<SkillFinding>,
    counts: BTreeMap<Rule, usize>,
}

impl Gathered {
    pub(super) fn add(&mut self, finding: SkillFinding) {
        let count = self.counts.entry(finding.rule).or_default();
        *count += 1;
        if *count <= MAX_PER_RULE {
            self.findings.push(finding);
        }
    }

    pub(super) fn has_error(&self) -> bool {
        self.findings.iter().any(SkillFinding::is_error)
    }

    /// The findings ordered by line and then by rule.
    pub(super) fn settle(mut self) -> Vec<SkillFinding> {
        let key = |finding: &SkillFinding| (finding.line, finding.rule);
        self.findings.sort_by_key(key);
        self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_named_alike_in_json_and_in_text() {
        for rule in Rule::ALL {
            assert_eq!(serde_json::to_value(rule).unwrap(), rule.to_string());
        }
    }

    #[test]
    fn findings_stand_in_the_order_of_lines_and_then_of_rules() {
        let mut gathered = Gathered::default();
        for (rule, line) in [
            (Rule::UnknownKey, Some(3)),
            (Rule::DuplicateKey, Some(3)),
            (Rule::TooLong, None),
            (Rule::BodyEmpty, Some(2)),
        ] {
            gathered.add(SkillFinding::new(rule, line, "m", "f"));
        }
        let sorted = gathered.settle();
        let order: Vec<_> = sorted.iter().map(|f| (f.line, f.rule)).collect();
        assert_eq!(
            order,
            vec![
                (None, Rule::TooLong),
                (Some(2), Rule::BodyEmpty),
                (Some(3), Rule::DuplicateKey),
                (Some(3), Rule::UnknownKey),
            ]
        );
    }

    #[test]
    fn a_hostile_file_yields_a_bounded_number_of_findings() {
        let mut gathered = Gathered::default();
        for line in 1..5_000 {
            gathered.add(SkillFinding::new(Rule::DuplicateKey, Some(line), "m", "f"));
        }
        assert_eq!(gathered.settle().len(), MAX_PER_RULE);
    }

    #[test]
    fn severities_are_written_in_lower_case() {
        assert_eq!(serde_json::to_value(Severity::Error).unwrap(), "error");
        assert_eq!(serde_json::to_value(Severity::Warning).unwrap(), "warning");
    }
}
