//! From shares to boxes: a bundle's parts laid end to end and cut by the shares.

use super::bundle::Bundle;
use super::route::{Leg, Scheme};
use ein_ir::region::Region;
use ein_task::exchange::Exchange;
use std::rc::Rc;

/// A box of a leg.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) leg: usize,
    /// Which of the bundle's parts it is cut from.
    pub(super) part: usize,
    pub(super) region: Region,
    /// The how-many-th of the leg's pieces.
    number: usize,
    /// How far along its leg it is, counted in pieces of the leg with the most.
    pub(super) place: usize,
}

/// Into how many pieces every leg of a scheme is cut, and how they differ in size, leg by leg.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cuts {
    pub(super) counts: Vec<usize>,
    pub(super) sizes: Vec<Sizes>,
}

/// How the pieces of a leg differ in size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sizes {
    /// All alike.
    Even,
    /// Each smaller than the one before: little is on its way at the end, with few pieces.
    Falling,
    /// Small ones first and last: those who pass them on begin soon and end soon.
    Humped,
    /// Alike, but for the first and the last, which make up one between them, on every leg in another way: links that
    /// share a port are not between two transfers all at once.
    Staggered,
}

impl Cuts {
    /// Pieces that are alike.
    pub(super) fn even(counts: Vec<usize>) -> Self {
        Self::sized(counts, Sizes::Even)
    }

    /// Pieces that differ in size in one way on all legs.
    pub(super) fn sized(counts: Vec<usize>, sizes: Sizes) -> Self {
        Self { sizes: vec![sizes; counts.len()], counts }
    }
}

impl Sizes {
    /// Where the pieces of a leg end that is cut into so many, as fractions of it.
    fn ends(self, pieces: usize, leg: usize) -> Vec<f64> {
        let weights: Vec<f64> = match self {
            _ if pieces == 1 => return vec![1.0],
            Self::Even => return (1..=pieces).map(|n| n as f64 / pieces as f64).collect(),
            Self::Falling => (0..pieces).map(|n| (pieces - n) as f64).collect(),
            Self::Humped => (0..pieces).map(|n| (n + 1).min(pieces - n) as f64).collect(),
            Self::Staggered => {
                let first = ((leg % STAGGERS) as f64 + 0.5) / STAGGERS as f64;
                let middle = std::iter::repeat_n(1.0, pieces.saturating_sub(1));
                std::iter::once(first).chain(middle).chain([1.0 - first]).collect()
            }
        };
        let whole: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let end = |weight: f64| {
            sum += weight;
            sum / whole
        };
        weights.into_iter().map(end).collect()
    }
}

/// How many legs have first pieces of different sizes where they are staggered.
const STAGGERS: usize = 8;

/// The boxes of every leg: a bundle's parts laid end to end and cut by the shares, each leg's part of them in
/// about so many pieces.
pub(super) fn cut(exchange: &Exchange, scheme: &Scheme, cuts: &Cuts) -> Rc<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut first = 0;
    for (n, bundle) in scheme.bundles.iter().enumerate() {
        let last = first + scheme.legs[first..].iter().take_while(|l| l.bundle == n).count();
        cut_bundle(exchange, bundle, (&scheme.legs[first..last], first), cuts, &mut pieces);
        first = last;
    }
    let mut counts = vec![0usize; scheme.legs.len()];
    for p in &pieces {
        counts[p.leg] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut whole = vec![0usize; scheme.legs.len()];
    for p in &pieces {
        whole[p.leg] += p.region.volume();
    }
    let mut before = vec![0usize; scheme.legs.len()];
    for p in &mut pieces {
        p.place = if cuts.sizes[p.leg] == Sizes::Even {
            (2 * p.number + 1) * most / (2 * counts[p.leg])
        } else {
            let middle = before[p.leg] as f64 + p.region.volume() as f64 / 2.0;
            (middle / whole[p.leg] as f64 * most as f64) as usize
        };
        before[p.leg] += p.region.volume();
    }
    Rc::new(pieces)
}

