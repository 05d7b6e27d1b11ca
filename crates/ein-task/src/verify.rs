//! The last gatekeeper: what must hold of a task graph before anything runs it. It changes nothing.

use crate::machine::DeviceId;
use crate::memory::{ALIGN, owner};
use crate::pending::{PendingFault, check_pending};
use crate::task::{OpRow, Source, Stage, Task, TaskGraph, TaskId, Value, Verb};
use ein_ir::dtype::DType;
use ein_ir::einsum::Access;
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region, tiles};
use ein_ir::spec::Spec;
use std::collections::BTreeMap;

/// Why a task graph is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A row breaks a rule.
    #[error("{task} ({verb} of `{tensor}` on {device}): {fault}")]
    Task {
        /// The row.
        task: TaskId,
        /// What it does.
        verb: &'static str,
        /// The tensor it belongs to.
        tensor: String,
        /// Its device.
        device: DeviceId,
        /// The rule.
        fault: Fault,
    },
    /// An output is not handed out once.
    #[error("the regions in which output `{output}` leaves do not fill {whole} exactly once")]
    Output {
        /// The output.
        output: String,
        /// Its whole region.
        whole: Region,
    },
    /// With no message buffered, these moves would wait for each other.
    #[error("moves wait for each other with no message buffered, among them {task}")]
    Deadlock {
        /// One row of the cycle.
        task: TaskId,
    },
    /// There must be an arena for every device, or none before the memory plan.
    #[error("{arenas} arenas for {devices} devices")]
    Arenas {
        /// Number of arenas.
        arenas: usize,
        /// Number of devices.
        devices: usize,
    },
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Rows look back.
    #[error("names {0}, which is not an earlier row")]
    Forward(TaskId),
    /// A device sees only its own memory.
    #[error("names {0}, which is on another device")]
    Foreign(TaskId),
    /// The row read leaves nothing to read.
    #[error("reads {0}, which leaves nothing")]
    Nothing(TaskId),
    /// A device, operation, external, output or name that is not there.
    #[error("names {what} {index} of {count}")]
    Missing {
        /// What kind of thing.
        what: &'static str,
        /// Its position.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The wrong number of reads or of operands.
    #[error("has {found} {what} where {expected} belong")]
    Count {
        /// Reads or operands.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many belong.
        expected: usize,
    },
    /// A region is not what the verb leaves or needs.
    #[error("{what}: {found} where {expected} belongs")]
    Region {
        /// Which region.
        what: &'static str,
        /// What it is.
        found: Region,
        /// What belongs, or must contain it or be contained.
        expected: Region,
    },
    /// A value is not stored as the verb leaves or needs it.
    #[error("{0} is not stored as it must be")]
    Form(&'static str),
    /// An operation of the wrong kind.
    #[error("operation {0} is not of the kind that the verb does")]
    Kind(usize),
    /// A partial is read where the finished value belongs, or not folded as it must be.
    #[error(transparent)]
    Pending(#[from] PendingFault),
    /// A kernel may finish only what holds all that is folded.
    #[error("finishes a block that lacks part of a folded label")]
    Unfinished,
    /// A stage of a fused row is not one.
    #[error("stage {0} {1}")]
    Stage(usize, &'static str),
    /// Pastes fill their region with disjoint boxes.
    #[error("the boxes read do not fill {0} exactly")]
    NotFilled(Region),
    /// Only what is received for one paste alone, or shown as it lies by one reshape alone, is left in its memory.
    #[error(
        "leaves its value within {within}, but {}",
        reader.map_or("nobody reads it".to_string(), |r| {
            format!("{r} reads it, which is not a paste of that box in that slot, nor a reshape of all of it")
        })
    )]
    Within {
        /// The box in whose memory the value is to lie.
        within: Region,
        /// The last reader.
        reader: Option<TaskId>,
    },
    /// The two halves of a move do not belong together.
    #[error("the halves of the move do not match: {0}")]
    Halves(String),
    /// A slot is too small, misaligned or outside its arena.
    #[error("slot {offset}+{bytes} does not hold {needed} bytes inside an arena of {arena}, aligned to 64")]
    Slot {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Bytes of the value.
        needed: u64,
        /// Bytes of the arena.
        arena: u64,
    },
    /// A slot is used again while its old value may still be read.
    #[error("reuses memory of {old} without waiting for {reader}")]
    Reuse {
        /// The old value.
        old: TaskId,
        /// Its reader, or itself.
        reader: TaskId,
    },
}

/// Checks everything that can be checked without running: rows look back, devices see only their own memory,
/// every region and form is what the verb leaves, moves have two halves and cannot wait for each other, every partial
/// is folded once before it is read, outputs leave exactly once, and memory is reused only after its last reader.
pub fn verify(graph: &TaskGraph) -> Result<(), VerifyError> {
    for (id, task) in graph.rows() {
        check_task(graph, id, task).map_err(|fault| at(graph, id, fault))?;
    }
    check_moves(graph)?;
    check_pending(graph).map_err(|(id, fault)| at(graph, id, fault.into()))?;
    check_outputs(graph)?;
    check_rendezvous(graph)?;
    check_within(graph)?;
    check_memory(graph)
}

fn at(graph: &TaskGraph, id: TaskId, fault: Fault) -> VerifyError {
    let task = graph.task(id);
    VerifyError::Task {
        task: id,
        verb: task.verb.name(),
        tensor: graph.label(id).to_string(),
        device: task.device,
        fault,
    }
}

fn check_task(graph: &TaskGraph, id: TaskId, task: &Task) -> Result<(), Fault> {
    exists("device", task.device.index(), graph.devices)?;
    exists("label", task.label as usize, graph.labels.len())?;
    if let Some(&later) = task.reads.iter().chain(&task.after).find(|t| **t >= id) {
        return Err(Fault::Forward(later));
    }
    if let Some(&foreign) = task.after.iter().find(|t| graph.task(**t).device != task.device) {
        return Err(Fault::Foreign(foreign));
    }
    if task.value.form.fields.iter().any(|f| f.axes.iter().any(|&a| a >= task.value.region.rank())) {
        return Err(Fault::Form("the value"));
    }
    if let Verb::Receive { from } = task.verb {
        return check_receive(graph, task, from);
    }
    for &read in &task.reads {
        if graph.task(read).device != task.device {
            return Err(Fault::Foreign(read));
        }
        if graph.task(read).value.is_nothing() {
            return Err(Fault::Nothing(read));
        }
    }
    let reads: Vec<&Value> = task.reads.iter().map(|&r| &graph.task(r).value).collect();
    match &task.verb {
        Verb::Feed { external } => {
            exists("external", *external, graph.externals.len())?;
            count("reads", reads.len(), 0)?;
            let ty = &graph.externals[*external].ty;
            inside("the value", &task.value.region, &ty.whole())?;
            stored("the value", &task.value, &finished(ty))
        }
        Verb::Kernel { op, labels, finish, operands } => {
            exists("operation", *op, graph.ops.len())?;
            let row = &graph.ops[*op];
            let spec = row.spec.as_ref().ok_or(Fault::Kind(*op))?;
            check_kernel(row, spec, labels, *finish, operands, &reads)?;
            equal("the value", &task.value.region, &spec.result_region(labels))?;
            if *finish {
                stored("the value", &task.value, &finished(&row.result))
            } else {
                pending("the value", &task.value, spec.monoid, row.result.dtype)
            }
        }
        Verb::Fused { stages } => check_fused(graph, stages, &task.value, &reads),
        Verb::View { op, inputs } => {
            exists("operation", *op, graph.ops.len())?;
            let row = &graph.ops[*op];
            check_view(row, *op, inputs, &task.value, &reads)
        }
        Verb::Cut => {
            count("reads", reads.len(), 1)?;
            inside("the value", &task.value.region, &reads[0].region)?;
            stored("the value", &task.value, &reads[0].form)
        }
        Verb::Send { to } => {
            count("reads", reads.len(), 1)?;
            exists("device", to.index(), graph.devices)?;
            leaves_nothing(task)?;
            inside("what is sent", &task.value.region, &reads[0].region)
        }
        Verb::Receive { .. } => unreachable!("checked above"),
        Verb::Fold { monoid, finish } => check_fold(*monoid, *finish, &task.value, &reads),
        Verb::Paste => {
            reads.iter().try_for_each(|r| stored("what is pasted", r, &task.value.form))?;
            let part = |r: &&Value| {
                (r.region.rank() == task.value.region.rank()).then(|| r.region.intersect(&task.value.region))?
            };
            match reads.iter().map(part).collect::<Option<Vec<Region>>>() {
                Some(parts) if tiles(&parts, &task.value.region) => Ok(()),
                _ => Err(Fault::NotFilled(task.value.region.clone())),
            }
        }
        Verb::Output { output } => {
            count("reads", reads.len(), 1)?;
            exists("output", *output, graph.outputs.len())?;
            leaves_nothing(task)?;
            inside("what is handed out", &task.value.region, &reads[0].region)?;
            let ty = &graph.outputs[*output].1;
            inside("what is handed out", &task.value.region, &ty.whole())?;
            stored("what is handed out", reads[0], &finished(ty))
        }
    }
}

fn check_kernel(
    row: &OpRow,
    spec: &Spec,
    labels: &Region,
    finish: bool,
    operands: &[Option<usize>],
    reads: &[&Value],
) -> Result<(), Fault> {
    inside("the block", labels, &spec.space())?;
    count("operands", operands.len(), spec.operands.len())?;
    for (n, operand) in operands.iter().enumerate() {
        let needed = spec.operand_region(n, labels);
        let Some(read) = *operand else {
            if needed.is_empty() {
                continue;
            }
            return Err(Fault::Count { what: "operands", found: n, expected: operands.len() });
        };
        exists("read", read, reads.len())?;
        inside("an operand", &needed, &reads[read].region)?;
        stored("an operand", reads[read], &finished(&row.operands[n]))?;
    }
    if let Some(unused) = (0..reads.len()).find(|n| !operands.contains(&Some(*n))) {
        return Err(Fault::Count { what: "reads", found: reads.len(), expected: unused });
    }
    if finish && !spec.is_complete(labels) {
        // A causal limit may leave nothing to fold beyond the block.
        let mut all = labels.clone();
        for (n, label) in spec.labels.iter().enumerate().skip(spec.rank) {
            all.0[n] = Interval::new(0, label.extent);
        }
        if spec.work.band.is_none() || spec.points(&all) != spec.points(labels) {
            return Err(Fault::Unfinished);
        }
    }
    Ok(())
}

/// Every stage is a kernel; what is between two of them is finished, all of it is read, and by the next alone.
fn check_fused(graph: &TaskGraph, stages: &[Stage], value: &Value, reads: &[&Value]) -> Result<(), Fault> {
    if stages.len() < 2 {
        return Err(Fault::Count { what: "stages", found: stages.len(), expected: 2 });
    }
    let sources = || stages.iter().flat_map(|s| &s.operands);
    if let Some(unused) = (0..reads.len()).find(|n| !sources().any(|s| *s == Some(Source::Read(*n)))) {
        return Err(Fault::Count { what: "reads", found: reads.len(), expected: unused });
    }
    let mut before: Option<(Value, usize)> = None;
    for (n, stage) in stages.iter().enumerate() {
        exists("operation", stage.op, graph.ops.len())?;
        let row = &graph.ops[stage.op];
        let spec = row.spec.as_ref().ok_or(Fault::Kind(stage.op))?;
        // The stage as a kernel, which reads what it reads and nothing else.
        let (mut own, mut operands): (Vec<&Value>, _) = (Vec::new(), Vec::new());
        for source in &stage.operands {
            let read = match source {
                None => None,
                Some(Source::Read(read)) => {
                    exists("read", *read, reads.len())?;
                    Some(reads[*read])
                }
                Some(Source::Previous) => {
                    Some(before.as_ref().map(|b| &b.0).ok_or(Fault::Stage(n, "reads a stage before the first"))?)
                }
            };
            operands.push(read.map(|read| {
                own.push(read);
                own.len() - 1
            }));
        }
        check_kernel(row, spec, &stage.labels, stage.finish, &operands, &own)?;
        if let Some((before, rank)) = &before {
            check_stage(row, stage, before, *rank).map_err(|why| Fault::Stage(n, why))?;
        }
        if n + 1 < stages.len() && !stage.finish {
            return Err(Fault::Stage(n, "is not finished, and the next one reads it"));
        }
        let result = spec.result_region(&stage.labels);
        if n + 1 == stages.len() {
            equal("the value", &value.region, &result)?;
            return if stage.finish {
                stored("the value", value, &finished(&row.result))
            } else {
                pending("the value", value, spec.monoid, row.result.dtype)
            };
        }
        before = Some((Value { region: result, form: finished(&row.result) }, spec.rank));
    }
    unreachable!("the last stage returns")
}

/// A stage reads the one before it element by element.
fn check_stage(row: &OpRow, stage: &Stage, before: &Value, rank: usize) -> Result<(), &'static str> {
    let Op::Einsum(e) = &row.op else { return Err("is no einsum, and only the first may be something else") };
    if e.folds() {
        return Err("folds, and only the first may");
    }
    let own = e.accesses.iter().zip(&stage.operands).filter(|(_, o)| **o == Some(Source::Previous));
    let mut read = false;
    for (access, _) in own {
        read = true;
        if !reads_in_order(access, &stage.labels, &before.region, rank) {
            return Err("does not read the stage before it element by element");
        }
    }
    if read { Ok(()) } else { Err("does not read the stage before it") }
}

