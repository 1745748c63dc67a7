//! `skill_manage`: makes and improves skills.

use async_trait::async_trait;
use herm::skill::Document;
use herm::tool::{Permission, SkillWriteOutcome, Tool, ToolContext, ToolOutput, ToolPurpose, ToolSpec, WorkingCopy};
use herm::{Error, Result, Slug};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{arguments, skill_names};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    Edit,
    Patch,
    WriteFile,
    RemoveFile,
    Archive,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Edit => "edit",
            Self::Patch => "patch",
            Self::WriteFile => "write_file",
            Self::RemoveFile => "remove_file",
            Self::Archive => "archive",
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// create: a new skill. edit: its whole text anew. patch: one place of its text or of a file. write_file and
    /// remove_file: a file that belongs to it. archive: out of use.
    action: Action,
    /// The skill's name: a-z, 0-9 and hyphens, such as "oracle-review".
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// create, edit: what the skill does and when to use it, in a sentence or two. Without it, the first line of
    /// prose serves.
    #[schemars(length(max = 1024))]
    description: Option<String>,
    /// create, edit: the skill in Markdown, with or without front matter. write_file: the file's text.
    content: Option<String>,
    /// write_file, remove_file, and patch where it is not the skill itself: a path below references/, templates/,
    /// scripts/ or assets/.
    #[schemars(length(max = 1024))]
    file: Option<String>,
    /// patch: the text to replace, exactly as it stands; it must occur once.
    find: Option<String>,
    /// patch: what stands there instead; empty to remove it.
    replace: Option<String>,
}

/// Makes and improves skills.
#[derive(Debug)]
pub struct SkillManage {
    card: ToolSpec,
}

impl Default for SkillManage {
    fn default() -> Self {
        let description = "Makes a skill from a procedure that worked, or improves one that was wrong or incomplete. \
                           Prefer patch to edit, and edit to a second skill for the same thing.";
        Self {
            card: ToolSpec::new("skill_manage", description, Permission::WriteBrain, arguments::schema::<Args>())
                .for_purpose(ToolPurpose::Writes),
        }
    }
}

#[async_trait]
impl Tool for SkillManage {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        cx.with_working_copy(move |desk| manage(desk, &args)).await
    }
}

fn manage(desk: &mut WorkingCopy, args: &Args) -> Result<ToolOutput> {
    let slug = match args.action {
        Action::Create => skill_names::slug(&args.name)?,
        _ => skill_names::find(desk, &args.name)?,
    };
    let (written, done) = match args.action {
        Action::Create => (desk.create_skill(&slug, &whole_skill(args, &slug)?)?, format!("Created skill {slug}.")),
        Action::Edit => (desk.edit_skill(&slug, &whole_skill(args, &slug)?)?, format!("Wrote skill {slug} anew.")),
        Action::Patch => {
            let find = needed(args, "find", args.find.as_deref().filter(|text| !text.is_empty()))?;
            let replace = needed(args, "replace", args.replace.as_deref())?;
            let file = arguments::given(args.file.as_ref());
            let done = match file {
                Some(file) => format!("Patched {file} of skill {slug}."),
                None => format!("Patched skill {slug}."),
            };
            (desk.patch_skill(&slug, file, find, replace)?, done)
        }
        Action::WriteFile => {
            let file = needed(args, "file", arguments::given(args.file.as_ref()))?;
            let content = needed(args, "content", args.content.as_deref())?;
            (desk.write_skill_file(&slug, file, content)?, format!("Wrote {file} of skill {slug}."))
        }
        Action::RemoveFile => {
            let file = needed(args, "file", arguments::given(args.file.as_ref()))?;
            let written = desk.remove_skill_file(&slug, file);
            let written = written.map_err(|error| skill_names::with_files(desk, &slug, error))?;
            (written, format!("Removed {file} of skill {slug}."))
        }
        Action::Archive => (desk.archive_skill(&slug)?, format!("Archived skill {slug}.")),
    };
    Ok(match written {
        SkillWriteOutcome::Done => ToolOutput::new(done.clone(), done),
        SkillWriteOutcome::Waits(told) => {
            ToolOutput::new(told, format!("a change of skill {slug} waits for a person")).waiting()
        }
    })
}

