//! Einsums on a region of their label space.

use super::Operand;
use super::fold::{Column, identity, plain};
use crate::dense::Data;
use crate::einsum::{Access, Einsum};
use crate::monoid::Monoid;
use crate::region::{Region, strides};
use crate::scalar::{self, Evaluator, Scalar};

/// The fields of a block, pending.
pub(super) fn block(e: &Einsum, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Vec<Column> {
    let outputs: usize = labels.0[..e.rank].iter().map(|i| i.len()).product();
    let acc = e.dtype.accumulator();
    let mut columns: Vec<Column> = e
        .monoid
        .pending(acc, e.rank + usize::from(e.monoid.stacked().is_some()), true)
        .fields
        .iter()
        .map(|f| Column::full(identity(e.monoid, f.name, acc), outputs))
        .collect();
    if idle || outputs == 0 {
        return columns;
    }
    let given: Vec<&Operand> = operands.iter().flatten().collect();
    let flat: Vec<Flat> = e.accesses.iter().zip(&given).map(|(a, o)| Flat::new(a, &o.region, labels)).collect();
    if let Some(sums) = contraction(e, labels, &given, &flat) {
        return vec![Column::F(sums)];
    }
    general(e, labels, &given, &flat, &mut columns);
    columns
}

/// Where an operand's element lies in its buffer: `base` at the region's first point, and how far one
/// index of each label moves it.
struct Flat {
    base: i64,
    steps: Vec<i64>,
}

impl Flat {
    fn new(access: &Access, region: &Region, labels: &Region) -> Self {
        let own = strides(&region.shape());
        let (mut base, mut steps) = (0, vec![0; labels.rank()]);
        for ((index, &stride), interval) in access.axes.iter().zip(&own).zip(&region.0) {
            base += index.at(&labels.origin()).wrapping_sub(interval.lo as i64) * stride as i64;
            for &(label, step) in &index.terms {
                steps[label] += step * stride as i64;
            }
        }
        Self { base, steps }
    }
}

/// Visits the points of some labels in row-major order and keeps every operand's position.
struct Odometer {
    lengths: Vec<usize>,
    index: Vec<usize>,
    /// For every label, how far it moves each operand.
    steps: Vec<Vec<i64>>,
    at: Vec<i64>,
}

impl Odometer {
    fn new(labels: &Region, flat: &[Flat], range: std::ops::Range<usize>) -> Self {
        Self {
            lengths: labels.0[range.clone()].iter().map(|i| i.len()).collect(),
            index: vec![0; range.len()],
            steps: range.map(|l| flat.iter().map(|f| f.steps[l]).collect()).collect(),
            at: vec![0; flat.len()],
        }
    }

    /// Goes to the first point, with the operands at `at`; false when there is none.
    fn start(&mut self, at: &[i64]) -> bool {
        self.at.copy_from_slice(at);
        self.index.fill(0);
        !self.lengths.contains(&0)
    }

    /// Goes to the next point; false after the last.
    fn advance(&mut self) -> bool {
        for axis in (0..self.lengths.len()).rev() {
            self.index[axis] += 1;
            let wrapped = self.index[axis] == self.lengths[axis];
            let by = if wrapped { 1 - self.lengths[axis] as i64 } else { 1 };
            for (at, step) in self.at.iter_mut().zip(&self.steps[axis]) {
                *at += step * by;
            }
            if !wrapped {
                return true;
            }
            self.index[axis] = 0;
        }
        false
    }
}

fn general(e: &Einsum, labels: &Region, operands: &[&Operand], flat: &[Flat], columns: &mut [Column]) {
    let folds = e.folds();
    // What is added up is the exact product, as in the fast path below.
    let exact = folds && e.monoid == Monoid::Sum && e.dtype.is_float();
    let mut join = Evaluator::new(&e.join, exact);
    let target = if folds { e.dtype.accumulator() } else { e.dtype };
    let exact = exact && e.join.dtype().is_float();
    let product = exact && e.join.ends_in_product();
    let start: Vec<i64> = flat.iter().map(|f| f.base).collect();
    let mut outer = Odometer::new(labels, flat, 0..e.rank);
    let mut inner = Odometer::new(labels, flat, e.rank..labels.rank());
    let mut values = Vec::new();
    let mut more = outer.start(&start);
    let mut output = 0;
    while more {
        let mut folded = match &columns[0] {
            Column::F(v) => Scalar::F(v[output]),
            Column::I(v) => Scalar::I(v[output]),
        };
        let mut inside = inner.start(&outer.at);
        while inside {
            let index = |l: usize| labels.0[l].lo + if l < e.rank { outer.index[l] } else { inner.index[l - e.rank] };
            let value = join.value(|n| operands[n].data.scalar(inner.at[n] as usize), index);
            let value = if product { value } else { value.cast(target) };
            if !folds {
                folded = value;
            } else if e.monoid.is_plain() {
                folded = plain(e.monoid, folded, value, e.dtype);
            } else {
                values.push(value.to_f64());
            }
            inside = inner.advance();
        }
        if e.monoid.is_plain() {
            set(&mut columns[0], output, folded);
        } else {
            let fields = match e.monoid {
                Monoid::Moments => moments(&values),
                Monoid::SoftMax | Monoid::Attend => softmax(&values),
                Monoid::Sum
                | Monoid::Max
                | Monoid::Min
                | Monoid::Prod
                | Monoid::Once
                | Monoid::Top(_)
                | Monoid::Affine => Vec::new(),
            };
            for (column, value) in columns.iter_mut().zip(fields) {
                set(column, output, Scalar::F(value));
            }
            values.clear();
        }
        output += 1;
        more = outer.advance();
    }
}

fn set(column: &mut Column, n: usize, value: Scalar) {
    match column {
        Column::F(v) => v[n] = value.to_f64(),
        Column::I(v) => v[n] = value.to_i64(),
    }
}

/// Count, mean and sum of squared distances to the mean.
fn moments(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    if values.is_empty() {
        return vec![0.0, 0.0, 0.0];
    }
    let mean = values.iter().sum::<f64>() / n;
    vec![n, mean, values.iter().map(|v| (v - mean) * (v - mean)).sum()]
}

/// Maximum and sum of `exp(x - max)`; a minus infinity adds nothing.
fn softmax(values: &[f64]) -> Vec<f64> {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, scalar::max);
    vec![top, values.iter().map(|&v| super::fold::scale(v, top)).sum()]
}

