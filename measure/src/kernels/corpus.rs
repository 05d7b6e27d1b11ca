//! Task graphs that between them have every kind of kernel at many types and sizes.

use crate::plan::graphs::graph;
use crate::plan::question::place;
use ein_cuda::generate;
use ein_cuda::program::{Step, Target};
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::kernel::{Attention, Kernel};
use ein_ir::monoid::{Form, Monoid, Top};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use ein_ir::text;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_task::machine::DeviceId;
use ein_task::task::{OpRow, Slot, Task, TaskGraph, Value, Verb};
use std::collections::{BTreeMap, BTreeSet};

/// Layers and models of published sizes, and the devices that they are planned for.
const WORKLOADS: [(&str, &[usize]); 12] = [
    ("llama-7b-block:1x4096,bf16", &[1, 8]),
    ("llama-7b-block:8x1024,bf16", &[1, 8]),
    ("llama-7b-block:1x4096,f32", &[1]),
    ("llama-70b-block:1x4096,bf16", &[1, 8]),
    ("llama-70b-block:packed=2048+1024+1024,bf16", &[1, 8]),
    ("llama-70b-block:decode=64x4096,bf16", &[1, 8]),
    ("llama-7b-block:decode=1x32768,f16", &[1, 8]),
    ("attention:1x1000,8,2,64,causal,f16", &[1, 3]),
    ("attention:2x300,6,3,72,f32", &[1]),
    ("conv:2,3,17x19,5,3,f32", &[1, 3]),
    ("conv:2,16,33x31,48,3,bf16", &[1]),
    ("ffnn:300,500,200,64,f32", &[1, 5]),
];

/// Operations at every type: `DT` is the type.
const OPERATIONS: &str = "\
x: input DT[37, 520]
y: input DT[520]
ids: input i64[37]
same: input i64[37, 520]
sum = einsum DT (i | j) sum x[i, j]
down = einsum DT (j | i) sum x[i, j]
largest = einsum DT (i | j) max x[i, j]
least = einsum DT (| i, j) min x[i, j]
product = einsum DT (i | j) prod x[i, j]
map = einsum DT (i: 37, j: 520) map max(x[i, j], y[j]) * y[j]
turned = permute x [1, 0]
across = einsum DT (j: 520, i: 37) map max(x[i, j], y[j])
along = gather_along(x, same) axis 1
cut = slice x [1:36, 3:400:2]
wide = pad x [1:2, 3:4] value 1
both = concat(x, x) axis 0
rolled = roll x [5, 7]
rows = gather(x, ids)
folded = scatter(x, ids) rows 50
best = scatter(x, ids) rows 50 max
running = scan(x) sum axis 1
before = scan(x) max
states = recurrence(x, x) axis 1
states_down = recurrence(x, x)
last = last_state(x, x) axis 1
last_down = last_state(x, x)
top = top(x) k 5
places = top(x) k 40 smallest indices
sorted = top(y) k 520
return sum
return down
return largest
return least
return product
return map
return turned
return across
return along
return cut
return wide
return both
return rolled
return rows
return folded
return best
return running
return before
return states
return states_down
return last
return last_down
return top
return places
return sorted
";

/// What only floats have.
const OF_FLOATS: &str = "\
x: input DT[37, 520]
w: input DT[520, 96]
many: input DT[37, 96, 520]
few: input DT[5, 520]
long: input DT[3, 40000]
tall: input DT[40000, 3]
q: input DT[2, 8, 100, 64]
k: input DT[2, 2, 100, 64]
r: input DT[1, 4, 33, 128]
odd: input DT[1, 2, 9, 21]
huge: input DT[1, 1, 3, 300]
large: input DT[1, 2, 70, 256]
mid: input DT[1, 2, 150, 96]
one: input DT[3, 8, 1, 128]
cache: input DT[3, 2, 2000, 128]
new: input DT[3, 2, 1, 128]
moments = einsum DT (i, s: 2 | j) moments x[i, j]
soft = einsum DT (i, s: 2 | j) softmax x[i, j]
logs = scan(x) logsumexp axis 1
matmul = einsum \"ij,jk->ik\" x w
batched = einsum \"ijk,kl->ijl\" many w
thin = einsum \"ij,kj->ik\" few x
parts = einsum DT (i | j) sum long[i, j]
down_parts = einsum DT (j | i) sum tall[i, j]
f = map exp(x) * erf(x) + sigmoid(x) * tanh(x) + rsqrt(x)
grouped = attention(q, k, k) causal
capped = attention(q, k, k) causal window 17 softcap 5.0
wide = attention(r, r, r)
strange = attention(odd, odd, odd)
general = attention(huge, huge, huge)
largest = attention(large, large, large) causal
middle = attention(mid, mid, mid)
owned = attention(mid, mid, mid, mid, mid) own
decoded = attention(one, cache, cache, new, new) own
return moments
return soft
return logs
return matmul
return batched
return thin
return parts
return down_parts
return f
return grouped
return capped
return wide
return strange
return general
return largest
return middle
return owned
return decoded
";

