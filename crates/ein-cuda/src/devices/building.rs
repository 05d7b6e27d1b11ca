//! Nodes, given to the driver.

use super::{Settings, failed};
use crate::driver::{
    Builder, DriverError, Element, Function, Gpu, KernelCall, Memory, Node as Built, Operands, Problem, Products,
    Stored, Stream, Strided, Traced, Word, tensor_map,
};
use crate::nodes::{Address, Block, Node, Nodes, Sites, Value, Work};
use crate::program::{Matmul, Matrix};
use ein_ir::dtype::DType;
use ein_run::{Cause, RunError};
use ein_task::task::{TaskGraph, TaskId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A graph of the driver's, being built from nodes.
///
/// Every node is added by itself, with its GPU's context, after the nodes that it waits for. Only what the library of
/// products does is recorded from a stream, one product at a time, and becomes one node: a recording spans one context, so
/// no edge between GPUs is ever one of a stream.
pub(super) struct Building<'a> {
    graph: &'a TaskGraph,
    nodes: &'a Nodes,
    gpus: &'a [Arc<Gpu>],
    sites: &'a Sites,
    memory: &'a [Memory],
    functions: &'a [BTreeMap<String, Function>],
    /// The library of products on each GPU that needs it, with a stream to record from.
    products: Vec<Option<(Products, Stream)>>,
}

impl<'a> Building<'a> {
    pub(super) fn new(
        graph: &'a TaskGraph,
        nodes: &'a Nodes,
        gpus: &'a [Arc<Gpu>],
        sites: &'a Sites,
        memory: &'a [Memory],
        functions: &'a [BTreeMap<String, Function>],
    ) -> Result<Self, RunError> {
        let product = |gpu: usize| {
            let first = nodes.all.iter().find(|n| n.gpu == gpu && matches!(n.work, Work::Matmul { .. }));
            let made = first.map(|node| {
                let device = node.row.map_or(0, |row| graph.task(row).device.index());
                let made = Products::new(&gpus[gpu]).and_then(|p| Ok((p, Stream::new(&gpus[gpu])?)));
                made.map_err(|e| failed(device, &e))
            });
            made.transpose()
        };
        let products = (0..gpus.len()).map(product).collect::<Result<_, _>>()?;
        Ok(Self { graph, nodes, gpus, sites, memory, functions, products })
    }

    /// All nodes as one graph.
    pub(super) fn build(&mut self, settings: Settings) -> Result<Builder, RunError> {
        let mut builder = Builder::new(&self.gpus[0]).map_err(|e| failed(0, &e))?;
        let mut built: Vec<Built> = Vec::with_capacity(self.nodes.all.len());
        let nodes = self.nodes;
        for node in &nodes.all {
            let after: Vec<Built> = node.after.iter().map(|&n| built[n]).collect();
            built.push(self.node(&mut builder, node, &after, settings).map_err(|e| self.refused(node, &e))?);
        }
        Ok(builder)
    }

    /// The nodes in pieces, and the row of each: those of one row, on one GPU.
    pub(super) fn trace(&mut self, settings: Settings) -> Result<(Traced, Vec<Option<TaskId>>), RunError> {
        let mut traced = Traced::new(self.gpus).map_err(|(gpu, e)| failed(self.sites.first_on(gpu), &e))?;
        let (mut rows, mut pieces): (Vec<Option<TaskId>>, Vec<usize>) = (Vec::new(), Vec::new());
        let nodes = self.nodes;
        for run in nodes.all.chunk_by(|a, b| (a.row, a.gpu) == (b.row, b.gpu)) {
            let first = pieces.len();
            let mut builder = Builder::new(&self.gpus[run[0].gpu]).map_err(|e| self.refused(&run[0], &e))?;
            let (mut built, mut others): (Vec<Built>, Vec<usize>) = (Vec::new(), Vec::new());
            for node in run {
                let (own, other): (Vec<usize>, Vec<usize>) = node.after.iter().partition(|&&n| n >= first);
                let after: Vec<Built> = own.iter().map(|&n| built[n - first]).collect();
                built.push(self.node(&mut builder, node, &after, settings).map_err(|e| self.refused(node, &e))?);
                others.extend(other.iter().map(|&n| pieces[n]));
            }
            others.sort_unstable();
            others.dedup();
            traced.push(run[0].gpu, builder, others).map_err(|e| self.refused(&run[0], &e))?;
            pieces.resize(first + run.len(), rows.len());
            rows.push(run[0].row);
        }
        Ok((traced, rows))
    }

