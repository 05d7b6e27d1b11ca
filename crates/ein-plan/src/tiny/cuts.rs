//! Every recursive cut of a row at every position into at most as many boxes as devices, on every assignment of boxes to
//! devices, as far as they differ in what they leave and need.

use super::sides::{Boxes, DEVICES, ELEMENTS, PIECES, Side, Sides};
use super::{Budget, Names, Sources, Tensor};
use crate::candidates::{is_cuttable, quantum};
use crate::choice::{Block, Decomposition};
use crate::needs::source_boxes;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::region::Region;
use ein_ir::spec::Spec;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::price::kernel_seconds;
use std::collections::{BTreeMap, BTreeSet};

/// Most points of a row's label space: as many as the product of two square matrices has, each of [`ELEMENTS`] elements.
const POINTS: usize = 512;
const _: () = assert!(POINTS * POINTS == ELEMENTS * ELEMENTS * ELEMENTS);

/// Boxes by number, in rising order.
type Tiling = Vec<u16>;

/// Of the decompositions of a row that leave and need the same, up to the names of devices, the quickest.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub seconds: f64,
    /// The number of what it leaves.
    pub left: usize,
    /// The number of what it needs of each source.
    pub needs: Vec<usize>,
    tiling: usize,
    devices: [u8; DEVICES],
}

/// A row that computes.
#[derive(Debug)]
pub(super) struct Row {
    pub id: TensorId,
    /// The tensors that it reads.
    pub sources: Vec<TensorId>,
    pub entries: Vec<Entry>,
    space: Region,
    regions: Vec<Region>,
    /// Of every region.
    parts: Vec<Part>,
    tilings: Vec<Tiling>,
}

/// What one box of a row leaves and needs, by numbers of the tensors' boxes, and how long each device takes.
#[derive(Debug)]
struct Part {
    left: u16,
    needs: Vec<Vec<u16>>,
    seconds: [f64; DEVICES],
}

/// The recursive cuts of a label space.
struct Cuts {
    numbers: BTreeMap<Region, u16>,
    regions: Vec<Region>,
    tilings: Vec<Tiling>,
}

impl Cuts {
    /// All cuts into at most so many boxes; nothing, as soon as that is known, if their assignments are more than `most`.
    fn of(spec: &Spec, devices: usize, most: usize) -> Option<Self> {
        let mut cuts = Self { numbers: BTreeMap::new(), regions: Vec::new(), tilings: Vec::new() };
        let mut last = BTreeSet::from([vec![cuts.number(&spec.space())?]]);
        let mut left = most;
        for boxes in 1..=devices {
            left = left.checked_sub(last.len() * devices.pow(boxes as u32))?;
            cuts.tilings.extend(last.iter().cloned());
            let mut next = BTreeSet::new();
            for tiling in last.iter().filter(|_| boxes < devices) {
                cuts.cut_once(spec, tiling, left / devices.pow(boxes as u32 + 1), &mut next)?;
            }
            last = next;
        }
        Some(cuts)
    }

    /// The number of a region; nothing if there are too many to be numbered.
    fn number(&mut self, region: &Region) -> Option<u16> {
        if let Some(&known) = self.numbers.get(region) {
            return Some(known);
        }
        let number = u16::try_from(self.regions.len()).ok()?;
        self.numbers.insert(region.clone(), number);
        self.regions.push(region.clone());
        Some(number)
    }

    /// A tiling with one of its boxes cut in two, in every way; nothing if that makes more than `most` in all.
    fn cut_once(&mut self, spec: &Spec, tiling: &Tiling, most: usize, into: &mut BTreeSet<Tiling>) -> Option<()> {
        for (n, &whole) in tiling.iter().enumerate() {
            for (l, own) in spec.labels.iter().enumerate().filter(|l| is_cuttable(l.1.role)) {
                let along = self.regions[usize::from(whole)].0[l];
                for at in (along.lo + 1..along.hi).filter(|at| at.is_multiple_of(quantum(&own.rule))) {
                    let (low, high) = self.regions[usize::from(whole)].split(l, at);
                    let mut next = tiling.clone();
                    next[n] = self.number(&low)?;
                    next.push(self.number(&high)?);
                    next.sort_unstable();
                    into.insert(next);
                    if into.len() > most {
                        return None;
                    }
                }
            }
        }
        Some(())
    }
}

