//! Task graphs written by hand.
#![allow(dead_code)]

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::memory::plan_memory;
use ein_task::task::{External, OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};

/// A task graph that grows row by row.
pub struct Build(pub TaskGraph);

impl Build {
    pub fn new(devices: usize) -> Self {
        Self(TaskGraph { devices, labels: vec!["unnamed".into()], ..TaskGraph::default() })
    }

    pub fn external(&mut self, name: &str, kind: InputKind, dtype: DType, shape: &[usize]) -> usize {
        self.0.externals.push(External { name: name.into(), kind, ty: TensorType::new(dtype, shape) });
        self.0.externals.len() - 1
    }

    pub fn op(&mut self, name: &str, op: Op, operands: &[TensorType], result: TensorType) -> usize {
        let dtypes: Vec<DType> = operands.iter().map(|t| t.dtype).collect();
        let spec = op.spec(&dtypes);
        self.0.ops.push(OpRow { name: name.into(), op, operands: operands.to_vec(), spec, result });
        self.0.ops.len() - 1
    }

    /// Later rows belong to this tensor.
    pub fn label(&mut self, name: &str) {
        self.0.labels.push(name.into());
    }

    pub fn push(&mut self, device: u16, verb: Verb, reads: &[TaskId], region: Region, form: Form) -> TaskId {
        self.0.tasks.push(Task {
            device: DeviceId(device),
            verb,
            reads: reads.to_vec(),
            after: Vec::new(),
            value: Value { region, form },
            within: None,
            slot: Slot::default(),
            label: self.0.labels.len() as u32 - 1,
        });
        TaskId(self.0.tasks.len() as u32 - 1)
    }

    pub fn value(&self, task: TaskId) -> &Value {
        &self.0.tasks[task.index()].value
    }

    pub fn feed(&mut self, device: u16, external: usize, region: Region) -> TaskId {
        let form = Form::finished(self.0.externals[external].ty.dtype, region.rank());
        self.push(device, Verb::Feed { external }, &[], region, form)
    }

    /// A block whose operands are all given.
    pub fn kernel(&mut self, device: u16, op: usize, labels: Region, finish: bool, reads: &[TaskId]) -> TaskId {
        let spec = self.0.ops[op].spec.as_ref().expect("it computes");
        let region = spec.result_region(&labels);
        let form = if finish {
            Form::finished(spec.dtype, region.rank())
        } else {
            spec.monoid.pending(spec.dtype, region.rank(), false)
        };
        let operands = (0..reads.len()).map(Some).collect();
        self.push(device, Verb::Kernel { op, labels, finish, operands }, reads, region, form)
    }

    pub fn cut(&mut self, of: TaskId, region: Region) -> TaskId {
        let (device, form) = (self.0.tasks[of.index()].device.0, self.value(of).form.clone());
        self.push(device, Verb::Cut, &[of], region, form)
    }

    /// Both halves of a move; the receiving one.
    pub fn send(&mut self, of: TaskId, to: u16) -> TaskId {
        let from = self.0.tasks[of.index()].device;
        let value = self.value(of).clone();
        let nothing = Form { fields: Vec::new() };
        let send = self.push(from.0, Verb::Send { to: DeviceId(to) }, &[of], value.region.clone(), nothing);
        self.push(to, Verb::Receive { from }, &[send], value.region, value.form)
    }

    pub fn fold(&mut self, monoid: Monoid, finish: bool, of: &[TaskId], dtype: DType) -> TaskId {
        let device = self.0.tasks[of[0].index()].device.0;
        let Value { region, form } = self.value(of[0]).clone();
        let form = if finish { Form::finished(dtype, region.rank()) } else { form };
        self.push(device, Verb::Fold { monoid, finish }, of, region, form)
    }

    pub fn paste(&mut self, of: &[TaskId], region: Region) -> TaskId {
        let (device, form) = (self.0.tasks[of[0].index()].device.0, self.value(of[0]).form.clone());
        self.push(device, Verb::Paste, of, region, form)
    }

    pub fn view(&mut self, op: usize, of: &[(usize, TaskId)], region: Region) -> TaskId {
        let device = self.0.tasks[of[0].1.index()].device.0;
        let form = Form::finished(self.0.ops[op].result.dtype, region.rank());
        let reads: Vec<TaskId> = of.iter().map(|r| r.1).collect();
        self.push(device, Verb::View { op, inputs: of.iter().map(|r| r.0).collect() }, &reads, region, form)
    }

    pub fn output(&mut self, name: &str, dtype: DType, shape: &[usize], of: &[TaskId]) {
        self.0.outputs.push((name.into(), TensorType::new(dtype, shape)));
        let output = self.0.outputs.len() - 1;
        for &task in of {
            let (device, region) = (self.0.tasks[task.index()].device.0, self.value(task).region.clone());
            self.push(device, Verb::Output { output }, &[task], region, Form { fields: Vec::new() });
        }
    }

    /// The graph with its memory planned.
    pub fn finish(mut self) -> TaskGraph {
        plan_memory(&mut self.0);
        self.0
    }
}

/// Integers from -3 to 3 that look random.
pub fn integers(dtype: DType, shape: &[usize], seed: u64) -> Dense {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) % 7) as f64 - 3.0
    };
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| next()).collect();
    Dense::from_f64(dtype, shape, &values)
}
