//! Hand-made task graphs in which partials are read before they are folded, or folded as they must not be.

use crate::task::{OpRow, TaskGraph};
use crate::task_text::parse;
use crate::verify::verify;
use ein_ir::graph::Graph;
use ein_ir::op::Op;

fn ops(graph: &Graph) -> Vec<OpRow> {
    let computes = |id: &ein_ir::graph::TensorId| !matches!(graph.node(*id).op, Op::Input(_));
    let row = |id| {
        let node = graph.node(id);
        OpRow {
            name: node.name.clone(),
            op: node.op.clone(),
            operands: node.inputs.iter().map(|&i| graph.ty(i).clone()).collect(),
            spec: graph.spec(id),
            result: node.ty.clone(),
        }
    };
    graph.ids().filter(computes).map(row).collect()
}

fn tasks(graph: &str, rows: &str) -> TaskGraph {
    let graph = ein_ir::text::parse(graph).unwrap_or_else(|e| panic!("{e}"));
    parse(rows, &ops(&graph)).unwrap_or_else(|e| panic!("{e}\n{rows}"))
}

/// What the verifier says, or `right`.
fn verdict(graph: &str, rows: &str) -> String {
    verify(&tasks(graph, rows)).map_or_else(|e| e.to_string(), |()| "right".into())
}

/// Two elements of x on two devices, folded to `total` by a monoid; both devices apply `map` to their partial of it,
/// and the maps are folded by the same monoid.
fn before_the_fold(monoid: &str, of: &str, map: &str, to: &str) -> String {
    let graph = format!(
        "x: input {of}[2]\ny: input {to}[]\ntotal = einsum {of} (| i: 2) {monoid} x[i]\n\
         after = einsum {to} () map {map}\nreturn after\n"
    );
    let reads_y = map.contains("y[]");
    let (operands, y) = if reads_y { (" 0 1", " t2") } else { (" 0", "") };
    let (operands_1, y_1) = if reads_y { (" 0 1", " t3") } else { (" 0", "") };
    let rows = format!(
        "devices 2\nexternal 0 input \"x\" {of}[2]\nexternal 1 input \"y\" {to}[]\nop 0 \"total\"\nop 1 \"after\"\n\
         output 0 \"after\" {to}[]\nlabel 0 \"x\"\nlabel 1 \"y\"\nlabel 2 \"total\"\nlabel 3 \"after\"\n\
         t0 d0 feed x0 -> [0:1] {of} of 0\n\
         t1 d1 feed x0 -> [1:2] {of} of 0\n\
         t2 d0 feed x1 -> [] {to} of 1\n\
         t3 d1 feed x1 -> [] {to} of 1\n\
         t4 d0 kernel op0 [0:1] pending operands 0 reads t0 -> [] {of} of 2\n\
         t5 d1 kernel op0 [1:2] pending operands 0 reads t1 -> [] {of} of 2\n\
         t6 d0 kernel op1 [] finish operands{operands} reads t4{y} -> [] {to} of 3\n\
         t7 d1 kernel op1 [] finish operands{operands_1} reads t5{y_1} -> [] {to} of 3\n\
         t8 d1 send d0 reads t7 -> [] nothing of 3\n\
         t9 d0 receive d1 reads t8 -> [] {to} of 3\n\
         t10 d0 fold {monoid} finish reads t6 t9 -> [] {to} of 3\n\
         t11 d0 output o0 reads t10 -> [] nothing of 3\n"
    );
    verdict(&graph, &rows)
}

