//! Rotary position embedding, computed from label indices: no table of angles is stored or moved.

use crate::tensor::{Tensor, TensorError};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, ExprError, Literal, RowId, Unary};
use ein_ir::monoid::Monoid;
use std::f64::consts::TAU;

/// How the frequencies of long contexts are changed: `rope_type`.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// The base grows with a sequence that is longer than the context.
    Dynamic {
        /// The factor.
        factor: f64,
        /// The context.
        original: f64,
    },
    /// Llama 3.1: long waves divided by a factor, short ones kept, those between interpolated.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Waves longer than the original context over this are divided.
        low_freq_factor: f64,
        /// Waves shorter than the original context over this are kept.
        high_freq_factor: f64,
        /// The original context.
        original: f64,
    },
    /// `YaRN`: features up to `low` kept, from `high` on divided by a factor, those between interpolated.
    Yarn {
        /// The factor.
        factor: f64,
        /// The last feature that is kept.
        low: f64,
        /// The first that is divided.
        high: f64,
    },
    /// `LongRoPE`: every feature divided by a factor of its own, other ones for sequences longer than the original
    /// context.
    Long {
        /// The factors of short sequences.
        short: Vec<f64>,
        /// The factors of long ones.
        long: Vec<f64>,
        /// The original context.
        original: usize,
    },
}

/// Which features `YaRN` interpolates, as the number of turns that they make in the original context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YarnRange {
    /// Features that turn more often are kept.
    pub fast: f64,
    /// Features that turn less often are divided.
    pub slow: f64,
    /// Whether the bounds are rounded to whole features.
    pub truncate: bool,
}

impl YarnRange {
    /// The bounds as features, of `dims` features that turn with base `theta`.
    pub fn features(&self, dims: usize, theta: f64, original: f64) -> (f64, f64) {
        let feature = |turns: f64| dims as f64 * (original / (turns * TAU)).ln() / (2.0 * theta.ln());
        let (low, high) = (feature(self.fast), feature(self.slow));
        let (low, high) = if self.truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(dims as f64 - 1.0));
        // A ramp has a width.
        (low, if low == high { high + 0.001 } else { high })
    }
}

/// The rotation of Llama models: feature `j` of the first half of a head turns with feature `j` of the second.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the frequencies: `rope_theta`.
    pub theta: f64,
    /// Their change for long contexts.
    pub scaling: Scaling,
    /// What the turned features are multiplied by.
    pub attention_factor: f64,
    /// Features of a head that are turned, the first ones; all of them if it is not said.
    pub dims: Option<usize>,
}

/// Where the tokens of a batch stand, where that is not their index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Positions<'a> {
    /// The position of every token, `[b, s]`, an integer; its index after `start` if not given.
    pub ids: Option<&'a Tensor>,
    /// Tokens that came before the first one of every sequence.
    pub start: usize,
    /// The number of tokens of every sequence, `[b]`, an integer, on which some scalings depend; `start + s` if not given.
    pub lengths: Option<&'a Tensor>,
    /// Where sequences begin that are packed in one row, `[n]`, `i64` or `i32`, rising from 0: tokens of one read
    /// none of another. Rotation takes no notice of it: the positions of packed tokens are their `ids`.
    pub offsets: Option<&'a Tensor>,
}

impl Rotary {
    /// The rotation of a base, without scaling.
    pub fn new(theta: f64) -> Self {
        Self { theta, scaling: Scaling::None, attention_factor: 1.0, dims: None }
    }

    /// Turns `[b, h, s, d]` by the position `s`.
    pub fn apply(&self, x: &Tensor) -> Tensor {
        self.apply_at(x, Positions::default())
    }

    /// Turns `[b, h, s, d]` by the positions of its tokens.
    ///
    /// One einsum with labels b, h, s, r and j, where feature `d = half * r + j`; it reads each element and
    /// its partner at `half * (1 - r) + j`. A reshape that moves nothing makes r and j one axis again.
    pub fn apply_at(&self, x: &Tensor, positions: Positions<'_>) -> Tensor {
        Tensor::attempt(|| {
            let ty = x.ty()?;
            let &[_, _, _, d] = ty.shape.as_slice() else {
                return Err(x.shape_error("rotary", "[batch, heads, sequence, dim] is expected".into()));
            };
            let dims = self.dims.unwrap_or(d);
            if !dims.is_multiple_of(2) || dims == 0 || dims > d || !ty.dtype.is_float() {
                let reason = format!("pairs of floats are turned, {dims} of a head that has {d} features");
                return Err(x.shape_error("rotary", reason));
            }
            if dims == d {
                return self.turn(x, positions);
            }
            let turned = self.turn(&x.narrow(-1, 0, dims), positions)?;
            Ok(Tensor::cat(&[&turned, &x.narrow(-1, dims, d - dims)], -1))
        })
    }

