//! Evaluates a scalar expression for a block of points at once, row by row.
// Loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use super::convert::{round_bf16, to_f32, to_f64, wide};
use super::math;
use super::piece::Elements;
use super::strided::{Odometer, dot};
use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Expr, Literal, Row, Unary};
use ein_ir::scalar;
use half::f16;

/// Points evaluated at once: lanes of all rows stay in the nearest cache.
pub(crate) const BLOCK: usize = 512;

/// One row's values: 16-bit floats widened to `f32`, integers and bools to `i64`.
#[derive(Clone, Debug)]
pub(crate) enum Lane {
    F32(Vec<f32>),
    F64(Vec<f64>),
    Int(Vec<i64>),
}

impl Lane {
    /// A lane of zeros for values of a type.
    pub(crate) fn new(dtype: DType) -> Self {
        match dtype {
            DType::F64 => Self::F64(vec![0.0; BLOCK]),
            DType::F32 | DType::BF16 | DType::F16 => Self::F32(vec![0.0; BLOCK]),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => Self::Int(vec![0; BLOCK]),
        }
    }

    fn ints(&self) -> &[i64] {
        match self {
            Self::Int(v) => v,
            Self::F32(_) | Self::F64(_) => unreachable!("checked when the row was pushed: an integer"),
        }
    }
}

/// A loop over a label of the block: its extent, and how far a step moves each operand.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) steps: Vec<i64>,
    /// The label and its first index, where the expression reads the index.
    pub(crate) label: Option<(usize, i64)>,
}

/// A run of points along the last axis.
struct Segment {
    len: usize,
    /// Element of every operand, relative to the block's base.
    offsets: Vec<i64>,
    /// Index of every axis.
    at: Vec<usize>,
}

/// An expression with memory for its rows.
pub(crate) struct Lanes<'a> {
    rows: Vec<(Row, DType)>,
    values: Vec<Lane>,
    operands: &'a [Elements<'a>],
    axes: Vec<Axis>,
    odometer: Odometer,
    segments: Vec<Segment>,
    used: usize,
    points: usize,
}

impl<'a> Lanes<'a> {
    /// Prepares `expr` over the axes, last fastest. With `exact` the last row, a product, is not rounded to
    /// its 16-bit type.
    pub(crate) fn new(expr: &Expr, exact: bool, operands: &'a [Elements<'a>], mut axes: Vec<Axis>) -> Self {
        let mut rows = expr.rows().to_vec();
        if exact && let Some((_, dtype)) = rows.last_mut() {
            *dtype = dtype.accumulator();
        }
        if axes.is_empty() {
            axes.push(Axis { extent: 1, steps: vec![0; operands.len()], label: None });
        }
        let mut values: Vec<Lane> = rows.iter().map(|r| Lane::new(r.1)).collect();
        for (&(row, dtype), lane) in rows.iter().zip(&mut values) {
            if let Row::Const(value) = row {
                constant(value, dtype, lane);
            }
        }
        // The last axis is walked in runs, the others by the odometer.
        let odometer = Odometer::new(axes.iter().map(|a| a.extent).collect());
        Self { rows, values, operands, axes, odometer, segments: Vec::new(), used: 0, points: 0 }
    }

    /// Number of points of all axes.
    pub(crate) fn volume(&self) -> usize {
        self.axes.iter().map(|a| a.extent).product()
    }

    /// Makes the next `points <= BLOCK` points, in row-major order, the block. After the last it begins anew.
    pub(crate) fn advance(&mut self, points: usize) {
        self.used = 0;
        self.points = points;
        let mut left = points;
        while left > 0 {
            if self.used == self.segments.len() {
                self.segments.push(Segment { len: 0, offsets: Vec::new(), at: Vec::new() });
            }
            let segment = &mut self.segments[self.used];
            let at = self.odometer.at();
            segment.at.clear();
            segment.at.extend_from_slice(at);
            segment.offsets.clear();
            segment.offsets.resize(self.operands.len(), 0);
            for (axis, &n) in self.axes.iter().zip(at) {
                for (offset, &step) in segment.offsets.iter_mut().zip(&axis.steps) {
                    *offset += step * n as i64;
                }
            }
            segment.len = self.odometer.run(left);
            left -= segment.len;
            self.used += 1;
        }
    }

    /// Evaluates the block with the operands at `base` and the indices `outer` of labels that are no axis.
    pub(crate) fn evaluate(&mut self, base: &[i64], outer: &[i64]) -> &Lane {
        for row in 0..self.rows.len() {
            let (done, rest) = self.values.split_at_mut(row);
            let out = &mut rest[0];
            let (what, dtype) = self.rows[row];
            let n = self.points;
            match what {
                Row::Const(_) => {}
                Row::Operand(k) => {
                    let step = self.axes.last().expect("an axis").steps[k];
                    let mut at = 0;
                    for s in &self.segments[..self.used] {
                        load(self.operands[k], base[k] + s.offsets[k], step, out, at..at + s.len);
                        at += s.len;
                    }
                }
                Row::Index(label) => {
                    let Lane::Int(out) = out else { unreachable!("an index is an integer") };
                    indices(&self.axes, &self.segments[..self.used], label, outer, out);
                }
                Row::Unary(function, x) => unary(function, &done[x], out, dtype, n),
                Row::Binary(function, a, b) => {
                    let two = match self.rows[b].0 {
                        Row::Const(Literal::Float(bits)) => f64::from_bits(bits) == 2.0,
                        _ => false,
                    };
                    binary(function, &done[a], &done[b], out, dtype, n, two);
                }
                Row::Select(c, yes, no) => select(done[c].ints(), &done[yes], &done[no], out, n),
                Row::Cast(x) => cast(&done[x], out, dtype, n),
            }
        }
        self.values.last().expect("an expression has a row")
    }
}