/// Only what commutes passes a pending fold.
#[test]
fn a_map_before_the_fold() {
    let refused = |monoid: &str, why: &str| {
        format!(
            "t6 (kernel of `after` on d0): reads a partial of `total`, whose fold by {monoid} is still to come: {why}"
        )
    };
    let once = "adds what is not pending, once for every partial";
    let rows = [
        ("C1", "sum", "f32", "total[] + 10.0", "f32", refused("sum", &format!("`add` (row 2) {once}"))),
        ("C1", "sum", "f32", "sqrt(total[]) + 1e-6", "f32", refused("sum", "`sqrt` (row 1) is not linear")),
        ("C2", "sum", "f32", "max(total[], 0.0)", "f32", refused("sum", "`max` (row 2) is not linear")),
        ("C2", "sum", "f32", "abs(total[])", "f32", refused("sum", "`abs` (row 1) is not linear")),
        ("C2", "sum", "f32", "exp(total[])", "f32", refused("sum", "`exp` (row 1) is not linear")),
        ("C6", "sum", "f32", "min(total[], 2.0)", "f32", refused("sum", "`min` (row 2) is not linear")),
        ("C7", "sum", "f32", "total[] + y[]", "f32", refused("sum", &format!("`add` (row 2) {once}"))),
        (
            "C10",
            "max",
            "f32",
            "-total[]",
            "f32",
            refused("max", "`the map` falls: it needs the smallest of the partials, not their max"),
        ),
        (
            "C10",
            "max",
            "i64",
            "total[] - 1",
            "i64",
            refused("max", "`sub` (row 2) wraps around, so that a larger integer may give a smaller one"),
        ),
        (
            "C11",
            "sum",
            "f32",
            "cast<bf16>(total[])",
            "bf16",
            refused("sum", "`cast f32 to bf16` (row 1) rounds or wraps every partial, not their sum"),
        ),
        (
            "C11",
            "sum",
            "i64",
            "cast<i32>(total[])",
            "i32",
            refused("sum", "`cast i64 to i32` (row 1) rounds or wraps every partial, not their sum"),
        ),
        // What commutes may be done before.
        ("C2", "sum", "f32", "-total[]", "f32", "right".into()),
        ("C7", "sum", "f32", "total[] * y[]", "f32", "right".into()),
        ("C10", "max", "f32", "max(total[] + 1.0, 0.0)", "f32", "right".into()),
        ("C11", "max", "f32", "cast<bf16>(total[])", "bf16", "right".into()),
        ("C2", "prod", "f32", "abs(total[])", "f32", "right".into()),
    ];
    for (case, monoid, of, map, to, expected) in rows {
        assert_eq!(before_the_fold(monoid, of, map, to), expected, "{case}: {map}");
    }
}

/// Two sums of two elements each, on two devices.
const TWO: &str = "\
x: input f32[2]
y: input f32[2]
a = einsum f32 (| i: 2) sum x[i]
b = einsum f32 (| i: 2) sum y[i]
z = einsum f32 () map a[] * b[]
s = einsum f32 () map a[] - b[]
c = einsum f32 () map a[]
v = reshape a [1]
w = pad v [1:0] value 1.0
p = pad v [1:0] value 0.0
j = concat(v, y) axis 0
mean = einsum f32 (| i: 2) moments x[i]
t = top(x) k 1
";

/// Devices, tensors, and the partials of `a` (t4, t5) and `b` (t6, t7) on devices 0 and 1; t8 is that of `a` from 1 on 0.
fn two(rows: &str, output: &str) -> String {
    let names = ["a", "b", "z", "s", "c", "v", "w", "p", "j", "mean", "t"];
    let listed: Vec<String> = names.iter().enumerate().map(|(n, name)| format!("op {n} \"{name}\"\n")).collect();
    let listed = listed.concat();
    let head = format!(
        "devices 2\nexternal 0 input \"x\" f32[2]\nexternal 1 input \"y\" f32[2]\n{listed}{output}label 0 \"it\"\n\
         t0 d0 feed x0 -> [0:1] f32 of 0\n\
         t1 d1 feed x0 -> [1:2] f32 of 0\n\
         t2 d0 feed x1 -> [0:1] f32 of 0\n\
         t3 d1 feed x1 -> [1:2] f32 of 0\n\
         t4 d0 kernel op0 [0:1] pending operands 0 reads t0 -> [] f32 of 0\n\
         t5 d1 kernel op0 [1:2] pending operands 0 reads t1 -> [] f32 of 0\n\
         t6 d0 kernel op1 [0:1] pending operands 0 reads t2 -> [] f32 of 0\n\
         t7 d1 kernel op1 [1:2] pending operands 0 reads t3 -> [] f32 of 0\n\
         t8 d1 send d0 reads t5 -> [] nothing of 0\n\
         t9 d0 receive d1 reads t8 -> [] f32 of 0\n"
    );
    verdict(TWO, &(head + rows))
}

