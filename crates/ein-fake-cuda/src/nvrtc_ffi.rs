//! `libnvrtc.so.13`: it compiles with `g++`, and gives the text itself as the result.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use crate::driver;
use crate::machine::Fault;
use crate::shim::{Instrument, Module};
use crate::stubs_ffi::{Symbol, symbols};
use crate::world;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn symbols() -> Vec<Symbol> {
    symbols![
        nvrtcVersion,
        nvrtcGetErrorString,
        nvrtcCreateProgram,
        nvrtcDestroyProgram,
        nvrtcCompileProgram,
        nvrtcGetProgramLogSize,
        nvrtcGetProgramLog,
        nvrtcGetCUBINSize,
        nvrtcGetCUBIN,
        nvrtcGetPTXSize,
        nvrtcGetPTX,
        nvrtcGetNumSupportedArchs,
        nvrtcGetSupportedArchs
    ]
}

const INVALID_INPUT: u32 = 3;
const INVALID_PROGRAM: u32 = 4;
const INVALID_OPTION: u32 = 5;
const COMPILATION: u32 = 6;
const ARCHS: [u32; 5] = [75, 80, 89, 90, 100];

#[derive(Default)]
struct Program {
    source: String,
    log: Vec<u8>,
    image: Vec<u8>,
}

static PROGRAMS: Mutex<(usize, BTreeMap<usize, Program>)> = Mutex::new((0, BTreeMap::new()));

fn programs() -> MutexGuard<'static, (usize, BTreeMap<usize, Program>)> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No real compiler has this version, so that nobody takes what was kept of one for what was kept of the other.
extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> u32 {
    // SAFETY: places for two numbers.
    unsafe {
        major.write(13);
        minor.write(99);
    }
    0
}

extern "C" fn nvrtcGetErrorString(code: u32) -> *const c_char {
    let text = match code {
        0 => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        INVALID_OPTION => c"NVRTC_ERROR_INVALID_OPTION",
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR unknown",
    };
    text.as_ptr()
}

extern "C" fn nvrtcCreateProgram(
    out: *mut usize,
    source: *const c_char,
    _name: *const c_char,
    headers: c_int,
    _texts: *const *const c_char,
    _names: *const *const c_char,
) -> u32 {
    if source.is_null() || headers != 0 {
        return INVALID_INPUT;
    }
    // SAFETY: a C string.
    let source = unsafe { CStr::from_ptr(source) }.to_string_lossy().into_owned();
    let mut programs = programs();
    programs.0 += 16;
    let handle = programs.0;
    programs.1.insert(handle, Program { source, ..Program::default() });
    // SAFETY: a place for a handle.
    unsafe { out.write(handle) };
    0
}

extern "C" fn nvrtcDestroyProgram(program: *mut usize) -> u32 {
    // SAFETY: a place with a handle, which is cleared.
    let handle = unsafe { program.replace(0) };
    if programs().1.remove(&handle).is_some() { 0 } else { INVALID_PROGRAM }
}

extern "C" fn nvrtcCompileProgram(program: usize, count: c_int, options: *const *const c_char) -> u32 {
    let source = match programs().1.get(&program) {
        Some(p) => p.source.clone(),
        None => return INVALID_PROGRAM,
    };
    let options = (0..count as usize).map(|n| {
        // SAFETY: as many C strings as is said.
        unsafe { CStr::from_ptr(options.add(n).read()) }.to_string_lossy().into_owned()
    });
    let mut wrong = None;
    for option in options {
        if let Some(arch) = option.split_once("arch=").map(|o| o.1)
            && !ARCHS.iter().any(|a| {
                [format!("sm_{a}"), format!("compute_{a}")]
                    .iter()
                    .any(|k| arch == k || arch.strip_suffix('a') == Some(k))
            })
        {
            wrong = Some(format!("nvrtc: error: invalid value for --gpu-architecture: {arch}\n"));
        }
        if !option.starts_with('-') {
            wrong = Some(format!("nvrtc: error: unrecognized option {option} found\n"));
        }
    }
    let (told, instrument) = match world::world().as_mut() {
        Some(w) => (w.strikes(|f| if let Fault::Compile(n) = f { Some(n) } else { None }), w.instrument()),
        None => (false, Instrument::Nothing),
    };
    let (code, log, image) = if let Some(text) = wrong {
        (INVALID_OPTION, text, Vec::new())
    } else if told {
        (COMPILATION, "default_program(1): error: it was told to fail\n".to_owned(), Vec::new())
    } else {
        match Module::instrumented(&source, instrument) {
            Ok(_) => (0, String::new(), driver::image(&source)),
            Err(text) => (COMPILATION, text, Vec::new()),
        }
    };
    if let Some(p) = programs().1.get_mut(&program) {
        p.log = log.into_bytes();
        p.log.push(0);
        p.image = image;
    }
    code
}

fn size(program: usize, out: *mut usize, of: impl Fn(&Program) -> &[u8]) -> u32 {
    let programs = programs();
    let Some(p) = programs.1.get(&program) else { return INVALID_PROGRAM };
    // SAFETY: a place for a size.
    unsafe { out.write(of(p).len()) };
    0
}

fn bytes(program: usize, out: *mut u8, of: impl Fn(&Program) -> &[u8]) -> u32 {
    let programs = programs();
    let Some(p) = programs.1.get(&program) else { return INVALID_PROGRAM };
    // SAFETY: room for as many bytes as the size said.
    unsafe { out.copy_from_nonoverlapping(of(p).as_ptr(), of(p).len()) };
    0
}

extern "C" fn nvrtcGetProgramLogSize(program: usize, out: *mut usize) -> u32 {
    size(program, out, |p| &p.log)
}

extern "C" fn nvrtcGetProgramLog(program: usize, out: *mut u8) -> u32 {
    bytes(program, out, |p| &p.log)
}

extern "C" fn nvrtcGetCUBINSize(program: usize, out: *mut usize) -> u32 {
    size(program, out, |p| &p.image)
}

extern "C" fn nvrtcGetCUBIN(program: usize, out: *mut u8) -> u32 {
    bytes(program, out, |p| &p.image)
}

extern "C" fn nvrtcGetPTXSize(program: usize, out: *mut usize) -> u32 {
    size(program, out, |p| &p.image)
}

extern "C" fn nvrtcGetPTX(program: usize, out: *mut u8) -> u32 {
    bytes(program, out, |p| &p.image)
}

extern "C" fn nvrtcGetNumSupportedArchs(out: *mut c_int) -> u32 {
    // SAFETY: a place for a number.
    unsafe { out.write(ARCHS.len() as c_int) };
    0
}

extern "C" fn nvrtcGetSupportedArchs(out: *mut c_int) -> u32 {
    for (n, &arch) in ARCHS.iter().enumerate() {
        // SAFETY: room for as many numbers as the count said.
        unsafe { out.add(n).write(arch as c_int) };
    }
    0
}
