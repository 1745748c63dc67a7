//! The part of the runtime that can be swapped: which implementation of each component a brain runs
//! with, and the constants they go by. Plain data; the components themselves stand where they work.
//!
//! A brain carries its tuning in `tuning.json`, as part of its bundle: a change of it is a step with a receipt, and can
//! be undone. Without the file everything is as built. `docs/reference/tuning.md` describes the format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};

/// The format this build reads and writes.
pub const TUNING_SCHEMA: &str = "herm/tuning@1";

/// How a conversation that is too long is made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compressor {
    /// The oldest results are cut to their beginnings, one after the other, until it fits.
    #[default]
    OldestFirst,
    /// Every result gives its fair share, and keeps the lines that say most about the task.
    Salient,
}

/// Which skills the prompt shows where they do not all fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// Those whose words are nearest to the input.
    #[default]
    BestMatch,
    /// Those that were used most, then the nearest.
    MostUsed,
}

/// What is taken for JSON in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyPolicy {
    /// Also what an unambiguous repair makes JSON.
    #[default]
    Repairing,
    /// Only what is JSON as it stands.
    Strict,
}

/// How hits of a search are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchRanking {
    /// By their words, and newer ones a little higher.
    #[default]
    Fresh,
    /// By their words alone.
    Words,
}

/// One of the components that can be swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// The [`Compressor`]: what makes a long conversation shorter.
    Compressor,
    /// The [`Selector`]: which skills the prompt shows.
    Selector,
    /// The [`ReplyPolicy`]: what is taken for JSON in a reply.
    Replies,
    /// The [`SearchRanking`]: the order of a search's hits.
    Ranking,
    /// Who speaks, by a name in the operator's configuration.
    Backend,
}

impl Component {
    /// Every component that a tuning can name.
    pub const ALL: [Self; 5] = [Self::Compressor, Self::Selector, Self::Replies, Self::Ranking, Self::Backend];

    /// The name that `tuning.json` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compressor => "compressor",
            Self::Selector => "selector",
            Self::Replies => "replies",
            Self::Ranking => "ranking",
            Self::Backend => "backend",
        }
    }

    /// The registered implementations, the built-in one first. Backends are the operator's.
    pub fn registered(self) -> &'static [&'static str] {
        match self {
            Self::Compressor => &["oldest-first", "salient"],
            Self::Selector => &["best-match", "most-used"],
            Self::Replies => &["repairing", "strict"],
            Self::Ranking => &["fresh", "words"],
            Self::Backend => &[],
        }
    }
}

/// What stands in for a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ToolSwap {
    /// Another registered tool, under this name.
    Use(String),
    /// A program that reads one JSON line and writes one, always in a sandbox of its own.
    Executable(ExecutableTool),
}

/// A tool that is a program in the brain's `tools/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutableTool {
    /// The program's SHA-256; the file is `tools/NAME`.
    pub sha256: String,
    /// What it does; as the tool it replaces, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments; as the tool it replaces, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A change of the schema of `memory.db`: indexes, which can be made again, and taken away, at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// The SQL that makes them. Their names begin with `x_`.
    pub up: String,
}

/// What a brain runs with. What is not said is as built.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tuning {
    /// How a conversation that is too long is made shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressor: Option<Compressor>,
    /// Which skills the prompt shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// What is taken for JSON in a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replies: Option<ReplyPolicy>,
    /// How hits of a search are put in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranking: Option<SearchRanking>,
    /// Who speaks, where the task and the operator do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The most turns a task may take, from 1 to 8; a task may ask for fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u8>,
    /// Bytes of the conversation at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_bytes: Option<usize>,
    /// Tokens of a reply at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_tokens: Option<u32>,
    /// Bytes of the prompt that skills may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<usize>,
    /// How many skills are shown where they do not all fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_best: Option<usize>,
    /// Whether skills that match and the nearest example are put before a task; so it is, unless it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preload: Option<bool>,
    /// Bytes that are left of a result that had to shrink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrunk_bytes: Option<usize>,
    /// How many of its newest rows a word may bring into a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_candidates: Option<u32>,
    /// How much of a score recency can add, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_percent: Option<u32>,
    /// After how many days a row is half as recent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_days: Option<u32>,
    /// Days without activity until a skill is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_days: Option<u32>,
    /// Days without activity until it is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_days: Option<u32>,
    /// What stands in for tools, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSwap>,
    /// Changes of the schema of `memory.db`, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<Migration>,
}

