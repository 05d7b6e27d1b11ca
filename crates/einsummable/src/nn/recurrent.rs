//! Recurrent networks, unrolled: the products with the input are one row for the whole sequence, and each step is a
//! product with the state before it and one map or two.
//!
//! Products have an axis for the gates, apart from that of the features, by reading row `hidden * gate + feature` of a
//! weight. So a cut of the features leaves every gate of a feature on one device, and a step then moves the state only.

use super::{Module, Scope};
use crate::tensor::{Tensor, TensorError};

/// The options of [`RNN`], [`LSTM`] and [`GRU`], by default `PyTorch`'s: one layer, with biases, `[time, batch,
/// features]`, in one direction. Dropout between layers is nothing at inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentOptions {
    /// Layers, each reading the results of the one before.
    pub num_layers: usize,
    /// Whether products have biases.
    pub bias: bool,
    /// Whether the batch is the first axis and time the second.
    pub batch_first: bool,
    /// Whether every layer reads the sequence in reverse too.
    pub bidirectional: bool,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        Self { num_layers: 1, bias: true, batch_first: false, bidirectional: false }
    }
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `tanh` of the sum, or `max(sum, 0)`.
    Plain { relu: bool },
    /// Gates input, forget, cell, output; a state of two.
    Lstm,
    /// Gates reset, update, new.
    Gru,
}

impl Kind {
    fn gates(self) -> usize {
        match self {
            Self::Plain { .. } => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    fn operation(self) -> &'static str {
        match self {
            Self::Plain { .. } => "rnn",
            Self::Lstm => "lstm",
            Self::Gru => "gru",
        }
    }
}

/// The parameters of one layer in one direction, or of a cell.
#[derive(Clone, Debug)]
struct Layer {
    kind: Kind,
    hidden: usize,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Option<[Tensor; 2]>,
}

/// What a step leaves: the result, and the cell of an [`LSTM`].
#[derive(Clone)]
struct State {
    h: Tensor,
    c: Option<Tensor>,
}

impl Layer {
    fn new(scope: &Scope, suffix: &str, kind: Kind, input: usize, hidden: usize, bias: bool) -> Self {
        let rows = kind.gates().saturating_mul(hidden);
        let parameter = |name: &str, shape: &[usize]| scope.parameter(&format!("{name}{suffix}"), shape);
        Self {
            kind,
            hidden,
            weight_ih: parameter("weight_ih", &[rows, input]),
            weight_hh: parameter("weight_hh", &[rows, hidden]),
            bias: bias.then(|| ["bias_ih", "bias_hh"].map(|name| parameter(name, &[rows]))),
        }
    }

    fn parameters(&self) -> Vec<Tensor> {
        [&self.weight_ih, &self.weight_hh].into_iter().chain(self.bias.iter().flatten()).cloned().collect()
    }

    /// `[…, features]` to `[…, gates, hidden]`.
    fn product(&self, x: &Tensor, weight: &Tensor) -> Tensor {
        let apart = [self.kind.gates() as i64, self.hidden as i64];
        Tensor::einsum("...k,ghk->...gh", &[x, &weight.unflatten(0, &apart)])
    }

    fn with_bias(&self, product: &Tensor, which: usize) -> Tensor {
        match &self.bias {
            Some(bias) => product.add(bias[which].unflatten(0, &[self.kind.gates() as i64, self.hidden as i64])),
            None => product.clone(),
        }
    }

    /// The part of the gates that the state has no part in, for any number of steps.
    fn gates_by_input(&self, x: &Tensor) -> Tensor {
        let product = self.with_bias(&self.product(x, &self.weight_ih), 0);
        match self.kind {
            // The reset gate multiplies the other bias too.
            Kind::Gru => product,
            Kind::Plain { .. } | Kind::Lstm => self.with_bias(&product, 1),
        }
    }

