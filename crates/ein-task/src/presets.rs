//! The machines that ship.

use crate::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine, Resource};
use crate::machine_error::MachineError;
use crate::rates::{Products, Turns};
use crate::units::{Bytes, Seconds};
use ein_ir::dtype::DType;

/// Name and text of every machine that ships as a file.
const FILES: [(&str, &str); 12] = [
    ("8xa100", include_str!("../machines/8xa100.toml")),
    ("8xa100-host", include_str!("../machines/8xa100-host.toml")),
    ("8xa100-80", include_str!("../machines/8xa100-80.toml")),
    ("8xa100-ideal", include_str!("../machines/8xa100-ideal.toml")),
    ("8xh100", include_str!("../machines/8xh100.toml")),
    ("8xh200", include_str!("../machines/8xh200.toml")),
    ("dgx-1v", include_str!("../machines/dgx-1v.toml")),
    ("pcie-4", include_str!("../machines/pcie-4.toml")),
    ("pcie-8", include_str!("../machines/pcie-8.toml")),
    ("nvl72", include_str!("../machines/nvl72.toml")),
    ("2x8xa100", include_str!("../machines/2x8xa100.toml")),
    ("unequal", include_str!("../machines/unequal.toml")),
];

impl Machine {
    /// The names that [`Machine::by_name`] knows. `Nxcpu` stands for `1xcpu`, `2xcpu` and so on.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|f| f.0).chain(["Nxcpu"]).collect()
    }

    /// The text of a machine that ships as a file, comments and sources included.
    pub fn file(name: &str) -> Option<&'static str> {
        FILES.iter().find(|f| f.0 == name).map(|f| f.1)
    }

    /// A machine that ships, by name.
    pub fn by_name(name: &str) -> Result<Machine, MachineError> {
        if let Some(text) = Self::file(name) {
            return Self::parse(text);
        }
        let count = name.strip_suffix("xcpu").filter(|n| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty());
        match count {
            Some(digits) => cpus(name, digits.parse().unwrap_or(usize::MAX)),
            None => Err(MachineError::UnknownMachine { name: name.into(), known: Self::names().join(", ") }),
        }
    }
}

/// `n` virtual devices that share this host.
///
/// The figures are assumptions for a host of two cores and 16 GiB: a core does about 150 GFLOP/s in products of `f32`,
/// half of that under a softmax, 1.6 thousand million other elements a second, and 24 GB/s from memory, which it does not
/// hide behind arithmetic; a file measured on the host replaces them. Rates are those of one of the `n` devices while all
/// of them work: beyond two they share the two cores. Copies run at 5 GB/s each way.
fn cpus(name: &str, n: usize) -> Result<Machine, MachineError> {
    if n == 0 {
        return Err(MachineError::NoDevices { name: name.into() });
    }
    if n > DeviceSet::MAX {
        return Err(MachineError::TooMany { name: name.into(), found: n });
    }
    let cores = 2.0_f64.min(n as f64) / n as f64;
    let device = |d: usize| Device {
        name: format!("cpu{d}"),
        kind: DeviceKind::Cpu,
        memory: Bytes((16 << 30) / n as u64),
        // 16-bit floats are widened to f32, so they run at its rate.
        flops: vec![(DType::F64, 75e9 * cores), (DType::F32, 150e9 * cores)],
        memory_bandwidth: 24e9 * cores,
        launch: Seconds(2e-6),
        free_elementwise: false,
        elements: Some(1.6e9 * cores),
        under_softmax: Some(75e9 * cores),
        prefers: Vec::new(),
        products: Products::default(),
        engines: None,
    };
    let port = |d: usize, way: &str| Resource { name: format!("copies.cpu{d}.{way}"), bandwidth: 5e9 };
    let mut links = Vec::new();
    for from in 0..n {
        for to in (0..n).filter(|&to| to != from) {
            let (a, b) = (DeviceId(from as u16), DeviceId(to as u16));
            links.push(Link { from: a, to: b, resources: vec![from, n + to], latency: Seconds(5e-6) });
        }
    }
    let resources =
        if n == 1 { Vec::new() } else { (0..n).map(|d| port(d, "out")).chain((0..n).map(|d| port(d, "in"))).collect() };
    let machine = Machine {
        name: name.into(),
        devices: (0..n).map(device).collect(),
        resources,
        links,
        issue: Seconds(1e-6),
        processors: None,
        turns: Turns::default(),
    };
    machine.check()?;
    Ok(machine)
}
