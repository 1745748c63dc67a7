//! Walrus and ENS, against servers that speak their documented wire formats.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use herm::ErrorKind;
use herm::snapshot::pointer::{EnsPointer, EnsSettings, HeadRef, Pointer as _, check_pointer, record_key};
use herm::snapshot::store::{LocalStore, ObjectName, Store, WalrusSettings, WalrusStore};
use herm_tests::command::Herm;
use herm_tests::web_server::{Asked, serve};
use herm_tests::{ManualClock, TempBrains};
use serde_json::{Value, json};

use super::{grown, how, id, key, step, vault, vault_of};

/// A publisher and an aggregator in one. A blob's first read does not find it, as it happens.
#[derive(Debug, Default)]
struct Blobs {
    blobs: HashMap<String, Vec<u8>>,
    read: HashMap<String, u64>,
    epoch: u64,
    asked: Vec<String>,
}

fn walrus(state: Arc<Mutex<Blobs>>) -> impl Fn(Asked) -> (u16, Vec<u8>) {
    move |asked| {
        let mut state = state.lock().unwrap();
        state.asked.push(format!("{} {}", asked.method, asked.path));
        match asked.method.as_str() {
            "PUT" if asked.body.len() > 10 << 20 => (413, Vec::new()),
            "PUT" => {
                let epochs: u64 =
                    asked.path.split("epochs=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap();
                let blob = format!("b{}", &herm::Digest::of(&asked.body).to_string()[..40]);
                let end = state.epoch + epochs;
                let is_known = state.blobs.insert(blob.clone(), asked.body).is_some();
                let reply = match is_known {
                    true => json!({ "alreadyCertified": { "blobId": blob, "endEpoch": end } }),
                    false => json!({ "newlyCreated": { "blobObject": {
                        "blobId": blob, "storage": { "startEpoch": state.epoch, "endEpoch": end } } } }),
                };
                (200, reply.to_string().into_bytes())
            }
            _ => {
                let blob = asked.path.rsplit('/').next().unwrap().to_owned();
                let reads = state.read.entry(blob.clone()).or_default();
                *reads += 1;
                match state.blobs.get(&blob).filter(|_| state.read[&blob] > 1) {
                    Some(content) => (200, content.clone()),
                    None => (404, Vec::new()),
                }
            }
        }
    }
}

async fn walrus_store(state: &Arc<Mutex<Blobs>>, dir: &std::path::Path, clock: &Arc<ManualClock>) -> WalrusStore {
    let address = serve(Arc::new(walrus(Arc::clone(state)))).await;
    // The first of each is one that nobody listens at.
    let nobody = "http://127.0.0.1:1".to_owned();
    let servers = vec![nobody, address];
    let settings = WalrusSettings {
        epochs: 5,
        pause: std::time::Duration::from_millis(1),
        ..WalrusSettings::new(servers.clone(), servers)
    };
    WalrusStore::open(settings, Arc::new(LocalStore::open(dir).unwrap()), clock.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_brain_goes_to_walrus_comes_back_and_is_renewed_before_it_expires() {
    let (here, there, dir) = (TempBrains::new(), TempBrains::new(), tempfile::tempdir().unwrap());
    let mut brain = grown(&here, "7", 60);
    let state = Arc::new(Mutex::new(Blobs { epoch: 10, ..Blobs::default() }));
    let store = Arc::new(walrus_store(&state, dir.path(), &here.clock).await);
    let vault = vault_of(store.clone(), key(1), "the test");
    vault.push(&here.layout(), &id("7")).await.unwrap();
    step(&mut brain, 100);
    vault.push(&here.layout(), &id("7")).await.unwrap();
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(there.open("7").unwrap().lock(), brain.lock());
    let puts = |state: &Arc<Mutex<Blobs>>| {
        state.lock().unwrap().asked.iter().filter(|asked| asked.starts_with("PUT")).count() as u64
    };
    assert!(state.lock().unwrap().asked.iter().any(|asked| asked.contains("epochs=5&permanent=true")));

    // Five epochs of fourteen days: nothing is due until half of that is over.
    let all = ObjectName::new("brains/7").unwrap();
    let put = puts(&state);
    here.clock.advance_ms(30 * 86_400_000);
    assert_eq!(store.renew(&all).await.unwrap(), 0);
    here.clock.advance_ms(6 * 86_400_000);
    let renewed = store.renew(&all).await.unwrap();
    assert!(renewed > 3 && puts(&state) == put + renewed, "{renewed}");
    assert_eq!(store.renew(&all).await.unwrap(), 0, "once is enough");
    vault.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap();

    // What is not what was put is noticed by its digest, and what is gone is said to be gone.
    state.lock().unwrap().blobs.values_mut().for_each(|blob| blob[0] ^= 1);
    let error = vault.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("is not what was put there"), "{error}");
    state.lock().unwrap().blobs.clear();
    let error = vault.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("it may have run out"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_walrus_refuses_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let index: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path()).unwrap());
    let name = ObjectName::new("brains/7/chunk/0/a").unwrap();
    let answers = [
        (413, ErrorKind::Refused, "takes no blob of 3 bytes"),
        (402, ErrorKind::Refused, "answers 402"),
        (503, ErrorKind::Unavailable, "answers 503"),
        (200, ErrorKind::Corrupt, "does not say which blob"),
    ];
    for (status, kind, said) in answers {
        let address = serve(Arc::new(move |_| (status, b"{}".to_vec()))).await;
        let settings = WalrusSettings {
            pause: std::time::Duration::from_millis(1),
            ..WalrusSettings::new(vec![address.clone()], vec![address])
        };
        let store = WalrusStore::open(settings, Arc::clone(&index), Arc::new(ManualClock::new())).unwrap();
        let error = store.put(&name, b"abc".to_vec()).await.unwrap_err();
        assert!(error.kind() == kind && error.message().contains(said), "{status}: {error}");
        assert!(error.hint_text().is_some());
        assert_eq!(store.get(&name, 10).await.unwrap(), None, "nothing is said to be there");
    }
    for bad in [WalrusSettings::new(vec![], vec![]), WalrusSettings::new(vec!["ftp://x".into()], vec!["x".into()])] {
        assert!(WalrusStore::open(bad, Arc::clone(&index), Arc::new(ManualClock::new())).is_err());
    }
}

const REGISTRY: &str = "0x00000000000c2e074ec69a0dfb2997ba6c7d2e1e";
const RESOLVER: &str = "00000000000000000000000000000000000000aa";
/// The nodes of foo.eth and of eth.
const FOO: &str = "de9b09fd7c5f901e23a3f19fecc54828e9c848539801e86591bd9801b019f84f";
const ETH: &str = "93cdeb708b7545dc668eb9280176169d1c33cfd8ed6f04690a0bcc88a93fc4ae";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let text = text.trim_start_matches("0x");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Bytes as the ABI has them: their length, and then them, padded.
fn padded(bytes: &[u8]) -> String {
    let mut text = format!("{:064x}{}", bytes.len(), hex(bytes));
    text.push_str(&"0".repeat((64 - text.len() % 64) % 64));
    text
}

fn returned(bytes: &[u8]) -> String {
    format!("{:064x}{}", 32, padded(bytes))
}

/// What kind of resolver a name has.
#[derive(Debug, Clone)]
enum Resolver {
    /// One of its own that keeps the records.
    Own,
    /// A wildcard one of its parent (ENSIP-10), which also keeps them.
    Wildcard,
    /// One that sends the reader on to a gateway (EIP-3668).
    Offchain(String),
}

type Records = Arc<Mutex<HashMap<String, String>>>;

/// A node with one name, its resolver, and the records of that.
fn ethereum(resolver: Resolver, records: Records) -> impl Fn(Asked) -> (u16, Vec<u8>) {
    let text = move |data: &[u8]| {
        assert_eq!((hex(&data[..4]).as_str(), hex(&data[4..36])), ("59d1d43c", FOO.to_owned()));
        let length = usize::from(data[99]);
        let key = String::from_utf8(data[100..100 + length].to_vec()).unwrap();
        returned(records.lock().unwrap().get(&key).cloned().unwrap_or_default().as_bytes())
    };
    move |asked| {
        let request: Value = serde_json::from_slice(&asked.body).unwrap();
        assert_eq!((&request["method"], &request["params"][1]), (&"eth_call".into(), &"latest".into()));
        let to = request["params"][0]["to"].as_str().unwrap().to_owned();
        let data = unhex(request["params"][0]["data"].as_str().unwrap());
        let answer = |result: String| json!({ "jsonrpc": "2.0", "id": 1, "result": format!("0x{result}") });
        let revert = |data: String| {
            json!({ "jsonrpc": "2.0", "id": 1,
            "error": { "code": 3, "message": "execution reverted", "data": format!("0x{data}") } })
        };
        let reply = match hex(&data[..4]).as_str() {
            "0178b8bf" => {
                assert_eq!(to, REGISTRY);
                let node = hex(&data[4..36]);
                let known = match resolver {
                    Resolver::Wildcard => node == ETH,
                    _ => node == FOO,
                };
                answer(if known { format!("{}{RESOLVER}", "0".repeat(24)) } else { "0".repeat(64) })
            }
            "01ffc9a7" => match resolver {
                Resolver::Wildcard => answer(format!("{:064x}", 1)),
                // An old resolver does not know the question.
                _ => revert(String::new()),
            },
            "9061b923" => {
                let at = |place: usize| usize::from(data[place]) + 256 * usize::from(data[place - 1]);
                let call = 4 + at(4 + 63);
                let inner = data[call + 32..call + 32 + at(call + 31)].to_vec();
                let name = 4 + at(4 + 31);
                assert_eq!(&data[name + 32..name + 41], b"\x03foo\x03eth\x00");
                answer(returned(&unhex(&text(&inner))))
            }
            "59d1d43c" => match &resolver {
                Resolver::Offchain(gateway) => {
                    let template = format!("{gateway}/{{sender}}/{{data}}.json");
                    let urls = format!("{:064x}{:064x}{}", 1, 32, padded(template.as_bytes()));
                    let (calldata, extra) = (padded(&data), padded(b"extra"));
                    let first = 5 * 32;
                    let second = first + urls.len() / 2;
                    let third = second + calldata.len() / 2;
                    revert(format!(
                        "556f1830{}{RESOLVER}{first:064x}{second:064x}{:0<64}{third:064x}{urls}{calldata}{extra}",
                        "0".repeat(24),
                        "aabbccdd"
                    ))
                }
                _ => answer(text(&data)),
            },
            // What the gateway gave is handed to the callback, which gives it back.
            "aabbccdd" => {
                let length = usize::from(data[4 + 64 + 31]) + 256 * usize::from(data[4 + 64 + 30]);
                answer(hex(&data[4 + 96..4 + 96 + length]))
            }
            other => panic!("{other}"),
        };
        (200, reply.to_string().into_bytes())
    }
}

fn ens(rpc: &str, name: &str, gateways: &[&str]) -> herm::Result<EnsPointer> {
    EnsPointer::new(EnsSettings {
        rpc: rpc.to_owned(),
        name: name.to_owned(),
        registry: None,
        gateways: gateways.iter().map(|&host| host.to_owned()).collect(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_in_ens_tells_a_fresh_machine_that_a_store_was_taken_back() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 3);
    let (store, vault) = vault();
    let old = vault.push(&here.layout(), &id("7")).await.unwrap().head;
    step(&mut brain, 4);
    let new = vault.push(&here.layout(), &id("7")).await.unwrap().head;
    let records = Records::default();
    let address = serve(Arc::new(ethereum(Resolver::Own, Arc::clone(&records)))).await;
    let ens = ens(&address, "foo.eth", &[]).unwrap();
    let agrees = async || check_pointer(&*store, &ens, &id("7")).await;
    assert_eq!(agrees().await.unwrap(), None, "nothing is said");
    // What the operator writes is what is printed. A record that is behind is fine; the store went on from it.
    let write = |pointed: &HeadRef| {
        let (key, value) = ens.record(&id("7"), pointed);
        records.lock().unwrap().insert(key, value);
    };
    for head in [&old, &new] {
        write(&HeadRef::to(head).unwrap());
        assert_eq!(agrees().await.unwrap(), Some(2));
    }
    // A store that ends before the record was taken back, and one with another head of that number was forked.
    write(&HeadRef { number: 3, ..HeadRef::to(&new).unwrap() });
    let error = agrees().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Refused && error.message().contains("the store ends at 2"), "{error}");
    // And nothing is restored from it.
    let guarded = vault_of(store.clone(), key(1), "the test")
        .with_pointer(Arc::new(self::ens(&address, "foo.eth", &[]).unwrap()));
    let refused = guarded.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    write(&HeadRef { number: 1, ..HeadRef::to(&new).unwrap() });
    assert!(agrees().await.unwrap_err().message().contains("another one"));
    write(&HeadRef::to(&new).unwrap());
    guarded.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap();
    records.lock().unwrap().insert(record_key(&id("7")), "gibberish".to_owned());
    assert_eq!(agrees().await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wildcard_resolvers_and_gateways_are_followed_as_far_as_the_operator_allows() {
    let pointed = HeadRef { number: 5, digest: herm::Digest::of(b"head") };
    let records = Records::default();
    records.lock().unwrap().insert(record_key(&id("7")), pointed.to_string());
    let wild = serve(Arc::new(ethereum(Resolver::Wildcard, Arc::clone(&records)))).await;
    assert_eq!(ens(&wild, "foo.eth", &[]).unwrap().head_ref(&id("7")).await.unwrap(), Some(pointed));
    // The gateway answers with what the callback will give back: an encoded text.
    let value = pointed.to_string();
    let gateway = serve(Arc::new(move |asked: Asked| {
        assert!(asked.method == "GET" && asked.path.starts_with(&format!("/0x{RESOLVER}/0x59d1d43c")), "{asked:?}");
        (200, json!({ "data": format!("0x{}", returned(value.as_bytes())) }).to_string().into_bytes())
    }))
    .await;
    let node = serve(Arc::new(ethereum(Resolver::Offchain(gateway), records))).await;
    assert_eq!(ens(&node, "foo.eth", &["127.0.0.1"]).unwrap().head_ref(&id("7")).await.unwrap(), Some(pointed));
    // A gateway that nobody named is not asked: its address is anyone's text.
    let error = ens(&node, "foo.eth", &["example.org"]).unwrap().head_ref(&id("7")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Refused && error.message().contains("127.0.0.1"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_nodes_that_are_none_are_told() {
    let records = Records::default();
    let node = serve(Arc::new(ethereum(Resolver::Own, records))).await;
    assert_eq!(ens(&node, "bar.eth", &[]).unwrap().head_ref(&id("7")).await.unwrap(), None);
    for bad in ["", "eth", "Foo.eth", "foo..eth", "f\u{f6}o.eth", "foo.eth/x"] {
        assert_eq!(ens(&node, bad, &[]).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
    }
    for (status, body) in [(200, "<html>"), (200, "{\"error\":{\"code\":-32000,\"message\":\"busy\"}}"), (500, "")] {
        let node = serve(Arc::new(move |_| (status, body.as_bytes().to_vec()))).await;
        let error = ens(&node, "foo.eth", &[]).unwrap().head_ref(&id("7")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{body}");
    }
    let lying = serve(Arc::new(|_| (200, b"{\"result\":\"0x1234\"}".to_vec()))).await;
    assert_eq!(ens(&lying, "foo.eth", &[]).unwrap().head_ref(&id("7")).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_says_which_record_to_write_and_reads_it_back() {
    let here = TempBrains::new();
    grown(&here, "7", 3).close().unwrap();
    let records = Records::default();
    let node = serve(Arc::new(ethereum(Resolver::Own, Arc::clone(&records)))).await;
    let config = here.path().join("herm.toml");
    std::fs::write(
        &config,
        format!("[snapshot]\nplaintext = true\n[snapshot.ens]\nname = \"foo.eth\"\nrpc = \"{node}\"\n"),
    )
    .unwrap();
    let herm = Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), &here.path());
    let run = move |arguments: &[&str]| {
        let mut all = vec!["--config", config.to_str().unwrap()];
        all.extend(arguments);
        herm.json(&all)
    };
    tokio::task::spawn_blocking(move || {
        assert_eq!(run(&["snapshot", "pointer", "7"]).0, 4, "there is no snapshot yet");
        assert_eq!(run(&["snapshot", "create", "7"]).0, 0);
        let (code, told) = run(&["snapshot", "pointer", "7"]);
        assert_eq!((code, &told["said"], &told["record"]["key"]), (0, &Value::Null, &json!("org.herm.head.7")));
        let value = told["record"]["value"].as_str().unwrap().to_owned();
        records.lock().unwrap().insert("org.herm.head.7".to_owned(), value.clone());
        let (code, told) = run(&["snapshot", "pointer", "7"]);
        assert_eq!((code, told["said"].as_str()), (0, Some(value.as_str())));
        records.lock().unwrap().insert("org.herm.head.7".to_owned(), value.replacen(" 1 ", " 9 ", 1));
        let (code, told) = run(&["snapshot", "pointer", "7"]);
        assert_eq!((code, told["agrees"].as_bool()), (1, Some(false)));
    })
    .await
    .unwrap();
}

/// Makes a directory as empty as on the first day.
fn wipe(dir: &std::path::Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_operator_with_a_wiped_index_restores_from_the_pointer_alone() {
    let (here, there, dir) = (TempBrains::new(), TempBrains::new(), tempfile::tempdir().unwrap());
    let mut brain = grown(&here, "7", 60);
    let blobs = Arc::new(Mutex::new(Blobs { epoch: 10, ..Blobs::default() }));
    let records = Records::default();
    let node = serve(Arc::new(ethereum(Resolver::Own, Arc::clone(&records)))).await;
    let store = Arc::new(walrus_store(&blobs, dir.path(), &here.clock).await);
    let vault = |secrecy| {
        vault_of(store.clone(), secrecy, "the test").with_pointer(Arc::new(ens(&node, "foo.eth", &[]).unwrap()))
    };
    assert_eq!(vault(key(1)).pointer_record(&id("7")).await.unwrap(), None, "there is no snapshot yet");
    vault(key(1)).push(&here.layout(), &id("7")).await.unwrap();
    step(&mut brain, 61);
    vault(key(1)).push(&here.layout(), &id("7")).await.unwrap();
    let record = vault(key(1)).pointer_record(&id("7")).await.unwrap().unwrap();
    assert!(record.catalog.is_some() && record.pointed.number == 2);
    assert_eq!(
        vault(key(1)).pointer_record(&id("7")).await.unwrap().unwrap(),
        record,
        "the same snapshot, the same catalog"
    );
    let write = |value: String| records.lock().unwrap().insert(record_key(&id("7")), value);
    write(record.to_string());

    wipe(dir.path());
    let restored = vault(key(1)).restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(restored.head.number, 2);
    let mut again = there.open("7").unwrap();
    assert_eq!(again.lock(), brain.lock());

    // It goes on from there: the next snapshot follows, all of it is sound, and the key can be changed.
    step(&mut again, 62);
    let pushed = vault(key(1)).push(&there.layout(), &id("7")).await.unwrap();
    assert_eq!((pushed.head.number, pushed.head.previous), (3, Some(record.pointed.digest)));
    let verified = vault(key(1)).verify(&there.layout(), &id("7"), &super::verifying()).await.unwrap();
    assert_eq!((verified.findings.len(), verified.snapshots), (0, 2), "{verified:?}");
    let herm::snapshot::Encryption::Key(new) = key(2) else { panic!("a key") };
    vault(key(1)).rewrap(&id("7"), &new).await.unwrap();

    // An operator that remembers gets its index back too.
    wipe(dir.path());
    let error = vault(key(1)).restore(&there.layout(), &id("7"), &how()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "the record is behind what this machine has seen: {error}");
    vault(key(1)).restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap();

    // Another key opens no catalog, and another blob is none.
    wipe(dir.path());
    let error = vault(key(3)).restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("the catalog of brain 7"), "{error}");
    let catalog = record.catalog.clone().unwrap();
    let other = herm::snapshot::pointer::CatalogRef { blake3: herm::Digest::of(b"other"), ..catalog.clone() };
    write(herm::snapshot::pointer::PointerRecord { catalog: Some(other), ..record.clone() }.to_string());
    let error = vault(key(1)).restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.message().contains("another digest"), "{error}");
    write(
        HeadRef { digest: herm::Digest::of(b"x"), ..record.pointed }.to_string()
            + &format!(" catalog={} blake3={}", catalog.address, catalog.blake3),
    );
    let error = vault(key(1)).restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.message().contains("does not hold the head"), "{error}");

    // A record without a catalog says as before that the store has less than it says.
    write(record.pointed.to_string());
    let error = vault(key(1)).restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Refused && error.message().contains("the store has none"), "{error}");

    // Nothing a stranger reads in the blobs names a file, a skill or the operator.
    write(record.to_string());
    vault(key(1)).restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap();
    for blob in blobs.lock().unwrap().blobs.values() {
        let text = String::from_utf8_lossy(blob);
        assert!(!text.contains("the test") && !text.contains("wrappedBy") && !text.contains("skill-"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_restores_from_walrus_and_ens_with_nothing_but_its_keys() {
    let here = TempBrains::new();
    grown(&here, "7", 5).close().unwrap();
    let blobs = Arc::new(Mutex::new(Blobs::default()));
    let walrus = serve(Arc::new(walrus(Arc::clone(&blobs)))).await;
    let records = Records::default();
    let node = serve(Arc::new(ethereum(Resolver::Own, Arc::clone(&records)))).await;
    let place = tempfile::tempdir().unwrap();
    let (config, index) = (place.path().join("herm.toml"), place.path().join("index"));
    let written = format!(
        "[snapshot]\nstore = \"file://{}\"\nkey = \"{}\"\ntrust = [\"{}\"]\n\
         [snapshot.walrus]\npublishers = [\"{walrus}\"]\naggregators = [\"{walrus}\"]\n\
         [snapshot.ens]\nname = \"foo.eth\"\nrpc = \"{node}\"\n",
        index.display(),
        place.path().join("snapshot.key").display(),
        herm_tests::signer().public(),
    );
    std::fs::write(&config, written).unwrap();
    let brains = here.path().to_owned();
    let run = move |brains: &std::path::Path, arguments: &[&str]| {
        let mut all = vec!["--config", config.to_str().unwrap()];
        all.extend(arguments);
        Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), brains).json(&all)
    };
    tokio::task::spawn_blocking(move || {
        assert_eq!(run(&brains, &["snapshot", "key", "--create"]).0, 0);
        let created = run(&brains, &["snapshot", "create", "7"]);
        assert_eq!(created.0, 0, "{created:?}");
        let (code, told) = run(&brains, &["snapshot", "pointer", "7"]);
        assert_eq!(code, 0, "{told:#}");
        let value = told["record"]["value"].as_str().unwrap().to_owned();
        assert!(value.contains(" catalog=walrus:"), "{value}");
        records.lock().unwrap().insert(record_key(&id("7")), value);
        std::fs::remove_dir_all(&index).unwrap();
        let fresh = place.path().join("fresh");
        let (code, restored) = run(&fresh, &["restore", "7"]);
        assert_eq!(code, 0, "{restored:#}");
        assert!(index.join("brains/7").is_dir());
    })
    .await
    .unwrap();
}