    /// One step, from the gates' part `[…, gates, hidden]` by the input.
    fn step(&self, from_input: &Tensor, before: &State, name: &str) -> State {
        let product = self.product(&before.h, &self.weight_hh).named(&format!("{name}.product"));
        let from_state = if self.kind == Kind::Gru { self.with_bias(&product, 1) } else { product };
        let x = |gate: i64| from_input.select(-2, gate);
        let h = |gate: i64| from_state.select(-2, gate);
        let sum = |gate: i64| x(gate) + h(gate);
        let (h, c) = match self.kind {
            Kind::Plain { relu: true } => (sum(0).relu(), None),
            Kind::Plain { relu: false } => (sum(0).tanh(), None),
            Kind::Lstm => {
                let before = before.c.as_ref().expect("an LSTM has a cell");
                let c = sum(1).sigmoid() * before + sum(0).sigmoid() * sum(2).tanh();
                let c = c.named(&format!("{name}.c"));
                (sum(3).sigmoid() * c.tanh(), Some(c))
            }
            Kind::Gru => {
                let new = (x(2) + sum(0).sigmoid() * h(2)).tanh().named(&format!("{name}.new"));
                let update = sum(1).sigmoid();
                (&new + update * (&before.h - &new), None)
            }
        };
        State { h: h.named(&format!("{name}.h")), c }
    }
}

/// A cell: the parameters of one layer, one step at a time.
macro_rules! cell {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        pub struct $name(Layer);

        impl $name {
            fn of(scope: &Scope, kind: Kind, input_size: usize, hidden_size: usize, bias: bool) -> Self {
                Self(Layer::new(scope, "", kind, input_size, hidden_size, bias))
            }

            /// The parameters under their `state_dict` names, in `PyTorch`'s order.
            pub fn parameters(&self) -> Vec<Tensor> {
                self.0.parameters()
            }
        }
    };
}

cell!(RNNCell, "`torch.nn.RNNCell`: `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with `relu`.");
cell!(LSTMCell, "`torch.nn.LSTMCell`: gates input, forget, cell and output.");
cell!(GRUCell, "`torch.nn.GRUCell`: gates reset, update and new.");

impl RNNCell {
    /// The cell whose parameters are `weight_ih`, `weight_hh` and, if asked for, `bias_ih` and `bias_hh` of this scope.
    pub fn new(scope: &Scope, input_size: usize, hidden_size: usize, bias: bool, relu: bool) -> Self {
        Self::of(scope, Kind::Plain { relu }, input_size, hidden_size, bias)
    }

    /// The next state from an input `[batch, input_size]` and a state `[batch, hidden_size]`, both without `batch` too.
    pub fn forward(&self, x: &Tensor, h: &Tensor) -> Tensor {
        self.0.cell(x, h, None).map_or_else(Tensor::poisoned, |s| s.h)
    }
}

impl LSTMCell {
    /// The cell whose parameters are `weight_ih`, `weight_hh` and, if asked for, `bias_ih` and `bias_hh` of this scope.
    pub fn new(scope: &Scope, input_size: usize, hidden_size: usize, bias: bool) -> Self {
        Self::of(scope, Kind::Lstm, input_size, hidden_size, bias)
    }

    /// The next `(h, c)` from an input `[batch, input_size]` and both `[batch, hidden_size]`, all without `batch` too.
    pub fn forward(&self, x: &Tensor, (h, c): (&Tensor, &Tensor)) -> (Tensor, Tensor) {
        match self.0.cell(x, h, Some(c)) {
            Ok(State { h, c }) => (h, c.expect("an LSTM has a cell")),
            Err(error) => (Tensor::poisoned(error.clone()), Tensor::poisoned(error)),
        }
    }
}

impl GRUCell {
    /// The cell whose parameters are `weight_ih`, `weight_hh` and, if asked for, `bias_ih` and `bias_hh` of this scope.
    pub fn new(scope: &Scope, input_size: usize, hidden_size: usize, bias: bool) -> Self {
        Self::of(scope, Kind::Gru, input_size, hidden_size, bias)
    }

    /// The next state from an input `[batch, input_size]` and a state `[batch, hidden_size]`, both without `batch` too.
    pub fn forward(&self, x: &Tensor, h: &Tensor) -> Tensor {
        self.0.cell(x, h, None).map_or_else(Tensor::poisoned, |s| s.h)
    }
}

