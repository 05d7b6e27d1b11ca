//! Kept plans as files of a folder: the store of [`ein_plan::cache`].
//!
//! A file is written beside its place under a name of its own and renamed, so that other processes see all of it or
//! none; what is half written by one that died is removed later. The folder holds a limited number of bytes: what was used
//! longest ago goes first.

use ein_plan::cache::Store;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Bytes that the folder holds at most.
const MOST_BYTES: u64 = 256 << 20;
/// Files that it holds at most.
const MOST_FILES: usize = 1024;
/// After this long nobody is writing a part any more.
const STALE: Duration = Duration::from_hours(1);

/// How kept plans end, and what is being written.
const PLAN: &str = "plan";
const PART: &str = "part";

/// A folder of kept plans.
#[derive(Clone, Debug)]
pub struct PlanStore {
    folder: PathBuf,
    most_bytes: u64,
    most_files: usize,
}

impl PlanStore {
    /// A store in this folder, which is made when the first plan is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), most_bytes: MOST_BYTES, most_files: MOST_FILES }
    }

    /// The store of this user: `plans` in `EIN_CACHE_DIR`, else `einsummable/plans` in `XDG_CACHE_HOME` or in `.cache` at
    /// home. `None` where no such place is known.
    pub fn of_user() -> Option<Self> {
        let of = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = of("EIN_CACHE_DIR").or_else(|| {
            // A relative XDG_CACHE_HOME is to be ignored, says its specification.
            let xdg = of("XDG_CACHE_HOME").filter(|p| p.is_absolute());
            Some(xdg.or_else(|| Some(std::env::home_dir()?.join(".cache")))?.join("einsummable"))
        })?;
        Some(Self::new(folder.join("plans")))
    }

    /// The store with other limits.
    pub fn with_limits(self, most_bytes: u64, most_files: usize) -> Self {
        Self { most_bytes, most_files, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(key).with_extension(PLAN)
    }

    /// Removes what was used longest ago until the rest is within the limits, and parts that nobody writes.
    fn tidy(&self) {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(facts) = entry.metadata() else { continue };
            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(OsStr::to_str) {
                Some(PLAN) => files.push((used, path, facts.len())),
                Some(PART) if used.elapsed().is_ok_and(|age| age > STALE) => drop(fs::remove_file(path)),
                _ => {}
            }
        }
        files.sort();
        let (mut bytes, mut count) = (files.iter().map(|f| f.2).sum::<u64>(), files.len());
        for (_, path, own) in files {
            if bytes <= self.most_bytes && count <= self.most_files {
                break;
            }
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
            bytes -= own;
            count -= 1;
        }
    }
}

impl Store for PlanStore {
    fn load(&self, key: &str) -> Option<String> {
        let path = self.file(key);
        let text = fs::read_to_string(&path).ok()?;
        // It was used now. Where that cannot be noted, it goes earlier.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(text)
    }

    fn keep(&self, key: &str, text: &str) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if text.len() as u64 > self.most_bytes / 4 || fs::create_dir_all(&self.folder).is_err() {
            return;
        }
        let own = format!("{key}.{}.{}.{PART}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let part = self.folder.join(own);
        if fs::write(&part, text).and_then(|()| fs::rename(&part, self.file(key))).is_err() {
            let _ = fs::remove_file(&part);
        }
        self.tidy();
    }
}