/// Whether an access of a block reads a box of an operation's result element by element: its first `rank` axes, those
/// that are labels of the operation, are the block's first labels, in order and with the same bounds; further ones, of
/// fields that a monoid stacks, are constant.
pub fn reads_in_order(access: &Access, labels: &Region, of: &Region, rank: usize) -> bool {
    let leading = access.axes.iter().enumerate().take_while(|(n, a)| a.as_label() == Some(*n)).count();
    let constant = access.axes.iter().skip(rank).all(|a| a.terms.is_empty());
    constant && rank > 0 && leading == rank && labels.0.len() >= rank && labels.0[..rank] == of.0[..rank]
}

fn check_view(row: &OpRow, op: usize, inputs: &[usize], value: &Value, reads: &[&Value]) -> Result<(), Fault> {
    let Op::View(view) = &row.op else { return Err(Fault::Kind(op)) };
    count("inputs", inputs.len(), reads.len())?;
    inside("the value", &value.region, &row.result.whole())?;
    stored("the value", value, &finished(&row.result))?;
    for (&input, read) in inputs.iter().zip(reads) {
        exists("input", input, row.operands.len())?;
        stored("an input", read, &finished(&row.operands[input]))?;
    }
    let shapes: Vec<&[usize]> = row.operands.iter().map(|t| t.shape.as_slice()).collect();
    for pull in view.pulls(&shapes, &value.region) {
        let Some(input) = pull.input else { continue };
        let holds = |(n, read): (&usize, &&Value)| *n == input && read.region.contains(&pull.source);
        if !inputs.iter().zip(reads).any(holds) {
            return Err(Fault::NotFilled(pull.source));
        }
    }
    Ok(())
}

