//! Which backend speaks for which brain.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Backend, Chain, RetryPolicy};
use crate::error::{Error, Result};
use crate::ids::BrainId;

/// Backends by name, and who uses which: the task's own wish, then the operator's entry for the
/// token, then the brain's manifest, then the configured default, then the embedded one.
#[derive(Debug, Clone, Default)]
pub struct Router {
    backends: BTreeMap<String, Arc<dyn Backend>>,
    fallbacks: BTreeMap<String, Vec<String>>,
    tokens: BTreeMap<BrainId, String>,
    default: Option<String>,
    embedded: Option<Arc<dyn Backend>>,
    policy: RetryPolicy,
}

impl Router {
    /// A router without backends: until one is added, every route is an error.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything through one backend.
    pub fn single(backend: Arc<dyn Backend>) -> Self {
        let name = backend.name().to_owned();
        Self { default: Some(name.clone()), ..Self::default() }.backend(&name, backend)
    }

    /// Adds a backend under a name.
    #[must_use]
    pub fn backend(mut self, name: &str, backend: Arc<dyn Backend>) -> Self {
        self.backends.insert(name.to_owned(), backend);
        self
    }

    /// Backends to ask, in order, when `name` does not answer.
    #[must_use]
    pub fn fallback(mut self, name: &str, next: Vec<String>) -> Self {
        self.fallbacks.insert(name.to_owned(), next);
        self
    }

    /// The backend of a token.
    #[must_use]
    pub fn brain_backend(mut self, id: BrainId, name: &str) -> Self {
        self.tokens.insert(id, name.to_owned());
        self
    }

    /// The backend of everyone who has no other.
    #[must_use]
    pub fn default_backend(mut self, name: &str) -> Self {
        self.default = Some(name.to_owned());
        self
    }

    /// The backend that needs no configuration: it answers where nothing else was chosen, and by its own name.
    #[must_use]
    pub fn embedded(mut self, backend: Arc<dyn Backend>) -> Self {
        self.embedded = Some(backend);
        self
    }

    /// How often and how long to try.
    #[must_use]
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Backend>> {
        let embedded = self.embedded.iter().filter(|embedded| embedded.name() == name);
        self.backends.get(name).into_iter().chain(embedded).next().cloned().ok_or_else(|| {
            let embedded = self.embedded.iter().map(|embedded| embedded.name());
            let known: Vec<&str> = self.backends.keys().map(String::as_str).chain(embedded).collect();
            Error::not_found(format!("there is no backend {name:?}"))
                .hint(format!("configured are: {}", known.join(", ")))
        })
    }

    /// The backends that speak in a task, in the order they are asked.
    pub fn route(&self, id: &BrainId, wish: Option<&str>, manifest: Option<&str>) -> Result<Chain> {
        let name = wish
            .or_else(|| self.tokens.get(id).map(String::as_str))
            .or(manifest)
            .or(self.default.as_deref())
            .or(self.embedded.as_ref().map(|embedded| embedded.name()))
            .ok_or_else(|| Error::not_found("there is no backend").hint("give the harness one"))?;
        let mut backends = vec![self.find(name)?];
        for next in self.fallbacks.get(name).into_iter().flatten().filter(|next| *next != name) {
            backends.push(self.find(next)?);
        }
        Ok(Chain { backends, policy: self.policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ScriptedBackend;

    #[test]
    fn the_wish_comes_first_then_the_token_the_manifest_the_default_and_the_embedded_one() {
        #[derive(Debug)]
        struct Named(&'static str);
        #[async_trait::async_trait]
        impl Backend for Named {
            fn name(&self) -> &str {
                self.0
            }
            async fn complete(
                &self,
                ask: &crate::backend::CompletionRequest,
            ) -> std::result::Result<crate::backend::Completion, crate::backend::BackendError> {
                ScriptedBackend::new(["x"]).complete(ask).await
            }
        }
        let (one, two): (BrainId, BrainId) = ("1".parse().unwrap(), "2".parse().unwrap());
        let mut router = Router::new();
        for name in ["wish", "token", "manifest", "usual", "next"] {
            router = router.backend(name, Arc::new(Named(name)));
        }
        let nothing = Router::new();
        let bare = router.clone().embedded(Arc::new(Named("embedded")));
        let router = router
            .brain_backend(one.clone(), "token")
            .default_backend("usual")
            .fallback("usual", vec!["next".to_owned()]);
        let names = |chain: Result<Chain>| -> Vec<String> {
            chain.unwrap().backends.iter().map(|backend| backend.name().to_owned()).collect()
        };
        assert_eq!(names(router.route(&one, Some("wish"), Some("manifest"))), ["wish"]);
        assert_eq!(names(router.route(&one, None, Some("manifest"))), ["token"]);
        assert_eq!(names(router.route(&two, None, Some("manifest"))), ["manifest"]);
        assert_eq!(names(router.route(&two, None, None)), ["usual", "next"]);
        assert_eq!(names(bare.route(&two, None, None)), ["embedded"]);
        assert_eq!(names(bare.route(&two, Some("embedded"), None)), ["embedded"]);
        assert_eq!(nothing.route(&two, None, None).unwrap_err().message(), "there is no backend");
        assert!(router.route(&two, Some("nobody"), None).unwrap_err().hint_text().unwrap().contains("usual"));
    }
}
