//! Object servers on loopback that speak what GCS (its XML API), Azure Blob Storage and WebDAV document, as far as a
//! store of snapshots needs it: get, put, put only if nothing is there, list in pages, remove.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;

/// Which service it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Google Cloud Storage, XML API.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// A web server with WebDAV.
    WebDav,
}

/// Whether conditions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    /// As documented.
    Kept,
    /// Every write wins.
    Ignored,
}

/// How many objects a page of a listing has.
const PAGE: usize = 2;
const WRITTEN: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// A running server, with one bucket (or container, or directory), `herm`.
#[derive(Debug)]
pub struct ObjectServer {
    address: String,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    service: Service,
    conditions: Conditions,
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Requests that carried what the service signs with.
    signed: AtomicU64,
    pages: AtomicU64,
}

impl ObjectServer {
    /// Starts one on a free port, on the executor of the caller.
    pub async fn start(service: Service, conditions: Conditions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            service,
            conditions,
            objects: Mutex::default(),
            signed: AtomicU64::new(0),
            pages: AtomicU64::new(0),
        });
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                tokio::spawn(async move {
                    let answer = hyper::service::service_fn(move |request| answer(Arc::clone(&state), request));
                    // A connection that broke is the client's to notice.
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), answer).await;
                });
            }
        });
        Self { address, state }
    }

    /// The address of a store below a prefix.
    pub fn store(&self, prefix: &str) -> String {
        match self.state.service {
            Service::Gcs => format!("gs://herm/{prefix}"),
            Service::Azure => format!("az://herm/{prefix}"),
            Service::WebDav => format!("{}/herm/{prefix}", self.address),
        }
    }

    /// The options a client needs.
    pub fn options(&self) -> Vec<(String, String)> {
        // As for an emulator of the service: a key that signs nothing.
        let key = format!(
            r#"{{"gcs_base_url": "{}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#,
            self.address
        );
        let options: &[(&str, &str)] = match self.state.service {
            Service::Gcs => &[("google_service_account_key", key.as_str()), ("google_allow_http", "true")],
            Service::Azure => &[
                ("azure_storage_account_name", "account"),
                ("azure_storage_account_key", "c2VjcmV0c2VjcmV0"),
                ("azure_endpoint", self.address.as_str()),
                ("azure_allow_http", "true"),
            ],
            Service::WebDav => &[("allow_http", "true")],
        };
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Puts an object there from behind.
    pub fn place(&self, name: &str, content: Vec<u8>) {
        self.state.objects.lock().expect("not poisoned").insert(name.to_owned(), content);
    }

    /// The names of all objects, the bucket's before them.
    pub fn names(&self) -> Vec<String> {
        self.state.objects.lock().expect("not poisoned").keys().cloned().collect()
    }

    /// How many requests were signed.
    pub fn signed(&self) -> u64 {
        self.state.signed.load(Ordering::SeqCst)
    }

    /// How many pages of listings were given.
    pub fn pages(&self) -> u64 {
        self.state.pages.load(Ordering::SeqCst)
    }
}

type Answer = Response<Full<Bytes>>;

fn given(status: StatusCode, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Full::new(body.into())).expect("an answer")
}

fn status(status: StatusCode) -> Answer {
    given(status, &[], Bytes::new())
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Answer, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let name = decoded(head.uri.path().trim_matches('/'));
    let query: BTreeMap<String, String> = head
        .uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    if header("authorization").is_some_and(|said| said.starts_with("SharedKey account:")) {
        state.signed.fetch_add(1, Ordering::SeqCst);
    } else if state.service == Service::Azure {
        return Ok(status(StatusCode::FORBIDDEN));
    }
    let only_new = match state.service {
        Service::Gcs => header("x-goog-if-generation-match") == Some("0"),
        Service::Azure => header("if-none-match") == Some("*"),
        Service::WebDav => false,
    };
    let mut objects = state.objects.lock().expect("not poisoned");
    Ok(match head.method.as_str() {
        "PUT" => {
            let is_there = objects.contains_key(&name);
            if state.service == Service::Azure && header("x-ms-blob-type") != Some("BlockBlob") {
                return Ok(status(StatusCode::BAD_REQUEST));
            }
            match (only_new && is_there && state.conditions == Conditions::Kept, state.service) {
                (true, Service::Azure) => status(StatusCode::CONFLICT),
                (true, _) => status(StatusCode::PRECONDITION_FAILED),
                (false, _) => {
                    objects.insert(name, body.to_vec());
                    given(StatusCode::CREATED, &[("etag", "\"1\""), ("x-goog-generation", "1")], Bytes::new())
                }
            }
        }
        "GET" if name == "herm" => state.listing(&objects, &query),
        "GET" => match objects.get(&name) {
            Some(content) => given(
                StatusCode::OK,
                &[("etag", "\"1\""), ("last-modified", WRITTEN), ("x-goog-generation", "1")],
                content.clone(),
            ),
            None => status(StatusCode::NOT_FOUND),
        },
        "DELETE" => match objects.remove(&name) {
            Some(_) => status(StatusCode::NO_CONTENT),
            None => status(StatusCode::NOT_FOUND),
        },
        "POST" if query.get("comp").is_some_and(|comp| comp == "batch") => batch(&mut objects, &body),
        "PROPFIND" => {
            state.pages.fetch_add(1, Ordering::SeqCst);
            properties(&objects, &name)
        }
        "MKCOL" => status(StatusCode::CREATED),
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    })
}

