//! Kernels that do not end: a thread that waits in a loop for what another thread does waits for ever here, where the
//! threads of a block take turns at barriers alone.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this long a kernel is taken for one that does not end.
const LIMIT: Duration = Duration::from_mins(10);
const TICK: Duration = Duration::from_secs(5);

static RUNNING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<(Instant, String)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A kernel runs as long as this lives. If that is too long, the process is ended, with its name.
pub(super) struct Watch;

impl Watch {
    pub(super) fn new(kernel: &str) -> Self {
        static START: Once = Once::new();
        START.call_once(|| drop(thread::spawn(watch)));
        *running() = Some((Instant::now(), kernel.to_owned()));
        Self
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *running() = None;
    }
}

fn watch() {
    loop {
        thread::sleep(TICK);
        if let Some((since, kernel)) = &*running()
            && since.elapsed() > LIMIT
        {
            eprintln!("the kernel {kernel} has run for {} seconds: it does not end", LIMIT.as_secs());
            std::process::abort();
        }
    }
}
