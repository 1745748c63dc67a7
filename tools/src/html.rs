//! Web pages as plain text: enough to read them, in one pass over the tokens that html5gum finds.
//!
//! A tree would say more of a page than its text needs, and takes quadratic time on a hostile one: elements nested ten
//! thousand deep cost seconds. Tokens cost what the page has bytes.

use html5gum::emitters::default::{DefaultEmitter, StartTag, Token};
use html5gum::{HtmlString, Tokenizer};
use reqwest::Url;

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
/// A longer link target is left out: it says nothing to a reader.
const LONGEST_TARGET: usize = 300;
/// So many links keep their targets; of a page with more, the first ones.
const MOST_TARGETS: usize = 500;

/// The text of a page: tags gone, scripts and styles gone, blocks on lines of their own, `pre` as it was written, and
/// behind a link its target, made absolute with `base`.
pub(crate) fn to_text(page: &str, base: Option<&Url>) -> String {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut reader = Reader { text: Text::default(), skipping: None, preformatted: 0, link: None, targets: 0, base };
    for token in Tokenizer::new_with_emitter(page, emitter) {
        match token {
            Ok(Token::String(text)) => reader.string(&String::from_utf8_lossy(&text)),
            Ok(Token::StartTag(tag)) => reader.start(&tag),
            Ok(Token::EndTag(tag)) => reader.end(&String::from_utf8_lossy(&tag.name)),
            Ok(Token::Comment(_) | Token::Doctype(_) | Token::Error(_)) => {}
            Err(never) => match never {},
        }
    }
    reader.text.finish()
}

/// What is known between two tokens.
struct Reader<'b> {
    text: Text,
    /// The element whose content is passed over.
    skipping: Option<String>,
    /// How many `pre` are open.
    preformatted: usize,
    /// The target of the link that is open, and where its text began.
    link: Option<(String, usize)>,
    /// Links that have kept their target.
    targets: usize,
    base: Option<&'b Url>,
}

