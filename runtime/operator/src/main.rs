//! The `herm` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    herm_operator::main()
}