impl Layer {
    /// One step of a cell, its operands checked.
    fn cell(&self, x: &Tensor, h: &Tensor, c: Option<&Tensor>) -> Result<State, TensorError> {
        let features = self.weight_ih.size(1);
        for (t, what, last) in [(Some(x), "input", features), (Some(h), "state", self.hidden), (c, "cell", self.hidden)]
        {
            let Some(t) = t else { continue };
            t.check()?;
            if !(1..=2).contains(&t.dim())
                || t.size(-1) != last
                || t.dim() != x.dim()
                || t.dim() == 2 && t.size(0) != x.size(0)
            {
                let shapes = [Some(x), Some(h), c].into_iter().flatten().map(|t| t.shape().to_vec()).collect();
                let reason = format!("the {what} must be [batch, {last}] or [{last}], with one batch for all");
                return Err(TensorError::Shape { operation: self.kind.operation(), shapes, reason });
            }
        }
        let path = self.weight_ih.explicit_name().and_then(|n| n.rsplit_once('.')).map_or("cell", |(path, _)| path);
        Ok(self.step(&self.gates_by_input(x), &State { h: h.clone(), c: c.cloned() }, path))
    }
}

/// Layers over a sequence.
#[derive(Clone, Debug)]
struct Stack {
    scope: Scope,
    kind: Kind,
    input: usize,
    hidden: usize,
    options: RecurrentOptions,
    /// Every layer, forwards and then backwards if it has both.
    layers: Vec<Layer>,
}

/// The results of a sequence.
struct Sequence {
    output: Tensor,
    /// The last state of every layer and direction.
    h: Tensor,
    c: Option<Tensor>,
}

impl Sequence {
    fn poisoned(error: TensorError) -> Self {
        let wrong = Tensor::poisoned(error);
        Self { output: wrong.clone(), h: wrong.clone(), c: Some(wrong) }
    }
}

impl Stack {
    fn new(scope: &Scope, kind: Kind, input: usize, hidden: usize, options: RecurrentOptions) -> Self {
        let directions: &[&str] = if options.bidirectional { &["", "_reverse"] } else { &[""] };
        let mut layers = Vec::new();
        for n in 0..options.num_layers {
            let reads = if n == 0 { input } else { hidden.saturating_mul(directions.len()) };
            for direction in directions {
                layers.push(Layer::new(scope, &format!("_l{n}{direction}"), kind, reads, hidden, options.bias));
            }
        }
        Self { scope: scope.clone(), kind, input, hidden, options, layers }
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.layers.iter().flat_map(Layer::parameters).collect()
    }

    fn run(&self, x: &Tensor, states: &[&Tensor]) -> Result<Sequence, TensorError> {
        let operation = self.kind.operation();
        let shape = &x.ty()?.shape;
        let wrong = |t: &Tensor, reason: String| Err(t.shape_error(operation, reason));
        let batched = shape.len() == 3;
        if !batched && shape.len() != 2 || x.size(-1) != self.input {
            let order = if self.options.batch_first { "batch, time" } else { "time, batch" };
            return wrong(x, format!("[{order}, {}], or without the batch, is expected", self.input));
        }
        if self.layers.is_empty() || self.hidden == 0 {
            return wrong(x, "a network needs a layer, and features in its state".into());
        }
        let time = i64::from(batched && self.options.batch_first);
        let steps = x.size(time);
        if steps == 0 {
            return wrong(x, format!("axis {time} is 0 long; a sequence has a step or more"));
        }
        let batch: Vec<usize> = if batched { vec![x.size(1 - time)] } else { vec![] };
        let whole = [&[self.layers.len()], &batch[..], &[self.hidden]].concat();
        for state in states {
            if state.ty()?.shape != whole {
                return wrong(state, format!("a state must be {whole:?}: layers and directions, batch, features"));
            }
        }
        let zeros = Tensor::zeros(&whole[1..], x.dtype());
        let first = |which: usize, layer: usize| states.get(which).map_or(zeros.clone(), |s| s.select(0, layer as i64));
        let directions = if self.options.bidirectional { 2 } else { 1 };
        let mut input = x.clone();
        let mut ends: Vec<State> = Vec::new();
        for (n, pair) in self.layers.chunks(directions).enumerate() {
            let mut results = Vec::new();
            for (d, layer) in pair.iter().enumerate() {
                let name = self.scope.name(format!("l{n}{}", if d == 0 { "" } else { "_reverse" }));
                let gates = layer.gates_by_input(&input).named(&format!("{name}.gates"));
                let at = n * directions + d;
                let mut state = State { h: first(0, at), c: (self.kind == Kind::Lstm).then(|| first(1, at)) };
                let mut all: Vec<Tensor> = Vec::new();
                for step in 0..steps {
                    let t = if d == 0 { step } else { steps - 1 - step };
                    state = layer.step(&gates.select(time, t as i64), &state, &format!("{name}.{t}"));
                    all.push(state.h.clone());
                }
                if d == 1 {
                    all.reverse();
                }
                results.push(Tensor::stack(&all.iter().collect::<Vec<_>>(), time));
                ends.push(state);
            }
            input = Tensor::cat(&results.iter().collect::<Vec<_>>(), -1);
        }
        let stacked = |of: fn(&State) -> Option<&Tensor>| {
            let parts: Vec<&Tensor> = ends.iter().filter_map(of).collect();
            Tensor::stack(&parts, 0)
        };
        let c = (self.kind == Kind::Lstm).then(|| stacked(|s| s.c.as_ref()));
        Ok(Sequence { output: input, h: stacked(|s| Some(&s.h)), c })
    }
}

