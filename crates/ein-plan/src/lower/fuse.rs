//! Rows that read another's result element by element become a part of it: a bias, an activation, a gate or a residual
//! of the product before it, a norm of its statistics.
//!
//! Both rows are on one device, the first is read by nobody else, and their boxes coincide. What is between them is then
//! never written to memory. Blocks, moves and partials stay what the plan says.

use ein_ir::einsum::Einsum;
use ein_ir::op::Op;
use ein_task::machine::{DeviceKind, Machine};
use ein_task::task::{External, Source, Stage, Task, TaskGraph, TaskId, Verb};
use ein_task::verify::reads_in_order;

/// The rows of a graph without memory plan, those that go together as one. A large graph is never there twice.
pub(super) fn fuse(mut graph: TaskGraph, machine: &Machine) -> TaskGraph {
    let readers = graph.readers();
    // Which row each row is the end of.
    let mut ends: Vec<Option<TaskId>> = vec![None; graph.tasks.len()];
    let mut begun = vec![false; graph.tasks.len()];
    for (id, task) in graph.rows() {
        match machine.devices[task.device.index()].kind {
            DeviceKind::Cpu | DeviceKind::Gpu => {}
            DeviceKind::Host => continue,
        }
        let producer = task.reads.iter().copied().filter(|&read| joins(&graph, &readers, id, read)).max();
        if let Some(producer) = producer {
            ends[id.index()] = Some(producer);
            begun[producer.index()] = true;
        }
    }
    let mut rows: Vec<Option<Task>> = std::mem::take(&mut graph.tasks).into_iter().map(Some).collect();
    let mut places = vec![TaskId(0); rows.len()];
    let mut count = 0;
    for n in 0..rows.len() {
        if begun[n] {
            continue;
        }
        let mut chain = vec![TaskId(n as u32)];
        while let Some(before) = ends[chain[chain.len() - 1].index()] {
            chain.push(before);
        }
        chain.reverse();
        if chain.len() > 1 {
            let parts = chain.iter().map(|id| rows[id.index()].take().expect("it is a part of one row")).collect();
            rows[n] = Some(together(&chain, parts));
        }
        let row = rows[n].as_mut().expect("it is no part of another");
        row.reads.iter_mut().for_each(|r| *r = places[r.index()]);
        places[n] = TaskId(count);
        count += 1;
    }
    // In the memory that the rows had.
    rows.retain(Option::is_some);
    graph.tasks = rows.into_iter().map(|row| row.expect("the others are gone")).collect();
    graph
}

/// Whether a row can be a part of the one whose value it reads.
fn joins(graph: &TaskGraph, readers: &[Vec<TaskId>], id: TaskId, read: TaskId) -> bool {
    let (task, producer) = (graph.task(id), graph.task(read));
    let Verb::Kernel { labels, operands, .. } = &task.verb else { return false };
    let (Verb::Kernel { finish: true, op, .. }, Some(map)) = (&producer.verb, map(graph, task)) else { return false };
    let Some(rank) = graph.ops[*op].spec.as_ref().map(|s| s.rank) else { return false };
    let alone = readers[read.index()] == [id] && producer.device == task.device;
    // The row has to wait for all that it reads: nothing that comes after the producer may hold it up.
    let in_time = |other: &TaskId| *other <= read || graph.fed(*other).is_some_and(External::is_resident);
    let in_order = operands.iter().zip(&map.accesses).all(|(operand, access)| {
        operand.is_none_or(|n| task.reads[n] != read || reads_in_order(access, labels, &producer.value.region, rank))
    });
    alone && task.reads.iter().all(in_time) && in_order && !labels.is_empty() && !producer.value.region.is_empty()
}

/// The operation of a row, if it folds nothing.
fn map<'a>(graph: &'a TaskGraph, task: &Task) -> Option<&'a Einsum> {
    let Verb::Kernel { op, .. } = &task.verb else { return None };
    match &graph.ops[*op].op {
        Op::Einsum(e) if !e.folds() => Some(e),
        Op::Einsum(_) | Op::Kernel(_) | Op::View(_) | Op::Input(_) => None,
    }
}

/// The row that does what some rows do, each of which reads the one before it; as the last of them.
fn together(chain: &[TaskId], parts: Vec<Task>) -> Task {
    let mut reads: Vec<TaskId> = Vec::new();
    let mut stages = Vec::new();
    let mut last = None;
    for (n, task) in parts.into_iter().enumerate() {
        let Verb::Kernel { op, ref labels, finish, ref operands } = task.verb else {
            unreachable!("only kernels are joined")
        };
        let mut source = |read: usize| {
            let read = task.reads[read];
            if n > 0 && read == chain[n - 1] {
                return Source::Previous;
            }
            Source::Read(reads.iter().position(|&r| r == read).unwrap_or_else(|| {
                reads.push(read);
                reads.len() - 1
            }))
        };
        let operands = operands.iter().map(|o| o.map(&mut source)).collect();
        stages.push(Stage { op, labels: labels.clone(), finish, operands });
        last = Some(task);
    }
    Task { verb: Verb::Fused { stages }, reads, ..last.expect("a chain has rows") }
}
