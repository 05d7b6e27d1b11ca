//! Losses of `torch.nn.functional`: how far predictions are from targets.

use super::formula::Value;
use super::map::{Kind, pointwise};
use super::{Operand, Tensor, TensorError};
use ein_ir::dtype::DType;

/// What becomes of the losses of single elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

impl Reduction {
    /// The losses reduced.
    pub(crate) fn of(self, losses: &Tensor) -> Tensor {
        match self {
            Self::None => losses.clone(),
            Self::Mean => losses.mean(&[], false),
            Self::Sum => losses.sum(&[], false),
        }
    }
}

/// A loss of every element, computed and reduced in the accumulator's type and rounded once.
fn reduced<const N: usize>(
    method: &'static str,
    operands: [&Operand; N],
    reduction: Reduction,
    f: impl for<'f> FnOnce([Value<'f>; N]) -> Value<'f>,
) -> Tensor {
    Tensor::attempt(|| {
        let (dtype, wide) = Kind::Floats.types(method, &operands)?;
        let wider: Vec<Operand> = operands
            .iter()
            .map(|o| match o {
                Operand::Tensor(t) => Operand::Tensor(t.to(wide)),
                Operand::Float(_) | Operand::Int(_) | Operand::Bool(_) => (*o).clone(),
            })
            .collect();
        let losses = pointwise(method, Kind::Floats, std::array::from_fn(|n| &wider[n]), f);
        Ok(reduction.of(&losses).to(dtype))
    })
}

/// A loss of two tensors that are broadcast before their types are promoted, as `PyTorch` does here: one of rank 0
/// counts like any other.
fn distance(
    method: &'static str,
    x: &Tensor,
    target: &Tensor,
    reduction: Reduction,
    f: impl for<'f> FnOnce([Value<'f>; 2]) -> Value<'f>,
) -> Tensor {
    let alone = x.dim() == 0 && target.dim() == 0;
    let spread = |t: &Tensor| Operand::from(if t.dim() == 0 && !alone { t.reshape(&[1]) } else { t.clone() });
    reduced(method, [&spread(x), &spread(target)], reduction, f)
}

