//! The compiler's library: found, loaded and called.
//!
//! It is loaded by path rather than by the binding that the driver has, which takes the first library of some name that
//! the loader knows (which may be another version than the one that was asked for) and panics where there is none.
#![allow(unsafe_code)]

use super::{Arch, CompileError, Image};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Names that the library has, in the order in which they are tried.
const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];
/// `NVRTC_ERROR_COMPILATION` and `NVRTC_ERROR_INVALID_OPTION`: the program or the architecture is at fault.
const REFUSALS: [c_int; 2] = [6, 5];

type Program = *mut c_void;

/// The functions that are used, as `nvrtc.h` declares them. Results are integers here: a later version may give codes
/// that this one does not know.
pub(super) struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    version: (i32, i32),
    path: String,
}

impl Nvrtc {
    /// The library, from the first place that has one.
    pub(super) fn find() -> Result<Self, CompileError> {
        let mut looked = Vec::new();
        let asked = std::env::var_os("EIN_NVRTC").filter(|v| !v.is_empty()).map(PathBuf::from);
        let places = match &asked {
            // What was asked for is taken, or nothing.
            Some(path) if path.is_file() => vec![path.clone()],
            Some(folder) => NAMES.iter().map(|n| folder.join(n)).collect(),
            None => {
                let by_name = NAMES.iter().map(PathBuf::from);
                by_name.chain(folders().iter().flat_map(|f| NAMES.map(|n| f.join(n)))).collect()
            }
        };
        for path in places {
            let by_path = path.parent().is_some_and(|p| p != Path::new(""));
            if by_path && !path.is_file() {
                if asked.is_some() {
                    looked.push(format!("there is no {}", path.display()));
                }
                continue;
            }
            match Self::load(&path, by_path) {
                Ok(nvrtc) if nvrtc.version.0 < 12 => {
                    return Err(CompileError::Old { path: nvrtc.path, version: nvrtc.version });
                }
                Ok(nvrtc) => return Ok(nvrtc),
                Err(reason) => looked.push(reason),
            }
        }
        Err(CompileError::Missing { looked })
    }

