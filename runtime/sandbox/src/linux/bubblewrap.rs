//! The second tier: the system's bubblewrap makes the namespaces, for machines that let it and nobody else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::init::HOST_NAME;
use super::stage::INSIDE;
use super::view::{MASKED, OURSELVES, WORK};
use super::wire::Orders;

/// Where it is. Not looked for in `PATH`: rules that let it make namespaces name this path.
const PLACE: &str = "/usr/bin/bwrap";
/// Where our own binary is seen, for the stage inside.
const STAGE: &str = "/stage";

/// Bubblewrap, if the machine has it.
pub(crate) fn find() -> Option<PathBuf> {
    Path::new(PLACE).exists().then(|| PLACE.into())
}

/// Whether it knows an option; older ones lack some.
fn knows(program: &Path, option: &str) -> bool {
    static HELP: OnceLock<String> = OnceLock::new();
    let help = HELP.get_or_init(|| {
        let help = plain(program).arg("--help").stdin(Stdio::null()).output();
        help.map(|help| String::from_utf8_lossy(&help.stdout).into_owned()).unwrap_or_default()
    });
    help.contains(option)
}

#[expect(clippy::disallowed_methods, reason = "bubblewrap is started here alone")]
fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/");
    command
}

/// Whether it works here, or why not.
pub(crate) fn works() -> Result<(), String> {
    let program = find().ok_or_else(|| format!("{PLACE} is not installed"))?;
    let tried = plain(&program)
        // `--unshare-all` alone makes a user namespace only where it can, and sandboxes have one always.
        .args(["--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/true"])
        .stdin(Stdio::null())
        .output();
    match tried {
        Err(error) => Err(format!("{PLACE} cannot be started: {error}")),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Bubblewrap with our stage inside. Standard input, which it passes on, is the line to the parent.
pub(crate) fn command(orders: &Orders) -> Command {
    let program = orders.bubblewrap.clone().unwrap_or_else(|| PLACE.into());
    let mut command = plain(&program);
    command.args(["--unshare-user", "--unshare-all", "--uid", "1000", "--gid", "1000", "--hostname", HOST_NAME]);
    command.args(["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]);
    if knows(&program, "--disable-userns") {
        command.arg("--disable-userns");
    }
    for bind in &orders.binds {
        match std::fs::read_link(&bind.host) {
            Ok(target) if bind.host == bind.inside => command.arg("--symlink").arg(target).arg(&bind.inside),
            _ if bind.optional => command.arg("--ro-bind-try").arg(&bind.host).arg(&bind.inside),
            _ => command.arg("--ro-bind").arg(&bind.host).arg(&bind.inside),
        };
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    if knows(&program, "--size") {
        command.arg("--size").arg(orders.rlimits.temporary.to_string());
    }
    command.args(["--tmpfs", "/tmp"]);
    // What bubblewrap itself does not hide.
    for name in MASKED {
        let path = Path::new("/proc").join(name);
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => command.arg("--tmpfs").arg(path),
            Ok(_) => command.args(["--ro-bind", "/dev/null"]).arg(path),
            Err(_) => continue,
        };
    }
    command.arg("--bind").arg(&orders.work).arg(WORK);
    command.args(["--remount-ro", "/", "--chdir", WORK, "--", STAGE, INSIDE]);
    command
}

/// The binds that the stage inside needs, besides those of the program.
pub(crate) fn stage_binds(ourselves: &Path, libraries: Vec<crate::spec::Bind>) -> Vec<crate::spec::Bind> {
    let mut binds = vec![crate::spec::Bind::at(ourselves, STAGE)];
    binds.extend(libraries);
    binds
}

/// Where our own binary is seen.
pub(crate) fn ourselves(host: &Path) -> crate::spec::Bind {
    crate::spec::Bind::at(host, OURSELVES)
}
