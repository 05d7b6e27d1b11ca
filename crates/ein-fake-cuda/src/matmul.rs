//! Products of matrices, as the library of products does them.

use crate::arena_ffi as memory;
use crate::machine::Speeds;
use std::fmt;
use std::ops::Range;

/// Types of elements, by their numbers in the library's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F64,
    F16,
    BF16,
}

impl Kind {
    pub(crate) fn new(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::F32),
            1 => Some(Self::F64),
            2 => Some(Self::F16),
            14 => Some(Self::BF16),
            _ => None,
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    fn read(self, b: &[u8]) -> f64 {
        let half = || u16::from_le_bytes([b[0], b[1]]);
        match self {
            Self::F32 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Self::F64 => f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            Self::F16 => half::f16::from_bits(half()).to_f64(),
            Self::BF16 => half::bf16::from_bits(half()).to_f64(),
        }
    }

    fn write(self, v: f64, out: &mut [u8]) {
        match self {
            Self::F32 => out.copy_from_slice(&(v as f32).to_le_bytes()),
            Self::F64 => out.copy_from_slice(&v.to_le_bytes()),
            // The result is one of f32 first, as the library accumulates it.
            Self::F16 => out.copy_from_slice(&half::f16::from_f32(v as f32).to_le_bytes()),
            Self::BF16 => out.copy_from_slice(&half::bf16::from_f32(v as f32).to_le_bytes()),
        }
    }
}

/// A batch of matrices in memory: element (r, c) of matrix b is at `at + (b * batch + r * row + c * column)` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) row: u64,
    pub(crate) column: u64,
    pub(crate) batch: u64,
}

impl Layout {
    pub(crate) fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row: self.column, column: self.row, ..self }
    }

    fn address(&self, b: u64, r: u64, c: u64) -> u64 {
        self.at + (b * self.batch + r * self.row + c * self.column) * self.kind.bytes()
    }

    /// The ranges of consecutive elements of `count` matrices.
    fn ranges(&self, count: u64) -> Vec<Range<u64>> {
        let along = if self.row == 1 { self.transposed() } else { *self };
        let mut out: Vec<Range<u64>> = Vec::new();
        let count = if self.batch == 0 { count.min(1) } else { count };
        for b in 0..count {
            for r in 0..along.rows {
                let start = along.address(b, r, 0);
                let end = start + along.columns * self.kind.bytes();
                match out.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => out.push(start..end),
                }
            }
        }
        out.retain(|r| !r.is_empty());
        out
    }

    /// A matrix, rows after each other.
    fn load(&self, b: u64) -> Vec<f64> {
        let size = self.kind.bytes();
        let along = if self.row == 1 { self.transposed() } else { *self };
        let mut lines = Vec::with_capacity((self.rows * self.columns) as usize);
        for r in 0..along.rows {
            let line = memory::bytes(along.address(b, r, 0), along.columns * size);
            lines.extend(line.chunks_exact(size as usize).map(|e| self.kind.read(e)));
        }
        if self.row != 1 {
            return lines;
        }
        let (rows, columns) = (self.rows as usize, self.columns as usize);
        (0..rows * columns).map(|i| lines[i % columns * rows + i / columns]).collect()
    }
}

/// What GPUs multiply with. Factors that may be rounded to TF32 are not: only the time is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Double,
    Single,
    Tf32,
    Half,
}

/// `D = epilogue(alpha A B + beta C)`.
#[derive(Debug)]
pub(crate) struct Product {
    /// The library's handle that it was given with.
    pub(crate) handle: usize,
    pub(crate) a: Layout,
    pub(crate) b: Layout,
    pub(crate) c: Layout,
    pub(crate) d: Layout,
    pub(crate) count: u64,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    /// Whether sums are of f64.
    pub(crate) double: bool,
    /// What its arithmetic counts as in simulated time.
    pub(crate) arithmetic: Arithmetic,
    /// A vector with an element for each row of D, and its type.
    pub(crate) bias: Option<(u64, Kind)>,
    pub(crate) relu: bool,
    pub(crate) gelu: bool,
    /// Memory that the library may use while it computes.
    pub(crate) workspace: Range<u64>,
}

