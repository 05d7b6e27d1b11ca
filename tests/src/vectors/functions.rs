//! Functions of one tensor's elements.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let given = |name: &str| args.has(name).then(|| args.number(name));
    Some(vec![match operation {
        "exp2" => x[0].exp2(),
        "expm1" => x[0].expm1(),
        "log2" => x[0].log2(),
        "log10" => x[0].log10(),
        "log1p" => x[0].log1p(),
        "tan" => x[0].tan(),
        "asin" => x[0].asin(),
        "acos" => x[0].acos(),
        "atan" => x[0].atan(),
        "sinh" => x[0].sinh(),
        "cosh" => x[0].cosh(),
        "asinh" => x[0].asinh(),
        "acosh" => x[0].acosh(),
        "atanh" => x[0].atanh(),
        "erfc" => x[0].erfc(),
        "erfinv" => x[0].erfinv(),
        "deg2rad" => x[0].deg2rad(),
        "rad2deg" => x[0].rad2deg(),
        "floor" => x[0].floor(),
        "ceil" => x[0].ceil(),
        "round" => x[0].round(),
        "trunc" => x[0].trunc(),
        "frac" => x[0].frac(),
        "round_decimals" => x[0].round_decimals(i32::try_from(args.int("decimals")).expect("few")),
        "logit" => x[0].logit(given("eps")),
        "isnan" => x[0].isnan(),
        "isinf" => x[0].isinf(),
        "isposinf" => x[0].isposinf(),
        "isneginf" => x[0].isneginf(),
        "isfinite" => x[0].isfinite(),
        "signbit" => x[0].signbit(),
        "sign" => x[0].sign(),
        "sgn" => x[0].sgn(),
        "nan_to_num" => x[0].nan_to_num(args.number("nan"), given("posinf"), given("neginf")),
        "isclose" => x[0].isclose(&x[1], args.number("rtol"), args.number("atol"), args.flag("equal_nan")),
        _ => return None,
    }])
}
