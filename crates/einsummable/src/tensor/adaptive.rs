//! Adaptive pools: as many windows as are asked for, `i` from `floor(i n / m)` to `ceil((i + 1) n / m)` of `n` elements.
//!
//! With `g` the common divisor of `n` and `m`, windows repeat every `n / g` elements and `m / g` results. So an axis is
//! read at `n / g * q + l`, and a window is a condition on `l`: where the result's extent divides the input's there is
//! none, and a cut of the result needs its own elements only.

use super::conv::Labels;
use super::map::map;
use super::window::spatial_names;
use super::{Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, ExprError, Literal, RowId};
use ein_ir::monoid::Monoid;

/// The extents that an adaptive pool gives: one for all spatial axes or one for each; `None` keeps an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSize(Vec<Option<usize>>);

impl From<usize> for OutputSize {
    fn from(all: usize) -> Self {
        Self(vec![Some(all)])
    }
}

impl<const N: usize> From<[usize; N]> for OutputSize {
    fn from(each: [usize; N]) -> Self {
        Self(each.map(Some).to_vec())
    }
}

impl<const N: usize> From<[Option<usize>; N]> for OutputSize {
    fn from(each: [Option<usize>; N]) -> Self {
        Self(each.to_vec())
    }
}

impl From<Vec<Option<usize>>> for OutputSize {
    fn from(each: Vec<Option<usize>>) -> Self {
        Self(each)
    }
}

impl Tensor {
    /// `torch.nn.functional.adaptive_avg_pool1d`: means of `[n, c, x]` or `[c, x]` over as many windows as are asked for.
    pub fn adaptive_avg_pool1d(&self, output_size: impl Into<OutputSize>) -> Tensor {
        let size = output_size.into();
        Tensor::attempt(|| average("adaptive_avg_pool1d", 1, self, &size))
    }

    /// `torch.nn.functional.adaptive_avg_pool2d`: means of `[n, c, y, x]` or `[c, y, x]` over as many windows as are asked for.
    pub fn adaptive_avg_pool2d(&self, output_size: impl Into<OutputSize>) -> Tensor {
        let size = output_size.into();
        Tensor::attempt(|| average("adaptive_avg_pool2d", 2, self, &size))
    }

    /// `torch.nn.functional.adaptive_avg_pool3d`: means of `[n, c, z, y, x]` or `[c, z, y, x]` over as many windows as are asked for.
    pub fn adaptive_avg_pool3d(&self, output_size: impl Into<OutputSize>) -> Tensor {
        let size = output_size.into();
        Tensor::attempt(|| average("adaptive_avg_pool3d", 3, self, &size))
    }

    /// `torch.nn.functional.adaptive_max_pool1d`: the largest of `[n, c, x]` or `[c, x]` in as many windows as are
    /// asked for; a NaN wins.
    pub fn adaptive_max_pool1d(&self, output_size: impl Into<OutputSize>) -> Tensor {
        let size = output_size.into();
        Tensor::attempt(|| largest("adaptive_max_pool1d", 1, self, &size))
    }

    /// `torch.nn.functional.adaptive_max_pool2d`: the largest of `[n, c, y, x]` or `[c, y, x]` in as many windows as are
    /// asked for; a NaN wins.
    pub fn adaptive_max_pool2d(&self, output_size: impl Into<OutputSize>) -> Tensor {
        let size = output_size.into();
        Tensor::attempt(|| largest("adaptive_max_pool2d", 2, self, &size))
    }

    /// `torch.nn.functional.adaptive_max_pool3d`: the largest of `[n, c, z, y, x]` or `[c, z, y, x]` in as many windows as are
    /// asked for; a NaN wins.
    pub fn adaptive_max_pool3d(&self, output_size: impl Into<OutputSize>) -> Tensor {
        let size = output_size.into();
        Tensor::attempt(|| largest("adaptive_max_pool3d", 3, self, &size))
    }
}

/// The windows along one axis, repeated `repeats` times.
#[derive(Clone, Copy)]
struct Windows {
    repeats: usize,
    /// Elements of one repetition.
    from: usize,
    /// Windows of one repetition.
    to: usize,
}

