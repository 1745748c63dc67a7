//! Who ranks: the models of `[semantic]`, else words.

use herm::Result;
use herm::evolver::select::{LexicalRanker, Ranker, RankerChain, UnavailableRanker};
use herm::evolver::semantic::{CrossEncoderRanker, EmbeddingRanker};
use herm::semantic::is_built_in;

use crate::config::Settings;

const NOT_BUILT_IN: &str = "this build runs no models: build herm with `--features semantic`";
const NO_EMBEDDER: &str = "no embedding model is configured: set `embedder` in [semantic] to the directory of one";
const NO_RERANKER: &str = "no reranker is configured: set `reranker` in [semantic] to the directory of one";

/// Who ranks, and what a person should know of it.
#[derive(Debug)]
pub(super) struct Rankers {
    ranker: Box<dyn Ranker>,
    reranker: Box<dyn Ranker>,
    remark: Option<String>,
}

impl Rankers {
    /// As the configuration says. A model that is configured and cannot be opened ranks nothing and says why.
    pub(super) fn of(settings: &Settings) -> Result<Self> {
        let models = &settings.semantic;
        let running = models.running()?;
        let mut remark = running.remark().map(str::to_owned);
        let ranker: Box<dyn Ranker> = match models.embedder() {
            Ok(Some(embedder)) => Box::new(EmbeddingRanker::new(embedder, running)),
            Ok(None) => {
                remark = Some(format!("{NO_EMBEDDER}; until then words in common rank"));
                Box::new(LexicalRanker)
            }
            Err(_) if !is_built_in() => {
                remark = Some(format!("{NOT_BUILT_IN}; until then words in common rank"));
                Box::new(LexicalRanker)
            }
            Err(error) => Box::new(UnavailableRanker::new("embedder", error.message())),
        };
        let reranker: Box<dyn Ranker> = match models.reranker() {
            Ok(Some(reranker)) => Box::new(CrossEncoderRanker::new(reranker, running)),
            Ok(None) => Box::new(UnavailableRanker::new("reranker", NO_RERANKER)),
            Err(_) if !is_built_in() => {
                Box::new(UnavailableRanker::new("reranker", format!("no reranker: {NOT_BUILT_IN}")))
            }
            Err(error) => Box::new(UnavailableRanker::new("reranker", error.message())),
        };
        Ok(Self { ranker, reranker, remark })
    }

    /// Nobody but words: what there is where no model is asked for.
    pub(super) fn by_words() -> Self {
        let reranker = Box::new(UnavailableRanker::new("reranker", NO_RERANKER));
        Self { ranker: Box::new(LexicalRanker), reranker, remark: None }
    }

    /// The names of those that are there.
    pub(super) fn names(&self) -> Vec<&str> {
        self.there().map(Ranker::name).collect()
    }

    /// The names of the models that are configured.
    pub(super) fn models(&self) -> Vec<&str> {
        self.there().filter(|ranker| ranker.is_model()).map(Ranker::name).collect()
    }

    fn there(&self) -> impl Iterator<Item = &dyn Ranker> {
        [self.ranker.as_ref(), self.reranker.as_ref()].into_iter().filter(|ranker| ranker.is_available())
    }

    /// What a person should know where they rank.
    pub(super) fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// The first, and the second where it is wished for.
    pub(super) fn ranking(&self, ranks: bool, reranks: bool) -> RankerChain<'_> {
        RankerChain {
            ranker: ranks.then_some(self.ranker.as_ref()),
            reranker: (ranks && reranks).then_some(self.reranker.as_ref()),
        }
    }
}
