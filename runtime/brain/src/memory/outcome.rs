//! Outcomes: how good the answer of a task was, and who says so.
//!
//! - [`TaskOutcome`] is made of at most one [`OutcomeReport`] a source; the highest source that knows decides.
//! - Every report is a row of `outcomes`, added with its step and never changed: a rewind takes rows away again.
//! - The value in force stands in `task_log.outcome` behind the status, so that the bundle hash sees it.
//!
//! The tables are described in `docs/reference/brain.md`.

use std::fmt;
use std::str::FromStr;

use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::db::{Database, sql};
use super::task_status::TaskStatus;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, TaskId};

/// The most characters of a note.
pub const MAX_NOTE_CHARS: usize = 500;
/// How often each source may report on a task that is settled. The operator's label is not counted.
pub const MAX_REPORTS: usize = 20;

/// How good an answer was.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum OutcomeValue {
    /// No source has said how good it was, or none can tell.
    #[default]
    Unknown,
    /// As good as a score of 1.
    Good,
    /// As bad as a score of 0.
    Bad,
    /// From 0, as bad as can be, to 1, as good as can be. Kept in hundredths.
    Score(f64),
}

impl OutcomeValue {
    /// A score, rounded to hundredths. Refused outside of 0 to 1.
    pub fn of_score(score: f64) -> Result<Self> {
        match (0.0..=1.0).contains(&score) {
            // Adding zero makes a plain zero of a negative one.
            true => Ok(Self::Score((score * 100.0).round() / 100.0 + 0.0)),
            false => Err(not_a_value(&score.to_string())),
        }
    }

    /// What a person says of an answer: `good`, `bad`, or a number from 0 to 1.
    pub fn of_words(text: &str) -> Result<Self> {
        match text.trim().parse()? {
            Self::Unknown => Err(not_a_value(text)),
            known => Ok(known),
        }
    }

    /// The same of JSON: a string or a number.
    pub fn of_json(said: &serde_json::Value) -> Result<Self> {
        match (said.as_str(), said.as_f64()) {
            (Some(word @ ("good" | "bad")), _) => word.parse(),
            (None, Some(number)) => Self::of_score(number),
            _ => Err(not_a_value(&said.to_string())),
        }
    }

    /// The value as a number: good is 1, bad is 0.
    pub fn score(self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Good => Some(1.0),
            Self::Bad => Some(0.0),
            Self::Score(score) => Some(score),
        }
    }

    /// Whether the value says how good the answer was.
    pub fn is_known(self) -> bool {
        self != Self::Unknown
    }

    /// The same where it is a value that can be kept; a score that is none says nothing.
    fn kept(self) -> Self {
        match self {
            Self::Score(score) => Self::of_score(score).unwrap_or_default(),
            other => other,
        }
    }
}

/// As it is stored: `unknown`, `good`, `bad`, or a score with two digits.
impl fmt::Display for OutcomeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Good => f.write_str("good"),
            Self::Bad => f.write_str("bad"),
            Self::Score(score) => write!(f, "{score:.2}"),
        }
    }
}

impl FromStr for OutcomeValue {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "unknown" => Ok(Self::Unknown),
            "good" => Ok(Self::Good),
            "bad" => Ok(Self::Bad),
            number => number.parse().map_err(|_| not_a_value(text)).and_then(Self::of_score),
        }
    }
}

fn not_a_value(text: &str) -> Error {
    let shown: String = text.trim_matches('"').chars().take(40).collect();
    Error::invalid(format!("{shown:?} does not say how good an answer was"))
        .hint("say good or bad, or a number from 0 (bad) to 1 (good) such as 0.7")
}

impl Serialize for OutcomeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Score(score) => serializer.serialize_f64(*score),
            word => serializer.collect_str(word),
        }
    }
}

impl<'de> Deserialize<'de> for OutcomeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "good, bad, unknown, or a number from 0 to 1")]
        enum Written {
            Word(String),
            Number(f64),
        }
        let value = match Written::deserialize(deserializer)? {
            // A number in quotes is no number.
            Written::Word(word) if !matches!(word.as_str(), "unknown" | "good" | "bad") => Err(not_a_value(&word)),
            Written::Word(word) => word.parse(),
            Written::Number(number) => Self::of_score(number),
        };
        value.map_err(serde::de::Error::custom)
    }
}

/// Who says how good an answer was. A later one prevails over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeSource {
    /// The schema of the role's answers.
    Schema,
    /// A check that the role declares.
    Verifier,
    /// The subscriber who asked.
    Feedback,
    /// The operator, whose word counts before all others.
    Label,
}

impl OutcomeSource {
    /// All of them, the lowest first.
    pub const ALL: [Self; 4] = [Self::Schema, Self::Verifier, Self::Feedback, Self::Label];

