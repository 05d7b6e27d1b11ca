//! Graphs so small that every recursive cut of every row, at every position, on every assignment of its boxes to devices, can
//! be looked at: more than the search has tables for.
//!
//! This proposes decompositions where something is cheaper than what the search has found, and the search then knows them,
//! too. Homes, bounds, memory and prices stay its own.

mod cuts;
mod forest;
mod sides;
#[cfg(test)]
mod tiny_tests;

use crate::answers::Answers;
use crate::choice::Decomposition;
use crate::deadline::Deadline;
use crate::needs::{output_sources, sources};
use crate::options::{ExchangeStyle, Options, Placement};
use crate::ports::Ports;
use crate::symmetry::renamings;
use cuts::Row;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::monoid::Form;
use ein_ir::op::{InputKind, Op};
use ein_task::exchange::Need;
use ein_task::machine::Machine;
use ein_task::relation::Held;
use forest::Forest;
use sides::{Boxes, DEVICES, ELEMENTS, Sides, Speed};
use std::collections::BTreeMap;

/// The device that every device becomes.
type Names = [u8; DEVICES];

/// Most rows; most decompositions of one of them, those that differ by the names of devices included; most of all rows
/// together, of those that are the same under other names one.
const ROWS: usize = 8;
const MOST: usize = 400_000;
const ENTERED: usize = 1_000_000;

/// Bounds that are looked at at most.
const EFFORT: usize = 200_000_000;

/// What may still be looked at, and until when.
#[derive(Debug)]
struct Budget {
    /// Decompositions.
    entries: usize,
    /// Bounds, or exchanges.
    effort: usize,
    deadline: Deadline,
    /// Whether the deadline was found to be over.
    late: bool,
}

impl Budget {
    /// So many decompositions more; nothing if those are too many, or it is too late.
    fn enter(&mut self, entries: usize) -> Option<()> {
        self.entries = self.entries.checked_sub(entries)?;
        self.in_time()
    }

    /// So many bounds more; nothing if those are too many, or it is too late.
    fn spend(&mut self, effort: usize) -> Option<()> {
        self.effort = self.effort.checked_sub(effort)?;
        self.in_time()
    }

    fn in_time(&mut self) -> Option<()> {
        self.late |= self.deadline.is_over();
        (!self.late).then_some(())
    }
}

/// The deadline came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfTime;

/// What a tensor is to the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Made,
    /// An input that is held once, anywhere.
    Arriving,
    /// A parameter: it lies wherever it is read.
    Resident,
}

/// A tensor, with all that rows may leave and need of it.
#[derive(Debug)]
struct Tensor {
    kind: Kind,
    /// Bytes of an element, of a partial or of the result, whichever is less.
    element: f64,
    boxes: Boxes,
    lefts: Sides,
    lists: Sides,
}

type Sources = BTreeMap<TensorId, Tensor>;

/// What is proposed for a graph.
pub(crate) struct Proposal {
    /// Of every row.
    pub decompositions: BTreeMap<TensorId, Decomposition>,
    /// What then moves.
    pub moves: Vec<Move>,
}

/// Something that is handed out.
pub(crate) struct Move {
    /// Of which tensor.
    pub tensor: TensorId,
    /// From where it lies; from where its row leaves it if that is nowhere.
    pub from: Option<Vec<Held>>,
    pub needs: Vec<Need>,
}

/// What is asked of which machine.
struct Graphs<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    options: &'a Options,
    /// Under which the machine is the same; the first changes nothing.
    names: Vec<Names>,
    speed: Speed,
}

/// Decisions about all rows that with homes of the search's kinds take less than `limit` seconds, and no more than any
/// recursive cuts of the rows into as many boxes as there are devices do: exactly so up to the programs that are found for
/// names of devices. Nothing where there are none, and where the graph is too large, or of no kind that this knows: every
/// result and every input is to be read by one row.
///
/// # Errors
/// The deadline comes before that is known.
pub(crate) fn cheaper(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    known: &mut Answers,
    limit: f64,
    room: f64,
    deadline: Deadline,
) -> Result<Option<Proposal>, OutOfTime> {
    let mut budget = Budget { entries: ENTERED, effort: EFFORT, deadline, late: false };
    let found = least(graph, machine, options, known, limit, room, &mut budget);
    if found.is_none() && budget.late { Err(OutOfTime) } else { Ok(found) }
}

/// The same; nothing where the budget is too small, too.
fn least(
    graph: &Graph,
    machine: &Machine,
    options: &Options,
    known: &mut Answers,
    limit: f64,
    room: f64,
    budget: &mut Budget,
) -> Option<Proposal> {
    let rows: Vec<TensorId> = graph.ids().filter(|&id| graph.spec(id).is_some()).collect();
    let small = (2..=DEVICES).contains(&machine.len()) && machine.workers().len() == machine.len();
    let asks = (options.inputs, options.outputs, options.exchange);
    let plain = asks == (Placement::Anywhere, Placement::Anywhere, ExchangeStyle::Synthesized);
    if !small || !plain || rows.is_empty() || rows.len() > ROWS || !is_forest(graph) {
        return None;
    }
    let mut tensors = Sources::new();
    for id in graph.ids() {
        let node = graph.node(id);
        let kind = match node.op {
            Op::View(_) => continue,
            Op::Input(InputKind::Input) => Kind::Arriving,
            Op::Input(InputKind::Parameter | InputKind::State) => Kind::Resident,
            Op::Einsum(_) | Op::Kernel(_) => Kind::Made,
        };
        if !(1..=ELEMENTS).contains(&node.ty.elements()) {
            return None;
        }
        let finished = Form::finished(node.ty.dtype, node.ty.shape.len());
        let bytes = |form: &Form| form.bytes(&node.ty.whole()) as f64 / node.ty.elements() as f64;
        let pending = graph.spec(id).map(|spec| spec.monoid.pending(node.ty.dtype, node.ty.shape.len(), false));
        let element = pending.as_ref().map_or(f64::INFINITY, bytes).min(bytes(&finished));
        let (boxes, lefts, lists) = (Boxes::default(), Sides::default(), Sides::default());
        tensors.insert(id, Tensor { kind, element, boxes, lefts, lists });
    }
    let names: Vec<Names> = renamings(machine)
        .into_iter()
        .map(|to| {
            let mut names = Names::default();
            names.iter_mut().zip(to).for_each(|(name, d)| *name = d.index() as u8);
            names
        })
        .collect();
    let mut all = Vec::with_capacity(rows.len());
    for id in rows {
        all.push(Row::of(graph, id, machine, &names, &mut tensors, MOST, budget, room)?);
    }
    let of = Graphs { graph, machine, options, names, speed: Speed::of(&Ports::of(machine)) };
    Forest::new(of, known, tensors, all, budget)?.least(limit)
}

/// Whether every result and every input is read by one row at most, and none that is read is an output.
fn is_forest(graph: &Graph) -> bool {
    let mut read = output_sources(graph);
    let mut once = true;
    for id in graph.ids().filter(|&id| graph.spec(id).is_some()) {
        let operands = graph.node(id).inputs.iter();
        let behind: std::collections::BTreeSet<TensorId> = operands.flat_map(|&o| sources(graph, o)).collect();
        for source in behind {
            let resident = matches!(graph.node(source).op, Op::Input(InputKind::Parameter | InputKind::State));
            once &= resident || read.insert(source);
        }
    }
    once
}
