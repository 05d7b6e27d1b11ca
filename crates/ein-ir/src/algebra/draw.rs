//! Partials, maps of them, and what comes of both orders.

use super::Answer;
use crate::dense::Dense;
use crate::dtype::DType;
use crate::expr::{Expr, Row};
use crate::monoid::{Monoid, Top};
use crate::random::Random;
use crate::reference::{combine, finish};
use crate::scalar::{Evaluator, Scalar};

/// Elements of a drawn tensor, and entries of a drawn order.
pub(super) const WIDTH: usize = 12;
pub(super) const K: usize = 3;

/// The operands of every drawn map: two that may be pending, and two that are finished.
pub(super) const X: usize = 0;
pub(super) const Z: usize = 1;
pub(super) const Y: usize = 2;
pub(super) const W: usize = 3;

/// A map, by what it is called in messages.
#[derive(Clone)]
pub(super) struct Map {
    pub name: String,
    pub expr: Expr,
}

impl Map {
    pub fn pending(&self) -> Vec<usize> {
        [X, Z].into_iter().filter(|n| self.expr.rows().iter().any(|r| r.0 == Row::Operand(*n))).collect()
    }
}

/// What an element is drawn from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pool {
    /// Finite numbers of a size at which nothing overflows.
    Finite,
    /// NaN and infinities too.
    Special,
    /// Huge numbers too.
    Any,
}

pub(super) fn element(random: &mut Random, dtype: DType, pool: Pool) -> Scalar {
    let small = [0, 1, -1, 2, -2, 3, -5, 7];
    if dtype.is_float() {
        let mut all = vec![-0.0, 0.5, -0.5, 2.5, -3.25, 0.75];
        all.extend(small.map(|n| n as f64));
        if pool != Pool::Finite {
            all.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        }
        if pool == Pool::Any {
            all.extend([3e38, -3e38, 1e-45, 1e300, -1e300]);
        }
        return Scalar::F(random.of(&all)).cast(dtype);
    }
    let mut all: Vec<i64> = small.to_vec();
    if pool != Pool::Finite {
        // Extremes, powers of two that overflow, and the inverses of 3.
        all.extend([
            i64::MIN,
            i64::MAX,
            65537,
            32768,
            0xaaaa_aaab,
            0xaaaa_aaaa_aaaa_aaab_u64 as i64,
            128,
            171,
            200,
            255,
        ]);
        all.extend([i64::from(i32::MIN), i64::from(i32::MAX)]);
    }
    Scalar::I(random.of(&all)).cast(dtype)
}

pub(super) fn tensor(dtype: DType, shape: &[usize], elements: &[Scalar]) -> Dense {
    if dtype.is_float() {
        let values: Vec<f64> = elements.iter().map(|e| e.to_f64()).collect();
        return Dense::from_f64(dtype, shape, &values);
    }
    Dense::from_i64(dtype, shape, elements.iter().map(|e| e.to_i64()).collect())
}

/// Partials of one tensor: for each, its fields.
pub(super) fn partials(random: &mut Random, monoid: Monoid, dtype: DType, n: usize, pool: Pool) -> Vec<Vec<Dense>> {
    let draw = |random: &mut Random, count: usize| -> Vec<Scalar> {
        (0..count).map(|_| element(random, dtype, pool)).collect()
    };
    match monoid {
        Monoid::Sum | Monoid::Max | Monoid::Min | Monoid::Prod => {
            (0..n).map(|_| vec![tensor(dtype, &[WIDTH], &draw(random, WIDTH))]).collect()
        }
        Monoid::Once => {
            let holders: Vec<usize> = (0..WIDTH).map(|_| random.below(n)).collect();
            let part = |p: usize, random: &mut Random| {
                let mut elements = draw(random, WIDTH);
                for (element, holder) in elements.iter_mut().zip(&holders) {
                    if *holder != p {
                        *element = Scalar::I(0).cast(dtype);
                    }
                }
                vec![tensor(dtype, &[WIDTH], &elements)]
            };
            (0..n).map(|p| part(p, random)).collect()
        }
        Monoid::Attend => {
            let acc = dtype.accumulator();
            let field = |random: &mut Random, all: &[f64]| {
                let elements: Vec<Scalar> = (0..WIDTH).map(|_| Scalar::F(random.of(all))).collect();
                tensor(acc, &[WIDTH], &elements)
            };
            let part = |random: &mut Random| {
                let tops = field(random, &[0.0, 1.0, -2.0]);
                let sums = field(random, &[1.0, 1.5, 3.0]);
                vec![tops, sums, tensor(dtype, &[WIDTH, 1], &draw(random, WIDTH))]
            };
            (0..n).map(|_| part(random)).collect()
        }
        Monoid::Top(top) => {
            let part = |p: usize, random: &mut Random| {
                let (mut values, mut indices) = (Vec::new(), Vec::new());
                for _ in 0..WIDTH / K {
                    let mut row: Vec<(Scalar, i64)> = (0..K)
                        .map(|i| {
                            if random.below(6) == 0 {
                                return (Scalar::I(0).cast(dtype), Top::NOTHING);
                            }
                            (element(random, dtype, pool), (p * K + i) as i64)
                        })
                        .collect();
                    row.sort_by(|a, b| top.order(*a, *b));
                    values.extend(row.iter().map(|e| e.0));
                    indices.extend(row.iter().map(|e| Scalar::I(e.1)));
                }
                let shape = [WIDTH / K, K];
                vec![tensor(dtype, &shape, &values), tensor(DType::I64, &shape, &indices)]
            };
            (0..n).map(|p| part(p, random)).collect()
        }
        Monoid::Moments | Monoid::SoftMax | Monoid::Affine => unreachable!("nothing is drawn for these"),
    }
}

