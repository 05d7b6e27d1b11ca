//! The driver's interface as tests call it: through the bindings that the device uses, loaded at run time.

// The bindings are C functions.
#![allow(unsafe_code, dead_code)]

use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

pub type Done<T> = Result<T, CUresult>;
pub type Stream = usize;
pub type Event = usize;

fn check(code: CUresult) -> Done<()> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(code) }
}

/// All GPUs, begun.
pub fn begin() -> Done<i32> {
    let mut count = 0;
    unsafe {
        assert!(sys::is_culib_present());
        check(sys::cuInit(0))?;
        check(sys::cuDeviceGetCount(&raw mut count))?;
    }
    Ok(count)
}

fn retain(gpu: i32) -> Done<usize> {
    let mut context = null_mut();
    unsafe { check(sys::cuDevicePrimaryCtxRetain(&raw mut context, gpu))? };
    Ok(context as usize)
}

pub fn context(gpu: i32) -> usize {
    retain(gpu).unwrap()
}

pub fn bind(gpu: i32) -> Done<()> {
    unsafe { check(sys::cuCtxSetCurrent(retain(gpu)? as sys::CUcontext)) }
}

pub fn reach(gpu: i32, peer: i32) -> Done<()> {
    bind(gpu)?;
    match unsafe { sys::cuCtxEnablePeerAccess(context(peer) as sys::CUcontext, 0) } {
        CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
        code => check(code),
    }
}

pub fn alloc(gpu: i32, bytes: usize) -> Done<u64> {
    bind(gpu)?;
    let mut at = 0;
    unsafe { check(sys::cuMemAlloc_v2(&raw mut at, bytes))? };
    Ok(at)
}

pub fn free(at: u64) -> Done<()> {
    unsafe { check(sys::cuMemFree_v2(at)) }
}

pub fn stream(gpu: i32) -> Stream {
    bind(gpu).unwrap();
    let mut stream = null_mut();
    unsafe { check(sys::cuStreamCreate(&raw mut stream, 1)).unwrap() };
    stream as Stream
}

pub fn wait(stream: Stream) -> Done<()> {
    unsafe { check(sys::cuStreamSynchronize(stream as sys::CUstream)) }
}

pub fn event(gpu: i32) -> Event {
    bind(gpu).unwrap();
    let mut event = null_mut();
    unsafe { check(sys::cuEventCreate(&raw mut event, 2)).unwrap() };
    event as Event
}

/// An event that tells times.
pub fn clock(gpu: i32) -> Event {
    bind(gpu).unwrap();
    let mut event = null_mut();
    unsafe { check(sys::cuEventCreate(&raw mut event, 0)).unwrap() };
    event as Event
}

pub fn milliseconds(begin: Event, end: Event) -> f32 {
    let mut out = 0.0;
    unsafe {
        check(sys::cuEventElapsedTime_v2(&raw mut out, begin as sys::CUevent, end as sys::CUevent)).unwrap();
    }
    out
}

pub fn record(event: Event, stream: Stream) -> Done<()> {
    unsafe { check(sys::cuEventRecord(event as sys::CUevent, stream as sys::CUstream)) }
}

pub fn wait_event(stream: Stream, event: Event) -> Done<()> {
    unsafe { check(sys::cuStreamWaitEvent(stream as sys::CUstream, event as sys::CUevent, 0)) }
}

/// `to` comes after all that was given to `from`.
pub fn order(gpu: i32, from: Stream, to: Stream) {
    let event = event(gpu);
    record(event, from).unwrap();
    wait_event(to, event).unwrap();
}

pub fn upload(at: u64, values: &[i32], stream: Stream) -> Done<()> {
    unsafe { check(sys::cuMemcpyHtoDAsync_v2(at, values.as_ptr().cast(), 4 * values.len(), stream as sys::CUstream)) }
}

pub fn download(at: u64, count: usize, stream: Stream) -> Done<Vec<i32>> {
    let mut out = vec![0i32; count];
    unsafe {
        check(sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), at, 4 * count, stream as sys::CUstream))?;
    }
    wait(stream)?;
    Ok(out)
}

pub fn copy(from: u64, to: u64, bytes: usize, stream: Stream) -> Done<()> {
    unsafe { check(sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream as sys::CUstream)) }
}

pub fn copy_peer(from: (i32, u64), to: (i32, u64), bytes: usize, stream: Stream) -> Done<()> {
    let (a, b) = (context(from.0) as sys::CUcontext, context(to.0) as sys::CUcontext);
    unsafe { check(sys::cuMemcpyPeerAsync(to.1, b, from.1, a, bytes, stream as sys::CUstream)) }
}

