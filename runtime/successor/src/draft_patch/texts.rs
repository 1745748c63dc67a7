//! Drafts that change what a brain is told and may call: a line of its role, a skill, its whitelist of tools. Deterministic:
//! the words are ours, and of the brain only names and schemas of tools are in them, never what a task said.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::DraftContext;
use super::draft_context::ToolFacts;
use crate::bottleneck::{Bottleneck, BottleneckKind};
use crate::brain::BrainManifest;
use crate::error::Result;
use crate::ids::Slug;
use crate::layout;
use crate::memory::UNKNOWN_TOOL;
use crate::patch::PatchChange;
use crate::task::StopReason;

/// From so many calls on, all of them failed, a tool is only in the way.
const ALWAYS_FAILS: u64 = 10;
/// The longest role that a line is added to.
const MOST_ROLE_BYTES: usize = 64 << 10;

/// The line that a role is missing, given what holds the brain up.
fn missing_line(bottleneck: &Bottleneck, scene: &DraftContext) -> Option<&'static str> {
    let subject = bottleneck.subject.as_deref();
    Some(match bottleneck.kind {
        // Where the index does not hold all skills, its settings are what helps.
        BottleneckKind::IndexMisses if scene.standing.index_fits => {
            "All your skills are listed. Load one with skill_view by its listed name; do not list them again or guess names."
        }
        BottleneckKind::Nudges => "Each reply is exactly one JSON object, with nothing before or after it.",
        BottleneckKind::CutReplies => "Keep each reply short: only what the next step or the answer needs.",
        BottleneckKind::Ceiling => {
            "You have few turns: call a tool only if its result can change the answer, and answer as soon as you know enough."
        }
        BottleneckKind::NonConvergence if subject == Some(StopReason::Stuck.name()) => {
            "Never make the same call twice: if a call fails, change its arguments or answer with what you know."
        }
        BottleneckKind::ToolErrors if subject == Some(UNKNOWN_TOOL) => {
            "Call only the tools that are listed, by exactly their names."
        }
        _ => return None,
    })
}

/// The role with the line that it is missing.
pub(super) fn role(bottleneck: &Bottleneck, scene: &DraftContext) -> Option<PatchChange> {
    let line = missing_line(bottleneck, scene)?;
    if scene.role.trim().is_empty() || scene.role.len() > MOST_ROLE_BYTES || scene.role.contains(line) {
        return None;
    }
    let content = format!("{}\n\n{line}\n", scene.role.trim_end());
    Some(PatchChange::Role { content: Some(content), edits: Vec::new() })
}

/// A skill that says how to call a tool that fails, where there is none.
pub(super) fn skill(bottleneck: &Bottleneck, scene: &DraftContext) -> Option<PatchChange> {
    if bottleneck.kind != BottleneckKind::ToolErrors {
        return None;
    }
    let tool = scene.tool(bottleneck.subject.as_deref()?)?;
    let slug: Slug = format!("calling-{}", tool.name.replace('_', "-")).parse().ok()?;
    // The prompt shows skills only to who can load them.
    let loads = scene.whitelist().is_none_or(|list| list.iter().any(|name| name == "skill_view"));
    if scene.skills.contains(&slug) || !loads {
        return None;
    }
    let path = format!("{}/{slug}.md", layout::SKILLS_DIR);
    Some(PatchChange::Files { set: BTreeMap::from([(path, how_to_call(&slug, tool))]), remove: Vec::new() })
}

fn how_to_call(slug: &Slug, tool: &ToolFacts) -> String {
    let name = &tool.name;
    let properties = tool.schema["properties"].as_object();
    let required: Vec<&str> =
        tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut arguments = String::new();
    let mut example = serde_json::Map::new();
    for (argument, schema) in properties.into_iter().flatten() {
        let kind = schema["type"].as_str().unwrap_or("any value");
        let need = if required.contains(&argument.as_str()) { "required" } else { "optional" };
        arguments.push_str(&format!("- `{argument}`: {kind}, {need}\n"));
        if required.contains(&argument.as_str()) {
            example.insert(argument.clone(), sample(schema, kind));
        }
    }
    if arguments.is_empty() {
        arguments.push_str("- none\n");
    }
    let call = json!({ "tool": name, "args": example });
    format!(
        "---\nname: {slug}\ndescription: How to call the tool {name} so that it works. Use when you are about to call \
         {name}, or a call of it failed.\n---\n# Calling {name}\n\n## Arguments\n\n{arguments}\n## Call\n\n```json\n{call}\n```\n\n\
         ## When it fails\n\n1. Read what the result says is wrong.\n2. Change the arguments accordingly; other arguments than \
         those above are refused.\n3. Do not make the same call again: go on without {name}.\n"
    )
}

/// A value of a type, for an example.
fn sample(schema: &Value, kind: &str) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    match kind {
        "string" => json!("…"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "boolean" => json!(true),
        "array" => json!([]),
        "object" => json!({}),
        _ => Value::Null,
    }
}

/// Another whitelist: without a tool that always fails, or with one that touches nothing but the brain and that the
/// agent calls in vain.
pub(super) fn tools(bottleneck: &Bottleneck, scene: &DraftContext) -> Result<Option<PatchChange>> {
    if bottleneck.kind != BottleneckKind::ToolErrors {
        return Ok(None);
    }
    let (Some(subject), Some(list)) = (bottleneck.subject.as_ref(), scene.whitelist()) else { return Ok(None) };
    let listed = list.contains(subject);
    if listed && bottleneck.count == bottleneck.of && bottleneck.of >= ALWAYS_FAILS {
        let fewer: Vec<String> = list.iter().filter(|name| *name != subject).cloned().collect();
        return whitelist(scene, fewer);
    }
    match scene.tool(subject) {
        Some(tool) if !listed && tool.is_harmless => {
            whitelist(scene, list.iter().cloned().chain([subject.clone()]).collect())
        }
        _ => Ok(None),
    }
}

/// The manifest with this whitelist; nothing where the brain has no manifest.
pub(super) fn whitelist(scene: &DraftContext, tools: Vec<String>) -> Result<Option<PatchChange>> {
    let Some(manifest) = &scene.manifest else { return Ok(None) };
    let bytes = BrainManifest { tools: Some(tools), ..manifest.clone() }.to_bytes()?;
    let content = String::from_utf8_lossy(&bytes).into_owned();
    let set = BTreeMap::from([(layout::MANIFEST.to_owned(), content)]);
    Ok(Some(PatchChange::Files { set, remove: Vec::new() }))
}
