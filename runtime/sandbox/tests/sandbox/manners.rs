//! What a caller can rely on: what the program is given, how its end is told, and what is refused.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use herm_sandbox::{
    Bind, ExitReason, OutputMode, SandboxLayer, SandboxLimits, SandboxProgram, SandboxSpec, SpawnError, StdinMode,
    Tier, available, spawn,
};

use crate::escapes::standing;
use crate::harness::{NotRun, Test, is_root, root_test, test};
use crate::test_host::{Ground, finish};

pub fn tests() -> Vec<Test> {
    vec![
        test("the_program_gets_what_the_spec_lists_and_nothing_else", given),
        test("streams_are_piped_both_ways", echo),
        test("the_channel_is_descriptor_three", channel),
        test("codes_and_signals_are_told", codes),
        test("what_was_made_in_work_is_there_afterwards", work),
        test("dropping_it_ends_it", dropped),
        test("every_layer_stands_and_says_how", layers),
        test("availability_names_the_tier", availability),
        test("a_program_without_system_binds_is_this_binary_alone", bare),
        test("what_cannot_be_is_refused_with_a_next_step", refused),
        root_test("a_file_with_a_second_name_is_refused", second_name),
        test("a_link_that_a_program_left_is_no_trouble_for_the_next", linked_inside),
        test("sandboxes_run_beside_each_other", beside),
        test("the_thread_that_spawned_may_end", thread_ends),
        test("where_namespaces_are_forbidden_the_suite_is_named_as_not_run", forbidden),
        test("a_program_that_is_being_written_is_waited_for_and_not_for_ever", busy),
    ]
}

fn quiet(ground: &Ground, lease: &herm_sandbox::SandboxLease, words: &[&str]) -> SandboxSpec {
    let mut spec = ground.spec(lease, words);
    (spec.stdin, spec.stdout, spec.stderr) = (StdinMode::Null, OutputMode::Null, OutputMode::Null);
    spec
}

/// Whether the user who runs this can have a sandbox at all.
pub fn trial() -> ExitCode {
    let ground = Ground::new();
    let lease = ground.lease();
    match spawn(quiet(&ground, &lease, &["attack", "exit", "0"])).map(|running| running.wait().how) {
        Ok(ExitReason::Exited(0)) => ExitCode::SUCCESS,
        other => {
            println!("{other:?}");
            ExitCode::FAILURE
        }
    }
}

fn given() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = ground.spec(&lease, &["attack", "say", "a b", "ü"]);
    spec.environment = vec![("NAME".into(), "va=lue".into())];
    let said = finish(spec, "").unwrap();
    let (variables, words, place): (Vec<(String, String)>, Vec<String>, PathBuf) =
        serde_json::from_str(&said.output).unwrap();
    assert_eq!(variables, [("NAME".to_owned(), "va=lue".to_owned())]);
    assert_eq!(words, ["inside", "attack", "say", "a b", "ü"]);
    assert_eq!(place, PathBuf::from("/work"));
    Ok(())
}

fn echo() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let said = finish(ground.spec(&lease, &["attack", "echo"]), "in and out").unwrap();
    assert_eq!((said.output.as_str(), said.errors.as_str()), ("in and out", ""));
    assert_eq!(said.ending.how, ExitReason::Exited(0));
    assert_eq!(said.ending.used.output, 10);
    Ok(())
}

fn channel() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut spec = quiet(&ground, &lease, &["attack", "channel"]);
    spec.channel = Some(theirs.into());
    let running = spawn(spec).unwrap();
    ours.write_all(b"hello").unwrap();
    let mut answer = String::new();
    ours.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HELLO");
    assert_eq!(running.wait().how, ExitReason::Exited(0));
    Ok(())
}

fn codes() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let ending = |words: &[&str]| spawn(quiet(&ground, &lease, words)).unwrap().wait();
    assert_eq!(ending(&["attack", "exit", "7"]).how, ExitReason::Exited(7));
    let ended = ending(&["attack", "die"]);
    assert_eq!((ended.how, ended.terminated_within), (ExitReason::Signalled(libc::SIGTERM), None));
    Ok(())
}

