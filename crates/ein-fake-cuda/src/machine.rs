//! What GPUs there are not, what is checked, what fails.

use std::collections::BTreeMap;

/// GPUs that are not there.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeMachine {
    /// How many; 16 at most.
    pub gpus: usize,
    /// Bytes of memory of each; 7 GiB at most.
    pub memory: u64,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors of each.
    pub multiprocessors: u32,
    /// The version of the driver's interface: 13000 for 13.0.
    pub driver: i32,
    /// Pairs of GPUs that cannot reach each other's memory.
    pub apart: Vec<(usize, usize)>,
    /// What is checked of what runs.
    pub check: Check,
    /// Seed of the order in which things happen that nothing orders.
    pub seed: u64,
    /// What things take in the simulated seconds that events tell.
    pub speeds: Speeds,
}

/// How quick GPUs are that are not there. Times between events are simulated, so that they are the same in every run and
/// can be compared with what follows from these figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Speeds {
    /// Seconds that each kernel, product, copy and set takes beside its work.
    pub launch: f64,
    /// Seconds from the end of a copy to another memory until what waits for it begins.
    pub latency: f64,
    /// Bytes per second of a GPU's own memory, read or written. What kernels touch is known only where races are checked:
    /// otherwise they take their launch.
    pub memory: f64,
    /// Bytes per second from one memory to another, by copies and by kernels that reach over.
    pub copies: f64,
    /// Operations per second of products, two for each multiply-add: of f64, f32, f32 rounded to TF32, and 16-bit floats.
    pub products: [f64; 4],
    /// Bytes per second of ways from one memory to another that are not as `copies` says.
    pub ways: BTreeMap<(Side, Side), f64>,
    /// GPUs whose kernels and products take so many times as long.
    pub slower: BTreeMap<usize, f64>,
}

impl Default for Speeds {
    fn default() -> Self {
        Self {
            launch: 1e-6,
            latency: 2e-6,
            memory: 2e12,
            copies: 100e9,
            products: [10e12, 20e12, 80e12, 160e12],
            ways: BTreeMap::new(),
            slower: BTreeMap::new(),
        }
    }
}

impl FakeMachine {
    /// So many GPUs of 1 GiB, all of which reach each other, with all checks.
    pub fn new(gpus: usize) -> Self {
        Self {
            gpus,
            memory: 1 << 30,
            capability: (9, 0),
            multiprocessors: 4,
            driver: 13000,
            apart: Vec::new(),
            check: Check::Races,
            seed: 1,
            speeds: Speeds::default(),
        }
    }

    /// The same with another check.
    pub fn check(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// The same with another seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The same where each GPU has so many bytes of memory.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// The same where two GPUs cannot reach each other's memory.
    pub fn apart(mut self, a: usize, b: usize) -> Self {
        self.apart.push((a, b));
        self
    }

    /// The same with other speeds.
    pub fn speeds(mut self, speeds: Speeds) -> Self {
        self.speeds = speeds;
        self
    }

    pub(crate) fn joined(&self, a: usize, b: usize) -> bool {
        a != b && !self.apart.contains(&(a, b)) && !self.apart.contains(&(b, a))
    }
}

/// What is checked of what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Only what the driver itself would notice.
    None,
    /// That nothing is touched outside an allocation, after it was freed, or on a GPU that cannot be reached.
    Bounds,
    /// Also that what touches the same memory is ordered by streams, events or edges of a graph. Kernels tell of every
    /// access, which makes them two to five times slower.
    Races,
}

/// What fails, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The allocation after so many more, for want of memory.
    Alloc(u64),
    /// The kernel that runs after so many more.
    Launch(u64),
    /// A GPU is lost when so many more of its kernels, copies and products have run: every later call says so.
    Lost {
        /// Which.
        gpu: usize,
        /// After how many.
        after: u64,
    },
    /// The compilation of CUDA C++ after so many more.
    Compile(u64),
    /// The stream that is made after so many more, for want of memory.
    Stream(u64),
}

/// An end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The host's memory.
    Host,
    /// A GPU's memory.
    Gpu(usize),
}

/// What nodes of one kind did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many ran.
    pub runs: u64,
    /// Bytes that they read. What one of them reads repeatedly counts once.
    pub read: u64,
    /// Bytes that they wrote.
    pub written: u64,
}

/// What was done since counting began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Allocations of memory, of GPUs and of the host.
    pub allocations: u64,
    /// How often the host waited.
    pub synchronizations: u64,
    /// Kernels that ran.
    pub kernels: u64,
    /// Copies that ran.
    pub copies: u64,
    /// Runs of setting memory.
    pub sets: u64,
    /// Products of the library that ran.
    pub products: u64,
    /// How often the library was asked for the best way to do a product.
    pub heuristics: u64,
    /// Graphs that were launched.
    pub graphs: u64,
    /// Calls that gave one thing to a stream (a kernel, copy, set or product) outside a capture.
    pub calls: u64,
    /// Bytes that copies moved.
    pub copied: BTreeMap<(Side, Side), u64>,
    /// Bytes that kernels and products read (from, by) or wrote (by, to) across; only where races are checked. What a
    /// kernel touches repeatedly counts once.
    pub reached: BTreeMap<(Side, Side), u64>,
    /// Of kernels, by their names up to the last `_`, and of `copy`, `set` and `product`; bytes only where races are checked.
    pub traffic: BTreeMap<String, Traffic>,
}