fn check_fold(monoid: Monoid, finish: bool, value: &Value, reads: &[&Value]) -> Result<(), Fault> {
    let Some(first) = reads.first() else {
        return Err(Fault::Count { what: "reads", found: 0, expected: 1 });
    };
    for read in reads {
        equal("what is folded", &read.region, &value.region)?;
        stored("what is folded", read, &first.form)?;
    }
    let [field, ..] = &value.form.fields[..] else { return Err(Fault::Form("the value")) };
    if finish {
        stored("the value", value, &Form::finished(field.dtype, value.region.rank()))?;
        return pending("what is folded", first, monoid, field.dtype);
    }
    stored("the value", value, &first.form)?;
    // The fields say how the result was typed: any type with this pending form will do.
    match DType::ALL.into_iter().find(|&d| pending("the value", value, monoid, d).is_ok()) {
        Some(_) => Ok(()),
        None => Err(Fault::Form("the value")),
    }
}

fn check_receive(graph: &TaskGraph, task: &Task, from: DeviceId) -> Result<(), Fault> {
    count("reads", task.reads.len(), 1)?;
    let send = graph.task(task.reads[0]);
    let Verb::Send { to } = send.verb else { return Err(Fault::Halves("it reads no send half".into())) };
    if to != task.device || from != send.device || from == task.device {
        let (s, t) = (send.device, task.device);
        return Err(Fault::Halves(format!("sent from {s} to {to}, received on {t} from {from}")));
    }
    equal("what is received", &task.value.region, &send.value.region)?;
    stored("what is received", &task.value, &graph.task(send.reads[0]).value.form)
}

