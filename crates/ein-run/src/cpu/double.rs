//! Functions of one or two `f32`, computed in `f64` without branches, so that loops over them become vector code.
//!
//! Each is within 0.51 units in the last place of its `f32` result, subnormal ones included, and has the exact
//! function's value at zeros, infinities and NaN. As in [`math`](super::math), nothing is fused: the bits are the
//! same whatever instructions the machine has.
// Loops over these are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, LOG10_E, PI};

/// 1.5 · 2⁵²: added to a small number, it leaves that number's nearest integer in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Above this magnitude the products that bring an angle near 0 would round.
pub(crate) const FARTHEST: f32 = 1e6;

/// `yes` or `no` by their bits: of two long computations, a plain `if` would become a jump.
#[inline(always)]
fn choose(condition: bool, yes: f64, no: f64) -> f64 {
    let mask = 0u64.wrapping_sub(u64::from(condition));
    f64::from_bits((yes.to_bits() & mask) | (no.to_bits() & !mask))
}

/// The polynomial with these coefficients, highest power first.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: [f64; N], x: f64) -> f64 {
    let mut value = coefficients[0];
    for c in &coefficients[1..] {
        value = value * x + c;
    }
    value
}

/// e to the power `x`: beyond ±700, which no `f32` reaches, the value there.
#[inline(always)]
fn e_to(x: f64) -> f64 {
    // Selections written so that a NaN passes.
    let low = if x < -700.0 { -700.0 } else { x };
    let y = if low > 700.0 { 700.0 } else { low };
    let shifted = y * LOG2_E + ROUND;
    let r = y - (shifted - ROUND) * LN_2;
    // The Taylor series: |r| <= ln 2 / 2, so the first term left out is below 7e-12.
    let p = polynomial(
        [1.0 / 362_880.0, 1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0],
        r,
    );
    let scaled = f64::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 52));
    choose(x.is_nan(), x, scaled)
}

/// The natural logarithm.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    /// The root of one half.
    const LOW: u64 = 0x3fe6_a09e_667f_3bcd;
    /// 2⁵², whose lowest bits count ones.
    const COUNT: u64 = 0x4330_0000_0000_0000;
    // x = m · 2^e with m between the roots of 1/2 and 2.
    let turned = x.to_bits().wrapping_add(ONE - LOW);
    let e = f64::from_bits(COUNT | (turned >> 52)) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits((turned & 0x000f_ffff_ffff_ffff) + LOW);
    // ln m = 2 artanh s, |s| <= 0.172: the first term left out is below 2e-14 of it.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let p = polynomial([1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0], z);
    let value = e * LN_2 + (2.0 * s + 2.0 * s * (z * p));
    let value = choose(x == 0.0, f64::NEG_INFINITY, value);
    let value = choose(x == f64::INFINITY, f64::INFINITY, value);
    // Of negative numbers and NaN.
    if x >= 0.0 { value } else { f64::NAN }
}

/// `ln(1 + x)`, exact near 0: what rounding took from `1 + x` is put back.
#[inline(always)]
fn ln_1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let value = ln(u) + (x - (u - 1.0)) / u;
    let infinite = u == 0.0 || u == f64::INFINITY;
    choose(infinite, ln(u), value)
}

/// The arc tangent of a number that is not negative.
#[inline(always)]
fn arc(a: f64) -> f64 {
    // By tan(x - π/4) and tan(x - π/2), so that |u| <= √2 - 1 and the first term left out is below 1e-11.
    let (middle, large) = (a > std::f64::consts::SQRT_2 - 1.0, a > std::f64::consts::SQRT_2 + 1.0);
    let u = choose(large, -1.0 / a, choose(middle, (a - 1.0) / (a + 1.0), a));
    let start = if large { FRAC_PI_2 } else { FRAC_PI_4 };
    let start = if middle { start } else { 0.0 };
    let s = u * u;
    let p = polynomial(
        [
            1.0 / 25.0,
            -1.0 / 23.0,
            1.0 / 21.0,
            -1.0 / 19.0,
            1.0 / 17.0,
            -1.0 / 15.0,
            1.0 / 13.0,
            -1.0 / 11.0,
            1.0 / 9.0,
            -1.0 / 7.0,
            1.0 / 5.0,
            -1.0 / 3.0,
        ],
        s,
    );
    start + (u + u * (s * p))
}

/// Sine and cosine of what is left of an angle, and the quarter turns that were taken from it, in the lowest bits.
#[inline(always)]
fn circle(x: f32) -> (f64, f64, u64) {
    /// π/2 in 33 bits, so that a product with 20 bits is exact, and the rest.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let shifted = x * FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * HIGH) - n * LOW;
    let s = r * r;
    let p = polynomial([-1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0], s);
    let q =
        polynomial([1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0], s);
    ((p * s) * r + r, q, shifted.to_bits())
}

