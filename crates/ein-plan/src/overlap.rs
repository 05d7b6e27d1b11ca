//! Overlap: blocks are cut once more, on their own devices, so that exchanges hide behind them.
//!
//! What is moved can leave when the part of the block that makes it is done, and a reader's part can start when what
//! it needs is there. So where devices wait for an exchange, the blocks that make its tensor and those that read it are
//! cut along an axis of the tensor, with the maps and reductions between them and the nearest contractions; homes in
//! between too; and the exchange goes in stages, the first parts that devices need before the second. Exchanges, task
//! graph and memory follow from the finer choice as from any other. A cut stays if the simulator says that the whole
//! graph is then faster by more than a hundredth: launches, the parts' own rooflines and what must be pasted count
//! against it. Contractions are cut along output labels only, so sums are added up in the order they were. Only the keys
//! of attention, which it folds block after block anyway, are cut on the device that folds them: it can then begin with
//! those that are there (ring attention; Liu et al., 2023).
//!
//! Memory that is used again makes tasks wait, too, so where there is enough of it a slot is used again only by what
//! comes later anyway.
//!
//! Devices that are threads are left alone: a thread copies what it sends and receives, so it computes nothing meanwhile.
//! A price list without processors counts such copies beside the work all the same; by it a fifth was to be gained
//! where runs gained nothing.
//!
//! The search is greedy and small: the exchanges that devices wait for longest first, equal ones (of equal layers) as
//! one, a few ways to cut each, and a limit on the tasks that are simulated, which grows with the patterns that the
//! search has priced, so that planning takes little longer than without. Same question, same cuts.

use crate::answers::Answers;
use crate::candidates::even;
use crate::choice::{Block, Choice, Decomposition, Home};
use crate::consumers::readers;
use crate::error::PlanError;
use crate::lower::{Staged, lower_staged};
use crate::needs::source_boxes;
use crate::options::{Objective, Options};
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::{Role, Rule, Spec};
use ein_task::machine::{DeviceId, DeviceKind, Machine};
use ein_task::memory::{check_capacity, plan_memory_apart};
use ein_task::relation::Held;
use ein_task::simulate::simulate;
use ein_task::task::{TaskGraph, Verb};
use ein_task::timeline::{Lane, Timeline};
use ein_task::units::{Bytes, Seconds};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A cut stays if the simulated time falls below this share of what it was.
const WORTH: f64 = 0.99;
/// Task graphs of cuts that are simulated at most.
const TRIES: usize = 16;
/// The tasks that these have at most together: as many as patterns were priced, which takes several times as long, or
/// this many, some hundredths of a second, where fewer were.
const TASKS: usize = 4_000;
/// Task graphs with more tasks are left as they are: who is over when a task starts is a table that grows with the
/// square of them.
const LARGEST: usize = 100_000;
/// A task graph with more than this many times the tasks of the uncut one is not worth its handling.
const GROWTH: usize = 4;
/// Operations of a cut that are named to people.
const LISTED: usize = 6;
/// Axes of a tensor that are tried, the longest first.
const AXES: usize = 2;

/// What was cut so that exchanges hide behind it. The field names are the keys of its JSON form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Simulated makespan with the cuts.
    pub simulated_seconds: Seconds,
    /// Simulated makespan without any.
    pub simulated_seconds_uncut: Seconds,
    /// The fullest device's memory without any.
    pub peak_memory_uncut: Bytes,
    /// Why nothing was tried, if nothing was.
    pub untried: Option<Cow<'static, str>>,
    /// Whether slots of memory are used again only where nothing waits for that.
    pub memory_apart: bool,
    /// The cuts that stayed, in the order in which they were found.
    pub cuts: Vec<Cut>,
    /// Task graphs that were simulated besides the first.
    pub tried: usize,
}

