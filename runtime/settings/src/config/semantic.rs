//! `[semantic]` of the configuration: models that know what texts mean.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use herm::semantic::{self, Device, Embedder, Reranker, SemanticOptions, TEXT_LIMIT};
use herm::{Error, Result};

/// What does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceEntry {
    /// The best there is in this build: the CPU.
    Auto,
    /// The CPU, whatever else the machine has.
    Cpu,
    /// A graphics card, which no build has yet: the CPU does the work, and it is said.
    Cuda,
}

/// Models that know what texts mean. They may put things into another order, and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SemanticEntry {
    /// The directory of an embedding model: config.json, tokenizer.json and model.safetensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<PathBuf>,
    /// The directory of a reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranker: Option<PathBuf>,
    /// Characters of a text that a model sees, 1 to 8192; 512 unless said. HERM_SEMANTIC_TEXT_LIMIT goes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_limit: Option<usize>,
    /// What does the work: auto, cpu or cuda; auto unless said. HERM_SEMANTIC_DEVICE goes before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceEntry>,
    /// Whether memory is also searched by meaning. Off, unless said. Needs `embedder`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recall: bool,
    /// Whether skills are also chosen by meaning. Off, unless said. Needs `embedder`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skills: bool,
}

/// What embeddings are used for beside the evolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SemanticUses {
    /// Memory is also searched by meaning.
    pub recall: bool,
    /// Skills are also chosen by meaning.
    pub skills: bool,
}

/// The models of `[semantic]`: opened when they are first asked for, and shared by all who ask.
#[derive(Debug, Default)]
pub struct SemanticModels {
    said: SemanticEntry,
    embedder: OnceLock<Arc<dyn Embedder>>,
    reranker: OnceLock<Arc<dyn Reranker>>,
}

impl SemanticModels {
    /// Of what the file says; nothing is read yet.
    pub fn new(said: Option<SemanticEntry>) -> Self {
        Self { said: said.unwrap_or_default(), ..Self::default() }
    }

    /// Whether any model is configured.
    pub fn is_configured(&self) -> bool {
        self.said.embedder.is_some() || self.said.reranker.is_some()
    }

    /// How models run: as the environment says, else the file.
    pub fn running(&self) -> Result<SemanticOptions> {
        self.running_with(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn running_with(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<SemanticOptions> {
        let limit = match environment("HERM_SEMANTIC_TEXT_LIMIT") {
            Some(value) => value.parse().map_err(|_| {
                Error::invalid(format!("HERM_SEMANTIC_TEXT_LIMIT is {value:?}, which is no number of characters"))
                    .hint(format!("{TEXT_LIMIT} is the default"))
            })?,
            None => self.said.text_limit.unwrap_or(TEXT_LIMIT),
        };
        let device = match environment("HERM_SEMANTIC_DEVICE") {
            Some(value) => value.parse().map_err(|error: Error| {
                let hint = error.hint_text().unwrap_or_default().to_owned();
                Error::invalid(format!("HERM_SEMANTIC_DEVICE: {}", error.message())).hint(hint)
            })?,
            None => match self.said.device {
                None | Some(DeviceEntry::Auto) => Device::Auto,
                Some(DeviceEntry::Cpu) => Device::Cpu,
                Some(DeviceEntry::Cuda) => Device::Cuda,
            },
        };
        SemanticOptions::new(limit, device).map_err(|error| {
            let hint = error.hint_text().unwrap_or_default().to_owned();
            Error::invalid(format!("[semantic]: {}", error.message())).hint(hint)
        })
    }

    /// What embeddings are used for; refused where that needs a model that is not named.
    pub fn uses(&self) -> Result<SemanticUses> {
        for (on, name) in [(self.said.recall, "recall"), (self.said.skills, "skills")] {
            if on && self.said.embedder.is_none() {
                return Err(Error::invalid(format!("[semantic]: {name} = true needs an embedding model"))
                    .hint("set `embedder` to the directory of one"));
            }
        }
        Ok(SemanticUses { recall: self.said.recall, skills: self.said.skills })
    }

    /// The embedding model; nothing where none is configured.
    pub fn embedder(&self) -> Result<Option<Arc<dyn Embedder>>> {
        let Some(directory) = &self.said.embedder else { return Ok(None) };
        if let Some(opened) = self.embedder.get() {
            return Ok(Some(opened.clone()));
        }
        let opened = semantic::embedder(directory, self.running()?)?;
        Ok(Some(self.embedder.get_or_init(|| opened).clone()))
    }

    /// The reranker; nothing where none is configured.
    pub fn reranker(&self) -> Result<Option<Arc<dyn Reranker>>> {
        let Some(directory) = &self.said.reranker else { return Ok(None) };
        if let Some(opened) = self.reranker.get() {
            return Ok(Some(opened.clone()));
        }
        let opened = semantic::reranker(directory, self.running()?)?;
        Ok(Some(self.reranker.get_or_init(|| opened).clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(text: &str) -> SemanticModels {
        SemanticModels::new(Some(toml::from_str(text).unwrap()))
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn unless_said_otherwise_there_are_no_models_and_nothing_uses_them() {
        let models = models("");
        assert!(!models.is_configured());
        assert_eq!((models.uses().unwrap(), models.running_with(&nothing).unwrap()), Default::default());
        assert!(models.embedder().unwrap().is_none() && models.reranker().unwrap().is_none());
    }

    #[test]
    fn the_environment_goes_before_the_file_and_both_are_judged() {
        let said = models("embedder = \"/m\"\ntext_limit = 300\ndevice = \"cpu\"\nrecall = true\n");
        assert_eq!(said.running_with(&nothing).unwrap(), SemanticOptions::new(300, Device::Cpu).unwrap());
        let environment = |name: &str| match name {
            "HERM_SEMANTIC_TEXT_LIMIT" => Some("100".to_owned()),
            _ => Some("cuda".to_owned()),
        };
        assert_eq!(said.running_with(&environment).unwrap(), SemanticOptions::new(100, Device::Cuda).unwrap());
        assert_eq!(said.uses().unwrap(), SemanticUses { recall: true, skills: false });
        for wrong in ["0", "9000", "many", "-1"] {
            assert!(said.running_with(&|_| Some(wrong.to_owned())).is_err(), "{wrong}");
        }
        let error = models("text_limit = 0").running_with(&nothing).unwrap_err();
        assert!(error.message().starts_with("[semantic]: a text limit of 0"), "{error}");
    }

    #[test]
    fn what_needs_a_model_is_refused_without_one() {
        for text in ["recall = true", "skills = true", "reranker = \"/r\"\nrecall = true"] {
            let error = models(text).uses().unwrap_err();
            assert!(error.message().contains("needs an embedding model"), "{error}");
        }
        assert!(toml::from_str::<SemanticEntry>("device = \"tpu\"").is_err());
        assert!(toml::from_str::<SemanticEntry>("embeder = \"/m\"").is_err());
    }
}
