//! `+ - * / %` between tensors and numbers, unary minus, and `& | ^ !` between integers or bools.

use super::{Operand, Tensor};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

macro_rules! operator {
    ($trait:ident, $method:ident, $function:ident) => {
        impl<O: Into<Operand>> $trait<O> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: O) -> Tensor {
                Tensor::$function(self, other)
            }
        }
        impl<O: Into<Operand>> $trait<O> for Tensor {
            type Output = Tensor;
            fn $method(self, other: O) -> Tensor {
                Tensor::$function(&self, other)
            }
        }
    };
    ($trait:ident, $method:ident, numbers: $($number:ty),*) => {
        $(
            impl $trait<&Tensor> for $number {
                type Output = Tensor;
                fn $method(self, other: &Tensor) -> Tensor {
                    super::arithmetic::$method(&self.into(), &other.into())
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

operator!(Add, add, add);
operator!(Sub, sub, sub);
operator!(Mul, mul, mul);
operator!(Div, div, div);
operator!(Rem, rem, remainder);
operator!(BitAnd, bitand, bitwise_and);
operator!(BitOr, bitor, bitwise_or);
operator!(BitXor, bitxor, bitwise_xor);
operator!(Add, add, numbers: f64, f32, i64, i32);
operator!(Sub, sub, numbers: f64, f32, i64, i32);
operator!(Mul, mul, numbers: f64, f32, i64, i32);
operator!(Div, div, numbers: f64, f32, i64, i32);
operator!(Rem, rem, numbers: f64, f32, i64, i32);

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

impl Not for &Tensor {
    type Output = Tensor;
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}

impl Not for Tensor {
    type Output = Tensor;
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}
