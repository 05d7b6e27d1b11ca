//! Einsums: `out[o] = fold over a of join(x1[..], …, xk[..])`.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::monoid::Monoid;
use crate::region::{Interval, Region};

/// A named axis of an operation's index space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// Its name, unique within the operation.
    pub name: String,
    /// Its size.
    pub extent: usize,
}

impl Label {
    /// A label.
    pub fn new(name: impl Into<String>, extent: usize) -> Self {
        Self { name: name.into(), extent }
    }
}

/// An index as an affine function of labels: `offset + sum of stride * label`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Affine {
    /// `(label, stride)`; a label occurs at most once, a stride is not 0.
    pub terms: Vec<(usize, i64)>,
    /// The index at label values 0.
    pub offset: i64,
}

impl Affine {
    /// Whether the index depends on a label.
    pub fn depends_on(&self, label: usize) -> bool {
        self.terms.iter().any(|term| term.0 == label)
    }

    /// Whether different values of the labels, which have so many each, can give the same index, as in a convolution (and
    /// not in `64*h + d`): not where each label steps over all that the labels of smaller steps reach.
    pub fn overlaps(&self, extent: impl Fn(usize) -> usize) -> bool {
        let mut terms: Vec<(i64, usize)> = self.terms.iter().map(|&(l, step)| (step.abs(), extent(l))).collect();
        // A label of one value moves nothing.
        terms.retain(|t| t.1 > 1);
        terms.sort_unstable();
        let mut reach = 0;
        for (step, extent) in terms {
            if step <= reach {
                return true;
            }
            reach += step * (extent as i64 - 1);
        }
        false
    }

    /// The index that is a label.
    pub fn label(label: usize) -> Self {
        Self { terms: vec![(label, 1)], offset: 0 }
    }

    /// A fixed index.
    pub fn constant(offset: i64) -> Self {
        Self { terms: Vec::new(), offset }
    }

    /// The label, when the index is exactly one label.
    pub fn as_label(&self) -> Option<usize> {
        match (self.terms.as_slice(), self.offset) {
            ([(label, 1)], 0) => Some(*label),
            _ => None,
        }
    }

    /// The index at a point of label space.
    pub fn at(&self, point: &[usize]) -> i64 {
        self.offset + self.terms.iter().map(|&(l, s)| s * point[l] as i64).sum::<i64>()
    }

    /// The smallest interval that holds every index over a region of labels. Empty if the region is
    /// empty on a label that occurs.
    pub fn interval(&self, labels: &Region) -> Interval {
        let (mut lo, mut hi) = (self.offset, self.offset);
        for &(label, stride) in &self.terms {
            let i = labels.0[label];
            if i.is_empty() {
                return Interval::new(0, 0);
            }
            let (first, last) = (stride * i.lo as i64, stride * (i.hi as i64 - 1));
            lo += first.min(last);
            hi += first.max(last);
        }
        Interval::new(lo.max(0) as usize, (hi + 1).max(0) as usize)
    }
}

/// How one operand is read: an affine index for each of its axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// One index per axis of the operand.
    pub axes: Vec<Affine>,
}

impl Access {
    /// Whether what is read depends on a label.
    pub fn depends_on(&self, label: usize) -> bool {
        self.axes.iter().any(|axis| axis.depends_on(label))
    }

    /// The access whose axes are labels.
    pub fn labels(labels: &[usize]) -> Self {
        Self { axes: labels.iter().map(|&l| Affine::label(l)).collect() }
    }
}

/// `out[o] = fold over a of join(x1[π1(o,a)], …)`. Output labels come first: `labels[..rank]` are the
/// result's axes in order, the others are folded with `monoid`.
///
/// Elementwise maps, broadcasts, reductions, contractions, diagonals and windows are all this. When the
/// monoid stacks its fields ([`Monoid::stacked`]) the result has one more, last, axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Einsum {
    /// The index space, output labels first.
    pub labels: Vec<Label>,
    /// Number of output labels.
    pub rank: usize,
    /// One per operand.
    pub accesses: Vec<Access>,
    /// What to do with one element of each operand.
    pub join: Expr,
    /// How folded labels combine. Irrelevant (write `Sum`) when there are none.
    pub monoid: Monoid,
    /// The result's type. The join's value is converted to its accumulator before folding, the folded
    /// value to `dtype` at the end.
    pub dtype: DType,
}

