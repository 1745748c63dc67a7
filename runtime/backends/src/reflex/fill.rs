//! An answer in the shape of a schema, filled with what is known.
//!
//! It fits by construction: every value is made from the schema's own bounds. `not` is not looked at,
//! and of several shapes the first that can be filled is taken.

use serde_json::{Map, Number, Value, json};

use super::fields::{self, FieldValue, Scope, Topic};
use super::report::Report;
use super::shape::Shape;
use crate::schema::is_a;
use crate::skill::PatternSeverity as Severity;

/// Schemas deeper than this are not filled.
const MAX_DEPTH: usize = 24;
/// How many values an answer has at most: a schema may multiply them.
const MAX_VALUES: usize = 20_000;
/// How many entries a list gets only because the schema wants them.
const MAX_PADDING: usize = 1_000;
/// What stands where a text is wanted and nothing is known.
const UNKNOWN: &str = "not known: no language model spoke";

/// An answer that fits a schema; `None` where none was found.
pub(super) fn fill(schema: &Value, report: &Report<'_>) -> Option<Value> {
    let mut filler = Filler { root: schema, report, left: MAX_VALUES };
    let shape = Shape::read(schema, schema)?;
    // An answer is an object, and one that names a tool would be taken for a call.
    filler.value(&shape, "", Scope::Whole, None, 0).filter(|value| value.is_object() && value.get("tool").is_none())
}

struct Filler<'r> {
    root: &'r Value,
    report: &'r Report<'r>,
    left: usize,
}

impl<'r> Filler<'r> {
    /// A value of a shape: `given` where it is known from outside, otherwise what its name says.
    fn value(
        &mut self,
        shape: &Shape,
        name: &str,
        scope: Scope<'r>,
        given: Option<FieldValue>,
        depth: usize,
    ) -> Option<Value> {
        self.left = self.left.checked_sub(1).filter(|_| depth <= MAX_DEPTH)?;
        if let Some(branches) = shape.branches(self.root) {
            // Nothing is worth less than something.
            let (nulls, others): (Vec<Shape>, Vec<Shape>) =
                branches.into_iter().partition(|branch| branch.types() == ["null"]);
            let mut branches = others.iter().chain(&nulls);
            return branches.find_map(|branch| self.value(branch, name, scope, given.clone(), depth + 1));
        }
        let known = given.or_else(|| fields::known(self.report, scope, name));
        if let Some(only) = shape.get("const") {
            return Some(only.clone());
        }
        if shape.get("enum").is_some() {
            return choose(shape, known.as_ref(), name);
        }
        let types = shape.types();
        let nullable = types.contains(&"null");
        // Where a type can be chosen, the one that holds what is known best.
        let liked: &[&str] = match &known {
            Some(FieldValue::Numbers(_) | FieldValue::Texts(_)) => {
                &["array", "integer", "number", "string", "object", "boolean"]
            }
            Some(_) => &["string", "array", "integer", "number", "object", "boolean"],
            None => &["object", "array", "string", "integer", "number", "boolean"],
        };
        for kind in liked.iter().filter(|kind| types.contains(*kind)) {
            let found = match *kind {
                "object" => self.object(shape, scope, depth),
                "array" => self.array(shape, name, scope, known.as_ref(), depth),
                _ if known.is_none() && nullable => None,
                "string" => text(shape, known.as_ref()),
                "boolean" => Some(truth(self.report, name)),
                kind => number(shape, known.as_ref(), kind == "integer"),
            };
            if found.is_some() {
                return found;
            }
        }
        // A type nobody knows holds anything.
        (nullable || !types.iter().any(|kind| liked.contains(kind))).then_some(Value::Null)
    }

    fn object(&mut self, shape: &Shape, scope: Scope<'r>, depth: usize) -> Option<Value> {
        let none = Map::new();
        let declared = shape.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = shape.list("required").filter_map(Value::as_str).collect();
        let more = shape.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
        let most = shape.size("maxProperties").unwrap_or(usize::MAX);
        let least = shape.size("minProperties").unwrap_or(0);
        let mut room = most.checked_sub(required.len())?;
        let mut wanted = least.saturating_sub(required.len());
        let mut filled = Map::new();
        for (name, schema) in declared {
            let must = required.contains(&name.as_str());
            let speaks = fields::known(self.report, scope, name).is_some();
            let is_call = depth == 0 && name == "tool";
            if !must && (room == 0 || is_call || (!speaks && wanted == 0)) {
                continue;
            }
            let shape = Shape::read(self.root, schema);
            match shape.and_then(|shape| self.value(&shape, name, scope, None, depth + 1)) {
                Some(value) => {
                    filled.insert(name.clone(), value);
                    if !must {
                        room -= 1;
                        wanted = wanted.saturating_sub(1);
                    }
                }
                None if must => return None,
                None => {}
            }
        }
        let undeclared = required.iter().filter(|name| !declared.contains_key(**name)).map(|name| (*name).to_owned());
        let invented = (1..=wanted.min(MAX_PADDING)).map(|number| format!("note_{number}"));
        for name in undeclared.chain(invented) {
            let shape = Shape::read(self.root, &more)?;
            let value = self.value(&shape, &name, scope, None, depth + 1)?;
            filled.insert(name, value);
        }
        Some(Value::Object(filled))
    }

