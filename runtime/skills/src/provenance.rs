//! The rules for everything that writes skills: who writes, what is done, and what is known of the skill decide whether
//! it happens, waits for a person, or is refused. Pure; each writer asks [`rule`] and does as it says.
//!
//! Unattended code may make a skill, and change what an agent made. Everything else is a person's to decide.

use super::document::Document;
use super::usage::{CreatedBy, SkillUsage};

/// Where a skill comes from. A recorded fact, never guessed from a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillSource {
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
    /// The brain has no record of who made it.
    Unknown,
}

impl SkillSource {
    /// Every source, with [`Unknown`](Self::Unknown) last.
    pub const ALL: [Self; 8] = [
        Self::Bundled,
        Self::Hub,
        Self::Plugin,
        Self::External,
        Self::Imported,
        Self::User,
        Self::LocalAgentCreated,
        Self::Unknown,
    ];

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

    /// The name in reports and JSON; it never changes.
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

    /// Who that is, for a sentence.
    fn maker(self) -> &'static str {
        match self {
            Self::Bundled => "came with the agent",
            Self::Hub => "was installed from a hub",
            Self::Plugin => "is part of a plugin",
            Self::External => "stands outside the brain",
            Self::Imported => "was imported",
            Self::User => "was written by a person",
            Self::LocalAgentCreated => "was written by this agent",
            Self::Unknown => "has no record of who made it",
        }
    }
}

/// Who or what wants to write a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillWriter {
    /// A person, or the operator's own command.
    Person,
    /// A tool that the model calls in a task: `skill_manage`, or an import that a tool makes.
    Tool,
    /// What a task writes down when it has been hard.
    Synthesis,
    /// The evolver, with nobody looking.
    Evolver,
    /// The evolver, where it makes one skill of several that say the same.
    Merge,
    /// The curator, which retires skills that are not used.
    Curator,
    /// The end of a trial: what does harm is archived, or what it was before.
    Trial,
    /// A patch that the mesh agreed to and no steward approved.
    Patch,
}

impl SkillWriter {
    /// Whether what it may not do is a question for a person.
    fn proposes(self) -> bool {
        match self {
            Self::Person | Self::Tool | Self::Synthesis | Self::Evolver | Self::Patch => true,
            Self::Merge | Self::Curator | Self::Trial => false,
        }
    }
}

/// What is known of the skill that would be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillFacts {
    /// Where it comes from.
    pub source: SkillSource,
    /// Exempt from everything automatic.
    pub pinned: bool,
}

impl SkillFacts {
    /// What the record of a skill and its main file say: either of the two pins it.
    pub fn of(record: Option<&SkillUsage>, main: &[u8]) -> Self {
        let recorded = Self::recorded(record);
        Self { pinned: recorded.pinned || says_pinned(&String::from_utf8_lossy(main)), ..recorded }
    }

    /// What the record alone says, where the main file is not at hand.
    pub fn recorded(record: Option<&SkillUsage>) -> Self {
        Self {
            source: SkillSource::of(record.map(|record| record.created_by)),
            pinned: record.is_some_and(|record| record.pinned),
        }
    }

    /// Whether a writer may change the skill by itself.
    pub fn allow(self, writer: SkillWriter) -> bool {
        rule(writer, Some(self), PriorUndo::Nothing) == WriteRuling::Allow
    }
}

/// What a person took back before, or a trial found to do harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriorUndo {
    /// Nobody took back, and no trial found harm in, anything like it.
    #[default]
    Nothing,
    /// A skill of this name, or one that says nearly the same.
    Alike,
    /// The very text that is now to be written.
    Same,
}

/// Why something does not simply happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteObjection {
    /// A person pinned it.
    Pinned,
    /// No agent made it.
    NotAgentCreated(SkillSource),
    /// A person took it back, or it did harm on trial.
    Undone(PriorUndo),
}

