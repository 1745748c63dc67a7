//! What rows mean, as vectors beside them: derived like a full-text index, part of no hash, of no snapshot, and
//! made again where they are missing or another model's. Described in `docs/reference/recall.md`.
//!
//! The table is made when the first vector is. A brain that never had one has none, and costs nothing.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::{Connection, OptionalExtension as _};

use super::db::sql;
use super::index::MemorySource;
use super::search::Scopes;
use crate::error::{Error, Result};
use crate::semantic::{Embedder, EmbeddingInput};
use crate::text;

pub(super) const TABLE: &str = "vectors";

/// The statement that makes it, word for word.
pub(super) const MAKE: &str = "CREATE TABLE vectors (
  scope INTEGER NOT NULL,
  row INTEGER NOT NULL,
  model INTEGER NOT NULL,
  text INTEGER NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (scope, row)
) WITHOUT ROWID, STRICT";

/// More of a text is not looked at.
const TEXT_CHARS: usize = 2_000;
/// A longer vector is no vector.
const MOST_DIMENSIONS: usize = 4_096;
/// Skills belong to nobody's rows: no search of the memory sees this scope.
const OF_SKILLS: i64 = -1;
/// Vectors of skills at most; past that they are made anew.
const MOST_SKILLS: i64 = 8_192;
/// Vectors without rows that one pass takes away.
const MOST_GONE: usize = 4_096;

impl MemorySource {
    /// How many of its newest rows have vectors: a search reads them all.
    fn most_vectors(self) -> i64 {
        match self {
            Self::Message => 32_768,
            Self::Fact | Self::Task => 8_192,
        }
    }
}

/// A vector that can be compared: finite, and of length one.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector(Vec<f32>);

impl Vector {
    /// Takes what a model says, if it is a vector.
    pub fn checked(raw: Vec<f32>) -> Result<Self> {
        let bad = |what: String| Err(Error::invalid(format!("the embedding model returned {what}")));
        if raw.is_empty() || raw.len() > MOST_DIMENSIONS {
            return bad(format!("{} dimensions", raw.len()));
        }
        if !raw.iter().all(|x| x.is_finite()) {
            return bad("a number that is none".to_owned());
        }
        let length = raw.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        if length < 1e-6 {
            return bad("a vector that points nowhere".to_owned());
        }
        Ok(Self(raw.into_iter().map(|x| (f64::from(x) / length) as f32).collect()))
    }

    /// What a text means to a model. A panic in the model is an error, and nothing else.
    pub fn of(embedder: &dyn Embedder, text: &str, part: EmbeddingInput) -> Result<Self> {
        let cut = beginning(text);
        let raw = catch_unwind(AssertUnwindSafe(|| embedder.embed(cut, part)))
            .unwrap_or_else(|_| Err(Error::internal("the embedding model panicked")))?;
        Self::checked(raw)
    }

    /// One byte a dimension, and before them what one step of a byte is worth.
    fn to_bytes(&self) -> Vec<u8> {
        let most = self.0.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let step = most / 127.0;
        let mut bytes = step.to_le_bytes().to_vec();
        bytes.extend(self.0.iter().map(|x| ((x / step).round() as i8).to_le_bytes()[0]));
        bytes
    }
}

/// Whether there is anything in a question that could mean something. A model has a vector for silence, too.
pub fn means_something(question: &str) -> bool {
    question.chars().any(char::is_alphanumeric)
}

/// What is looked for, as a model understands it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVector {
    model: i64,
    /// In steps of [`Self::STEPS`] to one, so that comparing is a matter of whole numbers.
    scaled: Vec<i16>,
}

impl QueryVector {
    /// 4,096 products of a byte with this fit 31 bits.
    const STEPS: f32 = 2_047.0;

    /// What a vector of a model looks for.
    pub fn new(model: &str, vector: &Vector) -> Self {
        let scaled = vector.0.iter().map(|x| (x * Self::STEPS).round() as i16).collect();
        Self { model: number_of(&[model]), scaled }
    }

