//! Server-sent events, parsed as the bytes come in.
//!
//! Pure: bytes in, events out. A chunk may end anywhere, in the middle of a character too.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its `event:` name; empty where it has none.
    pub(super) name: String,
    /// Its `data:` lines, joined by line feeds.
    pub(super) data: String,
}

impl Event {
    /// Whether it is the `[DONE]` that ends a chat stream.
    pub(super) fn is_done(&self) -> bool {
        self.data.trim() == "[DONE]"
    }
}

/// An event is larger than the parser's cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Turns chunks into events.
#[derive(Debug)]
pub(super) struct Parser {
    cap: usize,
    line: Vec<u8>,
    name: String,
    data: Option<Vec<u8>>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    /// No line has ended yet: it may begin with a byte order mark.
    first_line: bool,
}

impl Parser {
    /// A parser that refuses events of more than `cap` bytes.
    pub(super) fn new(cap: usize) -> Self {
        Self { cap, line: Vec::new(), name: String::new(), data: None, after_cr: false, first_line: true }
    }

    /// Takes a chunk and appends the events it completes to `events`.
    pub(super) fn feed(&mut self, mut chunk: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.hold(&chunk[..end])?;
            events.extend(self.end_line());
            let ended_by = chunk[end];
            chunk = &chunk[end + 1..];
            if ended_by == b'\r' {
                self.after_cr = chunk.is_empty();
                chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
            }
        }
        self.hold(chunk)
    }

    /// The event that the end of the body completes: some servers leave out the last blank line.
    pub(super) fn finish(mut self) -> Option<Event> {
        if !self.line.is_empty() {
            // A line that is not blank never ends an event.
            let _ = self.end_line();
        }
        self.dispatch()
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + bytes.len() > self.cap {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Event> {
        let held = std::mem::take(&mut self.line);
        let mut line = held.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // Comments have an empty field name; `id` and `retry` are for reconnecting, which nobody does.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?;
        Some(Event { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::new(1024);
        let mut events = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, &mut events).unwrap();
        }
        events.extend(parser.finish());
        events
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    const STREAM: &str = "\u{feff}: OPENROUTER PROCESSING\n\nevent: delta\r\ndata: {\"a\":\"é😀\"}\r\n\r\n\
                          data: one\rdata:two\r\rid: 7\nretry: 10\ndata\n\ndata:  [DONE]\n\n";

    fn events_of_stream() -> Vec<Event> {
        vec![event("delta", "{\"a\":\"é😀\"}"), event("", "one\ntwo"), event("", ""), event("", " [DONE]")]
    }

    #[test]
    fn comments_names_line_ends_and_joined_data_are_understood() {
        let events = parse(&[STREAM.as_bytes()]);
        assert_eq!(events, events_of_stream());
        assert!(events[3].is_done());
    }

    #[test]
    fn a_stream_split_in_two_anywhere_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        for at in 0..=bytes.len() {
            assert_eq!(parse(&[&bytes[..at], &bytes[at..]]), events_of_stream(), "split at {at}");
        }
    }

    #[test]
    fn a_stream_split_in_three_anywhere_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let chunks = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(parse(&chunks), events_of_stream(), "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_stream_of_single_bytes_gives_the_same_events() {
        let chunks: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
        assert_eq!(parse(&chunks), events_of_stream());
    }

    #[test]
    fn the_end_of_the_body_completes_the_last_event() {
        assert_eq!(parse(&[b"data: [DONE]"]), vec![event("", "[DONE]")]);
        assert_eq!(parse(&[b"data: [DONE]\n"]), vec![event("", "[DONE]")]);
        assert_eq!(parse(&[b"event: ping\n"]), vec![]);
    }

    #[test]
    fn a_name_without_data_is_no_event_and_does_not_leak_into_the_next() {
        assert_eq!(parse(&[b"event: ping\n\ndata: x\n\n"]), vec![event("", "x")]);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(parse(&[b"data: a\xffb\n\n"]), vec![event("", "a\u{fffd}b")]);
    }

    #[test]
    fn an_event_beyond_the_cap_is_refused_however_it_comes() {
        let mut parser = Parser::new(16);
        let mut events = Vec::new();
        assert_eq!(parser.feed(b"data: 0123456789\n", &mut events), Ok(()));
        assert_eq!(parser.feed(b"data: 0123456789\n", &mut events), Err(TooLong));

        let mut parser = Parser::new(16);
        assert_eq!((0..64).find_map(|_| parser.feed(b"x", &mut events).err()), Some(TooLong));
    }

    #[test]
    fn a_stream_of_small_events_may_be_longer_than_the_cap() {
        let mut parser = Parser::new(16);
        let mut events = Vec::new();
        for _ in 0..100 {
            parser.feed(b"data: 0123456\n\n: a comment\n", &mut events).unwrap();
        }
        assert_eq!(events.len(), 100);
    }
}
