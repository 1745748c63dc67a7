//! One check of one value: the keywords.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::{Map, Value};

use super::pattern::Patterns;
use super::resources::{Dialect, Resources, Target};
use super::{MAX_PROBLEMS, is_a, values};

/// Schemas are not followed deeper than this: a `$ref` may point at itself.
const MAX_DEPTH: usize = 192;
/// The steps of one check. A schema may multiply them, and an MCP server may write it to do so.
const MAX_STEPS: u64 = 1_000_000;
/// Values in a sentence are cut here.
const MAX_SHOWN: usize = 400;

/// Whether a value fits a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Fits,
    /// Nobody can tell.
    Unknown,
    Fails,
}

/// What a schema makes of a value: the verdict, and which properties and items it looked at.
#[derive(Debug, Clone)]
struct Judged<'v> {
    verdict: Verdict,
    names: BTreeSet<&'v str>,
    items: BTreeSet<usize>,
    /// Whether it may have looked at more.
    unsure: bool,
}

impl<'v> Judged<'v> {
    fn just(verdict: Verdict) -> Self {
        Self { verdict, names: BTreeSet::new(), items: BTreeSet::new(), unsure: false }
    }

    /// Both must hold.
    fn and(&mut self, other: Judged<'v>) {
        self.verdict = self.verdict.max(other.verdict);
        self.looked(other);
    }

    /// Takes over what another schema looked at, if it fits.
    fn looked(&mut self, other: Judged<'v>) {
        if other.verdict == Verdict::Fails {
            return;
        }
        self.unsure |= other.unsure || other.verdict == Verdict::Unknown;
        self.names.extend(other.names);
        self.items.extend(other.items);
    }

    fn holds(&mut self, verdict: Verdict) {
        self.verdict = self.verdict.max(verdict);
    }
}

/// The place of a schema: itself, and the resource it is in.
type At<'s> = (&'s Value, usize);

/// One check.
pub(super) struct Check<'s> {
    resources: Resources<'s>,
    schema: &'s Value,
    patterns: Patterns<'s>,
    /// The resources on the way to the schema that is looked at.
    scope: Vec<usize>,
    problems: Vec<String>,
    /// How many of the schemas around may fail without the whole failing.
    quiet: usize,
    steps: u64,
    /// Why the check was given up.
    over: Option<&'static str>,
}

impl<'s> Check<'s> {
    /// A check against a schema; see [`Resources::of`].
    pub(super) fn new(schema: &'s Value, documents: &'s [(String, Value)], otherwise: Dialect) -> Self {
        Self {
            resources: Resources::of(schema, documents, otherwise),
            schema,
            patterns: Patterns::default(),
            scope: Vec::new(),
            problems: Vec::new(),
            quiet: 0,
            steps: 0,
            over: None,
        }
    }

