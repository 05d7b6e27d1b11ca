//! Greedy text generation. Each token recomputes what came before it; one plan serves every length.

use crate::models::CausalLm;
use crate::session::{Compiled, Session, SessionError};
use crate::tensor::Tensor;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_run::ParameterSource;

/// Why text could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A prompt without tokens.
    #[error("the prompt has no token; give it at least one")]
    Empty,
    /// An id that the model does not have.
    #[error("token {id} of the prompt is outside the vocabulary 0..{vocab}")]
    Token {
        /// The id.
        id: i64,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// Prompt and continuation are longer than the generator was made for.
    #[error("{prompt} tokens and {more} more do not fit into {capacity}; ask for a larger capacity or fewer tokens")]
    Capacity {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        more: usize,
        /// What fits.
        capacity: usize,
    },
    /// The model gave no number for a token, so none is the most likely.
    #[error("after {length} tokens the model gives NaN; its weights, or their type, are not what they should be")]
    NotANumber {
        /// Tokens that it read.
        length: usize,
    },
    /// A capacity beyond what the model knows positions for.
    #[error("a capacity of {capacity} tokens is not within the model's 1..={most} positions")]
    Positions {
        /// The capacity.
        capacity: usize,
        /// The model's positions.
        most: usize,
    },
    /// It could not be compiled or run.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A model that continues token sequences of up to a fixed capacity.
pub struct Generator {
    compiled: Compiled,
    capacity: usize,
    vocab: usize,
    ends: Vec<i64>,
}

impl Generator {
    /// Plans the model for sequences of `capacity` tokens. Shorter ones are padded at the end, where causal
    /// attention does not look.
    pub fn new(
        session: &Session,
        config: &dyn CausalLm,
        weights: &dyn ParameterSource,
        capacity: usize,
    ) -> Result<Self, GenerateError> {
        if !(1..=config.max_positions()).contains(&capacity) {
            return Err(GenerateError::Positions { capacity, most: config.max_positions() });
        }
        let ids = Tensor::input("input_ids", [1, capacity], DType::I64);
        let position = Tensor::input("position", [1], DType::I64);
        let logits = config.next_token(&ids, &position);
        let compiled = session.compile_with(&[("logits", &logits)], weights)?;
        Ok(Self { compiled, capacity, vocab: config.vocab_size(), ends: config.eos_token_ids().to_vec() })
    }

    /// The plan and the last run's figures.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The most likely continuation of a prompt, token by token: at most `more` tokens, fewer if one ends the
    /// text (which is then the last). The lowest id wins where two are equally likely.
    pub fn greedy(&mut self, prompt: &[i64], more: usize) -> Result<Vec<i64>, GenerateError> {
        if prompt.is_empty() {
            return Err(GenerateError::Empty);
        }
        if let Some(&id) = prompt.iter().find(|&&id| id < 0 || id as usize >= self.vocab) {
            return Err(GenerateError::Token { id, vocab: self.vocab });
        }
        // The last token is not read again, so it needs no place.
        if prompt.len().saturating_add(more.saturating_sub(1)) > self.capacity {
            return Err(GenerateError::Capacity { prompt: prompt.len(), more, capacity: self.capacity });
        }
        let mut ids = prompt.to_vec();
        while ids.len() < prompt.len() + more {
            let mut padded = ids.clone();
            padded.resize(self.capacity, 0);
            let inputs = [
                ("input_ids", Dense::i64([1, self.capacity], padded)),
                ("position", Dense::i64([1], vec![ids.len() as i64 - 1])),
            ];
            let outputs = self.compiled.run(inputs)?;
            let logits = outputs["logits"].to_f64();
            if logits.iter().any(|v| v.is_nan()) {
                return Err(GenerateError::NotANumber { length: ids.len() });
            }
            let next = largest(&logits);
            ids.push(next);
            if self.ends.contains(&next) {
                break;
            }
        }
        Ok(ids.split_off(prompt.len()))
    }
}

/// The first index of the largest value.
fn largest(values: &[f64]) -> i64 {
    let mut best = 0;
    for (n, v) in values.iter().enumerate() {
        if *v > values[best] {
            best = n;
        }
    }
    best as i64
}
