//! Graphs: what GPUs do, ordered by edges alone, given to them as one.
#![allow(unsafe_code)]

use super::error::{DriverError, check};
use super::{Function, Gpu, Memory, Products, Replay, Stream, TensorMap, Traced};
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode,
    CUmemorytype, CUstreamCaptureMode,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// A graph that is being built.
///
/// Nodes are added with the context that they belong to, so that one graph holds the nodes of several GPUs and every edge
/// between them is an edge of the graph: no stream and no event stands for it.
#[derive(Debug)]
pub struct Builder {
    /// Whose context is the thread's where the graph as a whole is meant: nodes have their own.
    gpu: Arc<Gpu>,
    graph: CUgraph,
    nodes: Vec<CUgraphNode>,
    /// What its kernels were loaded with: it lives as long as the graph.
    functions: Vec<Function>,
}

/// A node of a graph that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(usize);

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Word {
    /// An address, or a `long long`.
    Long(u64),
    /// An `int`.
    Int(i32),
    /// A `float`.
    Float(f32),
    /// A tensor's description.
    Map(TensorMap),
}

/// A kernel on a grid.
#[derive(Debug)]
pub struct KernelCall<'a> {
    /// The kernel.
    pub function: &'a Function,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// In the order of its parameters.
    pub args: &'a [Word],
}

/// Where lines of bytes begin: from a first one, so many bytes to the next, and so many lines to the next layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The first byte.
    pub address: u64,
    /// Bytes from one line to the next.
    pub pitch: u64,
    /// Lines from one layer to the next.
    pub lines: u64,
}

