//! Rates that one figure does not tell: of products by shape, and of threads by how many of them work.

use ein_ir::dtype::DType;
use ein_ir::monoid::Monoid;
use ein_ir::region::Region;
use ein_ir::spec::{AxisMap, Spec};

/// A measured rate of products of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapeRate {
    /// The type that they work in.
    pub dtype: DType,
    /// The shortest of the three sides: rows, columns, and what is summed over.
    pub side: f64,
    /// Multiply-adds.
    pub points: f64,
    /// Operations per second; two for a multiply-add.
    pub rate: f64,
}

/// How fast a device multiplies blocks of some shapes, beside [`Device::flops`](crate::machine::Device::flops). Empty:
/// all shapes run at that rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Products {
    /// Rates by shape. A block gets those of its type with the longest side that is not longer than its own, and of these
    /// one between the two whose multiply-adds are next to its own, by their logarithms.
    pub shapes: Vec<ShapeRate>,
    /// Operations per second of contractions that read an operand through overlapping windows, such as a convolution. An
    /// axis that several labels split without overlap, such as features into heads, makes no window: those are products.
    pub windows: Option<f64>,
}

impl Products {
    /// Operations per second of a block, if the table tells.
    pub fn rate(&self, spec: &Spec, labels: &Region) -> Option<f64> {
        if spec.monoid == Monoid::Attend || self.shapes.is_empty() && self.windows.is_none() {
            return None;
        }
        let overlaps = |a: &AxisMap| matches!(a, AxisMap::Affine(a) if a.overlaps(|l| labels.0[l].len()));
        if spec.operands.iter().any(|o| o.axes.iter().any(overlaps)) {
            return self.windows;
        }
        let (side, points) = shape(spec, labels)?;
        self.of(spec.work.dtype, side, points)
    }

    fn of(&self, dtype: DType, side: f64, points: f64) -> Option<f64> {
        let fits = |s: &&ShapeRate| s.dtype == dtype && s.side <= side;
        let longest = self.shapes.iter().filter(fits).map(|s| s.side).reduce(f64::max)?;
        let of_side = || self.shapes.iter().filter(fits).filter(|s| s.side == longest);
        let below = of_side().filter(|s| s.points <= points).max_by(|a, b| a.points.total_cmp(&b.points));
        let above = of_side().filter(|s| s.points > points).min_by(|a, b| a.points.total_cmp(&b.points));
        match (below, above) {
            (Some(a), Some(b)) => {
                let way = (points / a.points).ln() / (b.points / a.points).ln();
                Some(a.rate * (b.rate / a.rate).powf(way))
            }
            (a, b) => a.or(b).map(|s| s.rate),
        }
    }
}

/// The shortest side and the multiply-adds of a product of two operands, for each pair of matrices; `None` of anything
/// else.
fn shape(spec: &Spec, labels: &Region) -> Option<(f64, f64)> {
    let [left, right] = &spec.operands[..] else { return None };
    let (mut rows, mut columns, mut summed) = (1.0, 1.0, 1.0);
    for (n, interval) in labels.0.iter().enumerate() {
        let uses = |o: &ein_ir::spec::OperandSpec| o.axes.iter().any(|a| a.depends_on(n));
        let extent = interval.len() as f64;
        match (n < spec.rank, uses(left), uses(right)) {
            (true, true, false) => rows *= extent,
            (true, false, true) => columns *= extent,
            (false, true, true) => summed *= extent,
            _ => {}
        }
    }
    Some((f64::min(rows, columns).min(summed), rows * columns * summed))
}

/// How fast threads of one host run by how many of them work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// How many times faster than its rates say a thread is while it works alone and there are several processors.
    pub alone: f64,
    /// What part of their time is left where more threads than processors take turns.
    pub crowded: f64,
}

impl Default for Turns {
    fn default() -> Self {
        Self { alone: 1.0, crowded: 1.0 }
    }
}

