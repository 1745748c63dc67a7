//! Negative controls: with a layer off, the probes that it stops get through, and no others. What this asserts is the
//! matrix of `docs/reference/sandbox.md`.

use std::collections::BTreeSet;

use herm_sandbox::{SandboxLayer, SandboxLayers, SpawnError};

use SandboxLayer::{
    Canary, Capabilities, Descriptors, Environment, HostName, IpcNamespace, Landlock, MountView, NestedNamespaces,
    NetworkNamespace, ProcessNamespace, Seccomp, TransientUser,
};

use crate::escapes::probe_inside;
use crate::harness::{NotRun, Test, is_root, test};
use crate::probes::Found;
use crate::test_host::{Ground, finish};

pub fn tests() -> Vec<Test> {
    vec![
        test("without_a_layer_its_probes_get_out_and_no_others", matrix),
        test("the_canary_refuses_every_sandbox_with_a_hole_it_can_see", the_canary_refuses),
    ]
}

/// A row of the matrix: what is off, what must get out, what must get out as root or as nobody alone, and what may get
/// out, depending on the kernel and the network.
struct Row {
    off: &'static [SandboxLayer],
    must: &'static [&'static str],
    as_root: &'static [&'static str],
    as_nobody: &'static [&'static str],
    may: &'static [&'static str],
}

const NETWORK: &[&str] = &[
    "datagram_to_the_host",
    "interfaces_of_the_host",
    "port_of_the_host",
    "port_of_the_host_mapped",
    "port_of_the_host_v6",
];
/// Depends on where the machine is.
const ROUTES: &[&str] =
    &["address_of_the_host", "broadcast", "datagram_outside", "metadata_service", "name_server", "outside_v6"];
const FILTERED: &[&str] = &[
    "add_a_key",
    "ask_for_a_key",
    "ask_how_time_is_kept",
    "compare_processes",
    "key_ring",
    "name_to_handle",
    "netlink",
    "netlink_diagnosis",
    "other_personality",
    "other_processors",
    "paste_into_a_console",
    "read_memory_of_others",
    "rings_entered",
    "take_a_descriptor_of_others",
    "trace_me",
    "type_into_a_terminal",
    "type_into_a_terminal_with_an_odd_request",
    "write_memory_of_others",
];
/// Depends on how the kernel was built and set.
const FILTERED_SOMEWHERE: &[&str] = &[
    "calls_from_the_future",
    "measure_the_machine",
    "old_interface",
    "pages_of_others",
    "quotas",
    "rings",
    "secret_memory",
    "segments",
    "set_a_clock",
    "upper_half_of_a_register",
    "vsock",
    "faults_in_our_hands",
    "crypto",
    "bluetooth",
    "can",
    "tipc",
    "rds",
    "xdp",
    "key_management",
    "program_in_the_kernel",
    "move_a_mount",
    "change_a_mount",
    "swap_on",
    "swap_off",
    "accounting",
    "another_kernel",
    "another_kernel_by_file",
    "x32_interface",
];
const FILTERED_CAPABLE: &[&str] = &[
    "chroot",
    "copy_a_mount",
    "gain_capabilities",
    "hold_capabilities",
    "join_a_namespace",
    "new_file_system",
    "new_host_name_namespace",
    "new_ipc_namespace",
    "new_mount_namespace",
    "new_network_namespace",
    "new_process_namespace",
    "packet",
    "pick_a_mount",
    "raw",
    "raw_v6",
    "set_the_domain_name",
    "set_the_host_name",
];
const SEEN: &[&str] = &["read_a_key_of_the_machine", "read_the_home", "see_mounts_of_the_host", "socket_of_the_host"];
const SEEN_WITHOUT_RULES: &[&str] =
    &["list_the_root_of_the_host", "read_run", "read_what_everybody_can_read", "sysfs", "write_into_an_open_directory"];

/// What some machines leave open to everybody: udev, for one, gives `/dev/fuse` to all.
const OPEN_TO_ALL: &[&str] = &["kernel_keys", "open_devices_of_the_machine", "open_terminals"];

/// What the caller's own user can reach of the caller's files.
const OWN_FILES: &[&str] = &[
    "hard_link_to_a_secret",
    "read_a_secret",
    "read_through_the_top",
    "symlink_to_a_secret",
    "symlinked_directory",
    "write_beside_work",
];

