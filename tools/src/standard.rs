//! The usual set of tools.

use std::sync::Arc;

use herm::Result;
use herm::tool::{Tool, Toolbox};

use crate::library::PatternLibrary;
use crate::{
    AskAgent, FetchUrl, HttpSecret, Memory, Note, Outline, PatternSearch, Recall, Scan, SkillManage, SkillView,
    SkillsList,
};

/// Every tool of this package. What a task may use of it is for the brain's whitelist and the
/// operator's permissions to say.
pub fn standard() -> Result<Toolbox> {
    let library = Arc::new(PatternLibrary::default());
    let tools: [Arc<dyn Tool>; 12] = [
        Arc::new(AskAgent::default()),
        Arc::new(FetchUrl::default()),
        Arc::new(HttpSecret::default()),
        Arc::new(Memory::default()),
        Arc::new(Note::default()),
        Arc::new(Outline::default()),
        Arc::new(PatternSearch::new(Arc::clone(&library))),
        Arc::new(Recall::default()),
        Arc::new(Scan::new(library)),
        Arc::new(SkillManage::default()),
        Arc::new(SkillView::default()),
        Arc::new(SkillsList::default()),
    ];
    let mut toolbox = Toolbox::new();
    for tool in tools {
        toolbox.add(tool)?;
    }
    Ok(toolbox)
}
