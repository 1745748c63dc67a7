//! Runs a program in a session of its own, with standard input as its terminal: what is typed there reaches it as it
//! reaches a program that a shell has started.
//!
//! Usage: on-terminal PROGRAM [ARGUMENT…]

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else { return ExitCode::from(2) };
    let error = match rustix::process::setsid().and_then(|_| rustix::process::ioctl_tiocsctty(std::io::stdin())) {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
