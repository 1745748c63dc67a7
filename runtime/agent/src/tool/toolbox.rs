//! The tools of a harness, and which of them a task may use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::program::{ProgramTool, Renamed, ToolProgram};
use super::{Permission, Tool};
use crate::error::{Error, Result};
use crate::tuning::{ToolSwap, Tuning, is_tool_name};

/// What the operator allows beyond the brain itself. Nothing, unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Tools may use the network.
    pub network: bool,
    /// Tools may start processes.
    pub process: bool,
}

impl Permissions {
    /// Whether a tool of this class may run.
    pub fn allow(self, permission: Permission) -> bool {
        match permission {
            Permission::Read | Permission::WriteBrain => true,
            Permission::Network => self.network,
            Permission::Process => self.process,
        }
    }
}

/// A set of tools by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

impl Toolbox {
    /// A toolbox without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. Its name must be free and of the allowed form.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<()> {
        let name = tool.spec().name.clone();
        if !is_tool_name(&name) {
            return Err(Error::invalid(format!("{name:?} is not a name for a tool"))
                .hint("a tool's name is 1 to 64 of A-Z, a-z, 0-9, _, - and ."));
        }
        if self.tools.contains_key(&name) {
            return Err(Error::conflict(format!("there are two tools named {name}")).hint("rename one of them"));
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// A tool by name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// Every tool, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// The tools a task may use: on the brain's whitelist (all, where it has none) and of a permission
    /// that the operator allows.
    pub fn permitted(&self, whitelist: Option<&[String]>, permissions: Permissions) -> Self {
        let listed = |name: &String| whitelist.is_none_or(|list| list.contains(name));
        let tools = self
            .tools
            .iter()
            .filter(|(name, tool)| listed(name) && permissions.allow(tool.spec().permission))
            .map(|(name, tool)| (name.clone(), Arc::clone(tool)))
            .collect();
        Self { tools }
    }

    /// The same tools with what a brain's tuning puts in their place. `programs` runs those that are programs;
    /// one that is not there stays out.
    pub fn swapped(&self, tuning: &Tuning, programs: &BTreeMap<String, ToolProgram>) -> Result<Self> {
        let mut swapped = self.clone();
        for (name, swap) in &tuning.tools {
            let replaced = self.tools.get(name).map(|tool| tool.spec().clone());
            let tool: Arc<dyn Tool> = match swap {
                ToolSwap::Use(other) => {
                    let other = self.tools.get(other).ok_or_else(|| {
                        Error::not_found(format!(
                            "tuning.json puts {other:?} in the place of {name}, and there is no such tool"
                        ))
                        .hint("undo the change of tuning.json, or add the tool to the harness")
                    })?;
                    Arc::new(Renamed::new(name, Arc::clone(other)))
                }
                ToolSwap::Executable(said) => match programs.get(name) {
                    Some(program) => Arc::new(ProgramTool::new(name, said, replaced.as_ref(), program.clone())),
                    None => {
                        swapped.tools.remove(name);
                        continue;
                    }
                },
            };
            swapped.tools.insert(name.clone(), tool);
        }
        Ok(swapped)
    }

    /// Only the tools of these names.
    pub fn only(&self, names: &[String]) -> Self {
        self.permitted(Some(names), Permissions { network: true, process: true })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}
