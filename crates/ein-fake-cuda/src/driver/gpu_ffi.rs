//! GPUs, contexts, access of one to another.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use crate::arena_ffi::GPUS;
use crate::limits;
use crate::machine::Side;
use crate::stubs_ffi::{Symbol, symbols};
use crate::world::{
    Done, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, NOT_INITIALIZED, PEER_ALREADY, PEER_NOT_ENABLED,
    PEER_UNSUPPORTED, World, context_of, with,
};
use std::cell::Cell;
use std::ffi::{c_char, c_int};

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![
        cuInit,
        cuDriverGetVersion,
        cuDeviceGet,
        cuDeviceGetCount,
        cuDeviceGetName,
        cuDeviceGetAttribute,
        cuDeviceTotalMem_v2,
        cuDeviceGetUuid,
        cuDeviceGetUuid_v2,
        cuDeviceGetPCIBusId,
        cuDevicePrimaryCtxRetain,
        cuDevicePrimaryCtxRelease_v2,
        cuDevicePrimaryCtxGetState,
        cuDevicePrimaryCtxSetFlags_v2,
        cuCtxSetCurrent,
        cuCtxGetCurrent,
        cuCtxPushCurrent_v2,
        cuCtxPopCurrent_v2,
        cuCtxGetDevice,
        cuCtxSynchronize,
        cuCtxGetStreamPriorityRange,
        cuCtxSetFlags,
        cuDeviceCanAccessPeer,
        cuDeviceGetP2PAttribute,
        cuCtxEnablePeerAccess,
        cuCtxDisablePeerAccess,
        cuMemGetInfo_v2
    ]
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The GPU of a context.
pub(super) fn gpu_of(context: usize) -> Done<usize> {
    (0..GPUS).find(|&g| context_of(g) == context).ok_or(INVALID_CONTEXT)
}

/// The GPU whose context is the thread's, if it is alive.
pub(crate) fn current(world: &World) -> Done<usize> {
    if !world.started {
        return Err(NOT_INITIALIZED);
    }
    let gpu = gpu_of(CURRENT.get())?;
    world.alive(gpu)?;
    Ok(gpu)
}

/// That the thread has a context, which a call needs although its arguments do not say so.
pub(super) fn bound(world: &mut World, call: &str) -> Done<()> {
    if CURRENT.get() != 0 {
        return Ok(());
    }
    world.tell(format!("{call} by a thread without a context"));
    Err(INVALID_CONTEXT)
}

pub(super) fn put<T>(place: *mut T, value: T) -> Done<()> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: a place for such a value.
    unsafe { place.write(value) };
    Ok(())
}

fn text(place: *mut c_char, room: c_int, text: &str) -> Done<()> {
    if place.is_null() || room <= 0 {
        return Err(INVALID_VALUE);
    }
    let count = text.len().min(room as usize - 1);
    // SAFETY: as many bytes as the caller says.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), count);
        place.add(count).write(0);
    }
    Ok(())
}

fn there(world: &World, gpu: c_int) -> Done<usize> {
    if !world.started {
        return Err(NOT_INITIALIZED);
    }
    usize::try_from(gpu).ok().filter(|&g| g < world.machine.gpus).ok_or(INVALID_DEVICE)
}

extern "C" fn cuInit(flags: u32) -> u32 {
    with(|w| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if w.machine.gpus == 0 {
            return Err(NO_DEVICE);
        }
        w.started = true;
        Ok(())
    })
}

extern "C" fn cuDriverGetVersion(out: *mut c_int) -> u32 {
    with(|w| put(out, w.machine.driver))
}

extern "C" fn cuDeviceGet(out: *mut c_int, n: c_int) -> u32 {
    with(|w| put(out, there(w, n)? as c_int))
}

extern "C" fn cuDeviceGetCount(out: *mut c_int) -> u32 {
    with(|w| if w.started { put(out, w.machine.gpus as c_int) } else { Err(NOT_INITIALIZED) })
}

extern "C" fn cuDeviceGetName(out: *mut c_char, room: c_int, gpu: c_int) -> u32 {
    with(|w| there(w, gpu).and_then(|_| text(out, room, "Fake GPU")))
}

extern "C" fn cuDeviceGetAttribute(out: *mut c_int, attribute: u32, gpu: c_int) -> u32 {
    with(|w| {
        let gpu = there(w, gpu)?;
        let value = match attribute {
            1..=3 | 111 => 1024,
            4 => 64,
            5 => i32::MAX as u32,
            6 | 7 => 65535,
            8 => 48 << 10,
            10 | 106 => 32,
            11 => limits::PITCH as u32,
            12 | 82 => 65536,
            13 | 36 => 1_000_000,
            16 => w.machine.multiprocessors,
            33 => gpu as u32 + 1,
            37 => 4096,
            38 => 32 << 20,
            39 => 2048,
            40 => 2,
            75 => w.machine.capability.0,
            76 => w.machine.capability.1,
            81 => 228 << 10,
            97 => limits::shared(w.machine.capability),
            31 | 41 | 91 | 95 => 1,
            _ => 0,
        };
        put(out, value as c_int)
    })
}

