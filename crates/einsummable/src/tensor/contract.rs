//! Contractions: `matmul` with `PyTorch`'s rank rules, and `einsum`.

use super::map::broadcast;
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::Expr;
use ein_ir::monoid::Monoid;
use std::collections::{BTreeMap, BTreeSet};

/// The sum of products of `operands`, whose axes are the given labels; the first `rank` labels are the
/// result's axes. An axis of extent 1 is repeated along a longer label.
fn contraction(
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
fn one_type(method: &'static str, operands: &[&Tensor]) -> Result<DType, TensorError> {
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

impl Tensor {
    /// The matrix product, by `torch.matmul`'s rules: vectors are rows at the left and columns at the right
    /// and their axis goes, axes before the last two broadcast.
    pub fn matmul(&self, other: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            one_type("matmul", &[self, other])?;
            let (a, b) = (self.shape(), other.shape());
            let wrong = |reason: String| TensorError::Shape {
                operation: "matmul",
                shapes: vec![a.to_vec(), b.to_vec()],
                reason,
            };
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
            let batch = broadcast("matmul", &[batch_a, batch_b])?;
            let mut labels: Vec<Label> =
                batch.iter().enumerate().map(|(n, &e)| Label::new(format!("b{n}"), e)).collect();
            let aligned = |own: usize| (batch.len() - own..batch.len()).collect::<Vec<_>>();
            let (mut left, mut right) = (aligned(batch_a.len()), aligned(batch_b.len()));
            if a.len() > 1 {
                left.push(labels.len());
                labels.push(Label::new("m", a[a.len() - 2]));
            }
            let column = (b.len() > 1).then(|| {
                labels.push(Label::new("n", b[b.len() - 1]));
                labels.len() - 1
            });
            let rank = labels.len();
            left.push(rank);
            right.push(rank);
            right.extend(column);
            labels.push(Label::new("k", k));
            contraction("matmul", labels, rank, &[(self, left), (other, right)])
        })
    }

    /// `torch.einsum`: letters name axes, `...` stands for any number of axes that broadcast, and without
    /// `->` the result has the letters that occur once, in alphabetic order. Products of more than two
    /// operands are done in the order that costs the fewest multiplications.
    pub fn einsum(spec: &str, operands: &[&Tensor]) -> Tensor {
        Tensor::attempt(|| {
            if operands.is_empty() {
                return Err(TensorError::Einsum { spec: spec.into(), reason: "no operand is given".into() });
            }
            one_type("einsum", operands)?;
            let parsed = Notation::parse(spec, operands)?;
            if operands.len() > MOST_OPERANDS {
                let reason = format!("{} operands; at most {MOST_OPERANDS} are put in order", operands.len());
                return Err(TensorError::Einsum { spec: spec.into(), reason });
            }
            parsed.contract(operands)
        })
    }
}

