//! What real GPUs, their driver and its library of products do not take, as rules that say what was asked for.

use crate::shim::{STATIC, THREADS};
use std::ops::RangeInclusive;

/// Bytes of all parameters of a kernel. From CUDA 12.1 on it is 32,764 on newer GPUs; what keeps to this runs everywhere.
const PARAMETERS: u32 = 4096;
/// `CU_DEVICE_ATTRIBUTE_MAX_PITCH`.
pub(crate) const PITCH: u64 = (1 << 31) - 1;
/// Blocks along y and z of a grid.
const BLOCKS: u32 = 65_535;
/// Threads along z of a block.
const DEEP: u32 = 64;
/// What the library's workspace begins at a multiple of, and vectors that it adds.
const WORKSPACE_ALIGNMENT: u64 = 256;
const VECTOR_ALIGNMENT: u64 = 16;

/// Bytes of shared memory that a block may ask for, by compute capability.
pub(crate) fn shared(capability: (u32, u32)) -> u32 {
    let kib = match capability {
        (8, 0 | 7) => 163,
        (8 | 12, _) => 99,
        (7, 5) => 64,
        (7, _) => 96,
        _ => 227,
    };
    kib << 10
}

/// That bytes of shared memory may be set for a kernel that has some of its own.
pub(crate) fn opt_in(capability: (u32, u32), own: u32, asked: i32) -> Result<u32, String> {
    let most = shared(capability);
    let fits = u32::try_from(asked).ok().filter(|asked| asked.checked_add(own).is_some_and(|all| all <= most));
    fits.ok_or_else(|| {
        let (major, minor) = capability;
        format!(
            "{asked} bytes of dynamic shared memory and {own} of its own: a block has at most {most} with compute \
             capability {major}.{minor}"
        )
    })
}

/// That a kernel, with parameters of these sizes and some shared memory of its own, is launched so. `allowed` is what was set
/// for its dynamic shared memory.
pub(crate) fn launch(
    grid: [u32; 3],
    block: [u32; 3],
    own: u32,
    shared: u32,
    allowed: u32,
    parameters: &[u32],
) -> Result<(), String> {
    let threads = block.iter().map(|&b| u64::from(b)).product::<u64>();
    if threads == 0 || threads > u64::from(THREADS) || block[2] > DEEP {
        return Err(format!("a block of {block:?} threads: 1 to {THREADS} in all, and at most {DEEP} along z"));
    }
    let across: RangeInclusive<u32> = 1..=BLOCKS;
    if grid[0] == 0 || grid[0] > i32::MAX as u32 || !across.contains(&grid[1]) || !across.contains(&grid[2]) {
        return Err(format!("a grid of {grid:?} blocks: 1 to {} along x, and 1 to {BLOCKS} along y and z", i32::MAX));
    }
    if allowed == STATIC && shared + own > STATIC {
        return Err(format!(
            "{shared} bytes of dynamic shared memory and {own} of its own: a block has {STATIC} in all unless more is \
             asked for by cuFuncSetAttribute"
        ));
    }
    if shared > allowed {
        return Err(format!("{shared} bytes of dynamic shared memory: {allowed} were asked for by cuFuncSetAttribute"));
    }
    let bytes = parameters.iter().fold(0, |bytes: u32, &size| bytes.next_multiple_of(size.max(1)) + size);
    if bytes > PARAMETERS {
        return Err(format!("{bytes} bytes of parameters: at most {PARAMETERS}"));
    }
    Ok(())
}

/// That lines of `width` bytes, some bytes and lines into others, lie so: `pitch` bytes and `height` lines apart.
pub(crate) fn pitches(
    pitch: u64,
    height: u64,
    [x, y]: [u64; 2],
    [width, lines, layers]: [u64; 3],
) -> Result<(), String> {
    let lines_used = lines > 1 || layers > 1;
    if lines_used && pitch < x + width {
        return Err(format!("lines of {width} bytes, {x} bytes in, are {pitch} bytes apart: they overlap"));
    }
    if layers > 1 && height < y + lines {
        return Err(format!("layers of {lines} lines, {y} lines in, are {height} lines apart: they overlap"));
    }
    if pitch > PITCH {
        return Err(format!("lines {pitch} bytes apart: at most {PITCH} (CU_DEVICE_ATTRIBUTE_MAX_PITCH)"));
    }
    Ok(())
}

