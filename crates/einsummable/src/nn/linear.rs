//! Linear layers, plain and by heads.

use super::{Module, Scope};
use crate::tensor::map::map_over;
use crate::tensor::{Tensor, TensorError};
use crate::weights::part::Part;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::Monoid;
use std::ops::Range;

/// `y = x weightᵀ + bias`; `weight` is `[out_features, in_features]`, or the transpose where a file stores it so.
#[derive(Clone, Debug)]
pub struct Linear {
    path: String,
    /// `[out_features, in_features]`; `[in_features, out_features]` if transposed.
    pub weight: Tensor,
    /// `[out_features]`.
    pub bias: Option<Tensor>,
    transposed: bool,
}

impl Linear {
    /// The layer whose parameters are `weight` and, if asked for, `bias` of this scope.
    pub fn new(scope: &Scope, in_features: usize, out_features: usize, bias: bool) -> Self {
        Self {
            path: scope.path().into(),
            weight: scope.parameter("weight", &[out_features, in_features]),
            bias: bias.then(|| scope.parameter("bias", &[out_features])),
            transposed: false,
        }
    }

    /// The layer of some of the `of` output features of a layer that is stored as one. `scope` names the layer,
    /// `fused` the one that is stored; a parameter is the part of the stored tensor alone, so that its rows go
    /// where this layer's results are wanted.
    pub fn rows(scope: &Scope, fused: &Scope, in_features: usize, rows: &Range<usize>, of: usize, bias: bool) -> Self {
        let part = Part { axis: 0, range: rows.clone(), of };
        Self {
            path: scope.path().into(),
            weight: fused.parameter(&part.named("weight"), &[rows.len(), in_features]),
            bias: bias.then(|| fused.parameter(&part.named("bias"), &[rows.len()])),
            transposed: false,
        }
    }

    /// `transformers`' `Conv1D`: a layer with a bias whose weight is `[in_features, out_features]`.
    pub fn conv1d(scope: &Scope, in_features: usize, out_features: usize) -> Self {
        Self {
            path: scope.path().into(),
            weight: scope.parameter("weight", &[in_features, out_features]),
            bias: Some(scope.parameter("bias", &[out_features])),
            transposed: true,
        }
    }

    /// [`Linear::rows`] of a [`Linear::conv1d`], whose output features are columns.
    pub fn conv1d_columns(scope: &Scope, fused: &Scope, in_features: usize, columns: &Range<usize>, of: usize) -> Self {
        let part = |axis| Part { axis, range: columns.clone(), of };
        Self {
            path: scope.path().into(),
            weight: fused.parameter(&part(1).named("weight"), &[in_features, columns.len()]),
            bias: Some(fused.parameter(&part(0).named("bias"), &[columns.len()])),
            transposed: true,
        }
    }

    /// A layer on a weight that another module owns, such as a tied output, and perhaps a bias.
    pub fn tied(scope: &Scope, weight: &Tensor, bias: Option<Tensor>) -> Self {
        Self { path: scope.path().into(), weight: weight.clone(), bias, transposed: false }
    }

    /// Output and input features.
    fn features(&self) -> (usize, usize) {
        let (first, second) = (self.weight.size(0), self.weight.size(1));
        if self.transposed { (second, first) } else { (first, second) }
    }

    /// How the weight is read at an output and an input feature.
    fn access(&self, out: Affine, input: Affine) -> Access {
        Access { axes: if self.transposed { vec![input, out] } else { vec![out, input] } }
    }

    /// The product's name: the layer's own if nothing is added to it.
    fn product(&self, product: Tensor) -> Tensor {
        if self.bias.is_none() { product.named(&self.path) } else { product.named(&format!("{}.product", self.path)) }
    }

