//! One program in the making: steps, and what they cost so far.

use super::goal::{Goal, Net};
use super::{Aim, SynthesisError};
use ein_ir::region::Region;
use ein_task::exchange::{PieceId, Program, Step};
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::traffic::{Chain, Ledger, bytes_of};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Who folds a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Every reader for itself.
    Direct,
    /// One owner, which hands it out.
    Whole,
    /// Several owners, each a slice.
    Sliced,
}

/// A copy of a box: where, and the piece, or nothing yet where a finished block only needs loading.
type Replica = (DeviceId, Option<PieceId>);

/// A box on its way from the devices that have it to those that need it.
struct Errand {
    region: Rc<Region>,
    block: usize,
    copies: Vec<Replica>,
    /// The first so many copies were there before anything was handed out.
    origins: usize,
    readers: DeviceSet,
}

/// A program in the making, with its price so far.
pub(super) struct Draft {
    steps: Vec<Step>,
    at: Vec<DeviceId>,
    done: Vec<bool>,
    ready: Vec<Chain>,
    pub(super) ledger: Ledger,
    trees: bool,
    aim: Aim,
    loads: BTreeMap<(usize, DeviceId), PieceId>,
    cuts: Vec<Vec<PieceId>>,
    folds: BTreeMap<Vec<PieceId>, PieceId>,
    delivered: Vec<Vec<(Rc<Region>, PieceId)>>,
}

impl Draft {
    pub(super) fn of(net: &Net, goals: &[Goal], shape: Shape, trees: bool, aim: Aim) -> Result<Self, SynthesisError> {
        let mut draft = Self {
            steps: Vec::with_capacity(4 * goals.len() + net.exchange.needs.len()),
            at: Vec::with_capacity(4 * goals.len()),
            done: Vec::with_capacity(4 * goals.len()),
            ready: Vec::with_capacity(4 * goals.len()),
            ledger: Ledger::new(net.machine),
            trees,
            aim,
            loads: BTreeMap::new(),
            cuts: Vec::with_capacity(4 * goals.len()),
            folds: BTreeMap::new(),
            delivered: vec![Vec::new(); net.machine.len()],
        };
        let mut errands = Vec::with_capacity(goals.len());
        for goal in goals {
            draft.fold_goal(net, goal, shape, &mut errands)?;
        }
        for mut errand in errands {
            draft.hand_out(net, &mut errand)?;
        }
        Ok(draft)
    }

    /// The folding half of a goal: leaves errands that hand out.
    fn fold_goal(
        &mut self,
        net: &Net,
        goal: &Goal,
        shape: Shape,
        errands: &mut Vec<Errand>,
    ) -> Result<(), SynthesisError> {
        let block = goal.blocks[0];
        let errand = |region: &Region, copies: Vec<Replica>, readers| {
            let origins = copies.len();
            Errand { region: Rc::new(region.clone()), block, copies, origins, readers }
        };
        let holders = || {
            let mut copies = Vec::with_capacity(net.holders(block).len() + goal.readers.len());
            copies.extend(net.holders(block).iter().map(|d| (d, None)));
            copies
        };
        let owners = match shape {
            Shape::Direct => DeviceSet::new(),
            Shape::Whole | Shape::Sliced => net.owners(goal),
        };
        match shape {
            Shape::Sliced if owners.len() > 1 && !(goal.finished && goal.readers.len() == 1) => {
                let slices = net.slices(&goal.region, goal.finished, owners.len());
                for (owner, region) in owners.iter().zip(&slices) {
                    let copies = if goal.finished {
                        let mut first = errand(region, holders(), DeviceSet::one(owner));
                        self.hand_out(net, &mut first)?;
                        first.copies
                    } else {
                        vec![(owner, Some(self.fold_at(net, region, &goal.blocks, owner)?))]
                    };
                    let rest = goal.readers.iter().filter(|&d| !goal.finished || d != owner).collect();
                    errands.push(errand(region, copies, rest));
                }
            }
            _ if goal.finished => errands.push(errand(&goal.region, holders(), goal.readers)),
            Shape::Direct => {
                for reader in goal.readers.iter() {
                    let piece = self.fold_at(net, &goal.region, &goal.blocks, reader)?;
                    errands.push(errand(&goal.region, vec![(reader, Some(piece))], DeviceSet::one(reader)));
                }
            }
            Shape::Whole | Shape::Sliced => {
                let least = owners.iter().min_by_key(|d| (self.ledger.received[d.index()], *d));
                let owner = least.or(goal.readers.lowest()).unwrap_or(DeviceId(0));
                let piece = self.fold_at(net, &goal.region, &goal.blocks, owner)?;
                errands.push(errand(&goal.region, vec![(owner, Some(piece))], goal.readers));
            }
        }
        Ok(())
    }

