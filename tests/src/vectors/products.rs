//! Products by other names than `matmul` and `einsum`.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let (beta, alpha) = (|| args.number("beta"), || args.number("alpha"));
    Some(vec![match operation {
        "bmm" => x[0].bmm(&x[1]),
        "mm" => x[0].mm(&x[1]),
        "mv" => x[0].mv(&x[1]),
        "dot" => x[0].dot(&x[1]),
        "vecdot" => x[0].vecdot(&x[1], args.int("axis")),
        "outer" => x[0].outer(&x[1]),
        "inner" => x[0].inner(&x[1]),
        "tensordot" => x[0].tensordot(&x[1], &args.ints("own"), &args.ints("others")),
        "addmm" => x[0].addmm(&x[1], &x[2], beta(), alpha()),
        "addmv" => x[0].addmv(&x[1], &x[2], beta(), alpha()),
        "addr" => x[0].addr(&x[1], &x[2], beta(), alpha()),
        "baddbmm" => x[0].baddbmm(&x[1], &x[2], beta(), alpha()),
        "addbmm" => x[0].addbmm(&x[1], &x[2], beta(), alpha()),
        "linear" => x[0].linear(&x[1], x.get(2)),
        "bilinear" => x[0].bilinear(&x[1], &x[2], x.get(3)),
        "multi_dot" => Tensor::multi_dot(&x.iter().collect::<Vec<_>>()),
        "matrix_power" => x[0].matrix_power(u32::try_from(args.size("exponent")).expect("small")),
        "kron" => x[0].kron(&x[1]),
        "cross" => x[0].cross(&x[1], args.int("axis")),
        "cdist" => x[0].cdist(&x[1], args.number("p")),
        _ => return None,
    }])
}