pub fn zero(at: u64, bytes: usize, stream: Stream) -> Done<()> {
    unsafe { check(sys::cuMemsetD8Async(at, 0, bytes, stream as sys::CUstream)) }
}

/// A text through the compiler: its image, or what it says.
pub fn compile(source: &str) -> Result<Vec<u8>, String> {
    let library = unsafe { libloading::Library::new("libnvrtc.so.13").unwrap() };
    macro_rules! f {
        ($name:literal, $($t:ty),*) => {
            *library.get::<unsafe extern "C" fn($($t),*) -> u32>($name).unwrap()
        };
    }
    let source = CString::new(source).unwrap();
    let options = [c"--gpu-architecture=sm_90a".as_ptr(), c"--std=c++17".as_ptr()];
    let mut program = 0usize;
    unsafe {
        let create = f!(b"nvrtcCreateProgram", *mut usize, *const i8, *const i8, i32, usize, usize);
        assert_eq!(create(&raw mut program, source.as_ptr(), std::ptr::null(), 0, 0, 0), 0);
        let code = f!(b"nvrtcCompileProgram", usize, i32, *const *const i8)(program, 2, options.as_ptr());
        let mut size = 0usize;
        let get = |of: usize, out: *mut u8| {
            if of == 0 {
                f!(b"nvrtcGetProgramLog", usize, *mut u8)(program, out)
            } else {
                f!(b"nvrtcGetCUBIN", usize, *mut u8)(program, out)
            }
        };
        if code == 0 {
            f!(b"nvrtcGetCUBINSize", usize, *mut usize)(program, &raw mut size);
        } else {
            f!(b"nvrtcGetProgramLogSize", usize, *mut usize)(program, &raw mut size);
        }
        let mut bytes = vec![0u8; size];
        get(usize::from(code == 0), bytes.as_mut_ptr());
        f!(b"nvrtcDestroyProgram", *mut usize)(&raw mut program);
        if code == 0 { Ok(bytes) } else { Err(String::from_utf8_lossy(&bytes).into_owned()) }
    }
}

pub fn function(gpu: i32, source: &str, name: &str) -> Done<usize> {
    bind(gpu)?;
    let image = compile(source).unwrap();
    let (mut module, mut function) = (null_mut(), null_mut());
    let name = CString::new(name).unwrap();
    unsafe {
        check(sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()))?;
        check(sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()))?;
    }
    Ok(function as usize)
}

pub fn allow_shared(function: usize, bytes: i32) -> Done<()> {
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    unsafe { check(sys::cuFuncSetAttribute(function as sys::CUfunction, attribute, bytes)) }
}

pub fn launch(function: usize, grid: u32, block: u32, shared: u32, args: &[u64], stream: Stream) -> Done<()> {
    let mut params: Vec<*mut c_void> = args.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
    unsafe {
        check(sys::cuLaunchKernel(
            function as sys::CUfunction,
            grid,
            1,
            1,
            block,
            1,
            1,
            shared,
            stream as sys::CUstream,
            params.as_mut_ptr(),
            null_mut(),
        ))
    }
}

pub fn capture(stream: Stream) -> Done<()> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    unsafe { check(sys::cuStreamBeginCapture_v2(stream as sys::CUstream, mode)) }
}

pub fn captured(stream: Stream) -> Done<usize> {
    let mut graph = null_mut();
    unsafe { check(sys::cuStreamEndCapture(stream as sys::CUstream, &raw mut graph))? };
    Ok(graph as usize)
}

pub fn nodes(graph: usize) -> usize {
    let mut count = 0;
    unsafe { check(sys::cuGraphGetNodes(graph as sys::CUgraph, null_mut(), &raw mut count)).unwrap() };
    count
}

pub fn instantiate(graph: usize) -> Done<usize> {
    let mut exec = null_mut();
    unsafe { check(sys::cuGraphInstantiateWithFlags(&raw mut exec, graph as sys::CUgraph, 0))? };
    Ok(exec as usize)
}

pub fn run(exec: usize, stream: Stream) -> Done<()> {
    unsafe { check(sys::cuGraphLaunch(exec as sys::CUgraphExec, stream as sys::CUstream)) }
}

pub fn graph() -> usize {
    let mut graph = null_mut();
    unsafe { check(sys::cuGraphCreate(&raw mut graph, 0)).unwrap() };
    graph as usize
}

pub fn add_kernel(graph: usize, f: usize, grid: u32, block: u32, args: &[u64], after: &[usize]) -> Done<usize> {
    let mut params: Vec<*mut c_void> = args.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
    let p = sys::CUDA_KERNEL_NODE_PARAMS {
        func: f as sys::CUfunction,
        gridDimX: grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: block,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: params.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    };
    let mut node = null_mut();
    unsafe {
        let list = after.as_ptr().cast();
        check(sys::cuGraphAddKernelNode_v2(&raw mut node, graph as sys::CUgraph, list, after.len(), &raw const p))?;
    }
    Ok(node as usize)
}

