//! Blocks of einsums, executed on the host, against the dense reference.

mod support;

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Literal, Unary};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use support::{Cases, Rng, kernel_row};

fn add(cases: &mut Cases, rng: &mut Rng, what: &str, e: &Einsum, tensors: &[Dense], labels: &Region, exact: bool) {
    let form = Form::finished(e.dtype, e.shape().len());
    let (row, expected) = kernel_row(rng, &Op::Einsum(e.clone()), tensors, labels, &form, true);
    row.check(cases, &format!("{what} over {labels}"), expected, exact);
}

/// A map over a matrix; operands are the matrix, its transpose, a row and a column.
fn map(join: Expr, operands: usize) -> Einsum {
    let accesses = [
        Access::labels(&[0, 1]),
        Access { axes: vec![Affine::label(1), Affine::label(0)] },
        Access::labels(&[1]),
        Access::labels(&[0]),
    ];
    let dtype = join.dtype();
    Einsum {
        labels: vec![Label::new("i", 7), Label::new("j", 41)],
        rank: 2,
        accesses: accesses[..operands].to_vec(),
        join,
        monoid: Monoid::Sum,
        dtype,
    }
}

fn add_map(cases: &mut Cases, what: &str, e: &Einsum, tensors: &[Dense], exact: bool) {
    let mut rng = Rng::new(5);
    add(cases, &mut rng, what, e, tensors, &e.space(), exact);
    let part = rng.part(&e.space());
    add(cases, &mut rng, what, e, tensors, &part, exact);
}

#[test]
fn functions_of_one_argument() {
    let mut cases = Cases::default();
    for dtype in DType::ALL {
        for function in Unary::ALL {
            let mut join = Expr::new();
            let x = join.push_operand(0, dtype);
            if join.unary(function, x).is_err() {
                continue;
            }
            let positive = matches!(function, Unary::Log | Unary::Sqrt | Unary::Rsqrt);
            let mut x = Rng::new(1).dense(dtype, &[7, 41], !dtype.is_float());
            if positive {
                let values: Vec<f64> = x.to_f64().iter().map(|v| v.abs() + 0.1).collect();
                x = Dense::from_f64(dtype, x.shape.clone(), &values);
            }
            let exact = matches!(
                function,
                Unary::Neg | Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc | Unary::Not
            );
            add_map(&mut cases, &format!("{function:?} {dtype}"), &map(join, 1), &[x], exact);
        }
    }
    cases.run();
}

/// Every function at the ends of its domain, among ordinary numbers.
#[test]
fn functions_at_special_numbers() {
    let special = [f64::NAN, f64::INFINITY, 0.0, 1.0, 2.5, 11.0, 100.0, 1e7, 3e30, 1e-40];
    let mut values: Vec<f64> = special.iter().flat_map(|&x| [x, -x]).collect();
    values.resize(7 * 41, 0.75);
    let mut cases = Cases::default();
    for dtype in [DType::F32, DType::F64] {
        for function in Unary::ALL {
            let mut join = Expr::new();
            let x = join.push_operand(0, dtype);
            if join.unary(function, x).is_ok() {
                let x = Dense::from_f64(dtype, [7, 41], &values);
                add_map(&mut cases, &format!("{function:?} {dtype}"), &map(join, 1), &[x], false);
            }
        }
        for function in
            [Binary::Pow, Binary::Atan2, Binary::Copysign, Binary::Fmod, Binary::Rem, Binary::Max, Binary::Min]
        {
            let mut join = Expr::new();
            let (x, y) = (join.push_operand(2, dtype), join.push_operand(3, dtype));
            join.binary(function, x, y).expect("of floats");
            let matrix = Dense::from_f64(dtype, [7, 41], &vec![0.0; 7 * 41]);
            let (row, column) =
                (Dense::from_f64(dtype, [41], &values[..41]), Dense::from_f64(dtype, [7], &values[..7]));
            let tensors = [matrix.clone(), Dense::from_f64(dtype, [41, 7], &matrix.to_f64()), row, column];
            add_map(&mut cases, &format!("{function:?} {dtype}"), &map(join, 4), &tensors, false);
        }
    }
    cases.run();
}

