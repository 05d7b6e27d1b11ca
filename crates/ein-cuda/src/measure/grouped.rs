//! Attention by `wgmma` beside that by `mma`: whether they agree, and how quick it is.

use super::rates::{attending, attention, launch};
use super::timing::Timing;
use super::{Amount, MeasureError};
use crate::devices::{Devices, Seat, Settings};
use crate::driver::Driver;
use crate::gpus::GpusError;
use ein_ir::dense::Dense;
use ein_ir::graph::TensorType;
use ein_ir::region::Region;
use ein_run::measure::graphs::Rows;
use ein_run::source::bytes_of;
use ein_run::{Executor, ParameterSource, RunError};
use ein_task::task::TaskId;
use std::collections::BTreeMap;
use std::fmt;

/// What machine files call it: of [`Device::prefers`](ein_task::machine::Device::prefers).
pub(crate) const WGMMA: &str = "wgmma";

/// Compute capability times ten of GPUs that have it.
const HOPPER: u32 = 90;
/// How far results of the two ways may be apart: weights and values of 8 bits, of values up to 2.
const APART: f64 = 0.025;

/// What became of attention by `wgmma`.
#[derive(Clone, Debug, PartialEq)]
pub enum Grouped {
    /// It agrees with that by `mma`.
    Agrees {
        /// Operations per second, by the spec's count.
        rate: f64,
        /// How far results are apart at most.
        apart: f64,
    },
    /// Its results are others, so far apart at most.
    Differs(f64),
    /// It does not run.
    Fails(String),
}

impl Grouped {
    /// Operations per second, if its results are right.
    pub fn rate(&self) -> Option<f64> {
        if let Self::Agrees { rate, .. } = self { Some(*rate) } else { None }
    }
}

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agrees { rate, apart } => write!(f, "by wgmma {:.4}, results {apart:.1e} apart", rate / 1e12),
            Self::Differs(apart) => write!(f, "by wgmma not used: results are {apart:.1e} apart"),
            Self::Fails(reason) => write!(f, "by wgmma not used: {}", reason.replace('\n', " ")),
        }
    }
}

/// Tries it on the GPU of a seat, if that has it.
pub(super) fn grouped(seat: Seat, timing: Timing, amount: Amount) -> Result<Option<Grouped>, MeasureError> {
    let Seat::Gpu(ordinal) = seat else { return Ok(None) };
    let driver = Driver::new().map_err(GpusError::from)?;
    if driver.gpus().get(ordinal).is_none_or(|gpu| gpu.capability() != HOPPER) {
        return Ok(None);
    }
    let by = |wgmma: bool| Timing { settings: Settings { wgmma, ..timing.settings }, ..timing };
    let expected = result(seat, by(false).settings, amount)?;
    Ok(Some(match result(seat, by(true).settings, amount) {
        Err(error) => Grouped::Fails(error.to_string()),
        Ok(found) => match found.max_abs_difference(&expected) {
            apart if apart <= APART => {
                let rate = launch(seat, timing, amount).and_then(|launch| attending(seat, by(true), amount, launch));
                rate.map_or_else(|e| Grouped::Fails(e.to_string()), |rate| Grouped::Agrees { rate, apart })
            }
            apart => Grouped::Differs(apart),
        },
    }))
}

/// What attention gives.
fn result(seat: Seat, settings: Settings, amount: Amount) -> Result<Dense, RunError> {
    let (op, types) = attention(amount.compared());
    let mut rows = Rows::new(1);
    let fed: Vec<TaskId> = types
        .iter()
        .map(|ty| {
            let external = rows.parameter(ty);
            rows.feed(0, external)
        })
        .collect();
    let op = rows.op(op, &types);
    let row = rows.kernel(0, op, &fed);
    rows.output("y", row);
    let make = |graph: &_| Ok(Box::new(Devices::new(graph, &Signed, &[seat], settings)?) as Box<_>);
    let mut run = Executor::on(rows.apart(), make)?.run(&BTreeMap::new())?;
    Ok(run.outputs.remove("y").expect("the one result"))
}

/// Parameters of numbers between -2 and 2 without a pattern that rows share, others for each name.
struct Signed;

impl ParameterSource for Signed {
    fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), String> {
        let first: usize = region.0.iter().zip(&ty.shape).fold(0, |at, (own, extent)| at * extent + own.lo);
        let seed = name.bytes().fold(first as u64, |seed, byte| seed.wrapping_mul(257) + u64::from(byte));
        let value = |n: usize| {
            let mixed = (seed + n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as f64 / 64.0 - 2.0
        };
        let values: Vec<f64> = (0..region.volume()).map(value).collect();
        out.copy_from_slice(bytes_of(&Dense::from_f64(ty.dtype, region.shape(), &values)));
        Ok(())
    }
}
