//! An S3 server on loopback: the crate `s3s-fs` behind a mutex, with trouble on demand.
//!
//! Without the mutex, `s3s-fs` looks whether an object is there and then writes it, in two steps:
//! racing creators all win. [`Order::None`] is that server, as a negative control.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;

use crate::generate::Random;

/// Whether requests are taken one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One at a time.
    OneByOne,
    /// As they come.
    None,
}

/// How often, of a thousand requests, something goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// 503, and nothing was done.
    pub before: u64,
    /// 500, and it was done.
    pub after: u64,
    /// The connection breaks in the middle of the body of an answer.
    pub cut: u64,
    /// A byte of the body of an answer is another.
    pub flipped: u64,
    /// Conditions are ignored, as some servers do.
    pub unconditional: bool,
}

/// A running server, with one bucket, `herm`.
#[derive(Debug)]
pub struct S3Server {
    address: String,
    state: Arc<State>,
    _dir: tempfile::TempDir,
}

#[derive(Debug)]
struct State {
    faults: Mutex<(Faults, Random)>,
    turn: tokio::sync::Mutex<()>,
    order: Order,
    requests: AtomicU64,
    root: std::path::PathBuf,
}

impl S3Server {
    /// Starts one on a free port, on the executor of the caller.
    pub async fn start(order: Order) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("herm")).expect("a bucket");
        let service = {
            let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir.path()).expect("a file system"));
            builder.set_auth(SimpleAuth::from_single("AKIATEST", "secretsecret"));
            builder.build()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            faults: Mutex::new((Faults::default(), Random::new(11))),
            turn: tokio::sync::Mutex::default(),
            order,
            requests: AtomicU64::new(0),
            root: dir.path().to_owned(),
        });
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (state, service) = (Arc::clone(&serving), service.clone());
                tokio::spawn(async move {
                    let answer =
                        hyper::service::service_fn(move |request| answer(Arc::clone(&state), service.clone(), request));
                    // A connection that broke is the client's to notice.
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), answer).await;
                });
            }
        });
        Self { address, state, _dir: dir }
    }

    /// From now on, this goes wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.state.faults.lock().expect("not poisoned").0 = faults;
    }

    /// How many requests came.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// The options a client needs.
    pub fn options(&self) -> Vec<(String, String)> {
        [
            ("aws_endpoint", self.address.as_str()),
            ("aws_access_key_id", "AKIATEST"),
            ("aws_secret_access_key", "secretsecret"),
            ("aws_region", "us-east-1"),
            ("aws_allow_http", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

impl State {
    fn happens(&self, which: impl Fn(&Faults) -> u64) -> bool {
        let mut faults = self.faults.lock().expect("not poisoned");
        let likely = which(&faults.0);
        likely > 0 && faults.1.number() % 1_000 < likely
    }

    fn below(&self, n: usize) -> usize {
        self.faults.lock().expect("not poisoned").1.below(n)
    }
}

type Answer = Response<BoxBody<Bytes, std::io::Error>>;

fn whole(body: Vec<u8>) -> BoxBody<Bytes, std::io::Error> {
    Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed()
}

fn trouble(status: StatusCode) -> Answer {
    Response::builder().status(status).body(whole(Vec::new())).expect("an answer")
}

async fn answer(state: Arc<State>, service: S3Service, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    state.requests.fetch_add(1, Ordering::SeqCst);
    if state.happens(|faults| faults.before) {
        return Ok(trouble(StatusCode::SERVICE_UNAVAILABLE));
    }
    if request.headers().contains_key("if-none-match")
        && state.happens(|faults| u64::from(faults.unconditional) * 1_000)
    {
        // The header itself is signed; without the object it has no effect.
        let _ = std::fs::remove_file(state.root.join(request.uri().path().trim_start_matches('/')));
    }
    let is_get = request.method() == Method::GET;
    let turn = match state.order {
        Order::OneByOne => Some(state.turn.lock().await),
        Order::None => None,
    };
    let given = hyper::service::Service::call(&service, request).await;
    let given = given.map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    let (head, body) = given.into_parts();
    let body = body.collect().await.map_err(|error| std::io::Error::other(error.to_string()))?.to_bytes();
    drop(turn);
    if state.happens(|faults| faults.after) {
        return Ok(trouble(StatusCode::INTERNAL_SERVER_ERROR));
    }
    let mut body = body.to_vec();
    if is_get && !body.is_empty() {
        if state.happens(|faults| faults.flipped) {
            let at = state.below(body.len());
            body[at] ^= 4;
        }
        if state.happens(|faults| faults.cut) {
            body.truncate(body.len() / 2);
            let broken = [Ok(Frame::data(Bytes::from(body))), Err(std::io::Error::other("the line broke"))];
            let body = StreamBody::new(futures_util::stream::iter(broken)).boxed();
            return Ok(Response::from_parts(head, body));
        }
    }
    Ok(Response::from_parts(head, whole(body)))
}
