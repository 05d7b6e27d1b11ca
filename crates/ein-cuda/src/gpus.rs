//! This host's GPUs as a machine, with the seat of each of its devices.

use crate::devices::Seat;
use crate::driver::{Driver, DriverError};
use ein_run::detect::{self, Bus, DetectError, Facts};
use ein_task::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine, Resource};
use ein_task::machine_error::MachineError;
use ein_task::units::{Bytes, Seconds};
use std::collections::BTreeMap;

/// Bytes of a GPU that are left to its context and to kernels.
const CONTEXT: u64 = 256 << 20;
/// Seconds before a copy on one GPU begins.
const LATENCY: f64 = 2e-6;

/// Which GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection<'a> {
    /// All that this process may use.
    All,
    /// The first so many.
    First(usize),
    /// One device for each mention: devices that are on one GPU share its memory and its time.
    These(&'a [usize]),
}

/// A machine and where its devices are.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpus {
    /// The machine.
    pub machine: Machine,
    /// By device, the host's last.
    pub seats: Vec<Seat>,
}

/// Why the GPUs cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GpusError {
    /// They are not described.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// The driver fails.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The driver has none for this process.
    #[error(
        "NVIDIA's driver lets this process use no GPU: check CUDA_VISIBLE_DEVICES, or give the container access to them"
    )]
    None,
    /// One that is not there.
    #[error("cuda:{ordinal} is not there: the driver lets this process use {count} GPUs, cuda:0 being the first")]
    Unknown {
        /// The number.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// More than are there.
    #[error("{asked} GPUs are asked for, but the driver lets this process use {count}")]
    TooFew {
        /// How many are asked for.
        asked: usize,
        /// How many there are.
        count: usize,
    },
    /// One that a machine, described without asking whether it is there, does not have.
    #[error("cuda:{ordinal} is not there: machine `{machine}` has {count} GPUs, cuda:0 being the first")]
    NotOf {
        /// The machine.
        machine: String,
        /// The number.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// A list that is longer than a machine may be.
    #[error("a list of {asked} devices is too long: a machine has at most {most}, and the host may be one of them", most = DeviceSet::MAX)]
    TooMany {
        /// How many are asked for.
        asked: usize,
    },
    /// One that the driver has and its management library does not tell of.
    #[error("NVIDIA's management library does not tell of the GPU cuda:{ordinal} at {bus}, or it is in MIG mode")]
    Untold {
        /// The number.
        ordinal: usize,
        /// Where it sits.
        bus: Bus,
    },
    /// They are no machine.
    #[error("these devices are no machine: {0}")]
    Machine(#[from] MachineError),
}

impl Gpus {
    /// This host's GPUs.
    ///
    /// # Errors
    ///
    /// There is no driver, and what it or its management library refuses; GPUs that are not there, or that kernels are
    /// not generated for; more devices than a machine has.
    pub fn new(selection: Selection<'_>) -> Result<Self, GpusError> {
        // Where there is no driver at all, this is the message that says so best.
        let facts = detect::read();
        if let Err(error @ (DetectError::NoLibrary { .. } | DetectError::NoDriver { .. })) = facts {
            return Err(error.into());
        }
        let facts = facts?;
        let driver = Driver::new()?;
        let count = driver.gpus().len();
        if count == 0 {
            return Err(GpusError::None);
        }
        let list = selection.list(count)?;
        let mut order = Vec::new();
        for (ordinal, gpu) in driver.gpus().iter().enumerate() {
            let known = facts.gpus.iter().position(|g| g.bus == gpu.bus() && !g.instances);
            order.push(known.ok_or(GpusError::Untold { ordinal, bus: gpu.bus() })?);
        }
        let mut facts = picked(&facts, &order);
        for pair in &mut facts.pairs {
            let [a, b] = [pair.first, pair.second].map(|n| &driver.gpus()[n]);
            pair.peers = a.can_reach(b)? && b.can_reach(a)?;
        }
        for &n in &list {
            driver.gpus()[n].check()?;
            facts.gpus[n].memory = Bytes(driver.gpus()[n].free()?.saturating_sub(CONTEXT).max(1));
        }
        Self::of(&detect::describe(&facts)?.machine, &list)
    }

    /// The GPUs of a machine, without asking whether they are there: one device for each mention in a list.
    ///
    /// # Errors
    ///
    /// One that the machine does not have, and more devices than a machine has.
    pub fn of_machine(machine: &Machine, list: &[usize]) -> Result<Self, GpusError> {
        let count = machine.workers().len();
        match list.iter().find(|&&n| n >= count) {
            Some(&ordinal) => Err(GpusError::NotOf { machine: machine.name.clone(), ordinal, count }),
            None => Self::of(machine, list),
        }
    }

    /// The same GPUs with the figures of a machine that was measured here, of whose GPUs the list names some. What memory
    /// they have is what is free now, if that is less.
    ///
    /// # Errors
    ///
    /// As of [`Gpus::of_machine`].
    pub fn with_figures(&self, measured: &Machine, list: &[usize]) -> Result<Self, GpusError> {
        let mut gpus = Self::of_machine(measured, list)?;
        for (device, found) in gpus.machine.devices.iter_mut().zip(&self.machine.devices) {
            device.memory = device.memory.min(found.memory);
        }
        Ok(gpus)
    }

    /// Whether attention by `wgmma` was measured to be the quicker one on all GPUs that there are figures of.
    pub fn prefer_wgmma(&self) -> bool {
        let mut gpus = self.machine.devices.iter().filter(|d| d.kind == DeviceKind::Gpu).peekable();
        gpus.peek().is_some() && gpus.all(|d| d.prefers.iter().any(|way| way == crate::measure::WGMMA))
    }

    fn of(machine: &Machine, list: &[usize]) -> Result<Self, GpusError> {
        let machine = shared(machine, list)?;
        let mut seats: Vec<Seat> = list.iter().map(|&n| Seat::Gpu(n)).collect();
        seats.resize(machine.len(), Seat::Host);
        Ok(Self { machine, seats })
    }
}

impl Selection<'_> {
    /// The numbers of the GPUs, of so many.
    fn list(self, count: usize) -> Result<Vec<usize>, GpusError> {
        match self {
            Self::All => Ok((0..count).collect()),
            Self::First(asked) if asked > count => Err(GpusError::TooFew { asked, count }),
            Self::First(asked) => Ok((0..asked).collect()),
            Self::These(list) => match list.iter().find(|&&n| n >= count) {
                Some(&ordinal) => Err(GpusError::Unknown { ordinal, count }),
                None => Ok(list.to_vec()),
            },
        }
    }
}

/// What the GPUs of seats are called, in their order.
///
/// # Errors
///
/// There is no driver, or no such GPU.
pub fn names(seats: &[Seat]) -> Result<Vec<String>, GpusError> {
    let driver = Driver::new()?;
    let count = driver.gpus().len();
    let name = |seat: &Seat| match *seat {
        Seat::Gpu(ordinal) => Some(match driver.gpus().get(ordinal) {
            Some(gpu) => Ok(gpu.name().to_owned()),
            None => Err(GpusError::Unknown { ordinal, count }),
        }),
        Seat::Host => None,
    };
    seats.iter().filter_map(name).collect()
}

/// The facts of some GPUs, in this order.
fn picked(facts: &Facts, order: &[usize]) -> Facts {
    let place = |n: usize| order.iter().position(|&o| o == n);
    let pairs = facts.pairs.iter().filter_map(|pair| {
        let (a, b) = (place(pair.first)?, place(pair.second)?);
        Some(detect::Pair { first: a.min(b), second: a.max(b), ..*pair })
    });
    Facts { pairs: pairs.collect(), gpus: order.iter().map(|&n| facts.gpus[n].clone()).collect(), ..facts.clone() }
}

/// A machine of the devices of a list, each a part of the one it names where others are on it too: memory and rates are
/// shared equally, and between them go copies within the memory they share.
fn shared(machine: &Machine, list: &[usize]) -> Result<Machine, GpusError> {
    let mut used: Vec<usize> = list.to_vec();
    used.sort_unstable();
    used.dedup();
    let ids: Vec<DeviceId> = used.iter().map(|&n| DeviceId(n as u16)).collect();
    let base = machine.select(&ids)?;
    if used == list {
        return Ok(base);
    }
    let mut on: Vec<usize> = list.iter().map(|n| used.binary_search(n).expect("one of them")).collect();
    // Hosts stay as they are, behind.
    on.extend(used.len()..base.len());
    if on.len() > DeviceSet::MAX {
        return Err(GpusError::TooMany { asked: list.len() });
    }
    let count = |n: usize| on.iter().filter(|&&o| o == n).count();
    let mut resources = base.resources.clone();
    let copies: BTreeMap<usize, usize> = (0..base.len())
        .filter(|&n| count(n) > 1)
        .map(|n| {
            // What is copied is read and written.
            let name = format!("copies within {}", base.devices[n].name);
            resources.push(Resource { name, bandwidth: base.devices[n].memory_bandwidth / 2.0 });
            (n, resources.len() - 1)
        })
        .collect();
    let device = |(n, &o): (usize, &usize)| {
        let (whole, share) = (&base.devices[o], count(o) as f64);
        Device {
            name: if share > 1.0 {
                format!("{}.{}", whole.name, on[..n].iter().filter(|&&p| p == o).count())
            } else {
                whole.name.clone()
            },
            memory: Bytes(whole.memory.0 / count(o) as u64),
            flops: whole.flops.iter().map(|(dtype, rate)| (*dtype, rate / share)).collect(),
            memory_bandwidth: whole.memory_bandwidth / share,
            ..whole.clone()
        }
    };
    let mut links = Vec::new();
    for (a, &from) in on.iter().enumerate() {
        for (b, &to) in on.iter().enumerate().filter(|(b, _)| *b != a) {
            let [first, second] = [a, b].map(|n| DeviceId(n as u16));
            if from == to {
                let latency = Seconds(LATENCY);
                links.push(Link { from: first, to: second, resources: vec![copies[&from]], latency });
            } else if let Some(link) = base.link(DeviceId(from as u16), DeviceId(to as u16)) {
                links.push(Link { from: first, to: second, ..link.clone() });
            }
        }
    }
    let names: Vec<String> = list.iter().map(|n| format!("cuda:{n}")).collect();
    let devices = on.iter().enumerate().map(device).collect();
    let made = Machine { name: names.join(","), devices, resources, links, ..base };
    made.check()?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dgx() -> Machine {
        Machine::by_name("dgx-1v").expect("it ships")
    }

    #[test]
    fn devices_on_one_gpu_share_it() {
        let machine = Machine::by_name("pcie-4").expect("it ships");
        let gpus = Gpus::of_machine(&machine, &[1, 0, 1, 1]).expect("a machine");
        let Gpus { machine: made, seats } = &gpus;
        assert_eq!(seats[..4], [1, 0, 1, 1].map(Seat::Gpu));
        assert!(seats[4..].iter().all(|s| *s == Seat::Host) && seats.len() == made.len());
        let whole = &machine.devices[1];
        assert_eq!(made.devices[0].memory_bandwidth, whole.memory_bandwidth / 3.0);
        assert_eq!(made.devices[1].memory_bandwidth, machine.devices[0].memory_bandwidth);
        assert_eq!(made.devices[3].memory.0, whole.memory.0 / 3);
        let names: Vec<&str> = made.devices[..4].iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["gpu1.0", "gpu0", "gpu1.1", "gpu1.2"]);
        // All copies within a GPU share half of what its memory reads and writes.
        let within = made.link(DeviceId(0), DeviceId(2)).expect("on one GPU");
        assert_eq!(made.bandwidth(within), whole.memory_bandwidth / 2.0);
        assert_eq!(within.resources, made.link(DeviceId(3), DeviceId(2)).expect("on one GPU").resources);
        let between = machine.link(DeviceId(1), DeviceId(0)).map(|l| machine.bandwidth(l));
        assert_eq!(made.link(DeviceId(3), DeviceId(1)).map(|l| made.bandwidth(l)), between);
    }

    #[test]
    fn a_list_without_repeats_selects() {
        let gpus = Gpus::of_machine(&dgx(), &[0, 1, 2]).expect("a machine");
        assert_eq!(gpus.machine.workers().len(), 3);
        let unknown = Gpus::of_machine(&dgx(), &[0, 8]).expect_err("there are 8");
        assert_eq!(unknown, GpusError::NotOf { machine: dgx().name, ordinal: 8, count: 8 });
    }

    #[test]
    fn a_list_is_no_longer_than_a_machine() {
        // The host is one of the 128.
        assert!(Gpus::of_machine(&dgx(), &[0; 127]).is_ok());
        for asked in [128, 300, 10_000] {
            let refused = Gpus::of_machine(&dgx(), &vec![0; asked]).expect_err("too many");
            assert_eq!(refused, GpusError::TooMany { asked });
            assert!(refused.to_string().len() < 120, "{refused}");
        }
    }

    #[test]
    fn a_number_of_gpus_is_compared_before_they_are_listed() {
        assert_eq!(Selection::First(2).list(3), Ok(vec![0, 1]));
        assert_eq!(Selection::All.list(3), Ok(vec![0, 1, 2]));
        assert_eq!(Selection::These(&[2, 2]).list(3), Ok(vec![2, 2]));
        assert_eq!(Selection::These(&[3]).list(3), Err(GpusError::Unknown { ordinal: 3, count: 3 }));
        for asked in [4, usize::MAX] {
            assert_eq!(Selection::First(asked).list(3), Err(GpusError::TooFew { asked, count: 3 }));
        }
    }
}
