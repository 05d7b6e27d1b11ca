//! Parameters are read at most once over, whoever holds what, and arrive right.

use super::*;
use crate::cpu::CpuDevice;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::monoid::Form;
use ein_ir::op::InputKind;
use ein_task::machine::DeviceId;
use ein_task::memory::plan_memory;
use ein_task::task::{External, Task, Value};

/// A dense tensor that remembers what was asked of it.
struct Counting {
    tensor: Dense,
    asked: Mutex<Vec<Region>>,
    /// What cannot be read.
    hole: Option<Region>,
}

impl ParameterSource for Counting {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        self.asked.lock().expect("no panic").push(region.clone());
        if self.hole.as_ref().is_some_and(|hole| hole.intersect(region).is_some()) {
            return Err(format!("`{name}` has a hole"));
        }
        out.copy_from_slice(&self.tensor.cut(&ty.whole(), region).to_le_bytes());
        Ok(())
    }
}

/// Feeds of one parameter: each a device and the region it holds.
fn graph(ty: &TensorType, devices: usize, held: &[(usize, Region)]) -> TaskGraph {
    let mut graph = TaskGraph { devices, labels: vec!["w".into()], ..TaskGraph::default() };
    graph.externals.push(External { name: "w".into(), kind: InputKind::Parameter, ty: ty.clone() });
    for (device, region) in held {
        graph.push(Task {
            device: DeviceId(*device as u16),
            verb: Verb::Feed { external: 0 },
            reads: vec![],
            after: vec![],
            value: Value { region: region.clone(), form: Form::finished(ty.dtype, region.rank()) },
            within: None,
            slot: Slot::default(),
            label: 0,
        });
    }
    plan_memory(&mut graph);
    graph
}

/// Different elements next to each other, exact in every type.
fn tensor(dtype: DType, shape: &[usize]) -> Dense {
    let number = shape.iter().product::<usize>();
    let period = if dtype == DType::Bool { 2 } else { 251 };
    Dense::from_f64(dtype, shape, &(0..number).map(|n| (n % period) as f64).collect::<Vec<_>>())
}

fn load_all(graph: &TaskGraph, source: &Counting) -> Result<Vec<CpuDevice>, RunError> {
    let mut devices: Vec<CpuDevice> = (0..graph.devices).map(|_| CpuDevice::default()).collect();
    for (device, bytes) in devices.iter_mut().zip(&graph.arenas) {
        device.allocate(*bytes).expect("small");
    }
    let feeds: Vec<TaskId> = graph.rows().map(|(id, _)| id).collect();
    load(graph, &feeds, source, devices.iter_mut().map(|d| d as &mut dyn Memory).collect())?;
    Ok(devices)
}

/// Loads, and checks the values and that no element is asked for twice. What was asked for, in no order.
fn check(dtype: DType, shape: &[usize], devices: usize, held: &[(usize, Region)]) -> Vec<Region> {
    let ty = TensorType::new(dtype, shape);
    let graph = graph(&ty, devices, held);
    let source = Counting { tensor: tensor(dtype, shape), asked: Mutex::default(), hole: None };
    let mut loaded = load_all(&graph, &source).expect("it loads");
    for (id, task) in graph.rows() {
        let expected = source.tensor.cut(&ty.whole(), &task.value.region).to_le_bytes();
        let mut compare = |found: &[u8]| {
            assert!(found == expected, "{id}: {} of {ty} on {}", task.value.region, task.device);
            Ok(())
        };
        loaded[task.device.index()].get(task.slot, Bytes(expected.len() as u64), &mut compare).expect("it holds it");
    }
    let mut asked = source.asked.into_inner().expect("no panic");
    asked.sort();
    for (n, one) in asked.iter().enumerate() {
        assert!(asked[..n].iter().all(|other| other.intersect(one).is_none()), "{one} is asked for twice: {asked:?}");
    }
    asked
}

fn whole(shape: &[usize], devices: usize) -> Vec<(usize, Region)> {
    (0..devices).map(|d| (d, Region::whole(shape))).collect()
}

