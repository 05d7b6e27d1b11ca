//! From CUDA C++ to machine code, by NVIDIA's run-time compiler (NVRTC), once: what was compiled is kept on disk.
//!
//! The compiler is loaded when it is first asked, from where `EIN_NVRTC` says, from where the system has it, or out of a
//! Python package. It needs neither a GPU nor a driver nor header files.

mod kept;
mod nvrtc;

use kept::Kept;
use nvrtc::Nvrtc;
pub(crate) use nvrtc::folders;
use std::fmt;
use std::sync::OnceLock;

/// An architecture to compile for: `sm_80`, `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    /// Compute capability times ten: 80, 90, 100.
    pub capability: u32,
    /// Whether instructions that only this architecture has may be used (`a`), such as `wgmma` of `sm_90a`.
    pub only: bool,
}

impl Arch {
    /// Where kernels are compiled for a device of this compute capability, times ten. From 9.0 on with its own
    /// instructions: what is compiled is for the device that is there.
    pub fn of(capability: u32) -> Self {
        Self { capability, only: capability >= 90 }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.capability, if self.only { "a" } else { "" })
    }
}

/// What the compiler gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Machine code, as the driver loads it (a cubin).
    pub bytes: Vec<u8>,
    /// What the compiler says: warnings, and the resources of every kernel if these were asked for. Empty where the
    /// image was kept.
    pub log: String,
}

/// Why nothing was compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The compiler's library is nowhere.
    #[error(
        "NVIDIA's run-time compiler libnvrtc was not found ({}). Install a CUDA toolkit of version 12 or 13 or the \
         Python package nvidia-cuda-nvrtc, or set EIN_NVRTC to the folder of libnvrtc.so.13",
        .looked.join("; ")
    )]
    Missing {
        /// Where it was looked for and what stood in the way.
        looked: Vec<String>,
    },
    /// The library found is too old.
    #[error("`{path}` is NVRTC {}.{}; kernels need 12.0 or later", .version.0, .version.1)]
    Old {
        /// The library.
        path: String,
        /// Its version.
        version: (i32, i32),
    },
    /// The program is not accepted: a fault of what generates it, or an architecture that the compiler does not know.
    #[error("NVRTC {}.{} does not compile for {arch} ({reason}): {log}", .version.0, .version.1)]
    Refused {
        /// Compiled for.
        arch: Arch,
        /// The compiler's version.
        version: (i32, i32),
        /// The compiler's code.
        reason: String,
        /// What it says of the program.
        log: String,
    },
    /// The compiler itself fails.
    #[error("{function} of NVRTC fails: {reason}")]
    Call {
        /// What was called.
        function: &'static str,
        /// The compiler's code.
        reason: String,
    },
}

/// What is told the compiler besides the architecture. Products and sums are not contracted: where a fused
/// multiply-add is meant, the kernels say so, and everything else is as on the CPU.
const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--extra-device-vectorization"];
/// Kernels of a unit are compiled side by side, by as many threads as there are processors; known from this version on.
const SIDE_BY_SIDE: (&str, (i32, i32)) = ("--split-compile=0", (12, 8));

/// Compiles a translation unit, or takes what was compiled before from the user's cache (`kernels` in
/// `EIN_CACHE_DIR`, else `einsummable/kernels` in `XDG_CACHE_HOME` or in `.cache` at home).
///
/// What is kept is found by source, architecture, the compiler's version and the options; what is not as it was
/// written is compiled again.
pub fn compile(source: &str, arch: Arch) -> Result<Image, CompileError> {
    with(Kept::of_user().as_ref(), source, arch, &[])
}

/// As [`compile`], with more options (`--ptxas-options=-v` has the log say what every kernel needs), and always anew.
pub fn compile_anew(source: &str, arch: Arch, options: &[&str]) -> Result<Image, CompileError> {
    with(None, source, arch, options)
}

/// The version of the compiler and the path of its library, if there is one.
pub fn version() -> Result<((i32, i32), String), CompileError> {
    let nvrtc = library()?;
    Ok((nvrtc.version(), nvrtc.path().to_owned()))
}

fn with(kept: Option<&Kept>, source: &str, arch: Arch, more: &[&str]) -> Result<Image, CompileError> {
    let nvrtc = library()?;
    let mut options = vec![format!("--gpu-architecture={arch}")];
    options.extend(OPTIONS.iter().chain(more).map(|&o| o.to_owned()));
    if nvrtc.version() >= SIDE_BY_SIDE.1 {
        options.push(SIDE_BY_SIDE.0.to_owned());
    }
    let key = kept::key(source, nvrtc.version(), &options);
    if let Some(bytes) = kept.and_then(|kept| kept.load(&key)) {
        return Ok(Image { bytes, log: String::new() });
    }
    let image = nvrtc.compile(source, arch, &options)?;
    if let Some(kept) = kept {
        kept.keep(&key, &image.bytes);
    }
    Ok(image)
}

/// The library, looked for once.
fn library() -> Result<&'static Nvrtc, CompileError> {
    static LIBRARY: OnceLock<Result<Nvrtc, CompileError>> = OnceLock::new();
    LIBRARY.get_or_init(Nvrtc::find).as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is no compiler, the error says what to install; where there is one, it compiles.
    #[test]
    fn a_kernel_is_compiled_or_it_is_said_what_is_missing() {
        let source = "extern \"C\" __global__ void one(unsigned char* out) { ((int*)out)[threadIdx.x] = 1; }";
        match compile_anew(source, Arch::of(80), &[]) {
            Ok(image) => assert_eq!(&image.bytes[..4], b"\x7fELF"),
            Err(CompileError::Missing { looked }) => {
                let said = CompileError::Missing { looked }.to_string();
                assert!(said.contains("EIN_NVRTC") && said.contains("libnvrtc.so.13"), "{said}");
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn architectures_have_their_own_instructions_from_hopper_on() {
        assert_eq!([80, 89, 90, 100].map(|c| Arch::of(c).to_string()), ["sm_80", "sm_89", "sm_90a", "sm_100a"]);
    }

    #[test]
    fn a_program_with_a_fault_is_refused_with_its_line() {
        let Err(error) = compile_anew("extern \"C\" __global__ void one() { nothing(); }", Arch::of(80), &[]) else {
            panic!("it is no program")
        };
        match error {
            CompileError::Refused { log, .. } => assert!(log.contains("nothing"), "{log}"),
            CompileError::Missing { .. } => {}
            other => panic!("{other}"),
        }
    }
}
