//! Streams and what is given to them.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::{bound, current, put};
use crate::graph::What;
use crate::machine::Fault;
use crate::schedule::Plan;
use crate::stubs_ffi::{Symbol, symbols};
use crate::work::{Node, Work};
use crate::world::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, Done, INVALID_HANDLE, INVALID_VALUE, NOT_READY,
    OUT_OF_MEMORY, Stream, World, context_of, own_stream, with,
};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A function of the host that a stream calls with the pointer that it was given.
pub(crate) type HostCall = unsafe extern "C" fn(*mut c_void);

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![
        cuStreamCreate,
        cuStreamCreateWithPriority,
        cuStreamDestroy_v2,
        cuStreamSynchronize,
        cuStreamQuery,
        cuStreamGetCtx,
        cuStreamGetFlags,
        cuStreamGetPriority,
        cuLaunchHostFunc
    ]
}

/// The stream of a handle; 0 and 1 are the GPU's own, 2 the thread's.
pub(crate) fn find(world: &World, stream: usize) -> Done<usize> {
    let handle = if stream <= 2 { own_stream(current(world)?) } else { stream };
    let found = world.streams.get(&handle).ok_or(INVALID_HANDLE)?;
    world.alive(found.gpu)?;
    Ok(handle)
}

/// Gives work to a stream: to be done, or to be captured.
pub(crate) fn give(world: &mut World, stream: usize, node: Node) -> Done<()> {
    let handle = find(world, stream)?;
    let what = Arc::new(node);
    if world.streams[&handle].capture.is_some() {
        return capture(world, handle, What::Node(what));
    }
    world.counters.calls += 1;
    let plan = Plan::new(vec![what], vec![Vec::new()]).expect("one node");
    give_plan(world, handle, Arc::new(plan), &[]).map(drop)
}

/// Adds a node to what a stream captures.
pub(super) fn capture(world: &mut World, handle: usize, what: What) -> Done<()> {
    let stream = world.streams.get_mut(&handle).ok_or(INVALID_HANDLE)?;
    let capture = stream.capture.and_then(|c| world.captures.get_mut(&c)).ok_or(CAPTURE_INVALIDATED)?;
    if capture.invalid {
        return Err(CAPTURE_INVALIDATED);
    }
    stream.captured = vec![capture.graph.add(what, &stream.captured)];
    Ok(())
}

/// Gives a plan to a stream, after `more` too.
pub(super) fn give_plan(world: &mut World, handle: usize, plan: Arc<Plan>, more: &[u64]) -> Done<u64> {
    let stream = &world.streams[&handle];
    let (gpu, blocking, own) = (stream.gpu, stream.blocking, own_stream(stream.gpu));
    let mut after = stream.after.clone();
    after.extend_from_slice(more);
    if handle == own {
        // A GPU's own stream comes after all of its streams that are not declared apart from it.
        let others = world.streams.values().filter(|s| s.gpu == gpu && s.blocking);
        for other in others {
            if other.capture.is_some() {
                return Err(CAPTURE_IMPLICIT);
            }
            after.extend(&other.after);
        }
    } else if blocking {
        after.extend(&world.streams[&own].after);
    }
    let batch = world.schedule.give(plan, &after);
    world.streams.get_mut(&handle).expect("found above").after = vec![batch];
    Ok(batch)
}

/// Waits for what was given to a stream.
pub(super) fn wait_for_stream(world: &mut World, handle: usize) -> Done<()> {
    world.counters.synchronizations += 1;
    let stream = &world.streams[&handle];
    let gpu = stream.gpu;
    let mut after = stream.after.clone();
    if handle == own_stream(gpu) {
        after.extend(world.streams.values().filter(|s| s.gpu == gpu && s.blocking).flat_map(|s| &s.after));
    }
    world.wait(&after)?;
    world.alive(gpu)
}

/// Waits for all that was given to a GPU.
pub(super) fn wait_for_gpu(world: &mut World, gpu: usize) -> Done<()> {
    world.counters.synchronizations += 1;
    let after: Vec<u64> = world.streams.values().filter(|s| s.gpu == gpu).flat_map(|s| s.after.clone()).collect();
    world.wait(&after)?;
    world.alive(gpu)
}

/// What would wait for, or allocate, while somebody captures is not permitted, and spoils the capture.
pub(super) fn no_capture(world: &mut World) -> Done<()> {
    let me = std::thread::current().id();
    let mut found = Ok(());
    for capture in world.captures.values_mut() {
        if capture.mode == 0 || capture.mode == 1 && capture.thread == me {
            capture.invalid = true;
            found = Err(CAPTURE_UNSUPPORTED);
        }
    }
    found
}

/// Calls a function of the host.
pub(crate) fn call(f: HostCall, data: usize) {
    // SAFETY: the caller of the driver gave the function with this argument. It may not call the driver.
    unsafe { f(data as *mut c_void) }
}

extern "C" fn cuStreamCreate(out: *mut usize, flags: u32) -> u32 {
    cuStreamCreateWithPriority(out, flags, 0)
}

extern "C" fn cuStreamCreateWithPriority(out: *mut usize, flags: u32, _priority: c_int) -> u32 {
    with(|w| {
        let gpu = current(w)?;
        if w.strikes(|f| if let Fault::Stream(left) = f { Some(left) } else { None }) {
            return Err(OUT_OF_MEMORY);
        }
        let handle = w.handle();
        let blocking = flags & 1 == 0;
        w.streams.insert(handle, Stream { gpu, blocking, after: Vec::new(), capture: None, captured: Vec::new() });
        put(out, handle)
    })
}

extern "C" fn cuStreamDestroy_v2(stream: usize) -> u32 {
    with(|w| {
        // What was given to it still happens.
        if stream < 0x10000 {
            return Err(INVALID_HANDLE);
        }
        w.streams.remove(&stream).map(drop).ok_or(INVALID_HANDLE)
    })
}

extern "C" fn cuStreamSynchronize(stream: usize) -> u32 {
    with(|w| {
        bound(w, "cuStreamSynchronize")?;
        let handle = find(w, stream)?;
        if let Some(id) = w.streams[&handle].capture {
            w.captures.entry(id).and_modify(|c| c.invalid = true);
            return Err(CAPTURE_UNSUPPORTED);
        }
        wait_for_stream(w, handle)
    })
}

extern "C" fn cuStreamQuery(stream: usize) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        if w.streams[&handle].capture.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let after = w.streams[&handle].after.clone();
        if !w.schedule.done(&after) {
            return Err(NOT_READY);
        }
        w.wait(&after)
    })
}

extern "C" fn cuStreamGetCtx(stream: usize, out: *mut usize) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        put(out, context_of(w.streams[&handle].gpu))
    })
}

extern "C" fn cuStreamGetFlags(stream: usize, out: *mut u32) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        put(out, u32::from(!w.streams[&handle].blocking))
    })
}

extern "C" fn cuStreamGetPriority(stream: usize, out: *mut c_int) -> u32 {
    with(|w| find(w, stream).and_then(|_| put(out, 0)))
}

extern "C" fn cuLaunchHostFunc(stream: usize, f: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) -> u32 {
    with(|w| {
        let gpu = w.streams[&find(w, stream)?].gpu;
        let f = f.ok_or(INVALID_VALUE)?;
        give(w, stream, Node { gpu, work: Work::Call(f, data as usize) })
    })
}
