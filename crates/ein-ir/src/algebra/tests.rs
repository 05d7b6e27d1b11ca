//! What the algebra declares is true of drawn partials, and what it refuses has a counterexample.

use super::draw::{Drawn, K, Map, Pool, W, WIDTH, X, Y, Z, draw, folded};
use super::{Answer, commutes, einsum_commutes, view_commutes};
use crate::dense::Dense;
use crate::dtype::DType;
use crate::einsum::{Access, Einsum, Label};
use crate::expr::{Binary, Expr, Literal, RowId, Unary};
use crate::monoid::{Monoid, Top};
use crate::random::{Random, seeds};
use crate::scalar::Scalar;
use crate::view::View;

/// Every map of one function over operands of a type.
fn single_rows(dtype: DType) -> Vec<Map> {
    let mut maps = Vec::new();
    let mut add = |name: String, operands: &[usize], build: &dyn Fn(&mut Expr, &[RowId]) -> Option<RowId>| {
        let mut expr = Expr::new();
        let rows: Vec<RowId> = operands.iter().map(|&n| expr.push_operand(n, dtype)).collect();
        if build(&mut expr, &rows).is_some_and(|row| row + 1 == expr.rows().len()) {
            maps.push(Map { name, expr });
        }
    };
    for f in Unary::ALL {
        add(f.name().into(), &[X], &|e, r| e.unary(f, r[0]).ok());
    }
    for f in Binary::ALL {
        for (what, operands) in
            [("pending, finished", [X, Y]), ("finished, pending", [Y, X]), ("pending, pending", [X, Z])]
        {
            add(format!("{f:?}({what})").to_lowercase(), &operands, &|e, r| e.binary(f, r[0], r[1]).ok());
        }
    }
    for to in DType::ALL {
        if to != dtype {
            add(format!("cast to {to}"), &[X], &|e, r| Some(e.cast(r[0], to)));
        }
    }
    for (what, operands) in [("pending, finished", [X, Y]), ("pending, pending", [X, Z])] {
        add(format!("select(index, {what})"), &operands, &|e, r| {
            let index = e.index(0);
            let condition = e.cast(index, DType::Bool);
            e.select(condition, r[0], r[1]).ok()
        });
    }
    if dtype == DType::Bool {
        add("select(pending, finished, finished)".into(), &[X, Y, W], &|e, r| e.select(r[0], r[1], r[2]).ok());
    }
    maps
}

fn monoids(dtype: DType) -> Vec<Monoid> {
    let mut all = vec![Monoid::Max, Monoid::Min, Monoid::Once];
    if dtype != DType::Bool {
        all.extend([Monoid::Sum, Monoid::Prod]);
    }
    if dtype.is_float() {
        all.push(Monoid::Attend);
    }
    all.extend([true, false].map(|largest| Monoid::Top(Top { k: K, largest, indices: false, of: dtype })));
    all
}

const TYPES: [DType; 7] = [DType::F64, DType::F32, DType::BF16, DType::I64, DType::I32, DType::U8, DType::Bool];

/// Whether two results are one value as an answer promises; what is refused is measured by the wider promise.
fn agree(monoid: Monoid, answer: &Answer, from: DType, drawn: &Drawn) -> bool {
    let to = drawn.map_of_fold.dtype();
    let eps = |dtype: DType| -> f64 {
        match dtype {
            DType::F64 => 1e-9,
            DType::F32 => 1e-5,
            DType::BF16 | DType::F16 => 0.03,
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
        }
    };
    let tolerance = match answer {
        Answer::Exactly => 0.0,
        Answer::Numerically | Answer::No(_) => eps(from).max(eps(to)) * drawn.size,
    };
    (0..WIDTH).all(|i| match (drawn.map_of_fold.scalar(i), drawn.fold_of_maps.scalar(i)) {
        (Scalar::F(a), Scalar::F(b)) if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
        (Scalar::F(a), Scalar::F(b)) if monoid == Monoid::Once => a.to_bits() == b.to_bits(),
        (Scalar::F(a), Scalar::F(b)) => a == b || (a - b).abs() <= tolerance,
        (a, b) => a == b,
    })
}

