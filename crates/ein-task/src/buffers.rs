//! What a program needs to store while it runs.
//!
//! Counted as the lowering stores it. A loaded block lies where it is and costs nothing here. A move leaves its
//! piece at the other end, a fold and a paste leave theirs where they are done. A cut is read in place; only
//! where a move, a fold or a paste takes it alone is it copied out, once, from its first reader to its last. A
//! fold of one piece that changes nothing and a paste of parts of one value leave no copy. What is
//! yielded lives to the end.

use crate::check::Piece;
use crate::exchange::{Exchange, Program, Step};
use crate::machine::DeviceId;
use crate::units::Bytes;
use ein_ir::monoid::Form;
use ein_ir::region::Region;
use std::collections::BTreeMap;

/// The most bytes that a program's pieces take at once on every device, when its steps are done in row order. A
/// piece is there from the step that makes it to the last step that reads it, both included. `pieces` are those that
/// the checker returned; devices behind the last one named are left out.
pub fn peak_buffers(exchange: &Exchange, program: &Program, pieces: &[Piece]) -> Vec<Bytes> {
    let mut stored = Stored { exchange, within: Vec::new(), values: Vec::new(), cuts: BTreeMap::new() };
    for (row, (step, piece)) in program.steps.iter().zip(pieces).enumerate() {
        let value = stored.step(row, step, piece, pieces);
        stored.within.push(value);
    }
    for &id in &program.yields {
        stored.values[stored.within[id]].last = program.steps.len();
    }
    let devices = pieces.iter().map(|p| p.device.index() + 1).max().unwrap_or(0);
    let mut changes: Vec<BTreeMap<usize, (u64, u64)>> = vec![BTreeMap::new(); devices];
    for value in &stored.values {
        let of = &mut changes[value.device.index()];
        of.entry(value.from).or_default().0 += value.bytes;
        of.entry(value.last + 1).or_default().1 += value.bytes;
    }
    let peak = |changes: &BTreeMap<usize, (u64, u64)>| {
        let mut now = 0;
        let live = changes.values().map(|(more, less)| {
            now = now + more - less;
            now
        });
        Bytes(live.max().unwrap_or(0))
    };
    changes.iter().map(peak).collect()
}

/// One thing that is stored: where, how much, and from which row to which.
struct Value {
    device: DeviceId,
    region: Region,
    /// The form it is stored in; none for blocks that are there anyway.
    finished: bool,
    bytes: u64,
    from: usize,
    last: usize,
}

struct Stored<'a> {
    exchange: &'a Exchange,
    /// For every row the value that contains its piece.
    within: Vec<usize>,
    values: Vec<Value>,
    /// Boxes copied out of a value.
    cuts: BTreeMap<(usize, Region), usize>,
}

