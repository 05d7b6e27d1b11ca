//! What follows a product in the same row and the library of products does as it stores it: residuals, biases and the
//! activation by the hyperbolic tangent, executed on the host and on a fake GPU.

#[path = "../../ein-run/tests/common/mod.rs"]
mod common;
mod support;

use common::Build;
use ein_cuda::devices::{Devices, Seat, Settings};
use ein_cuda::program::{Matmul, Program, Step};
use ein_fake_cuda::{FakeMachine, install};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum};
use ein_ir::expr::{Binary, Expr, Unary};
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_run::Executor;
use ein_task::task::{OpRow, Source, Stage, Verb};
use std::collections::BTreeMap;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use support::{Cases, Chain, Rng, chain, einsum, pair};

/// What follows a product, of two axes or three.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Bias,
    Residual,
    /// By the hyperbolic tangent, in one of three ways to write it.
    Gelu(usize),
    /// By the error function.
    Erf,
}
use Then::{Bias, Erf, Gelu, Residual};

/// The Gaussian error linear unit.
fn gelu(way: Option<usize>, dtype: DType) -> Expr {
    let mut e = Expr::operand(dtype);
    let of = |e: &mut Expr, function, a, b| e.binary(function, a, b).expect("one type");
    let (half, one) = (e.float(0.5, dtype), e.float(1.0, dtype));
    let Some(way) = way else {
        let scale = e.float(FRAC_1_SQRT_2, dtype);
        let scaled = of(&mut e, Binary::Mul, 0, scale);
        let erf = e.unary(Unary::Erf, scaled).expect("a float");
        let more = of(&mut e, Binary::Add, one, erf);
        let halved = of(&mut e, Binary::Mul, half, 0);
        of(&mut e, Binary::Mul, halved, more);
        return e;
    };
    let (small, root) = (e.float(0.044_715, dtype), e.float((2.0 / PI).sqrt(), dtype));
    let square = of(&mut e, Binary::Mul, 0, 0);
    let inner = if way == 0 {
        let cube = of(&mut e, Binary::Mul, square, 0);
        let cube = of(&mut e, Binary::Mul, small, cube);
        of(&mut e, Binary::Add, 0, cube)
    } else {
        let scaled = of(&mut e, Binary::Mul, small, square);
        let more = of(&mut e, Binary::Add, one, scaled);
        of(&mut e, Binary::Mul, 0, more)
    };
    let inner = of(&mut e, Binary::Mul, inner, root);
    if way == 2 {
        // x sigmoid(2 y) is x (1 + tanh y) / 2.
        let two = e.float(2.0, dtype);
        let twice = of(&mut e, Binary::Mul, two, inner);
        let sigmoid = e.unary(Unary::Sigmoid, twice).expect("a float");
        of(&mut e, Binary::Mul, sigmoid, 0);
        return e;
    }
    let tanh = e.unary(Unary::Tanh, inner).expect("a float");
    let more = of(&mut e, Binary::Add, tanh, one);
    let halved = of(&mut e, Binary::Mul, 0, half);
    of(&mut e, Binary::Mul, halved, more);
    e
}

/// A contraction by `spec` and what follows.
fn product(rng: &mut Rng, spec: &str, shapes: [&[usize]; 2], dtype: DType, then: &[Then]) -> Chain {
    let whole = !then.iter().any(|t| matches!(t, Gelu(_) | Erf)) && dtype != DType::BF16;
    let e = Einsum::contraction(spec, &shapes, dtype).expect("well formed");
    let shape = e.shape();
    let axes: Vec<usize> = (0..shape.len()).collect();
    let [a, b] = shapes.map(|s| rng.dense(dtype, s, whole));
    let all = || Access::labels(&axes);
    let mut chain: Chain = vec![(Op::Einsum(e), vec![Some(a), Some(b)])];
    for (n, &then) in then.iter().enumerate() {
        let map = |expr| Op::Einsum(einsum(&shape, shape.len(), vec![all()], expr, Monoid::Sum, dtype));
        chain.push(match then {
            Bias => {
                let last = shape.len() - 1;
                let bias = rng.dense(dtype, &shape[last..], whole);
                (pair(Binary::Add, &shape, vec![all(), Access::labels(&[last])], dtype), vec![None, Some(bias)])
            }
            Residual => {
                let rest = rng.dense(dtype, &shape, whole);
                let operands = if n % 2 == 0 { vec![Some(rest), None] } else { vec![None, Some(rest)] };
                (pair(Binary::Add, &shape, vec![all(), all()], dtype), operands)
            }
            Gelu(way) => (map(gelu(Some(way), dtype)), vec![None]),
            Erf => (map(gelu(None, dtype)), vec![None]),
        });
    }
    chain
}

fn matmuls(program: &Program) -> Vec<&Matmul> {
    program.steps.iter().filter_map(|s| if let Step::Matmul(m) = s { Some(m) } else { None }).collect()
}