impl Einsum {
    /// Shape of the result.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape: Vec<usize> = self.labels[..self.rank].iter().map(|l| l.extent).collect();
        if self.folds() {
            shape.extend(self.monoid.stacked());
        }
        shape
    }

    /// Whether any label is folded. A `Moments` or `SoftMax` einsum always folds, be it over nothing.
    pub fn folds(&self) -> bool {
        self.labels.len() > self.rank || self.monoid.stacked().is_some()
    }

    /// The whole index space.
    pub fn space(&self) -> Region {
        Region(self.labels.iter().map(|l| Interval::new(0, l.extent)).collect())
    }

    /// A contraction from a string such as `bsk,nk->bsn`: one letter a label, product of the operands,
    /// summed. A repeated letter in one operand is its diagonal. `shapes` are the operands' shapes.
    pub fn contraction(spec: &str, shapes: &[&[usize]], dtype: DType) -> Result<Self, EinsumError> {
        let bad = |reason: &str| EinsumError::Notation { spec: spec.into(), reason: reason.into() };
        let (left, right) = spec.split_once("->").ok_or_else(|| bad("it has no `->`"))?;
        let inputs: Vec<&str> = left.split(',').map(str::trim).collect();
        if inputs.len() != shapes.len() {
            return Err(bad(&format!("it names {} operands but {} are given", inputs.len(), shapes.len())));
        }
        let mut names: Vec<char> = Vec::new();
        for c in right.trim().chars().chain(inputs.iter().flat_map(|s| s.chars())) {
            if !c.is_ascii_alphabetic() {
                return Err(bad(&format!("`{c}` is not a letter")));
            }
            if !names.contains(&c) {
                names.push(c);
            }
        }
        let rank = right.trim().chars().count();
        if names.iter().take(rank).collect::<String>() != right.trim() {
            return Err(bad("an output letter occurs twice"));
        }
        let mut extents: Vec<Option<usize>> = vec![None; names.len()];
        let mut accesses = Vec::new();
        for (n, (input, shape)) in inputs.iter().zip(shapes).enumerate() {
            if input.chars().count() != shape.len() {
                let (named, rank) = (input.to_string(), shape.len());
                return Err(EinsumError::Axes { spec: spec.into(), operand: n, rank, named });
            }
            let mut labels = Vec::new();
            for (c, &extent) in input.chars().zip(shape.iter()) {
                let label = names.iter().position(|&x| x == c).expect("collected above");
                if let Some(first) = extents[label].filter(|&first| first != extent) {
                    return Err(EinsumError::Extent { label: c.to_string(), first, second: extent, operand: n });
                }
                extents[label] = Some(extent);
                labels.push(label);
            }
            accesses.push(Access::labels(&labels));
        }
        let mut labels = Vec::new();
        for (name, extent) in names.iter().zip(extents) {
            let extent = extent.ok_or_else(|| bad(&format!("output letter `{name}` is in no operand")))?;
            labels.push(Label::new(name.to_string(), extent));
        }
        let join = Expr::product(shapes.len(), dtype);
        Ok(Self { labels, rank, accesses, join, monoid: Monoid::Sum, dtype })
    }
}

/// Why an einsum is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EinsumError {
    /// The string is not in einsum notation.
    #[error("einsum `{spec}`: {reason}")]
    Notation {
        /// The string.
        spec: String,
        /// What is wrong.
        reason: String,
    },
    /// A part of the string does not name as many axes as its operand has.
    #[error("einsum `{spec}`: operand {operand} has rank {rank} but `{named}` names {} axes", named.chars().count())]
    Axes {
        /// The string.
        spec: String,
        /// Which operand.
        operand: usize,
        /// How many axes it has.
        rank: usize,
        /// What stands for it in the string.
        named: String,
    },
    /// A label has two extents.
    #[error("label `{label}` is {first} long in one operand and {second} in operand {operand}")]
    Extent {
        /// The label.
        label: String,
        /// Extent first seen.
        first: usize,
        /// The other extent.
        second: usize,
        /// Operand with the other extent.
        operand: usize,
    },
}
