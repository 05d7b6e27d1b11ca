//! The dense reference: what every operation means, written to be read and to be right.
//!
//! [`block`] computes an operation on a region of its label space, [`combine`] folds pending results and
//! [`finish`] ends them; [`run`] computes a whole graph on one device with the same code, so whole and
//! part cannot disagree about a meaning.
//!
//! **Accumulation.** Every fold of floats is done in `f64`, in row-major order of the folded labels, and
//! rounded once when it is stored (16-bit types by way of `f32`). Sums of integers, and of floats that are
//! integers below 2⁵³, are therefore exact, whatever the decomposition, as long as the stored type can
//! hold them. Integers wrap. Partials that are stored are folded in the accumulator's type.

mod einsum;
mod fold;
mod view;

pub(crate) use fold::{Column, next_state, plain, scale};
pub use fold::{combine, finish, identity};
pub use view::{view, view_as};

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::dense::Dense;
use crate::graph::{Graph, TensorId, TensorType};
use crate::monoid::{Form, Monoid};
use crate::op::Op;
use crate::region::{Region, offset, strides};

/// A box of an operand.
#[derive(Clone, Debug)]
pub struct Operand<'a> {
    /// The elements; its shape is the region's.
    pub data: &'a Dense,
    /// Which box of the operand they are.
    pub region: Region,
}

/// Why something could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An input is not given.
    #[error("input `{name}` is not given; it is {expected}")]
    Missing {
        /// The input.
        name: String,
        /// Its type.
        expected: TensorType,
    },
    /// An input has another type or shape.
    #[error("`{name}` is {found}, but {expected} is expected")]
    Type {
        /// The tensor.
        name: String,
        /// What is given.
        found: TensorType,
        /// What would work.
        expected: TensorType,
    },
    /// An id names no row of a table.
    #[error("`{operation}`: id {id} is outside 0..{rows}, the rows of its table")]
    Index {
        /// The operation: the graph node's name where it is known.
        operation: String,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    },
    /// A block was not given what it reads.
    #[error("a block of {operation} over {labels} reads {needs} of operand {operand}, but {has}")]
    Operand {
        /// The operation.
        operation: &'static str,
        /// Region of label space.
        labels: String,
        /// Which operand.
        operand: usize,
        /// The region read.
        needs: String,
        /// What is there.
        has: String,
    },
    /// An operation that does not compute was asked for a block.
    #[error("{operation} computes nothing, so it has no blocks")]
    NoKernel {
        /// The operation.
        operation: &'static str,
    },
    /// A result depends on a tensor whose value is not given.
    #[error("the value of `{name}` is not given")]
    Source {
        /// The tensor.
        name: String,
    },
}

/// Evaluates an einsum or a kernel on a region of its label space: one tensor for each field of `form`,
/// of the shape of the result's region on the field's axes.
///
/// `form` is the pending form when `finish` is false, else [`Form::finished`]. Operands may cover more than
/// is read, and may be `None` where nothing is: the result is then the monoid's identity. Expressions see
/// global label indices. A gather over rows `[lo, hi)` contributes only the ids inside; an id outside the
/// whole table is an error in every block that sees it.
pub fn block(
    op: &Op,
    labels: &Region,
    operands: &[Option<Operand>],
    form: &Form,
    finish: bool,
) -> Result<Vec<Dense>, EvalError> {
    let operation = match op {
        Op::Input(_) => return Err(EvalError::NoKernel { operation: "input" }),
        Op::View(v) => return Err(EvalError::NoKernel { operation: v.name() }),
        Op::Einsum(_) => "einsum",
        Op::Kernel(kernel) => kernel.name(),
    };
    let dtypes: Vec<_> =
        operands.iter().map(|o| o.as_ref().map_or(crate::dtype::DType::F32, |o| o.data.dtype())).collect();
    let spec = op.spec(&dtypes).expect("einsums and kernels have a spec");
    let needs: Vec<Region> = (0..spec.operands.len()).map(|n| spec.operand_region(n, labels)).collect();
    // Nothing is read where the block is empty or an operand has nothing to give: no key is visible.
    let idle = labels.is_empty() || needs.iter().any(Region::is_empty);
    for (operand, region) in needs.iter().enumerate() {
        let has = operands.get(operand).and_then(Option::as_ref);
        if !idle && !has.is_some_and(|o| o.region.contains(region)) {
            return Err(EvalError::Operand {
                operation,
                labels: labels.to_string(),
                operand,
                needs: region.to_string(),
                has: has.map_or("it is not given".into(), |o| format!("{} is given", o.region)),
            });
        }
    }
    let result = spec.result_region(labels);
    let columns = match op {
        Op::Einsum(e) => einsum::block(e, labels, operands, idle),
        Op::Kernel(kernel) => kernel.block(labels, operands, idle)?,
        Op::Input(_) | Op::View(_) => Vec::new(),
    };
    let columns = if finish { vec![fold::finish_columns(spec.monoid, columns)] } else { columns };
    assert_eq!(columns.len(), form.fields.len(), "{operation}: a form for what is asked");
    let store = |(column, field): (Column, &crate::monoid::Field)| {
        let shape: Vec<usize> = field.axes.iter().map(|&a| result.0[a].len()).collect();
        column.store(field.dtype, shape)
    };
    Ok(columns.into_iter().zip(&form.fields).map(store).collect())
}

