//! Sentence embeddings: texts in, one vector each out.

use crate::models::{Architecture, EncoderConfig, Folder, FolderError, ModelConfig, Pipeline, sentence};
use crate::session::{Compiled, Session, SessionError};
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::weights::Weights;
use std::path::Path;

/// Why texts could not be embedded.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The folder is refused.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The folder holds another kind of model.
    #[error("a {found} makes no sentence embeddings; an encoder such as BertModel is needed")]
    Architecture {
        /// The architecture.
        found: Architecture,
    },
    /// A text is refused.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// It could not be compiled or run.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A sentence model of a folder, planned for batches as they come.
pub struct Embedder {
    session: Session,
    config: EncoderConfig,
    weights: Weights,
    tokenizer: Tokenizer,
    pipeline: Pipeline,
    /// The last plan, for at most so many texts of so many tokens.
    ready: Option<(usize, usize, Compiled)>,
}

impl Embedder {
    /// Opens a folder. Nothing is planned before the first batch.
    pub fn open(session: &Session, folder: &Path) -> Result<Self, EmbedError> {
        let folder = Folder::open(folder)?;
        let config = match &folder.config {
            ModelConfig::Encoder(config) => config.clone(),
            other @ (ModelConfig::Decoder(_) | ModelConfig::Gpt2(_) | ModelConfig::Vit(_)) => {
                return Err(EmbedError::Architecture { found: other.architecture() });
            }
        };
        let pipeline = folder.pipeline()?;
        let most = pipeline.max_seq_length.unwrap_or(usize::MAX).min(config.max_tokens());
        let tokenizer = folder.tokenizer()?.truncated(most)?;
        let weights = folder.weights;
        Ok(Self { session: session.clone(), config, weights, tokenizer, pipeline, ready: None })
    }

    /// Features of an embedding.
    pub fn features(&self) -> usize {
        self.config.hidden_size
    }

    /// Bytes of weights read so far.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The last plan.
    pub fn compiled(&self) -> Option<&Compiled> {
        self.ready.as_ref().map(|r| &r.2)
    }

    /// One vector for each text. Texts longer than the model takes are cut at the end.
    ///
    /// The batch is padded to its longest text. A plan is kept and serves later batches that are no larger.
    pub fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut ids = Vec::new();
        for text in texts {
            ids.push(self.tokenizer.encode(text)?);
        }
        self.embed_ids(&ids)
    }

    /// One vector for each sequence of ids, which must have been made by this model's tokenizer.
    pub fn embed_ids(&mut self, ids: &[Vec<i64>]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let fits = |&(batch, length, _): &(usize, usize, Compiled)| batch >= ids.len() && length >= longest;
        let (batch, length, compiled) = match &mut self.ready {
            Some(ready) if fits(ready) => ready,
            ready => {
                let out = sentence::embedding(&self.config, &self.pipeline, ids.len(), longest);
                let compiled = self.session.compile_with(&[("embedding", &out)], &self.weights)?;
                ready.insert((ids.len(), longest, compiled))
            }
        };
        let (input, mask) = sentence::inputs(&self.config, ids, *batch, *length);
        let outputs = compiled.run([(sentence::IDS, input), (sentence::MASK, mask)])?;
        let values = outputs["embedding"].to_f64();
        let row = |r: &[f64]| r.iter().map(|&v| v as f32).collect();
        Ok(values.chunks(self.config.hidden_size).take(ids.len()).map(row).collect())
    }
}
