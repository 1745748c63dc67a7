//! Files in place, and a scheduler that is told: here a script in its place that writes down its words.

use super::*;

struct Case {
    dir: tempfile::TempDir,
    machine: Machine,
}

impl Case {
    /// A machine with nothing on it but what the script needs.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine {
            home: dir.path().join("home"),
            config_home: None,
            path: dir.path().join("bin").into_os_string(),
            session: vec![("XDG_RUNTIME_DIR".to_owned(), "/run/user/1 2".into())],
        };
        std::fs::create_dir_all(dir.path().join("bin")).unwrap();
        std::fs::create_dir_all(&machine.home).unwrap();
        Self { dir, machine }
    }

    /// Puts a scheduler's program there: it writes down what it is told and then runs `end`.
    fn scheduler(self, name: &str, end: &str) -> Self {
        let said = self.dir.path().join("said");
        let script = format!("#!/bin/sh\necho \"$* [$XDG_RUNTIME_DIR]\" >> '{}'\n{end}\n", said.display());
        write(self.dir.path(), "script", &script);
        // Another process makes the file that is run: a test beside this one may be starting a program just
        // now, and one that held it open for writing would keep the system from running it.
        let mut copying = program("install");
        copying.args(["-m", "755"]).arg(self.dir.path().join("script")).arg(self.dir.path().join("bin").join(name));
        assert!(copying.status().unwrap().success());
        self
    }

    /// What it was told, in order.
    fn said(&self) -> Vec<String> {
        let said = std::fs::read_to_string(self.dir.path().join("said")).unwrap_or_default();
        said.lines().map(str::to_owned).collect()
    }

    fn units(&self) -> PathBuf {
        self.machine.home.join(".config/systemd/user")
    }

    fn install(&self, enabling: EnableOptions) -> Result<Installed> {
        install(&plan(&["evolve", "auto-run", "7"]), Scheduler::Systemd, enabling, &self.machine)
    }

    fn uninstall(&self, stopping: StopOptions) -> Result<Uninstalled> {
        uninstall(&"7".parse().unwrap(), Scheduler::Systemd, stopping, &self.machine)
    }
}

