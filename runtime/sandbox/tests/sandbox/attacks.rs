//! Programs that take too much, or do not want to end; and some that do no harm. They run inside.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::sys::{arguments, call, fork, text};

const MIB: usize = 1024 * 1024;

pub fn run(attack: &[&str]) -> ExitCode {
    match attack {
        ["forks"] => forks(),
        ["threads"] => threads(),
        ["memory"] => memory(),
        ["memory-of-many", processes] => memory_of_many(processes.parse().unwrap()),
        ["memory-of-a-child", mebibytes] => memory_of_a_child(mebibytes.parse().unwrap()),
        ["memory-without-a-mapping"] => memory_without_a_mapping(),
        ["memory-in-tmp"] => fill(File::create("/tmp/large").unwrap()),
        ["disk"] => fill(File::create("/work/large").unwrap()),
        ["disk-in-many-files"] => many_large_files(),
        ["disk-without-a-name"] => nameless(),
        ["disk-behind-a-closed-door"] => hidden(),
        ["disk-without-writing"] => asked_for(),
        ["disk-in-one-call"] => one_call(),
        ["disk-in-mappings"] => mapped(),
        ["disk-in-sockets"] => in_flight(),
        ["disk-without-a-first-thread"] => files_without_a_first_thread(),
        ["disk-undoing-stops"] => undoing_stops(),
        ["calls-that-fall-back"] => calls_that_fall_back(),
        ["directory-that-is-only-read"] => only_read(),
        ["memory-without-a-first-thread"] => without_a_first_thread(),
        ["files"] => files(),
        ["depth"] => depth(),
        ["stubborn"] => stubborn(),
        ["burn", threads, milliseconds] => burn(threads.parse().unwrap(), milliseconds.parse().unwrap()),
        ["flood"] => flood(),
        ["say", ..] => say(),
        ["echo"] => drop(std::io::copy(&mut std::io::stdin(), &mut std::io::stdout())),
        ["channel"] => channel(),
        ["exit", code] => return ExitCode::from(code.parse::<u8>().unwrap()),
        ["die"] => drop(call(libc::SYS_kill, arguments(&[std::process::id() as usize, libc::SIGTERM as usize]))),
        ["write"] => fs::write("result", "made inside").unwrap(),
        ["link"] => {
            fs::write("one", "made inside").unwrap();
            fs::create_dir_all("below").unwrap();
            fs::hard_link("one", "below/two").unwrap();
        }
        ["sleep", ..] => std::thread::sleep(Duration::from_secs(3_600)),
        ["nothing"] => {}
        other => panic!("no such attack: {other:?}"),
    }
    ExitCode::SUCCESS
}

fn forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3_600));
    }
}

