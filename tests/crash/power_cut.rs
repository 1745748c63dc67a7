//! (d) Power cuts: a loop-mounted XFS and ext4, shut down in mid-flight without flushing its log,
//! then mounted again. Needs root and loop devices.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use herm_tests::TempBrains;
use herm_tests::generate::Random;

use crate::check::{CHILD, has_command, is_red, last_ack, number, settled_state_since};

/// The shutdown call of XFS, which ext4 shares; 2 is "do not flush the log". Waits for a line first.
const SHUTDOWN: &str = "import fcntl,os,struct,sys; \
fd=os.open(sys.argv[1],os.O_RDONLY); sys.stdin.readline(); fcntl.ioctl(fd,0x8004587d,struct.pack('I',2))";

/// A file system in a file.
struct Disk {
    dir: tempfile::TempDir,
    mounted: bool,
}

impl Disk {
    fn make(mkfs: &str, flags: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let image = dir.path().join("image");
        run(Command::new("truncate").args(["-s", "320M"]).arg(&image))?;
        run(Command::new(mkfs).args(flags).arg(&image))?;
        std::fs::create_dir(dir.path().join("mnt")).map_err(|error| error.to_string())?;
        let mut disk = Self { dir, mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    fn mnt(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn mount(&mut self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.dir.path().join("image")).arg(self.mnt()))?;
        self.mounted = true;
        Ok(())
    }

    fn umount(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(self.mnt()))?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.mnt()).status();
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn settling(brains: &Path, preload: Option<&Path>) -> Child {
    let mut command = Command::new(CHILD);
    command.arg("settle-loop").arg(brains).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    command.spawn().expect("the child starts")
}

/// What a child says, as it says it.
struct Said {
    bytes: Arc<Mutex<Vec<u8>>>,
    reading: std::thread::JoinHandle<()>,
}

impl Said {
    fn by(child: &mut Child) -> Self {
        let mut stdout = child.stdout.take().expect("the output");
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let reading = std::thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || {
                let mut piece = [0; 4_096];
                while let Ok(length @ 1..) = stdout.read(&mut piece) {
                    bytes.lock().expect("no panic").extend_from_slice(&piece[..length]);
                }
            }
        });
        Self { bytes, reading }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().expect("no panic").clone()
    }

    fn all(self) -> Vec<u8> {
        self.reading.join().expect("no panic");
        self.bytes.lock().expect("no panic").clone()
    }
}

/// Cuts the power while a child settles; `Err` says what did not hold afterwards.
fn cut(disk: &mut Disk, delay: Duration, preload: Option<&Path>) -> Result<(), String> {
    let brains = disk.mnt().join("brains");
    let mut command = Command::new("python3");
    let mut switch = command.args(["-c", SHUTDOWN]).arg(disk.mnt()).stdin(Stdio::piped()).spawn().expect("python3");
    let mut child = settling(&brains, preload);
    let said = Said::by(&mut child);
    std::thread::sleep(delay);
    // What is said later is said on a machine that has lost its power: for a moment after the call, a sync
    // on ext4 can still come back as if it had done something.
    let before_the_cut = said.so_far();
    drop(switch.stdin.take());
    let cut = switch.wait().map_err(|error| error.to_string())?.success();
    let killed = child.kill();
    child.wait().map_err(|error| error.to_string())?;
    let after_the_cut = said.all();
    if !cut {
        return Err(format!("{} was not shut down", disk.mnt().display()));
    }
    killed.map_err(|error| error.to_string())?;
    disk.umount()?;
    disk.mount()?;
    let version = settled_state_since(&brains, "1", last_ack(&before_the_cut))?;
    match last_ack(&after_the_cut) {
        Some((last, _)) if version > last + 1 => Err(format!("the brain is at {version}, and {last} was said last")),
        _ => Ok(()),
    }
}

fn not_run(test: &str, why: &str) {
    let get = format!("as root, with xfsprogs, e2fsprogs, python3 and a C compiler ({why})");
    herm_untested::not_run(test, "a disk that can be cut off", &get);
}

/// The disk with a new brain on it, or why there can be none here.
fn prepared(mkfs: &str, flags: &[&str]) -> Result<Disk, String> {
    if !has_command(mkfs) && Command::new(mkfs).arg("-V").output().is_err() {
        return Err(format!("{mkfs} is not installed"));
    }
    if !has_command("python3") {
        return Err("python3 is not installed".into());
    }
    let disk = Disk::make(mkfs, flags)?;
    let made = TempBrains::new();
    made.make("1").close().map_err(|error| format!("{error:?}"))?;
    run(Command::new("cp").arg("-r").arg(made.path()).arg(disk.mnt().join("brains")))?;
    run(Command::new("sync").arg("-f").arg(disk.mnt()))?;
    Ok(disk)
}

fn power_cuts_hold(mkfs: &str, flags: &[&str]) {
    let mut disk = match prepared(mkfs, flags) {
        Ok(disk) => disk,
        Err(why) => return not_run(&format!("power cuts on {mkfs}"), &why),
    };
    let mut random = Random::new(3);
    for n in 0..number("HERM_CUTS", 12) {
        let delay = Duration::from_millis(20 + random.below(120) as u64);
        if let Err(why) = cut(&mut disk, delay, None) {
            panic!("cut {n} on {mkfs}: {why}");
        }
    }
}

#[test]
fn power_cuts_on_xfs_lose_nothing_acknowledged() {
    power_cuts_hold("mkfs.xfs", &["-q", "-f"]);
}

#[test]
fn power_cuts_on_ext4_lose_nothing_acknowledged() {
    power_cuts_hold("mkfs.ext4", &["-q", "-F"]);
}

/// The negative control: with syncs that do nothing, a cut must lose acknowledged steps.
#[test]
fn without_syncs_a_power_cut_is_noticed() {
    let mut disk = match prepared("mkfs.xfs", &["-q", "-f"]) {
        Ok(disk) => disk,
        Err(why) => return not_run("the negative control of the power cuts", &why),
    };
    let source = disk.dir.path().join("nosync.c");
    std::fs::write(&source, "int fsync(int f){return 0;} int fdatasync(int f){return 0;}\n").expect("a file");
    let library = disk.dir.path().join("nosync.so");
    if let Err(why) = run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source)) {
        return not_run("the negative control of the power cuts", &why);
    }
    let red = (0..20).any(|_| is_red(&cut(&mut disk, Duration::from_millis(120), Some(&library))));
    assert!(red, "20 power cuts without syncs went unnoticed: the check cannot fail");
}