impl Reader<'_> {
    fn string(&mut self, text: &str) {
        match (&self.skipping, self.preformatted) {
            (Some(_), _) => {}
            (None, 0) => self.text.push(text),
            (None, _) => self.text.push_as_written(text),
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        if self.skipping.is_some() {
            return;
        }
        if SKIPPED.contains(&&*name) {
            self.skipping = (!tag.self_closing).then(|| name.into_owned());
            return;
        }
        if BLOCKS.contains(&&*name) {
            self.text.line_break();
        }
        match &*name {
            "li" => self.text.push("- "),
            "pre" => self.preformatted += 1,
            "img" => {
                let alt = attribute(tag, "alt");
                self.text.push(&alt.unwrap_or_default());
            }
            "a" => {
                self.close_link();
                self.link = self.target(tag).map(|target| (target, self.text.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match &self.skipping {
            Some(skipped) if skipped == name => self.skipping = None,
            Some(_) => {}
            None => {
                if BLOCKS.contains(&name) {
                    self.text.line_break();
                }
                match name {
                    "td" | "th" => self.text.push(" "),
                    "pre" => self.preformatted = self.preformatted.saturating_sub(1),
                    "a" => self.close_link(),
                    _ => {}
                }
            }
        }
    }

    /// Where a link leads, if a reader could fetch that.
    fn target(&self, tag: &StartTag<()>) -> Option<String> {
        if self.targets >= MOST_TARGETS {
            return None;
        }
        let href = attribute(tag, "href")?;
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') || href.len() > LONGEST_TARGET {
            return None;
        }
        let target = match self.base {
            Some(base) => base.join(href).ok()?,
            None => Url::parse(href).ok()?,
        };
        let is_for_readers = matches!(target.scheme(), "http" | "https") && target.as_str().len() <= LONGEST_TARGET;
        is_for_readers.then(|| target.into())
    }

    /// Writes the target behind the text of a link, unless the text is the target.
    fn close_link(&mut self) {
        let Some((target, from)) = self.link.take() else { return };
        let said = self.text.since(from).trim();
        if !said.is_empty() && said.trim_end_matches('/') != target.trim_end_matches('/') {
            self.targets += 1;
            self.text.append(&format!(" ({target})"));
        }
    }
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(&HtmlString(name.as_bytes().to_vec()))?;
    Some(String::from_utf8_lossy(value).into_owned())
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
            self.begin();
            self.text.push(c);
        }
    }

    /// Lines and blanks stay; other control characters go.
    fn push_as_written(&mut self, piece: &str) {
        for c in piece.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()) {
            if self.text.is_empty() && c.is_whitespace() {
                continue;
            }
            // The first line break behind `<pre>` is not part of the text.
            if self.line_break && c == '\n' {
                continue;
            }
            self.begin();
            self.text.push(c);
        }
    }

    /// Writes the break or the space that is due.
    fn begin(&mut self) {
        if self.line_break && !self.text.is_empty() {
            let end = self.text.trim_end_matches('\n').len();
            self.text.truncate(end);
            self.text.push('\n');
        } else if self.space && !self.text.is_empty() {
            self.text.push(' ');
        }
        (self.space, self.line_break) = (false, false);
    }

    /// Right behind what is there, before any space that is due.
    fn append(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    fn len(&self) -> usize {
        self.text.len()
    }

    fn since(&self, from: usize) -> &str {
        self.text.get(from..).unwrap_or_default()
    }

    fn line_break(&mut self) {
        self.line_break = true;
    }

    fn finish(mut self) -> String {
        let end = self.text.trim_end().len();
        self.text.truncate(end);
        self.text
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn text_of(page: &str) -> String {
        to_text(page, None)
    }

    #[test]
    fn a_page_becomes_its_text() {
        let page = "<!doctype html><html><head><title>A &amp; B</title><style>p { x: y }</style>\
                    <script>if (a < b) { evil(\"</p>\") }</SCRIPT ></head><body><!-- <p>no</p> -->\
                    <h1>Top</h1>\n\n<p>One <b>two</b>&nbsp;three&#33;&#x21;</p><ul><li>a<li>b</ul>\
                    <table><tr><td>1</td><td>2</td></tr></table>5 < 6 &unknown; &</body></html>";
        assert_eq!(text_of(page), "A & B\nTop\nOne two three!!\n- a\n- b\n1 2\n5 < 6 &unknown; &");
    }

    #[test]
    fn links_keep_their_targets() {
        let base = Url::parse("https://example.org/guide/start.html").unwrap();
        let page = "<p>See <a href=\"../api?a=1&amp;b=2\">the <b>API</b></a>, <a href='#top'>top</a>,\
                    <a href=\"javascript:x()\">run</a>, <a href=mailto:a@b.c>mail</a>,\
                    <a href=https://e.org/>https://e.org</a> and <a href=/a><a href=/b>b</a> <a href=/img><img alt=logo></a></p>";
        assert_eq!(
            to_text(page, Some(&base)),
            "See the API (https://example.org/api?a=1&b=2), top,run, mail,https://e.org and \
             b (https://example.org/b) logo (https://example.org/img)"
        );
        assert_eq!(text_of("<a href=/relative>here</a>"), "here");
    }

    #[test]
    fn every_entity_is_read_and_attributes_may_hold_anything() {
        assert_eq!(text_of("&Eacute;&hearts;&rarr;&ampx &notit; &lt;b&gt;"), "É♥→&x ¬it; <b>");
        assert_eq!(text_of("<p title=\"a > b\">c</p><p data-x='<script>'>d</p>"), "c\nd");
    }

    #[test]
    fn preformatted_text_stays_as_it_was_written() {
        let page = "<p>Code:</p><pre>\nfn main() {\n    let x = 1;\n}\n</pre><p>after   all</p>";
        assert_eq!(text_of(page), "Code:\nfn main() {\n    let x = 1;\n}\nafter all");
    }

    #[test]
    fn broken_pages_end_and_lose_no_more_than_they_must() {
        assert_eq!(text_of("a<script>b"), "a");
        assert_eq!(text_of("a<!-- b"), "a");
        assert_eq!(text_of("a<b c"), "a");
        assert_eq!(text_of("&#xffffffff; &ü;"), "\u{fffd} &ü;");
    }

    #[test]
    fn a_page_takes_the_time_of_its_bytes() {
        let base = Url::parse(&format!("https://example.org/{}/", "deep".repeat(60))).unwrap();
        for piece in [
            "<",
            "<a",
            "</",
            "&",
            "&#",
            "<!--",
            "<script>",
            "</script",
            "<div>",
            "<ul><li>",
            "<pre>",
            "<a href=x>y",
            "<a href=x>y</a>",
            "<p x",
            "<p x=",
            "<b a=1 a=2",
            "<table><tr><td>",
        ] {
            let page = piece.repeat((256 << 10) / piece.len());
            let started = Instant::now();
            let text = to_text(&page, Some(&base));
            assert!(text.len() <= page.len() * 2 + MOST_TARGETS * (LONGEST_TARGET + 3), "{piece}: {}", text.len());
            assert!(started.elapsed() < Duration::from_secs(5), "{piece}: {:?}", started.elapsed());
        }
        let attributes: String = (0..20_000).map(|n| format!(" a{n}=1")).collect();
        assert_eq!(text_of(&format!("<p{attributes}>x")), "x");
    }
}
