//! On which line of a JSON text a value stands: errors about it name the line.

/// One step down into a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The line, from 1, on which the value at a path begins; the line of the nearest value above it where there is no such
/// value. The text is JSON that was read before.
pub(super) fn line_of(text: &str, path: &[Step<'_>]) -> usize {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    for step in path {
        scan.blanks();
        let before = scan.at;
        let found = match step {
            Step::Key(key) => scan.enter_key(key),
            Step::Index(index) => scan.enter_index(*index),
        };
        if !found {
            scan.at = before;
            break;
        }
    }
    scan.blanks();
    1 + scan.bytes.iter().take(scan.at).filter(|byte| **byte == b'\n').count()
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Goes over a byte, if it stands here.
    fn over(&mut self, byte: u8) -> bool {
        self.blanks();
        let is_here = self.peek() == Some(byte);
        self.at += usize::from(is_here);
        is_here
    }

    /// Goes to the value of a key of the object that begins here.
    fn enter_key(&mut self, key: &str) -> bool {
        if !self.over(b'{') {
            return false;
        }
        loop {
            self.blanks();
            let begin = self.at;
            if self.peek() != Some(b'"') {
                return false;
            }
            self.skip();
            let name = self.bytes.get(begin..self.at).and_then(|name| serde_json::from_slice::<String>(name).ok());
            if !self.over(b':') {
                return false;
            }
            if name.as_deref() == Some(key) {
                return true;
            }
            self.skip();
            if !self.over(b',') {
                return false;
            }
        }
    }

    /// Goes to an item of the array that begins here.
    fn enter_index(&mut self, index: usize) -> bool {
        if !self.over(b'[') {
            return false;
        }
        for _ in 0..index {
            self.skip();
            if !self.over(b',') {
                return false;
            }
        }
        self.blanks();
        self.peek().is_some_and(|byte| byte != b']')
    }

    /// Goes over the value that begins here.
    fn skip(&mut self) {
        self.blanks();
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_text(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return,
                _ => self.at += 1,
            }
            let has_ended = depth == 0 && matches!(byte, b'"' | b'}' | b']');
            if has_ended {
                return;
            }
        }
    }

    fn skip_text(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1 + usize::from(byte == b'\\');
            if byte == b'"' {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Index, Key};
    use super::*;

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = "{\n \"a\": \"]}\\\"\",\n \"tools\": [\n  {\"name\": [1, {\"x\": 2}]},\n\n  {\n  \"table\": [1,\n 2]}\n]\n}";
        let line = |path: &[Step<'_>]| line_of(text, path);
        assert_eq!(line(&[]), 1);
        assert_eq!(line(&[Key("a")]), 2);
        assert_eq!(line(&[Key("tools"), Index(0)]), 4);
        assert_eq!(line(&[Key("tools"), Index(1)]), 6);
        assert_eq!(line(&[Key("tools"), Index(1), Key("table"), Index(1)]), 8);
    }

    #[test]
    fn what_is_not_there_is_on_the_line_of_what_is_above_it() {
        let text = "{\n\"tools\": [\n{}]}";
        assert_eq!(line_of(text, &[Key("tools"), Index(0), Key("name")]), 3);
        assert_eq!(line_of(text, &[Key("tools"), Index(4)]), 2);
        assert_eq!(line_of(text, &[Key("other"), Index(4)]), 1);
        for broken in ["", "{", "{\"a", "[1,", "{\"a\":", "\"\\"] {
            assert_eq!(line_of(broken, &[Key("a"), Index(1), Key("b")]), 1, "{broken}");
        }
    }
}