/// The sums of products of two float operands, or `None` where the einsum is something else.
fn contraction(e: &Einsum, labels: &Region, operands: &[&Operand], flat: &[Flat]) -> Option<Vec<f64>> {
    let float = e.dtype.is_float() && e.folds();
    if !float || e.monoid != Monoid::Sum || !e.join.is_product() || operands.len() != 2 {
        return None;
    }
    match (&operands[0].data.data, &operands[1].data.data) {
        (Data::F32(a), Data::F32(b)) => Some(products(e, labels, flat, a, b)),
        (Data::F64(a), Data::F64(b)) => Some(products(e, labels, flat, a, b)),
        (Data::BF16(a), Data::BF16(b)) => Some(products(e, labels, flat, a, b)),
        (Data::F16(a), Data::F16(b)) => Some(products(e, labels, flat, a, b)),
        _ => None,
    }
}

fn products<T: Copy + Into<f64>>(e: &Einsum, labels: &Region, flat: &[Flat], a: &[T], b: &[T]) -> Vec<f64> {
    let start: Vec<i64> = flat.iter().map(|f| f.base).collect();
    let last = labels.rank() - 1;
    let (sa, sb) = (flat[0].steps[last], flat[1].steps[last]);
    let outputs: usize = labels.0[..e.rank].iter().map(|i| i.len()).product();
    let mut sums = vec![0.0; outputs];
    if e.rank == 0 || (sa == 1 && sb == 1) {
        // Both run along the last folded label: a dot product for every result.
        let n = labels.0[last].len();
        let mut outer = Odometer::new(labels, flat, 0..e.rank);
        let mut inner = Odometer::new(labels, flat, e.rank..last);
        let (mut more, mut output) = (outer.start(&start), 0);
        while more {
            let mut inside = inner.start(&outer.at);
            while inside {
                sums[output] += dot(a, (inner.at[0], sa), b, (inner.at[1], sb), n);
                inside = inner.advance();
            }
            output += 1;
            more = outer.advance();
        }
        return sums;
    }
    // A row of results at a time, so that the last output label is the inner loop.
    let row = e.rank - 1;
    let n = labels.0[row].len();
    let (sa, sb) = (flat[0].steps[row], flat[1].steps[row]);
    let mut outer = Odometer::new(labels, flat, 0..row);
    let mut inner = Odometer::new(labels, flat, e.rank..labels.rank());
    let mut more = outer.start(&start);
    let mut output = 0;
    while more {
        let own = &mut sums[output..output + n];
        let mut inside = inner.start(&outer.at);
        while inside {
            multiply_add(own, a, (inner.at[0], sa), b, (inner.at[1], sb));
            inside = inner.advance();
        }
        output += n;
        more = outer.advance();
    }
    sums
}

/// The dot product of `n` elements at `(position, stride)`.
fn dot<T: Copy + Into<f64>>(a: &[T], (ia, sa): (i64, i64), b: &[T], (ib, sb): (i64, i64), n: usize) -> f64 {
    if sa == 1 && sb == 1 {
        let (a, b) = (&a[ia as usize..ia as usize + n], &b[ib as usize..ib as usize + n]);
        // Eight sums side by side, so that the additions need not wait for one another.
        let mut lanes = [0.0_f64; 8];
        let (wide_a, rest_a) = a.as_chunks::<8>();
        let (wide_b, rest_b) = b.as_chunks::<8>();
        for (x, y) in wide_a.iter().zip(wide_b) {
            for lane in 0..8 {
                lanes[lane] += x[lane].into() * y[lane].into();
            }
        }
        let rest: f64 = rest_a.iter().zip(rest_b).map(|(&x, &y)| x.into() * y.into()).sum();
        return lanes.iter().sum::<f64>() + rest;
    }
    (0..n as i64).map(|k| a[(ia + k * sa) as usize].into() * b[(ib + k * sb) as usize].into()).sum()
}

/// Adds a row of products to `sums`.
fn multiply_add<T: Copy + Into<f64>>(sums: &mut [f64], a: &[T], (ia, sa): (i64, i64), b: &[T], (ib, sb): (i64, i64)) {
    let n = sums.len();
    if sa == 0 && sb == 1 {
        let x: f64 = a[ia as usize].into();
        for (sum, &y) in sums.iter_mut().zip(&b[ib as usize..ib as usize + n]) {
            *sum += x * y.into();
        }
        return;
    }
    for (k, sum) in sums.iter_mut().enumerate() {
        *sum += a[(ia + k as i64 * sa) as usize].into() * b[(ib + k as i64 * sb) as usize].into();
    }
}
