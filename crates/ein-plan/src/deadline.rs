//! When a search is to stop, if its caller asks for that: the one clock that this crate looks at.

use std::time::{Duration, Instant};

/// The time after which a search ends with the best that it has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// So much time from now; never, without a limit. A limit beyond what clocks count is none.
    pub fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Whether it is time to stop.
    pub fn is_over(self) -> bool {
        let Some(at) = self.0 else { return false };
        #[cfg(test)]
        if tests::looks_are_over() {
            return true;
        }
        Instant::now() >= at
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Lets deadlines of this thread pass after so many looks at the clock, so that a search can be ended anywhere.
    pub(crate) fn pass_after(looks: Option<usize>) {
        LOOKS.set(looks);
    }

    pub(super) fn looks_are_over() -> bool {
        let left = LOOKS.get();
        LOOKS.set(left.map(|n| n.saturating_sub(1)));
        left == Some(0)
    }
}
