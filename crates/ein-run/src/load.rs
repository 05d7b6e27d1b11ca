//! Arenas, and parameters from their source to the devices that hold them, before the first run.
//!
//! Every byte is asked for at most once, however many devices hold it: what one device alone holds goes
//! straight to its memory, what several hold is read band by band and put to each of them. So a source is
//! read at most once over, and besides the arenas a load needs one band of memory a thread.

use crate::cpu::boxes;
use crate::device::Memory;
use crate::error::{Cause, RunError};
use crate::source::ParameterSource;
use ein_ir::region::{Interval, Region};
use ein_task::machine::DeviceId;
use ein_task::task::{Slot, TaskGraph, TaskId, Verb};
use ein_task::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a band, unless one row alone has more.
const BAND: usize = 1 << 20;

/// Feeds of one parameter that are read as one, because their regions overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    external: usize,
    /// A box around their regions, disjoint from the boxes of the parameter's other groups.
    hull: Region,
    /// In order.
    feeds: Vec<TaskId>,
}

/// Makes every device's arena, which `arena` does for one of so many bytes: side by side, because all pages of it are
/// touched.
pub(crate) fn allocate<D: Send>(
    graph: &TaskGraph,
    devices: &mut [D],
    arena: &(dyn Fn(usize, &mut D, Bytes) -> Result<(), Cause> + Sync),
) -> Result<(), RunError> {
    let make = |n: usize, device: &mut D| {
        let bytes = graph.arenas[n];
        let refused = |_| RunError::Memory { device: DeviceId(n as u16), bytes: bytes.0, scratch: 0 };
        arena(n, device, bytes).map_err(refused)
    };
    let made: Vec<Result<(), RunError>> = std::thread::scope(|scope| {
        let make = &make;
        let threads: Vec<_> =
            devices.iter_mut().enumerate().map(|(n, device)| scope.spawn(move || make(n, device))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    });
    made.into_iter().collect()
}

/// Loads the values of feeds, all of parameters, to their devices.
///
/// # Errors
///
/// The parameter that could not be read, or not be written: of several the first, whatever the threads.
pub fn load(
    graph: &TaskGraph,
    feeds: &[TaskId],
    parameters: &dyn ParameterSource,
    devices: Vec<&mut dyn Memory>,
) -> Result<(), RunError> {
    let groups = groups(graph, feeds);
    let threads = devices.len().min(groups.len());
    let devices: Vec<Mutex<&mut dyn Memory>> = devices.into_iter().map(Mutex::new).collect();
    let loader = Loader { graph, parameters, devices: &devices };
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Groups are begun in order, so all before the first that fails are ended: which one that is, and so the
    // error, does not depend on the threads.
    let work = || {
        let mut band = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(group) = groups.get(n) else { break };
            if let Err(error) = loader.group(group, &mut band) {
                failed.store(true, Ordering::Relaxed);
                return Some((n, error));
            }
        }
        None
    };
    let errors: Vec<(usize, RunError)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        ended.flatten().collect()
    });
    errors.into_iter().min_by_key(|e| e.0).map_or(Ok(()), |(_, error)| Err(error))
}

/// The feeds by parameter, those that overlap together.
fn groups(graph: &TaskGraph, feeds: &[TaskId]) -> Vec<Group> {
    let mut all: BTreeMap<usize, Vec<Group>> = BTreeMap::new();
    for &id in feeds {
        let task = graph.task(id);
        let Verb::Feed { external } = task.verb else { continue };
        let others = all.entry(external).or_default();
        let mut group = Group { external, hull: task.value.region.clone(), feeds: vec![id] };
        // A box that grows may come to overlap others.
        while let Some(at) = others.iter().position(|o| o.hull.intersect(&group.hull).is_some()) {
            let other = others.remove(at);
            group.hull = hull(&group.hull, &other.hull);
            group.feeds.extend(other.feeds);
        }
        others.push(group);
    }
    let mut groups: Vec<Group> = all.into_values().flatten().collect();
    for group in &mut groups {
        group.feeds.sort_unstable();
    }
    groups.sort_by_key(|g| (g.external, g.feeds[0]));
    groups
}

/// The smallest box around two.
fn hull(a: &Region, b: &Region) -> Region {
    Region(a.0.iter().zip(&b.0).map(|(a, b)| Interval::new(a.lo.min(b.lo), a.hi.max(b.hi))).collect())
}

/// What the threads of a load share.
struct Loader<'a, 'd> {
    graph: &'a TaskGraph,
    parameters: &'a dyn ParameterSource,
    devices: &'a [Mutex<&'d mut dyn Memory>],
}

