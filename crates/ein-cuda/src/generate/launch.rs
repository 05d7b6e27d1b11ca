//! Grids.

use crate::program::{Arg, Kernel, Launch, Step};
use ein_run::Cause;
use std::sync::Arc;

/// Threads of a block where nothing else decides.
pub(crate) const THREADS: u32 = 256;

/// A kernel on a row of blocks.
pub(crate) fn launch(kernel: Arc<Kernel>, blocks: u64, threads: u32, args: Vec<Arg>) -> Result<Step, Cause> {
    launch_2d(kernel, [blocks, 1], threads, args)
}

/// A kernel on `blocks[0]` by `blocks[1]` blocks. The second may be 65535 at most.
pub(crate) fn launch_2d(kernel: Arc<Kernel>, blocks: [u64; 2], threads: u32, args: Vec<Arg>) -> Result<Step, Cause> {
    let fits = blocks[0] < 1 << 31 && blocks[1] < 1 << 16 && !blocks.contains(&0);
    if !fits {
        return Err(Cause::malformed(format!("`{}` would be launched with {blocks:?} blocks", kernel.name)));
    }
    let grid = [blocks[0] as u32, blocks[1] as u32, 1];
    Ok(Step::Launch(Launch { kernel, grid, block: [threads, 1, 1], shared: 0, args }))
}

/// Blocks so that each of `threads` threads does at most `each` of `points`, but no more blocks than fill the device
/// `rounds` times over: kernels walk on by the whole grid.
pub(crate) fn blocks(points: u64, threads: u32, most: u64) -> u64 {
    points.div_ceil(u64::from(threads)).clamp(1, most.max(1))
}
