//! Things of the host that are really there, for probes to reach for; and the spec of a sandbox among them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use herm_sandbox::{
    Bind, OutputMode, SandboxExit, SandboxLease, SandboxProgram, SandboxSpec, SpawnError, StdinMode, spawn,
};
use tempfile::TempDir;

use crate::harness::SECRET;
use crate::probes::Targets;
use crate::sys::{arguments, call, text};

pub struct Ground {
    pub directory: TempDir,
    pub targets: Targets,
    memory: i64,
    queue: i64,
    _held: (TcpListener, TcpListener, UnixListener, UnixListener, OwnedFd),
}

pub fn leases(directory: &Path) -> PathBuf {
    directory.join("leases")
}

impl Ground {
    pub fn new() -> Self {
        // Not in /tmp: that is a directory of the sandbox as well.
        let directory = tempfile::Builder::new().prefix("herm-suite-").tempdir_in("/var/tmp").unwrap();
        let top = directory.path().to_owned();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        let secret_text = std::env::var(SECRET).unwrap_or_else(|_| "secret-of-the-host".into());
        let file = |name: &str, mode| {
            let path = top.join(name);
            fs::write(&path, &secret_text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let secret = file("secret", 0o600);
        let readable = file("readable", 0o644);
        file("bound", 0o644);
        let open_directory = top.join("open");
        fs::create_dir(&open_directory).unwrap();
        fs::set_permissions(&open_directory, fs::Permissions::from_mode(0o777)).unwrap();

        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let listener6 = TcpListener::bind("[::1]:0").unwrap();
        let socket = top.join("socket");
        let pathname = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        let abstract_socket = format!("herm-suite-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_socket).unwrap();
        let hidden = UnixListener::bind_addr(&address).unwrap();

        // A descriptor that is left open by mistake.
        let mistake: OwnedFd = fs::File::open(&secret).unwrap().into();
        rustix::io::fcntl_setfd(&mistake, rustix::io::FdFlags::empty()).unwrap();

        let memory_key = 0x4e72_0000 + (std::process::id() & 0xffff) as i32;
        let created = (libc::IPC_CREAT | 0o666) as usize;
        let memory = call(libc::SYS_shmget, arguments(&[memory_key as usize, 4096, created])).unwrap();
        let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
        let queue = call(libc::SYS_mq_open, arguments(&[text(c"herm-probe"), flags, 0o666, 0])).unwrap();
        let _ = call(libc::SYS_fchmod, arguments(&[queue as usize, 0o666]));

        let targets = Targets {
            open_directory,
            secret,
            readable,
            secret_text,
            bound: "/given/bound".into(),
            socket,
            abstract_socket,
            port: listener.local_addr().unwrap().port(),
            port6: listener6.local_addr().unwrap().port(),
            datagrams: answer_datagrams(),
            address: own_address(),
            parent: std::process::id() as i32,
            memory_key,
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            home: "/root".into(),
        };
        Self { directory, targets, memory, queue, _held: (listener, listener6, pathname, hidden, mistake) }
    }

    /// The same targets, with what is bound at its place on the host.
    pub fn targets_on_the_host(&self) -> Targets {
        Targets { bound: self.directory.path().join("bound"), ..self.targets.clone() }
    }

    pub fn lease(&self) -> SandboxLease {
        SandboxLease::take(leases(self.directory.path())).unwrap()
    }

    /// This binary, inside, with the system's programs and one file of the host.
    pub fn spec(&self, lease: &SandboxLease, arguments: &[&str]) -> SandboxSpec {
        let mut spec = SandboxSpec::new(SandboxProgram::CurrentExe, lease);
        spec.args = ["inside"].iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        spec.binds = Bind::system();
        spec.binds.push(Bind::at(self.directory.path().join("bound"), "/given/bound"));
        spec.stdin = StdinMode::Piped;
        spec.stdout = OutputMode::Piped;
        spec.stderr = OutputMode::Piped;
        spec
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let remove = libc::IPC_RMID as usize;
        let _ = call(libc::SYS_shmctl, arguments(&[self.memory as usize, remove, 0]));
        let _ = call(libc::SYS_close, arguments(&[self.queue as usize]));
        let _ = call(libc::SYS_mq_unlink, arguments(&[text(c"herm-probe")]));
    }
}

/// What a finished program said.
pub struct Finished {
    pub ending: SandboxExit,
    pub output: String,
    pub errors: String,
}

/// Runs a spec with piped streams to its end.
pub fn finish(spec: SandboxSpec, input: &str) -> Result<Finished, SpawnError> {
    let mut running = spawn(spec)?;
    if let Some(mut stdin) = running.stdin.take() {
        // A program that does not read is free not to.
        let _ = stdin.write_all(input.as_bytes());
    }
    let stderr = running.stderr.take();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            stderr.read_to_end(&mut text).unwrap();
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut output = Vec::new();
    if let Some(mut stdout) = running.stdout.take() {
        stdout.read_to_end(&mut output).unwrap();
    }
    let ending = running.wait();
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(Finished { ending, output, errors: errors.join().unwrap() })
}

fn answer_datagrams() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((count, sender)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..count], sender);
        }
    });
    port
}

/// The address by which others would reach this machine. Nothing is sent to find it.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}
