//! Kernels that were compiled before they are asked for, many in one go of the compiler, which is most of what tests of
//! many small programs take.

use super::compile::{self, Instrument};
use super::library_ffi::Library;
use super::scan;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Kernels that are compiled as one.
const AT_ONCE: usize = 48;

/// A kernel that was compiled.
struct Known {
    instrument: Instrument,
    /// What stood before it.
    prelude: Arc<str>,
    source: String,
    library: Arc<Library>,
}

static KNOWN: Mutex<BTreeMap<String, Known>> = Mutex::new(BTreeMap::new());

/// Compiles kernels, given by their names, each a text with one kernel of that name, as they would be after the prelude.
/// From then on a text of the prelude and any of these, one a line after another, needs no compiler.
///
/// # Errors
///
/// As of [`Module::compile`](super::Module::compile).
pub fn prepare(prelude: &str, kernels: &BTreeMap<String, String>, instrument: Instrument) -> Result<(), String> {
    compile::runtime()?;
    let prelude: Arc<str> = prelude.into();
    let same = |known: &Known, source: &str| known.instrument == instrument && known.source == source;
    let missing: Vec<(&String, &String)> = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.iter().filter(|(name, source)| known.get(*name).is_none_or(|k| !same(k, source))).collect()
    };
    let parts: Vec<&[(&String, &String)]> = missing.chunks(AT_ONCE).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let texts = part.iter().map(|(_, source)| source.as_str());
            let text: Vec<&str> = std::iter::once(&*prelude).chain(texts).collect();
            let library = Arc::new(Library::open(&compile::module(&text.join("\n"), instrument)?, false)?);
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, source) in *part {
                let (prelude, source, library) = (prelude.clone(), (*source).clone(), library.clone());
                known.insert((*name).clone(), Known { instrument, prelude, source, library });
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(parts.len());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })
}

/// The libraries that together have all kernels of a text, if it is nothing but a prelude and kernels that were prepared.
pub(super) fn find(source: &str, instrument: Instrument) -> Option<Vec<Arc<Library>>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut prelude: Option<&str> = None;
    let (mut libraries, mut bytes): (Vec<Arc<Library>>, usize) = (Vec::new(), 0);
    for name in scan::names(source) {
        let own = known.get(&name).filter(|k| k.instrument == instrument && source.contains(&k.source))?;
        if *prelude.get_or_insert(&own.prelude) != &*own.prelude {
            return None;
        }
        bytes += own.source.len() + 1;
        if !libraries.iter().any(|l| Arc::ptr_eq(l, &own.library)) {
            libraries.push(own.library.clone());
        }
    }
    let prelude = prelude?;
    (source.starts_with(prelude) && source.len() == prelude.len() + bytes).then_some(libraries)
}
