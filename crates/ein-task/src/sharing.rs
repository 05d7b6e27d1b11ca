//! Max–min fair sharing of what links share.
//!
//! A flow is the bytes that one link carries at the moment. Rates are found by progressive filling, in rounds: the
//! resource with the least left for each flow that has no rate yet settles its flows, until all have one. When flows
//! begin or end, the rounds before the first that they can alter stay as they are; so the state before
//! each round is kept. Resources that no links connect are filled apart.

use crate::machine::Machine;

/// Rates and times that differ by less than this share of them are equal: equal transfers must start and end
/// together although sums of their times differ in the last bit.
pub(crate) const ROUNDING: f64 = 1e-12;

/// The flows of a machine's links, at most one a link, and their rates.
pub(crate) struct Sharing {
    loads: Loads,
    flows: Flows,
    /// Links that carry something, in no order that matters.
    active: Vec<u32>,
    parts: Vec<Part>,
    /// Parts with flows that began or ended since their rates were found.
    changed: Vec<u32>,
    /// Counts fillings.
    filling: u32,
}

/// What links load: the part, and resources by their place in it.
struct Loads {
    part: Vec<u32>,
    starts: Vec<u32>,
    places: Vec<u32>,
}

/// By link.
struct Flows {
    flows: Vec<Flow>,
    /// Which filling settled the rate, in which round.
    settled: Vec<Settled>,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    rate: f64,
    /// Bytes that were left at `since`; all are sent by `end`.
    left: f64,
    since: f64,
    end: f64,
}

#[derive(Clone, Copy, Default)]
struct Settled {
    filling: u32,
    round: u32,
}

/// Resources that links connect.
#[derive(Default)]
struct Part {
    bandwidth: Vec<f64>,
    /// By resource: the links that load it now.
    links: Vec<Vec<u32>>,
    /// The share that each round gave, and what was open before it (and, last, after all).
    levels: Vec<f64>,
    states: Vec<State>,
    now: State,
    /// By resource: flows that began less flows that ended since, and the resources where there were any.
    change: Vec<f64>,
    touched: Vec<u32>,
    /// The first round that settled a flow that ended.
    first: usize,
    /// Resources with flows that have no rate, and those that settle together.
    open: Vec<u32>,
    narrow: Vec<u32>,
}

/// By resource: bandwidth that is not given away, and flows that have no rate.
#[derive(Clone, Default)]
struct State(Vec<Open>);

#[derive(Clone, Copy, Default)]
struct Open {
    left: f64,
    users: f64,
}

impl Loads {
    fn of(&self, link: u32) -> &[u32] {
        &self.places[self.starts[link as usize] as usize..self.starts[link as usize + 1] as usize]
    }
}

impl Sharing {
    pub(crate) fn new(machine: &Machine) -> Self {
        let part_of = connected(machine);
        let mut parts: Vec<Part> = Vec::new();
        let mut place = Vec::new();
        for (resource, &part) in machine.resources.iter().zip(&part_of) {
            parts.resize_with(parts.len().max(part as usize + 1), Part::default);
            place.push(parts[part as usize].bandwidth.len() as u32);
            parts[part as usize].bandwidth.push(resource.bandwidth);
        }
        for part in &mut parts {
            let count = part.bandwidth.len();
            part.links = vec![Vec::new(); count];
            part.states = vec![State(part.bandwidth.iter().map(|&left| Open { left, users: 0.0 }).collect())];
            part.change = vec![0.0; count];
        }
        let mut loads = Loads { part: Vec::new(), starts: vec![0], places: Vec::new() };
        for link in &machine.links {
            loads.part.push(part_of[link.resources[0]]);
            loads.places.extend(link.resources.iter().map(|&r| place[r]));
            loads.starts.push(loads.places.len() as u32);
        }
        let links = machine.links.len();
        let flows = Flows { flows: vec![Flow::default(); links], settled: vec![Settled::default(); links] };
        Self { loads, flows, active: Vec::new(), parts, changed: Vec::new(), filling: 0 }
    }

    /// A free link begins to carry `bytes`, more than none, at time `now`.
    pub(crate) fn begin(&mut self, link: u32, bytes: f64, now: f64) {
        self.flows.flows[link as usize] = Flow { rate: 0.0, left: bytes, since: now, end: f64::INFINITY };
        self.flows.settled[link as usize] = Settled { filling: 0, round: u32::MAX };
        self.active.push(link);
        let part = self.loads.part[link as usize];
        let places = self.loads.of(link);
        if self.parts[part as usize].alter(places, 1.0, usize::MAX) {
            self.changed.push(part);
        }
        for &r in places {
            self.parts[part as usize].links[r as usize].push(link);
        }
    }

    /// When the next flow ends. Call it after the last change of the moment `now`.
    pub(crate) fn next(&mut self, now: f64) -> Option<f64> {
        for part in self.changed.drain(..) {
            self.filling += 1;
            self.parts[part as usize].fill(&self.loads, &mut self.flows, self.filling, now);
        }
        self.active.iter().map(|&l| self.flows.flows[l as usize].end).reduce(f64::min)
    }

