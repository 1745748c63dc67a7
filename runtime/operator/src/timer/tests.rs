mod install;
mod units;

use super::*;

fn plan(arguments: &[&str]) -> TimerPlan {
    TimerPlan {
        brain: "7".parse().unwrap(),
        program: "/opt/herm/bin/herm".into(),
        arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
        environment: BTreeMap::from([("HERM_BRAINS".to_owned(), "/srv/my brains".to_owned())]),
        schedule: Schedule::Daily,
        working_dir: "/srv".into(),
    }
}

/// A program as a test starts it.
#[expect(clippy::disallowed_methods, reason = "a test starts what it judges by")]
fn program(name: &str) -> std::process::Command {
    std::process::Command::new(name)
}

/// Makes a plan bad in one way.
type Spoil = Box<dyn Fn(&mut TimerPlan)>;

#[test]
fn nothing_secret_or_unprintable_gets_into_a_file() {
    let key = format!("sk-ant-{}", "a1B2".repeat(8));
    let spoilt: [(&str, Spoil); 9] = [
        ("an argument of the timer holds a secret", Box::new(move |plan| plan.arguments.push(format!("--x={key}")))),
        ("an argument of the timer has a line end", Box::new(|plan| plan.arguments.push("a\nb".to_owned()))),
        ("an argument of the timer has a line end", Box::new(|plan| plan.arguments.push("a\u{ffff}".to_owned()))),
        ("MY_API_KEY holds a secret", set("MY_API_KEY", "x")),
        ("GITHUB_TOKEN holds a secret", set("GITHUB_TOKEN", "x")),
        ("URL holds a secret", set("URL", "https://me:pw@host/")),
        ("\"A B\" is not the name of a variable", set("A B", "x")),
        ("the program of the timer, herm, is not a full path", Box::new(|plan| plan.program = "herm".into())),
        ("the working directory of the timer has a line end", Box::new(|plan| plan.working_dir = "/a\rb".into())),
    ];
    for scheduler in [Scheduler::Systemd, Scheduler::Launchd] {
        for (message, spoil) in &spoilt {
            let mut plan = plan(&[]);
            spoil(&mut plan);
            let error = files(&plan, scheduler).unwrap_err();
            assert!(error.message().starts_with(message), "{}", error.message());
        }
    }
    let mut fine = plan(&[]);
    set("HERM_SIGNING_KEY_FILE", "/keys/one.pem")(&mut fine);
    assert!(files(&fine, Scheduler::Systemd).is_ok(), "the name of a file is no secret");
}

fn set(name: &'static str, value: &'static str) -> Spoil {
    Box::new(move |plan| {
        plan.environment.insert(name.to_owned(), value.to_owned());
    })
}
