//! Who may be changed by itself: by where a skill comes from, as it was recorded, and by what the operator
//! allows. This module is pure.

use crate::ids::Slug;
pub use crate::skill::provenance::SkillSource;
use crate::skill::provenance::{PriorUndo, SkillFacts, SkillWriter, WriteObjection, WriteRuling, rule};

/// Why a skill that no agent made is not changed without a person.
pub const NOT_AGENT_CREATED: &str = "source-not-agent-created";

/// Why a pinned skill is not changed.
pub const PINNED: &str = "pinned-skill";

/// Names that are left alone unless they are allowed by name: what many other skills rest on.
const CORE: [&str; 14] = [
    "hermes-agent",
    "hermes-*",
    "gsd-*",
    "github-*",
    "mcp-*",
    "native-mcp",
    "claude-code",
    "codex",
    "opencode",
    "subagent-*",
    "systematic-debugging",
    "test-driven-development",
    "debugging-hermes-*",
    "requesting-code-review",
];

/// What the operator allows beyond where a skill comes from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EvolverPolicy {
    /// Whether core skills are left alone.
    pub protect_core_skills: bool,
    /// Where not empty, only these, and core skills among them; `*` and `?` stand for characters.
    pub allow: Vec<String>,
    /// Skills that are never changed, by name or pattern; this wins over `allow`.
    pub block: Vec<String>,
}

impl Default for EvolverPolicy {
    fn default() -> Self {
        Self { protect_core_skills: true, allow: Vec::new(), block: Vec::new() }
    }
}

impl EvolverPolicy {
    /// Why a skill is not changed without a person; `None` where it may be.
    pub fn objection(&self, slug: &Slug, facts: SkillFacts) -> Option<&'static str> {
        let name = slug.as_str();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        let allowed = any(&self.allow);
        match rule(SkillWriter::Evolver, Some(facts), PriorUndo::Nothing) {
            WriteRuling::Allow => {}
            WriteRuling::Refuse(WriteObjection::Pinned) => return Some(PINNED),
            WriteRuling::Propose(_) | WriteRuling::Refuse(_) => return Some(NOT_AGENT_CREATED),
        }
        if any(&self.block) {
            return Some("auto-apply-blocklisted");
        }
        if !self.allow.is_empty() && !allowed {
            return Some("auto-apply-not-allowlisted");
        }
        let core = CORE.iter().any(|pattern| matches(pattern, name));
        (self.protect_core_skills && core && !allowed).then_some("core-skill-auto-apply-protected")
    }
}

/// Whether a name matches a pattern as a whole, case aside.
fn matches(pattern: &str, name: &str) -> bool {
    crate::text::glob(&pattern.to_lowercase(), &name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::CreatedBy;

    fn slug(name: &str) -> Slug {
        name.parse().unwrap()
    }

    #[test]
    fn only_what_this_agent_wrote_may_be_changed_without_a_person() {
        let makers = [
            (Some(CreatedBy::Agent), SkillSource::LocalAgentCreated, None),
            (Some(CreatedBy::Seed), SkillSource::Bundled, Some("source-not-agent-created")),
            (Some(CreatedBy::Bundled), SkillSource::Bundled, Some("source-not-agent-created")),
            (Some(CreatedBy::Hub), SkillSource::Hub, Some("source-not-agent-created")),
            (Some(CreatedBy::Plugin), SkillSource::Plugin, Some("source-not-agent-created")),
            (Some(CreatedBy::Imported), SkillSource::Imported, Some("source-not-agent-created")),
            (Some(CreatedBy::User), SkillSource::User, Some("source-not-agent-created")),
            (None, SkillSource::Unknown, Some("source-not-agent-created")),
        ];
        for (made_by, source, objection) in makers {
            assert_eq!(SkillSource::of(made_by), source);
            let facts = |pinned| SkillFacts { source, pinned };
            assert_eq!(EvolverPolicy::default().objection(&slug("pump"), facts(false)), objection, "{source:?}");
            assert_eq!(EvolverPolicy::default().objection(&slug("pump"), facts(true)), Some("pinned-skill"));
        }
        // No entry of a list allows that.
        let all = EvolverPolicy { allow: vec!["*".to_owned()], ..EvolverPolicy::default() };
        let hub = SkillFacts { source: SkillSource::Hub, pinned: false };
        assert_eq!(all.objection(&slug("pump"), hub), Some("source-not-agent-created"));
    }

    #[test]
    fn the_block_list_wins_an_allow_list_is_exclusive_and_opens_core_skills_by_name() {
        let policy = |allow: &[&str], block: &[&str], protect| EvolverPolicy {
            protect_core_skills: protect,
            allow: allow.iter().map(|&text| text.to_owned()).collect(),
            block: block.iter().map(|&text| text.to_owned()).collect(),
        };
        let own = SkillFacts { source: SkillSource::LocalAgentCreated, pinned: false };
        let cases = [
            (policy(&[], &[], true), "github-review", Some("core-skill-auto-apply-protected")),
            (policy(&[], &[], false), "github-review", None),
            (policy(&["GitHub-*"], &[], true), "github-review", None),
            (policy(&["github-*"], &[], true), "pump", Some("auto-apply-not-allowlisted")),
            (policy(&["pump"], &["p*"], true), "pump", Some("auto-apply-blocklisted")),
            (policy(&[], &["p?mp"], true), "pump", Some("auto-apply-blocklisted")),
            (policy(&[], &["p?mp"], true), "pumps", None),
        ];
        for (policy, name, objection) in cases {
            assert_eq!(policy.objection(&slug(name), own), objection, "{policy:?} {name}");
        }
    }
}