/// Adds the whole chain, and returns how many products and other steps it is.
fn add(cases: &mut Cases, rng: &mut Rng, what: &str, steps: &Chain, parts: usize) -> [usize; 2] {
    let Op::Einsum(e) = &steps[0].0 else { unreachable!("a product comes first") };
    let space = e.space();
    let exact = steps.iter().all(|(_, o)| o.iter().flatten().all(|d| d.to_f64().iter().all(|v| v.fract() == 0.0)));
    for n in 0..=parts {
        let mut head = if n == 0 { space.clone() } else { rng.part(&space) };
        head.0[e.rank..].clone_from_slice(&space.0[e.rank..]);
        let mut blocks = vec![head.clone()];
        blocks.resize(steps.len(), Region(head.0[..e.rank].to_vec()));
        chain(cases, rng, what, steps, &blocks, exact);
    }
    let (_, program) = cases.programs().nth(cases.len() - 1 - parts).expect("one");
    let products = matmuls(program).len();
    [products, program.steps.len() - products]
}

/// One launch, with what follows in its epilogue, for every order in which it may follow.
#[test]
fn what_the_library_does_is_no_launch() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(61));
    let chains: [&[Then]; 9] = [
        &[Bias],
        &[Residual],
        &[Bias, Residual],
        &[Residual, Bias],
        &[Gelu(0)],
        &[Gelu(2)],
        &[Bias, Gelu(1)],
        &[Residual, Gelu(0)],
        &[Bias, Residual, Gelu(2)],
    ];
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for then in chains {
            for [m, n, k] in [[37, 48, 64], [40, 41, 72]] {
                let steps = product(&mut rng, "mk,nk->mn", [&[m, k], &[n, k]], dtype, then);
                let what = format!("{dtype} {m} {n} {k} {then:?}");
                assert_eq!(add(&mut cases, &mut rng, &what, &steps, 2), [1, 0], "{what}");
                let (_, program) = cases.programs().nth(cases.len() - 3).expect("one");
                let epilogue = matmuls(program)[0].epilogue;
                assert_eq!(epilogue.add.is_some(), then.contains(&Residual), "{what}");
                assert_eq!(epilogue.bias.is_some(), then.contains(&Bias), "{what}");
                assert_eq!(epilogue.gelu, then.iter().any(|t| matches!(t, Gelu(_))), "{what}");
            }
        }
    }
    cases.run();
}

/// Batches, results whose columns are consecutive, factors that are copied first, heads that are two axes.
#[test]
fn residuals_lie_as_results_do() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(62));
    #[allow(clippy::type_complexity)]
    let specs: [(&str, [&[usize]; 2], &[Then]); 6] = [
        ("bmk,bkn->bmn", [&[3, 20, 32], &[3, 32, 24]], &[Residual]),
        ("mk,nk->nm", [&[40, 32], &[33, 32]], &[Residual]),
        ("bsk,nk->bsn", [&[2, 19, 48], &[24, 48]], &[Bias, Residual]),
        ("bshd,hdn->bsn", [&[2, 9, 4, 16], &[4, 16, 23]], &[Residual]),
        ("bhsd,hdn->bsn", [&[2, 64, 96, 16], &[64, 16, 136]], &[Residual]),
        ("bmk,bkn->bmn", [&[3, 20, 32], &[3, 32, 24]], &[Gelu(0)]),
    ];
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for (spec, shapes, then) in specs {
            if dtype == DType::F64 && then != [Residual] {
                continue;
            }
            let steps = product(&mut rng, spec, shapes, dtype, then);
            let what = format!("{dtype} {spec} {then:?}");
            let [products, other] = add(&mut cases, &mut rng, &what, &steps, 2);
            // A factor may be copied first; nothing comes after.
            assert!(products >= 1 && other <= usize::from(spec.starts_with("bhsd")), "{what}: {products} and {other}");
        }
    }
    cases.run();
}

/// What it does not do is one kernel more: the activation by the error function, functions of f64, two matrices or vectors
/// that are added, the product times itself.
#[test]
fn what_the_library_does_not_do_is_a_kernel() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(63));
    let chains: [(DType, &[Then]); 7] = [
        (DType::F32, &[Erf]),
        (DType::BF16, &[Bias, Erf]),
        (DType::F64, &[Gelu(0)]),
        (DType::F64, &[Bias]),
        (DType::F32, &[Residual, Residual]),
        (DType::F32, &[Bias, Bias]),
        (DType::F32, &[Gelu(0), Bias]),
    ];
    for (dtype, then) in chains {
        let steps = product(&mut rng, "mk,nk->mn", [&[37, 64], &[48, 64]], dtype, then);
        let what = format!("{dtype} {then:?}");
        assert_eq!(add(&mut cases, &mut rng, &what, &steps, 1), [1, 1], "{what}");
    }
    cases.run();
}

