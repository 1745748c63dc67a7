//! The strict rules for skills that are written, and for checks whether a skill is valid.
//!
//! They follow the public Agent Skills specification, and are a pure function of the document. A skill is valid when
//! no finding is an error; warnings name what works here but not everywhere.

use super::document::Document;
use super::finding::{Gathered, Rule, SkillFinding};
use super::front_matter::lines::{LineIndex, slice};
use super::front_matter::{Closing, Entry, FrontMatter, KNOWN_KEYS};
use super::leniency;
use super::value::FrontMatterValue;

/// The longest name, in characters.
pub const MAX_NAME: usize = 64;
/// The longest description, in characters.
pub const MAX_DESCRIPTION: usize = 1024;
/// The longest compatibility note, in characters.
pub const MAX_COMPATIBILITY: usize = 500;
/// The longest skill file, in characters.
pub const MAX_SKILL_CHARS: usize = 100_000;
/// The largest file beside a skill, in bytes.
pub const MAX_SUPPORT_BYTES: usize = 1024 * 1024;
/// The directories beside a skill that its support files live in.
pub const SUPPORT_DIRS: [&str; 4] = ["references", "templates", "scripts", "assets"];

/// The number of lines past which a skill should hand things over to support files.
const MANY_LINES: usize = 500;

/// Keys that the specification does not know but that skills of the Hermes family use.
const FAMILY_KEYS: [&str; 7] = ["version", "author", "platform", "platforms", "triggers", "tags", "requires"];

/// Whether a name has 1 to 64 characters of `a-z`, `0-9` and single hyphens, and a hyphen at neither end.
pub fn is_valid_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Whether findings leave a skill valid.
pub fn is_valid(findings: &[SkillFinding]) -> bool {
    !findings.iter().any(SkillFinding::is_error)
}

/// Everything that is wrong with a document, ordered by line and then by rule.
///
/// `expected_name` is the name of the skill's directory, or the stem of a skill that is a single file.
pub fn check(document: &Document, expected_name: Option<&str>) -> Vec<SkillFinding> {
    let index = LineIndex::new(document.raw());
    let mut found = leniency::all(document, &index);
    if let Ok(matter) = document.matter() {
        let mut checker = Checker { document, matter, index: &index, found: &mut found };
        checker.name(expected_name);
        checker.description();
        checker.license();
        checker.compatibility();
        checker.metadata();
        checker.allowed_tools();
        checker.unknown_keys();
        checker.dashes();
    }
    size(document, &index, &mut found);
    found.settle()
}

/// The rules about the file as a whole.
fn size(document: &Document, index: &LineIndex, found: &mut Gathered) {
    if document.body().trim().is_empty() {
        let line = index.line(document.raw().len());
        let fix = "Write the instructions below the closing `---`.";
        found.add(SkillFinding::new(Rule::BodyEmpty, Some(line), "Nothing stands below the front matter.", fix));
    }
    let length = document.raw().chars().count();
    let fix = format!("Move details into files under `{}/` and link to them.", SUPPORT_DIRS.join("/`, `"));
    if length > MAX_SKILL_CHARS {
        let message = format!("The file has {length} characters; the most is {MAX_SKILL_CHARS}.");
        found.add(SkillFinding::new(Rule::TooLong, None, message, fix.clone()));
    }
    if index.count() > MANY_LINES {
        let message = format!("The file has {} lines; a skill should have at most {MANY_LINES}.", index.count());
        found.add(SkillFinding::new(Rule::ManyLines, None, message, fix));
    }
}

struct Checker<'a> {
    document: &'a Document,
    matter: &'a FrontMatter,
    index: &'a LineIndex,
    found: &'a mut Gathered,
}

impl<'a> Checker<'a> {
    fn add(&mut self, rule: Rule, line: usize, message: impl Into<String>, fix: impl Into<String>) {
        self.found.add(SkillFinding::new(rule, Some(line), message, fix));
    }

    fn line_of(&self, entry: &Entry) -> usize {
        self.index.line(entry.key.key_start)
    }

