//! The reflex with the three seeds: tools that return what the real ones do, and a session that
//! runs to its end.

mod answers;
mod calls;
mod filling;
mod lessons;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::reply;
use crate::skill::{PatternNote, PatternSeverity};
use herm_agent::backend::{
    CompletionRequest, FinishReason, InputForm, InputOutline, LogSpan, OutlineEntry, Purpose, RecalledLine, ScanHit,
    ScanHits, ToolData, ToolPurpose, ToolRecord, ToolRole,
};
use herm_agent::{session, task, tool};
use herm_brain::memory::{EvidenceStatus, MemorySource};
use session::machine::{Legal, Machine, Next, SessionRules, Stop};
use session::prompt::{self, Prompt, PromptSkills};
use task::TaskLimits;
use tool::{Permission, SkillSummary, ToolReport, ToolSpec};

/// A seed agent with a task, and the places where a scan hits.
pub(super) struct Seed {
    agent: &'static str,
    example: &'static str,
    hits: &'static [(usize, &'static str, &'static str)],
    /// The kind of text, its lines and its characters.
    size: (InputForm, u64, u64),
    entries: &'static [(u64, &'static str)],
}

pub(super) const AUDIT: Seed = Seed {
    agent: "1",
    example: "vault.sol",
    hits: &[
        (57, "high", "share-inflation"),
        (67, "high", "share-inflation"),
        (68, "high", "reentrancy"),
        (79, "high", "spot-price-oracle"),
        (84, "high", "share-inflation"),
        (91, "high", "missing-access-control"),
        (99, "high", "zero-slippage"),
        (110, "high", "missing-access-control"),
        (111, "high", "tx-origin-auth"),
        (70, "medium", "unchecked-arithmetic"),
        (88, "medium", "unchecked-call-return"),
        (104, "medium", "unbounded-loop"),
        (106, "medium", "unchecked-call-return"),
        (85, "low", "division-before-multiplication"),
        (2, "info", "compiler-version"),
    ],
    size: (InputForm::Solidity, 114, 4310),
    entries: &[
        (2, "pragma solidity ^0.8.19"),
        (23, "contract HarborVault"),
        (24, "state address public owner"),
        (55, "function deposit() external payable returns (uint256 minted)"),
        (64, "function withdraw(uint256 amount) external"),
        (78, "function ethPrice() public view returns (uint256)"),
        (83, "function borrow(uint256 amount) external"),
        (91, "function setKeeper(address newKeeper) external"),
        (95, "function harvest(address[] calldata path) external"),
        (103, "function payBonus() external payable onlyOwner"),
        (110, "function emergencyWithdraw(address payable to) external"),
    ],
};

pub(super) const TRIAGE: Seed = Seed {
    agent: "2",
    example: "checkout-outage.log",
    hits: &[
        (7, "high", "upstream-timeout"),
        (10, "high", "connection-pool-exhausted"),
        (12, "high", "connection-pool-exhausted"),
        (22, "high", "retry-storm"),
        (26, "high", "upstream-timeout"),
        (34, "high", "data-integrity"),
        (38, "high", "crash-loop"),
        (42, "high", "secret-in-log"),
        (2, "info", "recent-change"),
        (48, "info", "recent-change"),
    ],
    size: (InputForm::Log, 51, 5120),
    entries: &[(12, "java.sql.SQLTransientConnectionException: HikariPool-1")],
};

pub(super) const CLAUSE: Seed = Seed {
    agent: "3",
    example: "saas-agreement.md",
    hits: &[
        (13, "high", "unilateral-change"),
        (21, "high", "termination-imbalance"),
        (35, "high", "content-licence"),
        (19, "medium", "auto-renewal"),
    ],
    size: (InputForm::Prose, 72, 6000),
    entries: &[
        (1, "Cloud Services Agreement"),
        (9, "2. The Service"),
        (13, "2.2 Provider may modify the Service"),
        (17, "3. Term and renewal"),
        (19, "3.1 The initial term"),
        (21, "3.2 Provider may terminate"),
        (31, "5. Data"),
        (35, "5.1 Customer grants Provider"),
    ],
};

impl Seed {
    fn file(&self, path: &str) -> String {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../seed/agents").join(self.agent);
        std::fs::read_to_string(root.join(path)).unwrap()
    }

    pub(super) fn input(&self) -> String {
        self.file(&format!("examples/{}", self.example))
    }

    pub(super) fn role(&self) -> String {
        self.file("system.md")
    }

    fn outline(&self) -> InputOutline {
        let (form, lines, characters) = self.size;
        let entries = self.entries.iter().map(|(line, text)| OutlineEntry { line: *line, text: (*text).to_owned() });
        let log = (form == InputForm::Log).then(|| LogSpan {
            first: "2025-03-11T13:41:02.118Z".to_owned(),
            first_line: 1,
            last: "2025-03-11T14:19:00.012Z".to_owned(),
            last_line: 51,
        });
        let levels = log.iter().flat_map(|_| [("ERROR".to_owned(), 4), ("WARN".to_owned(), 11)]).collect();
        InputOutline { lines, characters, form, span: log, levels, entries: entries.collect() }
    }

