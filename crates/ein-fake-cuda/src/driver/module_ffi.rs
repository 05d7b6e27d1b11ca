//! Modules, functions, launches.
//!
//! A "cubin" of the fake compiler is the text itself, so that it is compiled as the machine wants it when it is loaded.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::{current, put};
use super::stream_ffi::{find, give};
use crate::limits;
use crate::shim::{Module, STATIC, THREADS};
use crate::stubs_ffi::{Symbol, symbols};
use crate::work::{Kernel, Node, Work};
use crate::world::{
    Done, Function, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, Loaded, NOT_FOUND, World, with,
};
use cudarc::driver::sys::CUlaunchConfig;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![
        cuModuleLoadData,
        cuModuleLoadDataEx,
        cuModuleUnload,
        cuModuleGetFunction,
        cuFuncSetAttribute,
        cuFuncGetAttribute,
        cuFuncSetCacheConfig,
        cuLaunchKernel,
        cuLaunchKernelEx
    ]
}

/// What the image of a fake module begins with; then its length and the text.
const MAGIC: &[u8; 16] = b"\x7fEIN-FAKE-CUBIN\n";

/// The image of a text.
pub(crate) fn image(source: &str) -> Vec<u8> {
    [&MAGIC[..], &(source.len() as u64).to_le_bytes(), source.as_bytes()].concat()
}

extern "C" fn cuModuleLoadData(out: *mut usize, image: *const u8) -> u32 {
    with(|w| {
        let gpu = current(w)?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: an image has at least its first bytes; what no fake compiler made may be shorter than 16 bytes, but
        // then it differs, or ends, before that.
        let same = MAGIC.iter().enumerate().all(|(n, &b)| unsafe { image.add(n).read() } == b);
        if !same {
            w.tell("what is loaded was not made by the fake compiler".into());
            return Err(INVALID_IMAGE);
        }
        // SAFETY: after the magic come a length and as many bytes.
        let source = unsafe {
            let length = image.add(16).cast::<[u8; 8]>().read();
            std::slice::from_raw_parts(image.add(24), u64::from_le_bytes(length) as usize)
        };
        let source = std::str::from_utf8(source).map_err(|_| INVALID_IMAGE)?;
        let module = Module::instrumented(source, w.instrument()).map_err(|text| {
            w.tell(text);
            INVALID_IMAGE
        })?;
        let handle = w.handle();
        w.modules.insert(handle, Loaded { gpu, module: Arc::new(module) });
        put(out, handle)
    })
}

extern "C" fn cuModuleLoadDataEx(
    out: *mut usize,
    image: *const u8,
    _count: u32,
    _options: *mut c_void,
    _values: *mut c_void,
) -> u32 {
    cuModuleLoadData(out, image)
}

extern "C" fn cuModuleUnload(module: usize) -> u32 {
    with(|w| {
        w.functions.retain(|_, f| f.module != module);
        w.modules.remove(&module).map(drop).ok_or(INVALID_HANDLE)
    })
}

extern "C" fn cuModuleGetFunction(out: *mut usize, module: usize, name: *const c_char) -> u32 {
    with(|w| {
        let loaded = w.modules.get(&module).ok_or(INVALID_HANDLE)?;
        // SAFETY: a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?.to_owned();
        if !loaded.module.has(&name) {
            return Err(NOT_FOUND);
        }
        let function = Function { module, gpu: loaded.gpu, code: loaded.module.clone(), name, dynamic: STATIC };
        let handle = w.handle();
        w.functions.insert(handle, function);
        put(out, handle)
    })
}

extern "C" fn cuFuncSetAttribute(function: usize, attribute: u32, value: c_int) -> u32 {
    with(|w| {
        let capability = w.machine.capability;
        let f = w.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
        if attribute != 8 {
            return Ok(());
        }
        match limits::opt_in(capability, f.code.shared(&f.name).unwrap_or(0), value) {
            Ok(dynamic) => f.dynamic = dynamic,
            Err(text) => {
                let name = f.name.clone();
                return Err(w.refuse(&format!("kernel {name}"), &text));
            }
        }
        Ok(())
    })
}

extern "C" fn cuFuncGetAttribute(out: *mut c_int, attribute: u32, function: usize) -> u32 {
    with(|w| {
        let f = w.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let value = match attribute {
            0 => THREADS,
            1 => f.code.shared(&f.name).unwrap_or(0),
            4 => 32,
            5 | 6 => 10 * w.machine.capability.0 + w.machine.capability.1,
            8 => f.dynamic,
            _ => 0,
        };
        put(out, value as c_int)
    })
}

extern "C" fn cuFuncSetCacheConfig(function: usize, _config: u32) -> u32 {
    with(|w| w.functions.get(&function).map(drop).ok_or(INVALID_HANDLE))
}

/// A launch as a node, with its arguments as they are now.
pub(super) fn node(
    world: &mut World,
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    params: *const *const c_void,
) -> Done<Node> {
    let f = world.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let (own, sizes) = (f.code.shared(&f.name).unwrap_or(0), f.code.parameters(&f.name).unwrap_or_default());
    if let Err(text) = limits::launch(grid, block, own, shared, f.dynamic, &sizes) {
        let name = f.name.clone();
        return Err(world.refuse(&format!("kernel {name}"), &text));
    }
    if params.is_null() && !sizes.is_empty() {
        return Err(INVALID_VALUE);
    }
    let args = sizes.iter().enumerate().map(|(n, &size)| {
        // SAFETY: the caller gives the address of a value of the parameter's size for each parameter.
        unsafe { std::slice::from_raw_parts(params.add(n).read().cast::<u8>(), size as usize) }.to_vec()
    });
    let args = args.collect();
    let kernel = Kernel { module: f.code.clone(), name: f.name.clone(), grid, block, shared, args };
    Ok(Node { gpu: f.gpu, work: Work::Kernel(kernel) })
}

fn launch(
    w: &mut World,
    f: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: usize,
    params: *const *const c_void,
) -> Done<()> {
    let node = node(w, f, grid, block, shared, params)?;
    let gpu = w.streams[&find(w, stream)?].gpu;
    if gpu != node.gpu {
        w.tell(format!("{node}: it was loaded on another GPU than that of the stream, GPU {gpu}"));
        return Err(INVALID_CONTEXT);
    }
    give(w, stream, node)
}

extern "C" fn cuLaunchKernel(
    function: usize,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    shared: u32,
    stream: usize,
    params: *const *const c_void,
    _extra: *const c_void,
) -> u32 {
    with(|w| launch(w, function, [gx, gy, gz], [bx, by, bz], shared, stream, params))
}

extern "C" fn cuLaunchKernelEx(
    config: *const CUlaunchConfig,
    function: usize,
    params: *const *const c_void,
    _extra: *const c_void,
) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let c = unsafe { config.as_ref() }.ok_or(INVALID_VALUE)?;
        let (grid, block) = ([c.gridDimX, c.gridDimY, c.gridDimZ], [c.blockDimX, c.blockDimY, c.blockDimZ]);
        launch(w, function, grid, block, c.sharedMemBytes, c.hStream as usize, params)
    })
}