/// Whether kernels that are called or begin so are for architecture 90 alone.
pub(super) fn is_of_one(name: &str) -> bool {
    name.starts_with("attention_groups")
}

/// The kernels by name, and what could not be generated, or is not among them.
pub(super) fn kernels() -> (BTreeMap<String, String>, Vec<String>) {
    let (mut kernels, mut faults) = (BTreeMap::new(), Vec::new());
    let mut take = |name: &str, devices: usize, graph: Result<Graph, String>| {
        let tasks = graph.and_then(|graph| planned(&graph, devices));
        match tasks {
            Ok(tasks) => collect(name, &tasks, &mut kernels, &mut faults),
            Err(reason) => faults.push(format!("{name} on {devices} devices: {reason}")),
        }
    };
    for (name, counts) in WORKLOADS {
        for &devices in counts {
            take(name, devices, graph(name));
        }
    }
    for dtype in ["f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool"] {
        let mut texts = vec![OPERATIONS];
        if !["i64", "i32", "u8", "bool"].contains(&dtype) {
            texts.push(OF_FLOATS);
        }
        for text in texts {
            let text = text.replace("DT", dtype);
            // Sums and products of bools are none.
            let kept = |line: &&str| {
                let sums = ["sum", "down", "product", "map", "folded", "running"];
                let mut sums = sums.into_iter().chain(["states", "states_down", "last", "last_down"]);
                let named = |n: &str| line.starts_with(&format!("{n} =")) || *line == format!("return {n}");
                dtype != "bool" || !sums.any(named)
            };
            let text = text.lines().filter(kept).collect::<Vec<_>>().join("\n");
            take(dtype, 1, text::parse(&text).map_err(|e| e.to_string()));
        }
    }
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::I64, DType::U8] {
        collect("folds", &folds(dtype), &mut kernels, &mut faults);
    }
    kernels.extend([1, 2, 4, 8, 16].map(generate::stores).map(|k| (k.name.clone(), k.source.clone())));
    match unseen() {
        Ok(tasks) => collect("unseen", &tasks, &mut kernels, &mut faults),
        Err(reason) => faults.push(reason),
    }
    let kind = |name: &str| name.rsplit_once('_').map(|(kind, _)| kind.to_owned());
    let kinds: BTreeSet<String> = kernels.keys().filter_map(|name| kind(name)).collect();
    let unknown = kinds.iter().filter(|kind| !generate::KINDS.contains(&kind.as_str()));
    faults.extend(unknown.map(|kind| format!("`{kind}` is no kind of kernel that `generate::KINDS` knows")));
    let missing = generate::KINDS.into_iter().filter(|kind| !kinds.contains(*kind));
    faults.extend(missing.map(|kind| format!("no kernel of the corpus is of the kind `{kind}`")));
    (kernels, faults)
}

/// Attention of queries that come before all keys, left pending: nothing is computed, the identity is filled in.
fn unseen() -> Result<TaskGraph, String> {
    let dtype = DType::F32;
    let a = Attention { causal: true, ..Attention::new([1, 1, 1, 50, 20, 8, 8], dtype) };
    let op = Op::Kernel(Kernel::Attention(a));
    let spec = op.spec(&[dtype; 3]).ok_or("attention has no spec")?;
    let mut labels = spec.space();
    labels.0[2] = Interval::new(0, 9);
    let (region, form) = (spec.result_region(&labels), spec.monoid.pending(dtype, 4, true));
    let ty = |rows: usize| TensorType::new(dtype, vec![1, 1, rows, 8]);
    let (operands, result) = (vec![ty(50), ty(20), ty(20)], ty(50));
    let row = OpRow { name: "unseen".into(), op, operands, spec: Some(spec), result };
    let mut tasks = TaskGraph { devices: 1, labels: vec!["unseen".into()], ops: vec![row], ..TaskGraph::default() };
    tasks.push(Task {
        device: DeviceId(0),
        verb: Verb::Kernel { op: 0, labels, finish: false, operands: vec![None; 3] },
        reads: Vec::new(),
        after: Vec::new(),
        value: Value { region, form },
        within: None,
        slot: Slot::default(),
        label: 0,
    });
    Ok(tasks)
}

/// Three partials of every monoid that a type has, folded: finished and left pending, stored narrowly and widely.
fn folds(dtype: DType) -> TaskGraph {
    let mut tasks = TaskGraph { devices: 1, labels: vec!["partials".into()], ..TaskGraph::default() };
    let tops = [true, false].map(|indices| Monoid::Top(Top { k: 5, largest: true, indices, of: dtype }));
    let floats = [Monoid::Moments, Monoid::SoftMax, Monoid::Attend];
    for monoid in Monoid::ALL.into_iter().chain(tops) {
        if !dtype.is_float() && floats.contains(&monoid) {
            continue;
        }
        // The stacked axis, where there is one, is the last.
        let last = monoid.stacked().unwrap_or(96);
        let region = Region::whole(&[2, 3, 37, last]);
        let result = if matches!(monoid, Monoid::Top(top) if top.indices) { DType::I64 } else { dtype };
        for (finish, wide) in [(true, false), (false, false), (true, true)] {
            let pending = monoid.pending(result, 4, wide);
            let mut push = |verb, reads, form| {
                tasks.push(Task {
                    device: DeviceId(0),
                    verb,
                    reads,
                    after: Vec::new(),
                    value: Value { region: region.clone(), form },
                    within: None,
                    slot: Slot::default(),
                    label: 0,
                })
            };
            let reads = (0..3).map(|_| push(Verb::Feed { external: 0 }, Vec::new(), pending.clone())).collect();
            let form = if finish { Form::finished(result, 4) } else { pending.clone() };
            push(Verb::Fold { monoid, finish }, reads, form);
        }
    }
    tasks
}