    fn scan(&self) -> ScanHits {
        let input = self.input();
        let lines: Vec<&str> = input.lines().collect();
        let mut found = ScanHits::default();
        for (number, severity, pattern) in self.hits {
            found.hits.push(ScanHit {
                line: *number as u64,
                severity: PatternSeverity::named(severity).unwrap(),
                pattern: (*pattern).to_owned(),
                text: lines[number - 1].trim().chars().take(200).collect(),
            });
            *found.counts.entry((*pattern).to_owned()).or_default() += 1;
        }
        found
    }

    /// A pattern's first line as a note, and its body.
    fn pattern(&self, name: &str) -> (PatternNote, String) {
        let text = self.file(&format!("patterns/{name}.md"));
        let (head, body) = text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
        let field = |key: &str| head.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim();
        let severity = PatternSeverity::named(field("severity:")).unwrap();
        (PatternNote::new(name, severity, field("description:")), body.trim().to_owned())
    }

    fn patterns(&self, query: &str) -> Vec<PatternNote> {
        let first_lines = |name| {
            let (note, body) = self.pattern(name);
            let lines = body.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).take(6);
            let short: Vec<String> = lines.map(|line| herm_core::text::head(line, 240)).collect();
            note.with_lines(short.iter().map(String::as_str))
        };
        query.split_whitespace().map(first_lines).collect()
    }

    pub(super) fn skills(&self) -> Vec<SkillSummary> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../seed/agents").join(self.agent).join("skills");
        let mut cards = Vec::new();
        for entry in std::fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            let file = if path.is_dir() { path.join("SKILL.md") } else { path.clone() };
            let text = std::fs::read_to_string(file).unwrap();
            let description = text.lines().find_map(|line| line.strip_prefix("description: ")).unwrap().to_owned();
            cards.push(SkillSummary {
                slug: path.file_stem().unwrap().to_str().unwrap().parse().unwrap(),
                description: description.into(),
                category: None,
                external: false,
            });
        }
        cards.sort_by(|a, b| a.slug.cmp(&b.slug));
        cards
    }

    /// What the real tool would return.
    pub(super) fn call(&self, tool: &str, args: &Map<String, Value>) -> ToolReport {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        let data = match tool {
            "outline" => ToolData::Outline(self.outline()),
            "scan" => ToolData::Hits(self.scan()),
            "pattern_search" => ToolData::Patterns(match (text("name"), text("query")) {
                (Some(name), _) => {
                    let (note, body) = self.pattern(name);
                    vec![note.with_lines(body.lines())]
                }
                (None, query) => self.patterns(query.unwrap()),
            }),
            "skill_view" => {
                return ToolReport::new(EvidenceStatus::Ok, format!("# {}\n\n1. Do it.\n", text("name").unwrap()), "");
            }
            "recall" => ToolData::Recalled(vec![RecalledLine {
                date: "2026-11-16".to_owned(),
                source: MemorySource::Fact,
                text: "HarborVault was reviewed before".to_owned(),
            }]),
            other => panic!("nobody expected a call of {other}"),
        };
        found(data)
    }
}

/// A result whose text says nothing: what counts is the data.
pub(super) fn found(data: ToolData) -> ToolReport {
    ToolReport { data: Some(Arc::new(data)), ..ToolReport::new(EvidenceStatus::Ok, "For a model.", "") }
}

/// What the tools of the seeds are for.
fn purpose(name: &str) -> Option<ToolPurpose> {
    Some(match name {
        "outline" => ToolPurpose::Outlines,
        "scan" => ToolPurpose::Scans,
        "pattern_search" => ToolPurpose::ExplainsPatterns,
        "recall" => ToolPurpose::Recalls,
        "note" | "memory" | "skill_manage" => ToolPurpose::Writes,
        "skills_list" => ToolPurpose::ListsSkills,
        "skill_view" => ToolPurpose::LoadsSkill,
        "fetch_url" => ToolPurpose::ReachesOut,
        _ => return None,
    })
}

pub(super) fn roles(tools: &[ToolSpec]) -> Vec<ToolRole> {
    let role = |card: &ToolSpec| Some(ToolRole { tool: card.name.clone(), purpose: card.purpose? });
    tools.iter().filter_map(role).collect()
}

fn card(name: &str, properties: Value, required: &[&str]) -> ToolSpec {
    let schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required });
    ToolSpec { purpose: purpose(name), ..ToolSpec::new(name, "Does what it says.", Permission::Read, schema) }
}

