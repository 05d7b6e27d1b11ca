//! GPUs that are not there are measured to be as quick as they are said to be.

use ein_cuda::gpus::{Gpus, Selection};
use ein_cuda::measure::{Amount, Figures, Grouped, measure};
use ein_fake_cuda::{FakeMachine, Side, Speeds, install};
use ein_ir::dtype::DType;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_task::machine::{DeviceId, Machine};
use ein_tests::plans::graph;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

fn near(what: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 2e-3, "{what}: {found} is not {expected}");
}

/// The figures of such GPUs, and the machine of their file.
fn measured(speeds: &Speeds, gpus: usize, selection: Selection<'_>, tf32: bool) -> (Figures, Machine) {
    let fake = install(&FakeMachine::new(gpus).speeds(speeds.clone())).expect("g++ is there");
    let figures = measure(selection, 1, Amount::Small).unwrap_or_else(|e| panic!("{e}: {:?}", fake.report()));
    assert_eq!(fake.report(), None);
    let text = figures.file(tf32, UNIX_EPOCH).unwrap_or_else(|e| panic!("{e}"));
    let machine = Machine::parse(&text).unwrap_or_else(|e| panic!("{e} in\n{text}"));
    assert!(text.starts_with("# Measured by `ein machine measure --machine cuda` on 1970-01-01 00:00 UTC"), "{text}");
    assert_eq!(text.matches("Fake GPU").count(), figures.rates.len(), "{text}");
    (figures, machine)
}

#[test]
fn figures_are_those_of_the_gpus() {
    let (gpu, host) = (Side::Gpu, Side::Host);
    let speeds = Speeds {
        launch: 1e-6,
        latency: 7e-6,
        memory: 50e9,
        copies: 40e9,
        products: [1e9, 2e9, 4e9, 8e9],
        // One way alone, both ways to a host, and a way that is quicker than the driver's library says.
        ways: BTreeMap::from([
            ((gpu(1), gpu(2)), 10e9),
            ((gpu(0), host), 5e9),
            ((host, gpu(0)), 6e9),
            ((gpu(2), gpu(0)), 90e9),
        ]),
        slower: BTreeMap::from([(1, 3.0)]),
    };
    let (figures, machine) = measured(&speeds, 3, Selection::All, false);
    near("issue", machine.issue.0, 1e-6);
    for (n, rates) in figures.rates.iter().enumerate() {
        let slower = if n == 1 { 3.0 } else { 1.0 };
        // The sum of one element is nearly nothing.
        near("launch", rates.launch, 1e-6 + 12.0 * slower / 50e9);
        near("memory", rates.memory, 50e9 / slower);
        near("copies within it", rates.copies, 25e9);
        for (dtype, tf32, rate) in
            [(DType::F64, false, 1e9), (DType::F32, false, 2e9), (DType::F32, true, 4e9), (DType::BF16, false, 8e9)]
        {
            near(dtype.name(), rates.of(dtype, tf32), rate / slower);
        }
        assert!(rates.attention > 0.0 && rates.attention.is_finite());
        let device = &machine.devices[n];
        // By shape, too: each is bound by its arithmetic, and of the shape that says.
        let shapes = &device.products.shapes;
        assert_eq!(shapes.len(), 4 * 3, "{shapes:?}");
        for (dtype, rate) in [(DType::F64, 1e9), (DType::F32, 2e9), (DType::BF16, 8e9), (DType::F16, 8e9)] {
            let own: Vec<_> = shapes.iter().filter(|s| s.dtype == dtype).collect();
            let sizes: Vec<(f64, f64)> = own.iter().map(|s| (s.side, s.points)).collect();
            assert_eq!(sizes, [(64.0, 491520.0), (32.0, 32768.0), (32.0, 196608.0)], "{dtype}");
            for s in own {
                near("a shape", s.rate, rate / slower);
            }
        }
        near("f32", device.rate(DType::F32), 2e9 / slower);
        near("f16", device.rate(DType::F16), 8e9 / slower);
    }
    // These GPUs have `wgmma`: it was tried, agrees, and is preferred where it is the quicker one.
    for (n, grouped) in figures.grouped.iter().enumerate() {
        let Some(Grouped::Agrees { rate, apart }) = grouped else { panic!("{grouped:?}") };
        let (device, other) = (&machine.devices[n], figures.rates[n].attention);
        assert!(*apart <= 0.025, "{apart}");
        assert_eq!(device.prefers, if *rate > other { vec!["wgmma".to_owned()] } else { Vec::new() });
        near("attention", device.under_softmax.expect("measured"), rate.max(other));
    }
    near("a slower GPU", figures.rates[0].attention, 3.0 * figures.rates[1].attention);
    let link = |from: u16, to: u16| machine.link(DeviceId(from), DeviceId(to)).expect("a link");
    let host = machine.len() as u16 - 1;
    for (from, to, bandwidth) in
        [(0, 1, 40e9), (1, 2, 10e9), (2, 1, 40e9), (0, host, 5e9), (host, 0, 6e9), (1, host, 40e9), (2, 0, 90e9)]
    {
        near(&format!("{from} to {to}"), machine.bandwidth(link(from, to)), bandwidth);
        near("latency", link(from, to).latency.0, 7e-6);
    }
}

#[test]
fn what_is_measured_is_planned_with() {
    let speeds = Speeds { copies: 1e9, products: [1e9, 2e9, 4e9, 8e9], ..Speeds::default() };
    let (figures, machine) = measured(&speeds, 3, Selection::First(2), true);
    // As it was detected, but for the figures.
    let fake = install(&FakeMachine::new(3).speeds(speeds)).expect("g++ is there");
    let found = Gpus::new(Selection::First(2)).unwrap_or_else(|e| panic!("{e}"));
    drop(fake);
    assert_eq!(figures.machine.len(), found.machine.len());
    assert_eq!(machine.workers().len(), 2);
    near("tf32", machine.devices[0].rate(DType::F32), 4e9);
    let wide = machine.devices[0].products.shapes.iter().filter(|s| s.dtype == DType::F32);
    for s in wide {
        near("a shape of tf32", s.rate, 4e9);
    }
    let graph = graph(
        "x: input f32[64,64]\nw: param f32[64,64]\ny = einsum f32 (i: 64, j: 64 | k: 64) sum x[i,k] * w[k,j]\nreturn y\n",
    );
    let plan = plan(&graph, &machine, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    assert!(plan.report.cost > 0.0);
    // And run by the GPUs that it was measured on.
    let list = [1, 0, 1];
    let gpus = found.with_figures(&machine, &list[..1]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(gpus.machine.devices[0].under_softmax, machine.devices[1].under_softmax);
    assert!(found.with_figures(&machine, &[2]).is_err());
}