    /// The name under which rows keep it; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Verifier => "verifier",
            Self::Feedback => "feedback",
            Self::Label => "label",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name).ok_or_else(|| damaged("a source", name))
    }
}

/// What one source says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutcomeReport {
    /// Who says it. The highest source that knows anything decides.
    pub source: OutcomeSource,
    /// How good the answer was.
    pub value: OutcomeValue,
    /// Why, in at most [`MAX_NOTE_CHARS`] characters: the words of the one who reports, for that one and the operator alone.
    #[serde(default)]
    pub note: Option<String>,
    /// When the report was made.
    pub at: Timestamp,
}

impl OutcomeReport {
    /// The report as it is kept: a rounded score, a note of one line or none. Refused where the note is too long or
    /// the score is none.
    pub fn checked(self) -> Result<Self> {
        if self.note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE_CHARS) {
            return Err(Error::invalid(format!("the note has more than {MAX_NOTE_CHARS} characters"))
                .hint("say it more briefly"));
        }
        let note = self.note.map(|note| one_line(&note)).filter(|note| !note.is_empty());
        let value = match self.value {
            OutcomeValue::Score(score) => OutcomeValue::of_score(score)?,
            word => word,
        };
        Ok(Self { value, note, ..self })
    }

    /// The same, where nobody is there to be told: what is too long is cut.
    fn kept(self) -> Self {
        let note = self.note.map(|note| one_line(&note).chars().take(MAX_NOTE_CHARS).collect::<String>());
        Self { value: self.value.kept(), note: note.filter(|note| !note.is_empty()), ..self }
    }

    /// Whether it says what another one says, whenever that was.
    pub fn says_same(&self, other: &Self) -> bool {
        (self.source, self.value, &self.note) == (other.source, other.value, &other.note)
    }
}

fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How good the answer of a task was, and who says so.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskOutcome {
    /// What the highest source says that knows.
    pub value: OutcomeValue,
    /// At most one report a source, its newest; the highest first.
    pub sources: Vec<OutcomeReport>,
}

impl TaskOutcome {
    /// What reports come to, given in the order in which they were made.
    pub fn of(reports: Vec<OutcomeReport>) -> Self {
        let mut sources: Vec<OutcomeReport> = Vec::new();
        for report in reports {
            sources.retain(|earlier| earlier.source != report.source);
            sources.push(report.kept());
        }
        sources.sort_by_key(|report| std::cmp::Reverse(report.source));
        let known = sources.iter().map(|report| report.value).find(|value| value.is_known());
        Self { value: known.unwrap_or_default(), sources }
    }

    /// The same with one report more.
    #[must_use]
    pub fn with(&self, report: OutcomeReport) -> Self {
        let mut reports = self.sources.clone();
        reports.push(report);
        Self::of(reports)
    }
}

/// The status of a task and its outcome, from `task_log.outcome`.
pub(crate) fn read_log(text: &str) -> (&str, OutcomeValue) {
    let mut words = text.split(' ');
    let status = words.next().unwrap_or_default();
    (status, words.next().and_then(|word| word.parse().ok()).unwrap_or_default())
}

/// What `task_log.outcome` says: the status, and the outcome where it is known.
pub(super) fn write_log(status: &str, value: OutcomeValue) -> String {
    match value {
        OutcomeValue::Unknown => status.to_owned(),
        known => format!("{status} {known}"),
    }
}

/// A task that is in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedTask {
    /// Whether the task came to an answer; `value` says how good that was.
    pub status: TaskStatus,
    /// How good its answer was.
    pub value: OutcomeValue,
    /// Whose it was; `None` where nobody was named.
    pub subscriber: Option<Digest>,
    /// When the task began, as the log has it.
    pub at: Timestamp,
}

/// How many tasks came to which outcome.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct OutcomeCounts {
    /// Tasks whose answer was simply good, without a score.
    pub good: u64,
    /// Tasks whose answer was simply bad, without a score.
    pub bad: u64,
    /// Those with a score.
    pub scored: u64,
    /// The sum of these scores.
    pub score_sum: f64,
    /// Those of which nobody says anything.
    pub unknown: u64,
}

impl OutcomeCounts {
    /// How many have an outcome.
    pub fn known(&self) -> u64 {
        self.good + self.bad + self.scored
    }

    /// Counts tasks of the same outcome.
    pub fn add(&mut self, value: OutcomeValue, tasks: u64) {
        match value {
            OutcomeValue::Unknown => self.unknown += tasks,
            OutcomeValue::Good => self.good += tasks,
            OutcomeValue::Bad => self.bad += tasks,
            OutcomeValue::Score(score) => {
                self.scored += tasks;
                self.score_sum += score * tasks as f64;
            }
        }
    }
}

