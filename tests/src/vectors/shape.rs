//! Views.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let int = |name: &str| args.int(name);
    let ints = |name: &str| args.ints(name);
    let all: Vec<&Tensor> = x.iter().collect();
    Some(vec![match operation {
        "reshape" => x[0].reshape(&ints("shape")),
        "view" => x[0].view(&ints("shape")),
        "flatten" => x[0].flatten(int("start"), int("end")),
        "permute" => x[0].permute(&ints("axes")),
        "transpose" => x[0].transpose(int("a"), int("b")),
        "t" => x[0].t(),
        "unsqueeze" => x[0].unsqueeze(int("axis")),
        "squeeze" => x[0].squeeze(&ints("axes")),
        "expand" => x[0].expand(&ints("shape")),
        "narrow" => x[0].narrow(int("axis"), args.size("start"), args.size("length")),
        "slice" => x[0].slice(int("axis"), int("start"), int("end"), args.size("step")),
        "select" => x[0].select(int("axis"), int("index")),
        "flip" => x[0].flip(&ints("axes")),
        "cat" => Tensor::cat(&all, int("axis")),
        "stack" => Tensor::stack(&all, int("axis")),
        "pad" => {
            let padding: Vec<(i64, i64)> = ints("padding").chunks(2).map(|pair| (pair[0], pair[1])).collect();
            x[0].pad(&padding, args.number("value"))
        }
        "roll" => x[0].roll(&ints("shifts"), &ints("axes")),
        _ => return None,
    }])
}
