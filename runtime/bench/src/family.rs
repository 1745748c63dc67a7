//! A family of tasks: a directory of data, described in `docs/reference/learning-family.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use herm::fsio::Root;
use herm::skill::{Document, rules};
use herm::{Error, RelPath, Result, Slug};
use serde::Deserialize;
use serde_json::Value;

use super::demonstrations::{self, Demonstration};
use super::locate::Step::{self, Index, Key};
use super::locate::line_of;
use super::tasks::{self, FamilyTask};
use super::tool_table::ToolTable;

/// The hint where no better one is at hand.
pub(super) const FORMAT: &str = "docs/reference/learning-family.md has every field";
/// The version of the format.
const SCHEMA: &str = "herm/learning-family@1";
const FAMILY: &str = "family.json";
const TASKS: &str = "tasks.jsonl";
const ROLE: &str = "system.md";
const SKILL: &str = "skill.md";
const DEMONSTRATIONS: &str = "demonstrations.jsonl";
/// The most bytes of a file that is read whole.
pub(super) const MOST_BYTES: u64 = 16 << 20;
/// The most bytes of a role and of a skill.
const MOST_PAGE: u64 = 64 << 10;
/// The tools of herm that a family has where it does not say.
const USUAL_TOOLS: [&str; 1] = ["skill_view"];

/// A family, read and checked.
#[derive(Debug, Clone)]
pub struct Family {
    /// The name in tables, of `family.json` or of its directory.
    pub name: String,
    /// What it is about, in a line.
    pub about: String,
    /// Families of one group have a row of their own in the table.
    pub(super) group: Option<String>,
    pub(super) role: String,
    pub(super) tools: Vec<ToolTable>,
    pub(super) servers: Vec<FamilyServer>,
    /// Tools of herm that the agent has besides.
    pub(super) standard_tools: Vec<String>,
    pub(super) turns: Option<u8>,
    /// The skill that a person wrote, and its name.
    pub(super) skill: Option<(Slug, String)>,
    /// Tasks that a person worked, from the question to the answer.
    pub(super) demonstrations: Vec<Demonstration>,
    pub(super) learn: Vec<FamilyTask>,
    pub(super) held_out: Vec<FamilyTask>,
    /// What its author may want to know.
    pub remarks: Vec<String>,
}

/// An MCP server that a family starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FamilyServer {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) timeout: Option<Duration>,
    /// Where it is started: the directory of its family.
    pub(super) directory: PathBuf,
}

impl Family {
    /// Reads the family in a directory; naming its `family.json` is as good.
    pub fn open(path: &Path) -> Result<Self> {
        let is_file = path.file_name().is_some_and(|name| name == FAMILY) && path.is_file();
        let given = if is_file { path.parent().filter(|dir| !dir.as_os_str().is_empty()) } else { Some(path) };
        let given = given.unwrap_or(Path::new("."));
        let directory = given.canonicalize().map_err(|source| Error::io("open the family", given, source))?;
        let root = Root::open(&directory)?;
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::read(&FamilyFiles::Directory { root, shown: given.to_owned() }, &name)
    }

    /// The families right below a directory that is none itself, by name; nothing where the path is a family, a file, or
    /// has none below it.
    pub fn below(path: &Path) -> Result<Vec<PathBuf>> {
        if !path.is_dir() || path.join(FAMILY).exists() {
            return Ok(Vec::new());
        }
        let directory = path.canonicalize().map_err(|source| Error::io("open the families", path, source))?;
        let names = Root::open(&directory)?.list()?.into_iter().map(|entry| path.join(entry.name));
        let mut families: Vec<PathBuf> = names.filter(|below| below.join(FAMILY).is_file()).collect();
        families.sort();
        Ok(families)
    }

    /// Reads a family that is built in.
    pub(super) fn built_in(name: &str, files: &'static [(&'static str, &'static [u8])]) -> Result<Self> {
        Self::read(&FamilyFiles::BuiltIn { name: name.to_owned(), files }, name)
    }