/// Orders are found by trying every pair of sets of operands: 3^n of them.
const MOST_OPERANDS: usize = 10;

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
            for (&axis, &extent) in axes.iter().zip(shape) {
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
        if let Some(axis) = extents.keys().find(|a| matches!(a, Axis::Under(_)) && !output.contains(a)) {
            return Err(bad(format!("the output must contain `...`, or {} would be summed", describe(*axis))));
        }
        Ok(Self { inputs, output, extents })
    }

    /// Contracts pairs in the cheapest order.
    fn contract(&self, operands: &[&Tensor]) -> Result<Tensor, TensorError> {
        let mut parts: Vec<(Tensor, Vec<Axis>)> = Vec::new();
        for (n, (&tensor, axes)) in operands.iter().zip(&self.inputs).enumerate() {
            // What no other operand and not the output has is summed first, alone.
            let others = |a: &&Axis| {
                self.output.contains(a) || self.inputs.iter().enumerate().any(|(m, o)| m != n && o.contains(a))
            };
            let mut kept: Vec<Axis> = Vec::new();
            for axis in axes.iter().filter(others) {
                if !kept.contains(axis) {
                    kept.push(*axis);
                }
            }
            if operands.len() > 1 && kept != *axes {
                parts.push((self.join(&kept, &[(tensor, axes)])?, kept));
            } else {
                parts.push((tensor.clone(), axes.clone()));
            }
        }
        if parts.len() == 1 {
            let (tensor, axes) = &parts[0];
            return self.join(&self.output, &[(tensor, axes)]);
        }
        let sets: Vec<BTreeSet<Axis>> = parts.iter().map(|p| p.1.iter().copied().collect()).collect();
        let order = Order::best(&sets, &self.output.iter().copied().collect(), &self.extents);
        self.follow(&order, (1 << parts.len()) - 1, &parts).map(|p| p.0)
    }

    /// The product of the operands in `set`, by the order found.
    fn follow(
        &self,
        order: &Order,
        set: usize,
        parts: &[(Tensor, Vec<Axis>)],
    ) -> Result<(Tensor, Vec<Axis>), TensorError> {
        if set.is_power_of_two() {
            return Ok(parts[set.trailing_zeros() as usize].clone());
        }
        let (a, b) = order.pairs[set];
        let (left, right) = (self.follow(order, a, parts)?, self.follow(order, b, parts)?);
        let axes: Vec<Axis> = if set + 1 == 1 << parts.len() {
            self.output.clone()
        } else {
            let mut axes: Vec<Axis> = Vec::new();
            for axis in left.1.iter().chain(&right.1) {
                if order.kept[set].contains(axis) && !axes.contains(axis) {
                    axes.push(*axis);
                }
            }
            axes
        };
        let tensor = self.join(&axes, &[(&left.0, &left.1), (&right.0, &right.1)])?;
        Ok((tensor, axes))
    }

    /// One contraction to `output`; a mere renaming of axes is a view.
    fn join(&self, output: &[Axis], operands: &[(&Tensor, &Vec<Axis>)]) -> Result<Tensor, TensorError> {
        if let [(tensor, axes)] = operands
            && axes.len() == output.len()
            && output.iter().all(|a| axes.contains(a))
        {
            let at = |a: &Axis| axes.iter().position(|x| x == a).expect("contained") as i64;
            return Ok(tensor.permute(&output.iter().map(at).collect::<Vec<_>>()));
        }
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

/// For every set of operands, as bits, the two sets whose contraction gives it most cheaply.
struct Order {
    pairs: Vec<(usize, usize)>,
    kept: Vec<BTreeSet<Axis>>,
}

impl Order {
    fn best(sets: &[BTreeSet<Axis>], output: &BTreeSet<Axis>, extents: &BTreeMap<Axis, usize>) -> Self {
        let all = 1 << sets.len();
        let union = |bits: usize| -> BTreeSet<Axis> {
            (0..sets.len()).filter(|n| bits >> n & 1 == 1).flat_map(|n| sets[n].iter().copied()).collect()
        };
        // What a set's product keeps: axes of its own that the output or an operand outside has.
        let kept: Vec<BTreeSet<Axis>> = (0..all)
            .map(|bits| {
                let outside = union(all - 1 - bits);
                union(bits).into_iter().filter(|a| output.contains(a) || outside.contains(a)).collect()
            })
            .collect();
        let mut cost = vec![0.0_f64; all];
        let mut pairs = vec![(0, 0); all];
        for bits in 1..all {
            if bits.count_ones() < 2 {
                continue;
            }
            let mut best = f64::INFINITY;
            let mut a = (bits - 1) & bits;
            while a > 0 {
                let b = bits ^ a;
                // Each pair once: the side with the lowest operand comes first.
                if a & (bits & bits.wrapping_neg()) != 0 {
                    let space: f64 = kept[a].union(&kept[b]).map(|x| extents[x] as f64).product();
                    let total = cost[a] + cost[b] + space;
                    if total < best {
                        best = total;
                        pairs[bits] = (a, b);
                    }
                }
                a = (a - 1) & bits;
            }
            cost[bits] = best;
        }
        Self { pairs, kept }
    }
}
