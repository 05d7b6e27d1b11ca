//! What the second operand of an elementwise method may be.

use super::Tensor;

/// A tensor or a plain number.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A bool.
    Bool(bool),
}

impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl From<Tensor> for Operand {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<&Operand> for Operand {
    fn from(operand: &Operand) -> Self {
        operand.clone()
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<f32> for Operand {
    fn from(value: f32) -> Self {
        Self::Float(value as f64)
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Self {
        Self::Int(value as i64)
    }
}

impl From<bool> for Operand {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
