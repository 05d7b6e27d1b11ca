//! Products: `matmul` and `einsum`.

use super::{Draw, Drawn, Operation};

fn matmul(d: &mut Draw) -> Drawn {
    let (m, k, n) = (d.extent(), d.extent(), d.extent());
    let dtype = d.number();
    let (a, b) = (d.input(&[m, k], dtype), d.input(&[k, n], dtype));
    let within = d.sums(dtype);
    Drawn::within(a.matmul(&b), within)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![Operation { name: "matmul", draw: matmul }]
}
