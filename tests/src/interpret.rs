//! An interpreter of task graphs that computes with the dense reference: what a plan means.
//!
//! Values lie as bytes in arenas at their slots, and rows can run in any order that their edges allow, so a
//! wrong memory plan or a missing wait shows as a wrong result.

use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::monoid::Form;
use ein_ir::op::Op;
use ein_ir::reference::{EvalError, Operand, block, combine, finish, run_from, view_as};
use ein_ir::region::Region;
use ein_task::task::{Source, TaskGraph, TaskId, Verb};
use std::collections::BTreeMap;

/// In which order rows run.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// As they stand.
    Rows,
    /// Any that reads and waits allow, drawn with this seed.
    Drawn(u64),
}

/// Computes the outputs of `graph` by running `tasks`, its plan.
pub fn interpret(
    graph: &Graph,
    tasks: &TaskGraph,
    inputs: &BTreeMap<String, Dense>,
    order: Order,
) -> Result<BTreeMap<String, Dense>, EvalError> {
    let sources = interpret_sources(tasks, inputs, order)?;
    let by_id: BTreeMap<TensorId, Dense> = sources
        .into_iter()
        .map(|(name, value)| (graph.find(&name).expect("outputs are named as in the graph"), value))
        .collect();
    run_from(graph, &by_id)
}

/// Runs a task graph: its outputs by name, which are the sources behind a graph's outputs.
pub fn interpret_sources(
    tasks: &TaskGraph,
    inputs: &BTreeMap<String, Dense>,
    order: Order,
) -> Result<BTreeMap<String, Dense>, EvalError> {
    let mut state = State::new(tasks);
    for id in ordered(tasks, order) {
        state.step(id, inputs)?;
    }
    let outputs = tasks.outputs.iter().zip(&state.outputs);
    Ok(outputs
        .map(|((name, ty), parts)| {
            let parts: Vec<(&Region, &Dense)> = parts.iter().map(|(r, d)| (r, d)).collect();
            (name.clone(), Dense::paste(ty.dtype, &ty.whole(), &parts))
        })
        .collect())
}

/// The rows in an order that reads and waits allow.
fn ordered(tasks: &TaskGraph, order: Order) -> Vec<TaskId> {
    let Order::Drawn(seed) = order else { return tasks.rows().map(|(id, _)| id).collect() };
    let mut wakes = vec![Vec::new(); tasks.tasks.len()];
    let mut waits = vec![0; tasks.tasks.len()];
    for (id, task) in tasks.rows() {
        for before in task.reads.iter().chain(&task.after) {
            wakes[before.index()].push(id);
            waits[id.index()] += 1;
        }
    }
    let mut ready: Vec<TaskId> = tasks.rows().map(|(id, _)| id).filter(|id| waits[id.index()] == 0).collect();
    let mut drawn = Vec::new();
    let mut random = seed;
    while !ready.is_empty() {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let id = ready.swap_remove((random >> 33) as usize % ready.len());
        drawn.push(id);
        for next in &wakes[id.index()] {
            waits[next.index()] -= 1;
            if waits[next.index()] == 0 {
                ready.push(*next);
            }
        }
    }
    drawn
}

struct State<'a> {
    tasks: &'a TaskGraph,
    /// Bytes of every device's arena, at first of no meaning.
    arenas: Vec<Vec<u8>>,
    /// Values by row, where there is no memory plan.
    values: BTreeMap<TaskId, Vec<Dense>>,
    /// What is on its way, by send half.
    messages: BTreeMap<TaskId, Vec<Dense>>,
    outputs: Vec<Vec<(Region, Dense)>>,
}

impl<'a> State<'a> {
    fn new(tasks: &'a TaskGraph) -> Self {
        Self {
            tasks,
            arenas: tasks.arenas.iter().map(|a| vec![0xa5; a.0 as usize]).collect(),
            values: BTreeMap::new(),
            messages: BTreeMap::new(),
            outputs: vec![Vec::new(); tasks.outputs.len()],
        }
    }

