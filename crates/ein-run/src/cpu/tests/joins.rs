//! Joins of all functions and types, and folds of them by every monoid.

use super::{Rng, check};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Literal, Unary};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;

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
        labels: vec![Label::new("i", 37), Label::new("j", 41)],
        rank: 2,
        accesses: accesses[..operands].to_vec(),
        join,
        monoid: Monoid::Sum,
        dtype,
    }
}

fn check_map(what: &str, e: &Einsum, tensors: &[Dense], exact: bool) {
    let mut rng = Rng::new(5);
    for round in 0..3 {
        let labels = if round == 0 { e.space() } else { rng.part(&e.space()) };
        let form = Form::finished(e.dtype, 2);
        check(what, &mut rng, &Op::Einsum(e.clone()), tensors, &labels, &form, true, exact);
    }
}

#[test]
fn functions_of_one_argument() {
    for dtype in DType::ALL {
        for function in Unary::ALL {
            let mut join = Expr::new();
            let x = join.push_operand(0, dtype);
            if join.unary(function, x).is_err() {
                continue;
            }
            // Away from where the logarithm's value, not its error, is what differs.
            let positive = matches!(function, Unary::Log | Unary::Sqrt | Unary::Rsqrt);
            let mut rng = Rng::new(1);
            let mut x = rng.dense(dtype, &[37, 41], !dtype.is_float());
            if positive {
                x = Dense::from_f64(
                    dtype,
                    x.shape.clone(),
                    &x.to_f64().iter().map(|v| v.abs() + 0.1).collect::<Vec<_>>(),
                );
            }
            let exact = matches!(
                function,
                Unary::Neg | Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc | Unary::Not
            );
            check_map(&format!("{function:?} {dtype}"), &map(join, 1), &[x], exact);
        }
    }
}

/// Every function at the ends of its domain, among ordinary numbers, and never by what its neighbours are.
#[test]
fn functions_at_special_numbers() {
    let special = [f64::NAN, f64::INFINITY, 0.0, 1.0, 2.5, 11.0, 100.0, 1e7, 3e30, 1e-40];
    let mut values: Vec<f64> = special.iter().flat_map(|&x| [x, -x]).collect();
    values.resize(37 * 41, 0.75);
    for dtype in [DType::F32, DType::F64] {
        for function in Unary::ALL {
            let mut join = Expr::new();
            let x = join.push_operand(0, dtype);
            if join.unary(function, x).is_ok() {
                let x = Dense::from_f64(dtype, [37, 41], &values);
                check_map(&format!("{function:?} {dtype}"), &map(join, 1), &[x], false);
            }
        }
        for function in [Binary::Pow, Binary::Atan2, Binary::Copysign, Binary::Fmod, Binary::Rem] {
            let mut join = Expr::new();
            let (x, y) = (join.push_operand(2, dtype), join.push_operand(3, dtype));
            join.binary(function, x, y).expect("of floats");
            let matrix = Dense::from_f64(dtype, [37, 41], &vec![0.0; 37 * 41]);
            let (row, column) =
                (Dense::from_f64(dtype, [41], &values[..41]), Dense::from_f64(dtype, [37], &values[..37]));
            let tensors = [matrix.clone(), Dense::from_f64(dtype, [41, 37], &matrix.to_f64()), row, column];
            check_map(&format!("{function:?} {dtype}"), &map(join, 4), &tensors, false);
        }
    }
}

#[test]
fn functions_of_two_arguments() {
    for dtype in DType::ALL {
        for function in Binary::ALL {
            let mut join = Expr::new();
            let (x, y) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
            if join.binary(function, x, y).is_err() {
                continue;
            }
            let mut rng = Rng::new(2);
            let mut tensors = vec![rng.dense(dtype, &[37, 41], true), rng.dense(dtype, &[41, 37], true)];
            if function == Binary::Pow && dtype.is_float() {
                let positive: Vec<f64> = tensors[0].to_f64().iter().map(|v| v.abs() + 1.0).collect();
                tensors[0] = Dense::from_f64(dtype, [37, 41], &positive);
            }
            let exact = !matches!(function, Binary::Pow | Binary::Atan2) || !dtype.is_float();
            check_map(&format!("{function:?} {dtype}"), &map(join, 2), &tensors, exact);
        }
    }
}

#[test]
fn casts_between_all_types() {
    for from in DType::ALL {
        for to in DType::ALL {
            let mut join = Expr::new();
            let x = join.push_operand(0, from);
            join.cast(x, to);
            let mut x = Rng::new(3).dense(from, &[37, 41], false);
            if from.is_float() {
                let mut values = x.to_f64();
                values[..4].copy_from_slice(&[f64::NAN, f64::INFINITY, -300.0, 70000.0]);
                x = Dense::from_f64(from, [37, 41], &values);
            }
            check_map(&format!("cast {from} to {to}"), &map(join, 1), &[x], true);
        }
    }
}

