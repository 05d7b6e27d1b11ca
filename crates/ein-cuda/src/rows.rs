//! Which row waits for which, as one list over all devices.

use ein_ir::op::InputKind;
use ein_task::task::{Task, TaskGraph, TaskId, Verb};
use std::collections::{BTreeMap, BTreeSet};

/// What rows wait for.
///
/// Both halves of a move are one: it is done from one device's memory to the other's as if nothing were buffered, which the
/// task graph was verified for. So is a move with the fold that reads it in the sender's memory.
#[derive(Debug)]
pub struct Rows {
    /// Every row that stands for itself, after all that it waits for.
    pub order: Vec<TaskId>,
    /// For every row, those that it waits for, in order; none of a row that another stands for.
    pub before: Vec<Vec<TaskId>>,
    /// For every row, the row that stands for it.
    pub stands: Vec<TaskId>,
}

/// Whether a row is done before any run: it brings in a parameter or a state.
pub fn is_resident(graph: &TaskGraph, task: &Task) -> bool {
    match task.verb {
        Verb::Feed { external } => graph.externals[external].kind != InputKind::Input,
        _ => false,
    }
}

impl Rows {
    /// The rows of a graph that has been verified. `in_place` names receiving halves that need not be done if the row that
    /// alone reads them can read the sender's memory instead: they are taken, but for some where rows would wait for one
    /// another in a circle.
    pub fn new(graph: &TaskGraph, in_place: &[TaskId]) -> Self {
        let mut elided = vec![false; graph.tasks.len()];
        for id in in_place {
            elided[id.index()] = true;
        }
        let readers = graph.readers();
        loop {
            let rows = Self::of(graph, &elided, &readers);
            let circle = rows.circle(graph);
            if circle.is_empty() {
                return rows;
            }
            // Of every row in a circle the first is fetched after all: another round shows whether that is enough.
            let round = |n: &usize| elided[*n] && circle[rows.stands[*n].index()];
            let first: BTreeMap<TaskId, usize> =
                (0..elided.len()).rev().filter(round).map(|n| (rows.stands[n], n)).collect();
            assert!(!first.is_empty(), "a graph that was verified has no circle of its own");
            for n in first.into_values() {
                elided[n] = false;
            }
        }
    }

    /// Whether a receiving half is done where it was sent.
    pub fn is_in_place(&self, graph: &TaskGraph, receive: TaskId) -> bool {
        matches!(graph.task(receive).verb, Verb::Receive { .. }) && self.stands[receive.index()] != receive
    }

    fn of(graph: &TaskGraph, elided: &[bool], readers: &[Vec<TaskId>]) -> Self {
        let mut stands: Vec<TaskId> = graph.rows().map(|(id, _)| id).collect();
        for (id, task) in graph.rows() {
            if let Verb::Receive { .. } = task.verb {
                let stand = if elided[id.index()] { readers[id.index()][0] } else { id };
                stands[id.index()] = stand;
                stands[task.reads[0].index()] = stand;
            }
        }
        let mut before: Vec<Vec<TaskId>> = vec![Vec::new(); graph.tasks.len()];
        for (id, task) in graph.rows().filter(|(_, t)| !is_resident(graph, t)) {
            let own = stands[id.index()];
            // Also of what is not received, because who uses its room next counts on that.
            let waits = task.reads.iter().chain(&task.after).filter(|t| !is_resident(graph, graph.task(**t)));
            let waits: Vec<TaskId> = waits.map(|t| stands[t.index()]).filter(|t| *t != own).collect();
            before[own.index()].extend(waits);
        }
        for before in &mut before {
            before.sort_unstable();
            before.dedup();
        }
        let mut rows = Self { order: Vec::new(), before, stands };
        rows.order = rows.sorted(graph);
        rows
    }

    /// Rows after what they wait for, otherwise as listed; those in a circle, and all after them, are missing.
    fn sorted(&self, graph: &TaskGraph) -> Vec<TaskId> {
        let stands = |id: &TaskId| self.stands[id.index()] == *id;
        let all: Vec<TaskId> = graph.rows().map(|(id, _)| id).filter(stands).collect();
        let mut after: Vec<Vec<TaskId>> = vec![Vec::new(); graph.tasks.len()];
        let mut waits: Vec<usize> = self.before.iter().map(Vec::len).collect();
        for &id in &all {
            for before in &self.before[id.index()] {
                after[before.index()].push(id);
            }
        }
        let mut ready: BTreeSet<TaskId> = all.into_iter().filter(|id| waits[id.index()] == 0).collect();
        let mut order = Vec::new();
        while let Some(id) = ready.pop_first() {
            order.push(id);
            for next in &after[id.index()] {
                waits[next.index()] -= 1;
                if waits[next.index()] == 0 {
                    ready.insert(*next);
                }
            }
        }
        order
    }