    fn turn(&self, x: &Tensor, positions: Positions<'_>) -> Result<Tensor, TensorError> {
        let ty = x.ty()?;
        let (b, h, s, d) = (ty.shape[0], ty.shape[1], ty.shape[2], ty.shape[3]);
        let half = d / 2;
        let names = [("b", b), ("h", h), ("s", s), ("r", 2), ("j", half)];
        let labels: Vec<Label> = names.iter().map(|&(name, extent)| Label::new(name, extent)).collect();
        let read = |stride: i64, offset: i64| {
            let last = Affine { terms: vec![(3, stride), (4, 1)], offset };
            Access { axes: vec![Affine::label(0), Affine::label(1), Affine::label(2), last] }
        };
        let mut join = Join {
            rotary: self,
            half,
            start: positions.start,
            sequence: positions.start + s,
            e: Expr::new(),
            wide: ty.dtype.accumulator(),
            operands: vec![x.clone(), x.clone()],
            accesses: vec![read(half as i64, 0), read(-(half as i64), half as i64)],
        };
        join.build(positions, ty.dtype).map_err(|source| TensorError::Expr { operation: "rotary", source })?;
        let Join { e, operands, accesses, .. } = join;
        let einsum = Einsum { labels, rank: 5, accesses, join: e, monoid: Monoid::Sum, dtype: ty.dtype };
        let turned = Tensor::from_einsum("rotary", einsum, &operands.iter().collect::<Vec<_>>());
        Ok(turned.reshape(&[b as i64, h as i64, s as i64, d as i64]))
    }
}

/// The expression of a rotation while it is written, and what it reads.
struct Join<'a> {
    rotary: &'a Rotary,
    half: usize,
    start: usize,
    /// Tokens of a sequence, those before the first one included.
    sequence: usize,
    e: Expr,
    /// The type in which angles are computed.
    wide: DType,
    operands: Vec<Tensor>,
    accesses: Vec<Access>,
}