impl Windows {
    fn of(from: usize, to: usize) -> Self {
        let (mut a, mut b) = (from, to);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let repeats = a.max(1);
        Self { repeats, from: from / repeats, to: to / repeats }
    }

    /// First element of window `r`, and the one after its last.
    fn ends(self, e: &mut Expr, r: RowId) -> Result<(RowId, RowId), ExprError> {
        let int = |e: &mut Expr, value: usize| e.constant(Literal::Int(value as i64), DType::I64);
        let (from, to, one) = (int(e, self.from), int(e, self.to), int(e, 1));
        let start = e.binary(Binary::Mul, r, from)?;
        let next = e.binary(Binary::Add, start, from)?;
        let start = e.binary(Binary::Div, start, to)?;
        // Rounded up: ((r + 1) n - 1) / m + 1.
        let last = e.binary(Binary::Sub, next, one)?;
        let last = e.binary(Binary::Div, last, to)?;
        Ok((start, e.binary(Binary::Add, last, one)?))
    }
}

/// The spatial extents of the result.
fn sizes(operation: &'static str, axes: usize, x: &Tensor, size: &OutputSize) -> Result<Vec<usize>, TensorError> {
    let shape = &x.ty()?.shape;
    let wrong = |reason: String| Err(x.shape_error(operation, reason));
    if shape.len() != axes + 1 && shape.len() != axes + 2 {
        let (with, without) = (axes + 2, axes + 1);
        return wrong(format!("{with} axes are expected, batch and channels first, or {without} without batch"));
    }
    let own = &shape[shape.len() - axes..];
    let asked = match size.0.as_slice() {
        [all] => vec![*all; axes],
        each if each.len() == axes => each.to_vec(),
        each => return wrong(format!("the output size has {} numbers for {axes} spatial axes", each.len())),
    };
    if own.contains(&0) {
        return wrong("a spatial axis is 0 long; windows need elements".into());
    }
    Ok(asked.into_iter().zip(own).map(|(size, &own)| size.unwrap_or(own)).collect())
}

/// Folds windows of the axes in `along`, each with its windows, after applying `f` to every element; `outside` stands
/// in for elements that a window does not have.
fn fold(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    along: &[(usize, Windows)],
    monoid: Monoid,
    outside: f64,
    dtype: DType,
    f: impl FnOnce(&mut Expr, RowId) -> Result<RowId, ExprError>,
) -> Result<Tensor, TensorError> {
    let shape = x.ty()?.shape.clone();
    let names = [&["n", "c"][2 + axes - shape.len()..], spatial_names(axes)].concat();
    let mut labels = Labels::default();
    let mut read: Vec<Affine> = Vec::new();
    let mut result: Vec<i64> = Vec::new();
    let mut conditions = Vec::new();
    let mut inner = Vec::new();
    for (axis, &extent) in shape.iter().enumerate() {
        let Some(&(_, w)) = along.iter().find(|a| a.0 == axis) else {
            read.push(Affine::label(labels.add(names[axis], extent)));
            result.push(extent as i64);
            continue;
        };
        let q = (w.repeats > 1 || w.to == 1).then(|| labels.add(names[axis], w.repeats));
        let r = (w.to > 1).then(|| labels.add(format!("r{}", names[axis]), w.to));
        result.push((w.repeats * w.to) as i64);
        read.push(Affine {
            terms: q.filter(|_| w.repeats > 1).map(|q| (q, w.from as i64)).into_iter().collect(),
            offset: 0,
        });
        inner.push((axis, w, r));
    }
    let rank = labels.0.len();
    for (axis, w, r) in inner {
        if w.from > 1 {
            let l = labels.add(format!("k{}", names[axis]), w.from);
            read[axis].terms.push((l, 1));
            conditions.extend(r.map(|r| (w, r, l)));
        }
    }
    let mut e = Expr::new();
    let row = e.push_operand(0, x.dtype());
    let fault = |source| TensorError::Expr { operation, source };
    let mut value = f(&mut e, row).map_err(fault)?;
    let mut inside = |(w, r, l): (Windows, usize, usize)| {
        let (r, l) = (e.index(r), e.index(l));
        let (start, end) = w.ends(&mut e, r)?;
        let from = e.binary(Binary::Le, start, l)?;
        let until = e.binary(Binary::Lt, l, end)?;
        let both = e.binary(Binary::And, from, until)?;
        // By way of a float, which a conversion clamps to what the type holds.
        let outside = e.float(outside, DType::F64);
        let outside = e.cast(outside, e.dtype_of(value));
        value = e.select(both, value, outside)?;
        Ok(())
    };
    conditions.into_iter().try_for_each(&mut inside).map_err(fault)?;
    let join = ending(&e, value);
    let einsum = Einsum { labels: labels.0, rank, accesses: vec![Access { axes: read }], join, monoid, dtype };
    Ok(Tensor::row_einsum(operation, einsum, &[x]).reshape(&result))
}

