//! A plan: the calls of an example, with what stays the same from task to task. Pure.
//!
//! A backend that holds replies to a schema is held to the plan, call by call, until a call fails: then every legal reply
//! is legal again. A value that the example took from its question is taken from the question of this task, and one
//! that it took from a result from a result of this task: a small model copies the example's own otherwise.
//!
//! Held are only arguments whose value in the example is among the [`spans`] of its own question or results. A value that
//! was worked out from them (a date, a singular, a code) is left to the model.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::spans::{numbers, spans};
use super::{ArgumentSource, Example, RepeatedArguments};
use crate::text::words::each_term;
use crate::tool::ToolSpec;

/// The most values that an argument can be held to; with more to choose from, any is legal.
const MOST_VALUES: usize = 200;
/// The bytes of question and results that values are taken from.
const SOURCE_BYTES: usize = 16 << 10;
/// What a description says behind these words are values, and no words of the tool itself.
const BEFORE_VALUES: [&str; 6] = ["such as", "e.g.", "for example", "for instance", "like ", "examples:"];

/// The calls to make, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    tool: String,
    args: Vec<(String, Argument)>,
}

/// Where the value of an argument comes from. The texts are the example's own values.
#[derive(Debug, Clone, PartialEq)]
enum Argument {
    /// It is always this one.
    Constant(Value),
    /// The question has it.
    FromQuestion(String),
    /// A result has it.
    FromResult(String),
    /// The question or a result has it: a tool's own example knows of no call before it. Not all of its words are among
    /// `vocabulary`, the words in which the tool speaks of itself.
    FromTask { value: String, vocabulary: BTreeSet<String> },
    /// Any value that the tool's schema allows.
    Open,
}

impl Plan {
    /// The plan of an example, where all of its tools are there. `repeated` says which of its arguments
    /// were the same in other examples.
    pub fn of(example: &Example, repeated: &RepeatedArguments, tools: &[&ToolSpec]) -> Option<Self> {
        let mut steps = Vec::with_capacity(example.calls.len());
        for (at, call) in example.calls.iter().enumerate() {
            let card = tools.iter().find(|card| card.name == call.tool)?;
            let results: Vec<&str> = example.calls.iter().take(at).map(|call| call.result.as_str()).collect();
            let argument = |name: &String, value: &Value| {
                let declared = &card.schema["properties"][name];
                let said = crate::checks::text_of(value);
                let is_choice = is_chosen(declared, value);
                let is_among =
                    |sources: &[&str]| offered(declared, sources, &said).iter().any(|offered| is_same(offered, value));
                match example.source_of(at, value) {
                    ArgumentSource::Structure => Argument::Open,
                    ArgumentSource::Constant if is_choice => Argument::Constant(value.clone()),
                    _ if is_choice => Argument::Open,
                    _ if is_among(&[&example.question]) => Argument::FromQuestion(said),
                    _ if is_among(&results) => Argument::FromResult(said),
                    // Worked out, or the same by chance: one example does not tell.
                    ArgumentSource::Constant if repeated.contains(&(at, name.clone())) => {
                        Argument::Constant(value.clone())
                    }
                    _ => Argument::Open,
                }
            };
            let args = call.args.iter().map(|(name, value)| (name.clone(), argument(name, value))).collect();
            steps.push(Step { tool: call.tool.clone(), args });
        }
        (!steps.is_empty()).then_some(Self { steps })
    }

    /// What the examples on the tools' cards say of single calls. It has an order of no meaning: it is for [`Self::hold`]
    /// alone. A card without an example says nothing.
    pub fn of_cards(tools: &[&ToolSpec]) -> Self {
        let step = |card: &&ToolSpec| {
            let shown = card.few_shot.as_ref()?;
            let args = shown.args.as_object()?.iter().filter_map(|(name, value)| {
                let text = value.as_str()?;
                let declared = &card.schema["properties"][name];
                let among = offered(declared, &[&shown.question], text);
                let matter = stems(text);
                let known = vocabulary_of(card).chain(stems(&shown.question));
                let vocabulary = || known.filter(|stem| !matter.contains(stem)).collect();
                (!is_chosen(declared, value) && among.iter().any(|offered| is_same(offered, value)))
                    .then(|| (name.clone(), Argument::FromTask { value: text.to_owned(), vocabulary: vocabulary() }))
            });
            Some(Step { tool: card.name.clone(), args: args.collect() })
        };
        Self { steps: tools.iter().filter_map(step).filter(|step| !step.args.is_empty()).collect() }
    }

