//! Attention, one of five kernels (their algorithms are in `attention*.cuh`):
//!
//! * *rows*: any type and head size, a block for each row. Every row reads its keys: `2 (d + e)` operations for each, from
//!   the caches where rows share them.
//! * *squares*: any float, many rows. A block takes 64 rows over tiles of keys, which come from memory once for all of them,
//!   and multiplies without tensor cores, in squares of registers.
//! * *tiles*: 16-bit floats, many rows. A block takes 64 or 128 rows: queries of a head and, with grouped heads, those of
//!   all heads that share keys, so that these come from memory once for the group.
//! * *groups*: the same by `wgmma` and bulk copies, which Hopper alone has; where it is asked for.
//! * *split*: 16-bit floats, few rows of many keys: decoding. Blocks share the keys, whose bytes are all that matters, and
//!   leave parts in scratch memory that a second kernel folds in order.
//!
//! The budget of *tiles* for d = e = 128: 4 warps of 32 rows and tiles of 32 keys. Shared memory: 128 rows of q, 2 tiles
//! of k and of v, rows of 272 bytes: 34 816 + 2 · 2 · 8 704 + 1 032 = 70 664 bytes, so that an SM of 164 KiB has two
//! blocks. Registers: 128 of accumulators, 32 of scores, 16 of weights, 8 + 4 of fragments, about 40 of addresses and
//! state: below 255.
//!
//! That of *groups* for d = e = 128: 8 warps of 16 rows that multiply, one that fetches, and tiles of 128 keys. Shared
//! memory: 128 rows of q, 2 tiles of k and of v, lines of 128 bytes: 32 768 + 2 · 2 · 32 768 and 2 KiB, one block for an SM.
//! Registers: 240 for threads that multiply (64 of accumulators, 64 of scores, 32 of weights), 24 for the others. A tile is
//! 8.4 M operations, at 4 096 a clock 2 048 clocks, and 16 384 powers of 2, at 16 a clock 1 024, which the other group's
//! products hide; its 64 KiB come by four instructions of one thread.
//!
//! Where there are fewer blocks of *tiles* or *groups* than multiprocessors, blocks share keys as those of *split* do.

mod maps;
mod structs;
mod ways;

use super::{given, launch, own_box};
use crate::generate::Call;
use crate::generate::stored::{Stored, alignment};
use crate::program::{Arg, Base, Kernel, Launch, Place, Program, Step, Target};
use ein_ir::dtype::DType;
use ein_ir::kernel::Attention;
use ein_ir::region::{Interval, strides};
use ein_run::Cause;

/// Rows that *split* takes where there are too few for *tiles* to fill a device.
const FEW: usize = 64;
/// Rows of which no block of another kernel than *rows* and *split* is worth filling a part.
const FEWEST: usize = 16;
/// The largest heads of *tiles* and *groups*.
const LARGEST: usize = 256;

/// A block of attention: its (max, sum, acc), or acc / sum when it is finished.
pub(super) fn program(a: &Attention, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
    let [b, h, s, e, t, d] = call.labels.0[..6] else { return Err(Cause::malformed("attention has six labels")) };
    let keys = a.band().map_or(t, |band| band.seen(s, t));
    if call.labels.is_empty() || keys.is_empty() {
        return super::idle::program(call, target);
    }
    if keys.len() >= 1 << 30 || s.len() * h.len() >= 1 << 30 {
        return Err(Cause::malformed(format!("`{}` over {} is too large a block", call.row.name, call.labels)));
    }
    own_box(call, 4)?;
    let problem = Problem::new(a, call, [b, h, s, e, t, d], keys)?;
    let rows = problem.queries * problem.group;
    let units = problem.batch * problem.pairs;
    let multiprocessors = target.multiprocessors as usize;
    let few = rows <= FEWEST || (rows <= FEW && units < multiprocessors);
    let split = few && problem.d.is_multiple_of(32) && problem.e.is_multiple_of(64) && problem.d.max(problem.e) <= 128;
    let split = split && problem.words();
    let tile = problem.groups(target).or_else(|| problem.tile(target)).filter(|_| problem.tensor_cores());
    match (tile, problem.square(target).filter(|_| rows > FEWEST)) {
        (Some(_), _) if split => problem.by_parts(call, target),
        (Some(tile), _) => problem.by_tiles(call, tile, target),
        (None, Some(keys)) => problem.by_squares(call, keys),
        (None, None) => problem.by_rows(call, target),
    }
}

