//! The task graph: everything that happens, on devices, with what each step waits for.

use crate::machine::DeviceId;
use crate::units::Bytes;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_ir::spec::Spec;
use std::fmt;

/// A row of a task graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl TaskId {
    /// Position in [`TaskGraph::tasks`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a task leaves in its device's memory: a box of a tensor in some form, fields packed as
/// [`Form::layout`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The box, in the tensor's own coordinates.
    pub region: Region,
    /// How it is stored.
    pub form: Form,
}

impl Value {
    /// What a task leaves that leaves nothing: the region that it sends or hands out, no fields.
    pub fn nothing(region: Region) -> Self {
        Self { region, form: Form { fields: Vec::new() } }
    }

    /// Whether nothing is left.
    pub fn is_nothing(&self) -> bool {
        self.form.fields.is_empty()
    }

    /// Bytes in storage.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.form.layout(&self.region).1 as u64)
    }
}

/// What a task does. Every read is of a task on the same device, except a `Receive`'s send half.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Brings in the value's region of an external tensor: once if a parameter, else every run.
    Feed {
        /// Position in [`TaskGraph::externals`].
        external: usize,
    },
    /// One block of an operation.
    Kernel {
        /// Position in [`TaskGraph::ops`].
        op: usize,
        /// The block, in label space.
        labels: Region,
        /// Whether to finish the result (the block holds every folded label) or leave it pending.
        finish: bool,
        /// For every operand, which of `reads` holds it; that value's region contains the operand's
        /// region. `None` where the block reads nothing of it.
        operands: Vec<Option<usize>>,
    },
    /// Blocks of several operations, each the only reader of the one before it: what is between them is never a value. What
    /// it means is what the stages mean one after the other.
    Fused {
        /// Two or more. All but the last are finished; all but the first fold nothing and read the one before element
        /// by element: its axes are their first labels, in order.
        stages: Vec<Stage>,
    },
    /// A box of a view's result from boxes of its inputs.
    View {
        /// Position in [`TaskGraph::ops`].
        op: usize,
        /// For every read, which input of the view it is a box of.
        inputs: Vec<usize>,
    },
    /// The value's region out of the one read.
    Cut,
    /// The sending half of a move of the value's region, out of the one read; leaves nothing.
    Send {
        /// Where to.
        to: DeviceId,
    },
    /// The receiving half of a move; reads its send half, which is on another device.
    Receive {
        /// Where from.
        from: DeviceId,
    },
    /// Combines the reads, of equal regions, in order.
    Fold {
        /// How.
        monoid: Monoid,
        /// Whether the result is finished.
        finish: bool,
    },
    /// What the reads have of the value's region, disjoint, fills it.
    Paste,
    /// Hands the value's region, out of the one read, to the caller; leaves nothing.
    Output {
        /// Position in [`TaskGraph::outputs`].
        output: usize,
    },
}

/// One operation's block of a fused row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// Position in [`TaskGraph::ops`].
    pub op: usize,
    /// The block, in label space.
    pub labels: Region,
    /// Whether to finish the result, as of a kernel.
    pub finish: bool,
    /// For every operand, where it is. `None` where the block reads nothing of it.
    pub operands: Vec<Option<Source>>,
}

/// Where an operand of a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// In this one of the row's reads.
    Read(usize),
    /// It is what the stage before leaves.
    Previous,
}

impl Verb {
    /// Its name in text forms and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Feed { .. } => "feed",
            Self::Kernel { .. } => "kernel",
            Self::Fused { .. } => "fused",
            Self::View { .. } => "view",
            Self::Cut => "cut",
            Self::Send { .. } => "send",
            Self::Receive { .. } => "receive",
            Self::Fold { .. } => "fold",
            Self::Paste => "paste",
            Self::Output { .. } => "output",
        }
    }
}

/// Where in its device's arena a task's value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Slot {
    /// First byte, a multiple of 64.
    pub offset: u64,
    /// Bytes reserved, a multiple of 64.
    pub bytes: u64,
}

/// One row: where, what, from what, after what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// The device that executes it.
    pub device: DeviceId,
    /// What it does.
    pub verb: Verb,
    /// Earlier tasks whose values it reads.
    pub reads: Vec<TaskId>,
    /// Earlier tasks of the same device it must also wait for, because it reuses their memory.
    pub after: Vec<TaskId>,
    /// What it leaves; empty fields for `Send` and `Output`.
    pub value: Value,
    /// The box in whose memory it leaves it, that of the row which alone reads it: of the paste of what is received, so
    /// that nothing is left to paste; of a reshape of all of it, whose elements lie just so. `None`: in memory of its own.
    /// The slot is then that of the whole box.
    pub within: Option<Region>,
    /// Where it leaves it; set by the memory plan.
    pub slot: Slot,
    /// The tensor it belongs to, for messages and traces.
    pub label: u32,
}

/// An operation that tasks refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRow {
    /// The graph node's name.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Types of its whole operands.
    pub operands: Vec<TensorType>,
    /// Its spec; `None` for views.
    pub spec: Option<Spec>,
    /// Type of its whole result.
    pub result: TensorType,
}