impl Product {
    pub(crate) fn touches(&self) -> [Vec<Range<u64>>; 2] {
        let mut read = self.a.ranges(self.count);
        read.extend(self.b.ranges(self.count));
        if self.beta != 0.0 {
            read.extend(self.c.ranges(self.count));
        }
        if let Some((at, kind)) = self.bias {
            read.push(at..at + self.d.rows * kind.bytes());
        }
        let mut written = self.d.ranges(self.count);
        if !self.workspace.is_empty() {
            written.push(self.workspace.clone());
        }
        [read, written]
    }

    /// Simulated seconds of its arithmetic.
    pub(crate) fn seconds(&self, speeds: &Speeds) -> f64 {
        let operations = 2.0 * (self.d.rows * self.d.columns * self.a.columns * self.count) as f64;
        operations / speeds.products[self.arithmetic as usize]
    }

    /// Whether some of what is written is read too, where that is not the very matrix that is added.
    pub(crate) fn overlaps(&self) -> bool {
        let written = self.d.ranges(self.count);
        let mut read = self.a.ranges(self.count);
        read.extend(self.b.ranges(self.count));
        if self.beta != 0.0 && self.c.at != self.d.at {
            read.extend(self.c.ranges(self.count));
        }
        read.extend(self.bias.map(|(at, kind)| at..at + self.d.rows * kind.bytes()));
        // Ranges by their begins: each can only overlap the next ones that begin before it ends.
        let mut all: Vec<(Range<u64>, bool)> = written.into_iter().map(|r| (r, true)).collect();
        all.extend(read.into_iter().map(|r| (r, false)));
        all.sort_by_key(|(r, _)| r.start);
        let (mut written, mut read) = (0, 0);
        all.into_iter().any(|(r, writes)| {
            let both = r.start < if writes { read } else { written };
            let end = if writes { &mut written } else { &mut read };
            *end = r.end.max(*end);
            both
        })
    }

    pub(crate) fn run(&self) {
        let (m, n, k) = (self.d.rows as usize, self.d.columns as usize, self.a.columns as usize);
        let bias = self.bias.map(|(at, kind)| Layout {
            kind,
            at,
            rows: 1,
            columns: m as u64,
            row: m as u64,
            column: 1,
            batch: 0,
        });
        let bias = bias.map(|b| b.load(0));
        for batch in 0..self.count {
            let (a, b) = (self.a.load(batch), self.b.load(batch));
            let c = (self.beta != 0.0).then(|| self.c.load(batch));
            let mut sums = vec![0.0; m * n];
            for i in 0..m {
                let line = &mut sums[i * n..(i + 1) * n];
                for l in 0..k {
                    let x = a[i * k + l];
                    let row = &b[l * n..(l + 1) * n];
                    if self.double {
                        line.iter_mut().zip(row).for_each(|(s, y)| *s += x * y);
                    } else {
                        line.iter_mut().zip(row).for_each(|(s, y)| *s = f64::from((*s + x * y) as f32));
                    }
                }
            }
            let size = self.d.kind.bytes() as usize;
            let mut element = [0u8; 8];
            for i in 0..m {
                for j in 0..n {
                    let mut v = self.alpha * sums[i * n + j];
                    v += c.as_ref().map_or(0.0, |c| self.beta * c[i * n + j]);
                    v += bias.as_ref().map_or(0.0, |b| b[i]);
                    if self.relu {
                        v = v.max(0.0);
                    }
                    if self.gelu {
                        v = 0.5 * v * (1.0 + (0.797_884_560_802_865_4 * (v + 0.044715 * v * v * v)).tanh());
                    }
                    self.d.kind.write(v, &mut element[..size]);
                    memory::write(self.d.address(batch, i as u64, j as u64), &element[..size]);
                }
            }
        }
        memory::set(self.workspace.start, u32::MAX, 1, self.workspace.end - self.workspace.start);
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.d.rows, self.d.columns, self.a.columns)?;
        if self.count == 1 { Ok(()) } else { write!(f, " {} times", self.count) }
    }
}
