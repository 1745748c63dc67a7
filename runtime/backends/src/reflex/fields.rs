//! What is known under the name of a property.

use super::report::{Finding, Report};
use super::wording;
use crate::skill::PatternSeverity as Severity;

/// What a part of the answer is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'r> {
    Whole,
    One(&'r Finding<'r>),
    /// One line of a finding.
    Line(&'r Finding<'r>, u64),
}

/// Something known, before it has a type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FieldValue {
    Text(String),
    Texts(Vec<String>),
    /// Line numbers or a count.
    Numbers(Vec<u64>),
    /// How bad it is.
    Severity(Severity),
}

/// What a property is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Title,
    Severity,
    Pattern,
    Lines,
    Line,
    Quote,
    Explanation,
    Meaning,
    Evidence,
    Fix,
    Clause,
    Confidence,
    Role,
    Count,
    Limits,
    Checked,
    Recalled,
    Model,
    Findings,
    Verdict,
}

/// Words of property names. Whole names are looked up first, then their words from the last to the first.
const TOPICS: [(Topic, &[&str]); 20] = [
    (Topic::Title, &["title", "name", "headline", "heading", "issue", "problem", "subject", "label"]),
    (Topic::Severity, &["severity", "risk", "priority", "level", "impact", "rating", "criticality", "urgency"]),
    (
        Topic::Pattern,
        &["pattern", "patterns", "rule", "slug", "id", "category", "type", "kind", "tag", "tags", "class"],
    ),
    (Topic::Lines, &["lines", "location", "locations", "where", "position", "range", "places", "occurrences"]),
    (Topic::Line, &["line", "row", "lineno", "start", "end"]),
    (Topic::Quote, &["quote", "snippet", "excerpt", "match", "code"]),
    (
        Topic::Explanation,
        &[
            "explanation",
            "description",
            "details",
            "detail",
            "summary",
            "reason",
            "rationale",
            "analysis",
            "message",
            "answer",
            "overview",
            "report",
            "result",
            "conclusion",
            "response",
            "reply",
            "output",
            "text",
            "body",
            "content",
            "comment",
            "finding",
        ],
    ),
    (Topic::Meaning, &["plain_language", "language", "meaning", "why", "consequence"]),
    (Topic::Evidence, &["evidence", "proof"]),
    (
        Topic::Fix,
        &[
            "recommendation",
            "recommendations",
            "fix",
            "remediation",
            "ask",
            "suggestion",
            "suggestions",
            "mitigation",
            "solution",
            "remedy",
            "action",
            "actions",
            "advice",
            "steps",
            "next_steps",
            "todo",
        ],
    ),
    (Topic::Clause, &["clause", "section", "article", "paragraph", "function"]),
    (Topic::Confidence, &["confidence", "certainty", "likelihood", "probability"]),
    (Topic::Role, &["role"]),
    (Topic::Count, &["count", "total", "number", "hits", "matches"]),
    (
        Topic::Limits,
        &["limits", "limitations", "caveats", "disclaimer", "note", "notes", "warning", "unknowns", "gaps"],
    ),
    (
        Topic::Checked,
        &["checked", "checks", "performed", "method", "methodology", "tools", "calls", "sources", "trace"],
    ),
    (Topic::Recalled, &["memory", "memories", "history", "recalled", "related", "prior"]),
    (Topic::Model, &["model", "author", "engine"]),
    (Topic::Findings, &["findings", "issues", "vulnerabilities", "problems", "risks", "results", "items", "entries"]),
    (Topic::Verdict, &["verdict", "status", "decision", "outcome", "state"]),
];

impl Topic {
    /// The topic of a property's name: `next_steps`, `nextSteps`, `risk-level`.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut joined = String::with_capacity(name.len());
        let mut before = ' ';
        for c in name.chars().take(80) {
            if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
                joined.push('_');
            }
            joined.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
            before = c;
        }
        let of = |word: &str| TOPICS.iter().find(|(_, words)| words.contains(&word)).map(|(topic, _)| *topic);
        of(&joined).or_else(|| joined.rsplit('_').find_map(of))
    }
}

/// What is known under a name.
pub(super) fn known(report: &Report<'_>, scope: Scope<'_>, name: &str) -> Option<FieldValue> {
    let topic = Topic::of(name)?;
    match scope {
        Scope::Whole => whole(report, topic),
        Scope::One(finding) => one(report, finding, finding.line(), topic),
        Scope::Line(finding, line) => match topic {
            Topic::Lines | Topic::Line => Some(FieldValue::Numbers(vec![line])),
            Topic::Explanation | Topic::Evidence => wording::quote(report, line).map(FieldValue::Text),
            _ => one(report, finding, line, topic),
        },
    }
}

