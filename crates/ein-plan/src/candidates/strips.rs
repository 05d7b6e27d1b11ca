//! Cuts of a device into several boxes: strips of both ends of a causal axis, runs of two axes taken as one, whole shares
//! with a part of the rest.

use super::{AxisCut, Found, even, grid, is_cuttable, permutations, quantum, units};
use crate::choice::Block;
use ein_ir::region::Interval;
use ein_ir::spec::{Role, Spec};
use ein_task::machine::{DeviceId, DeviceSet};

/// Devices up to which pairs of strips go with cuts of other labels: of more, grids fill the list.
const FEW: usize = 8;

/// Strips from both ends of a label together, where it is as long as the queries of a causal row: a strip for every
/// device, or for every few of them, which cut one more label or repeat.
pub(super) fn paired(spec: &Spec, causal: usize, workers: &[DeviceId], found: &mut Found) {
    let p = workers.len();
    let is_query = |l: usize| spec.work.band.is_some_and(|band| band.query == l);
    let cuttable = |l: &usize| is_cuttable(spec.labels[*l].role);
    // Of a row that is causal itself, grids have them.
    let long = |l: &usize| spec.labels[*l].extent == causal && !is_query(*l);
    for l in (0..spec.labels.len()).filter(cuttable).filter(long) {
        let some = |n: &usize| *n == p || p <= FEW && p.is_multiple_of(*n);
        let counts = (2..=p).rev().filter(some).filter(|n| units(spec, l) >= 2 * n);
        for count in counts {
            let cut = both_ends(spec, l, count);
            if count == p {
                found.push(grid(spec, &[cut], &[0], workers));
                continue;
            }
            let inside = p / count;
            let others = (0..spec.labels.len()).filter(cuttable).filter(|&o| o != l && units(spec, o) >= inside);
            let evenly = |o: usize| {
                let parts = even(spec.labels[o].extent, quantum(&spec.labels[o].rule), inside);
                AxisCut { label: Some(o), parts: parts.into_iter().map(|i| vec![i]).collect() }
            };
            let repeated = AxisCut { label: None, parts: vec![vec![]; inside] };
            for other in others.map(evenly).chain([repeated]) {
                for order in permutations(2) {
                    found.push(grid(spec, &[cut.clone(), other.clone()], &order, workers));
                }
            }
        }
    }
}

/// Strips `n` and `2 count - 1 - n` of a label together.
pub(super) fn both_ends(spec: &Spec, label: usize, count: usize) -> AxisCut {
    let own = &spec.labels[label];
    let strips = even(own.extent, quantum(&own.rule), 2 * count);
    let pair = |n: usize| vec![strips[n], strips[2 * count - 1 - n]];
    AxisCut { label: Some(label), parts: (0..count).map(pair).collect() }
}

/// As many whole values of a label for every device as there are for all, and of the rest a part of another label: eight
/// sequences on seven devices are one each, and of the last one a seventh of its tokens.
pub(super) fn shared_rest(spec: &Spec, workers: &[DeviceId], found: &mut Found) {
    let p = workers.len();
    let plain = |l: &usize| spec.labels[*l].role == Role::Free && quantum(&spec.labels[*l].rule) == 1;
    let labels: Vec<usize> = (0..spec.rank).filter(plain).collect();
    for &shared in &labels {
        let extent = spec.labels[shared].extent;
        let each = extent / p;
        if each == 0 || extent.is_multiple_of(p) {
            continue;
        }
        for &cut in labels.iter().filter(|&&l| l != shared && units(spec, l) >= p) {
            let evenly = AxisCut {
                label: Some(cut),
                parts: even(spec.labels[cut].extent, 1, p).into_iter().map(|i| vec![i]).collect(),
            };
            let is_query = spec.work.band.is_some_and(|band| band.query == cut) && units(spec, cut) >= 2 * p;
            let ways = is_query.then(|| both_ends(spec, cut, p)).into_iter().chain([evenly]);
            for way in ways {
                let mut blocks = Vec::new();
                for ((n, &device), parts) in workers.iter().enumerate().zip(&way.parts) {
                    let devices = DeviceSet::one(device);
                    let mut region = spec.space();
                    region.0[shared] = Interval::new(n * each, (n + 1) * each);
                    blocks.push(Block { region: region.clone(), devices });
                    region.0[shared] = Interval::new(p * each, extent);
                    for &part in parts {
                        region.0[cut] = part;
                        blocks.push(Block { region: region.clone(), devices });
                    }
                }
                found.push(blocks);
            }
        }
    }
}