#[test]
fn what_is_done_with_partials() {
    let a = "reads a partial of `a`, whose fold by sum is still to come";
    let rows: Vec<(&str, &str, String)> = vec![
        (
            "C4: a product of two pending sums",
            "t10 d0 kernel op2 [] finish operands 0 1 reads t4 t6 -> [] f32 of 0\n",
            format!(
                "t10 (kernel of `it` on d0): {a}: `mul` (row 2) multiplies two pending sums: every partial of one would \
                 have to meet every partial of the other"
            ),
        ),
        (
            "a difference of two pending sums, folded",
            "t10 d0 kernel op3 [] finish operands 0 1 reads t4 t6 -> [] f32 of 0\n\
             t11 d1 kernel op3 [] finish operands 0 1 reads t5 t7 -> [] f32 of 0\n\
             t12 d1 send d0 reads t11 -> [] nothing of 0\n\
             t13 d0 receive d1 reads t12 -> [] f32 of 0\n\
             t14 d0 fold sum finish reads t10 t13 -> [] f32 of 0\n",
            "right".into(),
        ),
        (
            "a copy is a partial still, and no partial of what it copies",
            "t10 d0 kernel op4 [] finish operands 0 reads t4 -> [] f32 of 0\n\
             t11 d0 fold sum finish reads t10 t9 -> [] f32 of 0\n",
            "t11 (fold of `it` on d0): folds partials of `a` over [1:2] by sum beside `c` of partials of `a` over [0:1]"
                .into(),
        ),
        (
            "half of what is to be folded",
            "t10 d0 fold sum finish reads t4 -> [] f32 of 0\n",
            "t10 (fold of `it` on d0): finishes `a` without the partials over [1:2]".into(),
        ),
        (
            "one partial twice",
            "t10 d0 fold sum finish reads t4 t4 -> [] f32 of 0\n",
            "t10 (fold of `it` on d0): folds the partial of `a` over [0:1] twice".into(),
        ),
        (
            "by another monoid",
            "t10 d0 fold max finish reads t4 t9 -> [] f32 of 0\n",
            "t10 (fold of `it` on d0): folds partials of `a` over [0:1] by max where sum is pending".into(),
        ),
        (
            "of another tensor",
            "t10 d0 fold sum finish reads t6 t9 -> [] f32 of 0\n",
            "t10 (fold of `it` on d0): folds partials of `a` over [1:2] by sum beside partials of `b` over [0:1]".into(),
        ),
        (
            "what is finished is not folded",
            "t10 d0 fold sum finish reads t4 t9 -> [] f32 of 0\nt11 d0 fold sum finish reads t10 -> [] f32 of 0\n",
            "t11 (fold of `it` on d0): folds t10, which is finished".into(),
        ),
        (
            "in two steps",
            "t10 d0 fold sum pending reads t4 t9 -> [] f32 of 0\nt11 d0 fold sum finish reads t10 -> [] f32 of 0\n",
            "right".into(),
        ),
        (
            "what holds every partial is the value, said or not",
            "t10 d0 fold sum pending reads t4 t9 -> [] f32 of 0\n\
             t11 d0 kernel op4 [] finish operands 0 reads t10 -> [] f32 of 0\n",
            "right".into(),
        ),
        (
            "a view of a partial is one of the view",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\n\
             t11 d0 view op5 inputs 0 reads t9 -> [0:1] f32 of 0\n\
             t12 d0 fold sum finish reads t10 t11 -> [0:1] f32 of 0\n\
             t13 d0 view op6 inputs 0 reads t12 -> [0:2] f32 of 0\n",
            "right".into(),
        ),
        (
            "a fill that adds up",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\nt11 d0 view op6 inputs 0 reads t10 -> [0:2] f32 of 0\n",
            format!("t11 (view of `it` on d0): {a}: `pad` fills in 1, once for every partial of a sum"),
        ),
        (
            "a fill of nothing",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\nt11 d0 view op7 inputs 0 reads t10 -> [0:2] f32 of 0\n",
            "right".into(),
        ),
        (
            "beside what is finished",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\n\
             t11 d0 view op8 inputs 0 1 reads t10 t2 -> [0:2] f32 of 0\n",
            format!("t11 (view of `it` on d0): {a}: `j` puts it beside what is finished"),
        ),
        (
            "pasted beside what is finished",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\n\
             t11 d0 paste reads t10 t2 -> [0:1] f32 of 0\n",
            "t11 (paste of `it` on d0): the boxes read do not fill [0:1] exactly".into(),
        ),
        (
            "a kernel",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\n\
             t11 d0 view op7 inputs 0 reads t10 -> [0:2] f32 of 0\n\
             t12 d0 kernel op10 [0:2] finish operands 0 reads t11 -> [0:1] f32 of 0\n",
            format!("t12 (kernel of `it` on d0): {a}: `t` takes finished operands"),
        ),
        (
            "an operation that lacks part of its own",
            "t10 d0 view op5 inputs 0 reads t4 -> [0:1] f32 of 0\n\
             t11 d0 kernel op9 [0:1] pending operands 0 reads t10 -> [0:2] {count:f32();mean:f32();m2:f32()} of 0\n",
            "t11 (kernel of `it` on d0): ".to_string() + a + ": `mean` lacks part of a folded label of its own",
        ),
    ];
    for (what, rows, expected) in rows {
        assert_eq!(two(rows, ""), expected, "{what}");
    }
    assert_eq!(
        two("t10 d0 output o0 reads t4 -> [] nothing of 0\n", "output 0 \"a\" f32[]\n"),
        format!("t10 (output of `it` on d0): {a}: only what is finished is handed out")
    );
}

