//! Random graphs keep their results.

use std::collections::BTreeMap;

use super::simplify;
use crate::dense::Dense;
use crate::dtype::DType;
use crate::einsum::{Access, Affine, Einsum, Label};
use crate::expr::{Binary, Expr, Literal, Unary};
use crate::graph::{Graph, TensorId, TensorType};
use crate::monoid::Monoid;
use crate::op::{InputKind, Op};
use crate::random::Random;
use crate::reference;
use crate::text::print;
use crate::view::View;

/// A shape of as many elements: axes cut, merged, added or dropped.
fn reshape(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    let mut axes: Vec<usize> = shape.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(axes.len() + 1);
        match random.below(4) {
            0 => axes.insert(at, 1),
            1 if at + 1 < axes.len() => {
                let inner = axes.remove(at + 1);
                axes[at] *= inner;
            }
            _ if at < axes.len() => {
                let by = random.of(&[2, 3, 4]);
                if axes[at].is_multiple_of(by) {
                    axes[at] /= by;
                    axes.insert(at + random.below(2), by);
                }
            }
            _ => {}
        }
    }
    axes
}

fn random_view(random: &mut Random, shape: &[usize]) -> View {
    let rank = shape.len();
    match random.below(10) {
        0..4 => View::Reshape { shape: reshape(random, shape) },
        4..7 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            (1..rank).for_each(|n| axes.swap(n, random.below(n + 1)));
            View::Permute { axes }
        }
        7 => {
            let (mut starts, mut steps, mut counts) = (vec![], vec![], vec![]);
            for &extent in shape {
                let (step, start) = match random.below(4) {
                    0 => (-1, random.below(extent)),
                    1 => (2, random.below(extent)),
                    2 => (1, random.below(extent)),
                    _ => (1, 0),
                };
                let room = if step < 0 { start + 1 } else { (extent - start).div_ceil(step as usize) };
                starts.push(start);
                steps.push(step);
                counts.push(room);
            }
            View::Slice { starts, steps, shape: counts }
        }
        8 => {
            let mut shape: Vec<usize> = shape.iter().map(|&n| if n == 1 { 1 + random.below(3) } else { n }).collect();
            if random.below(2) == 0 {
                shape.insert(0, 1 + random.below(3));
            }
            View::Broadcast { shape }
        }
        _ => View::Pad {
            before: shape.iter().map(|_| random.below(2)).collect(),
            after: shape.iter().map(|_| random.below(2)).collect(),
            value: 2.0f64.to_bits(),
        },
    }
}

/// A map, a reduction or a contraction of `x` and whatever fits.
fn random_einsum(random: &mut Random, graph: &Graph, x: TensorId, exact: bool) -> (Einsum, Vec<TensorId>) {
    let shape = graph.ty(x).shape.clone();
    // Labels in any order, some folded.
    let mut order: Vec<usize> = (0..shape.len()).collect();
    (1..shape.len()).for_each(|n| order.swap(n, random.below(n + 1)));
    let labels: Vec<Label> = order.iter().map(|&axis| Label::new(format!("l{axis}"), shape[axis])).collect();
    let rank = if random.below(2) == 0 { labels.len() } else { random.below(labels.len() + 1) };
    let mut inputs = vec![x];
    let place = |axis: usize| order.iter().position(|&a| a == axis).expect("a permutation");
    let mut accesses = vec![Access { axes: (0..shape.len()).map(|axis| Affine::label(place(axis))).collect() }];
    // A second operand whose axes are some labels of their extents.
    let other = random.of(&graph.ids().collect::<Vec<_>>());
    let fits: Option<Vec<Affine>> = graph
        .ty(other)
        .shape
        .iter()
        .map(|&extent| {
            let all: Vec<usize> = (0..labels.len()).filter(|&l| labels[l].extent == extent).collect();
            (!all.is_empty()).then(|| {
                let label = random.of(&all);
                let back = Affine { terms: vec![(label, -1)], offset: extent as i64 - 1 };
                if random.below(4) == 0 { back } else { Affine::label(label) }
            })
        })
        .collect();
    if let Some(axes) = fits {
        inputs.push(other);
        accesses.push(Access { axes });
    }
    let folds = labels.len() > rank;
    let typed = "all values are floats";
    let join = if folds && inputs.len() == 2 && random.below(2) == 0 {
        Expr::product(2, DType::F32)
    } else {
        let mut join = Expr::operand(DType::F32);
        let mut value = 0;
        if inputs.len() == 2 {
            let other = join.push_operand(1, DType::F32);
            let function = random.of(&[Binary::Add, Binary::Sub, Binary::Max]);
            value = join.binary(function, value, other).expect(typed);
        }
        if random.below(3) == 0 && !labels.is_empty() {
            let index = join.index(random.below(labels.len()));
            let index = join.cast(index, DType::F32);
            value = join.binary(Binary::Add, value, index).expect(typed);
        }
        let function = random.of(&[Unary::Neg, Unary::Abs]);
        value = join.unary(function, value).expect(typed);
        // Small numbers stay exact.
        let bound = join.constant(Literal::float(5.0), DType::F32);
        join.binary(Binary::Min, value, bound).expect(typed);
        join
    };
    let some = [Monoid::Sum, Monoid::Max, Monoid::Min, Monoid::Moments, Monoid::SoftMax];
    let monoid = if folds { random.of(&some[..if exact { 3 } else { 5 }]) } else { Monoid::Sum };
    (Einsum { labels, rank, accesses, join, monoid, dtype: DType::F32 }, inputs)
}