fn work() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    fs::write(lease.work().join("before"), "from outside").unwrap();
    let ending = spawn(quiet(&ground, &lease, &["attack", "write"])).unwrap().wait();
    assert_eq!(ending.how, ExitReason::Exited(0));
    assert_eq!(fs::read_to_string(lease.work().join("result")).unwrap(), "made inside");
    assert_eq!(fs::read_to_string(lease.work().join("before")).unwrap(), "from outside");
    assert!(ending.used.files_peak >= 2 && ending.used.disk_peak > 0, "{ending:?}");
    Ok(())
}

fn dropped() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = ground.spec(&lease, &["attack", "sleep"]);
    spec.stdin = StdinMode::Null;
    let mut running = spawn(spec).unwrap();
    let mut stdout = running.stdout.take().unwrap();
    drop(running);
    // The stream ends because nobody is left who could write to it.
    assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
    Ok(())
}

fn layers() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let running = spawn(quiet(&ground, &lease, &["attack", "nothing"])).unwrap();
    let report = &running.report;
    assert_eq!(report.tier, Tier::Namespaces);
    let expected: Vec<_> =
        SandboxLayer::ALL.into_iter().filter(|layer| *layer != SandboxLayer::TransientUser || is_root()).collect();
    assert_eq!(standing(report), expected, "{report:?}");
    assert!(
        report.layers.len() == SandboxLayer::ALL.len() && report.layers.iter().all(|layer| !layer.detail.is_empty())
    );
    assert!(report.canary.len() >= 12 && report.canary.iter().all(|probe| probe.held), "{report:?}");
    println!("figure: {} probes of the canary", report.canary.len());
    running.wait();
    Ok(())
}

fn availability() -> Result<(), NotRun> {
    let found = available();
    assert_eq!(found.tier, Some(Tier::Namespaces), "{found:?}");
    assert!(found.layers.iter().all(|layer| layer.on), "{found:?}");
    Ok(())
}

fn bare() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = quiet(&ground, &lease, &["attack", "exit", "3"]);
    spec.binds = Vec::new();
    assert_eq!(spawn(spec).unwrap().wait().how, ExitReason::Exited(3));
    Ok(())
}

fn refused() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let refusal = |change: fn(&mut SandboxSpec)| {
        let mut spec = quiet(&ground, &lease, &["attack", "nothing"]);
        change(&mut spec);
        let refusal = spawn(spec).map(|running| running.report).unwrap_err();
        assert!(!refusal.message().is_empty() && !refusal.hint().is_empty());
        refusal
    };
    let name = |refusal: &SpawnError| refusal.name();
    let missing = refusal(|spec| spec.program = SandboxProgram::At("/bin/no-such-program".into()));
    assert_eq!(name(&missing), "setup");
    assert!(missing.message().contains("/bin/no-such-program"), "{missing}");
    let bind = refusal(|spec| spec.binds.push(Bind::same("/no/such/place")));
    assert!(bind.message().contains("/no/such/place"), "{bind}");
    assert_eq!(name(&refusal(|spec| spec.program = SandboxProgram::At("sh".into()))), "invalid");
    assert_eq!(name(&refusal(|spec| spec.binds.push(Bind::at("/usr", "/work/usr")))), "invalid");
    assert_eq!(name(&refusal(|spec| spec.binds.push(Bind::at("/usr", "/a/../b")))), "invalid");
    assert_eq!(name(&refusal(|spec| spec.environment.push(("A=B".into(), String::new())))), "invalid");
    assert_eq!(name(&refusal(|spec| spec.args.push("a\0b".into()))), "invalid");
    assert_eq!(name(&refusal(|spec| spec.limits.processes = 0)), "invalid");
    assert_eq!(name(&refusal(|spec| spec.work = "/no/such/work".into())), "invalid");
    Ok(())
}

