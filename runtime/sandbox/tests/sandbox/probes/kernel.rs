//! The kernel: mounts, keys, programs in it, and the machine itself. Arguments are chosen so that nothing happens
//! should a call be carried out.

use super::Control::{Anybody, None, Root};
use super::{Found, Probe, denied, filtered, probe};
use crate::sys::{address, arguments, call, text};

pub fn escapes() -> Vec<Probe> {
    vec![
        probe("mount", None, |_| {
            let tmpfs = text(c"tmpfs");
            denied(call(libc::SYS_mount, arguments(&[tmpfs, text(c"/tmp"), tmpfs, 0, 0])), "mounted over /tmp")
        }),
        probe("bind_mount", None, |_| {
            let flags = libc::MS_BIND as usize;
            denied(call(libc::SYS_mount, arguments(&[text(c"/proc"), text(c"/tmp"), 0, flags, 0])), "mounted over /tmp")
        }),
        probe("make_the_root_writable", None, |_| {
            let flags = (libc::MS_REMOUNT | libc::MS_BIND) as usize;
            denied(call(libc::SYS_mount, arguments(&[0, text(c"/"), 0, flags, 0])), "remounted")
        }),
        probe("unmount", None, |_| {
            denied(call(libc::SYS_umount2, arguments(&[text(c"/proc/sys"), libc::MNT_DETACH as usize])), "unmounted")
        }),
        probe("new_root", None, |_| {
            let here = text(c".");
            filtered(call(libc::SYS_pivot_root, arguments(&[here, here])))
        }),
        probe("new_file_system", Root, |_| filtered(call(libc::SYS_fsopen, arguments(&[text(c"tmpfs"), 0])))),
        probe("copy_a_mount", Root, |_| {
            filtered(call(libc::SYS_open_tree, arguments(&[libc::AT_FDCWD as usize, text(c"/"), 1])))
        }),
        probe("move_a_mount", None, |_| {
            let nowhere = usize::MAX;
            filtered(call(libc::SYS_move_mount, arguments(&[nowhere, text(c""), nowhere, text(c""), 4])))
        }),
        probe("pick_a_mount", Root, |_| {
            filtered(call(libc::SYS_fspick, arguments(&[libc::AT_FDCWD as usize, text(c"/"), 0])))
        }),
        probe("change_a_mount", None, |_| {
            let nothing = [0_u64; 4];
            let asked = arguments(&[libc::AT_FDCWD as usize, text(c"/"), 0, address(&nothing), 32]);
            filtered(call(libc::SYS_mount_setattr, asked))
        }),
        probe("key_ring", Anybody, |_| filtered(call(libc::SYS_keyctl, arguments(&[0, -3_i32 as usize, 1])))),
        probe("add_a_key", Anybody, |_| {
            let (kind, name, value) = (text(c"user"), text(c"herm-probe"), text(c"x"));
            filtered(call(libc::SYS_add_key, arguments(&[kind, name, value, 1, -2_i32 as usize])))
        }),
        probe("ask_for_a_key", Anybody, |_| {
            filtered(call(libc::SYS_request_key, arguments(&[text(c"user"), text(c"herm-none"), 0, 0])))
        }),
        probe("program_in_the_kernel", Root, |_| {
            // An array of one.
            let map = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            filtered(call(libc::SYS_bpf, arguments(&[0, address(&map), 72])))
        }),
        probe("measure_the_machine", Root, |_| {
            let mut attributes = [0_u32; 32];
            attributes[0] = 1;
            attributes[1] = 128;
            filtered(call(libc::SYS_perf_event_open, arguments(&[address(&attributes), 0, usize::MAX, usize::MAX, 0])))
        }),
        probe("faults_in_our_hands", Root, |_| filtered(call(libc::SYS_userfaultfd, arguments(&[0])))),
        probe("rings", Anybody, |_| {
            let parameters = [0_u32; 30];
            filtered(call(libc::SYS_io_uring_setup, arguments(&[1, address(&parameters)])))
        }),
        probe("rings_entered", Anybody, |_| {
            filtered(call(libc::SYS_io_uring_enter, arguments(&[usize::MAX, 0, 0, 0, 0])))
        }),
        probe("another_kernel", None, |_| filtered(call(libc::SYS_kexec_load, arguments(&[0, usize::MAX, 0, 0])))),
        probe("another_kernel_by_file", None, |_| {
            filtered(call(libc::SYS_kexec_file_load, arguments(&[usize::MAX, usize::MAX, 0, 0, 0])))
        }),
        probe("a_module", None, |_| filtered(call(libc::SYS_init_module, arguments(&[0, 0, text(c"")])))),
        probe("a_module_by_file", None, |_| {
            filtered(call(libc::SYS_finit_module, arguments(&[usize::MAX, text(c""), 0])))
        }),
        probe("remove_a_module", None, |_| {
            filtered(call(libc::SYS_delete_module, arguments(&[text(c"herm-none"), 0])))
        }),
        probe("swap_on", None, |_| filtered(call(libc::SYS_swapon, arguments(&[text(c"/herm-none"), 0])))),
        probe("swap_off", None, |_| filtered(call(libc::SYS_swapoff, arguments(&[text(c"/herm-none")])))),
        // With wrong numbers it does nothing, but says something else.
        probe("reboot", None, |_| filtered(call(libc::SYS_reboot, arguments(&[1, 2, 3])))),
        probe("set_the_time", Root, |_| filtered(call(libc::SYS_settimeofday, arguments(&[0, 0])))),
        probe("set_a_clock", None, |_| filtered(call(libc::SYS_clock_settime, arguments(&[0, 0])))),
        probe("ask_how_time_is_kept", Anybody, |_| {
            let nothing = [0_u64; 32];
            filtered(call(libc::SYS_adjtimex, arguments(&[address(&nothing)])))
        }),
        probe("set_the_host_name", None, |_| {
            filtered(call(libc::SYS_sethostname, arguments(&[text(c"herm-probe"), 10])))
        }),
        probe("set_the_domain_name", None, |_| {
            filtered(call(libc::SYS_setdomainname, arguments(&[text(c"herm-probe"), 10])))
        }),
        probe("the_name_of_the_host", Anybody, |targets| {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            if name.trim() == targets.host_name { Found::Reached(name) } else { Found::Stopped(name.trim().into()) }
        }),
        probe("kernel_messages", Root, |_| filtered(call(libc::SYS_syslog, arguments(&[10, 0, 0])))),
        probe("accounting", None, |_| filtered(call(libc::SYS_acct, arguments(&[text(c"/herm-none")])))),
        probe("quotas", None, |_| {
            filtered(call(libc::SYS_quotactl, arguments(&[usize::MAX, text(c"/herm-none"), 0, 0])))
        }),
        #[cfg(target_arch = "x86_64")]
        probe("ports_of_the_machine", None, |_| filtered(call(libc::SYS_ioperm, arguments(&[0x80, 1, 1])))),
        #[cfg(target_arch = "x86_64")]
        probe("all_ports_of_the_machine", None, |_| filtered(call(libc::SYS_iopl, arguments(&[3])))),
        #[cfg(target_arch = "x86_64")]
        probe("segments", Anybody, |_| {
            let space = [0_u8; 64];
            filtered(call(libc::SYS_modify_ldt, arguments(&[0, address(&space), 64])))
        }),
        probe("pages_of_others", Anybody, |_| filtered(call(libc::SYS_move_pages, arguments(&[0, 0, 0, 0, 0, 0])))),
        probe("hang_up", None, |_| filtered(call(libc::SYS_vhangup, arguments(&[])))),
        probe("secret_memory", None, |_| filtered(call(libc::SYS_memfd_secret, arguments(&[0])))),
    ]
}
