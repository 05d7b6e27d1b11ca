//! Repetitions: an axis of extent 1 made longer, then merged with its neighbour. Views alone.

use super::{Tensor, TensorError};

impl Tensor {
    /// The tensor laid down `repeats[n]` times along axis `n`, new axes in front: `torch.Tensor.repeat`.
    pub fn repeat(&self, repeats: &[usize]) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let lead = repeats.len().checked_sub(own.len()).ok_or_else(|| {
                let reason = format!("{} repeats for {} axes; one for each is expected", repeats.len(), own.len());
                self.shape_error("repeat", reason)
            })?;
            let (mut apart, mut full, mut merged) = (Vec::new(), Vec::new(), Vec::new());
            for (n, &times) in repeats.iter().enumerate() {
                let extent = if n < lead { 1 } else { own[n - lead] };
                apart.extend([1, extent as i64]);
                full.extend([times as i64, extent as i64]);
                merged.push(self.product("repeat", times, extent)?);
            }
            if merged.len() == own.len() && repeats.iter().all(|&n| n == 1) {
                return Ok(self.clone());
            }
            Ok(self.reshape(&apart).expand(&full).reshape(&merged))
        })
    }

    /// As [`Tensor::repeat`], but axes without a number are kept: `torch.tile`.
    pub fn tile(&self, repeats: &[usize]) -> Tensor {
        let kept = self.dim().saturating_sub(repeats.len());
        self.repeat(&[&vec![1; kept], repeats].concat())
    }

    /// Every index of an axis `repeats` times in a row: `torch.repeat_interleave` with a number.
    pub fn repeat_interleave(&self, repeats: usize, axis: i64) -> Tensor {
        Tensor::attempt(|| {
            let at = self.axis("repeat_interleave", axis)?;
            let mut merged: Vec<i64> = self.shape().iter().map(|&n| n as i64).collect();
            let mut full = merged.clone();
            full.insert(at + 1, repeats as i64);
            merged[at] = self.product("repeat_interleave", repeats, self.shape()[at])?;
            Ok(self.unsqueeze(at as i64 + 1).expand(&full).reshape(&merged))
        })
    }

    fn product(&self, operation: &'static str, times: usize, extent: usize) -> Result<i64, TensorError> {
        let product = times.checked_mul(extent).and_then(|n| i64::try_from(n).ok());
        product.ok_or_else(|| self.shape_error(operation, format!("{times} times {extent} elements are too many")))
    }
}
