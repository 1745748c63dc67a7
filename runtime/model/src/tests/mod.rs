//! Models of a few thousand weights, written here: those that work, and those that someone wrote to
//! do harm.

mod families;
mod hostile;
mod real;
mod tiny;