impl Overlap {
    /// What was done, for people: nothing where nothing was.
    pub fn lines(&self) -> Vec<String> {
        let cut = |c: &Cut| {
            let more =
                if c.tensors.len() > 1 { format!(" and {} like it", c.tensors.len() - 1) } else { String::new() };
            let (first, axis, parts) = (&c.tensors[0], c.axis, c.parts);
            let operations: Vec<&str> = c.operations.iter().take(LISTED).map(String::as_str).collect();
            let dots = if c.operations.len() > LISTED { ", …" } else { "" };
            format!("{first}{more} in {parts} along axis {axis}: {}{dots}", operations.join(", "))
        };
        let apart = format!(
            "memory used again only where nothing waits for it; without overlap {} simulated, at most {} a device",
            self.simulated_seconds_uncut, self.peak_memory_uncut
        );
        self.memory_apart.then_some(apart).into_iter().chain(self.cuts.iter().map(cut)).collect()
    }
}

/// One cut: of equal exchanges, if there are several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The tensors that are exchanged.
    pub tensors: Vec<String>,
    /// The tensor's axis along which is cut.
    pub axis: usize,
    /// Parts of each block.
    pub parts: usize,
    /// The operations whose blocks were cut, each with its label: `name (label)`.
    pub operations: Vec<String>,
    /// Simulated makespan with this cut and those before it.
    pub simulated_seconds: Seconds,
}

/// Tries to spread the memory and to cut the blocks of a choice, whose task graph is given, with the exchanges that are
/// already answered. The better task graph, if there is one, and what there is to say. `patterns` were priced to find
/// the choice.
pub fn overlap(
    graph: &Graph,
    choice: &Choice,
    machine: &Machine,
    options: &Options,
    tasks: &TaskGraph,
    patterns: usize,
    answers: &mut Answers,
) -> Result<(Option<TaskGraph>, Overlap), PlanError> {
    let timeline = simulate(tasks, machine);
    let uncut = timeline.makespan();
    let mut found = Overlap {
        simulated_seconds: uncut,
        simulated_seconds_uncut: uncut,
        peak_memory_uncut: tasks.arenas.iter().copied().max().unwrap_or_default(),
        untried: untried(machine, options, tasks, &timeline).map(Cow::Borrowed),
        ..Overlap::default()
    };
    let mut best: Option<TaskGraph> = None;
    if found.untried.is_some() {
        return Ok((best, found));
    }
    let mut apart = tasks.clone();
    plan_memory_apart(&mut apart, machine, options.memory);
    // What lies apart may leave holes in which the last values find no room.
    if check_capacity(&apart, machine, options.memory).is_ok() {
        let seconds = simulate(&apart, machine).makespan();
        if seconds.0 < WORTH * uncut.0 {
            found.simulated_seconds = seconds;
            best = Some(apart);
        }
    }
    let budget = TRIES.min(patterns.max(TASKS) / tasks.tasks.len().max(1));
    let most = GROWTH * tasks.tasks.len();
    let mut tries = Tries { graph, machine, options, answers, crossed: crossed(tasks), most, left: budget };
    let mut current = (choice.clone(), Staged::new());
    let readers = readers(graph);
    for group in groups(graph, choice, machine, &waited_for(tasks, &timeline, machine)) {
        if tries.left == 0 {
            break;
        }
        let mut won: Option<(Trial, TaskGraph, f64, usize, usize)> = None;
        for (axis, parts, ways) in asks(graph, choice, group[0]) {
            let limit = won.as_ref().map_or(found.simulated_seconds.0, |w| w.2);
            // More parts of what two parts did not help do not help either. Blocks of keys are several messages each
            // from the start, so more of them may.
            let more = parts > 2 && ways != Ways::Folded;
            if more && won.as_ref().is_none_or(|w| w.3 != axis) || ways.is_one_side() && won.is_some() {
                continue;
            }
            let (choice, staged) = current.clone();
            let mut trial = Trial { graph, readers: &readers, choice, staged, cut: BTreeMap::new(), parts };
            for &tensor in &group {
                trial.exchange(tensor, axis, ways);
            }
            if trial.cut.is_empty() {
                continue;
            }
            if let Some((tasks, seconds)) = tries.simulated(&trial.choice, &trial.staged, WORTH * limit)? {
                won = Some((trial, tasks, seconds, axis, parts));
            }
        }
        if let Some((trial, tasks, seconds, axis, parts)) = won {
            let name = |t: &TensorId| graph.node(*t).name.clone();
            found.cuts.push(Cut {
                tensors: group.iter().map(name).collect(),
                axis,
                parts,
                operations: trial.cut.iter().map(|(t, label)| format!("{} ({label})", name(t))).collect(),
                simulated_seconds: Seconds(seconds),
            });
            found.simulated_seconds = Seconds(seconds);
            current = (trial.choice, trial.staged);
            best = Some(tasks);
        }
    }
    found.memory_apart = best.is_some();
    found.tried = budget - tries.left;
    Ok((best, found))
}

