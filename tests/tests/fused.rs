//! Rows that go together as one compute what they compute one after the other, and the verifier knows what a fused row is.

use ein_ir::einsum::Affine;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::reference::run;
use ein_ir::spec::Role;
use ein_ir::{simplify::simplify, text};
use ein_plan::choice::Choice;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_run::Order;
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::simulate::{compute_seconds, name, simulate};
use ein_task::task::{Source, Stage, Task, TaskGraph, TaskId, Verb};
use ein_task::task_text::{parse, print};
use ein_task::verify::verify;
use ein_tests::choices::Rng;
use ein_tests::computed::{Values, computed};
use ein_tests::interpret::{self, interpret};
use ein_tests::{choices, random, small};

/// The task graph of a plan or of drawn decisions, and the graph that it computes.
fn lowered(graph: &Graph, devices: usize, seed: u64, fuse: bool) -> (TaskGraph, Graph, Machine) {
    let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
    let options = Options { fuse, ..Options::default() };
    let drawn = || choices::drawn(graph, devices, seed);
    let choice = match seed % 3 {
        0 => None,
        1 => Some(drawn()),
        _ => Some(together(graph, devices).unwrap_or_else(drawn)),
    };
    let (tasks, graph) = if let Some(choice) = choice {
        let mut tasks = lower(graph, &choice, &machine, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        plan_memory(&mut tasks);
        (tasks, graph.clone())
    } else {
        let plan = plan(graph, &machine, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        (plan.tasks, plan.graph)
    };
    verify(&tasks).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&tasks)));
    (tasks, graph, machine)
}

/// Every row cut along the second label of its result, so that the boxes of all of them coincide.
fn together(graph: &Graph, devices: usize) -> Option<Choice> {
    let computes = graph.ids().filter(|&id| graph.spec(id).is_some());
    let label = |id: TensorId| {
        let spec = graph.spec(id)?;
        let fits = spec.rank > 1 && spec.labels[1].extent >= devices && spec.labels[1].role == Role::Free;
        fits.then(|| (graph.node(id).name.clone(), spec.labels[1].name.clone()))
    };
    let labels: Vec<(String, String)> = computes.map(label).collect::<Option<_>>()?;
    let labels: Vec<(&str, &str)> = labels.iter().map(|(row, label)| (row.as_str(), label.as_str())).collect();
    Some(choices::by_label(graph, devices, &labels))
}

fn stages(task: &Task) -> usize {
    if let Verb::Fused { stages } = &task.verb { stages.len() } else { 0 }
}

/// Lowered with and without: the same values, bit for bit where they are integers; how many rows went together.
fn check(what: &str, graph: &Graph, inputs: &Values, devices: usize, seed: u64, exact: bool) -> Vec<usize> {
    let expected = run(graph, inputs).expect("the reference runs");
    let (fused, graph, machine) = lowered(graph, devices, seed, true);
    let (alone, ..) = lowered(&graph, devices, seed, false);
    assert!(alone.tasks.iter().all(|t| stages(t) == 0), "{what}: it was switched off");
    assert_eq!(parse(&print(&fused), &fused.ops).as_ref(), Ok(&fused), "{what}");
    let blocks =
        |g: &TaskGraph| g.tasks.iter().map(|t| stages(t) + usize::from(t.verb.name() == "kernel")).sum::<usize>();
    assert_eq!(blocks(&fused), blocks(&alone), "{what}: every block is there");
    let sum = |g: &TaskGraph| g.tasks.iter().map(|t| compute_seconds(g, &machine, t).0).sum::<f64>();
    assert!(sum(&fused) <= sum(&alone) * (1.0 + 1e-9), "{what}: what is not moved costs nothing");
    assert!(simulate(&fused, &machine).makespan().0.is_finite());
    let with = computed(&graph, &fused, inputs, &[Order::Listed, Order::Random(seed)])
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let without = computed(&graph, &alone, inputs, &[Order::Listed]).unwrap_or_else(|e| panic!("{what}: {e}"));
    let meant = interpret(&graph, &fused, inputs, interpret::Order::Drawn(seed)).expect("it runs");
    assert_eq!(with[0], with[1], "{what}: the same bits in any order");
    for (name, right) in &expected {
        for (how, found) in [("alone", &without[0][name]), ("fused", &with[0][name]), ("meant", &meant[name])] {
            if exact {
                assert!(found == right, "{what}, {how}: `{name}` is {found:?}, not {right:?}\n{}", print(&fused));
            } else {
                let size = right.to_f64().iter().filter(|v| v.is_finite()).fold(1.0_f64, |m, v| m.max(v.abs()));
                let tolerance = if right.dtype().bytes() == 2 { 0.05 } else { 1e-5 };
                let apart = found.max_abs_difference(right);
                assert!(apart <= tolerance * size, "{what}: `{name}` is {apart} off");
            }
        }
    }
    fused.tasks.iter().map(stages).filter(|&n| n > 0).collect()
}

