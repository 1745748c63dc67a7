//! What the guard says of public skill libraries: `cargo run --release -p herm-skills --example judge_libraries -- DIR`
//!
//! Every directory right below DIR is one library and is read as `herm skills import` reads it. A line a refusal: file and
//! line, the rule, and the text with secrets taken out, for a person to judge. Counts follow. Decision 0027 has the
//! figures that were found with it.

use std::path::Path;

use herm_skills::guard::ObjectionWeight;
use herm_skills::import::{SkillImportCandidate, SkillLibrary};

/// What was read, over all libraries.
#[derive(Debug, Default, PartialEq, Eq)]
struct Judged {
    libraries: usize,
    unreadable: usize,
    skills: usize,
    files: usize,
    warned: usize,
    refused: usize,
    refusals: Vec<String>,
}

impl Judged {
    fn libraries_below(dir: &Path) -> std::io::Result<Self> {
        let mut judged = Self::default();
        let mut paths = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths.iter().filter(|path| path.is_dir()) {
            judged.libraries += 1;
            match SkillLibrary::read(path) {
                Ok(library) => library.skills.iter().for_each(|skill| judged.add(path, skill)),
                Err(_) => judged.unreadable += 1,
            }
        }
        Ok(judged)
    }

    fn add(&mut self, library: &Path, skill: &SkillImportCandidate) {
        self.skills += 1;
        self.files += skill.files.len();
        let (refused, warned): (Vec<_>, Vec<_>) =
            skill.concerns.iter().partition(|concern| concern.objection.weight == ObjectionWeight::Refusal);
        self.refused += usize::from(!refused.is_empty());
        self.warned += usize::from(refused.is_empty() && !warned.is_empty());
        for concern in refused {
            let objection = &concern.objection;
            let main = Path::new(&skill.source);
            let file = if main.ends_with(&concern.file) {
                main.to_owned()
            } else {
                main.with_file_name("").join(&concern.file)
            };
            let said = line_of(skill, &concern.file, objection.line);
            self.refusals.push(format!(
                "{}: {}:{}: {} ({}): {said}",
                library.file_name().unwrap_or_default().to_string_lossy(),
                file.display(),
                objection.line,
                objection.rule,
                objection.words,
            ));
        }
    }
}

/// A line of a file of a skill, cut short and without secrets.
fn line_of(skill: &SkillImportCandidate, file: &str, line: usize) -> String {
    const ENOUGH: usize = 240;
    let named = |end: &str| skill.files.iter().find(|(path, _)| path.as_str().ends_with(end));
    // The main file of a brain's skill has one name, whatever the library calls it.
    let found = named(&format!("/{file}")).or_else(|| named("/SKILL.md"));
    let text = found.map(|(_, content)| String::from_utf8_lossy(content)).unwrap_or_default();
    let clean = herm_core::redact::redact(&text);
    let line = line.checked_sub(1).and_then(|at| clean.lines().nth(at)).unwrap_or_default();
    line.trim().chars().take(ENOUGH).collect()
}

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> std::io::Result<()> {
    let Some(dir) = std::env::args().nth(1) else {
        return Err(std::io::Error::other("name a directory whose directories are skill libraries"));
    };
    let judged = Judged::libraries_below(Path::new(&dir))?;
    for refusal in &judged.refusals {
        println!("{refusal}");
    }
    println!(
        "{} libraries ({} not readable), {} skills, {} files: {} skills refused for {} reasons, {} with warnings",
        judged.libraries,
        judged.unreadable,
        judged.skills,
        judged.files,
        judged.refused,
        judged.refusals.len(),
        judged.warned
    );
    Ok(())
}

#[test]
fn a_refusal_names_file_and_line_and_keeps_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("library/one");
    std::fs::create_dir_all(skill.join("references")).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: one\ndescription: Does one thing.\n---\n# One\n").unwrap();
    std::fs::write(skill.join("references/a.md"), "# A\n\nkey: AKIAQ7RK2ZP9LW4XTB6Y\n").unwrap();
    let expected = Judged {
        libraries: 1,
        skills: 1,
        files: 2,
        refused: 1,
        refusals: vec![
            "library: one/references/a.md:3: holds a secret (an access key id of Amazon Web Services): key: [redacted]"
                .to_owned(),
        ],
        ..Judged::default()
    };
    assert_eq!(Judged::libraries_below(dir.path()).unwrap(), expected);
}