    /// Gets a finished box to its readers.
    fn hand_out(&mut self, net: &Net, errand: &mut Errand) -> Result<(), SynthesisError> {
        for reader in errand.readers.iter() {
            let piece = self.reach(net, errand, reader)?;
            self.delivered[reader.index()].push((Rc::clone(&errand.region), piece));
        }
        Ok(())
    }

    /// Gets a copy of a box to a device.
    fn reach(&mut self, net: &Net, errand: &mut Errand, to: DeviceId) -> Result<PieceId, SynthesisError> {
        if let Some(n) = errand.copies.iter().position(|c| c.0 == to) {
            return Ok(self.copy(net, errand, n));
        }
        let bytes = bytes_of(net.exchange, &errand.region, true);
        if !self.trees {
            let sources = 0..errand.origins;
            let linked = sources.filter_map(|n| Some((n, net.linked(errand.copies[n].0, to)?)));
            let load = |link: usize| self.fullest(net, link, bytes);
            if let Some((n, _)) = linked.min_by(|a, b| load(a.1).total_cmp(&load(b.1)).then(a.0.cmp(&b.0))) {
                let from = self.copy(net, errand, n);
                let piece = self.travel(net, from, bytes, to);
                errand.copies.push((to, Some(piece)));
                return Ok(piece);
            }
        }
        let starts: Vec<(DeviceId, bool)> =
            errand.copies.iter().enumerate().map(|(n, c)| (c.0, n < errand.origins)).collect();
        let Some(path) = self.cheapest(net, bytes, &starts, &[(to, true)]) else {
            return Err(SynthesisError::Unreachable { from: starts.iter().map(|s| s.0).collect(), to });
        };
        let from = errand.copies.iter().position(|c| c.0 == path[0]).expect("a path starts at a copy");
        let mut piece = self.copy(net, errand, from);
        for &hop in &path[1..] {
            piece = self.travel(net, piece, bytes, hop);
            errand.copies.push((hop, Some(piece)));
        }
        Ok(piece)
    }

    fn copy(&mut self, net: &Net, errand: &mut Errand, n: usize) -> PieceId {
        let (device, piece) = errand.copies[n];
        let piece = piece.unwrap_or_else(|| self.part(net, errand.block, device, &errand.region));
        errand.copies[n].1 = Some(piece);
        piece
    }

    /// Brings every partial of a box to a device and folds there; partials of one device are folded
    /// before they leave it. A device that does not compute gets the box from one that does.
    fn fold_at(
        &mut self,
        net: &Net,
        region: &Region,
        blocks: &[usize],
        target: DeviceId,
    ) -> Result<PieceId, SynthesisError> {
        let bytes = bytes_of(net.exchange, region, false);
        let mut groups: Vec<(DeviceId, Vec<usize>)> = Vec::new();
        for &b in blocks {
            let holders = net.holders(b);
            if let Some(group) = groups.iter_mut().find(|g| holders.contains(g.0) && !holders.contains(target)) {
                group.1.push(b);
                continue;
            }
            let load = |d: DeviceId| net.linked(d, target).map_or(f64::INFINITY, |l| self.fullest(net, l, bytes));
            let nearest = holders.iter().min_by(|&a, &b| load(a).total_cmp(&load(b)).then(a.cmp(&b)));
            let at = if holders.contains(target) { target } else { nearest.unwrap_or(target) };
            match groups.iter_mut().find(|g| g.0 == at) {
                Some(group) => group.1.push(b),
                None => groups.push((at, vec![b])),
            }
        }
        groups.sort_unstable();
        if !net.workers.contains(target)
            && blocks.len() > 1
            && let Some(worker) = groups.iter().map(|g| g.0).find(|&d| net.workers.contains(d))
        {
            let piece = self.fold_at(net, region, blocks, worker)?;
            let copies = vec![(worker, Some(piece))];
            let readers = DeviceSet::one(target);
            let mut errand = Errand { region: Rc::new(region.clone()), block: blocks[0], copies, origins: 1, readers };
            return self.reach(net, &mut errand, target);
        }
        if !self.trees {
            return self.fold_star(net, region, blocks.len(), &groups, target);
        }
        let mut inbox: BTreeMap<DeviceId, Vec<(Vec<usize>, PieceId)>> = BTreeMap::new();
        for (node, parent) in self.tree(net, region, &groups, target)? {
            let mut pieces = inbox.remove(&node).unwrap_or_default();
            for &b in groups.iter().filter(|g| g.0 == node).flat_map(|g| &g.1) {
                pieces.push((vec![b], self.part(net, b, node, region)));
            }
            if parent.is_none() || net.workers.contains(node) {
                pieces = vec![self.fold(pieces, blocks.len())];
            }
            let Some(parent) = parent else { return Ok(pieces[0].1) };
            for (partials, piece) in pieces {
                let bytes = bytes_of(net.exchange, region, self.done[piece]);
                let moved = self.travel(net, piece, bytes, parent);
                inbox.entry(parent).or_default().push((partials, moved));
            }
        }
        unreachable!("the target is the root of its tree")
    }

