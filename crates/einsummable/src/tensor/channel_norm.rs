//! Norms of channels: with stored statistics, of groups, of instances, and by neighbouring channels.

use super::conv::Labels;
use super::map::map_over;
use super::reduce::{moments, stacked};
use super::{Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, ExprError, RowId, Unary};
use ein_ir::monoid::Monoid;

/// `(x - mean) / sqrt(var + eps)`, times a weight, plus a bias, in the type of the mean; the rows of weight and bias
/// come after `x`, `mean` and `var`.
fn normalized(
    e: &mut Expr,
    rows: &[RowId],
    eps: f64,
    weight: bool,
    bias: bool,
    dtype: DType,
) -> Result<RowId, ExprError> {
    let wide = dtype.accumulator();
    let (x, mean, var) = (e.cast(rows[0], wide), e.cast(rows[1], wide), e.cast(rows[2], wide));
    let centred = e.binary(Binary::Sub, x, mean)?;
    let eps = e.float(eps, wide);
    let var = e.binary(Binary::Add, var, eps)?;
    let scale = e.unary(Unary::Rsqrt, var)?;
    let mut y = e.binary(Binary::Mul, centred, scale)?;
    let given = [(weight, Binary::Mul), (bias, Binary::Add)].into_iter().filter(|g| g.0);
    for ((_, function), &row) in given.zip(&rows[3..]) {
        let parameter = e.cast(row, wide);
        y = e.binary(function, y, parameter)?;
    }
    Ok(e.cast(y, dtype))
}

impl Tensor {
    /// The channels at axis 1, and that each of `parameters` has one number for each.
    fn channels(&self, operation: &'static str, parameters: &[Option<&Tensor>]) -> Result<usize, TensorError> {
        self.float_type(operation)?;
        let own = &self.ty()?.shape;
        let Some(&channels) = own.get(1) else {
            return Err(self.shape_error(operation, "batch and channels are expected first".into()));
        };
        for p in parameters.iter().copied().flatten() {
            p.float_type(operation)?;
            if p.shape() != [channels] {
                let reason = format!("a parameter of shape {:?} for {channels} channels: [{channels}] fits", p.shape());
                return Err(self.shape_error(operation, reason));
            }
        }
        Ok(channels)
    }

    /// `torch.nn.functional.batch_norm` at inference: by stored statistics, one number for each channel of axis 1.
    pub fn batch_norm(
        &self,
        running_mean: &Tensor,
        running_var: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Tensor {
        Tensor::attempt(|| {
            self.channels("batch_norm", &[Some(running_mean), Some(running_var), weight, bias])?;
            let (dtype, shape) = (self.dtype(), self.shape());
            let mut operands = vec![self, running_mean, running_var];
            operands.extend([weight, bias].into_iter().flatten());
            let mut accesses = vec![Access::labels(&(0..shape.len()).collect::<Vec<_>>())];
            accesses.resize(operands.len(), Access::labels(&[1]));
            map_over("batch_norm", shape, accesses, &operands, |e, r| {
                normalized(e, r, eps, weight.is_some(), bias.is_some(), dtype)
            })
        })
    }

    /// `torch.nn.functional.group_norm`: over the channels of a group and all spatial axes of `[n, c, …]`.
    pub fn group_norm(&self, num_groups: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        Tensor::attempt(|| {
            let channels = self.channels("group_norm", &[weight, bias])?;
            if num_groups == 0 || !channels.is_multiple_of(num_groups) {
                let reason = format!("{channels} channels are no multiple of {num_groups} groups");
                return Err(self.shape_error("group_norm", reason));
            }
            self.by_groups("group_norm", num_groups, weight, bias, eps)
        })
    }

    /// `torch.nn.functional.instance_norm` with the statistics of the input: over the spatial axes of every channel of
    /// `[n, c, …]`, which must have more than one element.
    pub fn instance_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
        Tensor::attempt(|| {
            let channels = self.channels("instance_norm", &[weight, bias])?;
            let elements: usize = self.shape()[2..].iter().product();
            if elements <= 1 {
                let reason = format!("a channel has {elements} spatial elements; a variance needs more than one");
                return Err(self.shape_error("instance_norm", reason));
            }
            self.by_groups("instance_norm", channels.max(1), weight, bias, eps)
        })
    }

