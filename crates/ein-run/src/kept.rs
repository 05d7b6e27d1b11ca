//! What is kept from one process to the next: files of a folder in the user's cache.
//!
//! A file is written beside its place under a name of its own and renamed, so that other processes see all of it or none;
//! what is half written by one that died is removed later. The folder holds a limited number of bytes and files: what was
//! used longest ago goes first.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// After this long nobody is writing a part any more.
const STALE: Duration = Duration::from_hours(1);
/// How what is being written ends.
const PART: &str = "part";

/// A folder of files of one kind.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// How its files end.
    ending: &'static str,
    most_bytes: u64,
    most_files: usize,
}

impl Folder {
    /// A folder, made when the first file is kept, whose files end so, with at most so many bytes and files in all.
    pub fn new(path: impl Into<PathBuf>, ending: &'static str, most_bytes: u64, most_files: usize) -> Self {
        Self { path: path.into(), ending, most_bytes, most_files }
    }

    /// The place of this user for things of some name: in `EIN_CACHE_DIR`, else in `einsummable` of `XDG_CACHE_HOME` or of
    /// `.cache` at home. `None` where no such place is known.
    pub fn of_user(name: &str) -> Option<PathBuf> {
        let of = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = of("EIN_CACHE_DIR").or_else(|| {
            // A relative XDG_CACHE_HOME is to be ignored, says its specification.
            let xdg = of("XDG_CACHE_HOME").filter(|p| p.is_absolute());
            Some(xdg.or_else(|| Some(std::env::home_dir()?.join(".cache")))?.join("einsummable"))
        })?;
        Some(folder.join(name))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Most bytes that it holds.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// The file of a key.
    pub fn file(&self, key: &str) -> PathBuf {
        self.path.join(key).with_extension(self.ending)
    }

    /// What was kept under a key.
    pub fn load(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.file(key);
        let bytes = fs::read(&path).ok()?;
        // It was used now. Where that cannot be noted, it goes earlier.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Keeps something, if that is possible: what is not kept is made again.
    pub fn keep(&self, key: &str, bytes: &[u8]) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if fs::create_dir_all(&self.path).is_err() {
            return;
        }
        let own = format!("{key}.{}.{}.{PART}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let part = self.path.join(own);
        if fs::write(&part, bytes).and_then(|()| fs::rename(&part, self.file(key))).is_err() {
            let _ = fs::remove_file(&part);
        }
        self.tidy();
    }

    /// Removes what was used longest ago until the rest is within the limits, and parts that nobody writes.
    fn tidy(&self) {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(facts) = entry.metadata() else { continue };
            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(OsStr::to_str) {
                Some(ending) if ending == self.ending => files.push((used, path, facts.len())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        for (most_bytes, most_files) in [(30, 9), (1000, 3)] {
            let path = std::env::temp_dir().join(format!("ein-kept-{}-{most_files}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            let folder = Folder::new(&path, "thing", most_bytes, most_files);
            assert_eq!(folder.load("a"), None);
            for (n, key) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
                folder.keep(key, &[7; 10]);
                let at = SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64 + 1);
                File::options().append(true).open(folder.file(key)).unwrap().set_modified(at).unwrap();
            }
            fs::write(path.join("x.part"), "half").unwrap();
            let old = SystemTime::now() - 2 * STALE;
            File::options().append(true).open(path.join("x.part")).unwrap().set_modified(old).unwrap();
            fs::write(path.join("y.part"), "half").unwrap();
            folder.tidy();
            let left = ["a", "b", "c", "d", "e"].map(|key| folder.load(key) == Some(vec![7; 10]));
            assert_eq!(left, [false, false, true, true, true], "{most_bytes} {most_files}");
            assert_eq!(["x.part", "y.part"].map(|name| path.join(name).exists()), [false, true]);
            fs::remove_dir_all(&path).unwrap();
        }
    }
}
