//! Elements by index: gathers and scatters along an axis.
//!
//! Indices are `I64` or `I32`, each from 0 to below the extent they index. One outside is an error of the run that names
//! the operation, at any number of devices; it is never another device's element.

use super::map::{map, map_over};
use super::{Operand, Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::expr::Binary;
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Gather, GatherAlong, Kernel, Scatter, ScatterAlong};
use ein_ir::monoid::Monoid;
use ein_ir::view::View;

/// How [`Tensor::scatter_reduce`] combines elements of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// Their mean; of integers, rounded down.
    Mean,
    /// The largest.
    Amax,
    /// The smallest.
    Amin,
}

impl Tensor {
    /// `torch.gather`: `out[i…] = self[i…]` with the index along `axis` taken from `index`, which has as many axes and
    /// is, but for `axis`, nowhere longer.
    pub fn gather(&self, axis: i64, index: &Tensor) -> Tensor {
        Tensor::attempt(|| gather_along(self, "gather", axis, index))
    }

    /// `torch.take_along_dim`: [`Tensor::gather`] with the other axes broadcast.
    pub fn take_along_dim(&self, index: &Tensor, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("take_along_dim", axis)?;
            let (own, ids) = (&self.ty()?.shape, &index.ty()?.shape);
            if own.len() != ids.len() {
                return Err(both(self, index, "take_along_dim", "both must have as many axes".into()));
            }
            let fit = |n: usize, here: usize, there: usize| if n != at && here == 1 { there } else { here };
            let widened =
                |a: &[usize], b: &[usize]| -> Vec<i64> { (0..a.len()).map(|n| fit(n, a[n], b[n]) as i64).collect() };
            gather_along(&self.expand(&widened(own, ids)), "take_along_dim", axis, &index.expand(&widened(ids, own)))
        })
    }

    /// `torch.index_select`: the elements at these indices of an axis; `index` has one axis.
    pub fn index_select(&self, axis: i64, index: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let x = if self.ty()?.shape.is_empty() { self.reshape(&[1]) } else { self.clone() };
            let at = x.axis("index_select", axis)?;
            if index.ty()?.shape.len() > 1 {
                return Err(both(self, index, "index_select", "the index must have one axis".into()));
            }
            let selected = select(&x, "index_select", at, &index.reshape(&[-1]))?;
            Ok(if self.dim() == 0 { selected.reshape(&[]) } else { selected })
        })
    }

    /// `torch.take`: elements of the flattened tensor; the result has the shape of the index.
    pub fn take(&self, index: &Tensor) -> Tensor {
        Tensor::attempt(|| select(&self.reshape(&[-1]), "take", 0, index))
    }

    /// `torch.index_add`: adds `alpha` times the slices of `source` to those that `index` names along an axis; slices
    /// named more than once take all of them.
    pub fn index_add(&self, axis: i64, index: &Tensor, source: &Tensor, alpha: f64) -> Tensor {
        Tensor::attempt(|| {
            let operation = "index_add";
            let source = if alpha == 1.0 { source.clone() } else { source.mul(scalar(alpha, source.dtype())) };
            let at = self.axis(operation, axis)?;
            let sums = scatter_slices(self, operation, at, index, &source, Monoid::Sum)?;
            Ok(self.add(&sums))
        })
    }

    /// `torch.index_fill`: a value in the slices that `index` names along an axis.
    pub fn index_fill(&self, axis: i64, index: &Tensor, value: f64) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("index_fill", axis)?;
            let named = counted_rows(self, "index_fill", at, index)?;
            Ok(constant(self, value).where_(&named, self))
        })
    }

    /// `torch.index_copy`: slices of `source` in place of those that `index` names along an axis. Of slices that name
    /// the same place the last stays.
    pub fn index_copy(&self, axis: i64, index: &Tensor, source: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("index_copy", axis)?;
            check_slices(self, "index_copy", at, index, source)?;
            let index = index.reshape(&[-1]);
            let count = index.size(0);
            if count == 0 {
                return Ok(self.clone());
            }
            // The last of those that name each place, or -1.
            let order = iota(count)?;
            let blank = Tensor::zeros(&[self.shape()[at]], DType::I64);
            let last = scatter_slices(&blank, "index_copy", 0, &index, &order, Monoid::Max)?;
            let taken = select(source, "index_copy", at, &last.maximum(0))?;
            Ok(taken.where_(&placed(&last.ge(0), at, self.dim()), self))
        })
    }

    /// `torch.scatter_add`: adds the elements of `source` to the places that `index` names along an axis.
    pub fn scatter_add(&self, axis: i64, index: &Tensor, source: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let sums = scatter_elements(self, "scatter_add", axis, index, source, Monoid::Sum)?;
            Ok(self.add(&sums))
        })
    }

    /// `torch.scatter_reduce`: combines the elements of `source` that name a place along an axis, and with
    /// `include_self` what stood there. Places that none names keep what they have.
    pub fn scatter_reduce(
        &self,
        axis: i64,
        index: &Tensor,
        source: &Tensor,
        reduce: Reduce,
        include_self: bool,
    ) -> Tensor {
        Tensor::attempt(|| {
            let operation = "scatter_reduce";
            let by = |monoid| scatter_elements(self, operation, axis, index, source, monoid);
            let count = counted(self, operation, axis, index)?;
            let named = count.gt(0);
            let combined = match reduce {
                Reduce::Sum => {
                    let sums = by(Monoid::Sum)?;
                    if include_self { self.add(&sums) } else { sums }
                }
                Reduce::Prod => {
                    let products = by(Monoid::Prod)?;
                    if include_self { self.mul(&products) } else { products }
                }
                Reduce::Amax => {
                    let most = by(Monoid::Max)?;
                    if include_self { self.maximum(&most) } else { most }
                }
                Reduce::Amin => {
                    let least = by(Monoid::Min)?;
                    if include_self { self.minimum(&least) } else { least }
                }
                Reduce::Mean => {
                    let sums = by(Monoid::Sum)?;
                    let (sum, count) = if include_self { (self.add(&sums), count.add(1)) } else { (sums, count) };
                    mean(&sum, &count.maximum(1), self.dtype())?
                }
            };
            Ok(combined.where_(&named, self))
        })
    }

    /// `torch.scatter`: the elements of `source` in the places that `index` names along an axis. Of elements that name
    /// the same place the last stays, where `PyTorch` leaves open which.
    pub fn scatter(&self, axis: i64, index: &Tensor, source: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let operation = "scatter";
            let at = self.axis(operation, axis)?;
            let source = cropped(self, operation, at, index, source)?;
            if index.shape()[at] == 0 {
                return Ok(self.clone());
            }
            let order = along(&index.ty()?.shape, at)?;
            let blank = Tensor::zeros(self.shape(), DType::I64);
            let last = scatter_elements(&blank, operation, axis, index, &order, Monoid::Max)?;
            // Only what the index covers can be named.
            let mut covered = self.shape().to_vec();
            for (n, extent) in covered.iter_mut().enumerate().filter(|(n, _)| *n != at) {
                *extent = index.shape()[n];
            }
            let places = (0..covered.len()).fold(last.clone(), |t, n| t.narrow(n as i64, 0, covered[n]));
            let taken = gather_along(&source, operation, axis, &places.maximum(0))?;
            let taken = filled_to(&taken, operation, self.shape(), 0.0)?;
            Ok(taken.where_(&last.ge(0), self))
        })
    }

    /// `torch.scatter` of one value: it stands in every place that `index` names along an axis.
    pub fn scatter_value(&self, axis: i64, index: &Tensor, value: f64) -> Tensor {
        Tensor::attempt(|| {
            let named = counted(self, "scatter_value", axis, index)?.gt(0);
            Ok(constant(self, value).where_(&named, self))
        })
    }

    /// `torch.bincount` with a length known beforehand: how often each of `0..length` occurs in `self`, or the sum of
    /// the weights where it does. An element outside is an error of the run.
    pub fn bincount(&self, weights: Option<&Tensor>, length: usize) -> Tensor {
        Tensor::attempt(|| {
            let operation = "bincount";
            let ids = self.ty()?;
            if ids.shape.len() != 1 {
                return Err(self.shape_error(operation, "it must have one axis".into()));
            }
            let ones = Tensor::ones(&ids.shape, DType::I64);
            let blank = Tensor::zeros(&[length], weights.map_or(DType::I64, Tensor::dtype));
            scatter_slices(&blank, operation, 0, self, weights.unwrap_or(&ones), Monoid::Sum)
        })
    }
}

