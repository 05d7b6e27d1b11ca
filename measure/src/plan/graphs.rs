//! The graphs that are planned: the library's workloads, and some that are measured here only.

use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr, ExprError, RowId, Unary};
use ein_ir::graph::{Graph, GraphError, TensorId, TensorType};
use ein_ir::monoid::Monoid;
use ein_ir::op::InputKind;
use einsummable::models::{DecoderConfig, DecoderLayer};
use einsummable::nn::Scope;
use einsummable::nn::rotary::Positions;
use einsummable::tensor::Tensor;
use einsummable::trace::trace;
use einsummable::workloads::workload;

/// The graph of a line: `operations:N`, `train:IN,HIDDEN,OUT,BATCH`, `d1024:BATCHxSEQ,HEADS,KV`, or a workload of the
/// library.
pub fn graph(text: &str) -> Result<Graph, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let numbers = |separators: &[char]| {
        let number = |t: &str| t.parse::<usize>().map_err(|_| format!("`{text}`: `{t}` is no number"));
        rest.split(separators).map(number).collect::<Result<Vec<usize>, String>>()
    };
    match name {
        "operations" => match numbers(&[])?.as_slice() {
            &[count] => operations(count).map_err(|e| e.to_string()),
            _ => Err(format!("`{text}` is not operations:N")),
        },
        "train" => match numbers(&[','])?.as_slice() {
            &[input, hidden, output, batch] => step(input, hidden, output, batch).map_err(|e| e.to_string()),
            _ => Err(format!("`{text}` is not train:IN,HIDDEN,OUT,BATCH")),
        },
        "d1024" => match numbers(&['x', ','])?.as_slice() {
            &[batch, tokens, heads, kv] => block(batch, tokens, heads, kv),
            _ => Err(format!("`{text}` is not d1024:BATCHxSEQ,HEADS,KV")),
        },
        _ => workload(text).map_err(|e| e.to_string()),
    }
}

/// A chain of `count` operations, by turns a product with a weight of its own and a map: nothing in it repeats but its
/// kind.
fn operations(count: usize) -> Result<Graph, GraphError> {
    const ROWS: usize = 4096;
    const FEATURES: usize = 1024;
    let mut graph = Graph::new();
    let mut x = graph.input("x", InputKind::Input, TensorType::new(DType::BF16, [ROWS, FEATURES]))?;
    for n in 0..count {
        x = if n.is_multiple_of(2) {
            let ty = TensorType::new(DType::BF16, [FEATURES, FEATURES]);
            let weight = graph.input(&format!("{n}.weight"), InputKind::Parameter, ty)?;
            graph.contraction(&n.to_string(), "bk,kn->bn", &[x, weight])?
        } else {
            map(&mut graph, &n.to_string(), x)?
        };
    }
    graph.output("out", x)?;
    Ok(graph)
}

fn map(graph: &mut Graph, name: &str, x: TensorId) -> Result<TensorId, GraphError> {
    let TensorType { dtype, shape } = graph.ty(x).clone();
    let labels: Vec<Label> = shape.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
    let mut join = Expr::new();
    let value = join.push_operand(0, dtype);
    join.unary(Unary::Tanh, value).expect("tanh takes floats");
    let all: Vec<usize> = (0..shape.len()).collect();
    let accesses = vec![Access::labels(&all)];
    let einsum = Einsum { labels, rank: shape.len(), accesses, join, monoid: Monoid::Sum, dtype };
    graph.einsum(name, einsum, &[x])
}

