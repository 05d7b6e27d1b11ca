//! CUDA C++ on the host.

pub(crate) mod compile;
pub(crate) mod library_ffi;
mod memory_ffi;
mod prepared;
mod scan;
pub(crate) mod shadow;
mod watch;

pub use compile::Instrument;
pub use memory_ffi::{Memory, MemoryError};
pub use prepared::prepare;

use library_ffi::{Kernel, Library};
use std::path::Path;
use std::sync::Arc;

/// The header that stands before every module's text.
pub const HEADER: &str = concat!(include_str!("shim.h"), include_str!("math.h"));

/// The most bytes of shared memory that a block may have, static and dynamic.
pub const SHARED: u32 = 227 << 10;

/// The most bytes of static shared memory that a kernel may have.
pub const STATIC: u32 = 48 << 10;

/// The most threads of a block.
pub const THREADS: u32 = 1024;

/// A compiled text.
#[derive(Debug)]
pub struct Module {
    /// One, unless its kernels were compiled before, with others.
    libraries: Vec<Arc<Library>>,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// A pointer of any type.
    Pointer(u64),
    /// `long long`.
    I64(i64),
    /// `unsigned long long`.
    U64(u64),
    /// `int`.
    I32(i32),
    /// `unsigned`.
    U32(u32),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
    /// A tensor's description, as [`TensorMap::encode`](crate::TensorMap::encode) gives it.
    Map([u64; 16]),
}

impl Argument {
    /// Its bytes, as in a parameter's place.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Pointer(v) | Self::U64(v) => v.to_ne_bytes().to_vec(),
            Self::I64(v) => v.to_ne_bytes().to_vec(),
            Self::F64(v) => v.to_ne_bytes().to_vec(),
            Self::I32(v) => v.to_ne_bytes().to_vec(),
            Self::U32(v) => v.to_ne_bytes().to_vec(),
            Self::F32(v) => v.to_ne_bytes().to_vec(),
            Self::Map(v) => v.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        }
    }
}

impl Module {
    /// Compiles a text of CUDA C++; the same text is compiled once, also by several processes at a time.
    ///
    /// # Errors
    ///
    /// What `g++` says of the text, with the text's own line numbers; or that there is no `g++`.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::open(&compile::module(source, Instrument::Nothing)?)
    }

    /// Compiles a text whose kernels tell of every access to memory, or not.
    pub fn instrumented(source: &str, instrument: Instrument) -> Result<Self, String> {
        match prepared::find(source, instrument) {
            Some(libraries) => Ok(Self { libraries }),
            None => Self::open(&compile::module(source, instrument)?),
        }
    }

    /// Opens what was compiled to a file.
    pub fn open(path: &Path) -> Result<Self, String> {
        compile::runtime()?;
        Ok(Self { libraries: vec![Arc::new(Library::open(path, false)?)] })
    }

    fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.libraries.iter().find_map(|library| library.kernel(name))
    }

    /// Whether it has such a kernel.
    pub fn has(&self, kernel: &str) -> bool {
        self.kernel(kernel).is_some()
    }

    /// Bytes of static shared memory of a kernel.
    pub fn shared(&self, kernel: &str) -> Option<u32> {
        Some(self.kernel(kernel)?.shared())
    }

    /// Bytes of each parameter of a kernel.
    pub fn parameters(&self, kernel: &str) -> Option<Vec<u32>> {
        Some(self.kernel(kernel)?.parameters())
    }

    /// Runs a kernel: `shared` bytes of dynamic shared memory for each block.
    ///
    /// # Errors
    ///
    /// No such kernel, other parameters, a grid or block that no GPU takes, or what a thread did wrong.
    pub fn launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Argument],
    ) -> Result<(), String> {
        let found = self.kernel(kernel).ok_or_else(|| format!("there is no kernel {kernel}"))?;
        let values: Vec<Vec<u8>> = args.iter().map(Argument::bytes).collect();
        let given: Vec<u32> = values.iter().map(|v| v.len() as u32).collect();
        if given != found.parameters() {
            return Err(format!(
                "{kernel}: the arguments have {given:?} bytes, the parameters {:?}",
                found.parameters()
            ));
        }
        launch(kernel, found, grid, block, shared, &values, 0)
    }

    /// As [`Module::launch`], with the arguments' bytes, as many as the parameters have, and the seed of the threads'
    /// order.
    pub fn launch_bytes(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Vec<u8>],
        seed: u64,
    ) -> Result<(), String> {
        let found = self.kernel(kernel).ok_or_else(|| format!("there is no kernel {kernel}"))?;
        launch(kernel, found, grid, block, shared, args, seed)
    }
}

fn launch(
    name: &str,
    kernel: &Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    args: &[Vec<u8>],
    seed: u64,
) -> Result<(), String> {
    let wrong = |what: String| Err(format!("{name}: {what}"));
    let threads = block.iter().map(|&b| u64::from(b)).product::<u64>();
    if threads == 0 || threads > u64::from(THREADS) || block[2] > 64 {
        return wrong(format!("a block of {block:?} threads"));
    }
    if grid.contains(&0) || grid[0] > i32::MAX as u32 || grid[1] > 65535 || grid[2] > 65535 {
        return wrong(format!("a grid of {grid:?} blocks"));
    }
    if kernel.shared() > STATIC {
        return wrong(format!("{} bytes of static shared memory", kernel.shared()));
    }
    if kernel.shared() + shared > SHARED {
        return wrong(format!("{} bytes of static and {shared} of dynamic shared memory", kernel.shared()));
    }
    compile::runtime()?.run(name, kernel, grid, block, shared, args, seed).or_else(wrong)
}
