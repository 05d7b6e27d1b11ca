//! Products of eight matrices, in orders and shapes that ask for different decompositions.

use super::WorkloadError;
use super::arguments::Arguments;
use crate::tensor::Tensor;
use ein_ir::dtype::DType;

/// The form of its arguments.
pub(super) const FORM: &str = "chain:bushy|left|right|zigzag|skewed|outer|inner|power,N[,DTYPE]";

/// The names of the matrices.
const NAMES: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];

/// The product of eight matrices:
///
/// * `bushy`: neighbours in pairs, then the pairs; `left`: from the first on; `right`: from the last on; `zigzag`: from the
///   middle, a matrix from the right and the left in turn. All N by N;
/// * `skewed`: from the first on, of sizes from N / 4 to 4 N;
/// * `outer`: bushy, N by N / 16 and N / 16 by N in turn, so that pairs are large products of little work; `inner`: the
///   other way round, so that pairs are small results of long sums;
/// * `power`: the eighth power of one N by N matrix, by squaring.
pub(super) fn chain(arguments: &Arguments, dtype: DType) -> Result<Tensor, WorkloadError> {
    let &[shape, n] = arguments.list.as_slice() else {
        return Err(arguments.wrong(format!("{} arguments, not 2", arguments.list.len())));
    };
    let n = arguments.size(n)?;
    // Sizes in sixteenths of N, at least 1: the rows of each matrix, then the columns of the last.
    let matrices = |sixteenths: [usize; 9]| -> Vec<Tensor> {
        let size = |at: usize| (n * sixteenths[at] / 16).max(1);
        NAMES.iter().enumerate().map(|(i, name)| Tensor::input(name, [size(i), size(i + 1)], dtype)).collect()
    };
    let square = || matrices([16; 9]);
    match shape {
        "bushy" => Ok(bushy(square())),
        "left" => Ok(left(square())),
        "right" => Ok(right(square())),
        "zigzag" => Ok(zigzag(&square())),
        "skewed" => Ok(left(matrices([16, 64, 4, 32, 8, 64, 16, 4, 16]))),
        "outer" => Ok(bushy(matrices([16, 1, 16, 1, 16, 1, 16, 1, 16]))),
        "inner" => Ok(bushy(matrices([1, 16, 1, 16, 1, 16, 1, 16, 1]))),
        "power" => {
            let a = Tensor::input("A", [n, n], dtype);
            Ok((0..3).fold(a, |power, _| power.matmul(&power)))
        }
        other => Err(arguments.wrong(format!("there is no chain `{other}`"))),
    }
}

fn bushy(mut level: Vec<Tensor>) -> Tensor {
    while level.len() > 1 {
        level = level.chunks(2).map(|pair| pair[0].matmul(&pair[1])).collect();
    }
    level.remove(0)
}

fn left(matrices: Vec<Tensor>) -> Tensor {
    matrices.into_iter().reduce(|product, next| product.matmul(&next)).expect("eight matrices")
}

fn right(matrices: Vec<Tensor>) -> Tensor {
    matrices.into_iter().rev().reduce(|product, next| next.matmul(&product)).expect("eight matrices")
}

fn zigzag(matrices: &[Tensor]) -> Tensor {
    let middle = matrices.len() / 2;
    let mut product = matrices[middle - 1].matmul(&matrices[middle]);
    for step in 1..middle {
        product = product.matmul(&matrices[middle + step]);
        product = matrices[middle - 1 - step].matmul(&product);
    }
    product
}
