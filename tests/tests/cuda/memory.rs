//! Memory that does not suffice: plans leave what kernels need besides their values, and parameters stay at the host.

use ein_cuda::devices::{Prepared, Seat, Settings};
use ein_cuda::gpus::{Gpus, Selection};
use ein_fake_cuda::{Check, Fake, FakeMachine, install};
use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::InputKind;
use ein_plan::cache::Cache;
use ein_plan::options::Options;
use ein_task::machine::{DeviceKind, Machine};
use ein_task::units::Bytes;
use ein_tests::same::difference;
use ein_tests::small;
use einsummable::runner::{Fitted, Runner};
use einsummable::session::{Compiled, SessionError};
use einsummable::{DType, Session};

/// What a context and kernels take of a GPU before anything is asked for.
const CONTEXT: u64 = 256 << 20;

fn fakes(gpus: usize, memory: u64) -> Fake {
    install(&FakeMachine::new(gpus).memory(CONTEXT + memory).check(Check::Bounds)).expect("g++ is there")
}

fn compiled(graph: &Graph, options: Options) -> Result<Compiled, SessionError> {
    let gpus = Gpus::new(Selection::All).unwrap_or_else(|e| panic!("{e}"));
    Session::on_gpus(gpus).with_options(options).compile_graph(graph, &small::inputs(graph, 3))
}

/// That it computes what the reference does.
fn check(graph: &Graph, compiled: &mut Compiled, fake: &Fake) {
    let inputs = small::inputs(graph, 3);
    let given = graph.inputs(InputKind::Input).into_iter().map(|id| graph.node(id).name.clone());
    let found = compiled.run(given.map(|name| (name.clone(), inputs[&name].clone()))).unwrap_or_else(|e| panic!("{e}"));
    let expected = ein_ir::reference::run(graph, &inputs).expect("the reference runs");
    assert_eq!(difference(&found, &expected, 1e-4), None);
    assert_eq!(fake.report(), None);
}

/// A square product: 64 bytes of workspace for each element of its result.
fn product(size: usize) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", InputKind::Input, TensorType::new(DType::F32, [size, size])).expect("well formed");
    let w = g.input("w", InputKind::Parameter, TensorType::new(DType::F32, [size, size])).expect("well formed");
    let y = g.contraction("y", "ij,jk->ik", &[x, w]).expect("well formed");
    g.output("y", y).expect("well formed");
    g
}

/// The most that a device needs: its arena and what its kernels need besides.
fn most(compiled: &Compiled) -> u64 {
    let both = compiled.plan().tasks.arenas.iter().zip(compiled.scratch());
    both.map(|(arena, scratch)| arena.0 + scratch.0).max().unwrap_or(0)
}

#[test]
fn what_products_may_use_besides_is_what_is_left() {
    let graph = product(256);
    // Three values of 256 KiB, and 4 MiB for parts of the sum, if there is so much.
    for (memory, scratch) in [(64 << 20, 4 << 20), (5 << 20, 4 << 20), (3 << 20, 1 << 20), (1 << 20, 0)] {
        let fake = fakes(1, memory);
        let mut compiled = compiled(&graph, Options::default()).unwrap_or_else(|e| panic!("{memory}: {e}"));
        check(&graph, &mut compiled, &fake);
        assert!(most(&compiled) <= memory && compiled.scratch()[0].0 >= scratch, "{memory}: {:?}", compiled.scratch());
        assert!(fake.used(0) <= memory, "{} of {memory}", fake.used(0));
        drop((compiled, fake));
        // By a limit as by the memory that is there.
        let fake = fakes(1, 64 << 20);
        let limited = compiled_within(&graph, memory);
        assert!(most(&limited) <= memory);
        drop((limited, fake));
    }
}

fn compiled_within(graph: &Graph, memory: u64) -> Compiled {
    let limited = compiled(graph, Options { memory: Some(Bytes(memory)), ..Options::default() });
    limited.unwrap_or_else(|e| panic!("{memory}: {e}"))
}

