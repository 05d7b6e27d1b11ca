//! The tile registers of x86-64 processors that have AMX: products of 32 by 32 results at once, of `bf16` factors with
//! sums in `f32`. The one file that speaks to them; stable Rust has no functions for these instructions. Where there are
//! none, vector registers may do the same products ([`super::dots`]).
//!
//! Linux hands the registers out on request, once for a process. A thread sets them up for as long as it holds a
//! [`Unit`], and gives them back, so that nobody saves 8 KiB of them with every change of threads in between.
//!
//! What the instruction does (Intel's instruction set reference, TDPBF16PS): for every result it adds up the products of
//! even inner indices of a tile and those of odd ones, each by fused multiply-adds in `f32`, from 0 on, then both to the
//! result. It rounds to nearest, and reads and leaves 0 instead of magnitudes below 2^-126.
#![allow(unsafe_code)]

use super::dots;
use std::cell::Cell;
use std::marker::PhantomData;

/// Rows of a tile register, and `f32` or pairs of `bf16` in one.
pub(crate) const SIDE: usize = 16;

/// Rows and columns of a result that is made at once: two by two registers.
pub(crate) const RESULT: usize = 2 * SIDE;

/// What a tile register holds: rows of pairs of `bf16`, the first of a pair in the low half.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Tile(pub(crate) [[u32; SIDE]; SIDE]);

// SAFETY: it is whole numbers without gaps: 1024 bytes, a multiple of its alignment.
unsafe impl bytemuck::Zeroable for Tile {}
// SAFETY: as above; it has no references and any bytes are one.
unsafe impl bytemuck::Pod for Tile {}

impl Tile {
    /// Zeros.
    pub(crate) const ZERO: Self = Self([[0; SIDE]; SIDE]);
}

/// Has `make` make a result of 32 by 32, of which `rows` and `columns` are wanted at the beginning of `out`, whose rows are
/// `apart`: there, or beside it where there is no room for all of it. With `add` it is given what is there.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn in_room(
    out: &mut [f32],
    apart: usize,
    [rows, columns]: [usize; 2],
    add: bool,
    make: impl FnOnce(&mut [f32], usize),
) {
    if rows == RESULT && columns == RESULT && apart >= RESULT {
        return make(out, apart);
    }
    let mut edge = [0.0; RESULT * RESULT];
    if add {
        for (edge, out) in edge.chunks_mut(RESULT).zip(out.chunks(apart)).take(rows) {
            edge[..columns].copy_from_slice(&out[..columns]);
        }
    }
    make(&mut edge, RESULT);
    for (edge, out) in edge.chunks(RESULT).zip(out.chunks_mut(apart)).take(rows) {
        out[..columns].copy_from_slice(&edge[..columns]);
    }
}

/// This thread's tile registers, set up: eight of 16 rows of 64 bytes; or what does products of `bf16` instead.
pub(crate) struct Unit {
    registers: Registers,
    /// They are the thread's.
    here: PhantomData<*mut ()>,
}