    fn array(
        &mut self,
        shape: &Shape,
        name: &str,
        scope: Scope<'r>,
        known: Option<&FieldValue>,
        depth: usize,
    ) -> Option<Value> {
        let most = shape.size("maxItems").unwrap_or(usize::MAX);
        let least = shape.size("minItems").unwrap_or(0);
        let unique = shape.get("uniqueItems") == Some(&Value::Bool(true));
        let mut list = List { items: Vec::new(), seen: unique.then(Default::default), most };
        for fixed in shape.list("prefixItems") {
            if list.items.len() >= most {
                break;
            }
            let fixed = Shape::read(self.root, fixed)?;
            list.add(self.value(&fixed, name, scope, None, depth + 1)?);
        }
        let item = shape.get("items").map_or_else(|| Some(Shape::default()), |item| Shape::read(self.root, item));
        if let Some(item) = &item {
            for (scope, given) in self.entries(item, name, scope, known) {
                if list.items.len() >= most {
                    break;
                }
                self.value(item, name, scope, given, depth + 1).into_iter().for_each(|value| list.add(value));
            }
        }
        // What the schema wants beyond what is known; numbers tell them apart.
        let mut number = 0;
        while list.items.len() < least {
            number += 1;
            let item = item.as_ref().filter(|_| number <= MAX_PADDING)?;
            let given = match item.types().first() {
                Some(&"integer" | &"number") => FieldValue::Numbers(vec![number as u64]),
                _ if unique => FieldValue::Text(format!("{number}: {UNKNOWN}")),
                _ => FieldValue::Text(UNKNOWN.to_owned()),
            };
            list.add(self.value(item, name, scope, Some(given), depth + 1)?);
        }
        (list.items.len() <= most).then_some(Value::Array(list.items))
    }

    /// What the entries of a list are about.
    fn entries(
        &self,
        item: &Shape,
        name: &str,
        scope: Scope<'r>,
        known: Option<&FieldValue>,
    ) -> Vec<(Scope<'r>, Option<FieldValue>)> {
        if item.types().contains(&"object") || item.branches(self.root).is_some() {
            return match (scope, Topic::of(name)) {
                // A list of what was done is not a list of what was found.
                (Scope::Whole, Some(Topic::Checked | Topic::Recalled | Topic::Limits)) => Vec::new(),
                (Scope::Whole, _) => self.report.findings.iter().map(|finding| (Scope::One(finding), None)).collect(),
                (Scope::One(finding), Some(Topic::Lines | Topic::Line | Topic::Evidence | Topic::Quote)) => {
                    finding.lines.iter().map(|line| (Scope::Line(finding, *line), None)).collect()
                }
                (Scope::One(_) | Scope::Line(..), _) => Vec::new(),
            };
        }
        let each: Vec<FieldValue> = match known {
            Some(FieldValue::Texts(texts)) => texts.iter().cloned().map(FieldValue::Text).collect(),
            Some(FieldValue::Numbers(numbers)) => {
                numbers.iter().map(|number| FieldValue::Numbers(vec![*number])).collect()
            }
            Some(one @ (FieldValue::Text(_) | FieldValue::Severity(_))) => vec![one.clone()],
            None => Vec::new(),
        };
        each.into_iter().map(|known| (scope, Some(known))).collect()
    }
}

struct List {
    items: Vec<Value>,
    /// What is in it, where its entries must differ.
    seen: Option<std::collections::BTreeSet<String>>,
    most: usize,
}

impl List {
    fn add(&mut self, value: Value) {
        let new = self.seen.as_mut().is_none_or(|seen| seen.insert(value.to_string()));
        if new && self.items.len() < self.most {
            self.items.push(value);
        }
    }
}

fn text(shape: &Shape, known: Option<&FieldValue>) -> Option<Value> {
    let mut text = match known {
        Some(FieldValue::Text(text)) => text.clone(),
        Some(FieldValue::Texts(texts)) => texts.join(" "),
        Some(FieldValue::Numbers(numbers)) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        Some(FieldValue::Severity(severity)) => severity.name().to_owned(),
        None => UNKNOWN.to_owned(),
    };
    let (least, most) = (shape.size("minLength").unwrap_or(0), shape.size("maxLength").unwrap_or(usize::MAX));
    if least > most || least > MAX_PADDING * 100 {
        return None;
    }
    if text.is_empty() && least > 0 {
        text = UNKNOWN.to_owned();
    }
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
    }
    let length = text.chars().count();
    text.extend(std::iter::repeat_n('.', least.saturating_sub(length)));
    Some(Value::String(text))
}

