//! In which order the axes of values lie, where that is not their own.
//!
//! A product of large matrices reads a factor as it lies if its rows and what is summed over are each one step apart. What
//! attention leaves, `[b, h, s, e]`, is summed over h and e: no matrix unless it lies as `[b, s, h, e]`. Attention stores
//! rows of e in any order at no cost, where a copy would read and write all of it once more; so where products alone read
//! it, on its own device, it lies as they want it.

use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::kernel::Kernel;
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_ir::region::strides;
use ein_task::task::{Source, Task, TaskGraph, TaskId, Verb};
use std::collections::BTreeMap;

/// Values whose axes lie in another order than their own: the axes, that of consecutive elements last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders(BTreeMap<TaskId, Vec<usize>>);

impl Orders {
    /// The orders of a task graph's values.
    pub fn of(graph: &TaskGraph) -> Self {
        let attends = |task: &Task| match task.verb {
            Verb::Kernel { op, finish: true, .. } => {
                matches!(graph.ops.get(op).map(|row| &row.op), Some(Op::Kernel(Kernel::Attention(_))))
            }
            _ => false,
        };
        let readers = graph.readers();
        let order = |(id, _): (TaskId, &Task)| {
            let mut all = readers[id.index()].iter().map(|&reader| wanted(graph, reader, id));
            let first = all.next()??;
            let lies = |axis: &usize| graph.task(id).value.region.0[*axis].len() > 1;
            let natural = first.iter().copied().filter(lies).is_sorted();
            (!natural && all.all(|other| other.as_ref() == Some(&first))).then_some((id, first))
        };
        Self(graph.rows().filter(|(_, task)| attends(task)).filter_map(order).collect())
    }

    /// The order of a row's value; `None` where it is that of its axes.
    pub fn get(&self, id: TaskId) -> Option<&[usize]> {
        self.0.get(&id).map(Vec::as_slice)
    }
}

/// The order in which a row wants a value that it reads: what both the value and the result have first, then what is summed
/// over, as the other factor has it. `None` where any will do, and where only the value's own.
fn wanted(graph: &TaskGraph, reader: TaskId, value: TaskId) -> Option<Vec<usize>> {
    let task = graph.task(reader);
    let (op, operands): (usize, Vec<Option<usize>>) = match &task.verb {
        Verb::Kernel { op, operands, .. } => (*op, operands.clone()),
        Verb::Fused { stages } => {
            let read = |s: &Option<Source>| match s {
                Some(Source::Read(n)) => Some(*n),
                Some(Source::Previous) | None => None,
            };
            let later = stages[1..].iter().flat_map(|s| &s.operands).filter_map(read);
            if later.into_iter().any(|n| task.reads[n] == value) {
                return None;
            }
            (stages[0].op, stages[0].operands.iter().map(read).collect())
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
    let Op::Einsum(e) = &graph.ops[op].op else { return None };
    let [left, right] = operands[..] else { return None };
    let (left, right) = (task.reads[left?], task.reads[right?]);
    if left == right || e.monoid != Monoid::Sum || !e.folds() {
        return None;
    }
    let (own, other, factor) = if left == value { (0, 1, right) } else { (1, 0, left) };
    let labels: Vec<usize> = e.accesses[own].axes.iter().map(Affine::as_label).collect::<Option<_>>()?;
    let beside = steps(e, &e.accesses[other], graph.task(factor));
    let mut order: Vec<usize> = (0..labels.len()).collect();
    // Sorting keeps the order of what is equal.
    order.sort_by_key(|&axis| {
        let label = labels[axis];
        if label < e.rank { (false, 0) } else { (true, -beside[label]) }
    });
    // Rows of consecutive elements stay what they are.
    (order.last() == labels.len().checked_sub(1).as_ref()).then_some(order)
}

/// How far an index of every label moves an operand, in elements of the value that holds it.
fn steps(e: &Einsum, access: &Access, value: &Task) -> Vec<i64> {
    let mut steps = vec![0; e.labels.len()];
    for (axis, stride) in access.axes.iter().zip(strides(&value.stored().shape())) {
        for &(label, scale) in &axis.terms {
            steps[label] += scale * stride as i64;
        }
    }
    steps
}
