//! A patch: a proposed change of the runtime or of a brain, as a file with a hash.
//! `docs/reference/patch.md` describes the format.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::ids::{RelPath, sha256};
use crate::layout;
use crate::tuning::{Component, Migration, Tuning};

/// The format this build reads.
pub const PATCH_SCHEMA: &str = "herm/patch@1";
/// The largest patch file.
pub const MAX_PATCH_BYTES: usize = 8 << 20;
/// The most changes in one patch.
const MAX_CHANGES: usize = 64;

/// A proposed change, with the bytes it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    content: PatchFile,
    bytes: Vec<u8>,
}

/// What a patch file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchFile {
    /// The format, [`PATCH_SCHEMA`]; a file with any other is refused.
    pub schema: String,
    /// What it does, in a line.
    pub title: String,
    /// Why the patch helps, for people: at most 4,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it changes, in order.
    pub changes: Vec<PatchChange>,
}

/// One change of a patch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum PatchChange {
    /// Constants of the runtime.
    Constants {
        /// The new values; what is not set stays as it is. At least one is set.
        set: Box<Tuning>,
    },
    /// Another registered implementation of a component.
    Component {
        /// The component that another implementation takes over.
        component: Component,
        /// The name of the implementation, one that is registered for the component.
        to: String,
    },
    /// Another role: `system.md`, whole or by edits.
    Role {
        /// The whole new text, instead of edits; not blank.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Texts that each stand in it exactly once, and what they become.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        edits: Vec<PatchEdit>,
    },
    /// Another implementation of a tool.
    Tool {
        /// The name that the model calls the tool by; it stays the same.
        name: String,
        /// Another registered tool in its place.
        #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
        other: Option<String>,
        /// A program in its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executable: Option<Executable>,
    },
    /// A change of the schema of `memory.db`.
    Migration(Migration),
    /// Files of the bundle: skills, memory, patterns, manifest.
    Files {
        /// New contents by path.
        #[serde(default)]
        set: BTreeMap<String, String>,
        /// Paths of files to remove; each must be there.
        #[serde(default)]
        remove: Vec<String>,
    },
}

/// A text and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchEdit {
    /// Stands in the file exactly once.
    pub find: String,
    /// The text that takes its place; it may be empty.
    pub replace: String,
}

/// A program that is a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Executable {
    /// The program as text, for scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The program in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// What it does; as the tool it replaces, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments; as the tool it replaces, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

impl Executable {
    /// The bytes of the program; an error where it is not given as exactly one of text and base64, or does not decode.
    pub fn program(&self) -> Result<Vec<u8>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|source| Error::invalid("the program of a tool is not base64").because(source)),
            _ => Err(Error::invalid("the program of a tool is given as text or as base64, one of them")
                .hint("docs/reference/patch.md describes the file")),
        }
    }
}

