//! Every choice, lowered, computes what the dense reference computes: through the verifier, the memory plan,
//! the text form, in row order and in any order that the edges allow.

use ein_ir::dtype::DType;
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_plan::choice::{Block, Choice, Decomposition, Home};
use ein_plan::lower::lower;
use ein_plan::options::{Objective, Options, Placement};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::memory::{peak, plan_memory};
use ein_task::relation::Held;
use ein_task::task::{Task, TaskGraph, Verb};
use ein_task::task_text::{parse, print};
use ein_task::verify::verify;
use ein_tests::choices::{by_label, cut, drawn, even, everywhere, held, strips};
use ein_tests::interpret::{Order, interpret};
use ein_tests::small;

/// Lowers, checks and runs a choice; the task graph with its memory plan.
fn check(what: &str, graph: &Graph, choice: &Choice, devices: usize, options: &Options) -> TaskGraph {
    check_on(what, graph, choice, &machine(&format!("{devices}xcpu")), options)
}

fn machine(name: &str) -> Machine {
    Machine::by_name(name).expect("it ships")
}

fn check_on(what: &str, graph: &Graph, choice: &Choice, machine: &Machine, options: &Options) -> TaskGraph {
    let mut tasks = lower(graph, choice, machine, options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let inputs = small::inputs(graph, 7);
    let expected = run(graph, &inputs).expect("the reference runs");
    for planned in [false, true] {
        if planned {
            plan_memory(&mut tasks);
        }
        verify(&tasks).unwrap_or_else(|e| panic!("{what}: {e}\n{}", print(&tasks)));
        assert_eq!(parse(&print(&tasks), &tasks.ops).as_ref(), Ok(&tasks), "{what}");
        for order in [Order::Rows, Order::Drawn(1), Order::Drawn(2)] {
            let found = interpret(graph, &tasks, &inputs, order).expect("it runs");
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            for (name, value) in &expected {
                // Exponentials are the only inexact operation in these graphs; bf16 rounds in every partial.
                let scale = value.to_f64().iter().fold(1.0f64, |m, v| m.max(v.abs()));
                let tolerance = if value.dtype() == DType::BF16 { 0.05 } else { 1e-5 };
                let off = found[name].max_abs_difference(value);
                assert!(off <= tolerance * scale, "{what}: `{name}` is off by {off}\n{}", print(&tasks));
            }
        }
    }
    for (least, arena) in peak(&tasks).into_iter().zip(&tasks.arenas) {
        assert!(least <= *arena, "{what}: {least} live at once in {arena}");
    }
    tasks
}

/// Bytes that cross between devices.
fn moved(tasks: &TaskGraph) -> u64 {
    let received = |t: &&ein_task::task::Task| matches!(t.verb, Verb::Receive { .. });
    tasks.tasks.iter().filter(received).map(|t| t.value.form.bytes(&t.value.region) as u64).sum()
}

fn kernels(tasks: &TaskGraph, device: u16) -> usize {
    let blocks = |t: &ein_task::task::Task| match &t.verb {
        Verb::Kernel { .. } => 1,
        Verb::Fused { stages } => stages.len(),
        _ => 0,
    };
    tasks.tasks.iter().filter(|t| t.device == DeviceId(device)).map(blocks).sum()
}

#[test]
fn drawn_choices() {
    for (name, graph) in small::all() {
        for devices in [1, 2, 3, 5] {
            for seed in 0..8 {
                let placements = [Placement::Anywhere, Placement::Replicated, Placement::Device(DeviceId(0))];
                let options = Options {
                    outputs: placements[seed as usize % 3],
                    wide_partials: seed % 2 == 1,
                    ..Options::default()
                };
                let choice = drawn(&graph, devices, 100 * devices as u64 + seed);
                check(&format!("{name} on {devices}, seed {seed}"), &graph, &choice, devices, &options);
            }
        }
    }
}

/// Machines where some devices have no direct link, so that values are relayed.
#[test]
fn drawn_choices_on_sparse_machines() {
    for (name, graph) in small::all() {
        for (n, sparse) in ["dgx-1v", "2x8xa100", "unequal"].into_iter().enumerate() {
            let machine = machine(sparse);
            for objective in [Objective::Time, Objective::Bytes] {
                let options = Options { objective, ..Options::default() };
                let choice = drawn(&graph, machine.workers().len(), 40 + n as u64);
                check_on(&format!("{name} on {sparse}"), &graph, &choice, &machine, &options);
            }
        }
    }
}

/// What a plan looks like: the folded label of a product cut in two, the result folded on the first device.
#[test]
fn a_plan_as_text() {
    let graph = small::matmul(2, 4, 3);
    let named = |name| graph.find(name).expect("it is there");
    let mut choice = by_label(&graph, 2, &[("y", "k")]);
    choice.homes.insert(named("x"), held(&graph, named("x"), 1, 2));
    choice.homes.insert(named("w"), held(&graph, named("w"), 0, 2));
    choice.homes.insert(named("y"), everywhere(&graph, named("y"), 1));
    let tasks = check("text", &graph, &choice, 2, &Options::default());
    let expected = r#"devices 2
external 0 input "x" f32[2,4]
external 1 parameter "w" f32[4,3]
op 0 "y"
output 0 "y" f32[2,3]
label 0 "x"
label 1 "w"
label 2 "y"
arenas 256 192
t0 d0 feed x0 -> [0:2,0:2] f32 slot 64+64 of 0
t1 d1 feed x0 -> [0:2,2:4] f32 slot 64+64 of 0
t2 d0 feed x1 -> [0:2,0:3] f32 slot 0+64 of 1
t3 d1 feed x1 -> [2:4,0:3] f32 slot 0+64 of 1
t4 d0 kernel op0 [0:2,0:3,0:2] pending operands 0 1 reads t0 t2 -> [0:2,0:3] f32 slot 128+64 of 2
t5 d1 kernel op0 [0:2,0:3,2:4] pending operands 0 1 reads t1 t3 -> [0:2,0:3] f32 slot 128+64 of 2
t6 d1 send d0 reads t5 -> [0:2,0:3] nothing of 2
t7 d0 receive d1 reads t6 after t4 -> [0:2,0:3] f32 slot 64+64 of 2
t8 d0 fold sum finish reads t4 t7 -> [0:2,0:3] f32 slot 192+64 of 2
t9 d0 output o0 reads t8 -> [0:2,0:3] nothing of 2
"#;
    assert_eq!(print(&tasks), expected);
}

#[test]
fn one_label_cut() {
    type Case = (&'static str, Graph, &'static [(&'static str, &'static str)]);
    let cases: [Case; 6] = [
        ("rows", small::matmul(5, 7, 6), &[("y", "i")]),
        ("columns", small::matmul(5, 7, 6), &[("y", "j")]),
        ("folded", small::matmul(5, 7, 6), &[("y", "k")]),
        ("softmax rows", small::softmax(5, 9), &[("stats", "v"), ("p", "v"), ("moments", "v"), ("largest", "v")]),
        ("keys", small::attention(true, false), &[("q", "n"), ("attention", "t"), ("y", "t")]),
        ("vocabulary", small::tied(5, 11, 4), &[("x", "v"), ("logits", "v")]),
    ];
    for (what, graph, labels) in cases {
        for devices in [1, 2, 3, 5, 7] {
            check(what, &graph, &by_label(&graph, devices, labels), devices, &Options::default());
        }
    }
}

/// Megatron's way: hidden features cut, one fold of the partials of the second product.
#[test]
fn hidden_features_cut() {
    let graph = small::mlp(6, 8, 12, DType::F32);
    let named = |name| graph.find(name).expect("it is there");
    for devices in [2, 3, 4, 6] {
        let mut choice = by_label(&graph, devices, &[("up", "f"), ("act", "f"), ("down", "f"), ("sum", "s")]);
        choice.homes.insert(named("w1"), held(&graph, named("w1"), 0, devices));
        choice.homes.insert(named("w2"), held(&graph, named("w2"), 1, devices));
        choice.homes.insert(named("down"), held(&graph, named("down"), 0, devices));
        let tasks = check("megatron", &graph, &choice, devices, &Options::default());
        // Every partial but the owner's crosses once: (p - 1) * 6 * 8 f32.
        assert_eq!(moved(&tasks), (devices as u64 - 1) * 6 * 8 * 4, "{devices} devices");
        choice.homes.insert(named("down"), Home::AsProduced);
        let tasks = check("folded on the way", &graph, &choice, devices, &Options::default());
        assert_eq!(moved(&tasks), (devices as u64 - 1) * 6 * 8 * 4, "{devices} devices");
    }
}

#[test]
fn nothing_moves_when_rows_stay() {
    let graph = small::mlp(7, 8, 12, DType::F32);
    let mut choice = by_label(&graph, 3, &[("up", "s"), ("act", "s"), ("down", "s"), ("sum", "s")]);
    let x = graph.find("x").expect("it is there");
    choice.homes.insert(x, held(&graph, x, 0, 3));
    let tasks = check("rows", &graph, &choice, 3, &Options::default());
    assert_eq!(moved(&tasks), 0);
    assert!(tasks.tasks.iter().all(|t| !matches!(t.verb, Verb::Cut | Verb::Paste)), "{}", print(&tasks));
    assert_eq!([0, 1, 2].map(|d| kernels(&tasks, d)), [4, 4, 4]);
}

#[test]
fn a_device_without_work_has_no_rows() {
    let graph = small::matmul(2, 3, 2);
    let (x, w, y) = (0, 1, 2);
    let id = ein_ir::graph::TensorId;
    let mut choice = by_label(&graph, 4, &[("y", "i")]);
    assert_eq!(even(2, 4), [1, 1, 0, 0]);
    for t in [x, w] {
        choice.homes.insert(id(t), everywhere(&graph, id(t), 2));
    }
    let tasks = check("two rows on four devices", &graph, &choice, 4, &Options::default());
    assert_eq!([0, 1, 2, 3].map(|d| kernels(&tasks, d)), [1, 1, 0, 0]);
    assert!(tasks.tasks.iter().all(|t| t.device.index() < 2));
    assert_eq!(tasks.arenas.len(), 4);
    assert_eq!(choice.decompositions[&id(y)], cut(&graph, id(y), "i", 4));
}

/// Where a device holds in two blocks what it reads as one box, it is fed that box and puts nothing together in a run; not
/// where another row of it reads a block alone.
#[test]
fn blocks_that_are_read_as_one_are_fed_as_one() {
    let text = "x: input f32[2, 4]\nw: param f32[4, 3]\ny = einsum \"ik,kj->ij\" x w\nz = einsum \"ik,kj->ji\" x w\n\
                return y\nreturn z\n";
    let graph = ein_ir::text::parse(text).expect("well formed");
    let named = |name| graph.find(name).expect("it is there");
    let first = DeviceSet::one(DeviceId(0));
    let halves = |row: &'static str, axis: usize| {
        let space = graph.spec(named(row)).expect("it computes").space();
        let block = |region| Block { region, devices: first };
        let blocks = strips(&space, axis, &[2, 2]).into_iter().map(block).collect();
        Decomposition::new(&space, blocks).expect("they tile")
    };
    let feeds = |alone: bool| {
        let mut choice = by_label(&graph, 1, &[]);
        if alone {
            choice.decompositions.insert(named("z"), halves("z", 2));
            choice.homes.insert(named("z"), everywhere(&graph, named("z"), 1));
        }
        let whole = graph.ty(named("w")).whole();
        let blocks = strips(&whole, 0, &[2, 2]);
        let held = blocks.into_iter().map(|region| Held { region, devices: first }).collect();
        choice.homes.insert(named("w"), Home::At(held));
        let tasks = check("two blocks", &graph, &choice, 1, &Options::default());
        let of = |feeds: bool| {
            let is =
                |t: &&Task| if feeds { matches!(t.verb, Verb::Feed { external: 1 }) } else { t.verb == Verb::Paste };
            tasks.tasks.iter().filter(is).count()
        };
        (of(true), of(false))
    };
    assert_eq!(feeds(false), (1, 0));
    assert_eq!(feeds(true), (2, 1));
}