    fn by_groups(
        &self,
        operation: &'static str,
        groups: usize,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<Tensor, TensorError> {
        let (dtype, own) = (self.dtype(), self.shape());
        if own.contains(&0) {
            return Ok(self.clone());
        }
        let per = own[1] / groups;
        let apart = [&own[..1], &[groups, per], &own[2..]].concat();
        let x = self.reshape(&apart.iter().map(|&n| n as i64).collect::<Vec<_>>());
        let stats = moments(&x, &(2..apart.len()).collect::<Vec<_>>())?;
        let mut operands = vec![&x, &stats, &stats];
        let own_access = Access::labels(&(0..apart.len()).collect::<Vec<_>>());
        let mut accesses = vec![own_access, stacked(2, 0), stacked(2, 1)];
        for p in [weight, bias].into_iter().flatten() {
            operands.push(p);
            // A label of one value has no place in an index that another label spans.
            let terms = if per == 1 { vec![(1, 1)] } else { vec![(1, per as i64), (2, 1)] };
            accesses.push(Access { axes: vec![Affine { terms, offset: 0 }] });
        }
        let y = map_over(operation, &apart, accesses, &operands, |e, r| {
            normalized(e, r, eps, weight.is_some(), bias.is_some(), dtype)
        })?;
        Ok(y.reshape(&own.iter().map(|&n| n as i64).collect::<Vec<_>>()))
    }

    /// `torch.nn.functional.local_response_norm`: `x / (k + alpha * mean)^beta` with the mean of the squares of `size`
    /// neighbouring channels of axis 1, those that do not exist being 0.
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.float_type("local_response_norm")?;
            let own = self.shape();
            if own.len() < 3 || size == 0 {
                let reason = format!("{size} neighbours on axis 1: 1 or more, and batch, channels, and a spatial axis");
                return Err(self.shape_error("local_response_norm", reason));
            }
            let wide = dtype.accumulator();
            let padded = self.around(1, -((size / 2) as i64), (own[1] + (size - 1) / 2) as i64, 0.0)?;
            let mut labels = Labels::default();
            let mut read: Vec<Affine> =
                own.iter().enumerate().map(|(n, &extent)| Affine::label(labels.add(format!("a{n}"), extent))).collect();
            if size > 1 {
                read[1].terms.push((labels.add("k", size), 1));
            }
            let mut e = Expr::new();
            let x = e.push_operand(0, dtype);
            let x = e.cast(x, wide);
            let fault = |source| TensorError::Expr { operation: "local_response_norm", source };
            let square = e.binary(Binary::Mul, x, x).map_err(fault)?;
            let einsum = Einsum {
                labels: labels.0,
                rank: own.len(),
                accesses: vec![Access { axes: read }],
                join: ending(&e, square),
                monoid: Monoid::Sum,
                dtype: wide,
            };
            let squares = Tensor::row_einsum("sum_of_squares", einsum, &[&padded]);
            super::map::map("local_response_norm", &[self, &squares], |e, r| {
                let (k, beta) = (e.float(k, wide), e.float(beta, wide));
                let scale = e.float(alpha / size as f64, wide);
                let mean = e.binary(Binary::Mul, r[1], scale)?;
                let sum = e.binary(Binary::Add, mean, k)?;
                let divisor = e.binary(Binary::Pow, sum, beta)?;
                let x = e.cast(r[0], wide);
                let y = e.binary(Binary::Div, x, divisor)?;
                Ok(e.cast(y, dtype))
            })
        })
    }
}