    /// Every group by itself to the target: nothing is folded on the way.
    fn fold_star(
        &mut self,
        net: &Net,
        region: &Region,
        all: usize,
        groups: &[(DeviceId, Vec<usize>)],
        target: DeviceId,
    ) -> Result<PieceId, SynthesisError> {
        let mut arrived = Vec::with_capacity(all);
        for (device, blocks) in groups {
            let own = blocks.iter().map(|&b| (vec![b], self.part(net, b, *device, region))).collect::<Vec<_>>();
            if *device == target {
                arrived.extend(own);
                continue;
            }
            let (partials, mut piece) = self.fold(own, all);
            let bytes = bytes_of(net.exchange, region, self.done[piece]);
            if net.linked(*device, target).is_some() {
                piece = self.travel(net, piece, bytes, target);
            } else {
                let Some(path) = self.cheapest(net, bytes, &[(*device, true)], &[(target, true)]) else {
                    return Err(SynthesisError::Unreachable { from: DeviceSet::one(*device), to: target });
                };
                for &hop in &path[1..] {
                    piece = self.travel(net, piece, bytes, hop);
                }
            }
            arrived.push((partials, piece));
        }
        Ok(self.fold(arrived, all).1)
    }

    /// Folds pieces of one box on one device, of which `all` partials are to come together. What is
    /// finished, or a single pending piece of several, is left as it is.
    fn fold(&mut self, mut pieces: Vec<(Vec<usize>, PieceId)>, all: usize) -> (Vec<usize>, PieceId) {
        pieces.sort_unstable();
        if pieces.len() == 1 && (self.done[pieces[0].1] || pieces[0].0.len() < all) {
            return pieces.swap_remove(0);
        }
        let ids: Vec<PieceId> = pieces.iter().map(|p| p.1).collect();
        let mut partials: Vec<usize> = pieces.into_iter().flat_map(|p| p.0).collect();
        partials.sort_unstable();
        if let Some(&folded) = self.folds.get(&ids) {
            return (partials, folded);
        }
        let ready = ids.iter().map(|&p| self.ready[p]).fold(Chain::default(), Chain::max);
        let step = Step::Fold { pieces: ids.clone() };
        let folded = self.push(step, self.at[ids[0]], partials.len() == all, ready);
        self.folds.insert(ids, folded);
        (partials, folded)
    }

    /// The devices that a fold passes through, each with the one it sends to, leaves first.
    fn tree(
        &self,
        net: &Net,
        region: &Region,
        groups: &[(DeviceId, Vec<usize>)],
        target: DeviceId,
    ) -> Result<Vec<(DeviceId, Option<DeviceId>)>, SynthesisError> {
        let mut parents = BTreeMap::from([(target, None)]);
        let bytes = bytes_of(net.exchange, region, false);
        for &(device, _) in groups {
            if parents.contains_key(&device) {
                continue;
            }
            let ends: Vec<(DeviceId, bool)> = parents.keys().map(|&d| (d, d == target)).collect();
            let Some(path) = self.cheapest(net, bytes, &[(device, true)], &ends) else {
                return Err(SynthesisError::Unreachable { from: DeviceSet::one(device), to: target });
            };
            for hop in path.windows(2) {
                if parents.contains_key(&hop[0]) {
                    break;
                }
                parents.insert(hop[0], Some(hop[1]));
            }
        }
        let depth = |mut device: DeviceId| {
            let mut depth = 0;
            while let Some(&Some(parent)) = parents.get(&device) {
                (device, depth) = (parent, depth + 1);
            }
            depth
        };
        let mut order: Vec<(DeviceId, Option<DeviceId>)> = parents.iter().map(|(&d, &p)| (d, p)).collect();
        order.sort_by_key(|&(device, _)| (usize::MAX - depth(device), device));
        Ok(order)
    }

