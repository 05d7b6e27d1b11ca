//! Threads that are kept, and how they find work: one file with `unsafe` code, because what they work on is borrowed by
//! whoever offers it and threads that are kept outlive every borrow.
//!
//! A [`Job`] is offered for the time of a call: its address stands in a place that all threads look at, a thread counts
//! itself in before it follows the address and out afterwards, and the call ends only when the place is empty and
//! nobody is counted in. Threads that find nothing wait, some microseconds awake and then asleep.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread that finds nothing stays awake. Waking one takes about as long.
const AWAKE: Duration = Duration::from_micros(60);

/// Something that threads can help with.
pub(crate) trait Job: Sync {
    /// Helps as thread `worker` as long as there is something to do; whether there was anything.
    fn help(&self, worker: usize) -> bool;
}

/// Threads: the one that offers, and others that are kept.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What all threads see.
pub(crate) struct Shared {
    /// One for each thread, and one for who offers work to all of them; those come first.
    places: Box<[Place]>,
    /// Grows with everything that a thread could have missed.
    news: AtomicUsize,
    asleep: AtomicUsize,
    /// Threads that have begun: what a thread allocates as it begins is no part of a run.
    begun: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    over: AtomicBool,
}

/// Where a job is offered.
#[derive(Default)]
#[repr(align(128))]
struct Place {
    job: AtomicPtr<&'static dyn Job>,
    helpers: AtomicUsize,
}

