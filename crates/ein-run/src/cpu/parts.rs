//! A block of an operation in parts that several threads do at once: where there are fewer devices than processors.
//!
//! A label is cut that is an axis of the result and before which no axis has more than one index: so the parts of the
//! result lie one after the other, and every kernel does its part as it would do any block.

use super::Scratch;
use super::piece::PieceMut;
use crate::error::Cause;
use crate::team::Team;
use ein_ir::monoid::Form;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::{Role, Rule, Spec};
use ein_task::machine::Machine;
use ein_task::price::fused_seconds;
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Seconds that a part is worth at least, by the price list: handing it out takes some microseconds.
const WORTH: f64 = 40e-6;

/// What is done with the labels of a part and its part of the result.
type Block<'a> = dyn Fn(&[Region], &mut PieceMut<'_>, &mut Scratch) -> Result<(), Cause> + Sync + 'a;

/// The parts of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Labels, of every stage, and region of the result of each.
    all: Vec<(Vec<Region>, Region)>,
    /// Bytes of the result of each but the last, which may have fewer.
    bytes: usize,
    /// Bytes of all of them.
    total: usize,
}

thread_local! {
    /// What a thread needs for parts; kept, so that later runs allocate nothing.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Parts {
    /// The parts of a block whose result is stored as `form`, or of a fused row's blocks: one for each processor that has
    /// no device of its own, fewer where they would be too small, `None` where that makes one. Of a label, `together` says
    /// how many indices have to stay together. They follow from the block and the host, not from how many threads there
    /// are, so that the bits do not depend on those.
    pub(crate) fn of(
        stages: &[(&Spec, &Region)],
        form: &Form,
        devices: usize,
        together: &dyn Fn(usize) -> usize,
    ) -> Option<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = fused_seconds(&Machine::by_name("1xcpu").ok()?.devices[0], stages).0;
        Self::cut(stages, form, processors.div_ceil(devices).min((seconds / WORTH) as usize), together)
    }

    fn cut(stages: &[(&Spec, &Region)], form: &Form, count: usize, together: &dyn Fn(usize) -> usize) -> Option<Self> {
        let &(spec, labels) = stages.last()?;
        let [field] = form.fields.as_slice() else { return None };
        let axis = (0..spec.rank).find(|&n| labels.0[n].len() != 1)?;
        let whole = labels.0[axis];
        let mut quantum = together(axis);
        for (spec, labels) in stages {
            // Of earlier stages it is the same label, if they have it.
            if axis >= spec.rank || labels.0[axis] != whole {
                return None;
            }
            let label = &spec.labels[axis];
            match label.role {
                Role::Free | Role::Window => {}
                Role::Fold | Role::Whole => return None,
            }
            match label.rule {
                Rule::Any => {}
                Rule::MultipleOf(other) if other.is_multiple_of(quantum) => quantum = other,
                Rule::MultipleOf(other) => quantum *= other,
            }
        }
        let aligned = spec.labels[axis].rule == Rule::Any || whole.lo.is_multiple_of(quantum);
        if count < 2 || whole.is_empty() || field.axes.first() != Some(&0) || !aligned {
            return None;
        }
        let step = whole.len().div_ceil(count).next_multiple_of(quantum);
        if step >= whole.len() {
            return None;
        }
        let part = |lo: usize| {
            let one = |(_, labels): &(&Spec, &Region)| {
                let mut part = (*labels).clone();
                part.0[axis] = Interval::new(lo, whole.hi.min(lo + step));
                part
            };
            let parts: Vec<Region> = stages.iter().map(one).collect();
            let result = spec.result_region(&parts[parts.len() - 1]);
            (parts, result)
        };
        let all: Vec<(Vec<Region>, Region)> = (whole.lo..whole.hi).step_by(step).map(part).collect();
        // What a value's last field is padded with is no part's.
        let bytes = |region: &Region| region.project(&field.axes).volume() * field.dtype.bytes();
        let (bytes, total) = (bytes(&all[0].1), bytes(&spec.result_region(labels)));
        Some(Self { all, bytes, total })
    }

    /// Calls `block` for every part with its labels and its part of the result; the first error by place, if there is
    /// one.
    pub(crate) fn run(&self, result: &mut [u8], form: &Form, team: Team<'_>, block: &Block<'_>) -> Result<(), Cause> {
        let failed: Mutex<Option<(usize, Cause)>> = Mutex::new(None);
        team.chunks(&mut result[..self.total], self.bytes, &|n, bytes| {
            let (labels, region) = &self.all[n];
            let mut piece = PieceMut::new(region, form, bytes);
            let done = SCRATCH.with_borrow_mut(|scratch| block(labels, &mut piece, scratch));
            if let Err(cause) = done {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|first| n < first.0) {
                    *failed = Some((n, cause));
                }
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, cause)| Err(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::einsum::Einsum;
    use ein_ir::monoid::Monoid;
    use ein_ir::op::Op;

    fn spec(text: &str, shapes: &[&[usize]]) -> Spec {
        let e = Einsum::contraction(text, shapes, DType::F32).expect("well formed");
        Op::Einsum(e).spec(&[DType::F32; 2]).expect("it computes")
    }

    #[test]
    fn parts_lie_one_after_the_other() {
        let check = |spec: &Spec, labels: Region, count: usize, expected: &[(usize, usize)], axis: usize| {
            let form = Form::finished(DType::F32, spec.rank);
            let parts = Parts::cut(&[(spec, &labels)], &form, count, &|_| 1);
            let cuts: Vec<(usize, usize)> =
                parts.iter().flat_map(|p| &p.all).map(|(l, _)| (l[0].0[axis].lo, l[0].0[axis].hi)).collect();
            assert_eq!(cuts, expected, "{labels} in {count}");
            let Some(parts) = parts else { return };
            // Their results, in order, are the result.
            let sizes: Vec<usize> = parts.all.iter().map(|(_, r)| 4 * r.volume()).collect();
            assert!(sizes[..sizes.len() - 1].iter().all(|&s| s == parts.bytes));
            assert_eq!(
                (sizes.iter().sum::<usize>(), parts.total),
                (parts.total, 4 * spec.result_region(&labels).volume())
            );
        };
        let product = spec("bsk,kn->bsn", &[&[2, 7, 5], &[5, 9]]);
        check(&product, product.space(), 2, &[(0, 1), (1, 2)], 0);
        check(&product, product.space(), 8, &[(0, 1), (1, 2)], 0);
        check(&product, product.space(), 1, &[], 0);
        // One batch: its rows. One row: its columns.
        check(&product, Region::of(&[(1, 2), (0, 7), (0, 9), (0, 5)]), 3, &[(0, 3), (3, 6), (6, 7)], 1);
        check(&product, Region::of(&[(1, 2), (3, 4), (2, 9), (0, 5)]), 2, &[(2, 6), (6, 9)], 2);
        check(&product, Region::of(&[(1, 2), (3, 4), (2, 3), (0, 5)]), 2, &[], 2);
        check(&product, Region::of(&[(1, 1), (0, 7), (0, 9), (0, 5)]), 2, &[], 0);
        // A label in threes.
        let mut threes = product.clone();
        threes.labels[1].rule = Rule::MultipleOf(3);
        check(&threes, Region::of(&[(0, 1), (0, 7), (0, 9), (0, 5)]), 4, &[(0, 3), (3, 6), (6, 7)], 1);
        check(&threes, Region::of(&[(0, 1), (1, 7), (0, 9), (0, 5)]), 4, &[], 1);
    }

    #[test]
    fn several_fields_and_whole_labels_are_not_cut() {
        let product = spec("ik,kn->in", &[&[8, 5], &[5, 9]]);
        let pending = Monoid::Moments.pending(DType::F32, 2, false);
        assert_eq!(Parts::cut(&[(&product, &product.space())], &pending, 2, &|_| 1), None);
        let mut whole = product.clone();
        whole.labels[0].role = Role::Whole;
        assert_eq!(Parts::cut(&[(&whole, &whole.space())], &Form::finished(DType::F32, 2), 2, &|_| 1), None);
        // Nothing worth a part is cut, whatever the host.
        assert_eq!(Parts::of(&[(&product, &product.space())], &Form::finished(DType::F32, 2), 1, &|_| 1), None);
    }

    #[test]
    fn the_first_error_by_place_is_told() {
        let product = spec("ik,kn->in", &[&[8, 5], &[5, 9]]);
        let form = Form::finished(DType::F32, 2);
        let parts = Parts::cut(&[(&product, &product.space())], &form, 4, &|_| 1).expect("eight rows");
        let mut result = vec![0; form.layout(&Region::whole(&[8, 9])).1];
        let fault = |row: usize| Cause::malformed(format!("row {row}"));
        let told = parts.run(&mut result, &form, Team::alone(), &|labels, piece, _| {
            piece.bytes(0).fill(labels[0].0[0].lo as u8 + 1);
            if labels[0].0[0].lo >= 4 { Err(fault(labels[0].0[0].lo)) } else { Ok(()) }
        });
        assert_eq!(told, Err(fault(4)));
        assert!(
            result.chunks(36).enumerate().all(|(row, bytes)| bytes.iter().all(|&b| usize::from(b) == row / 2 * 2 + 1))
        );
    }
}
