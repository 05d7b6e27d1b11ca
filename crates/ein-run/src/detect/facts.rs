//! What the driver tells about this host, as plain data.

use ein_task::units::Bytes;
use std::fmt;

/// Everything that is asked of the driver and of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The driver's version.
    pub driver: String,
    /// The host's memory.
    pub host: Bytes,
    /// The GPUs, in the driver's order (that of the bus).
    pub gpus: Vec<Gpu>,
    /// Every unordered pair of GPUs, the lower number first.
    pub pairs: Vec<Pair>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// The product, such as `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// Where it sits.
    pub bus: Bus,
    /// Its memory.
    pub memory: Bytes,
    /// Its active NVLinks.
    pub links: Vec<NvLink>,
    /// Its way to the host, if it is told.
    pub pcie: Option<Pcie>,
    /// Whether it is divided into instances (MIG).
    pub instances: bool,
    /// What rates can be worked out from when the product is not known.
    pub chip: Chip,
}

/// An address on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bus {
    /// The domain.
    pub domain: u32,
    /// The bus.
    pub bus: u32,
    /// The device.
    pub device: u32,
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)
    }
}

/// One active NVLink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NvLink {
    /// What is at its other end: a GPU of this host, or anything else, which then is a switch.
    pub remote: Bus,
    /// The version as the library numbers it: 1 for 1.0, 2 for 2.0, 3 for 2.2, 4 for 3.0, 5 for 3.1, 6 for 4.0,
    /// 7 for 5.0.
    pub version: Option<u32>,
    /// Its signalling rate each way in MB/s.
    pub speed: Option<u64>,
}

/// A GPU's PCIe port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcie {
    /// 3 for PCIe 3.0 and so on: the most that card and slot do, because idle cards fall back.
    pub generation: u32,
    /// Lanes.
    pub width: u32,
}

/// What a GPU is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chip {
    /// Compute capability, such as (8, 0).
    pub capability: Option<(i32, i32)>,
    /// FP32 cores.
    pub cores: Option<u32>,
    /// The highest clock in MHz.
    pub clock: Option<u32>,
    /// The highest clock of the memory in MHz.
    pub memory_clock: Option<u32>,
    /// The width of the memory's bus in bits.
    pub memory_bits: Option<u32>,
}

/// Two GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The lower number.
    pub first: usize,
    /// The higher number.
    pub second: usize,
    /// Where their ways to the host meet, if it is told.
    pub ancestor: Option<Ancestor>,
    /// Whether each can read and write the other's memory.
    pub peers: bool,
    /// Whether it does so over NVLink.
    pub nvlink: bool,
}

/// Where the ways of two GPUs to the host meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ancestor {
    /// On the card.
    Board,
    /// In one PCIe switch.
    Switch,
    /// In switches below one host bridge.
    Switches,
    /// In a host bridge.
    Bridge,
    /// In one socket.
    Socket,
    /// Between sockets.
    System,
}
