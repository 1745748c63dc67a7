//! The embedded default: deterministic, no language model, no network.

use async_trait::async_trait;

use super::{Ask, Backend, BackendError, Completion, ErrorClass};

/// Plans tool calls from what it reads, and answers with what the tools returned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reflex;

#[async_trait]
impl Backend for Reflex {
    fn name(&self) -> &str {
        "reflex"
    }

    async fn complete(&self, _: &Ask) -> Result<Completion, BackendError> {
        Err(BackendError::new(ErrorClass::BadRequest, "not yet"))
    }
}
