//! What one row does on a GPU, before any address is known.

use ein_ir::dtype::DType;
use std::fmt;
use std::sync::Arc;

/// The steps of a row, one after the other on one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// In order.
    pub steps: Vec<Step>,
    /// Bytes of memory that the steps need besides their values; what is in it before does not matter.
    pub scratch: u64,
}

/// One node of the captured graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A generated kernel.
    Launch(Launch),
    /// A product for the library of matrix products.
    Matmul(Matmul),
    /// A copy of consecutive bytes.
    Copy {
        /// From.
        from: Place,
        /// To.
        to: Place,
        /// How many.
        bytes: u64,
    },
    /// Sets bytes to 0.
    Zero {
        /// Where.
        at: Place,
        /// How many.
        bytes: u64,
    },
}

/// Memory that a row knows: a region and the offset in it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which.
    pub base: Base,
    /// Bytes from its begin.
    pub offset: u64,
}

/// The regions of memory that a row knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The slot that the row writes.
    Own,
    /// The slot of the value that is read, by position in the row's `reads`. It may be another device's.
    Read(usize),
    /// The row's scratch memory.
    Scratch,
    /// The device's [`Fault`] record, to which kernels report what they cannot do.
    Fault,
}

impl Base {
    /// The place so many bytes after its begin.
    pub fn at(self, offset: u64) -> Place {
        Place { base: self, offset }
    }
}

/// A function of CUDA C++.
///
/// The text is one `extern "C" __global__` function (with what only it needs before it), which follows
/// [`PRELUDE`](crate::generate::PRELUDE) in its translation unit. Equal names have equal texts, so the kernels of a task
/// graph are compiled together, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kernel {
    /// Its name: what it does, then a hash of the text.
    pub name: String,
    /// The text.
    pub source: String,
}

impl Kernel {
    /// The kernel whose text is `source` with `NAME` in the place of its name; `what` says what it does.
    pub fn new(what: &str, source: &str) -> Arc<Self> {
        let name = format!("{what}_{:016x}", xxhash_rust::xxh3::xxh3_64(source.as_bytes()));
        let source = source.replace("NAME", &name);
        Arc::new(Self { name, source })
    }

    /// What it does: of those that are generated, one of [`KINDS`](crate::generate::KINDS).
    pub fn kind(&self) -> &str {
        self.name.rsplit_once('_').map_or("", |(kind, _)| kind)
    }
}

/// A kernel on a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The function.
    pub kernel: Arc<Kernel>,
    /// Blocks; y and z at most 65535, none 0.
    pub grid: [u32; 3],
    /// Threads of a block; 1024 at most in all.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// In the order of the function's parameters.
    pub args: Vec<Arg>,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// `unsigned char*`, to be cast by the kernel.
    Pointer(Place),
    /// `long long`.
    I64(i64),
    /// `int`.
    I32(i32),
    /// `float`.
    F32(f32),
    /// `const __grid_constant__ ein_Map`.
    Map(TensorMap),
}

/// A tensor of 16-bit floats whose boxes kernels copy to shared memory, as the driver is to describe it: lines of 128 bytes,
/// swizzled, one for each point of the box; what lies outside of the tensor is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The first value.
    pub place: Place,
    /// `BF16` or `F16`.
    pub dtype: DType,
    /// Values along each axis, that of consecutive values first.
    pub extents: [u64; 4],
    /// Bytes from one value to the next, along each other axis: multiples of 16, below 2^40.
    pub steps: [u64; 3],
    /// Values of a box along each axis: 64 at most along the first, 256 along others.
    pub boxes: [u32; 4],
}

/// `C[b] = f(A[b] B[b] + add[b] + bias)`, b in 0..batch; all matrices row-major, or their transposes. What is added and
/// `f` are the epilogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    /// m by k.
    pub a: Matrix,
    /// k by n.
    pub b: Matrix,
    /// m by n; never transposed.
    pub c: Matrix,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// What is summed over.
    pub k: u64,
    /// How many products.
    pub batch: u64,
    /// What happens to the result before it is stored.
    pub epilogue: Epilogue,
}

/// A batch of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The first element of the first.
    pub place: Place,
    /// Type of the elements: `F32`, `F64`, `BF16` or `F16`.
    pub dtype: DType,
    /// Elements from one row to the next; of a transposed one from one column to the next.
    pub stride: u64,
    /// Elements from one matrix to the next; 0 where all are one.
    pub batch_stride: u64,
    /// Whether columns are consecutive in memory rather than rows.
    pub transposed: bool,
}

/// What the library does to a result before it stores it, in the type of its accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Epilogue {
    /// Adds matrices of the result's extents and type, not transposed: a residual. They may lie elsewhere than the result.
    pub add: Option<Matrix>,
    /// Adds a vector of n elements, of the result's type, to every row. It begins at a multiple of 16 bytes.
    pub bias: Option<Place>,
    /// Applies the Gaussian error linear unit by its hyperbolic tangent, to the sum.
    pub gelu: bool,
}

impl Epilogue {
    /// Nothing.
    pub const NONE: Self = Self { add: None, bias: None, gelu: false };

    /// The places that are read, to be changed.
    pub fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        self.add.iter_mut().map(|m| &mut m.place).chain(&mut self.bias)
    }
}

/// What the generated code may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Compute capability times ten: 80, 90, 100.
    pub arch: u32,
    /// Multiprocessors, for the sizes of grids.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may have.
    pub shared: u32,
    /// Whether products of f32 may round their factors to TF32.
    pub tf32: bool,
    /// Whether there is a library of matrix products. Without it they are generated.
    pub library: bool,
    /// Whether attention may multiply by four warps at once (`wgmma`), which architecture 90 alone has.
    pub wgmma: bool,
}

impl Target {
    /// What tests generate for: an A100.
    pub const A100: Self =
        Self { arch: 80, multiprocessors: 108, shared: 163 << 10, tf32: false, library: true, wgmma: false };

    /// What tests generate for where it is to be a GPU with `wgmma`: an H200.
    pub const H200: Self =
        Self { arch: 90, multiprocessors: 132, shared: 227 << 10, tf32: false, library: true, wgmma: true };
}

/// What a kernel leaves in its device's fault record, zeros if nothing: 32 bytes.
///
/// Kernels call `ein_fault(fault, row, code, value, limit)`; of several reports one stays, of the lowest row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Fault {
    /// 1 + the row of the task graph.
    pub row: u64,
    /// What: see [`FaultCode`].
    pub code: i64,
    /// The value that is wrong.
    pub value: i64,
    /// What it is to be less than.
    pub limit: i64,
}

/// What a kernel can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub enum FaultCode {
    /// An id names no row of its table.
    Id = 1,
    /// An integer was divided by 0.
    Division = 2,
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<<<{:?}, {:?}, {}>>>", self.kernel.name, self.grid, self.block, self.shared)
    }
}
