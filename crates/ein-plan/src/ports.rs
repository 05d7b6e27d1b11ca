//! What no program of an exchange can beat, by the busiest port alone: quick enough for every exchange between layouts.

use crate::pattern::{Atom, Pattern};
use ein_task::machine::{DeviceId, DeviceSet, Link, Machine};

/// Bandwidths of a machine's devices, for bounds.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    /// Bytes per second out of each device over all its links.
    out: Vec<f64>,
    /// Bytes per second into each device.
    into: Vec<f64>,
    /// Bytes per second that all devices move together, as far as that is less.
    all: f64,
    latency: f64,
    issue: f64,
}

impl Ports {
    /// What each device can send and receive when all its links run at once.
    pub fn of(machine: &Machine) -> Self {
        let n = machine.len();
        let width = |r: usize| machine.resources[r].bandwidth;
        // Of each link its tightest resource, each resource once, and no more than one that all links share.
        let total = |of: &dyn Fn(&Link) -> bool| -> f64 {
            let mut tightest: Vec<usize> = Vec::new();
            let mut shared: Option<Vec<usize>> = None;
            for l in machine.links.iter().filter(|l| of(l)) {
                let slowest = l.resources.iter().copied().min_by(|a, b| width(*a).total_cmp(&width(*b)).then(a.cmp(b)));
                let Some(slowest) = slowest else { return f64::INFINITY };
                tightest.push(slowest);
                match &mut shared {
                    None => shared = Some(l.resources.clone()),
                    Some(shared) => shared.retain(|r| l.resources.contains(r)),
                }
            }
            tightest.sort_unstable();
            tightest.dedup();
            let sum = tightest.iter().map(|&r| width(r)).sum();
            shared.into_iter().flatten().map(width).fold(sum, f64::min)
        };
        let out = (0..n).map(|d| total(&|l: &Link| l.from.index() == d)).collect();
        let into = (0..n).map(|d| total(&|l: &Link| l.to.index() == d)).collect();
        let least = machine.links.iter().map(|l| l.latency.0).fold(f64::INFINITY, f64::min);
        let latency = if least.is_finite() { least } else { 0.0 };
        // A byte between threads is copied by both for half of its time, by as many as work at once.
        let copied = machine.links.iter().all(|l| machine.copies_by_thread(l.from, l.to));
        let widest = machine.links.iter().map(|l| machine.bandwidth(l)).fold(0.0, f64::max);
        let all = if copied { widest * machine.rate_together(|_| 1.0) } else { f64::INFINITY };
        Self { out, into, all, latency, issue: machine.issue.0 }
    }

    /// Whether every ordered pair has a link of one latency through ports that are all equally wide and
    /// that no other device shares, so that devices are interchangeable.
    pub fn uniform(machine: &Machine) -> bool {
        let n = machine.len();
        let Some(first) = machine.links.first() else { return n <= 1 };
        // Of every resource: how many links use it, and whether they all come from, or lead to, one device.
        let mut users = vec![(0usize, true, true, first.from, first.to); machine.resources.len()];
        for l in &machine.links {
            for &r in &l.resources {
                let (count, one_from, one_to, from, to) = &mut users[r];
                if *count == 0 {
                    (*from, *to) = (l.from, l.to);
                }
                *count += 1;
                *one_from &= *from == l.from;
                *one_to &= *to == l.to;
            }
        }
        let same_widths = |l: &Link| {
            let width = |r: &usize| machine.resources[*r].bandwidth.to_bits();
            l.resources.len() == first.resources.len()
                && l.resources.iter().map(width).eq(first.resources.iter().map(width))
        };
        let plain = |l: &Link| {
            l.latency == first.latency
                && same_widths(l)
                && l.resources.iter().all(|&r| {
                    let (count, one_from, one_to, ..) = users[r];
                    count == 1 || (count == n - 1 && (one_from || one_to))
                })
        };
        machine.links.len() == n * (n - 1) && machine.links.iter().all(plain) && machine.workers().len() == n
    }

    /// The most bytes per second into any device.
    pub fn widest(&self) -> f64 {
        self.into.iter().copied().fold(0.0, f64::max)
    }

    /// Bytes per second into every device, out of it, and of all together.
    pub fn widths(&self) -> (&[f64], &[f64], f64) {
        let all = self.into.iter().sum::<f64>().min(self.out.iter().sum()).min(self.all);
        (&self.into, &self.out, all)
    }