/// Why nothing is to be tried, if so.
fn untried(machine: &Machine, options: &Options, tasks: &TaskGraph, timeline: &Timeline) -> Option<&'static str> {
    let busiest = machine.ids().map(|d| timeline.busy(d, Lane::Compute).0).fold(0.0, f64::max);
    let thread = |d: DeviceId| machine.devices[d.index()].kind == DeviceKind::Cpu;
    if !options.overlap {
        Some("it is switched off")
    } else if !matches!(options.objective, Objective::Time | Objective::Makespan) {
        Some("the objective is not time")
    } else if machine.workers().iter().any(thread) {
        Some("devices that are threads copy what they send and receive, and compute nothing meanwhile")
    } else if busiest >= WORTH * timeline.makespan().0 {
        // However well exchanges hide, what is computed stays.
        Some("a device computes nearly all the time")
    } else if tasks.tasks.len() > LARGEST {
        Some("there are too many tasks")
    } else {
        None
    }
}

/// Which sides of an exchange are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    Both,
    Readers,
    Producers,
    /// Readers that fold along the axis, block after block.
    Folded,
}

impl Ways {
    fn is_one_side(self) -> bool {
        matches!(self, Self::Readers | Self::Producers)
    }
}

/// What to try for a tensor, in order: axis, parts, sides.
fn asks(graph: &Graph, choice: &Choice, tensor: TensorId) -> Vec<(usize, usize, Ways)> {
    let block = match (choice.decompositions.get(&tensor), choice.homes.get(&tensor)) {
        (Some(decomposition), _) => {
            let spec = graph.spec(tensor).expect("a row with a decomposition computes");
            spec.result_region(&decomposition.blocks()[0].region)
        }
        (None, Some(Home::At(held))) if !held.is_empty() => held[0].region.clone(),
        (None, _) => return Vec::new(),
    };
    let mut axes: Vec<usize> = (0..block.rank()).filter(|&a| block.0[a].len() > 1).collect();
    axes.sort_by_key(|&a| (std::cmp::Reverse(block.0[a].len()), a));
    axes.truncate(AXES);
    let each = |parts: usize, ways: Ways| axes.clone().into_iter().map(move |a| (a, parts, ways));
    let sides = each(2, Ways::Readers).chain(each(2, Ways::Producers));
    let whole = each(2, Ways::Both).chain(each(4, Ways::Both)).chain(sides);
    each(2, Ways::Folded).chain(each(4, Ways::Folded)).chain(each(8, Ways::Folded)).chain(whole).collect()
}

/// How long devices do nothing before something that they work on next has come: by tensor, over all devices.
fn waited_for(tasks: &TaskGraph, timeline: &Timeline, machine: &Machine) -> BTreeMap<TensorId, f64> {
    let mut waited = BTreeMap::new();
    for device in machine.ids() {
        let of = |lane: Lane| timeline.events.iter().filter(move |e| e.device == device && e.lane == lane);
        let mut came: Vec<(f64, u32)> = of(Lane::Receive).map(|e| (e.end.0, e.task)).collect();
        came.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut free = 0.0;
        for event in of(Lane::Compute) {
            let last = came.partition_point(|c| c.0 <= event.start.0).checked_sub(1).map(|n| came[n]);
            if let Some((end, task)) = last.filter(|l| l.0 > free) {
                let tensor = TensorId(tasks.tasks[task as usize].label);
                *waited.entry(tensor).or_insert(0.0) += end - free;
            }
            free = event.end.0.max(free);
        }
    }
    waited
}