/// What is left in the memory of another row is what was received for that paste, or is shown by that reshape, alone.
fn check_within(graph: &TaskGraph) -> Result<(), VerifyError> {
    let readers = graph.readers();
    for (id, task) in graph.rows() {
        let Some(within) = &task.within else { continue };
        let readers = readers[id.index()].as_slice();
        if let &[reader] = readers {
            let reader = graph.task(reader);
            if reader.value.region == *within && graph.fits_within(task, reader) && reader.slot == task.slot {
                continue;
            }
        }
        let fault = Fault::Within { within: within.clone(), reader: readers.last().copied() };
        return Err(at(graph, id, fault));
    }
    Ok(())
}

/// Every send half has exactly one receive half.
fn check_moves(graph: &TaskGraph) -> Result<(), VerifyError> {
    for (readers, (id, task)) in graph.readers().iter().zip(graph.rows()) {
        if matches!(task.verb, Verb::Send { .. }) && readers.len() != 1 {
            return Err(at(graph, id, Fault::Halves(format!("{} rows receive it", readers.len()))));
        }
    }
    Ok(())
}

fn check_outputs(graph: &TaskGraph) -> Result<(), VerifyError> {
    let mut regions = vec![Vec::new(); graph.outputs.len()];
    for task in &graph.tasks {
        if let Verb::Output { output } = task.verb {
            regions[output].push(task.value.region.clone());
        }
    }
    for ((name, ty), regions) in graph.outputs.iter().zip(regions) {
        if !tiles(&regions, &ty.whole()) {
            return Err(VerifyError::Output { output: name.clone(), whole: ty.whole() });
        }
    }
    Ok(())
}