    fn load(path: &Path, by_path: bool) -> Result<Self, String> {
        // A package's compiler does not say where its other half lies, so that is loaded first.
        if by_path {
            builtins(path);
        }
        let library = open(path)?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the types are those of nvrtc.h for this name.
                *unsafe { library.get($name) }.map_err(|e| format!("{}: {e}", path.display()))?
            };
        }
        let of: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = symbol!(b"nvrtcVersion\0");
        let mut version = (0, 0);
        // SAFETY: both are places for an integer.
        let code = unsafe { of(&raw mut version.0, &raw mut version.1) };
        if code != 0 {
            return Err(format!("{}: nvrtcVersion fails with {code}", path.display()));
        }
        let nvrtc = Self {
            create: symbol!(b"nvrtcCreateProgram\0"),
            compile: symbol!(b"nvrtcCompileProgram\0"),
            destroy: symbol!(b"nvrtcDestroyProgram\0"),
            log_size: symbol!(b"nvrtcGetProgramLogSize\0"),
            log: symbol!(b"nvrtcGetProgramLog\0"),
            cubin_size: symbol!(b"nvrtcGetCUBINSize\0"),
            cubin: symbol!(b"nvrtcGetCUBIN\0"),
            error: symbol!(b"nvrtcGetErrorString\0"),
            version,
            path: path.display().to_string(),
        };
        // It stays for good: functions of it are kept, and it keeps state of threads.
        std::mem::forget(library);
        Ok(nvrtc)
    }

    pub(super) fn version(&self) -> (i32, i32) {
        self.version
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Compiles a translation unit with these options, among which is the architecture.
    pub(super) fn compile(&self, source: &str, arch: Arch, options: &[String]) -> Result<Image, CompileError> {
        let refused = |reason: String, log: String| CompileError::Refused { arch, version: self.version, reason, log };
        let source = CString::new(source).map_err(|e| refused("a zero byte".into(), e.to_string()))?;
        let options: Vec<CString> = options.iter().filter_map(|o| CString::new(o.as_str()).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: the source ends in a zero byte; there are no headers; `program` is a place for a handle.
        let code = unsafe { (self.create)(&raw mut program, source.as_ptr(), c"rows.cu".as_ptr(), 0, none, none) };
        self.check("nvrtcCreateProgram", code)?;
        let program = Created { nvrtc: self, program };
        // SAFETY: the program lives; `pointers` are as many strings as is said.
        let code = unsafe { (self.compile)(program.program, pointers.len() as c_int, pointers.as_ptr()) };
        let log = program.text("nvrtcGetProgramLog", self.log_size, self.log)?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned();
        if REFUSALS.contains(&code) {
            return Err(refused(self.reason(code), log));
        }
        self.check("nvrtcCompileProgram", code)?;
        let bytes = program.text("nvrtcGetCUBIN", self.cubin_size, self.cubin)?;
        Ok(Image { bytes, log })
    }

    fn check(&self, function: &'static str, code: c_int) -> Result<(), CompileError> {
        if code == 0 { Ok(()) } else { Err(CompileError::Call { function, reason: self.reason(code) }) }
    }

    fn reason(&self, code: c_int) -> String {
        // SAFETY: takes any code; gives a string that stays, or null.
        let text = unsafe { (self.error)(code) };
        if text.is_null() {
            return format!("code {code}");
        }
        // SAFETY: not null, and ends in a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// A program of the library, destroyed at the end.
struct Created<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl Created<'_> {
    /// What one function gives as many bytes of as the other says.
    fn text(
        &self,
        function: &'static str,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, CompileError> {
        let mut bytes = 0;
        // SAFETY: the program lives.
        self.nvrtc.check(function, unsafe { size(self.program, &raw mut bytes) })?;
        let mut text = vec![0u8; bytes];
        if bytes > 0 {
            // SAFETY: the program lives, and there is room for as many bytes as it said.
            self.nvrtc.check(function, unsafe { get(self.program, text.as_mut_ptr().cast()) })?;
        }
        Ok(text)
    }
}

impl Drop for Created<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created and is destroyed once. What it says then changes nothing.
        let _ = unsafe { (self.nvrtc.destroy)(&raw mut self.program) };
    }
}

/// Loads the compiler's other half from beside it, if it is there: version 13.0 does not look there itself.
fn builtins(path: &Path) {
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let mut found: Vec<PathBuf> = beside
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("libnvrtc-builtins.so")))
        .collect();
    found.sort();
    for path in found {
        if let Ok(library) = open(&path) {
            std::mem::forget(library);
        }
    }
}

fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: what these libraries do when they are loaded is to set up their own state.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|e| e.to_string())
}

/// Folders where toolkits and Python packages put it, and the library of products.
pub(crate) fn folders() -> Vec<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut folders = Vec::new();
    for toolkit in [of("CUDA_HOME"), of("CUDA_PATH"), Some("/usr/local/cuda".into())].into_iter().flatten() {
        folders.extend(["lib64", "targets/x86_64-linux/lib", "lib"].map(|f| toolkit.join(f)));
    }
    let home = std::env::home_dir().map(|home| home.join(".local"));
    let roots = [of("VIRTUAL_ENV"), of("CONDA_PREFIX"), home, Some("/usr/local".into()), Some("/usr".into())];
    for root in roots.into_iter().flatten() {
        let mut pythons: Vec<PathBuf> = std::fs::read_dir(root.join("lib"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("python3")))
            .collect();
        pythons.sort();
        for packages in pythons.iter().flat_map(|p| ["site-packages", "dist-packages"].map(|s| p.join(s))) {
            folders.extend(["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cublas/lib"].map(|f| packages.join(f)));
        }
    }
    folders
}
