//! Folds in registers: the states of the prelude, and what they leave.

use super::stored::Stored;
use super::types::{cast, store, value};
use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;
use ein_run::Cause;
use std::fmt::Write;

/// How a monoid folds values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The monoid: one that an einsum may fold with.
    pub(crate) monoid: Monoid,
    /// The type that is folded in.
    pub(crate) dtype: DType,
}

impl State {
    /// The fold of a monoid in an accumulator's type.
    pub(crate) fn new(monoid: Monoid, dtype: DType) -> Result<Self, Cause> {
        let statistic = matches!(monoid, Monoid::Moments | Monoid::SoftMax);
        if !Monoid::OF_EINSUMS.contains(&monoid) || (statistic && !dtype.is_float()) {
            return Err(Cause::malformed(format!("an einsum of {dtype} does not fold with {monoid}")));
        }
        Ok(Self { monoid, dtype: dtype.accumulator() })
    }

    /// The type of the state that others are joined to.
    pub(crate) fn joins(&self) -> String {
        let name = match self.monoid {
            Monoid::Max => "ein_Max",
            Monoid::Min => "ein_Min",
            Monoid::Prod => "ein_Prod",
            Monoid::Moments => "ein_Moments",
            Monoid::SoftMax => "ein_SoftMax",
            Monoid::Sum | Monoid::Attend | Monoid::Once | Monoid::Top(_) | Monoid::Affine => "ein_Sum",
        };
        format!("{name}<{}>", value(self.dtype))
    }

    /// The type of the state that takes values.
    pub(crate) fn takes(&self) -> String {
        if self.monoid == Monoid::Moments { format!("ein_Values<{}>", value(self.dtype)) } else { self.joins() }
    }

    /// Bytes of the state that others are joined to.
    pub(crate) fn bytes(&self) -> u64 {
        self.fields().len() as u64 * self.dtype.bytes() as u64
    }

    /// Its members, which are the fields of a pending value.
    pub(crate) fn fields(&self) -> &'static [&'static str] {
        match self.monoid {
            Monoid::Moments => &["count", "mean", "m2"],
            Monoid::SoftMax => &["max", "sum"],
            Monoid::Sum
            | Monoid::Max
            | Monoid::Min
            | Monoid::Prod
            | Monoid::Attend
            | Monoid::Once
            | Monoid::Top(_)
            | Monoid::Affine => &["value"],
        }
    }

    /// The finished elements of the state `s`, of type `dtype`.
    pub(crate) fn finished(&self, s: &str, dtype: DType) -> Vec<String> {
        let all = match self.monoid {
            Monoid::Moments => vec![format!("{s}.mean"), format!("{s}.m2 / {s}.count")],
            Monoid::SoftMax => vec![format!("{s}.max"), format!("{s}.sum")],
            Monoid::Sum
            | Monoid::Max
            | Monoid::Min
            | Monoid::Prod
            | Monoid::Attend
            | Monoid::Once
            | Monoid::Top(_)
            | Monoid::Affine => {
                vec![format!("{s}.value")]
            }
        };
        all.into_iter().map(|v| cast(self.dtype, dtype, &v)).collect()
    }

    /// Statements that store the fields of the state `s`; `targets` point to those of `result`, `at` is the position.
    pub(crate) fn pending(&self, s: &str, result: &Stored, targets: &[String], at: &str) -> String {
        let mut text = String::new();
        for (n, name) in self.fields().iter().enumerate() {
            let dtype = result.dtype(n);
            let value = store(dtype, &cast(self.dtype, dtype, &format!("{s}.{name}")));
            let _ = writeln!(text, "{}[{at}] = {value};", targets[n]);
        }
        text
    }
}