    /// What a question looks for.
    pub fn of(embedder: &dyn Embedder, question: &str) -> Result<Self> {
        Ok(Self::new(embedder.name(), &Vector::of(embedder, question, EmbeddingInput::Query)?))
    }

    /// How near stored bytes are, from -1 to 1; `None` where they are not a vector of this kind.
    fn nearness(&self, bytes: &[u8]) -> Option<f32> {
        let (step, cells) = bytes.split_first_chunk::<4>()?;
        let step = f32::from_le_bytes(*step);
        if cells.len() != self.scaled.len() || !step.is_finite() {
            return None;
        }
        let products = cells.iter().zip(&self.scaled).map(|(cell, sought)| {
            let cell = i8::from_le_bytes([*cell]);
            i32::from(cell) * i32::from(*sought)
        });
        Some(products.sum::<i32>() as f32 * step / Self::STEPS)
    }
}

/// A text without a vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingText {
    row: i64,
    text: String,
}

impl PendingText {
    /// A skill, which is known by its words. Rows end in 0, 1 or 2.
    fn of_skill(slug: &str, description: &str) -> Self {
        let text = skill_text(slug, description);
        Self { row: number_of(&[&text]) | 3, text }
    }

    /// The text that a model makes the vector of.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What is to be done so that every row has its vector, and only rows have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingVectors {
    /// Texts without a vector of the model, the newest first.
    pub texts: Vec<PendingText>,
    /// Vectors whose rows are no more.
    gone: Vec<(i64, i64)>,
}

impl PendingVectors {
    /// At most so many of the texts; what is gone goes with the first.
    pub fn split(self, most: usize) -> Vec<Self> {
        let mut parts: Vec<Self> =
            self.texts.chunks(most.max(1)).map(|texts| Self { texts: texts.to_vec(), gone: Vec::new() }).collect();
        match parts.first_mut() {
            Some(first) => first.gone = self.gone,
            None if !self.gone.is_empty() => parts.push(Self { texts: Vec::new(), gone: self.gone }),
            None => {}
        }
        parts
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.gone.is_empty()
    }
}

/// A vector for its text; none where the model has none for it, so that it is not asked again.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedText {
    /// The row and the text that the vector is for.
    pub of: PendingText,
    /// The text's vector by the model; `None` where the model has none for it.
    pub vector: Option<Vector>,
}

/// The part of a text that is looked at.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(TEXT_CHARS).map_or(text, |(end, _)| text.split_at(end).0)
}

/// A number for texts, so that the same texts are known again.
fn number_of(texts: &[&str]) -> i64 {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(text.as_bytes());
        hasher.update(&[0]);
    }
    let mut first = [0; 8];
    first.iter_mut().zip(hasher.finalize().as_bytes()).for_each(|(to, from)| *to = *from);
    i64::from_le_bytes(first)
}

/// Whether the brain has vectors at all.
pub(super) fn exist(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)")?
        .query_row([TABLE], |row| row.get(0))
}

/// Takes away the vector of a row that goes or changes.
pub(super) fn remove(connection: &Connection, source: MemorySource, id: i64) -> rusqlite::Result<()> {
    if exist(connection)? {
        let scope = format!("SELECT scope FROM {} WHERE id = ?2", source.table());
        connection
            .prepare_cached(&format!("DELETE FROM vectors WHERE row = ?1 AND scope IN ({scope})"))?
            .execute((source.gram_row(id), id))?;
    }
    Ok(())
}

/// What is to be done for a model, at most so many texts of it.
pub fn due(connection: &Connection, model: &str, most: usize) -> Result<PendingVectors> {
    due_for(connection, number_of(&[model]), most).map_err(|source| sql("look for missing vectors", source))
}