/// A relu of a sum of two rows: its left half from one device, where it is finished, its right half a partial.
#[test]
fn a_partial_beside_what_is_finished() {
    let graph = "x: input f32[2, 2]\na = einsum f32 (j: 2 | i: 2) sum x[i, j]\n";
    let rows = "devices 1\nexternal 0 input \"x\" f32[2,2]\nop 0 \"a\"\nlabel 0 \"a\"\n\
                t0 d0 feed x0 -> [0:2,0:2] f32 of 0\n\
                t1 d0 kernel op0 [0:1,0:2] finish operands 0 reads t0 -> [0:1] f32 of 0\n\
                t2 d0 kernel op0 [1:2,0:1] pending operands 0 reads t0 -> [1:2] f32 of 0\n\
                t3 d0 paste reads t1 t2 -> [0:2] f32 of 0\n";
    assert_eq!(
        verdict(graph, rows),
        "t3 (paste of `a` on d0): puts partials of `a` over [0:1] beside what is finished"
    );
}

/// Keys that no query sees leave nothing: a fold without them is complete, one without others is not.
#[test]
fn a_causal_fold_is_complete_without_what_nobody_sees() {
    let graph = "q: input f32[1, 1, 2, 1]\ny = attention(q, q, q) causal\n";
    let rows = |folded: &str| {
        format!(
            "devices 1\nexternal 0 input \"q\" f32[1,1,2,1]\nop 0 \"y\"\nlabel 0 \"y\"\n\
             t0 d0 feed x0 -> [0:1,0:1,0:2,0:1] f32 of 0\n\
             t1 d0 kernel op0 [0:1,0:1,0:2,0:1,0:1,0:1] pending operands 0 0 0 reads t0 -> [0:1,0:1,0:2,0:1] \
             {{max:f32(0,1,2);sum:f32(0,1,2);acc:f32(0,1,2,3)}} of 0\n\
             t2 d0 cut reads t1 -> {folded} {{max:f32(0,1,2);sum:f32(0,1,2);acc:f32(0,1,2,3)}} of 0\n\
             t3 d0 fold attend finish reads t2 -> {folded} f32 of 0\n"
        )
    };
    assert_eq!(verdict(graph, &rows("[0:1,0:1,0:1,0:1]")), "right");
    assert_eq!(
        verdict(graph, &rows("[0:1,0:1,1:2,0:1]")),
        "t3 (fold of `y` on d0): finishes `y` without the partials over [1:2,0:1]"
    );
}

