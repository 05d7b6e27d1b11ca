//! The exchange question and the five steps of its answer.

use crate::check::Piece;
use crate::machine::{DeviceId, DeviceSet};
use crate::relation::Relation;
use ein_ir::region::{Interval, Region};
use std::fmt;

/// A box that a device must get, finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Need {
    /// Where.
    pub device: DeviceId,
    /// What, in source coordinates.
    pub region: Region,
}

/// From the relation one operation leaves to the boxes its readers need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// What there is.
    pub have: Relation,
    /// What must be there; all readers of a tensor are in one question.
    pub needs: Vec<Need>,
}

/// A piece: the result of the step of that number.
pub type PieceId = usize;

/// One step; it names earlier steps only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Block `block` of the relation, at one of its holders.
    Load {
        /// Position in [`Relation::blocks`].
        block: usize,
        /// One of its devices.
        device: DeviceId,
    },
    /// A box of a piece.
    Cut {
        /// The piece.
        piece: PieceId,
        /// The box, inside the piece's region.
        region: Region,
    },
    /// The piece on another device, over the direct link. A relay is two moves.
    Move {
        /// The piece.
        piece: PieceId,
        /// Where to.
        to: DeviceId,
    },
    /// Pieces of one region and disjoint partials, on one device, combined in this order. A fold that
    /// holds every partial of its region is finished. A fold of one piece only finishes it.
    Fold {
        /// The pieces, in folding order.
        pieces: Vec<PieceId>,
    },
    /// Pieces of disjoint regions that fill a box, on one device, all finished or all of equal partials.
    Paste {
        /// The pieces.
        pieces: Vec<PieceId>,
        /// The box they fill.
        region: Region,
    },
}

/// The answer to an exchange question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
    /// For every need, the piece that is it.
    pub yields: Vec<PieceId>,
}

/// A box of one signature: the same partials contain all of it, the same devices read all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    /// The box.
    pub region: Region,
    /// The blocks that contain it, in folding order.
    pub blocks: Vec<usize>,
    /// The devices with a need that contains it; not empty.
    pub readers: DeviceSet,
}

impl Exchange {
    /// The common refinement of what is had and what is needed: disjoint boxes of one signature each,
    /// neighbours of equal signature merged. What nobody needs is left out.
    pub fn atoms(&self) -> Vec<Atom> {
        let needs: Vec<(&Region, DeviceId)> = self.needs.iter().map(|n| (&n.region, n.device)).collect();
        self.atoms_of(&self.have.whole, &needs)
    }

    /// The refinement of `space` by the blocks and the needs given.
    pub fn atoms_of(&self, space: &Region, needs: &[(&Region, DeviceId)]) -> Vec<Atom> {
        let blocks = self.have.blocks.iter().map(|b| &b.region);
        let boxes: Vec<&Region> = blocks.chain(needs.iter().map(|n| n.0)).collect();
        let mut refiner =
            Refiner { have: &self.have, boxes: &boxes, needs, first_need: self.have.blocks.len(), atoms: Vec::new() };
        refiner.descend(space.clone(), &[], 0..boxes.len());
        let mut atoms = refiner.atoms;
        merge(&mut atoms);
        atoms
    }
}

/// Cuts a space until every box of a list contains or avoids each part.
struct Refiner<'a> {
    have: &'a Relation,
    boxes: &'a [&'a Region],
    needs: &'a [(&'a Region, DeviceId)],
    first_need: usize,
    atoms: Vec<Atom>,
}

