//! What is declined, what is ended early, and bounds against programs.

use super::sides::{Boxes, DEVICES, Had, Side, Speed};
use super::{OutOfTime, cheaper};
use crate::answers::Answers;
use crate::choice::{Block, Decomposition};
use crate::deadline::Deadline;
use crate::deadline::tests::pass_after;
use crate::error::PlanError;
use crate::exchanges::hand_out;
use crate::layouts::needs_of;
use crate::needs::{home_relation, produced};
use crate::options::Options;
use crate::plan::plan;
use crate::ports::Ports;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::InputKind;
use ein_ir::region::Region;
use ein_ir::text::parse;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::{Held, Relation};
use std::collections::BTreeSet;
use std::time::Duration;

/// A plain seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 16) as usize % n
    }
}

/// A machine on which computing takes about as long as moving; with `unlike`, no two devices send equally fast.
fn machine(devices: usize, latency: f64, unlike: bool) -> Machine {
    let mut machine = Machine::by_name("8xcpu").unwrap().first(devices).unwrap();
    machine.issue.0 = latency;
    machine.links.iter_mut().for_each(|l| l.latency.0 = latency);
    for d in &mut machine.devices {
        d.launch.0 = 0.0;
        d.memory_bandwidth = 1e9;
        d.flops.iter_mut().for_each(|f| f.1 = 1e9);
    }
    for (n, r) in machine.resources.iter_mut().enumerate().filter(|_| unlike) {
        r.bandwidth *= 1.0 + (n % 3) as f64 / 2.0;
    }
    machine
}

/// Matrices of these extents, multiplied from the first on.
fn product(extents: &[usize]) -> Graph {
    let mut graph = Graph::new();
    let input = |graph: &mut Graph, n: usize| {
        let ty = TensorType::new(DType::F32, &extents[n..n + 2]);
        graph.input(&format!("x{n}"), InputKind::Input, ty).unwrap()
    };
    let mut all = input(&mut graph, 0);
    for n in 1..extents.len() - 1 {
        let next = input(&mut graph, n);
        all = graph.contraction(&format!("y{n}"), "ik,kj->ij", &[all, next]).unwrap();
    }
    graph.output("out", all).unwrap();
    graph
}

fn looked(graph: &Graph, machine: &Machine, deadline: Deadline) -> Result<bool, OutOfTime> {
    let options = Options::default();
    let mut known = Answers::of(&options);
    cheaper(graph, machine, &options, &mut known, f64::INFINITY, f64::INFINITY, deadline).map(|found| found.is_some())
}

/// Two elements, and a label that no tensor has.
#[test]
fn a_large_label_space_of_small_tensors_is_declined() {
    let text = "x: param f32[2]\ny = einsum f32 (i: 2 | j: 20000) sum x[i] * cast<f32>(index(j))\nreturn y\n";
    let graph = parse(text).unwrap();
    for devices in 2..=4 {
        let machine = Machine::by_name("4xcpu").unwrap().first(devices).unwrap();
        assert_eq!(looked(&graph, &machine, Deadline::default()), Ok(false), "{devices} devices");
        plan(&graph, &machine, &Options::default()).unwrap();
    }
}

/// A search is ended at any look at the clock, and found to be if it was not through.
#[test]
fn a_deadline_is_kept() {
    let (graph, machine) = (product(&[2, 3, 2]), machine(3, 0.0, false));
    let hour = Deadline::after(Some(Duration::from_hours(1)));
    assert_eq!(looked(&graph, &machine, Deadline::after(Some(Duration::ZERO))), Err(OutOfTime));
    assert_eq!(looked(&graph, &machine, hour), Ok(true));
    let mut ended = 0;
    loop {
        pass_after(Some(ended));
        let found = looked(&graph, &machine, hour);
        pass_after(None);
        match found {
            Err(OutOfTime) => ended += 1,
            Ok(found) => {
                assert!(found);
                break;
            }
        }
    }
    assert!(ended > 50, "the clock was looked at {ended} times");
}

/// More time gives no worse a plan: what was found before the stage is kept where the stage is ended.
#[test]
fn what_was_found_before_is_kept() {
    let (graph, machine) = (product(&[2, 4, 4, 2, 2]), machine(3, 0.0, false));
    let ample = Options { time_limit: Some(Duration::from_hours(1)), ..Options::default() };
    let expected = plan(&graph, &machine, &Options::default()).unwrap();
    // Costs that become less with time: of the few candidates that are searched first, then of all.
    let mut costs = vec![f64::INFINITY];
    let (mut looks, mut ended) = (0, 0);
    loop {
        pass_after(Some(looks));
        let found = plan(&graph, &machine, &ample);
        pass_after(None);
        match found {
            Err(PlanError::TimeLimit { .. }) => assert_eq!(costs.len(), 1, "{looks}: there was a plan before"),
            Err(other) => panic!("{looks}: {other}"),
            Ok(found) => {
                let report = &found.report;
                assert!(report.cost <= costs[costs.len() - 1], "{looks}: {} after {costs:?}", report.cost);
                assert!(report.lower_bound <= expected.report.cost, "{looks}: {report:?}");
                if report.cost < costs[costs.len() - 1] {
                    costs.push(report.cost);
                }
                if !report.effort.stopped {
                    assert_eq!(found.choice, expected.choice);
                    break;
                }
                ended += usize::from(report.cost <= expected.report.cost);
            }
        }
        looks += 1 + looks / 8;
    }
    assert!(costs.len() > 3 && ended > 10, "{costs:?}, then ended {ended} times");
}

