//! The last test of a run: says what this machine could not run, and how to get it.

fn main() {
    let summary = herm_untested::summary();
    print!("\n{}", if summary.is_empty() { "Every test of this run was run.\n" } else { &summary });
}