extern "C" fn cuDeviceTotalMem_v2(out: *mut usize, gpu: c_int) -> u32 {
    with(|w| there(w, gpu).and_then(|_| put(out, w.machine.memory as usize)))
}

extern "C" fn cuDeviceGetUuid(out: *mut [u8; 16], gpu: c_int) -> u32 {
    cuDeviceGetUuid_v2(out, gpu)
}

extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], gpu: c_int) -> u32 {
    with(|w| {
        let gpu = there(w, gpu)?;
        let mut id = *b"fake-gpu-number-";
        id[15] = gpu as u8;
        put(out, id)
    })
}

extern "C" fn cuDeviceGetPCIBusId(out: *mut c_char, room: c_int, gpu: c_int) -> u32 {
    with(|w| there(w, gpu).and_then(|gpu| text(out, room, &format!("0000:{:02x}:00.0", gpu + 1))))
}

extern "C" fn cuDevicePrimaryCtxRetain(out: *mut usize, gpu: c_int) -> u32 {
    with(|w| {
        let gpu = there(w, gpu)?;
        w.alive(gpu)?;
        put(out, context_of(gpu))
    })
}

extern "C" fn cuDevicePrimaryCtxRelease_v2(gpu: c_int) -> u32 {
    with(|w| there(w, gpu).map(drop))
}

extern "C" fn cuDevicePrimaryCtxGetState(gpu: c_int, flags: *mut u32, active: *mut c_int) -> u32 {
    with(|w| there(w, gpu).and_then(|_| put(flags, 0)).and_then(|()| put(active, 1)))
}

extern "C" fn cuDevicePrimaryCtxSetFlags_v2(gpu: c_int, _flags: u32) -> u32 {
    with(|w| there(w, gpu).map(drop))
}

extern "C" fn cuCtxSetCurrent(context: usize) -> u32 {
    with(|w| {
        if context != 0 && gpu_of(context)? >= w.machine.gpus {
            return Err(INVALID_CONTEXT);
        }
        CURRENT.set(context);
        Ok(())
    })
}

extern "C" fn cuCtxGetCurrent(out: *mut usize) -> u32 {
    with(|_| put(out, CURRENT.get()))
}

thread_local! {
    static STACK: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

extern "C" fn cuCtxPushCurrent_v2(context: usize) -> u32 {
    with(|_| {
        gpu_of(context)?;
        STACK.with_borrow_mut(|s| s.push(CURRENT.replace(context)));
        Ok(())
    })
}

extern "C" fn cuCtxPopCurrent_v2(out: *mut usize) -> u32 {
    with(|_| {
        let before = STACK.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)?;
        let context = CURRENT.replace(before);
        if out.is_null() { Ok(()) } else { put(out, context) }
    })
}

extern "C" fn cuCtxGetDevice(out: *mut c_int) -> u32 {
    with(|_| put(out, gpu_of(CURRENT.get())? as c_int))
}

extern "C" fn cuCtxSynchronize() -> u32 {
    with(|w| {
        let gpu = current(w)?;
        super::stream_ffi::no_capture(w)?;
        super::stream_ffi::wait_for_gpu(w, gpu)
    })
}

extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> u32 {
    with(|_| put(least, 0).and_then(|()| put(greatest, -5)))
}

extern "C" fn cuCtxSetFlags(_flags: u32) -> u32 {
    with(|w| current(w).map(drop))
}

extern "C" fn cuDeviceCanAccessPeer(out: *mut c_int, gpu: c_int, peer: c_int) -> u32 {
    with(|w| {
        let (gpu, peer) = (there(w, gpu)?, there(w, peer)?);
        put(out, c_int::from(w.machine.joined(gpu, peer)))
    })
}

extern "C" fn cuDeviceGetP2PAttribute(out: *mut c_int, attribute: u32, gpu: c_int, peer: c_int) -> u32 {
    with(|w| {
        let (gpu, peer) = (there(w, gpu)?, there(w, peer)?);
        if gpu == peer {
            return Err(INVALID_DEVICE);
        }
        put(out, c_int::from(attribute != 1 && w.machine.joined(gpu, peer)))
    })
}

extern "C" fn cuCtxEnablePeerAccess(peer: usize, flags: u32) -> u32 {
    with(|w| {
        let (gpu, peer) = (current(w)?, gpu_of(peer)?);
        if flags != 0 || gpu == peer {
            return Err(INVALID_DEVICE);
        }
        if !w.machine.joined(gpu, peer) {
            return Err(PEER_UNSUPPORTED);
        }
        if w.gpus[gpu].peers.insert(peer) { Ok(()) } else { Err(PEER_ALREADY) }
    })
}

extern "C" fn cuCtxDisablePeerAccess(peer: usize) -> u32 {
    with(|w| {
        let (gpu, peer) = (current(w)?, gpu_of(peer)?);
        if w.gpus[gpu].peers.remove(&peer) { Ok(()) } else { Err(PEER_NOT_ENABLED) }
    })
}

extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    with(|w| {
        let gpu = current(w)?;
        put(free, (w.machine.memory - w.arena.used(Side::Gpu(gpu)).min(w.machine.memory)) as usize)?;
        put(total, w.machine.memory as usize)
    })
}