impl Stored<'_> {
    /// The value that contains the piece of a row.
    fn step(&mut self, row: usize, step: &Step, piece: &Piece, pieces: &[Piece]) -> usize {
        match step {
            Step::Load { .. } => self.add(row, piece, 0),
            Step::Cut { piece, .. } => self.within[*piece],
            Step::Move { piece: from, .. } => {
                self.take(row, *from, &piece.region);
                self.add(row, piece, self.bytes(piece.finished, &piece.region))
            }
            Step::Fold { pieces: folded } => {
                if let &[only] = &folded[..]
                    && self.exchange.have.monoid.is_plain()
                    && self.form(self.values[self.within[only]].finished) == self.form(piece.finished)
                {
                    return self.within[only];
                }
                for &p in folded {
                    self.take(row, p, &piece.region);
                }
                self.add(row, piece, self.bytes(piece.finished, &piece.region))
            }
            Step::Paste { pieces: pasted, .. } => {
                let first = self.within[pasted[0]];
                if pasted.iter().all(|&p| self.within[p] == first) {
                    return first;
                }
                for &p in pasted {
                    self.take(row, p, &pieces[p].region);
                }
                self.add(row, piece, self.bytes(piece.finished, &piece.region))
            }
        }
    }

    fn form(&self, finished: bool) -> &Form {
        if finished { &self.exchange.have.finished } else { &self.exchange.have.pending }
    }

    fn bytes(&self, finished: bool, region: &Region) -> u64 {
        self.form(finished).bytes(region) as u64
    }

    fn add(&mut self, row: usize, piece: &Piece, bytes: u64) -> usize {
        let (region, finished, device) = (piece.region.clone(), piece.finished, piece.device);
        self.values.push(Value { device, region, finished, bytes, from: row, last: row });
        self.values.len() - 1
    }

    /// A row reads a box of the value that contains the piece of row `of`.
    fn take(&mut self, row: usize, of: usize, region: &Region) {
        let whole = self.within[of];
        self.values[whole].last = self.values[whole].last.max(row);
        if self.values[whole].region == *region {
            return;
        }
        let known = self.cuts.get(&(whole, region.clone())).copied();
        let cut = known.unwrap_or_else(|| {
            let Value { device, finished, .. } = self.values[whole];
            let bytes = self.bytes(finished, region);
            self.values.push(Value { device, region: region.clone(), finished, bytes, from: row, last: row });
            let cut = self.values.len() - 1;
            self.cuts.insert((whole, region.clone()), cut);
            cut
        });
        // The whole is read by the row that cuts, the copy by this one.
        self.values[cut].last = self.values[cut].last.max(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::exchange::Need;
    use crate::machine::Machine;
    use crate::relation::{Held, Relation};
    use ein_ir::dtype::DType;
    use ein_ir::monoid::Monoid;

    fn region(lo: usize, hi: usize) -> Region {
        Region::of(&[(lo, hi)])
    }

    /// Two partials of `[0:100]` in f64, at 0 and 1, and `[100:120]` at 2.
    fn peaks(needs: &[(u16, usize, usize)], monoid: Monoid, program: &str) -> Vec<u64> {
        let held = |lo, hi, d| Held { region: region(lo, hi), devices: [DeviceId(d)].into_iter().collect() };
        let exchange = Exchange {
            have: Relation {
                whole: region(0, 120),
                monoid,
                pending: Form::finished(DType::F64, 1),
                finished: Form::finished(if monoid.is_plain() { DType::F64 } else { DType::F32 }, 1),
                blocks: vec![held(0, 100, 0), held(0, 100, 1), held(100, 120, 2)],
                places: Vec::new(),
            },
            needs: needs.iter().map(|&(d, lo, hi)| Need { device: DeviceId(d), region: region(lo, hi) }).collect(),
        };
        let program = Program::parse(&program.replace("; ", "\n")).expect("it is a program");
        let machine = Machine::by_name("3xcpu").expect("it ships");
        let pieces = check(&exchange, &program, &machine).unwrap_or_else(|e| panic!("{e}"));
        peak_buffers(&exchange, &program, &pieces).into_iter().map(|b| b.0).collect()
    }

    #[test]
    fn peaks_of_programs() {
        let sum = Monoid::Sum;
        // A whole block moves from where it lies.
        let program = "%0 = load b2 at d2; %1 = move %0 -> d0; yield %1";
        assert_eq!(peaks(&[(0, 100, 120)], sum, program), [160, 0, 0]);
        // A box of it is copied out once, though it is read twice; the relay's copy ends when it is passed on.
        let twice = "%0 = load b2 at d2; %1 = cut %0 [100:110]; %2 = move %1 -> d0; %3 = cut %0 [100:110]; \
                     %4 = move %3 -> d1; %5 = move %2 -> d1; yield %4";
        assert_eq!(peaks(&[(1, 100, 110)], sum, twice), [80, 160, 80]);
        // What came and the sum of it and the own partial; the own partial lies there anyway.
        let folded = "%0 = load b0 at d0; %1 = move %0 -> d1; %2 = load b1 at d1; %3 = fold %1 %2; yield %3";
        assert_eq!(peaks(&[(1, 0, 100)], sum, folded), [0, 1600]);
        // In two halves: the first sum, and what the second is folded from: the part of the own, and what came.
        let halves = "%0 = load b0 at d0; %1 = cut %0 [0:50]; %2 = move %1 -> d1; %3 = load b1 at d1; %4 = cut %3 [0:50]; \
                      %5 = fold %2 %4; %6 = cut %0 [50:100]; %7 = move %6 -> d1; %8 = cut %3 [50:100]; %9 = fold %7 %8; \
                      yield %5 %9";
        assert_eq!(peaks(&[(1, 0, 50), (1, 50, 100)], sum, halves), [400, 1600]);
        // Parts of one value side by side are it; parts of two are copied.
        let pasted = "%0 = load b2 at d2; %1 = move %0 -> d0; %2 = cut %1 [100:104]; %3 = cut %1 [104:120]; \
                      %4 = paste %2 %3 [100:120]; yield %4";
        assert_eq!(peaks(&[(0, 100, 120)], sum, pasted), [160, 0, 0]);
        let copied = "%0 = load b2 at d2; %1 = cut %0 [100:104]; %2 = cut %0 [104:120]; %3 = move %1 -> d0; \
                      %4 = move %2 -> d0; %5 = paste %3 %4 [100:120]; yield %5";
        assert_eq!(peaks(&[(0, 100, 120)], sum, copied), [320, 0, 128]);
        assert_eq!(peaks(&[], sum, "yield"), [0u64; 0]);
    }

    /// Boxes of more than 2^32 elements and bytes.
    #[test]
    fn large_boxes() {
        let side = 1usize << 20;
        let whole = Region::of(&[(0, side), (0, 3 * side)]);
        let held = |lo, hi, d| Held {
            region: Region::of(&[(lo, hi), (0, 3 * side)]),
            devices: [DeviceId(d)].into_iter().collect(),
        };
        let exchange = Exchange {
            have: Relation {
                whole: whole.clone(),
                monoid: Monoid::Sum,
                pending: Form::finished(DType::F64, 2),
                finished: Form::finished(DType::F64, 2),
                blocks: vec![held(0, side / 2, 0), held(side / 2, side, 1)],
                places: Vec::new(),
            },
            needs: vec![Need { device: DeviceId(1), region: whole }],
        };
        let text = format!(
            "%0 = load b0 at d0\n%1 = move %0 -> d1\n%2 = load b1 at d1\n%3 = paste %1 %2 [0:{side},0:{}]\nyield %3",
            3 * side
        );
        let machine = Machine::by_name("2xcpu").expect("it ships");
        let check_text = |text: &str| {
            let program = Program::parse(text).expect("it is a program");
            check(&exchange, &program, &machine).map(|pieces| (peak_buffers(&exchange, &program, &pieces), program))
        };
        let (peaks, program) = check_text(&text).unwrap_or_else(|e| panic!("{e}"));
        let half = 8 * 3 * (side as u64) * (side as u64) / 2;
        assert_eq!(half, 3 << 42);
        assert_eq!(peaks, [Bytes(0), Bytes(3 * half)]);
        let counted = crate::traffic::traffic(&exchange, &program, &machine);
        assert_eq!((counted.bytes_total, counted.received[1]), (Bytes(half), Bytes(half)));
        assert!((counted.bound.bandwidth().0 - half as f64 / 5e9).abs() < 1e-6);
        // One row of 2^20 off, of 2^41 elements, is seen; so is a gap of one element of 2^40.
        assert!(check_text(&text.replace("[0:1048576,", "[0:1048575,")).is_err());
        assert!(check_text(&text.replace("0:3145728]", "0:3145727]")).is_err());
    }
}
