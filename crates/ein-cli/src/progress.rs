//! A line on standard error while something takes long; nothing when it is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Shows `what` with a running clock until dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Starts.
    pub fn start(what: impl Into<String>) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a valid template"));
        bar.set_message(what.into());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