/// The sine of an angle up to [`FARTHEST`] in magnitude.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    let (sin, cos, turns) = circle(x);
    let value = choose(turns & 1 == 0, sin, cos);
    let value = (if turns & 2 == 0 { value } else { -value }) as f32;
    // Minus zero, of which the sum above makes zero.
    if x == 0.0 { x } else { value }
}

/// The cosine of an angle up to [`FARTHEST`] in magnitude.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    let (sin, cos, turns) = circle(x);
    let value = choose(turns & 1 == 0, cos, sin);
    (if turns.wrapping_add(1) & 2 == 0 { value } else { -value }) as f32
}

/// The tangent of an angle up to [`FARTHEST`] in magnitude.
#[inline(always)]
pub(crate) fn tan(x: f32) -> f32 {
    let (sin, cos, turns) = circle(x);
    let even = turns & 1 == 0;
    let value = (choose(even, sin, -cos) / choose(even, cos, sin)) as f32;
    if x == 0.0 { x } else { value }
}

/// `asin x`.
#[inline(always)]
pub(crate) fn asin(x: f32) -> f32 {
    let a = f64::from(x.abs());
    (arc(a / ((1.0 - a) * (1.0 + a)).sqrt()) as f32).copysign(x)
}

/// `acos x`.
#[inline(always)]
pub(crate) fn acos(x: f32) -> f32 {
    let x = f64::from(x);
    (2.0 * arc(((1.0 - x) / (1.0 + x)).sqrt())) as f32
}

/// `atan x`.
#[inline(always)]
pub(crate) fn atan(x: f32) -> f32 {
    (arc(f64::from(x.abs())) as f32).copysign(x)
}

/// The angle of the point `(x, y)`.
#[inline(always)]
pub(crate) fn atan2(y: f32, x: f32) -> f32 {
    let (a, b) = (f64::from(y.abs()), f64::from(x.abs()));
    let ratio = choose(a == b, 1.0, a / b);
    let ratio = if a == 0.0 && b == 0.0 { 0.0 } else { ratio };
    let angle = arc(ratio);
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    (angle as f32).copysign(y)
}

/// `sinh x`.
#[inline(always)]
pub(crate) fn sinh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let s = a * a;
    let p = polynomial([1.0 / 39_916_800.0, 1.0 / 362_880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0], s);
    let e = e_to(a);
    (choose(a < 1.0, a + a * (s * p), 0.5 * (e - 1.0 / e)) as f32).copysign(x)
}

/// `cosh x`.
#[inline(always)]
pub(crate) fn cosh(x: f32) -> f32 {
    let e = e_to(f64::from(x));
    (0.5 * (e + 1.0 / e)) as f32
}

/// `asinh x`.
#[inline(always)]
pub(crate) fn asinh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let square = a * a;
    let value = ln_1p(a + square / (1.0 + (1.0 + square).sqrt()));
    (choose(a == f64::INFINITY, a, value) as f32).copysign(x)
}

/// `acosh x`.
#[inline(always)]
pub(crate) fn acosh(x: f32) -> f32 {
    let t = f64::from(x) - 1.0;
    let value = ln_1p(t + (t * (t + 2.0)).sqrt());
    (if t >= 0.0 { value } else { f64::NAN }) as f32
}

/// `atanh x`.
#[inline(always)]
pub(crate) fn atanh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let value = 0.5 * ln_1p(2.0 * a / (1.0 - a));
    ((if a <= 1.0 { value } else { f64::NAN }) as f32).copysign(x)
}

/// `2^x`.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    e_to(f64::from(x) * LN_2) as f32
}

/// `exp(x) - 1`.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    let wide = f64::from(x);
    // The Taylor series, where the difference would cancel.
    let p = polynomial(
        [1.0 / 39_916_800.0, 1.0 / 3_628_800.0, 1.0 / 362_880.0, 1.0 / 40_320.0, 1.0 / 5040.0, 1.0 / 720.0],
        wide,
    );
    let p = polynomial([p, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5], wide);
    let value = choose(wide.abs() < 0.5, wide + (wide * wide) * p, e_to(wide) - 1.0) as f32;
    if x == 0.0 { x } else { value }
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    ln(f64::from(x)) as f32
}

/// The logarithm to base 2.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    (ln(f64::from(x)) * LOG2_E) as f32
}

