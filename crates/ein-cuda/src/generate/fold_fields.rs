//! Folds of partials of several fields.

use super::launch::{Arguments, THREADS};
use super::state::State;
use super::stored::{Stored, alignment};
use super::types::{cast, load, rounded, store, stored, value};
use crate::program::Step;
use ein_ir::monoid::{Monoid, Top};
use ein_run::Cause;
use std::fmt::Write;

/// Joins (count, mean, m2) or (max, sum): a thread for each row.
pub(super) fn statistics(monoid: Monoid, finish: bool, pieces: &[Stored], result: &Stored) -> Result<Step, Cause> {
    let dtype = pieces[0].dtype(0);
    let state = State::new(monoid, dtype)?;
    let rows = pieces[0].field(0).volume() as u64;
    let mut arguments = Arguments::default();
    let ty = state.joins();
    let mut text = format!("{}{ty} s;\n", row(rows));
    for (p, piece) in pieces.iter().enumerate() {
        let element = |n: usize| {
            let pointer = arguments.typed(piece.at(n, 0), &format!("const {}", stored(dtype)));
            load(dtype, &format!("{pointer}[i]"))
        };
        let all: Vec<String> = (0..state.fields().len()).map(element).collect();
        let own = format!("{ty}{{{}}}", all.join(", "));
        let _ = if p == 0 { writeln!(text, "s = {own};") } else { writeln!(text, "s.join({own});") };
    }
    if finish {
        let own = result.dtype(0);
        let target = arguments.written(result.at(0, 0), own);
        let all = state.finished("s", own);
        for (n, one) in all.iter().enumerate() {
            let _ = writeln!(text, "{target}[i * {} + {n}] = {};", all.len(), store(own, one));
        }
    } else {
        let target = |n: usize| arguments.written(result.at(n, 0), result.dtype(n));
        let targets: Vec<String> = (0..state.fields().len()).map(target).collect();
        text += &state.pending("s", result, &targets, "i");
    }
    arguments.launch("fold_statistics", &text, [rows.div_ceil(u64::from(THREADS)), 1], THREADS)
}

/// Applies maps (scale, shift) one after the other: a thread for each element. A shift of exactly 0 stays 0 under any scale.
pub(super) fn affine(finish: bool, pieces: &[Stored], result: &Stored) -> Result<Step, Cause> {
    let dtype = pieces[0].dtype(0);
    let elements = pieces[0].field(0).volume() as u64;
    let (ty, acc) = (stored(dtype), value(dtype.accumulator()));
    let mut arguments = Arguments::default();
    let mut text = format!("{}{acc} scale = 1, shift = 0;\n", row(elements));
    for (p, piece) in pieces.iter().enumerate() {
        let [by, more] = [0, 1].map(|n| {
            let pointer = arguments.typed(piece.at(n, 0), &format!("const {ty}"));
            format!("({acc})({})", load(dtype, &format!("{pointer}[i]")))
        });
        let _ = if p == 0 {
            writeln!(text, "scale = {by};\nshift = {more};")
        } else {
            let own = format!(
                "const {acc} by = {by}, more = {more};\nshift = shift == 0 ? more : ein_add(ein_mul(by, shift), more);"
            );
            writeln!(text, "{{\n{own}\nscale = ein_mul(scale, by);\n}}")
        };
    }
    let fields: &[&str] = if finish { &["shift"] } else { &["scale", "shift"] };
    for (n, name) in fields.iter().enumerate() {
        let own = result.dtype(n);
        let target = arguments.written(result.at(n, 0), own);
        let _ = writeln!(text, "{target}[i] = {};", store(own, &cast(dtype.accumulator(), own, name)));
    }
    arguments.launch("fold_affine", &text, [elements.div_ceil(u64::from(THREADS)), 1], THREADS)
}

/// Statements that give a thread its number `i`, below `count`.
fn row(count: u64) -> String {
    format!("const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;\nif (i >= {count}) return;\n")
}

