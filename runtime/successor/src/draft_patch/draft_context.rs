//! What a brain is, as far as a draft cares: what it runs with, its role, its skills and its tools.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bottleneck::{BrainObservation, BrainStats};
use crate::brain::{BrainManifest, Reader};
use crate::error::Result;
use crate::ids::Slug;
use crate::layout;
use crate::tool::{Permission, Toolbox};
use crate::tuning::Tuning;

/// A brain as a draft finds it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DraftContext {
    /// What it runs with.
    pub tuning: Tuning,
    /// What is not part of single tasks.
    pub standing: BrainStats,
    /// The text of `system.md`; empty where the brain has none.
    pub role: String,
    /// `manifest.json`, where there is one.
    pub manifest: Option<BrainManifest>,
    /// The names of its skills.
    pub skills: BTreeSet<Slug>,
    /// The tools of this herm, whether or not the brain may call them.
    pub tools: Vec<ToolFacts>,
}

/// A tool of this herm.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFacts {
    /// The name the model calls it by.
    pub name: String,
    /// What the tool says of itself to the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
    /// Whether it changes nothing and reaches nothing but the brain.
    pub is_harmless: bool,
}

impl DraftContext {
    /// Reads the context without the brain's lock, so the owner may be at work.
    pub fn of(reader: &Reader, toolbox: &Toolbox, seen: &BrainObservation) -> Result<Self> {
        let tools = toolbox.iter().map(|tool| {
            let card = tool.spec();
            ToolFacts {
                name: card.name.clone(),
                description: card.description.clone(),
                schema: card.schema.clone(),
                is_harmless: card.permission == Permission::Read,
            }
        });
        Ok(Self {
            tuning: seen.tuning.clone(),
            standing: seen.standing,
            role: reader.text(&layout::rel(layout::SYSTEM)?)?.unwrap_or_default(),
            manifest: reader.manifest()?,
            skills: reader.skills()?.entries().map(|entry| entry.place.slug.clone()).collect(),
            tools: tools.collect(),
        })
    }

    /// A tool of this herm by its name.
    pub fn tool(&self, name: &str) -> Option<&ToolFacts> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The tools that the brain may call, where it says so itself.
    pub fn whitelist(&self) -> Option<&[String]> {
        self.manifest.as_ref()?.tools.as_deref()
    }
}