    /// The tool of a step, none behind the last.
    pub fn tool(&self, step: usize) -> Option<&str> {
        self.steps.get(step).map(|step| step.tool.as_str())
    }

    /// The tools with the arguments that come from question or results held to those, where `holds` says so of a tool: a
    /// small model copies the example's own otherwise.
    pub fn hold(
        &self,
        tools: &[&ToolSpec],
        question: &str,
        results: &[&str],
        holds: impl Fn(&ToolSpec) -> bool,
    ) -> Vec<ToolSpec> {
        let held = |card: &&ToolSpec| {
            let mut card = ToolSpec::clone(card);
            let Some(step) = self.steps.iter().find(|step| step.tool == card.name) else { return card };
            if !holds(&card) {
                return card;
            }
            for (name, argument) in &step.args {
                let declared = &card.schema["properties"][name];
                card.schema["properties"][name] = match argument {
                    Argument::FromQuestion(value) => one_of(declared, &[question], value),
                    Argument::FromResult(value) => one_of(declared, results, value),
                    Argument::FromTask { value, vocabulary } => {
                        matter(one_of(declared, &[&[question], results].concat(), value), vocabulary)
                    }
                    Argument::Constant(_) | Argument::Open => continue,
                };
            }
            card
        };
        tools.iter().map(held).collect()
    }

    /// The one legal reply of a step as a schema, given the question and the results so far; none behind the last,
    /// where the answer comes.
    pub fn legal(&self, step: usize, tools: &[&ToolSpec], question: &str, results: &[&str]) -> Option<Value> {
        let step = self.steps.get(step)?;
        let card = tools.iter().find(|card| card.name == step.tool)?;
        let mut properties = Map::new();
        for (name, argument) in &step.args {
            let declared = card.schema["properties"].get(name).cloned().unwrap_or_else(|| json!({}));
            let schema = match argument {
                Argument::Constant(value) => json!({ "const": value }),
                Argument::FromQuestion(value) => one_of(&declared, &[question], value),
                Argument::FromResult(value) => one_of(&declared, results, value),
                Argument::FromTask { .. } | Argument::Open => declared,
            };
            properties.insert(name.clone(), schema);
        }
        let required: Vec<&String> = step.args.iter().map(|(name, _)| name).collect();
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["tool", "args"],
            "properties": {
                "tool": { "const": step.tool },
                "args": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": required,
                    "properties": properties,
                },
            },
        }))
    }
}

/// Whether an argument is chosen from values that its schema lists.
fn is_chosen(declared: &Value, value: &Value) -> bool {
    declared.get("enum").is_some() || declared.get("const").is_some() || value.is_boolean() || value.is_null()
}

/// Whether two values are the same but for case and blanks.
fn is_same(one: &Value, other: &Value) -> bool {
    let plain = |value: &Value| {
        let text = crate::checks::text_of(value).to_lowercase();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    plain(one) == plain(other)
}

/// The declared schema, held to the values that the sources offer. Left as it is where it says itself which values there
/// are, or the sources offer none, or too many.
fn one_of(declared: &Value, sources: &[&str], like: &str) -> Value {
    if declared.get("enum").is_some() || declared.get("const").is_some() {
        return declared.clone();
    }
    let mut values = offered(declared, sources, like);
    if values.len() > MOST_VALUES {
        let form = Form::of(like);
        values.retain(|value| Form::of(&crate::checks::text_of(value)) == form);
    }
    match values.len() {
        0 => declared.clone(),
        many if many > MOST_VALUES => declared.clone(),
        _ => json!({ "enum": values }),
    }
}

/// The values of the sources that fit the declared schema, the latest source first. `like` is a value of the kind.
fn offered(declared: &Value, sources: &[&str], like: &str) -> Vec<Value> {
    let kind = declared["type"].as_str().unwrap_or_default();
    let words = like.split_whitespace().count();
    let mut values: Vec<Value> = Vec::new();
    let mut left = SOURCE_BYTES;
    for source in sources.iter().rev() {
        let source = source.get(..source.floor_char_boundary(left)).unwrap_or_default();
        left -= source.len();
        match kind {
            "integer" => {
                values.extend(numbers(source).iter().filter_map(|text| text.parse::<i64>().ok()).map(Value::from));
            }
            "number" => {
                values.extend(numbers(source).iter().filter_map(|text| text.parse::<f64>().ok()).map(plain_number));
            }
            _ => values.extend(spans(source, words + 1).into_iter().map(Value::from)),
        }
    }
    let fits = |value: &Value| crate::schema::problems(declared, value).is_empty();
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.to_string()) && fits(value));
    values
}

