//! Libraries that are found by the names of NVIDIA's, whose functions are those of this crate.
//!
//! A stub has nothing but jumps through a table, which is filled when it was loaded. The loader takes a library that is
//! loaded already for one that has the same name inside (`SONAME`), so whoever asks for `libcuda.so.1` afterwards gets
//! the stub, with no variable of the environment set and whatever the host has.

// Functions are handed over as addresses.
#![allow(unsafe_code)]

use crate::shim::compile::built;
use crate::shim::library_ffi::Library;
use std::ffi::c_void;

/// A function by its name.
#[derive(Clone, Copy)]
pub(crate) struct Symbol(pub(crate) &'static str, pub(crate) *const c_void);

/// Names with the functions of this name.
macro_rules! symbols {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::stubs_ffi::Symbol(stringify!($name), $name as *const std::ffi::c_void)),*]
    };
}
pub(crate) use symbols;

/// Makes and loads a library of each name with these functions.
pub(crate) fn load(names: &[&str], symbols: &[Symbol]) -> Result<(), String> {
    for name in names {
        let path = built(&format!("stub-{name}"), &text(symbols)?, &[&format!("-Wl,-soname,{name}"), "-w"])?;
        let library = Library::open(&path, true)?;
        let table = library.symbol("ein_fake_table").ok_or("the stub has no table")?.cast::<*const c_void>();
        for (n, symbol) in symbols.iter().enumerate() {
            // SAFETY: the table has as many places as there are functions, and nobody calls them before this returns.
            unsafe { table.add(n).write(symbol.1) }
        }
    }
    Ok(())
}

/// Every function jumps to where its place in the table says.
fn text(symbols: &[Symbol]) -> Result<String, String> {
    let count = symbols.len();
    let mut text =
        format!("extern \"C\" {{ __attribute__((visibility(\"protected\"))) void* ein_fake_table[{count}]; }}\n");
    for (n, Symbol(name, _)) in symbols.iter().enumerate() {
        let jump = if cfg!(target_arch = "x86_64") {
            format!("jmp *ein_fake_table+{}(%rip)", 8 * n)
        } else if cfg!(target_arch = "aarch64") {
            format!("adrp x16, ein_fake_table+{0}\\n ldr x16, [x16, :lo12:ein_fake_table+{0}]\\n br x16", 8 * n)
        } else {
            return Err("fake libraries are made for x86-64 and AArch64 alone".into());
        };
        text += &format!(
            "asm(\".text\\n.p2align 4\\n.globl {name}\\n.type {name},%function\\n{name}:\\n {jump}\\n.size {name},.-{name}\\n\");\n"
        );
    }
    Ok(text)
}
