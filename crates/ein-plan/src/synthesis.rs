//! From an exchange question to a program.
//!
//! Three shapes are drafted and the cheapest is kept: *direct*, where every reader gets each partial and
//! folds for itself; *whole*, where one owner folds a box and hands it out; *sliced*, where the box is cut
//! over several owners, so that no port carries all of it. Each shape may go by the links between the
//! devices concerned, or by trees that relay and fold on the way. The checker has the last word.

mod draft;
mod goal;

use draft::{Draft, Shape};
use ein_ir::region::Region;
use ein_task::exchange::{Exchange, Program};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::traffic::bound;
use goal::{Goal, Net};

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SynthesisError {
    /// A need holds no point; such needs are to be left out of the question.
    #[error("need {need} at {device} is the empty box {region}")]
    EmptyNeed {
        /// Its position.
        need: usize,
        /// Its device.
        device: DeviceId,
        /// Its box.
        region: Region,
    },
    /// A need lies outside the tensor.
    #[error("need {need} at {device} is {region}, which is not inside the tensor's {whole}")]
    Outside {
        /// Its position.
        need: usize,
        /// Its device.
        device: DeviceId,
        /// Its box.
        region: Region,
        /// The tensor.
        whole: Region,
    },
    /// A device that the machine does not have.
    #[error("{device} is named, but the machine `{machine}` has {devices} devices")]
    NoDevice {
        /// The device.
        device: DeviceId,
        /// The machine's name.
        machine: String,
        /// How many it has.
        devices: usize,
    },
    /// A box that is needed and that no block contains.
    #[error("{region} is needed at {readers}, but no block contains it")]
    Missing {
        /// The box.
        region: Region,
        /// Who needs it.
        readers: DeviceSet,
    },
    /// No links lead there.
    #[error("no links lead from {from} to {to}")]
    Unreachable {
        /// Where the data is.
        from: DeviceSet,
        /// Where it is needed.
        to: DeviceId,
    },
}

/// What makes one program better than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aim {
    /// Time by the counting page; ties by bytes.
    #[default]
    Seconds,
    /// Bytes over links; ties by time.
    Bytes,
}

/// The program of least time among those drafted.
pub fn synthesize(exchange: &Exchange, machine: &Machine) -> Result<Program, SynthesisError> {
    synthesize_for(exchange, machine, Aim::Seconds)
}

/// The best program among those drafted.
pub fn synthesize_for(exchange: &Exchange, machine: &Machine, aim: Aim) -> Result<Program, SynthesisError> {
    admit(exchange, machine)?;
    let net = Net::new(exchange, machine);
    let direct = net.direct_goals()?;
    let first = Draft::of(&net, &direct, Shape::Direct, false, aim)?;
    if first.ledger.depth <= 1 {
        let enough = match aim {
            Aim::Seconds => first.ledger.load(machine) <= 1.01 * net.receive_bound(&direct),
            Aim::Bytes => direct.iter().all(|g| g.finished),
        };
        if enough {
            return Ok(first.program(&net));
        }
    }
    let atoms = exchange.atoms();
    let least = bound(exchange, &atoms, machine).0;
    let bundles = net.bundles(atoms);
    let several = bundles.iter().any(|g| g.readers.len() > 1);
    let partial = bundles.iter().any(|g| !g.finished);
    let seconds = first.ledger.load(machine) + first.ledger.latency;
    let enough = match aim {
        Aim::Seconds => seconds <= 1.01 * least || seconds <= least + net.least_latency,
        Aim::Bytes => !(partial && several),
    };
    let plain = !several && !partial && net.uniform;
    if first.ledger.depth <= 1 && (enough || plain) {
        return Ok(first.program(&net));
    }
    let mut best = first;
    let mut consider = |goals: &[Goal], shape, trees| -> Result<(), SynthesisError> {
        let draft = Draft::of(&net, goals, shape, trees, aim)?;
        if draft.beats(&best, &net) {
            best = draft;
        }
        Ok(())
    };
    for trees in [false, true] {
        if trees && net.uniform {
            break;
        }
        if trees {
            consider(&direct, Shape::Direct, trees)?;
        }
        consider(&bundles, Shape::Whole, trees)?;
        consider(&bundles, Shape::Sliced, trees)?;
    }
    Ok(best.program(&net))
}

/// Refuses questions that have no answer on any links.
fn admit(exchange: &Exchange, machine: &Machine) -> Result<(), SynthesisError> {
    let known = |device: DeviceId| {
        let fault = || SynthesisError::NoDevice { device, machine: machine.name.clone(), devices: machine.len() };
        if device.index() < machine.len() { Ok(()) } else { Err(fault()) }
    };
    for (need, n) in exchange.needs.iter().enumerate() {
        let (device, region) = (n.device, n.region.clone());
        known(device)?;
        if region.rank() != exchange.have.whole.rank() || !exchange.have.whole.contains(&region) {
            return Err(SynthesisError::Outside { need, device, region, whole: exchange.have.whole.clone() });
        }
        if region.is_empty() {
            return Err(SynthesisError::EmptyNeed { need, device, region });
        }
    }
    exchange.have.blocks.iter().flat_map(|b| b.devices.iter()).try_for_each(known)
}
