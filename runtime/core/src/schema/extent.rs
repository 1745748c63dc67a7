//! How large a document is: what a check of it may cost depends on that.

use serde_json::Value;

/// How large a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Extent {
    /// Its values, the whole and those inside.
    pub(super) values: u64,
    /// About its bytes: each value counts one, and texts and names count theirs.
    pub(super) bytes: u64,
    /// How deep its objects and lists nest.
    pub(super) depth: usize,
    /// Whether it has a key that asks what other schemas have looked at.
    pub(super) unevaluated: bool,
}

impl Extent {
    pub(super) fn of(document: &Value) -> Self {
        let mut extent = Self::default();
        extent.add(document);
        extent
    }

    /// Adds the size of another document to this one.
    pub(super) fn add(&mut self, document: &Value) {
        // Not a recursion: what calls this checks how deep the document is only then.
        let mut waiting = vec![(document, 0)];
        while let Some((value, depth)) = waiting.pop() {
            self.values += 1;
            self.bytes += 1;
            self.depth = self.depth.max(depth);
            match value {
                Value::String(text) => self.bytes += text.len() as u64,
                Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(map) => {
                    for (name, value) in map {
                        self.bytes += name.len() as u64;
                        self.unevaluated |= matches!(name.as_str(), "unevaluatedProperties" | "unevaluatedItems");
                        waiting.push((value, depth + 1));
                    }
                }
                _ => {}
            }
        }
    }
}
