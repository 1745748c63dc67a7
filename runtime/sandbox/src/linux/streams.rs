//! The program's streams: which end is whose.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::spec::{OutputMode, StdinMode};

/// Both ends of every stream.
#[derive(Debug)]
pub(crate) struct Streams {
    /// For the program: standard input, output and error, and perhaps the channel.
    pub(crate) program: Vec<OwnedFd>,
    pub(crate) stdin: Option<File>,
    pub(crate) stdout: OutputEnd,
    pub(crate) stderr: OutputEnd,
}

/// Our end of an output stream.
#[derive(Debug)]
pub(crate) enum OutputEnd {
    Null,
    /// The caller reads it.
    Caller(File),
    /// The supervisor reads it into a file.
    Pump(Pump),
}

/// A stream that goes into a file.
#[derive(Debug)]
pub(crate) struct Pump {
    pub(crate) from: OwnedFd,
    pub(crate) into: File,
}

impl Streams {
    pub(crate) fn open(
        stdin: StdinMode,
        stdout: OutputMode,
        stderr: OutputMode,
        channel: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let (first, stdin) = match stdin {
            StdinMode::Null => (null()?, None),
            StdinMode::Piped => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                (reader, Some(File::from(writer)))
            }
        };
        let (second, stdout) = output(stdout)?;
        let (third, stderr) = output(stderr)?;
        let mut program = vec![first, second, third];
        program.extend(channel);
        Ok(Self { program, stdin, stdout, stderr })
    }
}

fn output(output: OutputMode) -> io::Result<(OwnedFd, OutputEnd)> {
    Ok(match output {
        OutputMode::Null => (null()?, OutputEnd::Null),
        OutputMode::Piped => {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            (writer, OutputEnd::Caller(File::from(reader)))
        }
        OutputMode::File(into) => {
            let (from, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&from, true)?;
            (writer, OutputEnd::Pump(Pump { from, into }))
        }
    })
}

fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into())
}
