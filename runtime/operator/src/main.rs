//! The `herm` command.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: herm_operator::Allocator = herm_operator::Allocator;

fn main() -> ExitCode {
    herm_operator::main()
}
