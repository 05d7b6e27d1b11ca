//! Cases of the groups F to H: weights from files, rounding of what crosses, executors, links.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::reference::run;
use ein_plan::lower::lower;
use ein_plan::options::{Options, Strategy};
use ein_plan::plan::plan;
use ein_run::Order;
use ein_task::memory::plan_memory;
use ein_task::task::Verb;
use ein_task::task_text::print;
use ein_tests::choices::{by_label, drawn, held};
use ein_tests::computed::{computed, once};
use ein_tests::interpret::{self, interpret};
use ein_tests::plans::{computes, cpus, graph, lowered, named};
use ein_tests::same::difference;
use ein_tests::{machines, small};
use einsummable::weights::Weights;
use einsummable::{Session, Tensor};
use std::path::Path;

/// F5: however many devices there are, a file is read once at most; a file cut short names the tensor.
#[test]
fn f5_a_file_is_read_once() {
    let shapes = [("a", [12, 10]), ("b", [10, 7])];
    let bytes = |shape: [usize; 2]| 4 * shape[0] * shape[1];
    let ends = [bytes(shapes[0].1), bytes(shapes[0].1) + bytes(shapes[1].1)];
    let header = format!(
        r#"{{"a":{{"dtype":"F32","shape":[12,10],"data_offsets":[0,{}]}},"b":{{"dtype":"F32","shape":[10,7],"data_offsets":[{},{}]}}}}"#,
        ends[0], ends[0], ends[1]
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    let values = (0..ends[1] / 4).map(|n| (n % 7) as f32 - 3.0);
    file.extend(values.clone().flat_map(f32::to_le_bytes));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    };
    let [a, b] = shapes.map(|(name, shape)| Tensor::parameter(name, shape, DType::F32));
    let x = Tensor::input("x", [8, 12], DType::F32);
    let y = x.matmul(&a).matmul(&b);
    let whole = write("f5-whole.safetensors", &file);
    for devices in 1..=8 {
        for strategy in [None, Some(Strategy::Data), Some(Strategy::FullyShardedData)] {
            let weights = Weights::open_file(&whole).unwrap_or_else(|e| panic!("{e}"));
            let session = Session::new(cpus(devices)).with_options(Options { strategy, ..Options::default() });
            let mut compiled = session.compile_with(&[("y", &y)], &weights).unwrap_or_else(|e| panic!("{e}"));
            let inputs = [("x", Dense::f32([8, 12], (0..96).map(|v| (v % 5) as f32).collect()))];
            compiled.run(inputs).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(compiled.max_abs_error(&weights).expect("the reference runs"), 0.0, "{devices} {strategy:?}");
            // The reference reads every parameter once more, whole.
            assert!(weights.bytes_read() <= 2 * ends[1] as u64, "{devices} {strategy:?}: {}", weights.bytes_read());
        }
    }
    let short = write("f5-short.safetensors", &file[..file.len() - 8]);
    let refusal = Weights::open_file(&short).expect_err("8 bytes are missing").to_string();
    assert!(refusal.contains("tensor `b`"), "{refusal}");
}

