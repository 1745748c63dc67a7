//! A real language model inside the process: SmolLM2-135M-Instruct, as `.ci/models` fetches it. `HERM_LONG=1` runs the
//! whole suite of lookups instead of its beginning.

mod backend;
mod commands;
mod hub;
mod learning;
mod lookups;
mod receipts;

use std::sync::Arc;

use async_trait::async_trait;
use herm::backend::{LocalBackend, LocalSettings, ModelCache, Router};
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec, Toolbox};
use herm::{Brain, BrainId, BrainSource, Harness, Result, Seed};
use herm_tests::TempBrains;
use serde_json::{Map, Value, json};

/// The role of the agent that looks things up.
const ROLE: &str =
    "You answer questions. You know nothing by heart: look everything up with a tool, then answer from its result.\n";

/// What can be looked up.
const FACTS: [(&str, &str); 14] = [
    ("capital of Peru", "Lima"),
    ("author of the novel Emma", "Jane Austen"),
    ("currency of Japan", "yen"),
    ("tallest mountain of Africa", "Kilimanjaro"),
    ("inventor of the telephone", "Alexander Graham Bell"),
    ("chemical symbol of gold", "Au"),
    ("largest ocean", "Pacific"),
    ("painter of Guernica", "Picasso"),
    ("capital of Kenya", "Nairobi"),
    ("language of Brazil", "Portuguese"),
    ("discoverer of penicillin", "Alexander Fleming"),
    ("composer of the Four Seasons", "Vivaldi"),
    ("capital of Norway", "Oslo"),
    ("boiling point of water in Celsius", "100"),
];

/// Looks a fact up by the words it shares with the question.
struct Search(ToolSpec);

impl Search {
    fn new() -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": { "query": { "type": "string", "description": "What to look up, in a few words." } },
        });
        let about = "Looks a fact up in the encyclopedia. Use it for questions about people, places and things.";
        Self(ToolSpec::new("search", about, Permission::Read, schema).with_few_shot(
            "What is the capital of France?",
            json!({ "query": "capital of France" }),
            "The capital of France is Paris.",
            "Paris",
        ))
    }
}

fn words(text: &str) -> Vec<String> {
    let idle = ["the", "of", "is", "what", "who", "a", "in"];
    text.split(|c: char| !c.is_ascii_alphabetic())
        .map(str::to_ascii_lowercase)
        .filter(|word| !word.is_empty() && !idle.contains(&word.as_str()))
        .collect()
}

#[async_trait]
impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput> {
        let asked = words(args["query"].as_str().unwrap_or_default());
        let shared = |fact: &str| words(fact).iter().filter(|word| asked.contains(word)).count();
        let best = FACTS.iter().rev().max_by_key(|(fact, _)| shared(fact)).filter(|(fact, _)| shared(fact) > 0);
        match best {
            Some((fact, value)) => Ok(ToolOutput::new(format!("The {fact} is {value}."), "found")),
            None => Err(herm::Error::not_found("the encyclopedia has nothing on that")),
        }
    }
}

/// Works a sum of two numbers out.
struct Calculator(ToolSpec);

impl Calculator {
    fn new() -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["expression"],
            "properties": { "expression": { "type": "string", "description": "The sum, such as 12 * 4." } },
        });
        let about = "Works out plus, minus, times and divided by. Use it for numbers.";
        Self(ToolSpec::new("calculator", about, Permission::Read, schema).with_few_shot(
            "What is 12 times 4?",
            json!({ "expression": "12 * 4" }),
            "48",
            "48",
        ))
    }
}

#[async_trait]
impl Tool for Calculator {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput> {
        let text = args["expression"].as_str().unwrap_or_default();
        let unclear = || herm::Error::invalid("write two numbers with + - * or / between them");
        let at = text.find(['+', '-', '*', '/']).ok_or_else(unclear)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unclear());
        let (a, b) = (number(&text[..at])?, number(&text[at + 1..])?);
        let result = match &text[at..=at] {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            _ => a / b,
        };
        Ok(ToolOutput::new(result.to_string(), "worked out"))
    }
}

/// The two tools of the suite.
fn toolbox() -> Toolbox {
    let mut toolbox = Toolbox::new();
    toolbox.add(Arc::new(Search::new())).expect("a tool");
    toolbox.add(Arc::new(Calculator::new())).expect("a tool");
    toolbox
}

/// The real model; nothing where the tests on real models are left out.
fn model(shelf: &ModelCache) -> Option<LocalBackend> {
    let mut settings = LocalSettings::new(herm_tests::models::smollm2()?);
    settings.threads = Some(2);
    Some(LocalBackend::new(shelf, settings).expect("the model"))
}

/// A brain with this role and nothing else.
fn with_role(brains: &TempBrains, role: &str) -> BrainId {
    let id: BrainId = "1".parse().expect("a number");
    let seed = Seed { id: &id, files: &[("system.md", role.as_bytes())] };
    let (brain, _) =
        Brain::hydrate(&brains.layout(), &id, &BrainSource::Seed(seed), &brains.opening()).expect("a brain");
    brain.close().expect("closed");
    id
}

/// A harness with the real model and the two tools.
fn harness(brains: &TempBrains, local: LocalBackend) -> Harness {
    Harness::builder()
        .brains(brains.path())
        .clock(brains.clock())
        .router(Router::single(Arc::new(local)))
        .toolbox(toolbox())
        .learning(false)
        .build()
        .expect("a harness")
}