    fn read(files: &FamilyFiles, directory_name: &str) -> Result<Self> {
        let place = files.place(FAMILY);
        let text = files.text(FAMILY, MOST_BYTES)?.ok_or_else(|| {
            Error::not_found(format!("there is no {place}"))
                .hint(format!("a family is a directory with {FAMILY}, {ROLE} and {TASKS}; {FORMAT}"))
        })?;
        if text.trim().is_empty() {
            return Err(Error::invalid(format!("{place} is empty")).hint(FORMAT));
        }
        if !text.trim_start().starts_with('{') {
            return Err(at_line(&place, 1, "it is not a JSON object").hint(FORMAT));
        }
        let file: FamilyFile = serde_json::from_str(&text).map_err(|error| json_problem(&place, 1, &error))?;
        let wrong = |path: &[Step<'_>], what: String| at_line(&place, line_of(&text, path), what);
        if file.schema.as_deref().is_some_and(|schema| schema != SCHEMA) {
            return Err(wrong(&[Key("schema")], format!("this herm reads {SCHEMA:?}")).hint("write that, or nothing"));
        }
        let name = file.name.clone().unwrap_or_else(|| plain_name(directory_name));
        if !is_name(&name) {
            return Err(wrong(&[Key("name")], format!("{name:?} is not a name for a family"))
                .hint("a name is 1 to 60 letters, digits, blanks, `.`, `_` and `-`"));
        }
        for (key, line) in [("about", &file.about), ("group", &file.group)] {
            if line.as_deref().is_some_and(|line| line.len() > 300 || line.chars().any(char::is_control)) {
                return Err(
                    wrong(&[Key(key)], format!("{key:?} is not one line of at most 300 bytes")).hint("shorten it")
                );
            }
        }
        if file.turns.is_some_and(|turns| !(1..=herm::task::MAX_TURNS).contains(&turns)) {
            let most = herm::task::MAX_TURNS;
            return Err(wrong(&[Key("turns")], format!("a task has 1 to {most} turns"))
                .hint("leave \"turns\" out, or lower it"));
        }
        let reading = Reading { files, place: &place, text: &text };
        let tools = reading.tools(&file.tools)?;
        let servers = reading.servers(&file.mcp)?;
        if tools.is_empty() && servers.is_empty() {
            return Err(Error::invalid(format!("{place} has no tools"))
                .hint("add \"tools\" with a table each, or \"mcp\" with a server to start"));
        }
        let standard_tools = reading.standard_tools(file.standard_tools.as_deref(), &tools)?;
        let role = reading.role(file.role.as_deref())?;
        let skill = reading.skill(&name)?;
        let known = servers.is_empty().then(|| {
            let own = tools.iter().map(|tool| tool.spec.name.clone());
            own.chain(standard_tools.iter().cloned()).collect::<Vec<String>>()
        });
        let tasks_place = files.place(TASKS);
        let text = files.text(TASKS, MOST_BYTES)?.ok_or_else(|| {
            Error::not_found(format!("there is no {tasks_place}")).hint("write one task a line, as JSON")
        })?;
        let halves = tasks::read(&tasks_place, &text, known.as_deref())?;
        let place = files.place(DEMONSTRATIONS);
        let text = files.text(DEMONSTRATIONS, MOST_BYTES)?.unwrap_or_default();
        let demonstrations = demonstrations::read(&place, &text, &tools, known.as_deref())?;
        let mut remarks = Vec::new();
        let measured: BTreeSet<&str> = halves.held_out.iter().map(|task| task.input.trim()).collect();
        for shown in demonstrations.iter().filter(|shown| measured.contains(shown.input.trim())) {
            remarks.push(format!(
                "{} asks what a held-out task asks: that one measures memory, not learning",
                shown.place
            ));
        }
        if halves.repeated > 0 {
            remarks.push(format!(
                "{tasks_place}: {} of the held-out tasks ask what a task to learn from asks: they measure memory, not learning",
                halves.repeated
            ));
        }
        if skill.is_none() {
            remarks.push(format!("there is no {}: the arm with a curated skill is left out", files.place(SKILL)));
        }
        Ok(Self {
            name,
            about: file.about.unwrap_or_default(),
            group: file.group,
            role,
            tools,
            servers,
            standard_tools,
            turns: file.turns,
            skill,
            demonstrations,
            learn: halves.learn,
            held_out: halves.held_out,
            remarks,
        })
    }

    /// How many tasks there are to learn from, and how many are held out.
    pub fn sizes(&self) -> (usize, usize) {
        (self.learn.len(), self.held_out.len())
    }

    /// How many demonstrations there are.
    pub fn demonstrated(&self) -> usize {
        self.demonstrations.len()
    }

    /// The programs that it starts, as they would be typed.
    pub fn programs(&self) -> Vec<String> {
        let typed = |server: &FamilyServer| {
            std::iter::once(&server.command).chain(&server.args).map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        self.servers.iter().map(typed).collect()
    }

    /// The names of its own tools, and of those of herm.
    pub fn tool_names(&self) -> Vec<String> {
        let servers = self.servers.iter().map(|server| format!("those of the MCP server {}", server.name));
        let own = self.tools.iter().map(|tool| tool.spec.name.clone()).chain(servers);
        own.chain(self.standard_tools.iter().cloned()).collect()
    }
}

/// An error on a line of a file.
pub(super) fn at_line(place: &str, line: usize, what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{place}, line {line}: {what}"))
}

/// What is wrong with a JSON text that begins on this line of a file.
pub(super) fn json_problem(place: &str, first: usize, error: &serde_json::Error) -> Error {
    let said = error.to_string();
    let why = said.rsplit_once(" at line ").map_or(said.as_str(), |(why, _)| why);
    if error.line() == 0 {
        return at_line(place, first, why).hint(FORMAT);
    }
    Error::invalid(format!("{place}, line {}, column {}: {why}", first + error.line() - 1, error.column())).hint(FORMAT)
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-');
    name.len() <= 60
        && name.trim() == name
        && !name.is_empty()
        && name.chars().all(good)
        && name.contains(char::is_alphanumeric)
}

/// A directory's name as one of a family.
fn plain_name(directory: &str) -> String {
    let plain: String =
        directory.chars().map(|c| if c.is_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' }).collect();
    let cut: String = plain.chars().take(30).collect();
    if is_name(&cut) { cut } else { "family".to_owned() }
}

/// Where the files of a family are.
pub(super) enum FamilyFiles {
    Directory { root: Root, shown: PathBuf },
    BuiltIn { name: String, files: &'static [(&'static str, &'static [u8])] },
}

impl FamilyFiles {
    /// A file as messages name it.
    pub(super) fn place(&self, file: &str) -> String {
        match self {
            Self::Directory { shown, .. } => shown.join(file).display().to_string(),
            Self::BuiltIn { name, .. } => format!("seed/families/{name}/{file}"),
        }
    }

    fn directory(&self) -> PathBuf {
        match self {
            Self::Directory { root, .. } => root.path().to_owned(),
            Self::BuiltIn { .. } => PathBuf::from("."),
        }
    }

    /// The text of a file; nothing where there is no such file.
    pub(super) fn text(&self, file: &str, most: u64) -> Result<Option<String>> {
        let bytes = match self {
            Self::Directory { root, .. } => {
                let name: RelPath = file.parse().map_err(|error: Error| {
                    Error::invalid(format!("{file:?} is not a file of the family: {}", error.message()))
                        .hint("name a file that stands in the family's directory")
                })?;
                root.read(&name, most)?
            }
            Self::BuiltIn { files, .. } => {
                files.iter().find(|(name, _)| *name == file).map(|(_, content)| content.to_vec())
            }
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let place = self.place(file);
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count();
            at_line(&place, line, "it is not UTF-8 text").hint("save the file as UTF-8")
        })?;
        if let Some(at) = text.find('\0') {
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            return Err(at_line(&place, line, "it has a NUL character").hint("take it out"));
        }
        // Marks of other editors: the same text without them.
        Ok(Some(text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyFile {
    schema: Option<String>,
    name: Option<String>,
    about: Option<String>,
    group: Option<String>,
    role: Option<String>,
    turns: Option<u8>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    mcp: BTreeMap<String, ServerFile>,
    standard_tools: Option<Vec<String>>,
    #[serde(rename = "comment")]
    _comment: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerFile {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    timeout_secs: Option<u64>,
    #[serde(rename = "comment")]
    _comment: Option<Value>,
}

/// Reads the parts of `family.json`, and says on which line what is wrong stands.
pub(super) struct Reading<'a> {
    pub(super) files: &'a FamilyFiles,
    place: &'a str,
    text: &'a str,
}

impl Reading<'_> {
    pub(super) fn wrong(&self, path: &[Step<'_>], what: impl std::fmt::Display) -> Error {
        at_line(self.place, line_of(self.text, path), what)
    }

    fn servers(&self, said: &BTreeMap<String, ServerFile>) -> Result<Vec<FamilyServer>> {
        let one = |(name, server): (&String, &ServerFile)| {
            let wrong = |what: &str, hint: &str| {
                self.wrong(&[Key("mcp"), Key(name)], format!("the MCP server {name:?} {what}")).hint(hint.to_owned())
            };
            if server.command.trim().is_empty() || server.command.contains('\0') {
                return Err(wrong("has no command", "name the program to start"));
            }
            if server.timeout_secs.is_some_and(|seconds| !(1..=600).contains(&seconds)) {
                return Err(wrong("has a timeout_secs out of bounds", "give 1 to 600 seconds"));
            }
            Ok(FamilyServer {
                name: name.clone(),
                command: server.command.clone(),
                args: server.args.clone(),
                env: server.env.clone(),
                timeout: server.timeout_secs.map(Duration::from_secs),
                directory: self.files.directory(),
            })
        };
        said.iter().map(one).collect()
    }

    fn standard_tools(&self, said: Option<&[String]>, tools: &[ToolTable]) -> Result<Vec<String>> {
        let Some(said) = said else { return Ok(USUAL_TOOLS.map(str::to_owned).to_vec()) };
        let all = herm_tools::standard()?;
        let mut named = BTreeSet::new();
        for (at, name) in said.iter().enumerate() {
            if all.get(name).is_none() {
                let known: Vec<&str> = all.iter().map(|tool| tool.spec().name.as_str()).collect();
                return Err(self
                    .wrong(&[Key("standard_tools"), Index(at)], format!("herm has no tool {name:?}"))
                    .hint(format!("it has {}", known.join(", "))));
            }
            if tools.iter().any(|tool| tool.spec.name == *name) {
                return Err(self
                    .wrong(&[Key("standard_tools"), Index(at)], format!("the family has a tool named {name:?} itself"))
                    .hint("rename that, or leave herm's out"));
            }
            named.insert(name.clone());
        }
        Ok(named.into_iter().collect())
    }

    fn role(&self, said: Option<&str>) -> Result<String> {
        let place = self.files.place(ROLE);
        let role = match (said, self.files.text(ROLE, MOST_PAGE)?) {
            (Some(_), Some(_)) => {
                return Err(self
                    .wrong(&[Key("role")], format!("the role stands here and in {place}"))
                    .hint("remove one of them"));
            }
            (Some(role), None) => role.to_owned(),
            (None, Some(role)) => role,
            (None, None) => {
                return Err(Error::not_found(format!("there is no {place}"))
                    .hint("write down what the agent is told, in a sentence or two"));
            }
        };
        match role.trim() {
            "" => Err(Error::invalid(format!("{place} is empty")).hint("write down what the agent is told")),
            _ => Ok(role),
        }
    }

    /// The skill that a person wrote. Plain text without front matter becomes a skill named like the family.
    fn skill(&self, family: &str) -> Result<Option<(Slug, String)>> {
        let place = self.files.place(SKILL);
        let Some(text) = self.files.text(SKILL, MOST_PAGE)? else { return Ok(None) };
        if text.trim().is_empty() {
            return Err(
                Error::invalid(format!("{place} is empty")).hint("write the procedure down, or remove the file")
            );
        }
        let text = match text.starts_with("---") {
            true => text,
            false => {
                let name = Slug::from_title(family).map_or_else(|| "procedure".to_owned(), |slug| slug.to_string());
                let first = text.lines().map(|line| line.trim_start_matches(['#', ' '])).find(|line| !line.is_empty());
                let about = herm::text::line(first.unwrap_or_default(), 200);
                format!("---\nname: {name}\ndescription: {}\n---\n{text}", Value::from(about))
            }
        };
        let document = Document::read(text.as_bytes()).map_err(|unreadable| {
            Error::invalid(format!("{place}: {}", unreadable.reason))
                .hint("docs/reference/skill.md has the form of a skill")
        })?;
        if let Some(finding) = rules::check(&document, None).iter().find(|finding| finding.is_error()) {
            let line = finding.line.map(|line| format!(", line {line}")).unwrap_or_default();
            return Err(Error::invalid(format!("{place}{line}: {}", finding.message)).hint(finding.fix.clone()));
        }
        let name: Slug = document.name().unwrap_or_default().parse().map_err(|error: Error| {
            Error::invalid(format!("{place}: {}", error.message())).hint("give it a name of a-z, 0-9 and -")
        })?;
        Ok(Some((name, text)))
    }
}

#[cfg(test)]
mod tests;
