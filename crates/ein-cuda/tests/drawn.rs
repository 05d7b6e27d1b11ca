//! Drawn einsums, alone and with maps of them, executed on the host, against the dense reference bit for bit.

mod support;

use ein_cuda::generate::PRELUDE;
use ein_cuda::program::Step;
use ein_fake_cuda::shim::Module;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Literal, Unary};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_task::task::{Value, Verb};
use support::{Cases, Rng, Row, kernel_row, op_row};

const EXACT: [Binary; 8] =
    [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min, Binary::Lt, Binary::Eq, Binary::Rem];

/// An expression of some operands and indices whose value small integers keep exact.
fn join(rng: &mut Rng, operands: &[DType], labels: usize, dtype: DType) -> Expr {
    let mut e = Expr::new();
    let mut rows = Vec::new();
    for (n, &d) in operands.iter().enumerate() {
        let row = e.push_operand(n, d);
        rows.push(e.cast(row, dtype));
    }
    if labels > 0 && rng.coin() {
        let index = e.index(rng.below(labels));
        let few = e.constant(Literal::Int(3), DType::I64);
        let index = e.binary(Binary::Rem, index, few).expect("integers");
        rows.push(e.cast(index, dtype));
    }
    for _ in 0..rng.below(3) {
        let (a, b) = (rng.of(&rows), rng.of(&rows));
        let Ok(mut row) = e.binary(rng.of(&EXACT), a, b) else { continue };
        if e.dtype_of(row) == DType::Bool && dtype != DType::Bool {
            row = if rng.coin() { e.select(row, a, b).expect("one type") } else { e.cast(row, dtype) };
        }
        rows.push(row);
    }
    let last = *rows.last().expect("an operand");
    let last = if rng.below(3) == 0 { e.unary(Unary::Neg, last).unwrap_or(last) } else { last };
    // The last row is the value.
    if last + 1 != e.rows().len() {
        e.select_last(last, dtype);
    }
    e
}

/// Makes an earlier row the value.
trait Last {
    fn select_last(&mut self, row: usize, dtype: DType);
}

impl Last for Expr {
    fn select_last(&mut self, row: usize, dtype: DType) {
        if dtype == DType::Bool {
            self.binary(Binary::Or, row, row).expect("bools");
        } else {
            self.binary(Binary::Max, row, row).expect("numbers");
        }
    }
}

