//! From a choice to the task graph: what every device does, in rows.
//!
//! Feeds for inputs, a kernel per block and device, exchange programs between them, views where a reader
//! stands behind one, and the outputs. Hand-outs come just before their first reader, so that what they
//! deliver does not lie in memory earlier than it must.

mod fuse;
mod pieces;
mod program;

use crate::answers::{AnswerError, Answers};
use crate::choice::{Choice, Home};
use crate::exchanges::{ChoiceError, Planned, Stage, Wanted, exchanges, wanted};
use crate::needs::{home_relation, output_sources, produced_of, working_blocks};
use crate::options::{Options, Placement};
use crate::synthesis::SynthesisError;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::{Region, tiles};
use ein_task::check::CheckError;
use ein_task::exchange::{Exchange, Need};
use ein_task::machine::{DeviceId, Machine};
use ein_task::relation::{Held, Relation};
use ein_task::task::{External, TaskGraph, Value, Verb};
use pieces::Rows;
use std::collections::{BTreeMap, BTreeSet};

/// Why a choice could not be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// The choice is not one for this graph and machine.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// There is no program for an exchange.
    #[error("no program moves `{tensor}` to where it is read: {source}")]
    Synthesis {
        /// The tensor.
        tensor: String,
        /// Why.
        source: SynthesisError,
    },
    /// The checker refused a program.
    #[error("the exchange program of `{tensor}` is wrong: {source}")]
    Unsound {
        /// The tensor.
        tensor: String,
        /// What the checker says.
        source: CheckError,
    },
}

/// Lowers a choice. The memory plan is not part of it: slots are all empty.
pub fn lower(graph: &Graph, choice: &Choice, machine: &Machine, options: &Options) -> Result<TaskGraph, LowerError> {
    lower_with(graph, choice, machine, options, &mut Answers::of(options))
}

/// [`lower`], with exchanges that are already answered.
pub fn lower_with(
    graph: &Graph,
    choice: &Choice,
    machine: &Machine,
    options: &Options,
    answers: &mut Answers,
) -> Result<TaskGraph, LowerError> {
    lower_staged(graph, choice, &Staged::new(), machine, options, answers)
}

/// Tensors whose exchanges go in stages, each with the axis along which devices have their needs one after the other.
pub(crate) type Staged = BTreeMap<TensorId, usize>;

/// [`lower_with`], with exchanges in stages.
pub(crate) fn lower_staged(
    graph: &Graph,
    choice: &Choice,
    staged: &Staged,
    machine: &Machine,
    options: &Options,
    answers: &mut Answers,
) -> Result<TaskGraph, LowerError> {
    let planned = exchanges(graph, choice, options, machine)?;
    let due = due(&planned);
    let mut lowering = Lowering::new(graph, choice, staged, machine, options, answers);
    for tensor in graph.ids() {
        for &n in due.before.get(&tensor).map_or(&[][..], Vec::as_slice) {
            lowering.exchange(&planned[n])?;
        }
        match &graph.node(tensor).op {
            Op::Input(kind) => lowering.feed(tensor, *kind),
            Op::View(_) => {}
            Op::Einsum(_) | Op::Kernel(_) => lowering.kernels(tensor),
        }
        for &n in due.after.get(&tensor).map_or(&[][..], Vec::as_slice) {
            lowering.exchange(&planned[n])?;
        }
    }
    for &n in &due.last {
        lowering.exchange(&planned[n])?;
    }
    lowering.outputs();
    let mut tasks = lowering.rows.out;
    if options.fuse {
        tasks = fuse::fuse(tasks, machine);
    }
    tasks.leave_in_place();
    Ok(tasks)
}

/// When exchanges happen: positions in the list of planned ones.
#[derive(Default)]
struct Due {
    /// Before the first row that reads what they deliver.
    before: BTreeMap<TensorId, Vec<usize>>,
    /// After the row that makes the tensor.
    after: BTreeMap<TensorId, Vec<usize>>,
    /// At the end, for outputs.
    last: Vec<usize>,
}

fn due(planned: &[Planned]) -> Due {
    let mut due = Due::default();
    for (n, p) in planned.iter().enumerate() {
        match (p.stage, p.readers.first()) {
            (Stage::ToHome, _) => due.after.entry(p.tensor).or_default().push(n),
            (Stage::HandOut, Some(&reader)) => due.before.entry(reader).or_default().push(n),
            (Stage::HandOut, None) => due.last.push(n),
        }
    }
    due
}

