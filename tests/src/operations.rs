//! Operations as rows: each draws arguments and builds a graph with the library's `Tensor`.
//!
//! `tests/tests/operations.rs` compares random and searched plans of what a row draws with the dense
//! reference. A row is named after the method it calls; a word or more after it tell variants apart
//! (`"matmul vectors"`). What `PyTorch` would refuse, a row must not draw.

pub mod activation;
pub mod arithmetic;
pub mod attention;
pub mod bits;
pub mod compare;
pub mod contract;
pub mod conv;
pub mod create;
pub mod cumulative;
pub mod functions;
pub mod image;
pub mod index;
pub mod loss;
pub mod norm;
pub mod order;
pub mod pool;
pub mod products;
pub mod random;
pub mod rearrange;
pub mod reduce;
pub mod shape;

use crate::random::Rng;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use einsummable::Tensor;
use std::collections::BTreeMap;

/// One operation, or one variant of it.
pub struct Operation {
    /// The method of `Tensor` that it calls, and what tells variants apart after a blank.
    pub name: &'static str,
    /// Draws arguments and builds the graph.
    pub draw: fn(&mut Draw) -> Drawn,
}

/// What a row draws.
pub struct Drawn {
    /// The outputs.
    pub outputs: Vec<Tensor>,
    /// How far a plan's outputs may be from the reference's, as a share of `max(1, largest magnitude)`:
    /// 0 means the same values, a NaN being equal to a NaN.
    pub within: f64,
}

impl Drawn {
    /// One output that every plan must give exactly.
    pub fn exactly(output: Tensor) -> Self {
        Self { outputs: vec![output], within: 0.0 }
    }

    /// One output that plans may miss by `within`.
    pub fn within(output: Tensor, within: f64) -> Self {
        Self { outputs: vec![output], within }
    }
}

/// The rows of every family, by its name.
pub fn families() -> Vec<(&'static str, Vec<Operation>)> {
    vec![
        ("activation", activation::rows()),
        ("arithmetic", arithmetic::rows()),
        ("attention", attention::rows()),
        ("bits", bits::rows()),
        ("compare", compare::rows()),
        ("contract", contract::rows()),
        ("conv", conv::rows()),
        ("create", create::rows()),
        ("cumulative", cumulative::rows()),
        ("functions", functions::rows()),
        ("image", image::rows()),
        ("index", index::rows()),
        ("loss", loss::rows()),
        ("norm", norm::rows()),
        ("order", order::rows()),
        ("pool", pool::rows()),
        ("products", products::rows()),
        ("random", random::rows()),
        ("rearrange", rearrange::rows()),
        ("reduce", reduce::rows()),
        ("shape", shape::rows()),
    ]
}

/// Every row.
pub fn all() -> Vec<Operation> {
    families().into_iter().flat_map(|(_, rows)| rows).collect()
}

/// What the elements of a drawn tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Small integers of both signs: sums and products of a few are exact in every type.
    Integers,
    /// Numbers between -2 and 2.
    Reals,
    /// Two or three values only, so that most are ties.
    Ties,
    /// Small integers among which are NaN, both infinities and -0. Integers only where the type has no such.
    Special,
}

/// Most elements of a drawn shape.
const ELEMENTS: usize = 400;

/// What a draw has: a generator, and helpers that draw what rows need.
pub struct Draw {
    /// The generator.
    pub rng: Rng,
    /// On how many devices the plans will be: extents are often below it.
    pub devices: usize,
    values: BTreeMap<String, Dense>,
    /// Whether all elements so far are integers (or not finite).
    exact: bool,
}

impl Draw {
    /// The draw of a seed.
    pub fn new(seed: u64, devices: usize) -> Self {
        Self { rng: Rng::new(seed), devices, values: BTreeMap::new(), exact: true }
    }

    /// The inputs drawn so far, by name.
    pub fn values(&self) -> &BTreeMap<String, Dense> {
        &self.values
    }

    /// An extent of at most 7: 0 sometimes, primes and what is below the device count often.
    pub fn extent(&mut self) -> usize {
        if self.rng.one_in(30) { 0 } else { self.some() }
    }

    /// As [`Draw::extent`], but not 0.
    pub fn some(&mut self) -> usize {
        match self.rng.range(0, 5) {
            0 | 1 => self.rng.pick(&[2, 3, 5, 7]),
            2 | 3 => self.rng.range(1, self.devices.min(7)),
            _ => self.rng.range(1, 7),
        }
    }

