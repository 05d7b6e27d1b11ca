//! Loaded libraries and what is called in them.

// The loader's functions and the compiled kernels are C.
#![allow(unsafe_code)]

use super::watch::Watch;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Mutex;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const NOW: c_int = 2;
const GLOBAL: c_int = 0x100;

/// A library that stays loaded.
#[derive(Debug)]
pub(crate) struct Library(*mut c_void);

// SAFETY: the loader's handles may be used by any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a library, whose names others find where `global`.
    pub(crate) fn open(path: &Path, global: bool) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: a C string and flags that the loader knows; what the library runs when loaded is ours.
        let handle = unsafe { dlopen(name.as_ptr(), NOW | if global { GLOBAL } else { 0 }) };
        if handle.is_null() {
            // SAFETY: the loader's message is a C string until this thread's next call.
            let text = unsafe { CStr::from_ptr(dlerror()) };
            return Err(format!("cannot load {}: {}", path.display(), text.to_string_lossy()));
        }
        Ok(Self(handle))
    }

    /// The address of a name.
    pub(crate) fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: a handle that is never closed, and a C string.
        let found = unsafe { dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// A kernel of a module.
    pub(super) fn kernel(&self, name: &str) -> Option<&Kernel> {
        let found = self.symbol(&format!("ein_shim_kernel_{name}"))?;
        // SAFETY: the header defines what has such a name with this layout, constant and as long-lived as the library.
        Some(unsafe { &*found.cast::<Kernel>() })
    }
}

/// `ein_shim_kernel` of the header.
#[repr(C)]
pub(super) struct Kernel {
    entry: unsafe extern "C" fn(*mut *mut c_void),
    shared: [*mut u8; 2],
    common: [*mut u8; 2],
    dynamic: *mut u8,
    count: u32,
    sizes: *const u32,
}

impl Kernel {
    /// Bytes of static shared memory of its own.
    pub(super) fn shared(&self) -> u32 {
        (self.shared[1] as usize - self.shared[0] as usize) as u32
    }

    /// Bytes of each parameter.
    pub(super) fn parameters(&self) -> Vec<u32> {
        // SAFETY: the header defines `sizes` with `count` elements.
        unsafe { std::slice::from_raw_parts(self.sizes, self.count as usize) }.to_vec()
    }
}

/// Bytes of a parameter, which begin at a multiple of what any parameter's do.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Aligned([u8; 128]);

impl Aligned {
    fn of(bytes: &[u8]) -> Vec<Self> {
        let one = |part: &[u8]| {
            let mut own = Self([0; 128]);
            own.0[..part.len()].copy_from_slice(part);
            own
        };
        bytes.chunks(128).map(one).collect()
    }
}

type Launch =
    unsafe extern "C" fn(*const Kernel, *mut *mut c_void, *const u32, *const u32, u32, u64, *mut c_char, u32) -> c_int;

/// Tells what was touched (0 read, 1 written, 2 used by atomics) in ranges from the begin of what is watched, and forgets it.
pub(super) struct Take(unsafe extern "C" fn(c_int, Tell, *mut c_void));

type Tell = unsafe extern "C" fn(*mut c_void, u64, u64);

impl std::fmt::Debug for Take {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Take")
    }
}

impl Take {
    pub(super) fn call(&self, what: i32, mut tell: &mut dyn FnMut(u64, u64)) {
        unsafe extern "C" fn told(context: *mut c_void, first: u64, bytes: u64) {
            // SAFETY: the context is what is handed over below, which lives during the call.
            let tell = unsafe { &mut *context.cast::<&mut dyn FnMut(u64, u64)>() };
            tell(first, bytes);
        }
        // SAFETY: the function has this type in the runtime's text, and calls `told` only before it returns.
        unsafe { (self.0)(what, told, (&raw mut tell).cast()) }
    }
}

/// The shim's own library.
#[derive(Debug)]
pub(crate) struct Runtime {
    launch: Launch,
    /// It has the state of one launch.
    one: Mutex<()>,
    library: Library,
}

impl Runtime {
    pub(super) fn new(library: Library) -> Result<Self, String> {
        let found = library.symbol("ein_shim_launch").ok_or("the shim's library has no launch")?;
        // SAFETY: the function has this type in the runtime's text.
        let launch = unsafe { std::mem::transmute::<*mut c_void, Launch>(found) };
        Ok(Self { launch, one: Mutex::new(()), library })
    }

    /// Has instrumented kernels' accesses to a range of addresses noted.
    pub(super) fn watch(&self, base: u64, bytes: u64) -> Result<Take, String> {
        let found = |name: &str| self.library.symbol(name).ok_or_else(|| format!("the shim's library has no {name}"));
        let (watch, take) = (found("ein_shim_watch")?, found("ein_shim_touched")?);
        // SAFETY: the functions have these types in the runtime's text.
        let (watch, take) = unsafe {
            (
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64, u64) -> c_int>(watch),
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int, Tell, *mut c_void)>(take),
            )
        };
        let _one = self.one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: it only notes the range and reserves memory of its own.
        if unsafe { watch(base, bytes) } != 0 {
            return Err("no addresses to note accesses at".into());
        }
        Ok(Take(take))
    }

    /// Runs a kernel whose parameters' sizes are those of the arguments.
    pub(super) fn run(
        &self,
        name: &str,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Vec<u8>],
        seed: u64,
    ) -> Result<(), String> {
        let _one = self.one.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _watch = Watch::new(name);
        let mut values: Vec<Vec<Aligned>> = args.iter().map(|bytes| Aligned::of(bytes)).collect();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        let mut text = [0u8; 512];
        // SAFETY: all arrays outlive the call and have the sizes that are told. Kernels touch what they are given
        // addresses of; a fault at others is caught and told.
        let failed = unsafe {
            (self.launch)(
                kernel,
                pointers.as_mut_ptr(),
                grid.as_ptr(),
                block.as_ptr(),
                shared,
                seed,
                text.as_mut_ptr().cast(),
                text.len() as u32,
            )
        };
        if failed == 0 {
            return Ok(());
        }
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        Err(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}
