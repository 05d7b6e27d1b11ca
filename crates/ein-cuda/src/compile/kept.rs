//! Compiled kernels as files of a folder. Each begins with a sum of the rest: what was damaged is as if it were not there.

use ein_run::kept::Folder;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes that the folder holds at most.
const MOST_BYTES: u64 = 512 << 20;
/// How compiled kernels end.
const CUBIN: &str = "cubin";
/// Bytes of the sum that a file begins with.
const SUM: usize = 16;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub(super) struct Kept(Folder);

/// The name of what these compile to. Everything that the result depends on is in it.
pub(super) fn key(source: &str, version: (i32, i32), options: &[String]) -> String {
    let text = format!("{}.{}\n{}\n{source}", version.0, version.1, options.join("\n"));
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

impl Kept {
    /// The folder of this user; `None` where no place is known.
    pub(super) fn of_user() -> Option<Self> {
        Folder::of_user("kernels").map(|path| Self(Folder::new(path, CUBIN, MOST_BYTES, usize::MAX)))
    }

    /// What was kept, if it is as it was written.
    pub(super) fn load(&self, key: &str) -> Option<Vec<u8>> {
        let mut bytes = self.0.load(key)?;
        let (sum, rest) = bytes.split_first_chunk::<SUM>()?;
        if u128::from_le_bytes(*sum) != xxh3_128(rest) {
            return None;
        }
        bytes.drain(..SUM);
        Some(bytes)
    }

    /// Keeps it, if that is possible: what is not kept is compiled again.
    pub(super) fn keep(&self, key: &str, bytes: &[u8]) {
        self.0.keep(key, &[&xxh3_128(bytes).to_le_bytes()[..], bytes].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> Kept {
        let folder = std::env::temp_dir().join(format!("ein-kept-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Kept(Folder::new(folder, CUBIN, MOST_BYTES, usize::MAX))
    }

    #[test]
    fn what_is_kept_is_found_and_what_is_damaged_is_not() {
        let kept = folder("damage");
        assert_eq!(kept.load("a"), None);
        kept.keep("a", b"code");
        kept.keep("empty", b"");
        assert_eq!(kept.load("a").as_deref(), Some(&b"code"[..]));
        assert_eq!(kept.load("empty").as_deref(), Some(&b""[..]));
        let whole = fs::read(kept.0.file("a")).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(kept.0.file("a"), &damaged).unwrap();
            assert_eq!(kept.load("a"), None, "byte {at} is another");
            fs::write(kept.0.file("a"), &whole[..at]).unwrap();
            assert_eq!(kept.load("a"), None, "only {at} bytes are left");
        }
        fs::remove_dir_all(kept.0.path()).unwrap();
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