    /// Seconds of anything that moves, beside those of its bytes.
    pub fn once(&self) -> f64 {
        self.latency + self.issue
    }

    /// Seconds below which no program for the pattern stays, and bytes it must move. A program either brings everything in one
    /// move from where it is, so that every reader receives every partial, or it is at least two moves deep.
    pub fn bound(&self, pattern: &Pattern) -> (f64, f64) {
        let n = self.out.len();
        let mut any = Loads::of(n);
        pattern.0.iter().for_each(|atom| any.add_any(atom));
        if any.bytes == 0.0 {
            return (0.0, 0.0);
        }
        let mut direct = Loads::of(n);
        pattern.0.iter().for_each(|atom| direct.add_direct(atom));
        let (any, direct, bytes) = (self.busiest(&any), self.busiest(&direct), any.bytes);
        (direct.max(any).min(any + self.latency) + self.latency + self.issue, bytes)
    }

    /// Seconds of the busiest port.
    fn busiest(&self, loads: &Loads) -> f64 {
        let worst = |loads_of: &[f64], ports: &[f64]| {
            let each = loads_of.iter().zip(ports).map(|(l, b)| if *l > 0.0 { l / b } else { 0.0 });
            each.fold(0.0, f64::max).max(loads.bytes / ports.iter().sum::<f64>().min(self.all))
        };
        worst(&loads.sent, &self.out).max(worst(&loads.received, &self.into))
    }
}

/// What ports carry at least.
struct Loads {
    sent: Vec<f64>,
    received: Vec<f64>,
    bytes: f64,
    /// How many partials of an atom each device has.
    has: Vec<usize>,
}

impl Loads {
    fn of(devices: usize) -> Self {
        Self { sent: vec![0.0; devices], received: vec![0.0; devices], bytes: 0.0, has: vec![0; devices] }
    }

    fn count(&mut self, atom: &Atom) {
        self.has.fill(0);
        atom.holders.iter().flat_map(|h| h.iter()).for_each(|d| self.has[d.index()] += 1);
    }

    /// Whatever the program.
    fn add_any(&mut self, atom: &Atom) {
        let finished = atom.finished as f64;
        let m = atom.holders.len();
        if m == 1 {
            self.bytes += finished * atom.readers.len() as f64;
            if let (1, Some(d)) = (atom.holders[0].len(), atom.holders[0].lowest()) {
                self.sent[d.index()] += finished;
            }
            for d in atom.readers.iter() {
                self.received[d.index()] += finished;
            }
            return;
        }
        let pending = atom.pending as f64;
        let piece = pending.min(finished);
        // Before the first device is complete, all other partials have come to it; after, every other
        // reader still receives something.
        self.count(atom);
        let lacks = |d: DeviceId| m - self.has[d.index()];
        // A device that has several folds them before it sends.
        let most = self.has.iter().copied().max().unwrap_or(1).max(1);
        let pending = if most == m { piece } else { pending };
        let lacking = atom.readers.iter().filter(|&r| lacks(r) > 0).count();
        let least = (0..self.has.len() as u16)
            .map(DeviceId)
            .map(|v| {
                let others = lacking - usize::from(atom.readers.contains(v) && lacks(v) > 0);
                lacks(v).div_ceil(most) as f64 * pending + others as f64 * piece
            })
            .fold(f64::INFINITY, f64::min);
        self.bytes += least;
        for d in atom.readers.iter().filter(|&d| lacks(d) > 0) {
            self.received[d.index()] += piece;
        }
        for d in atom.alone().iter().filter(|&d| atom.readers.iter().any(|r| r != d)) {
            self.sent[d.index()] += piece;
        }
    }

    /// What is finished, if it is one move deep.
    fn add_finished(&mut self, atom: &Atom) {
        let piece = atom.finished as f64;
        for d in atom.readers.without(atom.holders[0]).iter() {
            self.received[d.index()] += piece;
            self.bytes += piece;
        }
        if let (1, Some(d)) = (atom.holders[0].len(), atom.holders[0].lowest()) {
            self.sent[d.index()] += atom.readers.without(atom.holders[0]).len() as f64 * piece;
        }
    }

