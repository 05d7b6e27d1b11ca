//! Which devices of a machine may change places: what is true of some is then true of the others.
//!
//! Two devices may if exchanging them maps links to links of equal latency, what links share to what is as wide and
//! shared by the links that those become, and hosts to hosts. Groups of such devices may in turn change places as a whole:
//! the devices of one server, and then servers. What such groups generate is less than all symmetries (those that move
//! several pairs at once, such as a ring's, are in [`turns`]), and every one of it is a symmetry.

mod turns;

pub(crate) use turns::{renamings, turns};

use crate::pattern::mix;
use ein_task::machine::{DeviceId, DeviceKind, DeviceSet, Machine};

/// Devices, and groups of them that may change places.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Group {
    One(DeviceId),
    /// Of equal structure, in any order.
    Alike(Vec<Group>),
}

/// The symmetries of a machine that are made of exchanges of groups.
#[derive(Clone, Debug)]
pub(crate) struct Symmetry {
    groups: Vec<Group>,
    /// The devices in the order of the groups.
    order: Vec<DeviceId>,
    /// The smallest groups, of a device alone or of several.
    near: Vec<DeviceSet>,
    /// For every device, the number of its smallest group, and a name that devices which may change places share.
    of: Vec<usize>,
    kinds: Vec<u64>,
}

impl Symmetry {
    /// The symmetries of a machine.
    pub fn of(machine: &Machine) -> Self {
        let wires = Wires::of(machine);
        let mut groups: Vec<Group> = machine.ids().map(Group::One).collect();
        let mut near: Option<Vec<DeviceSet>> = None;
        loop {
            let mut alike: Vec<Vec<Group>> = Vec::new();
            for group in groups.iter().cloned() {
                match alike.iter_mut().find(|a| wires.may_change(&a[0], &group)) {
                    Some(known) => known.push(group),
                    None => alike.push(vec![group]),
                }
            }
            let merged = alike.len() < groups.len();
            let one = |mut a: Vec<Group>| if a.len() == 1 { a.remove(0) } else { Group::Alike(a) };
            groups = alike.into_iter().map(one).collect();
            near.get_or_insert_with(|| groups.iter().map(|g| g.devices().into_iter().collect()).collect());
            if !merged {
                break;
            }
        }
        let order: Vec<DeviceId> = groups.iter().flat_map(Group::devices).collect();
        let near = near.unwrap_or_default();
        let of = machine.ids().map(|d| near.iter().position(|n| n.contains(d)).unwrap_or(0)).collect();
        let mut kinds = vec![0; machine.len()];
        for (n, group) in groups.iter().enumerate() {
            group.devices().into_iter().for_each(|d| kinds[d.index()] = n as u64 + 1);
        }
        Self { groups, order, near, of, kinds }
    }

    /// Whether any two devices, or groups of them, may change places.
    fn moves(&self) -> bool {
        self.groups.iter().any(|g| matches!(g, Group::Alike(_)))
    }

    /// A name for every device before anything is known of what it does.
    pub fn kinds(&self) -> &[u64] {
        &self.kinds
    }

    /// A number for the devices of a set by their names, equal where one set becomes the other by a symmetry that keeps
    /// names.
    pub fn sum(&self, set: DeviceSet, names: &[u64]) -> u64 {
        self.sum_of(set, |d| mix(names[d.index()]))
    }

    /// [`Symmetry::sum`] of names that are mixed already.
    pub fn sum_mixed(&self, set: DeviceSet, mixed: &[u64]) -> u64 {
        self.sum_of(set, |d| mixed[d.index()])
    }

    fn sum_of(&self, set: DeviceSet, of: impl Fn(DeviceId) -> u64) -> u64 {
        let plain = |set: DeviceSet| set.iter().fold(set.len() as u64, |sum, d| sum.wrapping_add(of(d)));
        if self.near.len() == 1 {
            return plain(set);
        }
        let parts = self.near.iter().map(|near| set.intersect(*near)).filter(|both| !both.is_empty());
        parts.fold(set.len() as u64, |sum, both| sum.wrapping_add(mix(plain(both))))
    }

