//! temp
use crate::escapes::probe_inside;
use crate::ground::Ground;
use crate::harness::{NotRun, Test, test};
use crate::probes::Found;
use herm_sandbox::{Layer, Layers};
pub fn tests() -> Vec<Test> {
    vec![test("ablation_print", pr)]
}
fn pr() -> Result<(), NotRun> {
    use Layer::*;
    let sets: Vec<Vec<Layer>> = vec![
        vec![],
        vec![Descriptors],
        vec![Environment],
        vec![TransientUser],
        vec![MountView],
        vec![ProcessNamespace],
        vec![NetworkNamespace],
        vec![IpcNamespace],
        vec![HostName],
        vec![NestedNamespaces],
        vec![Capabilities],
        vec![Landlock],
        vec![Seccomp],
        vec![Landlock, MountView],
        vec![Landlock, NetworkNamespace],
        vec![Landlock, ProcessNamespace],
        vec![Capabilities, Seccomp],
        vec![NestedNamespaces, Seccomp],
        vec![MountView, TransientUser],
        vec![MountView, TransientUser, Landlock],
    ];
    for mut off in sets {
        off.push(Canary);
        let ground = Ground::new();
        let lease = ground.lease();
        let mut spec = ground.spec(&lease, &["probes", "escapes"]);
        spec.layers = Layers::with_holes_for_a_negative_control(&off);
        let found = probe_inside(spec, &ground);
        let r: Vec<_> = found
            .iter()
            .filter(|(_, f)| matches!(f, Found::Reached(_)))
            .map(|(n, f)| if std::env::var("V").is_ok() { format!("{n} {f:?}") } else { n.clone() })
            .collect();
        println!("figure: {off:?}: {r:?}");
    }
    Ok(())
}
