//! From words on the command line to a machine and options.

use crate::args::{Asked, Balance, Objective, Partials};
use crate::failure::Failure;
use crate::gpus;
use crate::source;
use ein_plan::cache::Cache;
use ein_plan::options::{self, Options, Placement, Strategy};
use ein_run::detect::{self, Detected};
use ein_task::machine::{DeviceId, Machine};
use ein_task::units::Bytes;
use einsummable::plan_store::PlanStore;
use einsummable::session::Runner;
use std::path::Path;
use std::time::Duration;

/// Plans that were made before, unless the caller wants none.
pub fn cache(asked: &Asked) -> Cache {
    let store = if asked.no_cache { None } else { PlanStore::of_user() };
    store.map_or_else(Cache::default, Cache::with_store)
}

/// The machine by name or from a file, restricted to the devices asked for.
pub fn machine(asked: &Asked) -> Result<Machine, Failure> {
    if let Some(list) = gpus::listed(asked)? {
        return gpus::planned(&named(gpus::machine(asked))?, &list);
    }
    let machine = named(&asked.machine)?;
    let Some(devices) = &asked.devices else { return Ok(machine) };
    let list = numbers(devices)?;
    match list {
        Numbers::First(n) => machine.first(n).map_err(|e| bad_devices(devices, e)),
        Numbers::These(list) => {
            let device = |n: usize| {
                let device = u16::try_from(n).ok().filter(|&d| usize::from(d) < machine.len());
                let known = || {
                    let last = machine.len() - 1;
                    bad_devices(devices, format!("machine `{}` has devices 0 to {last}", machine.name))
                };
                device.map(DeviceId).ok_or_else(known)
            };
            let list = list.into_iter().map(device).collect::<Result<Vec<_>, _>>()?;
            machine.select(&list).map_err(|e| bad_devices(devices, e))
        }
    }
}

/// The machine, and who runs what is planned for it: this host's GPUs if they are what is asked for, else its
/// processors. `traced`: runs are to tell when every task was.
pub fn runner(asked: &Asked, traced: bool) -> Result<(Machine, Runner), Failure> {
    if gpus::listed(asked)?.is_some() || asked.machine == "cuda" {
        return gpus::runner(asked, traced);
    }
    Ok((machine(asked)?, Runner::Cpu))
}

/// What `--devices` says.
pub enum Numbers {
    /// The first so many.
    First(usize),
    /// A list.
    These(Vec<usize>),
}

/// The devices asked for.
pub fn numbers(devices: &str) -> Result<Numbers, Failure> {
    let number = |text: &str| {
        let number = text.trim().parse::<usize>().ok();
        number.ok_or_else(|| bad_devices(devices, "a number, or a list such as 0,2,3 or cuda:0,cuda:1, is expected"))
    };
    if devices.contains(',') {
        return devices.split(',').map(number).collect::<Result<_, _>>().map(Numbers::These);
    }
    number(devices).map(Numbers::First)
}

/// That `--devices` is wrong.
pub fn bad_devices(devices: &str, reason: impl std::fmt::Display) -> Failure {
    Failure::request(format!("--devices {devices}: {reason}"))
}

/// The GPUs of this host.
pub fn detected() -> Result<Detected, Failure> {
    detect::read().and_then(|facts| detect::describe(&facts)).map_err(Failure::request)
}

/// A machine that comes with the program, this host's GPUs, or a machine from a file.
pub fn named(name: &str) -> Result<Machine, Failure> {
    if name == "cuda" {
        return Ok(detected()?.machine);
    }
    if !is_file(name) {
        return Machine::by_name(name).map_err(Failure::request);
    }
    let text = source::read(Path::new(name)).map_err(|e| Failure::request(format!("machine file {e}")))?;
    Machine::parse(&text).map_err(|e| Failure::request(format!("machine file {name}: {e}")))
}

/// Whether a machine's name is that of a file.
pub fn is_file(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some_and(|e| e == "toml")
}

/// The options.
pub fn options(asked: &Asked, machine: &Machine) -> Result<Options, Failure> {
    let memory = match &asked.memory_per_device {
        None => None,
        Some(text) => Some(Bytes::parse(text).filter(|b| b.0 > 0).ok_or_else(|| {
            Failure::request(format!("--memory-per-device {text}: a size such as 40MiB or 20GB is expected"))
        })?),
    };
    let strategy = asked.strategy.as_deref().map(strategy).transpose()?;
    Ok(Options {
        objective: match asked.objective {
            Objective::Time => options::Objective::Time,
            Objective::Makespan => options::Objective::Makespan,
            Objective::Bytes => options::Objective::Bytes,
            Objective::Memory => options::Objective::Memory,
        },
        balance: asked.balance != Some(Balance::None),
        memory,
        wide_partials: asked.partials == Partials::F32,
        inputs: placement("--inputs", &asked.inputs, machine)?,
        outputs: placement("--outputs", &asked.outputs, machine)?,
        strategy,
        offload: asked.offload,
        time_limit: asked.time_limit.as_deref().map(seconds).transpose()?,
        overlap: !asked.no_overlap,
        ..Options::default()
    })
}

/// The strategy of a name.
pub fn strategy(name: &str) -> Result<Strategy, Failure> {
    Strategy::parse(name).ok_or_else(|| {
        let names = Strategy::names();
        Failure::request(format!("--strategy {name}: there is no such strategy; there are {names}"))
    })
}

fn seconds(text: &str) -> Result<Duration, Failure> {
    let number = text.parse::<f64>().ok();
    // What rounds to no time at all is none.
    let limit = number.and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| {
        Failure::request(format!("--time-limit {text}: a number of seconds such as 2 or 0.5 is expected"))
    })
}

fn placement(flag: &str, text: &str, machine: &Machine) -> Result<Placement, Failure> {
    match text {
        "anywhere" => Ok(Placement::Anywhere),
        "replicated" => Ok(Placement::Replicated),
        other => {
            let number = other.strip_prefix("device:").and_then(|n| n.parse::<u16>().ok());
            let number = number.ok_or_else(|| {
                Failure::request(format!("{flag} {text}: anywhere, replicated or device:N is expected"))
            })?;
            if usize::from(number) >= machine.len() {
                let devices = machine.len();
                return Err(Failure::request(format!(
                    "{flag} {text}: {} has devices 0 to {}",
                    machine.name,
                    devices - 1
                )));
            }
            Ok(Placement::Device(DeviceId(number)))
        }
    }
}