/// Even shares of two neighbouring labels taken as one, where the devices divide neither: a share is a run of the outer
/// label with parts of its first and last value.
pub(super) fn merged(spec: &Spec, workers: &[DeviceId], found: &mut Found) {
    let p = workers.len();
    let plain = |l: usize| spec.labels[l].role == Role::Free && quantum(&spec.labels[l].rule) == 1;
    for outer in 0..spec.rank.saturating_sub(1) {
        let (m, n) = (spec.labels[outer].extent, spec.labels[outer + 1].extent);
        if !plain(outer) || !plain(outer + 1) || m < 2 || n < 2 || m.is_multiple_of(p) || m * n < p {
            continue;
        }
        let mut blocks = Vec::new();
        for (share, &device) in even(m * n, 1, p).into_iter().zip(workers) {
            for (rows, columns) in runs(share, n) {
                let mut region = spec.space();
                (region.0[outer], region.0[outer + 1]) = (rows, columns);
                blocks.push(Block { region, devices: DeviceSet::one(device) });
            }
        }
        found.push(blocks);
    }
}

/// The boxes that a run of positions, row by row of length `n`, is made of.
fn runs(run: Interval, n: usize) -> Vec<(Interval, Interval)> {
    let mut boxes = Vec::new();
    let mut lo = run.lo;
    while lo < run.hi {
        let row = lo / n;
        // Whole rows at once, or what is left of one.
        let hi = if lo.is_multiple_of(n) && run.hi >= lo + n { run.hi / n * n } else { run.hi.min((row + 1) * n) };
        let columns = Interval::new(lo - row * n, if hi - row * n > n { n } else { hi - row * n });
        boxes.push((Interval::new(row, row + (hi - lo).div_ceil(n)), columns));
        lo = hi;
    }
    boxes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::{Candidate, Richness, candidates};
    use ein_ir::dtype::DType;
    use ein_ir::graph::{Graph, TensorType};
    use ein_ir::op::InputKind;
    use ein_task::machine::Machine;

    #[test]
    fn a_run_is_made_of_few_boxes() {
        let boxes = |lo, hi, n| -> Vec<[usize; 4]> {
            let boxes = runs(Interval::new(lo, hi), n);
            boxes.into_iter().map(|(r, c)| [r.lo, r.hi, c.lo, c.hi]).collect()
        };
        assert_eq!(boxes(0, 10, 10), [[0, 1, 0, 10]]);
        assert_eq!(boxes(3, 7, 10), [[0, 1, 3, 7]]);
        assert_eq!(boxes(7, 32, 10), [[0, 1, 7, 10], [1, 3, 0, 10], [3, 4, 0, 2]]);
        assert_eq!(boxes(20, 35, 10), [[2, 3, 0, 10], [3, 4, 0, 5]]);
    }

    /// Eight sequences on seven devices: one each, and a seventh of the last one's tokens.
    #[test]
    fn what_is_left_over_is_cut_along_another_label() {
        let mut g = Graph::new();
        let x = g.input("x", InputKind::Input, TensorType::new(DType::F32, [8, 20])).unwrap();
        let y = g.contraction("y", "bs->bs", &[x]).unwrap();
        let machine = Machine::by_name("8xa100").unwrap().first(7).unwrap();
        let richness = Richness { recursive: 0, ..Richness::of(&machine) };
        let found = candidates(&g.spec(y).unwrap(), &machine, richness);
        let of = |c: &Candidate, device: u16| -> Vec<[usize; 4]> {
            let own = c.decomposition.blocks().iter().filter(|b| b.devices == DeviceSet::one(DeviceId(device)));
            own.map(|b| [b.region.0[0].lo, b.region.0[0].hi, b.region.0[1].lo, b.region.0[1].hi]).collect()
        };
        let shares =
            |c: &&Candidate| of(c, 0) == [[0, 1, 0, 20], [7, 8, 0, 3]] && of(c, 6) == [[6, 7, 0, 20], [7, 8, 18, 20]];
        assert_eq!(found.iter().filter(shares).count(), 1);
    }

    /// Strips of both ends on pairs of devices that cut one more label.
    #[test]
    fn pairs_of_strips_go_with_cuts_of_other_labels() {
        let mut g = Graph::new();
        let x = g.input("x", InputKind::Input, TensorType::new(DType::F32, [64, 6])).unwrap();
        let y = g.contraction("y", "sk->sk", &[x]).unwrap();
        let machine = Machine::by_name("8xa100").unwrap().first(4).unwrap();
        let richness = Richness { causal: 64, ..Richness::of(&machine) };
        let found = candidates(&g.spec(y).unwrap(), &machine, richness);
        let mixed = |c: &&Candidate| {
            let own = c.decomposition.blocks().iter().filter(|b| b.devices.contains(DeviceId(0)));
            let own: Vec<[usize; 4]> =
                own.map(|b| [b.region.0[0].lo, b.region.0[0].hi, b.region.0[1].lo, b.region.0[1].hi]).collect();
            own == [[0, 16, 0, 3], [48, 64, 0, 3]]
        };
        assert_eq!(found.iter().filter(mixed).count(), 2, "one for each order of the digits");
    }
}
