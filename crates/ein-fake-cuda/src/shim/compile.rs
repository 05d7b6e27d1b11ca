//! From texts to libraries, with the host's `g++`; kept on disk under the hash of all that goes in.

use super::library_ffi::{Library, Runtime};
use super::{HEADER, scan};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

const RUNTIME: &str = concat!(
    include_str!("runtime.cpp"),
    include_str!("primitives.cpp"),
    include_str!("bulk.cpp"),
    include_str!("accesses.cpp")
);

/// After this long a library is compiled anew.
const OLD: Duration = Duration::from_hours(14 * 24);

/// Whether kernels tell of their accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrument {
    /// No: they run at full speed.
    Nothing,
    /// Every read and write calls a hook.
    Accesses,
}

/// The library for a text.
pub(super) fn module(source: &str, instrument: Instrument) -> Result<PathBuf, String> {
    let dynamic = super::SHARED + 4096;
    let text = format!(
        "#line 1 \"shim.h\"\n{HEADER}\n\
         extern \"C\" {{ __attribute__((aligned(1024), visibility(\"hidden\"))) unsigned char ein_shim_dynamic[{dynamic}]; }}\n\
         #line 1 \"kernels.cu\"\n{}",
        scan::prepared(source)
    );
    let mut flags = vec!["-std=c++17", "-O1", "-w", "-fno-gnu-unique", "-fvisibility=hidden", "-fno-strict-aliasing"];
    flags.extend(["-fwrapv", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-fno-math-errno"]);
    flags.extend(["-fno-tree-loop-distribute-patterns", "-fstack-clash-protection", "-fno-asynchronous-unwind-tables"]);
    flags.extend(["-fno-stack-protector", "-nostartfiles", "-Wl,-z,start-stop-visibility=hidden"]);
    if fused() {
        flags.push("-mfma");
    }
    if instrument == Instrument::Accesses {
        // Only compiled so: the hooks are the runtime's own, not those of the library that g++ would link.
        flags.extend([
            "-Xassembler",
            "--noexecstack",
            "-fsanitize=thread",
            "--param",
            "tsan-instrument-func-entry-exit=0",
            "--param",
            "tsan-distinguish-volatile=1",
        ]);
    }
    built("kernels", &text, &flags)
}

/// The runtime, which is loaded once.
pub(super) fn runtime() -> Result<&'static Runtime, String> {
    static RUNTIME_LIBRARY: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let loaded = RUNTIME_LIBRARY.get_or_init(|| {
        let flags = ["-std=c++17", "-O2", "-w", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"];
        Runtime::new(Library::open(&built("runtime", RUNTIME, &flags)?, true)?)
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// Whether this processor multiplies and adds in one instruction; it is a call into the library of C otherwise.
fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// A library of a text, unless it is there already.
pub(crate) fn built(what: &str, text: &str, flags: &[&str]) -> Result<PathBuf, String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = folder()?;
    let key = xxh3_128(format!("{}\n{}\n{text}", compiler(), flags.join("\n")).as_bytes());
    let library = folder.join(format!("{what}-{key:032x}.so"));
    if library.exists() {
        return Ok(library);
    }
    // Others may do the same at this moment: each under a name of its own, and the last rename stays.
    let unique = format!("{what}-{key:032x}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let input = folder.join(format!("{unique}.cpp"));
    let output = folder.join(format!("{unique}.tmp"));
    let io = |what: &str, path: &Path, e: &std::io::Error| format!("{what} {}: {e}", path.display());
    fs::write(&input, text).map_err(|e| io("cannot write", &input, &e))?;
    let mut command = Command::new(compiler());
    command.args(flags).args(["-fPIC", "-shared", "-x", "c++"]).arg(&input).arg("-o").arg(&output);
    if flags.contains(&"-fsanitize=thread") {
        // Linked apart, without the flag that would bring the other library of hooks.
        let object = folder.join(format!("{unique}.o"));
        let mut first = Command::new(compiler());
        first.args(flags.iter().filter(|f| !f.starts_with("-Wl") && **f != "-nostartfiles"));
        first.args(["-fPIC", "-c", "-x", "c++"]).arg(&input).arg("-o").arg(&object);
        let done = run(&mut first);
        let _ = fs::remove_file(&input);
        done?;
        let mut second = Command::new(compiler());
        second.args(["-shared", "-nostartfiles", "-Wl,-z,start-stop-visibility=hidden"]);
        second.arg(&object).arg("-lm").arg("-o").arg(&output);
        let done = run(&mut second);
        let _ = fs::remove_file(&object);
        done?;
    } else {
        let done = run(command.arg("-lm"));
        let _ = fs::remove_file(&input);
        done?;
    }
    fs::rename(&output, &library).map_err(|e| io("cannot rename", &output, &e))?;
    Ok(library)
}

fn compiler() -> &'static str {
    "g++"
}

fn run(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("these tests need g++, and it does not run: {e}"))?;
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

/// Where libraries are kept: beside the test's own build outputs, or else with temporary files.
pub(crate) fn folder() -> Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOLDER.get_or_init(make_folder).clone()
}

fn make_folder() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().unwrap_or_default();
    let deps = exe.ancestors().find(|p| p.file_name().is_some_and(|n| n == "deps" || n == "examples"));
    let parent = deps.and_then(Path::parent).map_or_else(std::env::temp_dir, Path::to_path_buf);
    let folder = parent.join("ein-fake-cuda");
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    // What is that old was for texts that have changed since, or is compiled again. Others may have removed it already.
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|m| m.modified());
        if made.is_ok_and(|m| m.elapsed().is_ok_and(|age| age > OLD)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(folder)
}
