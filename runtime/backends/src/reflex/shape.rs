//! A JSON Schema as something to fill: references followed, parts joined, bounds as numbers.

use serde_json::{Map, Value};

/// References and parts deeper than this are not followed: a schema may refer to itself.
const MAX_DEPTH: usize = 16;

/// One schema, without references and `allOf`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Shape(Map<String, Value>);

impl Shape {
    /// Reads a schema; `None` where nothing fits it.
    pub(super) fn read(root: &Value, schema: &Value) -> Option<Self> {
        flat(root, schema, 0).map(Self)
    }

    pub(super) fn get(&self, keyword: &str) -> Option<&Value> {
        self.0.get(keyword)
    }

    /// A keyword that is a whole number, such as `minItems`.
    pub(super) fn size(&self, keyword: &str) -> Option<usize> {
        self.get(keyword).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok())
    }

    /// A keyword that is a number, such as `minimum`.
    pub(super) fn number(&self, keyword: &str) -> Option<f64> {
        self.get(keyword).and_then(Value::as_f64)
    }

    /// The values of a keyword that is a list.
    pub(super) fn list(&self, keyword: &str) -> impl Iterator<Item = &Value> {
        self.get(keyword).and_then(Value::as_array).into_iter().flatten()
    }

    /// The types it allows, by name; guessed from the other keywords where it names none.
    pub(super) fn types(&self) -> Vec<&str> {
        let named = types(self.get("type"));
        if !named.is_empty() {
            return named;
        }
        let has = |names: &[&str]| names.iter().any(|name| self.0.contains_key(*name));
        let guess = [
            (has(&["properties", "required", "additionalProperties", "minProperties"]), "object"),
            (has(&["items", "prefixItems", "minItems", "uniqueItems"]), "array"),
            (has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), "number"),
        ];
        guess.into_iter().find(|(fits, _)| *fits).map_or_else(|| vec!["string"], |(_, kind)| vec![kind])
    }

    /// The shapes of `anyOf` or else `oneOf`, each joined with the rest.
    pub(super) fn branches(&self, root: &Value) -> Option<Vec<Self>> {
        let keyword = ["anyOf", "oneOf"].into_iter().find(|keyword| self.0.contains_key(*keyword))?;
        let mut rest = self.0.clone();
        let parts = rest.remove(keyword)?;
        let parts = parts.as_array()?.iter().filter_map(|part| flat(root, part, 0));
        Some(parts.filter_map(|part| joined(rest.clone(), part)).map(Self).collect())
    }
}

/// The names in a value of `type`.
fn types(kind: Option<&Value>) -> Vec<&str> {
    match kind {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn flat(root: &Value, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut shape = match schema {
        Value::Bool(false) => return None,
        Value::Object(shape) => shape.clone(),
        _ => return Some(Map::new()),
    };
    let reference = shape.remove("$ref");
    if let Some(reference) = reference.as_ref().and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer))?;
        shape = joined(flat(root, target, depth + 1)?, shape)?;
    }
    if let Some(Value::Array(parts)) = shape.remove("allOf") {
        for part in &parts {
            shape = joined(shape, flat(root, part, depth + 1)?)?;
        }
    }
    Some(shape)
}

/// What fits both; `None` where that is plainly nothing.
fn joined(mut base: Map<String, Value>, extra: Map<String, Value>) -> Option<Map<String, Value>> {
    for (key, value) in extra {
        let Some(known) = base.remove(&key) else {
            base.insert(key, value);
            continue;
        };
        let both = match key.as_str() {
            "type" => common_types(&known, &value)?,
            "required" => union(&known, &value),
            "enum" => common(&known, &value)?,
            "properties" => properties(known, value)?,
            _ if key.starts_with("min") || key.starts_with("exclusiveMin") => extreme(known, value, f64::max),
            _ if key.starts_with("max") || key.starts_with("exclusiveMax") => extreme(known, value, f64::min),
            "additionalProperties" if known == Value::Bool(false) => known,
            _ => value,
        };
        base.insert(key, both);
    }
    Some(base)
}

fn common_types(a: &Value, b: &Value) -> Option<Value> {
    let (a, b) = (types(Some(a)), types(Some(b)));
    let narrower = |wide: &str, narrow: &str| wide == narrow || (wide == "number" && narrow == "integer");
    let of_b = b.iter().filter(|kind| a.iter().any(|other| narrower(other, kind)));
    let of_a = a.iter().filter(|kind| !b.contains(kind) && b.iter().any(|other| narrower(other, kind)));
    let both: Vec<&str> = of_b.chain(of_a).copied().collect();
    (!both.is_empty()).then(|| both.into())
}

fn union(a: &Value, b: &Value) -> Value {
    let mut all = a.as_array().cloned().unwrap_or_default();
    let new: Vec<Value> = b.as_array().into_iter().flatten().filter(|name| !all.contains(name)).cloned().collect();
    all.extend(new);
    Value::Array(all)
}

fn common(a: &Value, b: &Value) -> Option<Value> {
    let b = b.as_array()?;
    let both: Vec<Value> = a.as_array()?.iter().filter(|value| b.contains(value)).cloned().collect();
    (!both.is_empty()).then_some(Value::Array(both))
}

fn properties(a: Value, b: Value) -> Option<Value> {
    let (Value::Object(mut all), Value::Object(more)) = (a, b) else { return None };
    for (name, schema) in more {
        let both = match all.remove(&name) {
            Some(known) if known != schema => serde_json::json!({ "allOf": [known, schema] }),
            _ => schema,
        };
        all.insert(name, both);
    }
    Some(Value::Object(all))
}

fn extreme(a: Value, b: Value, choose: fn(f64, f64) -> f64) -> Value {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) if choose(x, y) == x => a,
        _ => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_and_parts_are_joined() {
        let root = json!({ "$defs": { "n": { "type": "number", "minimum": 1 } } });
        let schema = json!({ "$ref": "#/$defs/n", "allOf": [{ "type": "integer" }, { "minimum": 3 }] });
        let shape = Shape::read(&root, &schema).unwrap();
        assert_eq!((shape.types(), shape.number("minimum")), (vec!["integer"], Some(3.0)));
        assert_eq!(Shape::read(&json!({ "$ref": "#" }), &json!({ "$ref": "#" })), None);
        assert_eq!(Shape::read(&root, &json!({ "allOf": [{ "type": "string" }, { "type": "null" }] })), None);
    }
}