    /// The way with the least time on links, where a busy link counts up to twice; or, for bytes, with the
    /// fewest hops. Starting or ending elsewhere than at the first copies or the root costs half a move,
    /// because it makes chains longer.
    fn cheapest(
        &self,
        net: &Net,
        bytes: u64,
        starts: &[(DeviceId, bool)],
        ends: &[(DeviceId, bool)],
    ) -> Option<Vec<DeviceId>> {
        let devices = net.machine.len();
        let busiest = self.ledger.load(net.machine).max(f64::MIN_POSITIVE);
        let bytes = bytes as f64;
        let hop = match self.aim {
            Aim::Seconds => 0.0,
            Aim::Bytes => 1e6,
        };
        let penalty = |first: bool| if first { 0.0 } else { 0.5 * (net.least_latency + 2.0 * bytes / net.fastest) };
        let mut distance = vec![f64::INFINITY; devices];
        let mut before = vec![None; devices];
        let mut settled = vec![false; devices];
        for &(device, first) in starts {
            distance[device.index()] = penalty(first);
        }
        while let Some(near) = (0..devices)
            .filter(|&d| !settled[d] && distance[d].is_finite())
            .min_by(|&a, &b| distance[a].total_cmp(&distance[b]).then(a.cmp(&b)))
        {
            settled[near] = true;
            for far in (0..devices).filter(|&d| !settled[d]) {
                let Some(link) = net.link[near * devices + far] else { continue };
                let link = &net.machine.links[link as usize];
                let time = |&r: &usize| {
                    let width = net.machine.resources[r].bandwidth;
                    bytes / width * (1.0 + self.ledger.busy[r] / width / busiest)
                };
                let cost = distance[near] + hop + link.latency.0 + link.resources.iter().map(time).sum::<f64>();
                if cost < distance[far] {
                    (distance[far], before[far]) = (cost, Some(near));
                }
            }
        }
        let total = |e: &(DeviceId, bool)| distance[e.0.index()] + penalty(e.1);
        let end = ends.iter().min_by(|a, b| total(a).total_cmp(&total(b)).then(a.cmp(b)))?.0.index();
        if !distance[end].is_finite() {
            return None;
        }
        let mut path = vec![end];
        while let Some(previous) = before[path[path.len() - 1]] {
            path.push(previous);
        }
        path.reverse();
        Some(path.into_iter().map(|d| DeviceId(d as u16)).collect())
    }

    /// Time of the busiest resource of a link once it carries `bytes` more.
    fn fullest(&self, net: &Net, link: usize, bytes: u64) -> f64 {
        let busy = |&r: &usize| (self.ledger.busy[r] + bytes as f64) / net.machine.resources[r].bandwidth;
        net.machine.links[link].resources.iter().map(busy).fold(0.0, f64::max)
    }

    fn travel(&mut self, net: &Net, piece: PieceId, bytes: u64, to: DeviceId) -> PieceId {
        let link = net.linked(self.at[piece], to).expect("moves go over links");
        let ready = self.ledger.cross(&net.machine.links[link], bytes, self.ready[piece]);
        self.push(Step::Move { piece, to }, to, self.done[piece], ready)
    }

    /// A box of a block at one of its holders.
    fn part(&mut self, net: &Net, block: usize, device: DeviceId, region: &Region) -> PieceId {
        let load = if let Some(&load) = self.loads.get(&(block, device)) {
            load
        } else {
            let load = self.push(Step::Load { block, device }, device, net.finished[block], Chain::default());
            self.loads.insert((block, device), load);
            load
        };
        if region == net.block(block) { load } else { self.cut(load, region) }
    }

    fn cut(&mut self, piece: PieceId, region: &Region) -> PieceId {
        let same = |&cut: &PieceId| matches!(&self.steps[cut], Step::Cut { region: r, .. } if r == region);
        if let Some(cut) = self.cuts[piece].iter().copied().find(same) {
            return cut;
        }
        let step = Step::Cut { piece, region: region.clone() };
        let cut = self.push(step, self.at[piece], self.done[piece], self.ready[piece]);
        self.cuts[piece].push(cut);
        cut
    }

