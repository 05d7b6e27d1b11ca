//! Decompositions, homes and operations in a few words.

use crate::choice::{Decomposition, Home};
use ein_ir::op::Op;
use ein_ir::spec::{Role, Spec};
use std::fmt::Write as _;

/// What an operation is.
pub(super) fn kind(op: &Op, spec: &Spec) -> &'static str {
    match op {
        Op::Kernel(kernel) => kernel.name(),
        Op::Input(_) | Op::View(_) => "view",
        Op::Einsum(_) if spec.work.contraction => "contraction",
        Op::Einsum(e) if e.folds() => "reduction",
        Op::Einsum(_) => "map",
    }
}

/// Labels and extents, folded ones after a bar.
pub(super) fn labels(spec: &Spec) -> String {
    let mut text = String::new();
    for (n, l) in spec.labels.iter().enumerate() {
        let bar = if n == spec.rank { "| " } else { "" };
        let _ = write!(text, "{}{bar}{}:{}", if n == 0 { "" } else { " " }, l.name, l.extent);
    }
    text
}

/// How many intervals each label is cut into, and whether the blocks are all their combinations.
fn parts(spec: &Spec, decomposition: &Decomposition) -> (Vec<Vec<usize>>, bool) {
    let blocks = decomposition.blocks();
    let mut lengths = Vec::with_capacity(spec.labels.len());
    let mut cells = 1;
    for axis in 0..spec.labels.len() {
        let mut intervals: Vec<_> = blocks.iter().map(|b| b.region.0[axis]).collect();
        intervals.sort_unstable();
        intervals.dedup();
        cells *= intervals.len();
        lengths.push(intervals.iter().map(|i| i.len()).collect());
    }
    (lengths, cells == blocks.len())
}

/// How the label space is cut, in a line: extents along every label that is cut if the blocks are a grid,
/// else the number of boxes and the largest.
pub(super) fn cuts(spec: &Spec, decomposition: &Decomposition) -> String {
    let blocks = decomposition.blocks();
    let Some(first) = blocks.first() else { return "nothing to do".into() };
    if blocks.len() == 1 {
        return format!("whole on {}", first.devices);
    }
    let repeated = blocks.iter().map(|b| b.devices.len()).max().unwrap_or(1);
    let times = if repeated > 1 { format!(", each on {repeated} devices") } else { String::new() };
    let (lengths, grid) = parts(spec, decomposition);
    if !grid {
        let largest = blocks.iter().max_by_key(|b| b.region.volume()).expect("there are blocks");
        return format!("{} boxes, largest {}{times}", blocks.len(), largest.region);
    }
    let cut = spec.labels.iter().zip(&lengths).filter(|(_, lengths)| lengths.len() > 1);
    let shown = cut.map(|(label, lengths)| {
        if lengths.iter().all(|l| *l == lengths[0]) {
            return format!("{} {}×{}", label.name, lengths.len(), lengths[0]);
        }
        let lengths: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        format!("{} {}", label.name, lengths.join("+"))
    });
    format!("{}{times}", shown.collect::<Vec<_>>().join(", "))
}

/// What is cut and what follows, in words: `cuts rows i in 4; cuts sums over k in 2, which leaves partials`.
pub(super) fn words(spec: &Spec, decomposition: &Decomposition) -> String {
    let blocks = decomposition.blocks();
    let Some(first) = blocks.first() else { return "nothing to do".into() };
    let copies = blocks.iter().map(|b| b.devices.len()).max().unwrap_or(1);
    if blocks.len() == 1 {
        return match copies {
            1 => format!("not cut: all on one device, {}", first.devices),
            n => format!("not cut: each of {n} devices does all of it"),
        };
    }
    let (lengths, grid) = parts(spec, decomposition);
    let mut said = Vec::new();
    for (n, (label, lengths)) in spec.labels.iter().zip(&lengths).enumerate().filter(|(_, (_, l))| l.len() > 1) {
        let (name, count) = (&label.name, lengths.len());
        let what = match label.role {
            Role::Fold => format!("cuts the fold over {name} in {count}, which leaves partials"),
            Role::Window if n < spec.rank => format!("cuts {name} in {count}, whose neighbours share a border"),
            Role::Window => format!("cuts the window {name} in {count}, which leaves partials"),
            Role::Free | Role::Whole => format!("cuts {name} in {count}"),
        };
        said.push(what);
    }
    let mut text = said.join("; ");
    if !grid {
        let _ = write!(text, "; not a grid, but {} boxes", blocks.len());
    }
    if copies > 1 {
        let _ = write!(text, "; repeats each block on {copies} devices");
    }
    text
}

/// Where a tensor lives.
pub(crate) fn home(home: Option<&Home>) -> String {
    match home {
        None => "none".into(),
        Some(Home::AsProduced) => "as produced".into(),
        Some(Home::At(held)) => match held.as_slice() {
            [] => "nowhere: it is empty".into(),
            [one] => format!("whole on {}", one.devices),
            many => format!("{} blocks such as {}@{}", many.len(), many[0].region, many[0].devices),
        },
    }
}