/// Keys that no query of a block sees are neither computed nor moved.
#[test]
fn causal_blocks_without_work_are_left_out() {
    let graph = small::attention(true, false);
    let attention = graph.find("attention").expect("it is there");
    let choice = by_label(&graph, 7, &[("attention", "t")]);
    // Seven keys and five queries: the keys of the last devices are seen by the last queries only, but every
    // device has work. With queries cut too, the corner has none.
    let tasks = check("keys", &graph, &choice, 7, &Options::default());
    let attends = |t: &ein_task::task::Task| t.label == attention.0 && matches!(t.verb, Verb::Kernel { .. });
    assert_eq!(tasks.tasks.iter().filter(|t| attends(t)).count(), 7);
    let spec = graph.spec(attention).expect("it computes");
    let mut blocks = Vec::new();
    for queries in strips(&spec.space(), 2, &[3, 2]) {
        for region in strips(&queries, 4, &[5, 2]) {
            let devices = ein_task::machine::DeviceSet::one(DeviceId(blocks.len() as u16));
            blocks.push(ein_plan::choice::Block { region, devices });
        }
    }
    let mut choice = by_label(&graph, 4, &[]);
    let decomposition = ein_plan::choice::Decomposition::new(&spec.space(), blocks).expect("they tile");
    choice.decompositions.insert(attention, decomposition);
    choice.homes.insert(attention, everywhere(&graph, attention, 4));
    let tasks = check("corner", &graph, &choice, 4, &Options::default());
    // Queries 0..3 see keys 0..5 only.
    assert_eq!(tasks.tasks.iter().filter(|t| attends(t)).count(), 3);
}