/// An operand of four axes: where its first element is, and its extents and steps.
#[derive(Clone, Copy)]
struct Operand {
    place: Place,
    extents: [usize; 4],
    steps: [i64; 4],
}

/// What the kernels are told. Sizes are the block's.
struct Problem<'a> {
    attention: &'a Attention,
    batch: usize,
    /// Groups of heads that share their keys.
    pairs: usize,
    /// Heads of a group.
    group: usize,
    queries: usize,
    keys: usize,
    d: usize,
    e: usize,
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Option<Operand>,
    own: Option<[Operand; 2]>,
    offsets: Option<(Place, DType)>,
    /// The first query sees keys below it, the next one more.
    diagonal: i64,
    /// The first head's number among those that share its keys.
    phase: usize,
    /// The first query and the first key.
    first: [usize; 2],
}

impl<'a> Problem<'a> {
    fn new(
        a: &'a Attention,
        call: &Call<'_>,
        [b, h, s, e, t, d]: [Interval; 6],
        keys: Interval,
    ) -> Result<Self, Cause> {
        let of = |n: usize, axes: [Interval; 4]| operand(call, n, axes);
        let kv = Interval::new(h.lo / a.group(), (h.hi - 1) / a.group() + 1);
        let mask = match &a.mask {
            None => None,
            Some(shape) => {
                let full = [a.batch, a.heads, a.queries, a.keys];
                let pick = |n: usize, i: Interval| if shape[n] == full[n] { i } else { Interval::new(0, 1) };
                let mut mask = of(3, [pick(0, b), pick(1, h), pick(2, s), pick(3, keys)])?;
                (0..4).filter(|&n| shape[n] == 1).for_each(|n| mask.steps[n] = 0);
                Some(mask)
            }
        };
        // Of a cut t, the block of the first key reads the queries' own keys.
        let own = if a.own && t.lo == 0 {
            let at = a.own_operand();
            Some([of(at, [b, kv, s, d])?, of(at + 1, [b, kv, s, e])?])
        } else {
            None
        };
        let offsets = if a.packed.is_some() {
            let stored = given(call, a.offsets_operand())?;
            Some((stored.at(0, -(stored.region.0[0].lo as i64)), stored.dtype(0)))
        } else {
            None
        };
        // Heads that share keys are done together, unless the block begins or ends among those of several.
        let whole = h.lo.is_multiple_of(a.group()) && h.len().is_multiple_of(a.group());
        let group = if kv.len() == 1 {
            h.len()
        } else if whole {
            a.group()
        } else {
            1
        };
        Ok(Self {
            attention: a,
            batch: b.len(),
            pairs: h.len() / group,
            group,
            queries: s.len(),
            keys: keys.len(),
            d: d.len(),
            e: e.len(),
            q: of(0, [b, h, s, d])?,
            k: of(1, [b, kv, keys, d])?,
            v: of(2, [b, kv, keys, e])?,
            mask,
            own,
            offsets,
            diagonal: s.lo as i64 + 1 + a.keys as i64 - a.queries as i64 - keys.lo as i64,
            phase: h.lo % a.group(),
            first: [s.lo, keys.lo],
        })
    }

    /// Whether tensor cores take its elements, and blocks its heads.
    fn tensor_cores(&self) -> bool {
        matches!(self.attention.dtype, DType::BF16 | DType::F16) && self.d.max(self.e) <= LARGEST
    }

    /// Whether every row of every operand is words of 16 bytes, which can be copied as such.
    fn words(&self) -> bool {
        let tensors = [Some(self.q), Some(self.k), Some(self.v), self.own.map(|o| o[0]), self.own.map(|o| o[1])];
        let aligned = |o: Operand| alignment(o.place) == 16 && o.steps[..3].iter().all(|s| s % 8 == 0);
        self.d.is_multiple_of(8) && self.e.is_multiple_of(8) && tensors.into_iter().flatten().all(aligned)
    }

