//! Interpolation. One axis after the other: an axis is read at `step * t + l` for blocks `t` of results and indices `l` of
//! a window, and a small table says which of them a result takes. So a cut axis needs a halo, whatever the scale.

use super::conv::Labels;
use super::map::{map_over, number};
use super::window::{PerAxis, spatial_names};
use super::{Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, ExprError, Literal, RowId, Unary};
use ein_ir::monoid::Monoid;

/// How [`Tensor::interpolate`] finds values between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterpolateMode {
    /// The element at or before the place.
    Nearest,
    /// The element whose centre is nearest.
    NearestExact,
    /// On a line between two elements; one spatial axis.
    Linear,
    /// As `Linear` on two spatial axes.
    Bilinear,
    /// As `Linear` on three spatial axes.
    Trilinear,
    /// On a cubic through four elements; two spatial axes.
    Bicubic,
    /// The mean of the elements that a result covers.
    Area,
}

impl InterpolateMode {
    /// `PyTorch`'s name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::NearestExact => "nearest-exact",
            Self::Linear => "linear",
            Self::Bilinear => "bilinear",
            Self::Trilinear => "trilinear",
            Self::Bicubic => "bicubic",
            Self::Area => "area",
        }
    }

    /// The spatial axes that the mode is for, if it is not for any.
    fn axes(self) -> Option<usize> {
        match self {
            Self::Linear => Some(1),
            Self::Bilinear | Self::Bicubic => Some(2),
            Self::Trilinear => Some(3),
            Self::Nearest | Self::NearestExact | Self::Area => None,
        }
    }
}

/// The options of [`Tensor::interpolate`]: a size or a scale factor, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct InterpolateOptions {
    size: Option<PerAxis>,
    scale_factor: Option<Vec<f64>>,
    mode: InterpolateMode,
    align_corners: bool,
    recompute_scale_factor: bool,
}

impl InterpolateOptions {
    fn new(size: Option<PerAxis>, scale_factor: Option<Vec<f64>>) -> InterpolateOptions {
        let mode = InterpolateMode::Nearest;
        InterpolateOptions { size, scale_factor, mode, align_corners: false, recompute_scale_factor: false }
    }

    /// To these extents, one for all spatial axes or one for each; the nearest elements.
    pub fn size(size: impl Into<PerAxis>) -> InterpolateOptions {
        Self::new(Some(size.into()), None)
    }

    /// To the extents times a factor, rounded down; the nearest elements.
    pub fn scale_factor(factor: f64) -> InterpolateOptions {
        Self::new(None, Some(vec![factor]))
    }

    /// As [`InterpolateOptions::scale_factor`] with a factor for each spatial axis.
    pub fn scale_factors(factors: &[f64]) -> InterpolateOptions {
        Self::new(None, Some(factors.to_vec()))
    }

    /// In this mode.
    pub fn mode(self, mode: InterpolateMode) -> InterpolateOptions {
        Self { mode, ..self }
    }

    /// The outermost elements at the outermost results if `align_corners`; otherwise their outer edges meet.
    pub fn align_corners(self, align_corners: bool) -> InterpolateOptions {
        Self { align_corners, ..self }
    }

    /// With the scale of the rounded extents in place of the factor, if `recompute`.
    pub fn recompute_scale_factor(self, recompute: bool) -> InterpolateOptions {
        Self { recompute_scale_factor: recompute, ..self }
    }
}

impl Tensor {
    /// `torch.nn.functional.interpolate` of `[n, c, x]`, `[n, c, y, x]` or `[n, c, z, y, x]`.
    ///
    /// ```
    /// use einsummable::{DType, InterpolateMode, InterpolateOptions, Tensor};
    /// let x = Tensor::input("x", [1, 3, 8, 8], DType::F32);
    /// let options = InterpolateOptions::scale_factor(2.0).mode(InterpolateMode::Bilinear);
    /// assert_eq!(x.interpolate(&options).shape(), [1, 3, 16, 16]);
    /// ```
    pub fn interpolate(&self, options: &InterpolateOptions) -> Tensor {
        Tensor::attempt(|| interpolated(self, options))
    }
}

