//! Numbers in vector registers: what the loops of products need of `f32` and `f64` alike.
// The loops are compiled once for every set of instructions: only what is inlined is.
#![allow(clippy::inline_always)]

use pulp::Simd;

/// A type of numbers, and a vector register's worth of it.
pub(crate) trait Number: bytemuck::Pod + Default {
    type In<S: Simd>: Copy;
    /// Numbers of a register.
    fn lanes<S: Simd>() -> usize;
    /// A register full of one number.
    fn splat<S: Simd>(self, simd: S) -> Self::In<S>;
    fn add<S: Simd>(simd: S, a: Self::In<S>, b: Self::In<S>) -> Self::In<S>;
    /// `a b + c`, rounded once.
    fn mul_add<S: Simd>(simd: S, a: Self::In<S>, b: Self::In<S>, c: Self::In<S>) -> Self::In<S>;
    /// The first numbers of a register, zeros behind them.
    fn read<S: Simd>(simd: S, from: &[Self]) -> Self::In<S>;
    /// As many of a register's numbers as there is room for.
    fn write<S: Simd>(simd: S, to: &mut [Self], value: Self::In<S>);
    /// Whole registers of a slice.
    fn whole<S: Simd>(from: &[Self]) -> &[Self::In<S>];
    /// The same to be written.
    fn whole_mut<S: Simd>(of: &mut [Self]) -> &mut [Self::In<S>];
}

macro_rules! number {
    ($t:ty, $vector:ident, $lanes:ident, $splat:ident, $add:ident, $mul_add:ident, $load:ident, $store:ident, $whole:ident, $whole_mut:ident) => {
        impl Number for $t {
            type In<S: Simd> = S::$vector;
            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(self, simd: S) -> Self::In<S> {
                simd.$splat(self)
            }
            #[inline(always)]
            fn add<S: Simd>(simd: S, a: Self::In<S>, b: Self::In<S>) -> Self::In<S> {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: Self::In<S>, b: Self::In<S>, c: Self::In<S>) -> Self::In<S> {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn read<S: Simd>(simd: S, from: &[Self]) -> Self::In<S> {
                simd.$load(from)
            }
            #[inline(always)]
            fn write<S: Simd>(simd: S, to: &mut [Self], value: Self::In<S>) {
                simd.$store(to, value);
            }
            #[inline(always)]
            fn whole<S: Simd>(from: &[Self]) -> &[Self::In<S>] {
                S::$whole(from).0
            }
            #[inline(always)]
            fn whole_mut<S: Simd>(of: &mut [Self]) -> &mut [Self::In<S>] {
                S::$whole_mut(of).0
            }
        }
    };
}

number!(
    f32,
    f32s,
    F32_LANES,
    splat_f32s,
    add_f32s,
    mul_add_f32s,
    partial_load_f32s,
    partial_store_f32s,
    as_simd_f32s,
    as_mut_simd_f32s
);
number!(
    f64,
    f64s,
    F64_LANES,
    splat_f64s,
    add_f64s,
    mul_add_f64s,
    partial_load_f64s,
    partial_store_f64s,
    as_simd_f64s,
    as_mut_simd_f64s
);