fn random_box(random: &mut Random, shape: &[usize]) -> Region {
    let along = |&extent: &usize| {
        let (x, y) = (random.below(extent), random.below(extent));
        (x.min(y), x.max(y) + 1)
    };
    Region::of(&shape.iter().map(along).collect::<Vec<_>>())
}

/// No program takes less than the bounds say, directly or by a home between.
#[test]
fn no_exchange_beats_the_bounds() {
    let graph = product(&[3, 2, 3]);
    let id: TensorId = graph.ids().last().unwrap();
    let (space, ty) = (graph.spec(id).unwrap().space(), graph.ty(id).clone());
    let (whole, element) = (ty.whole(), 4.0);
    let options = Options::default();
    let (mut tight, mut moved) = (0, 0);
    for seed in 0..240 {
        let random = &mut Random(seed);
        let devices = 2 + random.below(DEVICES - 1);
        let machine = machine(devices, [0.0, 1e-9][random.below(2)], random.below(2) == 0);
        let speed = Speed::of(&Ports::of(&machine));
        let mut known = Answers::of(&options);
        let mut regions = vec![space.clone()];
        for _ in 0..random.below(devices) {
            let n = random.below(regions.len());
            let l = random.below(space.rank());
            let along = regions[n].0[l];
            if along.hi - along.lo > 1 {
                let (low, high) = regions[n].split(l, along.lo + 1 + random.below(along.hi - along.lo - 1));
                regions[n] = low;
                regions.push(high);
            }
        }
        let mut at = || DeviceSet::one(DeviceId(random.below(devices) as u16));
        let blocks: Vec<Block> = regions.into_iter().map(|region| Block { region, devices: at() }).collect();
        let made = Decomposition::new(&space, blocks).unwrap();
        let have = produced(&graph, id, &made, false);
        let mut boxes = Boxes::default();
        let side = |boxes: &mut Boxes, pieces: &[(Region, usize)]| {
            let pieces: BTreeSet<(u16, usize)> = pieces.iter().map(|(r, d)| (boxes.number(&whole, r), *d)).collect();
            Side::of(pieces.into_iter())
        };
        let left: Vec<(Region, usize)> =
            have.blocks.iter().flat_map(|b| b.devices.iter().map(|d| (b.region.clone(), d.index()))).collect();
        let left = side(&mut boxes, &left);
        let asking: Vec<usize> = (0..devices).filter(|_| random.below(4) > 0).collect();
        let lists: Vec<(Region, usize)> = asking.into_iter().map(|d| (random_box(random, &ty.shape), d)).collect();
        if lists.is_empty() {
            continue;
        }
        let list = side(&mut boxes, &lists);
        let needs = boxes.needs(&list);
        let (had, needed) = (Had::of(boxes.masks(&left)), boxes.masks(&list));
        let mut seconds =
            |have: &Relation, needs: &[Need]| known.answer(&hand_out(have, needs), &machine).unwrap().traffic.seconds.0;
        let least = speed.least(&had, &needed, element);
        let direct = seconds(&have, &needs);
        assert!(least <= direct * (1.0 + 1e-9), "seed {seed}: {direct:e} is below {least:e}");
        let anywhere = speed.least_from_anywhere(&needed, element);
        for device in machine.ids() {
            let held = [Held { region: whole.clone(), devices: DeviceSet::one(device) }];
            let home = home_relation(&graph, id, &held);
            let leaves = seconds(&home, &needs);
            assert!(anywhere <= leaves * (1.0 + 1e-9), "seed {seed}, {device:?}: {leaves:e} is below {anywhere:e}");
            let both = seconds(&have, &needs_of(&held)) + leaves;
            assert!(least <= both * (1.0 + 1e-9), "seed {seed}, {device:?}: {both:e} is below {least:e}");
        }
        moved += usize::from(direct > 0.0);
        tight += usize::from(direct > 0.0 && least >= direct * (1.0 - 1e-9));
    }
    assert!(moved > 150 && 4 * tight > moved, "of {moved} exchanges {tight} take what the bound says");
}