/// G4: partials of a 16-bit tensor cross in the type that the report names. In f32 nothing is lost before the
/// one rounding at the end.
#[test]
fn g4_partials_cross_as_the_report_says() {
    let graph = graph("x: input bf16[9]\ny = einsum bf16 (| i: 9) sum x[i]\nreturn y\n");
    let inputs = [("x".to_owned(), Dense::from_f64(DType::BF16, [9], &[256.0, 1., 1., 1., 1., 1., 1., 1., 1.]))].into();
    for devices in 1..=8 {
        for wide_partials in [true, false] {
            let options = Options { wide_partials, ..Options::default() };
            let mut choice = by_label(&graph, devices, &[("y", "i")]);
            let x = named(&graph, "x");
            choice.homes.insert(x, held(&graph, x, 0, devices));
            let mut tasks = lower(&graph, &choice, &cpus(devices), &options).unwrap_or_else(|e| panic!("{e}"));
            plan_memory(&mut tasks);
            let found = once(&graph, &tasks, &inputs).unwrap_or_else(|e| panic!("{e}"))["y"].get(0);
            if wide_partials {
                assert_eq!(found, 264.0, "{devices}");
            } else {
                // One device's 256 + 1 may round to 256: one step of bf16 there is 2.
                assert!((found - 264.0).abs() <= 2.0, "{devices}: {found}");
            }
            let crossing = if wide_partials { 4 } else { 2 };
            let sent = tasks.tasks.iter().filter(|t| matches!(t.verb, Verb::Receive { .. }));
            assert!(sent.clone().count() > 0 || devices == 1);
            for task in sent {
                assert_eq!(task.value.form.bytes(&task.value.region), crossing, "{devices}: {}", print(&tasks));
            }
            let plan = plan(&graph, &cpus(devices), &options).unwrap_or_else(|e| panic!("{e}"));
            let said = plan.report.assumptions.partials.contains("cross in f32");
            assert_eq!(said, wide_partials, "{}", plan.report.assumptions.partials);
        }
    }
}

/// G5: sums of partials, folded to strips: every executor gives what the reference gives, in any order.
#[test]
fn g5_sums_to_strips_by_every_executor() {
    for devices in 1..=8 {
        for rows in [1, 7, 3 * devices + 1] {
            let graph = small::matmul(rows, 2 * devices + 1, 3);
            let product = named(&graph, "y");
            let mut choice = by_label(&graph, devices, &[("y", "k")]);
            choice.homes.insert(product, held(&graph, product, 0, devices));
            let tasks = lowered(&graph, &choice, &cpus(devices));
            let inputs = small::inputs(&graph, 5);
            let expected = run(&graph, &inputs).expect("the reference runs");
            let orders = [Order::Listed, Order::Random(1), Order::Random(2)];
            let executed = computed(&graph, &tasks, &inputs, &orders).unwrap_or_else(|e| panic!("{e}"));
            let interpreted = [interpret::Order::Rows, interpret::Order::Drawn(3)]
                .map(|order| interpret(&graph, &tasks, &inputs, order).unwrap_or_else(|e| panic!("{e}")));
            for found in executed.iter().chain(&interpreted) {
                assert_eq!(difference(found, &expected, 0.0), None, "{rows} rows on {devices}");
            }
        }
    }
}

/// H5: devices linked in twos, and with a host: what goes from one pair to another takes the links there are.
#[test]
fn h5_pairs_reach_each_other_through_the_host() {
    let graph = graph("x: input f32[8]\nback = slice x [7:-1:-1]\ny = einsum f32 (i: 8) map back[i]\nreturn y\n");
    for devices in 2..=8 {
        let machine = machines::pairs(devices);
        let mut choice = by_label(&graph, devices, &[("y", "i")]);
        let x = named(&graph, "x");
        choice.homes.insert(x, held(&graph, x, 0, devices));
        let tasks = lowered(&graph, &choice, &machine);
        computes(&graph, &tasks, 0.0, &machine.name);
        let mut relayed = false;
        for (_, task) in tasks.rows() {
            if let Verb::Send { to } = task.verb {
                assert!(machine.link(task.device, to).is_some(), "{} to {to}: {}", task.device, print(&tasks));
                relayed |= to.index() == devices;
            }
        }
        assert_eq!(relayed, devices > 2, "{}: {}", machine.name, print(&tasks));
    }
}

/// H6: products of every size.
#[test]
fn h6_products_of_every_size() {
    for rows in 1..=257 {
        let graph = small::matmul(rows, 3, 5);
        let devices = 1 + rows % 8;
        let tasks = lowered(&graph, &drawn(&graph, devices, rows as u64), &cpus(devices));
        computes(&graph, &tasks, 0.0, &format!("{rows} rows on {devices}"));
    }
}
