//! From shares to boxes, and the order in which they move.

use super::bundle::Bundle;
use super::net::Net;
use super::route::{Crossing, Scheme};
use ein_ir::region::Region;
use ein_task::exchange::Exchange;
use ein_task::flow::{Transfer, makespan, run};
use ein_task::traffic::bytes_of;
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
    place: usize,
}

/// A move of a piece.
#[derive(Clone, Debug)]
pub(super) struct Travel {
    pub(super) piece: usize,
    /// Which crossing of its leg's route.
    pub(super) crossing: usize,
}

/// In which order the moves of a link go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Whatever has the longest way to go first, all its pieces.
    Deep,
    /// Pieces one after the other, each as soon as it can, then [justified](Schedule::justified) so many times.
    Justified(u8),
    /// As [`Order::Deep`], then [justified](Schedule::justified) so many times.
    Settled(u8),
    /// What is [`Order::Justified`] with time running backwards: pieces one after the other, each as late as it can, in the
    /// order in which they then arrive, and from there justified so many times.
    Late(u8),
    /// Pieces one after the other, each all the way, so that little is under way at once.
    Piecewise,
}

/// A scheme with boxes and an order.
pub(super) struct Schedule {
    pub(super) pieces: Vec<Piece>,
    /// The crossings of every leg's route.
    pub(super) routes: Rc<Vec<Vec<Crossing>>>,
    /// In an order in which they can happen.
    pub(super) travels: Vec<Travel>,
    pub(super) transfers: Vec<Transfer>,
}

impl Order {
    /// The same, justified once more; `None` of orders that are not to be changed.
    pub(super) fn again(self) -> Option<Order> {
        match self {
            Self::Deep => Some(Self::Settled(1)),
            Self::Settled(times) => Some(Self::Settled(times + 1)),
            Self::Justified(times) => Some(Self::Justified(times + 1)),
            Self::Late(times) => Some(Self::Late(times + 1)),
            Self::Piecewise => None,
        }
    }
}

impl Schedule {
    /// When the last move arrives on the machine, local work being free.
    pub(super) fn seconds(&self, net: &Net) -> f64 {
        makespan(net.machine, &self.transfers).0
    }

    /// The same moves in the order in which they arrive.
    fn as_it_arrives(&self, net: &Net) -> Schedule {
        let spans = run(net.machine, &self.transfers);
        let mut order: Vec<usize> = (0..self.transfers.len()).collect();
        order.sort_by(|&a, &b| spans[a].arrived.total_cmp(&spans[b].arrived).then(a.cmp(&b)));
        self.ordered(&order)
    }

    /// The same moves in the order in which they end when time runs backwards (forward–backward improvement, Tormos
    /// and Lova 2001): what has long to wait behind it goes early, and what nothing waits for fills the gaps.
    pub(super) fn justified(&self, net: &Net) -> Schedule {
        let last = self.transfers.len().wrapping_sub(1);
        let mut mirrored: Vec<Transfer> =
            self.transfers.iter().rev().map(|t| Transfer { link: t.link, bytes: t.bytes, after: Vec::new() }).collect();
        for (n, transfer) in self.transfers.iter().enumerate() {
            for &before in &transfer.after {
                mirrored[last - before as usize].after.push((last - n) as u32);
            }
        }
        let spans = run(net.mirrored(), &mirrored);
        let mut order: Vec<usize> = (0..self.transfers.len()).collect();
        // Latest in backward time is first in forward time; equal times keep the order they had.
        order.sort_by(|&a, &b| spans[last - b].arrived.total_cmp(&spans[last - a].arrived).then(a.cmp(&b)));
        self.ordered(&order)
    }

    /// The same moves in another order, in which each still comes after what it waits for.
    fn ordered(&self, order: &[usize]) -> Schedule {
        let mut place = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(n, &old)| place[old] = n as u32);
        let moved = |&old: &usize| {
            let transfer = &self.transfers[old];
            let after = transfer.after.iter().map(|&b| place[b as usize]).collect();
            Transfer { link: transfer.link, bytes: transfer.bytes, after }
        };
        Schedule {
            pieces: self.pieces.clone(),
            routes: Rc::clone(&self.routes),
            travels: order.iter().map(|&old| self.travels[old].clone()).collect(),
            transfers: order.iter().map(moved).collect(),
        }
    }
}