fn interpolated(x: &Tensor, options: &InterpolateOptions) -> Result<Tensor, TensorError> {
    let shape = &x.ty()?.shape;
    let mode = options.mode;
    let wrong = |reason: String| x.shape_error("interpolate", reason);
    let axes = shape.len().wrapping_sub(2);
    if !(1..=3).contains(&axes) || mode.axes().is_some_and(|n| n != axes) {
        let known = mode.axes().map_or("one to three".into(), |n| n.to_string());
        return Err(wrong(format!("`{}` takes batch, channels and {known} spatial axes", mode.name())));
    }
    let smooth = mode.axes().is_some();
    if options.align_corners && !smooth {
        return Err(wrong(format!("`{}` has no corners to align; leave `align_corners` out", mode.name())));
    }
    let own = &shape[2..];
    let factors = match options.scale_factor.as_deref() {
        Some([all]) => Some(vec![*all; axes]),
        Some(each) if each.len() == axes => Some(each.to_vec()),
        Some(each) => return Err(wrong(format!("{} scale factors for {axes} spatial axes", each.len()))),
        None => None,
    };
    let size = match (&options.size, &factors) {
        (Some(size), _) => size.each("the size", axes).map_err(wrong)?,
        (None, Some(factors)) => own.iter().zip(factors).map(|(&n, f)| (n as f64 * f) as usize).collect(),
        (None, None) => unreachable!("the options are made with one of them"),
    };
    if own.contains(&0) || size.contains(&0) || size.iter().any(|&n| n > MOST) {
        return Err(wrong(format!("spatial extents {own:?} become {size:?}; both must be 1 or more, at most {MOST}")));
    }
    if mode == InterpolateMode::Area {
        let size: Vec<Option<usize>> = size.into_iter().map(Some).collect();
        return Ok(match axes {
            1 => x.adaptive_avg_pool1d(size),
            2 => x.adaptive_avg_pool2d(size),
            _ => x.adaptive_avg_pool3d(size),
        });
    }
    if smooth {
        x.float_type("interpolate")?;
    }
    let mut y = x.clone();
    for n in 0..axes {
        let factor = factors.as_ref().filter(|_| !options.recompute_scale_factor).map(|f| f[n]);
        let line = Line { axis: 2 + n, name: spatial_names(axes)[n], from: own[n], to: size[n] };
        // Between the axes nothing is rounded.
        let dtype = if n + 1 == axes || !smooth { x.dtype() } else { x.dtype().accumulator() };
        y = match mode {
            InterpolateMode::Nearest => line.nearest(&y, factor, 0.0)?,
            InterpolateMode::NearestExact => line.nearest(&y, factor, 0.5)?,
            InterpolateMode::Bicubic => line.smooth(&y, options.align_corners, factor, Curve::Cubic, dtype)?,
            InterpolateMode::Linear
            | InterpolateMode::Bilinear
            | InterpolateMode::Trilinear
            | InterpolateMode::Area => line.smooth(&y, options.align_corners, factor, Curve::Line, dtype)?,
        };
    }
    Ok(y)
}

/// What runs through the elements.
#[derive(Clone, Copy, PartialEq)]
enum Curve {
    Line,
    Cubic,
}

/// One axis and its extents before and after.
struct Line {
    axis: usize,
    name: &'static str,
    from: usize,
    to: usize,
}

/// Where result `o` lies between elements: `(numerator * o + offset) / denominator`, by whole numbers, so that every
/// device finds the same element.
struct Place {
    numerator: i64,
    offset: i64,
    denominator: i64,
    /// The least place.
    least: Option<i64>,
}

impl Place {
    /// The element at or before result `o`.
    fn before(&self, o: usize) -> i64 {
        let at = self.numerator * o as i64 + self.offset;
        self.least.map_or(at, |least| at.max(least)).div_euclid(self.denominator)
    }
}

/// The elements that results read: `step * t + first + l` for `l` below `width`, results in blocks `t` of `block`.
struct Blocks {
    block: usize,
    step: i64,
    first: i64,
    width: usize,
}

impl Line {
    /// The blocks with the narrowest windows that hold elements `reads(o)`, from the first to the last.
    fn blocks(&self, reads: impl Fn(usize) -> (i64, i64)) -> Blocks {
        let all: Vec<(i64, i64)> = (0..self.to).map(reads).collect();
        let of = |block: usize| {
            let step = (block as f64 * self.from as f64 / self.to as f64).round() as i64;
            let shift = |o: usize| step * (o / block) as i64;
            let first = (0..self.to).map(|o| all[o].0 - shift(o)).min().unwrap_or(0);
            let last = (0..self.to).map(|o| all[o].1 - shift(o)).max().unwrap_or(0);
            Blocks { block, step, first, width: (last - first + 1) as usize }
        };
        // Blocks of one first: longer ones must be better.
        let candidates = (1..=self.to.min(MOST_BLOCK)).map(of).filter(|b| b.step > 0 || b.block >= self.to);
        candidates.min_by_key(|b| (b.width, b.block)).unwrap_or_else(|| of(self.to))
    }