/// All reports on a task, in the order in which they were made.
pub(super) fn reports(connection: &Connection, task: &str) -> Result<Vec<OutcomeReport>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection
        .prepare_cached("SELECT source, value, note, at FROM outcomes WHERE task = ?1 ORDER BY id")
        .map_err(failed)?;
    let mut rows = statement.query([task]).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let (source, value): (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
        found.push(OutcomeReport {
            source: OutcomeSource::parse(&source)?,
            value: value.parse().map_err(|_| damaged("an outcome", &value))?,
            note: row.get(2).map_err(failed)?,
            at: Timestamp(row.get(3).map_err(failed)?),
        });
    }
    Ok(found)
}

/// Adds a report with the step it belongs to.
pub(crate) fn add_report(connection: &Connection, step: i64, task: &str, report: &OutcomeReport) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO outcomes (step, task, source, value, note, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .and_then(|mut add| {
            let OutcomeReport { source, value, note, at } = report;
            add.execute((step, task, source.name(), value.to_string(), note, at.millis()))
        })
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

fn damaged(what: &str, found: &str) -> Error {
    Error::corrupt(format!("{found:?} is not {what} of outcomes")).hint("restore the brain from a snapshot")
}

impl Database {
    /// A task of the log.
    pub(crate) fn logged_task(&self, task: &TaskId) -> Result<Option<LoggedTask>> {
        let found: Option<(String, Option<String>, i64)> = self
            .connection
            .prepare_cached(
                "SELECT outcome, digest, at FROM task_log LEFT JOIN subscribers ON subscribers.id = scope WHERE task = ?1",
            )
            .and_then(|mut get| get.query_row([task.as_str()], |row| row.try_into()).optional())
            .map_err(|source| sql("read memory.db", source))?;
        let Some((outcome, digest, at)) = found else { return Ok(None) };
        let (status, value) = read_log(&outcome);
        let subscriber = digest.map(|digest| digest.parse()).transpose()?;
        Ok(Some(LoggedTask { status: status.parse()?, value, subscriber, at: Timestamp(at) }))
    }

    /// All reports on a task, in the order in which they were made.
    pub(crate) fn outcome_reports(&self, task: &TaskId) -> Result<Vec<OutcomeReport>> {
        reports(&self.connection, task.as_str())
    }

    /// How good the answer of a task was; `None` where there is no such task.
    pub(crate) fn outcome(&self, task: &TaskId) -> Result<Option<TaskOutcome>> {
        let Some(logged) = self.logged_task(task)? else { return Ok(None) };
        // A fork has the log of its original, and not the reports.
        Ok(Some(match self.outcome_reports(task)? {
            none if none.is_empty() => TaskOutcome { value: logged.value, sources: Vec::new() },
            reports => TaskOutcome::of(reports),
        }))
    }

    /// How good the answer of a task was, by the line of the log.
    pub(super) fn value_of(&self, task: &str) -> Result<OutcomeValue> {
        self.connection
            .prepare_cached("SELECT outcome FROM task_log WHERE task = ?1")
            .and_then(|mut get| get.query_row([task], |row| row.get::<_, String>(0)).optional())
            .map(|line| line.map_or(OutcomeValue::Unknown, |line| read_log(&line).1))
            .map_err(|source| sql("read memory.db", source))
    }

    /// How many tasks since a moment came to which outcome.
    pub(crate) fn outcome_counts(&self, since: Timestamp) -> Result<OutcomeCounts> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached("SELECT outcome, count(*) FROM task_log WHERE at >= ?1 GROUP BY outcome")
            .map_err(failed)?;
        let mut rows = statement.query([since.millis()]).map_err(failed)?;
        let mut counts = OutcomeCounts::default();
        while let Some(row) = rows.next().map_err(failed)? {
            let (outcome, tasks): (String, i64) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            counts.add(read_log(&outcome).1, tasks.unsigned_abs());
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(source: OutcomeSource, value: OutcomeValue) -> OutcomeReport {
        OutcomeReport { source, value, note: None, at: Timestamp(1_000) }
    }

    #[test]
    fn the_highest_source_that_knows_decides() {
        use OutcomeSource::{Feedback, Label, Schema, Verifier};
        use OutcomeValue::{Bad, Good, Score, Unknown};
        for (reports, value) in [
            (vec![], Unknown),
            (vec![report(Schema, Unknown)], Unknown),
            (vec![report(Schema, Bad)], Bad),
            (vec![report(Verifier, Good), report(Schema, Bad)], Good),
            (vec![report(Feedback, Bad), report(Verifier, Good)], Bad),
            (vec![report(Label, Score(0.7)), report(Feedback, Bad), report(Verifier, Good)], Score(0.7)),
            // A source that does not know leaves it to the next.
            (vec![report(Label, Unknown), report(Feedback, Good), report(Schema, Bad)], Good),
        ] {
            let outcome = TaskOutcome::of(reports.clone());
            assert_eq!(outcome.value, value, "{reports:?}");
            let order: Vec<_> = outcome.sources.iter().map(|report| report.source).collect();
            assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
        }
    }

    #[test]
    fn of_one_source_only_its_newest_report_counts() {
        let said = |value| report(OutcomeSource::Feedback, value);
        let outcome = TaskOutcome::of(vec![said(OutcomeValue::Good), said(OutcomeValue::Bad)]);
        assert_eq!(outcome, TaskOutcome { value: OutcomeValue::Bad, sources: vec![said(OutcomeValue::Bad)] });
        assert_eq!(outcome.with(said(OutcomeValue::Good)).value, OutcomeValue::Good);
        assert_eq!(outcome.with(said(OutcomeValue::Unknown)).value, OutcomeValue::Unknown, "taken back");
    }

    #[test]
    fn a_value_is_a_word_or_a_number_from_0_to_1() {
        for (value, written) in [
            (OutcomeValue::Unknown, json!("unknown")),
            (OutcomeValue::Good, json!("good")),
            (OutcomeValue::Bad, json!("bad")),
            (OutcomeValue::Score(0.7), json!(0.7)),
            (OutcomeValue::Score(1.0), json!(1.0)),
        ] {
            assert_eq!(serde_json::to_value(value).unwrap(), written);
            assert_eq!(serde_json::from_value::<OutcomeValue>(written).unwrap(), value);
            assert_eq!(value.to_string().parse::<OutcomeValue>().unwrap(), value);
        }
        assert_eq!(serde_json::from_value::<OutcomeValue>(json!(1)).unwrap(), OutcomeValue::Score(1.0));
        assert_eq!(OutcomeValue::of_score(0.123_456).unwrap(), OutcomeValue::Score(0.12));
        for bad in [json!("GOOD"), json!("0.7"), json!(1.2), json!(-0.1), json!(null), json!([]), json!("")] {
            assert!(serde_json::from_value::<OutcomeValue>(bad.clone()).is_err(), "{bad}");
        }
        for bad in [json!("unknown"), json!("0.7"), json!(-1), json!({}), json!(null)] {
            assert!(OutcomeValue::of_json(&bad).is_err(), "{bad}");
        }
        assert_eq!(OutcomeValue::of_json(&json!(0)).unwrap(), OutcomeValue::Score(0.0));
        assert_eq!(OutcomeValue::of_words(" 0.7 ").unwrap(), OutcomeValue::Score(0.7));
        assert!(OutcomeValue::of_words("unknown").is_err());
        for bad in ["NaN", "inf", "-1", "1.01", "fine", ""] {
            let error = bad.parse::<OutcomeValue>().unwrap_err();
            assert_eq!(error.message(), format!("{bad:?} does not say how good an answer was"));
        }
    }

    #[test]
    fn a_note_is_one_line_of_bounded_length() {
        let noted = |note: &str| OutcomeReport {
            note: Some(note.to_owned()),
            ..report(OutcomeSource::Label, OutcomeValue::Bad)
        };
        assert_eq!(noted(" two\n\u{1b}[31mlines ").checked().unwrap().note.as_deref(), Some("two [31mlines"));
        assert_eq!(noted(" \n ").checked().unwrap().note, None);
        assert!(noted(&"é".repeat(MAX_NOTE_CHARS)).checked().is_ok());
        let error = noted(&"é".repeat(MAX_NOTE_CHARS + 1)).checked().unwrap_err();
        assert_eq!(error.message(), "the note has more than 500 characters");
        let not_a_score = report(OutcomeSource::Label, OutcomeValue::Score(f64::NAN));
        assert!(not_a_score.clone().checked().is_err());
        // Where nobody can be told, what cannot be kept says nothing.
        assert_eq!(TaskOutcome::of(vec![not_a_score]).value, OutcomeValue::Unknown);
    }

    #[test]
    fn the_log_tells_status_and_outcome_and_old_lines_tell_the_status_alone() {
        for (status, value, text) in [
            ("converged", OutcomeValue::Unknown, "converged"),
            ("converged", OutcomeValue::Good, "converged good"),
            ("incomplete", OutcomeValue::Score(0.7), "incomplete 0.70"),
            ("failed", OutcomeValue::Bad, "failed bad"),
        ] {
            assert_eq!(write_log(status, value), text);
            assert_eq!(read_log(text), (status, value));
        }
        assert_eq!(read_log("converged good #2"), ("converged", OutcomeValue::Good));
        assert_eq!(read_log("converged #2"), ("converged", OutcomeValue::Unknown));
        assert_eq!(read_log(""), ("", OutcomeValue::Unknown));
    }
}
