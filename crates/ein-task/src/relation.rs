//! Relations: a tensor as blocks at devices.

use crate::machine::DeviceSet;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::region::{Interval, Region};
use std::fmt;

/// One block of a relation and the devices that hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    /// Its region, in source coordinates (of the tensor that an operation or an input made).
    pub region: Region,
    /// The devices that hold a copy; not empty.
    pub devices: DeviceSet,
}

/// A tensor as blocks at devices.
///
/// Blocks that overlap are *partials* of one another where they do: an element's value is the monoid's
/// fold over all blocks that contain it. A block that no other overlaps is finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Relation {
    /// The tensor's whole region; every point is in some block.
    pub whole: Region,
    /// How partials combine.
    pub monoid: Monoid,
    /// How a partial is stored.
    pub pending: Form,
    /// How a finished value is stored.
    pub finished: Form,
    /// The blocks.
    pub blocks: Vec<Held>,
    /// Of an ordered monoid, where along the folded axis each block's partial lies: partials of one element are folded in
    /// this order, and only neighbours with each other. Empty for the other monoids, whose partials are folded in the order
    /// of the blocks.
    pub places: Vec<Interval>,
}

impl Relation {
    /// What says in which order blocks are folded: where a block's partial lies, if there is such an order, then its number.
    pub fn rank(&self, b: usize) -> (usize, usize, usize) {
        self.places.get(b).map_or((0, 0, b), |i| (i.lo, i.hi, b))
    }

    /// Whether what is folded up to block `a` may be folded with what begins with block `b`: always, but for ordered monoids
    /// only where nothing lies between them.
    pub fn joins(&self, a: usize, b: usize) -> bool {
        match (self.places.get(a), self.places.get(b)) {
            (Some(a), Some(b)) => a.hi == b.lo,
            _ => !self.monoid.is_ordered(),
        }
    }

    /// The blocks that contain part of `region`.
    pub fn partials(&self, region: &Region) -> Vec<usize> {
        (0..self.blocks.len()).filter(|&b| self.blocks[b].region.overlap(region) > 0).collect()
    }

    /// Whether block `b` overlaps no other, so that its holders have the finished value.
    pub fn is_finished(&self, b: usize) -> bool {
        let own = &self.blocks[b].region;
        self.blocks.iter().enumerate().all(|(n, other)| n == b || own.overlap(&other.region) == 0)
    }

    /// Whether every block is finished.
    pub fn is_complete(&self) -> bool {
        (0..self.blocks.len()).all(|b| self.is_finished(b))
    }
}

/// Blocks and their devices; of an ordered monoid, where along the folded axis each lies, as in `[0:4]@{0} of 0:8`.
impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, b) in self.blocks.iter().enumerate() {
            let space = if n == 0 { "" } else { " " };
            write!(f, "{space}{}@{}", b.region, b.devices)?;
            if let Some(place) = self.places.get(n) {
                write!(f, " of {}:{}", place.lo, place.hi)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DeviceId;
    use ein_ir::dtype::DType;

    /// Two partials of one region: only of an ordered monoid is it said where they lie.
    #[test]
    fn places_are_shown_where_there_are_any() {
        let whole = Region::of(&[(0, 4)]);
        let held = |n| Held { region: whole.clone(), devices: DeviceSet::one(DeviceId(n)) };
        let shown = |monoid: Monoid, places: Vec<Interval>| {
            let (pending, finished) = (monoid.pending(DType::F32, 1, true), Form::finished(DType::F32, 1));
            let blocks = vec![held(0), held(1)];
            Relation { whole: whole.clone(), monoid, pending, finished, blocks, places }.to_string()
        };
        let region = &whole;
        assert_eq!(shown(Monoid::Sum, Vec::new()), format!("{region}@{{0}} {region}@{{1}}"));
        let places = vec![Interval::new(5, 9), Interval::new(0, 5)];
        assert_eq!(shown(Monoid::Affine, places), format!("{region}@{{0}} of 5:9 {region}@{{1}} of 0:5"));
    }
}
