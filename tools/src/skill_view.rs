//! `skill_view`: a skill's text, or one of its files.

use async_trait::async_trait;
use herm::Result;
use herm::skill::{MAIN_FILES, setup};
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolPurpose, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{arguments, fit, skill_names};

/// How much of a text is shown.
const TEXT_CHARS: usize = 24_000;
/// How many support files are named.
const NAMED_FILES: usize = 40;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The skill's name, as in skills_list.
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// One of the skill's own text files, such as references/notes.md. Leave it out to read the skill.
    #[schemars(length(max = 1024))]
    file: Option<String>,
}

/// The tool `skill_view`: reads a skill, or one of its files.
#[derive(Debug)]
pub struct SkillView {
    card: ToolSpec,
}

impl Default for SkillView {
    fn default() -> Self {
        let description = "Reads a skill: the whole procedure, and the names of the files that belong to it. \
                           With `file`, reads one of those.";
        let card = ToolSpec::new("skill_view", description, Permission::Read, arguments::schema::<Args>())
            .quick()
            .lookup()
            .for_purpose(ToolPurpose::LoadsSkill);
        // The text, its mark, and the names of its files.
        Self { card: ToolSpec { output_cap: TEXT_CHARS + 4_000, ..card } }
    }
}

#[async_trait]
impl Tool for SkillView {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        cx.with_working_copy(move |desk| {
            let slug = skill_names::find(desk, &args.name)?;
            let file = arguments::given(args.file.as_ref()).filter(|file| !MAIN_FILES.contains(file));
            let whole = desk.load_skill(&slug, file).map_err(|error| match file {
                Some(_) => skill_names::with_files(desk, &slug, error),
                None => error,
            })?;
            let size = whole.chars().count();
            let mut text = herm::text::cut(whole.clone(), TEXT_CHARS);
            if let Some(file) = file {
                return Ok(ToolOutput::new(text, format!("{slug}: {}, {size} characters", herm::text::line(file, 60))));
            }
            let settings = desk.skill_settings(&slug)?;
            if !settings.is_empty() {
                let lines: String = settings.iter().map(|setting| format!("- {setting}\n")).collect();
                text.push_str(&format!("\n\nSettings of this skill:\n{lines}"));
            }
            let needed = desk.setup_needed(&slug)?;
            if !needed.is_empty() {
                text.push_str(&format!("\n\nSetup needed before this works:\n{}", setup::list(&needed)));
            }
            let files = desk.skill_files(&slug)?;
            if !files.is_empty() {
                text.push_str("\n\nFiles:\n");
                for file in files.iter().take(NAMED_FILES) {
                    text.push_str(&format!("- {}\n", herm::text::line(file, 90)));
                }
                if files.len() > NAMED_FILES {
                    text.push_str(&format!("[{} more]\n", files.len() - NAMED_FILES));
                }
            }
            let output =
                ToolOutput::new(text, format!("{slug}: {size} characters, {}", fit::count(files.len(), "file")));
            // What the operator set is not the brain's: a replay reads it from the record.
            Ok(ToolOutput { recorded: settings.iter().any(|setting| !setting.is_default), ..output })
        })
        .await
    }
}
