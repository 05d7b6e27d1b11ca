//! Where results go: standard output and files.

use crate::failure::Failure;
use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Prints to standard output. A reader that has seen enough, such as `head`, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::run(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}

/// Refuses, before the work that makes its content, a file that cannot be written.
pub fn writable(path: Option<&PathBuf>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let refused = |reason: String| Failure::request(format!("{} cannot be written: {reason}", path.display()));
    if path.is_dir() {
        return Err(refused("it is a folder; give the name of a file".into()));
    }
    if in_place(path) {
        return Ok(());
    }
    let part = part(path);
    std::fs::write(&part, "").map_err(|e| refused(e.to_string()))?;
    std::fs::remove_file(&part).map_err(|e| refused(e.to_string()))
}

/// Writes a file whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::run(format!("{} cannot be written: {e}", path.display()));
    if in_place(path) {
        return std::fs::write(path, text).map_err(failed);
    }
    let part = part(path);
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
    written.map_err(|e| {
        let _ = std::fs::remove_file(&part);
        failed(e)
    })
}

/// A device or a pipe, such as /dev/stdout, is written to; putting a file in its place would destroy it.
fn in_place(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| !m.is_file())
}

fn part(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(".part");
    name.into()
}