impl State {
    /// A page of a listing, as GCS and Azure give them.
    fn listing(&self, objects: &BTreeMap<String, Vec<u8>>, query: &BTreeMap<String, String>) -> Answer {
        self.pages.fetch_add(1, Ordering::SeqCst);
        let asked = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
        // Azure's `startFrom` and its marker name the first one; GCS goes on after what it is told.
        let first = asked("marker").max(asked("startFrom"));
        let after = asked("continuation-token").max(asked("start-after"));
        let all: Vec<(&str, usize)> = objects
            .iter()
            .filter_map(|(name, content)| Some((name.strip_prefix("herm/")?, content.len())))
            .filter(|(name, _)| name.starts_with(asked("prefix")) && *name >= first && *name > after)
            .collect();
        let (page, rest) = all.split_at(all.len().min(PAGE));
        let entries: String = page.iter().map(|(name, bytes)| self.entry(name, *bytes)).collect();
        let next = match (self.service, rest.first(), page.last()) {
            (Service::Azure, Some((next, _)), _) => format!("<NextMarker>{next}</NextMarker>"),
            (Service::Azure, None, _) => "<NextMarker />".to_owned(),
            (_, Some(_), Some((last, _))) => format!("<NextContinuationToken>{last}</NextContinuationToken>"),
            _ => String::new(),
        };
        let xml = match self.service {
            Service::Azure => format!("<EnumerationResults><Blobs>{entries}</Blobs>{next}</EnumerationResults>"),
            _ => format!("<ListBucketResult>{entries}{next}</ListBucketResult>"),
        };
        given(StatusCode::OK, &[("content-type", "application/xml")], xml)
    }

    fn entry(&self, name: &str, bytes: usize) -> String {
        match self.service {
            Service::Azure => format!(
                "<Blob><Name>{name}</Name><Properties><Last-Modified>{WRITTEN}</Last-Modified><Etag>1</Etag>\
                 <Content-Length>{bytes}</Content-Length><Content-Type>application/octet-stream</Content-Type>\
                 <BlobType>BlockBlob</BlobType></Properties></Blob>"
            ),
            _ => format!(
                "<Contents><Key>{name}</Key><Size>{bytes}</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"1\"</ETag></Contents>"
            ),
        }
    }
}

/// Azure removes objects in batches: requests inside a request.
fn batch(objects: &mut BTreeMap<String, Vec<u8>>, body: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(body);
    let mut parts = String::new();
    for (id, line) in text.lines().filter(|line| line.starts_with("DELETE ")).enumerate() {
        let path = line.split(' ').nth(1).unwrap_or_default().trim_matches('/');
        let code =
            if objects.remove(path).is_some() { "202 Accepted" } else { "404 The specified blob does not exist." };
        parts.push_str(&format!(
            "--answers\r\nContent-Type: application/http\r\nContent-ID: {id}\r\n\r\nHTTP/1.1 {code}\r\nx-ms-request-id: {id}\r\n\r\n"
        ));
    }
    parts.push_str("--answers--\r\n");
    given(StatusCode::ACCEPTED, &[("content-type", "multipart/mixed; boundary=answers")], parts)
}

/// Everything below a directory, as WebDAV gives it.
fn properties(objects: &BTreeMap<String, Vec<u8>>, below: &str) -> Answer {
    let found: String = objects
        .iter()
        .filter(|(name, _)| name.strip_prefix(below).is_some_and(|rest| rest.starts_with('/')))
        .map(|(name, content)| {
            format!(
                "<D:response><D:href>/{name}</D:href><D:propstat><D:prop><D:getlastmodified>{WRITTEN}</D:getlastmodified>\
                 <D:getcontentlength>{}</D:getcontentlength><D:resourcetype/></D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
                content.len()
            )
        })
        .collect();
    if found.is_empty() {
        return status(StatusCode::NOT_FOUND);
    }
    let xml = format!("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{found}</D:multistatus>");
    given(StatusCode::MULTI_STATUS, &[("content-type", "application/xml")], xml)
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
