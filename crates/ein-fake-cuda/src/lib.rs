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
//! from block to block, so that a missing barrier shows.

pub mod shim;
