//! Memory: allocations, copies, sets.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::{current, gpu_of, put};
use super::stream_ffi::{find, give, no_capture, wait_for_gpu, wait_for_stream};
use crate::arena_ffi;
use crate::limits;
use crate::machine::{Fault, Side};
use crate::stubs_ffi::{Symbol, symbols};
use crate::work::{Copy, Lines, Node, Work};
use crate::world::{CAPTURE_UNSUPPORTED, Done, ILLEGAL_ADDRESS, INVALID_VALUE, OUT_OF_MEMORY, World, context_of, with};
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUmemorytype};
use std::ffi::{c_int, c_void};

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![
        cuMemAlloc_v2,
        cuMemFree_v2,
        cuMemAllocAsync,
        cuMemFreeAsync,
        cuMemAllocHost_v2,
        cuMemHostAlloc,
        cuMemFreeHost,
        cuMemHostGetDevicePointer_v2,
        cuPointerGetAttribute,
        cuMemcpy,
        cuMemcpyAsync,
        cuMemcpyHtoD_v2,
        cuMemcpyHtoDAsync_v2,
        cuMemcpyDtoH_v2,
        cuMemcpyDtoHAsync_v2,
        cuMemcpyDtoD_v2,
        cuMemcpyDtoDAsync_v2,
        cuMemcpyPeer,
        cuMemcpyPeerAsync,
        cuMemcpy2DAsync_v2,
        cuMemcpy3DAsync_v2,
        cuMemcpy3DPeerAsync,
        cuMemsetD8_v2,
        cuMemsetD8Async,
        cuMemsetD16Async,
        cuMemsetD32Async,
        cuMemsetD2D8Async
    ]
}

fn allocate(world: &mut World, side: Side, bytes: u64) -> Done<u64> {
    no_capture(world)?;
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    world.counters.allocations += 1;
    if world.strikes(|f| if let Fault::Alloc(left) = f { Some(left) } else { None }) {
        return Err(OUT_OF_MEMORY);
    }
    let full = matches!(side, Side::Gpu(_)) && world.arena.used(side) + bytes > world.machine.memory;
    let at = if full { None } else { world.arena.allocate(side, bytes) };
    let at = at.ok_or(OUT_OF_MEMORY)?;
    world.forget(&(at..at + bytes));
    Ok(at)
}

fn free(world: &mut World, at: u64) -> Done<()> {
    let Some(block) = world.arena.block(at).filter(|b| b.at == at).cloned() else {
        let text = world.arena.describe(at);
        world.tell(format!("what is freed is no allocation: {text}"));
        return Err(INVALID_VALUE);
    };
    // As the driver: what was given before is waited for. What comes of it is told whoever waits next.
    let all = world.schedule.all();
    let _ = world.wait(&all);
    world.arena.free(at);
    world.forget(&(block.at..block.at + block.bytes));
    Ok(())
}

extern "C" fn cuMemAlloc_v2(out: *mut u64, bytes: usize) -> u32 {
    with(|w| {
        let gpu = current(w)?;
        let at = allocate(w, Side::Gpu(gpu), bytes as u64)?;
        put(out, at)
    })
}

extern "C" fn cuMemFree_v2(at: u64) -> u32 {
    with(|w| if at == 0 { Ok(()) } else { free(w, at) })
}

extern "C" fn cuMemAllocAsync(out: *mut u64, bytes: usize, stream: usize) -> u32 {
    with(|w| {
        let gpu = w.streams[&find(w, stream)?].gpu;
        let at = allocate(w, Side::Gpu(gpu), bytes as u64)?;
        put(out, at)
    })
}

extern "C" fn cuMemFreeAsync(at: u64, stream: usize) -> u32 {
    with(|w| find(w, stream).and_then(|_| free(w, at)))
}

extern "C" fn cuMemAllocHost_v2(out: *mut usize, bytes: usize) -> u32 {
    cuMemHostAlloc(out, bytes, 0)
}

extern "C" fn cuMemHostAlloc(out: *mut usize, bytes: usize, _flags: u32) -> u32 {
    with(|w| {
        current(w)?;
        let at = allocate(w, Side::Host, bytes as u64)?;
        put(out, at as usize)
    })
}

extern "C" fn cuMemFreeHost(at: usize) -> u32 {
    with(|w| free(w, at as u64))
}

extern "C" fn cuMemHostGetDevicePointer_v2(out: *mut u64, at: usize, _flags: u32) -> u32 {
    with(|w| {
        let at = at as u64;
        w.arena.block(at).filter(|b| b.side == Side::Host).ok_or(INVALID_VALUE)?;
        put(out, at)
    })
}