const fn row(off: &'static [SandboxLayer], must: &'static [&'static str]) -> Row {
    Row { off, must, as_root: &[], as_nobody: &[], may: &[] }
}

fn rows() -> Vec<Vec<Row>> {
    vec![
        vec![row(&[], &[])],
        vec![row(&[Descriptors], &["inherited_descriptors"])],
        vec![row(&[Environment], &["environment_anywhere", "own_environment"])],
        vec![Row {
            as_root: &["descriptors_of_the_init"],
            may: &["environment_of_the_init"],
            ..row(&[TransientUser], &[])
        }],
        vec![Row { as_nobody: &[], may: &["kernel_keys"], ..row(&[MountView], SEEN) }],
        vec![Row {
            as_nobody: &["descriptors_of_the_parent", "nice_the_parent"],
            ..row(&[ProcessNamespace], &["see_the_parent"])
        }],
        vec![Row { may: ROUTES, ..row(&[NetworkNamespace], NETWORK) }],
        vec![row(&[IpcNamespace], &["shared_memory_of_the_host"])],
        vec![row(&[HostName], &["the_name_of_the_host"])],
        // Second layers: something in front of them stops everything too.
        vec![row(&[NestedNamespaces], &[])],
        vec![row(&[Landlock], &[])],
        vec![row(&[Capabilities], &["gain_capabilities", "hold_capabilities"])],
        vec![Row { may: FILTERED_SOMEWHERE, ..row(&[Seccomp], FILTERED) }],
        // And without what is in front of them.
        vec![
            Row { may: FILTERED_SOMEWHERE, ..row(&[NestedNamespaces, Seccomp], FILTERED) },
            row(&[], &["new_user_namespace", "clone_into_a_user_namespace", "clone3"]),
        ],
        vec![
            Row { may: FILTERED_SOMEWHERE, ..row(&[Capabilities, Seccomp], FILTERED) },
            Row { may: &["new_cgroup_namespace", "new_time_namespace", "reboot"], ..row(&[], FILTERED_CAPABLE) },
        ],
        vec![
            Row { may: OPEN_TO_ALL, ..row(&[Landlock, MountView], SEEN) },
            Row { as_nobody: OWN_FILES, ..row(&[], SEEN_WITHOUT_RULES) },
        ],
        vec![
            Row { may: ROUTES, ..row(&[Landlock, NetworkNamespace], NETWORK) },
            row(&[], &["abstract_socket_of_the_host"]),
        ],
        vec![Row {
            as_nobody: &["descriptors_of_the_parent", "nice_the_parent", "signal_the_parent"],
            ..row(&[Landlock, ProcessNamespace], &["see_the_parent"])
        }],
        vec![row(&[Landlock, IpcNamespace], &["message_queue_of_the_host", "shared_memory_of_the_host"])],
        vec![
            Row { may: OPEN_TO_ALL, ..row(&[MountView, TransientUser, Landlock], SEEN) },
            Row {
                as_root: &[
                    "control_groups",
                    "core_pattern",
                    "descriptors_of_the_init",
                    "drop_caches",
                    "forwarding",
                    "host_name_setting",
                    "open_devices_of_the_machine",
                    "read_a_secret",
                    "read_password_hashes",
                    "read_through_the_top",
                    "symlinked_directory",
                    "write_into_dev",
                    "write_into_etc",
                    "write_into_root",
                    "write_into_usr",
                ],
                as_nobody: OWN_FILES,
                may: &[
                    "symlink_to_a_secret",
                    "hard_link_to_a_secret",
                    "write_beside_work",
                    "environment_of_the_init",
                    "magic_system_request",
                    "kernel_memory",
                ],
                ..row(&[], SEEN_WITHOUT_RULES)
            },
        ],
    ]
}

fn matrix() -> Result<(), NotRun> {
    let mut wrong = Vec::new();
    for parts in rows() {
        let off = parts[0].off;
        let reached = reached_without(off);
        let (mut must, mut may): (BTreeSet<&str>, BTreeSet<&str>) = (BTreeSet::new(), BTreeSet::new());
        for part in &parts {
            must.extend(part.must);
            must.extend(if is_root() { part.as_root } else { part.as_nobody });
            may.extend(part.may);
        }
        let reached: BTreeSet<&str> = reached.iter().map(String::as_str).collect();
        let held: Vec<_> = must.difference(&reached).collect();
        let surprising: Vec<_> = reached.iter().filter(|name| !must.contains(*name) && !may.contains(*name)).collect();
        println!("figure: without {off:?}: {} probes get out", reached.len());
        if !held.is_empty() || !surprising.is_empty() {
            wrong.push(format!("without {off:?}: held all the same: {held:?}; got out as well: {surprising:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}

fn reached_without(off: &[SandboxLayer]) -> Vec<String> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = ground.spec(&lease, &["probes", "escapes"]);
    // The canary would not let them run.
    let off: Vec<_> = off.iter().copied().chain([Canary]).collect();
    spec.layers = SandboxLayers::with_holes_for_a_negative_control(&off);
    let found = probe_inside(spec, &ground);
    found.into_iter().filter(|(_, found)| matches!(found, Found::Reached(_))).map(|(name, _)| name).collect()
}

fn the_canary_refuses() -> Result<(), NotRun> {
    let expected = [
        (Descriptors, "descriptors"),
        (Environment, "environment"),
        (MountView, "root_of_the_host"),
        (ProcessNamespace, "namespaces_of_the_host"),
        (NetworkNamespace, "port_of_the_host"),
        (IpcNamespace, "namespaces_of_the_host"),
        (HostName, "namespaces_of_the_host"),
        (Capabilities, "capabilities"),
        (Seccomp, "system_call_filter"),
    ];
    let ground = Ground::new();
    for (layer, probe) in expected {
        let lease = ground.lease();
        let mut spec = ground.spec(&lease, &["probes", "escapes"]);
        spec.layers = SandboxLayers::with_holes_for_a_negative_control(&[layer]);
        match finish(spec, "").map(|finished| finished.ending) {
            Err(SpawnError::Escaped { probe: found, .. }) => {
                assert_eq!(found, probe, "without {layer:?}");
            }
            other => panic!("without {layer:?} the canary must refuse, but: {other:?}"),
        }
    }
    if is_root() {
        let lease = ground.lease();
        let mut spec = ground.spec(&lease, &["probes", "escapes"]);
        spec.layers = SandboxLayers::with_holes_for_a_negative_control(&[TransientUser]);
        let refused = finish(spec, "").map(|finished| finished.ending);
        assert!(matches!(&refused, Err(SpawnError::Escaped { probe, .. }) if probe == "user_outside"), "{refused:?}");
    }
    Ok(())
}