/// A number as JSON writes it shortest: a model is not held to write `31.0`.
fn plain_number(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    if is_whole { Value::from(number as i64) } else { Value::from(number) }
}

/// What values of one kind look alike in: which of digits, capitals and joints they have.
#[derive(Debug, PartialEq, Eq)]
struct Form {
    has_digits: bool,
    has_letters: bool,
    begins_with_capital: bool,
    has_joints: bool,
}

impl Form {
    fn of(value: &str) -> Self {
        Self {
            has_digits: value.contains(|c: char| c.is_numeric()),
            has_letters: value.contains(char::is_alphabetic),
            begins_with_capital: value.starts_with(char::is_uppercase),
            has_joints: value.contains(|c: char| !c.is_alphanumeric() && !c.is_whitespace()),
        }
    }
}

/// The stems of the words in which a tool speaks of itself: they are not what a task is about. Names and quotations in its
/// description, and what it gives as examples, may be.
fn vocabulary_of(card: &ToolSpec) -> impl Iterator<Item = String> {
    let names = card.schema["properties"].as_object().into_iter().flat_map(Map::keys);
    let names = names.map(|name| name.replace(['_', '-'], " ")).collect::<Vec<_>>().join(" ");
    let mut described = String::new();
    for sentence in card.description.split_inclusive(". ") {
        let lower = sentence.to_lowercase();
        let end = BEFORE_VALUES.iter().filter_map(|mark| lower.find(mark)).min().unwrap_or(sentence.len());
        for (at, word) in sentence.get(..end).unwrap_or(sentence).split_whitespace().enumerate() {
            if at == 0 || word.starts_with(char::is_lowercase) {
                described.push_str(word);
                described.push(' ');
            }
        }
    }
    stems(&format!("{described} {names}")).into_iter()
}

fn stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    each_term(text, |term| {
        stems.push(term.to_owned());
        true
    });
    stems
}