/// One step of training two linear layers with relu between them on squared errors, in `f32`: forward, backward, update.
/// Labels are a parameter, as weights are, so that they may be held in parts while `x` is held whole.
fn step(input: usize, hidden: usize, output: usize, batch: usize) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let f32s = |shape: [usize; 2]| TensorType::new(DType::F32, shape);
    let x = g.input("x", InputKind::Input, f32s([batch, input]))?;
    let labels = g.input("labels", InputKind::Parameter, f32s([batch, output]))?;
    let first = g.input("first", InputKind::Parameter, f32s([input, hidden]))?;
    let second = g.input("second", InputKind::Parameter, f32s([hidden, output]))?;
    let before = g.contraction("before", "bi,ih->bh", &[x, first])?;
    let after = joined(&mut g, "relu", &[before], |e| {
        let (value, zero) = (e.push_operand(0, DType::F32), e.float(0.0, DType::F32));
        e.binary(Binary::Max, value, zero)
    })?;
    let y = g.contraction("y", "bh,ho->bo", &[after, second])?;
    let error = joined(&mut g, "error", &[y, labels], |e| {
        let (y, label) = (e.push_operand(0, DType::F32), e.push_operand(1, DType::F32));
        e.binary(Binary::Sub, y, label)
    })?;
    let of_second = g.contraction("second.gradient", "bh,bo->ho", &[after, error])?;
    let of_after = g.contraction("relu.gradient", "bo,ho->bh", &[error, second])?;
    let of_before = joined(&mut g, "before.gradient", &[of_after, before], |e| {
        let (gradient, value) = (e.push_operand(0, DType::F32), e.push_operand(1, DType::F32));
        let zero = e.float(0.0, DType::F32);
        let positive = e.binary(Binary::Lt, zero, value)?;
        e.select(positive, gradient, zero)
    })?;
    let of_first = g.contraction("first.gradient", "bi,bh->ih", &[x, of_before])?;
    for (name, weight, gradient) in [("first", first, of_first), ("second", second, of_second)] {
        let next = joined(&mut g, &format!("{name}.next"), &[weight, gradient], |e| {
            let (weight, gradient) = (e.push_operand(0, DType::F32), e.push_operand(1, DType::F32));
            let rate = e.float(0.01, DType::F32);
            let change = e.binary(Binary::Mul, rate, gradient)?;
            e.binary(Binary::Sub, weight, change)
        })?;
        g.output(name, next)?;
    }
    Ok(g)
}

/// A map over operands of one shape.
fn joined(
    graph: &mut Graph,
    name: &str,
    operands: &[TensorId],
    join: impl FnOnce(&mut Expr) -> Result<RowId, ExprError>,
) -> Result<TensorId, GraphError> {
    let shape = graph.ty(operands[0]).shape.clone();
    let labels: Vec<Label> = shape.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
    let all: Vec<usize> = (0..shape.len()).collect();
    let mut expression = Expr::new();
    join(&mut expression).expect("operands are f32");
    let einsum = Einsum {
        labels,
        rank: shape.len(),
        accesses: operands.iter().map(|_| Access::labels(&all)).collect(),
        join: expression,
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    graph.einsum(name, einsum, operands)
}

/// One decoder layer of 1,024 features and 2,816 hidden ones, in `f32`.
fn block(batch: usize, tokens: usize, heads: usize, kv: usize) -> Result<Graph, String> {
    let config = DecoderConfig { dtype: DType::F32, ..DecoderConfig::of_sizes(1024, heads, kv, 2816, 1, 32000) };
    let scope = Scope::root(DType::F32).child("layers").child(0);
    let x = Tensor::input("x", [batch, tokens, 1024], DType::F32);
    let out = DecoderLayer::new(&scope, &config, 0).forward(&x, None, Positions::default());
    Ok(trace(&[("out", &out)]).map_err(|e| e.to_string())?.graph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::op::Op;
    use ein_ir::simplify::simplify;

    #[test]
    fn graphs_have_the_sizes_they_name() {
        let computing = |text: &str| {
            let graph = simplify(&graph(text).unwrap());
            graph.nodes().iter().filter(|n| matches!(n.op, Op::Einsum(_) | Op::Kernel(_))).count()
        };
        assert_eq!(computing("operations:6"), 6);
        assert_eq!(computing("d1024:1x512,8,8"), 17);
        assert_eq!(computing("train:64,32,16,8"), 5 + 5);
        let step = graph("train:64,32,16,8").unwrap();
        let shapes: Vec<_> = step.outputs().iter().map(|o| step.ty(o.1).shape.clone()).collect();
        assert_eq!(shapes, [[64, 32], [32, 16]]);
        let parameters = |text: &str| {
            let graph = graph(text).unwrap();
            graph.inputs(InputKind::Parameter).iter().map(|&p| graph.ty(p).elements()).sum::<usize>()
        };
        assert_eq!(parameters("d1024:8x128,8,8"), 4 * 1024 * 1024 + 3 * 1024 * 2816 + 2 * 1024);
        assert!(graph("operations:x").unwrap_err().contains("`x`"));
        assert!(graph("train:1,2").unwrap_err().contains("IN,HIDDEN,OUT,BATCH"));
    }
}