impl Odometer {
    /// Walks on by up to `most` points without leaving the last loop; how many they were.
    fn run(&mut self, most: usize) -> usize {
        let here = self.left().min(most);
        self.skip(here);
        here
    }
}

fn constant(value: Literal, dtype: DType, lane: &mut Lane) {
    let value = scalar::literal(value, dtype);
    match lane {
        Lane::F32(v) => v.fill(value.to_f64() as f32),
        Lane::F64(v) => v.fill(value.to_f64()),
        Lane::Int(v) => v.fill(value.to_i64()),
    }
}

fn indices(axes: &[Axis], segments: &[Segment], label: usize, outer: &[i64], out: &mut [i64]) {
    let Some(axis) = axes.iter().position(|a| a.label.is_some_and(|l| l.0 == label)) else {
        out.fill(outer[label]);
        return;
    };
    let first = axes[axis].label.map_or(0, |l| l.1);
    let mut at = 0;
    for s in segments {
        let start = first + s.at[axis] as i64;
        let run = &mut out[at..at + s.len];
        if axis + 1 == axes.len() {
            run.iter_mut().zip(start..).for_each(|(o, i)| *o = i);
        } else {
            run.fill(start);
        }
        at += s.len;
    }
}

/// Loads elements `at`, `at + step`, … into a range of a lane.
fn load(from: Elements<'_>, at: i64, step: i64, out: &mut Lane, range: std::ops::Range<usize>) {
    /// Strided, with a conversion of each element.
    fn gather<T: Copy, U: Copy>(v: &[T], at: i64, step: i64, out: &mut [U], f: impl Fn(T) -> U) {
        match step {
            0 => out.fill(f(v[at as usize])),
            1 => out.iter_mut().zip(&v[at as usize..]).for_each(|(o, &x)| *o = f(x)),
            _ => out.iter_mut().enumerate().for_each(|(n, o)| *o = f(v[(at + n as i64 * step) as usize])),
        }
    }
    match (out, from) {
        (Lane::F32(out), from) if step == 1 => to_f32(from, at as usize, &mut out[range]),
        (Lane::F32(out), Elements::F32(v)) => gather(v, at, step, &mut out[range], |x| x),
        (Lane::F32(out), Elements::BF16(v)) => gather(v, at, step, &mut out[range], half::bf16::to_f32),
        (Lane::F32(out), Elements::F16(v)) => gather(v, at, step, &mut out[range], f16::to_f32),
        (Lane::F64(out), Elements::F64(v)) => gather(v, at, step, &mut out[range], |x| x),
        (Lane::Int(out), Elements::I64(v)) => gather(v, at, step, &mut out[range], |x| x),
        (Lane::Int(out), Elements::I32(v)) => gather(v, at, step, &mut out[range], i64::from),
        (Lane::Int(out), Elements::U8(v)) => gather(v, at, step, &mut out[range], i64::from),
        _ => unreachable!("the operand's type is the row's"),
    }
}

fn unary(function: Unary, x: &Lane, out: &mut Lane, dtype: DType, n: usize) {
    match (x, out) {
        (Lane::F32(x), Lane::F32(out)) => {
            unary_f32(function, &x[..n], &mut out[..n]);
            round(&mut out[..n], dtype);
        }
        (Lane::F64(x), Lane::F64(out)) => {
            for (o, &x) in out[..n].iter_mut().zip(x) {
                *o = scalar::unary(function, scalar::Scalar::F(x), DType::F64).to_f64();
            }
        }
        (Lane::Int(x), Lane::Int(out)) => {
            for (o, &x) in out[..n].iter_mut().zip(x) {
                *o = scalar::unary(function, scalar::Scalar::I(x), dtype).to_i64();
            }
        }
        _ => unreachable!("a function keeps the type"),
    }
}