/// The values that say something besides the vocabulary; all of them where none does.
fn matter(held: Value, vocabulary: &BTreeSet<String>) -> Value {
    let values = held["enum"].as_array().into_iter().flatten();
    let says_more = |value: &&Value| match value.as_str().map(stems) {
        // Single letters, numbers and small words have no stem, and may be what is asked for.
        Some(stems) => stems.is_empty() || stems.iter().any(|stem| !vocabulary.contains(stem)),
        None => true,
    };
    let matter: Vec<&Value> = values.filter(says_more).collect();
    if matter.is_empty() { held.clone() } else { json!({ "enum": matter }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::exemplar::tests::example_of;
    use crate::tool::Permission;
    use proptest::prelude::*;

    #[test]
    fn without_an_example_the_tools_own_say_what_comes_from_the_task() {
        let schema = json!({ "type": "object", "required": ["piece", "list"], "properties": {
            "piece": { "type": "string" }, "list": { "enum": ["red", "blue"] }, "count": { "type": "integer" } } });
        let find = ToolSpec::new("find", "Finds.", Permission::Read, schema);
        let shown = json!({ "piece": "globe", "list": "red" });
        let find = find.with_few_shot("Where is the globe?", shown, "In bay 9.", "bay 9");
        let held =
            Plan::of_cards(&[&find]).hold(&[&find], "Where is the old harp?", &["The lute is elsewhere."], |_| true);
        assert_eq!(
            held[0].schema["properties"]["piece"],
            json!({ "enum": ["lute", "elsewhere", "old", "harp", "old harp"] })
        );
        assert_eq!(held[0].schema["properties"]["list"], json!({ "enum": ["red", "blue"] }));
        let nothing_to_take = Plan::of_cards(&[&find]).hold(&[&find], "?", &[], |_| true);
        assert_eq!(nothing_to_take[0].schema, find.schema);
        let lifted = Plan::of_cards(&[&find]).hold(&[&find], "Where is the old harp?", &[], |_| false);
        assert_eq!(lifted[0].schema, find.schema);
    }

    #[test]
    fn a_card_without_an_example_of_its_own_holds_nothing() {
        let schema = json!({ "type": "object", "required": ["piece"], "properties": {
            "piece": { "type": "string", "examples": ["globe"] } } });
        let bare = ToolSpec::new("find", "Finds.", Permission::Read, schema);
        assert_eq!(Plan::of_cards(&[&bare]), Plan { steps: Vec::new() });
        // The example worked its value out: the tool wants something else than words of the question.
        let shown = bare.with_few_shot("Where are the globes?", json!({ "piece": "globe" }), "In bay 9.", "bay 9");
        assert_eq!(Plan::of_cards(&[&shown]), Plan { steps: Vec::new() });
    }

    #[test]
    fn values_that_a_description_names_may_be_what_the_task_is_about() {
        let schema =
            json!({ "type": "object", "required": ["fruit"], "properties": { "fruit": { "type": "string" } } });
        let text = "Says the price of a fruit such as apple or pear. Names of Wyke count.";
        let price = ToolSpec::new("price", text, Permission::Read, schema);
        let price = price.with_few_shot("What does a fig cost?", json!({ "fruit": "fig" }), "A fig is 3.", "3");
        let held = |question: &str| {
            Plan::of_cards(&[&price]).hold(&[&price], question, &[], |_| true)[0].schema["properties"]["fruit"].clone()
        };
        assert_eq!(held("What is the price of an apple?"), json!({ "enum": ["apple"] }));
        assert_eq!(
            held("What does the fruit of Wyke cost?"),
            json!({ "enum": ["Wyke", "Wyke cost", "fruit of Wyke"] })
        );
    }

    #[test]
    fn what_comes_from_the_question_or_a_result_stays_open_and_the_rest_is_pinned() {
        let example = example_of(
            "Which room has order 572?",
            &[
                ("find", json!({ "order": "572", "book": "blue" }), "Order 572 is entry 9 of the ledger."),
                ("read", json!({ "entry": 9, "code": "Q7" }), "Entry 9: room 31."),
            ],
            "room 31",
        );
        let schema = json!({ "type": "object", "properties": {
            "order": { "type": "string" }, "book": { "enum": ["red", "blue"] }, "more": { "type": "string" } } });
        let find = ToolSpec::new("find", "Finds.", Permission::Read, schema);
        let read = ToolSpec::new(
            "read",
            "Reads.",
            Permission::Read,
            json!({ "type": "object", "properties": {
            "entry": { "type": "integer" }, "code": { "type": "string" } } }),
        );
        let once = Plan::of(&example, &RepeatedArguments::new(), &[&find, &read]).unwrap();
        let code = json!({ "type": "string" });
        let of_one = once.legal(1, &[&find, &read], "Which room has order 31?", &["It is entry 44."]).unwrap();
        assert_eq!(of_one["properties"]["args"]["properties"]["code"], code, "one example pins no text");
        let repeated = RepeatedArguments::from([(1, "code".to_owned())]);
        let plan = Plan::of(&example, &repeated, &[&find, &read]).unwrap();
        let first = plan.legal(0, &[&find, &read], "Which room has order 31?", &[]).unwrap();
        assert_eq!(
            first["properties"]["args"]["properties"],
            json!({ "order": { "enum": ["room", "order", "31", "order 31"] }, "book": { "const": "blue" } })
        );
        let second = plan
            .legal(1, &[&find, &read], "Which room has order 31?", &["Order 31 is entry 44 of the ledger."])
            .unwrap();
        assert_eq!(
            second["properties"]["args"]["properties"],
            json!({ "entry": { "enum": [31, 44] }, "code": { "const": "Q7" } })
        );
        assert_eq!((plan.tool(1), plan.tool(2)), (Some("read"), None));
        assert!(plan.legal(2, &[&find, &read], "", &[]).is_none());
        assert!(Plan::of(&example, &repeated, &[&find]).is_none(), "a tool that is not there makes no plan");
    }

    #[test]
    fn what_was_worked_out_from_the_question_is_left_to_the_model() {
        let schema = json!({ "type": "object", "properties": {
            "day": { "type": "string" }, "thing": { "type": "string" }, "count": { "type": "integer" } } });
        let find = ToolSpec::new("find", "Finds.", Permission::Read, schema.clone());
        for (question, args) in [
            ("What is on for the fourth of May?", json!({ "day": "2024-05-04" })),
            ("Where are the lamps?", json!({ "thing": "lamp" })),
            ("Are three lamps there?", json!({ "count": 3 })),
        ] {
            let example = example_of(question, &[("find", args.clone(), "It is 57.")], "57");
            let plan = Plan::of(&example, &RepeatedArguments::new(), &[&find]).unwrap();
            let legal = plan.legal(0, &[&find], "Where are the two ropes on Monday?", &[]).unwrap();
            for name in args.as_object().unwrap().keys() {
                assert_eq!(legal["properties"]["args"]["properties"][name], schema["properties"][name], "{question}");
            }
        }
    }

    proptest! {
        /// The value of an argument that is held to the question is among those that it is held to, for the question of the
        /// example and for that of the task.
        #[test]
        fn an_argument_is_held_to_the_question_only_where_the_question_offers_it(
            values in prop::collection::vec(
                "[A-Z][a-z]{2,8}|[a-z]{4,9}-[0-9]{1,4}|[0-9]{2}:[0-9]{2}|[A-Z]{1,2}[0-9]{1,4}|[1-9],[0-9]{3}|[a-z]{4,7}@[a-z]{3}\\.org\
                    |/[a-z]{2,5}/[a-z]{3}\\.txt|[A-Z][a-z]{3,6}, [A-Z][a-z]{3,6}|[山田京都]{2,3}|\\PC{1,12}", 2),
            before in prop::sample::select(vec!["Where is ", "Which of them has \"", "order:", "(", "the", ""]),
            behind in prop::sample::select(vec!["?", "'s box?", "の電話は?", "\" now", ") is where", "s", ""]),
        ) {
            let schema = json!({ "type": "object", "properties": { "thing": { "type": "string" } } });
            let find = ToolSpec::new("find", "Finds.", Permission::Read, schema.clone());
            let ask = |value: &str| format!("{before}{value}{behind}");
            let args = |value: &str| json!({ "thing": value });
            let example = example_of(&ask(&values[0]), &[("find", args(&values[0]), "It is 57.")], "57");
            let plan = Plan::of(&example, &RepeatedArguments::new(), &[&find]).unwrap();
            let held = |question: &str| {
                plan.legal(0, &[&find], question, &[]).unwrap()["properties"]["args"]["properties"]["thing"].clone()
            };
            let has = |held: &Value, value: &str| match held["enum"].as_array() {
                Some(offered) => offered.iter().any(|offered| is_same(offered, &Value::from(value))),
                None => *held == schema["properties"]["thing"],
            };
            prop_assert!(has(&held(&example.question), &values[0]), "{}", example.question);
            // The next question has a value of a kind of its own in the same place.
            let plain = values.iter().all(|value| value.chars().all(char::is_alphanumeric) && value.len() > 2);
            if plain && behind != "s" && before != "the" && behind != "の電話は?" {
                let question = ask(&values[1]);
                let is_small = crate::text::words::is_stop_word(&values[1].to_lowercase());
                prop_assert!(is_small || has(&held(&question), &values[1]), "{}", question);
            }
        }
    }
}