extern "C" fn cuPointerGetAttribute(out: *mut c_void, attribute: u32, at: u64) -> u32 {
    with(|w| {
        let block = w.arena.block(at).ok_or(INVALID_VALUE)?;
        let gpu = if let Side::Gpu(gpu) = block.side { gpu } else { 0 };
        match attribute {
            1 => put(out.cast::<usize>(), context_of(gpu)),
            2 => put(out.cast::<u32>(), if block.side == Side::Host { 1 } else { 2 }),
            3 | 4 => put(out.cast::<u64>(), at),
            9 => put(out.cast::<c_int>(), gpu as c_int),
            11 => put(out.cast::<u64>(), block.at),
            12 => put(out.cast::<usize>(), block.bytes as usize),
            _ => Err(INVALID_VALUE),
        }
    })
}

/// Gives a copy to a stream. Memory of the host that the driver does not know is read, or written, during the call.
fn copy(world: &mut World, stream: usize, copy: Copy) -> Done<()> {
    if copy.bytes() == 0 {
        return Ok(());
    }
    let handle = find(world, stream)?;
    let gpu = world.streams[&handle].gpu;
    let captured = world.streams[&handle].capture.is_some();
    let known = |at| world.arena.has(at);
    if !known(copy.from.at) && !captured && copy.from.ranges(copy.size).len() == 1 {
        let bytes = arena_ffi::bytes(copy.from.at, copy.bytes());
        if copy.to.ranges(copy.size).len() == 1 {
            return give(world, stream, Node { gpu, work: Work::Given { bytes, to: copy.to.at } });
        }
    }
    let waits = (!known(copy.to.at) || !known(copy.from.at)) && !captured;
    give(world, stream, Node { gpu, work: Work::Copy(copy) })?;
    if waits { wait_for_stream(world, handle) } else { Ok(()) }
}

/// A copy on the GPU's own stream, waited for.
fn copy_now(from: u64, to: u64, bytes: usize) -> u32 {
    with(|w| {
        no_capture(w)?;
        copy(w, 0, Copy::flat(from, to, bytes as u64, false))?;
        let own = find(w, 0)?;
        wait_for_stream(w, own)
    })
}

fn copy_on(from: u64, to: u64, bytes: usize, stream: usize) -> u32 {
    with(|w| copy(w, stream, Copy::flat(from, to, bytes as u64, false)))
}

extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> u32 {
    copy_now(from, to, bytes)
}

extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) -> u32 {
    copy_on(from, to, bytes, stream)
}

extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> u32 {
    copy_now(from as u64, to, bytes)
}

extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize) -> u32 {
    copy_on(from as u64, to, bytes, stream)
}

extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32 {
    copy_now(from, to as u64, bytes)
}

extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: usize) -> u32 {
    copy_on(from, to as u64, bytes, stream)
}

extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    copy_now(from, to, bytes)
}

extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) -> u32 {
    copy_on(from, to, bytes, stream)
}

/// Whether the contexts that are named are those of the memory.
fn named(world: &mut World, at: u64, context: usize) -> Done<()> {
    let gpu = gpu_of(context)?;
    world.alive(gpu)?;
    if world.arena.side(at).is_some_and(|s| s != Side::Gpu(gpu) && s != Side::Host) {
        world.tell(format!("a copy says that {at:#x} is of GPU {gpu}; it is of {:?}", world.arena.side(at)));
        return Err(ILLEGAL_ADDRESS);
    }
    Ok(())
}

extern "C" fn cuMemcpyPeer(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize) -> u32 {
    with(|w| {
        no_capture(w)?;
        named(w, to, to_context)?;
        named(w, from, from_context)?;
        copy(w, 0, Copy::flat(from, to, bytes as u64, true))?;
        let gpu = current(w)?;
        wait_for_gpu(w, gpu)
    })
}

extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: usize,
    from: u64,
    from_context: usize,
    bytes: usize,
    stream: usize,
) -> u32 {
    with(|w| {
        named(w, to, to_context)?;
        named(w, from, from_context)?;
        copy(w, stream, Copy::flat(from, to, bytes as u64, true))
    })
}

/// Where an end of a copy of lines begins.
fn end(kind: CUmemorytype, host: *const c_void, device: u64) -> Done<u64> {
    match kind {
        CUmemorytype::CU_MEMORYTYPE_HOST => Ok(host as u64),
        CUmemorytype::CU_MEMORYTYPE_DEVICE | CUmemorytype::CU_MEMORYTYPE_UNIFIED => Ok(device),
        CUmemorytype::CU_MEMORYTYPE_ARRAY => Err(INVALID_VALUE),
    }
}

/// The lines that begin there: `x` bytes, `y` lines and `z` layers after it.
fn lines(
    world: &mut World,
    at: u64,
    [x, y, z]: [usize; 3],
    pitch: usize,
    height: usize,
    size: [u64; 3],
) -> Done<Lines> {
    let (pitch, height) = (pitch as u64, height as u64);
    // Distances that are never used may be 0; those that are must be as large as what lies between them.
    let pitch = if pitch == 0 { size[0] } else { pitch };
    let height = if height == 0 { size[1] } else { height };
    let used = size[1] > 1 || size[2] > 1;
    let kept = limits::pitches(if used { pitch } else { 0 }, height, [x as u64, y as u64], size);
    kept.map_err(|text| world.refuse("a copy", &text))?;
    Ok(Lines { at: at + x as u64 + (z as u64 * height + y as u64) * pitch, pitch, height })
}