/// The id that stands at a point of some ids, if it names one of `rows`.
pub(crate) fn checked_id(ids: &Operand, point: &[usize], operation: &str, rows: usize) -> Result<usize, EvalError> {
    let steps = strides(&ids.region.shape());
    let id = ids.data.scalar(offset(point, &ids.region.0, &steps)).to_i64();
    let named = usize::try_from(id).ok().filter(|&id| id < rows);
    named.ok_or_else(|| EvalError::Index { operation: operation.into(), id, rows })
}

/// Computes a graph from its inputs by name: the outputs by name. Inputs that no output needs may be
/// missing; names that are no input are ignored.
pub fn run(graph: &Graph, inputs: &BTreeMap<String, Dense>) -> Result<BTreeMap<String, Dense>, EvalError> {
    let mut uses = uses(graph);
    let mut values: Vec<Option<Cow<Dense>>> = vec![None; graph.nodes().len()];
    for id in graph.ids() {
        let node = graph.node(id);
        if let Op::Input(_) = node.op {
            match inputs.get(&node.name) {
                Some(value) => {
                    check(&node.name, value, &node.ty)?;
                    values[id.index()] = Some(Cow::Borrowed(value));
                }
                None if uses[id.index()] > 0 => {
                    return Err(EvalError::Missing { name: node.name.clone(), expected: node.ty.clone() });
                }
                None => {}
            }
            continue;
        }
        if uses[id.index()] == 0 {
            continue;
        }
        let operands: Vec<&Dense> =
            node.inputs.iter().map(|i| values[i.index()].as_deref().expect("an earlier row that is used")).collect();
        let value = compute(graph, id, &operands)?;
        values[id.index()] = Some(Cow::Owned(value));
        for i in &node.inputs {
            uses[i.index()] -= 1;
            if uses[i.index()] == 0 {
                values[i.index()] = None;
            }
        }
    }
    let mut results = BTreeMap::new();
    for (name, id) in graph.outputs() {
        let value = values[id.index()].as_deref().expect("outputs are kept");
        results.insert(name.clone(), value.clone());
    }
    Ok(results)
}

/// The outputs by name, given the finished values of the tensors that they reach through views only:
/// inputs and results of operations that compute.
pub fn run_from(graph: &Graph, sources: &BTreeMap<TensorId, Dense>) -> Result<BTreeMap<String, Dense>, EvalError> {
    let mut made: BTreeMap<TensorId, Dense> = BTreeMap::new();
    for (_, output) in graph.outputs() {
        // The views between the output and the given tensors, each after the ones it reads.
        let mut pending = vec![*output];
        while let Some(&id) = pending.last() {
            if made.contains_key(&id) {
                pending.pop();
                continue;
            }
            let node = graph.node(id);
            if let Some(value) = sources.get(&id) {
                check(&node.name, value, &node.ty)?;
                made.insert(id, value.clone());
                continue;
            }
            if !matches!(node.op, Op::View(_)) {
                return Err(EvalError::Source { name: node.name.clone() });
            }
            let missing: Vec<TensorId> = node.inputs.iter().copied().filter(|i| !made.contains_key(i)).collect();
            if missing.is_empty() {
                let operands: Vec<&Dense> = node.inputs.iter().map(|i| &made[i]).collect();
                let value = compute(graph, id, &operands)?;
                made.insert(id, value);
            } else {
                pending.extend(missing);
            }
        }
    }
    Ok(graph.outputs().iter().map(|(name, id)| (name.clone(), made[id].clone())).collect())
}

/// How many rows and outputs read each row, counting only rows that an output needs.
fn uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes().len()];
    for (_, id) in graph.outputs() {
        uses[id.index()] += 1;
    }
    for id in graph.ids().rev() {
        if uses[id.index()] > 0 {
            for i in &graph.node(id).inputs {
                uses[i.index()] += 1;
            }
        }
    }
    uses
}