fn draw(rng: &mut Rng) -> (Einsum, Vec<Dense>) {
    let extents = [1, 2, 3, 5, 7, 8, 16, 33];
    let count = rng.below(5);
    let labels: Vec<Label> = (0..count).map(|n| Label::new(format!("l{n}"), rng.of(&extents))).collect();
    let rank = rng.between(0, count);
    let dtype =
        rng.of(&[DType::F32, DType::F32, DType::BF16, DType::F64, DType::I64, DType::I32, DType::U8, DType::Bool]);
    let operands = rng.between(1, 3);
    let (mut accesses, mut tensors, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..operands {
        let mut axes = Vec::new();
        let mut free: Vec<usize> = (0..count).collect();
        for _ in 0..rng.below(count + 1) {
            let l = free.remove(rng.below(free.len()));
            let step = [1, 1, 1, 2][rng.below(4)];
            let mut terms = vec![(l, step)];
            if !free.is_empty() && rng.below(5) == 0 {
                terms.push((free[rng.below(free.len())], 1));
            }
            axes.push(Affine { terms, offset: rng.of(&[0, 0, 0, 1]) });
        }
        let shape: Vec<usize> = axes
            .iter()
            .map(|a: &Affine| {
                let reach: i64 = a.terms.iter().map(|&(l, s)| s * (labels[l].extent as i64 - 1)).sum();
                (a.offset + reach + 1) as usize + rng.below(2)
            })
            .collect();
        if shape.iter().product::<usize>() > 40_000 {
            continue;
        }
        let of = if rng.below(3) == 0 { rng.of(&[DType::I32, DType::F32, DType::BF16]) } else { dtype };
        let of = if dtype == DType::Bool || dtype == DType::U8 { dtype } else { of };
        types.push(of);
        tensors.push(rng.dense(of, &shape, true));
        accesses.push(Access { axes });
    }
    if types.is_empty() {
        types.push(dtype);
        tensors.push(rng.dense(dtype, &[], true));
        accesses.push(Access { axes: Vec::new() });
    }
    let monoid = rng.of(&[Monoid::Sum, Monoid::Sum, Monoid::Max, Monoid::Min]);
    let join = join(rng, &types, count, dtype);
    (Einsum { labels, rank, accesses, join, monoid, dtype }, tensors)
}

#[test]
fn drawn_einsums_are_exact() {
    let mut cases = Cases::default();
    let seeds: u64 = std::env::var("EIN_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let (e, tensors) = draw(&mut rng);
        if e.space().volume() > 60_000 {
            continue;
        }
        let labels = if rng.coin() { e.space() } else { rng.part(&e.space()) };
        let rank = e.shape().len();
        let whole = labels.0[e.rank..] == e.space().0[e.rank..];
        let finish = whole && rng.coin();
        let form = if finish { Form::finished(e.dtype, rank) } else { e.monoid.pending(e.dtype, rank, true) };
        // Sums of 16 bits may need more than they have, and then differ by how they are rounded on the way.
        let exact = e.dtype != DType::BF16;
        let (row, expected) = kernel_row(&mut rng, &Op::Einsum(e.clone()), &tensors, &labels, &form, finish);
        row.check(&mut cases, &format!("seed {seed}: {e:?}"), expected, exact);
    }
    cases.run();
}

/// Kernels that count in 64 bits are not executed here, but compiled.
#[test]
fn large_blocks_compile() {
    let mut text = PRELUDE.to_string();
    let mut add = |e: &Einsum, shapes: &[&[usize]]| {
        let op = Op::Einsum(e.clone());
        let dtypes = vec![e.dtype; shapes.len()];
        let row = op_row(&op, &dtypes);
        let spec = row.spec.clone().expect("it computes");
        let value = Value { region: spec.result_region(&e.space()), form: Form::finished(e.dtype, e.shape().len()) };
        let operands = (0..shapes.len()).map(Some).collect();
        let verb = Verb::Kernel { op: 0, labels: e.space(), finish: true, operands };
        let mut graph = Row::new(vec![row], verb, &[], value).graph;
        let last = graph.tasks.pop().expect("the row");
        let mut reads = Vec::new();
        for shape in shapes {
            let value = Value { region: Region::whole(shape), form: Form::finished(e.dtype, shape.len()) };
            reads.push(graph.push(ein_task::task::Task { verb: Verb::Feed { external: 0 }, value, ..last.clone() }));
        }
        let id = graph.push(ein_task::task::Task { reads, ..last });
        let program = ein_cuda::generate::program(
            &graph,
            id,
            &ein_cuda::generate::Orders::default(),
            &ein_cuda::program::Target::A100,
        )
        .expect("a program");
        let mut wide = false;
        for step in &program.steps {
            if let Step::Launch(launch) = step {
                wide |= launch.kernel.source.contains("const long long o")
                    || launch.kernel.source.contains("const long long n");
                text += &launch.kernel.source;
            }
        }
        assert!(wide, "{e:?} is counted in 64 bits");
    };
    let labels = |extents: &[usize]| -> Vec<Label> {
        extents.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect()
    };
    let of = |extents: &[usize], rank, order: &[usize]| Einsum {
        labels: labels(extents),
        rank,
        accesses: vec![Access::labels(order)],
        join: Expr::operand(DType::F32),
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    let mut map = of(&[70_000, 70_001], 2, &[0, 1]);
    map.join.unary(Unary::Exp, 0).expect("a float");
    add(&map, &[&[70_000, 70_001]]);
    add(&of(&[70_000, 70_001], 2, &[1, 0]), &[&[70_001, 70_000]]);
    add(&of(&[70_000, 70_001], 1, &[0, 1]), &[&[70_000, 70_001]]);
    add(&of(&[70_000, 70_001], 1, &[1, 0]), &[&[70_001, 70_000]]);
    let thin = Einsum::contraction("mk,nk->mn", &[&[3, 4096], &[1_000_000, 4096]], DType::BF16).expect("well formed");
    add(&thin, &[&[3, 4096], &[1_000_000, 4096]]);
    Module::compile(&text).unwrap_or_else(|e| panic!("{e}"));
}
