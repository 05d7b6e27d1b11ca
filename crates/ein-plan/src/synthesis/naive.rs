//! What is done without thinking, to compare with: every reader fetches each piece from its first holder and
//! folds for itself.

use super::SynthesisError;
use ein_task::exchange::{Exchange, PieceId, Program, Step};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use std::collections::BTreeMap;

/// The naive program. Each piece comes from its first holder in the order of devices (from the reader itself if
/// that is one), directly or, where there is no link, over the host, or else the way of fewest links. Nothing is
/// shared, and needs are served one after the other.
pub fn naive(exchange: &Exchange, machine: &Machine) -> Result<Program, SynthesisError> {
    super::admit(exchange, machine)?;
    let mut program = Program::default();
    let mut loads: BTreeMap<(usize, DeviceId), PieceId> = BTreeMap::new();
    for need in &exchange.needs {
        let mut parts = Vec::new();
        for atom in exchange.atoms_of(&need.region, &[(&need.region, need.device)]) {
            let mut pieces = Vec::new();
            for &block in &atom.blocks {
                let held = &exchange.have.blocks[block];
                let own = held.devices.contains(need.device).then_some(need.device);
                let device = own.or(held.devices.lowest()).expect("a block has a holder");
                let mut piece =
                    *loads.entry((block, device)).or_insert_with(|| push(&mut program, Step::Load { block, device }));
                if held.region != atom.region {
                    piece = push(&mut program, Step::Cut { piece, region: atom.region.clone() });
                }
                for to in way(machine, device, need.device)? {
                    piece = push(&mut program, Step::Move { piece, to });
                }
                pieces.push(piece);
            }
            match atom.blocks.as_slice() {
                [] => {
                    let readers = DeviceSet::one(need.device);
                    return Err(SynthesisError::Missing { region: atom.region, readers });
                }
                &[only] if exchange.have.is_finished(only) => parts.push(pieces[0]),
                _ => parts.push(push(&mut program, Step::Fold { pieces })),
            }
        }
        let whole = match parts.as_slice() {
            &[only] => only,
            _ => push(&mut program, Step::Paste { pieces: parts, region: need.region.clone() }),
        };
        program.yields.push(whole);
    }
    Ok(program)
}

fn push(program: &mut Program, step: Step) -> PieceId {
    program.steps.push(step);
    program.steps.len() - 1
}

/// The devices that a piece comes to, one after the other.
fn way(machine: &Machine, from: DeviceId, to: DeviceId) -> Result<Vec<DeviceId>, SynthesisError> {
    if from == to {
        return Ok(Vec::new());
    }
    if machine.link(from, to).is_some() {
        return Ok(vec![to]);
    }
    let workers = machine.workers();
    let relays = |&host: &DeviceId| {
        !workers.contains(host) && machine.link(from, host).is_some() && machine.link(host, to).is_some()
    };
    match machine.ids().find(relays) {
        Some(host) => Ok(vec![host, to]),
        None => match machine.path(from, to) {
            Some(path) => Ok(path[1..].to_vec()),
            None => Err(SynthesisError::Unreachable { from: DeviceSet::one(from), to }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_ir::monoid::{Form, Monoid};
    use ein_ir::region::Region;
    use ein_task::check::check;
    use ein_task::exchange::Need;
    use ein_task::relation::{Held, Relation};
    use ein_task::traffic::count;

    fn question(held: &[&[u16]], readers: &[u16]) -> Exchange {
        let whole = Region::whole(&[8]);
        let set = |devices: &[u16]| devices.iter().map(|&d| DeviceId(d)).collect();
        let blocks = held.iter().map(|d| Held { region: whole.clone(), devices: set(d) }).collect();
        let needs = readers.iter().map(|&d| Need { device: DeviceId(d), region: whole.clone() }).collect();
        let form = Form::finished(DType::F32, 1);
        let have =
            Relation { whole, monoid: Monoid::Sum, pending: form.clone(), finished: form, blocks, places: Vec::new() };
        Exchange { have, needs }
    }

    /// Moves and the depth of the naive program on the cube mesh of eight GPUs, whose device 8 is the host.
    fn check_moves(held: &[&[u16]], readers: &[u16], expected: (usize, usize)) {
        let machine = Machine::by_name("dgx-1v").unwrap();
        let question = question(held, readers);
        let program = naive(&question, &machine).unwrap();
        check(&question, &program, &machine).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let counted = count(&question, &program, &machine);
        assert_eq!((counted.moves, counted.depth), expected, "{program}");
    }

    #[test]
    fn pieces_come_from_their_first_holder_and_nothing_is_shared() {
        check_moves(&[&[0]], &[0], (0, 0));
        check_moves(&[&[0]], &[1], (1, 1));
        // Device 5 is linked with 1, but 0 is the first holder, and from there it goes over the host.
        check_moves(&[&[0, 1]], &[5], (2, 2));
        check_moves(&[&[0]], &[1, 5, 5], (5, 2));
        // Both readers fetch the partial of the other and fold for themselves; device 7 fetches both.
        check_moves(&[&[0], &[1]], &[0, 1, 7], (6, 2));
    }
}
