//! Two versions of a brain, compared file by file and skill by skill.

use herm::brain::{BrainDiff, FileDiff, SkillDiff};
use herm::text::diff;
use herm::{BrainId, Digest, Reader, Result};
use serde_json::{Value, json};

use super::to_json;

/// Lines around a change.
const CONTEXT: usize = 3;

/// How much is shown of what differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownFiles {
    /// Only which files differ.
    Names,
    /// What differs in them, too.
    Texts,
}

/// What differs between two versions.
pub(crate) struct ComparedVersions {
    /// For programs: the same as one JSON document.
    pub(crate) json: Value,
    /// For people: a line a file, with its hunks where texts are shown.
    pub(crate) text: String,
}

/// Compares two versions of a brain.
pub(crate) fn compare(reader: &Reader, from: u64, to: u64, shows: ShownFiles) -> Result<ComparedVersions> {
    let compared = reader.compare(from, to)?;
    let mut text = head(reader.id(), &compared);
    let mut files = Vec::new();
    for file in &compared.files {
        let mut json = to_json(file)?;
        text.push_str(&name_line(file));
        if shows == ShownFiles::Texts {
            let shown = show(reader, file)?;
            text.push_str(&shown.text(file));
            shown.into_json(&mut json);
        }
        files.push(json);
    }
    text.extend(compared.skills.iter().map(skill_line));
    let json = json!({
        "id": reader.id(), "from": from, "to": to, "files": files, "skills": to_json(&compared.skills)?,
    });
    Ok(ComparedVersions { json, text })
}

fn head(id: &BrainId, compared: &BrainDiff) -> String {
    let BrainDiff { from, to, files, skills } = compared;
    if files.is_empty() && skills.is_empty() {
        return format!("brain {id}: no file and no skill state differs between version {from} and version {to}\n");
    }
    format!("brain {id}: version {from} → version {to}\n")
}

fn name_line(file: &FileDiff) -> String {
    let what = file.what.name();
    match &file.from {
        Some(from) => format!("{what:<8}  {from} → {}\n", file.path),
        None => format!("{what:<8}  {}\n", file.path),
    }
}

/// One skill whose state differs, as a line.
pub(crate) fn skill_line(skill: &SkillDiff) -> String {
    let (before, after) = (skill.before.words(), skill.after.words());
    if before == after {
        return format!("skill     {}: {after} since another moment\n", skill.slug);
    }
    format!("skill     {}: {before} → {after}\n", skill.slug)
}

/// What can be shown of a file that differs.
enum Shown {
    /// Nothing: the content is the same, and the file only moved.
    Same,
    /// The hunks of a unified diff.
    Text(String),
    /// How many bytes it had and has.
    Binary(Option<usize>, Option<usize>),
    /// The content of one side is not kept.
    Lost,
}

fn show(reader: &Reader, file: &FileDiff) -> Result<Shown> {
    if file.before == file.after {
        return Ok(Shown::Same);
    }
    let mut sides = Vec::new();
    for digest in [file.before, file.after] {
        sides.push(match digest {
            None => None,
            Some(digest) => match reader.content(&digest)? {
                None => return Ok(Shown::Lost),
                content => content,
            },
        });
    }
    let after = sides.pop().flatten();
    let before = sides.pop().flatten();
    Ok(match (as_text(before.as_deref()), as_text(after.as_deref())) {
        (Some(before), Some(after)) => Shown::Text(diff::unified(before, after, CONTEXT)),
        _ => Shown::Binary(before.map(|bytes| bytes.len()), after.map(|bytes| bytes.len())),
    })
}

/// A side as text: no file is an empty one, and a zero byte is in no text.
fn as_text(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes.unwrap_or_default()).ok().filter(|text| !text.contains('\0'))
}

impl Shown {
    fn text(&self, file: &FileDiff) -> String {
        let side = |letter: char, digest: Option<Digest>, path: &dyn std::fmt::Display| match digest {
            Some(_) => format!("{letter}/{path}"),
            None => "/dev/null".to_owned(),
        };
        match self {
            Self::Same => String::new(),
            Self::Text(hunks) => {
                let from = file.from.as_ref().unwrap_or(&file.path);
                format!("--- {}\n+++ {}\n{hunks}", side('a', file.before, from), side('b', file.after, &file.path))
            }
            Self::Binary(Some(before), Some(after)) => format!("  binary, {before} → {after} bytes\n"),
            Self::Binary(before, after) => format!("  binary, {} bytes\n", before.or(*after).unwrap_or(0)),
            Self::Lost => "  its content is no longer kept\n".to_owned(),
        }
    }

    fn into_json(self, json: &mut Value) {
        match self {
            Self::Same => {}
            Self::Text(hunks) => json["diff"] = json!(hunks),
            Self::Binary(before, after) => json["binary"] = json!({ "before": before, "after": after }),
            Self::Lost => json["lost"] = json!(true),
        }
    }
}
