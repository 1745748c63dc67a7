//! Models fetched from a hub, over real sockets: whole, resumed, refused.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use herm::ErrorKind;
use herm::backend::{Hub, ModelRef, PulledModel};
use herm_tests::hub_server::{Asked, HubServer, Told};
use sha2::{Digest as _, Sha256};

const NAME: &str = "someone/tiny-GGUF/tiny.gguf";
const PATH: &str = "/someone/tiny-GGUF/resolve/main/tiny.gguf";

/// Three hundred thousand bytes that differ from their neighbours.
fn model() -> Vec<u8> {
    (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wanted(pinned: Option<&str>) -> ModelRef {
    ModelRef::parse(NAME, pinned).expect("a name")
}

async fn pull(hub: &HubServer, wanted: &ModelRef, into: &Path) -> herm::Result<PulledModel> {
    Hub::new(Some(&hub.address()), None).expect("a hub").pull(wanted, into, |_, _| {}).await
}

/// What lies in a directory, hidden or not.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Who asked for what, in short.
fn requests(hub: &HubServer) -> Vec<(String, Option<usize>)> {
    hub.asked().into_iter().map(|asked| (format!("{} {}", asked.method, asked.path), asked.from)).collect()
}

/// A hub that keeps large files elsewhere, and the elsewhere.
async fn linked(bytes: Vec<u8>, digest: String) -> (HubServer, HubServer) {
    let size = bytes.len();
    let store = HubServer::start(move |asked| Told::file(&bytes, asked)).await;
    let there = format!("{}/store/blob", store.address());
    (HubServer::start(move |_| Told::linked(&there, &digest, size)).await, store)
}

#[tokio::test]
async fn a_model_comes_whole_and_is_what_the_hub_says_it_is() {
    let bytes = model();
    let (hub, store) = linked(bytes.clone(), sha256(&bytes)).await;
    let work = tempfile::tempdir().expect("a directory");
    let heard = Mutex::new((0, 0));
    let directory = work.path().join("models");
    let client = Hub::new(Some(&hub.address()), None).expect("a hub");
    let progress = |there, all| *heard.lock().expect("not poisoned") = (there, all);
    let pulled = client.pull(&wanted(None), &directory, progress).await.expect("pulled");
    let size = bytes.len() as u64;
    let path = directory.join("tiny.gguf");
    assert_eq!(pulled, PulledModel { path: path.clone(), sha256: sha256(&bytes), bytes: size, fetched: size });
    assert_eq!(std::fs::read(path).expect("there"), bytes);
    assert_eq!(names(&directory), ["tiny.gguf"]);
    assert_eq!(*heard.lock().expect("not poisoned"), (size, size));
    assert_eq!((store.sent(), store.asked().len()), (bytes.len(), 1));
    assert_eq!(requests(&hub), [(format!("HEAD {PATH}"), None), (format!("GET {PATH}"), None)]);
}

#[tokio::test]
async fn a_hub_that_has_the_file_itself_is_believed_by_its_etag() {
    let bytes = model();
    let (served, tag) = (bytes.clone(), format!("\"{}\"", sha256(&bytes)));
    let hub = HubServer::start(move |asked| Told::file(&served, asked).with("etag", &tag)).await;
    let work = tempfile::tempdir().expect("a directory");
    let pulled = pull(&hub, &wanted(None), work.path()).await.expect("pulled");
    assert_eq!((pulled.fetched, hub.sent()), (300_000, 300_000));
}

#[tokio::test]
async fn a_connection_that_breaks_is_taken_up_again_and_no_byte_comes_twice() {
    let bytes = model();
    let served = bytes.clone();
    let store = HubServer::start(move |asked: &Asked| {
        let told = Told::file(&served, asked);
        // Twice in the middle, then to the end.
        match asked.from {
            None => told.cut(100_000),
            Some(100_000) => told.cut(1),
            Some(_) => told,
        }
    })
    .await;
    let (there, digest) = (format!("{}/blob", store.address()), sha256(&bytes));
    let hub = HubServer::start(move |_| Told::linked(&there, &digest, 300_000)).await;
    let work = tempfile::tempdir().expect("a directory");
    let pulled = pull(&hub, &wanted(None), work.path()).await.expect("pulled");
    assert_eq!(pulled.fetched, 300_000);
    assert_eq!(store.sent(), 300_000);
    let from: Vec<_> = store.asked().iter().map(|asked| asked.from).collect();
    assert_eq!(from, [None, Some(100_000), Some(100_001)]);
    assert_eq!(names(work.path()), ["tiny.gguf"]);
}

#[tokio::test]
async fn a_pull_that_was_given_up_is_gone_on_with_by_the_next_one() {
    let bytes = model();
    let (served, tag) = (bytes.clone(), format!("\"{}\"", sha256(&bytes)));
    let times = AtomicUsize::new(0);
    let hub = HubServer::start(move |asked: &Asked| {
        if asked.method == "HEAD" {
            return Told::file(&served, asked).with("etag", &tag);
        }
        match times.fetch_add(1, Ordering::SeqCst) {
            0 => Told::file(&served, asked).with("etag", &tag).cut(70_000),
            1 => Told::status(404),
            _ => Told::file(&served, asked).with("etag", &tag),
        }
    })
    .await;
    let work = tempfile::tempdir().expect("a directory");
    let gone = pull(&hub, &wanted(None), work.path()).await.expect_err("gone in the middle");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert_eq!(names(work.path()), [format!(".{}.part", sha256(&bytes))]);
    let pulled = pull(&hub, &wanted(None), work.path()).await.expect("pulled");
    assert_eq!((pulled.bytes, pulled.fetched, hub.sent()), (300_000, 230_000, 300_000));
}

#[tokio::test]
async fn what_came_of_one_state_is_never_gone_on_with_as_another() {
    let (old, new) = (model(), model().into_iter().rev().collect::<Vec<u8>>());
    let work = tempfile::tempdir().expect("a directory");
    let served = old.clone();
    let times = AtomicUsize::new(0);
    let hub = HubServer::start(move |asked: &Asked| match times.fetch_add(1, Ordering::SeqCst) {
        0 => Told::file(&served, asked).cut(5_000),
        _ => Told::status(404),
    })
    .await;
    pull(&hub, &wanted(Some(&sha256(&old))), work.path()).await.expect_err("gone in the middle");
    // The file changed at the hub in between.
    let (hub, store) = linked(new.clone(), sha256(&new)).await;
    let pulled = pull(&hub, &wanted(None), work.path()).await.expect("pulled");
    assert_eq!((pulled.sha256, pulled.fetched, store.sent()), (sha256(&new), 300_000, 300_000));
    assert_eq!(std::fs::read(work.path().join("tiny.gguf")).expect("there"), new);
}

#[tokio::test]
async fn a_file_that_is_not_what_was_said_is_removed() {
    let bytes = model();
    let (hub, _store) = linked(bytes.clone(), sha256(b"something else")).await;
    let work = tempfile::tempdir().expect("a directory");
    let error = pull(&hub, &wanted(None), work.path()).await.expect_err("another digest");
    let sentence =
        format!("what came of tiny.gguf has the SHA-256 {}, not {}", sha256(&bytes), sha256(b"something else"));
    assert_eq!((error.kind(), error.message()), (ErrorKind::Corrupt, sentence.as_str()));
    assert_eq!(names(work.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_changed_at_the_hub_is_refused_before_it_is_fetched() {
    let bytes = model();
    let (hub, store) = linked(bytes.clone(), sha256(&bytes)).await;
    let work = tempfile::tempdir().expect("a directory");
    let pinned = sha256(b"what it was last week");
    let error = pull(&hub, &wanted(Some(&pinned)), work.path()).await.expect_err("another digest");
    let sentence = format!("tiny.gguf has the SHA-256 {}, not {pinned}", sha256(&bytes));
    assert_eq!((error.kind(), error.message()), (ErrorKind::Refused, sentence.as_str()));
    assert!(error.hint_text().is_some_and(|hint| hint.contains("@REVISION")), "{error:?}");
    assert_eq!((names(work.path()), store.sent()), (vec![], 0));
}

#[tokio::test]
async fn a_hub_that_says_no_digest_is_believed_only_with_a_pinned_one() {
    let bytes = model();
    let served = bytes.clone();
    // The tag of a small file is no digest of its bytes.
    let tag = "\"0123456789abcdef0123456789abcdef01234567\"";
    let hub = HubServer::start(move |asked| Told::file(&served, asked).with("etag", tag)).await;
    let work = tempfile::tempdir().expect("a directory");
    let error = pull(&hub, &wanted(None), work.path()).await.expect_err("no digest");
    assert_eq!(
        (error.kind(), error.message(), error.hint_text()),
        (
            ErrorKind::Refused,
            "the hub does not say the SHA-256 of tiny.gguf",
            Some("say which one it must have with --sha256")
        )
    );
    assert_eq!((names(work.path()), hub.sent()), (vec![], 0));
    let pulled = pull(&hub, &wanted(Some(&sha256(&bytes).to_uppercase())), work.path()).await.expect("pulled");
    assert_eq!(pulled.sha256, sha256(&bytes));
}

#[tokio::test]
async fn what_is_here_already_is_not_fetched_again() {
    let bytes = model();
    let (hub, store) = linked(bytes.clone(), sha256(&bytes)).await;
    let work = tempfile::tempdir().expect("a directory");
    pull(&hub, &wanted(None), work.path()).await.expect("pulled");
    let again = pull(&hub, &wanted(None), work.path()).await.expect("there");
    assert_eq!((again.bytes, again.fetched, store.sent()), (300_000, 0, 300_000));
    // With a pinned digest the hub is not even asked.
    let asked = hub.asked().len();
    let pinned = pull(&hub, &wanted(Some(&sha256(&bytes))), work.path()).await.expect("there");
    assert_eq!((pinned, hub.asked().len()), (again, asked));
}

#[tokio::test]
async fn another_model_of_the_same_name_is_never_replaced() {
    let bytes = model();
    let (hub, store) = linked(bytes.clone(), sha256(&bytes)).await;
    let work = tempfile::tempdir().expect("a directory");
    std::fs::write(work.path().join("tiny.gguf"), b"a model that someone uses").expect("written");
    let error = pull(&hub, &wanted(None), work.path()).await.expect_err("in the way");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().ends_with(&sha256(b"a model that someone uses")), "{error}");
    assert_eq!((names(work.path()), store.sent()), (vec!["tiny.gguf".to_owned()], 0));
}

#[tokio::test]
async fn a_token_goes_to_the_hub_and_to_nobody_it_points_to() {
    let bytes = model();
    let (hub, store) = linked(bytes.clone(), sha256(&bytes)).await;
    let work = tempfile::tempdir().expect("a directory");
    let client = Hub::new(Some(&hub.address()), Some("hf_secret".to_owned().into())).expect("a hub");
    client.pull(&wanted(None), work.path(), |_, _| {}).await.expect("pulled");
    let tokens = |server: &HubServer| server.asked().into_iter().map(|asked| asked.token).collect::<Vec<_>>();
    let token = Some("Bearer hf_secret".to_owned());
    assert_eq!((tokens(&hub), tokens(&store)), (vec![token.clone(), token], vec![None]));
}

#[tokio::test]
async fn plain_http_leaves_this_machine_neither_first_nor_by_a_detour() {
    let bytes = model();
    let digest = sha256(&bytes);
    let work = tempfile::tempdir().expect("a directory");
    let other = HubServer::start(move |asked| Told::file(&bytes, asked)).await;
    // An address that is reached, but is none of those that mean this machine.
    let outside = format!("http://0.0.0.0:{}", other.port());
    let client = Hub::new(Some(&outside), None).expect("a hub");
    let direct = client.pull(&wanted(None), work.path(), |_, _| {}).await.expect_err("plain");
    let said = digest.clone();
    let hub = HubServer::start(move |_| Told::linked(&outside, &said, 300_000)).await;
    let detour = pull(&hub, &wanted(Some(&digest)), work.path()).await.expect_err("plain");
    for error in [direct, detour] {
        assert_eq!((error.kind(), error.message()), (ErrorKind::Refused, "models are fetched over https alone"));
    }
    assert_eq!(other.asked(), []);
}

#[tokio::test]
async fn a_server_that_knows_no_ranges_starts_again_from_the_beginning() {
    let bytes = model();
    let served = bytes.clone();
    let times = AtomicUsize::new(0);
    let hub = HubServer::start(move |asked: &Asked| {
        let told = Told::file(&served, &Asked { from: None, ..asked.clone() });
        if times.fetch_add(1, Ordering::SeqCst) == 0 { told.cut(200_000) } else { told }
    })
    .await;
    let work = tempfile::tempdir().expect("a directory");
    let pulled = pull(&hub, &wanted(Some(&sha256(&bytes))), work.path()).await.expect("pulled");
    assert_eq!((pulled.bytes, pulled.fetched), (300_000, 500_000));
    assert_eq!(std::fs::read(pulled.path).expect("there"), bytes);
}

#[tokio::test]
async fn a_connection_that_brings_nothing_new_is_given_up_on_and_what_came_is_kept() {
    let bytes = model();
    let served = bytes.clone();
    let hub = HubServer::start(move |asked: &Asked| {
        let told = Told::file(&served, asked);
        if asked.from.is_some() { told.cut(0) } else { told.cut(1_000) }
    })
    .await;
    let work = tempfile::tempdir().expect("a directory");
    let error = pull(&hub, &wanted(Some(&sha256(&bytes))), work.path()).await.expect_err("always cut");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.hint_text(), Some("try again: it goes on where it stopped"));
    assert_eq!((hub.sent(), hub.asked().len()), (1_000, 7));
    assert_eq!(names(work.path()), [format!(".{}.part", sha256(&bytes))]);
}

#[tokio::test]
async fn a_part_that_is_too_long_is_thrown_away() {
    let bytes = model();
    let digest = sha256(&bytes);
    let (hub, _store) = linked(bytes.clone(), digest.clone()).await;
    let work = tempfile::tempdir().expect("a directory");
    let part = work.path().join(format!(".{digest}.part"));
    // All of it, but the process ended before it was put in place.
    std::fs::write(&part, &bytes).expect("written");
    let pulled = pull(&hub, &wanted(None), work.path()).await.expect("there");
    assert_eq!((pulled.bytes, pulled.fetched), (300_000, 0));
    std::fs::remove_file(pulled.path).expect("removed");
    std::fs::write(&part, [&bytes[..], b"more"].concat()).expect("written");
    let error = pull(&hub, &wanted(None), work.path()).await.expect_err("too long");
    assert_eq!((error.kind(), names(work.path())), (ErrorKind::Corrupt, vec![]));
}

#[tokio::test]
async fn a_hub_that_says_no_is_understood() {
    let work = tempfile::tempdir().expect("a directory");
    for (status, kind, sentence) in [
        (404, ErrorKind::NotFound, "127.0.0.1 has no such model"),
        (401, ErrorKind::Refused, "127.0.0.1 does not give this model to anyone"),
        (403, ErrorKind::Refused, "127.0.0.1 does not give this model to anyone"),
        (503, ErrorKind::Unavailable, "127.0.0.1 answers 503 Service Unavailable"),
        (302, ErrorKind::Unavailable, "127.0.0.1 points nowhere"),
    ] {
        let hub = HubServer::start(move |_| Told::status(status)).await;
        let error = pull(&hub, &wanted(None), work.path()).await.expect_err("no");
        assert_eq!((error.kind(), error.message()), (kind, sentence));
    }
    let ring = HubServer::start(|_| Told::status(302).with("location", "/round")).await;
    let error = pull(&ring, &wanted(None), work.path()).await.expect_err("a ring");
    assert_eq!((error.message(), ring.asked().len()), ("the hub points from place to place", 6));
    let silent = Hub::new(Some("http://127.0.0.1:1"), None).expect("a hub");
    let error = silent.pull(&wanted(None), work.path(), |_, _| {}).await.expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().starts_with("127.0.0.1 does not answer: Connection refused"), "{error}");
    assert_eq!(names(work.path()), Vec::<String>::new());
}