impl<'d> Loader<'_, 'd> {
    fn group(&self, group: &Group, band: &mut Vec<u64>) -> Result<(), RunError> {
        match group.feeds[..] {
            [feed] => self.alone(feed, group),
            _ => self.shared(group, band),
        }
    }

    /// Reads what one device holds into its memory, as much at once as the device likes.
    fn alone(&self, feed: TaskId, group: &Group) -> Result<(), RunError> {
        let (name, ty) = (&self.graph.externals[group.external].name, &self.graph.externals[group.external].ty);
        let (region, element) = (&group.hull, ty.dtype.bytes());
        let at_once = self.device(feed).at_once();
        let parts = at_once.map(|bytes| bands(region, std::iter::once(region), element, bytes));
        for part in parts.unwrap_or_else(|| vec![region.clone()]) {
            let mut said = None;
            let slot = part_of(self.graph.task(feed).slot, (above(region, &part) * element) as u64);
            let put = self.put(feed, slot, part.volume() * element, &mut |out| {
                self.parameters.read(name, ty, &part, out).map_err(|reason| {
                    said = Some(reason.clone());
                    Cause::Device { reason }
                })
            });
            put.map_err(|cause| self.error(feed, group, said.unwrap_or_else(|| cause.to_string())))?;
        }
        Ok(())
    }

    /// Reads what several hold, a band at a time, and puts its rows to all that hold some.
    fn shared(&self, group: &Group, memory: &mut Vec<u64>) -> Result<(), RunError> {
        let (name, ty) = (&self.graph.externals[group.external].name, &self.graph.externals[group.external].ty);
        let element = ty.dtype.bytes();
        let regions = group.feeds.iter().map(|f| &self.graph.task(*f).value.region);
        for rows in bands(&group.hull, regions, element, BAND) {
            // The rows of a value are consecutive in it, whatever the other axes.
            let held = |&feed: &TaskId| Some((feed, self.graph.task(feed).value.region.intersect(&rows)?));
            let parts: Vec<(TaskId, Region)> = group.feeds.iter().filter_map(held).collect();
            let Some(first) = parts.first() else { continue };
            let band = parts.iter().fold(first.1.clone(), |all, part| hull(&all, &part.1));
            let bytes = band.volume() * element;
            memory.resize(bytes.div_ceil(8), 0);
            let memory: &mut [u8] = &mut bytemuck::cast_slice_mut(memory)[..bytes];
            self.parameters.read(name, ty, &band, memory).map_err(|reason| self.error(first.0, group, reason))?;
            for (feed, part) in &parts {
                let region = &self.graph.task(*feed).value.region;
                let slot = part_of(self.graph.task(*feed).slot, (above(region, part) * element) as u64);
                let put = self.put(*feed, slot, part.volume() * element, &mut |out| {
                    boxes::copy_region(memory, &band, out, part, part, element);
                    Ok(())
                });
                put.map_err(|cause| self.error(*feed, group, cause.to_string()))?;
            }
        }
        Ok(())
    }

    fn put(
        &self,
        feed: TaskId,
        slot: Slot,
        bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        self.device(feed).put(slot, Bytes(bytes as u64), fill)
    }

    /// The device that a feed is for.
    fn device(&self, feed: TaskId) -> MutexGuard<'_, &'d mut dyn Memory> {
        self.devices[self.graph.task(feed).device.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, feed: TaskId, group: &Group, reason: String) -> RunError {
        let task = self.graph.task(feed);
        let name = self.graph.externals[group.external].name.clone();
        RunError::Parameter { name, region: task.value.region.clone(), device: task.device, reason }
    }
}

/// Elements of a value that lie before those of a band of its rows.
fn above(region: &Region, band: &Region) -> usize {
    let (Some(rows), Some(from)) = (region.0.first(), band.0.first()) else { return 0 };
    region.volume() / rows.len().max(1) * (from.lo - rows.lo)
}

/// What is left of a slot from so many bytes on.
fn part_of(slot: Slot, offset: u64) -> Slot {
    Slot { offset: slot.offset + offset, bytes: slot.bytes - offset }
}

/// A box in runs of whole rows of its first axis, of about `bytes` bytes each, in none of which a region begins or
/// ends.
fn bands<'a>(hull: &Region, regions: impl Iterator<Item = &'a Region>, element: usize, bytes: usize) -> Vec<Region> {
    let Some(&rows) = hull.0.first() else { return vec![hull.clone()] };
    let row = hull.volume() / rows.len().max(1) * element;
    let step = (bytes / row.max(1)).max(1);
    let ends: BTreeSet<usize> = regions.flat_map(|r| [r.0[0].lo, r.0[0].hi]).collect();
    let ends: Vec<usize> = ends.into_iter().collect();
    let starts = ends.windows(2).flat_map(|w| (w[0]..w[1]).step_by(step).map(|lo| (lo, w[1])));
    let band = |(lo, hi): (usize, usize)| {
        let mut band = hull.clone();
        band.0[0] = Interval::new(lo, hi.min(lo + step));
        band
    };
    starts.map(band).collect()
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
