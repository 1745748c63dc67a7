//! Texts that are safe in HTML and XML.

use std::borrow::Cow;

/// A text that is safe between tags and in quoted attributes, of HTML and of XML.
///
/// ```
/// assert_eq!(herm_core::text::escape_markup("a < b & 'c'"), "a &lt; b &amp; &#39;c&#39;");
/// ```
pub fn escape_markup(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe.into()
}
