//! Parameters that are stored as products read them, and those that something else reads too.

mod common;

use common::{Build, integers};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::graph::TensorType;
use ein_ir::op::{InputKind, Op};
use ein_ir::reference::{Operand, block};
use ein_ir::region::Region;
use ein_run::Executor;
use ein_task::task::TaskId;
use std::collections::BTreeMap;

/// A product of an input and a parameter, in this order or the other, on parts of both; perhaps something hands the
/// parameter out, too. Exact, and the same again in a second run.
fn check(spec: &str, shapes: [&[usize]; 2], parameter: usize, parts: &[Region], out: bool) {
    let e = Einsum::contraction(spec, &shapes, DType::F32).expect("well formed");
    let types = shapes.map(|s| TensorType::new(DType::F32, s));
    let op = Op::Einsum(e.clone());
    let whole = op.spec(&[DType::F32; 2]).expect("it computes");
    let shape = whole.result_region(&whole.space()).shape();
    let values = [integers(DType::F32, shapes[0], 1), integers(DType::F32, shapes[1], 2)];
    let mut b = Build::new(1);
    let row = b.op("y", op.clone(), &types, TensorType::new(DType::F32, shape.clone()));
    let kind = |n: usize| if n == parameter { InputKind::Parameter } else { InputKind::Input };
    let externals = [0, 1].map(|n| b.external(&format!("x{n}"), kind(n), DType::F32, shapes[n]));
    let mut done: Vec<(TaskId, Dense)> = Vec::new();
    for part in parts {
        let regions = [0, 1].map(|n| whole.operand_region(n, part));
        let feeds = [0, 1].map(|n| b.feed(0, externals[n], regions[n].clone()));
        let task = b.kernel(0, row, part.clone(), true, &feeds);
        let data = [0, 1].map(|n| values[n].cut(&types[n].whole(), &regions[n]));
        let operands = [0, 1].map(|n| Some(Operand { data: &data[n], region: regions[n].clone() }));
        let form = b.value(task).form.clone();
        done.push((task, block(&op, part, &operands, &form, true).expect("it computes").remove(0)));
    }
    let tasks: Vec<TaskId> = done.iter().map(|d| d.0).collect();
    let results: Vec<(Region, Dense)> = done.into_iter().map(|(t, d)| (b.value(t).region.clone(), d)).collect();
    b.output("y", DType::F32, &shape, &tasks);
    if out {
        let feed = b.feed(0, externals[parameter], types[parameter].whole());
        b.output("w", DType::F32, shapes[parameter], &[feed]);
    }
    let source = BTreeMap::from([(format!("x{parameter}"), values[parameter].clone())]);
    let given = BTreeMap::from([(format!("x{}", 1 - parameter), values[1 - parameter].clone())]);
    let mut executor = Executor::new(b.finish(), &source).expect("well formed");
    for _ in 0..2 {
        let found = executor.run(&given).expect("it runs").outputs;
        for (region, right) in &results {
            let own = found["y"].cut(&Region::whole(&shape), region);
            assert_eq!(&own, right, "{spec} {shapes:?} {region}");
        }
        assert!(!out || found["w"] == values[parameter]);
    }
}

#[test]
fn products_with_parameters_are_exact() {
    for (m, n, k) in [(1, 1, 3), (1, 100, 7), (5, 33, 70), (13, 64, 5), (50, 31, 515), (64, 1, 9)] {
        check("ik,jk->ij", [&[m, k], &[n, k]], 1, &[Region::of(&[(0, m), (0, n), (0, k)])], false);
        check("ik,kj->ij", [&[m, k], &[k, n]], 1, &[Region::of(&[(0, m), (0, n), (0, k)])], false);
        // The result's rows belong to the parameter.
        check("jk,ik->ji", [&[n, k], &[m, k]], 0, &[Region::of(&[(0, n), (0, m), (0, k)])], false);
        check("ik,jk->ij", [&[m, k], &[n, k]], 1, &[Region::of(&[(0, m), (0, n), (0, k)])], true);
    }
    check("bsk,hdk->bshd", [&[2, 5, 24], &[3, 7, 24]], 1, &[Region::whole(&[2, 5, 3, 7, 24])], false);
    check("bshd,nhd->bsn", [&[2, 5, 3, 8], &[9, 3, 8]], 1, &[Region::whole(&[2, 5, 9, 3, 8])], false);
    // Heads before the sequence: a loop over what the parameter lacks.
    check("bsk,hdk->bhsd", [&[2, 5, 24], &[3, 7, 24]], 1, &[Region::whole(&[2, 3, 5, 7, 24])], false);
    // A parameter that changes with the batch is no one matrix.
    check("bik,bjk->bij", [&[3, 20, 16], &[3, 10, 16]], 1, &[Region::whole(&[3, 20, 10, 16])], false);
}

