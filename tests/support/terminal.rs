//! A command on a real pseudo-terminal, and what a person sees there.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

/// Long enough for any machine: what comes later does not come.
const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: u16 = 24;

/// A running command whose standard input and standard error are a terminal. Its standard output is a pipe.
#[derive(Debug)]
pub struct Terminal {
    /// The side of the person.
    outer: File,
    /// The side of the program. Held here, too, so that the terminal outlives the program.
    inner: Option<File>,
    /// How the terminal was set before the program began.
    settings: String,
    columns: usize,
    child: Child,
    written: Arc<Written>,
    reading: Option<JoinHandle<()>>,
}

/// What the program wrote to the terminal so far, with what the terminal echoed.
#[derive(Debug, Default)]
struct Written {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
}

/// What is left when the program has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; -1 where a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// The terminal, row by row, up to the last row with something on it.
    pub screen: Vec<String>,
    /// Every byte that went to the terminal.
    pub written: String,
    /// Whether the cursor can be seen.
    pub shows_cursor: bool,
    /// Whether the terminal is set as it was before.
    pub is_restored: bool,
}

impl Terminal {
    /// Starts `command` on a new terminal of so many columns. To get signals from the keyboard, it has to make the
    /// terminal its own, as `on-terminal` does.
    pub fn start(mut command: Command, columns: u16) -> Self {
        let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&outer).and_then(|()| unlockpt(&outer)).expect("the other side may be opened");
        let name = ptsname(&outer, Vec::new()).expect("the other side has a name");
        let flags = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).expect("a flag");
        let inner = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(std::ffi::OsStr::from_bytes(name.as_bytes()))
            .expect("the other side");
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&inner, size).expect("a terminal has a size");
        let settings = settings(&inner);
        let side = || Stdio::from(inner.try_clone().expect("a copy"));
        let child = command.stdin(side()).stderr(side()).stdout(Stdio::piped()).spawn().expect("it starts");
        // It holds the terminal open.
        drop(command);
        let outer = File::from(outer);
        let written = Arc::new(Written::default());
        let reading = {
            let (mut from, to) = (outer.try_clone().expect("a copy"), Arc::clone(&written));
            thread::spawn(move || to.fill(&mut from))
        };
        Self { outer, inner: Some(inner), settings, columns: columns.into(), child, written, reading: Some(reading) }
    }

    /// Waits until a row of the terminal has all of `parts`, in this order.
    pub fn wait_for(&self, parts: &[&str]) {
        let mut bytes = self.written.bytes.lock().expect("no reader panics");
        loop {
            let screen = Screen::of(&bytes, self.columns);
            if screen.rows().iter().any(|row| has_in_order(row, parts)) {
                return;
            }
            let (more, waited) = self.written.more.wait_timeout(bytes, PATIENCE).expect("no reader panics");
            assert!(!waited.timed_out(), "{parts:?} is not there: {:#?}", screen.rows());
            bytes = more;
        }
    }

    /// Types on the keyboard.
    pub fn types(&mut self, keys: &str) {
        self.outer.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits for the end of the program.
    pub fn end(mut self) -> Ended {
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().expect("it is a pipe");
        pipe.read_to_string(&mut stdout).expect("UTF-8 on standard output");
        let code = self.child.wait().expect("it ends").code().unwrap_or(-1);
        let is_restored = self.inner.as_ref().is_some_and(|inner| settings(inner) == self.settings);
        // Nobody has the terminal any more, so the reader comes to the end.
        self.inner = None;
        self.reading.take().expect("it was started").join().expect("the reader ends");
        let bytes = self.written.bytes.lock().expect("no reader panics");
        let screen = Screen::of(&bytes, self.columns);
        Ended {
            code,
            stdout,
            screen: screen.rows(),
            written: String::from_utf8_lossy(&bytes).into_owned(),
            shows_cursor: screen.shows_cursor,
            is_restored,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Written {
    fn fill(&self, from: &mut File) {
        let mut part = [0; 4096];
        // Where all have closed the other side, Linux gives an error and others the end.
        while let Ok(count @ 1..) = from.read(&mut part) {
            self.bytes.lock().expect("no test panics with it").extend_from_slice(&part[..count]);
            self.more.notify_all();
        }
    }
}

fn settings(terminal: &File) -> String {
    format!("{:?}", tcgetattr(terminal).expect("a terminal has settings"))
}

fn has_in_order(row: &str, parts: &[&str]) -> bool {
    parts.iter().try_fold(row, |rest, part| rest.split_once(part).map(|(_, after)| after)).is_some()
}

/// A terminal's screen, as far as it is used here: every character is one column wide, and nothing scrolls.
#[derive(Debug)]
struct Screen {
    columns: usize,
    cells: Vec<Vec<char>>,
    row: usize,
    /// May be one past the last: the next character goes to the next row, as on real terminals.
    column: usize,
    shows_cursor: bool,
}

impl Screen {
    fn of(bytes: &[u8], columns: usize) -> Self {
        let mut screen = Self { columns, cells: Vec::new(), row: 0, column: 0, shows_cursor: true };
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => screen.column = 0,
                '\n' => screen.row += 1,
                '\u{8}' => screen.column = screen.column.saturating_sub(1),
                '\u{1b}' => screen.steer(&mut rest),
                c if c.is_control() => {}
                c => screen.put(c),
            }
        }
        screen
    }

    fn put(&mut self, c: char) {
        if self.column >= self.columns {
            self.row += 1;
            self.column = 0;
        }
        *self.cell(self.column) = c;
        self.column += 1;
    }

    fn cell(&mut self, column: usize) -> &mut char {
        if self.cells.len() <= self.row {
            self.cells.resize(self.row + 1, Vec::new());
        }
        let row = &mut self.cells[self.row];
        if row.len() <= column {
            row.resize(column + 1, ' ');
        }
        &mut row[column]
    }

    /// A sequence that begins with ESC.
    fn steer(&mut self, rest: &mut std::str::Chars<'_>) {
        if rest.next() != Some('[') {
            return;
        }
        let mut number = String::new();
        let last = rest.by_ref().find(|c| {
            let is_last = ('@'..='~').contains(c);
            if !is_last {
                number.push(*c);
            }
            is_last
        });
        let count = number.parse().unwrap_or(1);
        match last {
            Some('A') => self.row = self.row.saturating_sub(count),
            Some('B') => self.row += count,
            Some('C') => self.column += count,
            Some('D') => self.column = self.column.saturating_sub(count),
            Some('K') => {
                let from = if number == "2" { 0 } else { self.column };
                if let Some(row) = self.cells.get_mut(self.row) {
                    row.truncate(from);
                }
            }
            Some('h') if number == "?25" => self.shows_cursor = true,
            Some('l') if number == "?25" => self.shows_cursor = false,
            // Colours, and what a signal from the keyboard has cut off.
            _ => {}
        }
    }

    fn rows(&self) -> Vec<String> {
        let rows = self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        let mut rows: Vec<String> = rows.collect();
        rows.truncate(rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(written: &str) -> Vec<String> {
        Screen::of(written.as_bytes(), 4).rows()
    }

    #[test]
    fn a_screen_wraps_late_and_forgets_what_is_cleared() {
        assert_eq!(rows("abcd\r\nef"), ["abcd", "ef"]);
        assert_eq!(rows("abcdef"), ["abcd", "ef"]);
        assert_eq!(rows("abcd\r\u{1b}[Kx"), ["x"]);
        assert_eq!(rows("a\r\nb\u{1b}[1A\u{1b}[2K\rc"), ["c", "b"]);
        assert_eq!(rows("ab\u{1b}[31mc\u{1b}[m\r\n \r\n"), ["abc"]);
        assert!(!Screen::of(b"\x1b[?25l", 4).shows_cursor);
    }
}
