//! Symmetries that move several devices at once, of machines where no two may change places alone: a ring's turns, a cube's.

use super::{Symmetry, Wires};
use crate::pattern::mix;
use ein_task::machine::{DeviceId, Machine};

/// Machines of more devices are not looked at, nor more than so many ways to begin, nor more than so many symmetries kept.
const MOST_DEVICES: usize = 20;
const MOST_STEPS: usize = 50_000;
const MOST_TURNS: usize = 64;

/// Symmetries of a machine, as the device that every device becomes: the one that changes nothing first, then others in
/// the order of what the devices become. The one alone where some two devices may change places ([`Symmetry`] says which),
/// or where there are too many devices.
pub(crate) fn turns(machine: &Machine, symmetry: &Symmetry) -> Vec<Vec<DeviceId>> {
    let same: Vec<DeviceId> = machine.ids().collect();
    if symmetry.moves() || machine.len() > MOST_DEVICES {
        return vec![same];
    }
    let mut search =
        Search { wires: Wires::of(machine), between: between(machine), steps: MOST_STEPS, found: Vec::new() };
    search.extend(&mut Vec::with_capacity(machine.len()));
    if search.found.is_empty() { vec![same] } else { search.found }
}

/// All symmetries of a machine of few devices, as the device that every device becomes, under which the devices compute
/// alike, too: the one that changes nothing first.
pub(crate) fn renamings(machine: &Machine) -> Vec<Vec<DeviceId>> {
    let wires = Wires::of(machine);
    let like = |a: DeviceId, b: DeviceId| {
        let [mut a, b] = [a, b].map(|d| machine.devices[d.index()].clone());
        a.name.clone_from(&b.name);
        a == b
    };
    let mut all: Vec<Vec<DeviceId>> = vec![Vec::new()];
    for device in machine.ids() {
        let longer = |to: &Vec<DeviceId>| {
            let next = machine.ids().filter(|d| !to.contains(d) && like(device, *d));
            next.map(|d| [&to[..], &[d]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|to| wires.is_symmetry(to));
    all
}

struct Search<'a> {
    wires: Wires<'a>,
    /// For two devices, a number for what links the one to the other.
    between: Vec<Vec<u64>>,
    steps: usize,
    found: Vec<Vec<DeviceId>>,
}

impl Search<'_> {
    /// Goes on from what the first devices become.
    fn extend(&mut self, to: &mut Vec<DeviceId>) {
        if to.len() == self.between.len() {
            if self.wires.is_symmetry(to) {
                self.found.push(to.clone());
            }
            return;
        }
        for next in 0..self.between.len() as u16 {
            if self.steps == 0 || self.found.len() >= MOST_TURNS {
                return;
            }
            let (device, next) = (to.len(), DeviceId(next));
            let like = |a: usize, b: DeviceId, x: usize, y: DeviceId| {
                self.between[a][x] == self.between[b.index()][y.index()]
                    && self.between[x][a] == self.between[y.index()][b.index()]
            };
            let fits = !to.contains(&next)
                && like(device, next, device, next)
                && to.iter().enumerate().all(|(known, &image)| like(device, next, known, image));
            if fits {
                self.steps -= 1;
                to.push(next);
                self.extend(to);
                to.pop();
            }
        }
    }
}

/// For two devices a number for the latency of the link from the one to the other and for how wide all is that it uses;
/// for one device a number for all its links.
fn between(machine: &Machine) -> Vec<Vec<u64>> {
    let mut between = vec![vec![0; machine.len()]; machine.len()];
    for link in &machine.links {
        let wide = link.resources.iter().map(|&r| mix(machine.resources[r].bandwidth.to_bits()));
        let own = mix(link.latency.0.to_bits() ^ wide.fold(1, u64::wrapping_add));
        let (from, to) = (link.from.index(), link.to.index());
        between[from][to] = own;
        between[from][from] = own.wrapping_add(between[from][from]);
        between[to][to] = mix(own).wrapping_add(between[to][to]);
    }
    between
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(machine: &str, expected: usize) {
        let machine = Machine::by_name(machine).unwrap();
        let found = turns(&machine, &Symmetry::of(&machine));
        assert_eq!(found.len(), expected, "{}", machine.name);
        assert_eq!(found[0], machine.ids().collect::<Vec<_>>(), "{}", machine.name);
        for to in &found {
            for link in &machine.links {
                let other = machine.link(to[link.from.index()], to[link.to.index()]).unwrap();
                assert_eq!(other.latency, link.latency, "{to:?}");
                assert_eq!(machine.bandwidth(other), machine.bandwidth(link), "{to:?}");
            }
            // Every one undone, and any two after each other, are among them.
            for other in &found {
                let both: Vec<DeviceId> = to.iter().map(|d| other[d.index()]).collect();
                assert!(found.contains(&both), "{both:?}");
            }
        }
    }

    #[test]
    fn a_cube_mesh_turns_and_a_switch_is_left_to_exchanges() {
        check("dgx-1v", 4);
        check("8xa100", 1);
        check("2x8xa100", 1);
    }
}
