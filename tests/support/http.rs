//! A small HTTP/1.1 client on real sockets, so that a test sees the bytes a server sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case, values as they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream, as name and data.
    pub fn events(&self) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        for block in self.body.split("\n\n") {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let Some(data) = field("data:") {
                let data = serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
                events.push((field("event:").unwrap_or_default().to_owned(), data));
            }
        }
        events
    }
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    address: String,
    headers: Vec<(String, String)>,
}

impl Client {
    /// A client of the server at `address`: `127.0.0.1:7700`.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), headers: Vec::new() }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut with = self.clone();
        with.headers.push((name.to_owned(), value.to_owned()));
        with
    }

    /// The same with a key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    /// Where the server is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Reads.
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    /// Sends JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.with("content-type", "application/json").send("POST", path, Some(body.to_string().as_bytes()))
    }

    /// Sends nothing.
    pub fn post_nothing(&self, path: &str) -> Answer {
        self.send("POST", path, Some(b""))
    }

    /// Removes.
    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Sends a request and reads the whole answer.
    pub fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
        self.open(method, path, body).rest()
    }

    /// Sends a request and reads the head of the answer.
    pub fn open(&self, method: &str, path: &str, body: Option<&[u8]>) -> Incoming {
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("the request is sent");
        // A server that refuses may hang up before it has read everything.
        let _ = stream.write_all(body.unwrap_or_default());
        Incoming::read(stream).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// A bare connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server takes connections");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        stream
    }

    /// Sends these bytes and reads what comes back, if anything does.
    pub fn raw(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        Incoming::read(stream).map(Incoming::rest)
    }
}

/// An answer whose body is still on its way.
#[derive(Debug)]
pub struct Incoming {
    answer: Answer,
    reader: BufReader<TcpStream>,
}

impl Incoming {
    /// Reads the head; nothing where the server hung up.
    pub fn read(stream: TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let status = line.split_whitespace().nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Self { answer: Answer { status, headers, body: String::new() }, reader })
    }

    /// The head.
    pub fn head(&self) -> &Answer {
        &self.answer
    }

    fn is_chunked(&self) -> bool {
        self.answer.header("transfer-encoding") == Some("chunked")
    }

    /// The next piece of a chunked body; nothing at its end.
    pub fn piece(&mut self) -> Option<String> {
        let mut size = String::new();
        self.reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(size);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads until a text has come; everything that came so far.
    pub fn until(&mut self, text: &str) -> String {
        while !self.answer.body.contains(text) {
            match self.piece() {
                Some(piece) => self.answer.body.push_str(&piece),
                None => panic!("{text:?} never came: {}", self.answer.body),
            }
        }
        self.answer.body.clone()
    }

    /// The whole answer.
    pub fn rest(mut self) -> Answer {
        if self.is_chunked() {
            while let Some(piece) = self.piece() {
                self.answer.body.push_str(&piece);
            }
        } else {
            let mut bytes = Vec::new();
            match self.answer.header("content-length").and_then(|length| length.parse::<u64>().ok()) {
                Some(length) => drop(self.reader.take(length).read_to_end(&mut bytes)),
                None => drop(self.reader.read_to_end(&mut bytes)),
            }
            self.answer.body = String::from_utf8_lossy(&bytes).into_owned();
        }
        self.answer
    }
}
