//! Rotary position embedding, computed from label indices: no table is stored or moved.

use crate::tensor::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, ExprError, Literal, RowId, Unary};
use ein_ir::monoid::Monoid;

/// How the frequencies of long contexts are changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
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
}

/// The rotation of Llama models: feature `j` of the first half of a head turns with feature `j` of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the frequencies: `rope_theta`.
    pub theta: f64,
    /// Their change for long contexts.
    pub scaling: Scaling,
}

impl Rotary {
    /// Turns `[b, h, s, d]` by the position `s`.
    ///
    /// One einsum with labels b, h, s, r and j, where feature `d = half * r + j`; it reads each element and
    /// its partner at `half * (1 - r) + j`. A reshape that moves nothing makes r and j one axis again.
    pub fn apply(&self, x: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let ty = x.ty()?;
            let &[b, h, s, d] = ty.shape.as_slice() else {
                return Err(x.shape_error("rotary", "[batch, heads, sequence, dim] is expected".into()));
            };
            if !d.is_multiple_of(2) || !ty.dtype.is_float() {
                return Err(x.shape_error("rotary", format!("pairs of floats are turned, and a head has {d} features")));
            }
            let half = d / 2;
            let names = [("b", b), ("h", h), ("s", s), ("r", 2), ("j", half)];
            let labels: Vec<Label> = names.iter().map(|&(name, extent)| Label::new(name, extent)).collect();
            let read = |stride: i64, offset: i64| {
                let last = Affine { terms: vec![(3, stride), (4, 1)], offset };
                Access { axes: vec![Affine::label(0), Affine::label(1), Affine::label(2), last] }
            };
            let accesses = vec![read(half as i64, 0), read(-(half as i64), half as i64)];
            let join = self.join(half, ty.dtype).map_err(|source| TensorError::Expr { operation: "rotary", source })?;
            let einsum = Einsum { labels, rank: 5, accesses, join, monoid: Monoid::Sum, dtype: ty.dtype };
            let turned = Tensor::from_einsum("rotary", einsum, &[x, x]);
            Ok(turned.reshape(&[b as i64, h as i64, s as i64, d as i64]))
        })
    }

    fn join(&self, half: usize, dtype: DType) -> Result<Expr, ExprError> {
        let wide = dtype.accumulator();
        let mut e = Expr::new();
        let (own, partner) = (e.push_operand(0, dtype), e.push_operand(1, dtype));
        let (own, partner) = (e.cast(own, wide), e.cast(partner, wide));
        let (position, j) = (e.index(2), e.index(4));
        let (position, j) = (e.cast(position, wide), e.cast(j, wide));
        let step = e.float(-1.0 / half as f64, wide);
        let exponent = e.binary(Binary::Mul, j, step)?;
        let theta = e.float(self.theta, wide);
        let frequency = e.binary(Binary::Pow, theta, exponent)?;
        let frequency = self.scaled(&mut e, frequency, wide)?;
        let angle = e.binary(Binary::Mul, position, frequency)?;
        let (cos, sin) = (e.unary(Unary::Cos, angle)?, e.unary(Unary::Sin, angle)?);
        let minus = e.unary(Unary::Neg, sin)?;
        let r = e.index(3);
        let zero = e.constant(Literal::Int(0), DType::I64);
        let first = e.binary(Binary::Eq, r, zero)?;
        let sin = e.select(first, minus, sin)?;
        let (kept, brought) = (e.binary(Binary::Mul, own, cos)?, e.binary(Binary::Mul, partner, sin)?);
        let sum = e.binary(Binary::Add, kept, brought)?;
        e.cast(sum, dtype);
        Ok(e)
    }

    fn scaled(&self, e: &mut Expr, frequency: RowId, wide: DType) -> Result<RowId, ExprError> {
        match self.scaling {
            Scaling::None => Ok(frequency),
            Scaling::Linear { factor } => {
                let factor = e.float(factor, wide);
                e.binary(Binary::Div, frequency, factor)
            }
            Scaling::Llama3 { factor, low_freq_factor, high_freq_factor, original } => {
                // Waves that fit into the original context, from which the smooth part follows.
                let per_wave = e.float(original / std::f64::consts::TAU, wide);
                let waves = e.binary(Binary::Mul, frequency, per_wave)?;
                let low = e.float(low_freq_factor, wide);
                let range = e.float(high_freq_factor - low_freq_factor, wide);
                let above = e.binary(Binary::Sub, waves, low)?;
                let smooth = e.binary(Binary::Div, above, range)?;
                let (zero, one) = (e.float(0.0, wide), e.float(1.0, wide));
                let smooth = e.binary(Binary::Max, smooth, zero)?;
                let smooth = e.binary(Binary::Min, smooth, one)?;
                let rest = e.binary(Binary::Sub, one, smooth)?;
                let factor = e.float(factor, wide);
                let divided = e.binary(Binary::Div, frequency, factor)?;
                let (slow, fast) = (e.binary(Binary::Mul, rest, divided)?, e.binary(Binary::Mul, smooth, frequency)?);
                e.binary(Binary::Add, slow, fast)
            }
        }
    }
}