/// Both halves of a move happen together when nothing is buffered: with the halves as one, there must be no
/// cycle of waits.
fn check_rendezvous(graph: &TaskGraph) -> Result<(), VerifyError> {
    let mut whole: Vec<usize> = (0..graph.tasks.len()).collect();
    for (id, task) in graph.rows() {
        if matches!(task.verb, Verb::Receive { .. }) {
            whole[id.index()] = task.reads[0].index();
        }
    }
    let mut waits = vec![0usize; graph.tasks.len()];
    let mut wakes = vec![Vec::new(); graph.tasks.len()];
    for (id, task) in graph.rows() {
        let own = whole[id.index()];
        for earlier in task.reads.iter().chain(&task.after).map(|t| whole[t.index()]).filter(|&t| t != own) {
            waits[own] += 1;
            wakes[earlier].push(own);
        }
    }
    let mut ready: Vec<usize> = (0..waits.len()).filter(|&n| whole[n] == n && waits[n] == 0).collect();
    while let Some(n) = ready.pop() {
        for &next in &wakes[n] {
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push(next);
            }
        }
    }
    match waits.iter().position(|&w| w > 0) {
        Some(n) => Err(VerifyError::Deadlock { task: TaskId(n as u32) }),
        None => Ok(()),
    }
}

/// Memory is reused only after the last reader of what was there; what is resident is never overwritten.
fn check_memory(graph: &TaskGraph) -> Result<(), VerifyError> {
    if graph.arenas.is_empty() {
        return Ok(());
    }
    if graph.arenas.len() != graph.devices {
        return Err(VerifyError::Arenas { arenas: graph.arenas.len(), devices: graph.devices });
    }
    let readers = graph.readers();
    let mut before = Before { graph, seen: vec![0; graph.tasks.len()], search: 0, open: Vec::new() };
    // Offset to (end, value), disjoint, per device.
    let mut holds: Vec<BTreeMap<u64, (u64, TaskId)>> = vec![BTreeMap::new(); graph.devices];
    let resident = |id: TaskId| graph.fed(id).is_some_and(crate::task::External::is_resident);
    let resident_first =
        graph.rows().filter(|(id, _)| resident(*id)).chain(graph.rows().filter(|(id, _)| !resident(*id)));
    // For rows whose memory is written before them: those that every writer has to wait for.
    let mut displaced: BTreeMap<TaskId, Vec<(TaskId, TaskId)>> = BTreeMap::new();
    for (id, task) in resident_first {
        let needed = task.value.form.layout(task.stored()).1 as u64;
        let (slot, arena) = (task.slot, graph.arenas[task.device.index()].0);
        // What is left in the memory of another row holds it for that.
        let owner = owner(graph, &readers, id);
        let aligned = slot.offset.is_multiple_of(ALIGN) && slot.bytes.is_multiple_of(ALIGN);
        if !aligned || slot.bytes < needed || slot.offset + slot.bytes > arena {
            let fault = Fault::Slot { offset: slot.offset, bytes: slot.bytes, needed, arena };
            return Err(at(graph, id, fault));
        }
        if slot.bytes == 0 {
            continue;
        }
        let (lo, hi) = (slot.offset, slot.offset + slot.bytes);
        let holds = &mut holds[task.device.index()];
        let mut old: Vec<u64> = holds.range(lo..hi).map(|h| *h.0).collect();
        old.extend(holds.range(..lo).next_back().filter(|h| h.1.0 > lo).map(|h| *h.0));
        for offset in old {
            let (end, old) = holds.remove(&offset).expect("found above");
            if old == owner {
                continue;
            }
            let own = [old];
            let waited = if readers[old.index()].is_empty() { &own[..] } else { &readers[old.index()] };
            let early = waited.iter().find(|&&r| resident(old) || !before.reaches(id, r));
            if let Some(&reader) = early {
                return Err(at(graph, id, Fault::Reuse { old, reader }));
            }
            if owner != id {
                displaced.entry(owner).or_default().extend(waited.iter().map(|&reader| (old, reader)));
            }
            if offset < lo {
                holds.insert(offset, (lo, old));
            }
            if end > hi {
                holds.insert(hi, (end, old));
            }
        }
        for &(old, reader) in displaced.get(&owner).into_iter().flatten() {
            if !before.reaches(id, reader) {
                return Err(at(graph, id, Fault::Reuse { old, reader }));
            }
        }
        holds.insert(lo, (hi, owner));
    }
    Ok(())
}

