//! Flow collections (`[a, b]`, `{k: v}`) read by hand, so that their scalars stay as they were written.
//!
//! This reader takes the common subset and gives up on the rest; whoever calls it then asks the YAML parser.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::lines::{byte, is_blank, is_gap, slice};
use super::scalar;
use super::yaml::MAX_DEPTH;
use crate::value::FrontMatterValue;

/// Why a flow collection could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowError {
    /// An anchor, alias or tag stands in it.
    AliasOrTag,
    /// It is unusual or malformed; a YAML parser can tell which.
    Unusual,
}

/// A flow collection that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) value: FrontMatterValue,
    /// A key that stands twice in one of its maps; the first one counts.
    pub(crate) duplicate: Option<String>,
}

/// Reads the flow collection at the start of `text`; nothing but a comment may follow it.
pub(crate) fn read(text: &str) -> Result<Flow, FlowError> {
    let mut reader = Reader { text, at: 0, duplicate: None };
    let value = reader.node(0)?;
    let rest = slice(text, reader.at, text.len());
    let (line, below) = rest.split_once(['\n', '\r']).unwrap_or((rest, ""));
    let is_done = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    if scalar::is_rest_empty(line) && below.lines().all(is_done) {
        Ok(Flow { value, duplicate: reader.duplicate })
    } else {
        Err(FlowError::Unusual)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    duplicate: Option<String>,
}

impl Reader<'_> {
    fn here(&self) -> u8 {
        byte(self.text, self.at)
    }

    fn take(&mut self, sign: u8) -> bool {
        let found = self.here() == sign;
        if found {
            self.at += 1;
        }
        found
    }

    /// Moves past blanks, line breaks and comments.
    fn skip_gap(&mut self) {
        loop {
            let here = self.here();
            if here != 0 && is_gap(here) {
                self.at += 1;
            } else if here == b'#' && self.at > 0 && is_gap(byte(self.text, self.at - 1)) {
                while !matches!(self.here(), b'\n' | b'\r' | 0) {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn node(&mut self, depth: usize) -> Result<FrontMatterValue, FlowError> {
        if depth > MAX_DEPTH {
            return Err(FlowError::Unusual);
        }
        match self.here() {
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            _ => Ok(match self.scalar()? {
                (text, Written::Bare) if matches!(text.as_str(), "~" | "null" | "") => FrontMatterValue::Null,
                (text, _) => FrontMatterValue::Text(text),
            }),
        }
    }

    fn list(&mut self, depth: usize) -> Result<FrontMatterValue, FlowError> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_gap();
            if self.take(b']') {
                return Ok(FrontMatterValue::List(items));
            }
            let item = self.node(depth + 1)?;
            self.skip_gap();
            // `[a: b]` is a list of one-entry maps: rare enough to leave to the parser.
            if !self.take(b',') && self.here() != b']' {
                return Err(FlowError::Unusual);
            }
            items.push(item);
        }
    }

    fn map(&mut self, depth: usize) -> Result<FrontMatterValue, FlowError> {
        let mut map = BTreeMap::new();
        self.at += 1;
        loop {
            self.skip_gap();
            if self.take(b'}') {
                return Ok(FrontMatterValue::Map(map));
            }
            let (key, written) = self.scalar()?;
            if written == Written::Bare && matches!(key.as_str(), "" | "~" | "null") {
                return Err(FlowError::Unusual);
            }
            self.skip_gap();
            let value = if self.take(b':') {
                self.skip_gap();
                match self.here() {
                    b',' | b'}' => FrontMatterValue::Null,
                    _ => self.node(depth + 1)?,
                }
            } else {
                FrontMatterValue::Null
            };
            self.skip_gap();
            if !self.take(b',') && self.here() != b'}' {
                return Err(FlowError::Unusual);
            }
            match map.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(entry) => {
                    self.duplicate.get_or_insert_with(|| entry.key().clone());
                }
            }
        }
    }

    fn scalar(&mut self) -> Result<(String, Written), FlowError> {
        match self.here() {
            b'"' | b'\'' => self.quoted(),
            b'&' | b'*' | b'!' => Err(FlowError::AliasOrTag),
            b'[' | b']' | b'{' | b'}' | b',' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | 0 => Err(FlowError::Unusual),
            b'-' | b'?' | b':' if ends_bare(byte(self.text, self.at + 1)) => Err(FlowError::Unusual),
            _ => self.bare(),
        }
    }

    fn quoted(&mut self) -> Result<(String, Written), FlowError> {
        let rest = slice(self.text, self.at, self.text.len());
        let (value, length) = scalar::unquote(rest).map_err(|_| FlowError::Unusual)?;
        // A quoted scalar over several lines is folded by rules that the YAML parser knows better.
        if slice(rest, 0, length).contains(['\n', '\r']) {
            return Err(FlowError::Unusual);
        }
        self.at += length;
        Ok((value.into_owned(), Written::Quoted))
    }

    fn bare(&mut self) -> Result<(String, Written), FlowError> {
        let start = self.at;
        let mut end = start;
        loop {
            let here = self.here();
            match here {
                b',' | b'[' | b']' | b'{' | b'}' | b'\n' | b'\r' | 0 => break,
                b':' if ends_bare(byte(self.text, self.at + 1)) => break,
                b'#' if is_blank(byte(self.text, self.at - 1)) => break,
                _ => self.at += 1,
            }
            if !is_blank(here) {
                end = self.at;
            }
        }
        Ok((slice(self.text, start, end).to_owned(), Written::Bare))
    }
}

/// How a scalar was written, which decides whether `null` is a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Bare,
    Quoted,
}

