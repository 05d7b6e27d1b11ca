//! A block of an operation in parts that several threads do at once: where there are fewer devices than processors.
//!
//! A label is cut that is an axis of the result and before which no axis has more than one index: so the parts of the
//! result lie one after the other, and every kernel does its part as it would do any block. Where each part would then
//! read what is much larger than the result, as a product of few rows its weight, an axis is cut that spares that; such
//! parts are made apart and copied. Where a weight is packed they are strips of some hundred columns, and what a thread makes
//! of the other factor it keeps from one to the next.

use super::Scratch;
use super::lines::Run;
use super::packing::Columns;
use super::piece::PieceMut;
use crate::error::Cause;
use crate::team::Team;
use ein_ir::monoid::Form;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::{LabelSpec, Role, Rule, Spec};
use ein_task::machine::Machine;
use ein_task::price::fused_seconds;
use std::sync::{Mutex, PoisonError};

/// Seconds that a part is worth at least, by the price list: handing it out takes some microseconds.
const WORTH: f64 = 40e-6;

/// Parts that each processor gets where parts read nothing twice: whoever is slower does fewer of them.
const FINE: usize = 4;

/// How many times the result's bytes another cut has to spare, for the parts to be made apart.
const SPARED: f64 = 16.0;

/// The same where it spares a weight, which comes from memory and is put in order by each thread: what is read again instead
/// is near, and counts that much of its bytes.
const SPARED_WEIGHT: f64 = 0.25;
const NEAR: f64 = 0.5;

/// Columns of a strip, about, and rows of a part that reads all of a weight, at least: whoever is slower does fewer.
const STRIP: usize = 256;
const ROWS: usize = 512;

/// Rows from which on a product takes longer to compute than its weight to read.
const FEW: usize = 64;

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
    /// Bytes of the rows that the result's parts have some columns of, and of those, where they do not lie one after the
    /// other.
    apart: Option<[usize; 2]>,
    /// Whether parts are columns of a product, whose left factor all of them read.
    columns: bool,
}

impl Parts {
    /// The parts of a block whose result is stored as `form`, or of a fused row's blocks: one for each processor that has
    /// no device of its own, fewer where they would be too small, `None` where that makes one. Of a label, `columns` says
    /// what it is of the columns of a weight. They follow from the block and the host, not from how many threads there
    /// are, so that the bits do not depend on those.
    pub(crate) fn of(
        stages: &[(&Spec, &Region)],
        form: &Form,
        devices: usize,
        columns: &dyn Fn(usize) -> Columns,
    ) -> Option<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = fused_seconds(&Machine::by_name("1xcpu").ok()?.devices[0], stages).0;
        let most = (seconds / WORTH) as usize;
        Self::cut(stages, form, processors.div_ceil(devices).min(most), most, columns)
    }

    /// In `count` parts, or where these read nothing twice in more, at most in `most`.
    fn cut(
        stages: &[(&Spec, &Region)],
        form: &Form,
        count: usize,
        most: usize,
        columns: &dyn Fn(usize) -> Columns,
    ) -> Option<Self> {
        let &(spec, labels) = stages.last()?;
        let [field] = form.fields.as_slice() else { return None };
        if count < 2 || labels.is_empty() || field.axes.first() != Some(&0) {
            return None;
        }
        let first = (0..spec.rank).find(|&n| labels.0[n].len() != 1)?;
        // What is read once more with every part.
        let again = |axis: usize| stages.iter().map(|(spec, labels)| unmoved(spec, labels, axis)).sum::<f64>();
        let result = spec.result_region(labels);
        let size = (result.volume() * field.dtype.bytes()) as f64;
        // As many for each processor.
        let each = |parts: usize| (parts / count).clamp(1, FINE.min(most / count).max(1)) * count;
        let fine = |axis: usize| match columns(axis) {
            // A weight that few rows read comes from memory: the longer the way through it, the better.
            Columns::Of { rows, .. } if rows < FEW => count,
            Columns::Of { each: columns, .. } => each(labels.0[axis].len() * columns / STRIP),
            Columns::Beside { rows } => each(rows / ROWS),
            Columns::None if SPARED * again(axis) <= size => (FINE * count).min(most).max(count),
            Columns::None => count,
        };
        let one = |axis: usize| {
            let together = if let Columns::Of { together, .. } = columns(axis) { together } else { 1 };
            Some((axis, step(stages, axis, fine(axis), together)?))
        };
        let are = |axis: usize| matches!(columns(axis), Columns::Of { .. });
        let costs = |axis: usize| {
            if are(axis) { NEAR * again(axis) + SPARED_WEIGHT * size } else { again(axis) + SPARED * size }
        };
        let others = if field.axes.len() == spec.rank { first + 1..spec.rank } else { 0..0 };
        let others = others.filter(|&axis| costs(axis) < again(first)).filter_map(one);
        let (axis, step) = others.min_by(|a, b| again(a.0).total_cmp(&again(b.0))).or_else(|| one(first))?;
        let whole = labels.0[axis];
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
        let (bytes, total) = (bytes(&all[0].1), bytes(&result));
        // Columns of the parts, where they do not lie one after the other.
        let inner = result.0[(axis + 1).min(result.rank())..].iter().map(|i| i.len()).product::<usize>();
        let row = inner * field.dtype.bytes();
        let apart = (axis != first).then_some([row * whole.len(), row * step]);
        Some(Self { all, bytes, total, apart, columns: are(axis) })
    }

    /// Calls `block` for every part with its labels and its part of the result; the first error by place, if there is
    /// one.
    pub(crate) fn run(&self, result: &mut [u8], form: &Form, team: Team<'_>, block: &Block<'_>) -> Result<(), Cause> {
        let failed: Mutex<Option<(usize, Cause)>> = Mutex::new(None);
        let ended = |n: usize, done: Result<(), Cause>| {
            let Err(cause) = done else { return };
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|first| n < first.0) {
                *failed = Some((n, cause));
            }
        };
        let result = &mut result[..self.total];
        let run = Run::new();
        let block = |labels: &[Region], piece: &mut PieceMut<'_>, scratch: &mut Scratch| {
            if self.columns { run.part(|| block(labels, piece, scratch)) } else { block(labels, piece, scratch) }
        };
        if let Some(strips) = self.apart {
            team.strips(result, strips, &|n, strip| {
                let (labels, region) = &self.all[n];
                Scratch::with(|scratch| {
                    let mut room = std::mem::take(&mut scratch.apart);
                    let bytes: &mut [u8] = room.of(region.volume() * form.fields[0].dtype.bytes());
                    ended(n, block(labels, &mut PieceMut::new(region, form, bytes), scratch));
                    strip.put(bytes);
                    scratch.apart = room;
                });
            });
        } else {
            team.chunks(result, self.bytes, &|n, bytes| {
                let (labels, region) = &self.all[n];
                let mut piece = PieceMut::new(region, form, bytes);
                ended(n, Scratch::with(|scratch| block(labels, &mut piece, scratch)));
            });
        }
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, cause)| Err(cause))
    }
}