    /// What it is computed in.
    fn real(&self) -> &'static str {
        if self.attention.dtype == DType::F64 { "double" } else { "float" }
    }

    fn tag(&self) -> &'static str {
        if self.attention.dtype == DType::BF16 { "ein_BF16" } else { "ein_F16" }
    }

    /// A kernel with this body; scores are in units of `1 / unit`.
    fn kernel(&self, what: &str, call: &Call<'_>, unit: f64, warps: usize, body: &str) -> std::sync::Arc<Kernel> {
        let (of, out, threads) = (self.constants(unit), self.results(call), warps * 32);
        // Two blocks at a time: told nothing, the compiler aims at more and keeps values outside of registers.
        let (blocks, maps) = if what == "attention_groups" { (1, self.maps()) } else { (2, Vec::new()) };
        let names = &["k_map", "v_map", "own_k_map", "own_v_map"][..maps.len()];
        let maps = names.iter().fold(String::new(), |all, name| all + ", const __grid_constant__ ein_Map " + name);
        let source = format!(
            "{of}{out}extern \"C\" __global__ void __launch_bounds__({threads}, {blocks}) NAME(const unsigned char* q, const \
             unsigned char* k, const unsigned char* v, const unsigned char* mask, const unsigned char* own_k, const \
             unsigned char* own_v, const unsigned char* offsets, unsigned char* values, unsigned char* tops, unsigned \
             char* sums, unsigned char* parts, long long diagonal, long long phase, long long query, long long key{maps}) {{
    typedef NAME_of::element element;
    const NAME_of a{{(const element*)q, (const element*)k, (const element*)v, (const element*)mask, (const \
             element*)own_k, (const element*)own_v, offsets, diagonal, phase, query, key}};
    const NAME_out out{{values, tops, sums}};
    {body}
}}
"
        );
        Kernel::new(what, &source)
    }

    fn launch(
        &self,
        call: &Call<'_>,
        kernel: std::sync::Arc<Kernel>,
        grid: u64,
        warps: usize,
        shared: usize,
    ) -> Result<Step, Cause> {
        let result = |n: usize| call.result.at(if call.finish { 0 } else { n }, 0);
        let q = self.q.place;
        let own = self.own.map_or([q; 2], |own| own.map(|o| o.place));
        let places = [
            q,
            self.k.place,
            self.v.place,
            self.mask.map_or(q, |m| m.place),
            own[0],
            own[1],
            self.offsets.map_or(q, |o| o.0),
            result(2),
            result(0),
            result(1),
            Base::Scratch.at(0),
        ];
        let mut args: Vec<Arg> = places.into_iter().map(Arg::Pointer).collect();
        let [query, key] = self.first.map(|n| n as i64);
        args.extend([self.diagonal, self.phase as i64, query, key].map(Arg::I64));
        if kernel.kind() == "attention_groups" {
            args.extend(self.maps().into_iter().map(Arg::Map));
        }
        match launch(kernel, grid, warps as u32 * 32, args)? {
            Step::Launch(launch) => Ok(Step::Launch(Launch { shared: shared as u32, ..launch })),
            other => Ok(other),
        }
    }
}

/// Operand `n`, from the first element of a box on.
fn operand(call: &Call<'_>, n: usize, axes: [Interval; 4]) -> Result<Operand, Cause> {
    let stored: &Stored = given(call, n)?;
    let fits = stored.region.rank() == 4 && stored.region.0.iter().zip(axes).all(|(all, own)| all.contains(own));
    if !fits {
        let reason = format!("operand {n} of `{}` is stored as {}, {axes:?} is read", call.row.name, stored.region);
        return Err(Cause::malformed(reason));
    }
    let all = strides(&stored.region.shape());
    let steps = [0, 1, 2, 3].map(|n| all[n] as i64);
    let first: i64 = (0..4).map(|n| (axes[n].lo - stored.region.0[n].lo) as i64 * steps[n]).sum();
    Ok(Operand { place: stored.at(0, first), extents: axes.map(Interval::len), steps })
}