impl Builder {
    /// A graph without nodes, to be given to streams of this GPU.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        gpu.bind()?;
        let mut graph = null_mut();
        // SAFETY: a place for a handle; no flags are defined.
        check("cuGraphCreate", unsafe { sys::cuGraphCreate(&raw mut graph, 0) })?;
        Ok(Self { gpu: gpu.clone(), graph, nodes: Vec::new(), functions: Vec::new() })
    }

    /// Adds a kernel, which runs on the GPU that it was loaded on.
    pub fn kernel(&mut self, call: &KernelCall<'_>, after: &[Node]) -> Result<Node, DriverError> {
        let pointers = call.args.iter().map(|word| match word {
            Word::Long(v) => std::ptr::from_ref(v).cast_mut().cast(),
            Word::Int(v) => std::ptr::from_ref(v).cast_mut().cast(),
            Word::Float(v) => std::ptr::from_ref(v).cast_mut().cast(),
            Word::Map(v) => std::ptr::from_ref(v).cast_mut().cast(),
        });
        let mut pointers: Vec<*mut c_void> = pointers.collect();
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: call.function.function,
            gridDimX: call.grid[0],
            gridDimY: call.grid[1],
            gridDimZ: call.grid[2],
            blockDimX: call.block[0],
            blockDimY: call.block[1],
            blockDimZ: call.block[2],
            sharedMemBytes: call.shared,
            kernelParams: pointers.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: call.function.gpu().context()?,
        };
        self.functions.push(call.function.clone());
        // SAFETY: arguments are copied, and not written, by the call. That they are what the kernel takes is the generator's to get right,
        // as is what the kernel does with the memory of GPUs.
        self.add("cuGraphAddKernelNode", after, |node, graph, list, count| unsafe {
            sys::cuGraphAddKernelNode_v2(node, graph, list, count, &raw const params)
        })
    }

    /// Adds a copy of `layers` times `lines` lines of `width` bytes each.
    pub fn copy(
        &mut self,
        gpu: &Gpu,
        from: Strided,
        to: Strided,
        [width, lines, layers]: [u64; 3],
        after: &[Node],
    ) -> Result<Node, DriverError> {
        // A line alone has no next. Its length may be more than a pitch may be.
        let pitch =
            |side: Strided| if lines * layers == 1 { (0, 0) } else { (side.pitch as usize, side.lines as usize) };
        let params = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            srcHost: null_mut(),
            srcDevice: from.address,
            srcArray: null_mut(),
            reserved0: null_mut(),
            srcPitch: pitch(from).0,
            srcHeight: pitch(from).1,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            dstHost: null_mut(),
            dstDevice: to.address,
            dstArray: null_mut(),
            reserved1: null_mut(),
            dstPitch: pitch(to).0,
            dstHeight: pitch(to).1,
            WidthInBytes: width as usize,
            Height: lines as usize,
            Depth: layers as usize,
        };
        let context = gpu.context()?;
        // SAFETY: the call copies what it is given; addresses come from `Memory::address`.
        self.add("cuGraphAddMemcpyNode", after, |node, graph, list, count| unsafe {
            sys::cuGraphAddMemcpyNode(node, graph, list, count, &raw const params, context)
        })
    }

    /// Adds a node that sets bytes to 0.
    pub fn zero(&mut self, gpu: &Gpu, address: u64, bytes: u64, after: &[Node]) -> Result<Node, DriverError> {
        let params = CUDA_MEMSET_NODE_PARAMS {
            dst: address,
            pitch: 0,
            value: 0,
            elementSize: 1,
            width: bytes as usize,
            height: 1,
        };
        let context = gpu.context()?;
        // SAFETY: as of a copy.
        self.add("cuGraphAddMemsetNode", after, |node, graph, list, count| unsafe {
            sys::cuGraphAddMemsetNode(node, graph, list, count, &raw const params, context)
        })
    }

    /// Adds what a library gives to a stream, as one node: it is recorded, not done.
    pub fn recorded<E: From<DriverError>>(
        &mut self,
        stream: &Stream,
        after: &[Node],
        give: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Node, E> {
        stream.gpu().bind()?;
        // What a library does besides, such as to load its kernels when they are first used, is no part of it.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives, and nothing else is recorded from it.
        check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream.handle(), mode) })?;
        let given = give(stream);
        let mut child = null_mut();
        // SAFETY: a place for a handle; it ends what was begun above, whatever came of it.
        let ended = check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(stream.handle(), &raw mut child) });
        given?;
        ended?;
        // SAFETY: the call copies the child.
        let node = self.add("cuGraphAddChildGraphNode", after, |node, graph, list, count| unsafe {
            sys::cuGraphAddChildGraphNode(node, graph, list, count, child)
        });
        // SAFETY: it is this function's own.
        unsafe { sys::cuGraphDestroy(child) };
        Ok(node?)
    }

    fn add(
        &mut self,
        call: &'static str,
        after: &[Node],
        add: impl FnOnce(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize) -> sys::CUresult,
    ) -> Result<Node, DriverError> {
        let list: Vec<CUgraphNode> = after.iter().map(|n| self.nodes[n.0]).collect();
        let mut node = null_mut();
        check(call, add(&raw mut node, self.graph, list.as_ptr(), list.len()))?;
        self.nodes.push(node);
        Ok(Node(self.nodes.len() - 1))
    }

    /// The graph, ready to be given to streams, for the first time to this one.
    pub(super) fn exec(mut self, stream: &Stream) -> Result<Exec, DriverError> {
        stream.gpu().bind()?;
        let mut handle = null_mut();
        // SAFETY: a place for a handle; the graph lives.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, self.graph, 0) };
        check("cuGraphInstantiate", made)?;
        let exec = Exec { gpu: stream.gpu().clone(), handle, functions: std::mem::take(&mut self.functions) };
        // SAFETY: both live.
        check("cuGraphUpload", unsafe { sys::cuGraphUpload(exec.handle, stream.handle()) })?;
        stream.synchronize()?;
        Ok(exec)
    }

    /// The graph, ready to run whenever it is wanted, with the memory that its nodes use. `streams`: one of every GPU
    /// that has memory, the first to run it on; `products`: what was recorded from; `traced`: the same in pieces, to be run
    /// instead.
    pub fn finish(
        self,
        streams: Vec<Stream>,
        memory: Vec<Memory>,
        products: Vec<Products>,
        traced: Option<Traced>,
    ) -> Result<Replay, DriverError> {
        Ok(Replay::new(self.exec(&streams[0])?, streams, memory, products, traced))
    }
}

/// A graph that was made ready.
#[derive(Debug)]
pub(super) struct Exec {
    gpu: Arc<Gpu>,
    handle: CUgraphExec,
    #[expect(dead_code, reason = "kernels live as long as what calls them")]
    functions: Vec<Function>,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Exec {}

impl Exec {
    /// Gives it to a stream.
    pub(super) fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.gpu().bind()?;
        // SAFETY: both live. The memory that it uses is a replay's, which waits before it lends or frees any.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.handle, stream.handle()) })
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it is this one's own, and no run of it is left.
            unsafe { sys::cuGraphExecDestroy(self.handle) };
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it is this one's own; what was instantiated from it is a copy.
            unsafe { sys::cuGraphDestroy(self.graph) };
        }
    }
}