    /// The value of a key and the line it stands on.
    fn value(&self, key: &str) -> Option<(FrontMatterValue, usize)> {
        let text = self.document.raw();
        let (entry, value) = self.matter.find(text, key)?;
        Some((value.clone(), self.line_of(entry)))
    }

    /// The value of an optional key; one without a value is reported and left at that.
    fn optional(&mut self, key: &str) -> Option<(FrontMatterValue, usize)> {
        match self.value(key)? {
            (FrontMatterValue::Null, line) => {
                let message = format!("`{key}` has no value.");
                self.add(Rule::EmptyValue, line, message, format!("Give `{key}` a value or delete the line."));
                None
            }
            found => Some(found),
        }
    }

    /// The text of a required key; one that is missing, empty or not text is reported.
    fn required(&mut self, key: &str, missing: Rule, fix: &str) -> Option<(String, usize)> {
        let (message, line) = match self.value(key) {
            Some((FrontMatterValue::Text(text), line)) if !text.trim().is_empty() => {
                return Some((text, line));
            }
            Some((FrontMatterValue::Text(_) | FrontMatterValue::Null, line)) => (format!("`{key}` is empty."), line),
            Some((FrontMatterValue::List(_) | FrontMatterValue::Map(_), line)) => {
                (format!("`{key}` is not text."), line)
            }
            None => (format!("`{key}` is missing."), self.index.line(self.matter.fence.start)),
        };
        self.add(missing, line, message, fix);
        None
    }

    fn name(&mut self, expected: Option<&str>) {
        let fix = match expected.filter(|name| is_valid_name(name)) {
            Some(expected) => format!("Write `name: {expected}`."),
            None => {
                format!("Write `name:` with 1 to {MAX_NAME} of a-z, 0-9 and single hyphens, as in `name: send-mail`.")
            }
        };
        let Some((name, line)) = self.required("name", Rule::NameMissing, &fix) else {
            return;
        };
        let name = name.trim();
        if !is_valid_name(name) {
            let message = format!(
                "The name `{}` is not 1 to {MAX_NAME} of a-z, 0-9 and single hyphens between them.",
                shorten(name)
            );
            self.add(Rule::NameFormat, line, message, fix.clone());
        }
        if let Some(expected) = expected.filter(|expected| *expected != name) {
            let message =
                format!("The name `{}` differs from `{expected}`, the name of its directory or file.", shorten(name));
            let fix =
                if is_valid_name(expected) { fix } else { "Give the directory or file the skill's name.".to_owned() };
            self.add(Rule::NameMismatch, line, message, fix);
        }
    }

    fn description(&mut self) {
        let fix = format!(
            "Write `description:` with 1 to {MAX_DESCRIPTION} characters that say what the skill does and when to use it."
        );
        let Some((description, line)) = self.required("description", Rule::DescriptionMissing, &fix) else {
            return;
        };
        let length = description.chars().count();
        if length > MAX_DESCRIPTION {
            let message = format!("The description has {length} characters; the most is {MAX_DESCRIPTION}.");
            self.add(Rule::DescriptionLength, line, message, fix);
        }
    }

    fn license(&mut self) {
        if let Some((FrontMatterValue::List(_) | FrontMatterValue::Map(_), line)) = self.optional("license") {
            let fix = "Write a short licence name or the name of a licence file: `license: MIT`.";
            self.add(Rule::LicenseType, line, "`license` is not text.", fix);
        }
    }

    fn compatibility(&mut self) {
        let Some((value, line)) = self.value("compatibility") else {
            return;
        };
        let length = value.as_text().map_or(0, |text| text.chars().count());
        let is_blank = value.as_text().is_none_or(|text| text.trim().is_empty());
        if is_blank || length > MAX_COMPATIBILITY {
            let message = format!("`compatibility` is not a text of 1 to {MAX_COMPATIBILITY} characters.");
            let fix =
                "Say on one line what the skill needs, as in `compatibility: Needs git and Python 3.11`, or delete it.";
            self.add(Rule::Compatibility, line, message, fix);
        }
    }

