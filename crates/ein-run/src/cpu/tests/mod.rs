//! Every kernel against the dense reference, on random regions, from operands that are more than is read.

mod contractions;
mod folds;
mod joins;
mod kernels;
mod views;

use super::constants::{Constants, Tables};
use super::piece::{Piece, PieceMut};
use super::{Scratch, kernel};
use crate::error::Cause;
use crate::source::bytes_of;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::monoid::Form;
use ein_ir::op::Op;
use ein_ir::reference;
use ein_ir::region::{Interval, Region};
use ein_task::task::OpRow;

/// Numbers that look random and are the same on every run.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 >> 20)
    }

    /// Below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(super) fn between(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.below(hi - lo + 1)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Integers from -3 to 3, or any floats from -2 to 2.
    pub(super) fn dense(&mut self, dtype: DType, shape: &[usize], whole: bool) -> Dense {
        let n = shape.iter().product();
        let value = |rng: &mut Self| {
            if whole { rng.below(7) as f64 - 3.0 } else { rng.below(4001) as f64 / 1000.0 - 2.0 }
        };
        let values: Vec<f64> = (0..n).map(|_| value(self)).collect();
        Dense::from_f64(dtype, shape, &values)
    }

    /// A non-empty part of a region.
    pub(super) fn part(&mut self, whole: &Region) -> Region {
        let part = |rng: &mut Self, i: Interval| {
            let lo = rng.between(i.lo, i.hi - 1);
            Interval::new(lo, rng.between(lo + 1, i.hi))
        };
        Region(whole.0.iter().map(|&i| part(self, i)).collect())
    }

    /// A region that holds `part` and lies in `whole`.
    pub(super) fn around(&mut self, part: &Region, whole: &Region) -> Region {
        let around = |rng: &mut Self, (p, w): (&Interval, &Interval)| {
            let lo = if rng.coin() { w.lo } else { rng.between(w.lo, p.lo) };
            Interval::new(lo, rng.between(p.hi, w.hi))
        };
        Region(part.0.iter().zip(&whole.0).map(|x| around(self, x)).collect())
    }
}

/// Fields stored as a value is: bytes in aligned words.
pub(super) fn stored(fields: &[Dense], form: &Form, region: &Region) -> Vec<u64> {
    let (offsets, bytes) = form.layout(region);
    let mut words = vec![u64::MAX; bytes.div_ceil(8)];
    let all: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    for (field, at) in fields.iter().zip(offsets) {
        let from = bytes_of(field);
        all[at..at + from.len()].copy_from_slice(from);
    }
    words
}

/// The fields of stored bytes.
pub(super) fn fields(words: &[u64], form: &Form, region: &Region) -> Vec<Dense> {
    let piece = Piece::new(region, form, bytemuck::cast_slice(words));
    let field = |n: usize| {
        let f = &form.fields[n];
        let ty = TensorType::new(f.dtype, region.project(&f.axes).shape());
        Dense::from_le_bytes(&ty, piece.bytes(n)).expect("the right number of bytes")
    };
    (0..form.fields.len()).map(field).collect()
}

/// Room for a result, filled with ones bits so that what is not written is noticed.
pub(super) fn room(form: &Form, region: &Region) -> Vec<u64> {
    vec![u64::MAX; form.layout(region).1.div_ceil(8)]
}