impl WriteObjection {
    /// Why, as the rest of a sentence about the skill: "was imported", …
    pub fn words(self) -> &'static str {
        match self {
            Self::Pinned => "is pinned by the operator and stays as it is",
            Self::NotAgentCreated(source) => source.maker(),
            Self::Undone(PriorUndo::Same) => "was taken back by a person, or did harm on trial, and stays so",
            Self::Undone(_) => "is like one that a person took back, or that did harm on trial",
        }
    }
}

/// What becomes of a wish to write a skill; see [`rule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRuling {
    /// The writer may write at once.
    Allow,
    /// It waits for a person.
    Propose(WriteObjection),
    /// It does not happen, and nobody is asked.
    Refuse(WriteObjection),
}

/// What may be done. `there` is the skill as it is, active or archived; `None` where there is none of that name.
pub fn rule(writer: SkillWriter, there: Option<SkillFacts>, undone: PriorUndo) -> WriteRuling {
    if writer == SkillWriter::Person {
        return WriteRuling::Allow;
    }
    if let Some(subject) = there {
        let reason = WriteObjection::NotAgentCreated(subject.source);
        match subject.source {
            _ if subject.pinned => return WriteRuling::Refuse(WriteObjection::Pinned),
            SkillSource::LocalAgentCreated => {}
            // Nobody here could accept it.
            SkillSource::External => return WriteRuling::Refuse(reason),
            // A person is not asked about a skill of theirs because it grew old, did harm or repeats another.
            _ if !writer.proposes() => return WriteRuling::Refuse(reason),
            _ if undone == PriorUndo::Same => return WriteRuling::Refuse(WriteObjection::Undone(undone)),
            _ => return WriteRuling::Propose(reason),
        }
    }
    match undone {
        PriorUndo::Same => WriteRuling::Refuse(WriteObjection::Undone(undone)),
        // A skill that is there was not taken back.
        PriorUndo::Alike if there.is_none() => WriteRuling::Propose(WriteObjection::Undone(undone)),
        PriorUndo::Alike | PriorUndo::Nothing => WriteRuling::Allow,
    }
}