/// Joins (max, sum, acc): a thread for some elements of a row of `acc`, by as many as a word of 16 bytes holds.
pub(super) fn attend(finish: bool, pieces: &[Stored], result: &Stored) -> Result<Step, Cause> {
    let (statistic, dtype) = (pieces[0].dtype(0), pieces[0].dtype(2));
    let (rows, all) = (pieces[0].field(0).volume(), pieces[0].field(2).volume());
    let width = all / rows;
    let c = value(statistic);
    let own = if finish { result.dtype(0) } else { result.dtype(2) };
    let mut lanes = 16 / dtype.bytes();
    while width % lanes != 0 {
        lanes /= 2;
    }
    let place = result.at(if finish { 0 } else { 2 }, 0);
    // Every field of a value begins at the same multiple: all partials have one layout.
    let word = |place, bytes: usize| {
        alignment(place).min(16).min((lanes * bytes) as u64).min(1 << (lanes * bytes).trailing_zeros())
    };
    let from = pieces.iter().map(|p| word(p.at(2, 0), dtype.bytes())).min().unwrap_or(1);
    let mut arguments = Arguments::default();
    let groups = (all / lanes) as u64;
    let mut text = row(groups);
    let _ = writeln!(
        text,
        "const long long row = i / {};\n{c} top = ein_Ends<{c}>::low(), sum = 0;\n{c} acc[{lanes}];\n#pragma unroll\nfor \
         (int v = 0; v < {lanes}; v++) acc[v] = 0;",
        width / lanes
    );
    for piece in pieces {
        let ty = format!("const {}", stored(statistic));
        let (max, sum) = (arguments.typed(piece.at(0, 0), &ty), arguments.typed(piece.at(1, 0), &ty));
        let acc = arguments.typed(piece.at(2, 0), &format!("const {}", stored(dtype)));
        let _ = write!(
            text,
            "{{\nconst {c} max = {}, low = ein_Ends<{c}>::low(), most = ein_max(top, max);\nconst {c} a = ein_scale(top, \
             most), b = ein_scale(max, most);\n{} x[{lanes}];\nein_load<{from}>(x, {acc} + i * {lanes});\nsum = (top == \
             low ? 0 : sum * a) + (max == low ? 0 : {} * b);\n#pragma unroll\nfor (int v = 0; v < {lanes}; v++) acc[v] = \
             (top == low ? 0 : acc[v] * a) + (max == low ? 0 : {} * b);\ntop = most;\n}}\n",
            load(statistic, &format!("{max}[row]")),
            stored(dtype),
            load(statistic, &format!("{sum}[row]")),
            load(dtype, "x[v]")
        );
    }
    let target = arguments.written(place, own);
    let one = if finish { rounded(own, "(sum == 0 ? 0 : acc[v] / sum)") } else { rounded(own, "acc[v]") };
    let _ = write!(
        text,
        "{} y[{lanes}];\n#pragma unroll\nfor (int v = 0; v < {lanes}; v++) {{\nconst {} r = {one};\ny[v] = \
         {};\n}}\nein_store<{}>({target} + i * {lanes}, y);\n",
        stored(own),
        value(own),
        store(own, "r"),
        word(place, own.bytes())
    );
    if !finish {
        let max = arguments.written(result.at(0, 0), result.dtype(0));
        let sum = arguments.written(result.at(1, 0), result.dtype(1));
        let (top, total) = (store(result.dtype(0), "top"), store(result.dtype(1), "sum"));
        let _ = write!(text, "if (i % {} == 0) {{\n{max}[row] = {top};\n{sum}[row] = {total};\n}}\n", width / lanes);
    }
    arguments.launch("fold_attend", &text, [groups.div_ceil(u64::from(THREADS)), 1], THREADS)
}

/// Merges sorted entries of (value, index), k at a time: a thread for each entry counts those that come before it.
pub(super) fn merge(top: Top, finish: bool, pieces: &[Stored], result: &Stored) -> Result<Step, Cause> {
    let (k, own) = (top.k, stored(top.of));
    let entries = pieces[0].field(1).volume() as u64;
    let mut arguments = Arguments::default();
    let parts = pieces.len();
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for piece in pieces {
        values.push(arguments.typed(piece.at(0, 0), &format!("const {own}")));
        indices.push(arguments.typed(piece.at(1, 0), "const long long"));
    }
    let (values, indices) = (values.join(", "), indices.join(", "));
    let mut text = format!(
        "const {own}* values[{parts}] = {{{values}}};\nconst long long* indices[{parts}] = {{{indices}}};\nconst long long n \
         = (long long)blockIdx.x * {THREADS} + threadIdx.x;\nif (n >= {}) return;\nconst long long i = n / {parts};\nconst \
         int part = (int)(n % {parts});\nconst long long row = i / {k} * {k};\n",
        entries * parts as u64
    );
    // Of equal entries, which stand for no element, those of an earlier part come first.
    let _ = write!(
        text,
        "const {own} bits = values[part][i];\nconst {} mine = {};\nconst long long index = indices[part][i];\nlong long \
         place = i - row;\nfor (int p = 0; p < {parts} && place < {k}; p++) {{\nif (p == part) continue;\nlong long lo = 0, \
         hi = {k};\nwhile (lo < hi) {{\nconst long long middle = (lo + hi) / 2;\nconst int order = ein_top_order({}, {}, \
         indices[p][row + middle], mine, index);\nif (order < 0 || (order == 0 && p < part)) lo = middle + 1;\nelse hi = \
         middle;\n}}\nplace += lo;\n}}\nif (place >= {k}) return;\n",
        value(top.of),
        load(top.of, "bits"),
        top.largest,
        load(top.of, "values[p][row + middle]")
    );
    if !(finish && top.indices) {
        let target = arguments.written(result.at(0, 0), top.of);
        let _ = writeln!(text, "{target}[row + place] = bits;");
    }
    if !finish || top.indices {
        let target = arguments.typed(result.at(usize::from(!finish), 0), "long long");
        let _ = writeln!(text, "{target}[row + place] = index;");
    }
    let blocks = (entries * parts as u64).div_ceil(u64::from(THREADS));
    arguments.launch("fold_top", &text, [blocks, 1], THREADS)
}
