//! Contractions: `matmul` with `PyTorch`'s rank rules, and `einsum`.

mod order;

use super::map::{broadcast, written};
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::Expr;
use ein_ir::monoid::Monoid;
use order::{Axes, cheapest};
use std::collections::BTreeMap;

/// The sum of products of `operands`, whose axes are the given labels; the first `rank` labels are the
/// result's axes. An axis of extent 1 is repeated along a longer label.
pub(crate) fn contraction(
    method: &'static str,
    labels: Vec<Label>,
    rank: usize,
    operands: &[(&Tensor, Vec<usize>)],
) -> Result<Tensor, TensorError> {
    let dtype = one_type(method, &operands.iter().map(|o| o.0).collect::<Vec<_>>())?;
    let accesses = operands
        .iter()
        .map(|(tensor, axes)| {
            let index = |(&label, &extent): (&usize, &usize)| {
                if extent == labels[label].extent { Affine::label(label) } else { Affine::constant(0) }
            };
            Access { axes: axes.iter().zip(tensor.shape()).map(index).collect() }
        })
        .collect();
    let join = Expr::product(operands.len(), dtype);
    let einsum = Einsum { labels, rank, accesses, join, monoid: Monoid::Sum, dtype };
    Ok(Tensor::row_einsum(method, einsum, &operands.iter().map(|o| o.0).collect::<Vec<_>>()))
}

/// The one numeric type of all operands.
pub(crate) fn one_type(method: &'static str, operands: &[&Tensor]) -> Result<DType, TensorError> {
    let mut dtypes = Vec::new();
    for t in operands {
        dtypes.push(t.ty()?.dtype);
    }
    let first = dtypes[0];
    if dtypes.iter().any(|&d| d != first) {
        let reason = "all operands must have one type; convert with `.to`".into();
        return Err(TensorError::Type { operation: method, dtypes, reason });
    }
    if first == DType::Bool {
        let reason = "sums of bools have no type; convert with `.to`".into();
        return Err(TensorError::Type { operation: method, dtypes, reason });
    }
    Ok(first)
}

/// The matrix product by `torch.matmul`'s rules.
pub(crate) fn product(method: &'static str, left: &Tensor, right: &Tensor) -> Result<Tensor, TensorError> {
    one_type(method, &[left, right])?;
    let (a, b) = (left.shape(), right.shape());
    let wrong = |reason: String| TensorError::Shape { operation: method, shapes: vec![a.to_vec(), b.to_vec()], reason };
    if a.is_empty() || b.is_empty() {
        return Err(wrong("both need an axis; multiply numbers with `*`".into()));
    }
    let k = a[a.len() - 1];
    let contracted = b[b.len().saturating_sub(2)];
    if k != contracted {
        let axis = if b.len() == 1 { -1 } else { -2 };
        return Err(wrong(format!("axis -1 of the first is {k} long, axis {axis} of the second {contracted}")));
    }
    let (batch_a, batch_b) = (&a[..a.len().saturating_sub(2)], &b[..b.len().saturating_sub(2)]);
    let batch = broadcast(method, &[batch_a, batch_b])?;
    let mut labels: Vec<Label> = batch.iter().enumerate().map(|(n, &e)| Label::new(format!("b{n}"), e)).collect();
    let aligned = |own: usize| (batch.len() - own..batch.len()).collect::<Vec<_>>();
    let (mut rows, mut columns) = (aligned(batch_a.len()), aligned(batch_b.len()));
    if a.len() > 1 {
        rows.push(labels.len());
        labels.push(Label::new("m", a[a.len() - 2]));
    }
    let column = (b.len() > 1).then(|| {
        labels.push(Label::new("n", b[b.len() - 1]));
        labels.len() - 1
    });
    let rank = labels.len();
    rows.push(rank);
    columns.push(rank);
    columns.extend(column);
    labels.push(Label::new("k", k));
    contraction(method, labels, rank, &[(left, rows), (right, columns)])
}

impl Tensor {
    /// The matrix product, by `torch.matmul`'s rules: vectors are rows at the left and columns at the right
    /// and their axis goes, axes before the last two broadcast.
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| product("matmul", self, other))
    }

    /// `torch.einsum`: letters name axes, `...` stands for any number of axes that broadcast, and without
    /// `->` the result has `...` and the letters that occur once, in alphabetic order. What is not in the result is
    /// summed. An axis of extent 1 is repeated along a longer one of its letter. Products of more than two operands
    /// are done in the order that costs the fewest multiplications. Sums of one operand's integers give `I64`.
    pub fn einsum(spec: &str, operands: &[&Tensor]) -> Tensor {
        Tensor::attempt(|| {
            if operands.is_empty() {
                return Err(TensorError::Einsum { spec: spec.into(), reason: "no operand is given".into() });
            }
            if let [one] = operands {
                return Notation::parse(spec, operands)?.alone(one);
            }
            one_type("einsum", operands)?;
            Notation::parse(spec, operands)?.contract(operands)
        })
    }
}

