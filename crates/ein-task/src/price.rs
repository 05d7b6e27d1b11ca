//! The price list: how long one block or one local copy takes on a device. The search, the fixed strategies
//! and the simulator all read it.
//!
//! All times are in seconds:
//!
//! * a contraction or attention block: `max(operations / rate, bytes / memory_bandwidth) + launch`, a roofline
//!   with the block's own shape. `operations` are those of the spec (2 for each multiply-add), `rate` is
//!   the device's for the type the operation works in, `bytes` are each operand's region and the result once;
//!   Under a softmax the rate is `under_softmax`, and of a product that of its shape, where the device has them (see
//!   [`crate::rates`]);
//! * any other block: `bytes / memory_bandwidth + launch`;
//!   nothing at all, launch included, where the device is idealised to do them for free;
//! * on a device with a rate for `elements`, a thread: bytes and arithmetic do not hide each other, so both count, and
//!   the arithmetic of other blocks is `points / elements`, points of label space if anything is computed at them;
//! * a local copy of `b` bytes: `2 b / memory_bandwidth + launch` (read and write), nothing where
//!   element-wise work is free;
//! * a fused row: what its blocks take, launched once, without the bytes of what lies between them, which is neither
//!   written nor read;
//! * an empty block: nothing, since it is not launched.

use crate::machine::Device;
use crate::units::Seconds;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::region::Region;
use ein_ir::spec::Spec;

/// What a block's seconds are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Arithmetic.
    pub compute: Seconds,
    /// Bytes to and from memory.
    pub memory: Seconds,
    /// All of it, the launch included.
    pub seconds: Seconds,
}

/// Seconds that the block `labels` of an operation takes on `device`. Infinite if the device has no rate
/// for the arithmetic.
pub fn kernel_seconds(device: &Device, spec: &Spec, labels: &Region) -> Seconds {
    kernel_parts(device, spec, labels).seconds
}

/// [`kernel_seconds`], with its parts.
pub fn kernel_parts(device: &Device, spec: &Spec, labels: &Region) -> Parts {
    // A block without output labels to write is no work; one with nothing to fold still writes identities.
    if spec.result_region(labels).is_empty() {
        return Parts::default();
    }
    let memory = spec.bytes(labels) / device.memory_bandwidth;
    let operations = spec.operations(labels);
    if !spec.work.contraction {
        if device.free_elementwise {
            return Parts::default();
        }
        let points = operations / spec.work.operations_per_point.max(1) as f64;
        let compute = device.elements.map_or(0.0, |rate| points / rate);
        let seconds = elementwise(device, memory + compute);
        return Parts { compute: Seconds(compute), memory: Seconds(memory), seconds };
    }
    let rate = match spec.monoid {
        Monoid::Attend => device.under_softmax,
        _ => device.products.rate(spec, labels),
    };
    let rate = rate.unwrap_or_else(|| device.rate(spec.work.dtype));
    let compute = if operations == 0.0 { 0.0 } else { operations / rate };
    let both = if device.elements.is_some() { compute + memory } else { compute.max(memory) };
    Parts { compute: Seconds(compute), memory: Seconds(memory), seconds: Seconds(both + device.launch.0) }
}

/// Seconds that the blocks of a fused row take on `device`, each the only reader of the one before it.
pub fn fused_seconds(device: &Device, stages: &[(&Spec, &Region)]) -> Seconds {
    let mut all = Parts::default();
    let mut launched = 0.0;
    for (n, (spec, labels)) in stages.iter().enumerate() {
        let parts = kernel_parts(device, spec, labels);
        all.compute.0 += parts.compute.0;
        all.memory.0 += parts.memory.0;
        if parts.seconds.0 > 0.0 {
            launched = device.launch.0;
        }
        // Where the next stage is free it was not said to read this one's result.
        let reads = |(next, _): &(&Spec, &Region)| !device.free_elementwise || next.work.contraction;
        if stages.get(n + 1).is_some_and(reads) {
            all.memory.0 -= 2.0 * result_bytes(spec, labels) / device.memory_bandwidth;
        }
    }
    let (compute, memory) = (all.compute.0, all.memory.0.max(0.0));
    let both = if device.elements.is_some() { compute + memory } else { compute.max(memory) };
    Seconds(both + launched)
}

/// Bytes of the finished result of a block.
fn result_bytes(spec: &Spec, labels: &Region) -> f64 {
    let region = spec.result_region(labels);
    Form::finished(spec.dtype, region.rank()).bytes(&region) as f64
}

