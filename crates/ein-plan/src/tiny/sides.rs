//! What rows leave of a tensor and need of it, told apart up to the names of devices that may change places, with every
//! element as a bit.

use super::Names;
use crate::ports::Ports;
use ein_ir::region::{Region, points};
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;
use std::collections::BTreeMap;

/// The most devices, the most boxes that one side has, and the most elements of a tensor.
pub(super) const DEVICES: usize = 4;
pub(super) const PIECES: usize = 8;
pub(super) const ELEMENTS: usize = 64;

/// One bit an element, for every device.
pub(super) type Masks = [u64; DEVICES];

/// Boxes at devices in rising order: of each the box's number plus one, times four, plus the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Side([u16; PIECES]);

impl Side {
    /// These boxes, each at a device.
    pub fn of(pieces: impl Iterator<Item = (u16, usize)>) -> Self {
        let mut side = Self::default();
        for (n, (number, device)) in pieces.enumerate() {
            side.0[n] = (number + 1) << 2 | device as u16;
        }
        side.0.sort_unstable();
        side
    }

    /// The boxes, each with its device.
    pub fn pieces(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        self.0.iter().filter(|p| **p > 0).map(|p| ((p >> 2) - 1, usize::from(p & 3)))
    }

    /// The same with devices under other names.
    pub fn renamed(mut self, to: Names) -> Self {
        for piece in self.0.iter_mut().filter(|p| **p > 0) {
            *piece = *piece & !3 | to[usize::from(*piece & 3)] as u16;
        }
        self.0.sort_unstable();
        self
    }

    /// The first of those that it is under other names.
    pub fn first(self, names: &[Names]) -> Self {
        names.iter().map(|to| self.renamed(*to)).min().unwrap_or(self)
    }
}

/// Boxes of a tensor by number.
#[derive(Debug, Default)]
pub(super) struct Boxes {
    known: BTreeMap<Region, u16>,
    /// Each with its elements.
    list: Vec<(Region, u64)>,
}

impl Boxes {
    /// The number of a box inside the tensor whose whole region is `whole`.
    pub fn number(&mut self, whole: &Region, region: &Region) -> u16 {
        if let Some(&known) = self.known.get(region) {
            return known;
        }
        let inside = |p: &[usize]| region.0.iter().zip(p).all(|(i, &x)| i.lo <= x && x < i.hi);
        let elements = points(whole).enumerate().filter(|(_, p)| inside(p)).map(|(n, _)| 1u64 << n);
        let elements = elements.sum();
        let number = self.list.len() as u16;
        self.known.insert(region.clone(), number);
        self.list.push((region.clone(), elements));
        number
    }

    pub fn region(&self, number: u16) -> &Region {
        &self.list[usize::from(number)].0
    }

    pub fn elements(&self, number: u16) -> u64 {
        self.list[usize::from(number)].1
    }

    /// The elements of a side at every device.
    pub fn masks(&self, side: &Side) -> Masks {
        let mut masks = Masks::default();
        side.pieces().for_each(|(number, d)| masks[d] |= self.elements(number));
        masks
    }

    /// A side as blocks, in rising order.
    pub fn held(&self, side: &Side) -> Vec<Held> {
        let held = |(number, d): (u16, usize)| Held {
            region: self.region(number).clone(),
            devices: DeviceSet::one(DeviceId(d as u16)),
        };
        let mut held: Vec<Held> = side.pieces().map(held).collect();
        held.sort_unstable();
        held
    }

    /// A side as needs.
    pub fn needs(&self, side: &Side) -> Vec<Need> {
        let need = |(number, d): (u16, usize)| Need { device: DeviceId(d as u16), region: self.region(number).clone() };
        let mut needs: Vec<Need> = side.pieces().map(need).collect();
        needs.sort_unstable();
        needs
    }
}

/// Sides by number, of those that become each other under other names the first.
#[derive(Debug, Default)]
pub(super) struct Sides {
    known: BTreeMap<Side, usize>,
    list: Vec<Side>,
}

impl Sides {
    /// The number of a side that is the first of its kind.
    pub fn number(&mut self, side: Side) -> usize {
        let next = self.list.len();
        let number = *self.known.entry(side).or_insert(next);
        if number == next {
            self.list.push(side);
        }
        number
    }

    pub fn at(&self, number: usize) -> &Side {
        &self.list[number]
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }
}

/// What a tensor's blocks have, for bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Had {
    /// What a device has a part of.
    own: Masks,
    /// What it has in full.
    full: Masks,
    /// What two devices and more have parts of, three and more, and four.
    several: [u64; 3],
}

impl Had {
    pub fn of(own: Masks) -> Self {
        let mut count = [0u64; DEVICES];
        for mask in own {
            for n in (1..DEVICES).rev() {
                count[n] |= count[n - 1] & mask;
            }
            count[0] |= mask;
        }
        let several = [count[1], count[2], count[3]];
        Self { own, full: own.map(|mask| mask & !several[0]), several }
    }
}

/// How quickly elements cross at best.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Seconds of a byte into each device and out of it, and of one of all that move.
    pub into: [f64; DEVICES],
    pub out: [f64; DEVICES],
    pub all: f64,
    /// Seconds beside those of bytes.
    pub once: f64,
}

impl Speed {
    pub fn of(ports: &Ports) -> Self {
        let (into, out, all) = ports.widths();
        let each = |widths: &[f64]| {
            let mut seconds = [0.0; DEVICES];
            seconds.iter_mut().zip(widths).for_each(|(s, w)| *s = 1.0 / w);
            seconds
        };
        Self { into: each(into), out: each(out), all: 1.0 / all, once: ports.once() }
    }

    /// What no exchange beats from these elements to those, directly or by a home between: what a device lacks it
    /// receives, what it alone has a part of it sends, and partials meet before anyone has the result.
    pub fn least(&self, had: &Had, needed: &Masks, element: f64) -> f64 {
        let (mut all, mut longest) = (0, 0.0f64);
        let (mut any, mut met) = (0, 0);
        let mut twice = 0;
        for mask in needed {
            twice |= any & mask;
            any |= mask;
        }
        for (d, needed) in needed.iter().enumerate() {
            met |= had.own[d] & needed;
            let lacking = (needed & !had.full[d]).count_ones();
            // What somebody else needs, too.
            let others = any & (!needed | twice);
            let asked = (had.own[d] & others).count_ones();
            all += lacking;
            longest = longest.max(f64::from(lacking) * self.into[d]).max(f64::from(asked) * self.out[d]);
        }
        if all == 0 {
            return 0.0;
        }
        let [two, three, four] = had.several.map(|s| s & any);
        all += three.count_ones() + four.count_ones() + (two & !met).count_ones();
        longest.max(f64::from(all) * self.all) * element + self.once
    }

    /// What no exchange beats that hands these elements out from where each is held once, wherever that is.
    pub fn least_from_anywhere(&self, needed: &Masks, element: f64) -> f64 {
        let any = needed.iter().fold(0, |all, mask| all | mask).count_ones();
        let all = needed.iter().map(|mask| mask.count_ones()).sum::<u32>() - any;
        if all == 0 { 0.0 } else { f64::from(all) * self.all * element + self.once }
    }
}
