//! The machines that are measured: every preset, those with the same links once.

use ein_ir::dtype::DType;
use ein_task::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine, Resource};
use ein_task::rates::{Products, Turns};
use ein_task::units::{Bytes, Seconds};

/// A preset, and the names of all presets that have its links.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its names.
    pub names: Vec<String>,
    /// The machine.
    pub machine: Machine,
}

/// Every preset (of virtual devices on a host the one with eight), by links, in listing order.
pub fn presets() -> Vec<Preset> {
    let mut found: Vec<Preset> = Vec::new();
    for name in Machine::names() {
        let name = if name == "Nxcpu" { "8xcpu" } else { name };
        let machine = Machine::by_name(name).expect("a preset");
        let bandwidths = |m: &Machine| m.resources.iter().map(|r| r.bandwidth).collect::<Vec<f64>>();
        let same = |p: &&mut Preset| {
            let m = &p.machine;
            m.links == machine.links && m.issue == machine.issue && bandwidths(m) == bandwidths(&machine)
        };
        match found.iter_mut().find(same) {
            Some(preset) => preset.names.push(name.into()),
            None => found.push(Preset { names: vec![name.into()], machine }),
        }
    }
    found
}

/// The machine with another issue cost.
pub fn with_issue(machine: &Machine, issue: f64) -> Machine {
    Machine { issue: Seconds(issue), ..machine.clone() }
}

/// The machine without the devices that do not compute, and without their links.
pub fn without_hosts(machine: &Machine) -> Machine {
    let workers = machine.workers();
    let mut own = machine.clone();
    assert!(workers.iter().enumerate().all(|(n, d)| n == d.index()), "hosts stand behind the devices that compute");
    own.name = format!("{} without its host", machine.name);
    own.devices.truncate(workers.len());
    own.links.retain(|l| workers.contains(l.from) && workers.contains(l.to));
    own
}

/// How devices that compute are linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// All linked directly and alike.
    Flat,
    /// Groups like that, and slower or shared links between them.
    TwoLevel(Vec<Vec<DeviceId>>),
    /// Some are not linked.
    Sparse,
}

impl Wiring {
    /// Of a machine.
    pub fn of(machine: &Machine) -> Wiring {
        let workers: Vec<DeviceId> = machine.workers().iter().collect();
        let linked = |a: DeviceId, b: DeviceId| a == b || machine.link(a, b).is_some();
        if workers.iter().any(|&a| workers.iter().any(|&b| !linked(a, b))) {
            return Wiring::Sparse;
        }
        let fastest = machine.links.iter().map(|l| machine.bandwidth(l)).fold(0.0, f64::max);
        let shared = |r: usize| {
            let users: Vec<&Link> = machine.links.iter().filter(|l| l.resources.contains(&r)).collect();
            users.iter().any(|l| l.from != users[0].from) && users.iter().any(|l| l.to != users[0].to)
        };
        let shared: Vec<bool> = (0..machine.resources.len()).map(shared).collect();
        let inner = |l: &Link| machine.bandwidth(l) == fastest && !l.resources.iter().any(|&r| shared[r]);
        let mut groups: Vec<Vec<DeviceId>> = Vec::new();
        for &w in &workers {
            let near = |g: &&mut Vec<DeviceId>| machine.link(g[0], w).is_some_and(inner);
            match groups.iter_mut().find(near) {
                Some(group) => group.push(w),
                None => groups.push(vec![w]),
            }
        }
        let equal = groups.iter().all(|g| g.len() == groups[0].len() && g.len() > 1);
        if groups.len() > 1 && equal { Wiring::TwoLevel(groups) } else { Wiring::Flat }
    }

    /// Whether every device has its own way to other groups, so that what one sends there may use all of them.
    pub fn rails(&self, machine: &Machine) -> bool {
        let Wiring::TwoLevel(groups) = self else { return false };
        let uplinks =
            |from: DeviceId| machine.link(from, groups[1][0]).map(|l| l.resources.clone()).unwrap_or_default();
        let (a, b) = (uplinks(groups[0][0]), uplinks(groups[0][1]));
        a.iter().all(|r| {
            !b.contains(r)
                || machine.link(groups[0][0], groups[0][1]).is_some_and(|l| l.resources.contains(r))
                || shared_target(machine, *r, groups[1][0])
        })
    }
}

/// Whether only links into one device use a resource.
fn shared_target(machine: &Machine, resource: usize, to: DeviceId) -> bool {
    machine.links.iter().filter(|l| l.resources.contains(&resource)).all(|l| l.to == to)
}

/// A machine of `gpus` alike devices without links, for tests of known answers.
pub fn bare(name: &str, gpus: usize) -> Machine {
    let device = |n: usize| Device {
        name: format!("gpu{n}"),
        kind: DeviceKind::Gpu,
        memory: Bytes(80 << 30),
        flops: vec![(DType::F32, 1e13)],
        memory_bandwidth: 2e12,
        launch: Seconds(0.0),
        free_elementwise: false,
        elements: None,
        under_softmax: None,
        prefers: Vec::new(),
        products: Products::default(),
        engines: None,
    };
    Machine {
        name: name.into(),
        devices: (0..gpus).map(device).collect(),
        resources: Vec::new(),
        links: Vec::new(),
        issue: Seconds(0.0),
        processors: None,
        turns: Turns::default(),
    }
}

/// Adds a cable of its own for each way.
pub fn cable(machine: &mut Machine, a: usize, b: usize, bandwidth: f64, latency: f64) {
    for (from, to) in [(a, b), (b, a)] {
        machine.resources.push(Resource { name: format!("{from}-{to}"), bandwidth });
        let resources = vec![machine.resources.len() - 1];
        let (from, to) = (DeviceId(from as u16), DeviceId(to as u16));
        machine.links.push(Link { from, to, resources, latency: Seconds(latency) });
    }
}

/// All linked to all through ports of one bandwidth.
pub fn switch(gpus: usize, bandwidth: f64, latency: f64) -> Machine {
    let mut machine = bare("switch", gpus);
    for way in ["out", "in"] {
        let port = |n: usize| Resource { name: format!("gpu{n}.{way}"), bandwidth };
        machine.resources.extend((0..gpus).map(port));
    }
    for from in 0..gpus {
        for to in (0..gpus).filter(|&to| to != from) {
            let (a, b) = (DeviceId(from as u16), DeviceId(to as u16));
            machine.links.push(Link { from: a, to: b, resources: vec![from, gpus + to], latency: Seconds(latency) });
        }
    }
    machine
}

/// Two cliques of `half` devices, joined by one slow cable.
pub fn cliques(half: usize, fast: f64, slow: f64, latency: f64) -> Machine {
    let mut machine = bare("two cliques", 2 * half);
    for base in [0, half] {
        for a in base..base + half {
            for b in a + 1..base + half {
                cable(&mut machine, a, b, fast, latency);
            }
        }
    }
    cable(&mut machine, half - 1, half, slow, latency);
    machine
}

/// The devices that compute, in order.
pub fn workers(machine: &Machine) -> Vec<DeviceId> {
    machine.workers().iter().collect()
}

/// The set of some devices.
pub fn set(devices: &[DeviceId]) -> DeviceSet {
    devices.iter().copied().collect()
}