impl OpRow {
    /// The operation of a row of a graph.
    pub fn of(graph: &Graph, id: TensorId) -> Self {
        let node = graph.node(id);
        Self {
            name: node.name.clone(),
            op: node.op.clone(),
            operands: node.inputs.iter().map(|&i| graph.ty(i).clone()).collect(),
            spec: graph.spec(id),
            result: node.ty.clone(),
        }
    }
}

/// A tensor that comes from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// The graph input's name.
    pub name: String,
    /// Parameter, input or state.
    pub kind: InputKind,
    /// Its type.
    pub ty: TensorType,
}

/// A whole execution on `devices` devices, complete and static.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskGraph {
    /// Number of devices.
    pub devices: usize,
    /// The operations.
    pub ops: Vec<OpRow>,
    /// The tensors that come in.
    pub externals: Vec<External>,
    /// The tensors that go out: name and type.
    pub outputs: Vec<(String, TensorType)>,
    /// The rows; each names only earlier rows.
    pub tasks: Vec<Task>,
    /// Names that `Task::label` points to: the tensors.
    pub labels: Vec<String>,
    /// Bytes of every device's arena; set by the memory plan.
    pub arenas: Vec<Bytes>,
}

impl TaskGraph {
    /// Adds a row.
    pub fn push(&mut self, task: Task) -> TaskId {
        self.tasks.push(task);
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// One row.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// All rows with their ids, in order.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (TaskId, &Task)> {
        self.tasks.iter().enumerate().map(|(n, t)| (TaskId(n as u32), t))
    }

    /// For every row, the rows that read it, in order.
    pub fn readers(&self) -> Vec<Vec<TaskId>> {
        let mut readers = vec![Vec::new(); self.tasks.len()];
        for (id, task) in self.rows() {
            for read in &task.reads {
                let list: &mut Vec<TaskId> = &mut readers[read.index()];
                if list.last() != Some(&id) {
                    list.push(id);
                }
            }
        }
        readers
    }

    /// Lets rows that one row alone reads leave their values in its memory, where it has nothing left to do for them then:
    /// what is received for a paste, and what a reshape shows as it lies.
    pub fn leave_in_place(&mut self) {
        let readers = self.readers();
        for (n, readers) in readers.iter().enumerate() {
            let &[reader] = readers.as_slice() else { continue };
            let reader = self.task(reader);
            let fits = self.fits_within(&self.tasks[n], reader);
            self.tasks[n].within = fits.then(|| reader.value.region.clone());
        }
    }

    /// Whether a row may leave its value in the memory of its only reader.
    pub(crate) fn fits_within(&self, task: &Task, reader: &Task) -> bool {
        match (&task.verb, &reader.verb) {
            (Verb::Receive { .. }, Verb::Paste) => reader.value.region.contains(&task.value.region),
            (
                Verb::Feed { .. }
                | Verb::Receive { .. }
                | Verb::Kernel { .. }
                | Verb::Fused { .. }
                | Verb::View { .. }
                | Verb::Cut
                | Verb::Fold { .. }
                | Verb::Paste,
                Verb::View { op, .. },
            ) => {
                // It shows nothing else, and there is as much of the one as of the other: the same elements, both in
                // row-major order of the whole.
                let op = self.ops.get(*op).map(|row| &row.op);
                let reshape = matches!(op, Some(Op::View(view)) if view.shows_all_as_it_lies());
                let one = [task, reader].iter().all(|t| t.value.form.fields.len() == 1);
                // What is resident has a slot of its own for good.
                let feed = |external: usize| self.externals.get(external).is_some_and(|e| !e.is_resident());
                let passes = !matches!(task.verb, Verb::Feed { external } if !feed(external));
                reshape
                    && one
                    && passes
                    && reader.reads.len() == 1
                    && task.device == reader.device
                    && task.value.region.volume() == reader.value.region.volume()
                    && task.value.bytes() == reader.value.bytes()
            }
            _ => false,
        }
    }

    /// The name of the tensor that a row belongs to.
    pub fn label(&self, id: TaskId) -> &str {
        self.labels.get(self.task(id).label as usize).map_or("?", String::as_str)
    }

    /// What a row feeds, if it is a feed.
    pub fn fed(&self, id: TaskId) -> Option<&External> {
        match self.task(id).verb {
            Verb::Feed { external } => self.externals.get(external),
            _ => None,
        }
    }
}

impl Task {
    /// The box whose elements its slot holds: what it leaves, or of what is received for a paste, what that is written into.
    /// A reshape has as many elements as what is left in its memory, and they lie as they lay.
    pub fn stored(&self) -> &Region {
        match (&self.verb, &self.within) {
            (Verb::Receive { .. }, Some(within)) if within.volume() > self.value.region.volume() => within,
            _ => &self.value.region,
        }
    }
}

impl External {
    /// Whether it stays in memory between runs.
    pub fn is_resident(&self) -> bool {
        match self.kind {
            InputKind::Parameter | InputKind::State => true,
            InputKind::Input => false,
        }
    }
}
