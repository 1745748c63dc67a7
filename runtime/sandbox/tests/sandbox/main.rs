//! The suite of the sandbox: what gets out (nothing), what each layer stops, what happens to those who take too much,
//! and what is left when the parent dies.
//!
//! It is its own harness, because the stages of a sandbox are this very binary: `take_over` comes first. Every test runs
//! in a process of its own, as root and as nobody where both matter. `cargo test -p herm-sandbox --test sandbox NAME`
//! runs those whose name contains NAME.
#![cfg_attr(
    target_os = "linux",
    allow(
        unsafe_code,
        missing_docs,
        unreachable_pub,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::disallowed_methods,
        reason = "tests may unwrap and print; probes and attacks speak to the kernel themselves"
    )
)]

#[cfg(target_os = "linux")]
mod ablation;
#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod budgets;
#[cfg(target_os = "linux")]
mod escapes;
#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod leftovers;
#[cfg(target_os = "linux")]
mod manners;
#[cfg(target_os = "linux")]
mod probes;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod test_host;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    herm_sandbox::run_if_reexec();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("inside") => inside::run(&arguments[1..]),
        Some("parent") => leftovers::be_a_parent(&arguments[1]),
        Some("run") => harness::run_one(&arguments[1], &tests()),
        Some("trial") => manners::trial(),
        _ => harness::run_all(&arguments, &tests()),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn tests() -> Vec<harness::Test> {
    let mut all = escapes::tests();
    all.extend(ablation::tests());
    all.extend(budgets::tests());
    all.extend(leftovers::tests());
    all.extend(manners::tests());
    all
}