/// The weights a search goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchWeights {
    /// How many of its newest rows a word may bring in from one source.
    pub candidates: u32,
    /// How much of a score recency can add; 0 ranks by words alone.
    pub recency: f64,
    /// After how many days a row is half as recent.
    pub half_life_days: f64,
}

impl Default for SearchWeights {
    fn default() -> Self {
        Self { candidates: 400, recency: 0.5, half_life_days: 30.0 }
    }
}

/// The file as it is written: the format first.
#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl Tuning {
    /// Reads and checks `tuning.json`. An error of kind `InvalidInput` says which entry is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let bad = |what: String| {
            Error::invalid(format!("tuning.json: {what}"))
                .hint("docs/reference/tuning.md describes the file; `herm brain undo` takes a change of it back")
        };
        let file: File = serde_json::from_slice(bytes).map_err(|source| bad(source.to_string()))?;
        if file.schema != TUNING_SCHEMA {
            return Err(bad(format!("it has the format {:?}; this herm reads {TUNING_SCHEMA:?}", file.schema)));
        }
        let rest = Value::Object(file.rest.into_iter().collect());
        let tuning: Self = serde_json::from_value(rest).map_err(|source| bad(source.to_string()))?;
        tuning.validate()?;
        Ok(tuning)
    }

    /// The bytes of `tuning.json`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let write = |source| Error::internal("a tuning cannot be written").because(source);
        let Value::Object(rest) = serde_json::to_value(self).map_err(write)? else {
            return Err(Error::internal("a tuning is an object"));
        };
        let file = File { schema: TUNING_SCHEMA.to_owned(), rest: rest.into_iter().collect() };
        let mut bytes = serde_json::to_vec_pretty(&file).map_err(write)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Whether everything is as built.
    pub fn is_as_built(&self) -> bool {
        *self == Self::default()
    }

    /// The weights a search goes by.
    pub fn search(&self) -> SearchWeights {
        let built = SearchWeights::default();
        SearchWeights {
            candidates: self.search_candidates.unwrap_or(built.candidates),
            recency: match self.ranking.unwrap_or_default() {
                SearchRanking::Fresh => {
                    self.recency_percent.map_or(built.recency, |percent| f64::from(percent) / 100.0)
                }
                SearchRanking::Words => 0.0,
            },
            half_life_days: self.recency_days.map_or(built.half_life_days, f64::from),
        }
    }

    /// Puts another implementation in a component's place.
    pub fn swap(&mut self, component: Component, to: &str) -> Result<()> {
        fn read<T: serde::de::DeserializeOwned>(component: Component, to: &str) -> Result<Option<T>> {
            serde_json::from_value(Value::String(to.to_owned())).map(Some).map_err(|_| {
                Error::invalid(format!("no {} named {to:?} is registered", component.name()))
                    .hint(format!("there are: {}", component.registered().join(", ")))
            })
        }
        match component {
            Component::Compressor => self.compressor = read(component, to)?,
            Component::Selector => self.selector = read(component, to)?,
            Component::Replies => self.replies = read(component, to)?,
            Component::Ranking => self.ranking = read(component, to)?,
            Component::Backend => self.backend = Some(to.to_owned()),
        }
        self.validate()
    }

    /// Takes over what `other` says.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let (Ok(Value::Object(mut mine)), Ok(Value::Object(theirs))) =
            (serde_json::to_value(&*self), serde_json::to_value(other))
        else {
            return Err(Error::internal("a tuning is an object"));
        };
        for (name, value) in theirs {
            mine.insert(name, value);
        }
        *self = serde_json::from_value(Value::Object(mine))
            .map_err(|source| Error::internal("a tuning cannot be read back").because(source))?;
        self.validate()
    }

    /// The rules tunings obey.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: String| Err(Error::invalid(what).hint("docs/reference/tuning.md has the ranges"));
        let range = |name: &str, value: Option<u64>, low: u64, high: u64| match value {
            Some(value) if !(low..=high).contains(&value) => {
                Err(Error::invalid(format!("{name} is {low} to {high}, not {value}"))
                    .hint("docs/reference/tuning.md has the ranges"))
            }
            _ => Ok(()),
        };
        range("turns", self.turns.map(u64::from), 1, 8)?;
        range("contextBytes", self.context_bytes.map(|bytes| bytes as u64), 16 << 10, 16 << 20)?;
        range("replyTokens", self.reply_tokens.map(u64::from), 16, 1 << 20)?;
        range("indexBytes", self.index_bytes.map(|bytes| bytes as u64), 0, 1 << 20)?;
        range("indexBest", self.index_best.map(|count| count as u64), 0, 1_000)?;
        range("shrunkBytes", self.shrunk_bytes.map(|bytes| bytes as u64), 64, 64 << 10)?;
        range("searchCandidates", self.search_candidates.map(u64::from), 1, 100_000)?;
        range("recencyPercent", self.recency_percent.map(u64::from), 0, 1_000)?;
        range("recencyDays", self.recency_days.map(u64::from), 1, 36_500)?;
        range("staleDays", self.stale_days.map(u64::from), 1, 36_500)?;
        range("archiveDays", self.archive_days.map(u64::from), 1, 36_500)?;
        if let (Some(stale), Some(archive)) = (self.stale_days, self.archive_days)
            && archive < stale
        {
            return bad(format!("a skill cannot be stale after {stale} days and archived after {archive}"));
        }
        if self.migrations.len() > 8 {
            return bad("a brain has at most 8 migrations".to_owned());
        }
        if let Some(backend) = &self.backend
            && !is_name(backend)
        {
            return bad(format!("{backend:?} is not the name of a backend"));
        }
        for (name, swap) in &self.tools {
            if !is_tool_name(name) {
                return bad(format!("{name:?} is not the name of a tool"));
            }
            match swap {
                ToolSwap::Use(other) if !is_tool_name(other) => {
                    return bad(format!("{other:?} is not the name of a tool"));
                }
                ToolSwap::Executable(program)
                    if program.sha256.len() != 64 || !program.sha256.bytes().all(|c| c.is_ascii_hexdigit()) =>
                {
                    return bad(format!("the program of the tool {name} has no SHA-256"));
                }
                ToolSwap::Use(_) | ToolSwap::Executable(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether a text can name a tool: 1 to 64 of `A-Z a-z 0-9 _ - .`, and not dots alone.
pub fn is_tool_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&text.len()) && text.chars().all(plain) && text.chars().any(|c| c != '.')
}

/// Whether a text can name a backend.
fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_name_can_be_swapped_in_and_a_stranger_cannot() {
        for component in Component::ALL {
            for name in component.registered() {
                let mut tuning = Tuning::default();
                tuning.swap(component, name).unwrap();
                assert_eq!(Tuning::parse(&tuning.to_bytes().unwrap()).unwrap(), tuning);
            }
            if component != Component::Backend {
                let error = Tuning::default().swap(component, "psychic").unwrap_err();
                assert!(error.message().contains("psychic"), "{error}");
            }
        }
    }

    #[test]
    fn merging_takes_what_is_said_and_leaves_the_rest() {
        let mut tuning = Tuning { index_bytes: Some(4_000), turns: Some(6), ..Tuning::default() };
        tuning.merge(&Tuning { turns: Some(5), stale_days: Some(10), ..Tuning::default() }).unwrap();
        assert_eq!(
            tuning,
            Tuning { index_bytes: Some(4_000), turns: Some(5), stale_days: Some(10), ..Tuning::default() }
        );
    }

    #[test]
    fn values_out_of_range_and_unknown_fields_are_refused() {
        for bad in [
            r#"{"schema":"herm/tuning@1","turns":9}"#,
            r#"{"schema":"herm/tuning@1","contextBytes":1}"#,
            r#"{"schema":"herm/tuning@1","magic":true}"#,
            r#"{"schema":"herm/tuning@2"}"#,
            r#"{"schema":"herm/tuning@1","staleDays":30,"archiveDays":20}"#,
            r#"{"schema":"herm/tuning@1","tools":{"../x":{"use":"scan"}}}"#,
            "[]",
            "",
        ] {
            assert!(Tuning::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
