//! Nodes of any plan: every edge of the task graph is a way among them, and what is moved is what is to be moved.

use ein_cuda::nodes::{Block, Node, Nodes, Passage, Site, Sites, Staged, Staging, WORKSPACE, Work};
use ein_cuda::program::{Arg, Base, Kernel, Launch, Program, Step, Target};
use ein_cuda::rows::is_resident;
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_task::machine::DeviceKind;
use ein_task::memory::plan_memory;
use ein_task::task::{TaskGraph, TaskId, Verb};
use ein_task::task_text::print;
use ein_tests::choices::{self, Rng};
use ein_tests::{machines, random};
use std::collections::BTreeSet;

/// A plan by chance, and sites for its devices: GPUs of their own, some, or one, some of which reach one another.
fn drawn(seed: u64) -> (TaskGraph, Sites) {
    let (graph, _) = random::graph(seed, true);
    let mut rng = Rng::new(seed);
    let devices = 1 + rng.below(8);
    let machine = machines::drawn(&mut rng, devices);
    let choice = choices::drawn(&graph, devices, seed);
    let mut tasks = lower(&graph, &choice, &machine, &Options::default()).unwrap_or_else(|e| panic!("{seed}: {e}"));
    plan_memory(&mut tasks);
    let gpus = [devices, 1 + devices / 2, 1][seed as usize % 3];
    let kinds = machine.devices.iter().map(|d| d.kind == DeviceKind::Host);
    let site = |(n, host)| Site { gpu: if host { 0 } else { n % gpus }, host, target: Target::A100 };
    let apart = seed.is_multiple_of(2);
    let reach = (0..gpus).map(|a| (0..gpus).map(|b| a == b || !apart || (a + b) % 3 > 0).collect()).collect();
    (
        tasks,
        Sites { devices: kinds.enumerate().map(site).collect(), reach, staging: Staging::Host, workspace: WORKSPACE },
    )
}

/// Some program of a row that computes: none to three steps, some with scratch memory, some that may report faults.
fn program(task: TaskId) -> Program {
    let n = u64::from(task.0);
    let step = |k: u64| {
        let kernel = Kernel::new("map", "extern \"C\" __global__ void NAME() {}");
        let mut args = vec![Arg::Pointer(Base::Own.at(0)), Arg::I64(k as i64)];
        if (n + k).is_multiple_of(3) {
            args.push(Arg::Pointer(Base::Fault.at(0)));
        }
        Step::Launch(Launch { kernel, grid: [1; 3], block: [32, 1, 1], shared: 0, args })
    };
    Program { steps: (0..n % 4).map(step).collect(), scratch: if n.is_multiple_of(5) { 100 } else { 0 } }
}

/// For every node, whether each earlier one is before it.
fn before(nodes: &[Node]) -> Vec<Vec<bool>> {
    let mut all: Vec<Vec<bool>> = Vec::new();
    for (n, node) in nodes.iter().enumerate() {
        let mut own = vec![false; nodes.len()];
        for &after in &node.after {
            assert!(after < n, "node {n} waits for {after}");
            own[after] = true;
            own.iter_mut().zip(&all[after]).for_each(|(own, other)| *own |= other);
        }
        all.push(own);
    }
    all
}