/// What a unit multiplies in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registers {
    Tiles,
    Vectors,
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx {
    use super::{RESULT, SIDE, Tile};
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    use std::sync::OnceLock;

    /// The instructions that multiply two by two pairs of registers.
    macro_rules! squares {
        () => {
            "tdpbf16ps tmm0, tmm4, tmm6
            tdpbf16ps tmm1, tmm4, tmm7
            tdpbf16ps tmm2, tmm5, tmm6
            tdpbf16ps tmm3, tmm5, tmm7
            "
        };
    }

    /// Loads two tiles that lie one after the other.
    macro_rules! left {
        ($first:literal, $second:literal) => {
            concat!("tileloadd tmm4, [{a} + {line} + ", $first, "]\ntileloadd tmm5, [{a} + {line} + ", $second, "]\n")
        };
    }
    macro_rules! right {
        ($first:literal, $second:literal) => {
            concat!("tileloadd tmm6, [{b} + {line} + ", $first, "]\ntileloadd tmm7, [{b} + {line} + ", $second, "]\n")
        };
    }

    /// Asks for four lines of what is read later to be brought to the second cache.
    macro_rules! near {
        ($a:literal, $b:literal, $c:literal, $d:literal) => {
            concat!(
                "prefetcht1 [{near} + ",
                $a,
                "]\nprefetcht1 [{near} + ",
                $b,
                "]\n",
                "prefetcht1 [{near} + ",
                $c,
                "]\nprefetcht1 [{near} + ",
                $d,
                "]\n",
            )
        };
    }

    /// A whole loop over the inner extent: what is in tile registers does not outlive a block of assembly.
    macro_rules! product {
        (
            $left:expr, $right:expr, $steps:expr, $out:expr, $apart:expr, $add:expr, $near:expr,
            $each:literal, $lines:literal, $($line:expr),*
        ) => {
            asm!(
                "test {add}, {add}",
                "jz 2f",
                "tileloadd tmm0, [{c} + {apart}]",
                "tileloadd tmm1, [{c} + {apart} + 64]",
                "tileloadd tmm2, [{d} + {apart}]",
                "tileloadd tmm3, [{d} + {apart} + 64]",
                "jmp 3f",
                "2:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "3:",
                $($line,)*
                concat!("add {a}, ", $each),
                concat!("add {b}, ", $each),
                concat!("add {near}, ", $lines),
                "dec {steps}",
                "jnz 3b",
                "tilestored [{c} + {apart}], tmm0",
                "tilestored [{c} + {apart} + 64], tmm1",
                "tilestored [{d} + {apart}], tmm2",
                "tilestored [{d} + {apart} + 64], tmm3",
                a = inout(reg) $left => _,
                b = inout(reg) $right => _,
                steps = inout(reg) $steps => _,
                near = inout(reg) $near => _,
                c = in(reg) $out,
                d = in(reg) $out.add(SIDE * $apart),
                apart = in(reg) $apart * size_of::<f32>(),
                line = in(reg) 64usize,
                add = in(reg) usize::from($add),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            )
        };
    }

    /// Whether the processor has tile registers with `bf16` products and AVX-512, and Linux lets this process use them.
    pub(super) fn available() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        *FOUND.get_or_init(|| {
            // AMX-TILE and AMX-BF16; the panels of a packed factor are as wide as AVX-512 makes them.
            let has = |bits: u32, bit: u32| bits >> bit & 1 == 1;
            let features = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).edx } else { 0 };
            let tiles = has(features, 24) && has(features, 22) && is_x86_feature_detected!("avx512f");
            // SAFETY: with AVX-512 the system has switched on XGETBV.
            let system = tiles && unsafe { _xgetbv(0) } >> 17 & 3 == 3;
            system && permitted()
        })
    }

    /// Asks Linux for the data of tile registers: `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`. A call of
    /// three registers, for which alone no library is worth depending on.
    fn permitted() -> bool {
        let mut answer: i64 = 158;
        // SAFETY: the call reads no memory of ours and changes none; Linux clobbers `rcx` and `r11` as told.
        unsafe {
            asm!(
                "syscall",
                inout("rax") answer,
                in("rdi") 0x1023,
                in("rsi") 18,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        answer == 0
    }

    /// Sets up all eight registers: 16 rows of 64 bytes. The processor has them and Linux permits them.
    pub(super) fn configure() {
        #[repr(C, align(64))]
        struct Palette([u8; 64]);
        static PALETTE: Palette = {
            let mut bytes = [0; 64];
            bytes[0] = 1;
            let mut register = 0;
            while register < 8 {
                bytes[16 + 2 * register] = 64;
                bytes[48 + register] = SIDE as u8;
                register += 1;
            }
            Palette(bytes)
        };
        // SAFETY: the caller knows that the instruction is there; it reads 64 bytes, which the palette has.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const PALETTE, options(nostack, readonly));
        }
    }

    /// Gives the registers back.
    pub(super) fn release() {
        // SAFETY: the caller knows that the instruction is there; it changes tile registers only.
        unsafe {
            asm!("tilerelease", options(nostack, nomem));
        }
    }

    /// Rows as columns, in registers.
    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose(from: &[f32], apart: usize, to: &mut [[f32; SIDE]; SIDE]) {
        use std::arch::x86_64::{
            _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps,
            _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
        };
        let from = &from[..(SIDE - 1) * apart + SIDE];
        // SAFETY: a row's 64 bytes lie in the slice, as the last one's do.
        let row = |n: usize| unsafe { _mm512_loadu_ps(from.as_ptr().add(n * apart)) };
        let mut quads = [row(0); SIDE];
        for n in 0..4 {
            let [a, b, c, d] = [row(4 * n), row(4 * n + 1), row(4 * n + 2), row(4 * n + 3)];
            let (ab, cd) = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
            let pairs = [(ab, cd), (ab_high, cd_high)].map(|(x, y)| (_mm512_castps_pd(x), _mm512_castps_pd(y)));
            for (half, (ab, cd)) in pairs.into_iter().enumerate() {
                quads[4 * n + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
                quads[4 * n + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
            }
        }
        // Register `4 * n + c` has columns `c`, `4 + c`, `8 + c` and `12 + c` of rows `4 * n..4 * n + 4`.
        for c in 0..4 {
            let [a, b, d, e] = [quads[c], quads[4 + c], quads[8 + c], quads[12 + c]];
            let (first, second) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0x44>(d, e));
            let (third, fourth) = (_mm512_shuffle_f32x4::<0xee>(a, b), _mm512_shuffle_f32x4::<0xee>(d, e));
            let columns = [
                _mm512_shuffle_f32x4::<0x88>(first, second),
                _mm512_shuffle_f32x4::<0xdd>(first, second),
                _mm512_shuffle_f32x4::<0x88>(third, fourth),
                _mm512_shuffle_f32x4::<0xdd>(third, fourth),
            ];
            for (lane, column) in columns.into_iter().enumerate() {
                // SAFETY: a row has the 64 bytes that are written.
                unsafe { _mm512_storeu_ps(to[4 * lane + c].as_mut_ptr(), column) };
            }
        }
    }

    /// How many steps both factors have, of tiles on either side in each. Panics where that is none or not the same, or where
    /// a result whose rows are `apart` does not lie in its slice.
    fn steps([left, right]: [usize; 2], each: usize, out: &[f32], apart: usize) -> usize {
        let steps = left / each;
        assert!(steps > 0 && left == each * steps && right == left, "as many steps on either side");
        assert!(apart >= RESULT && out.len() >= (RESULT - 1) * apart + RESULT, "the result lies in its slice");
        steps
    }

    /// The product of [`super::Unit::thirds`].
    pub(super) fn thirds(left: &[Tile], right: &[Tile], out: &mut [f32], apart: usize, add: bool, near: &[Tile]) {
        let steps = steps([left.len(), right.len()], 6, out, apart);
        let (a, b, c) = (left.as_ptr(), right.as_ptr(), out.as_mut_ptr());
        // SAFETY: the registers are set up (a `Unit` lives); per step 6 KiB are read on either side, which are there, and
        // 32 rows of 32 results, `apart` from each other, lie in `out`, which is borrowed mutably (asserted above).
        unsafe {
            // Both of the smaller parts first; each turn but the first keeps one side's part.
            product!(
                a,
                b,
                steps,
                c,
                apart,
                add,
                near.as_ptr(),
                "6144",
                "768",
                left!("4096", "5120"),
                right!("0", "1024"),
                squares!(),
                near!("0", "64", "128", "192"),
                left!("2048", "3072"),
                squares!(),
                right!("2048", "3072"),
                squares!(),
                near!("256", "320", "384", "448"),
                left!("0", "1024"),
                squares!(),
                right!("4096", "5120"),
                squares!(),
                near!("512", "576", "640", "704"),
                right!("0", "1024"),
                squares!()
            );
        }
    }

    /// The product of [`super::Unit::whole`].
    pub(super) fn whole(left: &[Tile], right: &[u16], out: &mut [f32], apart: usize, add: bool, near: &[Tile]) {
        let steps = steps([left.len(), size_of_val(right) / size_of::<Tile>()], 2, out, apart);
        let (a, b, c) = (left.as_ptr(), right.as_ptr(), out.as_mut_ptr());
        // SAFETY: as in `thirds`, of 2 KiB a step on either side; loads need no alignment.
        unsafe {
            product!(
                a,
                b,
                steps,
                c,
                apart,
                add,
                near.as_ptr(),
                "2048",
                "256",
                left!("0", "1024"),
                right!("0", "1024"),
                squares!(),
                near!("0", "64", "128", "192")
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod amx {
    use super::Tile;

    pub(super) fn available() -> bool {
        false
    }
    pub(super) fn configure() {}
    pub(super) fn release() {}
    pub(super) fn thirds(_: &[Tile], _: &[Tile], _: &mut [f32], _: usize, _: bool, _: &[Tile]) {
        unreachable!("there are no tile registers")
    }
    pub(super) fn whole(_: &[Tile], _: &[u16], _: &mut [f32], _: usize, _: bool, _: &[Tile]) {
        unreachable!("there are no tile registers")
    }
}

/// Whether products are done in tile registers here: the processor has them with `bf16` products, and Linux permits them.
pub(crate) fn available() -> bool {
    #[cfg(test)]
    if tests::way() == Some(false) {
        return false;
    }
    amx::available()
}

/// Whether products of `bf16` are done as they are: in tile registers, or by pairs in vector registers.
pub(crate) fn multiply_halves() -> bool {
    registers().is_some()
}

/// What products of `bf16` are done in.
fn registers() -> Option<Registers> {
    if available() {
        return Some(Registers::Tiles);
    }
    #[cfg(test)]
    if tests::way() == Some(false) {
        return None;
    }
    dots::available().then_some(Registers::Vectors)
}

thread_local! {
    /// How many units with tile registers this thread has.
    static OPEN: Cell<usize> = const { Cell::new(0) };
}

impl Unit {
    /// Sets this thread's tile registers up, where there are any.
    pub(crate) fn open() -> Option<Self> {
        available().then(|| Self::of(Registers::Tiles))
    }

    /// The same for products of `bf16` as they are, which vector registers do, too.
    pub(crate) fn of_halves() -> Option<Self> {
        registers().map(Self::of)
    }

    fn of(registers: Registers) -> Self {
        if registers == Registers::Tiles && OPEN.replace(OPEN.get() + 1) == 0 {
            amx::configure();
        }
        Self { registers, here: PhantomData }
    }

    /// 32 rows by 32 columns of a product whose factors are sums of three parts, of which the products of the two smallest
    /// and of the smallest with the middle one are left out.
    ///
    /// For every 32 inner indices `left` has six tiles: the upper and the lower 16 rows of the largest part, of the middle
    /// one, of the smallest; `right` likewise the left and the right 16 columns, rows being pairs of inner indices. Rows
    /// of `out` are `apart` elements from each other; the product is added to it or takes its place. From where `near`
    /// begins, an eighth of what `left` takes is meanwhile brought to the second cache.
    ///
    /// Panics where the factors have different inner extents, or none, or `out` is too short, and where the unit is
    /// not of tile registers.
    pub(crate) fn thirds(
        &self,
        left: &[Tile],
        right: &[Tile],
        out: &mut [f32],
        apart: usize,
        add: bool,
        near: &[Tile],
    ) {
        assert!(self.registers == Registers::Tiles, "products of parts are done in tile registers");
        amx::thirds(left, right, out, apart, add, near);
    }

    /// The same of factors that are `bf16` as they stand: two tiles for every 32 inner indices, those of `right` by their
    /// elements. Of the rows the first so many are wanted; what becomes of the others is not said.
    pub(crate) fn whole(
        &self,
        rows: usize,
        left: &[Tile],
        right: &[u16],
        out: &mut [f32],
        apart: usize,
        add: bool,
        near: &[Tile],
    ) {
        match self.registers {
            Registers::Tiles => amx::whole(left, right, out, apart, add, near),
            Registers::Vectors => dots::whole(rows, left, right, out, apart, add),
        }
    }
}

/// The columns of 16 rows of 16 elements, which are `apart` elements from each other. Panics where the last is not there.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn transpose(from: &[f32], apart: usize, to: &mut [[f32; SIDE]; SIDE]) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512.
        return unsafe { amx::transpose(from, apart, to) };
    }
    for (n, line) in to.iter_mut().enumerate() {
        for (m, x) in line.iter_mut().enumerate() {
            *x = from[m * apart + n];
        }
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if self.registers != Registers::Tiles {
            return;
        }
        OPEN.set(OPEN.get() - 1);
        if OPEN.get() == 0 {
            amx::release();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    thread_local! {
        static WAY: Cell<Option<bool>> = const { Cell::new(None) };
    }

    /// Whether this thread's products are all to be done in tiles, or none; `None` as shapes say.
    pub(crate) fn way() -> Option<bool> {
        WAY.get()
    }

    fn by<T>(way: bool, work: impl FnOnce() -> T) -> T {
        let before = WAY.replace(Some(way));
        let done = work();
        WAY.set(before);
        done
    }

    /// Does something on this thread as on a processor without tile registers.
    pub(crate) fn without<T>(work: impl FnOnce() -> T) -> T {
        by(false, work)
    }

    /// Does something with products of `bf16` as they are; `None`, which is told, where neither tile registers nor vector
    /// registers do them.
    pub(crate) fn with_halves<T>(work: impl FnOnce() -> T) -> Option<T> {
        if !multiply_halves() {
            println!("skipped: this processor has neither tile registers (AMX) nor products of pairs (AVX512-BF16)");
            return None;
        }
        Some(work())
    }

    /// Does something with all products in tiles, whatever their shapes; `None`, which is told, where there are none.
    pub(crate) fn within<T>(work: impl FnOnce() -> T) -> Option<T> {
        if !amx::available() {
            println!("skipped: this processor has no tile registers (AMX), or Linux does not lend them");
            return None;
        }
        Some(by(true, work))
    }

    #[test]
    fn units_of_a_thread_may_overlap() {
        let Some(outer) = within(Unit::open).flatten() else { return };
        drop(Unit::open());
        // 1 in the low half of pair 3 of row 18, largest part.
        let mut left = [Tile::ZERO; 6];
        left[1].0[2][3] = 0x3f80;
        // 2 in the low half of pair 3 in column 21, smallest part.
        let mut right = [Tile::ZERO; 6];
        right[5].0[3][5] = 0x4000;
        let mut out = [1.0f32; 33 * RESULT];
        outer.thirds(&left, &right, &mut out[..31 * 33 + 32], 33, false, &[]);
        assert_eq!((out[18 * 33 + 21], out[0], out[32], out[33]), (2.0, 0.0, 1.0, 0.0));
        outer.thirds(&left, &right, &mut out[..31 * 33 + 32], 33, true, &[]);
        assert_eq!(out[18 * 33 + 21], 4.0);
        assert_eq!(out.iter().filter(|&&x| x != 0.0).count(), 1 + 32);
    }
}
