//! The CPU device: an arena of its own and kernels for every row.

mod arena;
pub mod boxes;
mod contract;
mod convert;
mod double;
mod einsum;
mod fold;
mod gathered;
mod gemm;
mod kernels;
mod lanes;
mod math;
mod piece;
mod rows;
mod state;
mod strided;
#[cfg(test)]
mod tests;
mod view;

use crate::device::Device;
use crate::error::Cause;
use arena::Arena;
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_task::task::{OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};
use ein_task::units::Bytes;
use kernels::Call;
use piece::{Piece, PieceMut};

/// A virtual device: memory that only its own thread touches.
#[derive(Default)]
pub struct CpuDevice {
    arena: Arena,
    scratch: Scratch,
}

/// Memory that kernels need besides their values; kept, so that later runs allocate little.
#[derive(Default)]
pub(crate) struct Scratch {
    f32: Vec<Vec<f32>>,
    f64: Vec<Vec<f64>>,
}

impl Device for CpuDevice {
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause> {
        self.arena = Arena::new(bytes.0)?;
        Ok(())
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

    fn execute(&mut self, graph: &TaskGraph, task: TaskId) -> Result<(), Cause> {
        let task = &graph.tasks[task.index()];
        let size = |value: &Value| value.bytes().0 as usize;
        // What was received into the memory of a paste is there already.
        let reads: Vec<&Task> =
            task.reads.iter().map(|r| &graph.tasks[r.index()]).filter(|t| t.within.is_none()).collect();
        let values: Vec<&Value> = reads.iter().map(|t| &t.value).collect();
        let slots: Vec<(Slot, usize)> = reads.iter().map(|t| (t.slot, size(&t.value))).collect();
        let (own, others) = self.arena.lend((task.slot, size(&task.value)), &slots)?;
        let pieces: Vec<Piece<'_>> =
            values.iter().zip(others).map(|(v, bytes)| Piece::new(&v.region, &v.form, bytes)).collect();
        let mut result = PieceMut::new(&task.value.region, &task.value.form, own);
        match &task.verb {
            Verb::Kernel { op, labels, finish, operands } => {
                let operands: Vec<Option<Piece<'_>>> = operands.iter().map(|n| n.map(|n| pieces[n])).collect();
                kernel(&graph.ops[*op], labels, *finish, &operands, &mut result, &mut self.scratch)
            }
            Verb::View { op, inputs } => {
                let row = &graph.ops[*op];
                let Op::View(v) = &row.op else {
                    return Err(Cause::malformed(format!("`{}` is not a view", row.name)));
                };
                let shapes: Vec<&[usize]> = row.operands.iter().map(|t| t.shape.as_slice()).collect();
                let pieces: Vec<(usize, Piece<'_>)> = inputs.iter().copied().zip(pieces).collect();
                view::view(v, &shapes, &pieces, &mut result)
            }
            Verb::Cut | Verb::Paste => {
                let there = task.reads.iter().map(|r| &graph.tasks[r.index()]).filter(|t| t.within.is_some());
                paste(&pieces, there.map(|t| t.value.region.volume()).sum(), &mut result)
            }
            Verb::Fold { monoid, finish } => fold::fold(*monoid, *finish, &pieces, &mut result),
            Verb::Feed { .. } | Verb::Send { .. } | Verb::Receive { .. } | Verb::Output { .. } => {
                Err(Cause::malformed("this row moves data and is the executor's"))
            }
        }
    }
}

fn kernel(
    row: &OpRow,
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
            einsum::einsum(e, labels, operands, result, finish, &row.name)
        }
        Op::Kernel(k) => kernels::kernel(k, &Call { labels, operands, finish, name: &row.name }, result, scratch),
        Op::Input(_) | Op::View(_) => Err(Cause::malformed(format!("`{}` has no kernel", row.name))),
    }
}

/// Copies what each piece has of the result, field by field; `there` elements are there.
fn paste(pieces: &[Piece<'_>], there: usize, result: &mut PieceMut<'_>) -> Result<(), Cause> {
    let form = result.form;
    let covered: usize = there + pieces.iter().map(|p| p.region.overlap(result.region)).sum::<usize>();
    if covered != result.region.volume() {
        return Err(Cause::malformed(format!("{covered} elements of {} are given", result.region)));
    }
    for piece in pieces {
        if piece.form != form {
            return Err(Cause::malformed("pieces of one value are stored in different forms"));
        }
        let Some(both) = piece.region.intersect(result.region) else { continue };
        for (n, field) in form.fields.iter().enumerate() {
            let (from, to, both) =
                (piece.region.project(&field.axes), result.region.project(&field.axes), both.project(&field.axes));
            boxes::copy_region(piece.bytes(n), &from, result.bytes(n), &to, &both, field.dtype.bytes());
        }
    }
    Ok(())
}