pub fn add_child(graph: usize, child: usize, after: &[usize]) -> Done<usize> {
    let mut node = null_mut();
    unsafe {
        let (list, child) = (after.as_ptr().cast(), child as sys::CUgraph);
        check(sys::cuGraphAddChildGraphNode(&raw mut node, graph as sys::CUgraph, list, after.len(), child))?;
    }
    Ok(node as usize)
}

/// Copies `lines` lines of `width` bytes, so many bytes apart at each side.
pub fn add_lines(graph: usize, gpu: i32, from: (u64, usize), to: (u64, usize), size: [usize; 2]) -> Done<usize> {
    let unified = sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED;
    let p = sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: unified,
        srcHost: null_mut(),
        srcDevice: from.0,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: from.1,
        srcHeight: size[1],
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: unified,
        dstHost: null_mut(),
        dstDevice: to.0,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: to.1,
        dstHeight: size[1],
        WidthInBytes: size[0],
        Height: size[1],
        Depth: 1,
    };
    let mut node = null_mut();
    let context = context(gpu) as sys::CUcontext;
    unsafe {
        let graph = graph as sys::CUgraph;
        check(sys::cuGraphAddMemcpyNode(&raw mut node, graph, std::ptr::null(), 0, &raw const p, context))?;
    }
    Ok(node as usize)
}

pub fn matmul(
    library: &cudarc::cublaslt::CudaBlasLT,
    config: cudarc::cublaslt::MatmulConfig,
    a: &cudarc::driver::CudaSlice<f32>,
    b: &cudarc::driver::CudaSlice<f32>,
    c: &mut cudarc::driver::CudaSlice<f32>,
) -> Result<(), String> {
    use cudarc::cublaslt::Matmul;
    unsafe { library.matmul(config, a, b, c, None, None) }.map_err(|e| e.to_string())
}

/// With a vector of the library's rows that is added, and the library's GELU.
pub fn matmul_then(
    library: &cudarc::cublaslt::CudaBlasLT,
    config: cudarc::cublaslt::MatmulConfig,
    [a, b, bias]: [&cudarc::driver::CudaView<'_, f32>; 3],
    c: &mut cudarc::driver::CudaSlice<f32>,
    gelu: bool,
) -> Result<(), String> {
    use cudarc::cublaslt::{Activation, Matmul};
    let activation = gelu.then_some(&Activation::Gelu);
    unsafe { library.matmul(config, a, b, c, Some(bias), activation) }.map_err(|e| e.to_string())
}

pub fn alloc_host(bytes: usize) -> Done<u64> {
    let mut at = null_mut();
    unsafe { check(sys::cuMemHostAlloc(&raw mut at, bytes, 0))? };
    Ok(at as u64)
}

pub fn free_host(at: u64) -> Done<()> {
    unsafe { check(sys::cuMemFreeHost(at as *mut c_void)) }
}

/// What is in pinned memory.
pub fn read_host(at: u64, count: usize) -> Vec<i32> {
    unsafe { std::slice::from_raw_parts(at as *const i32, count) }.to_vec()
}

pub fn driver_version() -> i32 {
    let mut version = 0;
    unsafe { check(sys::cuDriverGetVersion(&raw mut version)).unwrap() };
    version
}

pub fn words(at: u64, value: u32, count: usize, stream: Stream) -> Done<()> {
    unsafe { check(sys::cuMemsetD32Async(at, value, count, stream as sys::CUstream)) }
}

/// Lines between two GPUs.
pub fn copy_lines(from: (i32, u64, usize), to: (i32, u64, usize), size: [usize; 2], stream: Stream) -> Done<()> {
    let unified = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
    let p = sys::CUDA_MEMCPY3D_PEER {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: unified,
        srcHost: null_mut(),
        srcDevice: from.1,
        srcArray: null_mut(),
        srcContext: context(from.0) as sys::CUcontext,
        srcPitch: from.2,
        srcHeight: size[1],
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: unified,
        dstHost: null_mut(),
        dstDevice: to.1,
        dstArray: null_mut(),
        dstContext: context(to.0) as sys::CUcontext,
        dstPitch: to.2,
        dstHeight: size[1],
        WidthInBytes: size[0],
        Height: size[1],
        Depth: 1,
    };
    unsafe { check(sys::cuMemcpy3DPeerAsync(&raw const p, stream as sys::CUstream)) }
}
