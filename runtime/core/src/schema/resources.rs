//! The named parts of a schema: what a `$ref` can lead to.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::uri;

/// The schemas of schemas, drafts 7 and 2020-12, as json-schema.org publishes them.
const META: &str = include_str!("meta.json");
/// Schemas deeper than this are not searched for names.
const MAX_DEPTH: usize = 128;

/// Keywords with one schema.
const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with a list of schemas.
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords with schemas by name.
const BY_NAME: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// How keywords are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    /// Draft 7 or before: a `$ref` stands alone, and `$id` may be an anchor.
    pub(super) seven: bool,
    /// Whether the keywords that say what is valid are in use.
    pub(super) validates: bool,
}

impl Dialect {
    /// The dialect of draft 2020-12, with all its keywords in use.
    pub(super) const MODERN: Self = Self { seven: false, validates: true };
}

/// A schema with a name of its own.
#[derive(Debug)]
pub(super) struct Resource<'s> {
    uri: String,
    root: &'s Value,
    pub(super) dialect: Dialect,
    anchors: HashMap<&'s str, &'s Value>,
    dynamic: HashMap<&'s str, &'s Value>,
}

/// Where a reference leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'s> {
    pub(super) schema: &'s Value,
    pub(super) resource: usize,
}

/// All resources of a schema: itself, those in it, and the documents it refers to.
#[derive(Debug)]
pub(super) struct Resources<'s> {
    list: Vec<Resource<'s>>,
    by_uri: HashMap<String, usize>,
    documents: &'s [(String, Value)],
    is_dynamic: bool,
}

impl<'s> Resources<'s> {
    /// The resources of a schema. `documents` are others that it may refer to, by their names; `otherwise` is the
    /// dialect of a schema that names none.
    pub(super) fn of(schema: &'s Value, documents: &'s [(String, Value)], otherwise: Dialect) -> Self {
        let mut resources = Self { list: Vec::new(), by_uri: HashMap::new(), documents, is_dynamic: false };
        resources.add(String::new(), schema, otherwise);
        resources
    }

