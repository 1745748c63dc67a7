//! One check of one value: the keywords.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Display};

use serde_json::{Map, Value};

use super::extent::Extent;
use super::pattern::Patterns;
use super::resources::{Dialect, Resources, Target};
use super::{MAX_PROBLEMS, is_a, values};

/// Schemas are not followed deeper than this for a plain value: a `$ref` may point at itself.
const MAX_DEPTH: usize = 192;
/// So many schemas more for each level of the value: properties, `$ref`, `anyOf` and `allOf` lead from one to the next.
const DEPTH_A_LEVEL: usize = 8;
/// Values deeper than this are checked on a stack of their own.
const DEEP: usize = 8;
/// That stack, in bytes; what is not used of it costs nothing.
const DEEP_STACK: usize = 64 << 20;
/// The steps that every check may take.
const LEAST_STEPS: u64 = 1_000_000;
/// The steps that no check may take more than.
const MOST_STEPS: u64 = 64_000_000;
/// A check looks at each byte of the value with each part of the schema about once; some steps count more.
const STEPS_A_PAIR: u64 = 16;
/// So many verdicts are kept.
const MOST_KNOWN: usize = 200_000;
/// Values in a sentence are cut here.
const MAX_SHOWN: usize = 400;

/// Whether a value fits a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Fits,
    /// It cannot be told, for example because the check was given up.
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

    /// Takes in another verdict on the same value: both must hold.
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

/// The keywords that are looked at: those of one schema, in a resource, so many schemas below the first.
#[derive(Clone, Copy)]
struct Here<'s> {
    map: &'s Map<String, Value>,
    at: usize,
    depth: usize,
}

/// A schema and a value, by their places in memory, and the resource of the schema.
type Pair = (usize, usize, usize);

/// A check of one value against one schema, with its limits.
pub(super) struct Check<'s> {
    resources: Resources<'s>,
    schema: &'s Value,
    /// How large the schema is.
    extent: Extent,
    patterns: Patterns<'s>,
    /// The resources on the way to the schema that is looked at.
    scope: Vec<usize>,
    /// Where the value is that is looked at.
    path: String,
    problems: Vec<String>,
    /// How many of the schemas around may fail without the whole failing.
    quiet: usize,
    /// What schemas make of objects and lists. Branches that share a part would look at it again and again.
    known: HashMap<Pair, (Verdict, bool)>,
    steps: u64,
    /// The steps that this check may take, and how deep it may go.
    most_steps: u64,
    deepest: usize,
    /// Why the check was given up.
    over: Option<&'static str>,
}

impl<'s> Check<'s> {
    /// A check against a schema; see [`Resources::of`].
    pub(super) fn new(schema: &'s Value, documents: &'s [(String, Value)], otherwise: Dialect) -> Self {
        let mut extent = Extent::of(schema);
        documents.iter().for_each(|(_, document)| extent.add(document));
        Self {
            resources: Resources::of(schema, documents, otherwise),
            schema,
            extent,
            patterns: Patterns::default(),
            scope: Vec::new(),
            path: String::new(),
            problems: Vec::new(),
            quiet: 0,
            known: HashMap::new(),
            steps: 0,
            most_steps: LEAST_STEPS,
            deepest: MAX_DEPTH,
            over: None,
        }
    }

