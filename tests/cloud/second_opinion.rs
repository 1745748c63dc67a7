//! Another server's view of the same protocol: moto, one request at a time.
//!
//! ```console
//! $ python3 -m venv target/python && target/python/bin/pip install 'moto[server]'
//! $ cargo test -p herm-tests --features cloud --test cloud second_opinion
//! ```

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use herm::ids::SystemRandom;
use herm::snapshot::store::{CloudStore, CreateOutcome, ObjectName, claim, probe};

/// Answers one request after the other, for with threads it looks first and writes then.
const SERVER: &str = "
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server('127.0.0.1', 0, DomainDispatcherApplication(create_backend_app), threaded=False)
s3_backends[DEFAULT_ACCOUNT_ID]['aws'].create_bucket('herm', 'us-east-1')
print(server.server_port, flush=True)
server.serve_forever()
";

struct Moto {
    process: Child,
    address: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/bin/python3");
    let has_moto = Command::new(&python).args(["-c", "import moto.server"]).output();
    has_moto.is_ok_and(|run| run.status.success()).then_some(python)
}

impl Moto {
    fn start() -> Option<Self> {
        use std::io::BufRead as _;
        let Some(python) = python() else {
            // Never installed by `.ci/run`, so not a failure there.
            let test = "snapshots against moto, another server of the S3 protocol";
            let get = "python3 -m venv target/python && target/python/bin/pip install 'moto[server]'";
            herm_untested::left_out(test, "Python with moto", get);
            return None;
        };
        let mut process = Command::new(python)
            .args(["-c", SERVER])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto starts");
        let mut port = String::new();
        std::io::BufReader::new(process.stdout.take().expect("its words")).read_line(&mut port).expect("a port");
        Some(Self { process, address: format!("http://127.0.0.1:{}", port.trim()) })
    }

    fn store(&self, prefix: &str) -> Arc<CloudStore> {
        let options = [
            ("aws_endpoint", self.address.as_str()),
            ("aws_access_key_id", "AKIATEST"),
            ("aws_secret_access_key", "secretsecret"),
            ("aws_region", "us-east-1"),
            ("aws_allow_http", "true"),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Arc::new(CloudStore::open(&format!("s3://herm/{prefix}"), options).expect("a store"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_another_server_too_exactly_one_of_sixteen_writers_wins() {
    let Some(moto) = Moto::start() else { return };
    probe(&*moto.store("probed"), &SystemRandom).await.unwrap();
    let stores: Vec<_> = (0..16).map(|_| moto.store("race")).collect();
    for round in 0..20 {
        let name = ObjectName::new(format!("head/{round:020}")).unwrap();
        let racing: Vec<_> = stores
            .iter()
            .cloned()
            .enumerate()
            .map(|(writer, store)| {
                let name = name.clone();
                tokio::spawn(async move { claim(&*store, &name, format!("writer {writer}").as_bytes()).await })
            })
            .collect();
        let mut winners = 0;
        for ended in racing {
            winners += usize::from(ended.await.unwrap().unwrap() == CreateOutcome::Yes);
        }
        assert_eq!(winners, 1, "round {round}");
    }
}