fn whole(report: &Report<'_>, topic: Topic) -> Option<FieldValue> {
    let each = |what: fn(&Report<'_>, &Finding<'_>) -> String| {
        FieldValue::Texts(report.findings.iter().map(|finding| what(report, finding)).collect())
    };
    let worst = report.findings.first();
    Some(match topic {
        Topic::Title => FieldValue::Text(wording::headline(report)),
        Topic::Severity => FieldValue::Severity(worst.map_or(Severity::Info, |finding| finding.severity)),
        Topic::Pattern => each(|_, finding| finding.pattern.to_owned()),
        Topic::Lines => FieldValue::Numbers(report.findings.iter().flat_map(|finding| finding.lines.clone()).collect()),
        Topic::Line => FieldValue::Numbers(vec![worst?.line()]),
        Topic::Quote => FieldValue::Text(wording::quote(report, worst?.line())?),
        Topic::Explanation | Topic::Meaning => FieldValue::Text(wording::summary(report)),
        Topic::Evidence => each(wording::evidence),
        Topic::Fix => {
            FieldValue::Texts(report.findings.iter().flat_map(|finding| wording::steps(report, finding)).collect())
        }
        Topic::Clause => FieldValue::Text(report.outline.clause(worst?.line())?.to_owned()),
        Topic::Confidence => FieldValue::Text("low".to_owned()),
        Topic::Role => return None,
        Topic::Count => FieldValue::Numbers(vec![report.hits()]),
        Topic::Limits => FieldValue::Text(wording::limits(report)),
        Topic::Checked => FieldValue::Texts(wording::checked(report)),
        Topic::Recalled => FieldValue::Texts(wording::recalled(report)),
        Topic::Model => FieldValue::Text(super::MODEL.to_owned()),
        Topic::Findings => each(wording::one_line),
        Topic::Verdict => FieldValue::Text("to be confirmed".to_owned()),
    })
}

fn one(report: &Report<'_>, finding: &Finding<'_>, line: u64, topic: Topic) -> Option<FieldValue> {
    Some(match topic {
        Topic::Title => FieldValue::Text(wording::title(report, finding)),
        Topic::Severity => FieldValue::Severity(finding.severity),
        Topic::Pattern => FieldValue::Text(finding.pattern.to_owned()),
        Topic::Lines => FieldValue::Numbers(finding.lines.clone()),
        Topic::Line => FieldValue::Numbers(vec![line]),
        Topic::Quote => FieldValue::Text(wording::exact_quote(report, finding, line).unwrap_or_default()),
        Topic::Explanation => FieldValue::Text(wording::explanation(report, finding)),
        Topic::Meaning => FieldValue::Text(wording::meaning(report, finding)),
        Topic::Evidence => FieldValue::Text(wording::evidence(report, finding)),
        Topic::Fix => FieldValue::Texts(wording::steps(report, finding)),
        Topic::Clause => {
            FieldValue::Text(match report.outline.function(line).or_else(|| report.outline.clause(line)) {
                Some(place) => place.to_owned(),
                None => format!("line {line}"),
            })
        }
        // A match of words carries no more than that.
        Topic::Confidence => FieldValue::Text("low".to_owned()),
        Topic::Role => FieldValue::Text(role(finding.pattern).to_owned()),
        Topic::Count => FieldValue::Numbers(vec![finding.total]),
        Topic::Limits | Topic::Verdict => FieldValue::Text("a match of a signal, to be confirmed".to_owned()),
        Topic::Checked | Topic::Recalled | Topic::Findings => return None,
        Topic::Model => FieldValue::Text(super::MODEL.to_owned()),
    })
}

/// The part a pattern usually plays in an incident. A match of words never shows a root cause.
fn role(pattern: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| pattern.contains(word));
    if has(&["change", "deploy", "rollout", "release"]) {
        "trigger"
    } else if has(&["retry", "storm", "backlog"]) {
        "amplifier"
    } else if has(&["secret", "credential"]) {
        "separate"
    } else {
        "symptom"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_however_they_are_written() {
        let cases = [
            ("next_steps", Some(Topic::Fix)),
            ("nextSteps", Some(Topic::Fix)),
            ("risk-level", Some(Topic::Severity)),
            ("plain_language", Some(Topic::Meaning)),
            ("lineNumber", Some(Topic::Count)),
            ("Summary", Some(Topic::Explanation)),
            ("zorblax", None),
            ("", None),
        ];
        for (name, topic) in cases {
            assert_eq!(Topic::of(name), topic, "{name}");
        }
    }
}
