//! Attention and embedding.

use super::{Draw, Drawn, Operation};

fn embedding(d: &mut Draw) -> Drawn {
    let (rows, features) = (d.some(), d.extent());
    let dtype = d.float();
    let table = d.input(&[rows, features], dtype);
    let rank = d.rng.range(0, 2);
    let shape = d.shape(rank);
    let ids = d.indices(&shape, rows);
    Drawn::exactly(ids.embedding(&table))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "embedding", draw: embedding }]
}
