//! The laws of the monoids, with mixed signs, NaN and infinities.

mod common;

use common::Rng;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid, Top};
use ein_ir::reference::{combine, empty, finish};
use ein_ir::region::Region;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The pending result of some elements of one row, by the definition of the monoid.
fn partial(monoid: Monoid, dtype: DType, row: &[f64]) -> Vec<Dense> {
    let one = |v: f64, shape: &[usize]| Dense::from_f64(dtype, shape, &[v]);
    let top = row.iter().copied().fold(-INF, |a, b| if a.is_nan() || a > b { a } else { b });
    let weight = |x: f64| if x == -INF { 0.0 } else { (x - top).exp() };
    let sum: f64 = row.iter().map(|&x| weight(x)).sum();
    let n = row.len() as f64;
    match monoid {
        Monoid::Sum => vec![one(row.iter().sum(), &[1])],
        Monoid::Prod => vec![one(row.iter().product(), &[1])],
        Monoid::Max => vec![one(top, &[1])],
        Monoid::Min => vec![one(row.iter().copied().fold(INF, |a, b| if a.is_nan() || a < b { a } else { b }), &[1])],
        Monoid::Moments => {
            let mean = if row.is_empty() { 0.0 } else { row.iter().sum::<f64>() / n };
            vec![one(n, &[1]), one(mean, &[1]), one(row.iter().map(|x| (x - mean) * (x - mean)).sum(), &[1])]
        }
        Monoid::SoftMax => vec![one(top, &[1]), one(sum, &[1])],
        // The value of every element is twice its score, and 1 where that is not finite.
        Monoid::Attend => {
            let value = |x: f64| if x.is_finite() { 2.0 * x } else { 1.0 };
            let acc = row.iter().map(|&x| weight(x) * value(x)).sum();
            vec![one(top, &[1]), one(sum, &[1]), one(acc, &[1, 1])]
        }
        Monoid::Once | Monoid::Top(_) | Monoid::Affine => {
            unreachable!("their elements are not the elements of a row")
        }
    }
}

fn form(monoid: Monoid, dtype: DType) -> Form {
    monoid.pending(dtype, if monoid.is_plain() { 1 } else { 2 }, true)
}

fn close(a: &[Dense], b: &[Dense], context: &str) {
    for (a, b) in a.iter().zip(b) {
        let scale = a.to_f64().iter().fold(1.0_f64, |m, v| if v.is_finite() { m.max(v.abs()) } else { m });
        assert!(a.max_abs_difference(b) <= 1e-12 * scale, "{context}: {a:?} and {b:?}");
    }
}

/// Identity, commutativity, associativity, and any cut of a row equal to the whole row.
#[test]
fn laws() {
    let rows: Vec<Vec<f64>> = vec![
        vec![1.0, -2.0, 3.0, -4.0, 0.5],
        vec![-1.0, -1.0, -9.0],
        vec![1000.0, 0.0, -1000.0, 1001.0, 3.0, 2.0, 1.0],
        vec![0.0, NAN, 2.0, -1.0],
        vec![-INF, -INF, -INF],
        vec![-INF, 2.0, -INF, -3.0],
        vec![2.0, INF, -3.0],
        vec![-INF, INF, 1.0],
        vec![NAN, -INF],
        vec![INF, INF],
        vec![5.0],
    ];
    let mut rng = Rng(1);
    for monoid in Monoid::OF_EINSUMS.into_iter().chain([Monoid::Attend]) {
        let form = form(monoid, DType::F64);
        let region = Region::whole(if monoid.is_plain() { &[1] } else { &[1, 1] });
        let none = empty(monoid, &form, &region);
        for row in &rows {
            let whole = partial(monoid, DType::F64, row);
            let context = format!("{monoid:?} of {row:?}");
            close(&combine(monoid, &[none.clone(), whole.clone()], &form), &whole, &context);
            close(&combine(monoid, &[whole.clone(), none.clone()], &form), &whole, &context);
            for _ in 0..8 {
                let (i, j) = (rng.range(0, row.len()), rng.range(0, row.len()));
                let (i, j) = (i.min(j), i.max(j));
                let [a, b, c] = [&row[..i], &row[i..j], &row[j..]].map(|r| partial(monoid, DType::F64, r));
                let context = format!("{context} cut at {i} and {j}");
                let all = combine(monoid, &[a.clone(), b.clone(), c.clone()], &form);
                close(&all, &whole, &context);
                close(&combine(monoid, &[c.clone(), a.clone(), b.clone()], &form), &whole, &context);
                let bc = combine(monoid, &[b, c], &form);
                close(&combine(monoid, &[a, bc], &form), &all, &context);
            }
        }
    }
}

