//! A hub of models on loopback, on bare sockets: it answers with a function, can hang up in the middle of a body, and
//! counts what it sends.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET` or `HEAD`.
    pub method: String,
    /// The path.
    pub path: String,
    /// The byte from which on it is wanted, where the request says so.
    pub from: Option<usize>,
    /// What the header `Authorization` says.
    pub token: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The status.
    pub status: u16,
    /// Headers beside the length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// After so many bytes of the body the server hangs up.
    pub cut: Option<usize>,
}

impl Told {
    /// A status and nothing else.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same, cut after so many bytes.
    #[must_use]
    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }

    /// A file, or the rest of it, as servers that know ranges answer.
    pub fn file(bytes: &[u8], asked: &Asked) -> Self {
        match asked.from {
            None => Self { status: 200, body: bytes.to_vec(), ..Self::default() },
            Some(from) if from >= bytes.len() => {
                Self::status(416).with("content-range", format!("bytes */{}", bytes.len()))
            }
            Some(from) => Self { status: 206, body: bytes[from..].to_vec(), ..Self::default() }
                .with("content-range", format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len())),
        }
    }

    /// "Look there", as a hub says it of a large file: with its digest and its size.
    pub fn linked(to: impl Into<String>, sha256: &str, size: usize) -> Self {
        Self::status(302)
            .with("location", to)
            .with("x-linked-etag", format!("\"{sha256}\""))
            .with("x-linked-size", size.to_string())
    }
}

/// Answers a request.
pub type Answering = dyn Fn(&Asked) -> Told + Send + Sync;

#[derive(Debug, Default)]
struct Seen {
    asked: Vec<Asked>,
    sent: usize,
}

/// A running server.
#[derive(Debug)]
pub struct HubServer {
    port: u16,
    seen: Arc<Mutex<Seen>>,
}

impl HubServer {
    /// Starts one on a free port, on the executor of the caller.
    pub async fn start(answer: impl Fn(&Asked) -> Told + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (noted, answer): (_, Arc<Answering>) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                // A connection that broke is the client's to notice.
                tokio::spawn(async move { drop(one(socket, &*answer, &noted).await) });
            }
        });
        Self { port, seen }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Everything that was asked of it.
    pub fn asked(&self) -> Vec<Asked> {
        self.seen.lock().expect("not poisoned").asked.clone()
    }

    /// The bytes of bodies that it sent.
    pub fn sent(&self) -> usize {
        self.seen.lock().expect("not poisoned").sent
    }
}

async fn one(socket: TcpStream, answer: &Answering, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let mut stream = BufReader::new(socket);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        let mut parts = first.split_whitespace().map(str::to_owned);
        let (method, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut asked = Asked { method, path, from: None, token: None };
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "range" => {
                    let from = value.trim().strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
                    asked.from = from.and_then(|from| from.parse().ok());
                }
                "authorization" => asked.token = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let told = answer(&asked);
        let mut head = format!("HTTP/1.1 {} so\r\ncontent-length: {}\r\n", told.status, told.body.len());
        told.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str("\r\n");
        let body = if asked.method == "HEAD" { &[][..] } else { &told.body[..told.cut.unwrap_or(told.body.len())] };
        {
            let mut seen = seen.lock().expect("not poisoned");
            seen.asked.push(asked);
            seen.sent += body.len();
        }
        stream.get_mut().write_all(head.as_bytes()).await?;
        stream.get_mut().write_all(body).await?;
        if told.cut.is_some() {
            return stream.get_mut().shutdown().await;
        }
    }
}