    /// A shape of this rank.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        let mut shape: Vec<usize> = (0..rank).map(|_| self.extent()).collect();
        while shape.iter().product::<usize>() > ELEMENTS {
            let axis = self.rng.range(0, rank - 1);
            shape[axis] = self.rng.range(1, 3);
        }
        shape
    }

    /// As [`Draw::shape`], without an extent of 0.
    pub fn filled(&mut self, rank: usize) -> Vec<usize> {
        let shape = self.shape(rank);
        shape.into_iter().map(|n| n.max(1)).collect()
    }

    /// A shape of any rank from `least` to 4.
    pub fn any_shape(&mut self, least: usize) -> Vec<usize> {
        let rank = self.rng.range(least, 4);
        self.shape(rank)
    }

    /// A shape that broadcasts to `shape`: axes from the left are missing, others are 1 long.
    pub fn broadcastable(&mut self, shape: &[usize]) -> Vec<usize> {
        let from = self.rng.range(0, shape.len());
        let from = if self.rng.one_in(2) { 0 } else { from };
        shape[from..].iter().map(|&n| if self.rng.one_in(3) { 1 } else { n }).collect()
    }

    /// Two shapes that broadcast with each other.
    pub fn broadcast_pair(&mut self) -> (Vec<usize>, Vec<usize>) {
        let shape = self.any_shape(0);
        match self.rng.range(0, 3) {
            0 => (shape.clone(), shape),
            1 => (shape.clone(), self.broadcastable(&shape)),
            2 => (self.broadcastable(&shape), shape),
            _ => (self.broadcastable(&shape), self.broadcastable(&shape)),
        }
    }

    /// An axis of a tensor of this rank, which is not 0, counted from either end.
    pub fn axis(&mut self, rank: usize) -> i64 {
        let axis = self.rng.range(0, rank - 1) as i64;
        self.signed(axis, rank)
    }

    /// Some distinct axes in any order, each counted from either end; none where the rank is 0.
    pub fn axes(&mut self, rank: usize) -> Vec<i64> {
        if rank == 0 {
            return vec![];
        }
        let mut axes = self.rng.shuffled((0..rank as i64).collect());
        axes.truncate(self.rng.range(1, rank));
        axes.into_iter().map(|a| self.signed(a, rank)).collect()
    }

    /// An axis, counted from the end half of the time.
    pub fn signed(&mut self, axis: i64, rank: usize) -> i64 {
        if self.rng.one_in(2) { axis - rank as i64 } else { axis }
    }

    /// A floating-point type, `F32` mostly.
    pub fn float(&mut self) -> DType {
        if self.rng.one_in(2) { DType::F32 } else { self.rng.pick(&[DType::F32, DType::F64, DType::BF16, DType::F16]) }
    }

    /// A type of integers.
    pub fn integer(&mut self) -> DType {
        self.rng.pick(&[DType::I64, DType::I32, DType::U8])
    }

    /// A type of numbers.
    pub fn number(&mut self) -> DType {
        if self.rng.one_in(3) { self.integer() } else { self.float() }
    }

    /// Any type.
    pub fn any(&mut self) -> DType {
        if self.rng.one_in(6) { DType::Bool } else { self.number() }
    }

    /// An input with random elements of any kind.
    pub fn input(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let kinds = [
            Elements::Integers,
            Elements::Integers,
            Elements::Reals,
            Elements::Reals,
            Elements::Ties,
            Elements::Special,
        ];
        let kind = self.rng.pick(&kinds);
        self.of(kind, shape, dtype)
    }

    /// An input with random finite elements.
    pub fn finite(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let kind = self.rng.pick(&[Elements::Integers, Elements::Reals, Elements::Ties]);
        self.of(kind, shape, dtype)
    }

    /// An input with random elements of one kind.
    pub fn of(&mut self, kind: Elements, shape: &[usize], dtype: DType) -> Tensor {
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|_| self.element(kind, dtype)).collect();
        if kind == Elements::Reals && dtype.is_float() {
            self.exact = false;
        }
        self.remember(Dense::from_f64(dtype, shape, &values))
    }

    /// An input of indices below `end`, which is not 0.
    pub fn indices(&mut self, shape: &[usize], end: usize) -> Tensor {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| self.rng.range(0, end - 1) as f64).collect();
        let dtype = self.rng.pick(&[DType::I64, DType::I32]);
        self.remember(Dense::from_f64(dtype, shape, &values))
    }

    /// An input with these elements, which count as rounded.
    pub fn given(&mut self, value: Dense) -> Tensor {
        self.exact &= !value.dtype().is_float();
        self.remember(value)
    }

    fn remember(&mut self, value: Dense) -> Tensor {
        let name = format!("x{}", self.values.len());
        let (shape, dtype) = (value.shape.clone(), value.dtype());
        let tensor = if self.rng.one_in(2) {
            Tensor::parameter(&name, shape, dtype)
        } else {
            Tensor::input(&name, shape, dtype)
        };
        self.values.insert(name, value);
        tensor
    }

    fn element(&mut self, kind: Elements, dtype: DType) -> f64 {
        let integer = |rng: &mut Rng| match dtype {
            DType::Bool => rng.range(0, 1) as f64,
            DType::U8 => rng.range(0, 5) as f64,
            DType::F64 | DType::F32 | DType::BF16 | DType::F16 | DType::I64 | DType::I32 => {
                rng.range(0, 6) as f64 - 3.0
            }
        };
        match kind {
            Elements::Reals if dtype.is_float() => self.rng.range(0, 4_000) as f64 / 1_000.0 - 2.0,
            Elements::Ties => self.rng.pick(&[0.0, 1.0, 1.0]),
            Elements::Special if dtype.is_float() && self.rng.one_in(6) => {
                self.rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0])
            }
            Elements::Integers | Elements::Reals | Elements::Special => integer(&mut self.rng),
        }
    }

    /// How far a sum of products of the elements drawn so far may be off: sums of small integers are exact
    /// in any order, except where a partial is rounded to 16 bits. The terms may be far larger than their sum.
    pub fn sums(&self, dtype: DType) -> f64 {
        match dtype {
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
            DType::F64 | DType::F32 if self.exact => 0.0,
            DType::F64 | DType::F32 => 2.0 * rounded(dtype),
            DType::BF16 | DType::F16 => 8.0 * rounded(dtype),
        }
    }
}

/// How far a result of several rounded steps may be off in a type.
pub fn rounded(dtype: DType) -> f64 {
    match dtype {
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 5e-3,
        DType::BF16 => 4e-2,
    }
}
