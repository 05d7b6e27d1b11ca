//! Recursive cuts with proportional shares: `p` devices become `p1` and `p - p1`, the box is cut along one
//! label in that proportion, and so on. Only cuts that are not beaten in every face volume are kept.

use crate::candidates::{is_cuttable, quantum};
use ein_ir::region::Region;
use ein_ir::spec::{AxisMap, Spec};
use std::collections::BTreeMap;

/// A tiling and what its blocks read and write: one face volume for every operand, then the result's.
#[derive(Clone)]
struct Tiling {
    blocks: Vec<Region>,
    faces: Vec<f64>,
}

/// Tilings in one block for each of `parts` devices, at most `most`, least sum of face volumes first.
pub(crate) fn recursive(spec: &Spec, parts: usize, most: usize) -> Vec<Vec<Region>> {
    let mut memo = BTreeMap::new();
    let mut all = best(spec, &spec.space(), parts, most, &mut memo);
    all.truncate(most);
    all.into_iter().map(|t| t.blocks).collect()
}

/// Up to so many parts are cut in every proportion.
const FREELY: usize = 8;

type Memo = BTreeMap<(usize, Region), Vec<Tiling>>;

/// Whether where a block is does not matter for what it reads.
pub(crate) fn is_movable(spec: &Spec) -> bool {
    let plain = |a: &AxisMap| matches!(a, AxisMap::Affine(_));
    spec.operands.iter().all(|o| o.axes.iter().all(plain))
}

/// Tilings of `space`, which may be anywhere: the memo keeps them by shape where that is enough.
fn best(spec: &Spec, space: &Region, parts: usize, most: usize, memo: &mut Memo) -> Vec<Tiling> {
    if parts == 1 {
        let mut faces: Vec<f64> =
            (0..spec.operands.len()).map(|n| spec.operand_region(n, space).volume() as f64).collect();
        faces.push(spec.result_region(space).volume() as f64);
        return vec![Tiling { blocks: vec![space.clone()], faces }];
    }
    // Causal and shared-head maps depend on the position, affine faces do not: there shape is enough.
    let base = if is_movable(spec) { Region::whole(&space.shape()) } else { space.clone() };
    let key = (parts, base.clone());
    if let Some(known) = memo.get(&key) {
        return known.iter().map(|t| shifted(t, &base, space)).collect();
    }
    let mut all: Vec<Tiling> = Vec::new();
    for (l, own) in spec.labels.iter().enumerate().filter(|l| is_cuttable(l.1.role)) {
        // The mirrored cut is the same up to device names. Of many parts only halves, or shapes multiply.
        let most_first = if parts > FREELY { parts.div_ceil(2) + 1 } else { parts };
        for first in parts.div_ceil(2)..most_first {
            let share = first as f64 / parts as f64;
            let Some(at) = position(space, l, quantum(&own.rule), share) else { continue };
            let (low, high) = space.split(l, at);
            let lows = best(spec, &low, first, most, memo);
            let highs = best(spec, &high, parts - first, most, memo);
            for a in &lows {
                for b in &highs {
                    let faces: Vec<f64> = a.faces.iter().zip(&b.faces).map(|(x, y)| x + y).collect();
                    if !all.iter().any(|t| beats(&t.faces, &faces)) {
                        all.retain(|t| !beats(&faces, &t.faces));
                        all.push(Tiling { blocks: a.blocks.iter().chain(&b.blocks).cloned().collect(), faces });
                    }
                }
            }
        }
    }
    all.sort_by(|a, b| sum(&a.faces).total_cmp(&sum(&b.faces)).then_with(|| a.blocks.cmp(&b.blocks)));
    // The least sum, and evenly spread through the rest: one-sided cuts matter beside other operations.
    if all.len() > most {
        let step = all.len() as f64 / most as f64;
        all = (0..most).map(|n| all[(n as f64 * step) as usize].clone()).collect();
    }
    memo.insert(key, all.iter().map(|t| shifted(t, space, &base)).collect());
    all
}

/// Where to cut label `l` so that the lower part is nearest to `share`, if there is room.
fn position(space: &Region, l: usize, quantum: usize, share: f64) -> Option<usize> {
    let i = space.0[l];
    let at = ((i.lo as f64 + share * i.len() as f64) / quantum as f64).round() as usize * quantum;
    (i.lo < at && at < i.hi).then_some(at)
}

fn beats(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(x, y)| x <= y)
}

fn sum(faces: &[f64]) -> f64 {
    faces.iter().sum()
}

/// The tiling with the origin of `from` moved to the origin of `to`.
fn shifted(tiling: &Tiling, from: &Region, to: &Region) -> Tiling {
    let blocks = tiling
        .blocks
        .iter()
        .map(|b| {
            let mut b = b.clone();
            for (axis, i) in b.0.iter_mut().enumerate() {
                i.lo = i.lo - from.0[axis].lo + to.0[axis].lo;
                i.hi = i.hi - from.0[axis].lo + to.0[axis].lo;
            }
            b
        })
        .collect();
    Tiling { blocks, faces: tiling.faces.clone() }
}
