//! Which parameters are packed, and when: once, in their own memory, after they are loaded.
//!
//! A weight that only products read, each as the same matrix, is stored as [`super::packed`] reads it, or [`super::short`]
//! where it is `bf16` and there are tile registers: its elements change places within their slot. Whoever else reads a
//! parameter finds it as it was loaded.

use super::contract::{Constant, packable};
use super::gemm::Matrix;
use super::packed;
use super::short;
use super::split::Side;
use super::tiles::{RESULT, Tile};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ein_ir::dtype::DType;
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_task::task::{OpRow, Source, Stage, Task, TaskGraph, TaskId, Verb};

/// The values of a task graph that are packed. It follows from the graph and the processor.
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
            if external.kind != InputKind::Parameter || form.fields.len() != 1 {
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
        self.matrix(row).is_some()
    }

    /// The matrix as which the value of a row is packed, if it is.
    pub(crate) fn matrix(&self, row: TaskId) -> Option<Constant> {
        self.matrices.get(row.index()).copied().flatten()
    }

    /// Packs the value of a row, if it is to be, in its memory.
    pub(crate) fn pack(&self, row: TaskId, bytes: &mut [u8]) {
        if let Some(constant) = self.matrix(row) {
            constant.pack(bytes);
        }
    }
}

impl Constant {
    /// Puts a value that is this matrix in the order in which products read it, in its memory.
    pub(crate) fn pack(&self, bytes: &mut [u8]) {
        if self.dtype != DType::BF16 {
            return self.replace::<f32>(packed::width(), bytes, |extents, from, out| {
                packed::pack(extents, from, cast_slice_mut(out));
            });
        }
        let [k, _] = self.extents;
        let mut panel = vec![Tile::ZERO; short::count(RESULT, k)];
        self.replace::<u16>(RESULT, bytes, |[k, n], from, out| {
            for (first, out) in (0..n as i64).step_by(RESULT).zip(out.chunks_exact_mut(size_of_val(&*panel))) {
                let from = Matrix { at: first * from.column, ..from };
                short::pack(Side::Right, [k, RESULT], from, &mut panel);
                out.copy_from_slice(cast_slice(&panel));
            }
        });
    }

