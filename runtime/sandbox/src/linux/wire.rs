//! What the parent and the stages say to each other, over sockets that keep messages apart.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::report::{LayerReport, ProbeResult, Tier};
use crate::spec::{Bind, SandboxLayers};

/// Everything a stage needs to know. It comes through an unnamed file, never through arguments or environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) tier: Tier,
    pub(crate) layers: SandboxLayers,
    /// The program's path inside.
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) binds: Vec<Bind>,
    pub(crate) work: PathBuf,
    /// The user and group that the sandbox runs as, if the caller may choose.
    pub(crate) user: Option<u32>,
    pub(crate) rlimits: Rlimits,
    /// The processors it may use.
    pub(crate) processors: Vec<usize>,
    pub(crate) bubblewrap: Option<PathBuf>,
    pub(crate) canary: CanaryTargets,
}

/// Limits that the kernel holds for each process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    pub(crate) file_size: u64,
    /// Only where no control group bounds memory.
    pub(crate) data: Option<u64>,
    pub(crate) processes: u64,
    /// The size of `/tmp`.
    pub(crate) temporary: u64,
}

/// Things of the host that really exist, which the canary must not reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CanaryTargets {
    /// A port of the host's loopback on which the parent listens.
    pub(crate) port: u16,
    /// An abstract socket on which the parent listens.
    pub(crate) abstract_name: String,
    /// A file of the host.
    pub(crate) file: PathBuf,
    /// The name that the host calls itself, which must not be visible inside.
    pub(crate) host_name: String,
    /// The device and number of the host's root.
    pub(crate) root: (u64, u64),
    /// The parent's own namespaces, by kind.
    pub(crate) namespaces: Vec<(String, PathBuf)>,
}

/// From a stage to the parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum StageMessage {
    /// The init of the sandbox is there. The kernel tells the parent who it is.
    Hello,
    /// How the layers stand; comes with a descriptor of the sandbox's own `/proc` and of its `/tmp`.
    Built(Vec<LayerReport>),
    /// What the canary found. The program waits for `Go`.
    Canary(Vec<ProbeResult>),
    /// A step failed. If `unavailable`, this machine does not let us.
    Failed { step: String, why: String, unavailable: bool },
    /// The program ended, with the status as `wait` tells it.
    Ended(i32),
    /// Every process inside is stopped.
    Stopped,
}

/// From the parent to a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ParentMessage {
    /// Start the program, once the canary's results are accepted.
    Go,
    /// Stop every process, and say so.
    Stop,
    /// Let them run again.
    Continue,
}

/// The largest message: the canary's results are the longest.
const LARGEST: usize = 64 * 1024;
/// The most descriptors in a message.
const MOST_DESCRIPTORS: usize = 8;

/// One end of a conversation.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    socket: OwnedFd,
}

/// A message that came.
pub(crate) struct ReceivedMessage<T> {
    pub(crate) message: T,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Who sent it, as the kernel says, if this end asked for it.
    pub(crate) sender: Option<Sender>,
}

/// A process and its user, as the receiver of its message sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) pid: i32,
    pub(crate) user: u32,
}

impl ControlSocket {
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    pub(crate) fn on(socket: OwnedFd) -> Self {
        Self { socket }
    }

    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// From now on every message that comes tells who sent it.
    pub(crate) fn enable_peer_credentials(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_passcred(&self.socket, true)?)
    }

    pub(crate) fn send<T: Serialize>(&self, message: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("more descriptors than a message holds"));
        }
        loop {
            match sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The next message, or `None` when the other end is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<ReceivedMessage<T>>> {
        let mut bytes = vec![0; LARGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS), ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(error.into()),
                Ok(received) => break received.bytes,
            }
        };
        if received == 0 {
            return Ok(None);
        }
        let mut heard =
            ReceivedMessage { message: serde_json::from_slice(&bytes[..received])?, descriptors: vec![], sender: None };
        for part in ancillary.drain() {
            match part {
                RecvAncillaryMessage::ScmRights(descriptors) => heard.descriptors.extend(descriptors),
                RecvAncillaryMessage::ScmCredentials(sender) => {
                    heard.sender = Some(Sender { pid: sender.pid.as_raw_nonzero().get(), user: sender.uid.as_raw() });
                }
                _ => {}
            }
        }
        Ok(Some(heard))
    }

    /// Whether something comes before the deadline.
    pub(crate) fn readable_before(&self, deadline: Instant) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut wanted = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut wanted, Some(&timespec(left))) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
            Ok(count) => Ok(count > 0),
        }
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A duration as the kernel takes it.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX), tv_nsec: duration.subsec_nanos().into() }
}

/// Writes orders into an unnamed file that nobody can change any more.
pub(crate) fn seal(orders: &Orders) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let descriptor = memfd_create("herm-orders", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(descriptor);
    file.write_all(&serde_json::to_vec(orders)?)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Reads orders that [`seal`] wrote, from their beginning.
pub(crate) fn open(orders: OwnedFd) -> io::Result<Orders> {
    let mut file = File::from(orders);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
