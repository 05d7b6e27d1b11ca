//! Products by `PyTorch`'s other names: of vectors, matrices, batches of them, and over chosen axes.

use super::arithmetic::mul;
use super::contract::{contraction, one_type, product};
use super::map::{Kind, broadcast, pointwise};
use super::reduce::{folded, power, root};
use super::{Operand, Tensor, TensorError};
use ein_ir::einsum::Label;
use ein_ir::monoid::Monoid;

/// Refuses operands of other ranks than are asked for.
fn ranks(method: &'static str, operands: &[(&Tensor, usize)]) -> Result<(), TensorError> {
    for (n, (tensor, rank)) in operands.iter().enumerate() {
        let found = tensor.ty()?.shape.len();
        if found != *rank {
            let shapes = operands.iter().map(|o| o.0.shape().to_vec()).collect();
            let reason = format!("operand {n} must have {rank} axes, not {found}");
            return Err(TensorError::Shape { operation: method, shapes, reason });
        }
    }
    Ok(())
}

/// `beta * bias + alpha * product`; with `beta` 0 the bias is not read, be it NaN.
fn added(method: &'static str, bias: &Tensor, product: &Tensor, beta: f64, alpha: f64) -> Result<Tensor, TensorError> {
    one_type(method, &[bias, product])?;
    let shape = broadcast(method, &[bias.shape(), product.shape()])?;
    if shape != product.shape() {
        let shapes = vec![bias.shape().to_vec(), product.shape().to_vec()];
        let reason = "what is added must broadcast to the product".into();
        return Err(TensorError::Shape { operation: method, shapes, reason });
    }
    let whole = product.dtype().is_float() || (beta.fract() == 0.0 && alpha.fract() == 0.0);
    if !whole {
        let reason = "integers are multiplied by whole numbers only; convert with `.to`".into();
        return Err(TensorError::Type { operation: method, dtypes: vec![product.dtype()], reason });
    }
    if beta == 0.0 {
        return Ok(pointwise(method, Kind::Numbers, [&product.into()], |[p]| p * alpha));
    }
    Ok(pointwise(method, Kind::Numbers, [&bias.into(), &product.into()], |[b, p]| {
        let b = if beta == 1.0 { b } else { b * beta };
        b + if alpha == 1.0 { p } else { p * alpha }
    }))
}