/// Runs a block of an operation by the CPU's kernel.
pub(super) fn run(
    op: &Op,
    labels: &Region,
    operands: &[Option<(Region, Dense)>],
    form: &Form,
    finish: bool,
) -> Result<Vec<Dense>, Cause> {
    let dtypes: Vec<DType> = operands.iter().map(|o| o.as_ref().map_or(DType::F32, |o| o.1.dtype())).collect();
    let spec = op.spec(&dtypes).expect("it computes");
    let region = spec.result_region(labels);
    let forms: Vec<Form> = dtypes.iter().zip(&spec.operands).map(|(d, o)| Form::finished(*d, o.axes.len())).collect();
    let words: Vec<Option<Vec<u64>>> = operands
        .iter()
        .zip(&forms)
        .map(|(o, form)| o.as_ref().map(|(region, dense)| stored(std::slice::from_ref(dense), form, region)))
        .collect();
    let piece = |n: usize| {
        let (region, _) = operands[n].as_ref()?;
        Some(Piece::new(region, &forms[n], bytemuck::cast_slice(words[n].as_ref()?)))
    };
    let pieces: Vec<Option<Piece<'_>>> = (0..operands.len()).map(piece).collect();
    let mut out = room(form, &region);
    let mut result = PieceMut::new(&region, form, bytemuck::cast_slice_mut(&mut out));
    let ty = |n: usize| TensorType::new(dtypes[n], vec![]);
    let row = OpRow {
        name: "it".into(),
        op: op.clone(),
        operands: (0..dtypes.len()).map(ty).collect(),
        spec: None,
        result: TensorType::new(spec.dtype, vec![]),
    };
    let constants = match op {
        Op::Einsum(e) => Constants::of(&e.join, e.accesses.len(), labels, &mut Tables::default()),
        Op::Input(_) | Op::View(_) | Op::Kernel(_) => None,
    };
    kernel(&row, constants.as_ref(), labels, finish, &pieces, &mut result, &mut Scratch::default())?;
    Ok(fields(&out, form, &region))
}

/// How far results of floats may be from the reference, relative to the largest value.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 3e-6,
        DType::BF16 => 1.0 / 128.0,
        DType::F16 => 1.0 / 1024.0,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
    }
}

pub(super) fn assert_near(what: &str, got: &[Dense], expected: &[Dense], exact: bool) {
    assert_within(what, got, expected, |dtype| if exact { 0.0 } else { tolerance(dtype) });
}

fn assert_within(what: &str, got: &[Dense], expected: &[Dense], tolerance: impl Fn(DType) -> f64) {
    assert_eq!(got.len(), expected.len(), "{what}: fields");
    for (n, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.ty(), expected.ty(), "{what}: field {n}");
        let largest = expected.to_f64().into_iter().filter(|v| v.is_finite()).fold(1.0f64, |a, v| a.max(v.abs()));
        let bound = tolerance(got.dtype()) * largest;
        let apart = got.max_abs_difference(expected);
        assert!(apart <= bound, "{what}: field {n} is {apart:e} off, not {bound:e}\n{got:?}\n{expected:?}");
    }
}

/// Compares one block with the reference. The operands are cut to boxes around what is read.
pub(super) fn check(
    what: &str,
    rng: &mut Rng,
    op: &Op,
    whole: &[Dense],
    labels: &Region,
    form: &Form,
    finish: bool,
    exact: bool,
) {
    check_within(what, rng, op, whole, labels, (form, finish), |dtype| if exact { 0.0 } else { tolerance(dtype) });
}

/// The same, results being so far from the reference at most, relative to the largest.
pub(super) fn check_within(
    what: &str,
    rng: &mut Rng,
    op: &Op,
    whole: &[Dense],
    labels: &Region,
    (form, finish): (&Form, bool),
    tolerance: impl Fn(DType) -> f64,
) {
    let dtypes: Vec<DType> = whole.iter().map(Dense::dtype).collect();
    let spec = op.spec(&dtypes).expect("it computes");
    let give = |(n, dense): (usize, &Dense)| {
        let all = Region::whole(&dense.shape);
        let needs = spec.operand_region(n, labels);
        if needs.is_empty() {
            return None;
        }
        let region = rng.around(&needs, &all);
        let data = dense.cut(&all, &region);
        Some((region, data))
    };
    let operands: Vec<Option<(Region, Dense)>> = whole.iter().enumerate().map(give).collect();
    let given: Vec<Option<reference::Operand<'_>>> = operands
        .iter()
        .map(|o| o.as_ref().map(|(region, data)| reference::Operand { data, region: region.clone() }))
        .collect();
    let expected = reference::block(op, labels, &given, form, finish).expect("the reference agrees to it");
    let got = run(op, labels, &operands, form, finish).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_within(&format!("{what} over {labels}"), &got, &expected, tolerance);
}
