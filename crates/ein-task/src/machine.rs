//! Machines: devices, and the links between them as data.

use crate::machine_error::MachineError;
use crate::rates::{Products, Turns};
use crate::units::{Bytes, Seconds};
use ein_ir::dtype::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A device of a machine: its position in [`Machine::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u16);

impl DeviceId {
    /// Position in the machine's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}", self.0)
    }
}

/// A set of devices. A machine has at most [`DeviceSet::MAX`] of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceSet(u128);

impl DeviceSet {
    /// The most devices a machine can have.
    pub const MAX: usize = 128;

    /// No device.
    pub fn new() -> Self {
        Self(0)
    }

    /// One device.
    pub fn one(device: DeviceId) -> Self {
        Self(1 << device.0)
    }

    /// The first `n` devices.
    pub fn first(n: usize) -> Self {
        if n >= Self::MAX { Self(u128::MAX) } else { Self((1 << n) - 1) }
    }

    /// Whether `device` is in the set.
    pub fn contains(self, device: DeviceId) -> bool {
        self.0 >> device.0 & 1 == 1
    }

    /// The set with `device` too.
    #[must_use]
    pub fn with(self, device: DeviceId) -> Self {
        Self(self.0 | 1 << device.0)
    }

    /// What either has.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What this has and the other has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What both have.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Number of devices.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it holds no device.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The devices, in order.
    pub fn iter(self) -> impl Iterator<Item = DeviceId> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let n = rest.trailing_zeros();
            rest &= rest - 1;
            Some(DeviceId(n as u16))
        })
    }

    /// One bit a device.
    pub fn bits(self) -> u128 {
        self.0
    }

    /// The device with the lowest number.
    pub fn lowest(self) -> Option<DeviceId> {
        self.iter().next()
    }
}

impl FromIterator<DeviceId> for DeviceSet {
    fn from_iter<I: IntoIterator<Item = DeviceId>>(iter: I) -> Self {
        iter.into_iter().fold(Self::new(), Self::with)
    }
}

impl fmt::Display for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (n, d) in self.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{}", d.0)?;
        }
        f.write_str("}")
    }
}

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A thread of this host.
    Cpu,
    /// A GPU.
    Gpu,
    /// The host's memory: stores and relays, computes only if it has a rate.
    Host,
}

impl DeviceKind {
    /// Every kind.
    pub const ALL: [DeviceKind; 3] = [Self::Cpu, Self::Gpu, Self::Host];

    /// The name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One device: memory and rates. Rates are those of one device alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name in messages, such as `gpu0`.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Memory it may use.
    pub memory: Bytes,
    /// Arithmetic operations per second of contractions, by type; types not listed run at the rate of `F32`.
    pub flops: Vec<(DType, f64)>,
    /// Bytes per second between the device and its memory.
    pub memory_bandwidth: f64,
    /// Time to start a kernel.
    pub launch: Seconds,
    /// Whether maps and reductions cost nothing (idealised machines).
    pub free_elementwise: bool,
    /// Elements per second that maps and folds go through beside their bytes; `None`: bytes alone count. A device with
    /// this rate is a thread, which does not hide bytes behind arithmetic, so that both count for products, too.
    pub elements: Option<f64>,
    /// Operations per second of products under a softmax; see `elements`.
    pub under_softmax: Option<f64>,
    /// Names of ways to compute that measurements found to be the quicker ones on it, such as `wgmma`: whoever runs there
    /// looks; prices do not.
    pub prefers: Vec<String>,
    /// Rates of products that are not those of [`flops`](Device::flops).
    pub products: Products,
    /// Copy engines: how many transfers may leave it at once. `None`: no limit but one for each link.
    pub engines: Option<u32>,
}

impl Device {
    /// Operations per second on a type.
    pub fn rate(&self, dtype: DType) -> f64 {
        let of = |d| self.flops.iter().find(|f| f.0 == d).map(|f| f.1);
        of(dtype).or_else(|| of(DType::F32)).or_else(|| self.flops.first().map(|f| f.1)).unwrap_or(0.0)
    }

    /// The most operations per second of products that work in a type, whatever their shape: what bounds are made of.
    pub fn fastest(&self, dtype: DType) -> f64 {
        let shapes = self.products.shapes.iter().filter(|s| s.dtype == dtype).map(|s| s.rate);
        shapes.chain(self.products.windows).fold(self.rate(dtype), f64::max)
    }
}

/// Something with a bandwidth that links share: a port, a cable, a switch's uplink.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Name in messages, such as `gpu0.out`.
    pub name: String,
    /// Bytes per second.
    pub bandwidth: f64,
}

/// A direct way from one device to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// From.
    pub from: DeviceId,
    /// To.
    pub to: DeviceId,
    /// The resources a transfer loads, each with all its bytes: positions in [`Machine::resources`].
    pub resources: Vec<usize>,
    /// Time before the first byte arrives.
    pub latency: Seconds,
}

/// Devices and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its devices.
    pub devices: Vec<Device>,
    /// What links share.
    pub resources: Vec<Resource>,
    /// Direct links, at most one per ordered pair.
    pub links: Vec<Link>,
    /// Fixed cost of issuing one transfer.
    pub issue: Seconds,
    /// Processors that the devices of kind `cpu` share, being threads of one host. While more of them work than
    /// there are processors, each is slower in proportion; and a transfer between two of them is work of
    /// both: a copy out by the sender, a copy in by the receiver, each half of the link's time for its bytes. `None`:
    /// each device has its own processor, and links carry what they carry beside it. The simulator reads this, and
    /// the price of all blocks of an operation or all moves of an exchange; prices of single blocks do not.
    pub processors: Option<u32>,
    /// How fast those devices are by how many of them work.
    pub turns: Turns,
}

impl Machine {
    /// Number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether it has no device.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// All devices, in order.
    pub fn ids(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..self.devices.len() as u16).map(DeviceId)
    }

    /// Devices that compute.
    pub fn workers(&self) -> DeviceSet {
        self.ids().filter(|d| self.devices[d.index()].kind != DeviceKind::Host).collect()
    }

    /// The direct link between two devices.
    pub fn link(&self, from: DeviceId, to: DeviceId) -> Option<&Link> {
        // Links of parsed machines are sorted; a machine built by hand may list them in any order.
        match self.links.binary_search_by_key(&(from, to), |l| (l.from, l.to)) {
            Ok(n) => Some(&self.links[n]),
            Err(_) => self.links.iter().find(|l| l.from == from && l.to == to),
        }
    }

    /// What a transfer alone on a link gets, in bytes per second: its narrowest resource.
    pub fn bandwidth(&self, link: &Link) -> f64 {
        link.resources.iter().map(|&r| self.resources[r].bandwidth).fold(f64::INFINITY, f64::min)
    }

    /// Seconds that a transfer of `bytes`, alone on its link, takes: issue, latency, then the bytes.
    pub fn transfer_seconds(&self, link: &Link, bytes: f64) -> Seconds {
        Seconds(self.issue.0 + link.latency.0 + bytes / self.bandwidth(link))
    }

    /// Seconds until all devices are done, of which each works so many by its own price list from one beginning: the
    /// longest, or more where threads share processors and are too many for them.
    pub fn together(&self, seconds: &[f64]) -> Seconds {
        let longest = seconds.iter().copied().fold(0.0, f64::max);
        let Some(processors) = self.processors else { return Seconds(longest) };
        let thread = |d: &usize| self.devices[*d].kind == DeviceKind::Cpu;
        let (threads, others): (Vec<usize>, Vec<usize>) = (0..seconds.len()).partition(thread);
        let of = |devices: Vec<usize>| devices.into_iter().map(|d| seconds[d]).collect::<Vec<_>>();
        let turns = self.turns.together(&of(threads), f64::from(processors));
        Seconds(of(others).into_iter().fold(turns, f64::max))
    }

    /// What the devices that compute do together in a second at most, each doing `rate` by its own price list.
    pub fn rate_together(&self, rate: impl Fn(&Device) -> f64) -> f64 {
        let workers = self.workers();
        let workers = workers.iter().map(|d| &self.devices[d.index()]);
        let Some(processors) = self.processors else { return workers.map(rate).sum() };
        let (threads, others): (Vec<&Device>, Vec<&Device>) = workers.partition(|d| d.kind == DeviceKind::Cpu);
        let fastest = threads.iter().map(|d| rate(d)).fold(0.0, f64::max);
        let turns = self.turns.most(threads.len(), f64::from(processors));
        others.into_iter().map(&rate).sum::<f64>() + fastest * turns
    }

    /// The cheapest way over direct links, both ends included: fewest links, then the widest bottleneck,
    /// then the lowest device numbers. `None` when there is no way.
    pub fn path(&self, from: DeviceId, to: DeviceId) -> Option<Vec<DeviceId>> {
        // Best way to every device in exactly `hops` links, level by level.
        let mut level: Vec<Option<(f64, Vec<DeviceId>)>> = vec![None; self.len()];
        *level.get_mut(from.index())? = Some((f64::INFINITY, vec![from]));
        let mut seen = DeviceSet::one(from);
        loop {
            if let Some((_, path)) = level.get(to.index())? {
                return Some(path.clone());
            }
            let mut next: Vec<Option<(f64, Vec<DeviceId>)>> = vec![None; self.len()];
            for link in &self.links {
                let Some((width, path)) = &level[link.from.index()] else { continue };
                if seen.contains(link.to) {
                    continue;
                }
                let width = width.min(self.bandwidth(link));
                let better = match &next[link.to.index()] {
                    None => true,
                    Some((w, p)) => width > *w || (width == *w && path.as_slice() < &p[..p.len() - 1]),
                };
                if better {
                    let mut path = path.clone();
                    path.push(link.to);
                    next[link.to.index()] = Some((width, path));
                }
            }
            let reached: DeviceSet = self.ids().filter(|d| next[d.index()].is_some()).collect();
            if reached.is_empty() {
                return None;
            }
            seen = seen.union(reached);
            level = next;
        }
    }

    /// The machine with the first `n` devices that compute (see [`Machine::select`]).
    pub fn first(&self, n: usize) -> Result<Machine, MachineError> {
        let workers = self.workers();
        if n > workers.len() {
            return Err(MachineError::TooFew { name: self.name.clone(), asked: n, has: workers.len() });
        }
        let first: Vec<DeviceId> = workers.iter().take(n).collect();
        self.select(&first)
    }

    /// The machine with these devices, renumbered in the order given. Hosts that are linked both ways to
    /// one of them stay, behind them, because they may have to relay; other devices do not relay any more.
    pub fn select(&self, devices: &[DeviceId]) -> Result<Machine, MachineError> {
        let has = self.workers().len();
        let mut kept: Vec<DeviceId> = Vec::new();
        for &device in devices {
            if device.index() >= self.len() {
                return Err(MachineError::NoSuchDevice { name: self.name.clone(), device: device.0, has: self.len() });
            }
            if kept.contains(&device) {
                return Err(MachineError::SelectedTwice { device: device.0 });
            }
            kept.push(device);
        }
        if !kept.iter().any(|d| self.workers().contains(*d)) {
            return Err(MachineError::NoneSelected { name: self.name.clone(), has });
        }
        let relays = |host: DeviceId| {
            let to = kept.iter().any(|&d| self.link(d, host).is_some());
            let back = kept.iter().any(|&d| self.link(host, d).is_some());
            to && back
        };
        let hosts: Vec<DeviceId> = self
            .ids()
            .filter(|d| self.devices[d.index()].kind == DeviceKind::Host && !kept.contains(d) && relays(*d))
            .collect();
        kept.extend(hosts);
        if kept.iter().copied().eq(self.ids()) {
            return Ok(self.clone());
        }
        let position = |d: DeviceId| kept.iter().position(|k| *k == d).map(|n| DeviceId(n as u16));
        let mut links: Vec<Link> = self
            .links
            .iter()
            .filter_map(|l| Some(Link { from: position(l.from)?, to: position(l.to)?, ..l.clone() }))
            .collect();
        links.sort_by_key(|l| (l.from, l.to));
        let used: Vec<usize> =
            (0..self.resources.len()).filter(|r| links.iter().any(|l| l.resources.contains(r))).collect();
        for r in links.iter_mut().flat_map(|l| &mut l.resources) {
            *r = used.binary_search(r).expect("collected from the links");
        }
        let numbers: Vec<String> = kept.iter().map(|d| d.0.to_string()).collect();
        let threads = kept.iter().any(|d| self.devices[d.index()].kind == DeviceKind::Cpu);
        let machine = Machine {
            name: format!("{}/{}", self.name, numbers.join(",")),
            devices: kept.iter().map(|d| self.devices[d.index()].clone()).collect(),
            resources: used.iter().map(|&r| self.resources[r].clone()).collect(),
            links,
            issue: self.issue,
            processors: self.processors.filter(|_| threads),
            turns: if threads { self.turns } else { Turns::default() },
        };
        machine.check()?;
        Ok(machine)
    }

    /// Whether the machine is well formed: 1 to [`DeviceSet::MAX`] devices of distinct names, one of which
    /// computes, positive rates, at most one link for a pair, and a way between any two that compute.
    pub fn check(&self) -> Result<(), MachineError> {
        let name = || self.name.clone();
        let inconsistent = |reason: String| MachineError::Inconsistent { name: name(), reason };
        if self.len() > DeviceSet::MAX {
            return Err(MachineError::TooMany { name: name(), found: self.len() });
        }
        if self.workers().is_empty() {
            return Err(MachineError::NoDevices { name: name() });
        }
        let positive = |place: String, found: f64| {
            let good = found > 0.0 && found.is_finite();
            if good { Ok(()) } else { Err(MachineError::NotPositive { place, found }) }
        };
        let not_negative = |place: String, found: f64| {
            let good = found >= 0.0 && found.is_finite();
            if good { Ok(()) } else { Err(MachineError::Negative { place, found }) }
        };
        not_negative("issue".into(), self.issue.0)?;
        if let Some(processors) = self.processors {
            positive("processors".into(), f64::from(processors))?;
            if !self.devices.iter().any(|d| d.kind == DeviceKind::Cpu) {
                return Err(inconsistent("`processors` are what devices of kind `cpu` share, and it has none".into()));
            }
        }
        positive("alone".into(), self.turns.alone)?;
        positive("crowded".into(), self.turns.crowded)?;
        if self.processors.is_none() && self.turns != Turns::default() {
            return Err(inconsistent(
                "`alone` and `crowded` are of threads that share `processors`, which it lacks".into(),
            ));
        }
        for (n, d) in self.devices.iter().enumerate() {
            if self.devices[..n].iter().any(|o| o.name == d.name) {
                return Err(MachineError::SameName { what: "device", name: d.name.clone() });
            }
            positive(format!("memory of `{}`", d.name), d.memory.0 as f64)?;
            positive(format!("memory_bandwidth of `{}`", d.name), d.memory_bandwidth)?;
            not_negative(format!("launch of `{}`", d.name), d.launch.0)?;
            for (what, rate) in [("elements", d.elements), ("under_softmax", d.under_softmax)] {
                if let Some(rate) = rate {
                    positive(format!("{what} of `{}`", d.name), rate)?;
                }
            }
            for s in &d.products.shapes {
                positive(format!("side of `products` of `{}`", d.name), s.side)?;
                positive(format!("points of `products` of `{}`", d.name), s.points)?;
                positive(format!("rate of `products` of `{}`", d.name), s.rate)?;
            }
            if let Some(rate) = d.products.windows {
                positive(format!("windows of `{}`", d.name), rate)?;
            }
            if let Some(engines) = d.engines {
                positive(format!("engines of `{}`", d.name), f64::from(engines))?;
            }
            if d.flops.is_empty() && d.kind != DeviceKind::Host {
                return Err(inconsistent(format!(
                    "`{}` computes but has no `flops`, such as {{ f32 = \"19.5 TFLOP/s\" }}",
                    d.name
                )));
            }
            for (dtype, rate) in &d.flops {
                positive(format!("{dtype} flops of `{}`", d.name), *rate)?;
            }
        }
        for r in &self.resources {
            positive(format!("bandwidth of resource `{}`", r.name), r.bandwidth)?;
        }
        let mut pairs = std::collections::BTreeSet::new();
        for l in &self.links {
            if l.from.index() >= self.len() || l.to.index() >= self.len() {
                return Err(inconsistent(format!("link {}>{} names a device beyond {}", l.from, l.to, self.len())));
            }
            let (from, to) = (self.devices[l.from.index()].name.clone(), self.devices[l.to.index()].name.clone());
            let place = format!("link {from}>{to}");
            if l.from == l.to {
                return Err(MachineError::Loop { place, device: from });
            }
            if !pairs.insert((l.from, l.to)) {
                return Err(MachineError::TwoLinks { from, to, first: place.clone(), second: place });
            }
            not_negative(format!("latency of {place}"), l.latency.0)?;
            if l.resources.is_empty() || l.resources.iter().any(|&r| r >= self.resources.len()) {
                return Err(inconsistent(format!("{place} needs at least one resource, all of them listed")));
            }
        }
        self.check_reach()
    }

    /// Whether a transfer from one device to the other is work of the two, which are threads of one host.
    pub fn copies_by_thread(&self, from: DeviceId, to: DeviceId) -> bool {
        let thread = |d: DeviceId| self.devices[d.index()].kind == DeviceKind::Cpu;
        self.processors.is_some() && thread(from) && thread(to)
    }

    /// Whether data can get from any device that computes to any other.
    fn check_reach(&self) -> Result<(), MachineError> {
        let Some(first) = self.workers().lowest() else { return Ok(()) };
        let (out, back) = (self.reach(first, false), self.reach(first, true));
        for d in self.workers().iter() {
            for (from, to, reached) in [(first, d, out), (d, first, back)] {
                if !reached.contains(d) {
                    let name = |d: DeviceId| self.devices[d.index()].name.clone();
                    let names = |set: DeviceSet| set.iter().map(name).collect::<Vec<_>>().join(", ");
                    let (sources, targets) = (names(self.reach(from, false)), names(self.reach(to, true)));
                    return Err(MachineError::Unreachable { from: name(from), to: name(to), sources, targets });
                }
            }
        }
        Ok(())
    }

    /// Where data of `from` can get to or, backwards, what can get to `from`.
    fn reach(&self, from: DeviceId, backwards: bool) -> DeviceSet {
        let mut reached = DeviceSet::one(from);
        loop {
            let next = self.links.iter().fold(reached, |set, l| {
                let (a, b) = if backwards { (l.to, l.from) } else { (l.from, l.to) };
                if set.contains(a) { set.with(b) } else { set }
            });
            if next == reached {
                return reached;
            }
            reached = next;
        }
    }
}
