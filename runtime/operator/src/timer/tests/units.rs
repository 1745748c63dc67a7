//! What the files say, and that their readers read it so.

use proptest::prelude::*;

use super::*;

fn content(plan: &TimerPlan, scheduler: Scheduler, at: usize) -> String {
    files(plan, scheduler).unwrap().swap_remove(at).content
}

/// The value of a line of a unit.
fn value<'a>(unit: &'a str, name: &str) -> &'a str {
    unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

/// Reads a line the way systemd.syntax(7) documents: words between spaces, quotes, C escapes.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return words;
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (c, quote) {
                ('\\', _) => word.push(match chars.next().expect("an escaped character") {
                    plain @ ('\\' | '"' | '\'') => plain,
                    's' => ' ',
                    't' => '\t',
                    'n' => '\n',
                    other => panic!("an unexpected escape: {other}"),
                }),
                (c, Some(open)) if c == open => quote = None,
                ('"' | '\'', None) => quote = Some(c),
                (c, None) if c.is_ascii_whitespace() => break,
                (c, _) => word.push(c),
            }
        }
        assert_eq!(quote, None, "an open quote: {line}");
        words.push(word);
    }
}

/// What a word becomes when each doubled `sign` is one; a single one would begin something else.
fn single(word: &str, sign: char) -> String {
    let pairs: Vec<&str> = word.split(sign).collect();
    assert!(pairs.len() % 2 == 1, "a single {sign}: {word}");
    let mut read = String::new();
    for (at, piece) in pairs.iter().enumerate() {
        if at % 2 == 1 {
            assert_eq!(*piece, "", "a single {sign}: {word}");
            read.push(sign);
        } else {
            read.push_str(piece);
        }
    }
    read
}

/// The program and its arguments, as systemd would start it.
fn started(unit: &str) -> Vec<String> {
    let words = words(value(unit, "ExecStart")).into_iter().map(|word| single(&word, '%'));
    words.enumerate().map(|(at, word)| if at == 0 { word } else { single(&word, '$') }).collect()
}

#[test]
fn a_service_and_its_timer_say_this() {
    let plan = plan(&["evolve", "auto-run", "7", "--block-auto-apply-skill", "a *"]);
    let files = files(&plan, Scheduler::Systemd).unwrap();
    assert_eq!(
        files[0],
        TimerFile {
            name: "herm-evolver-7.service".to_owned(),
            content: "# Made by herm: `herm evolve install-auto` writes it anew, `herm evolve uninstall-auto` takes it away.\n\
                [Unit]\nDescription=herm: evolve the skills of brain 7\n\n\
                [Service]\nType=oneshot\n\
                ExecStart=/opt/herm/bin/herm evolve auto-run 7 --block-auto-apply-skill \"a *\"\n\
                WorkingDirectory=/srv\nEnvironment=\"HERM_BRAINS=/srv/my brains\"\n\
                TimeoutStartSec=3600\nNice=10\nUMask=0077\nNoNewPrivileges=yes\nLockPersonality=yes\n\
                RestrictRealtime=yes\nRestrictSUIDSGID=yes\nSystemCallArchitectures=native\n"
                .to_owned(),
        }
    );
    assert_eq!(
        files[1],
        TimerFile {
            name: "herm-evolver-7.timer".to_owned(),
            content: "# Made by herm: `herm evolve install-auto` writes it anew, `herm evolve uninstall-auto` takes it away.\n\
                [Unit]\nDescription=herm: when to evolve the skills of brain 7\n\n\
                [Timer]\nOnCalendar=daily\nPersistent=true\nRandomizedDelaySec=300\nUnit=herm-evolver-7.service\n\n\
                [Install]\nWantedBy=timers.target\n"
                .to_owned(),
        }
    );
    let mut every = plan;
    every.schedule = "90".parse().unwrap();
    let timer = content(&every, Scheduler::Systemd, 1);
    assert!(timer.contains("[Timer]\nOnActiveSec=90\nOnUnitActiveSec=90\nRandomizedDelaySec=9\n"), "{timer}");
}

#[test]
fn signs_that_mean_something_to_systemd_are_written_so_that_they_do_not() {
    let hard =
        ["", ";", "a b", "100%", "%h", "$HOME", "${HOME}", "$$", "\"", "'", "\\", "\\n", "a\\", "ü 漢", "#", "-"];
    let plan = plan(&hard);
    let read = started(&content(&plan, Scheduler::Systemd, 0));
    assert_eq!(read.split_first().unwrap(), (&"/opt/herm/bin/herm".to_owned(), plan.arguments.as_slice()));
}

#[test]
fn paths_that_systemd_cannot_start_are_refused() {
    for bad in ["/opt/q\"x/herm", "/opt/it's/herm", "/opt/b\\x/herm"] {
        let mut plan = plan(&[]);
        plan.program = bad.into();
        assert!(files(&plan, Scheduler::Systemd).unwrap_err().message().starts_with("systemd starts no program"));
        assert!(files(&plan, Scheduler::Launchd).is_ok());
    }
    for bad in ["/srv/x\\", "/srv/x "] {
        let mut plan = plan(&[]);
        plan.working_dir = bad.into();
        assert!(files(&plan, Scheduler::Systemd).is_err());
    }
}

