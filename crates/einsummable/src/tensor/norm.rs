//! Softmax and norms: statistics, which are a fold, then a map that reads them. A row that is cut among
//! devices so costs two numbers a row, not the row.

use super::map::{aligned, map_over, written};
use super::promote::with_scalar;
use super::reduce::{fold, moments, stacked};
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine};
use ein_ir::expr::{Binary, Expr, ExprError, RowId, Unary};
use ein_ir::monoid::Monoid;

/// Reads statistics of rows along `axis` from labels `0..rank` of the tensor.
fn statistic(rank: usize, axis: usize, which: i64) -> Access {
    let mut axes: Vec<Affine> = (0..rank).filter(|&a| a != axis).map(Affine::label).collect();
    axes.push(Affine::constant(which));
    Access { axes }
}

impl Tensor {
    pub(crate) fn float_type(&self, method: &'static str) -> Result<DType, TensorError> {
        let dtype = self.ty()?.dtype;
        if dtype.is_float() {
            Ok(dtype)
        } else {
            Err(self.type_error(method, "needs floats; convert with `.to` first"))
        }
    }

    /// The maximum and the sum of exponentials along an axis, then a map of the element and both.
    fn soft(
        &self,
        method: &'static str,
        axis: i64,
        f: impl FnOnce(&mut Expr, RowId, RowId) -> Result<RowId, ExprError>,
    ) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.float_type(method)?;
            let at = self.axis(method, axis)?;
            if self.shape()[at] == 0 {
                return Ok(self.clone());
            }
            let wide = dtype.accumulator();
            let stats = fold("softmax_stats", self, &[at], Monoid::SoftMax, wide, |e, x| Ok(e.cast(x, wide)))?;
            let rank = self.dim();
            let own = Access::labels(&(0..rank).collect::<Vec<_>>());
            let accesses = vec![own, statistic(rank, at, 0), statistic(rank, at, 1)];
            map_over(method, self.shape(), accesses, &[self, &stats, &stats], |e, r| {
                let x = e.cast(r[0], wide);
                let shifted = e.binary(Binary::Sub, x, r[1])?;
                let y = f(e, shifted, r[2])?;
                Ok(e.cast(y, dtype))
            })
        })
    }

    /// `exp(x) / sum(exp(x))` along an axis.
    pub fn softmax(&self, axis: i64) -> Tensor {
        self.soft("softmax", axis, |e, shifted, sum| {
            let exp = e.unary(Unary::Exp, shifted)?;
            e.binary(Binary::Div, exp, sum)
        })
    }

    /// The logarithm of the softmax along an axis.
    pub fn log_softmax(&self, axis: i64) -> Tensor {
        self.soft("log_softmax", axis, |e, shifted, sum| {
            let log = e.unary(Unary::Log, sum)?;
            e.binary(Binary::Sub, shifted, log)
        })
    }

    /// The softmax of `-self` along an axis: `torch.nn.functional.softmin`.
    pub fn softmin(&self, axis: i64) -> Tensor {
        self.neg().softmax(axis)
    }

    /// `log(sum(exp(x)))` over some axes. Integers give `F32`.
    pub fn logsumexp(&self, axes: &[i64], keepdim: bool) -> Tensor {
        Tensor::attempt(|| {
            let dtype = with_scalar(self.ty()?.dtype, true);
            let axes = self.axes("logsumexp", axes)?;
            if axes.is_empty() {
                return Ok(self.to(dtype));
            }
            if axes.iter().any(|&a| self.shape()[a] == 0) {
                let empty = self.sum(&axes.iter().map(|&a| a as i64).collect::<Vec<_>>(), keepdim);
                return Ok(Tensor::full(empty.shape(), f64::NEG_INFINITY, dtype));
            }
            let wide = dtype.accumulator();
            let stats = fold("softmax_stats", self, &axes, Monoid::SoftMax, wide, |e, x| Ok(e.cast(x, wide)))?;
            let rank = self.dim() - axes.len();
            let accesses = vec![stacked(rank, 0), stacked(rank, 1)];
            let y = written("logsumexp", &stats.shape()[..rank], accesses, &[&stats, &stats], |_, v| {
                let (top, sum) = (v[0], v[1]);
                // Beside an infinite element the others are nothing; their difference to it is no number.
                top.eq(f64::INFINITY).select(top, top + sum.log()).cast(dtype)
            })?;
            Ok(super::reduce::keep(y, self.shape(), &axes, keepdim))
        })
    }

    /// Checks that the last axes are `normalized`, and the affine parameters with them.
    fn normalized(
        &self,
        method: &'static str,
        normalized: &[usize],
        parameters: &[Option<&Tensor>],
    ) -> Result<(DType, Vec<usize>), TensorError> {
        let dtype = self.float_type(method)?;
        let own = self.shape();
        if normalized.is_empty() || !own.ends_with(normalized) {
            return Err(self.shape_error(method, format!("its last axes are not {normalized:?}")));
        }
        for p in parameters.iter().flatten() {
            if p.ty()?.shape != normalized {
                let shapes = vec![own.to_vec(), p.shape().to_vec()];
                let reason = format!("weight and bias must have shape {normalized:?}");
                return Err(TensorError::Shape { operation: method, shapes, reason });
            }
            if p.dtype() != dtype {
                let reason = "weight and bias must have the tensor's type; convert with `.to`".into();
                return Err(TensorError::Type { operation: method, dtypes: vec![dtype, p.dtype()], reason });
            }
        }
        Ok((dtype, (own.len() - normalized.len()..own.len()).collect()))
    }

    /// `torch.nn.functional.layer_norm` over the last axes, which are `normalized` long.
    pub fn layer_norm(&self, normalized: &[usize], weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        Tensor::attempt(|| {
            let (dtype, axes) = self.normalized("layer_norm", normalized, &[weight, bias])?;
            if normalized.contains(&0) {
                return Ok(self.clone());
            }
            let stats = moments(self, &axes)?;
            let shape = self.shape();
            let kept = shape.len() - axes.len();
            let own = Access::labels(&(0..shape.len()).collect::<Vec<_>>());
            let mut operands = vec![self, &stats, &stats];
            let mut accesses = vec![own, stacked(kept, 0), stacked(kept, 1)];
            for p in [weight, bias].into_iter().flatten() {
                operands.push(p);
                accesses.push(aligned(p.shape(), shape, 0));
            }
            map_over("layer_norm", shape, accesses, &operands, |e, r| {
                let wide = dtype.accumulator();
                let x = e.cast(r[0], wide);
                let centred = e.binary(Binary::Sub, x, r[1])?;
                let eps = e.float(eps, wide);
                let var = e.binary(Binary::Add, r[2], eps)?;
                let scale = e.unary(Unary::Rsqrt, var)?;
                let mut y = e.binary(Binary::Mul, centred, scale)?;
                let mut next = 3;
                for (parameter, function) in [(weight, Binary::Mul), (bias, Binary::Add)] {
                    if parameter.is_some() {
                        let p = e.cast(r[next], wide);
                        y = e.binary(function, y, p)?;
                        next += 1;
                    }
                }
                Ok(e.cast(y, dtype))
            })
        })
    }

    /// `torch.nn.functional.rms_norm` over the last axes: `x / sqrt(mean(x²) + eps) * weight`.
    pub fn rms_norm(&self, normalized: &[usize], weight: Option<&Tensor>, eps: f64) -> Tensor {
        Tensor::attempt(|| {
            let (dtype, axes) = self.normalized("rms_norm", normalized, &[weight])?;
            let wide = dtype.accumulator();
            let squares = fold("sum_of_squares", self, &axes, Monoid::Sum, wide, |e, x| {
                let x = e.cast(x, wide);
                e.binary(Binary::Mul, x, x)
            })?;
            let shape = self.shape();
            let kept = shape.len() - axes.len();
            let own = Access::labels(&(0..shape.len()).collect::<Vec<_>>());
            let mut operands = vec![self, &squares];
            let mut accesses = vec![own, Access::labels(&(0..kept).collect::<Vec<_>>())];
            if let Some(w) = weight {
                operands.push(w);
                accesses.push(aligned(w.shape(), shape, 0));
            }
            let count: usize = normalized.iter().product();
            map_over("rms_norm", shape, accesses, &operands, |e, r| {
                let n = e.float(count as f64, wide);
                let mean = e.binary(Binary::Div, r[1], n)?;
                let eps = e.float(eps, wide);
                let mean = e.binary(Binary::Add, mean, eps)?;
                let scale = e.unary(Unary::Rsqrt, mean)?;
                let x = e.cast(r[0], wide);
                let mut y = e.binary(Binary::Mul, x, scale)?;
                if weight.is_some() {
                    let w = e.cast(r[2], wide);
                    y = e.binary(Binary::Mul, y, w)?;
                }
                Ok(e.cast(y, dtype))
            })
        })
    }

    /// The tensor divided by its Euclidean norm along an axis: `torch.nn.functional.normalize`.
    pub fn normalize(&self, axis: i64, eps: f64) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.float_type("normalize")?;
            let at = self.axis("normalize", axis)?;
            let wide = dtype.accumulator();
            let squares = fold("sum_of_squares", self, &[at], Monoid::Sum, wide, |e, x| {
                let x = e.cast(x, wide);
                e.binary(Binary::Mul, x, x)
            })?;
            let rank = self.dim();
            let own = Access::labels(&(0..rank).collect::<Vec<_>>());
            let rows = Access { axes: (0..rank).filter(|&a| a != at).map(Affine::label).collect() };
            map_over("normalize", self.shape(), vec![own, rows], &[self, &squares], |e, r| {
                let norm = e.unary(Unary::Sqrt, r[1])?;
                let eps = e.float(eps, wide);
                let norm = e.binary(Binary::Max, norm, eps)?;
                let x = e.cast(r[0], wide);
                let y = e.binary(Binary::Div, x, norm)?;
                Ok(e.cast(y, dtype))
            })
        })
    }
}