fn random_graph(random: &mut Random, exact: bool) -> Graph {
    let mut graph = Graph::new();
    for n in 0..3 {
        let shape: Vec<usize> = (0..=random.below(3)).map(|_| random.of(&[1, 2, 3, 4, 6])).collect();
        let kind = random.of(&[InputKind::Parameter, InputKind::Input]);
        graph.input(&format!("x{n}"), kind, TensorType::new(DType::F32, shape)).expect("a new name");
    }
    for n in 0..3 + random.below(8) {
        // The latest rows, so that chains are long.
        let ids: Vec<TensorId> = graph.ids().collect();
        let near = ids.len() - 1 - random.below(ids.len().min(3));
        let x = ids[near];
        let shape = graph.ty(x).shape.clone();
        if graph.ty(x).elements() > 300 || shape.len() > 6 {
            continue;
        }
        let name = format!("t{n}");
        if random.below(5) < 3 {
            let view = random_view(random, &shape);
            graph.view(&name, view, &[x]).expect("a view that fits");
        } else {
            let (einsum, inputs) = random_einsum(random, &graph, x, exact);
            graph.einsum(&name, einsum, &inputs).expect("an einsum that fits");
        }
    }
    let last = graph.ids().next_back().expect("inputs");
    graph.output("last", last).expect("a new name");
    if random.below(2) == 0 {
        let any = random.of(&graph.ids().collect::<Vec<_>>());
        graph.output("any", any).expect("a new name");
    }
    graph
}

fn count(graph: &Graph) -> (usize, usize) {
    let views = graph.nodes().iter().filter(|n| matches!(n.op, Op::View(_))).count();
    (graph.nodes().len(), views)
}

#[test]
fn random_graphs_keep_their_results() {
    let (mut rows, mut views) = ([0, 0], [0, 0]);
    for seed in 0..3000 {
        let random = &mut Random(seed);
        let exact = seed % 4 != 0;
        let before = random_graph(random, exact);
        let after = simplify(&before);
        assert_eq!(simplify(&after), after, "simplifying twice changes more\n{}", print(&after));
        for kind in [InputKind::Parameter, InputKind::Input] {
            let names = |g: &Graph| g.inputs(kind).iter().map(|&i| g.node(i).name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&before), names(&after));
        }
        let values: BTreeMap<String, Dense> = before
            .nodes()
            .iter()
            .filter(|n| matches!(n.op, Op::Input(_)))
            .map(|n| {
                let values: Vec<f64> = (0..n.ty.elements()).map(|_| random.below(9) as f64 - 4.0).collect();
                (n.name.clone(), Dense::from_f64(DType::F32, n.ty.shape.clone(), &values))
            })
            .collect();
        let expected = reference::run(&before, &values).expect("the inputs are given");
        let found = reference::run(&after, &values).expect("the inputs are given");
        assert_eq!(expected.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
        for (name, value) in &expected {
            let (a, b) = (value, &found[name]);
            // Sums of fractions may be added up in another order.
            let scale = a.to_f64().iter().fold(1.0f64, |m, x| m.max(x.abs()));
            let same = if exact {
                a.shape == b.shape && a.to_le_bytes() == b.to_le_bytes()
            } else {
                a.max_abs_difference(b) <= 1e-4 * scale
            };
            assert!(same, "seed {seed}, `{name}`: {a:?} became {b:?}\n{}\n{}", print(&before), print(&after));
        }
        for (n, graph) in [&before, &after].into_iter().enumerate() {
            rows[n] += count(graph).0;
            views[n] += count(graph).1;
        }
    }
    assert!(rows[1] * 4 < rows[0] * 3 && views[1] * 2 < views[0], "rows {rows:?}, views {views:?}");
}