proptest! {
    #[test]
    fn any_printable_argument_and_variable_comes_back_as_it_was(
        arguments in prop::collection::vec(prop_oneof!["[ -~]{0,20}", "\\PC{0,12}", "[\"'\\\\%$; ]{1,8}"], 0..6),
        variable in prop_oneof!["[ -~]{0,20}", "[\"'\\\\%$; ]{1,8}"],
    ) {
        let mut plan = plan(&[]);
        plan.program = "/opt/a $b%c/herm".into();
        plan.arguments = arguments;
        plan.environment = BTreeMap::from([("HERM_MODEL".to_owned(), variable.clone())]);
        // What is refused is refused for a reason of its own.
        let Ok(files) = files(&plan, Scheduler::Systemd) else { return Ok(()) };
        let unit = &files[0].content;
        let read = started(unit);
        prop_assert_eq!(&read[0], "/opt/a $b%c/herm");
        prop_assert_eq!(&read[1..], plan.arguments.as_slice());
        let environment: Vec<String> = words(value(unit, "Environment")).iter().map(|word| single(word, '%')).collect();
        prop_assert_eq!(environment, [format!("HERM_MODEL={variable}")]);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn systemd_itself_accepts_the_files() {
    if program("systemd-analyze").arg("--version").output().is_err() {
        let get = "apt-get install systemd";
        return herm_untested::not_run("systemd itself accepts the files of a timer", "systemd-analyze", get);
    }
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a $b 100%d ü");
    std::fs::create_dir(&odd).unwrap();
    std::fs::copy("/bin/sh", odd.join("he rm")).unwrap();
    for schedule in ["hourly", "daily", "weekly", "1", "86400", "Mon..Fri *-*-* 09:00"] {
        let mut plan = plan(&["--a b", "\"q\"", "100%", "$HOME", ";", "back\\slash", "'"]);
        plan.schedule = schedule.parse().unwrap();
        plan.program = odd.join("he rm");
        plan.working_dir = odd.clone();
        let units = dir.path().join("units");
        std::fs::create_dir_all(&units).unwrap();
        let mut verify = program("systemd-analyze");
        verify.args(["--user", "verify"]).env("XDG_RUNTIME_DIR", dir.path()).env("HOME", dir.path());
        for file in files(&plan, Scheduler::Systemd).unwrap() {
            let path = units.join(&file.name);
            herm::fsio::Root::open(&units)
                .and_then(|root| {
                    root.replace(&file.name.parse()?, file.content.as_bytes(), herm::fsio::SyncTiming::Later)
                })
                .unwrap();
            verify.arg(path);
        }
        let output = verify.output().unwrap();
        // Unknown keys and bad times are only warnings to it.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("herm-evolver"), "{schedule}: {said}");
    }
}

#[test]
fn an_agent_of_launchd_reads_back_as_it_was_meant() {
    let mut plan = plan(&["a & b", "<tag>", "\"q\" 'p'", "ü 漢", "]]>", ""]);
    plan.environment.insert("HERM_MODEL".to_owned(), "a<b>&c".to_owned());
    plan.program = "/Applications/My Herm/herm".into();
    let interval = |seconds: u32| format!("\"StartInterval\": {seconds}");
    for (schedule, when) in [
        ("hourly", interval(3_600)),
        ("90", interval(90)),
        ("daily", "\"StartCalendarInterval\": {\"Hour\": 9, \"Minute\": 0}".to_owned()),
        ("weekly", "\"StartCalendarInterval\": {\"Weekday\": 1, \"Hour\": 9, \"Minute\": 0}".to_owned()),
    ] {
        plan.schedule = schedule.parse().unwrap();
        let files = files(&plan, Scheduler::Launchd).unwrap();
        assert_eq!(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["herm.evolver.7.plist"]);
        let plist = &files[0].content;
        assert!(plist.contains("<string>a &amp; b</string>") && plist.contains("<string>]]&gt;</string>"));
        let script = "import json, plistlib, sys\nprint(json.dumps(plistlib.loads(sys.argv[1].encode())))";
        let Ok(output) = program("python3").args(["-c", script, plist]).output() else {
            return herm_untested::not_run("a property list read by plistlib", "python3", "apt-get install python3");
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = format!(
            "{{\"Label\": \"herm.evolver.7\", \"WorkingDirectory\": \"/srv\", \"ProcessType\": \"Background\", \
             \"Umask\": 63, {when}, \"EnvironmentVariables\": {{\"HERM_BRAINS\": \"/srv/my brains\", \
             \"HERM_MODEL\": \"a<b>&c\"}}}}"
        );
        let mut expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
        let words: Vec<&str> =
            std::iter::once("/Applications/My Herm/herm").chain(plan.arguments.iter().map(String::as_str)).collect();
        expected["ProgramArguments"] = serde_json::json!(words);
        assert_eq!(read, expected);
    }
    plan.schedule = "Mon *-*-* 09:00".parse().unwrap();
    assert!(files(&plan, Scheduler::Launchd).unwrap_err().message().starts_with("launchd has no calendar expressions"));
}
