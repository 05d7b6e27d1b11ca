//! Runs exchange programs on integers, and says whether every need gets the dense fold of its partials.
//!
//! Programs only move, cut, fold and paste boxes, so between the coordinates that occur in a program and its
//! question all points fare alike: one point stands for all of them. That makes programs over gigabytes small.

use ein_ir::monoid::Monoid;
use ein_ir::region::{Interval, Region};
use ein_task::exchange::{Exchange, Program, Step};
use ein_task::machine::DeviceId;

/// A box and its values, row-major.
#[derive(Clone, Debug)]
struct Stored {
    device: DeviceId,
    region: Region,
    values: Vec<i64>,
}

/// Whether the program gives every need the fold of all blocks that contain its points.
pub fn right(exchange: &Exchange, program: &Program) -> Result<(), String> {
    let axes = Axes::of(exchange, program);
    let monoid = exchange.have.monoid;
    let last = last_reads(program);
    let mut stored: Vec<Option<Stored>> = Vec::with_capacity(program.steps.len());
    for (row, step) in program.steps.iter().enumerate() {
        let of = |p: usize| stored[p].as_ref().ok_or_else(|| format!("%{row} reads %{p}, which is not there"));
        let next = match step {
            Step::Load { block, device } => {
                let held = &exchange.have.blocks[*block];
                let region = axes.compressed(&held.region);
                let values = points(&region).map(|p| datum(monoid, *block, &p)).collect();
                Stored { device: *device, region, values }
            }
            Step::Cut { piece, region } => cut(of(*piece)?, &axes.compressed(region)),
            Step::Move { piece, to } => Stored { device: *to, ..of(*piece)?.clone() },
            Step::Fold { pieces } => {
                let mut folded = of(pieces[0])?.clone();
                for &p in &pieces[1..] {
                    let other = of(p)?;
                    if other.device != folded.device || other.region != folded.region {
                        return Err(format!("%{row} folds pieces of different boxes or devices"));
                    }
                    for (a, b) in folded.values.iter_mut().zip(&other.values) {
                        *a = combine(monoid, *a, *b);
                    }
                }
                folded
            }
            Step::Paste { pieces, region } => {
                let region = axes.compressed(region);
                let mut values: Vec<Option<i64>> = vec![None; region.volume()];
                let device = of(pieces[0])?.device;
                for &p in pieces {
                    let part = of(p)?;
                    if part.device != device {
                        return Err(format!("%{row} pastes pieces of different devices"));
                    }
                    for (point, value) in points(&part.region).zip(&part.values) {
                        values[offset(&region, &point)] = Some(*value);
                    }
                }
                let values = values.into_iter().collect::<Option<Vec<i64>>>();
                Stored { device, region, values: values.ok_or_else(|| format!("%{row} leaves holes"))? }
            }
        };
        stored.push(Some(next));
        for &p in &last[row] {
            stored[p] = None;
        }
    }
    for (n, (need, &yielded)) in exchange.needs.iter().zip(&program.yields).enumerate() {
        let got = stored[yielded].as_ref().expect("yields are kept");
        let region = axes.compressed(&need.region);
        if got.device != need.device || got.region != region {
            return Err(format!("need {n} gets another box, or gets it elsewhere"));
        }
        for (point, &value) in points(&region).zip(&got.values) {
            let expected = axes.expected(exchange, &point);
            if value != expected {
                return Err(format!("need {n}: {value} instead of {expected} at {point:?}"));
            }
        }
    }
    Ok(())
}

/// The pieces that nothing reads behind a row, by row.
fn last_reads(program: &Program) -> Vec<Vec<usize>> {
    let mut last = vec![Vec::new(); program.steps.len()];
    let mut read = vec![false; program.steps.len()];
    program.yields.iter().for_each(|&p| read[p] = true);
    for (row, step) in program.steps.iter().enumerate().rev() {
        let pieces: &[usize] = match step {
            Step::Load { .. } => &[],
            Step::Cut { piece, .. } | Step::Move { piece, .. } => std::slice::from_ref(piece),
            Step::Fold { pieces } | Step::Paste { pieces, .. } => pieces,
        };
        for &p in pieces {
            if !read[p] {
                read[p] = true;
                last[row].push(p);
            }
        }
    }
    last
}

/// The coordinates that occur, by axis.
struct Axes(Vec<Vec<usize>>);

impl Axes {
    fn of(exchange: &Exchange, program: &Program) -> Self {
        let regions = exchange.have.blocks.iter().map(|b| &b.region).chain(exchange.needs.iter().map(|n| &n.region));
        let steps = program.steps.iter().filter_map(|s| match s {
            Step::Cut { region, .. } | Step::Paste { region, .. } => Some(region),
            Step::Load { .. } | Step::Move { .. } | Step::Fold { .. } => None,
        });
        let mut axes = vec![Vec::new(); exchange.have.whole.rank()];
        for region in regions.chain(steps).chain([&exchange.have.whole]) {
            for (axis, i) in axes.iter_mut().zip(&region.0) {
                axis.extend([i.lo, i.hi]);
            }
        }
        for axis in &mut axes {
            axis.sort_unstable();
            axis.dedup();
        }
        Self(axes)
    }

