//! What the entries of front matter say: the parser is asked about the whole, then about each entry alone, and what it
//! refuses even so is rescued line by line.

use super::lines::{Line, Lines, slice};
use super::rescue::{self, Oddity, OddityKind};
use super::yaml::{self, Failure};
use super::{Bound, Entry, FrontMatter, MAX_BYTES};
use crate::value::FrontMatterValue;

/// So many entries are given to the parser one by one; further ones are read as their lines.
const MAX_ALONE: usize = 256;

/// The name that an entry has while it is read alone.
pub(crate) const ALONE: &str = "k";

/// The value of every entry.
pub(crate) fn of(text: &str, matter: &FrontMatter) -> Vec<FrontMatterValue> {
    whole(text, matter).unwrap_or_else(|| {
        let entries = matter.entries.iter().enumerate();
        let value = |(number, entry): (usize, &Entry)| match number < MAX_ALONE {
            true => read(text, entry, matter.end).0,
            false => FrontMatterValue::Text(joined(text, entry, &lines_below(text, entry, matter.end))),
        };
        entries.map(value).collect()
    })
}

/// The values if the parser reads the whole block, and finds the entries in it that were cut.
fn whole(text: &str, matter: &FrontMatter) -> Option<Vec<FrontMatterValue>> {
    if matter.conflict.is_some() || matter.stray.is_some() || matter.missing_space.is_some() {
        return None;
    }
    let column = matter.entries.first()?.indent;
    let mut map = yaml::parse(slice(text, matter.fence.next, matter.end), column).ok()?;
    if map.len() != matter.entries.len() {
        return None;
    }
    matter.entries.iter().map(|entry| map.remove(entry.name(text).as_ref())).collect()
}

/// What was odd about the values, entry by entry.
pub(crate) fn oddities(text: &str, matter: &FrontMatter) -> Vec<(Entry, Vec<Oddity>)> {
    let entries = matter.entries.iter().take(MAX_ALONE);
    entries.map(|entry| (*entry, read(text, entry, matter.end).1)).collect()
}

/// Reads one entry alone; `limit` is the end of the front matter.
fn read(text: &str, entry: &Entry, limit: usize) -> (FrontMatterValue, Vec<Oddity>) {
    let lines = lines_below(text, entry, limit);
    let column = entry.indent;
    let mut alone = format!("{:column$}{ALONE}: {}\n", "", entry.head(text));
    for line in &lines {
        alone.push_str(slice(text, line.start, line.next));
    }
    if alone.len() > MAX_BYTES {
        return (FrontMatterValue::Text(joined(text, entry, &lines)), Vec::new());
    }
    let rescued = rescue::rescue(text, entry, &lines);
    let mut oddities = rescued.oddities;
    let failure = match only(yaml::parse(&alone, column)) {
        Ok(value) => {
            oddities.retain(|oddity| !oddity.kind.is_refused());
            return (value, oddities);
        }
        Err(failure) => failure,
    };
    let note = |kind| Oddity { kind, offset: entry.key.value };
    match failure {
        Failure::Refused(Bound::Size) => {}
        Failure::Refused(Bound::Depth) => oddities = vec![note(OddityKind::TooDeep)],
        Failure::Invalid { .. } if oddities.iter().any(|oddity| oddity.kind.explains_a_refusal()) => {}
        Failure::Invalid { message, .. } => oddities.push(note(OddityKind::Malformed(message))),
    }
    let value = only(yaml::parse_marked(&rescued.text, column, rescued.mark));
    (value.unwrap_or_else(|_| FrontMatterValue::Text(joined(text, entry, &lines))), oddities)
}

/// The value of a map that has this one key.
fn only(
    parsed: Result<std::collections::BTreeMap<String, FrontMatterValue>, Failure>,
) -> Result<FrontMatterValue, Failure> {
    let mut map = parsed?;
    let value = map.remove(ALONE).filter(|_| map.is_empty());
    value.ok_or_else(|| Failure::Invalid { message: "it reads as something else than one value".to_owned(), line: 1 })
}

/// The text of a quoted scalar.
pub(crate) fn unquoted(quoted: &str) -> Option<String> {
    match only(yaml::parse(&format!("{ALONE}: {quoted}\n"), 0)) {
        Ok(FrontMatterValue::Text(text)) => Some(text),
        _ => None,
    }
}

/// The lines below the key, with the blank lines that a kept line break needs and without conflict markers.
fn lines_below(text: &str, entry: &Entry, limit: usize) -> Vec<Line> {
    let mut sides = entry.sides;
    let below = Lines::between(text, entry.next_line, limit);
    below
        .take_while(|line| line.start <= entry.end || line.is_blank())
        .filter(|line| line.start >= entry.next_line && !sides.skips(text, *line))
        .collect()
}

/// The text of a value with no regard to YAML.
fn joined(text: &str, entry: &Entry, below: &[Line]) -> String {
    let lines = below.iter().filter(|line| !line.is_blank()).map(|line| line.content(text));
    let all = std::iter::once(entry.head(text)).chain(lines).filter(|line| !line.is_empty());
    all.collect::<Vec<_>>().join(" ")
}