fn second_name() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    fs::hard_link(&ground.targets.secret, lease.work().join("linked")).unwrap();
    let refusal = spawn(quiet(&ground, &lease, &["attack", "nothing"])).map(|running| running.report).unwrap_err();
    assert!(refusal.message().contains("linked"), "{refusal}");
    Ok(())
}

fn linked_inside() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    for attack in ["link", "nothing"] {
        let ending = spawn(quiet(&ground, &lease, &["attack", attack])).unwrap().wait();
        assert_eq!(ending.how, ExitReason::Exited(0), "{attack}");
    }
    assert_eq!(fs::read_to_string(lease.work().join("below/two")).unwrap(), "made inside");
    Ok(())
}

fn beside() -> Result<(), NotRun> {
    let ground = Ground::new();
    let running: Vec<_> = (0..4)
        .map(|code: u8| {
            let lease = ground.lease();
            let running = spawn(quiet(&ground, &lease, &["attack", "exit", &code.to_string()])).unwrap();
            (code, running, lease)
        })
        .collect();
    for (code, running, _lease) in running {
        assert_eq!(running.wait().how, ExitReason::Exited(code.into()));
    }
    Ok(())
}

fn thread_ends() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = quiet(&ground, &lease, &["attack", "sleep"]);
    spec.limits = SandboxLimits { wall: Duration::from_millis(400), ..SandboxLimits::default() };
    let running = std::thread::spawn(move || spawn(spec).unwrap()).join().unwrap();
    // It was not ended with the thread that asked for it, but by its time.
    assert!(matches!(running.wait().how, ExitReason::Exceeded { budget: herm_sandbox::LimitKind::Wall, .. }));
    Ok(())
}

fn busy() -> Result<(), NotRun> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let ground = Ground::new();
    for (held, ends_well) in [(Duration::from_millis(100), true), (Duration::from_secs(600), false)] {
        let lease = ground.lease();
        let path = lease.work().join("program");
        let mut writing = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(&path).unwrap();
        writing.write_all(b"#!/bin/sh\nexit 5\n").unwrap();
        let mut spec = quiet(&ground, &lease, &[]);
        spec.program = SandboxProgram::At("/work/program".into());
        spec.binds = Bind::system();
        let ended = std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                // A caller that has waited for the program to end does not wait for this too.
                let _ = is_done.recv_timeout(held);
                drop(writing);
            });
            let ended = spawn(spec).map(|running| running.wait().how);
            drop(done);
            ended
        });
        match ended {
            Ok(ExitReason::Exited(5)) if ends_well => {}
            Ok(ExitReason::Broken(why)) if !ends_well && why.contains("/work/program") => {}
            Err(refusal) if !ends_well && refusal.message().contains("/work/program") => {}
            other => panic!("held for {held:?}: {other:?}"),
        }
    }
    Ok(())
}

/// The suite once more, on a machine that forbids user namespaces.
fn forbidden() -> Result<(), NotRun> {
    let place = tempfile::tempdir().unwrap();
    // What is not run is noted two directories above the binary.
    let suite = place.path().join("debug/deps/suite");
    fs::create_dir_all(suite.parent().unwrap()).unwrap();
    fs::copy(std::env::current_exe().unwrap(), &suite).unwrap();
    let restricted = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c"]);
        command.arg("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"").arg(&suite).args(arguments);
        command.env_remove("HERM_CI").output().unwrap()
    };
    let output = restricted(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("unshare: ") {
        return Err(NotRun("a user namespace that can forbid others", "allow unprivileged user namespaces (sysctl)"));
    }
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        said,
        "NOT RUN: the suite of the sandbox: needs a sandbox (apt-get install bubblewrap, or allow unprivileged user \
         namespaces (sysctl))\n"
    );
    // No tier counts as available, whatever root may do there without a user namespace.
    let output = restricted(&["run", "availability_names_the_tier"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("tier: None"), "{said}");
    assert!(said.contains("cannot make namespaces: no more of them are allowed here"), "{said}");
    Ok(())
}