    /// Folds the window of every result. `f` gives the value for the element, the element's number and rows of tables
    /// over results.
    fn fold(
        &self,
        x: &Tensor,
        blocks: &Blocks,
        tables: &[&Tensor],
        monoid: Monoid,
        dtype: DType,
        f: impl FnOnce(&mut Expr, RowId, RowId, &[RowId]) -> Result<RowId, ExprError>,
    ) -> Result<Tensor, TensorError> {
        let count = self.to.div_ceil(blocks.block);
        let end = blocks.step * (count as i64 - 1) + blocks.first + blocks.width as i64;
        let read = x.around(self.axis, blocks.first, end, 0.0)?;
        let mut labels = Labels::default();
        let mut own = Vec::new();
        let mut at = Affine::default();
        let mut shape: Vec<i64> = x.shape().iter().map(|&n| n as i64).collect();
        shape[self.axis] = (count * blocks.block) as i64;
        let (mut t, mut r) = (0, None);
        for (axis, &extent) in x.shape().iter().enumerate() {
            if axis == self.axis {
                t = labels.add(self.name, count);
                r = (blocks.block > 1).then(|| labels.add(format!("r{}", self.name), blocks.block));
                own.push(Affine::default());
            } else {
                own.push(Affine::label(labels.add(format!("a{axis}"), extent)));
            }
        }
        let rank = labels.0.len();
        if count > 1 {
            at.terms.push((t, blocks.step));
        }
        let l = (blocks.width > 1).then(|| labels.add(format!("k{}", self.name), blocks.width));
        at.terms.extend(l.map(|l| (l, 1)));
        own[self.axis] = at;
        let mut result = Affine { terms: vec![(t, blocks.block as i64)], offset: 0 };
        result.terms.extend(r.map(|r| (r, 1)));
        let mut accesses = vec![Access { axes: own }];
        accesses.extend(tables.iter().map(|_| Access { axes: vec![result.clone()] }));

        let mut e = Expr::new();
        let value = e.push_operand(0, x.dtype());
        let rows: Vec<RowId> = tables.iter().enumerate().map(|(n, t)| e.push_operand(n + 1, t.dtype())).collect();
        let join = || {
            let int = |e: &mut Expr, n: i64| e.constant(Literal::Int(n), DType::I64);
            let (block, step, first) = (e.index(t), int(&mut e, blocks.step), int(&mut e, blocks.first));
            let mut element = e.binary(Binary::Mul, block, step)?;
            element = e.binary(Binary::Add, element, first)?;
            if let Some(l) = l {
                let l = e.index(l);
                element = e.binary(Binary::Add, element, l)?;
            }
            f(&mut e, value, element, &rows)
        };
        let last = join().map_err(|source| TensorError::Expr { operation: "interpolate", source })?;
        let einsum = Einsum { labels: labels.0, rank, accesses, join: ending(&e, last), monoid, dtype };
        let operands: Vec<&Tensor> = [&read].into_iter().chain(tables.iter().copied()).collect();
        let folded = Tensor::row_einsum("interpolate", einsum, &operands);
        Ok(folded.reshape(&shape).narrow(self.axis as i64, 0, self.to))
    }

    /// A table over results, those of the last block that do not exist included.
    fn table(
        &self,
        blocks: &Blocks,
        f: impl FnOnce(&mut Expr, RowId) -> Result<RowId, ExprError>,
    ) -> Result<Tensor, TensorError> {
        let count = self.to.div_ceil(blocks.block) * blocks.block;
        map_over("interpolate_table", &[count], vec![], &[], |e, _| {
            let o = e.index(0);
            f(e, o)
        })
    }