fn check(name: &str, value: &Dense, expected: &TensorType) -> Result<(), EvalError> {
    let found = value.ty();
    if found == *expected && value.len() == expected.elements() {
        return Ok(());
    }
    Err(EvalError::Type { name: name.into(), found, expected: expected.clone() })
}

/// One row, whole.
fn compute(graph: &Graph, id: TensorId, operands: &[&Dense]) -> Result<Dense, EvalError> {
    let node = graph.node(id);
    let whole = |d: &Dense| Region::whole(&d.shape);
    if let Op::View(v) = &node.op {
        let shapes: Vec<&[usize]> = operands.iter().map(|d| d.shape.as_slice()).collect();
        let sources: Vec<(usize, Region, &Dense)> =
            operands.iter().enumerate().map(|(n, &d)| (n, whole(d), d)).collect();
        return Ok(view_as(node.ty.dtype, v, &shapes, &node.ty.whole(), &sources));
    }
    let spec = graph.spec(id).ok_or(EvalError::NoKernel { operation: "input" })?;
    let form = Form::finished(node.ty.dtype, node.ty.shape.len());
    let operands: Vec<Option<Operand>> =
        operands.iter().map(|&data| Some(Operand { data, region: whole(data) })).collect();
    let mut fields = block(&node.op, &spec.space(), &operands, &form, true).map_err(|e| match e {
        EvalError::Index { id, rows, .. } => EvalError::Index { operation: node.name.clone(), id, rows },
        other => other,
    })?;
    Ok(fields.remove(0))
}

/// The finished value of one operation done in blocks: every block pending, folded in the order given, or that of
/// the axis where the monoid is ordered, and finished. What a plan must equal.
pub fn assemble(
    op: &Op,
    operands: &[&Dense],
    blocks: &[Region],
    result: &TensorType,
    wide: bool,
) -> Result<Dense, EvalError> {
    let dtypes: Vec<_> = operands.iter().map(|d| d.dtype()).collect();
    let spec = op.spec(&dtypes).ok_or(EvalError::NoKernel { operation: "view" })?;
    let pending = spec.monoid.pending(result.dtype, result.shape.len(), wide);
    let mut parts: BTreeMap<Region, Vec<(usize, Vec<Dense>)>> = BTreeMap::new();
    for (n, labels) in blocks.iter().enumerate() {
        let cut = |(n, data): (usize, &&Dense)| {
            let region = spec.operand_region(n, labels);
            (!region.is_empty()).then(|| (data.cut(&Region::whole(&data.shape), &region), region))
        };
        let cuts: Vec<Option<(Dense, Region)>> = operands.iter().enumerate().map(cut).collect();
        let given: Vec<Option<Operand>> =
            cuts.iter().map(|c| c.as_ref().map(|(data, region)| Operand { data, region: region.clone() })).collect();
        let fields = block(op, labels, &given, &pending, false)?;
        let place = spec.place(labels).map_or(n, |i| i.lo);
        parts.entry(spec.result_region(labels)).or_default().push((place, fields));
    }
    // Blocks may write boxes that overlap without being equal: fold atom by atom.
    let whole = result.whole();
    let mut atoms = vec![whole.clone()];
    for region in parts.keys() {
        atoms = atoms
            .iter()
            .flat_map(|a| a.intersect(region).into_iter().chain(a.subtract(region)).collect::<Vec<_>>())
            .collect();
    }
    let mut finished = Vec::new();
    for atom in &atoms {
        let mut own: Vec<(usize, Vec<Dense>)> = Vec::new();
        for (region, several) in &parts {
            if !region.contains(atom) {
                continue;
            }
            for (place, fields) in several {
                let cut = |(field, data): (&crate::monoid::Field, &Dense)| {
                    data.cut(&region.project(&field.axes), &atom.project(&field.axes))
                };
                own.push((*place, pending.fields.iter().zip(fields).map(cut).collect()));
            }
        }
        own.sort_by_key(|part| part.0);
        let own: Vec<Vec<Dense>> = own.into_iter().map(|part| part.1).collect();
        finished.push(finish(spec.monoid, combine(spec.monoid, &own, &pending), result.dtype));
    }
    let pieces: Vec<(&Region, &Dense)> = atoms.iter().zip(&finished).collect();
    Ok(Dense::paste(result.dtype, &whole, &pieces))
}

/// The empty fold of a monoid whose partials are of a form: what a device with no block contributes.
pub fn empty(monoid: Monoid, form: &Form, region: &Region) -> Vec<Dense> {
    form.fields
        .iter()
        .map(|f| Dense::full(f.dtype, region.project(&f.axes).shape(), identity(monoid, f.name, f.dtype)))
        .collect()
}
