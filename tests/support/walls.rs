//! Whether this machine lets an ordinary program build a sandbox.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Some machines forbid namespaces to ordinary users. There the test that asks is recorded as not run.
pub fn can_sandbox() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let works = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let can = *CAN.get_or_init(|| {
        works("unshare", &["--user", "--map-root-user", "--mount", "true"])
            || works("/usr/bin/bwrap", &["--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "true"])
    });
    if !can {
        let test = std::thread::current().name().unwrap_or("a test in a sandbox").to_owned();
        let get = "apt-get install bubblewrap, or allow unprivileged user namespaces (sysctl)";
        herm_untested::not_run(&test, "a sandbox", get);
    }
    can
}
