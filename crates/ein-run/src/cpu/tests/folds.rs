//! Folds of stored partials.

use super::{Rng, assert_near, fields, room, stored};
use crate::cpu::fold::fold;
use crate::cpu::piece::{Piece, PieceMut};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid, Top};
use ein_ir::reference;
use ein_ir::region::Region;

/// Partials such as blocks leave: counts positive, sums of weights positive, now and then an identity.
fn partial(rng: &mut Rng, monoid: Monoid, form: &Form, region: &Region) -> Vec<Dense> {
    if rng.below(4) == 0 {
        return reference::empty(monoid, form, region);
    }
    form.fields
        .iter()
        .map(|f| {
            let shape = region.project(&f.axes).shape();
            let n = shape.iter().product();
            let value = |rng: &mut Rng| match f.name {
                "count" => 1.0 + rng.below(4) as f64,
                "sum" | "m2" => 0.5 + rng.below(4) as f64,
                _ => rng.below(7) as f64 - 3.0,
            };
            let values: Vec<f64> = (0..n).map(|_| value(rng)).collect();
            Dense::from_f64(f.dtype, shape, &values)
        })
        .collect()
}

#[test]
fn every_monoid_and_type() {
    let mut rng = Rng::new(21);
    let top = |largest, indices| Monoid::Top(Top { k: 3, largest, indices, of: DType::BF16 });
    let tops = [top(true, false), top(true, true), top(false, false), top(false, true)];
    for monoid in Monoid::ALL.into_iter().chain(tops) {
        for dtype in DType::ALL {
            let statistic = matches!(monoid, Monoid::Moments | Monoid::SoftMax | Monoid::Attend);
            if let Monoid::Top(top) = monoid
                && dtype != if top.indices { DType::I64 } else { top.of }
            {
                continue;
            }
            if statistic && !dtype.is_float() {
                continue;
            }
            for (count, wide, finish) in [
                (1, false, true),
                (2, true, true),
                (3, false, false),
                (5, true, false),
                (8, false, true),
                (1, true, false),
            ] {
                // One list of entries alone is in order as it is.
                if matches!(monoid, Monoid::Top(_)) && count == 1 {
                    continue;
                }
                let mut region = Region::of(&[(3, 10), (2, 9), (5, 30)]);
                if let Some(n) = monoid.stacked() {
                    region.0.push(ein_ir::region::Interval::new(0, n));
                }
                let rank = region.rank();
                let pending = monoid.pending(dtype, rank, wide);
                let form = if finish { Form::finished(dtype, rank) } else { pending.clone() };
                let mut parts: Vec<Vec<Dense>> =
                    (0..count).map(|_| partial(&mut rng, monoid, &pending, &region)).collect();
                if monoid == Monoid::Once {
                    // One of the partials holds everything.
                    for part in &mut parts[1..] {
                        part[0] = Dense::zeros(&part[0].ty());
                    }
                    parts.reverse();
                }
                for (n, part) in parts.iter_mut().enumerate().filter(|_| matches!(monoid, Monoid::Top(_))) {
                    // Each has its own part of the axis, and now and then too few elements.
                    let index = |i: usize| if i % 7 == n % 7 { Top::NOTHING } else { (10 * n + i % 3) as i64 };
                    part[1] = Dense::i64(part[1].shape.clone(), (0..part[1].len()).map(index).collect());
                }
                let combined = reference::combine(monoid, &parts, &pending);
                let expected = if finish { vec![reference::finish(monoid, combined, dtype)] } else { combined };
                let words: Vec<Vec<u64>> = parts.iter().map(|p| stored(p, &pending, &region)).collect();
                let pieces: Vec<Piece<'_>> =
                    words.iter().map(|w| Piece::new(&region, &pending, bytemuck::cast_slice(w))).collect();
                let mut out = room(&form, &region);
                let mut result = PieceMut::new(&region, &form, bytemuck::cast_slice_mut(&mut out));
                fold(monoid, finish, &pieces, &mut result).expect("equal regions");
                let got = fields(&out, &form, &region);
                let what = format!("{} {dtype} of {count}, wide {wide}, finish {finish}", monoid.name());
                assert_near(&what, &got, &expected, !statistic);
            }
        }
    }
}

#[test]
fn sixteen_bits_are_rounded_once() {
    // 256 + 1 + 1 is 258 in f32 and then in bf16; rounded after each step it would stay 256.
    let region = Region::of(&[(0, 1)]);
    let form = Form::finished(DType::BF16, 1);
    let words: Vec<Vec<u64>> =
        [256.0, 1.0, 1.0].iter().map(|&v| stored(&[Dense::from_f64(DType::BF16, [1], &[v])], &form, &region)).collect();
    let pieces: Vec<Piece<'_>> = words.iter().map(|w| Piece::new(&region, &form, bytemuck::cast_slice(w))).collect();
    let mut out = room(&form, &region);
    let mut result = PieceMut::new(&region, &form, bytemuck::cast_slice_mut(&mut out));
    fold(Monoid::Sum, true, &pieces, &mut result).expect("equal regions");
    assert_eq!(fields(&out, &form, &region)[0].to_f64(), [258.0]);
}

#[test]
fn what_does_not_match_is_refused() {
    let (one, other) = (Region::of(&[(0, 2)]), Region::of(&[(1, 3)]));
    let form = Form::finished(DType::F32, 1);
    let words = [0u64; 1];
    let piece = |region| Piece::new(region, &form, bytemuck::cast_slice(&words));
    let refuse = |pieces: &[Piece<'_>], monoid| {
        let mut out = room(&form, &one);
        let mut result = PieceMut::new(&one, &form, bytemuck::cast_slice_mut(&mut out));
        fold(monoid, true, pieces, &mut result).expect_err("it does not match").to_string()
    };
    assert!(refuse(&[piece(&one), piece(&other)], Monoid::Sum).contains("[1:3]"));
    assert!(refuse(&[], Monoid::Sum).contains("nothing"));
    assert!(refuse(&[piece(&one)], Monoid::SoftMax).contains("softmax"));
}
