//! How what was given to fake GPUs happens, and what is checked of it.

use crate::clock::Cost;
use crate::machine::{Check, Fault, Side, Traffic};
use crate::races::{Access, Who};
use crate::shim::shadow::Touched;
use crate::work::{Kernel, Node, Work};
use crate::world::{
    Code, Done, ILLEGAL_ADDRESS, ILLEGAL_STATE, LAUNCH_FAILED, OUT_OF_MEMORY, PEER_NOT_ENABLED, UNAVAILABLE, World,
};
use std::ops::Range;

impl World {
    /// Lets things happen until all these have, and tells what made them fail.
    pub(crate) fn wait(&mut self, batches: &[u64]) -> Done<()> {
        while !self.schedule.done(batches) {
            let Some((who, node)) = self.schedule.pick() else { break };
            match self.happen(who, &node) {
                Ok(cost) => self.schedule.finish(who, cost),
                Err(code) => {
                    self.schedule.fail(who, code.0);
                    self.gpus[node.gpu].dead.get_or_insert(code);
                }
            }
        }
        let failure = self.schedule.failure(batches);
        if self.schedule.known(batches) {
            self.history.clear();
        }
        failure.map_or(Ok(()), |c| Err(Code(c)))
    }

    /// Does it, and tells what it takes in simulated time.
    fn happen(&mut self, who: Who, node: &Node) -> Done<Cost> {
        self.alive(node.gpu)?;
        let works = !matches!(node.work, Work::Nothing | Work::Call(..));
        let gpu = node.gpu;
        let lost = works
            && self.strikes(|f| match f {
                Fault::Lost { gpu: of, after } if *of == gpu => Some(after),
                _ => None,
            });
        if lost {
            self.gpus[gpu].dead = Some(UNAVAILABLE);
            self.tell(format!("GPU {gpu} is lost at {node}"));
            return Err(UNAVAILABLE);
        }
        match &node.work {
            Work::Kernel(kernel) => return self.kernel(who, node, kernel),
            Work::Copy(c) if c.bytes() > 0 => {
                self.counters.copies += 1;
                let side = |at| self.arena.side(at).unwrap_or(Side::Host);
                *self.counters.copied.entry((side(c.from.at), side(c.to.at))).or_default() += c.bytes();
            }
            Work::Given { bytes, to } => {
                self.counters.copies += 1;
                let to = self.arena.side(*to).unwrap_or(Side::Host);
                *self.counters.copied.entry((Side::Host, to)).or_default() += bytes.len() as u64;
            }
            Work::Set { .. } => self.counters.sets += 1,
            Work::Product(_) => self.counters.products += 1,
            _ => {}
        }
        let [read, written] = node.work.touches();
        if self.machine.check >= Check::Bounds {
            self.bounds(node, &read, &written)?;
        }
        node.work.run();
        if self.machine.check == Check::Races {
            let touched = Touched { read, written, atomic: Vec::new() };
            if matches!(node.work, Work::Product(_)) {
                self.reach(node.gpu, &touched);
            }
            let what = match &node.work {
                Work::Copy(_) | Work::Given { .. } => "copy",
                Work::Set { .. } => "set",
                Work::Product(_) => "product",
                Work::Nothing | Work::Kernel(_) | Work::Call(..) => "",
            };
            if !what.is_empty() {
                self.count(what, &touched);
            }
            self.races(who, node, &touched)?;
        }
        Ok(self.cost(node))
    }

    /// What anything takes but a kernel.
    fn cost(&self, node: &Node) -> Cost {
        let (speeds, side) = (&self.machine.speeds, |at| self.arena.side(at).unwrap_or(Side::Host));
        match &node.work {
            Work::Copy(c) => speeds.copy(side(c.from.at), side(c.to.at), c.bytes()),
            Work::Given { bytes, to } => speeds.copy(Side::Host, side(*to), bytes.len() as u64),
            Work::Set { element, width, height, .. } => {
                speeds.computed(node.gpu, (u64::from(*element) * width * height) as f64 / speeds.memory)
            }
            Work::Product(p) => {
                let [read, written] = node.work.touches();
                speeds.computed(node.gpu, p.seconds(speeds).max(self.touching(node.gpu, read.iter().chain(&written))))
            }
            Work::Nothing | Work::Kernel(_) | Work::Call(..) => Cost::default(),
        }
    }

