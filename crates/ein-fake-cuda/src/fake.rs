//! Fake GPUs are put in place.

use crate::machine::{Counters, FakeMachine, Fault};
use crate::world::{World, world};
use crate::{cublaslt_ffi, driver, nvml_ffi, nvrtc_ffi, stubs_ffi};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The fake GPUs of this process, as long as this is held: others wait for it.
#[derive(Debug)]
pub struct Fake {
    _turn: MutexGuard<'static, ()>,
}

/// Puts fake GPUs in the place of the driver's: whoever loads `libcuda`, `libnvrtc`, `libcublasLt` or `libnvidia-ml` in
/// this process afterwards, by name, gets the fake, whatever the host has. It has to come before the first of that.
///
/// The machine may be another one each time; access of GPUs to each other has to be asked for anew. Handles and memory that are held from before stay what they were, so that
/// what is kept for a whole process keeps working.
///
/// # Errors
///
/// That there is no `g++`, or what it says.
pub fn install(machine: &FakeMachine) -> Result<Fake, String> {
    static TURN: Mutex<()> = Mutex::new(());
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    LOADED.get_or_init(load).clone()?;
    assert!(machine.gpus <= crate::arena_ffi::GPUS, "{} fake GPUs", machine.gpus);
    {
        let mut world = world();
        let world = world.get_or_insert_with(|| World::new(machine.clone()));
        world.reset(machine.clone());
        world.arena.count_anew();
    }
    Ok(Fake { _turn: turn })
}

/// What was found wrong first since fake GPUs were put in place, if anything.
pub fn last_report() -> Option<String> {
    world().as_ref().and_then(|w| w.report.clone())
}

fn load() -> Result<(), String> {
    stubs_ffi::load(&["libcuda.so", "libcuda.so.1"], &driver::symbols())?;
    stubs_ffi::load(&["libnvrtc.so", "libnvrtc.so.13"], &nvrtc_ffi::symbols())?;
    stubs_ffi::load(&["libcublasLt.so", "libcublasLt.so.13"], &cublaslt_ffi::symbols())?;
    stubs_ffi::load(&["libnvidia-ml.so", "libnvidia-ml.so.1"], &nvml_ffi::symbols())
}

impl Fake {
    /// See [`last_report`].
    pub fn report(&self) -> Option<String> {
        last_report()
    }

    /// Has something fail.
    pub fn fail(&self, fault: Fault) {
        if let Some(w) = world().as_mut() {
            w.faults.push(fault);
        }
    }

    /// Faults that have not struck are forgotten, lost GPUs are back, and so is whatever failed.
    pub fn heal(&self) {
        if let Some(w) = world().as_mut() {
            let machine = w.machine.clone();
            let peers: Vec<_> = w.gpus.iter().map(|g| g.peers.clone()).collect();
            let counters = w.counters.clone();
            w.reset(machine);
            w.counters = counters;
            w.gpus.iter_mut().zip(peers).for_each(|(g, p)| g.peers = p);
        }
    }

    /// What was done since counting began.
    pub fn counters(&self) -> Counters {
        world().as_ref().map(|w| w.counters.clone()).unwrap_or_default()
    }

    /// Begins counting anew.
    pub fn count_anew(&self) {
        if let Some(w) = world().as_mut() {
            w.counters = Counters::default();
        }
    }

    /// Bytes of a GPU that are allocated.
    pub fn used(&self, gpu: usize) -> u64 {
        world().as_ref().map_or(0, |w| w.arena.used(crate::machine::Side::Gpu(gpu)))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(report) = last_report()
        {
            eprintln!("fake GPUs: {report}");
        }
    }
}
