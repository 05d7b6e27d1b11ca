//! Views.

use super::{Draw, Drawn, Operation};

fn permute(d: &mut Draw) -> Drawn {
    let shape = d.any_shape(0);
    let rank = shape.len();
    let dtype = d.any();
    let axes: Vec<i64> = d.rng.shuffled((0..rank as i64).collect());
    let axes: Vec<i64> = axes.into_iter().map(|a| d.signed(a, rank)).collect();
    Drawn::exactly(d.input(&shape, dtype).permute(&axes))
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "permute", draw: permute }]
}