fn unary_f32(function: Unary, x: &[f32], out: &mut [f32]) {
    macro_rules! each {
        ($f:expr) => {
            wide!({
                for (o, &x) in out.iter_mut().zip(x) {
                    *o = $f(x);
                }
            })
        };
    }
    match function {
        Unary::Neg => each!(|x: f32| -x),
        Unary::Abs => each!(f32::abs),
        Unary::Exp => each!(math::exp),
        Unary::Log => out.iter_mut().zip(x).for_each(|(o, &x)| *o = libm::logf(x)),
        Unary::Sqrt => each!(f32::sqrt),
        Unary::Rsqrt => each!(|x: f32| 1.0 / x.sqrt()),
        Unary::Sin | Unary::Cos => {
            let quarter = if function == Unary::Sin { 0.0 } else { 1.0 };
            if x.iter().all(|x| x.abs() < 1e6) {
                each!(|x| math::sine(x, quarter));
            } else {
                let f = if function == Unary::Sin { libm::sinf } else { libm::cosf };
                out.iter_mut().zip(x).for_each(|(o, &x)| *o = f(x));
            }
        }
        Unary::Tanh => each!(math::tanh),
        Unary::Erf => each!(math::erf),
        Unary::Sigmoid => each!(math::sigmoid),
        Unary::Floor => each!(f32::floor),
        Unary::Not => unreachable!("`not` is of bools"),
    }
}

/// Rounds to a 16-bit type.
fn round(v: &mut [f32], dtype: DType) {
    match dtype {
        DType::BF16 => wide!({
            for v in v.iter_mut() {
                *v = round_bf16(*v);
            }
        }),
        DType::F16 => v.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
        _ => {}
    }
}

fn binary(function: Binary, a: &Lane, b: &Lane, out: &mut Lane, dtype: DType, n: usize, squares: bool) {
    macro_rules! compare {
        ($a:expr, $b:expr, $out:expr, $f:expr) => {
            wide!({
                for ((o, &a), &b) in $out[..n].iter_mut().zip($a.iter()).zip($b.iter()) {
                    *o = i64::from($f(a, b));
                }
            })
        };
    }
    match (a, b, out) {
        (Lane::F32(a), Lane::F32(b), Lane::F32(out)) => {
            binary_f32(function, &a[..n], &b[..n], &mut out[..n], squares);
            round(&mut out[..n], dtype);
        }
        (Lane::F64(a), Lane::F64(b), Lane::F64(out)) => {
            for ((o, &a), &b) in out[..n].iter_mut().zip(a).zip(b) {
                let (a, b) = (scalar::Scalar::F(a), scalar::Scalar::F(b));
                *o = scalar::binary(function, a, b, DType::F64).to_f64();
            }
        }
        (Lane::Int(a), Lane::Int(b), Lane::Int(out)) => binary_int(function, &a[..n], &b[..n], &mut out[..n], dtype),
        (Lane::F32(a), Lane::F32(b), Lane::Int(out)) => match function {
            Binary::Lt => compare!(a, b, out, |a, b| a < b),
            Binary::Le => compare!(a, b, out, |a, b| a <= b),
            Binary::Eq => compare!(a, b, out, |a, b| a == b),
            _ => compare!(a, b, out, |a, b| a != b),
        },
        (Lane::F64(a), Lane::F64(b), Lane::Int(out)) => match function {
            Binary::Lt => compare!(a, b, out, |a, b| a < b),
            Binary::Le => compare!(a, b, out, |a, b| a <= b),
            Binary::Eq => compare!(a, b, out, |a, b| a == b),
            _ => compare!(a, b, out, |a, b| a != b),
        },
        _ => unreachable!("both sides have one type"),
    }
}

fn binary_f32(function: Binary, a: &[f32], b: &[f32], out: &mut [f32], squares: bool) {
    macro_rules! each {
        ($f:expr) => {
            wide!({
                for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *o = $f(a, b);
                }
            })
        };
    }
    match function {
        Binary::Add => each!(|a, b| a + b),
        Binary::Sub => each!(|a, b| a - b),
        Binary::Mul => each!(|a, b| a * b),
        Binary::Div => each!(|a, b| a / b),
        Binary::Max => each!(max),
        Binary::Min => each!(min),
        Binary::Pow if squares => each!(|a, _| a * a),
        Binary::Pow => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = f64::from(a).powf(f64::from(b)) as f32;
            }
        }
        Binary::Rem => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                let (a, b) = (scalar::Scalar::F(a.into()), scalar::Scalar::F(b.into()));
                *o = scalar::binary(Binary::Rem, a, b, DType::F32).to_f64() as f32;
            }
        }
        Binary::Lt | Binary::Le | Binary::Eq | Binary::Ne | Binary::And | Binary::Or => {
            unreachable!("comparisons give bools")
        }
    }
}

