//! Operands of attention as tensors that bulk copies know.

use super::{Operand, Problem};
use crate::program::TensorMap;

/// Values of a line of shared memory, and keys that come at a time: of large heads fewer.
const LINE: u32 = 64;

impl Operand {
    /// The axes of its description that are batch, head and key: shorter steps come first.
    pub(super) fn axes(&self) -> [usize; 3] {
        let mut order = [0, 1, 2];
        order.sort_by_key(|&n| (self.steps[n], 2 - n));
        let mut axes = [0; 3];
        order.into_iter().enumerate().for_each(|(place, n)| axes[n] = place + 1);
        axes
    }

    /// Its description, of values of 16 bits and of boxes of so many keys, if bulk copies can be of it.
    fn map(&self, a: &Problem<'_>, keys: usize) -> Option<TensorMap> {
        let (mut extents, mut steps, mut boxes) = ([self.extents[3] as u64; 4], [0; 3], [LINE, 1, 1, 1]);
        for (n, axis) in self.axes().into_iter().enumerate() {
            extents[axis] = self.extents[n] as u64;
            steps[axis - 1] = self.steps[n].unsigned_abs() * 2;
        }
        boxes[self.axes()[2]] = keys as u32;
        let fits = extents.iter().all(|&e| e < 1 << 31) && steps.iter().all(|&s| s < 1 << 40 && s.is_multiple_of(16));
        fits.then_some(TensorMap { place: self.place, dtype: a.attention.dtype, extents, steps, boxes })
    }
}

impl Problem<'_> {
    /// Keys of a tile of *groups*: with larger heads, accumulators leave fewer registers for scores.
    pub(super) fn grouped_keys(&self) -> usize {
        if self.d.max(self.e) <= 128 { 128 } else { 64 }
    }

    /// The descriptions of keys, values and, if it has them, the queries' own; nothing if one is not to be had.
    pub(super) fn maps(&self) -> Vec<TensorMap> {
        let own = self.own.into_iter().flatten();
        let all: Option<Vec<TensorMap>> =
            [self.k, self.v].into_iter().chain(own).map(|o| o.map(self, self.grouped_keys())).collect();
        all.unwrap_or_default()
    }
}