/// The logarithm to base 10.
#[inline(always)]
pub(crate) fn log10(x: f32) -> f32 {
    (ln(f64::from(x)) * LOG10_E) as f32
}

/// `log(1 + x)`.
#[inline(always)]
pub(crate) fn log1p(x: f32) -> f32 {
    let value = ln_1p(f64::from(x)) as f32;
    if x == 0.0 { x } else { value }
}

/// `1 - erf x`: `exp(-x²)` times `exp(x²) erfc x`, interpolated at Chebyshev points of `(x - 3) / (x + 3)` for
/// `0 <= x <= 10.6`, beyond which no `f32` is small enough.
#[inline(always)]
pub(crate) fn erfc(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let a = if a > 10.6 { 10.6 } else { a };
    let p = polynomial(
        [
            -1.230_572_591_995_088_7e-6,
            -9.830_366_607_253_826e-6,
            -1.084_089_349_270_631_5e-5,
            6.640_071_483_556_382e-5,
            4.510_504_267_484_777e-5,
            -5.979_537_198_744_35e-4,
            7.076_165_008_513_738e-4,
            4.269_288_549_976_373e-3,
            -2.439_246_758_168_749_4e-2,
            7.166_582_521_851_947e-2,
            -1.501_159_388_409_728_2e-1,
            2.456_038_020_770_133_5e-1,
            -3.262_335_599_994_503_6e-1,
            1.790_011_511_794_261e-1,
        ],
        (a - 3.0) / (a + 3.0),
    );
    let tail = e_to(-a * a) * p;
    (if x < 0.0 { 2.0 - tail } else { tail }) as f32
}

/// The inverse of the error function: `x` times polynomials in `w = -ln(1 - x²)` and, for large `w`, in its root, as
/// Giles proposes (GPU Computing Gems, 2010), interpolated at Chebyshev points of `w <= 5` and `√w <= 4.01`.
#[inline(always)]
pub(crate) fn erfinv(x: f32) -> f32 {
    let wide = f64::from(x);
    let w = -ln((1.0 - wide) * (1.0 + wide));
    let near = polynomial(
        [
            -2.796_041_048_433_219_5e-13,
            -2.051_840_961_433_056_2e-11,
            1.286_157_267_873_015_6e-10,
            8.198_350_424_588_279e-10,
            -1.089_716_865_701_676_7e-8,
            1.378_211_098_166_745_7e-8,
            4.788_011_625_385_882e-7,
            -3.417_409_529_690_375e-6,
            -4.996_157_075_714_713e-6,
            2.182_510_816_956_958e-4,
            -1.252_707_877_863_829_2e-3,
            -4.177_318_042_578_073e-3,
            2.466_402_767_422_610_5e-1,
            1.501_409_351_131_071_5,
        ],
        w - 2.5,
    );
    let far = polynomial(
        [
            -3.827_628_657_564_851e-6,
            1.165_791_192_022_032_6e-5,
            -5.660_369_431_945_297e-7,
            -5.839_882_708_269_005_4e-5,
            1.376_087_597_641_827_2e-4,
            -8.997_852_957_335_476e-5,
            -3.290_824_956_974_230_7e-4,
            1.260_814_528_624_600_8e-3,
            -2.519_826_620_528_649e-3,
            3.794_398_942_358_749e-3,
            -5.301_013_450_547_237e-3,
            7.047_885_510_737_195e-3,
            1.003_718_691_823_726_4,
            2.958_320_150_231_531_7,
        ],
        w.sqrt() - 3.125,
    );
    let value = wide * choose(w < 5.0, near, far);
    choose(wide.abs() == 1.0, wide * f64::INFINITY, value) as f32
}