    fn metadata(&mut self) {
        let fix = "Write one `key: text` per line below `metadata:`, indented by two spaces.";
        match self.optional("metadata") {
            Some((FrontMatterValue::Map(map), line)) => {
                let is_nested =
                    |value: &FrontMatterValue| matches!(value, FrontMatterValue::List(_) | FrontMatterValue::Map(_));
                let nested: Vec<&str> =
                    map.iter().filter(|(_, value)| is_nested(value)).map(|(key, _)| key.as_str()).collect();
                if !nested.is_empty() {
                    let message = format!(
                        "`metadata` is a map of texts, but these are not texts: {}.",
                        shorten(&nested.join(", "))
                    );
                    self.add(Rule::MetadataNested, line, message, fix);
                }
            }
            Some((FrontMatterValue::Text(_) | FrontMatterValue::List(_), line)) => {
                self.add(Rule::MetadataType, line, "`metadata` is not a map.", fix)
            }
            Some((FrontMatterValue::Null, _)) | None => {}
        }
    }

    fn allowed_tools(&mut self) {
        let fix = "Write the tools on one line with spaces between them: `allowed-tools: Read Grep`.";
        let Some((value, line)) = self.optional("allowed-tools") else {
            return;
        };
        match value {
            FrontMatterValue::Text(text) if has_separating_comma(&text) => {
                self.add(Rule::AllowedTools, line, "`allowed-tools` is separated by commas.", fix);
            }
            FrontMatterValue::Text(_) | FrontMatterValue::Null => {}
            FrontMatterValue::List(_) | FrontMatterValue::Map(_) => {
                self.add(Rule::AllowedTools, line, "`allowed-tools` is not one text.", fix)
            }
        }
    }

    fn unknown_keys(&mut self) {
        let text = self.document.raw();
        for entry in &self.matter.entries {
            let key = entry.key(text);
            if KNOWN_KEYS.contains(&key) {
                continue;
            }
            let (message, fix) = if FAMILY_KEYS.contains(&key) {
                (
                    format!(
                        "`{key}` is a key of the Hermes family; it is read here, but the public validator refuses it."
                    ),
                    format!("Keep it for Hermes, or move it below `metadata:` as `  {key}: …` for other readers."),
                )
            } else {
                (
                    format!("`{}` is not a key of the specification; the public validator refuses it.", shorten(key)),
                    format!("Check the spelling ({}), or move it below `metadata:`.", KNOWN_KEYS.join(", ")),
                )
            };
            self.add(Rule::UnknownKey, self.line_of(entry), message, fix);
        }
    }

    /// The public validator cuts at the first three dashes, wherever they stand.
    fn dashes(&mut self) {
        let matter = slice(self.document.raw(), self.matter.fence.next, self.matter.end);
        if let Some(at) = matter.find("---").filter(|_| self.matter.closing == Closing::Dashes) {
            let line = self.index.line(self.matter.fence.next + at);
            let message = "Three dashes stand inside the front matter; the public validator takes them for its end.";
            self.add(Rule::DashesInFrontMatter, line, message, "Write a dash (–) or one hyphen instead.");
        }
    }
}

/// Whether a comma stands outside parentheses, as in `Read, Bash(git add:*)`.
fn has_separating_comma(text: &str) -> bool {
    let mut depth = 0usize;
    text.bytes().any(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 0
    })
}

/// Enough of a text to recognise it by.
fn shorten(text: &str) -> String {
    const ENOUGH: usize = 80;
    match text.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}…", slice(text, 0, end)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_words_joined_by_single_hyphens() {
        for name in ["a", "send-mail", "2024", "a-1-b", &"a".repeat(MAX_NAME)] {
            assert!(is_valid_name(name), "{name}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "a b", "é", "a/b", "a\n", &long] {
            assert!(!is_valid_name(name), "{name}");
        }
    }

    #[test]
    fn a_comma_inside_parentheses_separates_nothing() {
        assert!(has_separating_comma("Read, Grep"));
        assert!(!has_separating_comma("Bash(git add, git commit) Read"));
        assert!(!has_separating_comma("Read Grep"));
    }

    #[test]
    fn a_long_text_is_shortened_on_a_character() {
        assert_eq!(shorten("short"), "short");
        assert_eq!(shorten(&"é".repeat(100)), format!("{}…", "é".repeat(80)));
    }
}
