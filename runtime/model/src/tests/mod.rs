//! Models of a few thousand weights, written here: those that work, those whose numbers are checked by hand, and those
//! that someone wrote to do harm.

mod families;
mod hostile;
mod numbers;
mod real;
mod tiny;
