//! Building graphs, and the mistakes that are refused; running them, and the inputs that are refused.

mod common;

use common::{iota, ty};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::Expr;
use ein_ir::graph::{Graph, GraphError, TensorId};
use ein_ir::kernel::{Attention, Gather, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::InputKind;
use ein_ir::reference::{EvalError, run, run_from};
use ein_ir::view::View;
use std::collections::BTreeMap;

/// A graph with `x: f32[3,4]`, `w: f32[4,5]`, `ids: i64[2]`, `flags: bool[3,4]`, `none: f32[3,0]`.
fn start() -> (Graph, [TensorId; 5]) {
    let mut g = Graph::new();
    let mut input = |name: &str, dtype, shape: &[usize]| {
        g.input(name, InputKind::Input, ty(dtype, shape)).unwrap_or_else(|e| panic!("{e}"))
    };
    let ids = [
        input("x", DType::F32, &[3, 4]),
        input("w", DType::F32, &[4, 5]),
        input("ids", DType::I64, &[2]),
        input("flags", DType::Bool, &[3, 4]),
        input("none", DType::F32, &[3, 0]),
    ];
    (g, ids)
}

/// An einsum over `[3, 4]` that folds `fold` labels of `x`.
fn over(dtype: DType, extents: &[usize], rank: usize, monoid: Monoid) -> Einsum {
    Einsum {
        labels: extents.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect(),
        rank,
        accesses: vec![Access::labels(&[0, 1])],
        join: Expr::operand(dtype),
        monoid,
        dtype,
    }
}

fn attention(heads: usize, kv_heads: usize, mask: Option<Vec<usize>>) -> Attention {
    Attention {
        batch: 1,
        heads,
        kv_heads,
        queries: 2,
        keys: 3,
        dim: 4,
        value_dim: 4,
        causal: false,
        window: None,
        softcap: None,
        packed: None,
        own: false,
        mask,
        scale: 1.0_f64.to_bits(),
        dtype: DType::F32,
    }
}

type Build = Box<dyn Fn(&mut Graph, [TensorId; 5]) -> Result<TensorId, GraphError>>;

/// Every mistake is refused with an error that says what it is.
#[test]
fn mistakes_are_named() {
    let check = |build: Build, expected: &str| {
        let (mut g, ids) = start();
        let rows = g.nodes().len();
        let error = build(&mut g, ids).expect_err(expected).to_string();
        assert_eq!(error, expected);
        assert_eq!(g.nodes().len(), rows, "nothing was added");
    };
    let f = |e: Einsum| -> Build { Box::new(move |g, [x, ..]| g.einsum("e", e.clone(), &[x])) };
    let sum = over(DType::F32, &[3, 4], 1, Monoid::Sum);
    check(
        Box::new(|g, _| g.input("x", InputKind::Parameter, ty(DType::F32, &[1]))),
        "the name `x` is taken: names are unique",
    );
    check(Box::new(|g, _| g.contraction("e", "i->i", &[TensorId(9)])), "`e` reads t9, which is not an earlier tensor");
    check(
        Box::new(|g, [x, w, ..]| g.contraction("e", "ij,kj->ik", &[x, w])),
        "`e`: label `j` is 4 long in one operand and 5 in operand 1",
    );
    check(
        Box::new(|g, [x, ..]| g.contraction("e", "ij->ik", &[x])),
        "`e`: einsum `ij->ik`: output letter `k` is in no operand",
    );
    check(
        Box::new(|g, [x, ..]| g.contraction("e", "ij->ii", &[x])),
        "`e`: einsum `ij->ii`: an output letter occurs twice",
    );
    check(f(Einsum { rank: 3, ..sum.clone() }), "`e`: rank 3 but only 2 labels");
    check(f(Einsum { join: Expr::new(), ..sum.clone() }), "`e`: the join has no rows");
    let mut twice = sum.clone();
    twice.labels[1].name = "l0".into();
    check(f(twice), "`e`: label `l0` is listed twice");
    check(
        f(over(DType::F32, &[3, 3], 1, Monoid::Sum)),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but axis 1 is label `l1` of extent 3",
    );
    check(
        f(Einsum { accesses: vec![Access::labels(&[0])], ..sum.clone() }),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but rank 1 is accessed",
    );
    let axis = |terms: Vec<(usize, i64)>, offset: i64| Einsum {
        accesses: vec![Access { axes: vec![Affine::label(0), Affine { terms, offset }] }],
        ..sum.clone()
    };
    check(f(axis(vec![(1, 1)], 1)), "`e` (einsum): operand 0 `x` is f32[3, 4], but axis 1 is read at indices 1 to 4");
    check(
        f(axis(vec![(1, i64::MAX)], i64::MAX)),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but axis 1 is read at indices 9223372036854775807 to 9223372036854775807",
    );
    check(
        f(axis(vec![(1, 0)], 0)),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but axis 1 is read at a missing label or with a stride of 0",
    );
    check(
        f(axis(vec![(7, 1)], 0)),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but axis 1 is read at a missing label or with a stride of 0",
    );
    check(
        f(axis(vec![(1, 1), (1, 1)], 0)),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but axis 1 is read at a label twice; add up its strides",
    );
    check(
        f(over(DType::F64, &[3, 4], 1, Monoid::Sum)),
        "`e` (einsum): operand 0 `x` is f32[3, 4], but the join reads f64",
    );
    check(
        Box::new(|g, [.., flags, _]| g.einsum("e", over(DType::Bool, &[3, 4], 1, Monoid::Sum), &[flags])),
        "`e`: sum of bool: use max (any) or min (all), or cast",
    );
    check(
        f(Einsum { monoid: Monoid::Attend, ..sum.clone() }),
        "`e`: attend is the monoid of a kernel, not of an einsum",
    );
    check(
        f(Einsum { monoid: Monoid::Moments, dtype: DType::I32, ..sum.clone() }),
        "`e`: moments needs a float type, not i32",
    );
    check(
        Box::new(|g, [.., none]| g.einsum("e", over(DType::F32, &[3, 0], 1, Monoid::Max), &[none])),
        "`e`: max over label `l1` of extent 0 has no value; give it at least one element",
    );
    check(
        Box::new(|g, [x, ..]| g.view("v", View::Reshape { shape: vec![5] }, &[x])),
        "`v`: reshape of a tensor of shape [3, 4]: 12 elements do not fill [5] (5)",
    );
    check(
        Box::new(|g, [x, _, ids, ..]| g.view("v", View::Concat { axis: 0 }, &[x, ids])),
        "`v` (concat): operand 1 `ids` is i64[2], but all parts must be f32",
    );
    check(
        Box::new(|g, [x, ..]| g.view("v", View::Roll { shifts: vec![3, 0] }, &[x])),
        "`v`: roll of a tensor of shape [3, 4]: shift 3 of axis 0 is not below its extent 3",
    );
    let slice = View::Slice { starts: vec![0, 1], steps: vec![1, i64::MAX], shape: vec![3, 3] };
    check(
        Box::new(move |g, [x, ..]| g.view("v", slice.clone(), &[x])),
        "`v`: slice of a tensor of shape [3, 4]: axis 1: 3 indices from 1 in steps of 9223372036854775807 leave 0..4",
    );
    let huge = View::Pad { before: vec![usize::MAX, 0], after: vec![1, 0], value: 0 };
    check(
        Box::new(move |g, [x, ..]| g.view("v", huge.clone(), &[x])),
        "`v`: a tensor of shape [18446744073709551615, 4] is more than can be addressed",
    );
    check(
        Box::new(|g, _| g.input("big", InputKind::Input, ty(DType::F32, &[1 << 40, 0, 1 << 40]))),
        "`big`: a tensor of shape [1099511627776, 0, 1099511627776] is more than can be addressed",
    );
    let a = |a: Attention| -> Build {
        Box::new(move |g, [x, w, ids, ..]| g.kernel("a", Kernel::Attention(a.clone()), &[x, w, ids]))
    };
    check(a(attention(4, 3, None)), "`a`: 4 query heads are not a multiple of 3 key/value heads");
    check(
        a(Attention { dim: 0, ..attention(4, 2, None) }),
        "`a`: attention needs queries and keys of at least one element",
    );
    check(a(Attention { dtype: DType::I64, ..attention(4, 2, None) }), "`a`: attention needs a float type, not i64");
    check(a(attention(4, 2, Some(vec![1, 1, 1, 3]))), "`a`: attention takes 4 operands, not 3");
    check(
        Box::new(|g, [x, ..]| g.kernel("a", Kernel::Attention(attention(4, 2, Some(vec![1, 2, 1, 3]))), &[x; 4])),
        "`a`: a mask of shape [1, 2, 1, 3] does not fit [1, 4, 2, 3]; axes but the last may be 1 long",
    );
    check(a(attention(4, 2, None)), "`a` (attention): operand 0 `x` is f32[3, 4], but f32[1, 4, 2, 4] is expected");
    let gather = Gather::rows(3, 4, &[2], DType::F32);
    check(
        Box::new(move |g, [x, w, ..]| g.kernel("e", Kernel::Gather(gather.clone()), &[x, w])),
        "`e` (gather): operand 1 `w` is f32[4, 5], but i64 or i32[2] is expected",
    );
    let nameless = Gather::rows(0, 4, &[2], DType::F32);
    check(
        Box::new(move |g, [x, w, ..]| g.kernel("e", Kernel::Gather(nameless.clone()), &[x, w])),
        "`e`: gather: axis 0 is 0 long, so that no id can name a place on it; there must be no ids either",
    );
    check(
        Box::new(|g, [x, ..]| {
            g.output("y", x)?;
            g.output("y", x).map(|()| x)
        }),
        "the name `y` is taken: names are unique",
    );
}

fn values(rows: &[(&str, Dense)]) -> BTreeMap<String, Dense> {
    rows.iter().map(|(n, d)| ((*n).to_string(), d.clone())).collect()
}

/// A graph with views, a kernel and a contraction, run whole and from its sources.
#[test]
fn whole_graphs() {
    let mut g = Graph::new();
    let ok = "well formed";
    let table = g.input("table", InputKind::Parameter, ty(DType::F32, &[5, 2])).expect(ok);
    let ids = g.input("ids", InputKind::Input, ty(DType::I64, &[3])).expect(ok);
    let unused = g.input("unused", InputKind::Input, ty(DType::F32, &[9])).expect(ok);
    g.view("dead", View::Reshape { shape: vec![3, 3] }, &[unused]).expect(ok);
    let gather = Gather::rows(5, 2, &[3], DType::F32);
    let rows = g.kernel("rows", Kernel::Gather(gather), &[table, ids]).expect(ok);
    let turned = g.view("turned", View::Permute { axes: vec![1, 0] }, &[rows]).expect(ok);
    let gram = g.contraction("gram", "dn,nf->df", &[turned, rows]).expect(ok);
    let both = g.view("both", View::Concat { axis: 1 }, &[turned, gram]).expect(ok);
    g.output("both", both).expect(ok);
    g.output("again", both).expect(ok);
    g.output("ids", ids).expect(ok);

    let table_values = Dense::f32([5, 2], (0..10).map(|v| v as f32).collect());
    let inputs = |ids: &[i64]| values(&[("table", table_values.clone()), ("ids", Dense::i64([3], ids.to_vec()))]);
    let results = run(&g, &inputs(&[4, 0, 4])).expect("a value");
    let expected = Dense::f32([2, 5], vec![8., 0., 8., 128., 144., 9., 1., 9., 144., 163.]);
    assert_eq!(results["both"], expected);
    assert_eq!(results["again"], expected);
    assert_eq!(results["ids"], Dense::i64([3], vec![4, 0, 4]));

    let sources: BTreeMap<TensorId, Dense> = [
        (rows, Dense::f32([3, 2], vec![8., 9., 0., 1., 8., 9.])),
        (gram, Dense::f32([2, 2], vec![128., 144., 144., 163.])),
        (ids, Dense::i64([3], vec![4, 0, 4])),
    ]
    .into();
    assert_eq!(run_from(&g, &sources).expect("a value"), results);

    let check = |result: Result<BTreeMap<String, Dense>, EvalError>, expected: &str| {
        assert_eq!(result.expect_err(expected).to_string(), expected);
    };
    check(run(&g, &inputs(&[4, 5, 4])), "`rows`: id 5 is outside 0..5, the rows of its table");
    check(run(&g, &inputs(&[4, -1, 4])), "`rows`: id -1 is outside 0..5, the rows of its table");
    check(run(&g, &values(&[("table", table_values.clone())])), "input `ids` is not given; it is i64[3]");
    let wrong = values(&[("table", iota(&[5, 2])), ("ids", Dense::i64([3], vec![0; 3]))]);
    check(run(&g, &wrong), "`table` is i64[5, 2], but f32[5, 2] is expected");
    let short = values(&[("table", table_values.clone()), ("ids", Dense::i64([2], vec![0; 2]))]);
    check(run(&g, &short), "`ids` is i64[2], but i64[3] is expected");
    let mut less = sources.clone();
    less.remove(&gram);
    check(run_from(&g, &less), "the value of `gram` is not given");
}

/// Empty dimensions and scalars.
#[test]
fn corners() {
    let check = |spec: &str, inputs: &[Dense], expected: Dense| {
        let mut g = Graph::new();
        let ids: Vec<TensorId> = inputs
            .iter()
            .enumerate()
            .map(|(n, d)| g.input(&format!("x{n}"), InputKind::Input, d.ty()).expect("an input"))
            .collect();
        let out = g.contraction("out", spec, &ids).unwrap_or_else(|e| panic!("{e}"));
        g.output("out", out).expect("an output");
        let named = inputs.iter().enumerate().map(|(n, d)| (format!("x{n}"), d.clone())).collect();
        assert_eq!(run(&g, &named).unwrap_or_else(|e| panic!("{e}"))["out"], expected, "{spec}");
    };
    let f = |shape: &[usize], v: &[f32]| Dense::f32(shape, v.to_vec());
    check("ij,jk->ik", &[f(&[4, 0], &[]), f(&[0, 3], &[])], f(&[4, 3], &[0.0; 12]));
    check("ij,jk->ik", &[f(&[0, 2], &[]), f(&[2, 3], &[1.0; 6])], f(&[0, 3], &[]));
    check("ij->j", &[f(&[0, 2], &[])], f(&[2], &[0.0; 2]));
    check("f,f->", &[f(&[5], &[0., 1., 2., 3., 4.]), f(&[5], &[0., 1., 2., 3., 4.])], f(&[], &[30.0]));
    check("ii->", &[iota(&[3, 3])], Dense::i64([], vec![12]));
    check("ii->i", &[iota(&[3, 3])], Dense::i64([3], vec![0, 4, 8]));
    check(",i->i", &[f(&[], &[2.0]), f(&[2], &[3.0, 4.0])], f(&[2], &[6.0, 8.0]));
    // Products of two bf16 are added exactly: rounded first, 129 * 129 would be 130 * 128.
    let narrow = |v: &[f64]| Dense::from_f64(DType::BF16, [v.len()], v);
    check("i,i->", &[narrow(&[129.0, 130.0]), narrow(&[129.0, -128.0])], Dense::from_f64(DType::BF16, [], &[1.0]));
}