    /// Ends the flows that are over by time `until`, and adds their links to `ended`, in ascending order.
    pub(crate) fn end(&mut self, until: f64, ended: &mut Vec<u32>) {
        let first = ended.len();
        let flows = &self.flows.flows;
        self.active.retain(|&link| {
            let over = flows[link as usize].end <= until;
            if over {
                ended.push(link);
            }
            !over
        });
        ended[first..].sort_unstable();
        for &link in &ended[first..] {
            let part = self.loads.part[link as usize];
            let resources = &mut self.parts[part as usize];
            let places = self.loads.of(link);
            if resources.alter(places, -1.0, self.flows.settled[link as usize].round as usize) {
                self.changed.push(part);
            }
            for &r in places {
                let links = &mut resources.links[r as usize];
                let at = links.iter().position(|&l| l == link).expect("it carried something");
                links.swap_remove(at);
            }
        }
    }
}

impl Part {
    /// Notes a flow that begins or ends; whether it is the first since the rates were found.
    fn alter(&mut self, places: &[u32], by: f64, round: usize) -> bool {
        let first = self.touched.is_empty();
        if first {
            self.first = usize::MAX;
        }
        self.first = self.first.min(round);
        for &r in places {
            // A resource may come to no change and be listed twice: that does no harm.
            if self.change[r as usize] == 0.0 {
                self.touched.push(r);
            }
            self.change[r as usize] += by;
        }
        first
    }

    fn fill(&mut self, loads: &Loads, flows: &mut Flows, filling: u32, now: f64) {
        let kept = self.keep();
        let Self { bandwidth, links, levels, states, now: State(state), open, narrow, .. } = self;
        state.clone_from(&states[kept].0);
        levels.truncate(kept);
        open.clear();
        open.extend((0..state.len() as u32).filter(|&r| state[r as usize].users > 0.0));
        while !open.is_empty() {
            // Resources of equal share settle in one round: giving out one's leaves the others' as it is.
            let share = |r: u32| state[r as usize].left / state[r as usize].users;
            let mut narrowest = f64::INFINITY;
            let mut most = f64::INFINITY;
            for &r in &*open {
                let share = share(r);
                if share <= most {
                    if share < narrowest {
                        narrowest = share;
                        most = share * (1.0 + ROUNDING);
                    }
                    narrow.push(r);
                }
            }
            narrow.retain(|&r| share(r) <= most);
            let round = levels.len() as u32;
            levels.push(narrowest);
            for resource in narrow.drain(..) {
                for &link in &links[resource as usize] {
                    let settled = &mut flows.settled[link as usize];
                    if (settled.round as usize) < kept || settled.filling == filling {
                        continue;
                    }
                    *settled = Settled { filling, round };
                    let flow = &mut flows.flows[link as usize];
                    // A rate that stays keeps the flow's end as it was, to the last bit.
                    if flow.rate != narrowest {
                        flow.left = (flow.left - flow.rate * (now - flow.since)).max(0.0);
                        flow.since = now;
                        flow.rate = narrowest;
                        flow.end = now + flow.left / narrowest;
                    }
                    for &r in loads.of(link) {
                        let Open { left, users } = &mut state[r as usize];
                        // Rounding must not leave a resource below nothing, nor a later flow without a rate.
                        *left = (*left - narrowest).max(bandwidth[r as usize] * 1e-15);
                        *users -= 1.0;
                    }
                }
            }
            open.retain(|&r| state[r as usize].users > 0.0);
            match states.get_mut(levels.len()) {
                Some(State(kept)) => kept.clone_from(state),
                None => states.push(State(state.clone())),
            }
        }
    }

    /// How many rounds stay as they were, with what was open before and after them brought up to date.
    fn keep(&mut self) -> usize {
        self.touched.sort_unstable();
        self.touched.dedup();
        let rounds = self.levels.len().min(self.first);
        let mut kept = 0;
        loop {
            let state = &mut self.states[kept].0;
            for &r in &self.touched {
                state[r as usize].users += self.change[r as usize];
            }
            // Only more flows on a resource can make it as narrow as what a round settled.
            let narrow = |&r: &u32, most: f64| {
                let Open { left, users } = state[r as usize];
                self.change[r as usize] > 0.0 && left / users <= most
            };
            if kept == rounds || self.touched.iter().any(|r| narrow(r, self.levels[kept] * (1.0 + ROUNDING))) {
                break;
            }
            kept += 1;
        }
        for r in self.touched.drain(..) {
            self.change[r as usize] = 0.0;
        }
        kept
    }
}

/// For every resource the number of the part it belongs to: those of one link are in one part.
fn connected(machine: &Machine) -> Vec<u32> {
    let mut root: Vec<usize> = (0..machine.resources.len()).collect();
    let find = |root: &mut Vec<usize>, mut r: usize| {
        while root[r] != r {
            root[r] = root[root[r]];
            r = root[r];
        }
        r
    };
    for link in &machine.links {
        for pair in link.resources.windows(2) {
            let (a, b) = (find(&mut root, pair[0]), find(&mut root, pair[1]));
            root[a.max(b)] = a.min(b);
        }
    }
    let mut parts = Vec::new();
    let mut number = vec![u32::MAX; root.len()];
    for r in 0..root.len() {
        let first = find(&mut root, r);
        if number[first] == u32::MAX {
            number[first] = parts.len() as u32;
            parts.push(first);
        }
        number[r] = number[first];
    }
    number
}