/// The condition that a row has no vector of a model.
const LACKS: &str = "AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.scope = rows.scope \
                     AND vectors.row = rows.id * 4 + ?3 AND vectors.model = ?2)";

/// The newest row that is too old to have a vector.
fn floor(connection: &Connection, source: MemorySource) -> rusqlite::Result<i64> {
    let found = connection
        .prepare_cached(&format!("SELECT id FROM {} ORDER BY id DESC LIMIT 1 OFFSET ?1", source.table()))?
        .query_row([source.most_vectors()], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(i64::MIN))
}

fn due_for(connection: &Connection, model: i64, most: usize) -> rusqlite::Result<PendingVectors> {
    let exist = exist(connection)?;
    let mut due = PendingVectors::default();
    for source in MemorySource::ALL {
        let (table, text, tag) = (source.table(), source.text(), source as i64);
        let floor = floor(connection, source)?;
        let lacks = if exist { LACKS } else { "AND ?2 = ?2 AND ?3 = ?3" };
        let mut lacking = connection.prepare_cached(&format!(
            "SELECT id, {text} FROM {table} AS rows WHERE id > ?1 {lacks} ORDER BY id DESC LIMIT ?4"
        ))?;
        let left = i64::try_from(most.saturating_sub(due.texts.len())).unwrap_or(i64::MAX);
        let mut rows = lacking.query((floor, model, tag, left))?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(1)?.as_str()?;
            due.texts.push(PendingText { row: source.gram_row(row.get(0)?), text: beginning(text).to_owned() });
        }
        if exist {
            let mut orphans = connection.prepare_cached(&format!(
                "SELECT scope, row FROM vectors WHERE scope >= 0 AND row & 3 = ?1 AND NOT EXISTS \
                 (SELECT 1 FROM {table} AS rows WHERE rows.id = vectors.row >> 2 AND rows.scope = vectors.scope \
                 AND rows.id > ?2) LIMIT ?3"
            ))?;
            let left = i64::try_from(MOST_GONE.saturating_sub(due.gone.len())).unwrap_or(i64::MAX);
            let found = orphans.query_map((tag, floor, left), |row| Ok((row.get(0)?, row.get(1)?)))?;
            due.gone.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
    }
    Ok(due)
}

/// How many rows have no vector of a model and should have one.
pub fn count_due(connection: &Connection, model: &str) -> Result<u64> {
    let count = || -> rusqlite::Result<i64> {
        let exist = exist(connection)?;
        let mut count = 0;
        for source in MemorySource::ALL {
            let lacks = if exist { LACKS } else { "AND ?2 = ?2 AND ?3 = ?3" };
            let query = format!("SELECT count(*) FROM {} AS rows WHERE id > ?1 {lacks}", source.table());
            let floor = floor(connection, source)?;
            count += connection
                .prepare_cached(&query)?
                .query_row((floor, number_of(&[model]), source as i64), |row| row.get::<_, i64>(0))?;
        }
        Ok(count)
    };
    count().map(i64::unsigned_abs).map_err(|source| sql("look for missing vectors", source))
}

/// What is to be done for skills, by slug and description: those without a vector of a model, as many as are kept, and
/// vectors of what is no skill any more.
pub fn skills_due<'s>(
    connection: &Connection,
    model: &str,
    skills: impl Iterator<Item = (&'s str, &'s str)>,
) -> Result<PendingVectors> {
    let failed = |source| sql("look for missing vectors", source);
    let mut known: HashMap<i64, i64> = HashMap::new();
    if exist(connection).map_err(failed)? {
        let query = format!("SELECT row, model FROM vectors WHERE scope = {OF_SKILLS}");
        let mut all = connection.prepare_cached(&query).map_err(failed)?;
        let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        known = rows.collect::<rusqlite::Result<_>>().map_err(failed)?;
    }
    let model = number_of(&[model]);
    let most = usize::try_from(MOST_SKILLS).unwrap_or(usize::MAX);
    let mut texts = Vec::new();
    for skill in skills.map(|(slug, description)| PendingText::of_skill(slug, description)).take(most) {
        match known.remove(&skill.row) {
            Some(of) if of == model => {}
            _ => texts.push(skill),
        }
    }
    Ok(PendingVectors { texts, gone: known.into_keys().map(|row| (OF_SKILLS, row)).collect() })
}

