//! The least that any program of an exchange could take, on any machine.
//!
//! Three bounds on the busiest resource, each a proof and none an estimate: what one device must receive or
//! send (*port*), what must leave a set of devices (*cut*), and, where ways are long or partials are folded
//! for several readers, a price on every resource under which no answer is cheap (*fold*). Beside them stand
//! the fewest moves and the least latency of the longest chain. Notes at each say why it holds.

mod ascent;
mod cuts;
mod prices;

pub use cuts::Cuts;

use crate::exchange::{Atom, Exchange};
use crate::machine::{DeviceId, DeviceSet, Machine};
use crate::units::Seconds;
use ein_ir::monoid::Form;
use ein_ir::region::Region;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What no program of an exchange can beat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bound {
    /// Of the busiest port: what one device lacks and must receive, or alone holds and must send.
    pub port: Seconds,
    /// Of the busiest cut: what some devices together alone hold and the others must get.
    pub cut: Seconds,
    /// By prices on resources; the bound that sees how far data goes, and that a fold is handed out again.
    pub fold: Seconds,
    /// Fewest moves on the longest chain.
    pub depth: usize,
    /// Least latency of the longest chain.
    pub latency: Seconds,
}

impl Bound {
    /// Least time of the busiest resource: the largest of the three.
    pub fn bandwidth(&self) -> Seconds {
        Seconds(self.port.0.max(self.cut.0).max(self.fold.0))
    }

    /// The bytes of the busiest resource, and then the latency of the longest of the shortest ways: what the counting
    /// page charges the best program at least. Where latencies differ a program can take a little less, for what goes
    /// last need not go the longest way.
    pub fn total(&self) -> Seconds {
        Seconds(self.bandwidth().0 + self.latency.0)
    }

    /// Which of the three is the largest, the simplest of equal ones: `port`, `cut` or `fold`; `none` where
    /// nothing has to move.
    pub fn binds(&self) -> &'static str {
        // A rounding error is no reason to name the less simple one.
        let enough = self.bandwidth().0 * (1.0 - 1e-9);
        if enough <= 0.0 {
            "none"
        } else if self.port.0 >= enough {
            "port"
        } else if self.cut.0 >= enough {
            "cut"
        } else {
            "fold"
        }
    }
}

/// The bound of a question. `atoms` are the exchange's. What depends on the machine alone is kept for the next
/// question on it; [`bound_with`] is given it.
pub fn bound(exchange: &Exchange, atoms: &[Atom], machine: &Machine) -> Bound {
    thread_local! {
        static LAST: RefCell<Option<(Machine, Rc<Cuts>)>> = const { RefCell::new(None) };
    }
    let known = LAST.with_borrow(|last| last.as_ref().filter(|l| l.0 == *machine).map(|l| l.1.clone()));
    let cuts = known.unwrap_or_else(|| {
        let cuts = Rc::new(Cuts::of(machine));
        LAST.set(Some((machine.clone(), cuts.clone())));
        cuts
    });
    bound_with(&cuts, exchange, atoms, machine)
}

/// The bound of a question on the machine that `cuts` were made of.
pub fn bound_with(cuts: &Cuts, exchange: &Exchange, atoms: &[Atom], machine: &Machine) -> Bound {
    let groups = Group::all(exchange, atoms);
    let (port, cut) = cuts.busiest(&groups, machine);
    let (mut depth, mut latency): (usize, f64) = (0, 0.0);
    for group in &groups {
        // Every reader folds every partial, wherever it is folded, so each has come all the way.
        for holders in &group.holders {
            for reader in group.readers.iter() {
                let moves = holders.iter().map(|h| cuts.moves(h, reader)).min();
                depth = depth.max(moves.unwrap_or(0));
                latency = latency.max(cuts.least_latency(*holders, reader));
            }
        }
    }
    let least = port.max(cut);
    let fold = if least.is_finite() { prices::bound(&groups, machine, least) } else { 0.0 };
    Bound { port: Seconds(port), cut: Seconds(cut), fold: Seconds(fold), depth, latency: Seconds(latency) }
}

/// What prices by the byte, one for every resource of the machine and none negative, prove about a question. Any
/// prices prove something; good ones are high where a good program is busy all the time, so that whoever has such a
/// program can show how near to the best it is.
pub fn proved(exchange: &Exchange, atoms: &[Atom], machine: &Machine, prices: &[f64]) -> Seconds {
    assert_eq!(prices.len(), machine.resources.len(), "one price for every resource");
    let groups = Group::all(exchange, atoms);
    if groups.is_empty() || prices.iter().any(|p| !p.is_finite() || *p < 0.0) {
        return Seconds(0.0);
    }
    Seconds(prices::proved(&groups, machine, prices))
}

/// [`proved`] by the best prices found from these on, step by step; the better the longer it takes.
pub fn sharpened(exchange: &Exchange, atoms: &[Atom], machine: &Machine, prices: &[Vec<f64>]) -> Seconds {
    let groups = Group::all(exchange, atoms);
    if groups.is_empty() { Seconds(0.0) } else { Seconds(prices::sharpened(&groups, machine, prices)) }
}

