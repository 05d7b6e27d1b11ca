//! How long an exchange program takes on a machine's links, simulated.

use crate::exchange::{Exchange, Program, Step};
use crate::flow::{self, Transfer};
use crate::machine::{DeviceId, Link, Machine};
use crate::price;
use crate::traffic::bytes_of;
use crate::units::Seconds;
use crate::work::{Act, Work};
use ein_ir::region::Region;
use std::rc::Rc;

/// The moves of a program that the checker accepts, in row order: row order is the program's schedule. Each waits
/// for the moves that what it carries came by, through cuts, folds and pastes.
pub fn transfers(exchange: &Exchange, program: &Program, machine: &Machine) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    walk(exchange, program, |_, step, piece, _| {
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

/// When a program is through if devices also pay for their own part, by the price list and one step at a time in row
/// order: folds, the boxes that they alone need cut out, and of pastes what is not received in its place. On a machine
/// whose devices are threads that share processors, moves are copies by them (see [`Machine::processors`]).
pub fn program_seconds_with_local_work(exchange: &Exchange, program: &Program, machine: &Machine) -> Seconds {
    let (alone, placed) = (needed_alone(program), received_in_place(exchange, program));
    let mut work = Work::default();
    walk(exchange, program, |row, step, piece, result| {
        let device = piece.device.index();
        let part = bytes_of(exchange, piece.region, piece.finished) as f64;
        let bytes = bytes_of(exchange, result.region, result.finished);
        let copied = || price::local_seconds(&machine.devices[device], bytes as f64).0;
        let seconds = match step {
            Step::Load { .. } => 0.0,
            Step::Cut { .. } if !alone[row] => 0.0,
            Step::Cut { .. } => copied(),
            Step::Paste { .. } => {
                let bytes = bytes.saturating_sub(placed[row]);
                price::local_seconds(&machine.devices[device], bytes as f64).0
            }
            Step::Fold { pieces } if pieces.len() == 1 && exchange.have.pending == exchange.have.finished => 0.0,
            Step::Fold { pieces } => {
                price::touch_seconds(&machine.devices[device], pieces.len() as f64 * part + bytes as f64).0
            }
            Step::Move { to, .. } => {
                let link = link(machine, piece.device, *to);
                return [carry(&mut work, machine, link, bytes, row as u64, &piece.after)].into();
            }
        };
        if seconds == 0.0 {
            return piece.after.clone();
        }
        let own = work.push(Act::Local { device, seconds, latency: 0.0 }, row as u64);
        for &earlier in piece.after.iter() {
            work.after(own, earlier);
        }
        [own].into()
    });
    Seconds(work.run(machine).iter().map(|t| t.arrived).fold(0.0, f64::max))
}

/// Adds a move; gives the row whose end is its arrival.
fn carry(work: &mut Work, machine: &Machine, link: usize, bytes: u64, turn: u64, after: &[u32]) -> u32 {
    let (out, back) = halves(machine, link, bytes);
    let first = work.push(out, turn);
    for &earlier in after {
        work.after(first, earlier);
    }
    let Some(back) = back else { return first };
    let second = work.push(back, turn);
    work.after(second, first);
    second
}

/// A move as work: a link's, or of two threads of one host, each of which copies.
pub(crate) fn halves(machine: &Machine, link: usize, bytes: u64) -> (Act, Option<Act>) {
    let Link { from, to, latency, .. } = machine.links[link];
    if !machine.copies_by_thread(from, to) {
        return (Act::Transfer { link, bytes }, None);
    }
    let seconds = 0.5 * bytes as f64 / machine.bandwidth(&machine.links[link]);
    let out = Act::Local { device: from.index(), seconds: machine.issue.0 + seconds, latency: latency.0 };
    (out, Some(Act::Local { device: to.index(), seconds, latency: 0.0 }))
}

/// Which steps a fold reads.
fn needed_alone(program: &Program) -> Vec<bool> {
    let mut alone = vec![false; program.steps.len()];
    for step in &program.steps {
        if let Step::Fold { pieces } = step {
            for &p in pieces {
                alone[p] = true;
            }
        }
    }
    alone
}

/// For every paste, the bytes that are received for it alone, and so where it wants them.
fn received_in_place(exchange: &Exchange, program: &Program) -> Vec<u64> {
    let mut uses = vec![0u32; program.steps.len()];
    program.yields.iter().for_each(|&p| uses[p] += 1);
    for step in &program.steps {
        match step {
            Step::Load { .. } => {}
            Step::Cut { piece, .. } | Step::Move { piece, .. } => uses[*piece] += 1,
            Step::Fold { pieces } | Step::Paste { pieces, .. } => pieces.iter().for_each(|&p| uses[p] += 1),
        }
    }
    let mut placed = vec![0; program.steps.len()];
    let mut moved = vec![0; program.steps.len()];
    walk(exchange, program, |row, step, piece, result| {
        match step {
            Step::Move { .. } => moved[row] = bytes_of(exchange, result.region, result.finished),
            Step::Paste { pieces, .. } => {
                placed[row] = pieces.iter().filter(|&&p| uses[p] == 1).map(|&p| moved[p]).sum();
            }
            Step::Load { .. } | Step::Cut { .. } | Step::Fold { .. } => {}
        }
        piece.after.clone()
    });
    placed
}

/// The position of the direct link between two devices.
fn link(machine: &Machine, from: DeviceId, to: DeviceId) -> usize {
    // Links of parsed machines are sorted; a machine built by hand may list them in any order.
    let sorted = machine.links.binary_search_by_key(&(from, to), |l| (l.from, l.to)).ok();
    let found = sorted.or_else(|| machine.links.iter().position(|l| (l.from, l.to) == (from, to)));
    found.expect("a program moves along links only: the checker refuses others")
}

/// What a step works on: the first piece it reads (for a load, the block), and what all that it reads waits for. And
/// what it leaves.
#[derive(Clone)]
struct Source<'a> {
    region: &'a Region,
    device: DeviceId,
    partials: usize,
    finished: bool,
    /// Numbers that `visit` gave, ascending.
    after: Rc<[u32]>,
}

/// Goes through the steps in order. `visit` gets each with its row, what it reads and what it leaves, and says what
/// its readers wait for.
fn walk<'a>(
    exchange: &'a Exchange,
    program: &'a Program,
    mut visit: impl FnMut(usize, &'a Step, &Source<'a>, &Source<'a>) -> Rc<[u32]>,
) {
    let mut pieces: Vec<Source<'a>> = Vec::with_capacity(program.steps.len());
    for (row, step) in program.steps.iter().enumerate() {
        let read = match step {
            Step::Load { block, device } => {
                let region = &exchange.have.blocks[*block].region;
                let finished = exchange.have.is_finished(*block);
                Source { region, device: *device, partials: 1, finished, after: Rc::new([]) }
            }
            Step::Cut { piece, .. } | Step::Move { piece, .. } => pieces[*piece].clone(),
            Step::Fold { pieces: read } | Step::Paste { pieces: read, .. } => {
                Source { after: union(read.iter().map(|&p| &*pieces[p].after)), ..pieces[read[0]].clone() }
            }
        };
        let mut piece = read.clone();
        match step {
            Step::Load { .. } => {}
            Step::Cut { region, .. } | Step::Paste { region, .. } => piece.region = region,
            Step::Move { to, .. } => piece.device = *to,
            Step::Fold { pieces: read } => {
                piece.partials = read.iter().map(|&p| pieces[p].partials).sum();
                piece.finished = piece.partials == exchange.have.partials(piece.region).len();
            }
        }
        piece.after = visit(row, step, &read, &piece);
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
        Exchange { have: Relation { whole, monoid: Monoid::Sum, pending, finished, blocks, places: Vec::new() }, needs }
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

    #[test]
    fn local_work_is_priced() {
        let check = |machine: &Machine, exchange: &Exchange, text: &str, expected: f64| {
            let program = Program::parse(text).unwrap();
            crate::check::check(exchange, &program, machine).unwrap();
            let found = program_seconds_with_local_work(exchange, &program, machine).0;
            assert!((found - expected).abs() <= 1e-9 * expected, "{found} is not {expected}: {text}");
        };
        let real = Machine::by_name("8xa100").unwrap();
        let device = &real.devices[0];
        let carried = |bytes: f64| real.transfer_seconds(&real.links[0], bytes).0;
        // A partial crosses, is folded (reads 8000, writes 2000), the result crosses back.
        let fold = "%0 = load b0 at d0\n%1 = load b1 at d1\n%2 = move %1 -> d0\n%3 = fold %0 %2\n%4 = move %3 -> d1\n\
                    yield %4";
        let seconds = carried(4000.0) + price::touch_seconds(device, 10_000.0).0 + carried(2000.0);
        check(&real, &question(true, &[1]), fold, seconds);
        // Halves are cut out as they leave and received where the paste wants them.
        let halves = "%0 = load b0 at d0\n%1 = cut %0 [0:500]\n%2 = cut %0 [500:1000]\n%3 = move %1 -> d1\n\
                      %4 = move %2 -> d1\n%5 = paste %3 %4 [0:1000]\nyield %5";
        let (bytes, issue) = (1000.0, real.issue.0);
        check(&real, &question(false, &[1]), halves, carried(bytes) + issue + bytes / 300e9);
        // What is at hand is copied.
        let at_hand = "%0 = load b0 at d0\n%1 = cut %0 [0:500]\n%2 = cut %0 [500:1000]\n%3 = paste %1 %2 [0:1000]\n\
                       %4 = move %3 -> d1\nyield %4";
        let seconds = price::local_seconds(device, 2000.0).0 + carried(2000.0);
        check(&real, &question(false, &[1]), at_hand, seconds);
        // Threads copy out, one after the other, and in: the first half is in before the second is out.
        let mut cpus = Machine::by_name("2xcpu").unwrap();
        cpus.processors = Some(2);
        let link = &cpus.links[0];
        let copy = bytes / cpus.bandwidth(link) / 2.0;
        let seconds = 2.0 * (cpus.issue.0 + copy) + link.latency.0 + copy;
        check(&cpus, &question(false, &[1]), halves, seconds);
        // By the counting page a port is busy for the bytes; a processor of both for what both copy.
        let counted = |cpus: &Machine| {
            crate::traffic::count(&question(false, &[1]), &Program::parse(halves).unwrap(), cpus).busiest.0
        };
        let near =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
        near(counted(&cpus), 2.0 * copy * 2.0);
        cpus.processors = Some(1);
        cpus.turns.crowded = 0.5;
        near(counted(&cpus), 2.0 * 2.0 * copy / 0.5);
    }
}