/// The fold of partials, finished.
pub(super) fn folded(monoid: Monoid, parts: &[Vec<Dense>], dtype: DType) -> Dense {
    let rank = match monoid {
        Monoid::Attend | Monoid::Top(_) => 2,
        _ => 1,
    };
    let form = monoid.pending(dtype, rank, false);
    let parts: Vec<Vec<Dense>> = parts.to_vec();
    finish(monoid, combine(monoid, &parts, &form), dtype)
}

/// The field that is mapped.
pub(super) fn mapped(monoid: Monoid) -> usize {
    if monoid == Monoid::Attend { 2 } else { 0 }
}

/// What one draw gives: the map of the fold and the fold of the maps, with the size of what was added up.
pub(super) struct Drawn {
    pub map_of_fold: Dense,
    pub fold_of_maps: Dense,
    pub size: f64,
    /// Whether a value along the way is infinite, NaN or large.
    pub wild: bool,
}

pub(super) fn draw(random: &mut Random, monoid: Monoid, dtype: DType, map: &Map, answer: &Answer, pool: Pool) -> Drawn {
    let nonzero = *answer == Answer::Numerically && dtype.is_float();
    let n = 1 + random.below(4);
    let x = partials(random, monoid, dtype, n, pool);
    let z = partials(random, monoid, dtype, n, pool);
    let shape = x[0][mapped(monoid)].shape.clone();
    let mut operand = || {
        let mut one = || match pool {
            Pool::Any => element(random, dtype, pool),
            Pool::Special if !dtype.is_float() => element(random, dtype, pool),
            // Finite, and so are quotients by it.
            Pool::Special | Pool::Finite => loop {
                let drawn = element(random, dtype, Pool::Finite);
                if drawn.to_f64() != 0.0 || !nonzero {
                    break drawn;
                }
            },
        };
        let elements: Vec<Scalar> = (0..WIDTH).map(|_| one()).collect();
        tensor(dtype, &shape, &elements)
    };
    let (y, w) = (operand(), operand());
    let to = map.expr.dtype();
    let mut evaluator = Evaluator::new(&map.expr, false);
    let (mut size, mut wild) = (0.0f64, false);
    let mut apply = |x: &Dense, z: &Dense| {
        let value = |i: usize| {
            let operands = [x, z, &y, &w].map(|t| t.scalar(i));
            let value = evaluator.value(|n| operands[n], |_| i % 2);
            for row in evaluator.values() {
                let row = row.to_f64().abs();
                wild |= row.is_nan() || row > 1e6;
                size = size.max(if row.is_finite() { row } else { 0.0 });
            }
            value
        };
        tensor(to, &shape, &(0..WIDTH).map(value).collect::<Vec<_>>())
    };
    let map_of_fold = apply(&folded(monoid, &x, dtype), &folded(monoid, &z, dtype));
    let after = match monoid {
        Monoid::Top(top) => Monoid::Top(Top { of: to, ..top }),
        other => other,
    };
    let field = mapped(monoid);
    let maps: Vec<Vec<Dense>> = x
        .iter()
        .zip(&z)
        .map(|(x, z)| {
            let mut fields = x.clone();
            fields[field] = apply(&x[field], &z[field]);
            fields
        })
        .collect();
    Drawn { map_of_fold, fold_of_maps: folded(after, &maps, to), size: size * n as f64, wild }
}