    /// Puts columns in the place where they were. Where they lie side by side, as those of a weight that is stored output by
    /// output do, a panel of so many takes their place and no more than those are held twice; of another matrix, all is.
    fn replace<T: Pod>(
        &self,
        panel: usize,
        bytes: &mut [u8],
        mut put: impl FnMut([usize; 2], Matrix<'_, T>, &mut [u8]),
    ) {
        let Self { extents: [k, n], steps: [row, column], .. } = *self;
        let along = row == 1 && column == k as i64;
        let columns = if along { panel.min(n) } else { n };
        let mut held: Vec<T> = Vec::with_capacity(k * columns);
        for place in cast_slice_mut::<u8, T>(bytes).chunks_mut((k * columns).max(1)) {
            held.clear();
            held.extend_from_slice(place);
            put([k, place.len() / k], Matrix { data: &held, at: 0, row, column }, cast_slice_mut(place));
        }
    }
}

/// The matrix as which a row reads a value, if it is a product, or begins with one, that reads it once.
fn reads(graph: &TaskGraph, reader: TaskId, value: TaskId) -> Option<Constant> {
    let task = graph.task(reader);
    let read = |n: usize| task.reads[n];
    let (op, labels, operands, result): (_, _, Vec<Option<TaskId>>, _) = match &task.verb {
        Verb::Kernel { op, labels, operands, .. } => {
            (op, labels, operands.iter().map(|n| n.map(read)).collect(), task.value.region.clone())
        }
        Verb::Fused { stages } => {
            let source = |source: &Option<Source>| match source {
                Some(Source::Read(n)) => Some(read(*n)),
                Some(Source::Previous) | None => None,
            };
            // What is packed is a matrix to the product alone.
            if stages[1..].iter().flat_map(|s| &s.operands).any(|s| source(s) == Some(value)) {
                return None;
            }
            let Stage { op, labels, operands, .. } = &stages[0];
            let result = graph.ops[*op].spec.as_ref()?.result_region(labels);
            (op, labels, operands.iter().map(source).collect(), result)
        }
        Verb::Feed { .. }
        | Verb::View { .. }
        | Verb::Cut
        | Verb::Send { .. }
        | Verb::Receive { .. }
        | Verb::Fold { .. }
        | Verb::Paste
        | Verb::Output { .. } => return None,
    };
    let (Op::Einsum(e), &[Some(left), Some(right)]) = (&graph.ops[*op].op, operands.as_slice()) else { return None };
    // Of two parameters the second is packed, if any.
    let constant = |id: TaskId| graph.fed(id).is_some_and(|e| e.kind == InputKind::Parameter);
    if (left == value) == (right == value) || left == value && constant(right) {
        return None;
    }
    let regions: [&Region; 2] = [left, right].map(|id| &graph.task(id).value.region);
    let [Some(dtype), Some(other)] = [value, if left == value { right } else { left }].map(|id| {
        let fields = &graph.task(id).value.form.fields;
        fields.first().filter(|_| fields.len() == 1).map(|f| f.dtype)
    }) else {
        return None;
    };
    packable(e, labels, regions, &result, usize::from(right == value), [dtype, other])
}

/// What a label of a row's block is beside the columns of a packed operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Some of them.
    Of {
        /// How many indices go together at least where the block is cut along the label: whole panels are read.
        together: usize,
        /// Columns of one index.
        each: usize,
        /// Rows of the product.
        rows: usize,
    },
    /// Something else of a product with so many rows.
    Beside { rows: usize },
    /// Nothing is packed.
    None,
}

