//! Skill files are read leniently and written strictly.

mod agreement;
mod pathologies;
mod properties;
mod rules;
mod skills_ref;