#[test]
fn functions_of_two_arguments() {
    let mut cases = Cases::default();
    for dtype in DType::ALL {
        for function in Binary::ALL {
            let mut join = Expr::new();
            let (x, y) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
            if join.binary(function, x, y).is_err() {
                continue;
            }
            let mut rng = Rng::new(2);
            let mut tensors = vec![rng.dense(dtype, &[7, 41], true), rng.dense(dtype, &[41, 7], true)];
            if function == Binary::Pow && dtype.is_float() {
                let positive: Vec<f64> = tensors[0].to_f64().iter().map(|v| v.abs() + 1.0).collect();
                tensors[0] = Dense::from_f64(dtype, [7, 41], &positive);
            }
            let exact = !matches!(function, Binary::Pow | Binary::Atan2) || !dtype.is_float();
            add_map(&mut cases, &format!("{function:?} {dtype}"), &map(join, 2), &tensors, exact);
        }
    }
    cases.run();
}

#[test]
fn casts_between_all_types() {
    let mut cases = Cases::default();
    for from in DType::ALL {
        for to in DType::ALL {
            let mut join = Expr::new();
            let x = join.push_operand(0, from);
            join.cast(x, to);
            let mut x = Rng::new(3).dense(from, &[7, 41], false);
            if from.is_float() {
                let mut values = x.to_f64();
                values[..5].copy_from_slice(&[f64::NAN, f64::INFINITY, -300.0, 70000.0, 1e-7]);
                x = Dense::from_f64(from, [7, 41], &values);
            }
            add_map(&mut cases, &format!("cast {from} to {to}"), &map(join, 1), &[x], true);
        }
    }
    cases.run();
}

#[test]
fn broadcasts_indices_and_selections() {
    let mut cases = Cases::default();
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        // a[i, j] + b[j, i] * row[j] where j < i + 2, else column[i]
        let mut join = Expr::new();
        let (a, b, row, column) = (
            join.push_operand(0, dtype),
            join.push_operand(1, dtype),
            join.push_operand(2, dtype),
            join.push_operand(3, dtype),
        );
        let product = join.binary(Binary::Mul, b, row).expect("one type");
        let sum = join.binary(Binary::Add, a, product).expect("one type");
        let (i, j) = (join.index(0), join.index(1));
        let two = join.constant(Literal::Int(2), DType::I64);
        let edge = join.binary(Binary::Add, i, two).expect("one type");
        let below = join.binary(Binary::Lt, j, edge).expect("one type");
        join.select(below, sum, column).expect("one type");
        let mut rng = Rng::new(7);
        let shapes: [&[usize]; 4] = [&[7, 41], &[41, 7], &[41], &[7]];
        let tensors: Vec<Dense> = shapes.iter().map(|s| rng.dense(dtype, s, true)).collect();
        let e = map(join, 4);
        for _ in 0..4 {
            add_map(&mut cases, &format!("select {dtype}"), &e, &tensors, true);
        }
    }
    cases.run();
}

/// Sizes that no vector, warp or block fits: elementwise on all shapes.
#[test]
fn awkward_sizes() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(11);
    for dtype in [DType::F32, DType::BF16, DType::U8, DType::F64] {
        for shape in [
            vec![],
            vec![1],
            vec![8],
            vec![1021],
            vec![257, 8],
            vec![16, 24],
            vec![5, 3, 8],
            vec![3, 1, 64],
            vec![0, 4],
        ] {
            let labels: Vec<Label> = shape.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
            let all: Vec<usize> = (0..shape.len()).collect();
            let mut join = Expr::new();
            let (x, y) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
            join.binary(Binary::Add, x, y).expect("numbers");
            let last: Vec<usize> = all.last().copied().into_iter().collect();
            let accesses = vec![Access::labels(&all), Access::labels(&last)];
            let e = Einsum { labels, rank: shape.len(), accesses, join, monoid: Monoid::Sum, dtype };
            let tensors =
                [rng.dense(dtype, &shape, true), rng.dense(dtype, &shape[shape.len().saturating_sub(1)..], true)];
            add(&mut cases, &mut rng, &format!("{shape:?} {dtype}"), &e, &tensors, &e.space(), true);
            if !shape.is_empty() && !shape.contains(&0) {
                let part = rng.part(&e.space());
                add(&mut cases, &mut rng, &format!("{shape:?} {dtype}"), &e, &tensors, &part, true);
            }
        }
    }
    cases.run();
}

/// A fold of one operand whose axes are labels in any order.
fn fold(shape: &[(usize, bool)], order: &[usize], monoid: Monoid, from: DType, dtype: DType) -> (Einsum, Vec<usize>) {
    let mut labels: Vec<usize> = (0..shape.len()).filter(|&n| !shape[n].1).collect();
    let rank = labels.len();
    labels.extend((0..shape.len()).filter(|&n| shape[n].1));
    let place = |n: usize| labels.iter().position(|&l| l == n).expect("all are there");
    let mut join = Expr::operand(from);
    join.cast(0, dtype);
    let access = Access::labels(&order.iter().map(|&n| place(n)).collect::<Vec<_>>());
    let stored = order.iter().map(|&n| shape[n].0).collect();
    let labels = labels.iter().map(|&n| Label::new(format!("l{n}"), shape[n].0)).collect();
    (Einsum { labels, rank, accesses: vec![access], join, monoid, dtype }, stored)
}