/// `a^b` as C's `pow`.
#[inline(always)]
pub(crate) fn pow(a: f32, b: f32) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let value = e_to(b * ln(a.abs()));
    // 1 to any power, also by an infinity or NaN.
    let value = if a.abs() == 1.0 && !b.is_nan() { 1.0 } else { value };
    let whole = b.trunc() == b;
    let half = 0.5 * b;
    let odd = whole && half.trunc() != half;
    let value = if a.is_sign_negative() && odd { -value } else { value };
    let value = if a < 0.0 && a > f64::NEG_INFINITY && !whole { f64::NAN } else { value };
    (if a == 1.0 || b == 0.0 { 1.0 } else { value }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::expr::{Binary, Unary};
    use ein_ir::scalar::{self, Scalar};

    type One = fn(f32) -> f32;
    type Two = fn(f32, f32) -> f32;

    /// Distance in units in the last place of the exact value's `f32`.
    fn distance(found: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if found.to_bits() == rounded.to_bits() || (found.is_nan() && exact.is_nan()) {
            return 0.0;
        }
        if found.is_infinite() || rounded.is_infinite() || found.is_nan() || exact.is_nan() {
            // Rounding to infinity starts half a unit above the largest number.
            let edge = f64::from(f32::MAX) * (1.0 + 2f64.powi(-25));
            let near = (exact.abs() / edge - 1.0).abs() < 1e-8 && (found > 0.0) == (exact > 0.0);
            return if near { 0.5 } else { f64::INFINITY };
        }
        let below = rounded.abs().to_bits().min(f32::MAX.to_bits() - 1);
        let unit = f64::from(f32::from_bits(below + 1)) - f64::from(f32::from_bits(below));
        let signs = found.is_sign_negative() == exact.is_sign_negative();
        if signs { (f64::from(found) - exact).abs() / unit } else { f64::INFINITY }
    }

    /// Bits of numbers of all sizes and signs, the special ones and their neighbours among them.
    fn sweep(step: usize) -> impl Iterator<Item = f32> {
        let special = [0.0, f32::MIN_POSITIVE, 0.5, 1.0, 2.0, 5.0, 10.05, 88.7, 1e6, f32::MAX, f32::INFINITY];
        let near = |x: f32| (-2..=2).map(move |d: i32| f32::from_bits(x.to_bits().saturating_add_signed(d)));
        let all = (0..=u32::MAX).step_by(step).map(f32::from_bits);
        special.into_iter().flat_map(near).flat_map(|x| [x, -x]).chain([f32::NAN]).chain(all)
    }

    #[test]
    fn functions_of_one_number_round_well() {
        let rows: [(One, Unary, f32); 20] = [
            (sin, Unary::Sin, FARTHEST),
            (cos, Unary::Cos, FARTHEST),
            (tan, Unary::Tan, FARTHEST),
            (asin, Unary::Asin, f32::INFINITY),
            (acos, Unary::Acos, f32::INFINITY),
            (atan, Unary::Atan, f32::INFINITY),
            (sinh, Unary::Sinh, f32::INFINITY),
            (cosh, Unary::Cosh, f32::INFINITY),
            (asinh, Unary::Asinh, f32::INFINITY),
            (acosh, Unary::Acosh, f32::INFINITY),
            (atanh, Unary::Atanh, f32::INFINITY),
            (exp2, Unary::Exp2, f32::INFINITY),
            (expm1, Unary::Expm1, f32::INFINITY),
            (log, Unary::Log, f32::INFINITY),
            (log2, Unary::Log2, f32::INFINITY),
            (log10, Unary::Log10, f32::INFINITY),
            (log1p, Unary::Log1p, f32::INFINITY),
            (erfc, Unary::Erfc, f32::INFINITY),
            (erfinv, Unary::Erfinv, f32::INFINITY),
            (|x| pow(x, 3.0), Unary::Neg, f32::INFINITY),
        ];
        for (f, function, farthest) in rows {
            let exact = |x: f32| match function {
                Unary::Neg => f64::from(x).powi(3),
                _ => scalar::unary(function, Scalar::F(f64::from(x)), DType::F64).to_f64(),
            };
            let (mut worst, mut at) = (0.0, 0.0);
            for x in sweep(4_999).filter(|x| x.is_nan() || x.abs() <= farthest) {
                let d = distance(f(x), exact(x));
                if d > worst {
                    (worst, at) = (d, x);
                }
            }
            assert!(worst < 0.51, "{function:?} of {at:e}: {:e}, not {:e}: {worst} units", f(at), exact(at));
        }
    }

    #[test]
    fn functions_of_two_numbers_round_well() {
        let rows: [(Two, Binary); 2] = [(pow, Binary::Pow), (atan2, Binary::Atan2)];
        let small = [-3.0, -2.5, -1.0, -0.5, -1e-20, 0.3, 0.5, 1.0, 1.1, 2.0, 7.0, 16_777_217.0, 33.0];
        for (f, function) in rows {
            let check = |a: f32, b: f32| {
                let (x, y) = (Scalar::F(f64::from(a)), Scalar::F(f64::from(b)));
                let exact = scalar::binary(function, x, y, DType::F64).to_f64();
                let d = distance(f(a, b), exact);
                assert!(d < 0.51, "{function:?} of {a:e} and {b:e}: {:e}, not {exact:e}: {d} units", f(a, b));
            };
            for x in sweep(7_999_993) {
                for y in sweep(99_999_989).chain(small) {
                    check(x, y);
                }
                for y in small {
                    check(y, x);
                }
            }
        }
    }
}
