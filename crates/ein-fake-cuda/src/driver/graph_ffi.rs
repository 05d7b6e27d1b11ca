//! Graphs.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use super::gpu_ffi::{bound, gpu_of, put};
use super::stream_ffi::{capture, find, give_plan};
use super::{memory_ffi, module_ffi};
use crate::graph::{Graph, What};
use crate::limits;
use crate::stubs_ffi::{Symbol, symbols};
use crate::work::{Node, Work};
use crate::world::{Done, Exec, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, World, with};
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS};
use std::ffi::c_void;
use std::sync::Arc;

pub(super) fn symbols() -> Vec<Symbol> {
    symbols![
        cuGraphCreate,
        cuGraphDestroy,
        cuGraphClone,
        cuGraphAddKernelNode_v2,
        cuGraphAddMemcpyNode,
        cuGraphAddMemsetNode,
        cuGraphAddEmptyNode,
        cuGraphAddChildGraphNode,
        cuGraphAddDependencies,
        cuGraphAddDependencies_v2,
        cuGraphGetNodes,
        cuGraphGetEdges,
        cuGraphInstantiateWithFlags,
        cuGraphUpload,
        cuGraphLaunch,
        cuGraphExecDestroy
    ]
}

extern "C" fn cuGraphCreate(out: *mut usize, flags: u32) -> u32 {
    with(|w| {
        bound(w, "cuGraphCreate")?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = w.handle();
        w.graphs.insert(handle, Graph::default());
        put(out, handle)
    })
}

extern "C" fn cuGraphDestroy(graph: usize) -> u32 {
    with(|w| {
        bound(w, "cuGraphDestroy")?;
        w.nodes.retain(|_, n| n.0 != graph);
        w.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE)
    })
}

extern "C" fn cuGraphClone(out: *mut usize, graph: usize) -> u32 {
    with(|w| {
        let copy = w.graphs.get(&graph).ok_or(INVALID_HANDLE)?.clone();
        let handle = w.handle();
        w.graphs.insert(handle, copy);
        put(out, handle)
    })
}

/// Places of nodes in their graph.
fn places(world: &World, graph: usize, list: *const usize, count: usize) -> Done<Vec<usize>> {
    (0..count)
        .map(|n| {
            // SAFETY: a list of so many handles.
            let handle = unsafe { list.add(n).read() };
            world.nodes.get(&handle).filter(|p| p.0 == graph).map(|p| p.1).ok_or(INVALID_VALUE)
        })
        .collect()
}

fn add(world: &mut World, out: *mut usize, graph: usize, list: *const usize, count: usize, what: What) -> Done<()> {
    let after = places(world, graph, list, count)?;
    let place = world.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?.add(what, &after);
    let handle = world.handle();
    world.nodes.insert(handle, (graph, place));
    put(out, handle)
}

extern "C" fn cuGraphAddKernelNode_v2(
    out: *mut usize,
    graph: usize,
    list: *const usize,
    count: usize,
    params: *const CUDA_KERNEL_NODE_PARAMS,
) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let p = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
        let (grid, block) = ([p.gridDimX, p.gridDimY, p.gridDimZ], [p.blockDimX, p.blockDimY, p.blockDimZ]);
        let values = p.kernelParams.cast_const().cast::<*const c_void>();
        let node = module_ffi::node(w, p.func as usize, grid, block, p.sharedMemBytes, values)?;
        if !p.ctx.is_null() && gpu_of(p.ctx as usize)? != node.gpu {
            return Err(INVALID_CONTEXT);
        }
        w.alive(node.gpu)?;
        add(w, out, graph, list, count, What::Node(Arc::new(node)))
    })
}

extern "C" fn cuGraphAddMemcpyNode(
    out: *mut usize,
    graph: usize,
    list: *const usize,
    count: usize,
    params: *const CUDA_MEMCPY3D,
    context: usize,
) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let params = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
        let copy = memory_ffi::layers(w, params)?;
        if copy.bytes() == 0 {
            return Err(INVALID_VALUE);
        }
        let gpu = gpu_of(context)?;
        w.alive(gpu)?;
        add(w, out, graph, list, count, What::Node(Arc::new(Node { gpu, work: Work::Copy(copy) })))
    })
}

extern "C" fn cuGraphAddMemsetNode(
    out: *mut usize,
    graph: usize,
    list: *const usize,
    count: usize,
    params: *const CUDA_MEMSET_NODE_PARAMS,
    context: usize,
) -> u32 {
    with(|w| {
        // SAFETY: the structure of the call.
        let p = unsafe { params.as_ref() }.ok_or(INVALID_VALUE)?;
        if p.width == 0 || p.height == 0 {
            return Err(INVALID_VALUE);
        }
        let kept = limits::set(p.dst, p.pitch as u64, p.elementSize, p.width as u64, p.height as u64);
        kept.map_err(|text| w.refuse("a set", &text))?;
        let gpu = gpu_of(context)?;
        w.alive(gpu)?;
        let (element, width, height) = (p.elementSize, p.width as u64, p.height as u64);
        let work = Work::Set { at: p.dst, pitch: p.pitch as u64, value: p.value, element, width, height };
        add(w, out, graph, list, count, What::Node(Arc::new(Node { gpu, work })))
    })
}