/// Maps in a row: the identity, associativity, any cut of a row equal to the whole row; and that the order matters.
#[test]
fn laws_of_affine_maps() {
    let mut rng = Rng(2);
    let mut unequal = 0;
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::I64, DType::U8] {
        let form = Monoid::Affine.pending(dtype, 1, true);
        let none = empty(Monoid::Affine, &form, &Region::whole(&[1]));
        for _ in 0..200 {
            let maps: Vec<Vec<Dense>> = (0..rng.range(1, 7))
                .map(|_| {
                    form.fields.iter().map(|f| Dense::from_f64(f.dtype, [1], &[rng.range(0, 3) as f64 - 1.0])).collect()
                })
                .collect();
            // One after the other, by the definition.
            let states = maps.iter().fold((1.0, 0.0), |(scale, shift), map| {
                let (s, t) = (map[0].get(0), map[1].get(0));
                (s * scale, s * shift + t)
            });
            let [scale, shift] = [states.0, states.1].map(|v: f64| Dense::from_f64(form.fields[0].dtype, [1], &[v]));
            // Unsigned integers wrap as such a conversion does not.
            let whole = combine(Monoid::Affine, &maps, &form);
            if dtype != DType::U8 {
                assert_eq!(whole, [scale, shift], "{maps:?}");
            }
            assert_eq!(finish(Monoid::Affine, whole.clone(), dtype), whole[1].cast(dtype));
            assert_eq!(combine(Monoid::Affine, &[none.clone(), whole.clone()], &form), whole);
            assert_eq!(combine(Monoid::Affine, &[whole.clone(), none.clone()], &form), whole);
            let (i, j) = (rng.range(0, maps.len()), rng.range(0, maps.len()));
            let all = |part: &[Vec<Dense>]| {
                if part.is_empty() { none.clone() } else { combine(Monoid::Affine, part, &form) }
            };
            let [a, b, c] = [&maps[..i.min(j)], &maps[i.min(j)..i.max(j)], &maps[i.max(j)..]].map(all);
            let ab = combine(Monoid::Affine, &[a.clone(), b.clone()], &form);
            let bc = combine(Monoid::Affine, &[b.clone(), c.clone()], &form);
            assert_eq!(combine(Monoid::Affine, &[a.clone(), bc], &form), whole);
            assert_eq!(combine(Monoid::Affine, &[ab, c.clone()], &form), whole);
            unequal += usize::from(combine(Monoid::Affine, &[c, a, b], &form) != whole);
        }
    }
    assert!(unequal > 100, "{unequal}");
    assert_eq!(Monoid::ALL.into_iter().filter(|m| m.is_ordered()).collect::<Vec<_>>(), [Monoid::Affine]);
}

