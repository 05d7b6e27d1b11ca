//! From tensors to a graph: what the outputs need, in the order in which it was written, simplified.

use crate::tensor::{Made, Tensor, TensorError};
use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::simplify::simplify;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A graph, and the values of the constants among its parameters.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// The graph.
    pub graph: Graph,
    /// Constants by the name of their parameter.
    pub constants: BTreeMap<String, Arc<Dense>>,
}

/// The graph of some outputs, each under a name.
///
/// The graph is simplified ([`ein_ir::simplify`]): views become labels, and elementwise operations with one
/// reader that is elementwise or a reduction itself become part of it. What is written as
/// `(x + bias).gelu()` is one row. Products and statistics stay apart, for there a decomposition may change.
pub fn trace(outputs: &[(&str, &Tensor)]) -> Result<Traced, TensorError> {
    let tensors = collect(outputs)?;
    let mut traced = Traced::default();
    let mut ids: BTreeMap<u64, TensorId> = BTreeMap::new();
    let mut externals: BTreeMap<&str, &Tensor> = BTreeMap::new();
    for tensor in tensors.iter().filter(|t| t.made().is_ok_and(|m| matches!(m.op, Op::Input(_)))) {
        externals.entry(tensor.explicit_name().unwrap_or("input")).or_insert(tensor);
    }
    // Names of inputs are the user's; others give way to them.
    let mut taken: BTreeSet<String> = externals.keys().map(|&n| n.to_owned()).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tensor in &tensors {
        let made = tensor.made()?;
        let inputs: Vec<TensorId> = made.inputs.iter().map(|t| ids[&t.serial()]).collect();
        let base = tensor.explicit_name().unwrap_or(made.method);
        let mut name = || unique(base, &mut taken, &mut counts);
        let id = match &made.op {
            Op::Input(kind) => {
                let first = externals[base];
                check_same(base, first.made()?, made)?;
                match ids.get(&first.serial()) {
                    Some(&id) => id,
                    None => traced.graph.input(base, *kind, made.ty.clone())?,
                }
            }
            Op::Einsum(e) => traced.graph.einsum(&name(), e.clone(), &inputs)?,
            Op::View(v) => traced.graph.view(&name(), v.clone(), &inputs)?,
            Op::Kernel(k) => traced.graph.kernel(&name(), k.clone(), &inputs)?,
        };
        if let Some(data) = &made.data {
            traced.constants.insert(base.to_owned(), data.clone());
        }
        ids.insert(tensor.serial(), id);
    }
    for (name, tensor) in outputs {
        traced.graph.output(name, ids[&tensor.serial()])?;
    }
    traced.graph = simplify(&traced.graph);
    Ok(traced)
}

/// Inputs of one name are one row and so must be equal.
fn check_same(name: &str, first: &Made, second: &Made) -> Result<(), TensorError> {
    // By bytes, for a NaN is not equal to itself.
    let same_data = match (&first.data, &second.data) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.to_le_bytes() == b.to_le_bytes(),
        (None, Some(_)) | (Some(_), None) => false,
    };
    if first.op == second.op && first.ty == second.ty && same_data {
        return Ok(());
    }
    Err(TensorError::Input { name: name.into(), first: first.ty.clone(), second: second.ty.clone() })
}

/// `base`, or `base_2`, `base_3`, … if it is taken.
fn unique(base: &str, taken: &mut BTreeSet<String>, counts: &mut BTreeMap<String, usize>) -> String {
    if taken.insert(base.to_owned()) {
        counts.insert(base.to_owned(), 1);
        return base.to_owned();
    }
    loop {
        let count = counts.entry(base.to_owned()).or_insert(1);
        *count += 1;
        let name = format!("{base}_{count}");
        if taken.insert(name.clone()) {
            return name;
        }
    }
}

/// Every tensor that the outputs need, in creation order. The first error met in that order is returned.
fn collect(outputs: &[(&str, &Tensor)]) -> Result<Vec<Tensor>, TensorError> {
    let mut seen: BTreeMap<u64, Tensor> = BTreeMap::new();
    let mut stack: Vec<Tensor> = outputs.iter().map(|(_, t)| (*t).clone()).collect();
    while let Some(tensor) = stack.pop() {
        if seen.contains_key(&tensor.serial()) {
            continue;
        }
        if let Ok(made) = tensor.made() {
            stack.extend(made.inputs.iter().cloned());
        }
        seen.insert(tensor.serial(), tensor);
    }
    let tensors: Vec<Tensor> = seen.into_values().collect();
    for tensor in &tensors {
        tensor.check()?;
    }
    Ok(tensors)
}
