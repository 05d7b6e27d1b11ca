//! The launches of each kernel of attention: tiles, shared memory and grids.

use super::{LARGEST, Problem};
use crate::generate::Call;
use crate::program::{Program, Step, Target};
use ein_run::Cause;
use std::f64::consts::LOG2_E;

/// Warps of a block.
const WARPS: usize = 4;
/// Keys that a block of *split* takes at least.
const LEAST_KEYS: usize = 256;
/// Keys that a block of *tiles* or *groups* takes at least, where blocks share them: what it leaves of a row takes as long
/// to write and read as some hundred keys to see.
const MANY_KEYS: usize = 512;
/// Rows of a block of *groups*, and its warps: two groups of four multiply 64 rows each, of a third one fetches.
const GROUPED: (usize, usize) = (128, 12);

/// What a block of *tiles* or *groups* does at a time.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Rows of a warp, in units of 16; 0: warps multiply four together.
    mt: usize,
    /// Of *groups*, tiles of keys and of values that there is room for.
    stages: usize,
    /// Warps.
    warps: usize,
    /// Rows of the block.
    rows: usize,
    /// Keys.
    keys: usize,
    /// Bytes of shared memory.
    room: usize,
}

impl Problem<'_> {
    pub(super) fn by_rows(&self, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
        let real = self.real();
        let bytes = |warps: usize| warps * (self.e + 2) * if real == "double" { 8 } else { 4 };
        let fits = |warps: &usize| bytes(*warps) <= target.shared as usize;
        let Some(warps) = [WARPS, WARPS / 2, 1].into_iter().find(fits) else {
            let reason = format!("`{}` has heads of {} elements, too many for a block", call.row.name, self.e);
            return Err(Cause::malformed(reason));
        };
        let body = format!(
            "extern __shared__ __align__(16) unsigned char ein_room[];
    ein_attention_rows<NAME_of, {warps}>(a, out, ({real}*)ein_room);"
        );
        let kernel = self.kernel("attention_rows", call, 1.0, warps, &body);
        let rows = (self.queries * self.group * self.pairs * self.batch) as u64;
        let grid = rows.min(u64::from(target.multiprocessors) * 64);
        Ok(Program { steps: vec![self.launch(call, kernel, grid, warps, bytes(warps))?], scratch: 0 })
    }

    /// Keys of a tile of *squares*, where blocks have memory and registers for it.
    pub(super) fn square(&self, target: &Target) -> Option<usize> {
        let room = |keys: &usize| self.square_room(*keys) <= target.shared as usize;
        let small = self.d.max(self.e) <= 64;
        [64, 32].into_iter().filter(|keys| small || *keys == 32).find(room).filter(|_| self.e <= LARGEST)
    }

    /// Bytes of shared memory of a block of *squares*.
    fn square_room(&self, keys: usize) -> usize {
        let values = self.d * 68 + self.d * (keys + 4) + self.e.next_multiple_of(64) * keys + keys * 68;
        values * if self.real() == "double" { 8 } else { 4 } + 4 * (2 * 64 + 2)
    }

    pub(super) fn by_squares(&self, call: &Call<'_>, keys: usize) -> Result<Program, Cause> {
        let (warps, room) = (8, self.square_room(keys));
        let body = format!(
            "extern __shared__ __align__(16) unsigned char ein_room[];
    static_assert(ein_attention_squares_room<NAME_of, {keys}>() == {room}, \"the room that the launch gives\");
    ein_attention_squares<NAME_of, {keys}>(a, out, ein_room);"
        );
        let kernel = self.kernel("attention_squares", call, 1.0, warps, &body);
        let blocks = (self.queries * self.group).div_ceil(64) * self.pairs * self.batch;
        Ok(Program { steps: vec![self.launch(call, kernel, blocks as u64, warps, room)?], scratch: 0 })
    }

    /// The best tile of *tiles* that a block has memory for.
    pub(super) fn tile(&self, target: &Target) -> Option<Tile> {
        let rows = self.queries * self.group;
        let best = match self.d.max(self.e) {
            0..=64 if rows > 64 => (2, 64),
            65..=128 if rows > 64 => (2, 32),
            0..=128 => (1, 64),
            _ => (1, 32),
        };
        let padded = |values: usize| values.next_multiple_of(16) + 8;
        let tile = |(mt, keys): (usize, usize)| {
            let rows = WARPS * mt * 16;
            let room = 2 * (rows * padded(self.d) + 2 * keys * (padded(self.d) + padded(self.e))) + 8 * rows + 8;
            Tile { mt, stages: 2, warps: WARPS, rows, keys, room }
        };
        [best, (1, 32), (1, 16)].into_iter().map(tile).find(|tile| tile.room <= target.shared as usize)
    }

    /// What a block of *groups* does at a time, where that is wanted and there are rows enough for it.
    pub(super) fn groups(&self, target: &Target) -> Option<Tile> {
        if !target.wgmma || !self.words() || self.queries * self.group <= 64 || self.maps().is_empty() {
            return None;
        }
        let ((rows, warps), keys) = (GROUPED, self.grouped_keys());
        let wide = |values: usize| values.next_multiple_of(64);
        let tile = |stages: usize| {
            let values = wide(self.d) * (rows + stages * keys) + wide(self.e) * stages * keys;
            Tile { mt: 0, stages, warps, rows, keys, room: 1024 + 2 * values + 8 * rows + 32 + 32 * stages }
        };
        // Small tiles are done with sooner than their successors come, unless several are on their way.
        let wanted = if self.d.max(self.e) <= 64 { 4 } else { 2 };
        Some(tile(wanted)).filter(|tile| tile.room <= target.shared as usize)
    }

    pub(super) fn by_tiles(&self, call: &Call<'_>, tile: Tile, target: &Target) -> Result<Program, Cause> {
        let Tile { mt, stages, warps, rows: bm, keys: bn, room } = tile;
        let (rows, tag) = (self.queries * self.group, self.tag());
        let blocks = rows.div_ceil(bm) * self.pairs * self.batch;
        let splits = self.splits(blocks, room, target);
        let grouped = mt == 0;
        let what = if grouped { "groups" } else { "tiles" };
        let (own_room, does) = if grouped {
            let of =
                if self.own.is_some() { "k_map, v_map, own_k_map, own_v_map" } else { "k_map, v_map, k_map, v_map" };
            (
                format!("ein_Grouped<NAME_of, {bn}, {stages}>::ROOM"),
                format!(
                    "ein_attention_groups<NAME_of, {tag}, {bn}, {stages}, {splits}>(a, ein_Maps{{{of}}}, out, (float*)parts, \
                     ein_room);"
                ),
            )
        } else {
            (
                format!("ein_attention_tiles_room<NAME_of, {mt}, {warps}, {bn}>()"),
                format!(
                    "ein_attention_tiles<NAME_of, {tag}, {mt}, {warps}, {bn}, {splits}>(a, out, (float*)parts, ein_room);"
                ),
            )
        };
        let body = format!(
            "extern __shared__ __align__(16) unsigned char ein_room[];
    static_assert({own_room} == {room}, \"the room that the launch gives\");
    {does}"
        );
        let kernel = self.kernel(&format!("attention_{what}"), call, LOG2_E, warps, &body);
        let mut steps = vec![self.launch(call, kernel, (blocks * splits) as u64, warps, room)?];
        steps.extend(self.join(call, bm, splits)?);
        let scratch = if splits > 1 { blocks * bm * splits * (self.e + 2) * 4 } else { 0 };
        Ok(Program { steps, scratch: scratch as u64 })
    }

    /// How many blocks share the keys of some rows, where there are fewer blocks than multiprocessors: as many as all of
    /// them have room for at a time, each with enough keys that what it leaves is little beside them.
    fn splits(&self, blocks: usize, room: usize, target: &Target) -> usize {
        let multiprocessors = target.multiprocessors as usize;
        if blocks >= multiprocessors {
            return 1;
        }
        let at_once = multiprocessors * (target.shared as usize / (room + 1024)).clamp(1, 2);
        (at_once / blocks).min(self.keys / MANY_KEYS).max(1)
    }

    /// The kernel that folds what blocks of `rows` rows left, where several share the keys.
    fn join(&self, call: &Call<'_>, rows: usize, splits: usize) -> Result<Option<Step>, Cause> {
        if splits == 1 {
            return Ok(None);
        }
        let threads = WARPS * 32;
        let body = format!("ein_attention_join<NAME_of, {rows}, {splits}, {threads}>(a, out, (const float*)parts);");
        let kernel = self.kernel("attention_join", call, LOG2_E, WARPS, &body);
        let all = self.queries * self.group * self.pairs * self.batch;
        self.launch(call, kernel, all as u64, WARPS, 0).map(Some)
    }

    pub(super) fn by_parts(&self, call: &Call<'_>, target: &Target) -> Result<Program, Cause> {
        let rows = self.queries * self.group;
        let units = rows.div_ceil(16) * self.pairs * self.batch;
        // As many blocks as are on the device at a time, twice; each with something to do.
        let wanted = (target.multiprocessors as usize * 4).div_ceil(units);
        let splits = wanted.min(self.keys / LEAST_KEYS).max(1);
        let (warps, tag, part) = (WARPS, self.tag(), 16 * (self.e + 2));
        let room = warps * part * 4;
        let body = format!(
            "extern __shared__ __align__(16) unsigned char ein_room[];
    ein_attention_split<NAME_of, {tag}, {warps}, {splits}>(a, out, (float*)parts, (float*)ein_room);"
        );
        let kernel = self.kernel("attention_split", call, LOG2_E, warps, &body);
        let mut steps = vec![self.launch(call, kernel, (units * splits) as u64, warps, room)?];
        steps.extend(self.join(call, 16, splits)?);
        let scratch = if splits > 1 { units * splits * part * 4 } else { 0 };
        Ok(Program { steps, scratch: scratch as u64 })
    }
}