impl Row {
    /// All decompositions of a row, with what they leave and need entered in its tensors; nothing if they are more than
    /// `most` or than is left of the budget, or the row is of no kind that this knows. No device may need more than `room`
    /// bytes at once.
    pub fn of(
        graph: &Graph,
        id: TensorId,
        machine: &Machine,
        names: &[Names],
        tensors: &mut Sources,
        most: usize,
        budget: &mut Budget,
        room: f64,
    ) -> Option<Self> {
        let spec = graph.spec(id)?;
        let space = spec.space();
        // Of a row with a causal limit some blocks leave nothing, and sides forget in which order partials are folded.
        if space.is_empty() || space.volume() > POINTS || spec.work.band.is_some() || spec.monoid.is_ordered() {
            return None;
        }
        let Cuts { regions, tilings, .. } = Cuts::of(&spec, machine.len(), most)?;
        let mut sources: Vec<TensorId> = Vec::new();
        for &operand in &graph.node(id).inputs {
            let behind = crate::needs::sources(graph, operand);
            sources.extend(behind.into_iter().filter(|s| !sources.contains(s)).collect::<Vec<_>>());
        }
        let parts: Vec<Part> =
            regions.iter().map(|r| Part::of(graph, id, &spec, r, machine, &sources, tensors)).collect();
        let mut row = Self { id, sources, entries: Vec::new(), space, regions, parts, tilings };
        row.enter(machine, names, tensors, budget, room)?;
        Some(row)
    }

    fn enter(
        &mut self,
        machine: &Machine,
        names: &[Names],
        tensors: &mut Sources,
        budget: &mut Budget,
        room: f64,
    ) -> Option<()> {
        let mut known: BTreeMap<(usize, Vec<usize>), usize> = BTreeMap::new();
        // What a side is under the first names, so that this is worked out once.
        let mut met: Vec<BTreeMap<Side, usize>> = vec![BTreeMap::new(); 1 + self.sources.len()];
        for (number, tiling) in self.tilings.iter().enumerate() {
            let mut told_apart = 0;
            for code in 0..machine.len().pow(tiling.len() as u32) {
                let devices = assignment(code, tiling.len(), machine.len());
                if !is_first(&devices[..tiling.len()], names) {
                    continue;
                }
                told_apart += 1;
                let placed = || placed(&self.parts, tiling, devices);
                let mut each = vec![0.0; machine.len()];
                placed().for_each(|(part, d)| each[d] += part.seconds[d]);
                let seconds = machine.together(&each).0;
                if !seconds.is_finite() {
                    continue;
                }
                let (left, lists) = sides(&self.sources, tensors, placed)?;
                let mut held = [0.0; DEVICES];
                let mut count = |tensor: &Tensor, side: &Side| {
                    let masks = tensor.boxes.masks(side);
                    held.iter_mut().zip(masks).for_each(|(h, m)| *h += f64::from(m.count_ones()) * tensor.element);
                };
                count(&tensors[&self.id], &left);
                self.sources.iter().zip(&lists).for_each(|(source, list)| count(&tensors[source], list));
                if held.iter().any(|h| *h > room) {
                    continue;
                }
                let mut number_of = |slot: usize, side: Side, sides: &mut Sides| {
                    *met[slot].entry(side).or_insert_with(|| sides.number(side.first(names)))
                };
                let left = number_of(0, left, &mut tensors.get_mut(&self.id)?.lefts);
                let mut needs = Vec::with_capacity(lists.len());
                for (n, (source, list)) in self.sources.iter().zip(lists).enumerate() {
                    needs.push(number_of(1 + n, list, &mut tensors.get_mut(source)?.lists));
                }
                let at = *known.entry((left, needs.clone())).or_insert(self.entries.len());
                let entry = Entry { seconds, left, needs, tiling: number, devices };
                match self.entries.get_mut(at) {
                    Some(other) if seconds < other.seconds => *other = entry,
                    Some(_) => {}
                    None => self.entries.push(entry),
                }
            }
            budget.enter(told_apart)?;
        }
        Some(())
    }

    /// What an entry leaves, and what it needs of each source.
    pub fn sides(&self, entry: &Entry, tensors: &Sources) -> Option<(Side, Vec<Side>)> {
        sides(&self.sources, tensors, || placed(&self.parts, &self.tilings[entry.tiling], entry.devices))
    }

    /// The decomposition of an entry, with devices under other names.
    pub fn decomposition(&self, entry: &Entry, to: Names) -> Decomposition {
        let block = |(&number, &d): (&u16, &u8)| Block {
            region: self.regions[usize::from(number)].clone(),
            devices: DeviceSet::one(DeviceId(u16::from(to[usize::from(d)]))),
        };
        let mut blocks: Vec<Block> = self.tilings[entry.tiling].iter().zip(&entry.devices).map(block).collect();
        // The order that relations are asked about in, as far as there is one.
        blocks.sort_unstable();
        Decomposition::new(&self.space, blocks).expect("a cut of the space fills it")
    }
}

