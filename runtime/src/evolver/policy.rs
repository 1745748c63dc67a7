//! Who may be changed by itself: by where a skill comes from, as it was recorded, and by what the
//! operator allows. Pure.

use crate::ids::Slug;
use crate::skill::CreatedBy;

/// Where a skill comes from. A recorded fact, never guessed from a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The seed, or what another program shipped.
    Bundled,
    /// Installed from a hub.
    Hub,
    /// Part of a plugin.
    Plugin,
    /// In a directory that several brains share.
    External,
    /// Taken over from elsewhere.
    Imported,
    /// Written by a person.
    User,
    /// Written by this agent.
    LocalAgentCreated,
    /// Nothing is recorded.
    Unknown,
}

impl Source {
    /// What a record says.
    pub fn of(created_by: Option<CreatedBy>) -> Self {
        match created_by {
            None => Self::Unknown,
            Some(CreatedBy::Agent) => Self::LocalAgentCreated,
            Some(CreatedBy::Seed | CreatedBy::Bundled) => Self::Bundled,
            Some(CreatedBy::Imported) => Self::Imported,
            Some(CreatedBy::Hub) => Self::Hub,
            Some(CreatedBy::Plugin) => Self::Plugin,
            Some(CreatedBy::User) => Self::User,
        }
    }

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::Hub => "hub",
            Self::Plugin => "plugin",
            Self::External => "external",
            Self::Imported => "imported",
            Self::User => "user",
            Self::LocalAgentCreated => "local-agent-created",
            Self::Unknown => "unknown",
        }
    }

    /// Whether it may be changed without a person.
    pub fn is_writable(self) -> bool {
        self == Self::LocalAgentCreated
    }
}

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
pub struct Policy {
    /// Whether core skills are left alone.
    pub protect_core_skills: bool,
    /// Where not empty, only these, and core skills among them; `*` and `?` stand for characters.
    pub allow: Vec<String>,
    /// Never these.
    pub block: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { protect_core_skills: true, allow: Vec::new(), block: Vec::new() }
    }
}

impl Policy {
    /// Why a skill is not changed without a person; `None` where it may be.
    pub fn objection(&self, slug: &Slug, source: Source) -> Option<&'static str> {
        let name = slug.as_str();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        let allowed = any(&self.allow);
        if !source.is_writable() {
            return Some("source-not-agent-created");
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

    fn slug(name: &str) -> Slug {
        name.parse().unwrap()
    }

    #[test]
    fn only_what_this_agent_wrote_may_be_changed_without_a_person() {
        let makers = [
            (Some(CreatedBy::Agent), Source::LocalAgentCreated, None),
            (Some(CreatedBy::Seed), Source::Bundled, Some("source-not-agent-created")),
            (Some(CreatedBy::Bundled), Source::Bundled, Some("source-not-agent-created")),
            (Some(CreatedBy::Hub), Source::Hub, Some("source-not-agent-created")),
            (Some(CreatedBy::Plugin), Source::Plugin, Some("source-not-agent-created")),
            (Some(CreatedBy::Imported), Source::Imported, Some("source-not-agent-created")),
            (Some(CreatedBy::User), Source::User, Some("source-not-agent-created")),
            (None, Source::Unknown, Some("source-not-agent-created")),
        ];
        for (made_by, source, objection) in makers {
            assert_eq!(Source::of(made_by), source);
            assert_eq!(Policy::default().objection(&slug("pump"), source), objection, "{source:?}");
        }
        // No list opens that door.
        let all = Policy { allow: vec!["*".to_owned()], ..Policy::default() };
        assert_eq!(all.objection(&slug("pump"), Source::Hub), Some("source-not-agent-created"));
    }

    #[test]
    fn the_block_list_wins_an_allow_list_is_exclusive_and_opens_core_skills_by_name() {
        let policy = |allow: &[&str], block: &[&str], protect| Policy {
            protect_core_skills: protect,
            allow: allow.iter().map(|&text| text.to_owned()).collect(),
            block: block.iter().map(|&text| text.to_owned()).collect(),
        };
        let own = Source::LocalAgentCreated;
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