/// What a label is beside the columns of the packed operand of a row's block.
pub(crate) fn columns(
    row: &OpRow,
    labels: &Region,
    operands: &[Option<usize>],
    packed: &[bool],
    label: usize,
) -> Columns {
    let Op::Einsum(e) = &row.op else { return Columns::None };
    let held = e.accesses.iter().zip(operands).find(|(_, n)| n.is_some_and(|n| packed[n]));
    let Some((access, _)) = held else { return Columns::None };
    let volume = |from: usize, own: bool| {
        (from..e.rank).filter(|&l| access.depends_on(l) == own).map(|l| labels.0[l].len()).product::<usize>()
    };
    let rows = volume(0, false);
    if !access.depends_on(label) {
        return Columns::Beside { rows };
    }
    // Columns of several loops are cut along the first of them alone: parts of all heads are no matrix.
    if (0..label).any(|l| l < e.rank && labels.0[l].len() > 1 && access.depends_on(l)) {
        return Columns::Of { together: labels.0[label].len().max(1), each: 1, rows };
    }
    // Columns that one index has.
    let each = volume(label + 1, true);
    let together = (1..=packed::width()).find(|n| (n * each).is_multiple_of(packed::width())).unwrap_or(1);
    Columns::Of { together, each, rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::monoid::Form;
    use ein_ir::text;
    use ein_task::machine::DeviceId;
    use ein_task::task::{External, Slot, Value};

    /// The rows of a graph, whole on one device, all that computes as one row.
    fn one_row(lines: &str) -> TaskGraph {
        let graph = text::parse(lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
        let mut tasks = TaskGraph { devices: 1, ..TaskGraph::default() };
        let (mut stages, mut reads, mut value) = (Vec::new(), Vec::new(), None);
        for id in graph.ids() {
            let node = graph.node(id);
            let whole = Value { region: node.ty.whole(), form: Form::finished(node.ty.dtype, node.ty.shape.len()) };
            if let Op::Input(kind) = node.op {
                tasks.externals.push(External { name: node.name.clone(), kind, ty: node.ty.clone() });
                reads.push(tasks.push(row(Verb::Feed { external: tasks.externals.len() - 1 }, &[], whole)));
                continue;
            }
            tasks.ops.push(OpRow::of(&graph, id));
            let spec = graph.spec(id).expect("it computes");
            let labels = Region(spec.labels.iter().map(|l| ein_ir::region::Interval::new(0, l.extent)).collect());
            let source = |input: &ein_ir::graph::TensorId| {
                let read = reads.get(input.index()).map(|_| Source::Read(input.index()));
                Some(read.unwrap_or(Source::Previous))
            };
            let operands = node.inputs.iter().map(source).collect();
            stages.push(Stage { op: tasks.ops.len() - 1, labels, finish: true, operands });
            value = Some(whole);
        }
        let verb = match <[Stage; 1]>::try_from(stages) {
            Ok([Stage { op, labels, finish, operands }]) => {
                let read = |s: Option<Source>| if let Some(Source::Read(n)) = s { Some(n) } else { None };
                Verb::Kernel { op, labels, finish, operands: operands.into_iter().map(read).collect() }
            }
            Err(stages) => Verb::Fused { stages },
        };
        tasks.push(row(verb, &reads, value.expect("something computes")));
        tasks
    }

    fn row(verb: Verb, reads: &[TaskId], value: Value) -> Task {
        let (device, slot) = (DeviceId(0), Slot::default());
        Task { device, verb, reads: reads.to_vec(), after: vec![], value, within: None, slot, label: 0 }
    }

    #[test]
    fn a_matrix_is_packed_in_its_place_whichever_way_it_lies() {
        let [k, n] = [5, 3 * packed::width() + 2];
        let of = |row: usize, column: usize| (row * n + column) as f32;
        let mut rows: Vec<f32> = (0..k * n).map(|x| x as f32).collect();
        let mut expected = vec![0.0; k * n];
        packed::pack([k, n], Matrix { data: &rows, at: 0, row: n as i64, column: 1 }, &mut expected);
        let mut columns: Vec<f32> = (0..n).flat_map(|c| (0..k).map(move |r| of(r, c))).collect();
        for (values, steps) in [(&mut rows, [n as i64, 1]), (&mut columns, [1, k as i64])] {
            Constant { extents: [k, n], steps, dtype: DType::F32 }.pack(cast_slice_mut(values));
            assert_eq!(*values, expected, "{steps:?}");
        }
    }

    #[test]
    fn weights_of_products_are_packed_whatever_follows_the_product() {
        let head = "x: input f32[20, 30]\nw: param f32[40, 30]\n";
        let product = "p = einsum f32 (s: 20, n: 40 | k: 30) sum x[s, k] * w[n, k]\n";
        for (lines, packed) in [
            (format!("{head}{product}return p\n"), [false, true].as_slice()),
            (
                format!(
                    "{head}b: param f32[40]\n{product}y = einsum f32 (s: 20, n: 40) map p[s, n] + b[n]\nreturn y\n"
                ),
                &[false, true, false],
            ),
            // Who reads a weight in another way must find it as it was loaded.
            (
                "x: input f32[30, 30]\nw: param f32[30, 30]\n\
                 p = einsum f32 (s: 30, n: 30 | k: 30) sum x[s, k] * w[n, k]\n\
                 y = einsum f32 (s: 30, n: 30) map p[s, n] + w[s, n]\nreturn y\n"
                    .to_owned(),
                &[false, false],
            ),
            // No product.
            (format!("{head}p = einsum f32 (s: 20, n: 40 | k: 30) max x[s, k] * w[n, k]\nreturn p\n"), &[false, false]),
        ] {
            let tasks = one_row(&lines);
            let packing = Packing::of(&tasks);
            let found: Vec<bool> = (0..packed.len()).map(|n| packing.is_packed(TaskId(n as u32))).collect();
            assert_eq!(found, packed, "{lines}");
        }
    }
}
