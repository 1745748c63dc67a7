//! `[successor]`, `[stewards]` and `[mesh]` of the configuration: what must happen before a patch is applied.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use herm::successor::auto::Window;
use herm::successor::detector::DetectorOptions;
use herm::successor::gate::{Gate, Member, Mesh, Stewards};
use herm::successor::{Evaluation, SuccessorBudget};
use herm::{Error, Result, Timestamp, fsio};
use http::Uri;

use super::Settings;

/// What verifying for others takes unless said: less than judging for oneself, and no money at all.
const USUAL_WALL: u64 = 600;
const USUAL_MICRO_USD: u64 = 0;
/// The largest evaluation file.
const MAX_EVALUATION_BYTES: u64 = 4 << 20;

/// What must happen before a patch is applied, and who has to do with it.
#[derive(Debug, Clone)]
pub struct Gates {
    /// Which gates must open.
    pub gate: Gate,
    /// The stewards: those who may approve a patch, by their keys.
    pub stewards: Stewards,
    /// The members that verify patches; `None` where the configuration has no mesh.
    pub mesh: Option<Mesh>,
}

impl Settings {
    /// What must happen before a patch is applied. A gate that nobody could open is a mistake worth telling; that there
    /// are no stewards is not, since nothing can be applied then.
    pub fn gates(&self) -> Result<Gates> {
        let said = &self.config;
        let gates = Gates {
            gate: said.successor.clone().unwrap_or_default().gate(),
            stewards: said.stewards.clone().unwrap_or_default().stewards()?,
            mesh: said.mesh.as_ref().map(MeshEntry::mesh).transpose()?,
        };
        if gates.gate.needs_mesh() && gates.mesh.is_none() {
            return Err(Error::invalid("[successor]: the gate needs a mesh, and there is none")
                .hint("name its members in `[mesh.members]`, or leave the gate to a steward"));
        }
        let is_chosen = said.successor.as_ref().is_some_and(|said| said.gate.is_some());
        if gates.gate.needs_steward() && is_chosen && gates.stewards.is_empty() {
            return Err(Error::invalid("[successor]: the gate needs a steward, and there is none")
                .hint("name their keys in `[stewards]`"));
        }
        Ok(gates)
    }

    /// When patches whose gates are open are applied without a command.
    pub fn applying(&self) -> Result<ApplyOptions> {
        let said = self.config.successor.clone().unwrap_or_default();
        let window = said.window.as_deref().unwrap_or("any").parse().map_err(|error: Error| {
            let hint = error.hint_text().unwrap_or_default().to_owned();
            Error::invalid(format!("window of [successor]: {}", error.message())).hint(hint)
        })?;
        Ok(ApplyOptions { window: (said.apply == Some(ApplyEntry::Automatic)).then_some(window) })
    }

    /// How the server looks for what holds its brains up; `None` where it does not.
    pub fn detecting(&self) -> Result<Option<DetectorOptions>> {
        self.config.successor.clone().unwrap_or_default().detect.unwrap_or_default().detecting()
    }
}

/// Which gates must open before a patch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateEntry {
    /// A steward must approve it.
    Human,
    /// The members of the mesh must agree to it.
    Mesh,
    /// A steward must approve it, and the mesh must agree.
    Both,
}

/// How patches are applied.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SuccessorEntry {
    /// Which gates must open: human, mesh or both; human unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateEntry>,
    /// Who applies a patch whose gates are open: command (`herm successor apply` or `auto`) or automatic (the server, in its
    /// window); command unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply: Option<ApplyEntry>,
    /// The hours in UTC in which the server applies patches, such as 2-5; any unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// How the server looks for what holds its brains up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detect: Option<DetectEntry>,
}

/// Who applies a patch whose gates are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApplyEntry {
    /// A command: `herm successor apply` or `herm successor auto`.
    Command,
    /// The server, by itself.
    Automatic,
}

/// How the server looks for what holds its brains up, after tasks and off their path.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DetectEntry {
    /// Whether it looks at all; yes unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// At least so many minutes between two looks at a brain; 60 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_minutes: Option<u32>,
    /// How many of the last tasks are looked at, at most 500; 50 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<usize>,
    /// Milliseconds that a look may take; 2000 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
}