/// Seconds that a copy of `bytes` within `device` takes: a cut, a paste, a view that moves elements.
pub fn local_seconds(device: &Device, bytes: f64) -> Seconds {
    touch_seconds(device, 2.0 * bytes)
}

/// Seconds that an element-wise pass takes that reads and writes `bytes` in all: a fold of `n` pieces of
/// `b` bytes touches `(n + 1) b`.
pub fn touch_seconds(device: &Device, bytes: f64) -> Seconds {
    if bytes == 0.0 { Seconds(0.0) } else { elementwise(device, bytes / device.memory_bandwidth) }
}

fn elementwise(device: &Device, seconds: f64) -> Seconds {
    if device.free_elementwise { Seconds(0.0) } else { Seconds(seconds + device.launch.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Device, Machine};
    use ein_ir::dtype::DType;
    use ein_ir::einsum::{Access, Einsum, Label};
    use ein_ir::expr::{Expr, Unary};
    use ein_ir::kernel::{Attention, Gather, Kernel};
    use ein_ir::op::Op;

    fn matmul(m: usize, k: usize, n: usize) -> Spec {
        let e = Einsum::contraction("mk,kn->mn", &[&[m, k], &[k, n]], DType::BF16).unwrap();
        Op::Einsum(e).spec(&[DType::BF16; 2]).unwrap()
    }

    fn copy(n: usize) -> Spec {
        map(n, Expr::operand(DType::F32))
    }

    fn exponential(n: usize) -> Spec {
        let mut join = Expr::operand(DType::F32);
        join.unary(Unary::Exp, 0).unwrap();
        map(n, join)
    }

    fn map(n: usize, join: Expr) -> Spec {
        let e = Einsum {
            labels: vec![Label::new("i", n)],
            rank: 1,
            accesses: vec![Access::labels(&[0])],
            join,
            monoid: Monoid::Sum,
            dtype: DType::F32,
        };
        Op::Einsum(e).spec(&[DType::F32]).unwrap()
    }

    fn attention(causal: bool) -> Spec {
        let a = Attention {
            batch: 1,
            heads: 8,
            kv_heads: 2,
            queries: 4096,
            keys: 4096,
            dim: 128,
            value_dim: 128,
            causal,
            window: None,
            softcap: None,
            packed: None,
            own: false,
            mask: None,
            scale: 0,
            dtype: DType::BF16,
        };
        Op::Kernel(Kernel::Attention(a)).spec(&[DType::BF16; 3]).unwrap()
    }

    #[test]
    fn blocks_cost_what_the_formulas_say() {
        let device = |name: &str| Machine::by_name(name).unwrap().devices[0].clone();
        let (real, ideal) = (device("8xa100"), device("8xa100-ideal"));
        let check = |device: &Device, spec: &Spec, pairs: &[(usize, usize)], expected: f64| {
            let found = kernel_seconds(device, spec, &Region::of(pairs)).0;
            assert!((found - expected).abs() <= 1e-9 * expected, "{found} is not {expected}");
        };
        // Labels m, n | k. 2 * 4096^3 operations at 312 TFLOP/s: arithmetic binds.
        let big = matmul(4096, 4096, 4096);
        check(&ideal, &big, &[(0, 4096), (0, 4096), (0, 4096)], 137_438_953_472.0 / 312e12);
        check(&real, &big, &[(0, 4096), (0, 4096), (0, 4096)], 137_438_953_472.0 / 312e12 + 2e-6);
        // An eighth of the columns, half of the sum: 2 * 4096 * 512 * 2048.
        check(&ideal, &big, &[(0, 4096), (512, 1024), (0, 2048)], 8_589_934_592.0 / 312e12);
        // One row times 4096 x 4096: memory binds, 2 * (4096 + 4096^2 + 4096) bytes.
        check(&ideal, &matmul(1, 4096, 4096), &[(0, 1), (0, 4096), (0, 4096)], 33_570_816.0 / 2e12);
        check(&real, &matmul(1, 4096, 4096), &[(0, 1), (0, 4096), (0, 4096)], 33_570_816.0 / 1.555e12 + 2e-6);
        // Nothing to write, nothing to pay; nothing to fold still writes 16 zeros of two bytes.
        check(&real, &big, &[(0, 0), (0, 4096), (0, 4096)], 0.0);
        check(&real, &big, &[(0, 4), (0, 4), (8, 8)], 32.0 / 1.555e12 + 2e-6);
        // A map of a million f32 reads and writes 4 MB each.
        check(&real, &copy(1_000_000), &[(0, 1_000_000)], 8e6 / 1.555e12 + 2e-6);
        check(&ideal, &copy(1_000_000), &[(0, 1_000_000)], 0.0);
        // Attention, b h s e | t d: 4 * 128 operations for each of 8 * 4096^2 scores; causal 4096 * 4097 / 2.
        let space = [(0, 1), (0, 8), (0, 4096), (0, 128), (0, 4096), (0, 128)];
        check(&ideal, &attention(false), &space, 512.0 * 8.0 * 16_777_216.0 / 312e12);
        check(&ideal, &attention(true), &space, 512.0 * 8.0 * 8_390_656.0 / 312e12);
        // A gather reads the rows it returns, not the table: 2 * 16 * 64 f32 and 16 ids of 8 bytes.
        let gather = Gather::rows(32000, 64, &[16], DType::F32);
        let gather = Op::Kernel(Kernel::Gather(gather)).spec(&[DType::F32, DType::I64]).unwrap();
        check(&real, &gather, &[(0, 16), (0, 64), (0, 32000)], 8320.0 / 1.555e12 + 2e-6);
    }

    #[test]
    fn arithmetic_binds_threads() {
        let mut thread = Machine::by_name("2xcpu").unwrap().devices[0].clone();
        (thread.elements, thread.under_softmax) = (None, None);
        let (map, queries) = (Region::of(&[(0, 1_000_000)]), attention(false));
        let space = queries.space();
        let near = |found: Seconds, expected: f64| assert!((found.0 - expected).abs() <= 1e-9 * expected, "{found}");
        near(kernel_seconds(&thread, &copy(1_000_000), &map), 8e6 / 24e9 + 2e-6);
        near(kernel_seconds(&thread, &queries, &space), 512.0 * 8.0 * 16_777_216.0 / 150e9 + 2e-6);
        thread.under_softmax = Some(30e9);
        near(kernel_seconds(&thread, &queries, &space), 512.0 * 8.0 * 16_777_216.0 / 30e9 + 2e-6);
        // Bytes and arithmetic add up: of a map; of a product, which has three matrices of 2-byte elements.
        thread.elements = Some(500e6);
        near(kernel_seconds(&thread, &exponential(1_000_000), &map), 1e6 / 500e6 + 8e6 / 24e9 + 2e-6);
        // A copy computes nothing.
        near(kernel_seconds(&thread, &copy(1_000_000), &map), 8e6 / 24e9 + 2e-6);
        let product = Region::of(&[(0, 64), (0, 64), (0, 64)]);
        near(kernel_seconds(&thread, &matmul(64, 64, 64), &product), 524_288.0 / 150e9 + 24_576.0 / 24e9 + 2e-6);
    }

    #[test]
    fn what_lies_between_fused_blocks_is_not_moved() {
        let device = |name: &str| Machine::by_name(name).unwrap().devices[0].clone();
        let (product, map) = (matmul(64, 64, 64), copy(4096));
        let (space, points) = (product.space(), map.space());
        let near = |found: Seconds, expected: f64| assert!((found.0 - expected).abs() <= 1e-9 * expected, "{found}");
        // One after the other: 3 and 2 matrices, of bf16 and of f32; together one of the product's less twice.
        let real = device("8xa100");
        let bytes = 3.0 * 8192.0 + 2.0 * 16384.0 - 2.0 * 8192.0;
        near(fused_seconds(&real, &[(&product, &space), (&map, &points)]), bytes / 1.555e12 + 2e-6);
        // Where maps are free, there is nothing to save.
        let ideal = device("8xa100-ideal");
        let alone = kernel_seconds(&ideal, &product, &space).0;
        near(fused_seconds(&ideal, &[(&product, &space), (&map, &points)]), alone);
    }

    #[test]
    fn local_copies_read_and_write() {
        let device = |name: &str| Machine::by_name(name).unwrap().devices[0].clone();
        assert_eq!(local_seconds(&device("8xa100"), 1e6).0, 2e6 / 1.555e12 + 2e-6);
        assert_eq!(local_seconds(&device("8xa100"), 0.0).0, 0.0);
        assert_eq!(local_seconds(&device("8xa100-ideal"), 1e6).0, 0.0);
        assert_eq!(touch_seconds(&device("8xa100"), 3e6).0, 3e6 / 1.555e12 + 2e-6);
    }
}
