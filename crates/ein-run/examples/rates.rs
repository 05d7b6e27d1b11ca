//! What the CPU device's kernels reach, on one device: `cargo run --release -p ein-run --example rates`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Unary};
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Attention, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::{InputKind, Op};
use ein_run::Executor;
use std::collections::BTreeMap;

/// Runs an operation of operands of one type, whole, a few times, and prints its best rate.
fn measure(name: &str, op: Op, dtype: DType, shapes: &[&[usize]], unit: &str, amount: f64) {
    let operands: Vec<Dense> = shapes.iter().enumerate().map(|(n, s)| integers(dtype, s, n as u64)).collect();
    measure_on(name, op, &operands, unit, amount);
}

/// Runs an operation whole, a few times, and prints its best rate.
fn measure_on(name: &str, op: Op, operands: &[Dense], unit: &str, amount: f64) {
    let types: Vec<TensorType> = operands.iter().map(Dense::ty).collect();
    let spec = op.spec(&types.iter().map(|t| t.dtype).collect::<Vec<_>>()).expect("it computes");
    let shape = spec.result_region(&spec.space()).shape();
    let mut b = Build::new(1);
    let external =
        |b: &mut Build, (n, t): (usize, &TensorType)| b.external(&format!("x{n}"), InputKind::Input, t.dtype, &t.shape);
    let inputs: Vec<usize> = types.iter().enumerate().map(|t| external(&mut b, t)).collect();
    let row = b.op(name, op, &types, TensorType::new(spec.dtype, shape.clone()));
    let feeds: Vec<_> = inputs.iter().zip(&types).map(|(&n, t)| b.feed(0, n, t.whole())).collect();
    let done = b.kernel(0, row, spec.space(), true, &feeds);
    b.output("y", spec.dtype, &shape, &[done]);
    let mut executor = Executor::new(b.finish(), &BTreeMap::new()).expect("well formed");
    let given: BTreeMap<_, _> = operands.iter().enumerate().map(|(n, x)| (format!("x{n}"), x.clone())).collect();
    let best = (0..30)
        .map(|_| {
            let run = executor.run(&given).expect("it runs");
            let kernel = run.timeline.events.iter().find(|e| e.name.starts_with("kernel")).expect("one kernel");
            kernel.end.0 - kernel.start.0
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<40} {:>10.3} ms {:>9.2} {unit}", best * 1e3, amount / best / 1e9);
}

fn contraction(spec: &str, dtype: DType, shapes: &[&[usize]], flops: f64) {
    let e = Einsum::contraction(spec, shapes, dtype).expect("well formed");
    let sizes: Vec<String> = shapes.iter().map(|s| format!("{s:?}")).collect();
    measure(&format!("{spec} {dtype} {}", sizes.join(" ")), Op::Einsum(e), dtype, shapes, "GFLOP/s", flops);
}

fn map(name: &str, join: Expr, operands: usize, fold: Option<Monoid>) {
    let (rows, columns) = (64, 4096);
    let e = Einsum {
        labels: vec![Label::new("i", rows), Label::new("j", columns)],
        rank: if fold.is_some() { 1 } else { 2 },
        accesses: vec![Access::labels(&[0, 1]); operands],
        join,
        monoid: fold.unwrap_or(Monoid::Sum),
        dtype: DType::F32,
    };
    let shapes: Vec<&[usize]> = vec![&[64, 4096]; operands];
    measure(name, Op::Einsum(e), DType::F32, &shapes, "Gelem/s", (rows * columns) as f64);
}

/// An operation as it is written, of `x` and perhaps `w` or ids below `rows`.
fn written(line: &str, inputs: &str, rows: i64, unit: &str, amount: f64) {
    let graph = ein_ir::text::parse(&format!("{inputs}\ny = {line}\nreturn y\n")).unwrap_or_else(|e| panic!("{e}"));
    let node = graph.node(graph.find("y").expect("it is there"));
    let operand = |(n, &id): (usize, &ein_ir::graph::TensorId)| {
        let ty = graph.ty(id);
        if n > 0 && rows > 0 {
            let next = |i: usize| ((i as i64).wrapping_mul(0x5851_f42d_4c95_7f2d) >> 20).rem_euclid(rows);
            return Dense::i64(ty.shape.clone(), (0..ty.elements()).map(next).collect());
        }
        let value = |i: usize| ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / 8_388_608.0 - 1.0;
        Dense::from_f64(ty.dtype, ty.shape.clone(), &(0..ty.elements()).map(value).collect::<Vec<_>>())
    };
    let operands: Vec<Dense> = node.inputs.iter().enumerate().map(operand).collect();
    let name = line.split(" sum ").next().unwrap_or(line);
    measure_on(name, node.op.clone(), &operands, unit, amount);
}

fn main() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        contraction("ik,kj->ij", dtype, &[&[512, 512], &[512, 512]], 2.0 * 512f64.powi(3));
    }
    contraction("ik,jk->ij", DType::F32, &[&[512, 512], &[512, 512]], 2.0 * 512f64.powi(3));
    contraction(
        "bhsd,bhtd->bhst",
        DType::F32,
        &[&[2, 8, 256, 64], &[2, 8, 256, 64]],
        2.0 * 16.0 * 256.0 * 256.0 * 64.0,
    );
    contraction("ik,jk->ij", DType::F32, &[&[1, 1024], &[1024, 1024]], 2.0 * 1024f64.powi(2));
    let x = Expr::operand(DType::F32);
    let unary = |f: Unary| {
        let mut e = Expr::operand(DType::F32);
        e.unary(f, 0).expect("a float function");
        e
    };
    let mut add = x.clone();
    let y = add.push_operand(1, DType::F32);
    add.binary(Binary::Add, 0, y).expect("one type");
    map("x + y", add, 2, None);
    for f in [Unary::Exp, Unary::Tanh, Unary::Erf, Unary::Sigmoid, Unary::Sin, Unary::Log] {
        map(&format!("{f:?}"), unary(f), 1, None);
    }
    map("row sums", x.clone(), 1, Some(Monoid::Sum));
    map("row moments", x.clone(), 1, Some(Monoid::Moments));
    map("row softmax statistics", x, 1, Some(Monoid::SoftMax));
    for (queries, keys, causal) in [(256, 256, false), (256, 256, true), (1, 4096, true)] {
        let a = Attention {
            batch: 1,
            heads: 8,
            kv_heads: 2,
            queries,
            keys,
            dim: 64,
            value_dim: 64,
            causal,
            window: None,
            softcap: None,
            packed: None,
            own: false,
            mask: None,
            scale: 0.125f64.to_bits(),
            dtype: DType::F32,
        };
        let flops = 4.0 * 8.0 * (queries * keys * 64) as f64 / if causal && queries > 1 { 2.0 } else { 1.0 };
        let name = format!("attention {queries} x {keys}{}", if causal { " causal" } else { "" });
        let shapes: [&[usize]; 3] = [&[1, 8, queries, 64], &[1, 2, keys, 64], &[1, 2, keys, 64]];
        measure(&name, Op::Kernel(Kernel::Attention(a)), DType::F32, &shapes, "GFLOP/s", flops);
    }
    // Bytes read and written, in GB/s; sorts and scans by element.
    let square = "x: input f32[1024, 1024]";
    let mi = 1024.0 * 1024.0;
    written("gather(x, i)", &format!("{square}\ni: input i64[1024]"), 1024, "GB/s", 8.0 * mi);
    written("gather_along(x, i) axis 1", &format!("{square}\ni: input i64[1024, 1024]"), 1024, "GB/s", 16.0 * mi);
    written("scatter(x, i) rows 1024", &format!("{square}\ni: input i64[1024]"), 1024, "GB/s", 8.0 * mi);
    written(
        "scatter_along(x, i) rows 1024 axis 1",
        &format!("{square}\ni: input i64[1024, 1024]"),
        1024,
        "GB/s",
        16.0 * mi,
    );
    written("top(x) k 1024", square, 0, "Gelem/s", mi);
    written("top(x) k 8", square, 0, "Gelem/s", mi);
    written("top(x) k 1 indices", square, 0, "Gelem/s", mi);
    written("scan(x) sum axis 1", square, 0, "Gelem/s", mi);
    written("scan(x) sum", square, 0, "Gelem/s", mi);
    written("scan(x) logsumexp axis 1", square, 0, "Gelem/s", mi);
    let image = "x: input f32[1, 64, 58, 58]\nw: param f32[64, 64, 3, 3]";
    let taps = "einsum f32 (n: 1, o: 64, y: 56, x: 56 | c: 64, i: 3, j: 3) sum x[n, c, y + i, x + j] * w[o, c, i, j]";
    written(taps, image, 0, "GFLOP/s", 2.0 * 56.0 * 56.0 * 64.0 * 64.0 * 9.0);
    let packed = "q: input f32[1, 8, 1024, 64]\nk: input f32[1, 2, 1024, 64]\nv: input f32[1, 2, 1024, 64]";
    written("attention(q, k, v) causal", packed, 0, "GFLOP/s", 2.0 * 8.0 * mi * 64.0);
    written("attention(q, k, v) causal window 128", packed, 0, "GFLOP/s", 4.0 * 8.0 * 1024.0 * 128.0 * 64.0);
}
