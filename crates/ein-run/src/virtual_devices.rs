//! The virtual devices of one process: every device has an arena of its own, and all of them share some threads, which
//! take whatever is ready, most urgent first. A file with `unsafe` code, because rows that run at once borrow parts of one
//! arena.
//!
//! A thread that finishes a row goes on with the most urgent row that waited for it, unless a more urgent one is ready;
//! only when there is a choice is the heap of ready rows locked. Threads without a row help with the parts of others'.
#![allow(unsafe_code)]

use crate::backend::Backend;
use crate::cpu::CpuDevice;
use crate::device::Memory;
use crate::error::{Cause, RunError};
use crate::executor::Order;
use crate::failure::{Failure, panic_cause};
use crate::lent::{Lent, Place};
use crate::load::{allocate, load};
use crate::pages::give_back;
use crate::pool::{Job, Pool, Shared};
use crate::source::{ParameterSource, bytes_of, bytes_of_mut};
use crate::steps::{Does, Step, Steps, drawn};
use crate::team::Team;
use crate::trace::Mark;
use ein_ir::dense::Dense;
use ein_task::task::{TaskGraph, TaskId};
use ein_task::units::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// No rank: behind all others.
const NONE: u32 = u32::MAX;

/// Bytes of a move that one thread copies: some tens of microseconds of work.
const COPIED_BY_ONE: usize = 1 << 19;

/// The devices and their threads.
pub(crate) struct VirtualDevices {
    devices: Vec<CpuDevice>,
    /// Their arenas during a run.
    lent: Vec<Lent>,
    pool: Pool,
    reads: Vec<Mutex<Reads>>,
    /// For every paste that something is received for where it wants it: who holds this writes there.
    pastes: Vec<Mutex<()>>,
    steps: Steps,
    state: State,
}

/// What one thread keeps for what a row reads; empty between rows.
type Reads = Vec<&'static [u8]>;

/// How far a run is.
struct State {
    /// The rank of every step and the step of every rank; lower ones go first.
    rank: Vec<u32>,
    step: Vec<u32>,
    /// What every step still waits for.
    waits: Vec<AtomicU32>,
    /// Ranks of ready steps that no thread has taken.
    ready: Mutex<BinaryHeap<Reverse<u32>>>,
    /// The lowest of them.
    best: AtomicU32,
    /// Steps that are not done.
    left: AtomicUsize,
    stopped: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// Start and end of every step, bits of seconds.
    marks: Vec<[AtomicU64; 2]>,
}

/// A run: what all threads of it read.
struct Running<'a> {
    graph: &'a TaskGraph,
    inputs: &'a BTreeMap<String, Dense>,
    outputs: &'a [Mutex<Dense>],
    steps: &'a Steps,
    state: &'a State,
    lent: &'a [Lent],
    reads: &'a [Mutex<Reads>],
    pastes: &'a [Mutex<()>],
    pool: &'a Shared,
    start: Instant,
}

impl VirtualDevices {
    /// The devices of a graph that has been verified, on so many threads: arenas made, parameters loaded, rows ready.
    pub(crate) fn new(graph: &TaskGraph, parameters: &dyn ParameterSource, threads: usize) -> Result<Self, RunError> {
        let steps = Steps::new(graph).map_err(|failure| failure.error(graph))?;
        let mut devices: Vec<CpuDevice> = (0..graph.devices).map(|_| CpuDevice::default()).collect();
        // Replicas of parameters are there once: the slots of the others take no memory.
        allocate(graph, &mut devices, &|n, device, bytes| device.reserve(bytes, &steps.replicas.unused(graph, n)))?;
        let homes: Vec<TaskId> = steps.resident.iter().copied().filter(|&row| steps.replicas.is_home(row)).collect();
        load(graph, &homes, parameters, devices.iter_mut().map(|d| d as &mut dyn Memory).collect())?;
        for &row in &homes {
            devices[graph.task(row).device.index()].pack(graph, row, &steps.packing);
        }
        let pool = Pool::new(threads);
        let room = || Mutex::new(Vec::with_capacity(steps.most_reads));
        let reads = (0..pool.threads()).map(|_| room()).collect();
        let state = State::new(steps.all.len());
        let pastes = (0..steps.pastes).map(|_| Mutex::new(())).collect();
        let lent = Vec::with_capacity(devices.len() + steps.borrowed.len());
        give_back();
        Ok(Self { devices, lent, pool, reads, pastes, steps, state })
    }
}

