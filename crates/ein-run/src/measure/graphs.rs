//! Task graphs to be timed.

use crate::error::RunError;
use crate::executor::Executor;
use crate::source::{ParameterSource, bytes_of};
use ein_ir::dense::Dense;
use ein_ir::graph::TensorType;
use ein_ir::monoid::Form;
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::memory::{ALIGN, plan_memory};
use ein_task::task::{External, OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};
use ein_task::units::Bytes;
use std::collections::BTreeMap;

/// A task graph that grows.
pub struct Rows(TaskGraph);

impl Rows {
    /// One without rows, on so many devices.
    pub fn new(devices: usize) -> Self {
        Self(TaskGraph { devices, labels: vec!["measured".into()], ..TaskGraph::default() })
    }

    /// A parameter of this type: its position among the externals.
    pub fn parameter(&mut self, ty: &TensorType) -> usize {
        let name = format!("x{}", self.0.externals.len());
        self.0.externals.push(External { name, kind: InputKind::Parameter, ty: ty.clone() });
        self.0.externals.len() - 1
    }

    /// An operation on operands of these types, which computes: its position among the operations.
    pub fn op(&mut self, op: Op, operands: &[TensorType]) -> usize {
        let types: Vec<_> = operands.iter().map(|t| t.dtype).collect();
        let spec = op.spec(&types).expect("what is measured computes");
        let result = TensorType::new(spec.dtype, spec.result_region(&spec.space()).shape());
        let operands = operands.to_vec();
        self.0.ops.push(OpRow { name: "measured".into(), op, operands, spec: Some(spec), result });
        self.0.ops.len() - 1
    }

    /// A parameter, whole, on a device.
    pub fn feed(&mut self, device: usize, external: usize) -> TaskId {
        let region = self.0.externals[external].ty.whole();
        let form = Form::finished(self.0.externals[external].ty.dtype, region.rank());
        self.push(device, Verb::Feed { external }, &[], Value { region, form })
    }

    /// A whole operation on one device.
    pub fn kernel(&mut self, device: usize, op: usize, reads: &[TaskId]) -> TaskId {
        let spec = self.0.ops[op].spec.as_ref().expect("made with one");
        let (labels, dtype) = (spec.space(), spec.dtype);
        let region = spec.result_region(&labels);
        let form = Form::finished(dtype, region.rank());
        let operands = (0..reads.len()).map(Some).collect();
        self.push(device, Verb::Kernel { op, labels, finish: true, operands }, reads, Value { region, form })
    }

    /// A box of a value, on its device.
    pub fn cut(&mut self, of: TaskId, region: Region) -> TaskId {
        let task = self.0.task(of);
        let (device, form) = (task.device.index(), task.value.form.clone());
        self.push(device, Verb::Cut, &[of], Value { region, form })
    }

    /// Both halves of a move of all of a value; the receiving one.
    pub fn transfer(&mut self, of: TaskId, to: usize) -> TaskId {
        self.transfer_box(of, self.0.task(of).value.region.clone(), to)
    }

    /// Both halves of a move of a box of a value; the receiving one.
    pub fn transfer_box(&mut self, of: TaskId, region: Region, to: usize) -> TaskId {
        let (from, value) = (self.0.task(of).device, Value { region, form: self.0.task(of).value.form.clone() });
        let nothing = Value::nothing(value.region.clone());
        let send = self.push(from.index(), Verb::Send { to: DeviceId(to as u16) }, &[of], nothing);
        self.push(to, Verb::Receive { from }, &[send], value)
    }

    /// A result of the graph, by this name: a value, whole.
    pub fn output(&mut self, name: &str, of: TaskId) {
        let (device, region) = (self.0.task(of).device.index(), self.0.task(of).value.region.clone());
        let ty = TensorType::new(self.0.task(of).value.form.fields[0].dtype, region.shape());
        self.0.outputs.push((name.into(), ty));
        let output = self.0.outputs.len() - 1;
        self.push(device, Verb::Output { output }, &[of], Value::nothing(region));
    }

    /// Has a row wait for an earlier one besides those that it reads. [`Rows::apart`] keeps that; planning memory does not.
    pub fn wait(&mut self, row: TaskId, earlier: TaskId) {
        self.0.tasks[row.index()].after.push(earlier);
    }

    /// The task graph, with memory of its own for every value: nothing waits but for what it reads and what it was told
    /// to wait for.
    pub fn apart(mut self) -> TaskGraph {
        self.0.arenas = vec![Bytes(0); self.0.devices];
        for task in &mut self.0.tasks {
            let end = &mut self.0.arenas[task.device.index()].0;
            task.slot = Slot { offset: *end, bytes: task.value.bytes().0.next_multiple_of(ALIGN) };
            *end += task.slot.bytes;
        }
        self.0
    }

    fn push(&mut self, device: usize, verb: Verb, reads: &[TaskId], value: Value) -> TaskId {
        let device = DeviceId(device as u16);
        let (reads, slot) = (reads.to_vec(), Slot::default());
        self.0.push(Task { device, verb, reads, after: Vec::new(), value, within: None, slot, label: 0 })
    }

    /// Ready to run: memory planned, parameters filled.
    pub(super) fn executor(mut self) -> Result<Executor, RunError> {
        plan_memory(&mut self.0);
        Executor::new(self.0, &Numbers)
    }
}

/// When every task of a run started and ended, in seconds.
pub(super) type Spans = BTreeMap<usize, (f64, f64)>;

/// Runs a graph some times, after a few runs to warm up, and gives the timeline's events of each: start and end in
/// seconds, by task.
pub(super) fn timed(executor: &mut Executor, runs: usize) -> Result<Vec<Spans>, RunError> {
    let warm = runs.min(3);
    let mut all = Vec::new();
    for n in 0..runs + warm {
        let run = executor.run(&BTreeMap::new())?;
        if n >= warm {
            let events = run.timeline.events;
            all.push(events.into_iter().map(|e| (e.task as usize, (e.start.0, e.end.0))).collect());
        }
    }
    Ok(all)
}

/// Parameters of numbers from a half to one and a half: nothing overflows or gets denormal.
struct Numbers;

impl ParameterSource for Numbers {
    fn read(&self, _: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        let value = |n: usize| 0.5 + (n.wrapping_mul(0x9e37_79b9) >> 8 & 0xff) as f64 / 256.0;
        let values: Vec<f64> = (0..region.shape().iter().product()).map(value).collect();
        out.copy_from_slice(bytes_of(&Dense::from_f64(ty.dtype, region.shape(), &values)));
        Ok(())
    }
}