#[test]
fn random_graphs_are_the_same_fused() {
    let mut rows = 0;
    for seed in 0..300 {
        let exact = seed % 4 != 0;
        let (graph, inputs) = random::graph(seed, exact);
        let graph = if seed % 2 == 0 { simplify(&graph) } else { graph };
        rows += check(&format!("seed {seed}"), &graph, &inputs, 1 + seed as usize % 4, seed, exact).len();
    }
    assert!(rows > 5, "{rows} fused rows");
}

/// A first operation and some maps one after the other, drawn: of every kind and type, with operands that lack labels.
fn chain(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let (a, b, c, k) = (1 + rng.below(3), 1 + rng.below(60), 1 + rng.below(300), 1 + rng.below(40));
    let dtype = ["f32", "f32", "f64", "bf16", "i64"][rng.below(5)];
    let space = format!("(a: {a}, b: {b}, c: {c})");
    let mut lines = format!(
        "x: input {dtype}[{a}, {b}, {k}]\nw: param {dtype}[{c}, {k}]\nz: input {dtype}[{a}, {b}, {c}]\n\
         bias: param {dtype}[{c}]\nrows: input {dtype}[{a}, {b}]\n"
    );
    let head = rng.below(if dtype == "i64" { 4 } else { 5 });
    lines += &match head {
        0 | 1 => format!("v0 = einsum {dtype} (a: {a}, b: {b}, c: {c} | k: {k}) sum x[a, b, k] * w[c, k]\n"),
        2 => format!("v0 = einsum {dtype} {space} map z[a, b, c] * bias[c]\n"),
        3 => format!(
            "s = einsum {dtype} (a: {a}, b: {b} | c: {c}) max z[a, b, c]\n\
                      v0 = einsum {dtype} {space} map z[a, b, c] - s[a, b]\n"
        ),
        _ => format!(
            "s = einsum {dtype} (a: {a}, b: {b} | c: {c}) softmax z[a, b, c]\n\
                      v0 = einsum {dtype} {space} map (z[a, b, c] - s[a, b, 0]) * rows[a, b]\n"
        ),
    };
    let maps = 1 + rng.below(4);
    for n in 0..maps {
        let v = format!("v{n}[a, b, c]");
        let map = match rng.below(7) {
            0 => format!("{v} + bias[c]"),
            1 => format!("min({v}, bias[c]) * {v}"),
            2 => format!("max({v}, rows[a, b])"),
            3 => format!("{v} - z[a, b, c]"),
            4 => format!("select({v} < bias[c], {v}, z[a, b, c])"),
            5 => format!("{v} * rows[a, b] + bias[c]"),
            _ => v,
        };
        lines += &format!("v{} = einsum {dtype} {space} map {map}\n", n + 1);
    }
    lines + &format!("return v{maps}\n")
}

