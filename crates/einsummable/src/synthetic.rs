//! Models that need no file: sizes of a small Llama, weights from a seed.

use crate::models::DecoderConfig;
use crate::nn::rotary::Rotary;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::region::{Region, strides};

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
        let strides = strides(&ty.shape);
        let mut values = Vec::with_capacity(region.volume());
        let mut point = region.origin();
        for _ in 0..region.volume() {
            let position: usize = point.iter().zip(&strides).map(|(i, s)| i * s).sum();
            // 53 bits make a uniform number in -1..1.
            let uniform = (mix(key ^ mix(position as u64)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            values.push(if norm { 1.0 + 0.1 * uniform } else { scale * uniform });
            for axis in (0..point.len()).rev() {
                point[axis] += 1;
                if point[axis] < region.0[axis].hi {
                    break;
                }
                point[axis] = region.0[axis].lo;
            }
        }
        Dense::from_f64(ty.dtype, region.shape(), &values)
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
        assert_ne!(weights.region("v", &ty, &ty.whole()), whole);
        assert_ne!(SyntheticWeights::new(8).region("w", &ty, &ty.whole()), whole);
        let bound = (3.0_f64 / 5.0).sqrt();
        assert!(whole.to_f64().iter().all(|v| v.abs() <= bound));
    }
}
