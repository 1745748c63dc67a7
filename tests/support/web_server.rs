//! A small HTTP server on loopback that answers with a function.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `GET`, `PUT`, `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The headers, by their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Answers a request with a status and a body.
pub type Answering = dyn Fn(Asked) -> (u16, Vec<u8>) + Send + Sync;

/// Starts a server on the executor of the caller; its address.
pub async fn serve(answer: Arc<Answering>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            // A connection that broke is the client's to notice.
            tokio::spawn(async move { drop(one(socket, &*answer).await) });
        }
    });
    address
}

async fn one(socket: TcpStream, answer: &Answering) -> std::io::Result<()> {
    let mut stream = BufReader::new(socket);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        let mut parts = first.split_whitespace().map(str::to_owned);
        let (method, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (mut length, mut headers) = (0, Vec::new());
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let (status, body) = answer(Asked { method, path, headers, body });
        let head = format!("HTTP/1.1 {status} so\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all(head.as_bytes()).await?;
        stream.get_mut().write_all(&body).await?;
    }
}
