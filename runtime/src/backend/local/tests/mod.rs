//! The real model, where it is there; `.ci/models` fetches it.