/// Seconds before which no reader that folds can have all it reads, port and latency together: what comes in the first
/// moments comes straight from those who hold it, every partial for itself, and only later what others folded.
///
/// Of what a reader lacks let `x` be the part of which every piece comes straight: that many bytes times the devices
/// that alone hold partials. Of the rest at least one piece comes from a device that got something first, so not before
/// a latency is over. All of it comes through the reader's port, and its last byte arrives a latency after it is sent.
pub fn soonest(exchange: &Exchange, atoms: &[Atom], machine: &Machine) -> Seconds {
    let groups = Group::all(exchange, atoms);
    let latency = |links: &mut dyn Iterator<Item = &crate::machine::Link>| {
        links.map(|l| l.latency.0).fold(f64::INFINITY, f64::min)
    };
    let passed_on = latency(&mut machine.links.iter()) + machine.issue.0;
    let of = |reader: DeviceId| {
        // Bytes at least, and how many times as many if they come straight.
        let mut asked: Vec<(f64, f64)> = Vec::new();
        for group in groups.iter().filter(|g| g.readers.contains(reader)) {
            let everything = group.holders.iter().skip(1).fold(group.holders[0], |all, &h| all.intersect(h));
            let sole = |h: &&DeviceSet| h.len() == 1 && !h.contains(reader);
            let sole: std::collections::BTreeSet<DeviceSet> = group.holders.iter().filter(sole).copied().collect();
            let straight = group.partial * sole.len().max(1) as f64;
            asked.push((group.any, if everything.is_empty() { straight / group.any } else { 1.0 }));
        }
        asked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let width = port(machine, reader, false);
        let all: f64 = asked.iter().map(|a| a.0).sum();
        let enough = |seconds: f64| {
            // What there is no time for once others could have folded it comes straight.
            let mut straight = (all - width * (seconds - passed_on).max(0.0)).max(0.0);
            let mut bytes = all;
            for &(least, times) in &asked {
                let part = straight.min(least);
                bytes += part * (times - 1.0);
                straight -= part;
            }
            bytes <= width * seconds
        };
        let (mut low, mut high) = (0.0, asked.iter().map(|a| a.0 * a.1).sum::<f64>() / width);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if enough(middle) { high = middle } else { low = middle }
        }
        low + latency(&mut machine.links.iter().filter(|l| l.to == reader)) + machine.issue.0
    };
    let readers = groups.iter().fold(DeviceSet::new(), |all, g| all.union(g.readers)).intersect(machine.workers());
    Seconds(readers.iter().map(of).filter(|s| s.is_finite()).fold(0.0, f64::max))
}

/// Bytes per second that a device can send or receive at most.
pub fn port(machine: &Machine, device: DeviceId, outward: bool) -> f64 {
    let one = DeviceSet::one(device);
    let others = DeviceSet::first(machine.len()).without(one);
    cuts::capacity(machine, if outward { one } else { others })
}

/// Atoms of one signature, together.
#[derive(Clone, Debug)]
struct Group {
    /// Who holds each partial; none of the sets contains another, for what answers the smaller one answers
    /// the larger too. One set if there is only one partial.
    holders: Vec<DeviceSet>,
    /// Who reads and does not hold every partial.
    readers: DeviceSet,
    /// Least bytes of a move, whatever it carries.
    any: f64,
    /// Least bytes of a move as long as no device has every partial.
    partial: f64,
}

impl Group {
    /// The groups of a question for which something must move, in the order of their signatures.
    fn all(exchange: &Exchange, atoms: &[Atom]) -> Vec<Group> {
        let mut groups: BTreeMap<(Vec<DeviceSet>, DeviceSet), (f64, f64)> = BTreeMap::new();
        for atom in atoms {
            let sets = atom.blocks.iter().map(|&b| exchange.have.blocks[b].devices);
            let mut holders: Vec<DeviceSet> = Vec::with_capacity(atom.blocks.len());
            for set in sets {
                if !holders.iter().any(|h| h.without(set).is_empty()) {
                    holders.retain(|h| !set.without(*h).is_empty());
                    holders.push(set);
                }
            }
            let everything = holders.iter().fold(atom.readers, |all, &h| all.intersect(h));
            let readers = atom.readers.without(everything);
            if readers.is_empty() || holders.is_empty() {
                continue;
            }
            holders.sort_unstable();
            let partial = weight(&exchange.have.pending, &atom.region, &exchange.have.whole);
            let finished = weight(&exchange.have.finished, &atom.region, &exchange.have.whole);
            let sole = matches!(atom.blocks[..], [b] if exchange.have.is_finished(b));
            let sum = groups.entry((holders, readers)).or_default();
            sum.0 += if sole { finished } else { finished.min(partial) };
            sum.1 += if sole { finished } else { partial };
        }
        let group = |((holders, readers), (any, partial))| Group { holders, readers, any, partial };
        groups.into_iter().map(group).filter(|g| g.any > 0.0).collect()
    }
}

/// Bytes of a form for a box so that those of disjoint boxes add up to no more than those of a box around them:
/// a field that lacks an axis is shared by all along it, and counts for the box's part of that axis.
fn weight(form: &Form, region: &Region, whole: &Region) -> f64 {
    let of = |field: &ein_ir::monoid::Field| {
        let along = |axis: usize| {
            let (part, all) = (region.0[axis].len() as f64, whole.0[axis].len() as f64);
            if field.axes.contains(&axis) { part } else { part / all }
        };
        (0..region.rank()).map(along).product::<f64>() * field.dtype.bytes() as f64
    };
    form.fields.iter().map(of).sum()
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
