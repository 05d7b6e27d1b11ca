//! Machines: devices, and the links between them as data.

use crate::units::{Bytes, Seconds};
use ein_ir::dtype::DType;
use std::fmt;

/// A device of a machine: its position in [`Machine::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
}

impl Device {
    /// Operations per second on a type.
    pub fn rate(&self, dtype: DType) -> f64 {
        let of = |d| self.flops.iter().find(|f| f.0 == d).map(|f| f.1);
        of(dtype).or_else(|| of(DType::F32)).or_else(|| self.flops.first().map(|f| f.1)).unwrap_or(0.0)
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
        self.links.iter().find(|l| l.from == from && l.to == to)
    }
}