/// Each process makes more, until it cannot.
fn forks() {
    loop {
        match fork() {
            Ok(true) => {}
            Ok(false) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn threads() {
    loop {
        let made = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| forever());
        if made.is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn take_all() -> ! {
    let mut taken = Vec::new();
    loop {
        let mut chunk = Vec::new();
        if chunk.try_reserve_exact(MIB).is_err() {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        chunk.resize(MIB, 7_u8);
        taken.push(chunk);
    }
}

fn memory() {
    take_all();
}

fn memory_of_many(processes: u32) {
    for _ in 1..processes {
        if fork().unwrap() {
            take_all();
        }
    }
    take_all();
}

/// A child holds memory for half a second, far below any limit, while its parent waits.
fn memory_of_a_child(mebibytes: usize) {
    if fork().unwrap() {
        let held = vec![7_u8; mebibytes * MIB];
        std::thread::sleep(Duration::from_millis(500));
        std::hint::black_box(held);
    } else {
        std::thread::sleep(Duration::from_millis(600));
    }
}

/// Written, never mapped: it is nobody's resident memory.
fn memory_without_a_mapping() {
    use std::os::fd::FromRawFd as _;
    let memory = call(libc::SYS_memfd_create, arguments(&[text(c"large"), 0])).unwrap();
    // SAFETY: the descriptor was just made and is nobody else's.
    fill(unsafe { File::from_raw_fd(memory as i32) });
}

fn fill(mut file: File) {
    let chunk = vec![7; MIB];
    loop {
        if file.write_all(&chunk).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn many_large_files() {
    let chunk = vec![7; 4 * MIB];
    for number in 0_u64.. {
        if fs::write(format!("/work/large-{number}"), &chunk).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn nameless() {
    let chunk = vec![7; 4 * MIB];
    let mut held = Vec::new();
    for number in 0_u64.. {
        let path = format!("/work/nameless-{number}");
        if let Ok(file) = File::create(&path) {
            let _ = fs::remove_file(&path);
            let _ = file.write_all_at(&chunk, 0);
            held.push(file);
        }
    }
}

/// A file without a name, and with nothing in it yet.
fn nameless_file(number: u64) -> Option<File> {
    let path = format!("/work/nameless-{number}");
    let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).ok()?;
    fs::remove_file(&path).ok()?;
    Some(file)
}

/// Files that no directory shows and no process has open: they are only mapped.
fn mapped() {
    let size = 4 * MIB;
    for file in (0..).filter_map(nameless_file) {
        use std::os::fd::AsRawFd as _;
        let _ = file.write_all_at(&vec![7; size], 0);
        let how = (libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd());
        let _ = call(libc::SYS_mmap, arguments(&[0, size, how.0 as usize, how.1 as usize, how.2 as usize, 0]));
    }
}

/// Files that no directory shows and no process has open: they wait in sockets, ten in each message.
fn in_flight() {
    let chunk = vec![7; 4 * MIB];
    let mut held = Vec::new();
    let mut numbers = 0_u64..;
    loop {
        let Ok((here, there)) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::DGRAM,
            rustix::net::SocketFlags::empty(),
            None,
        ) else {
            continue;
        };
        let files: Vec<File> = numbers.by_ref().take(10).filter_map(nameless_file).collect();
        let descriptors: Vec<_> = files.iter().map(std::os::fd::AsFd::as_fd).collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(10))];
        let mut carried = rustix::net::SendAncillaryBuffer::new(&mut space);
        carried.push(rustix::net::SendAncillaryMessage::ScmRights(&descriptors));
        let message = [std::io::IoSlice::new(b"x")];
        let _ = rustix::net::sendmsg(&here, &message, &mut carried, rustix::net::SendFlags::empty());
        // They are written while they are on their way.
        for file in files {
            let _ = file.write_all_at(&chunk, 0);
        }
        held.push((here, there));
    }
}

/// Files that are open in a process whose first thread has ended.
fn files_without_a_first_thread() {
    std::thread::spawn(nameless);
    end_this_thread();
}

/// Two others tell a process that is to stop to go on, and each other as well.
fn undoing_stops() {
    for _ in 0..2 {
        if fork().unwrap() {
            loop {
                let _ = call(libc::SYS_kill, arguments(&[usize::MAX, libc::SIGCONT as usize]));
            }
        }
    }
    fill(File::create("/work/large").unwrap());
}

/// What would keep files where nobody sees them, and what callers do without.
fn calls_that_fall_back() {
    let errno = |number, given: &[usize]| call(number, arguments(given)).unwrap_err().raw_os_error().unwrap();
    let context = 0_usize;
    assert_eq!(errno(libc::SYS_io_setup, &[8, crate::sys::address(&context)]), libc::ENOSYS);
    assert_eq!(errno(libc::SYS_unshare, &[libc::CLONE_FILES as usize]), libc::EPERM);
    assert_eq!(errno(libc::SYS_close_range, &[100, 200, libc::CLOSE_RANGE_UNSHARE as usize]), libc::EPERM);
    assert!(call(libc::SYS_close_range, arguments(&[100, 200, 0])).is_ok());
    assert!(std::thread::spawn(|| {}).join().is_ok());
}

/// A directory that can be listed and not entered is nothing bad.
fn only_read() {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir("/work/read").unwrap();
    fs::write("/work/read/file", "content").unwrap();
    fs::set_permissions("/work/read", fs::Permissions::from_mode(0o444)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
}

/// Many processes that each take less than the limit, and whose first threads have ended.
fn without_a_first_thread() {
    for _ in 0..4 {
        if fork().unwrap() {
            break;
        }
    }
    std::thread::spawn(take_all);
    end_this_thread();
}

fn end_this_thread() {
    let _ = call(libc::SYS_exit, arguments(&[0]));
}

/// Asks for room instead of writing. If that is refused, it does as the C library does: something in every block.
fn asked_for() {
    let room = 200 * MIB;
    for number in 0_u64.. {
        use std::os::fd::AsRawFd as _;
        let Ok(file) = File::create(format!("/work/asked-{number}")) else { continue };
        let descriptor = file.as_raw_fd() as usize;
        let given = call(libc::SYS_fallocate, arguments(&[descriptor, 0, 0, room]));
        // The older way, as an order to the file: from its beginning, so much.
        let order = [0_u64, 0, room as u64, 0, 0, 0];
        let ioctl = |request| call(libc::SYS_ioctl, arguments(&[descriptor, request, crate::sys::address(&order)]));
        if given.or_else(|_| ioctl(0x4030_582a)).or_else(|_| ioctl(0x4030_5839)).is_err() {
            for block in (0..room as u64).step_by(4096) {
                let _ = file.write_all_at(&[7], block);
            }
        }
    }
}

/// No signal but the last stops a call that is under way.
fn one_call() {
    let large = vec![7; 300 * MIB];
    for number in 0_u64.. {
        let _ = fs::write(format!("/work/large-{number}"), &large);
    }
}

/// A directory that cannot be listed, and one that cannot even be entered once the files in it are open.
fn hidden() {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir("/work/closed").unwrap();
    let file = File::create("/work/closed/large").unwrap();
    fs::set_permissions("/work/closed", fs::Permissions::from_mode(0o000)).unwrap();
    fill(file);
}

fn files() {
    for number in 0_u64.. {
        let _ = File::create(format!("/work/{number}"));
    }
}

fn depth() {
    loop {
        let _ = fs::create_dir("deeper");
        let _ = std::env::set_current_dir("deeper");
    }
}

/// Ignores every signal, leaves its session, and lets a copy of itself do the same.
fn stubborn() {
    for signal in 1..=64 {
        // SAFETY: ignoring a signal is always allowed; those that cannot be ignored are refused.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for _ in 0..4 {
        if fork().unwrap() {
            // SAFETY: setsid takes nothing.
            unsafe { libc::setsid() };
            if fork().unwrap() {
                spin();
            }
        }
    }
    spin();
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn burn(threads: u32, milliseconds: u64) {
    let until = Instant::now() + Duration::from_millis(milliseconds);
    let all: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || while Instant::now() < until {})).collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
}

fn flood() {
    let chunk = vec![b'x'; 64 * 1024];
    loop {
        let _ = std::io::stdout().write_all(&chunk);
        let _ = std::io::stderr().write_all(&chunk);
    }
}

/// Tells what it was given.
fn say() {
    let variables: Vec<_> = std::env::vars().collect();
    let words: Vec<_> = std::env::args().skip(1).collect();
    let place = std::env::current_dir().unwrap();
    println!("{}", serde_json::to_string(&(variables, words, place)).unwrap());
}

/// Answers on the channel what it hears there, in capitals.
fn channel() {
    use std::io::Read as _;
    use std::os::fd::FromRawFd as _;
    let number: i32 = std::env::var("HERM_CHANNEL").unwrap().parse().unwrap();
    // SAFETY: the sandbox put the channel there for us alone.
    let mut channel = unsafe { std::os::unix::net::UnixStream::from_raw_fd(number) };
    let mut heard = [0; 5];
    channel.read_exact(&mut heard).unwrap();
    channel.write_all(&heard.to_ascii_uppercase()).unwrap();
}