/// silu(a Wg) * (a Wu): the second product and the gate are a row that reads the first, so two products and one pass.
#[test]
fn a_gate_is_two_products_and_a_pass() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(64));
    let (m, n, k, dtype) = (40, 64, 48, DType::BF16);
    let mut steps = product(&mut rng, "mk,nk->mn", [&[m, k], &[n, k]], dtype, &[]);
    let mut gate = Expr::new();
    let (x, up) = (gate.push_operand(0, dtype), gate.push_operand(1, dtype));
    let s = gate.unary(Unary::Sigmoid, x).expect("a float");
    let silu = gate.binary(Binary::Mul, x, s).expect("one type");
    gate.binary(Binary::Mul, silu, up).expect("one type");
    let both = vec![Access::labels(&[0, 1]), Access::labels(&[0, 1])];
    let up = rng.dense(dtype, &[m, n], false);
    steps.push((Op::Einsum(einsum(&[m, n], 2, both, gate, Monoid::Sum, dtype)), vec![None, Some(up)]));
    assert_eq!(add(&mut cases, &mut rng, "a gate", &steps, 2), [1, 1]);
    let (_, program) = cases.programs().next().expect("one");
    // In the row's own memory: the product is written and read once, the other read, the result written.
    assert_eq!(program.scratch, 0);
    cases.run();
}

/// The same through the driver and the library that stands in for the real one, which refuses what that does.
#[test]
fn a_fake_library_adds_and_activates() {
    let (m, n, k, dtype) = (20, 24, 32, DType::F32);
    let chains: [&[Then]; 4] = [&[Residual], &[Bias, Residual], &[Gelu(1)], &[Bias, Gelu(0)]];
    let mut rng = Rng::new(65);
    for then in chains {
        let steps = product(&mut rng, "mk,nk->mn", [&[m, k], &[n, k]], dtype, then);
        let mut b = Build::new(1);
        let mut inputs: BTreeMap<String, Dense> = BTreeMap::new();
        let (mut feeds, mut stages) = (Vec::new(), Vec::new());
        for (op, operands) in &steps {
            let mut sources = Vec::new();
            for operand in operands {
                let Some(dense) = operand else {
                    sources.push(Some(Source::Previous));
                    continue;
                };
                let name = format!("x{}", inputs.len());
                let external = b.external(&name, InputKind::Input, dtype, &dense.shape);
                sources.push(Some(Source::Read(feeds.len())));
                feeds.push(b.feed(0, external, Region::whole(&dense.shape)));
                inputs.insert(name, dense.clone());
            }
            let shape = |o: &Option<Dense>| o.as_ref().map_or(vec![m, n], |d| d.shape.clone());
            let given: Vec<TensorType> = operands.iter().map(|o| TensorType::new(dtype, shape(o))).collect();
            let spec = op.spec(&vec![dtype; given.len()]).expect("it computes");
            let labels = spec.space();
            stages.push(Stage { op: b.0.ops.len(), labels, finish: true, operands: sources });
            b.0.ops.push(OpRow {
                name: "it".into(),
                op: op.clone(),
                operands: given,
                result: TensorType::new(dtype, vec![m, n]),
                spec: Some(spec),
            });
        }
        let whole = Region::whole(&[m, n]);
        let row = b.push(0, Verb::Fused { stages }, &feeds, whole, Form::finished(dtype, 2));
        b.output("y", dtype, &[m, n], &[row]);
        let graph = b.finish();
        let fake = install(&FakeMachine::new(1)).expect("g++ is there");
        let seats = [Seat::Gpu(0)];
        let made = Executor::on(graph, |graph| {
            Ok(Box::new(Devices::new(graph, &BTreeMap::new(), &seats, Settings::default())?))
        });
        let mut executor = made.unwrap_or_else(|e| panic!("{then:?}: {e}: {:?}", fake.report()));
        let run = executor.run(&inputs).unwrap_or_else(|e| panic!("{then:?}: {e}: {:?}", fake.report()));
        let got = run.outputs["y"].to_f64();
        drop(executor);
        assert_eq!(fake.report(), None, "{then:?}");
        assert_eq!(fake.counters().products, 1, "{then:?}");
        assert_eq!(fake.counters().kernels, 0, "{then:?}");
        let x = |n: usize| inputs[&format!("x{n}")].to_f64();
        let (a, w) = (x(0), x(1));
        for (at, got) in got.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let mut v: f64 = (0..k).map(|l| a[i * k + l] * w[j * k + l]).sum();
            let mut next = 2;
            for step in then {
                v = match step {
                    Bias => v + x(next)[j],
                    Residual => v + x(next)[at],
                    Gelu(_) | Erf => 0.5 * v * (1.0 + ((2.0 / PI).sqrt() * (v + 0.044_715 * v * v * v)).tanh()),
                };
                next += usize::from(matches!(step, Bias | Residual));
            }
            assert!((got - v).abs() <= 1e-4 * (1.0 + v.abs()), "{then:?} at {i}, {j}: {got} rather than {v}");
        }
    }
}