/// That lines of elements are set there.
pub(crate) fn set(at: u64, pitch: u64, element: u32, width: u64, height: u64) -> Result<(), String> {
    if ![1, 2, 4].contains(&element) {
        return Err(format!("elements of {element} bytes are set: 1, 2 or 4"));
    }
    if !at.is_multiple_of(element.into()) || height > 1 && !pitch.is_multiple_of(element.into()) {
        return Err(format!("elements of {element} bytes are set at {at:#x}, lines {pitch} bytes apart: not aligned"));
    }
    if height > 1 && pitch < width * u64::from(element) {
        return Err(format!("lines of {width} elements of {element} bytes are set {pitch} bytes apart: they overlap"));
    }
    if height > 1 && pitch > PITCH {
        return Err(format!("lines {pitch} bytes apart are set: at most {PITCH} (CU_DEVICE_ATTRIBUTE_MAX_PITCH)"));
    }
    Ok(())
}

/// That a product is given such a workspace, and such a vector that is added.
pub(crate) fn product(workspace: Option<u64>, bias: Option<u64>) -> Result<(), String> {
    if let Some(at) = workspace.filter(|at| !at.is_multiple_of(WORKSPACE_ALIGNMENT)) {
        return Err(format!("a workspace at {at:#x}: it begins at a multiple of {WORKSPACE_ALIGNMENT} bytes"));
    }
    if let Some(at) = bias.filter(|at| !at.is_multiple_of(VECTOR_ALIGNMENT)) {
        return Err(format!("a vector to be added at {at:#x}: it begins at a multiple of {VECTOR_ALIGNMENT} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the first is taken and the second refused, with a text that names the rule.
    fn check<T: std::fmt::Debug>(good: Result<T, String>, bad: Result<T, String>, rule: &str) {
        good.unwrap_or_else(|e| panic!("{e}"));
        let said = bad.expect_err("it is beyond a limit");
        assert!(said.contains(rule), "`{rule}` is not in: {said}");
    }

    #[test]
    fn launches_keep_to_limits() {
        let one = |grid, block| launch(grid, block, 0, 0, STATIC, &[]);
        check(one([1; 3], [1024, 1, 1]), one([1; 3], [1024, 2, 1]), "1024 in all");
        check(one([1; 3], [2, 2, 64]), one([1; 3], [1, 1, 65]), "64 along z");
        check(one([1; 3], [1; 3]), one([1; 3], [1, 0, 1]), "block");
        check(one([i32::MAX as u32, 65_535, 65_535], [1; 3]), one([1, 65_536, 1], [1; 3]), "65535 along y and z");
        check(one([1; 3], [1; 3]), one([1, 1, 0], [1; 3]), "grid");
        let memory = |own, shared, allowed| launch([1; 3], [1; 3], own, shared, allowed, &[]);
        check(memory(1024, 47 << 10, STATIC), memory(1025, 47 << 10, STATIC), "cuFuncSetAttribute");
        check(memory(1024, 100 << 10, 100 << 10), memory(0, (100 << 10) + 1, 100 << 10), "were asked for");
        let arguments = |sizes: &[u32]| launch([1; 3], [1; 3], 0, 0, STATIC, sizes);
        check(arguments(&[8; 512]), arguments(&[&[8; 511][..], &[4, 8]].concat()), "at most 4096");
    }

    #[test]
    fn shared_memory_is_that_of_the_architecture() {
        for (capability, kib) in [((8, 0), 163), ((8, 6), 99), ((8, 9), 99), ((9, 0), 227), ((10, 0), 227)] {
            let most = kib << 10;
            check(opt_in(capability, 1000, most - 1000), opt_in(capability, 1000, most - 999), "compute capability");
            assert!(opt_in(capability, 0, -1).is_err());
        }
    }

    #[test]
    fn copies_and_sets_keep_to_limits() {
        check(pitches(20, 3, [0, 0], [20, 3, 2]), pitches(19, 3, [0, 0], [20, 3, 1]), "overlap");
        check(pitches(20, 4, [0, 1], [20, 3, 2]), pitches(20, 3, [0, 1], [20, 3, 2]), "overlap");
        check(pitches(PITCH, 1, [0, 0], [8, 2, 1]), pitches(PITCH + 1, 1, [0, 0], [8, 2, 1]), "MAX_PITCH");
        // What is never used may be anything that a pitch may be.
        assert!(pitches(0, 0, [4, 0], [8, 1, 1]).is_ok());
        check(set(4, 0, 4, 9, 1), set(6, 0, 4, 9, 1), "aligned");
        check(set(4, 36, 4, 9, 2), set(4, 32, 4, 9, 2), "overlap");
        check(set(4, 36, 2, 9, 2), set(4, 36, 3, 9, 2), "1, 2 or 4");
    }

    #[test]
    fn products_keep_to_limits() {
        check(product(Some(512), None), product(Some(128), None), "multiple of 256");
        check(product(None, Some(32)), product(None, Some(36)), "multiple of 16");
    }
}