/// Four parts of the axis of a linear recurrence on one device, folded in rows that are put behind them.
#[test]
fn an_ordered_fold_keeps_the_order_of_the_axis() {
    let graph = "a: input f32[8]\nb: input f32[8]\nh = last_state(a, b)\nneg = map -h\n";
    let map = "{scale:f32();shift:f32()}";
    let said = |rows: &str| {
        let mut text = String::from(
            "devices 1\nexternal 0 input \"a\" f32[8]\nexternal 1 input \"b\" f32[8]\nop 0 \"h\"\nop 1 \"neg\"\n\
             label 0 \"h\"\nt0 d0 feed x0 -> [0:8] f32 of 0\nt1 d0 feed x1 -> [0:8] f32 of 0\n",
        );
        for n in 0..4 {
            let (t, lo, hi) = (n + 2, 2 * n, 2 * n + 2);
            text += &format!("t{t} d0 kernel op0 [{lo}:{hi}] pending operands 0 1 reads t0 t1 -> [] {map} of 0\n");
        }
        verdict(graph, &(text + rows))
    };
    let apart = |before: &str, after: &str| {
        format!(
            "folds the partial of `h` over {after} right behind that over {before}; affine keeps the order of the axis"
        )
    };
    let run = |t: usize, reads: &str| format!("t{t} d0 fold affine pending reads {reads} -> [] {map} of 0\n");
    let end = |t: usize, reads: &str| format!("t{t} d0 fold affine finish reads {reads} -> [] f32 of 0\n");
    let rows = [
        (end(6, "t2 t3 t4 t5"), "right".to_owned()),
        (run(6, "t2 t3") + &run(7, "t4 t5") + &end(8, "t6 t7"), "right".to_owned()),
        (run(6, "t3 t4") + &end(7, "t2 t6 t5"), "right".to_owned()),
        // Swapped, with a gap, runs that are swapped, and a run around what is missing in it.
        (end(6, "t2 t4 t3 t5"), apart("[0:2]", "[4:6]")),
        (run(6, "t2 t4"), apart("[0:2]", "[4:6]")),
        (run(6, "t2 t3") + &run(7, "t4 t5") + &end(8, "t7 t6"), apart("[6:8]", "[0:2]")),
        (end(6, "t2 t3 t5"), apart("[2:4]", "[6:8]")),
        (end(6, "t3 t4 t5"), "finishes `h` without the partials over [0:2]".to_owned()),
        (end(6, "t2 t3 t3 t4 t5"), apart("[2:4]", "[2:4]")),
        (
            "t6 d0 kernel op1 [] finish operands 0 reads t2 -> [] f32 of 0\n".to_owned(),
            "an operand is not stored as it must be".to_owned(),
        ),
    ];
    for (rows, expected) in rows {
        let found = said(&rows);
        assert!(found.contains(&expected), "{rows}{found}");
    }
}
