//! What every task waits for, worked out once per task graph.

use crate::error::RunError;
use ein_ir::op::InputKind;
use ein_ir::region::{Region, tiles};
use ein_task::task::{Slot, Task, TaskGraph, TaskId, Verb};

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
fn is_resident(graph: &TaskGraph, task: &Task) -> bool {
    match task.verb {
        Verb::Feed { external } => graph.externals.get(external).is_some_and(|e| e.kind == InputKind::Parameter),
        _ => false,
    }
}

impl Schedule {
    /// Works out who waits for whom, and refuses what could not be executed.
    pub(crate) fn new(graph: &TaskGraph) -> Result<Self, RunError> {
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
            check(graph, id, task).map_err(|reason| RunError::Graph { task: id.0, reason })?;
            if is_resident(graph, task) {
                s.resident.push(id);
                continue;
            }
            s.rows[task.device.index()].push(id);
            let mut before: Vec<TaskId> = task.after.clone();
            if let Verb::Receive { .. } = task.verb {
                let sender = task.reads[0];
                if let Some(first) = s.receiver[sender.index()].replace(id) {
                    let reason = format!("receives what task {} receives already", first.0);
                    return Err(RunError::Graph { task: id.0, reason });
                }
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
        for (at, task) in graph.tasks.iter().enumerate() {
            if let (Verb::Send { to }, None) = (&task.verb, s.receiver[at]) {
                return Err(RunError::Graph { task: at as u32, reason: format!("{to} does not receive it") });
            }
        }
        check_outputs(graph)?;
        check_residents(graph, &s.resident)?;
        Ok(s)
    }
}

fn check(graph: &TaskGraph, id: TaskId, task: &Task) -> Result<(), String> {
    let device = task.device;
    if device.index() >= graph.devices {
        return Err(format!("is on {device}, but there are {} devices", graph.devices));
    }
    if let Some(b) = task.reads.iter().chain(&task.after).find(|b| **b >= id) {
        return Err(format!("waits for task {}, which does not come before it", b.0));
    }
    let receives = matches!(task.verb, Verb::Receive { .. });
    let local = task.after.iter().chain(task.reads.iter().filter(|_| !receives));
    for b in local {
        let other = graph.tasks[b.index()].device;
        if other != device {
            return Err(format!("on {device} waits for task {} on {other}: only messages cross devices", b.0));
        }
    }
    let arena = graph.arenas.get(device.index()).map_or(0, |b| b.0);
    let end = task.slot.offset.checked_add(task.value.bytes().0).filter(|&end| end <= arena);
    if end.is_none() || !task.slot.offset.is_multiple_of(64) {
        let Slot { offset, .. } = task.slot;
        return Err(format!("its {} at byte {offset} do not lie aligned in an arena of {arena}", task.value.bytes()));
    }
    let one = || match task.reads.as_slice() {
        [one] => Ok(&graph.tasks[one.index()]),
        other => Err(format!("reads {} values instead of one", other.len())),
    };
    let op = |op: usize| if op < graph.ops.len() { Ok(()) } else { Err(format!("there is no operation {op}")) };
    match &task.verb {
        Verb::Feed { external } => {
            let e = graph.externals.get(*external).ok_or_else(|| format!("there is no external {external}"))?;
            let fits = e.ty.whole().contains(&task.value.region) && task.value.region.rank() == e.ty.shape.len();
            if !fits || task.value.form.fields.len() != 1 || task.value.form.fields[0].dtype != e.ty.dtype {
                return Err(format!("{} of `{}` is not a box of {}", task.value.region, e.name, e.ty));
            }
        }
        Verb::Kernel { op: n, operands, .. } => {
            op(*n)?;
            if let Some(r) = operands.iter().flatten().find(|r| **r >= task.reads.len()) {
                return Err(format!("an operand is read {r} of {}", task.reads.len()));
            }
        }
        Verb::View { op: n, inputs } => {
            op(*n)?;
            if inputs.len() != task.reads.len() {
                return Err(format!("names {} inputs for {} reads", inputs.len(), task.reads.len()));
            }
        }
        Verb::Cut => drop(one()?),
        Verb::Send { to } => {
            one()?;
            if to.index() >= graph.devices {
                return Err(format!("sends to {to}, but there are {} devices", graph.devices));
            }
        }
        Verb::Receive { from } => {
            let sender = one()?;
            if sender.device != *from || sender.verb != (Verb::Send { to: device }) {
                return Err(format!("task {} on {} does not send to {device}", task.reads[0].0, sender.device));
            }
            let sent = &graph.tasks[sender.reads[0].index()].value;
            if sent.bytes() != task.value.bytes() {
                return Err(format!("receives {} where {} are sent", task.value.bytes(), sent.bytes()));
            }
        }
        Verb::Fold { .. } | Verb::Paste => {}
        Verb::Output { output } => {
            let from = one()?;
            let (name, ty) = graph.outputs.get(*output).ok_or_else(|| format!("there is no output {output}"))?;
            let fields = &from.value.form.fields;
            if !ty.whole().contains(&from.value.region) || fields.len() != 1 || fields[0].dtype != ty.dtype {
                return Err(format!("{} is not a box of output `{name}`, {ty}", from.value.region));
            }
        }
    }
    Ok(())
}

/// Every element of every output is handed out.
fn check_outputs(graph: &TaskGraph) -> Result<(), RunError> {
    for (n, (name, ty)) in graph.outputs.iter().enumerate() {
        let mut boxes: Vec<Region> = Vec::new();
        let mut last = 0;
        for (at, task) in graph.tasks.iter().enumerate() {
            if task.verb == (Verb::Output { output: n }) {
                let region = &graph.tasks[task.reads[0].index()].value.region;
                // Copies of a box on several devices are handed out several times.
                boxes = boxes.into_iter().flat_map(|b| b.subtract(region)).collect();
                boxes.push(region.clone());
                last = at;
            }
        }
        boxes.retain(|b| !b.is_empty());
        if !tiles(&boxes, &ty.whole()) {
            let reason = format!("some of output `{name}` ({ty}) is handed out by no task");
            return Err(RunError::Graph { task: last as u32, reason });
        }
    }
    Ok(())
}

/// What is loaded once must not be overwritten by a run.
fn check_residents(graph: &TaskGraph, resident: &[TaskId]) -> Result<(), RunError> {
    let span = |t: &Task| (t.slot.offset, t.slot.offset + t.value.bytes().0);
    let mut held: Vec<Vec<(u64, u64, TaskId)>> = vec![Vec::new(); graph.devices];
    for &id in resident {
        let (lo, hi) = span(&graph.tasks[id.index()]);
        if lo < hi {
            held[graph.tasks[id.index()].device.index()].push((lo, hi, id));
        }
    }
    let clash = |a: TaskId, b: TaskId| RunError::Graph {
        task: b.0,
        reason: format!("its slot overlaps that of the parameter of task {}", a.0),
    };
    for spans in &mut held {
        spans.sort_unstable();
        if let Some(w) = spans.windows(2).find(|w| w[1].0 < w[0].1) {
            return Err(clash(w[0].2, w[1].2));
        }
    }
    for (at, task) in graph.tasks.iter().enumerate() {
        let (lo, hi) = span(task);
        if lo >= hi || is_resident(graph, task) {
            continue;
        }
        let spans = &held[task.device.index()];
        // The spans are disjoint and sorted: the last that begins before our end is the only candidate
        // besides those that lie wholly inside, which it then is too.
        let next = spans.partition_point(|s| s.0 < hi);
        if let Some(s) = next.checked_sub(1).map(|n| spans[n]).filter(|s| s.1 > lo) {
            return Err(clash(s.2, TaskId(at as u32)));
        }
    }
    Ok(())
}