/// Keeps vectors that were made for what was due, in one transaction, and returns how many are kept. A row that changed
/// meanwhile gets no vector.
pub fn keep(connection: &Connection, model: &str, made: &[EmbeddedText], due: &PendingVectors) -> Result<u64> {
    let failed = |source| sql("keep vectors in memory.db", source);
    connection.execute_batch("SAVEPOINT vectors").map_err(failed)?;
    let kept = keep_all(connection, number_of(&[model]), made, &due.gone);
    let end = if kept.is_ok() { "RELEASE vectors" } else { "ROLLBACK TO vectors; RELEASE vectors" };
    connection.execute_batch(end).map_err(failed)?;
    kept.map_err(failed)
}

fn keep_all(connection: &Connection, model: i64, made: &[EmbeddedText], gone: &[(i64, i64)]) -> rusqlite::Result<u64> {
    if !exist(connection)? {
        connection.execute_batch(MAKE)?;
    }
    for (scope, row) in gone {
        connection.prepare_cached("DELETE FROM vectors WHERE scope = ?1 AND row = ?2")?.execute((scope, row))?;
    }
    let mut kept = 0;
    for EmbeddedText { of, vector } in made {
        let scope = match MemorySource::from_gram_row(of.row) {
            None => Some(OF_SKILLS),
            Some((source, id)) => connection
                .prepare_cached(&format!("SELECT scope, {} FROM {} WHERE id = ?1", source.text(), source.table()))?
                .query_row([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
                .optional()?
                .filter(|(_, text)| beginning(text) == of.text)
                .map(|(scope, _)| scope),
        };
        let Some(scope) = scope else { continue };
        let bytes = vector.as_ref().map(Vector::to_bytes).unwrap_or_default();
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO vectors (scope, row, model, text, vector) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((scope, of.row, model, number_of(&[&of.text]), bytes))?;
        kept += 1;
    }
    let skills: i64 = connection
        .prepare_cached("SELECT count(*) FROM vectors WHERE scope = ?1")?
        .query_row([OF_SKILLS], |row| row.get(0))?;
    if skills > MOST_SKILLS {
        connection.execute("DELETE FROM vectors WHERE scope = ?1", [OF_SKILLS])?;
    }
    Ok(kept)
}

/// A stored vector, compared.
struct Compared {
    row: i64,
    /// The number of the text that it is of.
    text: i64,
    /// `None` where the model had nothing to say to the text.
    nearness: Option<f32>,
}

/// Every vector of a scope, with how near it is; nearest first, then the newer.
fn compared(connection: &Connection, sought: &QueryVector, scopes: &str) -> rusqlite::Result<Vec<Compared>> {
    if !exist(connection)? {
        return Ok(Vec::new());
    }
    let query = format!("SELECT row, text, vector FROM vectors WHERE {scopes} AND model = ?1");
    let mut all = connection.prepare_cached(&query)?;
    let mut rows = all.query([sought.model])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let nearness = sought.nearness(row.get_ref(2)?.as_blob()?);
        found.push(Compared { row: row.get(0)?, text: row.get(1)?, nearness });
    }
    found.sort_unstable_by(|a, b| {
        let worth = |compared: &Compared| compared.nearness.unwrap_or(f32::NEG_INFINITY);
        worth(b).total_cmp(&worth(a)).then(b.row.cmp(&a.row))
    });
    Ok(found)
}

/// The rows that mean what is sought, nearest first. Whose rows may be seen is held by the rows themselves: a vector
/// that is not of the row it says is passed over.
pub(super) fn nearest(
    connection: &Connection,
    sought: &QueryVector,
    scopes: &Scopes,
    except_task: Option<&str>,
    most: usize,
) -> rusqlite::Result<Vec<(MemorySource, i64)>> {
    let visible = format!("scope >= 0 AND {}", scopes.rows());
    let mut found = Vec::new();
    for near in compared(connection, sought, &visible)? {
        if found.len() >= most || near.nearness.is_none() {
            break;
        }
        let Some((source, id)) = MemorySource::from_gram_row(near.row) else { continue };
        let query =
            format!("SELECT task, {} FROM {} WHERE id = ?1 AND {}", source.text(), source.table(), scopes.rows());
        let seen: Option<(String, String)> =
            connection.prepare_cached(&query)?.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let is_its_own = |(task, text): (String, String)| {
            except_task != Some(task.as_str()) && number_of(&[beginning(&text)]) == near.text
        };
        if seen.is_some_and(is_its_own) {
            found.push((source, id));
        }
    }
    Ok(found)
}

/// What is compared of a skill.
fn skill_text(slug: &str, description: &str) -> String {
    format!("{}: {}", slug.replace(['-', '_'], " "), text::line(description, TEXT_CHARS))
}

/// Skills compared with what is sought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NearSkills {
    /// Their places in the list and how near they are, -1 to 1, nearest first.
    pub order: Vec<(usize, f32)>,
    /// Those without a vector.
    pub lacking: Vec<PendingText>,
}