/// The tensors that are waited for, equal ones together, those waited for longest first.
fn groups(graph: &Graph, choice: &Choice, machine: &Machine, waited: &BTreeMap<TensorId, f64>) -> Vec<Vec<TensorId>> {
    let same = |a: TensorId, b: TensorId| {
        graph.node(a).op == graph.node(b).op
            && choice.decompositions.get(&a) == choice.decompositions.get(&b)
            && choice.homes.get(&a) == choice.homes.get(&b)
    };
    let mut groups: Vec<(f64, Vec<TensorId>)> = Vec::new();
    for (&tensor, &seconds) in waited {
        match groups.iter_mut().find(|g| same(g.1[0], tensor)) {
            Some(group) => {
                group.0 += seconds;
                group.1.push(tensor);
            }
            None => groups.push((seconds, vec![tensor])),
        }
    }
    // A cut costs each device at least another launch and another message for each tensor.
    let least = |g: &(f64, Vec<TensorId>)| g.0 > (machine.len() * g.1.len()) as f64 * overhead(machine);
    groups.retain(least);
    groups.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    groups.into_iter().map(|g| g.1).collect()
}

/// The least that one more launch and one more message take.
fn overhead(machine: &Machine) -> f64 {
    let least = |seconds: &mut dyn Iterator<Item = f64>| seconds.reduce(f64::min).unwrap_or(0.0);
    let launch = least(&mut machine.workers().iter().map(|d| machine.devices[d.index()].launch.0));
    machine.issue.0 + launch + least(&mut machine.links.iter().map(|l| l.latency.0))
}

/// Lowers and simulates choices, as often as it may.
struct Tries<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    options: &'a Options,
    answers: &'a mut Answers,
    /// Bytes that each device sends and receives by the uncut plan; a cut that moves others is another plan.
    crossed: (Vec<u64>, Vec<u64>),
    most: usize,
    left: usize,
}

impl Tries<'_> {
    /// The task graph and its makespan; nothing if that is not below `limit`, the graph does not fit, moves other bytes
    /// or is far larger, or there were tries enough.
    fn simulated(
        &mut self,
        choice: &Choice,
        staged: &Staged,
        limit: f64,
    ) -> Result<Option<(TaskGraph, f64)>, PlanError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut tasks = lower_staged(self.graph, choice, staged, self.machine, self.options, self.answers)?;
        if tasks.tasks.len() > self.most || crossed(&tasks) != self.crossed {
            return Ok(None);
        }
        // Memory only makes tasks wait longer, and planning it takes longer than simulating.
        if simulate(&tasks, self.machine).makespan().0 >= limit {
            return Ok(None);
        }
        plan_memory_apart(&mut tasks, self.machine, self.options.memory);
        if check_capacity(&tasks, self.machine, self.options.memory).is_err() {
            return Ok(None);
        }
        let seconds = simulate(&tasks, self.machine).makespan().0;
        Ok((seconds < limit).then_some((tasks, seconds)))
    }
}

/// Bytes that every device sends and receives.
fn crossed(tasks: &TaskGraph) -> (Vec<u64>, Vec<u64>) {
    let (mut sent, mut received) = (vec![0; tasks.devices], vec![0; tasks.devices]);
    for task in &tasks.tasks {
        if let Verb::Receive { from } = task.verb {
            let bytes = task.value.form.bytes(&task.value.region) as u64;
            sent[from.index()] += bytes;
            received[task.device.index()] += bytes;
        }
    }
    (sent, received)
}