/// Whether a colon before this byte ends a bare scalar.
fn ends_bare(next: u8) -> bool {
    is_gap(next) || b",[]{}".contains(&next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match read(text) {
            Ok(flow) => serde_json::to_string(&flow.value).unwrap(),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn lists_and_maps_keep_their_scalars_as_written() {
        assert_eq!(json("[linux, 1.10, 'a, b', \"c\" ,]"), r#"["linux","1.10","a, b","c"]"#);
        assert_eq!(
            json("{mcp: [mail], v: 1.0, empty: , bare}"),
            r#"{"bare":null,"empty":null,"mcp":["mail"],"v":"1.0"}"#
        );
        assert_eq!(json("{\"a\":b, url: http://x.y/z}"), r#"{"a":"b","url":"http://x.y/z"}"#);
        assert_eq!(json("[] # none"), "[]");
        assert_eq!(json("[~, null, 'null']"), r#"[null,null,"null"]"#);
    }

    #[test]
    fn a_collection_may_span_lines_and_hold_comments() {
        assert_eq!(json("[ a, # first\n  b\n]\n"), r#"["a","b"]"#);
    }

    #[test]
    fn signs_are_found_at_any_depth() {
        assert_eq!(json("[a, {b: *x}]"), "AliasOrTag");
        assert_eq!(json("{b: &x 1}"), "AliasOrTag");
        assert_eq!(json("[!!str a]"), "AliasOrTag");
    }

    #[test]
    fn the_first_of_two_like_keys_counts() {
        let flow = read("{a: 1, a: 2}").unwrap();
        assert_eq!(flow.value.get("a"), Some(&FrontMatterValue::Text("1".to_owned())));
        assert_eq!(flow.duplicate.as_deref(), Some("a"));
    }

    #[test]
    fn the_unusual_is_left_to_others() {
        for text in ["[a", "[a] b", "[a,,b]", "[,]", "[a: b]", "{{x}}", "[a\n b]", "[\"a\n b\"]", "{a: b", "[- a]"] {
            assert_eq!(json(text), "Unusual", "{text}");
        }
        assert_eq!(json(&"[".repeat(5_000)), "Unusual");
    }
}