/// How many indices of an axis of the result a part has of `count` equal ones, if all stages may be cut along it; so many
/// stay together.
fn step(stages: &[(&Spec, &Region)], axis: usize, count: usize, together: usize) -> Option<usize> {
    let &(spec, labels) = stages.last()?;
    let whole = labels.0[axis];
    let mut quantum = together;
    for (spec, labels) in stages {
        // Of earlier stages it is the same label, if they have it.
        if axis >= spec.rank || labels.0[axis] != whole {
            return None;
        }
        match cut(&spec.labels[axis])? {
            1 => {}
            other if other.is_multiple_of(quantum) => quantum = other,
            other => quantum *= other,
        }
    }
    let aligned = spec.labels[axis].rule == Rule::Any || whole.lo.is_multiple_of(quantum);
    let step = whole.len().div_ceil(count).next_multiple_of(quantum);
    (aligned && step < whole.len()).then_some(step)
}

/// Of how many indices each a label of a result may be cut into parts that are done apart; `None` where it is not to be cut.
pub(crate) fn cut(label: &LabelSpec) -> Option<usize> {
    match (&label.role, &label.rule) {
        (Role::Fold | Role::Whole, _) => None,
        (Role::Free | Role::Window, Rule::Any) => Some(1),
        (Role::Free | Role::Window, Rule::MultipleOf(count)) => Some(*count),
    }
}

