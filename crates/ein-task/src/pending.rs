//! Which values are partials that are still to be folded, and who may read one.
//!
//! Partials of a plain monoid are stored as finished values are, so that a form tells nothing: every value is given
//! the partials that it holds, from the kernels on. A row may read a value that lacks some only if its map commutes
//! with the fold ([`ein_ir::algebra`]); what it leaves is then a partial itself, to be folded by the same monoid.

use crate::task::{Source, Task, TaskGraph, TaskId, Value, Verb};
use ein_ir::algebra::{Answer, einsum_commutes, view_commutes};
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region, tiles};
use ein_ir::spec::Spec;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A rule about partials that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PendingFault {
    /// A partial is read as if it were the value.
    #[error("reads a partial of `{tensor}`, whose fold by {monoid} is still to come: {why}")]
    Unfolded {
        /// The tensor whose partials are to be folded.
        tensor: String,
        /// How.
        monoid: Monoid,
        /// Why the reader has to wait for the fold.
        why: String,
    },
    /// What is finished is not folded again.
    #[error("folds {0}, which is finished")]
    Finished(TaskId),
    /// What is folded belongs to different tensors, or has another monoid.
    #[error("folds {found} by {monoid} {expected}")]
    Mixed {
        /// The fold.
        monoid: Monoid,
        /// What is read.
        found: String,
        /// Why that does not fit.
        expected: String,
    },
    /// A partial is counted twice.
    #[error("folds the partial of `{tensor}` over {labels} twice")]
    Twice {
        /// The tensor.
        tensor: String,
        /// The box of folded labels.
        labels: Region,
    },
    /// What is folded in an order is not one right behind the other.
    #[error(
        "folds the partial of `{tensor}` over {after} right behind that over {before}; {monoid} keeps the order of the axis"
    )]
    Apart {
        /// The tensor.
        tensor: String,
        /// How.
        monoid: Monoid,
        /// The box of folded labels that is folded first.
        before: Region,
        /// The one that is folded next.
        after: Region,
    },
    /// A fold is finished too early.
    #[error("finishes `{tensor}` without the partials over {missing}")]
    Lacks {
        /// The tensor.
        tensor: String,
        /// Boxes of folded labels that no partial covers.
        missing: String,
    },
    /// Pasted values must all be finished, or hold the same partials.
    #[error("puts {found} beside {expected}")]
    Unlike {
        /// What one value holds.
        found: String,
        /// What the first one holds.
        expected: String,
    },
}

/// The partials that a value holds: of every tensor in it that is pending, the boxes of folded labels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Partials {
    /// The operation whose result, or part of it, this is.
    of: usize,
    monoid: Monoid,
    /// Sorted boxes by the operation that left the partials: `of`, or operands of it that were pending.
    boxes: BTreeMap<usize, Vec<Region>>,
    /// Whether these are all partials, so that the value is stored and means what the finished one does.
    settled: bool,
}

/// What a value lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Finished,
    Pending(Rc<Partials>),
}

impl State {
    /// The partials of a value that is not the finished one.
    fn unsettled(&self) -> Option<&Rc<Partials>> {
        match self {
            Self::Pending(partials) if !partials.settled => Some(partials),
            Self::Pending(_) | Self::Finished => None,
        }
    }
}

/// Checks that nobody reads a partial as if it were finished, that every partial is folded once, and that no fold is
/// finished without all of them. The rows themselves are checked already.
pub(crate) fn check_pending(graph: &TaskGraph) -> Result<(), (TaskId, PendingFault)> {
    let mut ledger = Ledger { graph, states: Vec::with_capacity(graph.tasks.len()), known: HashMap::new() };
    for (id, task) in graph.rows() {
        let state = ledger.state(task).map_err(|fault| (id, fault))?;
        ledger.states.push(state);
    }
    Ok(())
}

struct Ledger<'a> {
    graph: &'a TaskGraph,
    states: Vec<State>,
    /// Whether boxes of an operation are all there are. Looked up, never iterated.
    known: HashMap<(usize, Vec<Region>), bool>,
}