#[test]
fn the_same_choice_gives_the_same_text() {
    for (name, graph) in small::all() {
        let machine = machine("3xcpu");
        let choice = drawn(&graph, 3, 5);
        let text = || print(&lower(&graph, &choice, &machine, &Options::default()).expect("it lowers"));
        assert_eq!(text(), text(), "{name}");
    }
}

/// Every spoiled row is refused.
#[test]
fn the_verifier_refuses_what_is_wrong() {
    let graph = small::softmax(5, 9);
    let labels = [("stats", "v"), ("p", "v"), ("moments", "v"), ("largest", "s")];
    let good = check("good", &graph, &by_label(&graph, 3, &labels), 3, &Options::default());
    let first = |verb: &str| good.tasks.iter().position(|t| t.verb.name() == verb).expect("there is one");
    let last = |verb: &str| good.tasks.iter().rposition(|t| t.verb.name() == verb).expect("there is one");
    let refuse = |expected: &str, spoil: &dyn Fn(&mut TaskGraph)| {
        let mut bad = good.clone();
        spoil(&mut bad);
        let error = verify(&bad).expect_err(expected).to_string();
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    };
    let next = |n: usize| ein_task::task::TaskId(n as u32 + 1);
    refuse("is not an earlier row", &|g| g.tasks[last("fold")].reads[0] = next(last("fold")));
    refuse("is not an earlier row", &|g| g.tasks[last("fold")].after.push(next(last("fold"))));
    refuse("on another device", &|g| g.tasks[last("fold")].device.0 = (g.tasks[last("fold")].device.0 + 1) % 3);
    refuse("device 9 of 3", &|g| g.tasks[0].device.0 = 9);
    refuse("external 7 of 1", &|g| g.tasks[first("feed")].verb = Verb::Feed { external: 7 });
    refuse("the value", &|g| g.tasks[first("feed")].value.region.0[0].hi += 1);
    refuse("the value", &|g| g.tasks[first("kernel")].value.region.0[0].hi -= 1);
    refuse("is not stored", &|g| drop(g.tasks[first("kernel")].value.form.fields.pop()));
    refuse("lacks part of a folded label", &|g| {
        if let Verb::Kernel { finish, .. } = &mut g.tasks[first("kernel")].verb {
            *finish = true;
        }
        let rank = g.tasks[first("kernel")].value.region.rank();
        g.tasks[first("kernel")].value.form = ein_ir::monoid::Form::finished(DType::F32, rank);
    });
    refuse("operands", &|g| {
        if let Verb::Kernel { operands, .. } = &mut g.tasks[first("kernel")].verb {
            operands[0] = None;
        }
    });
    refuse("what is folded", &|g| {
        let read = g.tasks[last("fold")].reads[0];
        let feed = g.tasks.iter().position(|t| t.device == g.task(read).device).expect("a feed");
        g.tasks[last("fold")].reads[0] = ein_task::task::TaskId(feed as u32);
    });
    refuse("0 rows receive it", &|g| g.tasks.truncate(last("send") + 1));
    refuse("halves of the move", &|g| {
        let receive = &mut g.tasks[first("receive")];
        receive.verb = Verb::Receive { from: receive.device };
    });
    refuse("exactly once", &|g| drop(g.tasks.remove(last("output"))));
    refuse("exactly once", &|g| g.tasks.push(g.tasks[last("output")].clone()));
    refuse("slot", &|g| g.tasks[first("kernel")].slot.offset += 1);
    refuse("slot", &|g| g.tasks[first("kernel")].slot.bytes = 0);
    refuse("slot", &|g| g.arenas = vec![ein_task::units::Bytes(64); 3]);
    refuse("2 arenas for 3 devices", &|g| g.arenas.truncate(2));
    refuse("without waiting", &|g| {
        let fed = g.tasks[first("feed")].slot.offset;
        g.tasks[first("kernel")].slot.offset = fed;
    });
}

