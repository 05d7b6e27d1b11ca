//! Maps of partials: what the algebra lets pass before a fold gives the same numbers when it runs, and the verifier
//! refuses the rest.
//!
//! `EIN_TEST_SEEDS` raises the number of seeds.

use ein_ir::algebra::{Answer, einsum_commutes};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::{InputKind, Op};
use ein_ir::reference::run;
use ein_ir::region::{Interval, Region};
use ein_task::machine::DeviceId;
use ein_task::pending::PendingFault;
use ein_task::task::{External, OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};
use ein_task::task_text::print;
use ein_task::verify::{Fault, VerifyError, verify};
use ein_tests::choices::Rng;
use ein_tests::interpret::{Order, interpret};
use std::collections::BTreeMap;

/// Elements of the folded label on every device.
const PART: usize = 3;

/// A value of a map over the pending `t[]`, the finished `y[]` and constants.
fn value(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 || rng.chance(20) {
        let leaves = ["t[]", "t[]", "t[]", "y[]", "0.0", "1.0", "-2.0", "0.5"];
        return leaves[rng.below(leaves.len())].into();
    }
    let mut inner = || value(rng, depth - 1);
    let (a, b) = (inner(), inner());
    match rng.below(12) {
        0 => format!("-({a})"),
        1 => format!("abs({a})"),
        2 => format!("exp({a})"),
        3 => format!("sqrt({a})"),
        4 => format!("max({a}, {b})"),
        5 => format!("min({a}, {b})"),
        6 => format!("({a}) + ({b})"),
        7 => format!("({a}) - ({b})"),
        8 => format!("({a}) / ({b})"),
        9 => format!("select(y[] < 0.0, {a}, {b})"),
        _ => format!("({a}) * ({b})"),
    }
}

/// `t` folds a part of x on every device, every device maps its partial of it to `after`, and device 0 folds those.
fn map_before_fold(graph: &Graph, monoid: Monoid, devices: usize) -> TaskGraph {
    let named = |name| graph.find(name).expect("it is there");
    let (x, y, t, after) = (named("x"), named("y"), named("t"), named("after"));
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
    let external =
        |id| External { name: graph.node(id).name.clone(), kind: InputKind::Input, ty: graph.ty(id).clone() };
    let mut tasks = TaskGraph {
        devices,
        ops: vec![row(t), row(after)],
        externals: vec![external(x), external(y)],
        outputs: vec![("after".into(), graph.ty(after).clone())],
        labels: graph.nodes().iter().map(|n| n.name.clone()).collect(),
        ..TaskGraph::default()
    };
    let form = |rank| Form::finished(DType::F32, rank);
    let mut push = |device: usize, verb: Verb, reads: Vec<TaskId>, value: Value| {
        let label = match &verb {
            Verb::Feed { external } => *external as u32,
            Verb::Kernel { op: 0, .. } => t.0,
            _ => after.0,
        };
        let device = DeviceId(device as u16);
        tasks.push(Task { device, verb, reads, after: vec![], value, within: None, slot: Slot::default(), label })
    };
    let scalar = || Value { region: Region(vec![]), form: form(0) };
    let mut maps = Vec::new();
    for device in 0..devices {
        let part = Region(vec![Interval::new(device * PART, (device + 1) * PART)]);
        let fed = push(device, Verb::Feed { external: 0 }, vec![], Value { region: part.clone(), form: form(1) });
        let kernel = Verb::Kernel { op: 0, labels: part, finish: false, operands: vec![Some(0)] };
        let partial = push(device, kernel, vec![fed], scalar());
        let Op::Einsum(einsum) = &graph.node(after).op else { panic!("it is a map") };
        let (mut reads, mut operands) = (Vec::new(), Vec::new());
        for &input in &graph.node(after).inputs {
            operands.push(Some(reads.len()));
            reads.push(if input == t { partial } else { push(device, Verb::Feed { external: 1 }, vec![], scalar()) });
        }
        let map = Verb::Kernel { op: 1, labels: einsum.space(), finish: true, operands };
        let map = push(device, map, reads, scalar());
        maps.push(if device == 0 {
            map
        } else {
            let nothing = Value::nothing(Region(vec![]));
            let send = push(device, Verb::Send { to: DeviceId(0) }, vec![map], nothing);
            push(0, Verb::Receive { from: DeviceId(device as u16) }, vec![send], scalar())
        });
    }
    let folded = push(0, Verb::Fold { monoid, finish: true }, maps, scalar());
    push(0, Verb::Output { output: 0 }, vec![folded], Value::nothing(Region(vec![])));
    tasks
}

#[test]
fn maps_that_commute_run_before_the_fold() {
    let seeds = std::env::var("EIN_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let (mut passed, mut refused) = (0, 0);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let monoid = [Monoid::Sum, Monoid::Max, Monoid::Min, Monoid::Prod][rng.below(4)];
        let devices = 2 + rng.below(3);
        let map = value(&mut rng, 3);
        if !map.contains("t[]") {
            continue;
        }
        let extent = devices * PART;
        let text = format!(
            "x: input f32[{extent}]\ny: input f32[]\nt = einsum f32 (| i: {extent}) {monoid} x[i]\n\
             after = einsum f32 () map {map}\nreturn after\n"
        );
        let graph = ein_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let after = graph.node(graph.find("after").expect("it is there"));
        let t = graph.find("t").expect("it is there");
        let Op::Einsum(einsum) = &after.op else { panic!("it is a map") };
        let pending: Vec<usize> = (0..after.inputs.len()).filter(|&n| after.inputs[n] == t).collect();
        let tasks = map_before_fold(&graph, monoid, devices);
        let what = format!("seed {seed}, {monoid} on {devices}: {map}\n{}", print(&tasks));
        let answer = einsum_commutes(monoid, einsum, &pending);
        if let Answer::No(refusal) = answer {
            refused += 1;
            let Err(VerifyError::Task { fault: Fault::Pending(fault), .. }) = verify(&tasks) else {
                panic!("{what}\nis let pass, though {refusal}");
            };
            let expected = PendingFault::Unfolded { tensor: "t".into(), monoid, why: refusal.to_string() };
            assert_eq!(fault, expected, "{what}");
            continue;
        }
        passed += 1;
        assert_eq!(verify(&tasks), Ok(()), "{what}");
        let mut draw = |shape: Vec<usize>| {
            let count = shape.iter().product();
            let values = (0..count).map(|_| [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0][rng.below(7)]).collect();
            Dense::f32(shape, values)
        };
        let inputs = BTreeMap::from([("x".to_string(), draw(vec![extent])), ("y".to_string(), draw(vec![]))]);
        let expected = run(&graph, &inputs).expect("the reference runs")["after"].get(0);
        for order in [Order::Rows, Order::Drawn(seed)] {
            let found = interpret(&graph, &tasks, &inputs, order).expect("it runs")["after"].get(0);
            // A quotient by 0 is infinite, and is promised for exact answers only.
            let fair = answer == Answer::Exactly || expected.is_finite();
            let equal = found == expected || (found.is_nan() && expected.is_nan());
            let near = (found - expected).abs() <= 1e-4 * (1.0 + expected.abs());
            assert!(!fair || equal || near, "{what}\n{found} is not {expected}\n{inputs:?}");
        }
    }
    assert!(passed > seeds / 20 && refused > seeds / 4, "{passed} passed, {refused} refused");
}
