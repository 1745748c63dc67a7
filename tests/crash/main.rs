//! Promise 1: whatever stops a step (a kill, a failing disk, a power cut), the brain is afterwards
//! exactly before or exactly after it, and no acknowledged step is lost.
//!
//! Each suite has a negative control: with the journal's redo list emptied before the next open,
//! or with syncs made no-ops, the same checks must fail. A check that cannot fail shows nothing.
//!
//! `HERM_KILLS` and `HERM_CUTS` raise the numbers.

mod check;
mod injected;
mod killed;
mod power_cut;