impl Refiner<'_> {
    /// Refines `space`, which the boxes in `around` contain and the boxes in `near` may overlap.
    fn descend(&mut self, space: Region, around: &[usize], near: impl Iterator<Item = usize>) {
        let mut inside = around.to_vec();
        let mut open = Vec::new();
        for b in near {
            if self.boxes[b].contains(&space) {
                inside.push(b);
            } else if self.boxes[b].overlap(&space) > 0 {
                open.push(b);
            }
        }
        if !inside.iter().chain(&open).any(|&b| b >= self.first_need) {
            return;
        }
        if let Some((axis, at)) = self.best_cut(&space, &open) {
            let (low, high) = space.split(axis, at);
            self.descend(low, &inside, open.iter().copied());
            self.descend(high, &inside, open.iter().copied());
            return;
        }
        let readers = inside.iter().filter(|&&b| b >= self.first_need).map(|&b| self.needs[b - self.first_need].1);
        let readers = readers.collect();
        inside.retain(|&b| b < self.first_need);
        inside.sort_unstable_by_key(|&b| self.have.rank(b));
        self.atoms.push(Atom { region: space, blocks: inside, readers });
    }

    /// The face of an open box that cuts through the fewest others, then nearest to the middle. With
    /// many boxes only the face nearest to the middle of each axis is looked at, to stay linear.
    fn best_cut(&self, space: &Region, open: &[usize]) -> Option<(usize, usize)> {
        const FEW: usize = 24;
        let mut best: Option<(usize, usize, usize, usize)> = None;
        for (axis, whole) in space.0.iter().enumerate() {
            let off_middle = |at: usize| (2 * at).abs_diff(whole.lo + whole.hi);
            let crossed = |at: usize| open.iter().filter(|&&b| within(at, self.boxes[b], axis)).count();
            let faces = open.iter().flat_map(|&b| [self.boxes[b].0[axis].lo, self.boxes[b].0[axis].hi]);
            let faces = faces.filter(|&at| whole.lo < at && at < whole.hi);
            if open.len() <= FEW {
                let mut last = None;
                for at in faces {
                    if last.replace(at) != Some(at) {
                        let score = (crossed(at), off_middle(at), axis, at);
                        best = Some(best.map_or(score, |b| b.min(score)));
                    }
                }
            } else if let Some(at) = faces.min_by_key(|&at| (off_middle(at), at)) {
                let score = (crossed(at), off_middle(at), axis, at);
                best = Some(best.map_or(score, |b| b.min(score)));
            }
        }
        best.map(|(_, _, axis, at)| (axis, at))
    }
}

fn within(at: usize, region: &Region, axis: usize) -> bool {
    region.0[axis].lo < at && at < region.0[axis].hi
}

