//! What a kept plan depends on besides its question: the sources of the planner, as one number.
//!
//! A version in a manifest changes with releases; a planner changes with every commit, and must not answer with what an
//! older one found.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    let crates = ["../ein-ir/src", "../ein-task/src", "src"];
    let mut files: Vec<PathBuf> = vec!["build.rs".into()];
    for folder in crates {
        println!("cargo::rerun-if-changed={folder}");
        sources(Path::new(folder), &mut files);
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        // A file that cannot be read will not compile either.
        hasher.write(&fs::read(&file).unwrap_or_default());
        hasher.write_u8(0xff);
    }
    println!("cargo::rustc-env=EIN_PLANNER={:016x}", hasher.finish());
}

/// The Rust files of a folder and those in it. Crates that come from a registry have no neighbours: their versions stand in
/// `Cargo.lock`, and the crate's own sources are here.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}