/// A choice that is being cut.
struct Trial<'a> {
    graph: &'a Graph,
    /// Of every tensor.
    readers: &'a [Vec<TensorId>],
    choice: Choice,
    staged: Staged,
    /// The operations that were cut, with the name of the label.
    cut: BTreeMap<TensorId, String>,
    parts: usize,
}

impl Trial<'_> {
    /// Cuts what makes and what reads a tensor, along one of its axes.
    fn exchange(&mut self, tensor: TensorId, axis: usize, ways: Ways) {
        if ways == Ways::Folded {
            return self.folded(tensor, axis);
        }
        self.staged.insert(tensor, axis);
        if ways != Ways::Readers && self.cut(tensor, axis) {
            self.before(tensor, axis);
        }
        if ways != Ways::Producers {
            self.behind(tensor, axis);
        }
    }

    /// Cuts the operations that `reader` reads as its label goes, back to the nearest contractions.
    fn before(&mut self, reader: TensorId, label: usize) {
        let Some(spec) = self.graph.spec(reader).filter(|s| !s.work.contraction) else { return };
        for source in self.sources(reader, &spec) {
            let rank = self.graph.ty(source).shape.len();
            let follows = |axis: &usize| self.follows(reader, &spec, label, source, *axis);
            if let Some(axis) = (0..rank).find(follows)
                && self.cut(source, axis)
            {
                self.before(source, axis);
            }
        }
    }

    /// Cuts the operations that read a tensor along one of its axes, on to the nearest contractions.
    fn behind(&mut self, tensor: TensorId, axis: usize) {
        for &reader in &self.readers[tensor.index()] {
            let Some(spec) = self.graph.spec(reader) else { continue };
            let follows = |label: &usize| self.follows(reader, &spec, *label, tensor, axis);
            if let Some(label) = (0..spec.rank).find(follows)
                && self.cut(reader, label)
                && !spec.work.contraction
            {
                self.behind(reader, label);
            }
        }
    }

    /// Cuts the kernels that fold along a tensor's axis on the devices that do so, as long as each folds all of it.
    fn folded(&mut self, tensor: TensorId, axis: usize) {
        for &reader in &self.readers[tensor.index()] {
            let Some(spec) = self.graph.spec(reader) else { continue };
            let follows = |label: &usize| self.follows(reader, &spec, *label, tensor, axis);
            let label = (spec.rank..spec.labels.len()).find(follows);
            let kernel = matches!(self.graph.node(reader).op, Op::Kernel(_)) && spec.work.contraction;
            if let Some(label) = label.filter(|&l| kernel && spec.labels[l].role == Role::Fold) {
                self.cut_fold(reader, &spec, label);
            }
        }
    }

    /// Cuts every block of an operation along a label that it folds; what comes of the parts is folded where they are.
    fn cut_fold(&mut self, tensor: TensorId, spec: &Spec, label: usize) {
        let Some(decomposition) = self.choice.decompositions.get(&tensor) else { return };
        let whole = spec.space().0[label];
        if self.cut.contains_key(&tensor) || decomposition.blocks().iter().any(|b| b.region.0[label] != whole) {
            return;
        }
        let Some(finer) = self.finer(decomposition, spec, label) else { return };
        if self.choice.homes.get(&tensor) == Some(&Home::AsProduced) {
            let made = |b: &Block| Held { region: spec.result_region(&b.region), devices: b.devices };
            let held = decomposition.blocks().iter().map(made).collect();
            self.choice.homes.insert(tensor, Home::At(held));
        }
        self.choice.decompositions.insert(tensor, finer);
        self.cut.insert(tensor, spec.labels[label].name.clone());
    }

    /// A decomposition with every block cut in parts along a label; nothing where that cuts none.
    fn finer(&self, decomposition: &Decomposition, spec: &Spec, label: usize) -> Option<Decomposition> {
        let quantum = quantum(&spec.labels[label].rule);
        let blocks = decomposition.blocks().iter().flat_map(|block| {
            let regions = parts(&block.region, label, quantum, self.parts);
            regions.into_iter().map(|region| Block { region, devices: block.devices })
        });
        Decomposition::new(&spec.space(), blocks.collect()).filter(|finer| finer != decomposition)
    }

    /// The computed sources that an operation reads.
    fn sources(&self, reader: TensorId, spec: &Spec) -> BTreeSet<TensorId> {
        let inputs = self.graph.node(reader).inputs.iter().enumerate();
        let boxes = inputs.flat_map(|(n, &i)| source_boxes(self.graph, i, &spec.operand_region(n, &spec.space())));
        boxes.map(|b| b.0).filter(|t| self.choice.decompositions.contains_key(t)).collect()
    }

    /// Whether the halves of a reader's block along a label need different parts of a tensor's axis.
    fn follows(&self, reader: TensorId, spec: &Spec, label: usize, tensor: TensorId, axis: usize) -> bool {
        let Some(decomposition) = self.choice.decompositions.get(&reader) else { return false };
        // Half of a block may need nothing: early queries see no late keys.
        let halves = |block: &Block| {
            let i = block.region.0[label];
            let (low, high) = block.region.split(label, i.lo + i.len() / 2);
            self.needed(reader, spec, &low, tensor, axis).zip(self.needed(reader, spec, &high, tensor, axis))
        };
        let mut long = decomposition.blocks().iter().filter(|b| b.region.0[label].len() > 1);
        long.find_map(halves).is_some_and(|(low, high)| low.hi <= high.lo || high.hi <= low.lo)
    }

    /// From the first to the last index along a tensor's axis that a block needs.
    fn needed(&self, reader: TensorId, spec: &Spec, block: &Region, tensor: TensorId, axis: usize) -> Option<Interval> {
        let inputs = self.graph.node(reader).inputs.iter().enumerate();
        let boxes = inputs.flat_map(|(n, &i)| source_boxes(self.graph, i, &spec.operand_region(n, block)));
        let along = boxes.filter(|b| b.0 == tensor).filter_map(|b| b.1.0.get(axis).copied());
        along.reduce(|a, b| Interval::new(a.lo.min(b.lo), a.hi.max(b.hi)))
    }

    /// Cuts every block of an operation along an output label, and the blocks of its home likewise. Whether it could.
    fn cut(&mut self, tensor: TensorId, label: usize) -> bool {
        if self.cut.contains_key(&tensor) {
            return false;
        }
        let Some(spec) = self.graph.spec(tensor) else { return false };
        let Some(of) = spec.labels[..spec.rank].get(label).filter(|l| l.role == Role::Free) else { return false };
        let Some(decomposition) = self.choice.decompositions.get(&tensor) else { return false };
        let Some(finer) = self.finer(decomposition, &spec, label) else { return false };
        let quantum = quantum(&of.rule);
        if let Some(Home::At(held)) = self.choice.homes.get_mut(&tensor) {
            let finer = held.iter().flat_map(|h| {
                let regions = parts(&h.region, label, quantum, self.parts);
                regions.into_iter().map(|region| Held { region, devices: h.devices })
            });
            *held = finer.collect();
        }
        self.choice.decompositions.insert(tensor, finer);
        self.staged.insert(tensor, label);
        self.cut.insert(tensor, of.name.clone());
        true
    }
}

/// What cuts of a label are multiples of.
fn quantum(rule: &Rule) -> usize {
    match rule {
        Rule::Any => 1,
        Rule::MultipleOf(n) => *n,
    }
}

/// A region in parts along one axis, cut at multiples of a quantum from its start.
fn parts(region: &Region, axis: usize, quantum: usize, count: usize) -> Vec<Region> {
    let whole = region.0[axis];
    let part = |i: Interval| {
        let mut part = region.clone();
        part.0[axis] = Interval::new(whole.lo + i.lo, whole.lo + i.hi);
        part
    };
    even(whole.len(), quantum, count).into_iter().filter(|i| !i.is_empty()).map(part).collect()
}
