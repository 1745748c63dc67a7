//! Web pages as plain text: enough to read them, in one pass.

/// Elements whose content is not text for people.
const SKIPPED: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "object"];
/// Elements that stand on lines of their own.
const BLOCKS: [&str; 35] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "title",
    "tr",
    "ul",
];
/// Named characters that occur in prose.
const NAMED: [(&str, &str); 20] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bull", "•"),
    ("middot", "·"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("euro", "€"),
    ("sect", "§"),
];
/// A longer name is none.
const LONGEST_NAME: usize = 10;

/// The text of a page: tags gone, scripts and styles gone, blocks on lines of their own.
pub(crate) fn to_text(page: &str) -> String {
    let mut text = Text::default();
    let mut rest = page;
    while let Some(at) = rest.find(['<', '&']) {
        let (before, after) = rest.split_at(at);
        text.push(before);
        rest = if after.starts_with('<') { tag(after, &mut text) } else { entity(after, &mut text) };
    }
    text.push(rest);
    text.finish()
}

/// Reads a tag at the start of `rest`; what follows it.
fn tag<'p>(rest: &'p str, text: &mut Text) -> &'p str {
    if let Some(comment) = rest.strip_prefix("<!--") {
        return comment.split_once("-->").map_or("", |(_, after)| after);
    }
    let inner = rest.strip_prefix('<').unwrap_or(rest);
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
        text.push("<");
        return inner;
    }
    // A tag that is never closed takes the rest with it, so no text is searched twice.
    let Some((inside, after)) = inner.split_once('>') else { return "" };
    let closing = inside.starts_with('/');
    let name = inside.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    if SKIPPED.contains(&name.as_str()) && !closing && !inside.ends_with('/') {
        return behind_closing(after, &name);
    }
    if BLOCKS.contains(&name.as_str()) {
        text.line_break();
        if name == "li" && !closing {
            text.push("- ");
        }
    } else if matches!(name.as_str(), "td" | "th") && closing {
        text.push(" ");
    }
    after
}

/// What follows `</name …>`.
fn behind_closing<'p>(rest: &'p str, name: &str) -> &'p str {
    let mut rest = rest;
    while let Some((_, after)) = rest.split_once("</") {
        let is_it = after.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if is_it {
            return after.split_once('>').map_or("", |(_, after)| after);
        }
        rest = after;
    }
    ""
}

/// Reads `&amp;` and the like at the start of `rest`; what follows.
fn entity<'p>(rest: &'p str, text: &mut Text) -> &'p str {
    let inner = rest.strip_prefix('&').unwrap_or(rest);
    let end = inner.bytes().take(LONGEST_NAME + 1).position(|byte| byte == b';');
    let read = end.and_then(|end| {
        let name = inner.get(..end)?;
        let after = inner.get(end + 1..)?;
        if let Some((_, character)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Some(((*character).to_owned(), after));
        }
        let number = name.strip_prefix('#')?;
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        Some((char::from_u32(code)?.to_string(), after))
    });
    match read {
        Some((character, after)) => {
            text.push(&character);
            after
        }
        None => {
            text.push("&");
            inner
        }
    }
}

/// Text in the making: runs of white space are one space, runs of breaks one break.
#[derive(Debug, Default)]
struct Text {
    text: String,
    space: bool,
    line_break: bool,
}

impl Text {
    fn push(&mut self, piece: &str) {
        for c in piece.chars() {
            if c.is_whitespace() || c.is_control() {
                self.space = true;
                continue;
            }
            if self.line_break && !self.text.is_empty() {
                self.text.push('\n');
            } else if self.space && !self.text.is_empty() {
                self.text.push(' ');
            }
            (self.space, self.line_break) = (false, false);
            self.text.push(c);
        }
    }

    fn line_break(&mut self) {
        self.line_break = true;
    }

    fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_its_text() {
        let page = "<!doctype html><html><head><title>A &amp; B</title><style>p { x: y }</style>\
                    <script>if (a < b) { evil(\"</p>\") }</SCRIPT ></head><body><!-- <p>no</p> -->\
                    <h1>Top</h1>\n\n<p>One <b>two</b>&nbsp;three&#33;&#x21;</p><ul><li>a<li>b</ul>\
                    <table><tr><td>1</td><td>2</td></tr></table>5 < 6 &unknown; &</body></html>";
        assert_eq!(to_text(page), "A & B\nTop\nOne two three!!\n- a\n- b\n1 2\n5 < 6 &unknown; &");
    }

    #[test]
    fn broken_pages_end_and_lose_no_more_than_they_must() {
        assert_eq!(to_text("a<script>b"), "a");
        assert_eq!(to_text("a<!-- b"), "a");
        assert_eq!(to_text("a<b c"), "a");
        assert_eq!(to_text("&#xffffffff; &#0; &ü;"), "&#xffffffff; &ü;");
        for piece in ["<", "<a", "</", "&", "&#", "<!--", "<script>", "</script"] {
            assert!(to_text(&piece.repeat(100_000)).len() <= 600_000, "{piece}");
        }
    }
}