/// The axes of `x` that change, by whether windows are of one size. Those that are, are folded together; the others one
/// after the other, for an axis costs its extent for each of its results.
fn passes(x: &Tensor, sizes: &[usize]) -> Vec<Vec<(usize, Windows)>> {
    let lead = x.dim() - sizes.len();
    let changed = sizes.iter().enumerate().map(|(n, &to)| (lead + n, Windows::of(x.shape()[lead + n], to)));
    let (even, uneven): (Vec<_>, Vec<_>) = changed.filter(|(_, w)| w.from != w.to).partition(|(_, w)| w.to == 1);
    let even = if even.is_empty() { vec![] } else { vec![even] };
    even.into_iter().chain(uneven.into_iter().map(|w| vec![w])).collect()
}

/// A result without elements.
fn nothing(x: &Tensor, sizes: &[usize]) -> Tensor {
    let lead = x.dim() - sizes.len();
    Tensor::zeros(&[&x.shape()[..lead], sizes].concat(), x.dtype())
}

fn largest(operation: &'static str, axes: usize, x: &Tensor, size: &OutputSize) -> Result<Tensor, TensorError> {
    let sizes = sizes(operation, axes, x, size)?;
    if x.dtype() == DType::Bool {
        return Err(x.type_error(operation, "needs numbers; convert with `.to`"));
    }
    if sizes.contains(&0) {
        return Ok(nothing(x, &sizes));
    }
    let mut y = x.clone();
    for pass in passes(x, &sizes) {
        y = fold(operation, axes, &y, &pass, Monoid::Max, f64::NEG_INFINITY, x.dtype(), |_, x| Ok(x))?;
    }
    Ok(y)
}

fn average(operation: &'static str, axes: usize, x: &Tensor, size: &OutputSize) -> Result<Tensor, TensorError> {
    let dtype = x.float_type(operation)?;
    let sizes = sizes(operation, axes, x, size)?;
    if sizes.contains(&0) {
        return Ok(nothing(x, &sizes));
    }
    let wide = dtype.accumulator();
    let passes = passes(x, &sizes);
    if passes.is_empty() {
        return Ok(x.clone());
    }
    let mut y = x.clone();
    for pass in &passes {
        y = fold(operation, axes, &y, pass, Monoid::Sum, 0.0, wide, |e, x| Ok(e.cast(x, wide)))?;
    }
    map(operation, &[&y], |e, r| {
        let mut elements = e.constant(Literal::Int(1), DType::I64);
        for &(axis, w) in passes.iter().flatten() {
            let count = if w.to == 1 {
                e.constant(Literal::Int(w.from as i64), DType::I64)
            } else {
                let (i, to) = (e.index(axis), e.constant(Literal::Int(w.to as i64), DType::I64));
                let r = e.binary(Binary::Rem, i, to)?;
                let (start, end) = w.ends(e, r)?;
                e.binary(Binary::Sub, end, start)?
            };
            elements = e.binary(Binary::Mul, elements, count)?;
        }
        let elements = e.cast(elements, wide);
        let mean = e.binary(Binary::Div, r[0], elements)?;
        Ok(e.cast(mean, dtype))
    })
}
