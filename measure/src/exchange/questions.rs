//! The exchange questions that have a name elsewhere.

use ein_ir::dtype::DType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::region::Region;
use ein_task::exchange::{Exchange, Need};
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::{Held, Relation};
use std::fmt;

/// A question by its common name. *Strips* are of axis 0, one for each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// From strips to the whole everywhere.
    AllGather,
    /// From a partial everywhere to strips.
    ReduceScatter,
    /// From a partial everywhere to the whole everywhere.
    AllReduce,
    /// From the whole at the first device to the whole everywhere.
    Broadcast,
    /// From the whole at the first device to strips.
    Scatter,
    /// From strips to the whole at the first device.
    Gather,
    /// From strips of axis 0 to strips of axis 1.
    AllToAll,
    /// From strips to strips with a sixteenth of a strip more on either side.
    Halo,
    /// From strips at the first `from` devices to strips at the first `to`.
    Relayout {
        /// How many have one.
        from: usize,
        /// How many need one.
        to: usize,
    },
}

impl Kind {
    /// All that have a fixed number of devices.
    pub const NAMED: [Kind; 8] = [
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllReduce,
        Self::Broadcast,
        Self::Scatter,
        Self::Gather,
        Self::AllToAll,
        Self::Halo,
    ];

    /// Every relayout between 1 to `most` devices that changes something.
    pub fn relayouts(most: usize) -> Vec<Kind> {
        let pairs = (1..=most).flat_map(|from| (1..=most).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).map(|(from, to)| Self::Relayout { from, to }).collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllGather => f.write_str("all-gather"),
            Self::ReduceScatter => f.write_str("reduce-scatter"),
            Self::AllReduce => f.write_str("all-reduce"),
            Self::Broadcast => f.write_str("broadcast"),
            Self::Scatter => f.write_str("scatter"),
            Self::Gather => f.write_str("gather"),
            Self::AllToAll => f.write_str("all-to-all"),
            Self::Halo => f.write_str("halo"),
            Self::Relayout { from, to } => write!(f, "{from}→{to}"),
        }
    }
}

/// Sizes from 4 KB to 1 GB, each four times the one before.
pub fn sizes() -> Vec<u64> {
    (6..=15).map(|n| 1 << (2 * n)).collect()
}

/// The shape of `bytes` (a power of two) of `f32`, as square as can be.
pub fn shape(bytes: u64) -> [usize; 2] {
    let elements = (bytes / 4) as usize;
    let rows = 1 << elements.ilog2().div_ceil(2);
    [rows, elements / rows]
}

/// The question on these devices.
pub fn exchange(kind: Kind, devices: &[DeviceId], bytes: u64) -> Exchange {
    let shape = shape(bytes);
    let whole =
        |devices: &[DeviceId]| vec![Held { region: Region::whole(&shape), devices: devices.iter().copied().collect() }];
    let strips = |axis: usize, devices: &[DeviceId]| strips(&shape, axis, devices);
    let partials = || devices.iter().flat_map(|&d| whole(&[d])).collect::<Vec<Held>>();
    let (have, need) = match kind {
        Kind::AllGather => (strips(0, devices), whole(devices)),
        Kind::ReduceScatter => (partials(), strips(0, devices)),
        Kind::AllReduce => (partials(), whole(devices)),
        Kind::Broadcast => (whole(&devices[..1]), whole(devices)),
        Kind::Scatter => (whole(&devices[..1]), strips(0, devices)),
        Kind::Gather => (strips(0, devices), whole(&devices[..1])),
        Kind::AllToAll => (strips(0, devices), strips(1, devices)),
        Kind::Halo => (strips(0, devices), margins(strips(0, devices), shape[0])),
        Kind::Relayout { from, to } => (strips(0, &devices[..from]), strips(0, &devices[..to])),
    };
    let needs = need.iter().flat_map(|h| h.devices.iter().map(|device| Need { device, region: h.region.clone() }));
    let needs = needs.collect();
    Exchange { have: relation(&shape, have), needs }
}

/// A tensor of `f32` whose partials are summed.
pub fn relation(shape: &[usize], blocks: Vec<Held>) -> Relation {
    Relation {
        whole: Region::whole(shape),
        monoid: Monoid::Sum,
        pending: Monoid::Sum.pending(DType::F32, shape.len(), false),
        finished: Form::finished(DType::F32, shape.len()),
        blocks,
        places: Vec::new(),
    }
}

/// Strips of an axis, one a device, whose sizes differ by at most one; devices that would get nothing get none.
pub fn strips(shape: &[usize], axis: usize, devices: &[DeviceId]) -> Vec<Held> {
    let cut = |n: usize| shape[axis] * n / devices.len();
    let strip = |(n, &device): (usize, &DeviceId)| {
        let mut region = Region::whole(shape);
        (region.0[axis].lo, region.0[axis].hi) = (cut(n), cut(n + 1));
        Held { region, devices: DeviceSet::one(device) }
    };
    devices.iter().enumerate().map(strip).filter(|h| !h.region.is_empty()).collect()
}

/// Strips with a sixteenth of each, and at least one row, added on both sides.
fn margins(mut strips: Vec<Held>, rows: usize) -> Vec<Held> {
    for strip in &mut strips {
        let i = &mut strip.region.0[0];
        let margin = (i.len() / 16).max(1);
        (i.lo, i.hi) = (i.lo.saturating_sub(margin), (i.hi + margin).min(rows));
    }
    strips
}