    fn step(&mut self, id: TaskId, inputs: &BTreeMap<String, Dense>) -> Result<(), EvalError> {
        let tasks = self.tasks;
        let task = tasks.task(id);
        let region = &task.value.region;
        let fields = match &task.verb {
            Verb::Receive { .. } => self.messages.remove(&task.reads[0]).expect("sent before"),
            Verb::Feed { external } => {
                let external = &tasks.externals[*external];
                let missing = || EvalError::Missing { name: external.name.clone(), expected: external.ty.clone() };
                vec![inputs.get(&external.name).ok_or_else(missing)?.cut(&external.ty.whole(), region)]
            }
            Verb::Kernel { op, labels, finish, operands } => {
                let reads: Vec<Dense> = task.reads.iter().map(|&r| self.read(r).remove(0)).collect();
                let operand = |at: &Option<usize>| {
                    at.map(|n| Operand { data: &reads[n], region: tasks.task(task.reads[n]).value.region.clone() })
                };
                let operands: Vec<Option<Operand>> = operands.iter().map(operand).collect();
                block(&tasks.ops[*op].op, labels, &operands, &task.value.form, *finish)?
            }
            Verb::Fused { stages } => {
                let reads: Vec<Dense> = task.reads.iter().map(|&r| self.read(r).remove(0)).collect();
                let mut before: Option<(Region, Vec<Dense>)> = None;
                for (n, stage) in stages.iter().enumerate() {
                    let operand = |source: &Option<Source>| match (*source)? {
                        Source::Read(n) => {
                            Some(Operand { data: &reads[n], region: tasks.task(task.reads[n]).value.region.clone() })
                        }
                        Source::Previous => before.as_ref().map(|(r, d)| Operand { data: &d[0], region: r.clone() }),
                    };
                    let operands: Vec<Option<Operand>> = stage.operands.iter().map(operand).collect();
                    let row = &tasks.ops[stage.op];
                    let spec = row.spec.as_ref().expect("it computes");
                    let region = spec.result_region(&stage.labels);
                    let between = Form::finished(row.result.dtype, row.result.shape.len());
                    let form = if n + 1 == stages.len() { &task.value.form } else { &between };
                    let left = block(&row.op, &stage.labels, &operands, form, stage.finish)?;
                    before = Some((region, left));
                }
                before.expect("a fused row has stages").1
            }
            Verb::View { op, inputs } => {
                let row = &tasks.ops[*op];
                let Op::View(kind) = &row.op else { panic!("{} is not a view", row.name) };
                let shapes: Vec<&[usize]> = row.operands.iter().map(|t| t.shape.as_slice()).collect();
                let reads: Vec<Dense> = task.reads.iter().map(|&r| self.read(r).remove(0)).collect();
                let regions = task.reads.iter().map(|&r| tasks.task(r).value.region.clone());
                let sources: Vec<(usize, Region, &Dense)> =
                    inputs.iter().zip(regions).zip(&reads).map(|((&n, region), data)| (n, region, data)).collect();
                vec![view_as(row.result.dtype, kind, &shapes, region, &sources)]
            }
            Verb::Cut => self.cut(task.reads[0], region),
            Verb::Send { .. } => {
                let sent = self.cut(task.reads[0], region);
                self.messages.insert(id, sent);
                return Ok(());
            }
            Verb::Fold { monoid, finish: last } => {
                let parts: Vec<Vec<Dense>> = task.reads.iter().map(|&r| self.read(r)).collect();
                let folded = combine(*monoid, &parts, &tasks.task(task.reads[0]).value.form);
                if *last { vec![finish(*monoid, folded, task.value.form.fields[0].dtype)] } else { folded }
            }
            Verb::Paste => {
                let had = |r: &TaskId| tasks.task(*r).value.region.intersect(region).expect("something to paste");
                let had: Vec<Region> = task.reads.iter().map(had).collect();
                let parts: Vec<Vec<Dense>> = task.reads.iter().zip(&had).map(|(&r, had)| self.cut(r, had)).collect();
                let field = |n: usize| {
                    let field = &task.value.form.fields[n];
                    let boxes: Vec<Region> = had.iter().map(|r| r.project(&field.axes)).collect();
                    let parts: Vec<(&Region, &Dense)> = boxes.iter().zip(parts.iter().map(|p| &p[n])).collect();
                    Dense::paste(field.dtype, &region.project(&field.axes), &parts)
                };
                (0..task.value.form.fields.len()).map(field).collect()
            }
            Verb::Output { output } => {
                let value = self.cut(task.reads[0], region).remove(0);
                self.outputs[*output].push((region.clone(), value));
                return Ok(());
            }
        };
        self.write(id, fields);
        Ok(())
    }