/// Merges atoms of equal signature that together are a box, until none are left.
fn merge(atoms: &mut Vec<Atom>) {
    let same = |a: &Atom, b: &Atom| a.readers == b.readers && a.blocks == b.blocks;
    atoms.sort_by(|a, b| (a.readers, &a.blocks, &a.region).cmp(&(b.readers, &b.blocks, &b.region)));
    let mut start = 0;
    while start < atoms.len() {
        let mut end = start + 1;
        while end < atoms.len() && same(&atoms[start], &atoms[end]) {
            end += 1;
        }
        let mut one = start;
        while one < end {
            let found = (start..end)
                .find_map(|n| (n != one).then(|| Some((n, atoms[one].region.joined(&atoms[n].region)?)))?);
            match found {
                Some((n, both)) => {
                    atoms[one.min(n)].region = both;
                    atoms.remove(one.max(n));
                    end -= 1;
                    one = start;
                }
                None => one += 1,
            }
        }
        start = end;
    }
    atoms.sort_by(|a, b| a.region.cmp(&b.region));
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, pieces: &[PieceId]| pieces.iter().try_for_each(|p| write!(f, " %{p}"));
        match self {
            Self::Load { block, device } => write!(f, "load b{block} at {device}"),
            Self::Cut { piece, region } => write!(f, "cut %{piece} {region}"),
            Self::Move { piece, to } => write!(f, "move %{piece} -> {to}"),
            Self::Fold { pieces } => {
                f.write_str("fold")?;
                list(f, pieces)
            }
            Self::Paste { pieces, region } => {
                f.write_str("paste")?;
                list(f, pieces)?;
                write!(f, " {region}")
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.steps.iter().enumerate() {
            writeln!(f, "%{n} = {step}")?;
        }
        f.write_str("yield")?;
        self.yields.iter().try_for_each(|p| write!(f, " %{p}"))?;
        f.write_str("\n")
    }
}

impl Program {
    /// The program's text with what every step leaves behind it: the region it holds, where, and the
    /// partials it is made of (`done` when finished). The pieces are those that the checker returns.
    /// [`Program::parse`] reads this too and skips what stands behind `#`.
    pub fn annotated(&self, pieces: &[Piece]) -> String {
        let mut text = String::new();
        for (n, (step, piece)) in self.steps.iter().zip(pieces).enumerate() {
            let partials: Vec<String> = piece.partials.iter().map(ToString::to_string).collect();
            let state = if piece.finished { "done".to_string() } else { format!("{{{}}}", partials.join(",")) };
            text.push_str(&format!("%{n} = {step} # {} {} {state}\n", piece.device, piece.region));
        }
        let yields: Vec<String> = self.yields.iter().map(|p| format!(" %{p}")).collect();
        text.push_str(&format!("yield{}\n", yields.concat()));
        text
    }

    /// Reads what `Display` and [`Program::annotated`] print. Empty lines are skipped.
    pub fn parse(text: &str) -> Result<Program, ParseError> {
        let mut program = Program::default();
        let mut ended = false;
        for (n, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let fault = |what| ParseError { line: n + 1, what };
            if line.is_empty() {
                continue;
            }
            if ended {
                return Err(fault("a step behind `yield`"));
            }
            if let Some(rest) = line.strip_prefix("yield") {
                program.yields = pieces(rest).ok_or(fault("`yield` takes pieces such as `%3`"))?;
                ended = true;
                continue;
            }
            let (row, step) = line.split_once('=').ok_or(fault("a step looks like `%0 = load b0 at d1`"))?;
            if number(row.trim(), "%") != Some(program.steps.len()) {
                return Err(fault("steps are numbered from %0, one after the other"));
            }
            program.steps.push(Step::parse(step.trim()).ok_or(fault("not a step"))?);
        }
        if ended { Ok(program) } else { Err(ParseError { line: text.lines().count(), what: "`yield` is missing" }) }
    }
}

/// Why a text is not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl Step {
    fn parse(text: &str) -> Option<Step> {
        let (verb, rest) = text.split_once(' ')?;
        let rest = rest.trim();
        Some(match verb {
            "load" => {
                let (block, device) = rest.split_once(" at ")?;
                Step::Load { block: number(block, "b")?, device: device_of(device)? }
            }
            "cut" => {
                let (piece, region) = rest.split_once(' ')?;
                Step::Cut { piece: number(piece, "%")?, region: region_of(region)? }
            }
            "move" => {
                let (piece, to) = rest.split_once("->")?;
                Step::Move { piece: number(piece, "%")?, to: device_of(to)? }
            }
            "fold" => Step::Fold { pieces: pieces(rest)? },
            "paste" => {
                let (list, region) = rest.split_at(rest.find('[')?);
                Step::Paste { pieces: pieces(list)?, region: region_of(region)? }
            }
            _ => return None,
        })
    }
}

fn number(text: &str, sigil: &str) -> Option<usize> {
    text.trim().strip_prefix(sigil)?.parse().ok()
}

fn device_of(text: &str) -> Option<DeviceId> {
    let n = number(text, "d")?;
    (n < DeviceSet::MAX).then_some(DeviceId(n as u16))
}

fn pieces(text: &str) -> Option<Vec<PieceId>> {
    text.split_whitespace().map(|p| number(p, "%")).collect()
}

fn region_of(text: &str) -> Option<Region> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() {
        return Some(Region(Vec::new()));
    }
    let interval = |part: &str| {
        let (lo, hi) = part.split_once(':')?;
        Some(Interval::new(lo.trim().parse().ok()?, hi.trim().parse().ok()?))
    };
    inner.split(',').map(interval).collect::<Option<Vec<_>>>().map(Region)
}