#[test]
fn plans_leave_what_kernels_need_besides() {
    // Long rows are sorted in scratch memory, 16 bytes for each element and for the next power of two: 1 MiB a row. The
    // weights may be on both devices or cut.
    let text = "x: input f32[7,35000]\nw: param f32[35000,40]\ny = top(x) k 35000\nz = einsum f32 (i: 7, j: 40 | k: 35000) \
                sum y[i,k] * w[k,j]\nreturn z\n";
    let graph = ein_tests::plans::graph(text);
    let fake = fakes(2, 64 << 20);
    let mut roomy = compiled(&graph, Options::default()).unwrap_or_else(|e| panic!("{e}"));
    check(&graph, &mut roomy, &fake);
    let (arena, needed) = (roomy.plan().peak_memory().0, most(&roomy));
    let memory = 10 << 20;
    // The same plan would fit beside what is assumed, and does not beside what it needs.
    assert!(needed > memory && arena < memory - memory / 8, "{needed} bytes, of which {arena} are the arena");
    drop((roomy, fake));
    let fake = fakes(2, memory);
    let mut tight = compiled(&graph, Options::default()).unwrap_or_else(|e| panic!("{e}"));
    check(&graph, &mut tight, &fake);
    assert!(most(&tight) <= memory && tight.plan().peak_memory().0 < arena, "{} of {memory}", most(&tight));
    drop((tight, fake));
    // One device alone has no such plan.
    let fake = fakes(1, memory);
    let error = compiled(&graph, Options::default()).err().expect("it does not fit");
    let said = error.to_string();
    assert!(matches!(error, SessionError::Scratch { .. } | SessionError::NoRoom { .. }), "{said}");
    assert!(said.contains("scratch memory") && said.contains("kernels need besides"), "{said}");
    assert_eq!(fake.used(0), 0, "nothing is left behind");
}

/// What is planned for GPUs that are not at hand leaves them what they would need: as much as such GPUs say where they are.
#[test]
fn plans_for_gpus_elsewhere_leave_what_kernels_need() {
    let text = "x: input f32[7,35000]\nw: param f32[35000,40]\ny = top(x) k 35000\nz = einsum f32 (i: 7, j: 40 | k: 35000) \
                sum y[i,k] * w[k,j]\nreturn z\n";
    let graph = ein_tests::plans::graph(text);
    let all = Machine::by_name("8xa100-80").expect("it ships");
    let fitted = |gpus: usize, memory: u64| {
        let machine = all.first(gpus).expect("it has so many");
        let options = Options { memory: Some(Bytes(memory)), ..Options::default() };
        Runner::elsewhere(&machine).fitted(&Cache::default(), &graph, &machine, &options)
    };
    let needed = |fitted: &Fitted| {
        let both = fitted.plan.tasks.arenas.iter().zip(&fitted.scratch);
        both.map(|(arena, scratch)| arena.0 + scratch.0).max().unwrap_or(0)
    };
    let roomy = fitted(2, 64 << 20).unwrap_or_else(|e| panic!("{e}"));
    let (arena, memory) = (roomy.plan.peak_memory().0, 10 << 20);
    assert!(needed(&roomy) > memory && arena < memory, "{} bytes, of which {arena} are the arena", needed(&roomy));
    let fake = install(&FakeMachine { capability: (8, 0), multiprocessors: 108, ..FakeMachine::new(2) });
    let fake = fake.expect("g++ is there");
    let here = Prepared::new(&roomy.plan.tasks, &[Seat::Gpu(0), Seat::Gpu(1)], Settings::default());
    let here = here.unwrap_or_else(|e| panic!("{e}")).scratch(&roomy.plan.tasks);
    assert_eq!(roomy.scratch, here);
    drop(fake);
    let tight = fitted(2, memory).unwrap_or_else(|e| panic!("{e}"));
    assert!(needed(&tight) <= memory, "{} of {memory}", needed(&tight));
    let said = fitted(1, memory).expect_err("it does not fit").to_string();
    assert!(said.contains("scratch memory") && said.contains("kernels need besides"), "{said}");
}

#[test]
fn what_does_not_fit_on_gpus_stays_at_the_host() {
    // 16 weights of 256 KiB.
    let mut graph = Graph::new();
    let mut x = graph.input("x", InputKind::Input, TensorType::new(DType::F32, [4, 256])).expect("well formed");
    for n in 0..16 {
        let ty = TensorType::new(DType::F32, [256, 256]);
        let w = graph.input(&format!("w{n}"), InputKind::Parameter, ty).expect("well formed");
        x = graph.contraction(&format!("y{n}"), "ij,jk->ik", &[x, w]).expect("well formed");
    }
    graph.output("out", x).expect("well formed");
    for (gpus, memory) in [(1, 3 << 20), (2, 3 << 19)] {
        let fake = fakes(gpus, memory);
        let refused = compiled(&graph, Options::default()).err().expect("4 MiB do not fit");
        assert!(refused.to_string().contains("MiB"), "{refused}");
        let options = Options { offload: true, ..Options::default() };
        let mut compiled = compiled(&graph, options).unwrap_or_else(|e| panic!("{gpus}: {e}"));
        let machine = &compiled.plan().machine;
        let host = (0..machine.len()).find(|&d| machine.devices[d].kind == DeviceKind::Host).expect("a host");
        assert!(compiled.plan().tasks.arenas[host] > Bytes(0), "{:?}", compiled.plan().tasks.arenas);
        for gpu in 0..gpus {
            assert!(fake.used(gpu) <= memory, "{} of {memory} bytes", fake.used(gpu));
        }
        check(&graph, &mut compiled, &fake);
    }
}
