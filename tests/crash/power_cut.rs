//! (d) Power cuts: a loop-mounted XFS and ext4, shut down in mid-flight without flushing its log,
//! then mounted again. Needs root and loop devices.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use herm_tests::TempBrains;
use herm_tests::generate::Random;

use crate::check::{CHILD, has_command, is_red, last_ack, not_run, number, settled_state};

/// The shutdown call of XFS, which ext4 shares; 2 is "do not flush the log".
const SHUTDOWN: &str = "import fcntl,os,struct,sys; \
fd=os.open(sys.argv[1],os.O_RDONLY); fcntl.ioctl(fd,0x8004587d,struct.pack('I',2))";

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

/// Cuts the power while a child settles; `Err` says what did not hold afterwards.
fn cut(disk: &mut Disk, delay: Duration, preload: Option<&Path>) -> Result<(), String> {
    let brains = disk.mnt().join("brains");
    let mut child = settling(&brains, preload);
    std::thread::sleep(delay);
    let cut = run(Command::new("python3").args(["-c", SHUTDOWN]).arg(disk.mnt()));
    let killed = child.kill();
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    cut?;
    killed.map_err(|error| error.to_string())?;
    disk.umount()?;
    disk.mount()?;
    settled_state(&brains, last_ack(&output.stdout)).map(|_| ())
}

/// The disk with a new brain on it, or why there can be none here.
fn prepared(mkfs: &str, flags: &[&str]) -> Result<Disk, String> {
    if !has_command(mkfs) && Command::new(mkfs).arg("-V").output().is_err() {
        return Err(format!("{mkfs} is not installed"));
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
