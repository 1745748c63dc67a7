//! Sockets: of the host, of the outside, and of families that nobody asked for.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Control::{Anybody, None, Root};
use super::{Found, Probe, Targets, denied, probe, works};
use crate::sys::{arguments, call, text};

pub fn escapes() -> Vec<Probe> {
    vec![
        probe("port_of_the_host", Anybody, |targets| tcp(&format!("127.0.0.1:{}", targets.port))),
        probe("port_of_the_host_v6", Anybody, |targets| tcp(&format!("[::1]:{}", targets.port6))),
        probe("port_of_the_host_mapped", Anybody, |targets| tcp(&format!("[::ffff:127.0.0.1]:{}", targets.port))),
        probe("address_of_the_host", None, |targets| match &targets.address {
            Some(address) => tcp(&format!("{address}:{}", targets.port)),
            Option::None => Found::Stopped("the host has no other address".into()),
        }),
        probe("metadata_service", None, |_| tcp("169.254.169.254:80")),
        probe("name_server", None, |_| tcp("8.8.8.8:53")),
        probe("outside_v6", None, |_| tcp("[2606:4700:4700::1111]:53")),
        probe("datagram_to_the_host", Anybody, |targets| datagram(&format!("127.0.0.1:{}", targets.datagrams))),
        probe("datagram_outside", None, |_| {
            let socket = UdpSocket::bind("0.0.0.0:0");
            denied(socket.and_then(|socket| socket.send_to(b"probe", "8.8.8.8:53")), "sent it")
        }),
        probe("broadcast", None, |_| {
            let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
                socket.set_broadcast(true)?;
                socket.send_to(b"probe", "255.255.255.255:9")
            });
            denied(sent, "sent it")
        }),
        probe("socket_of_the_host", Anybody, |targets| denied(UnixStream::connect(&targets.socket), "connected")),
        probe("abstract_socket_of_the_host", Anybody, |targets| {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&targets.abstract_socket);
            denied(address.and_then(|address| UnixStream::connect_addr(&address)), "connected")
        }),
        probe("interfaces_of_the_host", None, |_| {
            let text = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
            let names: Vec<_> = text.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
            if names == ["lo"] { Found::Stopped("lo alone".into()) } else { Found::Reached(names.join(" ")) }
        }),
        probe("shared_memory_of_the_host", Anybody, |targets| {
            let asked = arguments(&[targets.memory_key as usize, 0, 0]);
            denied(call(libc::SYS_shmget, asked), "found it")
        }),
        probe("message_queue_of_the_host", Anybody, |_| {
            denied(call(libc::SYS_mq_open, arguments(&[text(c"herm-probe"), libc::O_RDONLY as usize])), "opened it")
        }),
        family("netlink", Anybody, |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
        family("netlink_diagnosis", Anybody, |_| socket(libc::AF_NETLINK, libc::SOCK_DGRAM, 4)),
        family("packet", Root, |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 3 << 8)),
        family("raw", Root, |_| socket(libc::AF_INET, libc::SOCK_RAW, 1)),
        family("raw_v6", Root, |_| socket(libc::AF_INET6, libc::SOCK_RAW, 58)),
        family("vsock", None, |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
        family("crypto", None, |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
        family("bluetooth", None, |_| socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 1)),
        family("can", None, |_| socket(libc::AF_CAN, libc::SOCK_RAW, 1)),
        family("tipc", None, |_| socket(libc::AF_TIPC, libc::SOCK_RDM, 0)),
        family("rds", None, |_| socket(libc::AF_RDS, libc::SOCK_SEQPACKET, 0)),
        family("xdp", None, |_| socket(libc::AF_XDP, libc::SOCK_RAW, 0)),
        family("key_management", None, |_| socket(libc::AF_KEY, libc::SOCK_RAW, 2)),
        family("upper_half_of_a_register", None, |_| {
            let odd = libc::AF_VSOCK as usize | 1 << 32;
            filtered_family(call(libc::SYS_socket, arguments(&[odd, libc::SOCK_STREAM as usize, 0])))
        }),
    ]
}

fn family(name: &'static str, control: super::Control, run: fn(&Targets) -> Found) -> Probe {
    probe(name, control, run)
}

fn socket(family: i32, kind: i32, protocol: i32) -> Found {
    filtered_family(call(libc::SYS_socket, arguments(&[family as usize, kind as usize, protocol as usize])))
}

/// A family that this kernel does not have is no escape, with or without a filter.
fn filtered_family(result: io::Result<i64>) -> Found {
    denied(result, "the socket was made")
}

fn tcp(address: &str) -> Found {
    let address: SocketAddr = match address.parse() {
        Ok(address) => address,
        Err(error) => return Found::Stopped(format!("{error}")),
    };
    denied(TcpStream::connect_timeout(&address, Duration::from_millis(500)), format!("connected to {address}"))
}

/// The suite answers every datagram that it gets.
fn datagram(address: &str) -> Found {
    let answered = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.send_to(b"probe", address)?;
        socket.recv(&mut [0; 16])
    });
    denied(answered, "was answered")
}

pub fn positives() -> Vec<Probe> {
    vec![
        probe("loopback", None, |_| works(loopback("127.0.0.1:0"), "a TCP connection to itself")),
        probe("loopback_v6", None, |_| works(loopback("[::1]:0"), "a TCP connection to itself, v6")),
        probe("local_sockets", None, |_| {
            let talked = UnixStream::pair().and_then(|(mut one, mut other)| {
                one.write_all(b"x")?;
                other.read_exact(&mut [0])
            });
            works(talked, "a pair of local sockets")
        }),
        probe("named_local_sockets", None, |_| {
            let listener = std::os::unix::net::UnixListener::bind("/work/socket");
            works(listener.and_then(|_listener| UnixStream::connect("/work/socket")), "a local socket with a name")
        }),
    ]
}

fn loopback(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let mut one = TcpStream::connect(listener.local_addr()?)?;
    let (mut other, _) = listener.accept()?;
    one.write_all(b"x")?;
    other.read_exact(&mut [0])
}