/// Labels with whether they are folded, and the order in which the operand has them.
type Layout = (&'static [(usize, bool)], &'static [usize]);

#[test]
fn every_monoid_type_and_layout() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(13);
    let shapes: [Layout; 9] = [
        (&[(5, false), (37, true)], &[0, 1]),
        (&[(5, false), (37, true)], &[1, 0]),
        (&[(3, false), (64, true)], &[0, 1]),
        (&[(1, false), (1, true)], &[0, 1]),
        (&[(131, true)], &[0]),
        (&[(4, false), (6, true), (3, false), (8, true)], &[0, 1, 2, 3]),
        (&[(4, true), (6, false), (5, true)], &[0, 1, 2]),
        (&[(70, false), (9, true)], &[1, 0]),
        (&[(2, false), (0, true)], &[0, 1]),
    ];
    for monoid in Monoid::OF_EINSUMS {
        for dtype in DType::ALL {
            let statistic = matches!(monoid, Monoid::Moments | Monoid::SoftMax);
            if statistic && !dtype.is_float() {
                continue;
            }
            // Every layout in some types, some in every type.
            let some = if matches!(dtype, DType::F32 | DType::BF16 | DType::I64) { &shapes[..] } else { &shapes[..3] };
            for (n, (shape, order)) in some.iter().enumerate() {
                let (e, stored) = fold(shape, order, monoid, dtype, dtype);
                let tensor = rng.dense(dtype, &stored, true);
                let rank = e.shape().len();
                let exact = !statistic;
                let op = Op::Einsum(e.clone());
                for finish in [true, false] {
                    let wide = n % 2 == 0;
                    let form = if finish { Form::finished(dtype, rank) } else { monoid.pending(dtype, rank, wide) };
                    let labels = if finish || e.space().is_empty() { e.space() } else { rng.part(&e.space()) };
                    // The mean of nothing is no number that could be compared.
                    if statistic && labels.is_empty() && finish {
                        continue;
                    }
                    let (row, expected) =
                        kernel_row(&mut rng, &op, std::slice::from_ref(&tensor), &labels, &form, finish);
                    let what = format!("{monoid} {dtype} {stored:?} finish {finish} over {labels}");
                    row.check(&mut cases, &what, expected, exact);
                }
            }
        }
    }
    cases.run();
}

/// Few results and long folds: parts that a second kernel joins.
#[test]
fn long_folds() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(17);
    for monoid in Monoid::OF_EINSUMS {
        for (shape, order) in [
            (vec![(1, false), (40_000, true)], vec![0, 1]),
            (vec![(3, false), (20_011, true)], vec![0, 1]),
            (vec![(40, false), (2_503, true)], vec![1, 0]),
        ] {
            let dtype = if monoid == Monoid::Prod { DType::I64 } else { DType::F32 };
            let (e, stored) = fold(&shape, &order, monoid, dtype, dtype);
            let tensor = rng.dense(dtype, &stored, true);
            let exact = !matches!(monoid, Monoid::Moments | Monoid::SoftMax);
            add(&mut cases, &mut rng, &format!("{monoid}"), &e, &[tensor], &e.space(), exact);
        }
    }
    let several = cases.programs().filter(|(_, p)| p.steps.len() > 1).count();
    assert!(several > 6, "{several} of {} are in parts", cases.len());
    cases.run();
}

/// Not a number and infinities go through folds as they do through the reference.
#[test]
fn folds_of_special_numbers() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(19);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for special in [vec![nan], vec![inf], vec![-inf], vec![inf, -inf], vec![nan, inf], vec![-inf; 64]] {
        for monoid in Monoid::OF_EINSUMS {
            let (e, stored) = fold(&[(2, false), (64, true)], &[0, 1], monoid, DType::F32, DType::F32);
            let mut values = rng.dense(DType::F32, &stored, true).to_f64();
            values[..special.len()].copy_from_slice(&special);
            let tensor = Dense::from_f64(DType::F32, stored, &values);
            add(&mut cases, &mut rng, &format!("{monoid} {special:?}"), &e, &[tensor], &e.space(), false);
        }
    }
    cases.run();
}