impl DetectEntry {
    /// How it looks; `None` where it does not.
    pub fn detecting(&self) -> Result<Option<DetectorOptions>> {
        if self.enabled == Some(false) {
            return Ok(None);
        }
        let usual = DetectorOptions::default();
        let detecting = DetectorOptions {
            every: self.every_minutes.map_or(usual.every, |minutes| Duration::from_secs(u64::from(minutes) * 60)),
            tasks: self.tasks.unwrap_or(usual.tasks),
            within: self.millis.map_or(usual.within, Duration::from_millis),
        };
        detecting.validate().map_err(|error| {
            Error::invalid(format!("[successor.detect]: {}", error.message())).hint("leave it out for the default")
        })?;
        Ok(Some(detecting))
    }
}

/// How the proposals of others are verified.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// What each evaluation may use up.
    pub budget: SuccessorBudget,
    /// An evaluation of this operator's own, which no proposer chose.
    pub local: Option<Evaluation>,
}

/// When the server applies patches by itself: in its window, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplyOptions {
    /// The hours; `None` where patches are applied by command.
    window: Option<Window>,
}

impl ApplyOptions {
    /// Whether patches are ever applied without a command.
    pub fn is_automatic(self) -> bool {
        self.window.is_some()
    }

    /// Whether they are at this moment.
    pub fn is_due(self, now: Timestamp) -> bool {
        self.window.is_some_and(|window| window.has(now))
    }
}

impl SuccessorEntry {
    /// Which gates must open.
    pub fn gate(&self) -> Gate {
        match self.gate {
            None | Some(GateEntry::Human) => Gate::Human,
            Some(GateEntry::Mesh) => Gate::Mesh,
            Some(GateEntry::Both) => Gate::Both,
        }
    }
}

/// Who may approve patches.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StewardsEntry {
    /// Their keys, as did:key.
    pub keys: Vec<String>,
}

impl StewardsEntry {
    /// The stewards by their keys; an error where one is not a key.
    pub fn stewards(&self) -> Result<Stewards> {
        Stewards::parse(self.keys.iter().map(String::as_str)).map_err(|error| {
            let hint = error.hint_text().unwrap_or_default().to_owned();
            Error::invalid(format!("keys of [stewards]: {}", error.message())).hint(hint)
        })
    }
}

/// The nodes that verify each other's patches. This operator is one of them: its own signing key is a member's.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshEntry {
    /// How many members must approve, at least 2; more than half of them unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<usize>,
    /// The members by name, this operator among them.
    pub members: BTreeMap<String, MemberEntry>,
    /// How the proposals of other members are verified, and what that may use up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyEntry>,
}

/// One member of the mesh.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberEntry {
    /// The key its votes are signed with, as did:key; `herm receipts key` prints it.
    pub key: String,
    /// Where its server answers, such as https://node.example.
    pub url: String,
}

/// How the proposals of other members are verified.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyEntry {
    /// An evaluation of this operator's own: nothing may get worse in it, or the vote is REJECT. Without one, what the
    /// proposer chose to measure decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<PathBuf>,
    /// Seconds on the wall, for each of the evaluations; 600 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
    /// Millionths of a dollar for models, for each of the evaluations; nothing unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Bytes on disk; 10 GB unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Percent of one processor; 200 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Bytes of memory; 4 GiB unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl MeshEntry {
    /// The mesh of these members; an error where a key, an address or the quorum is not good.
    pub fn mesh(&self) -> Result<Mesh> {
        let members = self.members.iter().map(|(name, entry)| entry.member(name)).collect::<Result<_>>()?;
        Mesh::new(members, self.quorum).map_err(|error| {
            let hint = error.hint_text().unwrap_or_default().to_owned();
            Error::invalid(format!("[mesh]: {}", error.message())).hint(hint)
        })
    }

    /// How proposals are verified.
    pub fn verifying(&self) -> Result<VerifyOptions> {
        let said = self.verify.clone().unwrap_or_default();
        Ok(VerifyOptions { budget: self.budget()?, local: said.local()? })
    }

    /// What verifying a proposal may use up.
    fn budget(&self) -> Result<SuccessorBudget> {
        let (said, usual) = (self.verify.clone().unwrap_or_default(), SuccessorBudget::default());
        let budget = SuccessorBudget {
            wall_secs: said.wall_secs.unwrap_or(USUAL_WALL),
            micro_usd: said.micro_usd.unwrap_or(USUAL_MICRO_USD),
            disk_bytes: said.disk_bytes.unwrap_or(usual.disk_bytes),
            cpu_percent: said.cpu_percent.unwrap_or(usual.cpu_percent),
            memory_bytes: said.memory_bytes.unwrap_or(usual.memory_bytes),
            ..usual
        };
        budget.validate().map_err(|error| {
            Error::invalid(format!("[mesh.verify]: {}", error.message())).hint("leave it out for the default")
        })?;
        Ok(budget)
    }
}