#[test]
fn every_edge_is_a_way() {
    let (mut in_place, mut relayed) = (0, 0);
    for seed in 0..200 {
        let (tasks, sites) = drawn(seed);
        let nodes =
            Nodes::new(&tasks, &sites, &|_, task, _| Ok(program(task))).unwrap_or_else(|e| panic!("{seed}: {e}"));
        in_place += nodes.in_place.len();
        let before = before(&nodes.all);
        // Both halves of a move are done by the receiving row's nodes, or by the fold's that reads in place.
        let readers = tasks.readers();
        let mut own: Vec<Vec<usize>> = vec![Vec::new(); tasks.tasks.len()];
        for (n, node) in nodes.all.iter().enumerate() {
            if let Some(row) = node.row {
                own[row.index()].push(n);
            }
        }
        for (id, task) in tasks.rows().filter(|(_, t)| matches!(t.verb, Verb::Receive { .. })) {
            if nodes.in_place.contains(&id) {
                assert!(own[id.index()].is_empty(), "{seed}: {id} is done in place");
                own[id.index()] = own[readers[id.index()][0].index()].clone();
            }
            own[task.reads[0].index()] = own[id.index()].clone();
        }
        for (id, task) in tasks.rows().filter(|(_, t)| !is_resident(&tasks, t)) {
            // What does nothing passes on what it waits for.
            let mut waits: Vec<TaskId> = task.reads.iter().chain(&task.after).copied().collect();
            while let Some(wait) = waits.pop() {
                let other = tasks.task(wait);
                if is_resident(&tasks, other) || own[wait.index()] == own[id.index()] {
                    continue;
                }
                if own[wait.index()].is_empty() {
                    waits.extend(other.reads.iter().chain(&other.after));
                }
                for (&a, &b) in own[wait.index()].iter().flat_map(|a| own[id.index()].iter().map(move |b| (a, b))) {
                    assert!(before[b][a], "{seed}: {id} is not after {wait}\n{}", print(&tasks));
                }
            }
        }
        relayed += nodes.all.iter().filter(|n| is_relay(&tasks, n)).count();
    }
    assert!(in_place > 50 && relayed > 50, "{in_place} are read in place, {relayed} go through the host");
}

/// Whether a node is a half of a move through the host's memory.
fn is_relay(tasks: &TaskGraph, node: &Node) -> bool {
    let receives = node.row.is_some_and(|row| matches!(tasks.task(row).verb, Verb::Receive { .. }));
    receives && matches!(node.work, Work::Copy { from: Block::Host, .. } | Work::Copy { to: Block::Host, .. })
}

#[test]
fn lanes_and_faults_are_ordered() {
    for seed in 0..50 {
        let (tasks, sites) = drawn(seed);
        let nodes =
            Nodes::new(&tasks, &sites, &|_, task, _| Ok(program(task))).unwrap_or_else(|e| panic!("{seed}: {e}"));
        let before = before(&nodes.all);
        let mut records = 0;
        for device in 0..tasks.devices {
            let of = |n: &Node| n.row.is_some_and(|row| tasks.task(row).device.index() == device);
            // Moves have as many arguments, and report nothing.
            let fits = |work: &Work| matches!(work, Work::Kernel { args, kernel, .. } if args.len() == 3 && kernel.kind() != "move");
            let reports = |n: &Node| fits(&n.work) && of(n);
            let reporting: Vec<usize> = (0..nodes.all.len()).filter(|&n| reports(&nodes.all[n])).collect();
            records += reporting.iter().map(|&n| nodes.all[n].row).collect::<BTreeSet<_>>().len();
            let cleared = nodes.all.iter().position(
                |n| matches!(n.work, Work::Zero { at, .. } if n.row.is_none() && at.block == Block::Device(device)),
            );
            let fetched = nodes.all.iter().position(|n| {
                n.row.is_none() && matches!(n.work, Work::Copy { from, .. } if from == Block::Device(device))
            });
            for n in reporting {
                let (cleared, fetched) = (cleared.expect("cleared"), fetched.expect("fetched"));
                assert!(before[n][cleared] && before[fetched][n], "{seed}: device {device}");
            }
        }
        assert_eq!(nodes.faults.len(), records, "{seed}");
        // At most two rows of a device that use scratch memory are not ordered.
        let scratch: Vec<usize> = (0..nodes.all.len())
            .filter(|&n| matches!(nodes.all[n].work, Work::Kernel { .. }))
            .filter(|&n| nodes.all[n].row.is_some_and(|row| row.0.is_multiple_of(5)))
            .collect();
        for (k, &a) in scratch.iter().enumerate() {
            let device = |n: usize| nodes.all[n].row.map(|row| (tasks.task(row).device, row));
            let apart = |&&b: &&usize| {
                let (one, other) = (device(a), device(b));
                one.map(|o| o.0) == other.map(|o| o.0) && one != other && !before[b][a]
            };
            let rows: BTreeSet<_> = scratch[k..].iter().filter(apart).map(|&b| device(b)).collect();
            assert!(rows.len() <= scratch.len() / 2 + 1, "{seed}: {rows:?}");
        }
    }
}

