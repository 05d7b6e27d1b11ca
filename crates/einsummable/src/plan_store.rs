//! Kept plans as files of a folder: the store of [`ein_plan::cache`].

use ein_plan::cache::Store;
use ein_run::kept::Folder;
use std::path::{Path, PathBuf};

/// Bytes that the folder holds at most.
const MOST_BYTES: u64 = 256 << 20;
/// Files that it holds at most.
const MOST_FILES: usize = 1024;
/// How kept plans end.
const PLAN: &str = "plan";

/// A folder of kept plans.
#[derive(Clone, Debug)]
pub struct PlanStore(Folder);

impl PlanStore {
    /// A store in this folder, which is made when the first plan is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Folder::new(folder, PLAN, MOST_BYTES, MOST_FILES))
    }

    /// The store of this user: `plans` in `EIN_CACHE_DIR`, else `einsummable/plans` in `XDG_CACHE_HOME` or in `.cache` at
    /// home. `None` where no such place is known.
    pub fn of_user() -> Option<Self> {
        Folder::of_user("plans").map(Self::new)
    }

    /// The store with other limits.
    pub fn with_limits(self, most_bytes: u64, most_files: usize) -> Self {
        Self(Folder::new(self.0.path(), PLAN, most_bytes, most_files))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

impl Store for PlanStore {
    fn load(&self, key: &str) -> Option<String> {
        String::from_utf8(self.0.load(key)?).ok()
    }

    fn keep(&self, key: &str, text: &str) {
        // One plan is not to push out most others.
        if text.len() as u64 <= self.0.most_bytes() / 4 {
            self.0.keep(key, text.as_bytes());
        }
    }
}