fn write(directory: &Path, name: &str, content: &str) {
    let root = herm::fsio::Root::open(directory).unwrap();
    root.replace(&name.parse().unwrap(), content.as_bytes(), herm::fsio::SyncTiming::Later).unwrap();
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_timer_is_installed_enabled_and_taken_away_again() {
    let case = Case::new().scheduler("systemctl", "echo fine");
    let installed = case.install(EnableOptions::Now).unwrap();
    let paths = ["herm-evolver-7.service", "herm-evolver-7.timer"].map(|name| case.units().join(name));
    let expected = Installed {
        scheduler: Scheduler::Systemd,
        paths: paths.to_vec(),
        replaced: false,
        enabled: true,
        activation: Activation::Done("fine".to_owned()),
    };
    assert_eq!(installed, expected);
    assert_eq!(names(&case.units()), ["herm-evolver-7.service", "herm-evolver-7.timer"], "and nothing beside them");
    let written: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let meant = files(&plan(&["evolve", "auto-run", "7"]), Scheduler::Systemd).unwrap();
    assert_eq!(written, meant.into_iter().map(|file| file.content).collect::<Vec<_>>());

    assert_eq!(case.install(EnableOptions::Now).unwrap(), Installed { replaced: true, ..expected });
    let gone = case.uninstall(StopOptions::Now).unwrap();
    assert_eq!((gone.removed, gone.missing), (paths.to_vec(), Vec::new()));
    assert_eq!(gone.activation, Activation::Done("fine".to_owned()));
    assert_eq!(names(&case.units()), Vec::<String>::new());
    let said = |words: &str| format!("--user {words} [/run/user/1 2]");
    assert_eq!(
        case.said(),
        [
            said("daemon-reload"),
            said("enable --now herm-evolver-7.timer"),
            said("daemon-reload"),
            said("enable --now herm-evolver-7.timer"),
            said("restart herm-evolver-7.timer"),
            said("disable --now herm-evolver-7.timer"),
            said("daemon-reload"),
        ]
    );
    let again = case.uninstall(StopOptions::Now).unwrap();
    assert_eq!((again.removed, again.missing, again.activation), (Vec::new(), paths.to_vec(), Activation::NotAsked));
}

#[test]
fn without_a_scheduler_the_files_stay_and_it_is_said() {
    let case = Case::new();
    let installed = case.install(EnableOptions::Now).unwrap();
    assert!(!installed.enabled && installed.activation.has_failed());
    assert_eq!(installed.activation, Activation::Failed("systemctl is not on this machine's PATH".to_owned()));
    assert_eq!(
        serde_json::to_value(&installed.activation).unwrap(),
        serde_json::json!({ "state": "failed", "detail": "systemctl is not on this machine's PATH" })
    );
    assert_eq!(names(&case.units()).len(), 2);

    let case = case.scheduler("systemctl", "echo no bus >&2; exit 1");
    let installed = case.install(EnableOptions::Now).unwrap();
    assert_eq!(
        installed.activation,
        Activation::Failed("`systemctl --user daemon-reload` did not work: exit code 1: no bus".to_owned())
    );
    assert_eq!((installed.enabled, case.said().len(), names(&case.units()).len()), (false, 1, 2));
    // Taking it away does not wait for the scheduler either, and leaves no link behind.
    let wants = case.units().join("timers.target.wants");
    std::fs::create_dir(&wants).unwrap();
    std::os::unix::fs::symlink("../herm-evolver-7.timer", wants.join("herm-evolver-7.timer")).unwrap();
    let gone = case.uninstall(StopOptions::Now).unwrap();
    assert!(gone.activation.has_failed() && gone.removed.len() == 2);
    assert_eq!((names(&case.units()), names(&wants)), (vec!["timers.target.wants".to_owned()], Vec::new()));
}

#[test]
fn nobody_is_told_unless_asked() {
    let case = Case::new().scheduler("systemctl", "");
    let installed = case.install(EnableOptions::FilesOnly).unwrap();
    assert_eq!((installed.enabled, installed.activation), (false, Activation::NotAsked));
    let gone = case.uninstall(StopOptions::FilesOnly).unwrap();
    assert_eq!((gone.removed.len(), gone.activation, case.said()), (2, Activation::NotAsked, Vec::new()));
    let elsewhere = Case::new();
    assert_eq!(elsewhere.uninstall(StopOptions::Now).unwrap().missing.len(), 2);
    assert!(!elsewhere.units().exists(), "looking makes nothing");
}

#[test]
fn a_file_that_herm_did_not_make_is_left_alone() {
    let case = Case::new().scheduler("systemctl", "");
    std::fs::create_dir_all(case.units()).unwrap();
    write(&case.units(), "herm-evolver-7.timer", "[Timer]\nOnCalendar=yearly\n");
    for refused in [case.install(EnableOptions::Now).err(), case.uninstall(StopOptions::Now).err()] {
        let error = refused.unwrap();
        assert_eq!(error.kind(), herm::ErrorKind::Refused);
        assert!(error.message().ends_with("herm-evolver-7.timer was not made by herm"), "{}", error.message());
    }
    assert!(!case.units().join("herm-evolver-7.service").exists(), "nothing is half installed");
    // A unit that its owner masked is a link, and stays one.
    herm::fsio::remove_tree(&case.units()).unwrap();
    std::fs::create_dir(case.units()).unwrap();
    std::os::unix::fs::symlink("/dev/null", case.units().join("herm-evolver-7.timer")).unwrap();
    assert!(case.install(EnableOptions::Now).is_err());
    assert_eq!(case.said(), Vec::<String>::new());
}

#[test]
fn a_configuration_directory_that_is_a_link_or_elsewhere_is_fine() {
    let mut case = Case::new();
    std::fs::create_dir_all(case.dir.path().join("dotfiles/systemd/user")).unwrap();
    std::os::unix::fs::symlink(case.dir.path().join("dotfiles"), case.machine.home.join(".config")).unwrap();
    assert_eq!(case.install(EnableOptions::FilesOnly).unwrap().paths.len(), 2);
    assert_eq!(names(&case.dir.path().join("dotfiles/systemd/user")).len(), 2);
    case.machine.config_home = Some(case.dir.path().join("xdg"));
    case.install(EnableOptions::FilesOnly).unwrap();
    assert_eq!(names(&case.dir.path().join("xdg/systemd/user")).len(), 2);
}

#[test]
fn an_agent_of_launchd_is_loaded_anew_and_taken_away() {
    let case = Case::new().scheduler("launchctl", "test \"$1\" = bootstrap");
    let installed = install(&plan(&[]), Scheduler::Launchd, EnableOptions::Now, &case.machine).unwrap();
    let path = case.machine.home.join("Library/LaunchAgents/herm.evolver.7.plist");
    assert_eq!((installed.enabled, installed.paths), (true, vec![path.clone()]));
    let user = rustix::process::getuid().as_raw();
    let told = |words: String| format!("{words} [/run/user/1 2]");
    assert_eq!(
        case.said(),
        [told(format!("bootout gui/{user}/herm.evolver.7")), told(format!("bootstrap gui/{user} {}", path.display())),]
    );
    let gone = uninstall(&"7".parse().unwrap(), Scheduler::Launchd, StopOptions::Now, &case.machine).unwrap();
    assert!(gone.activation.has_failed(), "the script refuses to unload");
    assert_eq!((gone.removed, path.exists()), (vec![path], false));
}
