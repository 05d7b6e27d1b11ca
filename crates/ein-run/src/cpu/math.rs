//! Functions of one `f32` without branches, so that loops over them become vector code.
//!
//! Only additions, multiplications, divisions, bit shifts and selections are used, but in [`exp_fused`] never a fused
//! multiply-add: the bits are the same whatever instructions the machine has.
// Loops over these are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

/// `log2 e`.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// The upper bits of `ln 2`, few enough that products with small integers are exact, and the rest.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 · 2²³: added to a small number, it leaves that number's nearest integer in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// `yes` or `no` by their bits: of two long computations, a plain `if` would become a jump.
#[inline(always)]
fn choose(condition: bool, yes: f32, no: f32) -> f32 {
    let mask = 0u32.wrapping_sub(u32::from(condition));
    f32::from_bits((yes.to_bits() & mask) | (no.to_bits() & !mask))
}

/// `exp x`, within about 1 unit in the last place; results below 2⁻¹²⁵ are 0.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Selections written so that a NaN passes.
    let low = if x < -87.0 { -87.0 } else { x };
    let y = if low > 89.0 { 89.0 } else { low };
    let shifted = y * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (y - n * LN_2_HIGH) - n * LN_2_LOW;
    // The Taylor series: |r| <= ln 2 / 2, so the first term left out is below 6e-9.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = (p * r) * r + r + 1.0;
    // Times 2^n in two factors, as n = 128 is no exponent.
    let half = (shifted.to_bits() << 23).wrapping_sub(1 << 23);
    let scaled = f32::from_bits(p.to_bits().wrapping_add(half)) * 2.0;
    let scaled = if x < -86.9 { 0.0 } else { scaled };
    let scaled = if x > 88.73 { f32::INFINITY } else { scaled };
    if x.is_nan() { x } else { scaled }
}

/// `exp x` for `x <= 0`, within about 1 unit in the last place, by fused multiply-adds: for loops that run only where
/// there are instructions for them. Results below 2⁻¹²⁵ are 0, and so is that of a NaN.
#[inline(always)]
pub(crate) fn exp_fused(x: f32) -> f32 {
    const LOWEST: f32 = -86.5;
    let y = if x > LOWEST { x } else { LOWEST };
    let shifted = y.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, y));
    let p = r.mul_add(1.0 / 5040.0, 1.0 / 720.0);
    let p = p.mul_add(r, 1.0 / 120.0);
    let p = p.mul_add(r, 1.0 / 24.0);
    let p = p.mul_add(r, 1.0 / 6.0);
    let p = p.mul_add(r, 0.5);
    let p = (p * r).mul_add(r, r) + 1.0;
    let scaled = f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x >= LOWEST { scaled } else { 0.0 }
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let far = 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    // The Taylor series, where the difference above would cancel.
    let s = a * a;
    let p = 6_404_582.0 / 10_854_718_875.0;
    let p = p * s - 929_569.0 / 638_512_875.0;
    let p = p * s + 21_844.0 / 6_081_075.0;
    let p = p * s - 1382.0 / 155_925.0;
    let p = p * s + 62.0 / 2835.0;
    let p = p * s - 17.0 / 315.0;
    let p = p * s + 2.0 / 15.0;
    let p = p * s - 1.0 / 3.0;
    let near = (p * s) * a + a;
    choose(a < 0.55, near, far).copysign(x)
}

/// The error function, within 2e-7.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let a = x.abs();
    let s = a * a;
    // 2/√π · Σ (-1)ⁿ x²ⁿ⁺¹ / (n! (2n + 1)) for |x| < 1.
    let p = 1.0 / 76_204_800.0;
    let p = 1.0 / 6_894_720.0 - p * s;
    let p = 1.0 / 685_440.0 - p * s;
    let p = 1.0 / 75_600.0 - p * s;
    let p = 1.0 / 9360.0 - p * s;
    let p = 1.0 / 1320.0 - p * s;
    let p = 1.0 / 216.0 - p * s;
    let p = 1.0 / 42.0 - p * s;
    let p = 1.0 / 10.0 - p * s;
    let p = 1.0 / 3.0 - p * s;
    let near = std::f32::consts::FRAC_2_SQRT_PI * (a - (p * s) * a);
    // 1 - exp(-x²) times exp(x²) erfc x, interpolated at Chebyshev points of 1 / (1 + x/2) for 0.95 < x < 4.1.
    let t = 1.0 / (1.0 + 0.5 * a);
    let q = 0.010_707_965;
    let q = q * t + 0.076_919_23;
    let q = q * t - 0.398_311_16;
    let q = q * t + 0.492_367_62;
    let q = q * t - 0.060_896_49;
    let q = q * t + 0.331_479_6;
    let q = q * t + 0.263_552_34;
    let q = q * t + 0.284_394_1;
    let q = q * t - 0.000_124_003_38;
    let far = 1.0 - exp(-s) * q;
    let value = choose(a < 1.0, near, far);
    choose(a > 4.0, 1.0, value).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error over a range, relative to the larger of the value and `floor`.
    fn worst(f: fn(f32) -> f32, exact: fn(f64) -> f64, lo: f32, hi: f32, floor: f64) -> f64 {
        let n = 20_000;
        (0..=n)
            .map(|k| {
                let x = lo + (hi - lo) * k as f32 / n as f32;
                let e = exact(f64::from(x));
                (f64::from(f(x)) - e).abs() / e.abs().max(floor)
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn functions_are_near_the_exact_ones() {
        let check = |name: &str, error: f64, bound: f64| assert!(error < bound, "{name}: {error:e} >= {bound:e}");
        check("exp", worst(exp, f64::exp, -86.0, 88.7, 0.0), 1.8e-7);
        check("exp, fused", worst(exp_fused, f64::exp, -86.0, 0.0, 0.0), 1.8e-7);
        check("tanh", worst(tanh, f64::tanh, -10.0, 10.0, 1e-30), 3e-7);
        check("sigmoid", worst(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), -80.0, 80.0, 0.0), 3e-7);
        check("erf", worst(erf, libm::erf, -6.0, 6.0, 1e-30), 2e-7);
    }

    #[test]
    fn special_values() {
        let inf = f32::INFINITY;
        for (name, f, x, expected) in [
            ("exp", exp as fn(f32) -> f32, 0.0, 1.0),
            ("exp", exp, -inf, 0.0),
            ("exp", exp, inf, inf),
            ("exp", exp, 100.0, inf),
            ("exp", exp, -200.0, 0.0),
            ("exp", exp, f32::NAN, f32::NAN),
            ("exp, fused", exp_fused, 0.0, 1.0),
            ("exp, fused", exp_fused, -87.0, 0.0),
            ("exp, fused", exp_fused, -inf, 0.0),
            ("exp, fused", exp_fused, f32::NAN, 0.0),
            ("tanh", tanh, inf, 1.0),
            ("tanh", tanh, -inf, -1.0),
            ("tanh", tanh, -0.0, -0.0),
            ("tanh", tanh, f32::NAN, f32::NAN),
            ("sigmoid", sigmoid, -inf, 0.0),
            ("sigmoid", sigmoid, inf, 1.0),
            ("sigmoid", sigmoid, 0.0, 0.5),
            ("erf", erf, inf, 1.0),
            ("erf", erf, -5.0, -1.0),
            ("erf", erf, 0.0, 0.0),
            ("erf", erf, f32::NAN, f32::NAN),
        ] {
            let y = f(x);
            assert!(y == expected || (y.is_nan() && expected.is_nan()), "{name} {x} = {y}, not {expected}");
        }
    }
}
