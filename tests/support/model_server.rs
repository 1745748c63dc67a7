//! A model endpoint on loopback that answers as scripted: well, badly, slowly, or never.
//!
//! It is a real HTTP/1.1 server on real sockets, with a thread a connection. Each request takes the
//! next [`Step`]; a script that is over answers 500.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Request {
    /// `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case, values as they came.
    pub headers: Vec<(String, String)>,
    /// The body; null where it is not JSON.
    pub body: Value,
}

impl Request {
    /// What the last message of a conversation says.
    pub fn last_message(&self) -> &str {
        let messages = self.body["messages"].as_array();
        messages.and_then(|all| all.last()?["content"].as_str()).unwrap_or_default()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Holds an answer back until a test has seen what it wants to see.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets the answer go.
    pub fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let _open = self.0.1.wait_while(lock(&self.0.0), |is_open| !*is_open).expect("no test thread panics in it");
    }
}

/// How one request is answered.
#[derive(Debug, Clone)]
pub struct Step {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Vec<u8>>,
    framing: Framing,
    is_dripped: bool,
    pause: Duration,
    ending: Ending,
    gate: Option<Gate>,
}

/// How the client learns where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Close,
}

/// What happens at the end of a body.
#[derive(Debug, Clone)]
enum Ending {
    Whole,
    CutAfter(usize),
    Silence,
    Endless(Vec<u8>),
    NoAnswer,
}

impl Step {
    /// A JSON body with its length.
    pub fn json(status: u16, body: Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    /// A reply of an OpenAI-compatible endpoint that says `text`.
    pub fn chat(text: &str) -> Self {
        let message = json!({ "role": "assistant", "content": text });
        let body = json!({
            "model": "m-1",
            "choices": [{ "message": message, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
        });
        Self::json(200, body)
    }

    /// Any body with its length.
    pub fn text(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            pieces: vec![body.into()],
            framing: Framing::Length,
            is_dripped: false,
            pause: Duration::ZERO,
            ending: Ending::Whole,
            gate: None,
        }
    }

    /// A stream with an event for each of `data`.
    pub fn sse<T: AsRef<str>>(data: impl IntoIterator<Item = T>) -> Self {
        Self::raw_sse(data.into_iter().map(|data| format!("data: {}\n\n", data.as_ref())))
    }

    /// A stream with a named event for each pair of a name and its data.
    pub fn named_sse<T: AsRef<str>>(events: impl IntoIterator<Item = (T, Value)>) -> Self {
        Self::raw_sse(events.into_iter().map(|(name, data)| format!("event: {}\ndata: {data}\n\n", name.as_ref())))
    }

    /// A stream of these very pieces.
    pub fn raw_sse<T: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = T>) -> Self {
        let mut step = Self::text(200, "text/event-stream", "");
        step.pieces = pieces.into_iter().map(Into::into).collect();
        step.framing = Framing::Chunks;
        step
    }

    /// No answer, ever.
    pub fn never() -> Self {
        Self { ending: Ending::NoAnswer, ..Self::text(200, "text/plain", "") }
    }

    /// Adds a header, in the place of one of that name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends one byte at a time.
    #[must_use]
    pub fn dripped(mut self) -> Self {
        self.is_dripped = true;
        self
    }

    /// Sends nothing until the gate is open.
    #[must_use]
    pub fn after(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Waits before each piece after the first.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Closes the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.ending = Ending::CutAfter(bytes);
        self
    }

    /// Sends the body, but neither its end nor anything more.
    #[must_use]
    pub fn then_silence(mut self) -> Self {
        self.framing = Framing::Chunks;
        self.ending = Ending::Silence;
        self
    }

    /// Goes on with `piece` until the client hangs up.
    #[must_use]
    pub fn then_endless(mut self, piece: impl Into<Vec<u8>>) -> Self {
        self.framing = Framing::Chunks;
        self.ending = Ending::Endless(piece.into());
        self
    }

    /// Ends the body by closing the connection, as servers did before HTTP/1.1.
    #[must_use]
    pub fn ended_by_close(mut self) -> Self {
        self.framing = Framing::Close;
        self
    }
}

/// Makes the answer to a request from it.
struct Answering(Box<dyn Fn(&Request) -> Step + Send + Sync>);

impl std::fmt::Debug for Answering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answering")
    }
}

/// A running server. Dropping it closes every connection.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    steps: Mutex<VecDeque<Step>>,
    always: Option<Step>,
    answering: Option<Answering>,
    requests: Mutex<Vec<Request>>,
    streams: Mutex<Vec<TcpStream>>,
    connections: AtomicUsize,
    hang_ups: AtomicUsize,
    sent: AtomicU64,
    is_stopped: AtomicBool,
}

impl ModelServer {
    /// A server that takes one step a request.
    pub fn start(steps: Vec<Step>) -> Self {
        Self::serve(Shared { steps: Mutex::new(steps.into()), ..Shared::default() })
    }

