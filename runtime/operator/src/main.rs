//! The `herm` command; all of it is in the library `herm_operator`.

use std::process::ExitCode;

fn main() -> ExitCode {
    herm_operator::main()
}
