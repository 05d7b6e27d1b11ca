//! Capture of streams.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::put;
use super::stream_ffi::find;
use crate::graph::{Capture, Graph};
use crate::stubs_ffi::{Symbol, symbols};
use crate::world::{
    CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, ILLEGAL_STATE, WRONG_THREAD,
    own_stream, with,
};
use std::collections::BTreeSet;

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![cuStreamBeginCapture_v2, cuStreamEndCapture, cuStreamIsCapturing, cuStreamGetCaptureInfo_v3]
}

extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: u32) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        let id = w.handle() as u64;
        let own = own_stream(w.streams[&handle].gpu);
        let stream = w.streams.get_mut(&handle).expect("found");
        if handle == own {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if stream.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        stream.capture = Some(id);
        stream.captured.clear();
        let thread = std::thread::current().id();
        let streams = BTreeSet::from([handle]);
        w.captures
            .insert(id, Capture { graph: Graph::default(), origin: handle, streams, mode, thread, invalid: false });
        Ok(())
    })
}

extern "C" fn cuStreamEndCapture(stream: usize, out: *mut usize) -> u32 {
    with(|w| {
        put(out, 0)?;
        let handle = find(w, stream)?;
        let id = w.streams[&handle].capture.ok_or(ILLEGAL_STATE)?;
        let capture = &w.captures[&id];
        if capture.origin != handle {
            return Err(CAPTURE_UNMATCHED);
        }
        if capture.mode != 2 && capture.thread != std::thread::current().id() {
            return Err(WRONG_THREAD);
        }
        let capture = w.captures.remove(&id).expect("just seen");
        let end = w.streams[&handle].captured.clone();
        let mut open = Vec::new();
        for &joined in &capture.streams {
            let Some(stream) = w.streams.get_mut(&joined) else { continue };
            if !capture.graph.reaches_all(&end, &stream.captured) {
                open.push(joined);
            }
            stream.capture = None;
            stream.captured.clear();
        }
        if capture.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        if let Some(open) = open.first() {
            w.tell(format!("stream {open:#x} captures, and the stream where capture began does not come after it"));
            return Err(CAPTURE_UNJOINED);
        }
        let handle = w.handle();
        w.graphs.insert(handle, capture.graph);
        put(out, handle)
    })
}

extern "C" fn cuStreamIsCapturing(stream: usize, out: *mut u32) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        let capture = w.streams[&handle].capture.and_then(|c| w.captures.get(&c));
        put(out, capture.map_or(0, |c| if c.invalid { 2 } else { 1 }))
    })
}

extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: usize,
    status: *mut u32,
    id: *mut u64,
    _graph: *mut usize,
    _nodes: *mut usize,
    _edges: *mut usize,
    _count: *mut usize,
) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        let found = w.streams[&handle].capture;
        let capture = found.and_then(|c| w.captures.get(&c));
        put(status, capture.map_or(0, |c| if c.invalid { 2 } else { 1 }))?;
        if !id.is_null() {
            put(id, found.unwrap_or(0))?;
        }
        Ok(())
    })
}
