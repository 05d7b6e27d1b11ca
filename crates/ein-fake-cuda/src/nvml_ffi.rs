//! `libnvidia-ml.so.1`: GPUs of which every two that reach each other are joined by two NVLinks.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use crate::arena_ffi::GPUS;
use crate::machine::{FakeMachine, Side};
use crate::stubs_ffi::{Symbol, symbols};
use crate::world::world;
use std::ffi::{c_char, c_int};

pub(crate) fn symbols() -> Vec<Symbol> {
    symbols![
        nvmlInit_v2,
        nvmlShutdown,
        nvmlErrorString,
        nvmlSystemGetDriverVersion,
        nvmlDeviceGetCount_v2,
        nvmlDeviceGetHandleByIndex_v2,
        nvmlDeviceGetIndex,
        nvmlDeviceGetName,
        nvmlDeviceGetUUID,
        nvmlDeviceGetMemoryInfo,
        nvmlDeviceGetMemoryInfo_v2,
        nvmlDeviceGetPciInfo_v3,
        nvmlDeviceGetMaxPcieLinkWidth,
        nvmlDeviceGetCurrPcieLinkWidth,
        nvmlDeviceGetMaxPcieLinkGeneration,
        nvmlDeviceGetMigMode,
        nvmlDeviceGetCudaComputeCapability,
        nvmlDeviceGetNumGpuCores,
        nvmlDeviceGetMaxClockInfo,
        nvmlDeviceGetMemoryBusWidth,
        nvmlDeviceGetFieldValues,
        nvmlDeviceGetP2PStatus,
        nvmlDeviceGetTopologyCommonAncestor,
        nvmlDeviceGetNvLinkState,
        nvmlDeviceGetNvLinkVersion,
        nvmlDeviceGetNvLinkRemotePciInfo_v2
    ]
}

const UNINITIALIZED: u32 = 1;
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
/// The field of an NVLink's speed, and that speed in MB/s.
const SPEED: (u32, u32) = (90, 26_562);
/// NVLinks between two GPUs.
const LINKS: usize = 2;

type Done = Result<(), u32>;

#[repr(C)]
struct Memory2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
struct Pci {
    legacy: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    id: u32,
    subsystem: u32,
    text: [u8; 32],
}

#[repr(C)]
struct Field {
    id: u32,
    scope: u32,
    timestamp: i64,
    latency: i64,
    kind: u32,
    result: u32,
    value: u64,
}

fn handle(gpu: usize) -> usize {
    0x3000 + 16 * gpu
}

/// Asks the machine about one of its GPUs.
fn ask(device: usize, act: impl FnOnce(&FakeMachine, usize) -> Done) -> u32 {
    let world = world();
    let Some(world) = world.as_ref() else { return UNINITIALIZED };
    match (0..world.machine.gpus).find(|&g| handle(g) == device) {
        Some(gpu) => act(&world.machine, gpu).map_or_else(|c| c, |()| 0),
        None => INVALID_ARGUMENT,
    }
}

fn put<T>(place: *mut T, value: T) -> Done {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: a place for such a value.
    unsafe { place.write(value) };
    Ok(())
}

fn text(place: *mut c_char, room: u32, text: &str) -> Done {
    if place.is_null() || room as usize <= text.len() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: as many bytes as the caller says.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

extern "C" fn nvmlInit_v2() -> u32 {
    if world().is_some() { 0 } else { UNINITIALIZED }
}

extern "C" fn nvmlShutdown() -> u32 {
    0
}

extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    let text = match code {
        0 => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, room: u32) -> u32 {
    text(out, room, "580.00.00").map_or_else(|c| c, |()| 0)
}

extern "C" fn nvmlDeviceGetCount_v2(out: *mut u32) -> u32 {
    let count = world().as_ref().map(|w| w.machine.gpus as u32);
    count.ok_or(UNINITIALIZED).and_then(|c| put(out, c)).map_or_else(|c| c, |()| 0)
}

extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut usize) -> u32 {
    let device = handle((index as usize).min(GPUS));
    ask(device, |_, _| put(out, device))
}

extern "C" fn nvmlDeviceGetIndex(device: usize, out: *mut u32) -> u32 {
    ask(device, |_, gpu| put(out, gpu as u32))
}

extern "C" fn nvmlDeviceGetName(device: usize, out: *mut c_char, room: u32) -> u32 {
    ask(device, |_, _| text(out, room, "Fake GPU"))
}

extern "C" fn nvmlDeviceGetUUID(device: usize, out: *mut c_char, room: u32) -> u32 {
    ask(device, |_, gpu| text(out, room, &format!("GPU-66616b65-2d67-7075-2d6e-756d6265722{gpu:x}")))
}

extern "C" fn nvmlDeviceGetMemoryInfo(device: usize, out: *mut [u64; 3]) -> u32 {
    let used = used(device);
    ask(device, |m, _| put(out, [m.memory, m.memory.saturating_sub(used), used]))
}

extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: usize, out: *mut Memory2) -> u32 {
    let used = used(device);
    ask(device, |m, _| {
        // SAFETY: the structure of the call, with its version set.
        let version = unsafe { out.as_ref() }.ok_or(INVALID_ARGUMENT)?.version;
        put(out, Memory2 { version, total: m.memory, reserved: 0, free: m.memory.saturating_sub(used), used })
    })
}

fn used(device: usize) -> u64 {
    let gpu = (0..GPUS).find(|&g| handle(g) == device);
    gpu.and_then(|g| world().as_ref().map(|w| w.arena.used(Side::Gpu(g)))).unwrap_or(0)
}

fn pci(gpu: usize) -> Pci {
    let mut pci =
        Pci { legacy: [0; 16], domain: 0, bus: gpu as u32 + 1, device: 0, id: 0x10de, subsystem: 0, text: [0; 32] };
    let (short, long) = (format!("0000:{:02X}:00.0", gpu + 1), format!("00000000:{:02X}:00.0", gpu + 1));
    pci.legacy[..short.len()].copy_from_slice(short.as_bytes());
    pci.text[..long.len()].copy_from_slice(long.as_bytes());
    pci
}

extern "C" fn nvmlDeviceGetPciInfo_v3(device: usize, out: *mut Pci) -> u32 {
    ask(device, |_, gpu| put(out, pci(gpu)))
}

extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(device: usize, out: *mut u32) -> u32 {
    ask(device, |_, _| put(out, 16))
}

extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: usize, out: *mut u32) -> u32 {
    ask(device, |_, _| put(out, 16))
}

extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(device: usize, out: *mut u32) -> u32 {
    ask(device, |_, _| put(out, 5))
}

extern "C" fn nvmlDeviceGetMigMode(device: usize, _current: *mut u32, _pending: *mut u32) -> u32 {
    ask(device, |_, _| Err(NOT_SUPPORTED))
}

extern "C" fn nvmlDeviceGetCudaComputeCapability(device: usize, major: *mut c_int, minor: *mut c_int) -> u32 {
    ask(device, |m, _| {
        put(major, m.capability.0 as c_int)?;
        put(minor, m.capability.1 as c_int)
    })
}

extern "C" fn nvmlDeviceGetNumGpuCores(device: usize, out: *mut u32) -> u32 {
    ask(device, |m, _| put(out, 128 * m.multiprocessors))
}

extern "C" fn nvmlDeviceGetMaxClockInfo(device: usize, clock: u32, out: *mut u32) -> u32 {
    ask(device, |_, _| put(out, if clock == 2 { 3201 } else { 1980 }))
}

extern "C" fn nvmlDeviceGetMemoryBusWidth(device: usize, out: *mut u32) -> u32 {
    ask(device, |_, _| put(out, 6144))
}

extern "C" fn nvmlDeviceGetFieldValues(device: usize, count: c_int, fields: *mut Field) -> u32 {
    ask(device, |_, _| {
        for n in 0..count as usize {
            // SAFETY: as many structures as the caller says.
            let field = unsafe { &mut *fields.add(n) };
            let known = field.id == SPEED.0;
            field.kind = 1;
            field.result = if known { 0 } else { NOT_SUPPORTED };
            field.value = if known { SPEED.1.into() } else { 0 };
        }
        Ok(())
    })
}

extern "C" fn nvmlDeviceGetP2PStatus(device: usize, other: usize, _what: u32, out: *mut u32) -> u32 {
    ask(device, |m, gpu| {
        let peer = (0..m.gpus).find(|&g| handle(g) == other).ok_or(INVALID_ARGUMENT)?;
        put(out, if m.joined(gpu, peer) { 0 } else { 5 })
    })
}

extern "C" fn nvmlDeviceGetTopologyCommonAncestor(device: usize, _other: usize, out: *mut u32) -> u32 {
    ask(device, |_, _| put(out, 20))
}

/// The GPU at the other end of a link.
fn remote(m: &FakeMachine, gpu: usize, link: u32) -> Option<usize> {
    let peers = (0..m.gpus).filter(|&p| m.joined(gpu, p));
    peers.flat_map(|p| [p; LINKS]).nth(link as usize)
}

extern "C" fn nvmlDeviceGetNvLinkState(device: usize, link: u32, out: *mut u32) -> u32 {
    ask(device, |m, gpu| remote(m, gpu, link).ok_or(INVALID_ARGUMENT).and_then(|_| put(out, 1)))
}

extern "C" fn nvmlDeviceGetNvLinkVersion(device: usize, link: u32, out: *mut u32) -> u32 {
    ask(device, |m, gpu| remote(m, gpu, link).ok_or(INVALID_ARGUMENT).and_then(|_| put(out, 4)))
}

extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(device: usize, link: u32, out: *mut Pci) -> u32 {
    ask(device, |m, gpu| remote(m, gpu, link).ok_or(INVALID_ARGUMENT).and_then(|p| put(out, pci(p))))
}
