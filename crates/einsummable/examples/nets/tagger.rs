//! A class for every step of a sequence, by an LSTM in both directions.

use einsummable::Tensor;
use einsummable::nn::{LSTM, Linear, Module, RecurrentOptions, Scope};

/// The network over sequences `[n, time, features]`.
pub struct Tagger {
    lstm: LSTM,
    head: Linear,
}

impl Tagger {
    /// A network with states of this size.
    pub fn new(scope: &Scope, features: usize, hidden: usize, classes: usize) -> Self {
        let options = RecurrentOptions { bidirectional: true, batch_first: true, ..RecurrentOptions::default() };
        Self {
            lstm: LSTM::new(&scope.child("lstm"), features, hidden, options),
            head: Linear::new(&scope.child("head"), 2 * hidden, classes, true),
        }
    }
}

impl Module for Tagger {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.head.forward(&self.lstm.forward(x))
    }

    fn parameters(&self) -> Vec<Tensor> {
        [self.lstm.parameters(), self.head.parameters()].concat()
    }
}