/// Two devices swap values into the memory they send from: fine when messages are buffered, else each waits for
/// the other to receive.
#[test]
fn moves_that_wait_for_each_other_are_refused() {
    let text = "devices 2\nexternal 0 input \"x\" u8[64]\nlabel 0 \"x\"\narenas 64 64\n\
                t0 d0 feed x0 -> [0:64] u8 slot 0+64 of 0\nt1 d1 feed x0 -> [0:64] u8 slot 0+64 of 0\n\
                t2 d0 send d1 reads t0 -> [0:64] nothing of 0\nt3 d1 send d0 reads t1 -> [0:64] nothing of 0\n\
                t4 d1 receive d0 reads t2 after t3 -> [0:64] u8 slot 0+64 of 0\n\
                t5 d0 receive d1 reads t3 after t2 -> [0:64] u8 slot 0+64 of 0\n";
    let error = verify(&parse(text, &[]).expect("it is right")).expect_err("a cycle");
    assert!(error.to_string().contains("wait for each other"), "{error}");
    // With memory of its own for one of them, nobody waits.
    let roomy =
        text.replace("arenas 64 64", "arenas 128 64").replace("after t2 -> [0:64] u8 slot 0", "-> [0:64] u8 slot 64");
    assert_eq!(verify(&parse(&roomy, &[]).expect("it is right")), Ok(()));
}