    /// A box in positions among the coordinates.
    fn compressed(&self, region: &Region) -> Region {
        let at = |axis: &Vec<usize>, x: usize| axis.binary_search(&x).expect("every coordinate is listed");
        Region(self.0.iter().zip(&region.0).map(|(axis, i)| Interval::new(at(axis, i.lo), at(axis, i.hi))).collect())
    }

    /// The fold of every block that contains a point.
    fn expected(&self, exchange: &Exchange, point: &[usize]) -> i64 {
        let inside = |r: &Region| {
            let coordinate = |(axis, &n): (&Vec<usize>, &usize)| axis[n];
            let own = self.0.iter().zip(point).map(coordinate);
            own.zip(&r.0).all(|(x, i)| i.lo <= x && x < i.hi)
        };
        let monoid = exchange.have.monoid;
        let blocks = exchange.have.blocks.iter().enumerate().filter(|(_, b)| inside(&b.region));
        let mut blocks: Vec<usize> = blocks.map(|b| b.0).collect();
        if monoid.is_ordered() {
            blocks.sort_by_key(|&b| (exchange.have.places[b].lo, exchange.have.places[b].hi));
        }
        let data = blocks.into_iter().map(|b| datum(monoid, b, point));
        data.reduce(|a, b| combine(monoid, a, b)).expect("every point is in a block")
    }
}

fn cut(whole: &Stored, region: &Region) -> Stored {
    let values = points(region).map(|p| whole.values[offset(&whole.region, &p)]).collect();
    Stored { device: whole.device, region: region.clone(), values }
}

fn points(region: &Region) -> impl Iterator<Item = Vec<usize>> + use<> {
    ein_ir::region::points(region)
}

fn offset(region: &Region, point: &[usize]) -> usize {
    region.0.iter().zip(point).fold(0, |at, (i, x)| at * i.len() + (x - i.lo))
}

/// The value of a block at a point: different for blocks and points, and small enough to fold exactly.
fn datum(monoid: Monoid, block: usize, point: &[usize]) -> i64 {
    let mixed = point.iter().fold(block as i64 + 1, |h, &x| (h * 1_000_003 + x as i64 + 7) % 1_000_000_007);
    match monoid {
        // Odd numbers: a product tells how often each factor went in, and never becomes 0.
        Monoid::Prod => (mixed % 1_000_003) * 2 + 3,
        Monoid::Sum
        | Monoid::Max
        | Monoid::Min
        | Monoid::Moments
        | Monoid::SoftMax
        | Monoid::Attend
        | Monoid::Once
        | Monoid::Top(_) => mixed - 500_000_000,
        // Scale and shift in the halves of the bits; an odd scale loses nothing of what was before.
        Monoid::Affine => (mixed | 1) << 32 | (mixed * 7 % 1_000_003),
    }
}

/// Combines two values. Commutative monoids of several fields are stood in for by a sum: what is tested is which partials go
/// in, and that each does once. Maps are what they are, in 32 bits.
fn combine(monoid: Monoid, a: i64, b: i64) -> i64 {
    match monoid {
        Monoid::Max => a.max(b),
        Monoid::Min => a.min(b),
        Monoid::Prod => a.wrapping_mul(b),
        Monoid::Sum | Monoid::Moments | Monoid::SoftMax | Monoid::Attend | Monoid::Once | Monoid::Top(_) => {
            a.wrapping_add(b)
        }
        Monoid::Affine => {
            let [(scale, shift), (by, more)] = [a, b].map(|v| ((v >> 32) as u32, v as u32));
            let (scale, shift) = (scale.wrapping_mul(by), shift.wrapping_mul(by).wrapping_add(more));
            i64::from(scale) << 32 | i64::from(shift)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::machines::{switch, workers};
    use crate::exchange::questions::{Kind, exchange};
    use crate::exchange::rivals::direct;

    #[test]
    fn wrong_programs_are_found_wrong() {
        let machine = switch(3, 1e9, 0.0);
        let question = exchange(Kind::AllReduce, &workers(&machine), 4096);
        let program = direct(&question, &machine);
        assert_eq!(right(&question, &program), Ok(()));
        // A partial that is folded in twice, one that is left out, and an answer in another place.
        for row in 0..program.steps.len() {
            let Step::Fold { pieces } = &program.steps[row] else { continue };
            for n in 0..pieces.len() {
                let mut wrong = program.clone();
                let Step::Fold { pieces } = &mut wrong.steps[row] else { continue };
                pieces[n] = pieces[(n + 1) % pieces.len()];
                assert!(right(&question, &wrong).is_err());
                pieces_of(&mut wrong, row).remove(n);
                assert!(right(&question, &wrong).is_err());
            }
        }
        let mut wrong = program.clone();
        wrong.yields.rotate_left(1);
        assert!(right(&question, &wrong).is_err());
    }

    fn pieces_of(program: &mut Program, row: usize) -> &mut Vec<usize> {
        match &mut program.steps[row] {
            Step::Fold { pieces } => pieces,
            other => panic!("not a fold: {other}"),
        }
    }
}