impl Patch {
    /// Reads a patch file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let hint = "docs/reference/patch.md describes the file";
        if bytes.len() > MAX_PATCH_BYTES {
            return Err(Error::invalid(format!("a patch has at most {MAX_PATCH_BYTES} bytes")).hint(hint));
        }
        let content: PatchFile = serde_json::from_slice(bytes)
            .map_err(|source| Error::invalid(format!("that is not a patch: {source}")).hint(hint))?;
        let patch = Self { content, bytes: bytes.to_vec() };
        patch.validate()?;
        Ok(patch)
    }

    /// A patch made by this process.
    pub fn new(title: &str, why: Option<String>, changes: Vec<PatchChange>) -> Result<Self> {
        let content = PatchFile { schema: PATCH_SCHEMA.to_owned(), title: title.to_owned(), why, changes };
        let mut bytes = serde_json::to_vec_pretty(&content)
            .map_err(|source| Error::internal("a patch cannot be written").because(source))?;
        bytes.push(b'\n');
        let patch = Self { content, bytes };
        patch.validate()?;
        Ok(patch)
    }

    /// The hash that names it: `sha256:` and the SHA-256 of its file.
    pub fn hash(&self) -> String {
        format!("sha256:{}", sha256(&self.bytes))
    }

    /// The bytes of its file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it does, in a line.
    pub fn title(&self) -> &str {
        &self.content.title
    }

    /// Why the patch helps, as its author says; nothing where the file does not say it.
    pub fn why(&self) -> Option<&str> {
        self.content.why.as_deref()
    }

    /// The changes in the order they are applied: 1 to 64.
    pub fn changes(&self) -> &[PatchChange] {
        &self.content.changes
    }

    /// The files it writes or removes, beside role and tuning, in order.
    pub fn files(&self) -> BTreeSet<RelPath> {
        let mut files = BTreeSet::new();
        for change in self.changes() {
            match change {
                // What no path is, applying refuses.
                PatchChange::Files { set, remove } => {
                    files.extend(set.keys().chain(remove).filter_map(|path| path.parse::<RelPath>().ok()));
                }
                PatchChange::Tool { name, executable: Some(_), .. } => {
                    files.extend(format!("{}/{name}", layout::TOOLS_DIR).parse::<RelPath>().ok());
                }
                PatchChange::Constants { .. }
                | PatchChange::Component { .. }
                | PatchChange::Role { .. }
                | PatchChange::Tool { .. }
                | PatchChange::Migration(_) => {}
            }
        }
        files
    }

    fn validate(&self) -> Result<()> {
        let bad = |what: String| Err(Error::invalid(what).hint("docs/reference/patch.md describes the file"));
        if self.content.schema != PATCH_SCHEMA {
            return bad(format!(
                "the patch has the format {:?}; this herm reads {PATCH_SCHEMA:?}",
                self.content.schema
            ));
        }
        if self.content.title.trim().is_empty() || self.content.title.chars().count() > 200 {
            return bad("a patch has a title of at most 200 characters".to_owned());
        }
        let said = [Some(self.content.title.as_str()), self.content.why.as_deref()];
        let is_plain = |text: &str| text.chars().all(|c| !c.is_control() || c == '\n');
        if self.content.title.contains('\n') || !said.into_iter().flatten().all(is_plain) {
            return bad(
                "the title of a patch is one line, and neither it nor the reason has control characters".to_owned()
            );
        }
        if self.why().is_some_and(|why| why.chars().count() > 4_000) {
            return bad("the reason of a patch has at most 4,000 characters".to_owned());
        }
        if self.content.changes.is_empty() || self.content.changes.len() > MAX_CHANGES {
            return bad(format!("a patch has 1 to {MAX_CHANGES} changes"));
        }
        self.content.changes.iter().try_for_each(validate_change)
    }
}

fn validate_change(change: &PatchChange) -> Result<()> {
    let bad = |what: &str| Err(Error::invalid(what).hint("docs/reference/patch.md describes the file"));
    match change {
        PatchChange::Constants { set } => {
            if set.is_as_built() {
                return bad("a change of constants sets at least one");
            }
            if !set.tools.is_empty() || !set.migrations.is_empty() {
                return bad("tools and migrations have kinds of change of their own");
            }
            set.validate()
        }
        PatchChange::Component { component, to } => Tuning::default().swap(*component, to),
        PatchChange::Role { content, edits } => match (content, edits.is_empty()) {
            (Some(text), true) if !text.trim().is_empty() => Ok(()),
            (None, false) if edits.iter().all(|edit| !edit.find.is_empty()) => Ok(()),
            _ => bad("a change of the role has a content or edits, one of them, and none is empty"),
        },
        PatchChange::Tool { other, executable, .. } => match (other, executable) {
            (Some(_), None) => Ok(()),
            (None, Some(executable)) => executable.program().map(drop),
            _ => bad("a change of a tool names another tool or brings a program, one of them"),
        },
        PatchChange::Migration(migration) if migration.up.trim().is_empty() => bad("a migration has no SQL"),
        PatchChange::Migration(_) => Ok(()),
        PatchChange::Files { set, remove } => {
            if set.is_empty() && remove.is_empty() {
                return bad("a change of files names at least one");
            }
            for path in set.keys().chain(remove) {
                let path: RelPath = path.parse()?;
                if crate::bundle::BundlePart::of(path.as_str()).is_none() {
                    return Err(Error::invalid(format!("{path} is not part of a brain"))
                        .hint("docs/reference/brain.md lists what a brain holds"));
                }
                if matches!(path.as_str(), layout::TUNING | layout::SYSTEM) || path.as_str().starts_with("tools/") {
                    return Err(Error::invalid(format!("{path} is not changed as a file"))
                        .hint("use the kinds constants, component, role and tool"));
                }
            }
            Ok(())
        }
    }
}
