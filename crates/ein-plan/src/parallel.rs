//! Work that threads share, with results that do not depend on how many there are.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// The most threads.
const THREADS: usize = 8;

/// Batches that each thread takes, if all take equally long.
const BATCHES: usize = 8;

/// What `of` makes of every item, in order. From `many` items on threads share them, each taking the next few when it is done.
pub(crate) fn shared<T: Sync, R: Send>(items: &[T], many: usize, of: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = if items.len() < many { 1 } else { threads() };
    shared_by(threads, items, &of)
}

/// How many threads share what is much. The system is asked once, for that reads files.
pub(crate) fn threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| available_parallelism().map_or(1, usize::from).min(THREADS))
}

fn shared_by<T: Sync, R: Send>(threads: usize, items: &[T], of: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    if threads < 2 || items.len() < 2 {
        return items.iter().map(of).collect();
    }
    let batch = (items.len() / (threads * BATCHES)).max(1);
    let batches: Vec<&[T]> = items.chunks(batch).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(at) else { return done };
            done.push((at, batch.iter().map(of).collect::<Vec<R>>()));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().flat_map(|(_, batch)| batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whoever_made_them() {
        for count in [0, 1, 2, 7, 100, 1001] {
            let items: Vec<usize> = (0..count).collect();
            let expected: Vec<usize> = items.iter().map(|n| n * n + 1).collect();
            for threads in [0, 1, 2, 3, 8] {
                assert_eq!(shared_by(threads, &items, &|n| n * n + 1), expected, "{count} items, {threads} threads");
            }
            assert_eq!(shared(&items, 2, |n| n * n + 1), expected);
        }
    }
}
