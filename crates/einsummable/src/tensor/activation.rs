//! Activation functions, those of `torch.nn.functional`.

use super::map::{Kind, pointwise};
use super::{Operand, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// How [`Tensor::gelu`] is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// With the error function: `approximate="none"`.
    Exact,
    /// With the hyperbolic tangent: `approximate="tanh"`.
    Tanh,
}

impl Tensor {
    /// `max(self, 0)`.
    pub fn relu(&self) -> Tensor {
        pointwise("relu", Kind::Numbers, [&self.into()], |[x]| x.max(0.0))
    }

    /// `min(max(self, 0), 6)`.
    pub fn relu6(&self) -> Tensor {
        pointwise("relu6", Kind::Numbers, [&self.into()], |[x]| x.clamp(0.0, 6.0))
    }

    /// `self` above 0, `slope * self` below.
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        pointwise("leaky_relu", Kind::Floats, [&self.into()], |[x]| x.gt(0.0).select(x, x * slope))
    }

    /// `self` above 0, `weight * self` below. The weight is one number, or one for every index of axis 1.
    pub fn prelu(&self, weight: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            let (shape, own) = (&self.ty()?.shape, &weight.ty()?.shape);
            let count: usize = own.iter().product();
            let channels = if shape.len() > 1 { shape[1] } else { 1 };
            if own.len() > 1 || count != 1 && count != channels {
                let reason = format!("the weight must be one number or one for each of {channels} channels on axis 1");
                let shapes = vec![shape.clone(), own.clone()];
                return Err(super::TensorError::Shape { operation: "prelu", shapes, reason });
            }
            let mut along = vec![1; shape.len()];
            if count != 1 {
                along[1] = count as i64;
            }
            let weight = weight.reshape(&along);
            Ok(pointwise("prelu", Kind::Floats, [&self.into(), &Operand::Tensor(weight)], |[x, w]| {
                x.gt(0.0).select(x, x * w)
            }))
        })
    }

    /// `self` above 0, `alpha * (exp(self) - 1)` below.
    pub fn elu(&self, alpha: f64) -> Tensor {
        pointwise("elu", Kind::Floats, [&self.into()], |[x]| x.gt(0.0).select(x, x.expm1() * alpha))
    }

    /// The scaled exponential linear unit, whose two constants keep mean 0 and variance 1.
    pub fn selu(&self) -> Tensor {
        const ALPHA: f64 = 1.673_263_242_354_377_2;
        const SCALE: f64 = 1.050_700_987_355_480_5;
        pointwise("selu", Kind::Floats, [&self.into()], |[x]| x.gt(0.0).select(x * SCALE, x.expm1() * (ALPHA * SCALE)))
    }

    /// `max(0, self) + min(0, alpha * (exp(self / alpha) - 1))`.
    pub fn celu(&self, alpha: f64) -> Tensor {
        if alpha == 0.0 {
            return Tensor::poisoned(self.shape_error("celu", "alpha is 0, by which it divides".into()));
        }
        pointwise("celu", Kind::Floats, [&self.into()], |[x]| x.gt(0.0).select(x, (x / alpha).expm1() * alpha))
    }

    /// `self * sigmoid(self)`.
    pub fn silu(&self) -> Tensor {
        self.float_map("silu", |x| x * x.sigmoid())
    }

    /// The Gaussian error linear unit.
    pub fn gelu(&self, approximate: Gelu) -> Tensor {
        self.float_map("gelu", |x| {
            let inner = match approximate {
                Gelu::Exact => (x * FRAC_1_SQRT_2).erf(),
                Gelu::Tanh => ((2.0 / PI).sqrt() * (x + 0.044715 * (x * x * x))).tanh(),
            };
            0.5 * x * (1.0 + inner)
        })
    }

    /// `self * tanh(log(1 + exp(self)))`.
    pub fn mish(&self) -> Tensor {
        pointwise("mish", Kind::Floats, [&self.into()], |[x]| x * x.exp().log1p().tanh())
    }

    /// `log(1 + exp(beta * self)) / beta`, and `self` where `beta * self` is above `threshold`. `PyTorch`'s defaults
    /// are 1 and 20.
    pub fn softplus(&self, beta: f64, threshold: f64) -> Tensor {
        pointwise("softplus", Kind::Floats, [&self.into()], |[x]| {
            let scaled = x * beta;
            scaled.gt(threshold).select(x, scaled.exp().log1p() / beta)
        })
    }

    /// `log(sigmoid(self))`, without underflow.
    pub fn logsigmoid(&self) -> Tensor {
        pointwise("logsigmoid", Kind::Floats, [&self.into()], |[x]| x.min(0.0) - (-x.abs()).exp().log1p())
    }

    /// `self / (1 + |self|)`.
    pub fn softsign(&self) -> Tensor {
        self.float_map("softsign", |x| x / (x.abs() + 1.0))
    }

    /// `self - tanh(self)`.
    pub fn tanhshrink(&self) -> Tensor {
        self.float_map("tanhshrink", |x| x - x.tanh())
    }

    /// Nearer to 0 by `lambda`, and 0 between `-lambda` and `lambda`.
    pub fn softshrink(&self, lambda: f64) -> Tensor {
        if lambda.is_nan() || lambda < 0.0 {
            return Tensor::poisoned(
                self.shape_error("softshrink", format!("lambda is {lambda}; it must be 0 or more")),
            );
        }
        pointwise("softshrink", Kind::Floats, [&self.into()], |[x]| {
            let low = x.lt(-lambda).select(x + lambda, x * 0.0);
            x.gt(lambda).select(x - lambda, low)
        })
    }

    /// 0 between `-lambda` and `lambda`, else as it is.
    pub fn hardshrink(&self, lambda: f64) -> Tensor {
        pointwise("hardshrink", Kind::Floats, [&self.into()], |[x]| {
            (x.ge(-lambda) & x.le(lambda)).select(x.number(0.0), x)
        })
    }

    /// `value` where it is not above `threshold`.
    pub fn threshold(&self, threshold: f64, value: f64) -> Tensor {
        pointwise("threshold", Kind::Numbers, [&self.into()], |[x]| x.le(threshold).select(x.number(value), x))
    }

    /// At least `min`, at most `max`; `PyTorch`'s defaults are -1 and 1.
    pub fn hardtanh(&self, min: f64, max: f64) -> Tensor {
        if min > max {
            return Tensor::poisoned(
                self.shape_error("hardtanh", format!("the least, {min}, is above the most, {max}")),
            );
        }
        pointwise("hardtanh", Kind::Numbers, [&self.into()], |[x]| x.clamp(min, max))
    }

    /// `min(max(self + 3, 0), 6) / 6`.
    pub fn hardsigmoid(&self) -> Tensor {
        pointwise("hardsigmoid", Kind::Floats, [&self.into()], |[x]| (x + 3.0).clamp(0.0, 6.0) / 6.0)
    }

    /// `self * hardsigmoid(self)`.
    pub fn hardswish(&self) -> Tensor {
        pointwise("hardswish", Kind::Floats, [&self.into()], |[x]| x * (x + 3.0).clamp(0.0, 6.0) / 6.0)
    }

    /// The first half of an axis times the sigmoid of the second.
    pub fn glu(&self, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("glu", axis)?;
            let extent = self.shape()[at];
            if !extent.is_multiple_of(2) {
                return Err(self.shape_error("glu", format!("axis {axis} is {extent} long, which is not even")));
            }
            let half = |n: usize| self.narrow(at as i64, n * extent / 2, extent / 2);
            Ok(pointwise("glu", Kind::Floats, [&half(0).into(), &half(1).into()], |[a, b]| a * b.sigmoid()))
        })
    }
}