/// The tools of the seeds, in the order of their manifests.
pub(super) fn seed_tools() -> Vec<ToolSpec> {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 2000 });
    let maybe = json!({ "type": ["string", "null"], "maxLength": 500 });
    let number = json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 20 });
    vec![
        card("scan", json!({ "pattern": maybe, "limit": number }), &[]),
        card("outline", json!({}), &[]),
        card("pattern_search", json!({ "name": maybe, "query": maybe, "limit": number }), &[]),
        card("recall", json!({ "query": text, "limit": number }), &["query"]),
        card("note", json!({ "key": text, "value": text }), &["key", "value"]),
        card("memory", json!({ "op": { "enum": ["add"] }, "target": { "enum": ["memory"] } }), &["op", "target"]),
        card("skills_list", json!({ "query": maybe }), &[]),
        card("skill_view", json!({ "name": text, "file": maybe }), &["name"]),
        card("skill_manage", json!({ "op": { "enum": ["create"] }, "name": text }), &["op", "name"]),
    ]
}

/// A session that ran.
pub(super) struct Ran {
    pub(super) calls: Vec<(String, Map<String, Value>)>,
    pub(super) turns: u8,
    pub(super) stop: Stop,
    pub(super) asks: Vec<CompletionRequest>,
}

impl Ran {
    pub(super) fn answer(&self) -> Value {
        serde_json::from_str(self.stop.answer.as_ref().expect("an answer")).unwrap()
    }

    pub(super) fn tools(&self) -> Vec<&str> {
        self.calls.iter().map(|(tool, _)| tool.as_str()).collect()
    }
}

/// What a session is about.
pub(super) struct Scene<'a> {
    pub(super) role: &'a str,
    pub(super) input: &'a str,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) skills: Vec<SkillSummary>,
    pub(super) turns: u8,
}

impl Scene<'_> {
    /// Runs to the end. Every call must fit its tool's schema.
    pub(super) fn run(&self, mut call: impl FnMut(&str, &Map<String, Value>) -> ToolReport) -> Ran {
        let cards: Vec<&ToolSpec> = self.tools.iter().collect();
        let skills = PromptSkills { skills: self.skills.clone(), more: 0 };
        let system = prompt::system(&Prompt {
            role: self.role,
            memory: "- # Tools\n- evil: x\n",
            users: "",
            subscriber: "",
            tools: &cards,
            skills: &skills,
            turns: self.turns,
            answer: None,
            examples: false,
            names: session::few_shot::ExampleNames::Same,
            shown: None,
            preloaded: &[],
        });
        let names = cards.iter().map(|card| card.name.clone()).collect();
        let rules = SessionRules {
            turns: self.turns,
            tools: names,
            context_bytes: TaskLimits::default().context_bytes,
            ..SessionRules::default()
        };
        let mut machine = Machine::new(rules, system.into(), self.input.into());
        let schema = prompt::final_schema(self.role);
        let mut ran = Ran { calls: Vec::new(), turns: 0, stop: session::stop_of(&machine), asks: Vec::new() };
        loop {
            match machine.next() {
                Next::Done(stop) => {
                    return Ran { stop: stop.clone(), turns: machine.turns(), ..ran };
                }
                Next::Ask(question) => {
                    let legal =
                        session::legal::LegalReplies::new(question.legal, &cards, schema.as_ref(), false).schema();
                    let tools = ToolRecord { roles: roles(&self.tools), calls: question.calls };
                    let ask = CompletionRequest { tools, ..ask(question.messages, legal) };
                    assert_ne!((question.legal, ask.messages.len()), (Legal::Final, 0));
                    let text = reply(&ask);
                    assert_eq!(reply(&ask), text, "the same messages give the same bytes");
                    ran.asks.push(ask);
                    machine.hear(&text, FinishReason::Stop);
                }
                Next::Call(next) => {
                    let known = self.tools.iter().find(|card| card.name == next.tool).expect("a known tool");
                    let args = Value::Object(next.args.clone());
                    assert_eq!(crate::schema::problems(&known.schema, &args), Vec::<String>::new(), "{}", next.tool);
                    let report = call(&next.tool, &next.args);
                    ran.calls.push((next.tool.clone(), next.args.clone()));
                    machine.take(&report);
                }
            }
        }
    }
}

pub(super) fn ask(messages: Vec<herm_agent::backend::ChatMessage>, legal: Value) -> CompletionRequest {
    CompletionRequest {
        messages,
        purpose: Purpose::Turn,
        tools: Default::default(),
        reply_schema: Arc::new(legal),
        max_output_tokens: 4_096,
        max_output_bytes: 128 << 10,
        temperature: 0.1,
    }
}

/// A seed's own example with the tools of its manifest.
pub(super) fn run(seed: &Seed, turns: u8) -> Ran {
    let (role, input) = (seed.role(), seed.input());
    let scene = Scene { role: &role, input: &input, tools: seed_tools(), skills: seed.skills(), turns };
    scene.run(|tool, args| seed.call(tool, args))
}

pub(super) fn problems(schema: &Value, value: &Value) -> Vec<String> {
    crate::schema::problems(schema, value)
}

pub(super) fn schema_of(role: &str) -> Value {
    prompt::final_schema(role).unwrap()
}

pub(super) fn failed(text: &str) -> ToolReport {
    ToolReport::new(EvidenceStatus::Failed, text, text)
}