/// As equal parts of an axis as its extent allows, each `halo` longer on both sides where there is room.
fn cut(shape: &[usize], axis: usize, devices: usize, halo: usize) -> Vec<(usize, Region)> {
    let extent = shape[axis];
    let part = |d: usize| {
        let mut region = Region::whole(shape);
        let (lo, hi) = (extent * d / devices, extent * (d + 1) / devices);
        region.0[axis] = Interval::new(lo.saturating_sub(halo), (hi + halo).min(extent));
        (d, region)
    };
    (0..devices).map(part).collect()
}

#[test]
fn each_byte_once_for_any_number_of_devices() {
    for p in 1..=8 {
        let shape = [13, 10];
        assert_eq!(check(DType::F32, &shape, p, &whole(&shape, p)), [Region::whole(&shape)]);
        for axis in [0, 1] {
            // Disjoint regions are read as they are.
            let parts = cut(&shape, axis, p, 0);
            let mut regions: Vec<Region> = parts.iter().map(|p| p.1.clone()).collect();
            regions.sort();
            assert_eq!(check(DType::F32, &shape, p, &parts), regions);
            // Overlapping ones once too, and together they are the whole.
            let asked = check(DType::BF16, &shape, p, &cut(&shape, axis, p, 1));
            assert_eq!(asked.iter().map(Region::volume).sum::<usize>(), 130);
        }
        // Every region at two devices, and the whole at one more.
        let mut twice = cut(&[9, 4], 0, p, 0);
        twice.extend(twice.clone().into_iter().map(|(d, r)| ((d + 1) % p, r)));
        assert_eq!(check(DType::I64, &[9, 4], p, &twice).len(), p);
        twice.push((0, Region::whole(&[9, 4])));
        assert_eq!(check(DType::I64, &[9, 4], p, &twice).iter().map(Region::volume).sum::<usize>(), 36);
        // Fewer elements than devices: some hold nothing.
        check(DType::F32, &[3], p, &cut(&[3], 0, p, 0));
        check(DType::U8, &[], p, &whole(&[], p));
        check(DType::Bool, &[5, 0], p, &whole(&[5, 0], p));
    }
}

#[test]
fn overlapping_regions() {
    let r = Region::of;
    // A chain of overlaps, and one that lies apart.
    let held = [(0, r(&[(0, 4)])), (1, r(&[(3, 6)])), (2, r(&[(5, 8)])), (0, r(&[(9, 12)]))];
    let parts = [(0, 3), (3, 4), (4, 5), (5, 6), (6, 8), (9, 12)].map(|part| r(&[part]));
    assert_eq!(check(DType::F32, &[12], 3, &held), parts);
    // Two that overlap only in a corner: their box holds a third that overlaps neither.
    let held = [(0, r(&[(0, 4), (0, 4)])), (1, r(&[(3, 8), (3, 8)])), (2, r(&[(6, 8), (0, 2)]))];
    let bands = [[(0, 3), (0, 4)], [(3, 4), (0, 8)], [(4, 6), (3, 8)], [(6, 8), (0, 8)]].map(|band| r(&band));
    assert_eq!(check(DType::F64, &[8, 8], 3, &held), bands);
    // One device may hold a tensor several times.
    let held = [(0, r(&[(0, 2), (1, 3), (0, 5)])), (0, r(&[(1, 4), (0, 2), (2, 4)]))];
    let bands = [[(0, 1), (1, 3), (0, 5)], [(1, 2), (0, 3), (0, 5)], [(2, 4), (0, 2), (2, 4)]].map(|band| r(&band));
    assert_eq!(check(DType::I32, &[4, 3, 5], 1, &held), bands);
}

#[test]
fn what_is_shared_is_read_in_bands() {
    // 600 rows of 4,000 bytes: three bands of at most 262 rows.
    let shape = [600, 1000];
    let asked = check(DType::F32, &shape, 2, &whole(&shape, 2));
    let rows: Vec<usize> = asked.iter().map(|r| r.0[0].len()).collect();
    assert_eq!(rows, [262, 262, 76]);
    // A band is no wider than what is held of its rows.
    let held = [(0, Region::of(&[(0, 300), (0, 500)])), (1, Region::of(&[(250, 600), (0, 10)]))];
    let asked = check(DType::F32, &shape, 2, &held);
    let bands = [[(0, 250), (0, 500)], [(250, 300), (0, 500)], [(300, 600), (0, 10)]];
    assert_eq!(asked, bands.map(|band| Region::of(&band)));
    // A row longer than a band is read at once.
    assert_eq!(check(DType::F64, &[2, 200_000], 2, &whole(&[2, 200_000], 2)).len(), 2);
}

