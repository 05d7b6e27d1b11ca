//! From tensors to a graph: what the outputs need, in the order in which it was written, with chains of
//! maps made one.

use crate::fuse::{Draft, fuse};
use crate::tensor::{Tensor, TensorError};
use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
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
/// Elementwise operations that have one reader, which is elementwise or a reduction itself, become part of
/// it: what is written as `(x + bias).gelu()` is one row. Nothing else is merged, so that every place
/// where a decomposition could change stays visible to the planner.
pub fn trace(outputs: &[(&str, &Tensor)]) -> Result<Traced, TensorError> {
    let tensors = collect(outputs)?;
    let position: BTreeMap<u64, usize> = tensors.iter().enumerate().map(|(n, t)| (t.serial(), n)).collect();
    let mut drafts = Vec::new();
    let mut external: BTreeMap<&str, usize> = BTreeMap::new();
    // Inputs of one name are one row.
    let mut same: Vec<usize> = (0..tensors.len()).collect();
    for (n, tensor) in tensors.iter().enumerate() {
        let made = tensor.made()?;
        if let Op::Input(_) = made.op {
            let name = tensor.explicit_name().unwrap_or("input");
            let first = *external.entry(name).or_insert(n);
            let other = tensors[first].made()?;
            let equal_data = match (&made.data, &other.data) {
                (None, None) => true,
                (Some(a), Some(b)) => a == b,
                _ => false,
            };
            if other.op != made.op || other.ty != made.ty || !equal_data {
                let (first, second) = (other.ty.clone(), made.ty.clone());
                return Err(TensorError::Input { name: name.into(), first, second });
            }
            same[n] = first;
        }
        drafts.push(Draft {
            op: made.op.clone(),
            inputs: made.inputs.iter().map(|t| same[position[&t.serial()]]).collect(),
            name: tensor.explicit_name().map(str::to_owned),
            method: made.method,
        });
    }
    let results: Vec<usize> = outputs.iter().map(|(_, t)| same[position[&t.serial()]]).collect();
    let used = fuse(&mut drafts, &results);
    let mut traced = Traced::default();
    let mut ids: Vec<Option<TensorId>> = vec![None; drafts.len()];
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    // Names of inputs are the user's and come first.
    let mut taken: BTreeSet<String> = external.keys().map(|&n| n.to_owned()).collect();
    for (n, draft) in drafts.iter().enumerate().filter(|&(n, _)| used[n]) {
        let inputs: Vec<TensorId> = draft.inputs.iter().map(|&i| ids[i].expect("a used row reads used rows")).collect();
        let base = draft.name.as_deref().unwrap_or(draft.method);
        let id = match &draft.op {
            Op::Input(kind) => {
                let made = tensors[n].made()?;
                if let Some(data) = &made.data {
                    traced.constants.insert(base.to_owned(), data.clone());
                }
                traced.graph.input(base, *kind, made.ty.clone())?
            }
            Op::Einsum(e) => traced.graph.einsum(&unique(base, &mut taken, &mut counts), e.clone(), &inputs)?,
            Op::View(v) => traced.graph.view(&unique(base, &mut taken, &mut counts), v.clone(), &inputs)?,
            Op::Kernel(k) => traced.graph.kernel(&unique(base, &mut taken, &mut counts), k.clone(), &inputs)?,
        };
        ids[n] = Some(id);
    }
    for ((name, _), &row) in outputs.iter().zip(&results) {
        traced.graph.output(name, ids[row].expect("results are used"))?;
    }
    Ok(traced)
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
