//! What a computation is measured on: the same numbers here and in the scripts of `peers/`.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use einsummable::models::sentence;
use einsummable::synthetic::SyntheticWeights;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Words of the shortest sentence of a batch, of the longest's 40.
const SHORTEST: (usize, usize) = (8, 40);

/// The values of every tensor that is given, and, for the texts of an encoder, their ids and masks as the other side
/// takes them.
pub struct Given {
    /// Inputs and state by name.
    pub tensors: BTreeMap<String, Dense>,
    /// `ids` and `mask`, flat, with `batch` and `sequence`; null where the computation reads no texts.
    pub texts: Value,
}

/// Values of the inputs and the state of a graph, functions of their names and sizes alone.
pub fn given(graph: &Graph, seed: SyntheticWeights) -> Given {
    let (mut tensors, mut texts) = (BTreeMap::new(), Value::Null);
    let ids = graph.find(sentence::IDS).filter(|&id| graph.ty(id).shape.len() == 2);
    let padded = ids.zip(graph.find(sentence::MASK));
    for id in [InputKind::Input, InputKind::State].into_iter().flat_map(|kind| graph.inputs(kind)) {
        let node = graph.node(id);
        let value = if padded.is_some_and(|(_, mask)| mask == id) {
            mask(&node.ty)
        } else if node.ty.dtype.is_float() {
            floats(&node.name, &node.ty, seed)
        } else {
            integers(&node.name, &node.ty, rows(graph, id), seed)
        };
        tensors.insert(node.name.clone(), value);
    }
    if let Some((ids, _)) = padded {
        let &[batch, sequence] = graph.ty(ids).shape.as_slice() else { unreachable!("two axes") };
        let kept: Vec<u8> = (0..batch * sequence).map(|n| u8::from(is_kept(batch, sequence, n))).collect();
        let ids: Vec<i64> = tensors[sentence::IDS].to_f64().iter().map(|&v| v as i64).collect();
        texts = json!({ "batch": batch, "sequence": sequence, "ids": ids, "mask": kept });
    }
    Given { tensors, texts }
}

/// Whether place `n` of a batch of texts is a token: texts have as many as sentences of 8 to 40 words, evenly, the last
/// one all of them.
fn is_kept(batch: usize, sequence: usize, n: usize) -> bool {
    let (row, place) = (n / sequence, n % sequence);
    let (shortest, longest) = SHORTEST;
    let words = shortest + (longest - shortest) * (row + 1) / batch;
    place < (sequence * words).div_ceil(longest)
}

/// Zero for tokens, minus infinity for padding: `[batch, 1, 1, sequence]`.
fn mask(ty: &TensorType) -> Dense {
    let (batch, sequence) = (ty.shape[0], ty.elements() / ty.shape[0]);
    let value = |n| if is_kept(batch, sequence, n) { 0.0 } else { f64::NEG_INFINITY };
    Dense::from_f64(ty.dtype, ty.shape.clone(), &(0..ty.elements()).map(value).collect::<Vec<_>>())
}

/// A variance of one, whatever the shape.
fn floats(name: &str, ty: &TensorType, seed: SyntheticWeights) -> Dense {
    // Elements of a column are weights of rows of one element.
    let column = TensorType::new(ty.dtype, [ty.elements(), 1]);
    Dense { shape: ty.shape.clone(), ..seed.region(name, &column, &column.whole()) }
}

/// Numbers of `0..rows`.
fn integers(name: &str, ty: &TensorType, rows: usize, seed: SyntheticWeights) -> Dense {
    let value = |u: f64| ((0.5 * (u + 1.0) * rows as f64) as usize).min(rows - 1) as f64;
    let values: Vec<f64> = uniform(name, ty.elements(), seed).map(value).collect();
    Dense::from_f64(ty.dtype, ty.shape.clone(), &values)
}

/// Numbers of `-1..1`: what weights of one column are, scaled back.
fn uniform(name: &str, count: usize, seed: SyntheticWeights) -> impl Iterator<Item = f64> {
    let column = TensorType::new(DType::F64, [count, 1]);
    let values = seed.region(name, &column, &Region::whole(&[count, 1]));
    values.to_f64().into_iter().map(|v| v / 3.0_f64.sqrt())
}

/// Rows of the smallest table that ids of an input choose from; 1 where they choose from none.
fn rows(graph: &Graph, ids: TensorId) -> usize {
    let table = |n: &ein_ir::graph::Node| {
        let spec = n.op.spec(&n.inputs.iter().map(|&i| graph.ty(i).dtype).collect::<Vec<_>>())?;
        let tables = n.inputs.iter().zip(&spec.operands).filter(|(_, operand)| operand.by_index);
        tables.filter_map(|(&table, _)| graph.ty(table).shape.first().copied()).min()
    };
    graph.nodes().iter().filter(|n| n.inputs.contains(&ids)).filter_map(table).min().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use einsummable::workloads::workload;

    #[test]
    fn values_are_those_of_the_scripts() {
        // The first numbers of `values.given("x", 2, 3)` in peers/values.py.
        let ty = TensorType::new(DType::F32, [2, 3]);
        let values = floats("x", &ty, SyntheticWeights::new(0)).to_f64();
        let first = [FIRST[0], FIRST[1], FIRST[2]];
        assert!(values.iter().zip(first).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-6), "{values:?}");
    }

    const FIRST: [f64; 3] = [-0.609_768, 0.874_664, 0.386_037];

    #[test]
    fn ids_are_rows_of_their_table_and_state_is_given() {
        let values = given(&workload("llama-7b:1x8").unwrap(), SyntheticWeights::new(0)).tensors;
        assert!(values["input_ids"].to_f64().iter().all(|&id| (0.0..32000.0).contains(&id)));
        let graph = workload("block:decode=2x4,16,2,2,24").unwrap();
        let values = given(&graph, SyntheticWeights::new(0)).tensors;
        assert_eq!(values.keys().collect::<Vec<_>>(), ["past.0.keys", "past.0.values", "x"]);
        assert!(given(&graph, SyntheticWeights::new(0)).texts.is_null());
    }

    #[test]
    fn texts_are_as_long_as_sentences() {
        let kept = |batch: usize, sequence: usize| -> Vec<usize> {
            (0..batch).map(|b| (0..sequence).filter(|s| is_kept(batch, sequence, b * sequence + s)).count()).collect()
        };
        assert_eq!(kept(4, 40), [16, 24, 32, 40]);
        assert_eq!(kept(1, 7), [7]);
        assert_eq!(kept(3, 1), [1, 1, 1]);
    }
}
