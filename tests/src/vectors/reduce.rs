//! Reductions over axes.

use super::Args;
use einsummable::Tensor;

/// Calls an operation.
pub fn apply(operation: &str, args: &Args, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let axes = if args.has("axes") { args.ints("axes") } else { vec![] };
    let keepdim = args.has("keepdim") && args.flag("keepdim");
    let correction = || args.number("correction");
    let both = |(a, b): (Tensor, Tensor)| Some(vec![a, b]);
    Some(vec![match operation {
        "sum" => x[0].sum(&axes, keepdim),
        "prod" => x[0].prod(&axes, keepdim),
        "amax" => x[0].amax(&axes, keepdim),
        "amin" => x[0].amin(&axes, keepdim),
        "mean" => x[0].mean(&axes, keepdim),
        "var" => x[0].var(&axes, correction(), keepdim),
        "std" => x[0].std(&axes, correction(), keepdim),
        "var_mean" => return both(x[0].var_mean(&axes, correction(), keepdim)),
        "std_mean" => return both(x[0].std_mean(&axes, correction(), keepdim)),
        "aminmax" => return both(x[0].aminmax(&axes, keepdim)),
        "nansum" => x[0].nansum(&axes, keepdim),
        "nanmean" => x[0].nanmean(&axes, keepdim),
        "count_nonzero" => x[0].count_nonzero(&axes),
        "norm" => x[0].norm(args.number("p"), &axes, keepdim),
        "logsumexp" => x[0].logsumexp(&axes, keepdim),
        "any" => x[0].any(&axes, keepdim),
        "all" => x[0].all(&axes, keepdim),
        _ => return None,
    }])
}