    /// The elements at `floor((o + centre) * scale)`, computed in the type that `PyTorch` computes them in.
    fn nearest(&self, x: &Tensor, factor: Option<f64>, centre: f64) -> Result<Tensor, TensorError> {
        let double = x.dtype() == DType::F64;
        let last = self.from as i64 - 1;
        let exact = factor.map_or(self.from as f64 / self.to as f64, |f| 1.0 / f);
        let single = factor.map_or(self.from as f32 / self.to as f32, |f| (1.0 / f) as f32);
        let reads = |o: usize| {
            let at = if double { (o as f64 + centre) * exact } else { f64::from((o as f32 + centre as f32) * single) };
            (at.floor() as i64).min(last)
        };
        let all: Vec<i64> = (0..self.to).map(reads).collect();
        let at = self.axis as i64;
        // Where every element is taken equally often, or every so many-th, nothing is computed.
        let times = self.to / self.from;
        if times * self.from == self.to && all.iter().enumerate().all(|(o, &i)| i == (o / times) as i64) {
            return Ok(x.repeat_interleave(times, at));
        }
        let step = if self.to > 1 { all[1] - all[0] } else { 1 };
        if step > 0 && all.iter().enumerate().all(|(o, &i)| i == all[0] + step * o as i64) {
            return Ok(x.slice(at, all[0], last + 1, step as usize).narrow(at, 0, self.to));
        }
        let blocks = self.blocks(|o| (all[o], all[o]));
        let dtype = if double { DType::F64 } else { DType::F32 };
        let table = self.table(&blocks, |e, o| {
            let (o, centre) = (e.cast(o, dtype), e.float(centre, dtype));
            let scale = e.float(if double { exact } else { f64::from(single) }, dtype);
            let o = e.binary(Binary::Add, o, centre)?;
            let place = e.binary(Binary::Mul, o, scale)?;
            let place = e.unary(Unary::Floor, place)?;
            let (index, last) = (e.cast(place, DType::I64), e.constant(Literal::Int(last), DType::I64));
            e.binary(Binary::Min, index, last)
        })?;
        // By the largest, which keeps -0 and is for any type.
        self.fold(x, &blocks, &[&table], Monoid::Max, x.dtype(), |e, value, element, tables| {
            let taken = e.binary(Binary::Eq, element, tables[0])?;
            let lowest = e.float(f64::NEG_INFINITY, DType::F64);
            let lowest = match x.dtype() {
                DType::Bool => number(e, 0.0, DType::Bool),
                other => e.cast(lowest, other),
            };
            e.select(taken, value, lowest)
        })
    }

    /// Where results lie, by the rational number that the scale stands for.
    fn place(&self, align_corners: bool, factor: Option<f64>, curve: Curve) -> Place {
        let (from, to) = (self.from as i64, self.to as i64);
        if align_corners {
            let (numerator, denominator) = if to > 1 { (from - 1, to - 1) } else { (0, 1) };
            return Place { numerator, offset: 0, denominator, least: None };
        }
        let (a, b) = factor.filter(|&f| f > 0.0).map_or((from, to), |f| rational(1.0 / f));
        // a / b (o + 1/2) - 1/2.
        let least = if curve == Curve::Cubic { None } else { Some(0) };
        Place { numerator: 2 * a, offset: a - b, denominator: 2 * b, least }
    }

    /// A curve through the elements around the place of every result.
    fn smooth(
        &self,
        x: &Tensor,
        align_corners: bool,
        factor: Option<f64>,
        curve: Curve,
        dtype: DType,
    ) -> Result<Tensor, TensorError> {
        let place = self.place(align_corners, factor, curve);
        let last = self.from as i64 - 1;
        let (behind, ahead) = if curve == Curve::Cubic { (1, 2) } else { (0, 1) };
        let reads = |o: usize| {
            let before = place.before(o);
            ((before - behind).clamp(0, last), (before + ahead).clamp(0, last))
        };
        let blocks = self.blocks(reads);
        let wide = x.dtype().accumulator();
        let int = |e: &mut Expr, n: i64| e.constant(Literal::Int(n), DType::I64);
        let at = |e: &mut Expr, o: RowId| {
            let (numerator, offset) = (int(e, place.numerator), int(e, place.offset));
            let at = e.binary(Binary::Mul, o, numerator)?;
            let at = e.binary(Binary::Add, at, offset)?;
            match place.least {
                Some(least) => {
                    let least = int(e, least);
                    e.binary(Binary::Max, at, least)
                }
                None => Ok(at),
            }
        };
        let before = self.table(&blocks, |e, o| {
            let (at, denominator) = (at(e, o)?, int(e, place.denominator));
            e.binary(Binary::Div, at, denominator)
        })?;
        let rest = self.table(&blocks, |e, o| {
            let (at, denominator) = (at(e, o)?, int(e, place.denominator));
            let rest = e.binary(Binary::Rem, at, denominator)?;
            let (rest, denominator) = (e.cast(rest, wide), e.cast(denominator, wide));
            e.binary(Binary::Div, rest, denominator)
        })?;
        self.fold(x, &blocks, &[&before, &rest], Monoid::Sum, dtype, |e, value, element, tables| {
            let value = e.cast(value, wide);
            let weights = match curve {
                Curve::Line => {
                    let one = e.float(1.0, wide);
                    vec![e.binary(Binary::Sub, one, tables[1])?, tables[1]]
                }
                Curve::Cubic => cubic(e, tables[1], wide)?,
            };
            let (zero, lowest, last) = (e.float(0.0, wide), int(e, 0), int(e, last));
            let mut total = None;
            for (n, weight) in weights.into_iter().enumerate() {
                let shift = int(e, n as i64 - behind);
                let tap = e.binary(Binary::Add, tables[0], shift)?;
                let tap = e.binary(Binary::Max, tap, lowest)?;
                let tap = e.binary(Binary::Min, tap, last)?;
                let taken = e.binary(Binary::Eq, element, tap)?;
                let part = e.binary(Binary::Mul, weight, value)?;
                let part = e.select(taken, part, zero)?;
                total = Some(total.map_or(Ok(part), |t| e.binary(Binary::Add, t, part))?);
            }
            Ok(total.expect("a curve has taps"))
        })
    }
}