    pub(super) fn get(&self, at: usize) -> Option<&Resource<'s>> {
        self.list.get(at)
    }

    /// Whether where a reference leads may depend on the way to it.
    pub(super) fn is_dynamic(&self) -> bool {
        self.is_dynamic
    }

    pub(super) fn dialect(&self, at: usize) -> Dialect {
        self.get(at).map_or(Dialect::MODERN, |resource| resource.dialect)
    }

    fn add(&mut self, name: String, root: &'s Value, otherwise: Dialect) -> usize {
        let at = self.begin(name, root, otherwise);
        self.walk(root, at, 0);
        at
    }

    fn begin(&mut self, uri: String, root: &'s Value, inherited: Dialect) -> usize {
        let dialect = root.get("$schema").and_then(Value::as_str).map_or(inherited, |name| self.dialect_of(name));
        let at = self.list.len();
        self.by_uri.entry(uri.clone()).or_insert(at);
        self.list.push(Resource { uri, root, dialect, anchors: HashMap::new(), dynamic: HashMap::new() });
        at
    }

    /// The dialect that a `$schema` names.
    fn dialect_of(&self, name: &str) -> Dialect {
        let name = name.trim_end_matches('#');
        let seven = ["draft-07", "draft-06", "draft-04", "draft-03"].iter().any(|draft| name.contains(draft));
        let meta = self.documents.iter().find(|(known, _)| known == name).map(|(_, meta)| meta);
        let vocabularies = meta.and_then(|meta| meta["$vocabulary"].as_object());
        let validates =
            vocabularies.is_none_or(|known| known.keys().any(|vocabulary| vocabulary.ends_with("/vocab/validation")));
        Dialect { seven, validates }
    }

    fn walk(&mut self, schema: &'s Value, current: usize, depth: usize) {
        let Value::Object(map) = schema else { return };
        if depth > MAX_DEPTH {
            return;
        }
        let dialect = self.dialect(current);
        let mut current = current;
        if let Some(id) = id_of(map, dialect) {
            let base = self.get(current).map(|resource| resource.uri.as_str()).unwrap_or_default();
            let (uri, fragment) = uri::resolve(base, id);
            if !id.starts_with('#') {
                current = match depth {
                    // The whole document has this name too.
                    0 => {
                        self.by_uri.insert(uri.clone(), current);
                        if let Some(resource) = self.list.get_mut(current) {
                            resource.uri = uri;
                        }
                        current
                    }
                    _ => self.begin(uri, schema, dialect),
                };
            }
            if !fragment.is_empty()
                && let Some(resource) = self.list.get_mut(current)
            {
                let name = id.split_once('#').map(|(_, name)| name).unwrap_or_default();
                resource.anchors.insert(name, schema);
            }
        }
        let dialect = self.dialect(current);
        if !dialect.seven
            && let Some(resource) = self.list.get_mut(current)
        {
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = map.get(key).and_then(Value::as_str) {
                    resource.anchors.insert(name, schema);
                }
            }
            if let Some(name) = map.get("$dynamicAnchor").and_then(Value::as_str) {
                resource.dynamic.insert(name, schema);
                self.is_dynamic = true;
            }
        }
        for (key, value) in map {
            let key = key.as_str();
            match value {
                Value::Array(items) if LIST.contains(&key) => {
                    items.iter().for_each(|item| self.walk(item, current, depth + 1));
                }
                Value::Object(named) if BY_NAME.contains(&key) => {
                    named.values().for_each(|item| self.walk(item, current, depth + 1));
                }
                value if ONE.contains(&key) => self.walk(value, current, depth + 1),
                _ => {}
            }
        }
    }

    /// The resource that a schema is in, which it may begin itself.
    pub(super) fn entered(&self, current: usize, map: &Map<String, Value>) -> usize {
        let Some(resource) = self.get(current) else { return current };
        match id_of(map, resource.dialect) {
            Some(id)
                if !id.starts_with('#') && !resource.root.as_object().is_some_and(|root| std::ptr::eq(root, map)) =>
            {
                let (uri, _) = uri::resolve(&resource.uri, id);
                self.by_uri.get(&uri).copied().unwrap_or(current)
            }
            _ => current,
        }
    }

    /// Where a reference leads; nothing where it leads outside.
    pub(super) fn find(&mut self, current: usize, reference: &str) -> Option<Target<'s>> {
        let base = self.get(current).map(|resource| resource.uri.as_str()).unwrap_or_default();
        let (uri, fragment) = uri::resolve(base, reference);
        let at = self.resource(&uri, self.dialect(current))?;
        let resource = self.get(at)?;
        let fragment = uri::decoded(&fragment);
        if fragment.is_empty() {
            return Some(Target { schema: resource.root, resource: at });
        }
        if fragment.starts_with('/') {
            return self.below(at, &fragment);
        }
        resource.anchors.get(fragment.as_str()).map(|schema| Target { schema, resource: at })
    }

    /// Where a dynamic reference leads: to the outermost resource on the way here that has the anchor.
    pub(super) fn find_dynamic(&mut self, current: usize, scope: &[usize], reference: &str) -> Option<Target<'s>> {
        let first = self.find(current, reference)?;
        let name = reference.split_once('#').map(|(_, name)| name).unwrap_or_default();
        if !self.get(first.resource)?.dynamic.contains_key(name) {
            return Some(first);
        }
        let outermost = scope.iter().find_map(|at| {
            let schema = self.get(*at)?.dynamic.get(name)?;
            Some(Target { schema, resource: *at })
        });
        Some(outermost.unwrap_or(first))
    }

    fn resource(&mut self, uri: &str, otherwise: Dialect) -> Option<usize> {
        if let Some(at) = self.by_uri.get(uri) {
            return Some(*at);
        }
        let given = self.documents.iter().find(|(name, _)| name == uri).map(|(_, document)| document);
        let document: &'s Value = match given {
            Some(document) => document,
            None => meta().iter().find(|(name, _)| name == uri).map(|(_, document)| document)?,
        };
        Some(self.add(uri.to_owned(), document, otherwise))
    }

    /// Follows a JSON pointer, and notices when it enters another resource.
    fn below(&self, resource: usize, pointer: &str) -> Option<Target<'s>> {
        let mut found = Target { schema: self.get(resource)?.root, resource };
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            let schema = match found.schema {
                Value::Object(map) => map.get(&token)?,
                Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            found.schema = schema;
            if let Value::Object(map) = schema {
                found.resource = self.entered(found.resource, map);
            }
        }
        Some(found)
    }
}

/// The name that a schema gives itself.
fn id_of(map: &Map<String, Value>, dialect: Dialect) -> Option<&str> {
    if dialect.seven && map.contains_key("$ref") {
        return None;
    }
    map.get("$id").and_then(Value::as_str)
}

fn meta() -> &'static [(String, Value)] {
    static META_SCHEMAS: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    META_SCHEMAS.get_or_init(|| {
        let documents: Vec<Value> = serde_json::from_str(META).unwrap_or_default();
        let name = |document: &Value| document["$id"].as_str().unwrap_or_default().trim_end_matches('#').to_owned();
        documents.into_iter().map(|document| (name(&document), document)).collect()
    })
}