/// Searches for what tasks wait for.
struct Before<'a> {
    graph: &'a TaskGraph,
    /// The last search that met each task.
    seen: Vec<u32>,
    search: u32,
    open: Vec<TaskId>,
}

impl Before<'_> {
    /// Whether `task` waits for `earlier`, directly or through others.
    fn reaches(&mut self, task: TaskId, earlier: TaskId) -> bool {
        self.search += 1;
        self.open.clear();
        self.open.push(task);
        while let Some(t) = self.open.pop() {
            for &before in self.graph.task(t).after.iter().chain(&self.graph.task(t).reads) {
                if before == earlier {
                    return true;
                }
                if before > earlier && self.seen[before.index()] != self.search {
                    self.seen[before.index()] = self.search;
                    self.open.push(before);
                }
            }
        }
        false
    }
}

fn finished(ty: &TensorType) -> Form {
    Form::finished(ty.dtype, ty.shape.len())
}

fn exists(what: &'static str, index: usize, count: usize) -> Result<(), Fault> {
    if index < count { Ok(()) } else { Err(Fault::Missing { what, index, count }) }
}

fn count(what: &'static str, found: usize, expected: usize) -> Result<(), Fault> {
    if found == expected { Ok(()) } else { Err(Fault::Count { what, found, expected }) }
}

fn equal(what: &'static str, found: &Region, expected: &Region) -> Result<(), Fault> {
    if found == expected {
        Ok(())
    } else {
        Err(Fault::Region { what, found: found.clone(), expected: expected.clone() })
    }
}

fn inside(what: &'static str, found: &Region, outer: &Region) -> Result<(), Fault> {
    if found.rank() == outer.rank() && outer.contains(found) {
        Ok(())
    } else {
        Err(Fault::Region { what, found: found.clone(), expected: outer.clone() })
    }
}

fn stored(what: &'static str, value: &Value, form: &Form) -> Result<(), Fault> {
    if value.form == *form { Ok(()) } else { Err(Fault::Form(what)) }
}

/// Pending, narrow or wide; an axis that finishing adds is never cut.
fn pending(what: &'static str, value: &Value, monoid: Monoid, dtype: DType) -> Result<(), Fault> {
    let rank = value.region.rank();
    if let Some(n) = monoid.stacked() {
        let last = value.region.0.last().copied().unwrap_or(Interval::new(0, 0));
        if last != Interval::new(0, n) {
            return Err(Fault::Form(what));
        }
    }
    let forms = [monoid.pending(dtype, rank, false), monoid.pending(dtype, rank, true)];
    if forms.contains(&value.form) { Ok(()) } else { Err(Fault::Form(what)) }
}

fn leaves_nothing(task: &Task) -> Result<(), Fault> {
    if task.value.is_nothing() { Ok(()) } else { Err(Fault::Form("what leaves nothing")) }
}
