//! The CPU device: an arena of its own and kernels for every row.

mod affine;
pub(crate) mod arena;
mod arriving;
pub mod boxes;
mod buffer;
pub(crate) mod constants;
mod contract;
mod convert;
mod dots;
mod double;
mod einsum;
mod fold;
mod fused;
mod gathered;
mod gemm;
mod grid;
mod hoist;
mod kernels;
mod lanes;
mod left_rows;
mod lines;
mod math;
mod packed;
pub(crate) mod packing;
mod parts;
mod paste;
mod piece;
mod registers;
mod rows;
mod short;
mod sinks;
mod split;
mod state;
mod strided;
mod sums;
#[cfg(test)]
mod tests;
mod thin;
mod tiled;
pub(crate) mod tiles;
mod view;
mod widen;

use crate::device::{Device, Memory};
use crate::error::Cause;
use crate::team::Team;
use arena::Arena;
use buffer::Room;
use constants::{Constants, Tables};
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::task::{OpRow, Slot, Source, Task, TaskGraph, TaskId, Value, Verb};
use ein_task::units::Bytes;
use fused::{Fused, Tail};
use kernels::Call;
use lines::Lines;
use packing::Packing;
use parts::Parts;
use paste::Paste;
use piece::{Piece, PieceMut};
use std::cell::RefCell;
use std::ops::Range;
use strided::Few;
use view::View;

/// A virtual device by itself: an arena, and rows that its own thread executes one after the other.
///
/// Devices of an executor that are threads of one process have their arenas here, but their rows are done by all of
/// its threads.
#[derive(Default)]
pub struct CpuDevice {
    arena: Arena,
    packing: Packing,
    tables: Tables,
}

/// Memory that kernels need besides their values: one for each thread, whatever it does, kept, so that later runs allocate
/// nothing.
#[derive(Default)]
pub(crate) struct Scratch {
    f32: Vec<Vec<f32>>,
    f64: Vec<Vec<f64>>,
    flash: kernels::flash::Flash,
    /// A packed factor and a tile of a product; or, in the first, what another operation leaves for a map.
    near: [Room; 2],
    /// Rows of a product's left factor.
    lines: Lines,
    /// What a product leaves for a map.
    between: Room,
    /// A part of a block that is made apart.
    apart: Room,
}

impl Scratch {
    /// What this thread has. Nothing that is done with it may ask for it again.
    fn with<R>(body: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static SCRATCH: RefCell<Scratch> = RefCell::default();
        }
        SCRATCH.with_borrow_mut(body)
    }

    /// Where the first operation of a fused row leaves its values: what is no product has no use for the memory of one.
    fn between(&mut self, product: bool) -> &mut Room {
        if product { &mut self.between } else { &mut self.near[0] }
    }
}

impl CpuDevice {
    /// The memory that slots lie in.
    pub(crate) fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// Makes its arena, some parts of which are not used.
    pub(crate) fn reserve(&mut self, bytes: Bytes, unused: &[Range<u64>]) -> Result<(), Cause> {
        self.arena = Arena::new(bytes.0, unused)?;
        Ok(())
    }

    /// Packs the value of a row of its own, if it is to be; it is loaded.
    pub(crate) fn pack(&mut self, graph: &TaskGraph, row: TaskId, packing: &Packing) {
        if packing.is_packed(row) {
            let task = graph.task(row);
            packing.pack(row, self.arena.get_mut(task.slot, task.value.bytes().0 as usize));
        }
    }
}

impl Memory for CpuDevice {
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause> {
        self.reserve(bytes, &[])
    }

    fn put(
        &mut self,
        slot: Slot,
        bytes: Bytes,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        fill(self.arena.get_mut(slot, bytes.0 as usize))
    }

    fn get(&mut self, slot: Slot, bytes: Bytes, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        take(self.arena.get(slot, bytes.0 as usize))
    }
}

impl Device for CpuDevice {
    fn loaded(&mut self, graph: &TaskGraph, device: DeviceId) {
        let packing = Packing::of(graph);
        for (row, _) in graph.rows().filter(|(_, task)| task.device == device) {
            self.pack(graph, row, &packing);
        }
        self.packing = packing;
    }

    fn execute(&mut self, graph: &TaskGraph, task: TaskId) -> Result<(), Cause> {
        let prepared = Prepared::new(graph, task, &self.packing, &mut self.tables)?;
        let task = &graph.tasks[task.index()];
        let size = |value: &Value| value.bytes().0 as usize;
        let slots: Vec<(Slot, usize)> = lent(graph, task).map(|t| (t.slot, size(&t.value))).collect();
        let (own, others) = self.arena.lend((task.slot, size(&task.value)), &slots)?;
        prepared.run(graph, own, &others, Team::alone())
    }
}