    /// Seconds that a GPU takes to read or write all this.
    fn touching<'a>(&self, gpu: usize, ranges: impl Iterator<Item = &'a Range<u64>>) -> f64 {
        let speeds = &self.machine.speeds;
        let seconds = |range: &Range<u64>| {
            let own = Side::Gpu(gpu);
            let side = self.arena.side(range.start).unwrap_or(Side::Host);
            (range.end - range.start) as f64 / if side == own { speeds.memory } else { speeds.way(side, own) }
        };
        ranges.map(seconds).sum()
    }

    fn bounds(&mut self, node: &Node, read: &[Range<u64>], written: &[Range<u64>]) -> Done<()> {
        for range in read.iter().chain(written) {
            if !self.arena.has(range.start) {
                continue; // Memory of the host that the driver does not know.
            }
            let (at, bytes) = (range.start, range.end - range.start);
            let side = match self.arena.find(at, bytes) {
                Ok(block) => block.side,
                Err(text) => {
                    self.tell(format!("{node}: {text}"));
                    return Err(ILLEGAL_ADDRESS);
                }
            };
            let by_name = matches!(&node.work, Work::Copy(c) if c.peer);
            if let Side::Gpu(owner) = side
                && !by_name
                && !self.reaches(node.gpu, owner)
            {
                self.tell(format!(
                    "{node}: {bytes} bytes at {at:#x} are of GPU {owner}, which GPU {} has no access to",
                    node.gpu
                ));
                return Err(PEER_NOT_ENABLED);
            }
        }
        Ok(())
    }

    fn reaches(&self, gpu: usize, owner: usize) -> bool {
        gpu == owner || self.gpus[gpu].peers.contains(&owner)
    }

    /// Counts what a node touched.
    fn count(&mut self, what: &str, touched: &Touched) {
        let bytes = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        let Traffic { runs, read, written } = self.counters.traffic.entry(what.to_owned()).or_default();
        *runs += 1;
        *read += bytes(&touched.read);
        *written += bytes(&touched.written);
    }

    /// Counts what a GPU touched of others' memory.
    fn reach(&mut self, gpu: usize, touched: &Touched) {
        for (written, ranges) in [(false, &touched.read), (true, &touched.written)] {
            for range in ranges {
                let Some(side) = self.arena.side(range.start) else { continue };
                if side != Side::Gpu(gpu) {
                    let key = if written { (Side::Gpu(gpu), side) } else { (side, Side::Gpu(gpu)) };
                    *self.counters.reached.entry(key).or_default() += range.end - range.start;
                }
            }
        }
    }

    fn races(&mut self, who: Who, node: &Node, touched: &Touched) -> Done<()> {
        let schedule = &self.schedule;
        let mut before = |a: Who| schedule.ordered(a, who);
        let [read, written, atomic] = touched.apart();
        for (access, ranges) in [(Access::Read, read), (Access::Write, written), (Access::Atomic, atomic)] {
            for range in ranges.iter().filter(|r| self.arena.has(r.start)) {
                let Some(race) = self.history.touch(who, access, range, &mut before) else { continue };
                let place = self.arena.block(race.range.start).map_or_else(String::new, |b| {
                    format!(
                        ", byte {} of the {} bytes at {:#x} of {:?}",
                        race.range.start - b.at,
                        b.bytes,
                        b.at,
                        b.side
                    )
                });
                let text = format!(
                    "race: {node} {access} {} bytes at {:#x}{place}, which {} {}; nothing orders the two",
                    race.range.end - race.range.start,
                    race.range.start,
                    schedule.name(race.earlier),
                    race.access,
                );
                self.tell(text);
                return Err(ILLEGAL_STATE);
            }
        }
        Ok(())
    }

    fn kernel(&mut self, who: Who, node: &Node, kernel: &Kernel) -> Done<Cost> {
        self.counters.kernels += 1;
        if self.strikes(|f| if let Fault::Launch(left) = f { Some(left) } else { None }) {
            self.tell(format!("{node} fails, as it was told to"));
            return Err(LAUNCH_FAILED);
        }
        let checked = self.machine.check;
        let hidden: Vec<Side> = if checked == Check::None {
            Vec::new()
        } else {
            let apart = (0..self.machine.gpus).filter(|&g| !self.reaches(node.gpu, g));
            apart.map(Side::Gpu).filter(|s| self.arena.used(*s) > 0).collect()
        };
        if checked == Check::Races && self.shadow.is_none() {
            match self.arena.watch() {
                Ok(shadow) => self.shadow = Some(shadow),
                Err(text) => {
                    self.tell(text);
                    return Err(OUT_OF_MEMORY);
                }
            }
        }
        self.arena.hide(&hidden, true);
        let seed = self.schedule.random(usize::MAX) as u64;
        let Kernel { module, name, grid, block, shared, args } = kernel;
        let ran = module.launch_bytes(name, *grid, *block, *shared, args, seed);
        self.arena.hide(&hidden, false);
        let touched = match &self.shadow {
            Some(shadow) if checked == Check::Races => shadow.take(),
            _ => Touched::default(),
        };
        if let Err(text) = ran {
            let address = text.rsplit_once("at 0x").and_then(|(_, a)| u64::from_str_radix(a, 16).ok());
            let (place, code) = match address.filter(|&a| text.contains("not allocated") && self.arena.has(a)) {
                Some(a) if self.arena.find(a, 1).is_ok() => (
                    format!(" ({}, which GPU {} has no access to)", self.arena.describe(a), node.gpu),
                    PEER_NOT_ENABLED,
                ),
                Some(a) => (format!(" ({})", self.arena.describe(a)), ILLEGAL_ADDRESS),
                _ if text.contains("race:") => (String::new(), ILLEGAL_STATE),
                None if text.contains("not allocated") => (String::new(), ILLEGAL_ADDRESS),
                None => (String::new(), LAUNCH_FAILED),
            };
            self.tell(format!("{node}: {text}{place}"));
            return Err(code);
        }
        if checked == Check::Races {
            self.bounds(node, &touched.read, &touched.written)?;
            self.count(name.rsplit_once('_').map_or(name.as_str(), |(kind, _)| kind), &touched);
            self.reach(node.gpu, &touched);
            self.races(who, node, &touched)?;
        }
        let seconds = self.touching(node.gpu, touched.read.iter().chain(&touched.written));
        Ok(self.machine.speeds.computed(node.gpu, seconds))
    }
}