/// Cuts every leg of a scheme into about so many pieces and puts their moves in order.
pub(super) fn schedule(net: &Net, exchange: &Exchange, scheme: &Scheme, wanted: &[usize], order: Order) -> Schedule {
    let mut pieces = cut(exchange, scheme, wanted);
    let mut counts = vec![0usize; scheme.legs.len()];
    for p in &pieces {
        counts[p.leg] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    for p in &mut pieces {
        p.place = (2 * p.number + 1) * most / (2 * counts[p.leg]);
    }
    let routes: Vec<Vec<Crossing>> =
        scheme.legs.iter().map(|l| l.route.crossings(net, &scheme.bundles[l.bundle])).collect();
    let depth = routes.iter().flatten().map(|c| c.level).max().unwrap_or(0);
    // What decides the order: the slot, then the distance around, so that no two senders meet at one receiver.
    let mut keys: Vec<((usize, usize), usize, usize, usize)> = Vec::new();
    for (n, piece) in pieces.iter().enumerate() {
        for (c, crossing) in routes[piece.leg].iter().enumerate() {
            let slot = match order {
                Order::Justified(_) => (0, piece.place + crossing.level),
                Order::Deep | Order::Settled(_) => (depth - crossing.behind, piece.place),
                Order::Late(_) => (0, piece.place + depth - crossing.behind),
                Order::Piecewise => (piece.place, crossing.level),
            };
            let (from, to) = (crossing.hop.0.index(), crossing.hop.1.index());
            keys.push((slot, (to + net.devices - from) % net.devices, n, c));
        }
    }
    keys.sort_unstable();
    let starts: Vec<usize> = pieces
        .iter()
        .scan(0, |at, p| {
            let start = *at;
            *at += routes[p.leg].len();
            Some(start)
        })
        .collect();
    let mut place = vec![0u32; keys.len()];
    for (n, &(_, _, piece, crossing)) in keys.iter().enumerate() {
        place[starts[piece] + crossing] = n as u32;
    }
    let bytes: Vec<(u64, u64)> =
        pieces.iter().map(|p| (bytes_of(exchange, &p.region, false), bytes_of(exchange, &p.region, true))).collect();
    let mut travels = Vec::with_capacity(keys.len());
    let mut transfers = Vec::with_capacity(keys.len());
    for &(_, _, piece, n) in &keys {
        let crossing = &routes[pieces[piece].leg][n];
        let (pending, finished) = bytes[piece];
        let bytes = if crossing.complete { finished } else { pending * crossing.pieces as u64 };
        let after = crossing.after.iter().map(|&c| place[starts[piece] + c]).collect();
        travels.push(Travel { piece, crossing: n });
        transfers.push(Transfer { link: crossing.link, bytes, after });
    }
    let made = Schedule { pieces, routes: Rc::new(routes), travels, transfers };
    match order {
        Order::Deep | Order::Piecewise => made,
        Order::Late(times) => (0..times).fold(made.as_it_arrives(net), |made, _| made.justified(net)),
        Order::Justified(times) | Order::Settled(times) => (0..times).fold(made, |made, _| made.justified(net)),
    }
}

/// The boxes of every leg: a bundle's parts laid end to end and cut by the shares, each leg's part of them in
/// about so many pieces.
fn cut(exchange: &Exchange, scheme: &Scheme, wanted: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut first = 0;
    for (n, bundle) in scheme.bundles.iter().enumerate() {
        let last = first + scheme.legs[first..].iter().take_while(|l| l.bundle == n).count();
        cut_bundle(exchange, bundle, &scheme.legs[first..last], first, &wanted[first..last], &mut pieces);
        first = last;
    }
    pieces
}

fn cut_bundle(
    exchange: &Exchange,
    bundle: &Bundle,
    legs: &[super::route::Leg],
    first: usize,
    wanted: &[usize],
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
                let boxes = ((share * wanted[l] as f64 - 1e-6).ceil() as usize).max(1);
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
                (1..=boxes).map(move |b| (leg, low + (high - low) * b as f64 / boxes as f64))
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