/// What is received for a paste alone may lie in its memory from the first of it on, which nobody else uses until the
/// paste has been read. What is spoiled about that is refused.
#[test]
fn what_is_received_in_place_is_checked() {
    let text = "devices 2\nexternal 0 input \"x\" u8[8]\noutput 0 \"y\" u8[8]\nlabel 0 \"x\"\narenas 256 64\n\
                t0 d1 feed x0 -> [0:4] u8 slot 0+64 of 0\n\
                t1 d1 send d0 reads t0 -> [0:4] nothing of 0\n\
                t2 d0 receive d1 reads t1 -> [0:4] u8 within [0:8] slot 0+64 of 0\n\
                t3 d0 feed x0 -> [0:8] u8 slot 64+64 of 0\n\
                t4 d0 cut reads t3 -> [4:8] u8 slot 128+64 of 0\n\
                t5 d0 paste reads t2 t4 -> [0:8] u8 slot 0+64 of 0\n\
                t6 d0 output o0 reads t5 -> [0:8] nothing of 0\n";
    let graph = parse(text, &[]).expect("it is right");
    assert_eq!(verify(&graph), Ok(()));
    assert_eq!(parse(&print(&graph), &[]).expect("it was printed"), graph);
    let refuse = |from: &str, to: &str, part: &str| {
        assert!(text.contains(from), "{from}");
        let error = verify(&parse(&text.replacen(from, to, 1), &[]).expect("it reads")).expect_err(to).to_string();
        assert!(error.contains(part), "{error} does not say {part}");
    };
    refuse("within [0:8] slot 0+64", "within [0:8] slot 192+64", "not a paste of that box in that slot");
    refuse("within [0:8]", "within [0:7]", "not a paste of that box in that slot");
    refuse(
        "t4 d0 cut reads t3 -> [4:8] u8",
        "t4 d0 cut reads t3 -> [4:8] u8 within [0:8]",
        "t5 reads it, which is not",
    );
    refuse("cut reads t3", "paste reads t2 t3", "do not fill");
    refuse(
        "t6 d0 output o0 reads t5",
        "t6 d0 cut reads t2 -> [0:4] u8 slot 192+64 of 0\nt7 d0 output o0 reads t5",
        "leaves its value within [0:8], but t6",
    );
    // Memory of the paste while pieces of it come in: t3 would write over t2.
    refuse("slot 64+64", "slot 0+64", "reuses memory of t5");
    // The boxes that pastes and sends take of what they read.
    let wider = text.replace("t4 d0 cut reads t3 -> [4:8] u8 slot 128+64 of 0\n", "");
    let wider = wider.replace("reads t2 t4", "reads t2 t3").replace("t5", "t4").replace("t6", "t5");
    assert!(verify(&parse(&wider, &[]).expect("it reads")).is_err(), "both have the first half");
    let narrow = text.replace("t1 d1 send d0 reads t0 -> [0:4]", "t1 d1 send d0 reads t0 -> [0:3]");
    refuse_other(&narrow, "what is received");
    refuse_other(&text.replace("t1 d1 send d0 reads t0 -> [0:4]", "t1 d1 send d0 reads t0 -> [0:5]"), "what is sent");
}

