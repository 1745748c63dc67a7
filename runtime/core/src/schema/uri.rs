//! References of a schema, resolved as RFC 3986 says. Nothing is ever fetched.

/// The parts of a reference, without its fragment.
#[derive(Default)]
struct Parts<'u> {
    scheme: Option<&'u str>,
    authority: Option<&'u str>,
    path: &'u str,
    query: Option<&'u str>,
}

impl<'u> Parts<'u> {
    fn of(text: &'u str) -> Self {
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        };
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, text),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let at = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(at);
                (Some(authority), path)
            }
            None => (None, rest),
        };
        Self { scheme, authority, path, query }
    }
}

/// A reference against a base: the whole name without its fragment, and the fragment.
pub(super) fn resolve(base: &str, reference: &str) -> (String, String) {
    let (reference, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let (base, given) = (Parts::of(base), Parts::of(reference));
    let merged;
    let target = if given.scheme.is_some() {
        given
    } else if given.authority.is_some() {
        Parts { scheme: base.scheme, ..given }
    } else if given.path.is_empty() {
        Parts { query: given.query.or(base.query), ..base }
    } else {
        merged = match given.path.starts_with('/') {
            true => without_dots(given.path),
            false => {
                let kept = base.path.rfind('/').and_then(|at| base.path.get(..=at)).unwrap_or_default();
                let root = if base.authority.is_some() && kept.is_empty() { "/" } else { kept };
                without_dots(&format!("{root}{}", given.path))
            }
        };
        Parts { path: &merged, query: given.query, ..base }
    };
    let mut whole = String::new();
    if let Some(scheme) = target.scheme {
        whole.push_str(&scheme.to_ascii_lowercase());
        whole.push(':');
    }
    if let Some(authority) = target.authority {
        whole.push_str("//");
        whole.push_str(authority);
    }
    whole.push_str(target.path);
    if let Some(query) = target.query {
        whole.push('?');
        whole.push_str(query);
    }
    (whole, fragment.to_owned())
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let last = path.rsplit('/').next().unwrap_or_default();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                if kept.len() > 1 || kept.first().is_some_and(|first| !first.is_empty()) {
                    kept.pop();
                }
            }
            part => kept.push(part),
        }
    }
    let mut joined = kept.join("/");
    if matches!(last, "." | "..") && !joined.ends_with('/') {
        joined.push('/');
    }
    joined
}

/// A fragment without its percent signs.
pub(super) fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [here, after @ ..] = rest {
        let pair = || Some((char::from(*after.first()?).to_digit(16)?, char::from(*after.get(1)?).to_digit(16)?));
        match (*here == b'%').then(pair).flatten() {
            Some((high, low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*here);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn references_are_resolved_as_the_standard_says() {
        for (base, reference, whole) in [
            ("http://a/b/c/d?q", "g", "http://a/b/c/g"),
            ("http://a/b/c/d?q", "./g", "http://a/b/c/g"),
            ("http://a/b/c/d?q", "../../g", "http://a/g"),
            ("http://a/b/c/d?q", "../../../g", "http://a/g"),
            ("http://a/b/c/d?q", "/g", "http://a/g"),
            ("http://a/b/c/d?q", "//h", "http://h"),
            ("http://a/b/c/d?q", "?y", "http://a/b/c/d?y"),
            ("http://a/b/c/d?q", "", "http://a/b/c/d?q"),
            ("http://a/b/c/d?q", ".", "http://a/b/c/"),
            ("http://a", "x/y.json", "http://a/x/y.json"),
            ("urn:uuid:1", "", "urn:uuid:1"),
            ("", "item.json", "item.json"),
            ("", "urn:x", "urn:x"),
        ] {
            assert_eq!(
                resolve(base, &format!("{reference}#f")),
                (whole.to_owned(), "f".to_owned()),
                "{base} {reference}"
            );
        }
    }
}