/// Whether the front matter pins a skill, in any of the ways YAML writes yes.
pub fn says_pinned(text: &str) -> bool {
    if !text.contains("pin") {
        return false;
    }
    let Ok(document) = Document::read(text.as_bytes()) else { return false };
    let is_yes = |word: &str| matches!(word.to_lowercase().as_str(), "true" | "yes" | "on" | "1" | "y");
    ["pin", "pinned"].iter().any(|key| document.value(key).is_some_and(|value| value.as_text().is_some_and(is_yes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers that ask a person where they may not write.
    const PROPOSING: [SkillWriter; 4] =
        [SkillWriter::Tool, SkillWriter::Synthesis, SkillWriter::Evolver, SkillWriter::Patch];
    const SILENT: [SkillWriter; 3] = [SkillWriter::Merge, SkillWriter::Curator, SkillWriter::Trial];

    fn unattended() -> impl Iterator<Item = SkillWriter> {
        PROPOSING.into_iter().chain(SILENT)
    }

    fn of(source: SkillSource, pinned: bool) -> Option<SkillFacts> {
        Some(SkillFacts { source, pinned })
    }

    #[test]
    fn a_person_may_do_everything() {
        for source in SkillSource::ALL {
            for (pinned, undone) in [(false, PriorUndo::Same), (true, PriorUndo::Nothing), (true, PriorUndo::Alike)] {
                assert_eq!(rule(SkillWriter::Person, of(source, pinned), undone), WriteRuling::Allow);
            }
        }
        assert_eq!(rule(SkillWriter::Person, None, PriorUndo::Same), WriteRuling::Allow);
    }

    #[test]
    fn unattended_code_makes_skills_and_changes_what_an_agent_made() {
        for writer in unattended() {
            assert_eq!(rule(writer, None, PriorUndo::Nothing), WriteRuling::Allow);
            assert_eq!(rule(writer, of(SkillSource::LocalAgentCreated, false), PriorUndo::Nothing), WriteRuling::Allow);
        }
    }

    #[test]
    fn what_no_agent_made_waits_for_a_person_and_housekeeping_leaves_it_alone() {
        use SkillSource::{Bundled, External, Hub, Imported, Plugin, Unknown, User};
        for source in [Bundled, Hub, Plugin, Imported, User, Unknown] {
            let reason = WriteObjection::NotAgentCreated(source);
            for writer in PROPOSING {
                assert_eq!(
                    rule(writer, of(source, false), PriorUndo::Nothing),
                    WriteRuling::Propose(reason),
                    "{source:?}"
                );
            }
            for writer in SILENT {
                assert_eq!(rule(writer, of(source, false), PriorUndo::Nothing), WriteRuling::Refuse(reason));
            }
        }
        for writer in unattended() {
            let refused = WriteRuling::Refuse(WriteObjection::NotAgentCreated(External));
            assert_eq!(rule(writer, of(External, false), PriorUndo::Nothing), refused);
        }
    }

    #[test]
    fn a_pin_stops_everything_unattended() {
        for (writer, source) in unattended().flat_map(|w| SkillSource::ALL.into_iter().map(move |s| (w, s))) {
            assert_eq!(rule(writer, of(source, true), PriorUndo::Nothing), WriteRuling::Refuse(WriteObjection::Pinned));
        }
    }

    #[test]
    fn what_a_person_took_back_is_not_written_again_and_what_is_like_it_waits() {
        for writer in PROPOSING {
            for there in [None, of(SkillSource::LocalAgentCreated, false), of(SkillSource::User, false)] {
                let refused = WriteRuling::Refuse(WriteObjection::Undone(PriorUndo::Same));
                assert_eq!(rule(writer, there, PriorUndo::Same), refused, "{there:?}");
            }
            assert_eq!(
                rule(writer, None, PriorUndo::Alike),
                WriteRuling::Propose(WriteObjection::Undone(PriorUndo::Alike))
            );
            assert_eq!(rule(writer, of(SkillSource::LocalAgentCreated, false), PriorUndo::Alike), WriteRuling::Allow);
        }
    }

    #[test]
    fn the_record_or_the_front_matter_pins_and_the_record_says_who_made_it() {
        use crate::clock::Timestamp;
        let plain = b"---\nname: x\ndescription: d\n---\nbody\n";
        let pinning = b"---\nname: x\ndescription: d\npinned: true\n---\nbody\n";
        let record = |pinned| SkillUsage { pinned, ..SkillUsage::new(CreatedBy::Agent, Timestamp(0)) };
        let agents = |pinned| SkillFacts { source: SkillSource::LocalAgentCreated, pinned };
        assert_eq!(SkillFacts::of(Some(&record(false)), plain), agents(false));
        assert_eq!(SkillFacts::of(Some(&record(true)), plain), agents(true));
        assert_eq!(SkillFacts::of(Some(&record(false)), pinning), agents(true));
        assert_eq!(SkillFacts::of(None, pinning), SkillFacts { source: SkillSource::Unknown, pinned: true });
        assert_eq!(SkillFacts::recorded(Some(&record(true))), agents(true));
    }

    #[test]
    fn a_pin_in_the_front_matter_is_seen_however_it_is_written() {
        let with = |line: &str| format!("---\nname: x\ndescription: d\n{line}\n---\nbody\n");
        for line in ["pinned: true", "pin: yes", "pinned: \"true\"", "pinned: 1", "pin: on", "pinned: True"] {
            assert!(says_pinned(&with(line)), "{line}");
        }
        for line in ["pinned: false", "# pinned: true", "spinning: true", "pinned: 0", "pinned:"] {
            assert!(!says_pinned(&with(line)), "{line}");
        }
        assert!(!says_pinned("pinned: true\n"), "no front matter");
    }
}