fn needed<'a>(args: &Args, field: &str, value: Option<&'a str>) -> Result<&'a str> {
    value.ok_or_else(|| {
        let action = args.action.name();
        let hint = match field {
            "file" => "for example references/notes.md",
            "find" => "copy the text from skill_view, long enough to occur once",
            "replace" => "give the new text; an empty one removes what was found",
            _ => "give the text in Markdown",
        };
        Error::invalid(format!("action {action} needs `{field}`")).hint(hint)
    })
}

/// The text of a skill's main file, with front matter that says its name and what it is for.
fn whole_skill(args: &Args, slug: &Slug) -> Result<String> {
    if arguments::given(args.file.as_ref()).is_some() {
        return Err(Error::invalid(format!("action {} writes the skill itself, not a file of it", args.action.name()))
            .hint("use write_file or patch for a file, or leave `file` out"));
    }
    let content = needed(args, "content", args.content.as_deref().filter(|text| !text.trim().is_empty()))?;
    let mut document = Document::read(content.as_bytes()).map_err(|unreadable| {
        Error::invalid(format!("the skill cannot be read: {}", unreadable.reason)).hint("write it as Markdown text")
    })?;
    // Before the front matter is touched: without one, the body's first prose serves.
    let description = match arguments::given(args.description.as_ref()) {
        Some(description) => Some(description.to_owned()),
        None if document.text("description").is_some() => None,
        None => Some(document.description().ok_or_else(|| {
            Error::invalid(format!("skill {slug} has no description"))
                .hint("give `description`: what the skill does and when to use it")
        })?),
    };
    // A name that means this skill is written as the rules want it; another one is left for them to refuse.
    if document.name().is_none_or(|name| Slug::from_title(&name).as_ref() == Some(slug)) {
        document.set("name", slug.as_str());
    }
    if let Some(description) = description {
        document.set("description", &herm::text::line(&description, 1_000));
    }
    Ok(document.raw().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(content: &str, description: Option<&str>) -> Args {
        Args {
            action: Action::Create,
            name: "Oracle Review".into(),
            description: description.map(str::to_owned),
            content: Some(content.to_owned()),
            file: None,
            find: None,
            replace: None,
        }
    }

    fn written(content: &str, description: Option<&str>) -> Result<String> {
        whole_skill(&args(content, description), &"oracle-review".parse().unwrap())
    }

    #[test]
    fn a_bare_body_gets_front_matter() {
        assert_eq!(
            written("# Oracle review\n\nChecks prices: all of them.\n\n1. Look.\n", None).unwrap(),
            "---\nname: oracle-review\ndescription: \"Checks prices: all of them.\"\n---\n\
             # Oracle review\n\nChecks prices: all of them.\n\n1. Look.\n"
        );
        assert!(written("1. Look.\n", Some("Checks prices.")).unwrap().contains("\ndescription: Checks prices.\n"));
    }

    #[test]
    fn front_matter_that_is_there_is_kept_and_its_name_put_right() {
        assert_eq!(
            written("---\nname: Oracle_Review\ndescription: d\ntags: [a]\n---\nbody\n", None).unwrap(),
            "---\nname: oracle-review\ndescription: d\ntags: [a]\n---\nbody\n"
        );
        let other = written("---\nname: something-else\ndescription: d\n---\nbody\n", None).unwrap();
        assert!(other.contains("something-else"));
    }

    #[test]
    fn each_missing_field_is_named() {
        let empty = written("  ", None).unwrap_err();
        assert_eq!(empty.message(), "action create needs `content`");
        assert!(written("```\ncode\n```\n", None).unwrap_err().hint_text().unwrap().contains("`description`"));
        let with_file = Args { file: Some("references/x.md".into()), ..args("body", None) };
        let error = whole_skill(&with_file, &"oracle-review".parse().unwrap()).unwrap_err();
        assert!(error.hint_text().unwrap().contains("write_file"));
    }
}