impl Tensor {
    /// `(self - target)²`.
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        distance("mse_loss", self, target, reduction, |[x, y]| (x - y) * (x - y))
    }

    /// `|self - target|`.
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        distance("l1_loss", self, target, reduction, |[x, y]| (x - y).abs())
    }

    /// `|d| - beta / 2` for the difference `d`, and `d² / (2 beta)` where that is below `beta`.
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64, reduction: Reduction) -> Tensor {
        if beta < 0.0 {
            return Tensor::poisoned(self.shape_error("smooth_l1_loss", format!("beta is {beta}, which is below 0")));
        }
        distance("smooth_l1_loss", self, target, reduction, |[x, y]| {
            let d = (x - y).abs();
            d.lt(beta).select(0.5 * d * d / beta, d - 0.5 * beta)
        })
    }

    /// `delta (|d| - delta / 2)` for the difference `d`, and `d² / 2` where that is not above `delta`.
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
        if delta <= 0.0 {
            let reason = format!("delta is {delta}, which is not above 0");
            return Tensor::poisoned(self.shape_error("huber_loss", reason));
        }
        distance("huber_loss", self, target, reduction, |[x, y]| {
            let d = (x - y).abs();
            d.le(delta).select(0.5 * d * d, (d - 0.5 * delta) * delta)
        })
    }

    /// `-(target log self + (1 - target) log(1 - self))` of probabilities, the logarithms not below -100; times
    /// `weight`.
    pub fn binary_cross_entropy(&self, target: &Tensor, weight: Option<&Tensor>, reduction: Reduction) -> Tensor {
        let weight = weight.map_or(Operand::Float(1.0), Operand::from);
        reduced("binary_cross_entropy", [&self.into(), &target.into(), &weight], reduction, |[x, y, w]| {
            let (yes, no) = (x.log().max(-100.0), (-x).log1p().max(-100.0));
            ((y - 1.0) * no - y * yes) * w
        })
    }

    /// The binary cross-entropy of `sigmoid(self)`, without underflow; times `weight`, and with the part of the
    /// positive answers times `pos_weight`. Both broadcast.
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        pos_weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Tensor {
        let one = || Operand::Float(1.0);
        let (weight, positive) = (weight.map_or_else(one, Operand::from), pos_weight.map_or_else(one, Operand::from));
        let operands = [&self.into(), &target.into(), &weight, &positive];
        reduced("binary_cross_entropy_with_logits", operands, reduction, |[x, y, w, p]| {
            // log(sigmoid(x)), as in `logsigmoid`.
            let log = x.min(0.0) - (-x.abs()).exp().log1p();
            ((1.0 - y) * x - ((p - 1.0) * y + 1.0) * log) * w
        })
    }

    /// `target (log target - self)`, where `self` are logarithms of probabilities; with `log_target` the target is
    /// logarithms too. Divide the sum by the batch for `reduction="batchmean"`.
    pub fn kl_div(&self, target: &Tensor, log_target: bool, reduction: Reduction) -> Tensor {
        reduced("kl_div", [&self.into(), &target.into()], reduction, |[x, y]| {
            if log_target {
                return y.exp() * (y - x);
            }
            // 0 log 0 is 0.
            let entropy = y.eq(0.0).select(y * 0.0, y * y.log());
            entropy - y * x
        })
    }

    /// The cosine of the angle between both along an axis, to which they broadcast: their product over the product of
    /// their norms, each not below `eps`.
    pub fn cosine_similarity(&self, other: &Tensor, axis: i64, eps: f64) -> Tensor {
        Tensor::attempt(|| {
            let (dtype, wide) = Kind::Floats.types("cosine_similarity", &[&self.into(), &other.into()])?;
            let shape = super::map::broadcast("cosine_similarity", &[self.shape(), other.shape()])?;
            let at = super::resolve_axis(axis, shape.len());
            let at =
                at.ok_or_else(|| TensorError::Axis { operation: "cosine_similarity", axis, shape: shape.clone() })?;
            let own = |t: &Tensor| (shape.len() - t.dim()..shape.len()).collect::<Vec<_>>();
            let sum = |a: &Tensor, b: &Tensor| {
                let operands = [(a, own(a)), (b, own(b))];
                let fold = (ein_ir::monoid::Monoid::Sum, wide);
                super::reduce::folded("cosine_similarity", &shape, &[at], &operands, fold, |v, _| {
                    v[0].cast(wide) * v[1].cast(wide)
                })
            };
            let (xy, xx, yy) = (sum(self, other)?, sum(self, self)?, sum(other, other)?);
            let operands = [&xy.into(), &xx.into(), &yy.into()];
            Ok(pointwise("cosine_similarity", Kind::Floats, operands, |[xy, xx, yy]| {
                xy / (xx.sqrt().max(eps) * yy.sqrt().max(eps))
            })
            .to(dtype))
        })
    }

    /// The `p`-norm of `self - other + eps` over the last axis.
    pub fn pairwise_distance(&self, other: &Tensor, p: f64, eps: f64, keepdim: bool) -> Tensor {
        pointwise("pairwise_distance", Kind::Floats, [&self.into(), &other.into()], |[x, y]| x - y + eps).norm(
            p,
            &[-1],
            keepdim,
        )
    }
}

/// A type of integers that counts classes.
pub(crate) fn classes(method: &'static str, target: &Tensor) -> Result<(), TensorError> {
    match target.ty()?.dtype {
        DType::I64 | DType::I32 | DType::U8 => Ok(()),
        DType::F64 | DType::F32 | DType::BF16 | DType::F16 | DType::Bool => {
            Err(target.type_error(method, "targets are class numbers, which are integers; convert with `.to`"))
        }
    }
}