impl Ledger<'_> {
    fn state(&mut self, task: &Task) -> Result<State, PendingFault> {
        let first = || self.states[task.reads[0].index()].clone();
        match &task.verb {
            Verb::Feed { .. } => Ok(State::Finished),
            Verb::Cut | Verb::Send { .. } | Verb::Receive { .. } => Ok(first()),
            Verb::Kernel { op, labels, finish, operands } => {
                let state = |n: usize| self.states[task.reads[n].index()].clone();
                let states: Vec<Option<State>> = operands.iter().map(|o| o.map(state)).collect();
                self.kernel(*op, labels, *finish, &states)
            }
            Verb::Fused { stages } => {
                let mut state = State::Finished;
                for stage in stages {
                    let of = |source: &Option<Source>| match source {
                        None => None,
                        Some(Source::Read(n)) => Some(self.states[task.reads[*n].index()].clone()),
                        Some(Source::Previous) => Some(state.clone()),
                    };
                    let states: Vec<Option<State>> = stage.operands.iter().map(of).collect();
                    state = self.kernel(stage.op, &stage.labels, stage.finish, &states)?;
                }
                Ok(state)
            }
            Verb::View { op, .. } => self.view(task, *op),
            Verb::Fold { monoid, finish } => self.fold(task, *monoid, *finish),
            Verb::Paste => self.paste(task),
            Verb::Output { .. } => match first().unsettled() {
                Some(partials) => Err(self.unfolded(partials, "only what is finished is handed out".into())),
                None => Ok(State::Finished),
            },
        }
    }

    /// A block of operands in these states.
    fn kernel(
        &mut self,
        op: usize,
        labels: &Region,
        finish: bool,
        operands: &[Option<State>],
    ) -> Result<State, PendingFault> {
        let row = &self.graph.ops[op];
        let spec = row.spec.as_ref().expect("checked: the operation computes");
        let unsettled = |n: &usize| operands[*n].as_ref()?.unsettled().cloned();
        let pending: Vec<usize> = (0..operands.len()).filter(|n| unsettled(n).is_some()).collect();
        let held: Vec<Rc<Partials>> = pending.iter().filter_map(unsettled).collect();
        let Some(partials) = held.first() else {
            if finish {
                return Ok(State::Finished);
            }
            let folded = Region(labels.0[spec.rank..].to_vec());
            return Ok(self.pending(op, spec.monoid, BTreeMap::from([(op, vec![folded])])));
        };
        let Op::Einsum(einsum) = &row.op else {
            return Err(self.unfolded(partials, format!("`{}` takes finished operands", row.name)));
        };
        if !finish {
            return Err(self.unfolded(partials, format!("`{}` lacks part of a folded label of its own", row.name)));
        }
        match einsum_commutes(partials.monoid, einsum, &pending) {
            Answer::No(refusal) => Err(self.unfolded(partials, refusal.to_string())),
            Answer::Exactly | Answer::Numerically => self.together(op, &held),
        }
    }

    fn view(&mut self, task: &Task, op: usize) -> Result<State, PendingFault> {
        let row = &self.graph.ops[op];
        let Op::View(view) = &row.op else { unreachable!("checked: the operation is a view") };
        let held: Vec<Rc<Partials>> =
            task.reads.iter().filter_map(|r| self.states[r.index()].unsettled().cloned()).collect();
        let Some(partials) = held.first() else { return Ok(State::Finished) };
        if held.len() < task.reads.len() {
            return Err(self.unfolded(partials, format!("`{}` puts it beside what is finished", row.name)));
        }
        match view_commutes(partials.monoid, view, row.result.dtype) {
            Answer::No(refusal) => Err(self.unfolded(partials, refusal.to_string())),
            Answer::Exactly | Answer::Numerically => self.together(op, &held),
        }
    }

    /// The partials of a value made of several that are pending: those of all of them, and of one tensor the same.
    fn together(&mut self, of: usize, held: &[Rc<Partials>]) -> Result<State, PendingFault> {
        let first = &held[0];
        let mut boxes = first.boxes.clone();
        for other in &held[1..] {
            for (op, list) in &other.boxes {
                if other.monoid != first.monoid || boxes.get(op).is_some_and(|b| b != list) {
                    let why = format!("it is taken together with {}", self.named(other));
                    return Err(self.unfolded(first, why));
                }
                boxes.insert(*op, list.clone());
            }
        }
        Ok(self.pending(of, first.monoid, boxes))
    }

    fn fold(&mut self, task: &Task, monoid: Monoid, finish: bool) -> Result<State, PendingFault> {
        let mut boxes: BTreeMap<usize, Vec<Region>> = BTreeMap::new();
        let mut first: Option<Rc<Partials>> = None;
        for read in &task.reads {
            let State::Pending(partials) = &self.states[read.index()] else {
                return Err(PendingFault::Finished(*read));
            };
            let first = first.get_or_insert_with(|| partials.clone());
            if partials.monoid != monoid {
                let expected = format!("where {} is pending", partials.monoid);
                return Err(PendingFault::Mixed { monoid, found: self.named(partials), expected });
            }
            if partials.of != first.of || !partials.boxes.keys().eq(first.boxes.keys()) {
                let expected = format!("beside {}", self.named(first));
                return Err(PendingFault::Mixed { monoid, found: self.named(partials), expected });
            }
            for (op, list) in &partials.boxes {
                boxes.entry(*op).or_default().extend_from_slice(list);
            }
        }
        for (op, list) in &mut boxes {
            if monoid.is_ordered()
                && let Some(two) = list.windows(2).find(|two| two[0].0[0].hi != two[1].0[0].lo)
            {
                let tensor = self.graph.ops[*op].name.clone();
                return Err(PendingFault::Apart { tensor, monoid, before: two[0].clone(), after: two[1].clone() });
            }
            list.sort_unstable();
            self.disjoint(*op, list)?;
            if finish && !self.is_all(*op, list) && !self.is_all_seen(*op, list, &task.value) {
                let tensor = self.graph.ops[*op].name.clone();
                let mut missing = vec![folded_space(self.spec(*op))];
                for have in list {
                    missing = missing.iter().flat_map(|m| m.subtract(have)).collect();
                }
                let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Err(PendingFault::Lacks { tensor, missing });
            }
        }
        let of = first.expect("checked: a fold reads something").of;
        Ok(if finish { State::Finished } else { self.pending(of, monoid, boxes) })
    }

    fn paste(&self, task: &Task) -> Result<State, PendingFault> {
        let mut states = task.reads.iter().map(|r| &self.states[r.index()]);
        let Some(first) = states.next() else { return Ok(State::Finished) };
        let like = |a: &State, b: &State| a == b || (a.unsettled().is_none() && b.unsettled().is_none());
        match states.find(|other| !like(first, other)) {
            None => Ok(first.clone()),
            Some(other) => {
                let show = |state: &State| match state.unsettled() {
                    Some(partials) => self.named(partials),
                    None => "what is finished".into(),
                };
                Err(PendingFault::Unlike { found: show(other), expected: show(first) })
            }
        }
    }

    fn pending(&mut self, of: usize, monoid: Monoid, boxes: BTreeMap<usize, Vec<Region>>) -> State {
        let mut settled = monoid.is_plain();
        for (op, list) in &boxes {
            settled = settled && self.is_all(*op, list);
        }
        State::Pending(Rc::new(Partials { of, monoid, boxes, settled }))
    }

    fn spec(&self, op: usize) -> &Spec {
        self.graph.ops[op].spec.as_ref().expect("only what computes leaves partials")
    }

    /// Whether boxes, sorted and disjoint, are all that is folded.
    fn is_all(&mut self, op: usize, boxes: &[Region]) -> bool {
        let key = (op, boxes.to_vec());
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let all = tiles(boxes, &folded_space(self.spec(op)));
        self.known.insert(key, all);
        all
    }

    /// Whether boxes are all that an operation works on in the value's region: a causal limit may leave nothing to
    /// fold elsewhere.
    fn is_all_seen(&self, op: usize, boxes: &[Region], value: &Value) -> bool {
        let spec = self.spec(op);
        let points = |folded: &Region| {
            let mut labels = value.region.0[..spec.rank].to_vec();
            labels.extend_from_slice(&folded.0);
            spec.points(&Region(labels))
        };
        spec.work.band.is_some() && boxes.iter().map(points).sum::<f64>() == points(&folded_space(spec))
    }

    fn disjoint(&self, op: usize, boxes: &[Region]) -> Result<(), PendingFault> {
        // Where they are all that is folded, they are disjoint.
        if self.known.get(&(op, boxes.to_vec())) == Some(&true) {
            return Ok(());
        }
        let twice = boxes.iter().enumerate().find_map(|(n, a)| boxes[..n].iter().find_map(|b| a.intersect(b)));
        match twice {
            None => Ok(()),
            Some(labels) => Err(PendingFault::Twice { tensor: self.graph.ops[op].name.clone(), labels }),
        }
    }

    fn unfolded(&self, partials: &Partials, why: String) -> PendingFault {
        let op = partials.boxes.keys().next().expect("a partial of something");
        PendingFault::Unfolded { tensor: self.graph.ops[*op].name.clone(), monoid: partials.monoid, why }
    }

    /// Partials in a message: tensors and boxes of folded labels.
    fn named(&self, partials: &Partials) -> String {
        let one = |(op, list): (&usize, &Vec<Region>)| {
            let over: Vec<String> = list.iter().map(ToString::to_string).collect();
            format!("partials of `{}` over {}", self.graph.ops[*op].name, over.join(", "))
        };
        let all = partials.boxes.iter().map(one).collect::<Vec<_>>().join(" and ");
        if partials.boxes.contains_key(&partials.of) {
            return all;
        }
        format!("`{}` of {all}", self.graph.ops[partials.of].name)
    }
}

/// All values of the labels that are folded.
fn folded_space(spec: &Spec) -> Region {
    Region(spec.labels[spec.rank..].iter().map(|l| Interval::new(0, l.extent)).collect())
}
