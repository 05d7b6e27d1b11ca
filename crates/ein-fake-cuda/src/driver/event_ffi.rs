//! Events.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::{current, put};
use super::stream_ffi::find;
use crate::stubs_ffi::{Symbol, symbols};
use crate::world::{
    CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURED_EVENT, Event, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, with,
};

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![
        cuEventCreate,
        cuEventDestroy_v2,
        cuEventRecord,
        cuEventRecordWithFlags,
        cuEventSynchronize,
        cuEventQuery,
        cuEventElapsedTime,
        cuEventElapsedTime_v2,
        cuStreamWaitEvent
    ]
}

extern "C" fn cuEventCreate(out: *mut usize, flags: u32) -> u32 {
    with(|w| {
        let gpu = current(w)?;
        let handle = w.handle();
        w.events.insert(handle, Event { gpu, timing: flags & 2 == 0, ..Event::default() });
        put(out, handle)
    })
}

extern "C" fn cuEventDestroy_v2(event: usize) -> u32 {
    with(|w| w.events.remove(&event).map(drop).ok_or(INVALID_HANDLE))
}

extern "C" fn cuEventRecord(event: usize, stream: usize) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        let stream = &w.streams[&handle];
        let since = w.schedule.now();
        let event = w.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
        if event.gpu != stream.gpu {
            return Err(INVALID_CONTEXT);
        }
        event.recorded = true;
        event.since = since;
        if let Some(id) = stream.capture {
            event.captured = Some((id, stream.captured.clone()));
        } else {
            event.captured = None;
            event.after.clone_from(&stream.after);
        }
        Ok(())
    })
}

extern "C" fn cuEventRecordWithFlags(event: usize, stream: usize, _flags: u32) -> u32 {
    cuEventRecord(event, stream)
}

extern "C" fn cuEventSynchronize(event: usize) -> u32 {
    with(|w| {
        let event = w.events.get(&event).ok_or(INVALID_HANDLE)?;
        if event.captured.is_some() {
            return Err(CAPTURED_EVENT);
        }
        let (gpu, after) = (event.gpu, event.after.clone());
        w.counters.synchronizations += 1;
        w.wait(&after)?;
        w.alive(gpu)
    })
}

extern "C" fn cuEventQuery(event: usize) -> u32 {
    with(|w| {
        let event = w.events.get(&event).ok_or(INVALID_HANDLE)?;
        if event.captured.is_some() {
            return Err(CAPTURED_EVENT);
        }
        let after = event.after.clone();
        if w.schedule.done(&after) { w.wait(&after) } else { Err(NOT_READY) }
    })
}

extern "C" fn cuEventElapsedTime(out: *mut f32, begin: usize, end: usize) -> u32 {
    cuEventElapsedTime_v2(out, begin, end)
}

/// Simulated milliseconds.
extern "C" fn cuEventElapsedTime_v2(out: *mut f32, begin: usize, end: usize) -> u32 {
    with(|w| {
        let (a, b) = (w.events.get(&begin).ok_or(INVALID_HANDLE)?, w.events.get(&end).ok_or(INVALID_HANDLE)?);
        if !a.timing || !b.timing || !a.recorded || !b.recorded {
            return Err(INVALID_HANDLE);
        }
        if a.captured.is_some() || b.captured.is_some() {
            return Err(CAPTURED_EVENT);
        }
        if !w.schedule.done(&a.after) || !w.schedule.done(&b.after) {
            return Err(NOT_READY);
        }
        let at = |e: &Event| w.schedule.over(&e.after).max(e.since);
        put(out, ((at(b) - at(a)) * 1e3) as f32)
    })
}

extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _flags: u32) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        let event = w.events.get(&event).ok_or(INVALID_HANDLE)?;
        let stream = w.streams.get_mut(&handle).ok_or(INVALID_HANDLE)?;
        match (&event.captured, stream.capture) {
            (Some((id, nodes)), of) => {
                // A stream joins a capture by waiting for what was captured.
                let capture = w.captures.get_mut(id).filter(|c| !c.invalid).ok_or(CAPTURE_INVALIDATED)?;
                if of.is_some_and(|own| own != *id) {
                    capture.invalid = true;
                    return Err(CAPTURE_ISOLATION);
                }
                stream.capture = Some(*id);
                capture.streams.insert(handle);
                stream.captured.extend(nodes);
            }
            (None, Some(id)) => {
                if event.recorded {
                    w.captures.entry(id).and_modify(|c| c.invalid = true);
                    return Err(CAPTURE_ISOLATION);
                }
            }
            (None, None) => stream.after.extend(&event.after),
        }
        Ok(())
    })
}
