//! Products of matrices as the library does them, one element after the other.

use ein_cuda::program::{Matmul, Matrix};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;

/// All elements from a matrix's place to the end of its memory.
fn elements(m: &Matrix, bytes: &[u8]) -> Vec<f64> {
    let bytes = &bytes[m.place.offset as usize..];
    let size = m.dtype.bytes();
    let count = bytes.len() / size;
    let ty = TensorType::new(m.dtype, vec![count]);
    Dense::from_le_bytes(&ty, &bytes[..count * size]).expect("the right number of bytes").to_f64()
}

/// The Gaussian error linear unit as the library has it.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh())
}

/// Does a product: `a`, `b`, `add`, `bias` and `c` are the memories that the places are in.
///
/// Fails where the library would not take it: types that do not go together, leading dimensions below a row's length.
pub fn multiply(m: &Matmul, a: &[u8], b: &[u8], add: &[u8], bias: &[u8], c: &mut [u8]) {
    assert_eq!(m.a.dtype, m.b.dtype, "the factors have one type");
    let mixed = m.c.dtype == DType::F32 && matches!(m.a.dtype, DType::BF16 | DType::F16);
    assert!(m.a.dtype == m.c.dtype || mixed, "{} times {} gives no {}", m.a.dtype, m.b.dtype, m.c.dtype);
    assert!(m.a.dtype.is_float(), "the library multiplies floats");
    assert!(!m.c.transposed, "results are not transposed");
    assert!(m.batch <= 1 << 15, "{} products in one call", m.batch);
    let epilogue = m.epilogue;
    if let Some(place) = epilogue.bias {
        assert!(place.offset.is_multiple_of(16) && m.c.dtype != DType::F64, "{} at {place:?} is added", m.c.dtype);
    }
    assert!(!epilogue.gelu || m.c.dtype != DType::F64, "the library knows no function of f64");
    let added = epilogue.add.unwrap_or(m.c);
    assert!(added.dtype == m.c.dtype && !added.transposed, "what is added is as the result: {added:?}");
    for (matrix, rows, columns) in [(&m.a, m.m, m.k), (&m.b, m.k, m.n), (&added, m.m, m.n), (&m.c, m.m, m.n)] {
        let length = if matrix.transposed { rows } else { columns };
        assert!(matrix.stride >= length.max(1), "{matrix:?} of {rows} by {columns}");
        assert_eq!(matrix.place.offset % matrix.dtype.bytes() as u64, 0, "{matrix:?}");
    }
    let (left, right) = (elements(&m.a, a), elements(&m.b, b));
    let at = |x: &Matrix, batch: u64, row: u64, column: u64| {
        let (row, column) = if x.transposed { (column, row) } else { (row, column) };
        (batch * x.batch_stride + row * x.stride + column) as usize
    };
    let bias = epilogue.bias.map_or_else(|| vec![0.0; m.n as usize], |place| elements(&Matrix { place, ..m.c }, bias));
    let add = epilogue.add.map(|matrix| elements(&matrix, add));
    let size = m.c.dtype.bytes();
    for batch in 0..m.batch {
        for i in 0..m.m {
            for j in 0..m.n {
                let term = |k| left[at(&m.a, batch, i, k)] * right[at(&m.b, batch, k, j)];
                let more = add.as_ref().map_or(0.0, |add| add[at(&added, batch, i, j)]);
                let sum: f64 = (0..m.k).map(term).sum::<f64>() + more + bias[j as usize];
                let sum = if epilogue.gelu { gelu(sum) } else { sum };
                let sum = ein_ir::scalar::round(sum, m.c.dtype);
                let one = Dense::from_f64(m.c.dtype, [1], &[sum]).to_le_bytes();
                let place = m.c.place.offset as usize + at(&m.c, batch, i, j) * size;
                c[place..place + size].copy_from_slice(&one);
            }
        }
    }
}
