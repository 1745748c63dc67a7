//! The `herm` command, built beside the suites.

#[global_allocator]
static ALLOCATOR: herm_operator::Allocator = herm_operator::Allocator;

fn main() -> std::process::ExitCode {
    herm_operator::main()
}