    /// What is wrong with a value. A check that was given up refuses it: its tool could be handed anything.
    pub(super) fn problems(mut self, value: &Value) -> Vec<String> {
        let verdict = self.judge(value);
        match (self.over, verdict) {
            (Some(why), _) => vec![format!("the arguments: {why}")],
            (None, Verdict::Fails) => self.problems,
            (None, _) => Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn verdict(mut self, value: &Value) -> Verdict {
        let verdict = self.judge(value);
        if self.over.is_some() { Verdict::Unknown } else { verdict }
    }

    /// Judges the whole value.
    fn judge(&mut self, value: &Value) -> Verdict {
        let given = Extent::of(value);
        let pairs = self.extent.values.saturating_mul(given.bytes).saturating_mul(STEPS_A_PAIR);
        self.most_steps = LEAST_STEPS.saturating_add(pairs).min(MOST_STEPS);
        self.deepest = MAX_DEPTH + DEPTH_A_LEVEL * given.depth;
        let schema = self.schema;
        if given.depth <= DEEP {
            return self.value((schema, 0), value, 0).verdict;
        }
        let judged = std::thread::scope(|scope| {
            let check = || self.value((schema, 0), value, 0).verdict;
            let thread = std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, check);
            thread.ok().and_then(|thread| thread.join().ok())
        });
        judged.unwrap_or_else(|| {
            self.over.get_or_insert("this machine has no thread left to check them on");
            Verdict::Unknown
        })
    }

    /// Whether one more problem is told; where not, its sentence need not be made.
    fn is_heard(&self) -> bool {
        self.quiet == 0 && self.problems.len() < MAX_PROBLEMS
    }

    /// Whether nothing more is to be found out.
    fn is_decided(&self, verdict: Verdict) -> bool {
        verdict == Verdict::Fails && !self.is_heard()
    }

    fn say(&mut self, what: impl Display) -> Verdict {
        if self.is_heard() {
            let place = if self.path.is_empty() { "the arguments" } else { &self.path };
            self.problems.push(format!("{place}: {what}"));
        }
        Verdict::Fails
    }

    /// Counts steps; whether there are any left.
    fn spend(&mut self, steps: u64) -> bool {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.most_steps {
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

    fn value<'v>(&mut self, (schema, at): At<'s>, value: &'v Value, depth: usize) -> Judged<'v> {
        if depth > self.deepest {
            self.over.get_or_insert("the schema of this tool is nested too deeply to be checked");
        }
        if !self.spend(1) {
            return Judged::just(Verdict::Unknown);
        }
        let map = match schema {
            Value::Bool(false) => return Judged::just(self.say("nothing is allowed here")),
            Value::Object(map) => map,
            _ => return Judged::just(Verdict::Fits),
        };
        let at = self.resources.entered(at, map);
        let pair = self.pair(map, at, value);
        if let Some(&(verdict, unsure)) = pair.and_then(|pair| self.known.get(&pair))
            // Its sentences were not told if it failed quietly.
            && (verdict != Verdict::Fails || self.quiet > 0)
        {
            return Judged { unsure, ..Judged::just(verdict) };
        }
        self.scope.push(at);
        let judged = self.object_schema(Here { map, at, depth }, value);
        self.scope.pop();
        // Which properties and items were looked at is not kept: a failure does not need it.
        if let Some(pair) = pair
            && (judged.verdict == Verdict::Fails || !self.extent.unevaluated)
            && self.over.is_none()
            && self.known.len() < MOST_KNOWN
        {
            self.known.insert(pair, (judged.verdict, judged.unsure));
        }
        judged
    }

    /// The key of a verdict that can be kept: of an object or a list, and not where a `$dynamicRef` makes it depend on
    /// the way to it.
    fn pair(&self, map: &Map<String, Value>, at: usize, value: &Value) -> Option<Pair> {
        let is_kept = matches!(value, Value::Object(_) | Value::Array(_)) && !self.resources.is_dynamic();
        is_kept.then(|| (std::ptr::from_ref(map).addr(), std::ptr::from_ref(value).addr(), at))
    }

    /// The same value against a schema below.
    fn same<'v>(&mut self, here: Here<'s>, schema: &'s Value, value: &'v Value) -> Judged<'v> {
        self.value((schema, here.at), value, here.depth + 1)
    }

    fn quiet_same<'v>(&mut self, here: Here<'s>, schema: &'s Value, value: &'v Value) -> Judged<'v> {
        self.quietly(|check| check.same(here, schema, value))
    }

    /// Judges at a property of the value.
    fn at_name<T>(&mut self, name: &str, judge: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let judged = judge(self);
        self.path.truncate(length);
        judged
    }

    /// Judges at an item of the value.
    fn at_index<T>(&mut self, index: usize, judge: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        let judged = judge(self);
        self.path.truncate(length);
        judged
    }

    fn object_schema<'v>(&mut self, here: Here<'s>, value: &'v Value) -> Judged<'v> {
        let Here { map, at, depth } = here;
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
                Some(Target { schema, resource }) => self.value((schema, resource), value, depth + 1),
                None => Judged::just(Verdict::Unknown),
            });
            if dialect.seven || self.is_decided(judged.verdict) {
                return judged;
            }
        }
        if dialect.validates {
            judged.holds(self.assertions(map, value));
            if judged.verdict == Verdict::Fails && (self.quiet > 0 || !self.problems_may_follow(map, value)) {
                return judged;
            }
        }
        match value {
            Value::Object(object) => self.object(here, object, value, &mut judged),
            Value::Array(items) => self.array(here, items, &mut judged),
            _ => {}
        }
        if !self.is_decided(judged.verdict) {
            self.combinations(here, value, &mut judged);
        }
        if !dialect.seven && !self.is_decided(judged.verdict) {
            self.unevaluated(here, value, &mut judged);
        }
        judged
    }

    /// Where the type is another, further sentences would only confuse.
    fn problems_may_follow(&self, map: &Map<String, Value>, value: &Value) -> bool {
        map.get("type").is_none_or(|expected| type_fits(expected, value))
    }

    /// The keywords about the value itself.
    fn assertions(&mut self, map: &'s Map<String, Value>, value: &Value) -> Verdict {
        if let Some(expected) = map.get("type")
            && !type_fits(expected, value)
        {
            let name = match expected {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            return self.say(format_args!("it must be of type {name}"));
        }
        let mut verdict = Verdict::Fits;
        if let Some(allowed) = map.get("enum").and_then(Value::as_array) {
            self.spend(allowed.len() as u64);
            if !allowed.iter().any(|allowed| values::same(allowed, value)) {
                verdict = self.say(format_args!("it must be one of {}", Listed(allowed)));
            }
        }
        if let Some(only) = map.get("const")
            && !values::same(only, value)
        {
            verdict = self.say(format_args!("it must be {}", Listed(std::slice::from_ref(only))));
        }
        let of_kind = match value {
            Value::Object(object) => {
                self.bounds(map, ["minProperties", "maxProperties"], "properties", || object.len())
            }
            Value::Array(items) => {
                self.items_differ(map, items).max(self.bounds(map, ["minItems", "maxItems"], "items", || items.len()))
            }
            Value::String(text) => self.text(map, text),
            Value::Number(number) => self.number(map, number),
            Value::Null | Value::Bool(_) => Verdict::Fits,
        };
        verdict.max(of_kind)
    }

    fn bounds(
        &mut self,
        map: &Map<String, Value>,
        [min, max]: [&str; 2],
        what: &str,
        count: impl FnOnce() -> usize,
    ) -> Verdict {
        let bound = |name: &str| map.get(name).and_then(Value::as_f64);
        let (least, most) = (bound(min), bound(max));
        if least.is_none() && most.is_none() {
            return Verdict::Fits;
        }
        let count = count() as f64;
        let mut verdict = Verdict::Fits;
        if let Some(least) = least.filter(|least| count < *least) {
            verdict = self.say(format_args!("it must have at least {least} {what}"));
        }
        if let Some(most) = most.filter(|most| count > *most) {
            verdict = self.say(format_args!("it may have at most {most} {what}"));
        }
        verdict
    }

    fn items_differ(&mut self, map: &Map<String, Value>, items: &[Value]) -> Verdict {
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
                return self.say("its items must all differ");
            }
        }
        Verdict::Fits
    }

    fn text(&mut self, map: &'s Map<String, Value>, text: &str) -> Verdict {
        let mut counted = 0;
        let mut verdict = self.bounds(map, ["minLength", "maxLength"], "characters", || {
            counted = text.len() as u64 / 64;
            text.chars().count()
        });
        self.spend(counted);
        if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
            verdict = verdict.max(match self.matches(pattern, text) {
                Some(true) => Verdict::Fits,
                Some(false) => self.say(format_args!("it must match the pattern {}", shown(pattern))),
                None => Verdict::Unknown,
            });
        }
        verdict
    }

    fn number(&mut self, map: &Map<String, Value>, number: &serde_json::Number) -> Verdict {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let mut verdict = Verdict::Fits;
        let bound = |name: &str| map.get(name).and_then(Value::as_number);
        // Draft 4 had a flag beside the bound.
        let flag = |name: &str| map.get(name) == Some(&Value::Bool(true));
        if let Some(least) = bound("minimum") {
            let order = values::order(number, least);
            if order == Less {
                verdict = self.say(format_args!("it must be at least {least}"));
            } else if order == Equal && flag("exclusiveMinimum") {
                verdict = self.say(format_args!("it must be more than {least}"));
            }
        }
        if let Some(most) = bound("maximum") {
            let order = values::order(number, most);
            if order == Greater {
                verdict = self.say(format_args!("it may be at most {most}"));
            } else if order == Equal && flag("exclusiveMaximum") {
                verdict = self.say(format_args!("it must be less than {most}"));
            }
        }
        if let Some(above) = bound("exclusiveMinimum")
            && values::order(number, above) != Greater
        {
            verdict = self.say(format_args!("it must be more than {above}"));
        }
        if let Some(below) = bound("exclusiveMaximum")
            && values::order(number, below) != Less
        {
            verdict = self.say(format_args!("it must be less than {below}"));
        }
        if let Some(of) = bound("multipleOf")
            && !values::is_multiple(number, of)
        {
            verdict = self.say(format_args!("it must be a multiple of {of}"));
        }
        verdict
    }

    fn object<'v>(
        &mut self,
        here: Here<'s>,
        object: &'v Map<String, Value>,
        value: &'v Value,
        judged: &mut Judged<'v>,
    ) {
        let map = here.map;
        if self.resources.dialect(here.at).validates {
            let required = map.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            judged.holds(self.all_there(object, required, None));
        }
        self.dependencies(here, object, value, judged);
        for (name, value) in object {
            if !self.spend(1) {
                return judged.holds(Verdict::Unknown);
            }
            if self.is_decided(judged.verdict) {
                return;
            }
            if let Some(names) = map.get("propertyNames") {
                let text = Value::from(name.as_str());
                judged.holds(match self.quiet_same(here, names, &text).verdict {
                    Verdict::Fails => self.say(format_args!("{name:?} is not an allowed name")),
                    other => other,
                });
            }
            self.at_name(name, |check| check.property(here, name, value, judged));
        }
    }

    /// Whether an object has all of these properties; `needed_by` is the one that needs them.
    fn all_there(&mut self, object: &Map<String, Value>, names: &[Value], needed_by: Option<&str>) -> Verdict {
        self.spend(names.len() as u64);
        let mut verdict = Verdict::Fits;
        for name in names.iter().filter_map(Value::as_str).filter(|name| !object.contains_key(*name)) {
            verdict = match needed_by {
                None => self.say(format_args!("{name:?} is missing")),
                Some(other) => self.say(format_args!("{name:?} is missing, which {other:?} needs")),
            };
        }
        verdict
    }

    fn property<'v>(&mut self, here: Here<'s>, name: &'v str, value: &'v Value, judged: &mut Judged<'v>) {
        let properties = here.map.get("properties").and_then(Value::as_object);
        let patterns = here.map.get("patternProperties").and_then(Value::as_object);
        let (mut known, mut perhaps) = (false, false);
        if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
            known = true;
            judged.holds(self.same(here, schema, value).verdict);
        }
        for (pattern, schema) in patterns.into_iter().flatten() {
            match self.matches(pattern, name) {
                Some(true) => {
                    known = true;
                    judged.holds(self.same(here, schema, value).verdict);
                }
                Some(false) => {}
                None => perhaps = true,
            }
        }
        match here.map.get("additionalProperties") {
            Some(_) if known => {}
            Some(schema) if perhaps => {
                judged.holds(self.quiet_same(here, schema, value).verdict.min(Verdict::Unknown));
                judged.unsure = true;
            }
            Some(Value::Bool(false)) => {
                let known = Names(properties);
                judged.holds(self.say(format_args!("there is no such argument; there are: {known}")));
            }
            Some(schema) => {
                known = true;
                judged.holds(self.same(here, schema, value).verdict);
            }
            None => judged.unsure |= perhaps && !known,
        }
        if known && self.extent.unevaluated {
            judged.names.insert(name);
        }
    }

    fn dependencies<'v>(
        &mut self,
        here: Here<'s>,
        object: &Map<String, Value>,
        value: &'v Value,
        judged: &mut Judged<'v>,
    ) {
        let seven = self.resources.dialect(here.at).seven;
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            if seven && keyword != "dependencies" {
                continue;
            }
            let Some(named) = here.map.get(keyword).and_then(Value::as_object) else { continue };
            self.spend(named.len() as u64);
            for (name, wanted) in named.iter().filter(|(name, _)| object.contains_key(*name)) {
                match wanted {
                    Value::Array(others) => judged.holds(self.all_there(object, others, Some(name))),
                    schema => judged.and(self.same(here, schema, value)),
                }
            }
        }
    }

    fn array<'v>(&mut self, here: Here<'s>, items: &'v [Value], judged: &mut Judged<'v>) {
        let map = here.map;
        let seven = self.resources.dialect(here.at).seven;
        let modern = map.get("prefixItems").and_then(Value::as_array).filter(|_| !seven);
        // Draft 7 had the list under `items`, and the rest under `additionalItems`.
        let (fixed, rest) = match (modern, map.get("items")) {
            (None, Some(Value::Array(fixed))) => (Some(fixed), map.get("additionalItems")),
            (fixed, rest) => (fixed, rest),
        };
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = fixed.and_then(|fixed| fixed.get(index)).or(rest) else { break };
            if !self.spend(1) {
                return judged.holds(Verdict::Unknown);
            }
            if self.is_decided(judged.verdict) {
                return;
            }
            if self.extent.unevaluated {
                judged.items.insert(index);
            }
            judged.holds(self.at_index(index, |check| check.same(here, schema, item).verdict));
        }
        if let Some(schema) = map.get("contains") {
            self.contains(here, schema, items, judged);
        }
    }

    fn contains<'v>(&mut self, here: Here<'s>, schema: &'s Value, items: &'v [Value], judged: &mut Judged<'v>) {
        let dialect = self.resources.dialect(here.at);
        let (mut sure, mut perhaps) = (0_u64, 0_u64);
        for (index, item) in items.iter().enumerate() {
            match self.quiet_same(here, schema, item).verdict {
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
        let bound =
            |name: &str| here.map.get(name).and_then(Value::as_f64).filter(|_| !dialect.seven && dialect.validates);
        let (least, most) = (bound("minContains").unwrap_or(1.0), bound("maxContains").unwrap_or(f64::INFINITY));
        judged.holds(if ((sure + perhaps) as f64) < least {
            self.say(format_args!("at least {least} of its items must fit what it has to contain, and {sure} do"))
        } else if sure as f64 > most {
            self.say(format_args!("at most {most} of its items may fit what it has to contain, and {sure} do"))
        } else if (sure as f64) < least || (sure + perhaps) as f64 > most {
            Verdict::Unknown
        } else {
            Verdict::Fits
        });
    }

    fn combinations<'v>(&mut self, here: Here<'s>, value: &'v Value, judged: &mut Judged<'v>) {
        let map = here.map;
        let parts = |name: &str| map.get(name).and_then(Value::as_array).into_iter().flatten();
        for part in parts("allOf") {
            judged.and(self.same(here, part, value));
            if self.is_decided(judged.verdict) {
                return;
            }
        }
        for (name, one) in [("anyOf", false), ("oneOf", true)] {
            if !map.get(name).is_some_and(Value::is_array) {
                continue;
            }
            let (mut fitting, mut perhaps) = (0, 0);
            for part in parts(name) {
                let found = self.quiet_same(here, part, value);
                match found.verdict {
                    Verdict::Fits => fitting += 1,
                    Verdict::Unknown => perhaps += 1,
                    Verdict::Fails => {}
                }
                judged.looked(found);
            }
            judged.holds(match (one, fitting, perhaps) {
                (_, 0, 0) if one => self.say("it must fit exactly one of the allowed shapes, and fits 0"),
                (_, 0, 0) => self.say("it fits none of the allowed shapes"),
                (true, 2.., _) => {
                    self.say(format_args!("it must fit exactly one of the allowed shapes, and fits {fitting}"))
                }
                (true, _, 0) | (false, 1.., _) => Verdict::Fits,
                _ => Verdict::Unknown,
            });
        }
        if let Some(not) = map.get("not") {
            judged.holds(match self.quiet_same(here, not, value).verdict {
                Verdict::Fits => self.say("it has a shape that is not allowed"),
                Verdict::Unknown => Verdict::Unknown,
                Verdict::Fails => Verdict::Fits,
            });
        }
        if let Some(condition) = map.get("if") {
            self.condition(here, condition, value, judged);
        }
    }

    fn condition<'v>(&mut self, here: Here<'s>, condition: &'s Value, value: &'v Value, judged: &mut Judged<'v>) {
        let found = self.quiet_same(here, condition, value);
        let verdict = found.verdict;
        judged.looked(found);
        if verdict != Verdict::Unknown {
            let branch = if verdict == Verdict::Fits { "then" } else { "else" };
            if let Some(schema) = here.map.get(branch) {
                judged.and(self.same(here, schema, value));
            }
            return;
        }
        // One of the two holds; both failing is the only thing that is sure to be wrong.
        let mut worst = Verdict::Fails;
        for branch in ["then", "else"] {
            let schema = here.map.get(branch);
            let found = schema.map_or(Judged::just(Verdict::Fits), |schema| self.quiet_same(here, schema, value));
            worst = worst.min(found.verdict.max(Verdict::Unknown));
            judged.looked(found);
        }
        judged.unsure = true;
        judged.holds(match worst {
            Verdict::Fails => self.say("it fits none of the allowed shapes"),
            other => other,
        });
    }

    /// What no schema beside has looked at.
    fn unevaluated<'v>(&mut self, here: Here<'s>, value: &'v Value, judged: &mut Judged<'v>) {
        match value {
            Value::Object(object) => {
                let Some(schema) = here.map.get("unevaluatedProperties") else { return };
                for (name, value) in object {
                    if judged.names.insert(name) {
                        let unsure = judged.unsure;
                        judged.holds(self.at_name(name, |check| check.left_over(here, schema, value, unsure)));
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = here.map.get("unevaluatedItems") else { return };
                for (index, item) in items.iter().enumerate() {
                    if judged.items.insert(index) {
                        let unsure = judged.unsure;
                        judged.holds(self.at_index(index, |check| check.left_over(here, schema, item, unsure)));
                    }
                }
            }
            _ => {}
        }
    }

    fn left_over(&mut self, here: Here<'s>, schema: &'s Value, value: &Value, unsure: bool) -> Verdict {
        if unsure {
            // Something that nobody can read may have looked at it.
            return self.quiet_same(here, schema, value).verdict.min(Verdict::Unknown);
        }
        if schema == &Value::Bool(false) {
            return self.say("there is no such argument");
        }
        self.same(here, schema, value).verdict
    }
}

/// Values as a sentence lists them. No more is written than is shown: a schema may list a million.
struct Listed<'a>(&'a [Value]);

impl Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(formatter, self.0.iter().map(Value::to_string))
    }
}

/// The names of the properties that a schema has.
struct Names<'a>(Option<&'a Map<String, Value>>);

impl Display for Names<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(names) if !names.is_empty() => list(formatter, names.keys()),
            _ => formatter.write_str("none"),
        }
    }
}

fn list(formatter: &mut fmt::Formatter<'_>, items: impl Iterator<Item = impl AsRef<str>>) -> fmt::Result {
    let mut text = String::new();
    for item in items {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(item.as_ref());
        if text.len() > 4 * MAX_SHOWN {
            break;
        }
    }
    formatter.write_str(shown(&text))
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
