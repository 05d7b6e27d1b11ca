//! Which parameters are packed, and when: once, in their own memory, after they are loaded.
//!
//! A weight that only products read, each as the same matrix, is stored as [`super::packed`] reads it: its elements
//! change places within their slot. Whoever else reads a parameter finds it as it was loaded.

use super::contract::{Constant, packable};
use super::gemm::Matrix;
use super::packed;
use bytemuck::{cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use ein_ir::einsum::Access;
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_task::task::{OpRow, Task, TaskGraph, TaskId, Verb};

/// The values of a task graph that are packed. It follows from the graph alone.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// By row.
    matrices: Vec<Option<Constant>>,
}

impl Packing {
    /// What is packed of a graph that is verified.
    pub(crate) fn of(graph: &TaskGraph) -> Self {
        let readers = graph.readers();
        let matrix = |(id, task): (TaskId, &Task)| {
            let Verb::Feed { external } = task.verb else { return None };
            let (form, external) = (&task.value.form, &graph.externals[external]);
            if external.kind != InputKind::Parameter || form.fields.len() != 1 || form.fields[0].dtype != DType::F32 {
                return None;
            }
            let mut uses = readers[id.index()].iter().map(|&reader| reads(graph, reader, id));
            let first = uses.next()??;
            uses.all(|other| other == Some(first)).then_some(first)
        };
        Self { matrices: graph.rows().map(matrix).collect() }
    }

    /// Whether the value of a row is packed.
    pub(crate) fn is_packed(&self, row: TaskId) -> bool {
        self.matrices.get(row.index()).is_some_and(Option::is_some)
    }

    /// Packs the value of a row, if it is to be, in its memory.
    pub(crate) fn pack(&self, row: TaskId, bytes: &mut [u8]) {
        if let Some(Some(Constant { extents, steps: [row, column] })) = self.matrices.get(row.index()) {
            let loaded: Vec<f32> = cast_slice(bytes).to_vec();
            packed::pack(*extents, Matrix { data: &loaded, at: 0, row: *row, column: *column }, cast_slice_mut(bytes));
        }
    }
}

/// The matrix as which a row reads a value, if it is a product that reads it once.
fn reads(graph: &TaskGraph, reader: TaskId, value: TaskId) -> Option<Constant> {
    let task = graph.task(reader);
    let Verb::Kernel { op, labels, operands, .. } = &task.verb else { return None };
    let (Op::Einsum(e), &[Some(left), Some(right)]) = (&graph.ops[*op].op, operands.as_slice()) else { return None };
    let [left, right] = [left, right].map(|n| task.reads[n]);
    // Of two parameters the second is packed, if any.
    let constant = |id: TaskId| graph.fed(id).is_some_and(|e| e.kind == InputKind::Parameter);
    if (left == value) == (right == value) || left == value && constant(right) || task.value.form.fields.len() != 1 {
        return None;
    }
    let regions: [&Region; 2] = [left, right].map(|n| &graph.task(n).value.region);
    packable(e, labels, regions, &task.value.region, usize::from(right == value))
}

/// How many indices of a label of a row's block go together at least where the block is cut along it: of a packed operand
/// whole panels are read.
pub(crate) fn columns(
    row: &OpRow,
    labels: &Region,
    operands: &[Option<usize>],
    packed: &[bool],
    label: usize,
) -> usize {
    let Op::Einsum(e) = &row.op else { return 1 };
    let of = |access: &Access, label: usize| access.axes.iter().any(|a| a.terms.iter().any(|t| t.0 == label));
    let held = e.accesses.iter().zip(operands).find(|(access, n)| n.is_some_and(|n| packed[n]) && of(access, label));
    let Some((access, _)) = held else { return 1 };
    // Columns that one index has.
    let inner = (label + 1..e.rank).filter(|&l| of(access, l)).map(|l| labels.0[l].len()).product::<usize>();
    (1..=packed::width()).find(|n| (n * inner).is_multiple_of(packed::width())).unwrap_or(1)
}
