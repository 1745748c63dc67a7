//! Nothing gets out: every probe, in both tiers, as root and as nobody.

use std::collections::BTreeMap;

use herm_sandbox::{CgroupPolicy, ExitReason, SandboxLayer, Tier, TierPolicy};

use crate::harness::{NotRun, Test, is_root, test};
use crate::inside::{in_a_process, of_kind};
use crate::probes::{Control, Found, escapes, positives};
use crate::test_host::{Ground, finish};

pub fn tests() -> Vec<Test> {
    vec![
        test("probes_get_through_on_the_host", controls),
        test("nothing_gets_out_of_namespaces", || nothing_gets_out(Tier::Namespaces, CgroupPolicy::WhereWritable)),
        test("nothing_gets_out_of_namespaces_without_control_groups", || {
            nothing_gets_out(Tier::Namespaces, CgroupPolicy::Never)
        }),
        test("nothing_gets_out_of_bubblewrap", || {
            if !std::path::Path::new("/usr/bin/bwrap").exists() {
                return Err(NotRun("bubblewrap", "apt-get install bubblewrap"));
            }
            nothing_gets_out(Tier::Bubblewrap, CgroupPolicy::WhereWritable)
        }),
    ]
}

/// Runs all probes of a kind in a sandbox, by name.
pub fn probe_inside(spec: herm_sandbox::SandboxSpec, ground: &Ground) -> BTreeMap<String, Found> {
    let input = serde_json::to_string(&ground.targets).unwrap();
    let finished = finish(spec, &input).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(finished.ending.how, ExitReason::Exited(0), "{}{}", finished.output, finished.errors);
    let found: Vec<(String, Found)> = serde_json::from_str(&finished.output)
        .unwrap_or_else(|error| panic!("{error}: {}{}", finished.output, finished.errors));
    found.into_iter().collect()
}

/// A probe that is stopped on the host as well shows nothing.
fn controls() -> Result<(), NotRun> {
    let ground = Ground::new();
    let targets = serde_json::to_string(&ground.targets_on_the_host()).unwrap();
    let (mut tried, mut vacuous) = (0, Vec::new());
    for probe in escapes() {
        let expected = match probe.control {
            Control::Anybody => true,
            Control::Root => is_root(),
            Control::None => false,
        };
        if !expected {
            continue;
        }
        tried += 1;
        if let Found::Stopped(how) = in_a_process(probe.name, &targets, &ground.targets.open_directory) {
            vacuous.push(format!("{}: {how}", probe.name));
        }
    }
    println!("figure: {tried} of {} probes get through on the host", escapes().len());
    assert_eq!(vacuous, Vec::<String>::new(), "these are stopped on the host as well");
    Ok(())
}

fn nothing_gets_out(tier: Tier, cgroups: CgroupPolicy) -> Result<(), NotRun> {
    let ground = Ground::new();
    let before = listing(&ground);
    for kind in ["escapes", "positives"] {
        let lease = ground.lease();
        let mut spec = ground.spec(&lease, &["probes", kind]);
        spec.tiers = TierPolicy::Only(tier);
        spec.cgroups = cgroups;
        let found = probe_inside(spec, &ground);
        let expected: Vec<_> = of_kind(kind).iter().map(|probe| probe.name.to_owned()).collect();
        assert_eq!(found.len(), expected.len(), "every probe has a name of its own and an answer");
        let wrong: Vec<_> = found
            .iter()
            .filter(|(_, found)| match found {
                Found::Stopped(_) => kind == "positives",
                Found::Reached(_) => kind == "escapes",
            })
            .collect();
        assert!(wrong.is_empty(), "{kind} that went wrong in {tier:?}: {wrong:#?}");
        println!("figure: {tier:?}: {} {kind} as they must be", found.len());
    }
    assert!(escapes().len() >= 60 && positives().len() >= 8);
    // What the probes say of themselves is checked from outside.
    assert_eq!(listing(&ground), before, "something was made outside");
    let bound = std::fs::read_to_string(ground.directory.path().join("bound")).unwrap();
    assert_eq!(bound, ground.targets.secret_text);
    Ok(())
}

fn listing(ground: &Ground) -> Vec<String> {
    let entries = std::fs::read_dir(&ground.targets.open_directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// The layers that stand in a report, for other tests.
pub fn standing(report: &herm_sandbox::SpawnReport) -> Vec<SandboxLayer> {
    report.layers.iter().filter(|layer| layer.on).map(|layer| layer.layer).collect()
}
