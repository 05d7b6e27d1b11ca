//! Where a tensor that comes in is held.

use super::cut::{Strips, parts, strip_of};
use crate::needs::tidy;
use ein_ir::region::Region;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;

/// A tensor in strips of one axis.
pub(super) fn strips(shape: &[usize], axis: usize, strips: &Strips, workers: &[DeviceId]) -> Vec<Held> {
    let parts = parts(strips, shape[axis], workers);
    parts.into_iter().map(|(interval, devices)| Held { region: strip_of(shape, axis, interval), devices }).collect()
}

/// A tensor where it is needed and nowhere else: disjoint blocks; what nobody needs is on `spare`.
pub(super) fn as_needed(whole: &Region, needs: Vec<Need>, spare: DeviceId) -> Vec<Held> {
    let mut blocks = vec![Held { region: whole.clone(), devices: DeviceSet::new() }];
    for need in tidy(needs) {
        let mut next = Vec::with_capacity(blocks.len());
        for block in blocks {
            let Some(both) = block.region.intersect(&need.region) else {
                next.push(block);
                continue;
            };
            let rest = block.region.subtract(&both);
            next.extend(rest.into_iter().map(|region| Held { region, devices: block.devices }));
            next.push(Held { region: both, devices: block.devices.with(need.device) });
        }
        blocks = next;
    }
    for block in &mut blocks {
        if block.devices.is_empty() {
            block.devices = DeviceSet::one(spare);
        }
    }
    blocks.sort_unstable();
    blocks
}