/// Bytes of the operands of a block that do not depend on a label.
fn unmoved(spec: &Spec, labels: &Region, label: usize) -> f64 {
    let bytes = |n: usize| (spec.operand_region(n, labels).volume() * spec.operand_dtypes[n].bytes()) as f64;
    let depends = |n: usize| spec.operands[n].axes.iter().any(|axis| axis.depends_on(label));
    // Of a table that is read by index each part reads its own rows.
    let unmoved = |n: &usize| !depends(*n) && !spec.operands[*n].by_index;
    (0..spec.operands.len()).filter(unmoved).map(bytes).sum()
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
            let parts = Parts::cut(&[(spec, &labels)], &form, count, count, &|_| Columns::None);
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
        // Few rows beside a large weight: its columns, of which no part reads another's.
        let thin = spec("sk,kn->sn", &[&[3, 30], &[30, 90]]);
        check(&thin, thin.space(), 2, &[(0, 2), (2, 3)], 0);
        let thin = spec("sk,kn->sn", &[&[3, 400], &[400, 90]]);
        let form = Form::finished(DType::F32, 2);
        let columns = |axis: usize| match axis {
            1 => Columns::Of { together: 32, each: 1, rows: 3 },
            _ => Columns::Beside { rows: 3 },
        };
        let apart = Parts::cut(&[(&thin, &thin.space())], &form, 2, 8, &columns).expect("ninety columns");
        assert_eq!((apart.apart, apart.columns), (Some([360, 256]), true));
        let columns: Vec<Interval> = apart.all.iter().map(|(labels, _)| labels[0].0[1]).collect();
        assert_eq!(columns, [Interval::new(0, 64), Interval::new(64, 90)]);
        // A label in threes.
        let mut threes = product.clone();
        threes.labels[1].rule = Rule::MultipleOf(3);
        check(&threes, Region::of(&[(0, 1), (0, 7), (0, 9), (0, 5)]), 4, &[(0, 3), (3, 6), (6, 7)], 1);
        check(&threes, Region::of(&[(0, 1), (1, 7), (0, 9), (0, 5)]), 4, &[], 1);
    }

    #[test]
    fn parts_that_read_nothing_twice_are_more() {
        let cut = |spec: &Spec, most: usize| {
            let form = Form::finished(DType::F32, spec.rank);
            Parts::cut(&[(spec, &spec.space())], &form, 2, most, &|_| Columns::None).map(|parts| parts.all.len())
        };
        // Batches of products, each with factors of its own.
        let batched = spec("bsk,bkn->bsn", &[&[16, 7, 5], &[16, 5, 9]]);
        assert_eq!([2, 3, 7, 100].map(|most| cut(&batched, most)), [Some(2), Some(3), Some(6), Some(8)]);
        // Rows that all read one weight.
        assert_eq!(cut(&spec("sk,kn->sn", &[&[64, 30], &[30, 9]]), 100), Some(2));
    }

    #[test]
    fn several_fields_and_whole_labels_are_not_cut() {
        let product = spec("ik,kn->in", &[&[8, 5], &[5, 9]]);
        let pending = Monoid::Moments.pending(DType::F32, 2, false);
        assert_eq!(Parts::cut(&[(&product, &product.space())], &pending, 2, 8, &|_| Columns::None), None);
        let mut whole = product.clone();
        whole.labels[0].role = Role::Whole;
        assert_eq!(
            Parts::cut(&[(&whole, &whole.space())], &Form::finished(DType::F32, 2), 2, 8, &|_| Columns::None),
            None
        );
        // Nothing worth a part is cut, whatever the host.
        assert_eq!(
            Parts::of(&[(&product, &product.space())], &Form::finished(DType::F32, 2), 1, &|_| Columns::None),
            None
        );
    }

    #[test]
    fn parts_that_are_made_apart_are_put_in_their_places() {
        let thin = spec("sk,kn->sn", &[&[3, 400], &[400, 90]]);
        let form = Form::finished(DType::F32, 2);
        let parts = Parts::cut(&[(&thin, &thin.space())], &form, 4, 4, &|_| Columns::None).expect("ninety columns");
        let mut result = vec![0; form.layout(&Region::whole(&[3, 90])).1];
        let told = parts.run(&mut result, &form, Team::alone(), &|labels, piece, _| {
            let (rows, columns) = (labels[0].0[0], labels[0].0[1]);
            let values = (rows.lo..rows.hi).flat_map(|r| (columns.lo..columns.hi).map(move |c| (100 * r + c) as f32));
            piece.slice::<f32>(0).iter_mut().zip(values).for_each(|(to, value)| *to = value);
            Ok(())
        });
        assert_eq!(told, Ok(()));
        let found: &[f32] = bytemuck::cast_slice(&result);
        let expected: Vec<f32> = (0..3).flat_map(|r| (0..90).map(move |c| (100 * r + c) as f32)).collect();
        assert_eq!(found[..270], expected);
    }

    #[test]
    fn the_first_error_by_place_is_told() {
        let product = spec("ik,kn->in", &[&[8, 5], &[5, 9]]);
        let form = Form::finished(DType::F32, 2);
        let parts = Parts::cut(&[(&product, &product.space())], &form, 4, 4, &|_| Columns::None).expect("eight rows");
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