struct Lowering<'a> {
    graph: &'a Graph,
    choice: &'a Choice,
    staged: &'a Staged,
    machine: &'a Machine,
    options: &'a Options,
    rows: Rows<'a>,
    answers: &'a mut Answers,
    /// What every computing row leaves.
    produced: BTreeMap<TensorId, Relation>,
    /// What readers need of every source, once somebody asked.
    wanted: Option<Wanted>,
}

/// Blocks of an input that one device has as one box.
struct Joined {
    device: DeviceId,
    region: Region,
    /// Whether its row is there.
    fed: bool,
}

impl<'a> Lowering<'a> {
    fn new(
        graph: &'a Graph,
        choice: &'a Choice,
        staged: &'a Staged,
        machine: &'a Machine,
        options: &'a Options,
        answers: &'a mut Answers,
    ) -> Self {
        let out = TaskGraph {
            devices: machine.len(),
            labels: graph.nodes().iter().map(|n| n.name.clone()).collect(),
            ..TaskGraph::default()
        };
        let rows = Rows::new(graph, out);
        Self { graph, choice, staged, machine, options, rows, answers, produced: BTreeMap::new(), wanted: None }
    }

    /// Brings an input in, at every device that holds a block of it: as the box that is read there where several blocks
    /// are read as one.
    fn feed(&mut self, tensor: TensorId, kind: InputKind) {
        let node = self.graph.node(tensor);
        let external = self.rows.out.externals.len();
        self.rows.out.externals.push(External { name: node.name.clone(), kind, ty: node.ty.clone() });
        let Home::At(held) = &self.choice.homes[&tensor] else { unreachable!("validated: inputs are held somewhere") };
        let relation = home_relation(self.graph, tensor, held);
        let mut joined = self.joined(tensor, &relation);
        for Held { region, devices } in relation.blocks {
            for device in devices.iter() {
                let within = joined.iter_mut().find(|j| j.device == device && j.region.contains(&region));
                let region = match within {
                    Some(Joined { fed: true, .. }) => continue,
                    Some(whole) => {
                        whole.fed = true;
                        whole.region.clone()
                    }
                    None => region.clone(),
                };
                let value = Value { region, form: relation.finished.clone() };
                let task = self.rows.push(tensor, device, Verb::Feed { external }, vec![], value);
                self.rows.add_finished(tensor, device, task);
            }
        }
    }

    /// The boxes that a device reads of an input of which it holds just that as several blocks, and reads no other
    /// part of them: fed so, they need not be put together in every run.
    fn joined(&mut self, tensor: TensorId, home: &Relation) -> Vec<Joined> {
        let held = |device: DeviceId| home.blocks.iter().filter(move |b| b.devices.contains(device)).map(|b| &b.region);
        let several: Vec<DeviceId> = self.machine.ids().filter(|&d| held(d).nth(1).is_some()).collect();
        if several.is_empty() {
            return Vec::new();
        }
        let (graph, choice, options, machine) = (self.graph, self.choice, self.options, self.machine);
        let wanted = self.wanted.get_or_insert_with(|| wanted(graph, choice, options, machine));
        let mut joined = Vec::new();
        for device in several {
            let lists = wanted.get(&tensor).into_iter().flat_map(BTreeMap::keys);
            let read: BTreeSet<&Region> = lists.flatten().filter(|n| n.device == device).map(|n| &n.region).collect();
            for &region in &read {
                let inside: Vec<Region> = held(device).filter(|b| region.contains(b)).cloned().collect();
                let alone = read.iter().all(|&other| other == region || other.overlap(region) == 0);
                if inside.len() > 1 && alone && tiles(&inside, region) {
                    joined.push(Joined { device, region: region.clone(), fed: false });
                }
            }
        }
        joined
    }

