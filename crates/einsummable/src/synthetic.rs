//! Models that need no file: sizes of a small Llama, weights from a seed.

use crate::models::DecoderConfig;
use crate::nn::rotary::Rotary;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::region::{Region, strides};
use ein_run::source::{bytes_of, bytes_of_mut};
use std::sync::{Mutex, PoisonError};

/// Elements that a thread makes at a time.
const CHUNK: usize = 1 << 16;

/// Weights that are a function of the seed, the tensor's name and the element's position, so that every
/// device makes its part alone and no decomposition changes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticWeights {
    seed: u64,
}

/// The configuration of a small Llama and its weights.
pub fn llama(seed: u64) -> (DecoderConfig, SyntheticWeights) {
    let config = DecoderConfig {
        dtype: DType::F32,
        max_position_embeddings: 512,
        rotary: Rotary::new(10_000.0),
        ..DecoderConfig::of_sizes(64, 8, 4, 172, 2, 256)
    };
    (config, SyntheticWeights::new(seed))
}

impl SyntheticWeights {
    /// The weights of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A region of a tensor. Vectors are near 1, as norms are; matrices, and kernels of convolutions, have a variance of
    /// one over the elements of a row, so that activations keep their size.
    pub fn region(&self, name: &str, ty: &TensorType, region: &Region) -> Dense {
        let key = name.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, |h, b| mix(h ^ u64::from(b)));
        let norm = ty.shape.len() < 2;
        let row: usize = ty.shape.iter().skip(1).product();
        let scale = (3.0 / row.max(1) as f64).sqrt();
        let value = |position: u64| {
            // 53 bits make a uniform number in -1..1.
            let uniform = (mix(key ^ mix(position)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            if norm { 1.0 + 0.1 * uniform } else { scale * uniform }
        };
        let mut all = Dense::zeros(&TensorType::new(ty.dtype, region.shape()));
        let bytes = bytes_of_mut(&mut all);
        let chunks = Mutex::new(bytes.chunks_mut(CHUNK * ty.dtype.bytes()).enumerate());
        let next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut values = Vec::with_capacity(CHUNK);
            while let Some((n, out)) = next() {
                values.clear();
                let count = out.len() / ty.dtype.bytes();
                positions(&ty.shape, region, n * CHUNK, count, &mut |from, run| {
                    values.extend((from..from + run).map(|position| value(position as u64)));
                });
                out.copy_from_slice(bytes_of(&Dense::from_f64(ty.dtype, [count], &values)));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(region.volume() / CHUNK);
        if threads < 2 {
            work();
        } else {
            std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        }
        all
    }
}

/// The places in a tensor of `count` elements of a region from its element `first` on, as runs of consecutive places: where
/// each begins, and how long it is.
fn positions(shape: &[usize], region: &Region, first: usize, count: usize, run: &mut dyn FnMut(usize, usize)) {
    let (own, whole) = (strides(&region.shape()), strides(shape));
    // Rows of the last axis are consecutive; without axes there is one element.
    let row = region.0.last().map_or(1, |last| last.len());
    let mut at = first;
    while at < first + count {
        let axes = region.0.iter().zip(&own).zip(&whole);
        let (mut rest, mut from) = (at, 0);
        for ((interval, own), whole) in axes {
            from += (interval.lo + rest / own) * whole;
            rest %= own;
        }
        let length = (row - at % row).min(first + count - at);
        run(from, length);
        at += length;
    }
}

/// A bijection of 64 bits that mixes them well (the finaliser of `SplitMix64`).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_values_of_the_whole() {
        let weights = SyntheticWeights::new(7);
        let ty = TensorType::new(DType::F32, [6, 5]);
        let whole = weights.region("w", &ty, &ty.whole());
        let part = Region::of(&[(2, 5), (1, 4)]);
        assert_eq!(weights.region("w", &ty, &part), whole.cut(&ty.whole(), &part));
        // As several threads make it, and of values without elements or axes.
        let large = TensorType::new(DType::BF16, [3, 5, CHUNK / 4 + 1]);
        let all = weights.region("w", &large, &large.whole());
        let one = weights.region("w", &TensorType::new(DType::F64, large.shape.clone()), &large.whole());
        assert_eq!(all, Dense::from_f64(DType::BF16, large.shape.clone(), &one.to_f64()));
        let part = Region::of(&[(1, 3), (0, 4), (7, CHUNK / 4)]);
        assert_eq!(weights.region("w", &large, &part), all.cut(&large.whole(), &part));
        let none = Region::of(&[(2, 2), (0, 5)]);
        assert_eq!(weights.region("w", &ty, &none).shape, [0, 5]);
        let single = TensorType::new(DType::F32, []);
        assert_eq!(weights.region("w", &single, &single.whole()).len(), 1);
        assert_ne!(weights.region("v", &ty, &ty.whole()), whole);
        assert_ne!(SyntheticWeights::new(8).region("w", &ty, &ty.whole()), whole);
        let bound = (3.0_f64 / 5.0).sqrt();
        assert!(whole.to_f64().iter().all(|v| v.abs() <= bound));
    }
}
