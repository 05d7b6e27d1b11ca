//! This host's GPUs, from words on the command line.

use crate::args::Asked;
use crate::asked::bad_devices;
use crate::failure::Failure;
use ein_task::machine::Machine;
use einsummable::session::Runner;

/// The machine that nobody asked for, because it is the default.
const DEFAULT: &str = "8xcpu";

/// The GPUs of a list such as `cuda:0,cuda:0,cuda:1`, if `--devices` is one.
pub fn listed(asked: &Asked) -> Result<Option<Vec<usize>>, Failure> {
    let Some(devices) = asked.devices.as_deref().filter(|d| d.contains("cuda")) else { return Ok(None) };
    let number = |text: &str| {
        let number = text.trim().strip_prefix("cuda:").and_then(|n| n.parse().ok());
        number.ok_or_else(|| bad_devices(devices, "a list such as cuda:0,cuda:0,cuda:1 is expected"))
    };
    devices.split(',').map(number).collect::<Result<_, _>>().map(Some)
}

/// The name of the machine whose GPUs a list is of: this host's, if none is named.
pub fn machine(asked: &Asked) -> &str {
    if asked.machine == DEFAULT { "cuda" } else { &asked.machine }
}

/// The machine of the GPUs of a list.
#[cfg(feature = "cuda")]
pub fn planned(machine: &Machine, list: &[usize]) -> Result<Machine, Failure> {
    let gpus = ein_cuda::gpus::Gpus::of_machine(machine, list).map_err(Failure::request)?;
    Ok(gpus.machine)
}

/// This host's GPUs as they are asked for, which run what is planned for them.
#[cfg(feature = "cuda")]
pub fn runner(asked: &Asked, traced: bool) -> Result<(Machine, Runner), Failure> {
    use crate::asked::{Numbers, is_file, named, numbers};
    use ein_cuda::devices::Settings;
    use ein_cuda::driver::{DriverError, Products};
    use ein_cuda::gpus::{Gpus, Selection};
    let from_file = machine(asked) != "cuda";
    if from_file && !is_file(&asked.machine) {
        let reason = format!("a plan for `{}` does not run on this host's GPUs: leave out --machine", asked.machine);
        return Err(Failure::request(reason));
    }
    let numbers = match (listed(asked)?, &asked.devices) {
        (Some(list), _) => Some(Numbers::These(list)),
        (None, Some(devices)) => Some(numbers(devices)?),
        (None, None) => None,
    };
    let choice = match &numbers {
        None => Selection::All,
        Some(Numbers::First(n)) => Selection::First(*n),
        Some(Numbers::These(list)) => Selection::These(list),
    };
    let mut gpus = Gpus::new(choice).map_err(Failure::request)?;
    if let (true, Selection::These(list)) = (from_file, choice) {
        gpus = gpus.with_figures(&named(&asked.machine)?, list).map_err(Failure::request)?;
    }
    if !Products::are_there() {
        eprintln!(
            "note: {}; until then products are done by generated kernels, which are slower",
            DriverError::NoProducts
        );
    }
    let wgmma = asked.wgmma || gpus.prefer_wgmma();
    let settings = Settings { tf32: asked.tf32, wgmma, traced, ..Settings::default() };
    Ok((gpus.machine, Runner::Cuda { seats: gpus.seats, settings }))
}

/// The machine file of this host's GPUs, the first so many or all, as they were measured.
#[cfg(feature = "cuda")]
pub fn measured(devices: Option<usize>, runs: usize, tf32: bool, quick: bool) -> Result<String, Failure> {
    use crate::progress::Progress;
    use ein_cuda::gpus::Selection;
    use ein_cuda::measure::{Amount, MeasureError, measure};
    if devices == Some(0) {
        return Err(bad_devices("0", "one GPU at least is expected"));
    }
    let (selection, amount) =
        (devices.map_or(Selection::All, Selection::First), if quick { Amount::Small } else { Amount::Full });
    let _progress = Progress::start("measuring this host's GPUs");
    let text = measure(selection, runs, amount).and_then(|figures| figures.file(tf32, std::time::SystemTime::now()));
    text.map_err(|e| match e {
        MeasureError::Gpus(_) => Failure::request(e),
        MeasureError::Run(_) | MeasureError::Machine(_) => Failure::run(e),
    })
}

/// What is said where GPUs were left out.
#[cfg(not(feature = "cuda"))]
pub fn measured(_: Option<usize>, _: usize, _: bool, _: bool) -> Result<String, Failure> {
    Err(Failure::request("this program was built without GPUs (feature `cuda`)"))
}

/// What is said where GPUs were left out.
#[cfg(not(feature = "cuda"))]
pub fn planned(_: &Machine, _: &[usize]) -> Result<Machine, Failure> {
    Err(Failure::request("this program was built without GPUs (feature `cuda`)"))
}

/// What is said where GPUs were left out.
#[cfg(not(feature = "cuda"))]
pub fn runner(_: &Asked, _: bool) -> Result<(Machine, Runner), Failure> {
    Err(Failure::request("this program was built without GPUs (feature `cuda`)"))
}