    /// If it is one move deep.
    fn add_direct(&mut self, atom: &Atom) {
        let m = atom.holders.len();
        if m == 1 {
            return self.add_finished(atom);
        }
        self.count(atom);
        // A device that has several partials, but not all, folds them before it sends. One that has all sends a result.
        let most = self.has.iter().copied().max().unwrap_or(1).max(1);
        let piece = if most == m { atom.pending.min(atom.finished) } else { atom.pending };
        let piece = piece as f64;
        for d in atom.readers.iter() {
            let pieces = (m - self.has[d.index()]).div_ceil(most) as f64;
            self.received[d.index()] += pieces * piece;
            self.bytes += pieces * piece;
        }
        if most == m {
            return;
        }
        // Whoever alone has a partial sends it, with what else it has, to all who read it.
        for d in atom.alone().iter() {
            let readers = atom.readers.without(DeviceSet::one(d)).len() as f64;
            self.sent[d.index()] += readers * piece;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Answers;
    use crate::exchanges::hand_out;
    use crate::options::{Objective, Options};
    use crate::pattern::{Axes, mix};
    use ein_ir::dtype::DType;
    use ein_ir::monoid::{Form, Monoid};
    use ein_ir::region::{Interval, Region};
    use ein_task::exchange::Need;
    use ein_task::machine::DeviceSet;
    use ein_task::relation::{Held, Relation};

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(1);
            (mix(self.0) >> 16) as usize % n
        }
    }

    fn strip(lo: usize, hi: usize) -> Region {
        Region(vec![Interval::new(lo, hi)])
    }

    /// One to three partials, each of strips at some devices, and strips that some devices need.
    fn question(random: &mut Random, devices: usize) -> (Relation, Vec<Need>) {
        let extent = 4096 << random.below(8);
        let mut blocks = Vec::new();
        for _ in 0..=random.below(3) {
            let parts = 1 + random.below(3);
            for n in 0..parts {
                let mut set = DeviceSet::one(DeviceId(random.below(devices) as u16));
                if random.below(4) == 0 {
                    set = set.with(DeviceId(random.below(devices) as u16));
                }
                blocks.push(Held { region: strip(n * extent / parts, (n + 1) * extent / parts), devices: set });
            }
        }
        let form = Form::finished(DType::F32, 1);
        let whole = strip(0, extent);
        let have =
            Relation { whole, monoid: Monoid::Sum, pending: form.clone(), finished: form, blocks, places: Vec::new() };
        let mut needs = Vec::new();
        for device in 0..devices {
            if random.below(3) > 0 {
                let (a, b) = (random.below(4), 1 + random.below(4));
                let region = strip(a.min(b - 1) * extent / 4, b.max(a + 1) * extent / 4);
                needs.push(Need { device: DeviceId(device as u16), region });
            }
        }
        (have, needs)
    }

    /// No program takes less seconds or moves fewer bytes than the bound says.
    #[test]
    fn bounds_are_below_programs() {
        let mut threads = Machine::by_name("4xcpu").unwrap();
        threads.processors = Some(2);
        let machines = ["8xa100", "dgx-1v", "pcie-8", "2x8xa100"].map(|name| Machine::by_name(name).unwrap());
        let mut tight = 0;
        for machine in machines.into_iter().chain([threads]) {
            let ports = Ports::of(&machine);
            let devices = machine.workers().len().min(5);
            for seed in 0..60 {
                let (have, needs) = question(&mut Random(seed << 32), devices);
                for objective in [Objective::Time, Objective::Bytes] {
                    let mut axes = Axes::default();
                    let (from, to) = (axes.of_relation(&have).unwrap(), axes.of_needs(&needs).unwrap());
                    axes.prepare(&[&from], &[&to]);
                    let (seconds, bytes) = ports.bound(&axes.pattern(&have, &from, &to));
                    let mut answers = Answers::of(&Options { objective, ..Options::default() });
                    let answer = answers.answer(&hand_out(&have, &needs), &machine).unwrap();
                    let (least, moved) = (answer.traffic.seconds.0, answer.traffic.bytes_total.0 as f64);
                    let told = format!("{have} on {}, seed {seed}, {needs:?}", machine.name);
                    assert!(seconds <= least * (1.0 + 1e-9), "{told}: {seconds} above {least}");
                    assert!(bytes <= moved, "{told}: {bytes} above {moved}");
                    tight += usize::from(objective == Objective::Time && seconds >= 0.999 * least);
                }
            }
        }
        assert!(tight > 30, "{tight} bounds are reached");
    }
}
