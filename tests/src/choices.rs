//! Choices made by hand and by chance: plans must be right whatever the search would have chosen.

use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::{Role, Rule};
use ein_plan::choice::{Block, Choice, Decomposition, Home};
use ein_plan::needs::{output_sources, produced, stacked};
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;

/// A plain generator: the same seed gives the same numbers everywhere.
pub struct Rng(u64);

impl Rng {
    /// A generator.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// Whether it happens, `percent` times of 100.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// `region` in strips of these sizes along an axis.
pub fn strips(region: &Region, axis: usize, sizes: &[usize]) -> Vec<Region> {
    let mut at = region.0[axis].lo;
    let strip = |&n: &usize| {
        let mut strip = region.clone();
        strip.0[axis] = Interval::new(at, at + n);
        at += n;
        strip
    };
    sizes.iter().map(strip).collect()
}

/// `extent` in `parts` sizes that differ by one at most, the larger first.
pub fn even(extent: usize, parts: usize) -> Vec<usize> {
    (0..parts).map(|n| extent / parts + usize::from(n < extent % parts)).collect()
}

/// A row's decomposition into strips along the label of this name, one a device; whole on every device when
/// no label has the name.
pub fn cut(graph: &Graph, tensor: TensorId, label: &str, devices: usize) -> Decomposition {
    let spec = graph.spec(tensor).expect("it computes");
    let space = spec.space();
    match spec.labels.iter().position(|l| l.name == label) {
        None => Decomposition::whole(&space, DeviceSet::first(devices)),
        Some(axis) => {
            let strips = strips(&space, axis, &even(spec.labels[axis].extent, devices)).into_iter().enumerate();
            let block = |(n, region)| Block { region, devices: DeviceSet::one(DeviceId(n as u16)) };
            Decomposition::new(&space, strips.map(block).collect()).expect("strips tile")
        }
    }
}

/// The whole of a tensor on every device.
pub fn everywhere(graph: &Graph, tensor: TensorId, devices: usize) -> Home {
    Home::At(vec![Held { region: graph.ty(tensor).whole(), devices: DeviceSet::first(devices) }])
}

/// A tensor in strips along an axis, one a device.
pub fn held(graph: &Graph, tensor: TensorId, axis: usize, devices: usize) -> Home {
    let strips = strips(&graph.ty(tensor).whole(), axis, &even(graph.ty(tensor).shape[axis], devices));
    let held = |(n, region)| Held { region, devices: DeviceSet::one(DeviceId(n as u16)) };
    Home::At(strips.into_iter().enumerate().map(held).collect())
}

/// A choice in which every row is cut along a label by name (absent: every device does all of it), every
/// input is held whole everywhere, and partials are folded everywhere.
pub fn by_label(graph: &Graph, devices: usize, labels: &[(&str, &str)]) -> Choice {
    let mut choice = Choice::default();
    for tensor in graph.ids() {
        let node = graph.node(tensor);
        match node.op {
            Op::View(_) => {}
            Op::Input(_) => drop(choice.homes.insert(tensor, everywhere(graph, tensor, devices))),
            Op::Einsum(_) | Op::Kernel(_) => {
                let label = labels.iter().find(|(row, _)| *row == node.name).map_or("", |l| l.1);
                let decomposition = cut(graph, tensor, label, devices);
                let complete = produced(graph, tensor, &decomposition, false).is_complete();
                let home = if complete { Home::AsProduced } else { everywhere(graph, tensor, devices) };
                choice.homes.insert(tensor, home);
                choice.decompositions.insert(tensor, decomposition);
            }
        }
    }
    choice
}

/// Blocks of any sizes at any devices, partials anywhere, homes anywhere: what no search would choose.
pub fn drawn(graph: &Graph, devices: usize, seed: u64) -> Choice {
    let mut rng = Rng::new(seed);
    let shown = output_sources(graph);
    let mut choice = Choice::default();
    for tensor in graph.ids() {
        let whole = graph.ty(tensor).whole();
        let mut free = vec![(true, 1); whole.rank()];
        if stacked(graph, tensor).is_some() {
            free[whole.rank() - 1].0 = false;
        }
        if let Some(spec) = graph.spec(tensor) {
            let space = spec.space();
            let quantum = |r: &Rule| match r {
                Rule::Any => 1,
                Rule::MultipleOf(q) => *q,
            };
            let rules: Vec<_> = spec.labels.iter().map(|l| (l.role != Role::Whole, quantum(&l.rule))).collect();
            let blocks = laid(&mut rng, &space, &rules, 2 * devices, devices).into_iter();
            let blocks: Vec<Block> = blocks.map(|(region, devices)| Block { region, devices }).collect();
            let decomposition = if space.is_empty() {
                Decomposition::whole(&space, holders(&mut rng, devices))
            } else {
                Decomposition::new(&space, blocks).expect("boxes tile")
            };
            let pending = !produced(graph, tensor, &decomposition, false).is_complete();
            choice.decompositions.insert(tensor, decomposition);
            if rng.chance(50) && !(pending && shown.contains(&tensor)) {
                choice.homes.insert(tensor, Home::AsProduced);
                continue;
            }
        } else if matches!(graph.node(tensor).op, Op::View(_)) {
            continue;
        }
        let held = laid(&mut rng, &whole, &free, devices + 1, devices).into_iter();
        let held = held.map(|(region, devices)| Held { region, devices }).collect();
        choice.homes.insert(tensor, Home::At(held));
    }
    choice
}

fn holders(rng: &mut Rng, devices: usize) -> DeviceSet {
    let mut set = DeviceSet::one(DeviceId(rng.below(devices) as u16));
    while rng.chance(20) {
        set = set.with(DeviceId(rng.below(devices) as u16));
    }
    set
}

/// Regions that tile `whole`, at devices: mostly any boxes anywhere; often, so that neighbours agree and little
/// moves, even strips one a device; sometimes all of it as one.
fn laid(
    rng: &mut Rng,
    whole: &Region,
    rules: &[(bool, usize)],
    most: usize,
    devices: usize,
) -> Vec<(Region, DeviceSet)> {
    let style = rng.below(100);
    let axes: Vec<usize> = (0..whole.rank()).filter(|&a| rules[a].0).collect();
    if style < 15 {
        return vec![(whole.clone(), holders(rng, devices))];
    }
    if style < 45 && !axes.is_empty() {
        let axis = axes[rng.below(axes.len())];
        let quantum = rules[axis].1;
        let mut sizes: Vec<usize> = even(whole.0[axis].len() / quantum, devices).iter().map(|n| n * quantum).collect();
        sizes[devices - 1] += whole.0[axis].len() % quantum;
        let strips = strips(whole, axis, &sizes).into_iter().enumerate();
        return strips.map(|(n, region)| (region, DeviceSet::one(DeviceId(n as u16)))).collect();
    }
    boxes(rng, whole, rules, most).into_iter().map(|region| (region, holders(rng, devices))).collect()
}

/// At most `most` boxes that tile `whole`, by cuts at any place that the rules allow.
fn boxes(rng: &mut Rng, whole: &Region, rules: &[(bool, usize)], most: usize) -> Vec<Region> {
    let mut boxes = vec![whole.clone()];
    for _ in 1..=rng.below(most) {
        let chosen = rng.below(boxes.len());
        let cuts: Vec<(usize, usize)> = (0..whole.rank())
            .filter(|&a| rules[a].0)
            .flat_map(|a| (boxes[chosen].0[a].lo + 1..boxes[chosen].0[a].hi).map(move |at| (a, at)))
            .filter(|&(a, at)| at.is_multiple_of(rules[a].1))
            .collect();
        if !cuts.is_empty() {
            let (axis, at) = cuts[rng.below(cuts.len())];
            let (low, high) = boxes[chosen].split(axis, at);
            boxes[chosen] = low;
            boxes.push(high);
        }
    }
    boxes
}