    /// The layer with its result as heads: `[b, s, k]` to `[b, heads, s, dim]`.
    ///
    /// One einsum whose labels are b, h, s, d and k; it reads row `dim * h + d` of the weight. So heads are a
    /// label that can be cut, and nothing is reshaped.
    pub fn heads(&self, x: &Tensor, heads: usize, dim: usize) -> Tensor {
        Tensor::attempt(|| {
            let (out, k) = self.features();
            let shape = x.ty()?.shape.clone();
            let &[b, s, _] = shape.as_slice() else {
                return Err(x.shape_error("heads", format!("[batch, sequence, {k}] is expected")));
            };
            if heads * dim != out || shape[2] != k {
                let shapes = vec![shape, self.weight.shape().to_vec()];
                let reason = format!("{heads} heads of {dim} from [batch, sequence, {k}] are expected");
                return Err(TensorError::Shape { operation: "heads", shapes, reason });
            }
            let labels = [("b", b), ("h", heads), ("s", s), ("d", dim), ("k", k)];
            let weight = self.access(row(1, dim, 3), Affine::label(4));
            let product = self.contraction(&labels, 4, x, Access::labels(&[0, 2, 4]), weight);
            let Some(bias) = &self.bias else { return Ok(product) };
            let accesses = vec![Access::labels(&[0, 1, 2, 3]), Access { axes: vec![row(1, dim, 3)] }];
            let y = map_over("bias", &[b, heads, s, dim], accesses, &[&product, bias], |e, r| {
                e.binary(Binary::Add, r[0], r[1])
            })?;
            Ok(y.named(&self.path))
        })
    }

    /// The layer on heads: `[b, heads, s, dim]` to `[b, s, out_features]`, contracting heads and their
    /// features with column `dim * h + d` of the weight.
    pub fn merge_heads(&self, x: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let (out, k) = self.features();
            let shape = x.ty()?.shape.clone();
            let &[b, h, s, d] = shape.as_slice() else {
                return Err(x.shape_error("merge_heads", "[batch, heads, sequence, dim] is expected".into()));
            };
            if h * d != k {
                let shapes = vec![shape, self.weight.shape().to_vec()];
                let reason = format!("{h} heads of {d} do not make {k} features");
                return Err(TensorError::Shape { operation: "merge_heads", shapes, reason });
            }
            let labels = [("b", b), ("s", s), ("n", out), ("h", h), ("d", d)];
            let weight = self.access(Affine::label(2), row(3, d, 4));
            let product = self.contraction(&labels, 3, x, Access::labels(&[0, 3, 1, 4]), weight);
            Ok(self.add_bias(product))
        })
    }

    fn contraction(&self, labels: &[(&str, usize)], rank: usize, x: &Tensor, input: Access, weight: Access) -> Tensor {
        let einsum = Einsum {
            labels: labels.iter().map(|&(name, extent)| Label::new(name, extent)).collect(),
            rank,
            accesses: vec![input, weight],
            join: Expr::product(2, x.dtype()),
            monoid: Monoid::Sum,
            dtype: x.dtype(),
        };
        self.product(Tensor::from_einsum("linear", einsum, &[x, &self.weight]))
    }

    fn add_bias(&self, product: Tensor) -> Tensor {
        match &self.bias {
            Some(bias) => product.add(bias).named(&self.path),
            None => product,
        }
    }
}

/// Row `dim * h + d`.
fn row(h: usize, dim: usize, d: usize) -> Affine {
    Affine { terms: vec![(h, dim as i64), (d, 1)], offset: 0 }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        let spec = match (x.dim(), self.transposed) {
            (2, false) => "bk,nk->bn",
            (3, false) => "bsk,nk->bsn",
            (_, false) => "...k,nk->...n",
            (2, true) => "bk,kn->bn",
            (3, true) => "bsk,kn->bsn",
            (_, true) => "...k,kn->...n",
        };
        let product = self.product(Tensor::einsum(spec, &[x, &self.weight]));
        self.add_bias(product)
    }

    fn parameters(&self) -> Vec<Tensor> {
        std::iter::once(&self.weight).chain(&self.bias).cloned().collect()
    }
}
