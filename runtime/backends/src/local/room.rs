//! How much memory a model may still take: what the machine has free, and what limits leave of it. A model that does
//! not fit is refused with a sentence; without this the process would be ended.

use std::fs::read_to_string;

/// Limits of control groups and what is used of them, as a container sees its own: version 2, then version 1.
const GROUPS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
];

/// The bytes that are free, where the system says so.
pub(super) fn free_bytes() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|about| kibibytes(&about, "MemAvailable:"));
    let addresses = addresses(
        &read_to_string("/proc/self/limits").unwrap_or_default(),
        &read_to_string("/proc/self/status").unwrap_or_default(),
    );
    let groups = GROUPS.map(|(limit, used)| left(&read_to_string(limit).ok()?, &read_to_string(used).ok()?));
    [machine, addresses].into_iter().chain(groups).flatten().min()
}

/// What a group has left; nothing where it has no limit.
fn left(limit: &str, used: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    Some(number(limit)?.saturating_sub(number(used)?))
}

/// Addresses that the process may still take (`ulimit -v`); nothing where they are not limited.
fn addresses(limits: &str, status: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kibibytes(status, "VmSize:")?))
}

/// A line like `MemAvailable:  1234 kB`, in bytes.
fn kibibytes(about: &str, name: &str) -> Option<u64> {
    let line = about.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_limits_leave_is_counted_and_what_is_not_limited_is_not() {
        assert_eq!(kibibytes("MemTotal: 9 kB\nMemAvailable:   12 kB\n", "MemAvailable:"), Some(12_288));
        assert_eq!(kibibytes("MemAvailable: many\n", "MemAvailable:"), None);
        assert_eq!((left("1000\n", "400\n"), left("1000", "4000"), left("max\n", "400\n")), (Some(600), Some(0), None));
        let limits =
            |soft: &str| format!("Limit  Soft  Hard  Units\nMax address space         {soft}   unlimited   bytes\n");
        assert_eq!(addresses(&limits("4096"), "VmSize:\t       1 kB\n"), Some(3_072));
        assert_eq!(addresses(&limits("unlimited"), "VmSize: 1 kB\n"), None);
    }

    #[test]
    fn this_system_says_something() {
        assert!(free_bytes().is_some_and(|free| free > 0) || !cfg!(target_os = "linux"));
    }
}