/// What the structure for copies of layers says.
pub(super) fn layers(world: &mut World, c: &CUDA_MEMCPY3D) -> Done<Copy> {
    let size = [c.WidthInBytes as u64, c.Height as u64, c.Depth as u64];
    let from = end(c.srcMemoryType, c.srcHost, c.srcDevice)?;
    let to = end(c.dstMemoryType, c.dstHost, c.dstDevice)?;
    Ok(Copy {
        from: lines(world, from, [c.srcXInBytes, c.srcY, c.srcZ], c.srcPitch, c.srcHeight, size)?,
        to: lines(world, to, [c.dstXInBytes, c.dstY, c.dstZ], c.dstPitch, c.dstHeight, size)?,
        size,
        peer: false,
    })
}

extern "C" fn cuMemcpy2DAsync_v2(copy_of: *const CUDA_MEMCPY2D, stream: usize) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let c = unsafe { copy_of.as_ref() }.ok_or(INVALID_VALUE)?;
        let size = [c.WidthInBytes as u64, c.Height as u64, 1];
        let from = end(c.srcMemoryType, c.srcHost, c.srcDevice)?;
        let to = end(c.dstMemoryType, c.dstHost, c.dstDevice)?;
        let from = lines(w, from, [c.srcXInBytes, c.srcY, 0], c.srcPitch, 0, size)?;
        let to = lines(w, to, [c.dstXInBytes, c.dstY, 0], c.dstPitch, 0, size)?;
        copy(w, stream, Copy { from, to, size, peer: false })
    })
}

extern "C" fn cuMemcpy3DAsync_v2(copy_of: *const CUDA_MEMCPY3D, stream: usize) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let c = unsafe { copy_of.as_ref() }.ok_or(INVALID_VALUE)?;
        let layers = layers(w, c)?;
        copy(w, stream, layers)
    })
}

extern "C" fn cuMemcpy3DPeerAsync(copy_of: *const CUDA_MEMCPY3D_PEER, stream: usize) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let c = unsafe { copy_of.as_ref() }.ok_or(INVALID_VALUE)?;
        let size = [c.WidthInBytes as u64, c.Height as u64, c.Depth as u64];
        let from = end(c.srcMemoryType, c.srcHost, c.srcDevice)?;
        let to = end(c.dstMemoryType, c.dstHost, c.dstDevice)?;
        named(w, from, c.srcContext as usize)?;
        named(w, to, c.dstContext as usize)?;
        let from = lines(w, from, [c.srcXInBytes, c.srcY, c.srcZ], c.srcPitch, c.srcHeight, size)?;
        let to = lines(w, to, [c.dstXInBytes, c.dstY, c.dstZ], c.dstPitch, c.dstHeight, size)?;
        copy(w, stream, Copy { from, to, size, peer: true })
    })
}

fn set(at: u64, pitch: usize, value: u32, element: u32, [width, height]: [usize; 2], stream: usize) -> u32 {
    with(|w| {
        let gpu = w.streams[&find(w, stream)?].gpu;
        if width * height == 0 {
            return Ok(());
        }
        let (pitch, width, height) = (pitch as u64, width as u64, height as u64);
        limits::set(at, pitch, element, width, height).map_err(|text| w.refuse("a set", &text))?;
        give(w, stream, Node { gpu, work: Work::Set { at, pitch, value, element, width, height } })
    })
}

extern "C" fn cuMemsetD8_v2(at: u64, value: u8, count: usize) -> u32 {
    match set(at, count, value.into(), 1, [count, 1], 0) {
        0 => with(|w| {
            if w.streams[&find(w, 0)?].capture.is_some() {
                return Err(CAPTURE_UNSUPPORTED);
            }
            let own = find(w, 0)?;
            wait_for_stream(w, own)
        }),
        code => code,
    }
}

extern "C" fn cuMemsetD8Async(at: u64, value: u8, count: usize, stream: usize) -> u32 {
    set(at, count, value.into(), 1, [count, 1], stream)
}

extern "C" fn cuMemsetD16Async(at: u64, value: u16, count: usize, stream: usize) -> u32 {
    set(at, 2 * count, value.into(), 2, [count, 1], stream)
}

extern "C" fn cuMemsetD32Async(at: u64, value: u32, count: usize, stream: usize) -> u32 {
    set(at, 4 * count, value, 4, [count, 1], stream)
}

extern "C" fn cuMemsetD2D8Async(at: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize) -> u32 {
    set(at, pitch, value.into(), 1, [width, height], stream)
}