    /// The rows in circles and between them; nothing where there is none.
    fn circle(&self, graph: &TaskGraph) -> Vec<bool> {
        let mut left: Vec<bool> = graph.rows().map(|(id, _)| self.stands[id.index()] == id).collect();
        for id in &self.order {
            left[id.index()] = false;
        }
        if !left.contains(&true) {
            return Vec::new();
        }
        // Of what is left, what nothing that is left waits for is in no circle either.
        loop {
            let mut waited = vec![false; left.len()];
            for before in self.before.iter().zip(&left).filter(|(_, left)| **left).flat_map(|(before, _)| before) {
                waited[before.index()] = true;
            }
            let out: Vec<usize> = (0..left.len()).filter(|&n| left[n] && !waited[n]).collect();
            if out.is_empty() {
                return left;
            }
            for n in out {
                left[n] = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::graph::TensorType;
    use ein_ir::monoid::{Form, Monoid};
    use ein_ir::region::Region;
    use ein_task::machine::DeviceId;
    use ein_task::task::{External, Slot, Value};

    /// A graph of rows on two devices, each a device, a verb, what it reads and what it waits for.
    fn graph(rows: &[(u16, Verb, &[u32], &[u32])]) -> TaskGraph {
        let mut graph = TaskGraph { devices: 2, labels: vec!["x".into()], ..TaskGraph::default() };
        let ty = TensorType::new(DType::F32, [4]);
        graph.externals.push(External { name: "x".into(), kind: InputKind::Input, ty: ty.clone() });
        graph.outputs.push(("y".into(), ty));
        for (device, verb, reads, after) in rows {
            let region = Region::whole(&[4]);
            let value = match verb {
                Verb::Send { .. } | Verb::Output { .. } => Value::nothing(region),
                _ => Value { region, form: Form::finished(DType::F32, 1) },
            };
            let ids = |list: &[u32]| list.iter().map(|&n| TaskId(n)).collect();
            let (reads, after) = (ids(reads), ids(after));
            let (device, slot) = (DeviceId(*device), Slot::default());
            graph.push(ein_task::task::Task {
                device,
                verb: verb.clone(),
                reads,
                after,
                value,
                within: None,
                slot,
                label: 0,
            });
        }
        graph
    }

    const FEED: Verb = Verb::Feed { external: 0 };
    const SEND: Verb = Verb::Send { to: DeviceId(1) };
    const RECEIVE: Verb = Verb::Receive { from: DeviceId(0) };
    const FOLD: Verb = Verb::Fold { monoid: Monoid::Sum, finish: true };

    fn ids(list: &[u32]) -> Vec<TaskId> {
        list.iter().map(|&n| TaskId(n)).collect()
    }

    #[test]
    fn both_halves_of_a_move_are_one() {
        // Row 2 uses the memory that row 1 sends from, and stands before the receiving half.
        let graph = graph(&[
            (0, FEED, &[], &[]),
            (0, SEND, &[0], &[]),
            (0, FEED, &[], &[1]),
            (1, RECEIVE, &[1], &[]),
            (1, Verb::Output { output: 0 }, &[3], &[]),
        ]);
        let rows = Rows::new(&graph, &[]);
        assert_eq!(rows.order, ids(&[0, 3, 2, 4]));
        assert_eq!(rows.stands, ids(&[0, 3, 2, 3, 4]));
        assert_eq!(rows.before, [&[][..], &[], &[3], &[0], &[3]].map(ids));
        assert!(!rows.is_in_place(&graph, TaskId(3)));
    }

    #[test]
    fn a_fold_reads_the_senders_memory() {
        let graph = graph(&[
            (0, FEED, &[], &[]),
            (0, SEND, &[0], &[]),
            (0, FEED, &[], &[1]),
            (1, FEED, &[], &[]),
            (1, RECEIVE, &[1], &[]),
            (1, FOLD, &[3, 4], &[]),
        ]);
        let rows = Rows::new(&graph, &[TaskId(4)]);
        assert_eq!(rows.order, ids(&[0, 3, 5, 2]));
        assert_eq!(rows.before[2], ids(&[5]), "the sender's memory is used again after the fold");
        assert_eq!(rows.before[5], ids(&[0, 3]));
        assert!(rows.is_in_place(&graph, TaskId(4)));
    }

    #[test]
    fn what_would_be_a_circle_is_copied() {
        // The fold reads two values that lie, one after the other, in one place: the first has to be fetched.
        let graph = graph(&[
            (0, FEED, &[], &[]),
            (0, SEND, &[0], &[]),
            (0, FEED, &[], &[1]),
            (0, SEND, &[2], &[]),
            (1, RECEIVE, &[1], &[]),
            (1, RECEIVE, &[3], &[]),
            (1, FOLD, &[4, 5], &[]),
        ]);
        let rows = Rows::new(&graph, &ids(&[4, 5]));
        assert!(!rows.is_in_place(&graph, TaskId(4)) && rows.is_in_place(&graph, TaskId(5)));
        assert_eq!(rows.order.last(), Some(&TaskId(6)));
    }
}