extern "C" fn cuGraphAddEmptyNode(out: *mut usize, graph: usize, list: *const usize, count: usize) -> u32 {
    with(|w| add(w, out, graph, list, count, What::Node(Arc::new(Node { gpu: 0, work: Work::Nothing }))))
}

extern "C" fn cuGraphAddChildGraphNode(
    out: *mut usize,
    graph: usize,
    list: *const usize,
    count: usize,
    child: usize,
) -> u32 {
    with(|w| {
        let copy = w.graphs.get(&child).ok_or(INVALID_HANDLE)?.clone();
        add(w, out, graph, list, count, What::Graph(copy))
    })
}

extern "C" fn cuGraphAddDependencies(graph: usize, from: *const usize, to: *const usize, count: usize) -> u32 {
    with(|w| {
        let (from, to) = (places(w, graph, from, count)?, places(w, graph, to, count)?);
        let graph = w.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
        for (from, to) in from.into_iter().zip(to) {
            if from == to || graph.nodes[to].after.contains(&from) {
                return Err(INVALID_VALUE);
            }
            graph.nodes[to].after.push(from);
        }
        Ok(())
    })
}

extern "C" fn cuGraphAddDependencies_v2(
    graph: usize,
    from: *const usize,
    to: *const usize,
    _edges: *const c_void,
    count: usize,
) -> u32 {
    cuGraphAddDependencies(graph, from, to, count)
}

extern "C" fn cuGraphGetNodes(graph: usize, out: *mut usize, count: *mut usize) -> u32 {
    with(|w| {
        let total = w.graphs.get(&graph).ok_or(INVALID_HANDLE)?.nodes.len();
        if out.is_null() {
            return put(count, total);
        }
        // Nodes of a captured graph get their handles when they are asked for.
        let mut handles = vec![0; total];
        for (&handle, &(of, place)) in &w.nodes {
            if of == graph {
                handles[place] = handle;
            }
        }
        for (place, handle) in handles.iter_mut().enumerate().filter(|h| *h.1 == 0) {
            *handle = w.handle();
            w.nodes.insert(*handle, (graph, place));
        }
        // SAFETY: a place for a number that says how many handles there is room for, and that room.
        unsafe {
            let given = total.min(count.read());
            out.copy_from_nonoverlapping(handles.as_ptr(), given);
            count.write(given);
        }
        Ok(())
    })
}

extern "C" fn cuGraphGetEdges(graph: usize, from: *mut usize, _to: *mut usize, count: *mut usize) -> u32 {
    with(|w| {
        let graph = w.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        if !from.is_null() {
            return Err(INVALID_VALUE); // Only how many: nobody asked for more.
        }
        put(count, graph.nodes.iter().map(|n| n.after.len()).sum())
    })
}

extern "C" fn cuGraphInstantiateWithFlags(out: *mut usize, graph: usize, _flags: u64) -> u32 {
    with(|w| {
        let graph = w.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        let plan = graph.plan().ok_or(INVALID_VALUE)?;
        let handle = w.handle();
        w.execs.insert(handle, Exec { plan: Arc::new(plan), last: Vec::new() });
        put(out, handle)
    })
}

extern "C" fn cuGraphUpload(exec: usize, stream: usize) -> u32 {
    with(|w| {
        find(w, stream)?;
        w.execs.get(&exec).map(drop).ok_or(INVALID_HANDLE)
    })
}

extern "C" fn cuGraphLaunch(exec: usize, stream: usize) -> u32 {
    with(|w| {
        let handle = find(w, stream)?;
        let found = w.execs.get(&exec).ok_or(INVALID_HANDLE)?;
        let (plan, last) = (found.plan.clone(), found.last.clone());
        if w.streams[&handle].capture.is_some() {
            let mut graph = Graph::default();
            for (node, after) in plan.nodes.iter().zip(&plan.after) {
                graph.add(What::Node(node.clone()), after);
            }
            return capture(w, handle, What::Graph(graph));
        }
        if let Some(node) = plan.nodes.iter().find(|n| w.alive(n.gpu).is_err()) {
            return w.alive(node.gpu);
        }
        w.counters.graphs += 1;
        // A graph does not run beside itself.
        let batch = give_plan(w, handle, plan, &last)?;
        w.execs.get_mut(&exec).expect("found").last = vec![batch];
        Ok(())
    })
}

extern "C" fn cuGraphExecDestroy(exec: usize) -> u32 {
    with(|w| {
        bound(w, "cuGraphExecDestroy")?;
        w.execs.remove(&exec).map(drop).ok_or(INVALID_HANDLE)
    })
}
