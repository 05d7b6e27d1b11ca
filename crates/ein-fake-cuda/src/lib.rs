//! ein-fake-cuda: GPUs that are not there, for tests.
//!
//! # The shim
//!
//! [`shim`] compiles CUDA C++ with the host's `g++` and runs it: the blocks of a grid one after the other, the threads of
//! a block in lock-step between barriers.
//!
//! ```no_run
//! use ein_fake_cuda::shim::{Argument, Memory, Module};
//!
//! let module = Module::compile(
//!     "extern \"C\" __global__ void add(unsigned char* a, int n, float v) {
//!        int i = blockIdx.x * blockDim.x + threadIdx.x;
//!        if (i < n) ((float*)a)[i] += v;
//!      }",
//! )?;
//! let memory = Memory::of(&[1.0f32, 2.0, 3.0]);
//! let args = [Argument::Pointer(memory.address()), Argument::I32(3), Argument::F32(0.5)];
//! module.launch("add", [1, 1, 1], [128, 1, 1], 0, &args)?;
//! assert_eq!(memory.read::<f32>()?, [1.5, 2.5, 3.5]);
//! # Ok::<(), String>(())
//! ```
//!
//! What kernels find is described in `src/shim/shim.h`. These are errors, each with a text that says where: a barrier that
//! not all threads of a block reach, lanes of a warp at different places, reads and writes outside any [`Memory`](shim::Memory),
//! a stack that overflows, writes behind the dynamic shared memory, asynchronous copies that nobody waits for.
//! Shared memory is NaN in every format when a block begins, and the order of the threads between two barriers differs
//! from block to block, so that a missing barrier shows. A kernel that does not end ends the process after ten minutes.

//!
//! # The driver
//!
//! [`install`] puts fakes in the place of `libcuda`, `libnvrtc`, `libcublasLt` and `libnvidia-ml`: whoever loads these by
//! name afterwards, in this process, gets them. No variable of the environment is set, and it does not matter what the
//! host has. In a test of what uses the driver (with this crate among the `[dev-dependencies]`):
//!
//! ```no_run
//! use ein_fake_cuda::{Check, FakeMachine, Fault, Side, install};
//!
//! // First of all: before the driver is asked for. Tests of one process that hold a `Fake` take turns; what keeps the
//! // driver's GPUs for a whole process has to see the same number of them each time.
//! let fake = install(&FakeMachine::new(4).check(Check::Races).seed(7))?;
//! // ... here the unchanged code runs on GPUs 0 to 3 ...
//! assert_eq!(fake.report(), None);
//!
//! // What one replay of a graph did.
//! fake.count_anew();
//! // ... replay ...
//! let counters = fake.counters();
//! assert_eq!((counters.allocations, counters.synchronizations), (0, 1));
//! let moved = counters.copied.get(&(Side::Gpu(0), Side::Gpu(1))).copied().unwrap_or(0)   // by copies
//!     + counters.reached.get(&(Side::Gpu(0), Side::Gpu(1))).copied().unwrap_or(0);       // by kernels that reach over
//! # let _ = moved;
//!
//! // What fails, once each; afterwards all is well again.
//! fake.fail(Fault::Alloc(0));
//! fake.fail(Fault::Lost { gpu: 2, after: 10 });
//! // ... expect the error ...
//! fake.heal();
//! # Ok::<(), String>(())
//! ```
//!
//! * Work is queued, and happens when the host waits: each time something is picked that nothing has to come before any
//!   more, by a random number from the machine's seed. Streams, events and edges of graphs order; nothing else does.
//! * With [`Check::Races`] kernels tell of every byte that they touch. Two things that touch the same byte, one of them
//!   writing, are an error unless something orders them, in whatever order they happened to run. Everything that the host
//!   waited for is before what it gives afterwards. Blocks of one launch are ordered by nothing: that one of them reads or
//!   writes what another writes is an error, too, unless by atomics, or after one.
//! * With [`Check::Bounds`] or more, so is everything outside an allocation (what is freed cannot be touched any more, and
//!   behind the end of an allocation, rounded up to 256 bytes, comes a page that cannot either), and memory of another GPU
//!   without access to it.
//! * Times between events are simulated, by the machine's [`Speeds`]: equal runs take equal seconds, whatever the host does.
//! * New memory is filled with ones: NaN in every format.
//! * An error of a kernel or a check fails its whole graph, and all that comes after it, and stays with its GPU, as with
//!   the real driver; the text is in [`last_report`], and is printed when a test panics that holds a [`Fake`].
//! * What a real driver or library refuses, such as more shared memory than the architecture has, is refused here, and the
//!   report names the rule.
//! * The fake compiler says that it is NVRTC 13.99, which there is not, so that caches of compiled kernels do not mix. Its
//!   "cubin" holds the text. Set `EIN_CACHE_DIR` all the same if a cache of the user's is not to grow.

mod arena_ffi;
mod clock;
mod cublaslt_ffi;
mod driver;
mod fake;
mod graph;
mod happen;
mod limits;
mod machine;
mod matmul;
mod nvml_ffi;
mod nvrtc_ffi;
mod races;
mod schedule;
pub mod shim;
mod stubs_ffi;
mod tensor_map;
mod work;
mod world;

pub use fake::{Fake, install, last_report};
pub use machine::{Check, Counters, FakeMachine, Fault, Side, Speeds, Traffic};
pub use tensor_map::TensorMap;