#[test]
fn any_boxes() {
    let mut state = 1;
    let mut below = |n: usize| {
        state = (state * 48_271) % 2_147_483_647_u64;
        state as usize % n
    };
    for _ in 0..300 {
        let shape: Vec<usize> = (0..below(4)).map(|_| 1 + below(7)).collect();
        let devices = 1 + below(8);
        let mut interval = |extent: usize| {
            let (a, b) = (below(extent + 1), below(extent + 1));
            Interval::new(a.min(b), a.max(b))
        };
        let held: Vec<(usize, Region)> = (0..2 * devices)
            .map(|n| (n % devices, Region(shape.iter().map(|&extent| interval(extent)).collect())))
            .collect();
        check(DType::F32, &shape, devices, &held);
    }
}

#[test]
fn an_error_names_the_tensor_and_the_first_device_that_lacks_it() {
    let fails = |held: &[(usize, Region)], hole: &[(usize, usize)], expected: &str| {
        let ty = TensorType::new(DType::F32, [8, 4]);
        for _ in 0..20 {
            let hole = Some(Region::of(hole));
            let source = Counting { tensor: tensor(DType::F32, &[8, 4]), asked: Mutex::default(), hole };
            let error = load_all(&graph(&ty, 4, held), &source).map(drop).expect_err("it cannot be read");
            assert_eq!(error.to_string(), expected);
        }
    };
    fails(&cut(&[8, 4], 0, 4, 0), &[(5, 8), (0, 1)], "parameter `w` [4:6,0:4] for d2: `w` has a hole");
    fails(&whole(&[8, 4], 4), &[(5, 8), (0, 1)], "parameter `w` [0:8,0:4] for d0: `w` has a hole");
    fails(&cut(&[8, 4], 0, 4, 1), &[(7, 8), (0, 1)], "parameter `w` [5:8,0:4] for d3: `w` has a hole");
}

/// Memory that is best written a few bytes at once.
struct Narrow(CpuDevice, usize);

impl Memory for Narrow {
    fn allocate(&mut self, bytes: Bytes) -> Result<(), Cause> {
        self.0.allocate(bytes)
    }
    fn put(&mut self, s: Slot, n: Bytes, fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        assert!(n.0 as usize <= self.1, "{n:?} at once");
        self.0.put(s, n, fill)
    }
    fn get(&mut self, s: Slot, n: Bytes, take: &mut dyn FnMut(&[u8]) -> Result<(), Cause>) -> Result<(), Cause> {
        self.0.get(s, n, take)
    }
    fn at_once(&self) -> Option<usize> {
        Some(self.1)
    }
}

#[test]
fn what_is_best_written_in_parts_is_read_in_parts() {
    let ty = TensorType::new(DType::F32, [7, 3]);
    // Two rows at once, a row although it has more bytes than that, and all of it.
    for (bytes, reads) in [(24, 4), (12, 7), (1 << 20, 1)] {
        let graph = graph(&ty, 1, &whole(&[7, 3], 1));
        let source = Counting { tensor: tensor(DType::F32, &[7, 3]), asked: Mutex::default(), hole: None };
        let mut device = Narrow(CpuDevice::default(), bytes.max(12));
        device.allocate(graph.arenas[0]).expect("small");
        load(&graph, &[TaskId(0)], &source, vec![&mut device]).expect("it loads");
        assert_eq!(source.asked.lock().expect("no panic").len(), reads);
        let expected = source.tensor.to_le_bytes();
        let mut same = |found: &[u8]| {
            assert_eq!(found, expected);
            Ok(())
        };
        device.get(graph.task(TaskId(0)).slot, Bytes(84), &mut same).expect("it holds it");
    }
}
