//! Compiled kernels as files of a folder.
//!
//! A file is written beside its place under a name of its own and renamed, so that other processes see all of it or
//! none. It begins with a sum of the rest: what was damaged is as if it were not there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_128;

/// Bytes that the folder holds at most; what was used longest ago goes first.
const MOST_BYTES: u64 = 512 << 20;
/// After this long nobody is writing a part any more.
const STALE: Duration = Duration::from_hours(1);
/// How compiled kernels end, and what is being written.
const CUBIN: &str = "cubin";
const PART: &str = "part";
/// Bytes of the sum that a file begins with.
const SUM: usize = 16;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    most_bytes: u64,
}

/// The name of what these compile to. Everything that the result depends on is in it.
pub(super) fn key(source: &str, version: (i32, i32), options: &[String]) -> String {
    let text = format!("{}.{}\n{}\n{source}", version.0, version.1, options.join("\n"));
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

impl Kept {
    /// The folder of this user; `None` where no place is known.
    pub(super) fn of_user() -> Option<Self> {
        let of = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = of("EIN_CACHE_DIR").or_else(|| {
            // A relative XDG_CACHE_HOME is to be ignored, says its specification.
            let xdg = of("XDG_CACHE_HOME").filter(|p| p.is_absolute());
            Some(xdg.or_else(|| Some(std::env::home_dir()?.join(".cache")))?.join("einsummable"))
        })?;
        Some(Self { folder: folder.join("kernels"), most_bytes: MOST_BYTES })
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(key).with_extension(CUBIN)
    }

    /// What was kept, if it is as it was written.
    pub(super) fn load(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.file(key);
        let mut bytes = fs::read(&path).ok()?;
        let (sum, rest) = bytes.split_first_chunk::<SUM>()?;
        if u128::from_le_bytes(*sum) != xxh3_128(rest) {
            return None;
        }
        // It was used now. Where that cannot be noted, it goes earlier.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        bytes.drain(..SUM);
        Some(bytes)
    }

    /// Keeps it, if that is possible: what is not kept is compiled again.
    pub(super) fn keep(&self, key: &str, bytes: &[u8]) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if fs::create_dir_all(&self.folder).is_err() {
            return;
        }
        let own = format!("{key}.{}.{}.{PART}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let part = self.folder.join(own);
        let whole = [&xxh3_128(bytes).to_le_bytes()[..], bytes].concat();
        if fs::write(&part, whole).and_then(|()| fs::rename(&part, self.file(key))).is_err() {
            let _ = fs::remove_file(&part);
        }
        self.tidy();
    }

    /// Removes what was used longest ago until the rest is within the limit, and parts that nobody writes.
    fn tidy(&self) {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(facts) = entry.metadata() else { continue };
            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(OsStr::to_str) {
                Some(CUBIN) => files.push((used, path, facts.len())),
                Some(PART) if used.elapsed().is_ok_and(|age| age > STALE) => drop(fs::remove_file(path)),
                _ => {}
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|f| f.2).sum();
        for (_, path, own) in files {
            if bytes <= self.most_bytes {
                break;
            }
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
            bytes -= own;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, most_bytes: u64) -> Kept {
        let folder = std::env::temp_dir().join(format!("ein-kept-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Kept { folder, most_bytes }
    }

    #[test]
    fn what_is_kept_is_found_and_what_is_damaged_is_not() {
        let kept = folder("damage", MOST_BYTES);
        assert_eq!(kept.load("a"), None);
        kept.keep("a", b"code");
        kept.keep("empty", b"");
        assert_eq!(kept.load("a").as_deref(), Some(&b"code"[..]));
        assert_eq!(kept.load("empty").as_deref(), Some(&b""[..]));
        let whole = fs::read(kept.file("a")).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(kept.file("a"), &damaged).unwrap();
            assert_eq!(kept.load("a"), None, "byte {at} is another");
            fs::write(kept.file("a"), &whole[..at]).unwrap();
            assert_eq!(kept.load("a"), None, "only {at} bytes are left");
        }
        fs::remove_dir_all(&kept.folder).unwrap();
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let kept = folder("limit", 3 * (SUM as u64 + 10));
        for (n, key) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            kept.keep(key, &[0; 10]);
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64 + 1);
            File::options().append(true).open(kept.file(key)).unwrap().set_modified(at).unwrap();
        }
        kept.tidy();
        let left = ["a", "b", "c", "d", "e"].map(|key| kept.load(key).is_some());
        assert_eq!(left, [false, false, true, true, true]);
        fs::remove_dir_all(&kept.folder).unwrap();
    }

    #[test]
    fn everything_that_matters_is_in_the_key() {
        let options = ["--gpu-architecture=sm_80".to_owned()];
        let own = key("x", (13, 0), &options);
        assert_eq!(own, key("x", (13, 0), &options));
        assert_ne!(own, key("y", (13, 0), &options));
        assert_ne!(own, key("x", (13, 1), &options));
        assert_ne!(own, key("x", (13, 0), &["--gpu-architecture=sm_90a".to_owned()]));
    }
}
