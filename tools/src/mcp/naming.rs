//! The names that the tools of servers have in herm.

use std::collections::BTreeSet;

const MAX_NAME: usize = 64;

/// A free name for a tool of a server; it is taken from then on.
pub(super) fn name(server: &str, tool: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '_' | '-') => c,
        _ => '_',
    };
    let wanted: String = format!("mcp_{server}_{tool}").chars().map(plain).take(MAX_NAME).collect();
    let numbered = (2..).map(|number| {
        let ending = format!("_{number}");
        let room = MAX_NAME - ending.len();
        format!("{}{ending}", wanted.get(..room).unwrap_or(&wanted))
    });
    let free = std::iter::once(wanted.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = free.unwrap_or(wanted);
    taken.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_short_and_apart() {
        let mut taken = BTreeSet::new();
        let mut named = |tool: &str| name("git-hub", tool, &mut taken);
        assert_eq!(named("Get.Issue"), "mcp_git-hub_get_issue");
        assert_eq!(named("get/issue"), "mcp_git-hub_get_issue_2");
        assert_eq!(named("get issue"), "mcp_git-hub_get_issue_3");
        assert_eq!(named("größe"), "mcp_git-hub_gr__e");
        let long = named(&"x".repeat(100));
        assert_eq!((long.len(), long.as_str()), (64, format!("mcp_git-hub_{}", "x".repeat(52)).as_str()));
        let second = named(&"x".repeat(200));
        assert_eq!((second.len(), second.ends_with("x_2")), (64, true));
    }
}
