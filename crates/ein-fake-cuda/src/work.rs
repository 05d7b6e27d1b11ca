//! What GPUs do.

use crate::arena_ffi as memory;
use crate::driver::HostCall;
use crate::matmul::Product;
use crate::shim::Module;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Something that a GPU does.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) gpu: usize,
    pub(crate) work: Work,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing: it only orders.
    Nothing,
    Kernel(Kernel),
    Copy(Copy),
    /// Bytes that were taken from the host when the call was made, since the host may change them after it.
    Given {
        bytes: Vec<u8>,
        to: u64,
    },
    Set {
        at: u64,
        pitch: u64,
        value: u32,
        element: u32,
        width: u64,
        height: u64,
    },
    Product(Box<Product>),
    /// A function of the host.
    Call(HostCall, usize),
}

#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) module: Arc<Module>,
    pub(crate) name: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    /// The bytes of each.
    pub(crate) args: Vec<Vec<u8>>,
}

/// Layers of lines of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) at: u64,
    pub(crate) pitch: u64,
    pub(crate) height: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub(crate) from: Lines,
    pub(crate) to: Lines,
    /// Bytes of a line, lines of a layer, layers.
    pub(crate) size: [u64; 3],
    /// Whether the call names both GPUs, so that it needs no access of one to the other.
    pub(crate) peer: bool,
}

impl Copy {
    /// Consecutive bytes.
    pub(crate) fn flat(from: u64, to: u64, bytes: u64, peer: bool) -> Self {
        let line = |at| Lines { at, pitch: bytes, height: 1 };
        Self { from: line(from), to: line(to), size: [bytes, 1, 1], peer }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.size.iter().product()
    }
}

impl Lines {
    /// The ranges of such lines, joined where they touch.
    pub(crate) fn ranges(&self, size: [u64; 3]) -> Vec<Range<u64>> {
        let mut out: Vec<Range<u64>> = Vec::new();
        for layer in 0..size[2] {
            for line in 0..size[1] {
                let start = self.at + (layer * self.height + line) * self.pitch;
                match out.last_mut() {
                    Some(last) if last.end == start => last.end += size[0],
                    _ => out.push(start..start + size[0]),
                }
            }
        }
        out.retain(|r| !r.is_empty());
        out
    }
}

impl Work {
    /// What it reads and what it writes; of a kernel that is known only when it has run.
    pub(crate) fn touches(&self) -> [Vec<Range<u64>>; 2] {
        match self {
            Self::Copy(c) => [c.from.ranges(c.size), c.to.ranges(c.size)],
            Self::Given { bytes, to } => {
                let length = bytes.len() as u64;
                [Vec::new(), Lines { at: *to, pitch: length, height: 1 }.ranges([length, 1, 1])]
            }
            Self::Set { at, pitch, element, width, height, .. } => {
                let lines = Lines { at: *at, pitch: *pitch, height: *height };
                [Vec::new(), lines.ranges([*width * u64::from(*element), *height, 1])]
            }
            Self::Product(p) => p.touches(),
            Self::Nothing | Self::Kernel(_) | Self::Call(..) => [Vec::new(), Vec::new()],
        }
    }

    /// Does it, whatever it is but a kernel. Addresses have been checked.
    pub(crate) fn run(&self) {
        match self {
            Self::Copy(c) => {
                let (from, to) = (c.from.ranges(c.size), c.to.ranges(c.size));
                if from.len() == 1 && to.len() == 1 {
                    memory::copy(c.from.at, c.to.at, c.bytes());
                    return;
                }
                for layer in 0..c.size[2] {
                    for line in 0..c.size[1] {
                        let at = |l: Lines| l.at + (layer * l.height + line) * l.pitch;
                        memory::copy(at(c.from), at(c.to), c.size[0]);
                    }
                }
            }
            Self::Given { bytes, to } => memory::write(*to, bytes),
            Self::Set { at, pitch, value, element, width, height } => {
                for line in 0..*height {
                    memory::set(at + line * pitch, *value, *element, *width);
                }
            }
            Self::Product(p) => p.run(),
            Self::Call(f, data) => crate::driver::call(*f, *data),
            Self::Nothing | Self::Kernel(_) => {}
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Work::Nothing => write!(f, "nothing"),
            Work::Kernel(k) => write!(f, "kernel {}", k.name),
            Work::Copy(c) => write!(f, "copy of {} bytes from {:#x} to {:#x}", c.bytes(), c.from.at, c.to.at),
            Work::Given { bytes, to } => write!(f, "copy of {} bytes of the host to {to:#x}", bytes.len()),
            Work::Set { at, .. } => write!(f, "set of {at:#x}"),
            Work::Product(p) => write!(f, "product {p}"),
            Work::Call(..) => write!(f, "call of the host"),
        }?;
        write!(f, " on GPU {}", self.gpu)
    }
}
