//! Comparisons, logic, and choices by a condition.

use super::map::{Kind, map, pointwise};
use super::{Operand, Tensor};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Unary};

fn compare(method: &'static str, function: Binary, left: &Operand, right: &Operand) -> Tensor {
    pointwise(method, Kind::Compare, [left, right], |[a, b]| a.binary(function, b))
}

/// A function of whether each is not 0.
fn logical(method: &'static str, function: Binary, left: &Tensor, right: &Tensor) -> Tensor {
    Tensor::attempt(|| {
        map(method, &[left, right], |e, r| {
            let (a, b) = (e.cast(r[0], DType::Bool), e.cast(r[1], DType::Bool));
            e.binary(function, a, b)
        })
    })
}

impl Tensor {
    /// `self < other`, a bool.
    pub fn lt(&self, other: impl Into<Operand>) -> Tensor {
        compare("lt", Binary::Lt, &self.into(), &other.into())
    }

    /// `self <= other`, a bool.
    pub fn le(&self, other: impl Into<Operand>) -> Tensor {
        compare("le", Binary::Le, &self.into(), &other.into())
    }

    /// `self > other`, a bool.
    pub fn gt(&self, other: impl Into<Operand>) -> Tensor {
        compare("gt", Binary::Lt, &other.into(), &self.into())
    }

    /// `self >= other`, a bool.
    pub fn ge(&self, other: impl Into<Operand>) -> Tensor {
        compare("ge", Binary::Le, &other.into(), &self.into())
    }

    /// `self == other`, a bool.
    pub fn eq(&self, other: impl Into<Operand>) -> Tensor {
        compare("eq", Binary::Eq, &self.into(), &other.into())
    }

    /// `self != other`, a bool.
    pub fn ne(&self, other: impl Into<Operand>) -> Tensor {
        compare("ne", Binary::Ne, &self.into(), &other.into())
    }

    /// Whether both are not 0.
    pub fn logical_and(&self, other: &Tensor) -> Tensor {
        logical("logical_and", Binary::And, self, other)
    }

    /// Whether one of both is not 0.
    pub fn logical_or(&self, other: &Tensor) -> Tensor {
        logical("logical_or", Binary::Or, self, other)
    }

    /// Whether exactly one of both is not 0.
    pub fn logical_xor(&self, other: &Tensor) -> Tensor {
        logical("logical_xor", Binary::Ne, self, other)
    }

    /// Whether it is 0.
    pub fn logical_not(&self) -> Tensor {
        Tensor::attempt(|| {
            map("logical_not", &[self], |e, r| {
                let b = e.cast(r[0], DType::Bool);
                e.unary(Unary::Not, b)
            })
        })
    }

    /// `self` where `condition` holds, else `other`: `torch.where(condition, self, other)`.
    pub fn where_(&self, condition: &Tensor, other: impl Into<Operand>) -> Tensor {
        condition.choose(self, other)
    }

    /// `yes` where this bool holds, else `no`, either of which may be a number: `torch.where(self, yes, no)`.
    pub fn choose(&self, yes: impl Into<Operand>, no: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            if self.ty()?.dtype != DType::Bool {
                return Err(self.type_error("where", "the condition must be a bool; compare it, as in `.ne(0)`"));
            }
            Ok(pointwise("where", Kind::Choice, [&self.into(), &yes.into(), &no.into()], |[condition, yes, no]| {
                condition.select(yes, no)
            }))
        })
    }

    /// `value` where `mask` holds, else `self`. The type stays: a float for integers, or a number for bools other than
    /// 0 and 1, is refused.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Operand>) -> Tensor {
        let value = value.into();
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if mask.ty()?.dtype != DType::Bool {
                return Err(mask.type_error("masked_fill", "the mask must be a bool; compare it, as in `.ne(0)`"));
            }
            let number = match &value {
                Operand::Float(v) => Some(*v),
                Operand::Int(v) => Some(*v as f64),
                Operand::Bool(v) => Some(f64::from(*v)),
                Operand::Tensor(t) if t.ty()?.shape.is_empty() => None,
                Operand::Tensor(t) => {
                    let reason = "the value must be a number or a tensor of rank 0; use `where_`".into();
                    return Err(t.shape_error("masked_fill", reason));
                }
            };
            let fits = match number {
                Some(v) if dtype == DType::Bool => v == 0.0 || v == 1.0,
                Some(v) => dtype.is_float() || v == v.trunc(),
                None => dtype.is_float() || matches!(&value, Operand::Tensor(t) if !t.dtype().is_float()),
            };
            if !fits {
                return Err(self.type_error("masked_fill", "the value is no number of this type; convert with `.to`"));
            }
            let operands = [&mask.into(), &self.into(), &value];
            Ok(pointwise("masked_fill", Kind::Choice, operands, |[mask, x, value]| mask.select(value, x)).to(dtype))
        })
    }
}