/// Refused though they commute, each for a reason.
fn is_exception(monoid: Monoid, dtype: DType, map: &Map) -> bool {
    let name = map.name.as_str();
    let to = map.expr.dtype();
    let narrowed = |a: DType, b: DType| {
        a.is_float() == b.is_float() && (a.bytes() > b.bytes() || a.is_float()) && b != DType::Bool
    };
    match monoid {
        // Rounding every partial loses bits that the sum keeps (a test of its own shows it, more finely than the
        // tolerance here). Wrapping integers would be exact, but no cast of integers is to pass a sum.
        Monoid::Sum | Monoid::Prod => name.starts_with("cast") && narrowed(dtype, to),
        // What differs in a sign only is "or" of its bits; what is NaN of one partial is NaN of all, by the same
        // divisor, and what is 1 by a power of 0 is 1 of all; no unsigned integer is below 0.
        Monoid::Once => {
            ["rem(pending, finished)", "fmod(pending, finished)", "pow(pending, finished)"].contains(&name)
                || (name == "le(finished, pending)" && super::is_unsigned(dtype))
                || name.starts_with("copysign")
                // "Or" is how it is folded, and of bools also the larger.
                || name.starts_with("bitor")
                || name.starts_with("or")
                || (dtype == DType::Bool && name.starts_with("max"))
        }
        // A type of its own would be another monoid.
        Monoid::Top(_) | Monoid::Attend => to != dtype,
        Monoid::Max | Monoid::Min | Monoid::Moments | Monoid::SoftMax | Monoid::Affine => false,
    }
}

#[test]
fn one_function_is_declared_as_it_is() {
    let (mut yes, mut no) = (0, 0);
    for dtype in TYPES {
        let maps = single_rows(dtype);
        for monoid in monoids(dtype) {
            for map in &maps {
                let answer = commutes(monoid, &map.expr, &map.pending());
                let what = format!("{} over a pending {monoid} of {dtype}: {answer:?}", map.name);
                let mut random = Random(yes + 1000 * no);
                if answer.is_yes() {
                    yes += 1;
                    for n in 0..seeds(6000) / 100 {
                        let pool =
                            if answer == Answer::Exactly { Pool::Any } else { [Pool::Finite, Pool::Special][n % 2] };
                        let drawn = draw(&mut random, monoid, dtype, map, &answer, pool);
                        let (a, b) = (&drawn.map_of_fold, &drawn.fold_of_maps);
                        assert!(agree(monoid, &answer, dtype, &drawn), "{what}\n{a:?}\n{b:?}");
                    }
                    continue;
                }
                no += 1;
                let exception = is_exception(monoid, dtype, map);
                let other_type = map.expr.dtype() != dtype && matches!(monoid, Monoid::Attend);
                let found = !other_type
                    && (0..2000).any(|n| {
                        let pool = [Pool::Finite, Pool::Special][n % 2];
                        let drawn = draw(&mut random, monoid, dtype, map, &answer, pool);
                        !agree(monoid, &answer, dtype, &drawn)
                    });
                assert!(found || exception, "{what}: no counterexample");
            }
        }
    }
    assert!(yes > 400 && no > 2000, "{yes} commute, {no} do not");
}

/// A map of a few functions over operands and constants, floats mostly.
fn composed(random: &mut Random, dtype: DType) -> Map {
    let mut expr = Expr::new();
    let mut rows: Vec<RowId> = Vec::new();
    for n in [X, X, random.of(&[X, Z, Y])] {
        rows.push(expr.push_operand(n, dtype));
    }
    for _ in 0..=random.below(7) {
        let of = random.of(&[0.0, 1.0, -1.0, 0.5, 2.0, -3.0]);
        let constant = if dtype.is_float() { Literal::float(of) } else { Literal::Int(of as i64) };
        let (a, b) = (random.of(&rows), random.of(&rows));
        let row = match random.below(12) {
            0..2 => Ok(expr.constant(constant, dtype)),
            2..5 => expr.unary(random.of(&Unary::ALL), a),
            5 => {
                let index = expr.index(0);
                let condition = expr.cast(index, DType::Bool);
                expr.select(condition, a, b)
            }
            _ => {
                use Binary::{Add, Div, Max, Min, Mul, Sub};
                let common = random.of(&[Add, Sub, Mul, Div, Max, Min]);
                expr.binary(if random.below(6) == 0 { random.of(&Binary::ALL) } else { common }, a, b)
            }
        };
        // Not every function takes, or gives, every type.
        rows.extend(row.ok().filter(|&r| expr.dtype_of(r) == dtype));
    }
    // The value is the last row.
    let ends: &[Binary] = if dtype == DType::Bool {
        &[Binary::Max, Binary::Min]
    } else {
        &[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min]
    };
    expr.binary(random.of(ends), rows[rows.len() - 1], random.of(&rows)).expect("defined for the type");
    Map { name: format!("{:?}", expr.rows()), expr }
}