/// A row that computes, made ready once so that it can be executed often: whatever follows from the row alone and not
/// from its values belongs here.
pub(crate) struct Prepared {
    task: TaskId,
    /// Which of the values that are lent to it are packed.
    packed: Vec<bool>,
    /// What of a kernel's expression reads nothing.
    constants: Option<Constants>,
    /// The maps of a fused row.
    tail: Option<Tail>,
    /// How several threads do a kernel's block.
    parts: Option<Parts>,
    /// What is copied where it only copies.
    copies: Copies,
}

/// What a row copies that computes nothing.
enum Copies {
    None,
    View(View),
    Paste(Paste),
}

impl Prepared {
    /// Makes a kernel, view, cut, fold or paste ready.
    pub(crate) fn new(graph: &TaskGraph, id: TaskId, packing: &Packing, tables: &mut Tables) -> Result<Self, Cause> {
        let reads = graph.task(id).reads.iter().filter(|r| graph.task(**r).within.is_none());
        let packed: Vec<bool> = reads.map(|&r| packing.is_packed(r)).collect();
        let form = &graph.task(id).value.form;
        match &graph.task(id).verb {
            Verb::Feed { .. } | Verb::Send { .. } | Verb::Receive { .. } | Verb::Output { .. } => {
                Err(Cause::malformed("this row moves data and is the executor's"))
            }
            Verb::Kernel { op, labels, operands, .. } => {
                let row = &graph.ops[*op];
                let quantum = |axis: usize| packing::columns(row, labels, operands, &packed, axis);
                let cut = |spec| Parts::of(&[(spec, labels)], form, graph.devices, &quantum);
                let parts = row.spec.as_ref().and_then(cut);
                let constants = match &row.op {
                    Op::Einsum(e) => Constants::of(&e.join, e.accesses.len(), labels, tables),
                    Op::Input(_) | Op::View(_) | Op::Kernel(_) => None,
                };
                Ok(Self { task: id, packed, constants, tail: None, parts, copies: Copies::None })
            }
            Verb::Fused { stages } => {
                let (first, row) = (&stages[0], &graph.ops[stages[0].op]);
                let read = |s: &Option<Source>| if let Some(Source::Read(n)) = s { Some(*n) } else { None };
                let operands: Vec<Option<usize>> = first.operands.iter().map(read).collect();
                let quantum = |axis: usize| packing::columns(row, &first.labels, &operands, &packed, axis);
                let specs: Option<Vec<_>> =
                    stages.iter().map(|s| Some((graph.ops[s.op].spec.as_ref()?, &s.labels))).collect();
                let parts = specs.and_then(|specs| Parts::of(&specs, form, graph.devices, &quantum));
                let tail = Some(Tail::new(graph, stages, tables)?);
                Ok(Self { task: id, packed, constants: None, tail, parts, copies: Copies::None })
            }
            Verb::View { .. } | Verb::Cut | Verb::Fold { .. } | Verb::Paste => {
                let copies = copies(graph, graph.task(id))?;
                Ok(Self { task: id, packed, constants: None, tail: None, parts: None, copies })
            }
        }
    }

    /// Executes the row: from the values that are [`lent`] to it, to its own, with whoever is free to help.
    pub(crate) fn run(&self, graph: &TaskGraph, own: &mut [u8], reads: &[&[u8]], team: Team<'_>) -> Result<(), Cause> {
        let task = graph.task(self.task);
        if let Copies::Paste(paste) = &self.copies {
            paste.run(reads, own);
            return Ok(());
        }
        let values = lent(graph, task).map(|t| &t.value);
        let pieces: Few<Piece<'_>> = values
            .zip(reads)
            .zip(&self.packed)
            .map(|((v, bytes), &packed)| Piece::new(&v.region, &v.form, bytes).packed(packed))
            .collect();
        if let Some(parts) = &self.parts {
            return parts.run(own, &task.value.form, team, &|labels, result, scratch| {
                self.block(graph, labels, &pieces, result, scratch)
            });
        }
        let mut result = PieceMut::new(&task.value.region, &task.value.form, own);
        match &task.verb {
            Verb::Kernel { labels, .. } => {
                let labels = std::slice::from_ref(labels);
                Scratch::with(|scratch| self.block(graph, labels, &pieces, &mut result, scratch))
            }
            Verb::Fused { .. } => {
                let labels = self.tail.as_ref().map_or(&[][..], |tail| &tail.labels);
                Scratch::with(|scratch| self.block(graph, labels, &pieces, &mut result, scratch))
            }
            Verb::View { .. } => match &self.copies {
                Copies::View(view) => view.run(&pieces, &mut result),
                Copies::Paste(_) | Copies::None => Ok(()),
            },
            Verb::Fold { monoid, finish } => fold::fold(*monoid, *finish, &pieces, &mut result),
            Verb::Cut
            | Verb::Paste
            | Verb::Feed { .. }
            | Verb::Send { .. }
            | Verb::Receive { .. }
            | Verb::Output { .. } => unreachable!("it was made ready"),
        }
    }
}