    /// One kernel for every block at every device that computes it.
    fn kernels(&mut self, tensor: TensorId) {
        let node = self.graph.node(tensor);
        let spec = self.graph.spec(tensor).expect("the row computes");
        let decomposition = &self.choice.decompositions[&tensor];
        let relation = produced_of(self.graph, tensor, &spec, decomposition, self.options.wide_partials);
        let op = self.rows.op(tensor);
        for (n, block) in working_blocks(&spec, decomposition).into_iter().enumerate() {
            let block = &decomposition.blocks()[block];
            let finish = relation.is_finished(n);
            for device in block.devices.iter() {
                let mut reads = Vec::new();
                let mut operands = Vec::new();
                for (i, &operand) in node.inputs.iter().enumerate() {
                    let region = spec.operand_region(i, &block.region);
                    operands.push((!region.is_empty()).then(|| {
                        let task = self.rows.read(operand, device, &region);
                        reads.iter().position(|&r| r == task).unwrap_or_else(|| {
                            reads.push(task);
                            reads.len() - 1
                        })
                    }));
                }
                let verb = Verb::Kernel { op, labels: block.region.clone(), finish, operands };
                let form = if finish { &relation.finished } else { &relation.pending };
                let value = Value { region: relation.blocks[n].region.clone(), form: form.clone() };
                let task = self.rows.push(tensor, device, verb, reads, value);
                if finish {
                    self.rows.add_finished(tensor, device, task);
                } else {
                    self.rows.add_partial(tensor, n, device, task);
                }
            }
        }
        self.produced.insert(tensor, relation);
    }

    /// Answers an exchange and lowers its program.
    fn exchange(&mut self, planned: &Planned) -> Result<(), LowerError> {
        let tensor = || self.graph.node(planned.tensor).name.clone();
        for exchange in self.stages(planned) {
            let answer = self.answers.answer(&exchange, self.machine).map_err(|e| match e {
                AnswerError::Synthesis(source) => LowerError::Synthesis { tensor: tensor(), source },
                AnswerError::Unsound(source) => LowerError::Unsound { tensor: tensor(), source },
            })?;
            program::lower(&mut self.rows, planned.tensor, &exchange, &answer);
        }
        Ok(())
    }

    /// The question, or where its tensor goes in stages a question for each: the first need of every device, along the
    /// axis, then the second, and so on.
    fn stages(&self, planned: &Planned) -> Vec<Exchange> {
        let Exchange { have, needs } = &planned.exchange;
        let Some(&axis) = self.staged.get(&planned.tensor) else { return vec![planned.exchange.clone()] };
        let mut order: Vec<&Need> = needs.iter().collect();
        order.sort_by_key(|n| (n.device, n.region.0[axis].lo));
        let mut stages: Vec<Vec<Need>> = Vec::new();
        for needs in order.chunk_by(|a, b| a.device == b.device) {
            stages.resize_with(stages.len().max(needs.len()), Vec::new);
            needs.iter().zip(&mut stages).for_each(|(&need, stage)| stage.push(need.clone()));
        }
        stages.into_iter().map(|needs| Exchange { have: have.clone(), needs }).collect()
    }

    /// Hands the sources behind the outputs to the caller, every region from one holder.
    fn outputs(&mut self) {
        for (output, tensor) in output_sources(self.graph).into_iter().enumerate() {
            let node = self.graph.node(tensor);
            self.rows.out.outputs.push((node.name.clone(), node.ty.clone()));
            for (region, device) in self.handed(tensor) {
                let task = self.rows.read(tensor, device, &region);
                self.rows.push(tensor, device, Verb::Output { output }, vec![task], Value::nothing(region));
            }
        }
    }

    /// The regions in which an output leaves, and from where.
    fn handed(&self, tensor: TensorId) -> Vec<(Region, DeviceId)> {
        let whole = self.graph.ty(tensor).whole();
        let blocks = match (self.options.outputs, &self.choice.homes[&tensor]) {
            _ if whole.is_empty() => Vec::new(),
            (Placement::Device(device), _) => return vec![(whole, device)],
            (Placement::Replicated, _) => {
                return self.machine.workers().lowest().map(|device| (whole, device)).into_iter().collect();
            }
            (Placement::Anywhere, Home::At(held)) => home_relation(self.graph, tensor, held).blocks,
            (Placement::Anywhere, Home::AsProduced) => self.produced[&tensor].blocks.clone(),
        };
        let lowest = |h: Held| (h.region, h.devices.lowest().expect("validated: a holder"));
        blocks.into_iter().map(lowest).collect()
    }
}