    /// The library of products on the GPUs that need it, which lives as long as what was recorded from it.
    pub(super) fn into_products(self) -> Vec<Products> {
        self.products.into_iter().flatten().map(|(products, _)| products).collect()
    }

    fn refused(&self, node: &Node, error: &DriverError) -> RunError {
        match node.row {
            Some(row) => RunError::task(self.graph, row.0, Cause::Device { reason: error.to_string() }),
            None => failed(self.sites.first_on(node.gpu), error),
        }
    }

    fn node(
        &mut self,
        builder: &mut Builder,
        node: &Node,
        after: &[Built],
        settings: Settings,
    ) -> Result<Built, DriverError> {
        let gpu = &self.gpus[node.gpu];
        match &node.work {
            Work::Kernel { kernel, grid, block, shared, args } => {
                let word = |value: &Value| {
                    Ok(match *value {
                        Value::Address(address) => Word::Long(self.address(address, 0)?),
                        Value::I64(v) => Word::Long(v as u64),
                        Value::I32(v) => Word::Int(v),
                        Value::F32(v) => Word::Float(v),
                        Value::Map(map, at) => {
                            let address = self.address(at, 0)?;
                            Word::Map(tensor_map(gpu, element(map.dtype), address, map.extents, map.steps, map.boxes)?)
                        }
                    })
                };
                let args = args.iter().map(word).collect::<Result<Vec<_>, DriverError>>()?;
                let function = &self.functions[node.gpu][&kernel.name];
                let call = KernelCall { function, grid: *grid, block: *block, shared: *shared, args: &args };
                builder.kernel(&call, after)
            }
            Work::Matmul { matmul, at, add, bias, workspace, bytes } => {
                let operands = Operands {
                    matrices: [self.address(at[0], 0)?, self.address(at[1], 0)?, self.address(at[2], 0)?],
                    add: add.map(|a| self.address(a, 0)).transpose()?,
                    bias: bias.map(|b| self.address(b, 0)).transpose()?,
                    workspace: self.address(*workspace, *bytes)?,
                };
                let problem = problem(matmul, *bytes, settings);
                let (products, stream) = self.products[node.gpu].as_mut().expect("made for every GPU that multiplies");
                builder.recorded(stream, after, |stream| products.give(&problem, &operands, stream))
            }
            Work::Copy { from, to, lines } => {
                let spans = lines.spans();
                let strided = |block: Block, pitch: crate::copies::Pitch, bytes: u64| {
                    let address = self.address(Address { block, offset: pitch.offset }, bytes)?;
                    Ok::<_, DriverError>(Strided { address, pitch: pitch.pitch, lines: pitch.lines })
                };
                let (from, to) = (strided(*from, lines.from, spans[0])?, strided(*to, lines.to, spans[1])?);
                builder.copy(gpu, from, to, [lines.width, lines.lines, lines.layers], after)
            }
            Work::Zero { at, bytes } => builder.zero(gpu, self.address(*at, *bytes)?, *bytes, after),
        }
    }

    /// Where some bytes are.
    fn address(&self, at: Address, bytes: u64) -> Result<u64, DriverError> {
        let memory = match at.block {
            Block::Device(device) => &self.memory[device],
            Block::Host => &self.memory[self.nodes.devices.len()],
        };
        memory.address(at.offset, bytes)
    }
}

fn problem(m: &Matmul, workspace: u64, settings: Settings) -> Problem {
    Problem {
        matrices: [&m.a, &m.b, &m.c].map(stored),
        extents: [m.m, m.n, m.k],
        batch: m.batch,
        add: m.epilogue.add.as_ref().map(stored),
        bias: m.epilogue.bias.is_some(),
        gelu: m.epilogue.gelu,
        tf32: settings.tf32,
        workspace,
    }
}

fn stored(matrix: &Matrix) -> Stored {
    let Matrix { stride, batch_stride, transposed, .. } = *matrix;
    Stored { element: element(matrix.dtype), stride, batch_stride, transposed }
}

fn element(dtype: DType) -> Element {
    match dtype {
        DType::F64 => Element::F64,
        DType::F32 => Element::F32,
        DType::BF16 => Element::BF16,
        DType::F16 => Element::F16,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => unreachable!("products and attention are of floats"),
    }
}