#[test]
fn drawn_chains_are_the_same_fused() {
    let mut found = Vec::new();
    for seed in 0..240 {
        let lines = chain(seed);
        let graph = text::parse(&lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
        let exact = !lines.contains("bf16") && !lines.contains("softmax");
        let inputs = small::inputs(&graph, seed);
        found.extend(check(&format!("seed {seed}\n{lines}"), &graph, &inputs, 1 + seed as usize / 3 % 3, seed, exact));
    }
    let long = found.iter().filter(|&&n| n > 3).count();
    assert!(found.len() > 200 && long > 50, "{} fused rows, {long} of more than three stages", found.len());
}

/// Products with parameters, and what is applied to their tiles: at sizes around those of tiles, and not.
#[test]
fn products_with_epilogues_are_exact() {
    for (b, s, n, k) in
        [(1, 1, 1, 1), (1, 1, 300, 40), (2, 7, 33, 5), (1, 53, 257, 70), (3, 50, 40, 600), (2, 130, 31, 9)]
    {
        let lines = format!(
            "x: input f32[{b}, {s}, {k}]\nw: param f32[{n}, {k}]\nbias: param f32[{n}]\nrest: input f32[{b}, {s}, {n}]\n\
             p = einsum f32 (b: {b}, s: {s}, n: {n} | k: {k}) sum x[b, s, k] * w[n, k]\n\
             c = einsum f32 (b: {b}, s: {s}, n: {n}) map p[b, s, n] + bias[n]\n\
             d = einsum f32 (b: {b}, s: {s}, n: {n}) map max(c[b, s, n], 0.0)\n\
             e = einsum f32 (b: {b}, s: {s}, n: {n}) map d[b, s, n] * d[b, s, n] + rest[b, s, n]\n\
             q = einsum bf16 (b: {b}, s: {s}, n: {n}) map cast<bf16>(e[b, s, n])\nreturn q\n"
        );
        let graph = text::parse(&lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
        let inputs = small::inputs(&graph, 3);
        for devices in 1..4 {
            check(&format!("{b} {s} {n} {k} on {devices}"), &graph, &inputs, devices, 2, false);
        }
        let one = check("one device", &graph, &inputs, 1, 2, false);
        assert_eq!(one, [5], "all of it is one row");
    }
}

/// Statistics and the map that reads them: a norm and a softmax, whole rows.
#[test]
fn statistics_and_their_maps_go_together() {
    for (rows, width) in [(1, 1), (7, 5), (300, 700), (3, 70_000)] {
        let lines = format!(
            "x: input f32[{rows}, {width}]\n\
             m = einsum f32 (r: {rows} | c: {width}) softmax x[r, c]\n\
             y = einsum f32 (r: {rows}, c: {width}) map exp(x[r, c] - m[r, 0]) / m[r, 1]\nreturn y\n"
        );
        let graph = text::parse(&lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
        let found = check(&format!("{rows} by {width}"), &graph, &small::inputs(&graph, 1), 1, 0, false);
        assert_eq!(found, [2], "{rows} by {width}");
    }
}

/// Every spoiled fused row is refused, and a row names what is in it.
#[test]
fn the_verifier_knows_what_a_fused_row_is() {
    let lines = "x: input f32[4, 6]\nw: param f32[5, 6]\nbias: param f32[5]\n\
                 p = einsum f32 (s: 4, n: 5 | k: 6) sum x[s, k] * w[n, k]\n\
                 y = einsum f32 (s: 4, n: 5) map p[s, n] + bias[n]\nreturn y\n";
    let graph = text::parse(lines).expect("it is right");
    let (good, ..) = lowered(&graph, 1, 0, true);
    let at = good.tasks.iter().position(|t| stages(t) == 2).expect("one is fused");
    assert_eq!(name(&good, &good.tasks[at]), "p + y");
    let refuse = |expected: &str, spoil: &dyn Fn(&mut TaskGraph, &mut Vec<Stage>)| {
        let mut bad = good.clone();
        let Verb::Fused { mut stages } = bad.tasks[at].verb.clone() else { panic!("it is fused") };
        spoil(&mut bad, &mut stages);
        bad.tasks[at].verb = Verb::Fused { stages };
        let error = verify(&bad).expect_err(expected).to_string();
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    };
    refuse("stages", &|_, s| s.truncate(1));
    refuse("reads", &|_, s| s[1].operands[1] = Some(Source::Previous));
    refuse("before the first", &|_, s| {
        s[0].operands[0] = Some(Source::Previous);
        s[1].operands = vec![Some(Source::Read(0)), Some(Source::Read(2))];
    });
    refuse("read 9 of 3", &|_, s| {
        s[0].operands[0] = Some(Source::Read(9));
        s[1].operands = vec![Some(Source::Read(0)), Some(Source::Read(2))];
    });
    refuse("does not read the stage before", &|_, s| s[1].operands[0] = Some(Source::Read(0)));
    refuse("operation 9 of", &|_, s| s[1].op = 9);
    refuse("operands", &|_, s| s[1].operands[0] = None);
    refuse("", &|_, s| s[0].labels.0[0].hi -= 1);
    refuse("element by element", &|_, s| s[1].labels.0[0].hi -= 1);
    refuse("the value", &|g, _| g.tasks[at].value.region.0[0].hi -= 1);
    refuse("is not finished", &|_, s| s[0].finish = false);
    refuse("element by element", &|g, s| {
        let Op::Einsum(e) = &mut g.ops[s[1].op].op else { panic!("a map") };
        e.accesses[0].axes[0] = Affine { terms: vec![(0, 1)], offset: 1 };
    });
    refuse("folds", &|g, s| g.ops[s[1].op].op = g.ops[s[0].op].op.clone());
    refuse("is not stored", &|g, _| drop(g.tasks[at].value.form.fields.pop()));
    refuse("not an earlier row", &|g, _| g.tasks[at].reads[0] = TaskId(at as u32));
}

/// A running fold in a fused row goes on where it is made in parts: of an axis that is not to be cut no part is taken, be the
/// result larger than what is made at once.
#[test]
fn a_running_fold_is_not_begun_again() {
    for text in [
        "x: input f32[700, 100]\ns = scan(x) sum\nt = map s * 2.0 + 1.0\nreturn t\n",
        "x: input f32[10, 300, 100]\ns = scan(x) axis 1 sum\nt = map s * 2.0 + 1.0\nreturn t\n",
    ] {
        let graph = ein_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let inputs = small::inputs(&graph, 7);
        let expected = ein_ir::reference::run(&graph, &inputs).expect("the reference runs");
        for devices in [1, 3] {
            let machine = ein_task::machine::Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
            let plan = ein_plan::plan::plan(&graph, &machine, &Options::default()).expect("a plan");
            let found = ein_tests::computed::once(&graph, &plan.tasks, &inputs).expect("it runs");
            assert_eq!(ein_tests::same::difference(&found, &expected, 1e-2), None, "{devices} devices: {text}");
        }
    }
}
