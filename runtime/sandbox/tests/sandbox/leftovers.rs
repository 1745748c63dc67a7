//! placeholder
use crate::harness::Test;
pub fn tests() -> Vec<Test> {
    vec![]
}
pub fn be_a_parent(_: &str) -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
