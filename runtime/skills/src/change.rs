//! A change of one skill as data: what it must be now, and what it becomes. Held in the review queue until a person
//! accepts it, or made at once by a writer that may.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ids::{Digest, Slug};

/// A change of one skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillUpdate {
    /// The skill that is changed, which stays under this name.
    pub skill: Slug,
    /// The digest its main file must have now.
    pub expected: Digest,
    /// What the main file becomes.
    pub content: String,
    /// Support files and what they become; `None` takes one away.
    pub support: Vec<(String, Option<String>)>,
    /// What else the manifest says: where it comes from and what it rests on.
    pub why: Value,
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillAction {
    /// It gives a skill that is there another text or other files.
    #[default]
    Edit,
    /// It makes a skill. Nothing of that name may be there.
    Create,
    /// It moves a skill to the archive.
    Archive,
    /// It brings a skill back from the archive, with another text.
    Restore,
}

impl SkillAction {
    fn is_edit(&self) -> bool {
        *self == Self::Edit
    }

    /// What it does, for a title.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Edit => "Change",
            Self::Create => "Create",
            Self::Archive => "Archive",
            Self::Restore => "Restore and change",
        }
    }
}

/// A change that waits for a person. One from before acts were told is an edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillProposal {
    /// The change. Of a skill that is to be made, nothing is expected: `expected` is the digest of no bytes.
    #[serde(flatten)]
    pub change: SkillUpdate,
    /// Whether it edits, makes, archives or restores the skill.
    #[serde(default, skip_serializing_if = "SkillAction::is_edit")]
    pub act: SkillAction,
    /// The digests that support files must have now; `None` where there must be none. Files that are not named may be
    /// anything, but for an archive, which names all that it takes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<String, Option<Digest>>,
    /// The skills that it takes in: in the same step they go to the archive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merges: Vec<MergedSkill>,
}

/// A skill whose text another one takes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedSkill {
    /// The skill that goes away, its text being in the other one.
    pub skill: Slug,
    /// The digest that its only file must have now.
    pub expected: Digest,
}

impl From<SkillUpdate> for SkillProposal {
    fn from(change: SkillUpdate) -> Self {
        Self { change, act: SkillAction::Edit, before: BTreeMap::new(), merges: Vec::new() }
    }
}

impl SkillProposal {
    /// The digest of everything it writes.
    pub fn digest(&self) -> Digest {
        let SkillUpdate { content, support, .. } = &self.change;
        let written = match self.act {
            act if !self.merges.is_empty() => json!([content, support, act, self.merges]),
            SkillAction::Edit => json!([content, support]),
            act => json!([content, support, act]),
        };
        Digest::of(written.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> SkillUpdate {
        let support = vec![("references/a.md".to_owned(), Some("a".to_owned())), ("scripts/b".to_owned(), None)];
        SkillUpdate {
            skill: "pump".parse().unwrap(),
            expected: Digest::of(b"old"),
            content: "new".to_owned(),
            support,
            why: json!({ "by": "task" }),
        }
    }

    #[test]
    fn a_change_from_before_acts_were_told_is_an_edit_and_is_written_as_it_was() {
        let plain = serde_json::to_value(change()).unwrap();
        let read: SkillProposal = serde_json::from_value(plain.clone()).unwrap();
        assert_eq!(read, SkillProposal::from(change()));
        assert_eq!(serde_json::to_value(&read).unwrap(), plain);
        // The digest that entries of the queue carry.
        let digest = Digest::of(json!([read.change.content, read.change.support]).to_string().as_bytes());
        assert_eq!(read.digest(), digest);
    }

    #[test]
    fn what_a_change_does_is_part_of_its_digest() {
        let edit = SkillProposal::from(change());
        let archive = SkillProposal { act: SkillAction::Archive, ..edit.clone() };
        assert_ne!(edit.digest(), archive.digest());
        let merged = MergedSkill { skill: "valve".parse().unwrap(), expected: Digest::of(b"valve") };
        let merge = SkillProposal { merges: vec![merged], ..edit.clone() };
        assert_ne!(edit.digest(), merge.digest());
        for change in [archive, merge] {
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<SkillProposal>(&text).unwrap(), change);
        }
    }
}
