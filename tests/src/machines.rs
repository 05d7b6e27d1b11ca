//! Machines of many forms: plans must be right on all of them, whatever links there are.

use crate::choices::Rng;
use ein_ir::dtype::DType;
use ein_task::machine::{Device, DeviceId, DeviceKind, Link, Machine, Resource};
use ein_task::rates::{Products, Turns};
use ein_task::units::{Bytes, Seconds};

/// A machine of `names` with these direct links, each with a bandwidth and a resource of its own.
fn machine(name: String, kinds: &[DeviceKind], mut links: Vec<(usize, usize, f64)>) -> Machine {
    links.sort_by_key(|l| (l.0, l.1));
    links.dedup_by_key(|l| (l.0, l.1));
    let device = |(n, &kind): (usize, &DeviceKind)| Device {
        name: format!("{kind}{n}"),
        kind,
        memory: Bytes(1 << 34),
        flops: if kind == DeviceKind::Host { vec![] } else { vec![(DType::F32, 1e12 * (1 + n % 3) as f64)] },
        memory_bandwidth: 1e12,
        launch: Seconds(1e-6),
        free_elementwise: false,
        elements: None,
        under_softmax: None,
        prefers: Vec::new(),
        products: Products::default(),
        engines: None,
    };
    let id = |n: usize| DeviceId(n as u16);
    let resource = |l: &(usize, usize, f64)| Resource { name: format!("{}>{}", l.0, l.1), bandwidth: l.2 };
    let link = |(r, l): (usize, &(usize, usize, f64))| Link {
        from: id(l.0),
        to: id(l.1),
        resources: vec![r],
        latency: Seconds(2e-6),
    };
    let machine = Machine {
        name,
        devices: kinds.iter().enumerate().map(device).collect(),
        resources: links.iter().map(resource).collect(),
        links: links.iter().enumerate().map(link).collect(),
        issue: Seconds(1e-6),
        processors: None,
        turns: Turns::default(),
    };
    machine.check().unwrap_or_else(|e| panic!("{e}"));
    machine
}

fn gpus(devices: usize) -> Vec<DeviceKind> {
    vec![DeviceKind::Gpu; devices]
}

/// A link each way.
fn both(a: usize, b: usize, bandwidth: f64) -> [(usize, usize, f64); 2] {
    [(a, b, bandwidth), (b, a, bandwidth)]
}

/// Neighbours are linked, and the last with the first; every link has another bandwidth.
pub fn ring(devices: usize) -> Machine {
    let links = (0..devices).filter(|_| devices > 1).flat_map(|n| both(n, (n + 1) % devices, 1e9 * (n + 1) as f64));
    machine(format!("ring of {devices}"), &gpus(devices), links.collect())
}

/// Everything goes round one way.
pub fn one_way(devices: usize) -> Machine {
    let links = (0..devices).filter(|_| devices > 1).map(|n| (n, (n + 1) % devices, 1e9));
    machine(format!("one-way ring of {devices}"), &gpus(devices), links.collect())
}

/// Neighbours are linked, so that the ends have to be reached by relays.
pub fn line(devices: usize) -> Machine {
    let links = (1..devices).flat_map(|n| both(n - 1, n, 1e9));
    machine(format!("line of {devices}"), &gpus(devices), links.collect())
}

/// Two halves, each with all links, and one slow link between them.
pub fn cliques(devices: usize) -> Machine {
    let half = devices.div_ceil(2);
    let inside = |a: usize, b: usize| (a < half) == (b < half);
    let pairs = (0..devices).flat_map(|a| (0..a).map(move |b| (b, a)));
    let mut links: Vec<_> = pairs.filter(|&(b, a)| inside(b, a)).flat_map(|(b, a)| both(b, a, 1e10)).collect();
    if half < devices {
        links.extend(both(half - 1, half, 1e8));
    }
    machine(format!("two cliques of {devices}"), &gpus(devices), links)
}

/// No two devices have a link, but all have one to a host behind them, which has no work.
pub fn star(devices: usize) -> Machine {
    let kinds: Vec<DeviceKind> = gpus(devices).into_iter().chain([DeviceKind::Host]).collect();
    let links = (0..devices).flat_map(|n| both(n, devices, 1e9));
    machine(format!("star of {devices}"), &kinds, links.collect())
}

/// Devices are linked in twos, and all with a host behind them, which has no work.
pub fn pairs(devices: usize) -> Machine {
    let kinds: Vec<DeviceKind> = gpus(devices).into_iter().chain([DeviceKind::Host]).collect();
    let twos = (1..devices).step_by(2).flat_map(|n| both(n - 1, n, 1e10));
    let host = (0..devices).flat_map(|n| both(n, devices, 1e9));
    machine(format!("pairs of {devices}"), &kinds, twos.chain(host).collect())
}

/// Any links that leave a way between any two.
fn any(rng: &mut Rng, devices: usize) -> Machine {
    let mut links = Vec::new();
    for n in 1..devices {
        links.extend(both(n, rng.below(n), 1e9 * (1 + rng.below(5)) as f64));
    }
    for _ in 0..rng.below(2 * devices) {
        let (a, b) = (rng.below(devices), rng.below(devices));
        if a != b {
            links.push((a, b, 1e9 * (1 + rng.below(5)) as f64));
        }
    }
    machine(format!("some links of {devices}"), &gpus(devices), links)
}

/// A machine with `devices` devices that compute, of any form; a host may stand behind them.
pub fn drawn(rng: &mut Rng, devices: usize) -> Machine {
    let named = |name: &str| Machine::by_name(name).expect("it ships");
    let part = |name: &str| named(name).first(devices);
    match rng.below(11) {
        0 => ring(devices),
        1 => one_way(devices),
        2 => line(devices),
        3 => cliques(devices),
        4 => star(devices),
        5 => any(rng, devices),
        6 => part("dgx-1v").unwrap_or_else(|_| ring(devices)),
        7 => part("unequal").unwrap_or_else(|_| line(devices)),
        8 => part("pcie-8").unwrap_or_else(|_| star(devices)),
        9 => pairs(devices),
        _ => named(&format!("{devices}xcpu")),
    }
}

/// One machine of every form that has this many devices.
pub fn all(devices: usize) -> Vec<Machine> {
    let mut all = vec![ring(devices), one_way(devices), line(devices), cliques(devices), star(devices), pairs(devices)];
    all.push(Machine::by_name(&format!("{devices}xcpu")).expect("it ships"));
    all.extend(Machine::by_name("dgx-1v").and_then(|m| m.first(devices)));
    all
}