impl Turns {
    /// The speed of each of `threads` that work on `processors`, at least one of either, against its rates.
    pub fn speed(&self, threads: usize, processors: f64) -> f64 {
        let threads = threads.max(1) as f64;
        if threads > processors {
            self.crowded * processors / threads
        } else if threads == 1.0 && processors > 1.0 {
            self.alone
        } else {
            1.0
        }
    }

    /// Seconds until the last of several threads is done that begin at once, each with work of so many seconds by its rates,
    /// if they take turns fairly.
    pub fn together(&self, work: &[f64], processors: f64) -> f64 {
        let mut left: Vec<f64> = work.iter().copied().filter(|&w| w > 0.0).collect();
        left.sort_by(f64::total_cmp);
        let (mut seconds, mut done) = (0.0, 0.0);
        for (over, &own) in left.iter().enumerate() {
            seconds += (own - done) / self.speed(left.len() - over, processors);
            done = own;
        }
        seconds
    }

    /// As many seconds of work by their rates as some of so many threads do together in a second at most.
    pub fn most(&self, threads: usize, processors: f64) -> f64 {
        (1..=threads).map(|n| n as f64 * self.speed(n, processors)).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::einsum::{Access, Affine, Einsum, Label};
    use ein_ir::expr::{Binary, Expr};
    use ein_ir::op::Op;

    fn table() -> Products {
        let row = |side: f64, points: f64, rate: f64| ShapeRate { dtype: DType::F32, side, points, rate };
        let shapes = vec![row(1.0, 1e3, 1e9), row(1.0, 1e5, 4e9), row(32.0, 1e5, 9e9), row(32.0, 1e7, 36e9)];
        Products { shapes, windows: Some(5e8) }
    }

    fn product(dtype: DType, m: usize, k: usize, n: usize) -> Spec {
        let e = Einsum::contraction("mk,kn->mn", &[&[m, k], &[k, n]], dtype).unwrap();
        Op::Einsum(e).spec(&[dtype; 2]).unwrap()
    }

    #[test]
    fn a_block_runs_at_the_rate_of_its_shape() {
        let check = |spec: &Spec, pairs: &[(usize, usize)], expected: Option<f64>| {
            let found = table().rate(spec, &Region::of(pairs));
            let near = found.zip(expected).is_none_or(|(f, e)| (f - e).abs() <= 1e-9 * e);
            assert!(found.is_some() == expected.is_some() && near, "{found:?} is not {expected:?}");
        };
        let large = product(DType::F32, 1000, 1000, 1000);
        // Flat: by its multiply-adds, between two rows halfway by logarithms, and beyond the last.
        check(&large, &[(0, 1), (0, 100), (0, 10)], Some(1e9));
        check(&large, &[(3, 4), (0, 100), (0, 100)], Some(2e9));
        check(&large, &[(0, 31), (0, 1000), (0, 1000)], Some(4e9));
        check(&large, &[(0, 1), (0, 1), (0, 1)], Some(1e9));
        // Every side long enough: the other rows, whichever side is shortest.
        check(
            &large,
            &[(0, 32), (0, 1000), (0, 1000)],
            Some(9e9 * 4f64.powf((32e6_f64 / 1e5).ln() / 100f64.ln()).min(4.0)),
        );
        check(&large, &[(0, 100), (0, 32), (0, 32)], Some(9e9 * 4f64.powf((102_400.0_f64 / 1e5).ln() / 100f64.ln())));
        check(&large, &[(0, 1000), (0, 1000), (0, 1000)], Some(36e9));
        // A type without rows, and an empty table.
        check(&product(DType::F64, 8, 8, 8), &[(0, 8), (0, 8), (0, 8)], None);
        assert_eq!(Products::default().rate(&large, &large.space()), None);
    }

    #[test]
    fn windows_have_a_rate_of_their_own() {
        let mut join = Expr::operand(DType::F32);
        let right = join.push_operand(1, DType::F32);
        join.binary(Binary::Mul, 0, right).unwrap();
        let window = Affine { terms: vec![(0, 1), (1, 1)], offset: 0 };
        let e = Einsum {
            labels: vec![Label::new("i", 62), Label::new("k", 3)],
            rank: 1,
            accesses: vec![Access { axes: vec![window] }, Access::labels(&[1])],
            join,
            monoid: Monoid::Sum,
            dtype: DType::F32,
        };
        let spec = Op::Einsum(e).spec(&[DType::F32; 2]).unwrap();
        assert_eq!(table().rate(&spec, &spec.space()), Some(5e8));
        assert_eq!(Products { windows: None, ..table() }.rate(&spec, &spec.space()), None);
    }

    #[test]
    fn an_axis_split_into_heads_is_no_window() {
        // Rows of 4 heads of 8 columns each: `x[i, k] * w[8 h + e, k]`, also where 8 of 16 columns of each head are taken.
        let mut join = Expr::operand(DType::F32);
        let right = join.push_operand(1, DType::F32);
        join.binary(Binary::Mul, 0, right).unwrap();
        let heads = |step: i64| {
            let column = Affine { terms: vec![(1, step), (2, 1)], offset: 0 };
            let e = Einsum {
                labels: [("i", 64), ("h", 4), ("e", 8), ("k", 64)].map(|(n, x)| Label::new(n, x)).to_vec(),
                rank: 3,
                accesses: vec![Access::labels(&[0, 3]), Access { axes: vec![column, Affine::label(3)] }],
                join: join.clone(),
                monoid: Monoid::Sum,
                dtype: DType::F32,
            };
            Op::Einsum(e).spec(&[DType::F32; 2]).unwrap()
        };
        let plain = table().rate(&product(DType::F32, 64, 64, 32), &Region::of(&[(0, 64), (0, 32), (0, 64)]));
        for step in [8, 16] {
            let spec = heads(step);
            assert_eq!(table().rate(&spec, &spec.space()), plain);
        }
        // With steps of 7 the last column of a head is the first of the next one; of a block of 7 columns it is not.
        let spec = heads(7);
        assert_eq!(table().rate(&spec, &spec.space()), Some(5e8));
        let rate = table().rate(&spec, &Region::of(&[(0, 64), (0, 4), (0, 7), (0, 64)]));
        assert!(rate.is_some_and(|r| r > 5e8));
    }

    #[test]
    fn threads_share_with_a_loss() {
        let turns = Turns { alone: 1.25, crowded: 0.8 };
        let speeds = [(0, 2.0, 1.25), (1, 2.0, 1.25), (2, 2.0, 1.0), (3, 2.0, 1.6 / 3.0), (8, 2.0, 0.2), (1, 1.0, 1.0)];
        for (threads, processors, expected) in speeds {
            assert_eq!(turns.speed(threads, processors), expected, "{threads} on {processors}");
        }
        assert_eq!(Turns::default().speed(8, f64::INFINITY), 1.0);
        assert_eq!(Turns::default().speed(4, 1.0), 0.25);
        // Three threads until the first is done, two until the next, and one: 1 / (1.6 / 3), 1 and 1 / 1.25 seconds.
        let check = |work: &[f64], processors, expected: f64| {
            let found = turns.together(work, processors);
            assert!((found - expected).abs() < 1e-12, "{work:?}: {found}");
            let total: f64 = work.iter().sum();
            assert!(total <= turns.most(work.len(), processors) * (found + 1e-12), "{work:?}: nothing is quicker");
        };
        check(&[3.0, 1.0, 2.0], 2.0, 1.875 + 1.0 + 0.8);
        check(&[1.0, 1.0, 1.0, 1.0], 2.0, 2.5);
        check(&[2.0, 0.0], 2.0, 1.6);
        check(&[2.0, 2.0], 4.0, 2.0);
        check(&[], 2.0, 0.0);
        assert_eq!((turns.most(1, 2.0), turns.most(2, 2.0), turns.most(8, 2.0)), (1.25, 2.0, 2.0));
    }
}
