//! Seconds of rows on GPUs, between two events around replays.

use super::MeasureError;
use crate::devices::{Devices, Seat, Settings};
use ein_ir::graph::TensorType;
use ein_ir::region::Region;
use ein_run::measure::graphs::Rows;
use ein_run::measure::median;
use ein_run::{ParameterSource, RunError};
use ein_task::verify::verify;

/// Replays before those that count: clocks of GPUs rise, libraries load their kernels.
const WARM: usize = 2;
/// The least that anything takes: what is measured as less was lost in the noise.
const LEAST: f64 = 1e-9;

/// Replays of which medians are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// How many, at least one.
    pub(super) runs: usize,
    pub(super) settings: Settings,
}

impl Timing {
    /// The seconds that one more of something takes, where a graph has many: `add(rows, n)` adds n of them. What the launch
    /// of a graph takes is in none of them.
    pub(super) fn each(
        &self,
        seats: &[Seat],
        many: usize,
        add: impl Fn(&mut Rows, usize),
    ) -> Result<f64, MeasureError> {
        let seconds = |n: usize| {
            let mut rows = Rows::new(seats.len());
            add(&mut rows, n);
            self.seconds(rows, seats)
        };
        Ok(((seconds(1 + many)? - seconds(1)?) / many as f64).max(LEAST))
    }

    /// The median of a graph's seconds.
    fn seconds(&self, rows: Rows, seats: &[Seat]) -> Result<f64, MeasureError> {
        let graph = rows.apart();
        verify(&graph).map_err(RunError::from)?;
        let mut devices = Devices::new(&graph, &Numbers, seats, self.settings)?;
        let mut seconds = Vec::new();
        for n in 0..WARM + self.runs.max(1) {
            let taken = devices.timed()?;
            if n >= WARM {
                seconds.push(taken);
            }
        }
        Ok(median(&seconds))
    }
}

/// Parameters of numbers between a half and one and a half, as a pattern that is quickly made: GPUs take longer, and more
/// power, for such numbers than for zeros.
struct Numbers;

/// A prime number of elements.
const PATTERN: usize = 4093;

impl ParameterSource for Numbers {
    fn read(&self, _: &str, ty: &TensorType, _: &Region, out: &mut [u8]) -> Result<(), String> {
        let value = |n: usize| 0.5 + (n.wrapping_mul(0x9e37_79b9) >> 8 & 0xff) as f64 / 256.0;
        let values: Vec<f64> = (0..PATTERN).map(value).collect();
        let pattern = ein_ir::dense::Dense::from_f64(ty.dtype, [PATTERN], &values);
        let pattern = ein_run::source::bytes_of(&pattern);
        out.chunks_mut(pattern.len()).for_each(|part| part.copy_from_slice(&pattern[..part.len()]));
        Ok(())
    }
}