    /// A server that takes the same step for every request.
    pub fn always(step: Step) -> Self {
        Self::serve(Shared { always: Some(step), ..Shared::default() })
    }

    /// A server that answers each request as this says.
    pub fn answering(answer: impl Fn(&Request) -> Step + Send + Sync + 'static) -> Self {
        Self::serve(Shared { answering: Some(Answering(Box::new(answer))), ..Shared::default() })
    }

    fn serve(shared: Shared) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(shared);
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                if let Ok(copy) = stream.try_clone() {
                    lock(&accepting.streams).push(copy);
                }
                let shared = Arc::clone(&accepting);
                // A client that goes away in the middle is part of many scripts.
                thread::spawn(move || shared.speak(stream));
            }
        });
        Self { address, shared }
    }

    /// `http://127.0.0.1:port`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// How many TCP connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many times a client hung up before a body was sent.
    pub fn hang_ups(&self) -> usize {
        self.shared.hang_ups.load(Ordering::SeqCst)
    }

    /// How many bytes of bodies the sockets have taken.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        for stream in lock(&self.shared.streams).drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts, so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

/// Whether the connection is used again.
enum Next {
    KeepAlive,
    Close,
}

impl Shared {
    fn speak(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        while let Some(request) = read_request(&mut reader)? {
            let made = self.answering.as_ref().map(|answering| (answering.0)(&request));
            lock(&self.requests).push(request);
            let step = made.or_else(|| self.always.clone()).or_else(|| lock(&self.steps).pop_front());
            let step = step.unwrap_or_else(|| Step::text(500, "text/plain", "the script is over"));
            match self.answer(&step, &mut writer, &mut reader) {
                Ok(Next::KeepAlive) => {}
                Ok(Next::Close) => break,
                Err(error) => {
                    self.hang_ups.fetch_add(1, Ordering::SeqCst);
                    return Err(error);
                }
            }
        }
        writer.shutdown(Shutdown::Both)
    }

    fn answer(&self, step: &Step, writer: &mut TcpStream, reader: &mut impl Read) -> io::Result<Next> {
        if matches!(step.ending, Ending::NoAnswer) {
            return self.wait_for_hang_up(reader);
        }
        if let Some(gate) = &step.gate {
            gate.wait();
        }
        writer.write_all(head(step).as_bytes())?;
        let mut left = match step.ending {
            Ending::CutAfter(bytes) => bytes,
            _ => usize::MAX,
        };
        for (number, piece) in step.pieces.iter().enumerate() {
            if number > 0 && !step.pause.is_zero() {
                thread::sleep(step.pause);
            }
            let size = if step.is_dripped { 1 } else { piece.len().max(1) };
            for part in piece.chunks(size) {
                let part = &part[..part.len().min(left)];
                self.send(writer, step.framing, part)?;
                left -= part.len();
                if left == 0 {
                    return Ok(Next::Close);
                }
            }
        }
        match &step.ending {
            Ending::CutAfter(_) => return Ok(Next::Close),
            Ending::Silence => return self.wait_for_hang_up(reader),
            Ending::Endless(piece) => loop {
                self.send(writer, step.framing, piece)?;
            },
            Ending::Whole | Ending::NoAnswer => {}
        }
        match step.framing {
            Framing::Close => Ok(Next::Close),
            Framing::Length => Ok(Next::KeepAlive),
            Framing::Chunks => writer.write_all(b"0\r\n\r\n").map(|()| Next::KeepAlive),
        }
    }

    fn send(&self, writer: &mut TcpStream, framing: Framing, part: &[u8]) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        match framing {
            Framing::Length | Framing::Close => writer.write_all(part)?,
            Framing::Chunks => {
                let mut chunk = format!("{:x}\r\n", part.len()).into_bytes();
                chunk.extend_from_slice(part);
                chunk.extend_from_slice(b"\r\n");
                writer.write_all(&chunk)?;
            }
        }
        self.sent.fetch_add(part.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn wait_for_hang_up(&self, reader: &mut impl Read) -> io::Result<Next> {
        // A client that waits for its answer sends nothing, so this ends when it hangs up.
        let mut byte = [0];
        while matches!(reader.read(&mut byte), Ok(1)) {}
        self.hang_ups.fetch_add(1, Ordering::SeqCst);
        Ok(Next::Close)
    }
}

fn head(step: &Step) -> String {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", step.status);
    for (name, value) in &step.headers {
        head += &format!("{name}: {value}\r\n");
    }
    match step.framing {
        Framing::Length => {
            let length: usize = step.pieces.iter().map(Vec::len).sum();
            head += &format!("content-length: {length}\r\n");
        }
        Framing::Chunks => head += "transfer-encoding: chunked\r\n",
        Framing::Close => head += "connection: close\r\n",
    }
    head + "\r\n"
}

/// The next request of a connection; nothing when the client has closed it.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method, path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test thread panics while it holds this")
}