fn refuse_other(text: &str, part: &str) {
    let error = verify(&parse(text, &[]).expect("it reads")).expect_err(part).to_string();
    assert!(error.contains(part), "{error} does not say {part}");
}

/// Planning time grows with the rows, not with their square: a long chain in which everything moves.
#[test]
fn a_long_chain_lowers_quickly() {
    let mut b = small::Builder::new(DType::F32);
    let mut x = b.input("x", &[16, 16]);
    for n in 0..300 {
        let w = b.parameter(&format!("w{n}"), &[16, 16]);
        x = b.contraction(&format!("y{n}"), if n % 2 == 0 { "ik,kj->ij" } else { "ik,jk->ij" }, &[x, w]);
    }
    b.output("y", x);
    let graph = b.done();
    let names: Vec<String> = (0..300).map(|n| format!("y{n}")).collect();
    let labels: Vec<(&str, &str)> =
        names.iter().enumerate().map(|(n, name)| (name.as_str(), ["i", "j", "k"][n % 3])).collect();
    let choice = by_label(&graph, 8, &labels);
    let machine = machine("8xcpu");
    let started = std::time::Instant::now();
    let mut tasks = lower(&graph, &choice, &machine, &Options::default()).expect("it lowers");
    plan_memory(&mut tasks);
    assert_eq!(verify(&tasks), Ok(()));
    // A quadratic step would take minutes here; the limit leaves room for a busy machine.
    assert!(started.elapsed().as_secs() < 20);
    // Activations are reused along the chain: no arena holds more than a few of them beside the parameters.
    let resident = 300 * 16 * 16 * 4;
    assert!(tasks.arenas.iter().all(|a| a.0 < resident + 40 * 16 * 16 * 4), "{:?}", tasks.arenas);
}

/// Texts with a byte changed, a word dropped or a line doubled are refused or read; nothing panics.
#[test]
fn spoiled_texts_do_not_panic() {
    let graph = small::attention(true, true);
    let mut tasks = lower(&graph, &drawn(&graph, 3, 9), &machine("3xcpu"), &Options::default()).expect("it lowers");
    plan_memory(&mut tasks);
    let text = print(&tasks);
    let mut rng = ein_tests::choices::Rng::new(3);
    let (mut refused, mut wrong) = (0, 0);
    for _ in 0..300 {
        let mut lines: Vec<String> = text.lines().map(Into::into).collect();
        let at = rng.below(lines.len());
        let line = lines[at].clone();
        match rng.below(3) {
            0 => {
                let words: Vec<&str> = line.split(' ').collect();
                let dropped = rng.below(words.len());
                let kept = words.iter().enumerate().filter(|(n, _)| *n != dropped).map(|(_, w)| *w);
                lines[at] = kept.collect::<Vec<_>>().join(" ");
            }
            1 => lines.insert(at, line),
            _ => {
                let (byte, other) = (rng.below(line.len()), b"0123456789:[]+-t"[rng.below(16)]);
                let mut bytes = line.into_bytes();
                bytes[byte] = other;
                lines[at] = String::from_utf8(bytes).expect("ascii");
            }
        }
        match parse(&lines.join("\n"), &tasks.ops) {
            Err(_) => refused += 1,
            Ok(read) => wrong += usize::from(verify(&read).is_err()),
        }
    }
    assert!(refused > 100 && wrong > 10, "{refused} refused, {wrong} wrong");
}
