//! What every task waits for, worked out once per task graph.

use ein_ir::op::InputKind;
use ein_task::task::{Task, TaskGraph, TaskId, Verb};

/// Who waits for whom. Only tasks of one device wait for each other; between devices there are messages.
pub(crate) struct Schedule {
    /// The tasks of every device that each run executes, in order.
    pub(crate) rows: Vec<Vec<TaskId>>,
    /// Number of tasks, or messages, that each task waits for.
    pub(crate) waits: Vec<u32>,
    /// The tasks that wait for each task.
    pub(crate) then: Vec<Vec<TaskId>>,
    /// The receiving half of each sending half.
    pub(crate) receiver: Vec<Option<TaskId>>,
    /// The tasks that are done once, before any run: feeds of parameters.
    pub(crate) resident: Vec<TaskId>,
}

/// Whether a task is done once, when the executor is made.
pub(crate) fn is_resident(graph: &TaskGraph, task: &Task) -> bool {
    match task.verb {
        Verb::Feed { external } => graph.externals.get(external).is_some_and(|e| e.kind == InputKind::Parameter),
        _ => false,
    }
}

impl Schedule {
    /// Works out who waits for whom in a graph that has been verified.
    pub(crate) fn new(graph: &TaskGraph) -> Self {
        let n = graph.tasks.len();
        let mut s = Self {
            rows: vec![Vec::new(); graph.devices],
            waits: vec![0; n],
            then: vec![Vec::new(); n],
            receiver: vec![None; n],
            resident: Vec::new(),
        };
        for (at, task) in graph.tasks.iter().enumerate() {
            let id = TaskId(at as u32);
            if is_resident(graph, task) {
                s.resident.push(id);
                continue;
            }
            s.rows[task.device.index()].push(id);
            let mut before: Vec<TaskId> = task.after.clone();
            if let Verb::Receive { .. } = task.verb {
                s.receiver[task.reads[0].index()] = Some(id);
                s.waits[at] += 1;
            } else {
                before.extend(&task.reads);
            }
            before.sort_unstable();
            before.dedup();
            for b in before.into_iter().filter(|b| !is_resident(graph, &graph.tasks[b.index()])) {
                s.waits[at] += 1;
                s.then[b.index()].push(id);
            }
        }
        s
    }
}
