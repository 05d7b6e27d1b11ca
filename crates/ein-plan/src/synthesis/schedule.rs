//! The order in which the pieces of a scheme move.

use super::cut::{Cuts, Piece, cut};
use super::net::Net;
use super::route::{Crossing, Scheme};
use ein_task::exchange::Exchange;
use ein_task::flow::{Span, Transfer, makespan, run};
use ein_task::traffic::bytes_of;
use std::rc::Rc;

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
    pub(super) pieces: Rc<Vec<Piece>>,
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

    /// What the chain of moves that ends last waits for, in seconds by leg, given when moves happen: for pieces to come
    /// along their way, and for what goes before them on their link.
    pub(super) fn waits(&self, spans: &[Span], legs: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut coming, mut queued) = (vec![0.0; legs], vec![0.0; legs]);
        let mut by_link: Vec<usize> = (0..spans.len()).collect();
        by_link.sort_by(|&a, &b| {
            let link = |n: usize| self.transfers[n].link;
            link(a).cmp(&link(b)).then(spans[a].start.total_cmp(&spans[b].start)).then(a.cmp(&b))
        });
        let mut before: Vec<Option<usize>> = vec![None; spans.len()];
        for pair in by_link.windows(2).filter(|w| self.transfers[w[0]].link == self.transfers[w[1]].link) {
            before[pair[1]] = Some(pair[0]);
        }
        let last = |of: &mut dyn Iterator<Item = usize>| {
            of.max_by(|&a, &b| spans[a].arrived.total_cmp(&spans[b].arrived).then(b.cmp(&a)))
        };
        let mut next = last(&mut (0..spans.len()));
        while let Some(at) = next {
            let came = last(&mut self.transfers[at].after.iter().map(|&b| b as usize));
            let there = came.map_or(0.0, |c| spans[c].arrived);
            let free = before[at].map_or(0.0, |b| spans[b].sent);
            let waits = if there >= free { &mut coming } else { &mut queued };
            next = if there >= free { came } else { before[at] };
            if let Some(n) = next {
                waits[self.pieces[self.travels[n].piece].leg] += spans[n].sent - spans[n].start;
            }
        }
        (coming, queued)
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
            pieces: Rc::clone(&self.pieces),
            routes: Rc::clone(&self.routes),
            travels: order.iter().map(|&old| self.travels[old].clone()).collect(),
            transfers: order.iter().map(moved).collect(),
        }
    }
}

/// Cuts every leg of a scheme into about so many pieces and puts their moves in order.
pub(super) fn schedule(net: &Net, exchange: &Exchange, scheme: &Scheme, cuts: &Cuts, order: Order) -> Schedule {
    ordered(net, exchange, scheme, &cut(exchange, scheme, cuts), order)
}

/// Puts the moves of a scheme's pieces in order.
pub(super) fn ordered(
    net: &Net,
    exchange: &Exchange,
    scheme: &Scheme,
    pieces: &Rc<Vec<Piece>>,
    order: Order,
) -> Schedule {
    let routes = scheme.crossings(net);
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
    let made = Schedule { pieces: Rc::clone(pieces), routes: Rc::clone(routes), travels, transfers };
    match order {
        Order::Deep | Order::Piecewise => made,
        Order::Late(times) => (0..times).fold(made.as_it_arrives(net), |made, _| made.justified(net)),
        Order::Justified(times) | Order::Settled(times) => (0..times).fold(made, |made, _| made.justified(net)),
    }
}