impl Prepared {
    /// Executes a kernel, or the stages of a fused row, on boxes of their labels.
    fn block(
        &self,
        graph: &TaskGraph,
        labels: &[Region],
        pieces: &[Piece<'_>],
        result: &mut PieceMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Cause> {
        match &graph.task(self.task).verb {
            Verb::Kernel { op, finish, operands, .. } => {
                let operands: Few<Option<Piece<'_>>> = operands.iter().map(|n| n.map(|n| pieces[n])).collect();
                kernel(&graph.ops[*op], self.constants.as_ref(), &labels[0], *finish, &operands, result, scratch)
            }
            Verb::Fused { stages } => {
                let tail = self.tail.as_ref().expect("it was made ready");
                Fused { head: &graph.ops[stages[0].op], stages, labels, tail }.run(pieces, result, scratch)
            }
            Verb::View { .. }
            | Verb::Cut
            | Verb::Fold { .. }
            | Verb::Paste
            | Verb::Feed { .. }
            | Verb::Send { .. }
            | Verb::Receive { .. }
            | Verb::Output { .. } => unreachable!("called for kernels and fused rows"),
        }
    }
}

/// The rows whose values a row is lent, in its order: what it reads, but for what was left in its own memory.
pub(crate) fn lent<'a>(graph: &'a TaskGraph, task: &'a Task) -> impl Iterator<Item = &'a Task> {
    task.reads.iter().map(|r| graph.task(*r)).filter(|t| t.within.is_none())
}

fn kernel(
    row: &OpRow,
    constants: Option<&Constants>,
    labels: &Region,
    finish: bool,
    operands: &[Option<Piece<'_>>],
    result: &mut PieceMut<'_>,
    scratch: &mut Scratch,
) -> Result<(), Cause> {
    match &row.op {
        Op::Einsum(e) => {
            if contract::contract(e, labels, operands, result, scratch)? {
                return Ok(());
            }
            einsum::einsum(e, labels, operands, result, finish, &row.name, constants)
        }
        Op::Kernel(k) => kernels::kernel(k, &Call { labels, operands, finish, name: &row.name }, result, scratch),
        Op::Input(_) | Op::View(_) => Err(Cause::malformed(format!("`{}` has no kernel", row.name))),
    }
}

/// What a view, a cut or a paste copies; nothing of what was left in its memory, which it shows as it lies.
fn copies(graph: &TaskGraph, task: &Task) -> Result<Copies, Cause> {
    let there = task.reads.iter().map(|&r| graph.task(r)).filter(|t| t.within.is_some());
    let Value { region, form, .. } = &task.value;
    match &task.verb {
        Verb::View { op, inputs } if there.clone().next().is_none() => {
            let row = &graph.ops[*op];
            let Op::View(view) = &row.op else { return Err(Cause::malformed(format!("`{}` is not a view", row.name))) };
            let shapes: Vec<&[usize]> = row.operands.iter().map(|t| t.shape.as_slice()).collect();
            let lent = inputs.iter().zip(lent(graph, task));
            let pieces: Vec<_> = lent.map(|(&input, t)| (input, &t.value.region, &t.value.form)).collect();
            Ok(Copies::View(View::new(view, &shapes, &pieces, region, form)?))
        }
        Verb::Cut | Verb::Paste => {
            let pieces: Vec<_> = lent(graph, task).map(|t| (&t.value.region, &t.value.form)).collect();
            let there = there.map(|t| t.value.region.volume()).sum();
            Ok(Copies::Paste(Paste::new(&pieces, there, region, form)?))
        }
        _ => Ok(Copies::None),
    }
}
