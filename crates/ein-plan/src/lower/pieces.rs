//! What devices have: the table from which readers take what they need.

use ein_ir::graph::{Graph, TensorId};
use ein_ir::monoid::Form;
use ein_ir::op::Op;
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::task::{OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};
use std::collections::{BTreeMap, HashMap};

/// The rows so far, and which of them hold what.
pub(super) struct Rows<'a> {
    graph: &'a Graph,
    pub(super) out: TaskGraph,
    /// Finished boxes of sources and of views, in the order in which they came to be.
    finished: BTreeMap<(TensorId, DeviceId), Vec<TaskId>>,
    /// Blocks of a produced relation that are still to be folded.
    partials: BTreeMap<(TensorId, usize, DeviceId), TaskId>,
    /// Boxes that were already cut out of a row's value. Looked up, never iterated.
    cuts: HashMap<(TaskId, Region), TaskId>,
    ops: BTreeMap<TensorId, usize>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(graph: &'a Graph, out: TaskGraph) -> Self {
        Self {
            graph,
            out,
            finished: BTreeMap::new(),
            partials: BTreeMap::new(),
            cuts: HashMap::new(),
            ops: BTreeMap::new(),
        }
    }

    /// Adds a row that belongs to `tensor`.
    pub(super) fn push(
        &mut self,
        tensor: TensorId,
        device: DeviceId,
        verb: Verb,
        reads: Vec<TaskId>,
        value: Value,
    ) -> TaskId {
        let label = tensor.0;
        self.out.push(Task {
            device,
            verb,
            reads,
            after: Vec::new(),
            value,
            within: None,
            slot: Slot::default(),
            label,
        })
    }

    /// The position of a row's operation, added when first used.
    pub(super) fn op(&mut self, tensor: TensorId) -> usize {
        let next = self.out.ops.len();
        let op = *self.ops.entry(tensor).or_insert(next);
        if op == next {
            self.out.ops.push(OpRow::of(self.graph, tensor));
        }
        op
    }

    /// Notes that a row holds a finished box of a tensor.
    pub(super) fn add_finished(&mut self, tensor: TensorId, device: DeviceId, task: TaskId) {
        let list = self.finished.entry((tensor, device)).or_default();
        if !list.contains(&task) {
            list.push(task);
        }
    }

    /// Notes that a row holds block `block` of what `tensor`'s producer leaves, pending.
    pub(super) fn add_partial(&mut self, tensor: TensorId, block: usize, device: DeviceId, task: TaskId) {
        self.partials.insert((tensor, block, device), task);
    }

    /// The row that holds a pending block.
    pub(super) fn partial(&self, tensor: TensorId, block: usize, device: DeviceId) -> TaskId {
        self.partials[&(tensor, block, device)]
    }

    /// The smallest finished box of a tensor at a device that contains `region`; of equals, the oldest.
    fn containing(&self, tensor: TensorId, device: DeviceId, region: &Region) -> Option<TaskId> {
        let list = self.finished.get(&(tensor, device))?;
        let holds = |t: &&TaskId| self.out.task(**t).value.region.contains(region);
        list.iter().filter(holds).min_by_key(|t| self.out.task(**t).value.region.volume()).copied()
    }

    /// A row on `device` whose value contains `region` of any tensor: what is there, what views and pastes make
    /// of it.
    pub(super) fn read(&mut self, tensor: TensorId, device: DeviceId, region: &Region) -> TaskId {
        if let Some(task) = self.containing(tensor, device, region) {
            return task;
        }
        match &self.graph.node(tensor).op {
            Op::View(_) => self.view(tensor, device, region),
            Op::Input(_) | Op::Einsum(_) | Op::Kernel(_) => self.paste(tensor, device, region),
        }
    }

    /// Exactly `region` out of a row's value: the row itself if that is all it holds.
    pub(super) fn cut(&mut self, tensor: TensorId, task: TaskId, region: &Region) -> TaskId {
        let from = self.out.task(task);
        if from.value.region == *region {
            return task;
        }
        if let Some(&cut) = self.cuts.get(&(task, region.clone())) {
            return cut;
        }
        let (device, value) = (from.device, Value { region: region.clone(), form: from.value.form.clone() });
        let cut = self.push(tensor, device, Verb::Cut, vec![task], value);
        self.cuts.insert((task, region.clone()), cut);
        cut
    }

    /// A box of a view, level by level.
    fn view(&mut self, tensor: TensorId, device: DeviceId, region: &Region) -> TaskId {
        let graph = self.graph;
        let node = graph.node(tensor);
        let Op::View(view) = &node.op else { unreachable!("called for views") };
        let shapes: Vec<&[usize]> = node.inputs.iter().map(|&i| graph.ty(i).shape.as_slice()).collect();
        let (mut reads, mut inputs) = (Vec::new(), Vec::new());
        for pull in view.pulls(&shapes, region) {
            let Some(input) = pull.input.filter(|_| !pull.source.is_empty()) else { continue };
            let task = self.read(node.inputs[input], device, &pull.source);
            if !reads.iter().zip(&inputs).any(|(&r, &i)| r == task && i == input) {
                reads.push(task);
                inputs.push(input);
            }
        }
        let op = self.op(tensor);
        let form = Form::finished(node.ty.dtype, node.ty.shape.len());
        let value = Value { region: region.clone(), form };
        let task = self.push(tensor, device, Verb::View { op, inputs }, reads, value);
        self.add_finished(tensor, device, task);
        task
    }

    /// A box of a source from several local boxes.
    fn paste(&mut self, tensor: TensorId, device: DeviceId, region: &Region) -> TaskId {
        let mut missing = vec![region.clone()];
        let mut parts = Vec::new();
        for have in self.finished.get(&(tensor, device)).cloned().unwrap_or_default() {
            let held = self.out.task(have).value.region.clone();
            let mut left = Vec::new();
            for part in missing {
                parts.extend(part.intersect(&held).map(|both| (have, both)));
                left.extend(part.subtract(&held));
            }
            missing = left;
        }
        assert!(missing.is_empty(), "{region} of {tensor} is read on {device} but {missing:?} of it is not there");
        let task = self.pasted(tensor, device, region, parts);
        self.add_finished(tensor, device, task);
        task
    }

    /// Disjoint boxes out of rows' values, side by side. Of a value that has more of the region than is wanted of it,
    /// the boxes are cut out.
    pub(super) fn pasted(
        &mut self,
        tensor: TensorId,
        device: DeviceId,
        region: &Region,
        parts: Vec<(TaskId, Region)>,
    ) -> TaskId {
        let form = match parts.first() {
            Some((first, _)) => self.out.task(*first).value.form.clone(),
            None => Form::finished(self.graph.ty(tensor).dtype, region.rank()),
        };
        let mut wanted: BTreeMap<TaskId, usize> = BTreeMap::new();
        for (task, part) in &parts {
            *wanted.entry(*task).or_default() += part.volume();
        }
        let mut reads: Vec<TaskId> = Vec::new();
        for (task, part) in parts {
            let whole = self.out.task(task).value.region.overlap(region) == wanted[&task];
            let read = if whole { task } else { self.cut(tensor, task, &part) };
            if !reads.contains(&read) {
                reads.push(read);
            }
        }
        self.push(tensor, device, Verb::Paste, reads, Value { region: region.clone(), form })
    }
}