impl Part {
    fn of(
        graph: &Graph,
        id: TensorId,
        spec: &Spec,
        region: &Region,
        machine: &Machine,
        sources: &[TensorId],
        tensors: &mut Sources,
    ) -> Self {
        let number = |tensors: &mut Sources, tensor: TensorId, region: &Region| {
            let own = tensors.get_mut(&tensor).expect("every source is known");
            own.boxes.number(&graph.ty(tensor).whole(), region)
        };
        let mut needs = vec![Vec::new(); sources.len()];
        for (n, &operand) in graph.node(id).inputs.iter().enumerate() {
            for (source, part) in source_boxes(graph, operand, &spec.operand_region(n, region)) {
                let slot = sources.iter().position(|s| *s == source).expect("a box is of a source");
                needs[slot].push(number(tensors, source, &part));
            }
        }
        let left = number(tensors, id, &spec.result_region(region));
        let mut seconds = [0.0; DEVICES];
        for (seconds, device) in seconds.iter_mut().zip(&machine.devices) {
            *seconds = kernel_seconds(device, spec, region).0;
        }
        Self { left, needs, seconds }
    }
}

/// The parts of a tiling, each at its device.
fn placed<'a>(
    parts: &'a [Part],
    tiling: &'a Tiling,
    devices: [u8; DEVICES],
) -> impl Iterator<Item = (&'a Part, usize)> {
    tiling.iter().zip(devices).map(|(&number, d)| (&parts[usize::from(number)], usize::from(d)))
}

/// What parts at devices leave, and what they need of each source; nothing if those are too many boxes.
fn sides<'a, I: Iterator<Item = (&'a Part, usize)>>(
    sources: &[TensorId],
    tensors: &Sources,
    placed: impl Fn() -> I,
) -> Option<(Side, Vec<Side>)> {
    let left = Side::of(placed().map(|(part, d)| (part.left, d)));
    let mut lists = Vec::with_capacity(sources.len());
    for (n, source) in sources.iter().enumerate() {
        let all = placed().flat_map(|(part, d)| part.needs[n].iter().map(move |&number| (number, d)));
        lists.push(needed(&tensors[source].boxes, all)?);
    }
    Some((left, lists))
}

/// The devices of the boxes, as digits of a number.
fn assignment(mut code: usize, boxes: usize, devices: usize) -> [u8; DEVICES] {
    let mut at = [0; DEVICES];
    for device in &mut at[..boxes] {
        *device = (code % devices) as u8;
        code /= devices;
    }
    at
}

/// Whether an assignment is the first of those that it is under other names.
fn is_first(devices: &[u8], names: &[Names]) -> bool {
    names.iter().all(|to| devices.iter().copied().le(devices.iter().map(|d| to[usize::from(*d)])))
}

/// Boxes that devices need, each once and none inside another of the same device; nothing if they are too many.
fn needed(boxes: &Boxes, all: impl Iterator<Item = (u16, usize)>) -> Option<Side> {
    let mut list = [(0u16, 0usize); PIECES];
    let mut count = 0;
    'all: for (number, d) in all {
        let own = boxes.elements(number);
        let mut n = 0;
        while n < count {
            let other = boxes.elements(list[n].0);
            if list[n].1 == d && own & !other == 0 {
                continue 'all;
            }
            if list[n].1 == d && other & !own == 0 {
                count -= 1;
                list[n] = list[count];
            } else {
                n += 1;
            }
        }
        *list.get_mut(count)? = (number, d);
        count += 1;
    }
    Some(Side::of(list[..count].iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::Cuts;
    use ein_ir::text::parse;

    /// A row of 20000 points has two hundred million cuts into three boxes: none of them is made to see that.
    #[test]
    fn cuts_end_where_they_are_too_many() {
        let text = "x: param f32[2]\ny = einsum f32 (i: 2 | j: 20000) sum x[i] * cast<f32>(index(j))\nreturn y\n";
        let graph = parse(text).unwrap();
        let spec = graph.spec(graph.ids().last().unwrap()).unwrap();
        assert!(Cuts::of(&spec, 4, 400_000).is_none());
        // Twice that cut in two is more regions than there are numbers.
        assert_eq!(Cuts::of(&spec, 2, usize::MAX).map(|cuts| cuts.tilings.len()), Some(20_001));
        let twice = parse(&text.replace("20000", "40000")).unwrap();
        assert!(Cuts::of(&twice.spec(twice.ids().last().unwrap()).unwrap(), 2, usize::MAX).is_none());
        // Exactly as many as there are, and one fewer.
        let small = parse("x: param f32[3]\ny = einsum f32 (i: 3) sum x[i]\nreturn y\n").unwrap();
        let spec = small.spec(small.ids().last().unwrap()).unwrap();
        // One box, two at two positions, three: 3 + 2 * 9 + 27 assignments.
        assert!(Cuts::of(&spec, 3, 48).is_some_and(|cuts| cuts.tilings.len() == 4));
        assert!(Cuts::of(&spec, 3, 47).is_none());
    }
}