impl Join<'_> {
    fn build(&mut self, positions: Positions<'_>, dtype: DType) -> Result<(), ExprError> {
        let wide = self.wide;
        let (own, partner) = (self.e.push_operand(0, dtype), self.e.push_operand(1, dtype));
        let (own, partner) = (self.e.cast(own, wide), self.e.cast(partner, wide));
        let position = match positions.ids {
            None if self.start == 0 => self.e.index(2),
            None => {
                let (index, start) = (self.e.index(2), self.e.constant(Literal::Int(self.start as i64), DType::I64));
                self.e.binary(Binary::Add, index, start)?
            }
            Some(ids) => self.operand(ids.clone(), &[0, 2]),
        };
        let position = self.e.cast(position, wide);
        let frequency = self.frequency(positions.lengths)?;
        let e = &mut self.e;
        let angle = e.binary(Binary::Mul, position, frequency)?;
        let (mut cos, mut sin) = (e.unary(Unary::Cos, angle)?, e.unary(Unary::Sin, angle)?);
        if self.rotary.attention_factor != 1.0 {
            let factor = e.float(self.rotary.attention_factor, wide);
            (cos, sin) = (e.binary(Binary::Mul, cos, factor)?, e.binary(Binary::Mul, sin, factor)?);
        }
        let minus = e.unary(Unary::Neg, sin)?;
        let r = e.index(3);
        let zero = e.constant(Literal::Int(0), DType::I64);
        let first = e.binary(Binary::Eq, r, zero)?;
        let sin = e.select(first, minus, sin)?;
        let (kept, brought) = (e.binary(Binary::Mul, own, cos)?, e.binary(Binary::Mul, partner, sin)?);
        let sum = e.binary(Binary::Add, kept, brought)?;
        e.cast(sum, dtype);
        Ok(())
    }

    /// A row that reads one more operand.
    fn operand(&mut self, tensor: Tensor, labels: &[usize]) -> RowId {
        let row = self.e.push_operand(self.operands.len(), tensor.dtype());
        self.operands.push(tensor);
        self.accesses.push(Access::labels(labels));
        row
    }

    fn float(&mut self, value: f64) -> RowId {
        self.e.float(value, self.wide)
    }

    fn binary(&mut self, function: Binary, a: RowId, b: RowId) -> Result<RowId, ExprError> {
        self.e.binary(function, a, b)
    }

    /// `base ^ (-j / half)`.
    fn plain(&mut self, base: RowId) -> Result<RowId, ExprError> {
        let j = self.e.index(4);
        let j = self.e.cast(j, self.wide);
        let step = self.float(-1.0 / self.half as f64);
        let exponent = self.binary(Binary::Mul, j, step)?;
        self.binary(Binary::Pow, base, exponent)
    }

    /// By how much feature j turns from one position to the next.
    fn frequency(&mut self, lengths: Option<&Tensor>) -> Result<RowId, ExprError> {
        let rotary = self.rotary;
        let base = match &rotary.scaling {
            Scaling::Dynamic { factor, original } => self.grown(*factor, *original, lengths)?,
            Scaling::None
            | Scaling::Linear { .. }
            | Scaling::Llama3 { .. }
            | Scaling::Yarn { .. }
            | Scaling::Long { .. } => self.float(rotary.theta),
        };
        let frequency = self.plain(base)?;
        match &rotary.scaling {
            Scaling::None | Scaling::Dynamic { .. } => Ok(frequency),
            Scaling::Linear { factor } => {
                let factor = self.float(*factor);
                self.binary(Binary::Div, frequency, factor)
            }
            Scaling::Llama3 { factor, low_freq_factor, high_freq_factor, original } => {
                // Waves that fit into the original context, from which the smooth part follows.
                let per_wave = self.float(original / TAU);
                let waves = self.binary(Binary::Mul, frequency, per_wave)?;
                let kept = self.ramp(waves, *low_freq_factor, *high_freq_factor)?;
                self.blend(frequency, kept, *factor)
            }
            Scaling::Yarn { factor, low, high } => {
                let j = self.e.index(4);
                let j = self.e.cast(j, self.wide);
                let divided = self.ramp(j, *low, *high)?;
                let one = self.float(1.0);
                let kept = self.binary(Binary::Sub, one, divided)?;
                self.blend(frequency, kept, *factor)
            }
            Scaling::Long { short, long, original } => {
                let factor = match lengths {
                    None if self.sequence > *original => self.factors("rotary.long_factor", long),
                    None => self.factors("rotary.short_factor", short),
                    Some(lengths) => {
                        let length = self.operand(lengths.clone(), &[0]);
                        let length = self.e.cast(length, DType::I64);
                        let most = self.e.constant(Literal::Int(*original as i64), DType::I64);
                        let fits = self.binary(Binary::Le, length, most)?;
                        let short = self.factors("rotary.short_factor", short);
                        let long = self.factors("rotary.long_factor", long);
                        self.e.select(fits, short, long)?
                    }
                };
                self.binary(Binary::Div, frequency, factor)
            }
        }
    }

    /// A factor for each feature.
    fn factors(&mut self, name: &str, values: &[f64]) -> RowId {
        self.operand(Tensor::constant(name, Dense::from_f64(self.wide, [values.len()], values)), &[4])
    }

    /// 0 up to `low`, 1 from `high` on, and linear between.
    fn ramp(&mut self, x: RowId, low: f64, high: f64) -> Result<RowId, ExprError> {
        let (low, range) = (self.float(low), self.float(high - low));
        let above = self.binary(Binary::Sub, x, low)?;
        let part = self.binary(Binary::Div, above, range)?;
        let (zero, one) = (self.float(0.0), self.float(1.0));
        let part = self.binary(Binary::Max, part, zero)?;
        self.binary(Binary::Min, part, one)
    }

    /// The part `kept` of a frequency as it is, the rest divided.
    fn blend(&mut self, frequency: RowId, kept: RowId, factor: f64) -> Result<RowId, ExprError> {
        let (one, factor) = (self.float(1.0), self.float(factor));
        let rest = self.binary(Binary::Sub, one, kept)?;
        let divided = self.binary(Binary::Div, frequency, factor)?;
        let slow = self.binary(Binary::Mul, rest, divided)?;
        let fast = self.binary(Binary::Mul, kept, frequency)?;
        self.binary(Binary::Add, slow, fast)
    }

    /// The base for sequences that may be longer than the context.
    fn grown(&mut self, factor: f64, original: f64, lengths: Option<&Tensor>) -> Result<RowId, ExprError> {
        // In units of the head's features, of which two turn as one.
        let exponent = self.half as f64 / (self.half as f64 - 1.0);
        let theta = self.rotary.theta;
        let Some(lengths) = lengths else {
            let length = original.max(self.sequence as f64);
            return Ok(self.float(theta * (factor * length / original - (factor - 1.0)).powf(exponent)));
        };
        let length = self.operand(lengths.clone(), &[0]);
        let length = self.e.cast(length, self.wide);
        let least = self.float(original);
        let length = self.binary(Binary::Max, length, least)?;
        let (slope, less) = (self.float(factor / original), self.float(factor - 1.0));
        let growth = self.binary(Binary::Mul, length, slope)?;
        let growth = self.binary(Binary::Sub, growth, less)?;
        let exponent = self.float(exponent);
        let growth = self.binary(Binary::Pow, growth, exponent)?;
        let theta = self.float(theta);
        self.binary(Binary::Mul, theta, growth)
    }
}