    fn push(&mut self, step: Step, at: DeviceId, done: bool, ready: Chain) -> PieceId {
        self.steps.push(step);
        self.at.push(at);
        self.done.push(done);
        self.ready.push(ready);
        self.cuts.push(Vec::new());
        self.steps.len() - 1
    }

    pub(super) fn beats(&self, other: &Self, net: &Net) -> bool {
        let price = |draft: &Self| {
            let seconds = draft.ledger.seconds(net.machine).0;
            let bytes = draft.ledger.sent.iter().sum::<u64>() as f64;
            match self.aim {
                Aim::Seconds => (seconds, bytes, draft.steps.len()),
                Aim::Bytes => (bytes, seconds, draft.steps.len()),
            }
        };
        price(self) < price(other)
    }

    /// Pastes what every need is made of, and leaves out what nothing reads.
    pub(super) fn program(mut self, net: &Net) -> Program {
        let needs = &net.exchange.needs;
        let mut yields: Vec<PieceId> = Vec::with_capacity(needs.len());
        let mut answered: BTreeMap<(DeviceId, &Region), PieceId> = BTreeMap::new();
        for need in needs {
            let yielded = match answered.get(&(need.device, &need.region)) {
                Some(&piece) => piece,
                None => self.assemble(net, need.device, &need.region),
            };
            answered.insert((need.device, &need.region), yielded);
            yields.push(yielded);
        }
        let program = swept(Program { steps: self.steps, yields });
        debug_assert_eq!(
            ein_task::check::check(net.exchange, &program, net.machine)
                .and_then(|pieces| ein_task::check::check_rendezvous(&program, &pieces, net.machine)),
            Ok(()),
            "{program}"
        );
        debug_assert_eq!(
            ein_task::traffic::count(net.exchange, &program, net.machine).seconds,
            self.ledger.seconds(net.machine),
            "the price kept while building is the printed one\n{program}"
        );
        program
    }

    fn assemble(&mut self, net: &Net, device: DeviceId, need: &Region) -> PieceId {
        let mut parts: Vec<(Region, PieceId)> = Vec::new();
        for b in (0..net.finished.len()).filter(|&b| net.finished[b] && net.holders(b).contains(device)) {
            if let Some(both) = net.block(b).intersect(need) {
                let piece = self.part(net, b, device, &both);
                parts.push((both, piece));
            }
        }
        let delivered = std::mem::take(&mut self.delivered[device.index()]);
        for (region, piece) in &delivered {
            if let Some(both) = region.intersect(need) {
                let piece = if both == **region { *piece } else { self.cut(*piece, &both) };
                parts.push((both, piece));
            }
        }
        self.delivered[device.index()] = delivered;
        if parts.len() == 1 {
            return parts[0].1;
        }
        parts.sort_unstable();
        let pieces: Vec<PieceId> = parts.into_iter().map(|p| p.1).collect();
        let ready = pieces.iter().map(|&p| self.ready[p]).fold(Chain::default(), Chain::max);
        self.push(Step::Paste { pieces, region: need.clone() }, device, true, ready)
    }
}

/// The program without the steps that no yield depends on.
fn swept(program: Program) -> Program {
    let Program { mut steps, mut yields } = program;
    let mut live = vec![false; steps.len()];
    for &p in &yields {
        live[p] = true;
    }
    for row in (0..steps.len()).rev() {
        if live[row] {
            for &mut p in reads(&mut steps[row]) {
                live[p] = true;
            }
        }
    }
    if live.iter().all(|&l| l) {
        return Program { steps, yields };
    }
    let mut renumbered = vec![0; live.len()];
    for row in 1..live.len() {
        renumbered[row] = renumbered[row - 1] + usize::from(live[row - 1]);
    }
    let mut alive = live.iter();
    steps.retain(|_| alive.next() == Some(&true));
    steps.iter_mut().flat_map(reads).chain(&mut yields).for_each(|p| *p = renumbered[*p]);
    Program { steps, yields }
}

/// The pieces that a step names.
fn reads(step: &mut Step) -> &mut [PieceId] {
    match step {
        Step::Load { .. } => &mut [],
        Step::Cut { piece, .. } | Step::Move { piece, .. } => std::slice::from_mut(piece),
        Step::Fold { pieces } | Step::Paste { pieces, .. } => pieces,
    }
}