#[test]
fn composed_maps_that_commute_do() {
    let mut yes = std::collections::BTreeMap::new();
    for seed in 0..seeds(6000) {
        let mut random = Random(seed as u64);
        let dtype = random.of(&TYPES);
        let monoid = random.of(&monoids(dtype));
        let map = composed(&mut random, dtype);
        let answer = commutes(monoid, &map.expr, &map.pending());
        let what = format!("seed {seed}, {monoid} of {dtype}, {answer:?}: {}", map.name);
        if !answer.is_yes() {
            continue;
        }
        *yes.entry(monoid.name()).or_insert(0) += 1;
        for _ in 0..20 {
            let pool = if answer == Answer::Exactly { Pool::Any } else { Pool::Finite };
            let drawn = draw(&mut random, monoid, dtype, &map, &answer, pool);
            let (a, b) = (&drawn.map_of_fold, &drawn.fold_of_maps);
            let fair = answer == Answer::Exactly || !drawn.wild;
            assert!(!fair || agree(monoid, &answer, dtype, &drawn), "{what}\n{a:?}\n{b:?}");
        }
    }
    assert!(yes.len() == 7 && yes.values().all(|n| *n > 5), "{yes:?}");
}

fn map_of(build: impl Fn(&mut Expr, RowId) -> RowId) -> Expr {
    let mut expr = Expr::new();
    let x = expr.push_operand(X, DType::F32);
    let last = build(&mut expr, x);
    assert_eq!(last + 1, expr.rows().len());
    expr
}

/// Maps that are written in models, and what is said of them.
#[test]
fn known_maps() {
    let f32 = DType::F32;
    let unary = |f: Unary| map_of(|e, x| e.unary(f, x).expect("floats"));
    let with = |f: Binary, c: f64| {
        map_of(|e, x| {
            let c = e.float(c, DType::F32);
            e.binary(f, x, c).expect("floats")
        })
    };
    let relu_root = map_of(|e, x| {
        let zero = e.float(0.0, DType::F32);
        let relu = e.binary(Binary::Max, x, zero).expect("floats");
        e.unary(Unary::Sqrt, relu).expect("floats")
    });
    let sigmoid = map_of(|e, x| {
        let one = e.float(1.0, DType::F32);
        let minus = e.unary(Unary::Neg, x).expect("floats");
        let exp = e.unary(Unary::Exp, minus).expect("floats");
        let sum = e.binary(Binary::Add, one, exp).expect("floats");
        e.binary(Binary::Div, one, sum).expect("floats")
    });
    let square = map_of(|e, x| e.binary(Binary::Mul, x, x).expect("floats"));
    let narrow = map_of(|e, x| e.cast(x, DType::BF16));
    let rows: Vec<(Monoid, Expr, &str)> = vec![
        (Monoid::Sum, Expr::operand(f32), "exactly"),
        (Monoid::Sum, unary(Unary::Neg), "exactly"),
        (Monoid::Sum, with(Binary::Mul, 0.125), "numerically"),
        (Monoid::Sum, with(Binary::Div, 3.0), "numerically"),
        (Monoid::Sum, with(Binary::Add, 10.0), "`add` (row 2) adds what is not pending, once for every partial"),
        (Monoid::Sum, with(Binary::Add, 0.0), "exactly"),
        (
            Monoid::Sum,
            with(Binary::Mul, f64::INFINITY),
            "`mul` (row 2) makes NaN of partials of two signs, by an infinite factor",
        ),
        (Monoid::Sum, with(Binary::Max, 0.0), "`max` (row 2) is not linear"),
        (Monoid::Sum, unary(Unary::Exp), "`exp` (row 1) is not linear"),
        (Monoid::Sum, relu_root.clone(), "`max` (row 2) is not linear"),
        (
            Monoid::Sum,
            square.clone(),
            "`mul` (row 1) multiplies two pending sums: every partial of one would have to meet every partial of the other",
        ),
        (Monoid::Sum, narrow.clone(), "`cast f32 to bf16` (row 1) rounds or wraps every partial, not their sum"),
        (Monoid::Max, with(Binary::Max, 0.0), "exactly"),
        (Monoid::Max, with(Binary::Add, 1.5), "exactly"),
        (Monoid::Max, narrow, "exactly"),
        (Monoid::Max, relu_root, "exactly"),
        (Monoid::Max, sigmoid.clone(), "numerically"),
        (Monoid::Max, unary(Unary::Exp), "numerically"),
        (Monoid::Max, unary(Unary::Neg), "`the map` falls: it needs the smallest of the partials, not their max"),
        (Monoid::Min, unary(Unary::Neg), "`the map` falls: it needs the largest of the partials, not their min"),
        (Monoid::Max, unary(Unary::Abs), "`abs` (row 1) neither rises nor falls everywhere"),
        (Monoid::Max, unary(Unary::Log), "`log` (row 1) is NaN below 0, and the partial that is kept may be above"),
        // NaN wins: what is NaN below some bound is NaN of the smallest.
        (Monoid::Min, unary(Unary::Log), "numerically"),
        (Monoid::Min, unary(Unary::Asin), "`asin` (row 1) is NaN above 1, and the partial that is kept may be below"),
        (Monoid::Prod, square, "numerically"),
        (Monoid::Prod, unary(Unary::Abs), "exactly"),
        (Monoid::Prod, unary(Unary::Sqrt), "`sqrt` (row 1) is not multiplicative"),
        (Monoid::Prod, with(Binary::Pow, 3.0), "numerically"),
        (Monoid::Prod, with(Binary::Pow, 0.5), "`pow` (row 2) is a power that may be NaN of a negative partial"),
        (
            Monoid::Prod,
            with(Binary::Mul, 2.0),
            "`mul` (row 2) multiplies by what is not pending, once for every partial",
        ),
        (Monoid::Once, unary(Unary::Tanh), "exactly"),
        (Monoid::Once, unary(Unary::Cos), "`the map` gives 1.0 where a partial holds nothing, which is stored as 0"),
        (Monoid::Once, unary(Unary::Neg), "`the map` gives -0.0 where a partial holds nothing, which is stored as 0"),
        (Monoid::Attend, with(Binary::Mul, 2.0), "numerically"),
        (Monoid::Attend, sigmoid, "`exp` (row 3) is not linear"),
        (Monoid::Moments, unary(Unary::Neg), "`neg` is a map of the value, but a partial is stored as count, mean, m2"),
        (Monoid::Moments, Expr::operand(f32), "exactly"),
        (Monoid::Affine, unary(Unary::Neg), "`neg` is a map of the value, but a partial is stored as scale, shift"),
        (Monoid::SoftMax, unary(Unary::Log), "`log` is a map of the value, but a partial is stored as max, sum"),
    ];
    for (monoid, map, expected) in rows {
        let found = match commutes(monoid, &map, &[X]) {
            Answer::Exactly => "exactly".into(),
            Answer::Numerically => "numerically".into(),
            Answer::No(refusal) => refusal.to_string(),
        };
        assert_eq!(found, expected, "{monoid}: {:?}", map.rows());
    }
}