/// An error that shows both shapes.
fn both(x: &Tensor, index: &Tensor, operation: &'static str, reason: String) -> TensorError {
    TensorError::Shape { operation, shapes: vec![x.shape().to_vec(), index.shape().to_vec()], reason }
}

/// A number of a tensor's type.
fn scalar(value: f64, dtype: DType) -> Operand {
    if dtype.is_float() { Operand::Float(value) } else { Operand::Int(value as i64) }
}

/// A value everywhere.
fn constant(like: &Tensor, value: f64) -> Tensor {
    Tensor::full(like.shape(), value, like.dtype())
}

fn check_index(operation: &'static str, index: &Tensor) -> Result<(), TensorError> {
    if matches!(index.ty()?.dtype, DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(index.type_error(operation, "the index must be i64 or i32; convert with `.to`"))
}

/// Slices by ids of any shape, which stand in the axis' place.
pub(crate) fn select(x: &Tensor, operation: &'static str, at: usize, ids: &Tensor) -> Result<Tensor, TensorError> {
    check_index(operation, ids)?;
    let kernel = Gather { table: x.ty()?.shape.clone(), axis: at, ids: ids.shape().to_vec(), dtype: x.dtype() };
    let ty = TensorType::new(x.dtype(), kernel.shape());
    row(operation, Kernel::Gather(kernel), [x, ids], ty)
}

fn gather_along(x: &Tensor, operation: &'static str, axis: i64, index: &Tensor) -> Result<Tensor, TensorError> {
    if x.ty()?.shape.is_empty() && index.ty()?.shape.is_empty() {
        return Ok(gather_along(&x.reshape(&[1]), operation, axis, &index.reshape(&[1]))?.reshape(&[]));
    }
    let at = x.axis(operation, axis)?;
    check_index(operation, index)?;
    let ids = index.ty()?.shape.clone();
    let kernel = GatherAlong { table: x.shape().to_vec(), axis: at, ids: ids.clone(), dtype: x.dtype() };
    row(operation, Kernel::GatherAlong(kernel), [x, index], TensorType::new(x.dtype(), ids))
}

/// A row whose kernel may refuse the shapes.
fn row(operation: &'static str, kernel: Kernel, operands: [&Tensor; 2], ty: TensorType) -> Result<Tensor, TensorError> {
    match kernel.fault() {
        Some(reason) => Err(both(operands[0], operands[1], operation, reason)),
        None => Ok(Tensor::row_kernel(operation, kernel, &operands, ty)),
    }
}

/// Checks that the slices of `source` along an axis are as many as the index has, and of the shape of those of `x`.
fn check_slices(
    x: &Tensor,
    operation: &'static str,
    at: usize,
    index: &Tensor,
    source: &Tensor,
) -> Result<(), TensorError> {
    check_index(operation, index)?;
    let (own, given) = (&x.ty()?.shape, &source.ty()?.shape);
    if index.dim() > 1 {
        return Err(both(x, index, operation, "the index must have one axis".into()));
    }
    let count = index.shape().first().copied().unwrap_or(1);
    let fits = given.len() == own.len() && (0..own.len()).all(|n| given[n] == if n == at { count } else { own[n] });
    if !fits {
        let reason = format!("the source must be as the tensor, but {count} long on axis {at}, as the index is");
        return Err(both(x, source, operation, reason));
    }
    if x.dtype() != source.dtype() {
        let reason = "tensor and source must have one type; convert with `.to`".into();
        return Err(TensorError::Type { operation, dtypes: vec![x.dtype(), source.dtype()], reason });
    }
    Ok(())
}

/// The slices of `source` folded to the shape of `x`; an identity where the index names none.
fn scatter_slices(
    x: &Tensor,
    operation: &'static str,
    at: usize,
    index: &Tensor,
    source: &Tensor,
    monoid: Monoid,
) -> Result<Tensor, TensorError> {
    check_slices(x, operation, at, index, source)?;
    let kernel =
        Scatter { source: source.shape().to_vec(), axis: at, rows: x.shape()[at], monoid, dtype: source.dtype() };
    let ty = TensorType::new(source.dtype(), x.shape());
    row(operation, Kernel::Scatter(kernel), [source, &index.reshape(&[-1])], ty)
}

/// The part of `source` that the index covers.
fn cropped(
    x: &Tensor,
    operation: &'static str,
    at: usize,
    index: &Tensor,
    source: &Tensor,
) -> Result<Tensor, TensorError> {
    check_index(operation, index)?;
    let (own, ids, given) = (&x.ty()?.shape, &index.ty()?.shape, &source.ty()?.shape);
    let fits = ids.len() == own.len()
        && given.len() == own.len()
        && (0..own.len()).all(|n| ids[n] <= given[n] && (n == at || ids[n] <= own[n]));
    if !fits {
        let reason = format!(
            "index and source must have as many axes, the index nowhere longer than the source {given:?} nor, but for axis {at}, than the tensor"
        );
        return Err(both(x, index, operation, reason));
    }
    if x.dtype() != source.dtype() {
        let reason = "tensor and source must have one type; convert with `.to`".into();
        return Err(TensorError::Type { operation, dtypes: vec![x.dtype(), source.dtype()], reason });
    }
    Ok((0..ids.len()).fold(
        source.clone(),
        |t, n| {
            if t.shape()[n] == ids[n] { t } else { t.narrow(n as i64, 0, ids[n]) }
        },
    ))
}

/// The elements of `source` folded to the shape of `x`; an identity where the index names none.
fn scatter_elements(
    x: &Tensor,
    operation: &'static str,
    axis: i64,
    index: &Tensor,
    source: &Tensor,
    monoid: Monoid,
) -> Result<Tensor, TensorError> {
    if x.ty()?.shape.is_empty() {
        let lift = |t: &Tensor| t.reshape(&[-1]);
        return Ok(scatter_elements(&lift(x), operation, axis, &lift(index), &lift(source), monoid)?.reshape(&[]));
    }
    let at = x.axis(operation, axis)?;
    let source = cropped(x, operation, at, index, source)?;
    let rows = x.shape()[at];
    let mut shape = source.shape().to_vec();
    shape[at] = rows;
    let kernel = ScatterAlong { source: source.shape().to_vec(), axis: at, rows, monoid, dtype: source.dtype() };
    let ty = TensorType::new(source.dtype(), shape);
    let folded = row(operation, Kernel::ScatterAlong(kernel), [&source, index], ty)?;
    filled_to(&folded, operation, x.shape(), identity(monoid))
}

/// What stands where nothing is folded.
fn identity(monoid: Monoid) -> f64 {
    match monoid {
        Monoid::Prod => 1.0,
        Monoid::Max => f64::NEG_INFINITY,
        Monoid::Min => f64::INFINITY,
        Monoid::Sum
        | Monoid::Moments
        | Monoid::SoftMax
        | Monoid::Attend
        | Monoid::Once
        | Monoid::Top(_)
        | Monoid::Affine => 0.0,
    }
}

/// A tensor with some elements of a value before and after it along an axis.
pub(crate) fn with_fill(
    x: &Tensor,
    operation: &'static str,
    at: usize,
    [before, after]: [usize; 2],
    value: f64,
) -> Result<Tensor, TensorError> {
    let rank = x.ty()?.shape.len();
    let on_axis = |n: usize| (0..rank).map(|axis| if axis == at { n } else { 0 }).collect();
    let view = View::Pad { before: on_axis(before), after: on_axis(after), value: value.to_bits() };
    Tensor::row_view(operation, view, &[x])
}

/// A tensor with a value behind its elements, up to a shape.
fn filled_to(x: &Tensor, operation: &'static str, shape: &[usize], value: f64) -> Result<Tensor, TensorError> {
    let mut filled = x.clone();
    for (n, &extent) in shape.iter().enumerate() {
        let more = extent - filled.shape()[n];
        if more > 0 {
            filled = with_fill(&filled, operation, n, [0, more], value)?;
        }
    }
    Ok(filled)
}

/// How many indices name each place along an axis.
fn counted(x: &Tensor, operation: &'static str, axis: i64, index: &Tensor) -> Result<Tensor, TensorError> {
    let ones = Tensor::ones(&index.ty()?.shape, DType::I64);
    scatter_elements(&Tensor::zeros(&x.ty()?.shape, DType::I64), operation, axis, index, &ones, Monoid::Sum)
}

/// Whether each slice along an axis is named, in a shape that broadcasts to the tensor's.
fn counted_rows(x: &Tensor, operation: &'static str, at: usize, index: &Tensor) -> Result<Tensor, TensorError> {
    check_index(operation, index)?;
    if index.dim() > 1 {
        return Err(both(x, index, operation, "the index must have one axis".into()));
    }
    let index = index.reshape(&[-1]);
    let ones = Tensor::ones(index.shape(), DType::I64);
    let blank = Tensor::zeros(&[x.shape()[at]], DType::I64);
    Ok(placed(&scatter_slices(&blank, operation, 0, &index, &ones, Monoid::Sum)?.gt(0), at, x.dim()))
}

/// A tensor of one axis as axis `at` of `rank`.
fn placed(x: &Tensor, at: usize, rank: usize) -> Tensor {
    let mut shape = vec![1; rank];
    shape[at] = -1;
    x.reshape(&shape)
}

/// `0..n`.
fn iota(n: usize) -> Result<Tensor, TensorError> {
    map_over("iota", &[n], vec![], &[], |e, _| Ok(e.index(0)))
}

/// The index along an axis, everywhere.
fn along(shape: &[usize], at: usize) -> Result<Tensor, TensorError> {
    let order = placed(&iota(shape[at])?, at, shape.len());
    let order = order.expand(&shape.iter().map(|&n| n as i64).collect::<Vec<_>>());
    order.check()?;
    Ok(order)
}

/// Sums over counts; of integers, rounded down.
fn mean(sum: &Tensor, count: &Tensor, dtype: DType) -> Result<Tensor, TensorError> {
    if dtype.is_float() {
        return Ok(sum.div(count.to(dtype)));
    }
    map("scatter_reduce", &[sum, &count.to(dtype)], |e, rows| e.binary(Binary::Div, rows[0], rows[1]))
}
