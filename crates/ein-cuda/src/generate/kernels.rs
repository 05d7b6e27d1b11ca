//! Operations that are no einsums.

use super::Call;
use crate::program::{Program, Target};
use ein_ir::kernel::Kernel;
use ein_run::Cause;

/// The program of a block of a kernel.
pub(crate) fn program(kernel: &Kernel, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    let _ = (call, target);
    Err(Cause::malformed(format!("{} is not yet generated", kernel.name())))
}
