//! `tokenizer.json`: from text to ids and back.

use std::path::{Path, PathBuf};
use tokenizers::TruncationParams;

/// Why a tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file cannot be read or understood.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A text could not be made ids, or the other way.
    #[error("{what}: {reason}")]
    Text {
        /// What was to be done.
        what: &'static str,
        /// Why it could not.
        reason: String,
    },
}

/// A tokenizer that neither pads nor, unless told, truncates.
#[derive(Clone, Debug)]
pub struct Tokenizer(tokenizers::Tokenizer);

impl Tokenizer {
    /// Opens `tokenizer.json` of a folder. Padding and truncation that the file asks for are turned off: a
    /// batch is padded to what it needs.
    pub fn open(folder: &Path) -> Result<Self, TokenizerError> {
        let path = folder.join("tokenizer.json");
        let error = |reason: String| TokenizerError::File { path: path.clone(), reason };
        let text = std::fs::read(&path).map_err(|e| error(e.to_string()))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(text).map_err(|e| error(e.to_string()))?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| error(e.to_string()))?;
        Ok(Self(inner))
    }

    /// Cuts texts to this many tokens, those that mark begin and end included.
    pub fn truncated(mut self, max_length: usize) -> Result<Self, TokenizerError> {
        let truncation = TruncationParams { max_length, ..TruncationParams::default() };
        self.0
            .with_truncation(Some(truncation))
            .map_err(|e| TokenizerError::Text { what: "truncation", reason: e.to_string() })?;
        Ok(self)
    }

    /// The ids of a text, with the tokens that the model puts around it.
    pub fn encode(&self, text: &str) -> Result<Vec<i64>, TokenizerError> {
        let error = |e: tokenizers::Error| TokenizerError::Text { what: "encoding a text", reason: e.to_string() };
        let encoding = self.0.encode_fast(text, true).map_err(error)?;
        Ok(encoding.get_ids().iter().map(|&id| i64::from(id)).collect())
    }

    /// The text of ids, without special tokens.
    pub fn decode(&self, ids: &[i64]) -> Result<String, TokenizerError> {
        let error = |reason: String| TokenizerError::Text { what: "decoding ids", reason };
        let whole: Result<Vec<u32>, _> = ids.iter().map(|&id| u32::try_from(id)).collect();
        let whole = whole.map_err(|_| error("an id is negative or too large".into()))?;
        self.0.decode(&whole, true).map_err(|e| error(e.to_string()))
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.0.get_vocab_size(true)
    }
}