impl Backend for VirtualDevices {
    fn set_order(&mut self, order: Order) {
        let count = self.steps.all.len();
        self.state.rank = match order {
            Order::Listed => (0..count as u32).collect(),
            Order::Random(seed) => drawn(count, seed),
        };
        for (step, &rank) in self.state.rank.iter().enumerate() {
            self.state.step[rank as usize] = step as u32;
        }
    }

    /// Allocates nothing.
    fn run(
        &mut self,
        graph: &TaskGraph,
        inputs: &BTreeMap<String, Dense>,
        outputs: &[Mutex<Dense>],
    ) -> Result<(), RunError> {
        self.lent.clear();
        self.lent.extend(self.devices.iter_mut().map(|device| Lent::of(device.arena())));
        let given = |external: &usize| inputs.get(&graph.externals[*external].name).map_or(&[][..], bytes_of);
        self.lent.extend(self.steps.borrowed.iter().map(|external| Lent::to_read(given(external))));
        self.state.begin(&self.steps);
        // Whoever begins the run takes one.
        let others = self.state.waiting().saturating_sub(1);
        let pool = self.pool.shared();
        let run = Running {
            graph,
            inputs,
            outputs,
            steps: &self.steps,
            state: &self.state,
            lent: &self.lent,
            reads: &self.reads,
            pastes: &self.pastes,
            pool,
            start: Instant::now(),
        };
        // The arenas are used by nobody else until this returns, and nobody helps any more when it does.
        pool.offer_all(&run, others, || run.lead());
        let failure = self.state.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), |failure| Err(failure.error(graph)))
    }

    fn replicas(&self, graph: &TaskGraph) -> Bytes {
        self.steps.replicas.saved(graph)
    }

    /// The halves of a move are one, so both have its times.
    fn marks(&self) -> Vec<Mark> {
        let mut marks = Vec::with_capacity(self.steps.all.len());
        for (step, times) in self.steps.all.iter().zip(&self.state.marks) {
            let [start, end] = [0, 1].map(|n| f64::from_bits(times[n].load(Ordering::Relaxed)));
            if end.is_nan() {
                continue;
            }
            marks.push(Mark { task: step.task, start, end });
            if let Does::Move { send, .. } = step.does {
                marks.push(Mark { task: send, start, end });
            }
        }
        marks
    }
}

impl State {
    fn new(steps: usize) -> Self {
        let nan = || AtomicU64::new(f64::NAN.to_bits());
        Self {
            rank: (0..steps as u32).collect(),
            step: (0..steps as u32).collect(),
            waits: (0..steps).map(|_| AtomicU32::new(0)).collect(),
            ready: Mutex::new(BinaryHeap::with_capacity(steps)),
            best: AtomicU32::new(NONE),
            left: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
            marks: (0..steps).map(|_| [nan(), nan()]).collect(),
        }
    }

    /// Before a run: what waits for nothing is ready.
    fn begin(&mut self, steps: &Steps) {
        let ready = self.ready.get_mut().unwrap_or_else(PoisonError::into_inner);
        ready.clear();
        for (n, step) in steps.all.iter().enumerate() {
            *self.waits[n].get_mut() = step.waits;
            *self.marks[n][1].get_mut() = f64::NAN.to_bits();
            if step.waits == 0 {
                ready.push(Reverse(self.rank[n]));
            }
        }
        *self.best.get_mut() = lowest(ready);
        *self.left.get_mut() = steps.all.len();
        *self.stopped.get_mut() = false;
        *self.failure.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0 || self.stopped.load(Ordering::SeqCst)
    }