/// An axis of an einsum string: a letter, or an axis under `...` counted from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    Under(std::cmp::Reverse<usize>),
    Letter(char),
}

struct Notation {
    inputs: Vec<Vec<Axis>>,
    output: Vec<Axis>,
    extents: BTreeMap<Axis, usize>,
}

/// A tensor whose axes are known.
type Part = (Tensor, Vec<Axis>);

impl Notation {
    fn parse(spec: &str, operands: &[&Tensor]) -> Result<Self, TensorError> {
        let bad = |reason: String| TensorError::Einsum { spec: spec.into(), reason };
        let clean: String = spec.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match clean.split_once("->") {
            Some((l, r)) => (l, Some(r)),
            None => (clean.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != operands.len() {
            return Err(bad(format!("it names {} operands but {} are given", terms.len(), operands.len())));
        }
        let mut extents: BTreeMap<Axis, usize> = BTreeMap::new();
        let mut inputs = Vec::new();
        for (n, (term, tensor)) in terms.iter().zip(operands).enumerate() {
            let shape = &tensor.ty()?.shape;
            let letters = term.replace("...", "").chars().count();
            let under = shape.len().checked_sub(letters);
            let under = under
                .filter(|&u| u == 0 || term.contains("..."))
                .ok_or_else(|| bad(format!("operand {n} has shape {shape:?}, but `{term}` names {letters} axes")))?;
            let axes = axes(term, under).map_err(bad)?;
            for (at, (&axis, &extent)) in axes.iter().zip(shape).enumerate() {
                let before = axes[..at].iter().position(|a| *a == axis).map(|first| shape[first]);
                if let Some(before) = before.filter(|&b| b != extent) {
                    let what = describe(axis);
                    return Err(bad(format!(
                        "{what} is {before} and {extent} long in operand {n}, of which it is the diagonal"
                    )));
                }
                let known = extents.entry(axis).or_insert(extent);
                if *known == 1 {
                    *known = extent;
                } else if extent != 1 && extent != *known {
                    return Err(bad(format!(
                        "{} is {known} long in one operand and {extent} in operand {n}",
                        describe(axis)
                    )));
                }
            }
            inputs.push(axes);
        }
        let most = extents.keys().filter(|a| matches!(a, Axis::Under(_))).count();
        let output = if let Some(text) = right {
            axes(text, most).map_err(bad)?
        } else {
            let once = |axis: &Axis| match axis {
                Axis::Under(_) => true,
                Axis::Letter(_) => inputs.iter().flatten().filter(|a| *a == axis).count() == 1,
            };
            extents.keys().copied().filter(once).collect()
        };
        for (n, axis) in output.iter().enumerate() {
            if output[..n].contains(axis) {
                return Err(bad(format!("{} occurs twice in the output", describe(*axis))));
            }
            if !extents.contains_key(axis) {
                return Err(bad(format!("{} of the output is in no operand", describe(*axis))));
            }
        }
        Ok(Self { inputs, output, extents })
    }

    /// One operand's diagonals and permutations, which any type has, and sums.
    fn alone(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        let axes = &self.inputs[0];
        let kept = |a: &Axis| self.output.contains(a);
        // Two steps, as a diagonal has its operand's type and a sum a type of its own.
        let mut distinct = Vec::new();
        for &axis in axes {
            if !distinct.contains(&axis) {
                distinct.push(axis);
            }
        }
        let mut value = tensor.clone();
        if distinct.len() < axes.len() {
            let shape: Vec<usize> = distinct.iter().map(|a| self.extents[a]).collect();
            let position = |a: &Axis| distinct.iter().position(|d| d == a).expect("collected");
            let access = Access { axes: axes.iter().map(position).map(Affine::label).collect() };
            value = written("einsum", &shape, vec![access], &[tensor], |_, x| x[0])?;
        }
        let summed: Vec<i64> = (0..distinct.len()).filter(|&n| !kept(&distinct[n])).map(|n| n as i64).collect();
        if !summed.is_empty() {
            value = value.sum(&summed, false);
        }
        let left: Vec<Axis> = distinct.into_iter().filter(kept).collect();
        let at = |a: &Axis| left.iter().position(|l| l == a).expect("it is kept") as i64;
        Ok(value.permute(&self.output.iter().map(at).collect::<Vec<_>>()))
    }

    /// Contracts pairs in the cheapest order.
    fn contract(&self, operands: &[&Tensor]) -> Result<Tensor, TensorError> {
        let mut parts: Vec<Option<Part>> = Vec::new();
        for (n, &tensor) in operands.iter().enumerate() {
            parts.push(Some(self.prepared(n, tensor)?));
        }
        let all: Vec<Axis> = self.extents.keys().copied().collect();
        let bit = |a: &Axis| 1 << all.iter().position(|x| x == a).expect("every axis is known");
        let bits = |axes: &[Axis]| axes.iter().map(bit).fold(0, |set, b: Axes| set | b);
        let sets: Vec<Axes> = parts.iter().flatten().map(|p| bits(&p.1)).collect();
        let extents: Vec<usize> = all.iter().map(|a| self.extents[a]).collect();
        let pairs = cheapest(&sets, bits(&self.output), &extents);
        let last = pairs.len() - 1;
        for (n, &(a, b)) in pairs.iter().enumerate() {
            let (left, right) = (parts[a].take().expect("used once"), parts[b].take().expect("used once"));
            let mut axes: Vec<Axis> = Vec::new();
            if n == last {
                axes.clone_from(&self.output);
            } else {
                let needed = |a: &Axis| self.output.contains(a) || parts.iter().flatten().any(|p| p.1.contains(a));
                for axis in left.1.iter().chain(&right.1).filter(|a| needed(a)) {
                    if !axes.contains(axis) {
                        axes.push(*axis);
                    }
                }
            }
            let tensor = self.join(&axes, &[(&left.0, &left.1), (&right.0, &right.1)])?;
            parts.push(Some((tensor, axes)));
        }
        Ok(parts.pop().flatten().expect("the last product").0)
    }

    /// An operand without what only it has, which is summed first, and without axes of extent 1 that others have
    /// longer.
    fn prepared(&self, n: usize, tensor: &Tensor) -> Result<Part, TensorError> {
        let axes = &self.inputs[n];
        let repeated: Vec<usize> = (0..axes.len()).filter(|&a| tensor.shape()[a] != self.extents[&axes[a]]).collect();
        let axes: Vec<Axis> = (0..axes.len()).filter(|a| !repeated.contains(a)).map(|a| axes[a]).collect();
        let tensor = if repeated.is_empty() {
            tensor.clone()
        } else {
            tensor.squeeze(&repeated.iter().map(|&a| a as i64).collect::<Vec<_>>())
        };
        let others =
            |a: &&Axis| self.output.contains(a) || self.inputs.iter().enumerate().any(|(m, o)| m != n && o.contains(a));
        let mut kept: Vec<Axis> = Vec::new();
        for axis in axes.iter().filter(others) {
            if !kept.contains(axis) {
                kept.push(*axis);
            }
        }
        if kept == axes {
            return Ok((tensor, axes));
        }
        Ok((self.join(&kept, &[(&tensor, &axes)])?, kept))
    }

    /// One contraction to `output`.
    fn join(&self, output: &[Axis], operands: &[(&Tensor, &Vec<Axis>)]) -> Result<Tensor, TensorError> {
        let mut order = output.to_vec();
        for axis in operands.iter().flat_map(|o| o.1) {
            if !order.contains(axis) {
                order.push(*axis);
            }
        }
        let labels = order.iter().map(|a| Label::new(label(*a), self.extents[a])).collect();
        let position = |a: &Axis| order.iter().position(|x| x == a).expect("collected");
        let operands: Vec<(&Tensor, Vec<usize>)> =
            operands.iter().map(|(t, axes)| (*t, axes.iter().map(position).collect())).collect();
        contraction("einsum", labels, output.len(), &operands)
    }
}

/// The axes that one term names, `under` of them under its `...`.
fn axes(term: &str, under: usize) -> Result<Vec<Axis>, String> {
    let mut found = Vec::new();
    let mut rest = term;
    let mut dots = false;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            if dots {
                return Err(format!("`...` occurs twice in `{term}`"));
            }
            dots = true;
            found.extend((0..under).rev().map(|n| Axis::Under(std::cmp::Reverse(n))));
            rest = after;
        } else if c.is_ascii_alphabetic() {
            found.push(Axis::Letter(c));
            rest = &rest[1..];
        } else {
            return Err(format!("`{c}` in `{term}` is neither a letter nor `...`"));
        }
    }
    Ok(found)
}

fn label(axis: Axis) -> String {
    match axis {
        Axis::Letter(c) => c.to_string(),
        Axis::Under(n) => format!("_{}", n.0),
    }
}

fn describe(axis: Axis) -> String {
    match axis {
        Axis::Letter(c) => format!("letter `{c}`"),
        Axis::Under(n) => format!("axis -{} under `...`", n.0 + 1),
    }
}