    /// How many of a set are in the smallest group of a device; 0 where that is all devices.
    pub fn beside(&self, device: DeviceId, set: DeviceSet) -> u64 {
        if self.near.len() == 1 {
            return 0;
        }
        set.intersect(self.near[self.of[device.index()]]).len() as u64
    }

    /// The devices in an order that depends on their names and on nothing else as far as names differ: a device that comes
    /// n-th may take the place of the n-th of [`Symmetry::places`].
    pub fn arranged(&self, names: &[u64]) -> Vec<DeviceId> {
        self.groups.iter().flat_map(|g| g.arranged(names)).collect()
    }

    /// The devices in the order of their groups.
    pub fn places(&self) -> &[DeviceId] {
        &self.order
    }
}

impl Group {
    fn devices(&self) -> Vec<DeviceId> {
        match self {
            Group::One(d) => vec![*d],
            Group::Alike(all) => all.iter().flat_map(Group::devices).collect(),
        }
    }

    fn arranged(&self, names: &[u64]) -> Vec<DeviceId> {
        match self {
            Group::One(d) => vec![*d],
            Group::Alike(all) if all.iter().all(|g| matches!(g, Group::One(_))) => {
                let mut devices = self.devices();
                devices.sort_unstable_by_key(|d| (names[d.index()], *d));
                devices
            }
            Group::Alike(all) => {
                let mut parts: Vec<Vec<DeviceId>> = all.iter().map(|g| g.arranged(names)).collect();
                let name = |part: &Vec<DeviceId>| part.iter().map(|d| names[d.index()]).collect::<Vec<_>>();
                parts.sort_by_cached_key(|part| (name(part), part[0]));
                parts.concat()
            }
        }
    }

    fn is_like(&self, other: &Group) -> bool {
        match (self, other) {
            (Group::One(_), Group::One(_)) => true,
            (Group::Alike(a), Group::Alike(b)) => a.len() == b.len() && a[0].is_like(&b[0]),
            (Group::One(_), Group::Alike(_)) | (Group::Alike(_), Group::One(_)) => false,
        }
    }
}

/// A machine's links, ready to be compared.
struct Wires<'a> {
    machine: &'a Machine,
    /// Of every resource, the links that use it.
    users: Vec<Vec<(DeviceId, DeviceId)>>,
}

impl<'a> Wires<'a> {
    fn of(machine: &'a Machine) -> Self {
        let mut users = vec![Vec::new(); machine.resources.len()];
        for link in &machine.links {
            link.resources.iter().for_each(|&r| users[r].push((link.from, link.to)));
        }
        Self { machine, users }
    }

    /// Whether exchanging two groups, each device with the one in its place, changes nothing.
    fn may_change(&self, a: &Group, b: &Group) -> bool {
        if !a.is_like(b) {
            return false;
        }
        let mut to: Vec<DeviceId> = self.machine.ids().collect();
        for (x, y) in a.devices().into_iter().zip(b.devices()) {
            (to[x.index()], to[y.index()]) = (y, x);
        }
        self.is_symmetry(&to)
    }

    /// Whether nothing changes where every device becomes another.
    fn is_symmetry(&self, to: &[DeviceId]) -> bool {
        let kind = |d: DeviceId| {
            let device = &self.machine.devices[d.index()];
            (device.kind == DeviceKind::Host, device.engines)
        };
        if self.machine.ids().any(|d| kind(d) != kind(to[d.index()])) {
            return false;
        }
        let same: Vec<DeviceId> = self.machine.ids().collect();
        self.links(&same) == self.links(to) && self.shared(&same) == self.shared(to)
    }