    /// The most urgent ready step.
    fn take(&self) -> Option<u32> {
        if self.best.load(Ordering::SeqCst) == NONE || self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let mut ready = self.heap();
        let rank = ready.pop()?.0;
        self.best.store(lowest(&ready), Ordering::SeqCst);
        Some(self.step[rank as usize])
    }

    fn heap(&self) -> MutexGuard<'_, BinaryHeap<Reverse<u32>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many steps wait for a thread before any has begun.
    fn waiting(&mut self) -> usize {
        self.ready.get_mut().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// After a step: the one that its thread goes on with, and how many wait for another one if some are new among them.
    fn done(&self, then: &[u32]) -> (Option<u32>, usize) {
        let (mut own, mut heap, mut others) = (NONE, None, false);
        for &next in then {
            if self.waits[next as usize].fetch_sub(1, Ordering::AcqRel) > 1 {
                continue;
            }
            let rank = self.rank[next as usize];
            let (keep, give) = (own.min(rank), own.max(rank));
            own = keep;
            if give != NONE {
                heap.get_or_insert_with(|| self.heap()).push(Reverse(give));
                others = true;
            }
        }
        // What others left may be more urgent still.
        let mut waiting = 0;
        if heap.is_some() || self.best.load(Ordering::SeqCst) < own {
            let mut heap = heap.unwrap_or_else(|| self.heap());
            if let Some(best) = heap.peek_mut().filter(|best| best.0 < own) {
                let mut best = best;
                let taken = best.0;
                if own == NONE {
                    std::collections::binary_heap::PeekMut::pop(best);
                } else {
                    *best = Reverse(own);
                    others = true;
                }
                own = taken;
            }
            self.best.store(lowest(&heap), Ordering::SeqCst);
            waiting = if others { heap.len() } else { 0 };
        }
        ((own != NONE).then(|| self.step[own as usize]), waiting)
    }
}

fn lowest(ready: &BinaryHeap<Reverse<u32>>) -> u32 {
    ready.peek().map_or(NONE, |rank| rank.0)
}

impl Job for Running<'_> {
    fn help(&self, worker: usize) -> bool {
        let mut next = self.state.take();
        let helped = next.is_some();
        while let Some(step) = next {
            next = self.step(step as usize, worker);
        }
        helped
    }
}