fn number(shape: &Shape, known: Option<&FieldValue>, whole: bool) -> Option<Value> {
    let wanted = match known {
        Some(FieldValue::Numbers(numbers)) => numbers.first().copied().unwrap_or(0) as f64,
        Some(FieldValue::Texts(texts)) => texts.len() as f64,
        Some(FieldValue::Severity(severity)) => (Severity::ALL.len() - *severity as usize) as f64,
        Some(FieldValue::Text(_)) | None => 0.0,
    };
    let above = shape.number("exclusiveMinimum");
    let below = shape.number("exclusiveMaximum");
    let mut least = shape.number("minimum").unwrap_or(f64::MIN);
    let mut most = shape.number("maximum").unwrap_or(f64::MAX);
    if whole {
        least = least.ceil().max(above.map_or(f64::MIN, |above| above.floor() + 1.0));
        most = most.floor().min(below.map_or(f64::MAX, |below| below.ceil() - 1.0));
    } else {
        // Strictly inside: half way to the other bound, or one beyond this one.
        let (low, high) = (above.unwrap_or(f64::MIN).max(least), below.unwrap_or(f64::MAX).min(most));
        let inside =
            |far: f64, near: f64, step: f64| if far.abs() < 1e15 { near / 2.0 + far / 2.0 } else { near + step };
        least = above.filter(|above| *above >= least).map_or(least, |above| inside(high, above, 1.0));
        most = below.filter(|below| *below <= most).map_or(most, |below| inside(low.max(least), below, -1.0));
    }
    if least > most {
        return None;
    }
    let number = wanted.clamp(least, most);
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return Some(json!(number as i64));
    }
    Number::from_f64(number).map(Value::Number)
}

/// What can be said without judgement: that there are hits, and that nothing was confirmed.
fn truth(report: &Report<'_>, name: &str) -> Value {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let open = has(&["needs", "requires", "uncertain", "unconfirmed", "review"]);
    let found = has(&["found", "has_", "hit", "matched", "flagged", "suspicious"]) && !report.findings.is_empty();
    json!(open || found)
}

/// Values that take no side.
const NEUTRAL: [&str; 14] = [
    "unknown",
    "unclear",
    "undetermined",
    "uncertain",
    "inconclusive",
    "unspecified",
    "needs_review",
    "review",
    "neutral",
    "not_applicable",
    "n/a",
    "na",
    "other",
    "none",
];
/// Names for how bad something is, from worst to best, as others write them.
const SEVERITIES: [&[&str]; 5] = [
    &["critical", "blocker", "severe", "fatal", "urgent", "p0", "sev1", "very_high"],
    &["high", "major", "error", "serious", "p1", "sev2"],
    &["medium", "moderate", "warning", "warn", "normal", "p2", "sev3"],
    &["low", "minor", "p3", "sev4"],
    &["info", "informational", "note", "notice", "trivial", "none", "p4", "sev5"],
];

/// The allowed value that fits what is known, else one that takes no side, else the last.
fn choose(shape: &Shape, known: Option<&FieldValue>, name: &str) -> Option<Value> {
    let types = shape.get("type").map(|_| shape.types());
    let fits = |value: &&Value| types.as_ref().is_none_or(|types| types.iter().any(|kind| is_a(value, kind)));
    let values: Vec<&Value> = shape.list("enum").filter(fits).collect();
    let folded = |text: &str| text.to_lowercase().replace([' ', '-'], "_");
    let is = |value: &Value, word: &str| value.as_str().is_some_and(|text| folded(text) == folded(word));
    let rank = |value: &Value| SEVERITIES.iter().position(|names| names.iter().any(|name| is(value, name)));
    let by_rank = |wanted: usize| {
        let ranked = values.iter().filter_map(|value| Some((rank(value)?.abs_diff(wanted), *value)));
        ranked.min_by_key(|(distance, _)| *distance).map(|(_, value)| value)
    };
    let fitting = match known {
        Some(FieldValue::Severity(severity)) => by_rank(*severity as usize),
        Some(FieldValue::Text(text)) => {
            let same = values.iter().find(|value| is(value, text)).copied();
            same.or_else(|| by_rank(3).filter(|_| Topic::of(name) == Some(Topic::Confidence)))
        }
        Some(FieldValue::Numbers(numbers)) => {
            values.iter().find(|value| value.as_u64().is_some_and(|number| numbers.contains(&number))).copied()
        }
        Some(FieldValue::Texts(_)) | None => None,
    };
    let neutral = || NEUTRAL.iter().find_map(|word| values.iter().find(|value| is(value, word)).copied());
    let null = || values.iter().find(|value| value.is_null()).copied();
    fitting.or_else(neutral).or_else(null).or_else(|| values.last().copied()).cloned()
}