/// 256 and eight ones: added up in f32 and then rounded they are 264; rounded and added one by one in bf16, 256 stays.
/// Rounded each and added in f32, less is lost, but not nothing.
#[test]
fn a_narrowing_cast_loses_what_the_sum_keeps() {
    let parts: Vec<Vec<Dense>> = [257.0, -256.0].map(|v| vec![Dense::f32([1], vec![v])]).into_iter().collect();
    let narrow = |t: &Dense| Dense::from_f64(DType::BF16, t.shape.clone(), &t.to_f64());
    let after = narrow(&folded(Monoid::Sum, &parts, DType::F32));
    let before: Vec<Vec<Dense>> = parts.iter().map(|p| vec![narrow(&p[0])]).collect();
    assert_ne!(after.get(0), folded(Monoid::Sum, &before, DType::BF16).get(0));
}

#[test]
fn einsums_fold_as_what_they_read() {
    let einsum = |monoid: Monoid, dtype: DType| Einsum {
        labels: vec![Label::new("i", 2), Label::new("k", 3)],
        rank: 1,
        accesses: vec![Access::labels(&[0, 1]), Access::labels(&[1])],
        join: Expr::product(2, DType::F32),
        monoid,
        dtype,
    };
    assert_eq!(einsum_commutes(Monoid::Sum, &einsum(Monoid::Sum, DType::F32), &[0]), Answer::Numerically);
    let refused = |answer: Answer, expected: &str| match answer {
        Answer::No(refusal) => assert_eq!(refusal.to_string(), expected),
        yes => panic!("{yes:?}"),
    };
    refused(
        einsum_commutes(Monoid::Sum, &einsum(Monoid::Max, DType::F32), &[0]),
        "`max` is not the fold that is pending, which is sum",
    );
    refused(
        einsum_commutes(Monoid::Sum, &einsum(Monoid::Sum, DType::BF16), &[0]),
        "`cast f32 to bf16` (row 3) rounds or wraps every partial, not their sum",
    );
    refused(
        einsum_commutes(Monoid::Attend, &einsum(Monoid::Sum, DType::F32), &[0]),
        "`einsum` reads values, but a partial of attend is not stored as one",
    );
}

#[test]
fn views_fill_in_what_folds_to_itself() {
    let pad = |value: f64| View::Pad { before: vec![1], after: vec![0], value: value.to_bits() };
    let answer = |monoid, value| view_commutes(monoid, &pad(value), DType::F32).is_yes();
    assert!(answer(Monoid::Sum, 0.0) && !answer(Monoid::Sum, 1.0) && answer(Monoid::Sum, f64::NAN));
    assert!(answer(Monoid::Prod, 1.0) && !answer(Monoid::Prod, 2.0));
    assert!(answer(Monoid::Max, 7.0) && answer(Monoid::Once, -0.0));
    assert!(view_commutes(Monoid::Sum, &View::Roll { shifts: vec![1] }, DType::F32).is_yes());
    assert!(!view_commutes(Monoid::Moments, &View::Roll { shifts: vec![1, 0] }, DType::F32).is_yes());
}