/// Windows, diagonals and fixed indices.
#[test]
fn affine_accesses() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(23);
    let affine = |terms: &[(usize, i64)], offset| Affine { terms: terms.to_vec(), offset };
    let one = |axes: Vec<Affine>| vec![Access { axes }];
    let label = |name: &str, extent| Label::new(name, extent);
    for dtype in [DType::F32, DType::I32] {
        let join = Expr::operand(dtype);
        let of = |labels: Vec<Label>, rank, accesses| Einsum {
            labels,
            rank,
            accesses,
            join: join.clone(),
            monoid: Monoid::Sum,
            dtype,
        };
        let cases_of = [
            (of(vec![label("y", 9), label("k", 3)], 1, one(vec![affine(&[(0, 2), (1, 1)], 0)])), vec![19]),
            (of(vec![label("i", 8)], 1, one(vec![affine(&[(0, 1)], 0), affine(&[(0, 1)], 0)])), vec![8, 8]),
            (of(vec![label("i", 6)], 0, one(vec![affine(&[(0, 1)], 0), affine(&[(0, 1)], 1)])), vec![6, 7]),
            (of(vec![label("i", 16)], 1, one(vec![affine(&[(0, -1)], 15)])), vec![16]),
            (of(vec![label("i", 5), label("j", 8)], 2, one(vec![affine(&[], 2), affine(&[(1, 1)], 0)])), vec![4, 8]),
        ];
        for (e, shape) in &cases_of {
            let tensor = [rng.dense(dtype, shape, true)];
            for round in 0..3 {
                let labels = if round == 0 { e.space() } else { rng.part(&e.space()) };
                add(&mut cases, &mut rng, &format!("{:?} {dtype}", e.accesses[0].axes), e, &tensor, &labels, true);
            }
        }
    }
    cases.run();
}

/// A block that reads nothing of an operand leaves the identity.
#[test]
fn nothing_to_fold() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(29);
    for monoid in [Monoid::Sum, Monoid::Max, Monoid::SoftMax] {
        let (e, stored) = fold(&[(5, false), (6, true)], &[0, 1], monoid, DType::F32, DType::F32);
        let mut labels = e.space();
        labels.0[1] = Interval::new(3, 3);
        let rank = e.shape().len();
        let tensor = rng.dense(DType::F32, &stored, true);
        let form = monoid.pending(DType::F32, rank, false);
        let (row, expected) = kernel_row(&mut rng, &Op::Einsum(e), &[tensor], &labels, &form, false);
        assert!(row.reads.is_empty());
        row.check(&mut cases, &format!("{monoid}"), expected, true);
    }
    cases.run();
}

/// What depends on few labels and takes long is computed once for each of their values.
#[test]
fn angles_are_computed_once() {
    let mut cases = Cases::default();
    let mut rng = Rng::new(31);
    for dtype in [DType::F32, DType::BF16] {
        // x[b, s, h, d] * cos(s * exp(-d / 8)) + sin(row[s])
        let mut join = Expr::new();
        let (x, row) = (join.push_operand(0, dtype), join.push_operand(1, DType::F32));
        let (s, d) = (join.index(1), join.index(3));
        let (s, d) = (join.cast(s, DType::F32), join.cast(d, DType::F32));
        let eighth = join.float(-0.125, DType::F32);
        let power = join.binary(Binary::Mul, d, eighth).expect("f32");
        let slow = join.unary(Unary::Exp, power).expect("f32");
        let angle = join.binary(Binary::Mul, s, slow).expect("f32");
        let cos = join.unary(Unary::Cos, angle).expect("f32");
        let sin = join.unary(Unary::Sin, row).expect("f32");
        let x = join.cast(x, DType::F32);
        let turned = join.binary(Binary::Mul, x, cos).expect("f32");
        let sum = join.binary(Binary::Add, turned, sin).expect("f32");
        join.cast(sum, dtype);
        let shape = [4, 17, 256, 64];
        let labels = shape.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
        let accesses = vec![Access::labels(&[0, 1, 2, 3]), Access::labels(&[1])];
        let e = Einsum { labels, rank: 4, accesses, join, monoid: Monoid::Sum, dtype };
        let tensors = [rng.dense(dtype, &shape, true), rng.dense(DType::F32, &[17], false)];
        let mut part = e.space();
        part.0[1] = Interval::new(1, 17);
        for labels in [e.space(), part] {
            add(&mut cases, &mut rng, &format!("angles {dtype}"), &e, &tensors, &labels, false);
        }
    }
    // The cosines of positions and features, the sines of the row; and all points.
    assert!(cases.programs().all(|(_, p)| p.steps.len() == 3 && p.scratch > 0));
    cases.run();
}
