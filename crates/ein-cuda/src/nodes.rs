//! A whole task graph as nodes: what is done where, and what it waits for.
//!
//! Everything that a process does in a run is one list of nodes over all its GPUs, ordered by edges alone. The edges are
//! those of the task graph and two kinds more: rows that use one piece of a device's scratch memory follow one another,
//! and what may report a fault comes after the report is cleared and before it is fetched. Nothing else is ordered, in
//! particular not the rows of one device: which goes first where several could is the hardware's to choose, as the memory
//! plan allows any order.
//!
//! This is data. No driver is asked, so what is said here is tested where there is none.

mod making;
mod moves;

use crate::copies::Lines;
use crate::generate::{self, Orders};
use crate::program::{Kernel, Matmul, Program, Target, TensorMap};
use crate::rows::Rows;
use ein_run::cpu::boxes::BoxCopy;
use ein_run::{Cause, RunError};
use ein_task::task::{TaskGraph, TaskId};
use making::Making;
use std::ops::Range;
use std::sync::Arc;

/// What begins at a multiple of this suits every kernel and library.
const ALIGN: u64 = 256;
/// Bytes of a fault record.
pub const FAULT: u64 = 32;
/// Rows of one device that may use scratch memory at once.
pub const LANES: usize = 2;
/// As many bytes of workspace as products of any shape gain from.
pub const WORKSPACE: u64 = 32 << 20;

/// Where a device of the task graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The GPU that does its rows: its own, or, if it is the host, one that reaches the host's memory.
    pub gpu: usize,
    /// Whether its memory is the host's.
    pub host: bool,
    /// What its kernels are generated for.
    pub target: Target,
}

/// Where what goes in and comes out lies while a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Staging {
    /// In the host's memory: the run itself brings it to the GPUs and back.
    #[default]
    Host,
    /// In the memory of the GPUs: it is brought there before the run, and fetched after. It lies where the run reads it, or
    /// left it, unless that memory is used before or after in the run: then it has a place of its own, and the run copies it
    /// within the GPU. What goes to or from devices whose memory is the host's stays there.
    Device,
}

/// Where all devices of a task graph are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sites {
    /// By device of the task graph; several may be on one GPU.
    pub devices: Vec<Site>,
    /// For every GPU, whether it reaches each GPU's memory.
    pub reach: Vec<Vec<bool>>,
    /// Where what goes in and comes out lies while a run goes on.
    pub staging: Staging,
    /// Most bytes that the library of products may use for one of them; with less it may choose a slower way.
    pub workspace: u64,
}

/// What makes the programs of rows that compute: [`generate::program`], but for tests.
pub type Programs<'a> = &'a dyn Fn(&TaskGraph, TaskId, &Target) -> Result<Program, Cause>;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// A device's: its arena, then what its kernels need besides.
    Device(usize),
    /// The host's, through which goes what comes in and out.
    Host,
}

/// A byte of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The block.
    pub block: Block,
    /// Bytes before it.
    pub offset: u64,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A pointer.
    Address(Address),
    /// `long long`.
    I64(i64),
    /// `int`.
    I32(i32),
    /// `float`.
    F32(f32),
    /// A tensor's description, of which the place is that of the row, and where the tensor is.
    Map(TensorMap, Address),
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Runs a kernel.
    Kernel {
        /// The function.
        kernel: Arc<Kernel>,
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// Bytes of dynamic shared memory.
        shared: u32,
        /// In the order of its parameters.
        args: Vec<Value>,
    },
    /// Has the library multiply.
    Matmul {
        /// What; its places are those of the row.
        matmul: Box<Matmul>,
        /// Where the two factors and the result are.
        at: [Address; 3],
        /// Where the matrices that are added are.
        add: Option<Address>,
        /// Where the vector that is added is.
        bias: Option<Address>,
        /// Memory for the library.
        workspace: Address,
        /// Bytes of it.
        bytes: u64,
    },
    /// Copies; offsets are those of the blocks.
    Copy {
        /// From.
        from: Block,
        /// To.
        to: Block,
        /// Which bytes.
        lines: Lines,
    },
    /// Sets bytes to 0.
    Zero {
        /// The first.
        at: Address,
        /// How many.
        bytes: u64,
    },
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The row of the task graph, if it is of one.
    pub row: Option<TaskId>,
    /// The GPU that does it.
    pub gpu: usize,
    /// What it does.
    pub work: Work,
    /// Earlier nodes that it waits for.
    pub after: Vec<usize>,
}

/// What goes between a tensor of the caller's and the host's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Position among the task graph's externals or outputs.
    pub tensor: usize,
    /// The row.
    pub row: TaskId,
    /// How its elements are copied.
    pub copy: BoxCopy,
    /// Where in the host's memory.
    pub at: Range<usize>,
}

/// Bytes of the host's memory that have a place in a device's, too: a slot of the arena, or behind all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The device.
    pub device: usize,
    /// Bytes before them in its memory.
    pub offset: u64,
    /// Where in the host's memory.
    pub at: Range<usize>,
}

/// A whole task graph.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Each names only earlier ones.
    pub all: Vec<Node>,
    /// Bytes of every device's memory: its arena, what kernels need besides, and what is staged there.
    pub devices: Vec<u64>,
    /// Bytes of the host's memory.
    pub host: u64,
    /// Inputs, which go to the host's memory before a run.
    pub inputs: Vec<Passage>,
    /// States, which go to their slots before a run, through this part of the host's memory, if they are given.
    pub states: Vec<Passage>,
    /// Outputs, which lie in the host's memory after a run.
    pub outputs: Vec<Passage>,
    /// Receiving halves that are not done, because folds read what they would bring where it is.
    pub in_place: Vec<TaskId>,
    /// Where in the host's memory fault records lie after a run: one for every row that may report one.
    pub faults: Vec<Range<usize>>,
    /// What goes from the host's memory to devices' before a run, because it is staged there.
    pub uploads: Vec<Staged>,
    /// Of the uploads those that are not there any more when a run ends.
    pub overwritten: Vec<Staged>,
    /// What goes from devices' memory to the host's after a run.
    pub downloads: Vec<Staged>,
}

impl Sites {
    /// The first device on a GPU: who is named where a GPU is meant.
    pub fn first_on(&self, gpu: usize) -> usize {
        self.devices.iter().position(|site| site.gpu == gpu && !site.host).unwrap_or(0)
    }

    /// Whether the GPU that does a device's rows reaches another device's memory.
    pub fn reaches(&self, device: usize, other: usize) -> bool {
        let [own, other] = [device, other].map(|d| &self.devices[d]);
        other.host || self.reach[own.gpu][other.gpu]
    }
}

impl Nodes {
    /// The nodes of a graph that has been verified, on these sites, of the programs that are generated for it.
    pub fn generated(graph: &TaskGraph, sites: &Sites) -> Result<Self, RunError> {
        let orders = Orders::of(graph);
        Self::new(graph, sites, &|graph, id, target| generate::program(graph, id, &orders, target))
    }

    /// The nodes of a graph that has been verified, on these sites.
    pub fn new(graph: &TaskGraph, sites: &Sites, programs: Programs<'_>) -> Result<Self, RunError> {
        let rows = Rows::new(graph, &moves::readable(graph, sites));
        let mut making = Making::new(graph, sites, &rows, programs)?;
        for &id in &rows.order {
            making.row(id).map_err(|cause| RunError::task(graph, id.0, cause))?;
        }
        Ok(making.finish())
    }
}