    /// What is wrong with a value. A check that was given up refuses it: its tool could be handed anything.
    pub(super) fn problems(mut self, value: &Value) -> Vec<String> {
        let schema = self.schema;
        let judged = self.value((schema, 0), value, &mut String::new(), 0);
        match (self.over, judged.verdict) {
            (Some(why), _) => vec![format!("the arguments: {why}")],
            (None, Verdict::Fails) => self.problems,
            (None, _) => Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn verdict(mut self, value: &Value) -> Verdict {
        let schema = self.schema;
        let judged = self.value((schema, 0), value, &mut String::new(), 0);
        if self.over.is_some() { Verdict::Unknown } else { judged.verdict }
    }

    /// Whether one more problem is told; where not, its sentence need not be made.
    fn is_heard(&self) -> bool {
        self.quiet == 0 && self.problems.len() < MAX_PROBLEMS
    }

    fn say(&mut self, path: &str, what: impl Display) -> Verdict {
        if self.is_heard() {
            let place = if path.is_empty() { "the arguments" } else { path };
            self.problems.push(format!("{place}: {what}"));
        }
        Verdict::Fails
    }

    /// Counts steps; whether there are any left.
    fn spend(&mut self, steps: u64) -> bool {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS {
            self.over.get_or_insert("checking them against the schema of this tool takes too long");
        }
        self.over.is_none()
    }

    fn quietly<T>(&mut self, judge: impl FnOnce(&mut Self) -> T) -> T {
        self.quiet += 1;
        let judged = judge(self);
        self.quiet -= 1;
        judged
    }

    fn matches(&mut self, pattern: &'s str, text: &str) -> Option<bool> {
        let (matched, cost) = self.patterns.matches(pattern, text);
        self.spend(cost);
        matched
    }

    fn value<'v>(&mut self, (schema, at): At<'s>, value: &'v Value, path: &mut String, depth: usize) -> Judged<'v> {
        if depth > MAX_DEPTH {
            self.over.get_or_insert("the schema of this tool is nested too deeply to be checked");
        }
        if !self.spend(1) {
            return Judged::just(Verdict::Unknown);
        }
        let map = match schema {
            Value::Bool(false) => return Judged::just(self.say(path, "nothing is allowed here")),
            Value::Object(map) => map,
            _ => return Judged::just(Verdict::Fits),
        };
        let at = self.resources.entered(at, map);
        self.scope.push(at);
        let judged = self.object_schema((map, at), value, path, depth);
        self.scope.pop();
        judged
    }

    fn object_schema<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        value: &'v Value,
        path: &mut String,
        depth: usize,
    ) -> Judged<'v> {
        let dialect = self.resources.dialect(at);
        let mut judged = Judged::just(Verdict::Fits);
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = map.get(keyword).and_then(Value::as_str) else { continue };
            if dialect.seven && keyword != "$ref" {
                continue;
            }
            let target = match keyword {
                "$dynamicRef" => self.resources.find_dynamic(at, &self.scope, reference),
                _ => self.resources.find(at, reference),
            };
            judged.and(match target {
                Some(Target { schema, resource }) => self.value((schema, resource), value, path, depth + 1),
                None => Judged::just(Verdict::Unknown),
            });
            if dialect.seven {
                return judged;
            }
        }
        if dialect.validates {
            judged.holds(self.assertions(map, value, path));
            if judged.verdict == Verdict::Fails && (self.quiet > 0 || !self.problems_may_follow(map, value)) {
                return judged;
            }
        }
        match value {
            Value::Object(object) => self.object((map, at), object, value, path, depth, &mut judged),
            Value::Array(items) => self.array((map, at), items, path, depth, &mut judged),
            _ => {}
        }
        self.combinations((map, at), value, path, depth, &mut judged);
        if !dialect.seven {
            self.unevaluated((map, at), value, path, depth, &mut judged);
        }
        judged
    }

    /// Where the type is another, further sentences would only confuse.
    fn problems_may_follow(&self, map: &Map<String, Value>, value: &Value) -> bool {
        map.get("type").is_none_or(|expected| type_fits(expected, value))
    }

    /// The keywords about the value itself.
    fn assertions(&mut self, map: &'s Map<String, Value>, value: &Value, path: &str) -> Verdict {
        if let Some(expected) = map.get("type")
            && !type_fits(expected, value)
        {
            let name = match expected {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            return self.say(path, format_args!("it must be of type {name}"));
        }
        let mut verdict = Verdict::Fits;
        if let Some(allowed) = map.get("enum").and_then(Value::as_array) {
            self.spend(allowed.len() as u64);
            if !allowed.iter().any(|allowed| values::same(allowed, value)) {
                let names = if self.is_heard() {
                    allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
                } else {
                    String::new()
                };
                verdict = self.say(path, format_args!("it must be one of {}", shown(&names)));
            }
        }
        if let Some(only) = map.get("const")
            && !values::same(only, value)
        {
            let only = if self.is_heard() { only.to_string() } else { String::new() };
            verdict = self.say(path, format_args!("it must be {}", shown(&only)));
        }
        let of_kind = match value {
            Value::Object(object) => self.bounds(map, "Properties", object.len() as u64, "properties", path),
            Value::Array(items) => {
                self.items_differ(map, items, path).max(self.bounds(map, "Items", items.len() as u64, "items", path))
            }
            Value::String(text) => self.text(map, text, path),
            Value::Number(number) => self.number(map, number, path),
            Value::Null | Value::Bool(_) => Verdict::Fits,
        };
        verdict.max(of_kind)
    }

    fn bounds(&mut self, map: &Map<String, Value>, of: &str, count: u64, what: &str, path: &str) -> Verdict {
        let mut verdict = Verdict::Fits;
        let bound = |name: String| map.get(&name).and_then(Value::as_f64);
        if let Some(least) = bound(format!("min{of}"))
            && (count as f64) < least
        {
            verdict = self.say(path, format_args!("it must have at least {least} {what}"));
        }
        if let Some(most) = bound(format!("max{of}"))
            && (count as f64) > most
        {
            verdict = self.say(path, format_args!("it may have at most {most} {what}"));
        }
        verdict
    }

    fn items_differ(&mut self, map: &Map<String, Value>, items: &[Value], path: &str) -> Verdict {
        if map.get("uniqueItems") != Some(&Value::Bool(true)) {
            return Verdict::Fits;
        }
        let mut seen = BTreeSet::new();
        for item in items {
            let mut text = String::new();
            values::canonical(item, &mut text);
            if !self.spend(1 + text.len() as u64 / 16) {
                return Verdict::Unknown;
            }
            if !seen.insert(text) {
                return self.say(path, "its items must all differ");
            }
        }
        Verdict::Fits
    }

    fn text(&mut self, map: &'s Map<String, Value>, text: &str, path: &str) -> Verdict {
        let mut verdict = self.bounds(map, "Length", text.chars().count() as u64, "characters", path);
        if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
            verdict = verdict.max(match self.matches(pattern, text) {
                Some(true) => Verdict::Fits,
                Some(false) => self.say(path, format_args!("it must match the pattern {}", shown(pattern))),
                None => Verdict::Unknown,
            });
        }
        verdict
    }

    fn number(&mut self, map: &Map<String, Value>, number: &serde_json::Number, path: &str) -> Verdict {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let mut verdict = Verdict::Fits;
        let bound = |name: &str| map.get(name).and_then(Value::as_number);
        // Draft 4 had a flag beside the bound.
        let flag = |name: &str| map.get(name) == Some(&Value::Bool(true));
        if let Some(least) = bound("minimum") {
            let order = values::order(number, least);
            if order == Less {
                verdict = self.say(path, format_args!("it must be at least {least}"));
            } else if order == Equal && flag("exclusiveMinimum") {
                verdict = self.say(path, format_args!("it must be more than {least}"));
            }
        }
        if let Some(most) = bound("maximum") {
            let order = values::order(number, most);
            if order == Greater {
                verdict = self.say(path, format_args!("it may be at most {most}"));
            } else if order == Equal && flag("exclusiveMaximum") {
                verdict = self.say(path, format_args!("it must be less than {most}"));
            }
        }
        if let Some(above) = bound("exclusiveMinimum")
            && values::order(number, above) != Greater
        {
            verdict = self.say(path, format_args!("it must be more than {above}"));
        }
        if let Some(below) = bound("exclusiveMaximum")
            && values::order(number, below) != Less
        {
            verdict = self.say(path, format_args!("it must be less than {below}"));
        }
        if let Some(of) = bound("multipleOf")
            && !values::is_multiple(number, of)
        {
            verdict = self.say(path, format_args!("it must be a multiple of {of}"));
        }
        verdict
    }

    fn object<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        object: &'v Map<String, Value>,
        value: &'v Value,
        path: &mut String,
        depth: usize,
        judged: &mut Judged<'v>,
    ) {
        let dialect = self.resources.dialect(at);
        if dialect.validates {
            for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
                if !object.contains_key(name) {
                    judged.holds(self.say(path, format_args!("{name:?} is missing")));
                }
            }
        }
        self.dependencies((map, at), object, value, path, depth, judged);
        let properties = map.get("properties").and_then(Value::as_object);
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        let additional = map.get("additionalProperties");
        for (name, value) in object {
            if !self.spend(1) {
                return judged.holds(Verdict::Unknown);
            }
            if let Some(names) = map.get("propertyNames") {
                let text = Value::from(name.as_str());
                let fits = self.quietly(|check| check.value((names, at), &text, path, depth + 1).verdict);
                judged.holds(match fits {
                    Verdict::Fails => self.say(path, format_args!("{name:?} is no name that is allowed here")),
                    other => other,
                });
            }
            let length = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
            let (mut known, mut perhaps) = (false, false);
            if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
                known = true;
                judged.holds(self.value((schema, at), value, path, depth + 1).verdict);
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                match self.matches(pattern, name) {
                    Some(true) => {
                        known = true;
                        judged.holds(self.value((schema, at), value, path, depth + 1).verdict);
                    }
                    Some(false) => {}
                    None => perhaps = true,
                }
            }
            match additional {
                Some(_) if known => {}
                Some(schema) if perhaps => {
                    let fits = self.quietly(|check| check.value((schema, at), value, path, depth + 1).verdict);
                    judged.holds(fits.min(Verdict::Unknown));
                    judged.unsure = true;
                }
                Some(Value::Bool(false)) => {
                    let known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
                    let known = if self.is_heard() { known.collect::<Vec<_>>().join(", ") } else { String::new() };
                    let known = if known.is_empty() { "none" } else { shown(&known) };
                    judged.holds(self.say(path, format_args!("there is no such argument; there are: {known}")));
                }
                Some(schema) => {
                    known = true;
                    judged.holds(self.value((schema, at), value, path, depth + 1).verdict);
                }
                None => judged.unsure |= perhaps && !known,
            }
            if known {
                judged.names.insert(name);
            }
            path.truncate(length);
        }
    }

    fn dependencies<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        object: &'v Map<String, Value>,
        value: &'v Value,
        path: &mut String,
        depth: usize,
        judged: &mut Judged<'v>,
    ) {
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            if self.resources.dialect(at).seven != (keyword == "dependencies") && keyword != "dependencies" {
                continue;
            }
            let named = map.get(keyword).and_then(Value::as_object).into_iter().flatten();
            for (name, wanted) in named.filter(|(name, _)| object.contains_key(*name)) {
                match wanted {
                    Value::Array(others) => {
                        for other in others.iter().filter_map(Value::as_str) {
                            if !object.contains_key(other) {
                                let what = format_args!("{other:?} is missing, which {name:?} needs");
                                judged.holds(self.say(path, what));
                            }
                        }
                    }
                    schema => {
                        let found = self.value((schema, at), value, path, depth + 1);
                        judged.and(found);
                    }
                }
            }
        }
    }

    fn array<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        items: &'v [Value],
        path: &mut String,
        depth: usize,
        judged: &mut Judged<'v>,
    ) {
        let seven = self.resources.dialect(at).seven;
        let modern = map.get("prefixItems").and_then(Value::as_array).filter(|_| !seven);
        // Draft 7 had the list under `items`, and the rest under `additionalItems`.
        let (fixed, rest) = match (modern, map.get("items")) {
            (None, Some(Value::Array(fixed))) => (Some(fixed), map.get("additionalItems")),
            (fixed, rest) => (fixed, rest),
        };
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = fixed.and_then(|fixed| fixed.get(index)).or(rest) else { continue };
            if !self.spend(1) {
                return judged.holds(Verdict::Unknown);
            }
            judged.items.insert(index);
            let length = path.len();
            path.push_str(&format!("[{index}]"));
            judged.holds(self.value((schema, at), item, path, depth + 1).verdict);
            path.truncate(length);
        }
        if let Some(schema) = map.get("contains") {
            self.contains((map, at), schema, items, path, depth, judged);
        }
    }

    fn contains<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        schema: &'s Value,
        items: &'v [Value],
        path: &mut String,
        depth: usize,
        judged: &mut Judged<'v>,
    ) {
        let dialect = self.resources.dialect(at);
        let (mut sure, mut perhaps) = (0_u64, 0_u64);
        for (index, item) in items.iter().enumerate() {
            match self.quietly(|check| check.value((schema, at), item, path, depth + 1).verdict) {
                Verdict::Fits => {
                    sure += 1;
                    judged.items.insert(index);
                }
                Verdict::Unknown => {
                    perhaps += 1;
                    judged.unsure = true;
                }
                Verdict::Fails => {}
            }
        }
        let bound = |name: &str| map.get(name).and_then(Value::as_f64).filter(|_| !dialect.seven && dialect.validates);
        let (least, most) = (bound("minContains").unwrap_or(1.0), bound("maxContains").unwrap_or(f64::INFINITY));
        judged.holds(if ((sure + perhaps) as f64) < least {
            self.say(path, format_args!("at least {least} of its items must fit what it has to contain, and {sure} do"))
        } else if sure as f64 > most {
            self.say(path, format_args!("at most {most} of its items may fit what it has to contain, and {sure} do"))
        } else if (sure as f64) < least || (sure + perhaps) as f64 > most {
            Verdict::Unknown
        } else {
            Verdict::Fits
        });
    }

    fn combinations<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        value: &'v Value,
        path: &mut String,
        depth: usize,
        judged: &mut Judged<'v>,
    ) {
        let parts = |name: &str| map.get(name).and_then(Value::as_array).into_iter().flatten();
        for part in parts("allOf") {
            let found = self.value((part, at), value, path, depth + 1);
            judged.and(found);
        }
        for (name, one) in [("anyOf", false), ("oneOf", true)] {
            if !map.get(name).is_some_and(Value::is_array) {
                continue;
            }
            let (mut fitting, mut perhaps) = (0, 0);
            for part in parts(name) {
                let found = self.quietly(|check| check.value((part, at), value, path, depth + 1));
                match found.verdict {
                    Verdict::Fits => fitting += 1,
                    Verdict::Unknown => perhaps += 1,
                    Verdict::Fails => {}
                }
                judged.looked(found);
            }
            judged.holds(match (one, fitting, perhaps) {
                (_, 0, 0) if one => self.say(path, "it must fit exactly one of the allowed shapes, and fits 0"),
                (_, 0, 0) => self.say(path, "it fits none of the allowed shapes"),
                (true, 2.., _) => {
                    self.say(path, format_args!("it must fit exactly one of the allowed shapes, and fits {fitting}"))
                }
                (true, _, 0) | (false, 1.., _) => Verdict::Fits,
                _ => Verdict::Unknown,
            });
        }
        if let Some(not) = map.get("not") {
            let found = self.quietly(|check| check.value((not, at), value, path, depth + 1)).verdict;
            judged.holds(match found {
                Verdict::Fits => self.say(path, "it has a shape that is not allowed"),
                Verdict::Unknown => Verdict::Unknown,
                Verdict::Fails => Verdict::Fits,
            });
        }
        if let Some(condition) = map.get("if") {
            let found = self.quietly(|check| check.value((condition, at), value, path, depth + 1));
            let verdict = found.verdict;
            judged.looked(found);
            match verdict {
                Verdict::Fits | Verdict::Fails => {
                    let branch = if verdict == Verdict::Fits { "then" } else { "else" };
                    if let Some(schema) = map.get(branch) {
                        let found = self.value((schema, at), value, path, depth + 1);
                        judged.and(found);
                    }
                }
                // One of the two holds; both failing is the only thing that is sure to be wrong.
                Verdict::Unknown => {
                    let mut worst = Verdict::Fails;
                    for branch in ["then", "else"] {
                        let found = map.get(branch).map_or_else(
                            || Judged::just(Verdict::Fits),
                            |schema| self.quietly(|check| check.value((schema, at), value, path, depth + 1)),
                        );
                        worst = worst.min(found.verdict.max(Verdict::Unknown));
                        judged.looked(found);
                    }
                    judged.unsure = true;
                    judged.holds(match worst {
                        Verdict::Fails => self.say(path, "it fits none of the allowed shapes"),
                        other => other,
                    });
                }
            }
        }
    }

    /// What no schema beside has looked at.
    fn unevaluated<'v>(
        &mut self,
        (map, at): (&'s Map<String, Value>, usize),
        value: &'v Value,
        path: &mut String,
        depth: usize,
        judged: &mut Judged<'v>,
    ) {
        match value {
            Value::Object(object) => {
                let Some(schema) = map.get("unevaluatedProperties") else { return };
                for (name, value) in object {
                    if judged.names.contains(name.as_str()) {
                        continue;
                    }
                    let length = path.len();
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                    let verdict = self.left_over((schema, at), value, path, depth, judged.unsure);
                    judged.holds(verdict);
                    judged.names.insert(name);
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(schema) = map.get("unevaluatedItems") else { return };
                for (index, item) in items.iter().enumerate() {
                    if !judged.items.insert(index) {
                        continue;
                    }
                    let length = path.len();
                    path.push_str(&format!("[{index}]"));
                    let verdict = self.left_over((schema, at), item, path, depth, judged.unsure);
                    judged.holds(verdict);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn left_over(&mut self, at: At<'s>, value: &Value, path: &mut String, depth: usize, unsure: bool) -> Verdict {
        if unsure {
            // Something that nobody can read may have looked at it.
            return self.quietly(|check| check.value(at, value, path, depth + 1).verdict).min(Verdict::Unknown);
        }
        if at.0 == &Value::Bool(false) {
            return self.say(path, "there is no such argument");
        }
        self.value(at, value, path, depth + 1).verdict
    }
}

fn shown(text: &str) -> &str {
    text.char_indices().nth(MAX_SHOWN).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

fn type_fits(expected: &Value, value: &Value) -> bool {
    match expected {
        Value::Array(names) => names.iter().any(|name| type_fits(name, value)),
        Value::String(name) => is_a(value, name),
        _ => true,
    }
}