fn cut_bundle(
    exchange: &Exchange,
    bundle: &Bundle,
    (legs, first): (&[Leg], usize),
    cuts: &Cuts,
    pieces: &mut Vec<Piece>,
) {
    let volumes: Vec<f64> = bundle.parts.iter().map(|p| p.region.volume() as f64).collect();
    let whole: f64 = volumes.iter().sum();
    let mut ends = Vec::with_capacity(legs.len());
    let mut sum = 0.0;
    for leg in legs {
        sum += leg.share;
        ends.push(sum);
    }
    let mut numbers = vec![0; legs.len()];
    let mut start = 0.0;
    for (p, (part, volume)) in bundle.parts.iter().zip(&volumes).enumerate() {
        let end = start + volume / whole;
        // Of every leg that has some of this part: where it begins and ends, as fractions of the part.
        let mut shares: Vec<(usize, f64, f64, usize)> = Vec::new();
        for l in 0..legs.len() {
            let low = if l == 0 { 0.0 } else { ends[l - 1] };
            let high = if l + 1 == legs.len() { 1.0 } else { ends[l] };
            let (low, high) = (low.max(start), high.min(end));
            if high > low {
                let share = (high - low) / legs[l].share;
                let within = |at: f64| ((at - start) / (end - start)).clamp(0.0, 1.0);
                let boxes = ((share * cuts.counts[first + l] as f64 - 1e-6).ceil() as usize).max(1);
                shares.push((l, within(low), within(high), boxes));
            }
        }
        start = end;
        let boxes = shares.iter().map(|s| s.3).sum();
        let Some(axes) = Axes::of(exchange, &part.region, bundle.finished, boxes).filter(|_| boxes > 1) else {
            let most = shares.iter().max_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)).then(b.0.cmp(&a.0)));
            let leg = most.map_or(0, |s| s.0);
            pieces.push(Piece {
                leg: first + leg,
                part: p,
                region: part.region.clone(),
                number: numbers[leg],
                place: 0,
            });
            numbers[leg] += 1;
            continue;
        };
        // Whose box it is, and where it ends.
        let ends: Vec<(usize, f64)> = shares
            .iter()
            .flat_map(|&(leg, low, high, boxes)| {
                let ends = cuts.sizes[first + leg].ends(boxes, first + leg).into_iter();
                ends.map(move |end| (leg, low + (high - low) * end))
            })
            .collect();
        for (leg, region) in axes.cut(&part.region, &ends) {
            pieces.push(Piece { leg: first + leg, part: p, region, number: numbers[leg], place: 0 });
            numbers[leg] += 1;
        }
    }
}

/// How a box is cut: along one axis or, if that is too short for shares to be about what they are wanted, first along
/// another into layers.
struct Axes {
    inner: usize,
    /// The other axis, and how many layers.
    layers: Option<(usize, usize)>,
}

/// Points along an axis for every box that it is cut into, so that shares are rounded by less than a hundredth.
const FINE: usize = 64;

impl Axes {
    /// The first axis that is long enough for fine shares, else the longest within layers along the next longest.
    /// Pending fields that lack an axis would cross once for each piece, so a pending box is cut along axes that all
    /// fields have; and not along one that stacks what is folded together.
    fn of(exchange: &Exchange, region: &Region, finished: bool, wanted: usize) -> Option<Axes> {
        let fields = &exchange.have.pending.fields;
        let stacked = exchange.have.monoid.stacked().map(|_| region.rank().wrapping_sub(1));
        let allowed = |a: &usize| finished || (stacked != Some(*a) && fields.iter().all(|f| f.axes.contains(a)));
        let length = |&a: &usize| region.0[a].len();
        let axes: Vec<usize> = (0..region.rank()).filter(allowed).collect();
        if let Some(inner) = axes.iter().copied().find(|a| length(a) >= FINE * wanted) {
            return Some(Axes { inner, layers: None });
        }
        let longest = |a: &usize| (length(a), usize::MAX - a);
        let inner = axes.iter().copied().max_by_key(longest)?;
        let other = axes.into_iter().filter(|&a| a != inner).max_by_key(longest);
        let layers = other.map(|a| (a, (FINE * wanted).div_ceil(length(&inner)).min(length(&a) / FINE)));
        Some(Axes { inner, layers: layers.filter(|l| l.1 > 1) })
    }