macro_rules! network {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        pub struct $name(Stack);

        impl Module for $name {
            /// The results of a sequence that begins with states of zeros.
            fn forward(&self, x: &Tensor) -> Tensor {
                self.0.run(x, &[]).unwrap_or_else(Sequence::poisoned).output
            }

            fn parameters(&self) -> Vec<Tensor> {
                self.0.parameters()
            }
        }
    };
}

network!(RNN, "`torch.nn.RNN`: layers of [`RNNCell`] over `[time, batch, input_size]`.");
network!(LSTM, "`torch.nn.LSTM`: layers of [`LSTMCell`] over `[time, batch, input_size]`.");
network!(GRU, "`torch.nn.GRU`: layers of [`GRUCell`] over `[time, batch, input_size]`.");

impl RNN {
    /// The network whose parameters are `weight_ih_l0` and so on of this scope.
    pub fn new(scope: &Scope, input_size: usize, hidden_size: usize, relu: bool, options: RecurrentOptions) -> Self {
        Self(Stack::new(scope, Kind::Plain { relu }, input_size, hidden_size, options))
    }

    /// The results, and the last states `[layers * directions, batch, hidden_size]`, from states of that shape.
    pub fn forward_from(&self, x: &Tensor, h: &Tensor) -> (Tensor, Tensor) {
        let Sequence { output, h, .. } = self.0.run(x, &[h]).unwrap_or_else(Sequence::poisoned);
        (output, h)
    }
}

impl LSTM {
    /// The network whose parameters are `weight_ih_l0` and so on of this scope.
    pub fn new(scope: &Scope, input_size: usize, hidden_size: usize, options: RecurrentOptions) -> Self {
        Self(Stack::new(scope, Kind::Lstm, input_size, hidden_size, options))
    }

    /// The results, and the last `(h, c)`, each `[layers * directions, batch, hidden_size]`, from two of that shape.
    pub fn forward_from(&self, x: &Tensor, (h, c): (&Tensor, &Tensor)) -> (Tensor, (Tensor, Tensor)) {
        let Sequence { output, h, c } = self.0.run(x, &[h, c]).unwrap_or_else(Sequence::poisoned);
        (output, (h, c.expect("an LSTM has a cell")))
    }
}

impl GRU {
    /// The network whose parameters are `weight_ih_l0` and so on of this scope.
    pub fn new(scope: &Scope, input_size: usize, hidden_size: usize, options: RecurrentOptions) -> Self {
        Self(Stack::new(scope, Kind::Gru, input_size, hidden_size, options))
    }

    /// The results, and the last states `[layers * directions, batch, hidden_size]`, from states of that shape.
    pub fn forward_from(&self, x: &Tensor, h: &Tensor) -> (Tensor, Tensor) {
        let Sequence { output, h, .. } = self.0.run(x, &[h]).unwrap_or_else(Sequence::poisoned);
        (output, h)
    }
}