/// Both factors are parameters: one of them at most is packed.
#[test]
fn a_product_of_parameters_is_exact() {
    let e = Einsum::contraction("ik,jk->ij", &[&[20, 30], &[40, 30]], DType::F32).expect("well formed");
    let types = [[20, 30], [40, 30]].map(|s| TensorType::new(DType::F32, s));
    let values = [integers(DType::F32, &[20, 30], 1), integers(DType::F32, &[40, 30], 2)];
    let mut b = Build::new(1);
    let space = e.space();
    let row = b.op("y", Op::Einsum(e.clone()), &types, TensorType::new(DType::F32, [20, 40]));
    let feeds = [0, 1].map(|n| {
        let x = b.external(&format!("x{n}"), InputKind::Parameter, DType::F32, &types[n].shape);
        b.feed(0, x, types[n].whole())
    });
    let done = b.kernel(0, row, space.clone(), true, &feeds);
    b.output("y", DType::F32, &[20, 40], &[done]);
    let form = b.value(done).form.clone();
    let operands = [0, 1].map(|n| Some(Operand { data: &values[n], region: types[n].whole() }));
    let right = block(&Op::Einsum(e), &space, &operands, &form, true).expect("it computes").remove(0);
    let source = BTreeMap::from([0, 1].map(|n| (format!("x{n}"), values[n].clone())));
    let mut executor = Executor::new(b.finish(), &source).expect("well formed");
    assert_eq!(executor.run(&BTreeMap::new()).expect("it runs").outputs["y"], right);
}

#[test]
fn parts_of_a_parameter_are_packed_apart() {
    let parts = [Region::of(&[(0, 20), (0, 40), (0, 50)]), Region::of(&[(0, 20), (40, 77), (0, 50)])];
    check("ik,jk->ij", [&[20, 50], &[77, 50]], 1, &parts, false);
    check("ik,kj->ij", [&[20, 50], &[50, 77]], 1, &parts, false);
}

/// Large enough to be done in parts: the same bits on any number of threads, and the right ones.
#[test]
fn parts_of_a_product_are_exact_on_any_number_of_threads() {
    for (spec, batch, rows, columns, inner) in
        [("bsk,nk->bsn", 1, 601, 250, 300), ("bsk,nk->bsn", 3, 200, 257, 300), ("bsk,nk->bns", 2, 300, 130, 400)]
    {
        let shapes: [&[usize]; 2] = [&[batch, rows, inner], &[columns, inner]];
        let e = Einsum::contraction(spec, &shapes, DType::F32).expect("well formed");
        let types = shapes.map(|s| TensorType::new(DType::F32, s));
        let [x, w] = [integers(DType::F32, shapes[0], 1), integers(DType::F32, shapes[1], 2)];
        let shape: Vec<usize> = e.space().shape()[..3].to_vec();
        let build = || {
            let mut b = Build::new(1);
            let row = b.op("y", Op::Einsum(e.clone()), &types, TensorType::new(DType::F32, shape.clone()));
            let kinds = [InputKind::Input, InputKind::Parameter];
            let externals = [0, 1].map(|n| b.external(&format!("x{n}"), kinds[n], DType::F32, shapes[n]));
            let feeds = [0, 1].map(|n| b.feed(0, externals[n], types[n].whole()));
            let done = b.kernel(0, row, e.space(), true, &feeds);
            b.output("y", DType::F32, &shape, &[done]);
            b.finish()
        };
        let (source, given) = (BTreeMap::from([("x1".into(), w.clone())]), BTreeMap::from([("x0".into(), x.clone())]));
        let runs: Vec<Vec<f64>> = [1, 2, 5]
            .map(|threads| {
                let mut executor = Executor::with_threads(build(), &source, threads).expect("well formed");
                executor.run(&given).expect("it runs").outputs["y"].to_f64()
            })
            .to_vec();
        assert!(runs.iter().all(|r| *r == runs[0]), "{spec}: the same on any number of threads");
        let (x, w) = (x.to_f64(), w.to_f64());
        let mut right = Vec::with_capacity(runs[0].len());
        let one = |b: usize, s: usize, n: usize| {
            let (x, w) = (&x[(b * rows + s) * inner..][..inner], &w[n * inner..][..inner]);
            x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>()
        };
        for b in 0..batch {
            if spec.ends_with("bsn") {
                (0..rows).for_each(|s| (0..columns).for_each(|n| right.push(one(b, s, n))));
            } else {
                (0..columns).for_each(|n| (0..rows).for_each(|s| right.push(one(b, s, n))));
            }
        }
        assert!(runs[0] == right, "{spec} {batch} {rows} {columns} {inner}");
    }
}