    /// The boxes of a region, in order, that end at these fractions of it, each with what it was given with. Those that
    /// rounding leaves nothing are missing.
    fn cut(&self, region: &Region, ends: &[(usize, f64)]) -> Vec<(usize, Region)> {
        let mut boxes = Vec::with_capacity(ends.len());
        let (outer, layers) = self.layers.unwrap_or((self.inner, 1));
        let (mut first, mut below) = (0, 0.0);
        let mut layer = region.clone();
        for n in 0..ends.len() {
            let last = n + 1 == ends.len();
            // A layer ends with the box that fills it.
            let full = ends[n].1 * layers as f64 >= (below * layers as f64).floor() + 1.0 - 1e-9;
            if !(last || layers > 1 && full) {
                continue;
            }
            if layers > 1 {
                let all = region.0[outer];
                let to = if last { all.hi } else { all.lo + (ends[n].1 * all.len() as f64).round() as usize };
                if to <= layer.0[outer].lo && !last {
                    continue;
                }
                layer.0[outer].hi = to;
            }
            let (whole, all) = (ends[n].1 - below, layer.0[self.inner]);
            let mut rest = layer.clone();
            for (m, &(leg, end)) in ends[first..=n].iter().enumerate() {
                let part = (end - below) / whole;
                let to = if first + m == n { all.hi } else { all.lo + (part * all.len() as f64).round() as usize };
                if to > rest.0[self.inner].lo && layer.0[outer].lo < layer.0[outer].hi {
                    rest.0[self.inner].hi = to;
                    boxes.push((leg, rest.clone()));
                    rest.0[self.inner].lo = to;
                }
            }
            (first, below) = (n + 1, ends[n].1);
            layer.0[outer].lo = layer.0[outer].hi;
        }
        boxes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fill_the_leg_and_differ_as_they_should() {
        let of = |sizes: Sizes, pieces: usize, leg: usize| {
            let ends = sizes.ends(pieces, leg);
            assert!((ends[ends.len() - 1] - 1.0).abs() < 1e-12, "{sizes:?} {pieces}: {ends:?}");
            let starts = std::iter::once(0.0).chain(ends.clone());
            let sizes: Vec<f64> = starts.zip(&ends).map(|(start, end)| end - start).collect();
            assert!(sizes.iter().all(|s| *s > 0.0), "{sizes:?}");
            sizes
        };
        let near = |a: &[f64], b: &[f64]| {
            assert_eq!(a.len(), b.len());
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}");
        };
        for sizes in [Sizes::Even, Sizes::Falling, Sizes::Humped, Sizes::Staggered] {
            near(&of(sizes, 1, 3), &[1.0]);
        }
        near(&of(Sizes::Even, 4, 0), &[0.25; 4]);
        near(&of(Sizes::Falling, 3, 0), &[0.5, 1.0 / 3.0, 1.0 / 6.0]);
        near(&of(Sizes::Humped, 4, 0), &[1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0]);
        near(&of(Sizes::Staggered, 2, 0), &[1.0 / 32.0, 0.5, 15.0 / 32.0]);
        // No two legs that follow each other begin with a piece of one size.
        let firsts: Vec<f64> = (0..9).map(|leg| of(Sizes::Staggered, 2, leg)[0]).collect();
        assert!(firsts.windows(2).all(|f| f[0] != f[1]), "{firsts:?}");
    }
}