impl Tensor {
    /// The product of two batches of matrices, which do not broadcast.
    pub fn bmm(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            ranks("bmm", &[(self, 3), (other, 3)])?;
            if self.shape()[0] != other.shape()[0] {
                let shapes = vec![self.shape().to_vec(), other.shape().to_vec()];
                let reason = "both must have one number of matrices on axis 0; use `matmul`".into();
                return Err(TensorError::Shape { operation: "bmm", shapes, reason });
            }
            product("bmm", self, other)
        })
    }

    /// The product of two matrices.
    pub fn mm(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            ranks("mm", &[(self, 2), (other, 2)])?;
            product("mm", self, other)
        })
    }

    /// The product of a matrix and a vector.
    pub fn mv(&self, vector: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            ranks("mv", &[(self, 2), (vector, 1)])?;
            product("mv", self, vector)
        })
    }

    /// The product of two vectors.
    pub fn dot(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            ranks("dot", &[(self, 1), (other, 1)])?;
            product("dot", self, other)
        })
    }

    /// The sum of products along an axis, to which both broadcast: `torch.linalg.vecdot`.
    pub fn vecdot(&self, other: &Tensor, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let dtype = one_type("vecdot", &[self, other])?;
            let shape = broadcast("vecdot", &[self.shape(), other.shape()])?;
            let at = super::resolve_axis(axis, shape.len());
            let at = at.ok_or_else(|| TensorError::Axis { operation: "vecdot", axis, shape: shape.clone() })?;
            let own = |t: &Tensor| (shape.len() - t.dim()..shape.len()).collect::<Vec<_>>();
            let operands = [(self, own(self)), (other, own(other))];
            folded("vecdot", &shape, &[at], &operands, (Monoid::Sum, dtype), |v, _| v[0] * v[1])
        })
    }

    /// Every element of a vector times every element of another.
    pub fn outer(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            ranks("outer", &[(self, 1), (other, 1)])?;
            Ok(mul(&self.unsqueeze(1).into(), &other.into()))
        })
    }

    /// The sum of products over the last axes of both; a number multiplies.
    pub fn inner(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            if self.ty()?.shape.is_empty() || other.ty()?.shape.is_empty() {
                return Ok(self.mul(other));
            }
            Ok(self.tensordot(other, &[-1], &[-1]))
        })
    }

    /// The sum of products over axes `own[n]` of `self` and `others[n]` of `other`; what is left of both stays, in
    /// order.
    pub fn tensordot(&self, other: &Tensor, own: &[i64], others: &[i64]) -> Tensor {
        Tensor::attempt(|| {
            one_type("tensordot", &[self, other])?;
            let wrong = |reason: String| TensorError::Shape {
                operation: "tensordot",
                shapes: vec![self.shape().to_vec(), other.shape().to_vec()],
                reason,
            };
            if own.len() != others.len() {
                return Err(wrong(format!("axes {own:?} and {others:?}: as many of one as of the other are expected")));
            }
            let named = |tensor: &Tensor, axes: &[i64]| -> Result<Vec<usize>, TensorError> {
                let mut found: Vec<usize> = Vec::new();
                for &axis in axes {
                    let at = tensor.axis("tensordot", axis)?;
                    if found.contains(&at) {
                        return Err(wrong(format!("axis {axis} is named twice")));
                    }
                    found.push(at);
                }
                Ok(found)
            };
            let (mine, theirs) = (named(self, own)?, named(other, others)?);
            let pairs = || mine.iter().zip(&theirs);
            if let Some((a, b)) = pairs().find(|&(&a, &b)| self.shape()[a] != other.shape()[b]) {
                let (x, y) = (self.shape()[*a], other.shape()[*b]);
                return Err(wrong(format!("axis {a} of the first is {x} long, axis {b} of the second {y}")));
            }
            let mut labels: Vec<Label> = Vec::new();
            let mut left = vec![usize::MAX; self.dim()];
            let mut right = vec![usize::MAX; other.dim()];
            for (axes, contracted, shape, name) in
                [(&mut left, &mine, self.shape(), "m"), (&mut right, &theirs, other.shape(), "n")]
            {
                for axis in (0..shape.len()).filter(|a| !contracted.contains(a)) {
                    axes[axis] = labels.len();
                    labels.push(Label::new(format!("{name}{axis}"), shape[axis]));
                }
            }
            let rank = labels.len();
            for (n, (&a, &b)) in pairs().enumerate() {
                (left[a], right[b]) = (labels.len(), labels.len());
                labels.push(Label::new(format!("k{n}"), self.shape()[a]));
            }
            contraction("tensordot", labels, rank, &[(self, left), (other, right)])
        })
    }

    /// `beta * self + alpha * (a @ b)` of matrices; `self` broadcasts.
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        Tensor::attempt(|| {
            ranks("addmm", &[(a, 2), (b, 2)])?;
            added("addmm", self, &product("addmm", a, b)?, beta, alpha)
        })
    }

    /// `beta * self + alpha * (matrix @ vector)`.
    pub fn addmv(&self, matrix: &Tensor, vector: &Tensor, beta: f64, alpha: f64) -> Tensor {
        Tensor::attempt(|| {
            ranks("addmv", &[(matrix, 2), (vector, 1)])?;
            added("addmv", self, &product("addmv", matrix, vector)?, beta, alpha)
        })
    }

    /// `beta * self + alpha * outer(a, b)`.
    pub fn addr(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        Tensor::attempt(|| added("addr", self, &checked(a.outer(b))?, beta, alpha))
    }

    /// `beta * self + alpha * bmm(a, b)`.
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        Tensor::attempt(|| added("baddbmm", self, &checked(a.bmm(b))?, beta, alpha))
    }

    /// `beta * self + alpha *` the sum of the products of two batches of matrices.
    pub fn addbmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor {
        Tensor::attempt(|| {
            ranks("addbmm", &[(a, 3), (b, 3)])?;
            added("addbmm", self, &checked(Tensor::einsum("bij,bjk->ik", &[a, b]))?, beta, alpha)
        })
    }

    /// `self @ weightᵀ + bias`: `torch.nn.functional.linear`. The weight is `[out, in]`, or `[in]` for one output
    /// without an axis.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        Tensor::attempt(|| {
            let result = match weight.ty()?.shape.len() {
                1 => product("linear", self, weight)?,
                2 => product("linear", self, &weight.t())?,
                n => return Err(weight.shape_error("linear", format!("the weight must have 1 or 2 axes, not {n}"))),
            };
            match bias {
                Some(bias) => added("linear", bias, &result, 1.0, 1.0),
                None => Ok(result),
            }
        })
    }

    /// `self[i] * weight[o, i, j] * other[j]`, summed, plus `bias[o]`: `torch.nn.functional.bilinear`.
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        Tensor::attempt(|| {
            ranks("bilinear", &[(weight, 3)])?;
            let product = checked(Tensor::einsum("...i,oij,...j->...o", &[self, weight, other]))?;
            match bias {
                Some(bias) => added("bilinear", bias, &product, 1.0, 1.0),
                None => Ok(product),
            }
        })
    }

    /// The product of a chain of matrices in the cheapest order; the first and the last may be vectors:
    /// `torch.linalg.multi_dot`.
    pub fn multi_dot(matrices: &[&Tensor]) -> Tensor {
        Tensor::attempt(|| {
            let mut terms = Vec::new();
            for (n, m) in matrices.iter().enumerate() {
                let rank = m.ty()?.shape.len();
                let end = n == 0 || n + 1 == matrices.len();
                let axis = |n: usize| char::from(b'a' + u8::try_from(n).unwrap_or(u8::MAX));
                terms.push(match (rank, end) {
                    (2, _) => format!("{}{}", axis(n), axis(n + 1)),
                    (1, true) => axis(if n == 0 { 1 } else { n }).to_string(),
                    _ => {
                        let reason = "needs matrices, of which the first and the last may be vectors".into();
                        return Err(m.shape_error("multi_dot", reason));
                    }
                });
            }
            if !(2..=25).contains(&matrices.len()) {
                let reason = format!("of {} matrices: takes from 2 to 25", matrices.len());
                return Err(TensorError::Argument { operation: "multi_dot", reason });
            }
            let ends = [&terms[0], &terms[terms.len() - 1]].map(|t| t.len() == 2);
            let mut output = String::new();
            output.extend(terms[0].chars().next().filter(|_| ends[0]));
            output.extend(terms[terms.len() - 1].chars().last().filter(|_| ends[1]));
            Ok(Tensor::einsum(&format!("{}->{output}", terms.join(",")), matrices))
        })
    }

    /// A square matrix, or a batch of them, multiplied by itself: `torch.linalg.matrix_power` of exponents that are
    /// not negative.
    pub fn matrix_power(&self, exponent: u32) -> Tensor {
        Tensor::attempt(|| {
            let shape = self.ty()?.shape.clone();
            let [.., rows, columns] = shape[..] else {
                return Err(self.shape_error("matrix_power", "needs two axes or more".into()));
            };
            if rows != columns {
                return Err(self.shape_error("matrix_power", format!("a matrix of {rows} by {columns} is not square")));
            }
            let mut result: Option<Tensor> = None;
            let mut base = self.clone();
            let mut left = exponent;
            while left > 0 {
                if left % 2 == 1 {
                    result = Some(result.map_or_else(|| base.clone(), |r| r.matmul(&base)));
                }
                left /= 2;
                if left > 0 {
                    base = base.matmul(&base);
                }
            }
            let all: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
            Ok(result.unwrap_or_else(|| Tensor::eye(rows, rows, self.dtype()).expand(&all)))
        })
    }

    /// Every element times the whole of another tensor: the Kronecker product, of axes aligned at the right.
    pub fn kron(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let rank = self.ty()?.shape.len().max(other.ty()?.shape.len());
            let full = |t: &Tensor| [vec![1; rank - t.dim()], t.shape().to_vec()].concat();
            let (a, b) = (full(self), full(other));
            // Axes in pairs: those of one are 1 long in the other.
            let paired = |outer: bool, own: &[usize]| -> Vec<i64> {
                own.iter().flat_map(|&n| if outer { [n as i64, 1] } else { [1, n as i64] }).collect()
            };
            let product = mul(&self.reshape(&paired(true, &a)).into(), &other.reshape(&paired(false, &b)).into());
            let merged: Vec<i64> = a.iter().zip(&b).map(|(x, y)| (x * y) as i64).collect();
            Ok(product.reshape(&merged))
        })
    }

    /// The cross product along an axis of 3, to which both broadcast: `torch.linalg.cross`.
    pub fn cross(&self, other: &Tensor, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            one_type("cross", &[self, other])?;
            let shape = broadcast("cross", &[self.shape(), other.shape()])?;
            let whole: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
            let (a, b) = (self.expand(&whole), other.expand(&whole));
            let at = a.axis("cross", axis)?;
            if shape[at] != 3 {
                return Err(self.shape_error("cross", format!("axis {axis} is {} long, not 3", shape[at])));
            }
            let turned = |t: &Tensor, by: i64| Operand::Tensor(t.roll(&[-by], &[at as i64]));
            let operands = [&turned(&a, 1), &turned(&b, 2), &turned(&a, 2), &turned(&b, 1)];
            Ok(pointwise("cross", Kind::Numbers, operands, |[a, b, c, d]| a * b - c * d))
        })
    }

    /// The `p`-norms of the differences between the rows of `self` and those of `other`: from `[…, m, k]` and
    /// `[…, n, k]` to `[…, m, n]`.
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        Tensor::attempt(|| {
            let (dtype, wide) = Kind::Floats.types("cdist", &[&self.into(), &other.into()])?;
            let (x, y) = (self.shape(), other.shape());
            let wrong = |reason: String| TensorError::Shape {
                operation: "cdist",
                shapes: vec![x.to_vec(), y.to_vec()],
                reason,
            };
            let ([left @ .., m, k], [right @ .., n, j]) = (x, y) else {
                return Err(wrong("both need two axes or more".into()));
            };
            if k != j {
                return Err(wrong(format!("rows are {k} long in the first and {j} in the second")));
            }
            if p < 0.0 || p.is_nan() {
                return Err(wrong(format!("p is {p}, which is below 0 or no number")));
            }
            let batch = broadcast("cdist", &[left, right])?;
            let rank = batch.len();
            if *k == 0 {
                return Ok(Tensor::zeros(&[&batch[..], &[*m, *n]].concat(), dtype));
            }
            let space = [&batch[..], &[*m, *n, *k]].concat();
            let own = |lead: &[usize], row: usize| -> Vec<usize> {
                (rank - lead.len()..rank).chain([rank + row, rank + 2]).collect()
            };
            let operands = [(self, own(left, 0)), (other, own(right, 1))];
            let monoid = if p == f64::INFINITY { Monoid::Max } else { Monoid::Sum };
            let sum = folded("cdist", &space, &[rank + 2], &operands, (monoid, wide), |v, _| {
                power(v[0].cast(wide) - v[1].cast(wide), p)
            })?;
            Ok(pointwise("cdist", Kind::Floats, [&sum.into()], |[sum]| root(sum, p)).to(dtype))
        })
    }
}

/// The tensor if it carries no error.
fn checked(tensor: Tensor) -> Result<Tensor, TensorError> {
    tensor.check().map(|()| tensor)
}
