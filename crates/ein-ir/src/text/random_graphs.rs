//! Graphs with every operation, kernel, setting and row of an expression, drawn for the tests of their text.

use crate::dtype::DType;
use crate::einsum::{Access, Affine, Einsum, Label};
use crate::expr::{Binary, Expr, Literal, RowId, Unary};
use crate::graph::{Graph, GraphError, TensorId, TensorType};
use crate::kernel::{
    Attention, Gather, GatherAlong, Kernel, LastState, Recurrence, Scan, ScanFunction, Scatter, ScatterAlong, TopK,
};
use crate::monoid::{Monoid, Top};
use crate::op::InputKind;
use crate::random::Random;
use crate::view::View;

/// Starts of names: bare ones, words of the language, and what only quotes can hold.
const NAMES: [&str; 17] =
    ["a", "b.c", "x y", "\"", "return", "1", "", "sum", "é\u{1}", "let", "of", "true", "inf", "\n", "#", "cast", "max"];

/// An expression with rows in any order, shared and unused ones among them.
pub(super) fn random_expr(random: &mut Random, operands: &[DType], labels: usize) -> Expr {
    let mut e = Expr::new();
    let mut floats: Vec<f64> = vec![0.1, -0.0, 1e-300, 5e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    floats.extend((0..4).map(|_| f64::from_bits(random.next())));
    for _ in 0..=random.below(14) {
        let rows = e.rows().len();
        let dtype = random.of(&DType::ALL);
        let a = if rows == 0 { 0 } else { random.below(rows) };
        let same: Vec<RowId> = (0..rows).filter(|&r| e.dtype_of(r) == e.dtype_of(a)).collect();
        match random.below(if rows == 0 { 3 } else { 12 }) {
            0 if !operands.is_empty() => {
                let n = random.below(operands.len());
                e.push_operand(n, operands[n]);
            }
            1 if labels > 0 => {
                e.index(random.below(labels));
            }
            0..3 => {
                let float = Literal::float(random.of(&floats));
                let int = Literal::Int(random.of(&[0, 1, -1, 7, i64::MIN, i64::MAX]));
                e.constant(random.of(&[float, int]), dtype);
            }
            3 => {
                e.cast(a, dtype);
            }
            4..6 => {
                // Not every function takes every type.
                let _ = e.unary(random.of(&Unary::ALL), a);
            }
            6 => {
                let conditions: Vec<RowId> = (0..rows).filter(|&r| e.dtype_of(r) == DType::Bool).collect();
                if !conditions.is_empty() {
                    e.select(random.of(&conditions), a, random.of(&same)).expect("equal types");
                }
            }
            _ => {
                let _ = e.binary(random.of(&Binary::ALL), a, random.of(&same));
            }
        }
    }
    if e.rows().is_empty() {
        e.constant(Literal::Int(3), DType::I32);
    }
    e
}

fn shape(random: &mut Random, least: usize) -> Vec<usize> {
    (0..least + random.below(4)).map(|_| if random.below(12) == 0 { 0 } else { 1 + random.below(4) }).collect()
}

/// A view of tensors of one type; it may not fit.
fn random_view(random: &mut Random, shape: &[usize]) -> View {
    let per_axis = |random: &mut Random| shape.iter().map(|_| random.below(3)).collect::<Vec<usize>>();
    match random.below(8) {
        0 => View::Permute { axes: (0..shape.len()).rev().collect() },
        1 => View::Roll { shifts: shape.iter().map(|&n| random.below(n.max(1))).collect() },
        2 => View::Pad {
            before: per_axis(random),
            after: per_axis(random),
            value: random.of(&[0.0f64, -1.5, f64::NAN, f64::NEG_INFINITY]).to_bits() ^ (random.next() & 1),
        },
        3 => View::Slice {
            starts: shape.iter().map(|&n| n.saturating_sub(1)).collect(),
            steps: shape.iter().map(|_| -1).collect(),
            shape: shape.to_vec(),
        },
        4 => View::Slice {
            starts: per_axis(random),
            steps: shape.iter().map(|_| random.of(&[1, 2, -1, 3])).collect(),
            shape: shape.iter().map(|_| random.below(2)).collect(),
        },
        5 => View::Broadcast { shape: [&[1 + random.below(3)], shape].concat() },
        6 => View::Concat { axis: random.below(shape.len() + 1) },
        _ => View::Reshape { shape: vec![1, shape.iter().product()] },
    }
}

/// A kernel; it may be refused.
fn random_kernel(random: &mut Random) -> Kernel {
    let axis = random.below(3);
    let dtype = random.of(&DType::ALL);
    let float = random.of(&[DType::F32, DType::BF16, DType::F64]);
    let monoid = random.of(&[Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min]);
    let own = shape(random, 1);
    match random.below(10) {
        0 => Kernel::Gather(Gather { table: own, axis, ids: shape(random, 0), dtype }),
        1 => Kernel::GatherAlong(GatherAlong { table: own.clone(), axis, ids: own, dtype }),
        2 => Kernel::Scatter(Scatter { source: own, axis, rows: random.below(5), monoid, dtype }),
        3 => Kernel::ScatterAlong(ScatterAlong { source: own, axis, rows: 1 + random.below(4), monoid, dtype }),
        4 => {
            let (largest, indices) = (random.below(2) == 0, random.below(2) == 0);
            Kernel::TopK(TopK { top: Top { k: random.below(4), largest, indices, of: dtype }, shape: own })
        }
        5 => {
            use ScanFunction::{LogSumExp, Max, MaxIndex, Min, MinIndex, Prod, Sum};
            let function = random.of(&[Sum, Prod, Max, Min, LogSumExp, MaxIndex, MinIndex]);
            Kernel::Scan(Scan { shape: own, axis, function, dtype })
        }
        6 => Kernel::Recurrence(Recurrence { shape: own, axis, dtype }),
        7 => Kernel::LastState(LastState { shape: own, axis, dtype }),
        _ => {
            let size = |random: &mut Random| 1 + random.below(3);
            let (batch, kv_heads, queries, dim) = (size(random), size(random), size(random), size(random));
            let heads = kv_heads * size(random);
            let keys = if random.below(2) == 0 { queries } else { size(random) };
            let plain = Attention::new([batch, heads, kv_heads, queries, keys, dim, size(random)], float);
            let causal = random.below(2) == 0;
            let one_or = |random: &mut Random, n: usize| if random.below(2) == 0 { 1 } else { n };
            let mask = vec![one_or(random, batch), one_or(random, heads), one_or(random, queries), keys];
            let packed = (queries == keys && random.below(2) == 0).then(|| size(random));
            Kernel::Attention(Attention {
                causal,
                own: !causal && packed.is_none() && random.below(2) == 0,
                window: (causal && random.below(2) == 0).then(|| size(random)),
                softcap: (random.below(3) == 0).then(|| random.of(&[30.0f64, 0.5, 1e-300]).to_bits()),
                mask: (random.below(2) == 0).then_some(mask),
                packed,
                scale: if random.below(2) == 0 { plain.scale } else { random.of(&[1.0f64, -0.0, f64::NAN]).to_bits() },
                ..plain
            })
        }
    }
}

/// The index of an axis: a label that spans it, a fixed one, or a sum of labels that stays inside.
fn random_index(random: &mut Random, labels: &[Label], extent: usize) -> Affine {
    let spanning: Vec<usize> = (0..labels.len()).filter(|&l| labels[l].extent == extent).collect();
    match random.below(3) {
        0 if !spanning.is_empty() => Affine::label(random.of(&spanning)),
        1 if !labels.is_empty() => {
            let l = random.below(labels.len());
            let room = extent as i64 - labels[l].extent as i64;
            if room < 0 || labels[l].extent == 0 {
                return Affine::constant(0);
            }
            if random.below(2) == 0 {
                let offset = if room == 0 { 0 } else { 1 + random.below(room as usize) as i64 };
                return Affine { terms: vec![(l, 1)], offset };
            }
            Affine { terms: vec![(l, -1)], offset: labels[l].extent as i64 - 1 }
        }
        _ => {
            // Labels of one value move nothing, whatever their stride.
            let single = (0..labels.len()).filter(|&l| labels[l].extent == 1);
            let terms: Vec<(usize, i64)> = single.map(|l| (l, random.of(&[1, -1, 3, -5, 9]))).collect();
            Affine { terms, offset: random.below(extent.max(1)) as i64 }
        }
    }
}

fn random_einsum(random: &mut Random, graph: &Graph, inputs: &[TensorId]) -> Einsum {
    let label = |random: &mut Random, n: usize| {
        let extent = if random.below(20) == 0 { 0 } else { 1 + random.below(4) };
        Label::new(format!("{}{n}", random.of(&["i", "k.", " ", "\\", "max", "é"])), extent)
    };
    let labels: Vec<Label> = (0..random.below(5)).map(|n| label(random, n)).collect();
    let access = |random: &mut Random, input: TensorId| Access {
        axes: graph.ty(input).shape.iter().map(|&extent| random_index(random, &labels, extent)).collect(),
    };
    let accesses = inputs.iter().map(|&i| access(random, i)).collect();
    let dtypes: Vec<DType> = inputs.iter().map(|&i| graph.ty(i).dtype).collect();
    Einsum {
        rank: random.below(labels.len() + 1),
        join: random_expr(random, &dtypes, labels.len()),
        accesses,
        labels,
        monoid: random.of(&Monoid::ALL),
        dtype: random.of(&DType::ALL),
    }
}

/// A graph of inputs, einsums with any join, views and kernels.
pub(super) fn random_graph(random: &mut Random) -> Graph {
    let mut graph = Graph::new();
    let kinds = [InputKind::Parameter, InputKind::Input, InputKind::State];
    for n in 0..3 {
        let ty = TensorType::new(random.of(&DType::ALL), shape(random, 0));
        graph.input(&format!("{}{n}", random.of(&NAMES)), random.of(&kinds), ty).expect("a new name");
    }
    for n in 3..8 {
        let name = format!("{}{n}", random.of(&NAMES));
        let all: Vec<TensorId> = graph.ids().collect();
        let inputs: Vec<TensorId> = (0..random.below(4)).map(|_| random.of(&all)).collect();
        // What does not fit is refused, and left out.
        let _: Result<TensorId, GraphError> = match random.below(4) {
            0 if !inputs.is_empty() => {
                let view = random_view(random, &graph.ty(inputs[0]).shape);
                let parts = if matches!(view, View::Concat { .. }) { vec![inputs[0]; 2] } else { vec![inputs[0]] };
                graph.view(&name, view, &parts)
            }
            1 => {
                let kernel = random_kernel(random);
                if kernel.fault().is_some() {
                    continue;
                }
                let mut operands = Vec::new();
                for (m, (dtypes, shape)) in kernel.signature().operands.into_iter().enumerate() {
                    let ty = TensorType::new(random.of(&dtypes), shape);
                    let operand = graph.input(&format!("{name} {m}"), random.of(&kinds), ty);
                    operands.push(operand.expect("a new name"));
                }
                graph.kernel(&name, kernel, &operands)
            }
            _ => {
                let einsum = random_einsum(random, &graph, &inputs);
                graph.einsum(&name, einsum, &inputs)
            }
        };
    }
    for n in 0..2 {
        let tensor = random.of(&graph.ids().collect::<Vec<_>>());
        graph.output(&format!("{}{n}", random.of(&NAMES)), tensor).expect("a new name");
    }
    graph
}
