//! `herm skills validate`: any file or tree against the rules.

use std::path::{Path, PathBuf};

use herm::fsio::{self, Dir, Root, ScanAction, SurveyLimits};
use herm::skill::{Document, MAIN_FILES, Severity, SkillFinding, all_skills, rules};
use herm::{Error, ErrorKind, RelPath, Result};
use serde_json::json;

use super::to_json;
use crate::exit;
use crate::output::Answer;

const MAX_BYTES: u64 = 1 << 20;

struct Checked {
    path: PathBuf,
    findings: Vec<SkillFinding>,
    unreadable: Option<String>,
}

impl Checked {
    fn is_valid(&self) -> bool {
        self.unreadable.is_none() && self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}

pub(super) fn run(paths: &[PathBuf]) -> Result<Answer> {
    let here = [PathBuf::from(".")];
    let mut checked = Vec::new();
    for path in if paths.is_empty() { &here } else { paths } {
        let meta = path.metadata().map_err(|source| Error::io("read", path, source))?;
        if meta.is_dir() {
            tree(path, &mut checked)?;
        } else {
            checked.push(file(path)?);
        }
    }
    if checked.is_empty() {
        return Err(Error::not_found("there is no skill file there")
            .hint("name a SKILL.md, a flat skill such as name.md, or a directory that holds some"));
    }
    Ok(answer(&checked))
}

/// A single file: its name, or its directory's, is the name it must carry.
fn file(path: &Path) -> Result<Checked> {
    let absolute = path.canonicalize().map_err(|source| Error::io("read", path, source))?;
    let name = absolute.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let expected = if MAIN_FILES.contains(&name) {
        absolute.parent().and_then(Path::file_name).and_then(|dir| dir.to_str())
    } else {
        name.strip_suffix(".md")
    };
    let content = match fsio::read_regular(&absolute, MAX_BYTES) {
        Ok(content) => content,
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Refused) => {
            let unreadable = Some(error.message().to_owned());
            return Ok(Checked { path: path.to_owned(), findings: Vec::new(), unreadable });
        }
        Err(error) => return Err(error),
    };
    Ok(check(path.to_owned(), &content, expected))
}

fn check(path: PathBuf, content: &[u8], expected: Option<&str>) -> Checked {
    match Document::read(content) {
        Ok(document) => Checked { path, findings: rules::check(&document, expected), unreadable: None },
        Err(unreadable) => Checked { path, findings: Vec::new(), unreadable: Some(unreadable.reason) },
    }
}

fn tree(path: &Path, checked: &mut Vec<Checked>) -> Result<()> {
    let root = Root::open(&path.canonicalize().map_err(|source| Error::io("read", path, source))?)?;
    let pruned = |rel: &str| match rel.rsplit('/').next() {
        Some(name) if herm::layout::PRUNED_DIRS.contains(&name) => ScanAction::Skip,
        _ => ScanAction::List,
    };
    let mut top = Dir::default();
    let survey = fsio::survey(&root, &mut top, SurveyLimits::default(), &pruned)?;
    for odd in &survey.odd {
        let unreadable = Some(format!("{}; it is not followed", odd.what));
        checked.push(Checked { path: path.join(&odd.path), findings: Vec::new(), unreadable });
    }
    let mut files: Vec<RelPath> = Vec::new();
    top.for_each_file(&mut |file, _| {
        files.push(file.parse()?);
        Ok(())
    })?;
    files.sort();
    for (file, expected) in skills_of(&root, &files)? {
        let shown = path.join(&file);
        match root.read(&file, MAX_BYTES) {
            Ok(content) => checked.push(check(shown, &content.unwrap_or_default(), Some(&expected))),
            Err(error) => checked.push(Checked {
                path: shown,
                findings: Vec::new(),
                unreadable: Some(error.message().to_owned()),
            }),
        }
    }
    Ok(())
}

/// The main files of a tree, each with the name it must carry: the tree is a skill, or holds some.
fn skills_of(root: &Root, files: &[RelPath]) -> Result<Vec<(RelPath, String)>> {
    if let Some(main) = files.iter().find(|file| MAIN_FILES.contains(&file.as_str())) {
        let name = root.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        return Ok(vec![(main.clone(), name.to_owned())]);
    }
    // As if the tree were a `skills/` directory.
    let below = files.iter().map(|file| format!("skills/{file}").parse()).collect::<Result<Vec<RelPath>>>()?;
    let mut skills = Vec::new();
    for place in all_skills(&below, "skills") {
        let file: RelPath = place.main.as_str().strip_prefix("skills/").unwrap_or_default().parse()?;
        let expected = match place.dir() {
            Some(dir) => dir.name().to_owned(),
            None => file.name().trim_end_matches(".md").to_owned(),
        };
        skills.push((file, expected));
    }
    Ok(skills)
}

fn answer(checked: &[Checked]) -> Answer {
    let invalid = checked.iter().filter(|checked| !checked.is_valid()).count();
    let mut text = String::new();
    for Checked { path, findings, unreadable } in checked {
        if let Some(reason) = unreadable {
            text.push_str(&format!("{}: error: unreadable: {reason}\n", path.display()));
        }
        for finding in findings {
            let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            text.push_str(&format!(
                "{}{line}: {severity}: {}: {} {}\n",
                path.display(),
                finding.rule,
                finding.message,
                finding.fix
            ));
        }
    }
    text.push_str(&format!("{} checked, {invalid} invalid\n", checked.len()));
    let skills: Vec<_> = checked
        .iter()
        .map(|checked| {
            json!({
                "path": checked.path.display().to_string(),
                "valid": checked.is_valid(),
                "unreadable": checked.unreadable,
                "findings": to_json(&checked.findings).unwrap_or_default(),
            })
        })
        .collect();
    let json = json!({ "valid": invalid == 0, "checked": checked.len(), "invalid": invalid, "skills": skills });
    Answer::new(text, json).code(if invalid == 0 { exit::DONE } else { exit::NEGATIVE })
}
