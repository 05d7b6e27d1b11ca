//! How long an exchange program takes on a machine's links, simulated.

use crate::exchange::{Exchange, Program, Step};
use crate::flow::{self, Transfer};
use crate::machine::{DeviceId, Machine};
use crate::traffic::bytes_of;
use crate::units::Seconds;
use ein_ir::region::Region;
use std::rc::Rc;

/// The moves of a program that the checker accepts, in row order: row order is the program's schedule. Each waits
/// for the moves that what it carries came by, through cuts, folds and pastes.
pub fn transfers(exchange: &Exchange, program: &Program, machine: &Machine) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    walk(exchange, program, |_, piece, step| {
        let Step::Move { to, .. } = step else { return piece.after.clone() };
        let after = piece.after.to_vec();
        let bytes = bytes_of(exchange, piece.region, piece.finished);
        transfers.push(Transfer { link: link(machine, piece.device, *to), bytes, after });
        [transfers.len() as u32 - 1].into()
    });
    transfers
}

/// When the last move of a program arrives, local work being free.
pub fn program_seconds(exchange: &Exchange, program: &Program, machine: &Machine) -> Seconds {
    flow::makespan(machine, &transfers(exchange, program, machine))
}

/// The position of the direct link between two devices.
fn link(machine: &Machine, from: DeviceId, to: DeviceId) -> usize {
    // Links of parsed machines are sorted; a machine built by hand may list them in any order.
    let sorted = machine.links.binary_search_by_key(&(from, to), |l| (l.from, l.to)).ok();
    let found = sorted.or_else(|| machine.links.iter().position(|l| (l.from, l.to) == (from, to)));
    found.expect("a program moves along links only: the checker refuses others")
}

/// What a step works on: the first piece it reads (for a load, the block), and what all that it reads waits for.
struct Source<'a> {
    region: &'a Region,
    device: DeviceId,
    partials: usize,
    finished: bool,
    /// Numbers that `visit` gave, ascending.
    after: Rc<[u32]>,
}

/// Goes through the steps in order. `visit` gets each with its row and what it reads, and says what its readers
/// wait for.
fn walk<'a>(
    exchange: &'a Exchange,
    program: &'a Program,
    mut visit: impl FnMut(usize, &Source<'a>, &'a Step) -> Rc<[u32]>,
) {
    let mut pieces: Vec<Source<'a>> = Vec::with_capacity(program.steps.len());
    for (row, step) in program.steps.iter().enumerate() {
        let of = |p: usize| {
            let Source { region, device, partials, finished, .. } = pieces[p];
            Source { region, device, partials, finished, after: pieces[p].after.clone() }
        };
        let mut piece = match step {
            Step::Load { block, device } => {
                let region = &exchange.have.blocks[*block].region;
                let finished = exchange.have.is_finished(*block);
                Source { region, device: *device, partials: 1, finished, after: Rc::new([]) }
            }
            Step::Cut { piece, .. } | Step::Move { piece, .. } => of(*piece),
            Step::Fold { pieces: read } | Step::Paste { pieces: read, .. } => {
                Source { after: union(read.iter().map(|&p| &*pieces[p].after)), ..of(read[0]) }
            }
        };
        piece.after = visit(row, &piece, step);
        match step {
            Step::Load { .. } => {}
            Step::Cut { region, .. } | Step::Paste { region, .. } => piece.region = region,
            Step::Move { to, .. } => piece.device = *to,
            Step::Fold { pieces: read } => {
                piece.partials = read.iter().map(|&p| pieces[p].partials).sum();
                piece.finished = piece.partials == exchange.have.partials(piece.region).len();
            }
        }
        pieces.push(piece);
    }
}

fn union<'a>(lists: impl Iterator<Item = &'a [u32]>) -> Rc<[u32]> {
    let mut all: Vec<u32> = lists.flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::{Held, Relation};
    use crate::{exchange::Need, machine::DeviceSet};
    use ein_ir::dtype::DType;
    use ein_ir::monoid::{Form, Monoid};

    /// Partials of 1000 bf16 on devices 0 and 1, or a finished vector on 0; needed whole on the given devices.
    fn question(partials: bool, needs: &[u16]) -> Exchange {
        let whole = Region::whole(&[1000]);
        let held = |d: u16| Held { region: whole.clone(), devices: DeviceSet::one(DeviceId(d)) };
        let blocks = if partials { vec![held(0), held(1)] } else { vec![held(0)] };
        let form = |dtype| Form::finished(dtype, 1);
        let (pending, finished) = (form(DType::F32), form(DType::BF16));
        let needs = needs.iter().map(|&d| Need { device: DeviceId(d), region: whole.clone() }).collect();
        Exchange { have: Relation { whole, monoid: Monoid::Sum, pending, finished, blocks }, needs }
    }

    fn check(exchange: &Exchange, text: &str, expected: &[(u16, u16, u64, &[u32])]) {
        let machine = Machine::by_name("8xa100").unwrap();
        let program = Program::parse(text).unwrap();
        crate::check::check(exchange, &program, &machine).unwrap();
        let found = transfers(exchange, &program, &machine);
        let expected: Vec<Transfer> = expected
            .iter()
            .map(|&(from, to, bytes, after)| {
                let link = link(&machine, DeviceId(from), DeviceId(to));
                Transfer { link, bytes, after: after.to_vec() }
            })
            .collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(program_seconds(exchange, &program, &machine), flow::makespan(&machine, &expected));
    }

    #[test]
    fn moves_wait_for_the_moves_behind_what_they_carry() {
        check(&question(false, &[0]), "%0 = load b0 at d0\nyield %0", &[]);
        // A relay of two halves, pasted and passed on.
        let relay = "%0 = load b0 at d0\n%1 = cut %0 [0:500]\n%2 = cut %0 [500:1000]\n%3 = move %1 -> d1\n\
                     %4 = move %2 -> d2\n%5 = move %4 -> d1\n%6 = paste %3 %5 [0:1000]\n%7 = move %6 -> d3\n\
                     yield %7";
        let moves: [(u16, u16, u64, &[u32]); 4] =
            [(0, 1, 1000, &[]), (0, 2, 1000, &[]), (2, 1, 1000, &[1]), (1, 3, 2000, &[0, 2])];
        check(&question(false, &[3]), relay, &moves);
        // Partials cross in f32, what is folded in bf16; what is cut from it waits for it.
        let fold = "%0 = load b0 at d0\n%1 = load b1 at d1\n%2 = move %1 -> d0\n%3 = fold %0 %2\n%4 = move %3 -> d2\n\
                    %5 = cut %3 [0:10]\n%6 = cut %3 [10:1000]\n%7 = move %5 -> d1\n%8 = move %6 -> d1\n\
                    %9 = paste %7 %8 [0:1000]\nyield %4 %9";
        let moves: [(u16, u16, u64, &[u32]); 4] =
            [(1, 0, 4000, &[]), (0, 2, 2000, &[0]), (0, 1, 20, &[0]), (0, 1, 1980, &[0])];
        check(&question(true, &[2, 1]), fold, &moves);
    }
}