    /// A number for all links, with devices under other names.
    fn links(&self, to: &[DeviceId]) -> u64 {
        let own = |l: &ein_task::machine::Link| {
            mix(link(to, l.from, l.to) ^ mix(l.latency.0.to_bits()) ^ mix(l.resources.len() as u64))
        };
        self.machine.links.iter().fold(0, |sum, l| sum.wrapping_add(own(l)))
    }

    /// A number for what links share: each by its width and by the links that use it.
    fn shared(&self, to: &[DeviceId]) -> u64 {
        let own = |(users, r): (&Vec<(DeviceId, DeviceId)>, &ein_task::machine::Resource)| {
            let sum = users.iter().fold(0u64, |sum, &(a, b)| sum.wrapping_add(mix(link(to, a, b))));
            mix(sum ^ mix(r.bandwidth.to_bits()))
        };
        self.users.iter().zip(&self.machine.resources).map(own).fold(0, u64::wrapping_add)
    }
}

fn link(to: &[DeviceId], a: DeviceId, b: DeviceId) -> u64 {
    mix((to[a.index()].index() as u64) << 16 | to[b.index()].index() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(machine: &str, devices: usize, expected: &str) {
        let machine = Machine::by_name(machine).unwrap();
        let machine = if devices > 0 { machine.first(devices).unwrap() } else { machine };
        let found: Vec<String> = Symmetry::of(&machine).groups.iter().map(show).collect();
        assert_eq!(found.join(" "), expected, "{} of {}", machine.len(), machine.name);
    }

    fn show(group: &Group) -> String {
        match group {
            Group::One(d) => d.index().to_string(),
            Group::Alike(all) => format!("({})", all.iter().map(show).collect::<Vec<_>>().join(" ")),
        }
    }

    #[test]
    fn servers_and_their_devices_change_places() {
        check("8xa100", 0, "(0 1 2 3 4 5 6 7)");
        check("8xa100", 1, "0");
        check("2x8xa100", 0, "((0 1 2 3 4 5 6 7) (8 9 10 11 12 13 14 15))");
        check("2x8xa100", 11, "(0 1 2 3 4 5 6 7) (8 9 10)");
    }

    #[test]
    fn what_is_wired_otherwise_stays() {
        // Of a cube mesh no two alone, and no host with a device.
        let machine = Machine::by_name("dgx-1v").unwrap();
        let symmetry = Symmetry::of(&machine);
        assert!(symmetry.groups.iter().filter(|g| matches!(g, Group::One(_))).count() >= 8, "{:?}", symmetry.groups);
        let unequal = Symmetry::of(&Machine::by_name("unequal").unwrap());
        assert_eq!(unequal.order.len(), Machine::by_name("unequal").unwrap().len());
    }

    /// Under names drawn at random, the arrangement is a symmetry: every link keeps its latency and width.
    #[test]
    fn arrangements_are_symmetries() {
        for name in ["2x8xa100", "pcie-8", "8xa100", "unequal", "dgx-1v"] {
            let machine = Machine::by_name(name).unwrap();
            let symmetry = Symmetry::of(&machine);
            for seed in 0..20u64 {
                let names: Vec<u64> = (0..machine.len() as u64).map(|d| mix(mix(seed) ^ d) % 3).collect();
                let arranged = symmetry.arranged(&names);
                let mut to: Vec<DeviceId> = machine.ids().collect();
                arranged.iter().zip(symmetry.places()).for_each(|(d, place)| to[d.index()] = *place);
                for link in &machine.links {
                    let other = machine.link(to[link.from.index()], to[link.to.index()]).unwrap();
                    assert_eq!(other.latency, link.latency, "{name}");
                    assert_eq!(machine.bandwidth(other), machine.bandwidth(link), "{name}");
                }
                let sum = |ds: &[u16]| symmetry.sum(ds.iter().map(|&d| DeviceId(d)).collect(), symmetry.kinds());
                assert_eq!(sum(&[0, 1]), sum(&[0, 1]));
            }
        }
    }
}