/// Which of these skills, by slug and description, mean what is sought; and those without a vector, at most so many.
pub fn nearest_skills<'s>(
    connection: &Connection,
    sought: &QueryVector,
    skills: impl Iterator<Item = (&'s str, &'s str)>,
    most_lacking: usize,
) -> Result<NearSkills> {
    let failed = |source| sql("compare skills", source);
    let near = compared(connection, sought, &format!("scope = {OF_SKILLS}")).map_err(failed)?;
    let known: HashMap<i64, Option<f32>> = near.into_iter().map(|near| (near.row, near.nearness)).collect();
    let (mut order, mut lacking) = (Vec::new(), Vec::new());
    for (at, (slug, description)) in skills.enumerate() {
        let skill = PendingText::of_skill(slug, description);
        match known.get(&skill.row) {
            Some(Some(nearness)) => order.push((at, *nearness)),
            Some(None) => {}
            None if lacking.len() < most_lacking => lacking.push(skill),
            None => {}
        }
    }
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    Ok(NearSkills { order, lacking })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::semantic::nearness;

    #[test]
    fn what_is_no_vector_is_refused() {
        for raw in [vec![], vec![0.0; 8], vec![f32::NAN], vec![1.0, f32::INFINITY], vec![1.0; MOST_DIMENSIONS + 1]] {
            assert!(Vector::checked(raw).is_err());
        }
        assert_eq!(Vector::checked(vec![3.0, 4.0]).unwrap(), Vector(vec![0.6, 0.8]));
    }

    proptest! {
        #[test]
        fn a_byte_a_dimension_keeps_nearness(
            a in prop::collection::vec(-1.0_f32..1.0, 384), b in prop::collection::vec(-1.0_f32..1.0, 384),
        ) {
            let (a, b) = (Vector::checked(a).unwrap(), Vector::checked(b).unwrap());
            let stored = QueryVector::new("m", &a).nearness(&b.to_bytes()).unwrap();
            prop_assert!((stored - nearness(&a.0, &b.0)).abs() < 0.01);
        }

        #[test]
        fn no_bytes_make_it_panic_or_say_what_is_no_number(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let sought = QueryVector::new("m", &Vector::checked(vec![1.0; 16]).unwrap());
            prop_assert!(sought.nearness(&bytes).is_none_or(|nearness| !nearness.is_nan()));
        }
    }
}
