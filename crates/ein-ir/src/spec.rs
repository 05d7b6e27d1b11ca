//! The join-agg spec: everything the planner knows of an operation.

use crate::dtype::DType;
use crate::einsum::{Affine, Einsum};
use crate::monoid::Monoid;
use crate::op::Op;
use crate::region::{Interval, Region};

/// What cutting a label does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Cuts the result; operands that lack the label are replicated.
    Free,
    /// Leaves partials of the operation's monoid.
    Fold,
    /// Needs a halo of the operand; otherwise like `Free` or, beyond `rank`, like `Fold`.
    Window,
    /// Is not to be cut.
    Whole,
}

/// Where a label may be cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Anywhere.
    Any,
    /// At multiples of a quantum.
    MultipleOf(usize),
}

/// One label of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSpec {
    /// Name.
    pub name: String,
    /// Size.
    pub extent: usize,
    /// What cutting it does.
    pub role: Role,
    /// Where it may be cut.
    pub rule: Rule,
    /// Offsets at which a cut is preferred: a hint, never a condition.
    pub prefer: Option<usize>,
}

/// How one axis of an operand follows from the labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AxisMap {
    /// An affine function of labels.
    Affine(Affine),
    /// `label / by`, rounded down: query heads that share a key/value head.
    Div {
        /// The label.
        label: usize,
        /// The divisor.
        by: usize,
    },
    /// The key label, but only what some query of the block sees.
    Band(Band),
}

/// Which keys a query sees: those with `key < query + 1 + offset`, and of these the last `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// The key label.
    pub key: usize,
    /// The query label.
    pub query: usize,
    /// How far behind the last key the first query stands.
    pub offset: i64,
    /// How many keys at most.
    pub window: Option<usize>,
}

impl Band {
    /// The keys of an interval that some query of an interval sees.
    pub fn seen(&self, queries: Interval, keys: Interval) -> Interval {
        let end = (queries.hi as i64 + self.offset).max(0) as usize;
        let start = self.window.map_or(0, |w| (queries.lo as i64 + 1 + self.offset - w as i64).max(0) as usize);
        let lo = keys.lo.max(start).min(keys.hi);
        Interval::new(lo, keys.hi.min(end).max(lo))
    }

    /// Pairs of a query and a key that it sees.
    pub fn pairs(&self, queries: Interval, keys: Interval) -> f64 {
        let beyond = self.window.map_or(0.0, |w| causal_pairs(keys, queries, self.offset - w as i64));
        causal_pairs(keys, queries, self.offset) - beyond
    }
}

impl AxisMap {
    /// Whether the indices needed depend on where a label is cut.
    pub fn depends_on(&self, label: usize) -> bool {
        match self {
            Self::Affine(a) => a.depends_on(label),
            Self::Div { label: own, .. } => *own == label,
            Self::Band(band) => band.key == label || band.query == label,
        }
    }

    /// The indices needed for a region of labels.
    pub fn interval(&self, labels: &Region) -> Interval {
        match self {
            Self::Affine(a) => a.interval(labels),
            Self::Div { label, by } => {
                let i = labels.0[*label];
                if i.is_empty() { Interval::new(0, 0) } else { Interval::new(i.lo / by, (i.hi - 1) / by + 1) }
            }
            Self::Band(band) => band.seen(labels.0[band.query], labels.0[band.key]),
        }
    }
}

/// What one operand must supply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperandSpec {
    /// One map per axis.
    pub axes: Vec<AxisMap>,
    /// Whether a *value* of another operand says which elements are read.
    pub by_index: bool,
}

/// How much a point of label space costs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    /// Arithmetic operations per point of the label space (2 for a contraction).
    pub operations_per_point: usize,
    /// Count only points whose query sees the key.
    pub band: Option<Band>,
    /// Labels that do not multiply the work (the row label of a gather).
    pub free_labels: Vec<usize>,
    /// Whether this is tensor-core work (contractions, attention) rather than a memory-bound map; the
    /// `bytes` objective balances these only.
    pub contraction: bool,
    /// Type in which the operations are done.
    pub dtype: DType,
}

impl Work {
    /// The work of what is done point by point and is no contraction.
    pub(crate) fn of_points(operations_per_point: usize, free_labels: Vec<usize>, dtype: DType) -> Self {
        Self { operations_per_point, band: None, free_labels, contraction: false, dtype }
    }
}

/// An operation's join-agg spec. Output labels come first; result axis `n` is label `n`, plus, when
/// `stacked`, one last axis that is never cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Extent, role and rule of every label.
    pub labels: Vec<LabelSpec>,
    /// Number of labels that are axes of the result.
    pub rank: usize,
    /// Label region to tensor region, for every operand.
    pub operands: Vec<OperandSpec>,
    /// How partials combine when a fold label is cut.
    pub monoid: Monoid,
    /// Extent of the extra last axis of the result.
    pub stacked: Option<usize>,
    /// Type of the result.
    pub dtype: DType,
    /// Operations of a region.
    pub work: Work,
    /// Types of the operands, for their bytes.
    pub operand_dtypes: Vec<DType>,
}

impl Spec {
    /// The whole label space.
    pub fn space(&self) -> Region {
        Region(self.labels.iter().map(|l| Interval::new(0, l.extent)).collect())
    }

    /// The region of operand `n` that a block over `labels` reads. Empty when it reads nothing.
    pub fn operand_region(&self, n: usize, labels: &Region) -> Region {
        Region(self.operands[n].axes.iter().map(|a| a.interval(labels)).collect())
    }