#[test]
fn what_is_staged_lies_in_slots_or_has_room_of_its_own() {
    let (mut count, mut slots) = (0, 0);
    for seed in 0..50 {
        let (tasks, mut sites) = drawn(seed);
        let made = |sites: &Sites| {
            Nodes::new(&tasks, sites, &|_, task, _| Ok(program(task))).unwrap_or_else(|e| panic!("{seed}: {e}"))
        };
        let at_host = made(&sites);
        sites.staging = Staging::Device;
        let nodes = made(&sites);
        assert_eq!((&nodes.inputs, &nodes.outputs), (&at_host.inputs, &at_host.outputs), "{seed}");
        for node in nodes.all.iter().filter(|n| !is_relay(&tasks, n)) {
            if let Work::Copy { from, to, .. } = node.work {
                let of_host = |block: Block| matches!(block, Block::Device(device) if sites.devices[device].host);
                let through = from == Block::Host || to == Block::Host;
                assert!(!through || of_host(from) || of_host(to), "{seed}: {node:?}");
            }
        }
        // What has room of its own lies behind what the device had, and in order. What lies in a slot has no node: nothing is
        // there before an input, and nothing after a result.
        let mut ends = at_host.devices.clone();
        let is_own = |s: &&Staged| s.offset >= at_host.devices[s.device];
        let all = || nodes.uploads.iter().chain(&nodes.downloads);
        let mut own: Vec<_> = all().filter(is_own).collect();
        own.sort_by_key(|s| (s.device, s.offset));
        for staged in &own {
            assert!(staged.offset >= ends[staged.device], "{seed}: {staged:?}");
            ends[staged.device] = staged.offset + staged.at.len() as u64;
        }
        assert!(ends.iter().zip(&nodes.devices).all(|(end, bytes)| end <= bytes), "{seed}");
        let on_gpus = |p: &&Passage| !sites.devices[tasks.task(p.row).device.index()].host;
        let mut in_slots = 0;
        for (is_input, passage) in [(true, &nodes.inputs), (false, &nodes.outputs)]
            .into_iter()
            .flat_map(|(is_input, all)| all.iter().filter(on_gpus).map(move |p| (is_input, p)))
        {
            let staged = all().find(|s| s.at == passage.at).unwrap_or_else(|| panic!("{seed}: {passage:?}"));
            let done = nodes.all.iter().filter(|n| n.row == Some(passage.row)).count();
            assert_eq!(done, usize::from(is_own(&staged)), "{seed}: {passage:?}");
            if is_own(&staged) {
                continue;
            }
            in_slots += 1;
            let task = tasks.task(passage.row);
            let slot = if is_input { task.slot } else { tasks.task(task.reads[0]).slot };
            let (lo, hi) = (staged.offset, staged.offset + staged.at.len() as u64);
            assert!(slot.offset <= lo && hi <= slot.offset + slot.bytes, "{seed}: {staged:?} in {slot:?}");
            for (id, other) in tasks.rows().filter(|(_, t)| t.device == task.device && t.slot.bytes > 0) {
                let meets = other.slot.offset < hi && lo < other.slot.offset + other.slot.bytes;
                let order = if is_input { id >= passage.row } else { id <= passage.row };
                assert!(!meets || order, "{seed}: {id} has what {} leaves there", passage.row);
            }
        }
        assert_eq!(nodes.all.len() + in_slots + faulting(&at_host) - faulting(&nodes), at_host.all.len(), "{seed}");
        let staged = nodes.inputs.iter().chain(&nodes.outputs).filter(on_gpus).count();
        assert_eq!(own.len() + in_slots, staged, "{seed}");
        slots += in_slots;
        count += own.len();
    }
    assert!(count > 10 && slots > 50, "{count} have room of their own, {slots} lie in slots");
}

/// Nodes that fetch what was reported.
fn faulting(nodes: &Nodes) -> usize {
    nodes.all.iter().filter(|n| n.row.is_none() && matches!(n.work, Work::Copy { .. })).count()
}
