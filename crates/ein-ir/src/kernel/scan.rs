//! Running folds along an axis.

use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand};
use crate::region::{Region, offset, points, strides};
use crate::scalar::{self, Scalar};
use crate::spec::{OperandSpec, Role, Spec, Work, affine, label};

/// What is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanFunction {
    /// `cumsum`.
    Sum,
    /// `cumprod`.
    Prod,
    /// The values of `cummax`; NaN stays.
    Max,
    /// The values of `cummin`; NaN stays.
    Min,
    /// `logcumsumexp`.
    LogSumExp,
    /// The indices of `cummax`: of equal elements the last.
    MaxIndex,
    /// The indices of `cummin`: of equal elements the last.
    MinIndex,
}

impl ScanFunction {
    const ALL: [ScanFunction; 7] =
        [Self::Sum, Self::Prod, Self::Max, Self::Min, Self::LogSumExp, Self::MaxIndex, Self::MinIndex];
    const NAMES: [&str; 7] = ["sum", "prod", "max", "min", "logsumexp", "max_index", "min_index"];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether the result is the place of an element.
    pub fn gives_index(self) -> bool {
        matches!(self, Self::MaxIndex | Self::MinIndex)
    }
}

/// `out[i…]`: the fold of the elements of `x` up to and including `i` along one axis.
///
/// The axis is whole in every block: a long axis is cut by taking it apart into two, of which one is scanned and the
/// other carries (`Tensor::cumsum` does). Labels in order: the axes of x.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Shape of x and the result.
    pub shape: Vec<usize>,
    /// The axis.
    pub axis: usize,
    /// What is folded.
    pub function: ScanFunction,
    /// Type of x; the result's too, but for indices, which are `I64`.
    pub dtype: DType,
}

impl Definition for Scan {
    const NAME: &'static str = "scan";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let axis = settings.size("axis")?.unwrap_or(0);
        let function = ScanFunction::ALL[settings.one_of(&ScanFunction::NAMES)?];
        let &[x] = operands else { return Err(format!("scan takes one tensor, not {}", operands.len())) };
        Ok(Self { shape: x.shape.clone(), axis, function, dtype: x.dtype })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        let mut settings = vec![(self.function.name(), Setting::Flag)];
        settings.extend(Setting::axis(self.axis));
        settings
    }

    fn fault(&self) -> Option<String> {
        let (axis, rank) = (self.axis, self.shape.len());
        if axis >= rank {
            return Some(format!("scan along axis {axis} of a tensor of {rank} axes; it must be one of them"));
        }
        match self.function {
            ScanFunction::LogSumExp if !self.dtype.is_float() => {
                Some(format!("scan logsumexp needs a float type, not {}", self.dtype))
            }
            ScanFunction::Sum | ScanFunction::Prod if self.dtype == DType::Bool => {
                Some("scan of bool: use max (any) or min (all), or cast".into())
            }
            ScanFunction::Sum
            | ScanFunction::Prod
            | ScanFunction::LogSumExp
            | ScanFunction::Max
            | ScanFunction::Min
            | ScanFunction::MaxIndex
            | ScanFunction::MinIndex => None,
        }
    }

    fn signature(&self) -> Signature {
        let dtype = if self.function.gives_index() { DType::I64 } else { self.dtype };
        let result = TensorType::new(dtype, self.shape.clone());
        Signature { operands: vec![(vec![self.dtype], self.shape.clone())], result }
    }

    fn spec(&self) -> Spec {
        let role = |n: usize| if n == self.axis { Role::Whole } else { Role::Free };
        let labels = self.shape.iter().enumerate().map(|(n, &extent)| label(&format!("n{n}"), extent, role(n)));
        Spec {
            labels: labels.collect(),
            rank: self.shape.len(),
            operands: vec![OperandSpec { axes: affine(&(0..self.shape.len()).collect::<Vec<_>>()), by_index: false }],
            monoid: Monoid::Sum,
            stacked: None,
            dtype: self.signature().result.dtype,
            work: Work::of_points(1, vec![], self.dtype),
            operand_dtypes: Vec::new(),
        }
    }

    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let mut column = Column::full(Scalar::I(0).cast(self.signature().result.dtype), labels.volume());
        if idle {
            return Ok(vec![column]);
        }
        let x = operands[0].as_ref().expect("the operand of a block that reads");
        let (from, to) = (strides(&x.region.shape()), strides(&labels.shape()));
        let extent = labels.0[self.axis].len();
        let mut starts = labels.clone();
        starts.0[self.axis].hi = starts.0[self.axis].lo + 1;
        for point in points(&starts) {
            let (read, write) = (offset(&point, &x.region.0, &from), offset(&point, &labels.0, &to));
            let elements = (0..extent).map(|i| x.data.scalar(read + i * from[self.axis]));
            for (i, value) in running(self.function, self.dtype, elements).enumerate() {
                column.set(write + i * to[self.axis], value);
            }
        }
        Ok(vec![column])
    }
}

/// The running fold of some elements; floats in `f64`.
fn running(
    function: ScanFunction,
    dtype: DType,
    elements: impl Iterator<Item = Scalar>,
) -> impl Iterator<Item = Scalar> {
    let mut state: Option<Scalar> = None;
    // Of the log of sums: the sum, scaled by the largest so far.
    let mut sum = 0.0;
    let mut place = 0;
    elements.enumerate().map(move |(i, x)| {
        let beats = |larger: bool| match (state, x) {
            (None, _) => true,
            (Some(Scalar::F(s)), Scalar::F(x)) => x.is_nan() || (!s.is_nan() && if larger { x >= s } else { x <= s }),
            (Some(s), x) => {
                if larger {
                    x.to_i64() >= s.to_i64()
                } else {
                    x.to_i64() <= s.to_i64()
                }
            }
        };
        let folded = |monoid| state.map_or(x, |s| crate::reference::plain(monoid, s, x, dtype));
        match function {
            ScanFunction::Sum => *state.insert(folded(Monoid::Sum)),
            ScanFunction::Prod => *state.insert(folded(Monoid::Prod)),
            ScanFunction::Max => *state.insert(folded(Monoid::Max)),
            ScanFunction::Min => *state.insert(folded(Monoid::Min)),
            ScanFunction::LogSumExp => {
                let (own, x) = (state.map_or(f64::NEG_INFINITY, Scalar::to_f64), x.to_f64());
                let top = scalar::max(own, x);
                sum = sum * crate::reference::scale(own, top) + crate::reference::scale(x, top);
                state = Some(Scalar::F(top));
                // Infinite, or nothing yet: the largest says it all.
                Scalar::F(if top.is_finite() { top + sum.ln() } else { top })
            }
            ScanFunction::MaxIndex | ScanFunction::MinIndex => {
                if beats(function == ScanFunction::MaxIndex) {
                    (state, place) = (Some(x), i as i64);
                }
                Scalar::I(place)
            }
        }
    })
}