/// Beyond this `PyTorch`'s places, being `f32`, are no longer different.
const MOST: usize = 1 << 24;
/// Blocks are no longer than this: the longer, the nearer is a block's step to what the scale says.
const MOST_BLOCK: usize = 64;

/// The weights of the four elements around a place, `rest` behind the second: Keys' cubic with a slope of -0.75.
fn cubic(e: &mut Expr, rest: RowId, wide: DType) -> Result<Vec<RowId>, ExprError> {
    const A: f64 = -0.75;
    let polynomial = |e: &mut Expr, x: RowId, c: [f64; 4]| {
        let mut value = e.float(c[0], wide);
        for c in &c[1..] {
            let c = e.float(*c, wide);
            value = e.binary(Binary::Mul, value, x)?;
            value = e.binary(Binary::Add, value, c)?;
        }
        Ok::<RowId, ExprError>(value)
    };
    // Within one element of the place, and between one and two.
    let (near, far) = ([A + 2.0, -(A + 3.0), 0.0, 1.0], [A, -5.0 * A, 8.0 * A, -4.0 * A]);
    let (one, two) = (e.float(1.0, wide), e.float(2.0, wide));
    let second = e.binary(Binary::Add, rest, one)?;
    let third = e.binary(Binary::Sub, one, rest)?;
    let fourth = e.binary(Binary::Sub, two, rest)?;
    Ok(vec![
        polynomial(e, second, far)?,
        polynomial(e, rest, near)?,
        polynomial(e, third, near)?,
        polynomial(e, fourth, far)?,
    ])
}

/// The fraction of small numbers that a positive float stands for: `1 / 1.7` is 10/17.
fn rational(value: f64) -> (i64, i64) {
    let (mut before, mut found) = ((0_i64, 1_i64), (1_i64, 0_i64));
    let mut rest = value;
    for _ in 0..40 {
        let whole = rest.floor();
        let next = (whole as i64).checked_mul(found.0).and_then(|n| n.checked_add(before.0));
        let down = (whole as i64).checked_mul(found.1).and_then(|n| n.checked_add(before.1));
        let (Some(up), Some(down)) = (next, down) else { break };
        if up > 1 << 20 && down > 1 << 20 {
            break;
        }
        (before, found) = (found, (up, down));
        if (found.0 as f64 / found.1 as f64 - value).abs() <= value * 1e-14 {
            break;
        }
        rest = 1.0 / (rest - whole);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_stand_for_fractions() {
        for (value, expected) in
            [(0.5, (1, 2)), (1.0 / 1.7, (10, 17)), (1.0 / 3.0, (1, 3)), (3.0, (3, 1)), (1.0 / 2.25, (4, 9))]
        {
            assert_eq!(rational(value), expected, "{value}");
        }
        let (a, b) = rational(std::f64::consts::PI);
        assert!((a as f64 / b as f64 - std::f64::consts::PI).abs() < 1e-11);
    }

    #[test]
    fn windows_are_narrow_whatever_the_scale() {
        for (from, to, most) in [(4, 8, 3), (8, 4, 2), (224, 299, 6), (299, 224, 6), (7, 5, 4), (33, 513, 4), (5, 1, 2)]
        {
            let line = Line { axis: 0, name: "x", from, to };
            let place = line.place(false, None, Curve::Line);
            let last = from as i64 - 1;
            let blocks = line.blocks(|o| (place.before(o).min(last), (place.before(o) + 1).min(last)));
            assert!(blocks.width <= most, "{from} to {to}: {} wide", blocks.width);
        }
    }
}