fn binary_int(function: Binary, a: &[i64], b: &[i64], out: &mut [i64], dtype: DType) {
    macro_rules! each {
        ($f:expr) => {
            wide!({
                for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *o = $f(a, b);
                }
            })
        };
    }
    match (function, dtype) {
        (Binary::Add, DType::I64) => each!(|a: i64, b| a.wrapping_add(b)),
        (Binary::Sub, DType::I64) => each!(|a: i64, b| a.wrapping_sub(b)),
        (Binary::Mul, DType::I64) => each!(|a: i64, b| a.wrapping_mul(b)),
        (Binary::Add, DType::I32) => each!(|a: i64, b| i64::from(a.wrapping_add(b) as i32)),
        (Binary::Sub, DType::I32) => each!(|a: i64, b| i64::from(a.wrapping_sub(b) as i32)),
        (Binary::Mul, DType::I32) => each!(|a: i64, b| i64::from(a.wrapping_mul(b) as i32)),
        (Binary::Lt, _) => each!(|a, b| i64::from(a < b)),
        (Binary::Le, _) => each!(|a, b| i64::from(a <= b)),
        (Binary::Eq, _) => each!(|a, b| i64::from(a == b)),
        (Binary::Ne, _) => each!(|a, b| i64::from(a != b)),
        (Binary::Max, _) => each!(|a: i64, b| a.max(b)),
        (Binary::Min, _) => each!(|a: i64, b| a.min(b)),
        (Binary::And, _) => each!(|a, b| a & b),
        (Binary::Or, _) => each!(|a, b| a | b),
        (Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Rem | Binary::Pow, _) => {
            for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                *o = scalar::binary(function, scalar::Scalar::I(a), scalar::Scalar::I(b), dtype).to_i64();
            }
        }
    }
}

/// The larger; a NaN on either side passes.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller; a NaN on either side passes.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

fn select(condition: &[i64], yes: &Lane, no: &Lane, out: &mut Lane, n: usize) {
    macro_rules! each {
        ($yes:expr, $no:expr, $out:expr) => {
            wide!({
                for (((o, &c), &y), &x) in $out[..n].iter_mut().zip(condition).zip($yes.iter()).zip($no.iter()) {
                    *o = if c != 0 { y } else { x };
                }
            })
        };
    }
    match (yes, no, out) {
        (Lane::F32(y), Lane::F32(x), Lane::F32(o)) => each!(y, x, o),
        (Lane::F64(y), Lane::F64(x), Lane::F64(o)) => each!(y, x, o),
        (Lane::Int(y), Lane::Int(x), Lane::Int(o)) => each!(y, x, o),
        _ => unreachable!("both sides have one type"),
    }
}

/// Converts a lane to a type, as `Row::Cast` says.
pub(crate) fn cast(from: &Lane, out: &mut Lane, dtype: DType, n: usize) {
    match (from, out) {
        (Lane::F32(x), Lane::F32(out)) => {
            out[..n].copy_from_slice(&x[..n]);
            round(&mut out[..n], dtype);
        }
        (Lane::F64(x), Lane::F32(out)) => {
            wide!({
                for (o, &x) in out[..n].iter_mut().zip(x) {
                    *o = x as f32;
                }
            });
            round(&mut out[..n], dtype);
        }
        (Lane::Int(x), Lane::F32(out)) => {
            wide!({
                for (o, &x) in out[..n].iter_mut().zip(x) {
                    *o = x as f32;
                }
            });
            round(&mut out[..n], dtype);
        }
        (Lane::F32(x), Lane::F64(out)) => to_f64(Elements::F32(x), 0, &mut out[..n]),
        (Lane::F64(x), Lane::F64(out)) => out[..n].copy_from_slice(&x[..n]),
        (Lane::Int(x), Lane::F64(out)) => to_f64(Elements::I64(x), 0, &mut out[..n]),
        (Lane::F32(x), Lane::Int(out)) => {
            let wide = |x: &f32| scalar::Scalar::F(f64::from(*x)).cast(dtype).to_i64();
            out[..n].iter_mut().zip(x).for_each(|(o, x)| *o = wide(x));
        }
        (Lane::F64(x), Lane::Int(out)) => {
            out[..n].iter_mut().zip(x).for_each(|(o, &x)| *o = scalar::Scalar::F(x).cast(dtype).to_i64());
        }
        (Lane::Int(x), Lane::Int(out)) => {
            out[..n].iter_mut().zip(x).for_each(|(o, &x)| *o = scalar::wrap(x, dtype));
        }
    }
}

/// The base of every operand at a point of loops outside the block.
pub(crate) fn shift(base: &[i64], steps: &[Vec<i64>], at: &[usize], out: &mut Vec<i64>) {
    out.clear();
    out.extend(base.iter().zip(steps).map(|(b, s)| b + dot(s, at)));
}
