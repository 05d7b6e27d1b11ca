//! `+ - * /` between tensors and numbers, and unary minus.

use super::{Operand, Tensor};
use std::ops::{Add, Div, Mul, Neg, Sub};

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl<O: Into<Operand>> $trait<O> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: O) -> Tensor {
                Tensor::$method(self, other)
            }
        }
        impl<O: Into<Operand>> $trait<O> for Tensor {
            type Output = Tensor;
            fn $method(self, other: O) -> Tensor {
                Tensor::$method(&self, other)
            }
        }
        operator!($trait, $method, f64, f32, i64, i32);
    };
    ($trait:ident, $method:ident, $($number:ty),*) => {
        $(
            impl $trait<&Tensor> for $number {
                type Output = Tensor;
                fn $method(self, other: &Tensor) -> Tensor {
                    super::map::$method(&self.into(), &other.into())
                }
            }
            impl $trait<Tensor> for $number {
                type Output = Tensor;
                fn $method(self, other: Tensor) -> Tensor {
                    $trait::$method(self, &other)
                }
            }
        )*
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

impl Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}
