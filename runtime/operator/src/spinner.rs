//! A row at the foot of a terminal that says what goes on now. Whatever else goes to standard error is written above
//! it, and at the end nothing is left of it.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it moves.
pub(crate) const TICK: Duration = Duration::from_millis(100);

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// To the start of the row, and what is on it away.
const ERASE: &str = "\r\u{1b}[K";
/// Columns at the end that stay free. A terminal shows `^C` where the cursor is;
/// in the next row, it would keep this one from being erased.
const FREE_COLUMNS: usize = 3;
/// Where a terminal does not say how wide it is.
const USUAL_COLUMNS: usize = 80;

/// What is on the row now. There is one standard error, so there is one row.
static ROW: Mutex<String> = Mutex::new(String::new());

fn row() -> MutexGuard<'static, String> {
    ROW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The row. Dropping it takes it away.
#[derive(Debug)]
pub(crate) struct Spinner {
    started: Instant,
    doing: String,
    frame: usize,
}

impl Spinner {
    /// A row on standard error, if that is a terminal that can erase one.
    pub(crate) fn start() -> Option<Self> {
        let can_erase = std::env::var_os("TERM").is_some_and(|kind| kind != "dumb");
        let fits = can_erase && io::stderr().is_terminal();
        fits.then(|| Self { started: Instant::now(), doing: String::new(), frame: 0 })
    }

    /// Says what goes on now. Every character of it must be one column wide.
    pub(crate) fn say(&mut self, doing: &str) {
        doing.clone_into(&mut self.doing);
        self.draw();
    }

    /// Shows that it still goes on.
    pub(crate) fn tick(&mut self) {
        self.frame = (self.frame + 1) % FRAMES.len();
        if !self.doing.is_empty() {
            self.draw();
        }
    }

    fn draw(&self) {
        let text = format!("{} {} · {} s", FRAMES[self.frame], self.doing, self.started.elapsed().as_secs());
        let mut row = row();
        *row = text.chars().take(columns().saturating_sub(FREE_COLUMNS)).collect();
        write(&[ERASE.as_bytes(), row.as_bytes()]);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let mut row = row();
        if !row.is_empty() {
            row.clear();
            write(&[ERASE.as_bytes()]);
        }
    }
}

/// Standard error above the row. Each write must be of whole lines.
#[derive(Debug)]
pub(crate) struct Above;

impl Write for Above {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let row = row();
        if row.is_empty() {
            return io::stderr().write(lines);
        }
        write(&[ERASE.as_bytes(), lines, row.as_bytes()]);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Writes at once, so that no one sees half of it.
fn write(parts: &[&[u8]]) {
    // Nowhere is left to say that nothing can be said.
    let _ = io::stderr().write_all(&parts.concat());
}

fn columns() -> usize {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => USUAL_COLUMNS,
    }
}