#[test]
fn broadcasts_indices_and_selections() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        // a[i, j] + b[j, i] * row[j] where j < i + 2, else column[i]
        let mut join = Expr::new();
        let (a, b, row, column) = (
            join.push_operand(0, dtype),
            join.push_operand(1, dtype),
            join.push_operand(2, dtype),
            join.push_operand(3, dtype),
        );
        let (i, j) = (join.index(0), join.index(1));
        let two = join.constant(Literal::Int(2), DType::I64);
        let limit = join.binary(Binary::Add, i, two).expect("integers");
        let below = join.binary(Binary::Lt, j, limit).expect("integers");
        let product = join.binary(Binary::Mul, b, row).expect("one type");
        let sum = join.binary(Binary::Add, a, product).expect("one type");
        join.select(below, sum, column).expect("one type");
        let mut rng = Rng::new(4);
        let shapes: [&[usize]; 4] = [&[37, 41], &[41, 37], &[41], &[37]];
        let tensors: Vec<Dense> = shapes.iter().map(|s| rng.dense(dtype, s, true)).collect();
        check_map(&format!("select {dtype}"), &map(join, 4), &tensors, true);
    }
}

/// Reductions of a tensor of three axes over any of them, in any storage order.
#[test]
fn folds_of_every_monoid() {
    let mut rng = Rng::new(6);
    for monoid in Monoid::OF_EINSUMS {
        for dtype in DType::ALL {
            let statistic = matches!(monoid, Monoid::Moments | Monoid::SoftMax);
            if statistic && !dtype.is_float() {
                continue;
            }
            for (labels, rank, order) in [
                (vec![5, 6, 70], 2, [0, 1, 2]),
                (vec![5, 6, 70], 1, [0, 1, 2]),
                (vec![30, 40, 7], 2, [2, 0, 1]),
                (vec![600, 3, 20], 1, [1, 2, 0]),
                (vec![3, 20, 30], 0, [2, 1, 0]),
                (vec![20, 5, 4], 2, [0, 1, 2]),
            ] {
                let e = Einsum {
                    labels: labels.iter().zip(["a", "b", "c"]).map(|(&n, name)| Label::new(name, n)).collect(),
                    rank,
                    accesses: vec![Access::labels(&order)],
                    join: Expr::operand(dtype),
                    monoid,
                    dtype,
                };
                let shape: Vec<usize> = order.iter().map(|&l| labels[l]).collect();
                let whole = rng.coin() || !dtype.is_float();
                let mut tensor = rng.dense(dtype, &shape, whole);
                if monoid == Monoid::Prod {
                    let signs: Vec<f64> = tensor.to_f64().iter().map(|v| if *v < 0.0 { -1.0 } else { 1.0 }).collect();
                    tensor = Dense::from_f64(dtype, shape, &signs);
                }
                // Sums of a 16-bit type in f32 differ from sums in f64 by what f32 rounds.
                let exact = (whole && !statistic)
                    || !dtype.is_float()
                    || matches!(monoid, Monoid::Max | Monoid::Min | Monoid::Prod);
                let full = e.shape().len();
                for round in 0..4 {
                    let labels = if round == 0 { e.space() } else { rng.part(&e.space()) };
                    let finish = round < 2;
                    let form =
                        if finish { Form::finished(dtype, full) } else { monoid.pending(dtype, full, round == 3) };
                    let what = format!("{} {dtype} {order:?} {rank}", monoid.name());
                    let op = Op::Einsum(e.clone());
                    check(&what, &mut rng, &op, &[tensor.clone()], &labels, &form, finish, exact);
                }
            }
        }
    }
}

#[test]
fn infinities_and_nothing() {
    let nothing = |monoid: Monoid, dtype| Einsum {
        labels: vec![Label::new("i", 3), Label::new("j", 0)],
        rank: 1,
        accesses: vec![Access::labels(&[0, 1])],
        join: Expr::operand(dtype),
        monoid,
        dtype,
    };
    let mut rng = Rng::new(7);
    for dtype in [DType::F32, DType::F64, DType::I32] {
        for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
            let e = nothing(monoid, dtype);
            let empty = Dense::from_f64(dtype, [3, 0], &[]);
            let form = Form::finished(dtype, 1);
            let space = e.space();
            check(monoid.name(), &mut rng, &Op::Einsum(e), &[empty], &space, &form, true, true);
        }
    }
    let inf = f64::INFINITY;
    for rows in [[-inf; 40], [inf; 40], std::array::from_fn(|n| if n < 39 { -inf } else { 2.0 })] {
        for monoid in [Monoid::SoftMax, Monoid::Max] {
            for dtype in [DType::F32, DType::F64] {
                let e = Einsum {
                    labels: vec![Label::new("i", 1), Label::new("j", 40)],
                    rank: 1,
                    accesses: vec![Access::labels(&[0, 1])],
                    join: Expr::operand(dtype),
                    monoid,
                    dtype,
                };
                let form = monoid.pending(dtype, e.shape().len(), true);
                let (space, tensor) = (e.space(), Dense::from_f64(dtype, [1, 40], &rows));
                check("infinite", &mut rng, &Op::Einsum(e), &[tensor], &space, &form, false, true);
            }
        }
    }
}