impl Pool {
    /// `threads` threads, at least one, of which the first is whoever calls.
    pub(crate) fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            places: (0..=threads).map(|_| Place::default()).collect(),
            news: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            over: AtomicBool::new(false),
        });
        // Where the host starts no more threads, fewer do: which thread does what changes no result.
        let start = |worker: usize| {
            let shared = Arc::clone(&shared);
            let serve = move || {
                shared.begun.fetch_add(1, Ordering::SeqCst);
                shared.serve(worker);
            };
            std::thread::Builder::new().name(format!("ein-{worker}")).spawn(serve).ok()
        };
        let others: Vec<JoinHandle<()>> = (1..threads).map_while(start).collect();
        while shared.begun.load(Ordering::SeqCst) < others.len() {
            std::thread::yield_now();
        }
        Self { shared, threads: others }
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// What all threads see.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.shared.tell(usize::MAX);
        for thread in self.threads.drain(..) {
            // A thread only panics where we did wrong, and then there is nothing left to end.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// How many threads there may be.
    pub(crate) fn threads(&self) -> usize {
        self.places.len() - 1
    }

    /// Calls `body` while `job` is offered to all threads, `others` of which have something to do at once. The place is
    /// free: only the thread that runs a computation offers here.
    pub(crate) fn offer_all<R>(&self, job: &dyn Job, others: usize, body: impl FnOnce() -> R) -> R {
        self.offer(0, job, others, body)
    }

    /// What has been told so far: to be read before looking for work.
    pub(crate) fn news(&self) -> usize {
        self.news.load(Ordering::SeqCst)
    }

    /// Tells that there is something for so many threads, and wakes as many.
    pub(crate) fn tell(&self, threads: usize) {
        self.news.fetch_add(1, Ordering::SeqCst);
        if threads > 0 && self.asleep.load(Ordering::SeqCst) > 0 {
            // Taking the lock orders this after the check of a thread about to sleep.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            if threads == 1 { self.wake.notify_one() } else { self.wake.notify_all() }
        }
    }

    /// Waits until something is told after `seen`.
    pub(crate) fn wait(&self, seen: usize) {
        let begun = Instant::now();
        loop {
            for _ in 0..64 {
                if self.news() != seen {
                    return;
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() > AWAKE {
                break;
            }
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while self.news() == seen {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Helps as thread `worker` with the parts that others have offered; whether there were any.
    pub(crate) fn help_parts(&self, worker: usize) -> bool {
        let others = self.places[1..].iter().enumerate().filter(|(n, _)| *n != worker);
        others.fold(false, |helped, (_, place)| place.help(worker) || helped)
    }

    /// Calls `part(n)` for every `n` of `0..parts`, on this thread and on those that have nothing else to do, and
    /// returns when all have returned. What panics is passed on. `worker` is this thread's number. A call inside a part
    /// is done by its thread alone.
    pub(crate) fn each(&self, worker: usize, parts: usize, part: &(dyn Fn(usize) + Sync)) {
        let place = worker + 1;
        if parts < 2 || self.threads() < 2 || INSIDE.get() {
            (0..parts).for_each(part);
            return;
        }
        let job = Parts { part, count: parts, next: AtomicUsize::new(0), panic: Mutex::new(None) };
        self.offer(place, &job, parts - 1, || job.help(worker));
        let panic = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn offer<R>(&self, place: usize, job: &dyn Job, threads: usize, body: impl FnOnce() -> R) -> R {
        // SAFETY: only the lifetime is changed. The address stands in the place until `Withdraw` is dropped, which
        // returns only when the place is empty and no thread is counted in that could have read it; both before this
        // function returns or unwinds, and `job` is borrowed for longer than that.
        let job: &'static dyn Job = unsafe { std::mem::transmute::<&dyn Job, &'static dyn Job>(job) };
        let place = &self.places[place];
        place.job.store(std::ptr::from_ref(&job).cast_mut(), Ordering::SeqCst);
        let _withdraw = Withdraw(place);
        self.tell(threads);
        body()
    }

    /// What a kept thread does.
    fn serve(&self, worker: usize) {
        loop {
            let seen = self.news();
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            if !self.places[0].help(worker) && !self.help_parts(worker) {
                self.wait(seen);
            }
        }
    }
}

impl Place {
    fn help(&self, worker: usize) -> bool {
        if self.job.load(Ordering::Relaxed).is_null() {
            return false;
        }
        self.helpers.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(&self.helpers);
        let job = self.job.load(Ordering::SeqCst);
        // SAFETY: this thread is counted in since before the address was read, so that who offers the job waits for
        // it: the job and the reference to it that the address is of are still there.
        !job.is_null() && unsafe { &**job }.help(worker)
    }
}

/// A thread that is counted in; out again when it returns or unwinds.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Empties a place, and waits for who is still at it.
struct Withdraw<'a>(&'a Place);

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.0.job.store(std::ptr::null_mut(), Ordering::SeqCst);
        let mut rounds = 0u32;
        while self.0.helpers.load(Ordering::SeqCst) > 0 {
            // They are at their last parts. The processor may be needed for just that.
            rounds += 1;
            if rounds.is_multiple_of(4096) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

thread_local! {
    /// Whether this thread is doing a part.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Parts of a kernel.
struct Parts<'a> {
    part: &'a (dyn Fn(usize) + Sync),
    count: usize,
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job for Parts<'_> {
    fn help(&self, _: usize) -> bool {
        let mut helped = false;
        while self.next.load(Ordering::Relaxed) < self.count {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= self.count {
                break;
            }
            helped = true;
            // What is offered inside a part is done by its thread: its place may still be looked at by those who helped.
            INSIDE.set(true);
            let result = catch_unwind(AssertUnwindSafe(|| (self.part)(n)));
            INSIDE.set(false);
            if let Err(panic) = result {
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
        }
        helped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once_on_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let pool = Pool::new(threads);
            for parts in [0, 1, 2, 5, 64, 1000] {
                for _ in 0..20 {
                    let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                    pool.shared().each(0, parts, &|n| {
                        done[n].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 1), "{threads} threads, {parts} parts");
                }
            }
        }
    }

    #[test]
    fn parts_inside_parts_are_done_by_their_thread() {
        let pool = Pool::new(3);
        // Often: the last part of a helper may begin when its owner has done all of its own.
        for _ in 0..2000 {
            let sum = AtomicUsize::new(0);
            pool.shared().each(0, 10, &|n| {
                pool.shared().each(0, 10, &|m| {
                    sum.fetch_add(10 * n + m, Ordering::Relaxed);
                });
            });
            assert_eq!(sum.into_inner(), (0..100).sum::<usize>());
        }
    }

    #[test]
    fn a_panic_of_a_part_is_the_callers_and_the_pool_goes_on() {
        let pool = Pool::new(2);
        for bad in [0, 3, 7] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.shared().each(0, 8, &|n| assert_ne!(n, bad, "part {n}"));
            }));
            let panic = caught.expect_err("one part panics");
            assert!(panic.downcast_ref::<String>().expect("a message").contains(&format!("part {bad}")));
        }
        let count = AtomicUsize::new(0);
        pool.shared().each(0, 8, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 8);
    }

    #[test]
    fn others_help_while_a_job_is_offered() {
        struct Counted(AtomicUsize, AtomicUsize);
        impl Job for Counted {
            fn help(&self, worker: usize) -> bool {
                let taken = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                self.1.fetch_add(usize::from(taken && worker > 0), Ordering::SeqCst);
                taken
            }
        }
        let pool = Pool::new(2);
        for _ in 0..50 {
            let job = Counted(AtomicUsize::new(100), AtomicUsize::new(0));
            pool.shared().offer_all(&job, 0, || {
                pool.shared().tell(1);
                // The one that offers does nothing: the other does it all.
                while job.1.load(Ordering::SeqCst) < 100 {
                    std::thread::yield_now();
                }
            });
            assert_eq!(job.1.into_inner(), 100);
        }
    }

    #[test]
    fn who_sleeps_is_woken() {
        let pool = Pool::new(2);
        for _ in 0..5 {
            std::thread::sleep(20 * AWAKE);
            let (a, b) = (AtomicBool::new(false), AtomicBool::new(false));
            // Each part waits for the other: one thread alone would wait for ever.
            pool.shared().each(0, 2, &|n| {
                let (own, other) = if n == 0 { (&a, &b) } else { (&b, &a) };
                own.store(true, Ordering::SeqCst);
                while !other.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            });
        }
    }
}