impl Running<'_> {
    /// What the thread does that began the run: helps until all is done.
    fn lead(&self) {
        loop {
            let seen = self.pool.news();
            if self.state.is_over() {
                return;
            }
            if !self.help(0) && !self.pool.help_parts(0) && !self.state.is_over() {
                self.pool.wait(seen);
            }
        }
    }

    /// Does a step; the one to go on with.
    fn step(&self, n: usize, worker: usize) -> Option<u32> {
        let step = &self.steps.all[n];
        let start = self.start.elapsed().as_secs_f64();
        let caught = catch_unwind(AssertUnwindSafe(|| self.does(step, worker)));
        let result = caught.unwrap_or_else(|panic| Err(panic_cause(&*panic)));
        let end = self.start.elapsed().as_secs_f64();
        self.state.marks[n][0].store(start.to_bits(), Ordering::Relaxed);
        self.state.marks[n][1].store(end.to_bits(), Ordering::Relaxed);
        if let Err(cause) = result {
            self.fail(Failure { task: step.task, cause });
            return None;
        }
        let (next, waiting) = self.state.done(self.steps.then(step));
        if self.state.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Who began the run may be asleep, and not alone.
            self.pool.tell(usize::MAX);
        } else if waiting > 0 {
            self.pool.tell(waiting);
        }
        if self.state.stopped.load(Ordering::Relaxed) { None } else { next }
    }

    fn fail(&self, failure: Failure) {
        let mut first = self.state.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| failure.rank() < first.rank()) {
            *first = Some(failure);
        }
        drop(first);
        self.state.stopped.store(true, Ordering::SeqCst);
        self.pool.tell(usize::MAX);
    }

    /// Bytes to be read.
    ///
    /// # Safety
    ///
    /// As [`Lent::read`].
    unsafe fn read<'b>(&self, place: Place) -> &'b [u8] {
        // SAFETY: the caller's promise.
        unsafe { self.lent[place.device].read(place.span) }
    }

    /// Bytes to be written.
    ///
    /// # Safety
    ///
    /// As [`Lent::write`].
    unsafe fn write<'b>(&self, place: Place) -> &'b mut [u8] {
        // SAFETY: the caller's promise.
        unsafe { self.lent[place.device].write(place.span) }
    }

    fn does(&self, step: &Step, worker: usize) -> Result<(), Cause> {
        let reads = self.steps.reads(step);
        // SAFETY of all that is borrowed here, until this returns: the arenas are used by this run alone, and what the caller
        // lends is borrowed by it and not written. `verify` has
        // shown that a slot is written only after every reader of what was there before, and read only after it was
        // written, by the waits of the graph; every wait of the graph is a wait of the steps, and a step runs when all
        // that it waits for have returned. So of two steps that run at once none writes what the other reads or
        // writes, but for what is received into the memory of one paste: that is written by one at a time, and
        // read when all of it is there. Parameters, which devices may have in common, no step writes. The step's own slot is none that it reads: they are compared below.
        match &step.does {
            Does::Compute(prepared) => {
                if let Some(read) = reads.iter().find(|read| read.overlaps(step.own)) {
                    let (at, read) = (step.own.span.offset, read.span.offset);
                    let reason = format!("the result at byte {at} overlaps the value it reads at byte {read}");
                    return Err(Cause::Malformed { reason });
                }
                let mut room = self.reads[worker].lock().unwrap_or_else(PoisonError::into_inner);
                let mut values = emptied(std::mem::take(&mut *room));
                // SAFETY: see above.
                values.extend(reads.iter().map(|&read| unsafe { self.read(read) }));
                // SAFETY: see above.
                let result = unsafe { self.write(step.own) };
                let team = Team::of(self.pool, worker);
                let result = prepared.run(self.graph, result, &values, team);
                *room = emptied(values);
                result
            }
            Does::Borrow => Ok(()),
            Does::Feed { external, copy } => {
                // State that is not given again is where it was left.
                let Some(dense) = self.inputs.get(&self.graph.externals[*external].name) else { return Ok(()) };
                // SAFETY: see above.
                copy.run(bytes_of(dense), unsafe { self.write(step.own) });
                Ok(())
            }
            Does::Move { copy, paste, .. } => {
                let _alone = paste.map(|paste| self.pastes[paste].lock().unwrap_or_else(PoisonError::into_inner));
                // SAFETY: see above; the two arenas are different memory.
                let (target, source) = unsafe { (self.write(step.own), self.read(reads[0])) };
                if let Some(copy) = copy {
                    copy.run(source, target);
                    return Ok(());
                }
                Team::of(self.pool, worker).chunks(target, COPIED_BY_ONE, &|n, part| {
                    part.copy_from_slice(&source[n * COPIED_BY_ONE..][..part.len()]);
                });
                Ok(())
            }
            Does::Output { output, copy } => {
                let mut out = self.outputs[*output].lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: see above.
                copy.run(unsafe { self.read(reads[0]) }, bytes_of_mut(&mut out));
                Ok(())
            }
        }
    }
}

/// A list without its elements, for elements that live shorter or longer, in the same memory.
fn emptied<'b>(mut list: Vec<&[u8]>) -> Vec<&'b [u8]> {
    list.clear();
    list.into_iter().map(|_| unreachable!("it is empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptied_lists_keep_their_memory() {
        let list: Vec<&[u8]> = Vec::with_capacity(9);
        let address = list.as_ptr().cast::<u8>();
        let again = emptied(list);
        assert_eq!((again.as_ptr().cast::<u8>(), again.capacity()), (address, 9));
    }
}