/// Folds with values known from elsewhere.
#[test]
fn known_folds() {
    let check = |monoid: Monoid, dtype: DType, row: &[f64], pieces: usize, expected: &[f64]| {
        let form = form(monoid, dtype);
        let parts: Vec<Vec<Dense>> = row
            .chunks(row.len().div_ceil(pieces))
            .map(|r| {
                let fields = partial(monoid, DType::F64, r);
                fields.iter().zip(&form.fields).map(|(d, f)| d.cast(f.dtype)).collect()
            })
            .collect();
        let result = finish(monoid, combine(monoid, &parts, &form), dtype);
        let expected = Dense::from_f64(dtype, result.shape.clone(), expected);
        assert!(result.max_abs_difference(&expected) < 1e-6, "{monoid:?}: {result:?}, not {expected:?}");
    };
    let row = [1000.0, 0.0, -1000.0, 1001.0, 3.0, 2.0, 1.0];
    check(Monoid::SoftMax, DType::F64, &row, 3, &[1001.0, 1.0 + (-1.0_f64).exp()]);
    check(Monoid::Moments, DType::F64, &[1.0, 2.0, 3.0, 4.0], 3, &[2.5, 1.25]);
    check(Monoid::Max, DType::F32, &[-9.0, -1.0, -3.0], 2, &[-1.0]);
    // Nine partials of bf16 are folded in f32: one after the other in bf16 would stay at 256.
    check(Monoid::Sum, DType::BF16, &[256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 9, &[264.0]);
    check(Monoid::Sum, DType::U8, &[200.0, 100.0], 2, &[44.0]);
    // No key is seen.
    check(Monoid::Attend, DType::F64, &[-INF, -INF], 2, &[0.0]);
    check(Monoid::Attend, DType::F64, &[-INF, 3.0], 2, &[6.0]);
}

/// Partials that are stored in bf16 are folded in f32 with one rounding.
#[test]
fn narrow_partials_round_once() {
    let form = Monoid::Sum.pending(DType::BF16, 1, false);
    let parts: Vec<Vec<Dense>> =
        std::iter::once(256.0).chain([1.0; 8]).map(|v| vec![Dense::from_f64(DType::BF16, [1], &[v])]).collect();
    let folded = combine(Monoid::Sum, &parts, &form);
    assert_eq!(folded, [Dense::from_f64(DType::BF16, [1], &[264.0])]);
}

/// Any cut of a row, merged in any order, gives the sorted row, with ties, NaN and infinities in it.
#[test]
fn sorted_entries_merge() {
    let odd = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1.0, -2.0];
    for seed in 0..2_000 {
        let mut rng = Rng(seed);
        let row: Vec<f64> = (0..rng.range(1, 9)).map(|_| *rng.pick(&odd)).collect();
        let top = Top { k: rng.range(1, row.len()), largest: rng.chance(2), indices: rng.chance(2), of: DType::F64 };
        let monoid = Monoid::Top(top);
        let form = monoid.pending(DType::I64, 2, false);
        let none = empty(monoid, &form, &Region::whole(&[1, top.k]));
        // What a device leaves of its own elements: at most k entries, the rest nothing.
        let partial = |own: &[(usize, f64)]| {
            let mut own: Vec<(usize, f64)> = own.to_vec();
            own.sort_by(|a, b| {
                let values = match (a.1.is_nan(), b.1.is_nan()) {
                    (true, true) => std::cmp::Ordering::Equal,
                    (true, false) => std::cmp::Ordering::Greater,
                    (false, true) => std::cmp::Ordering::Less,
                    (false, false) => a.1.partial_cmp(&b.1).expect("numbers"),
                };
                (if top.largest { values.reverse() } else { values }).then(a.0.cmp(&b.0))
            });
            own.truncate(top.k);
            let mut values: Vec<f64> = own.iter().map(|o| o.1).collect();
            let mut indices: Vec<i64> = own.iter().map(|o| o.0 as i64).collect();
            values.resize(top.k, 7.0);
            indices.resize(top.k, Top::NOTHING);
            vec![Dense::from_f64(DType::F64, [1, top.k], &values), Dense::i64([1, top.k], indices)]
        };
        let all: Vec<(usize, f64)> = row.iter().copied().enumerate().collect();
        let whole = finish(monoid, partial(&all), if top.indices { DType::I64 } else { DType::F64 });
        let cut = rng.range(0, row.len());
        let mut parts = vec![partial(&all[..cut]), none, partial(&all[cut..])];
        if rng.chance(2) {
            parts.reverse();
        }
        let merged = combine(monoid, &parts, &form);
        let found = finish(monoid, merged, whole.dtype());
        assert_eq!(found.max_abs_difference(&whole), 0.0, "seed {seed}: {row:?}, {top:?}: {found:?}, not {whole:?}");
        assert_eq!(Monoid::parse(&monoid.to_string()), Some(monoid));
    }
}

/// The one partial that holds an element gives it as it is, minus zero included.
#[test]
fn once_keeps_every_bit() {
    let form = Monoid::Once.pending(DType::F32, 1, true);
    let none = empty(Monoid::Once, &form, &Region::whole(&[1]));
    for x in [-0.0_f32, 1.5, f32::INFINITY, f32::MIN_POSITIVE, -3.0] {
        let own = vec![Dense::f32([1], vec![x])];
        for parts in [[own.clone(), none.clone()], [none.clone(), own]] {
            let found = combine(Monoid::Once, &parts, &form).remove(0).get(0) as f32;
            assert_eq!(found.to_bits(), x.to_bits());
        }
    }
}