    fn cut(&self, from: TaskId, region: &Region) -> Vec<Dense> {
        let whole = &self.tasks.task(from).value;
        let cut = |(data, field): (&Dense, &ein_ir::monoid::Field)| {
            data.cut(&whole.region.project(&field.axes), &region.project(&field.axes))
        };
        self.read(from).iter().zip(&whole.form.fields).map(cut).collect()
    }

    /// The fields of a row's value, out of its slot.
    fn read(&self, id: TaskId) -> Vec<Dense> {
        if self.arenas.is_empty() {
            return self.values[&id].clone();
        }
        let task = self.tasks.task(id);
        let stored = self.stored(id);
        let field = |(data, field): (&Dense, &ein_ir::monoid::Field)| {
            data.cut(&task.stored().project(&field.axes), &task.value.region.project(&field.axes))
        };
        stored.iter().zip(&task.value.form.fields).map(field).collect()
    }

    /// The fields of all that lies in a row's slot.
    fn stored(&self, id: TaskId) -> Vec<Dense> {
        let task = self.tasks.task(id);
        let arena = &self.arenas[task.device.index()];
        let field = |(ty, at, bytes): (TensorType, usize, usize)| {
            let at = task.slot.offset as usize + at;
            Dense::from_le_bytes(&ty, &arena[at..at + bytes]).expect("the right number of bytes")
        };
        fields(task.stored(), &task.value.form).into_iter().map(field).collect()
    }

    fn write(&mut self, id: TaskId, values: Vec<Dense>) {
        let task = self.tasks.task(id);
        let (region, form) = (&task.value.region, &task.value.form);
        let own = fields(region, form);
        assert_eq!(own.len(), values.len(), "{id} leaves its fields");
        for ((ty, ..), value) in own.iter().zip(&values) {
            assert_eq!(value.ty(), *ty, "{id} leaves what it says");
        }
        if self.arenas.is_empty() {
            self.values.insert(id, values);
            return;
        }
        let before = self.stored(id);
        for (n, (_, at, bytes)) in fields(task.stored(), form).into_iter().enumerate() {
            let axes = &form.fields[n].axes;
            let (stored, own) = (task.stored().project(axes), region.project(axes));
            // What lies around a box that is written stays as it is.
            let around: Vec<(Region, Dense)> =
                stored.subtract(&own).into_iter().map(|r| (r.clone(), before[n].cut(&stored, &r))).collect();
            let parts: Vec<(&Region, &Dense)> =
                around.iter().map(|(r, d)| (r, d)).chain([(&own, &values[n])]).collect();
            let whole = Dense::paste(form.fields[n].dtype, &stored, &parts);
            let at = task.slot.offset as usize + at;
            self.arenas[task.device.index()][at..at + bytes].copy_from_slice(&whole.to_le_bytes());
        }
    }
}

/// Type, offset and bytes of every field of a box.
fn fields(region: &Region, form: &Form) -> Vec<(TensorType, usize, usize)> {
    let (offsets, _) = form.layout(region);
    let bytes = form.field_bytes(region);
    let ty = |f: &ein_ir::monoid::Field| TensorType::new(f.dtype, region.project(&f.axes).shape());
    form.fields.iter().map(ty).zip(offsets).zip(bytes).map(|((ty, at), bytes)| (ty, at, bytes)).collect()
}
