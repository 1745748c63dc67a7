//! The `herm` command, built beside the suites.

fn main() -> std::process::ExitCode {
    herm_operator::main()
}