    /// The region of the result that a block over `labels` writes.
    pub fn result_region(&self, labels: &Region) -> Region {
        let mut axes = labels.0[..self.rank].to_vec();
        axes.extend(self.stacked.map(|n| Interval::new(0, n)));
        Region(axes)
    }

    /// Where a block's partial lies along the axis in whose order partials are folded; `None` where any order will do. A spec
    /// of an ordered monoid has one folded label.
    pub fn place(&self, labels: &Region) -> Option<Interval> {
        self.monoid.is_ordered().then(|| labels.0[self.rank])
    }

    /// Whether a block covers every folded label, so that its result is not a partial.
    pub fn is_complete(&self, labels: &Region) -> bool {
        self.labels.iter().zip(&labels.0).skip(self.rank).all(|(l, i)| i.len() == l.extent)
    }

    /// Points of label space that a block works on.
    pub fn points(&self, labels: &Region) -> f64 {
        let volume = |skip: &[usize]| {
            let kept = labels.0.iter().enumerate().filter(|(n, _)| !skip.contains(n));
            kept.map(|(_, i)| i.len() as f64).product::<f64>()
        };
        match self.work.band {
            None => volume(&self.work.free_labels),
            Some(band) => {
                let mut skip = self.work.free_labels.clone();
                skip.extend([band.key, band.query]);
                volume(&skip) * band.pairs(labels.0[band.query], labels.0[band.key])
            }
        }
    }

    /// Arithmetic operations of a block.
    pub fn operations(&self, labels: &Region) -> f64 {
        self.points(labels) * self.work.operations_per_point as f64
    }

    /// Bytes a block must at least read and write: each operand region and the result once. Rows read by
    /// index count once for every result row, not the whole table.
    pub fn bytes(&self, labels: &Region) -> f64 {
        let result = self.result_region(labels).volume() as f64 * self.dtype.bytes() as f64;
        let operands: f64 = (0..self.operands.len())
            .map(|n| {
                let bytes = self.operand_region(n, labels).volume() as f64 * self.operand_dtypes[n].bytes() as f64;
                if self.operands[n].by_index { bytes.min(result) } else { bytes }
            })
            .sum();
        result + operands
    }
}

/// Pairs with `key < query + 1 + offset`.
fn causal_pairs(key: Interval, query: Interval, offset: i64) -> f64 {
    // Query q sees min(max(q + 1 + offset - key.lo, 0), key.len()) keys: 0, then a ramp, then all.
    let seen = |q: i64| (q + 1 + offset - key.lo as i64).clamp(0, key.len() as i64);
    let (lo, hi) = (query.lo as i64, query.hi as i64);
    if hi <= lo {
        return 0.0;
    }
    let ramp_lo = (key.lo as i64 - offset).clamp(lo, hi);
    let ramp_hi = (key.hi as i64 - offset - 1).clamp(ramp_lo, hi);
    let ramp = if ramp_hi > ramp_lo {
        (seen(ramp_lo) + seen(ramp_hi - 1)) as f64 * (ramp_hi - ramp_lo) as f64 / 2.0
    } else {
        0.0
    };
    ramp + (hi - ramp_hi) as f64 * key.len() as f64
}

/// A label that may be cut anywhere.
pub(crate) fn label(name: &str, extent: usize, role: Role) -> LabelSpec {
    LabelSpec { name: name.into(), extent, role, rule: Rule::Any, prefer: None }
}

/// Axes that are labels.
pub(crate) fn affine(labels: &[usize]) -> Vec<AxisMap> {
    labels.iter().map(|&l| AxisMap::Affine(Affine::label(l))).collect()
}

impl Op {
    /// The spec of an operation that computes, given its operands' types; `None` for inputs and views.
    pub fn spec(&self, operands: &[DType]) -> Option<Spec> {
        let mut spec = match self {
            Self::Input(_) | Self::View(_) => return None,
            Self::Einsum(e) => einsum_spec(e),
            Self::Kernel(kernel) => kernel.spec(),
        };
        spec.operand_dtypes = operands.to_vec();
        Some(spec)
    }
}

fn einsum_spec(e: &Einsum) -> Spec {
    // A label is a window label where it shares an axis with another label.
    let windowed = |n: usize| {
        e.accesses
            .iter()
            .flat_map(|a| &a.axes)
            .any(|x| x.terms.len() > 1 && x.depends_on(n) && x.overlaps(|l| e.labels[l].extent))
    };
    let labels = e
        .labels
        .iter()
        .enumerate()
        .map(|(n, l)| {
            let role = if windowed(n) {
                Role::Window
            } else if n < e.rank {
                Role::Free
            } else {
                Role::Fold
            };
            label(&l.name, l.extent, role)
        })
        .collect();
    let contraction = e.labels.len() > e.rank && e.monoid == Monoid::Sum && e.join.multiplies_operands();
    let per_point = e.join.operations() + usize::from(e.labels.len() > e.rank);
    Spec {
        labels,
        rank: e.rank,
        operands: e
            .accesses
            .iter()
            .map(|a| OperandSpec { axes: a.axes.iter().cloned().map(AxisMap::Affine).collect(), by_index: false })
            .collect(),
        monoid: e.monoid,
        stacked: if e.folds() { e.monoid.stacked() } else { None },
        dtype: e.dtype,
        work: Work { operations_per_point: per_point, band: None, free_labels: vec![], contraction, dtype: e.dtype },
        operand_dtypes: Vec::new(),
    }
}