fn planned(graph: &Graph, devices: usize) -> Result<TaskGraph, String> {
    let machine = place(&format!("8xa100-80:{devices}"))?;
    let options = Options { overlap: false, ..Options::default() };
    plan(graph, &machine, &options).map(|plan| plan.tasks).map_err(|e| e.to_string())
}

/// Adds the kernels of every row that computes.
fn collect(name: &str, tasks: &TaskGraph, kernels: &mut BTreeMap<String, String>, faults: &mut Vec<String>) {
    let orders = generate::Orders::of(tasks);
    for (id, task) in tasks.rows() {
        match task.verb {
            Verb::Feed { .. } | Verb::Send { .. } | Verb::Receive { .. } | Verb::Output { .. } => continue,
            Verb::Kernel { .. }
            | Verb::Fused { .. }
            | Verb::View { .. }
            | Verb::Cut
            | Verb::Fold { .. }
            | Verb::Paste => {}
        }
        // Of what a newer GPU gets, that which only it gets.
        for (target, all) in [(Target::A100, true), (Target::H200, false)] {
            match generate::program(tasks, id, &orders, &target) {
                Ok(program) => kernels.extend(program.steps.into_iter().filter_map(|step| match step {
                    Step::Launch(launch) if all || is_of_one(launch.kernel.kind()) => {
                        Some((launch.kernel.name.clone(), launch.kernel.source.clone()))
                    }
                    Step::Launch(_) | Step::Matmul(_) | Step::Copy { .. } | Step::Zero { .. } => None,
                })),
                Err(e) => faults.push(format!("{name}: row {id} ({}) has no program: {e}", task.verb.name())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a row of this name is, on one GPU.
    fn steps(tasks: &TaskGraph, name: &str) -> Vec<Step> {
        let named = |n: usize| tasks.ops[n].name.ends_with(name);
        let row = tasks.rows().find(|(_, task)| match &task.verb {
            Verb::Kernel { op, .. } | Verb::View { op, .. } => named(*op),
            Verb::Fused { stages } => stages.iter().any(|s| named(s.op)),
            _ => false,
        });
        let (id, _) = row.unwrap_or_else(|| panic!("there is no `{name}`"));
        generate::program(tasks, id, &generate::Orders::of(tasks), &Target::H200)
            .unwrap_or_else(|e| panic!("{name}: {e}"))
            .steps
    }

    /// Norms are one kernel, residuals part of the product before them, the gate of the feed-forward net two products and
    /// one pass: nothing of a block of a model is launched or moved that is not named here.
    #[test]
    fn a_block_of_a_model_is_few_launches() {
        for name in ["llama-7b-block:1x4096,bf16", "llama-70b-block:1x4096,bf16"] {
            let tasks = graph(name).and_then(|graph| planned(&graph, 1)).unwrap_or_else(|e| panic!("{name}: {e}"));
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                let all = steps(&tasks, norm);
                assert!(matches!(&all[..], [Step::Launch(l)] if l.kernel.kind() == "reduce"), "{name} {norm}: {all:?}");
            }
            let plain = |m: &ein_cuda::program::Matmul| m.epilogue == ein_cuda::program::Epilogue::NONE;
            for product in ["q_proj", "k_proj", "v_proj", "gate_proj"] {
                let all = steps(&tasks, product);
                assert!(matches!(&all[..], [Step::Matmul(m)] if plain(m)), "{name} {product}: {all:?}");
            }
            let gate = steps(&tasks, "mlp.gated");
            let once = matches!(&gate[..], [Step::Matmul(m), Step::Launch(l)] if plain(m) && l.kernel.kind() == "map");
            assert!(once, "{name}: {gate:?}");
            let down = steps(&tasks, "mlp.residual");
            assert!(matches!(&down[..], [Step::Matmul(m)] if m.epilogue.add.is_some()), "{name}: {down:?}");
            // Heads are no outermost axis of what is multiplied, but attention leaves them where they are to be.
            let out = steps(&tasks, "self_attn.residual");
            assert!(matches!(&out[..], [Step::Matmul(m)] if m.epilogue.add.is_some()), "{name}: {out:?}");
            // Angles are turned in two halves of a head, which attention reads as one: in place.
            for turned in ["self_attn.q", "self_attn.k"] {
                assert_eq!(steps(&tasks, turned), [], "{name} {turned}");
            }
        }
    }
}
