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
            Self::Piecewise => None,
        }
    }
}

impl Schedule {
    /// When the last move arrives on the machine, local work being free.
    pub(super) fn seconds(&self, net: &Net) -> f64 {
        makespan(net.machine, &self.transfers).0
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
        let Some(axis) = cutting_axis(exchange, &part.region, bundle.finished, boxes).filter(|_| boxes > 1) else {
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
        let interval = part.region.0[axis];
        let at = |fraction: f64| interval.lo + (fraction * interval.len() as f64).round() as usize;
        let mut from = interval.lo;
        for (n, &(leg, low, high, boxes)) in shares.iter().enumerate() {
            for b in 1..=boxes {
                let last = n + 1 == shares.len() && b == boxes;
                let to = if last { interval.hi } else { at(low + (high - low) * b as f64 / boxes as f64) };
                if to > from {
                    let mut region = part.region.clone();
                    (region.0[axis].lo, region.0[axis].hi) = (from, to);
                    pieces.push(Piece { leg: first + leg, part: p, region, number: numbers[leg], place: 0 });
                    numbers[leg] += 1;
                    from = to;
                }
            }
        }
    }
}

/// The axis to cut a box along: the first that is long enough for fine shares, else the longest. Pending fields
/// that lack an axis would cross once for each piece, so a pending box is cut along an axis that all fields have; and
/// not along one that stacks what is folded together.
fn cutting_axis(exchange: &Exchange, region: &Region, finished: bool, wanted: usize) -> Option<usize> {
    let fields = &exchange.have.pending.fields;
    let stacked = exchange.have.monoid.stacked().map(|_| region.rank().wrapping_sub(1));
    let allowed = |a: &usize| finished || (stacked != Some(*a) && fields.iter().all(|f| f.axes.contains(a)));
    let axes: Vec<usize> = (0..region.rank()).filter(allowed).collect();
    let fine = axes.iter().copied().find(|&a| region.0[a].len() >= 64 * wanted);
    fine.or_else(|| axes.into_iter().max_by_key(|&a| (region.0[a].len(), usize::MAX - a)))
}