impl VerifyEntry {
    /// This operator's own evaluation, read and looked at: one that checks nothing would let everything through.
    fn local(&self) -> Result<Option<Evaluation>> {
        let Some(path) = &self.evaluation else { return Ok(None) };
        let bad = |error: &Error| {
            let hint = error.hint_text().unwrap_or("docs/operate/gates.md says what it is for").to_owned();
            Error::invalid(format!("evaluation of [mesh.verify]: {}", error.message())).hint(hint)
        };
        let read = fsio::read_regular(path, MAX_EVALUATION_BYTES).and_then(|bytes| Evaluation::parse(&bytes));
        let evaluation = read.map_err(|error| bad(&error))?;
        if !evaluation.has_checks() {
            let error = Error::invalid(format!("{} has neither tasks with checks nor a replay", path.display()));
            return Err(bad(
                &error.hint("give it tasks whose answers you know; docs/reference/evaluation.md has the checks")
            ));
        }
        Ok(Some(evaluation))
    }
}

impl MemberEntry {
    fn member(&self, name: &str) -> Result<Member> {
        let key = self.key.parse().map_err(|error: Error| {
            let hint = error.hint_text().unwrap_or_default().to_owned();
            Error::invalid(format!("key of [mesh.members.{name}]: {}", error.message())).hint(hint)
        })?;
        let good = self.url.parse::<Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.query().is_none()
                && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        });
        if !good {
            return Err(Error::invalid(format!("url of [mesh.members.{name}]: {:?} is no address", self.url))
                .hint("write it like https://node.example"));
        }
        Ok(Member { name: name.to_owned(), key, url: self.url.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SettingsFlags;

    const ALPHA: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    const BETA: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

    fn mesh(more: &str, beta: &str, url: &str) -> Result<Mesh> {
        let text = format!(
            "{more}\n[members.alpha]\nkey = \"{ALPHA}\"\nurl = \"http://127.0.0.1:7701\"\n\
             [members.beta]\nkey = \"{beta}\"\nurl = \"{url}\"\n"
        );
        toml::from_str::<MeshEntry>(&text).unwrap().mesh()
    }

    #[test]
    fn a_mesh_is_its_members_and_a_quorum() {
        let read = mesh("", BETA, "https://node.example/herm").unwrap();
        assert_eq!((read.members().len(), read.quorum()), (2, 2));
        assert_eq!(read.members()[1].url, "https://node.example/herm");
        for url in ["node.example", "ftp://node.example", "http://me:secret@node.example", "/x", "http://n/?key=1"] {
            let said = mesh("", BETA, url).unwrap_err();
            assert!(said.message().starts_with("url of [mesh.members.beta]"), "{said}");
        }
        assert!(mesh("", ALPHA, "http://b").unwrap_err().message().contains("a key has one vote"));
        assert!(mesh("", "did:web:x", "http://b").unwrap_err().message().starts_with("key of [mesh.members.beta]"));
        assert!(mesh("quorum = 1", BETA, "http://b").unwrap_err().message().starts_with("[mesh]: the quorum"));
    }

    #[test]
    fn what_a_verification_may_use_up_is_ten_minutes_and_no_money_unless_said() {
        let read = |text: &str| toml::from_str::<MeshEntry>(text).unwrap().budget();
        assert_eq!(read("").unwrap(), SuccessorBudget { wall_secs: 600, micro_usd: 0, ..SuccessorBudget::default() });
        let said = read("[verify]\nwall_secs = 60\nmicro_usd = 7\n").unwrap();
        assert_eq!(said, SuccessorBudget { wall_secs: 60, micro_usd: 7, ..SuccessorBudget::default() });
        assert!(read("[verify]\nwall_secs = 0\n").unwrap_err().message().starts_with("[mesh.verify]: "));
    }

    #[test]
    fn an_evaluation_of_one_s_own_is_read_at_once_and_checks_something() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.json");
        let read = |text: Option<&str>| {
            if let Some(text) = text {
                herm::fsio::remove_file(&file).unwrap();
                herm::fsio::PrivateFile::create(&file).unwrap().write(text.as_bytes()).unwrap();
            }
            let entry = VerifyEntry { evaluation: Some(file.clone()), ..VerifyEntry::default() };
            let mesh = MeshEntry { verify: Some(entry), ..MeshEntry::default() };
            mesh.verifying().map(|how| how.local.unwrap().title)
        };
        let part = |tasks: &str| {
            format!(
                r#"{{ "schema": "herm/evaluation@1", "title": "mine",
                     "parts": [{{ "kind": "suite", "name": "asked", "tasks": [{tasks}] }}] }}"#
            )
        };
        let (checked, unchecked) = (
            r#"{ "name": "a", "input": "go", "checks": [{ "answerHas": "yes" }] }"#,
            r#"{ "name": "a", "input": "go" }"#,
        );
        let said = |text: Option<&str>| read(text).unwrap_err().message().to_owned();
        assert!(said(None).starts_with("evaluation of [mesh.verify]: "), "it is not there");
        assert_eq!(read(Some(&part(checked))).unwrap(), "mine");
        assert!(said(Some(&part(unchecked))).ends_with("has neither tasks with checks nor a replay"));
        assert!(said(Some("{}")).starts_with("evaluation of [mesh.verify]: that is not an evaluation"));
    }

    fn settings(text: &str) -> Settings {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        herm::fsio::PrivateFile::create(&file).unwrap().write(text.as_bytes()).unwrap();
        let flags = SettingsFlags { config: Some(file), brains: Some(dir.path().to_owned()) };
        Settings::load(&flags).unwrap()
    }

    #[test]
    fn a_gate_that_nobody_could_open_is_told() {
        let gates = settings("").gates().unwrap();
        assert!(gates.gate == Gate::Human && gates.stewards.is_empty() && gates.mesh.is_none());
        let gates = settings(&format!("[stewards]\nkeys = [\"{ALPHA}\"]\n")).gates().unwrap();
        assert_eq!(gates.stewards.len(), 1);
        for (text, why) in [("human", "needs a steward"), ("both", "needs a mesh"), ("mesh", "needs a mesh")] {
            let error = settings(&format!("[successor]\ngate = \"{text}\"\n")).gates().unwrap_err();
            assert!(error.message().contains(why), "{error}");
        }
    }

    #[test]
    fn patches_are_applied_by_command_unless_the_operator_allows_otherwise() {
        let at = |hour: i64| Timestamp(20_000 * 86_400_000 + hour * 3_600_000);
        let due = |text: &str, hour| settings(text).applying().unwrap().is_due(at(hour));
        assert!(!due("", 3) && !due("[successor]\nwindow = \"2-5\"\n", 3));
        assert!(due("[successor]\napply = \"automatic\"\n", 3));
        let night = "[successor]\napply = \"automatic\"\nwindow = \"2-5\"\n";
        assert!(due(night, 3) && !due(night, 5));
        let error = settings("[successor]\nwindow = \"late\"\n").applying().unwrap_err();
        assert!(error.message().starts_with("window of [successor]: "), "{error}");
    }

    #[test]
    fn the_server_looks_for_bottlenecks_within_a_budget_unless_it_is_told_not_to() {
        let detecting = |text: &str| settings(text).detecting();
        assert_eq!(detecting("").unwrap(), Some(DetectorOptions::default()));
        assert_eq!(detecting("[successor.detect]\nenabled = false\n").unwrap(), None);
        let said = detecting("[successor.detect]\nevery_minutes = 5\ntasks = 20\nmillis = 500\n").unwrap().unwrap();
        let expected =
            DetectorOptions { every: Duration::from_secs(300), tasks: 20, within: Duration::from_millis(500) };
        assert_eq!(said, expected);
        for bad in ["tasks = 0", "tasks = 501", "millis = 0", "millis = 60001"] {
            let error = detecting(&format!("[successor.detect]\n{bad}\n")).unwrap_err();
            assert!(error.message().starts_with("[successor.detect]: "), "{error}");
        }
        // It says nothing of gates, and so needs no steward.
        assert!(settings("[successor.detect]\ntasks = 20\n").gates().is_ok());
    }

    #[test]
    fn a_person_approves_unless_said_otherwise() {
        assert_eq!(SuccessorEntry::default().gate(), Gate::Human);
        let both: SuccessorEntry = toml::from_str("gate = \"both\"").unwrap();
        assert_eq!(both.gate(), Gate::Both);
        assert!(toml::from_str::<SuccessorEntry>("gate = \"none\"").is_err());
        let stewards = StewardsEntry { keys: vec![ALPHA.to_owned()] }.stewards().unwrap();
        assert!(stewards.has(&ALPHA.parse().unwrap()) && !stewards.has(&BETA.parse().unwrap()));
        let error = StewardsEntry { keys: vec!["me".to_owned()] }.stewards().unwrap_err();
        assert!(error.message().starts_with("keys of [stewards]: "), "{error}");
    }
}
