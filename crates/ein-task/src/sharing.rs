//! Max–min fair sharing of what links share.
//!
//! A flow is the bytes that one link carries at the moment. Rates are found by progressive filling: the
//! resource with the least left for each flow that has no rate yet settles its flows, until all have one. Only
//! the flows that a change can reach, over resources they have in common, are looked at again.

use crate::machine::Machine;

/// The flows of a machine's links, at most one a link, and their rates.
pub(crate) struct Sharing<'a> {
    machine: &'a Machine,
    /// By link: bytes that were left at `since`, and when they will all be sent at the present rate.
    flows: Vec<Flow>,
    /// Links that carry something, in no order that matters.
    active: Vec<u32>,
    /// By resource: its capacity, and the links that load it now.
    resources: Vec<Resource>,
    /// Resources that got or lost a flow since the rates were found.
    changed: Vec<u32>,
    /// Scratch: the resources and links that a change reaches.
    reached: Vec<u32>,
    reached_links: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    active: bool,
    settled: bool,
    reached: bool,
    rate: f64,
    /// The rate before the one that is being found.
    before: f64,
    left: f64,
    since: f64,
    end: f64,
}

struct Resource {
    links: Vec<u32>,
    changed: bool,
    reached: bool,
    /// Of the present filling: bandwidth that is not given away, flows without a rate, and their share.
    left: f64,
    users: u32,
    share: f64,
}

/// Rates and times that differ by less than this share of them are equal: equal transfers must start and end
/// together although sums of their times differ in the last bit.
pub(crate) const ROUNDING: f64 = 1e-12;

impl<'a> Sharing<'a> {
    pub(crate) fn new(machine: &'a Machine) -> Self {
        let resource =
            |_| Resource { links: Vec::new(), changed: false, reached: false, left: 0.0, users: 0, share: 0.0 };
        Self {
            machine,
            flows: vec![Flow::default(); machine.links.len()],
            active: Vec::new(),
            resources: (0..machine.resources.len()).map(resource).collect(),
            changed: Vec::new(),
            reached: Vec::new(),
            reached_links: Vec::new(),
        }
    }

    /// A free link begins to carry `bytes`, more than none, at time `now`.
    pub(crate) fn begin(&mut self, link: usize, bytes: f64, now: f64) {
        debug_assert!(!self.flows[link].active && bytes > 0.0);
        self.flows[link] = Flow { active: true, left: bytes, since: now, end: f64::INFINITY, ..Flow::default() };
        self.active.push(link as u32);
        for &r in &self.machine.links[link].resources {
            self.resources[r].links.push(link as u32);
            self.change(r);
        }
    }

    /// When the next flow ends. Call it after the last change of the moment `now`.
    pub(crate) fn next(&mut self, now: f64) -> Option<f64> {
        if !self.changed.is_empty() {
            self.fill(now);
        }
        self.active.iter().map(|&l| self.flows[l as usize].end).min_by(f64::total_cmp)
    }

    /// Ends the flows that are over by time `until`, and adds their links to `ended`, in ascending order.
    pub(crate) fn end(&mut self, until: f64, ended: &mut Vec<u32>) {
        let first = ended.len();
        let flows = &self.flows;
        ended.extend(self.active.iter().copied().filter(|&l| flows[l as usize].end <= until));
        if ended.len() == first {
            return;
        }
        ended[first..].sort_unstable();
        self.active.retain(|&l| flows[l as usize].end > until);
        for &link in &ended[first..] {
            self.flows[link as usize].active = false;
            for &r in &self.machine.links[link as usize].resources {
                self.change(r);
            }
        }
        for &r in &self.changed {
            let flows = &self.flows;
            self.resources[r as usize].links.retain(|&l| flows[l as usize].active);
        }
    }

    fn change(&mut self, resource: usize) {
        if !std::mem::replace(&mut self.resources[resource].changed, true) {
            self.changed.push(resource as u32);
        }
    }

    /// Finds the rates of all flows that the changes reach.
    fn fill(&mut self, now: f64) {
        self.reach();
        while let Some(narrowest) = self.narrowest() {
            // Resources of equal share settle in one pass: giving out one's share leaves the others' as it is.
            let most = narrowest * (1.0 + ROUNDING);
            for n in 0..self.reached.len() {
                let r = self.reached[n] as usize;
                if self.resources[r].users > 0 && self.resources[r].share <= most {
                    self.settle(r, narrowest);
                }
            }
        }
        for &l in &self.reached_links {
            let flow = &mut self.flows[l as usize];
            flow.reached = false;
            // A rate that stays keeps the flow's end as it was, to the last bit.
            if flow.rate != flow.before {
                flow.left -= flow.before * (now - flow.since);
                flow.since = now;
                flow.end = now + flow.left.max(0.0) / flow.rate;
            }
        }
        for &r in &self.reached {
            self.resources[r as usize].reached = false;
        }
        self.reached.clear();
        self.reached_links.clear();
    }

    /// Lists what the changed resources reach over common flows, ready to be filled.
    fn reach(&mut self) {
        for r in self.changed.drain(..) {
            let resource = &mut self.resources[r as usize];
            resource.changed = false;
            if !std::mem::replace(&mut resource.reached, true) {
                self.reached.push(r);
            }
        }
        let mut next = 0;
        while next < self.reached.len() {
            let r = self.reached[next] as usize;
            next += 1;
            let resource = &mut self.resources[r];
            resource.left = self.machine.resources[r].bandwidth;
            resource.users = resource.links.len() as u32;
            resource.share = resource.left / f64::from(resource.users);
            for n in 0..self.resources[r].links.len() {
                let l = self.resources[r].links[n];
                let flow = &mut self.flows[l as usize];
                if std::mem::replace(&mut flow.reached, true) {
                    continue;
                }
                flow.settled = false;
                flow.before = flow.rate;
                self.reached_links.push(l);
                for &other in &self.machine.links[l as usize].resources {
                    if !std::mem::replace(&mut self.resources[other].reached, true) {
                        self.reached.push(other as u32);
                    }
                }
            }
        }
    }

    /// The least share of a resource with flows that have no rate yet.
    fn narrowest(&self) -> Option<f64> {
        let open = self.reached.iter().map(|&r| &self.resources[r as usize]).filter(|r| r.users > 0);
        open.map(|r| r.share).min_by(f64::total_cmp)
    }

    fn settle(&mut self, resource: usize, rate: f64) {
        for n in 0..self.resources[resource].links.len() {
            let link = self.resources[resource].links[n] as usize;
            if std::mem::replace(&mut self.flows[link].settled, true) {
                continue;
            }
            self.flows[link].rate = rate;
            for &r in &self.machine.links[link].resources {
                let other = &mut self.resources[r];
                // Rounding must not leave a resource below nothing, nor a later flow without a rate.
                other.left = (other.left - rate).max(self.machine.resources[r].bandwidth * 1e-15);
                other.users -= 1;
                other.share = other.left / f64::from(other.users);
            }
        }
    }
}
