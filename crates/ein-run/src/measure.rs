//! What this host's virtual devices reach: real runs of small task graphs on the executor, its transport and the CPU
//! device, fitted to the figures of a machine file.
//!
//! A machine of virtual devices has one rate for each type, and for products of f32 one for each of some shapes, one of
//! convolutions, one of attention and one of element-wise arithmetic, what devices gain by working alone and lose by
//! taking turns, one bandwidth of memory, one time to start a kernel, one bandwidth and latency of a copy from device to device, and the
//! processors that the devices share. Each is fitted to medians of several sizes and shapes. As
//! in a plan, as many devices work at once as there are processors, and no operand is the one just read: they go round
//! over more memory than the caches next to a processor hold.

mod copies;
mod fit;
pub mod graphs;
mod kernels;
pub mod peak;

use crate::error::RunError;
use ein_ir::dtype::DType;
use ein_task::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine, Resource};
use ein_task::machine_error::MachineError;
use ein_task::rates::{Products, Turns};
use ein_task::units::{Bytes, Seconds};
use kernels::Pace;
use std::time::{SystemTime, UNIX_EPOCH};

pub use fit::{Line, fit, median};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A number of devices that no machine has.
    #[error("{asked} devices are asked for; 1 to {most} can be measured", most = DeviceSet::MAX)]
    Devices {
        /// How many were asked for.
        asked: usize,
    },
    /// A task graph did not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The figures make no machine: the host stood still while it was measured.
    #[error("what was measured is not a machine ({0}); measure again while the host is less busy")]
    Machine(#[from] MachineError),
}

/// The figures of one virtual device, and of a copy to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Processors that the devices share.
    pub processors: u32,
    /// Memory of the host that can be had.
    pub memory: Bytes,
    /// Operations per second of products, by type.
    pub flops: Vec<(DType, f64)>,
    /// Operations per second of products under a softmax.
    pub under_softmax: f64,
    /// Operations per second of products of some shapes, and of convolutions.
    pub products: Products,
    /// How much faster a device is that works alone, and what is left where more work than there are processors.
    pub turns: Turns,
    /// Elements per second of maps and folds with arithmetic.
    pub elements: f64,
    /// Bytes per second of copies and of passes without arithmetic to speak of.
    pub memory_bandwidth: f64,
    /// Time that a kernel takes beside its work.
    pub launch: Seconds,
    /// Bytes per second of a copy to another device, which is one copy by one thread.
    pub copy_bandwidth: f64,
    /// Time of a copy beside its bytes.
    pub issue: Seconds,
    /// Time from the end of a copy until what waits for it begins.
    pub latency: Seconds,
}

/// Measures this host with up to `devices` of its virtual devices: medians of `runs` runs (at least one) of each task
/// graph. With 9, some seconds.
///
/// # Errors
///
/// No device or too many, or a run that failed.
pub fn measure(devices: usize, runs: usize) -> Result<Figures, MeasureError> {
    if !(1..=DeviceSet::MAX).contains(&devices) {
        return Err(MeasureError::Devices { asked: devices });
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runs = runs.max(1);
    let pace = Pace { devices: devices.min(processors), runs };
    let passes = kernels::passes(pace)?;
    let elements = kernels::elements(pace, &passes)?;
    let flops = kernels::products(pace, &passes)?;
    let under_softmax = kernels::under_softmax(pace, &passes)?;
    let products =
        Products { shapes: kernels::shapes(pace, &passes)?, windows: Some(kernels::windows(pace, &passes)?) };
    let turns = kernels::turns(pace, devices)?;
    let copies = copies::copies(runs)?;
    Ok(Figures {
        processors: processors as u32,
        memory: memory(),
        flops,
        under_softmax,
        products,
        turns,
        elements,
        memory_bandwidth: 1.0 / passes.slope,
        launch: Seconds(passes.start),
        copy_bandwidth: 1.0 / copies.line.slope,
        issue: Seconds(copies.line.start),
        latency: Seconds(copies.latency),
    })
}

impl Figures {
    /// Of several measurements of one host, made in turns with other work because its speed drifts, the median of every
    /// figure. Shapes are those of the first.
    pub fn medians(first: &Figures, more: &[Figures]) -> Figures {
        let of = |figure: &dyn Fn(&Figures) -> f64| {
            median(&std::iter::once(first).chain(more).map(figure).collect::<Vec<f64>>())
        };
        let mut all = first.clone();
        for (n, rate) in all.flops.iter_mut().enumerate() {
            rate.1 = of(&|f| f.flops.get(n).map_or(rate.1, |r| r.1));
        }
        for (n, shape) in all.products.shapes.iter_mut().enumerate() {
            shape.rate = of(&|f| f.products.shapes.get(n).map_or(shape.rate, |s| s.rate));
        }
        all.products.windows = first.products.windows.map(|w| of(&|f| f.products.windows.unwrap_or(w)));
        all.turns = Turns { alone: of(&|f| f.turns.alone), crowded: of(&|f| f.turns.crowded) };
        all.under_softmax = of(&|f| f.under_softmax);
        all.elements = of(&|f| f.elements);
        all.memory_bandwidth = of(&|f| f.memory_bandwidth);
        all.launch = Seconds(of(&|f| f.launch.0));
        all.copy_bandwidth = of(&|f| f.copy_bandwidth);
        all.issue = Seconds(of(&|f| f.issue.0));
        all.latency = Seconds(of(&|f| f.latency.0));
        all
    }

    /// The machine of `devices` virtual devices with these figures, as its file: a comment that says when and how, then
    /// what [`Machine::parse`] reads.
    ///
    /// # Errors
    ///
    /// No device or too many, or a figure that is not positive.
    pub fn file(&self, devices: usize, when: SystemTime) -> Result<String, MeasureError> {
        let machine = self.machine(devices)?;
        let processor = processor().map_or(String::new(), |p| format!(" ({p})"));
        let comment = format!(
            "# Measured by `ein machine measure` on {} on {} processors{processor}: medians of runs of\n\
             # the executor, least squares over sizes, {} devices at once. Copies are from arena to arena, by one thread.\n",
            date(when),
            self.processors,
            devices.min(self.processors as usize)
        );
        Ok(comment + &rounded(&machine).to_text())
    }

    fn machine(&self, devices: usize) -> Result<Machine, MeasureError> {
        if !(1..=DeviceSet::MAX).contains(&devices) {
            return Err(MeasureError::Devices { asked: devices });
        }
        let device = |n: usize| Device {
            name: format!("cpu{n}"),
            kind: DeviceKind::Cpu,
            memory: Bytes((self.memory.0 / devices as u64) >> 20 << 20),
            flops: self.flops.clone(),
            memory_bandwidth: self.memory_bandwidth,
            launch: self.launch,
            free_elementwise: false,
            elements: Some(self.elements),
            under_softmax: Some(self.under_softmax),
            prefers: Vec::new(),
            products: self.products.clone(),
            engines: None,
        };
        let mut links = Vec::new();
        for from in 0..devices {
            for to in (0..devices).filter(|&to| to != from) {
                let (a, b) = (DeviceId(from as u16), DeviceId(to as u16));
                links.push(Link { from: a, to: b, resources: vec![from, devices + to], latency: self.latency });
            }
        }
        let port =
            |n: usize, way: &str| Resource { name: format!("copies.cpu{n}.{way}"), bandwidth: self.copy_bandwidth };
        let ports = if devices == 1 { 0 } else { devices };
        let machine = Machine {
            name: format!("{devices}xcpu-measured"),
            devices: (0..devices).map(device).collect(),
            resources: (0..ports).map(|n| port(n, "out")).chain((0..ports).map(|n| port(n, "in"))).collect(),
            links,
            issue: self.issue,
            processors: Some(self.processors),
            turns: self.turns,
        };
        machine.check()?;
        Ok(machine)
    }
}

/// The machine with figures of four digits: more of them were not measured.
pub fn rounded(machine: &Machine) -> Machine {
    let digits = |value: f64| {
        if value <= 0.0 {
            return 0.0;
        }
        let unit = 10_f64.powi(value.log10().floor() as i32 - 3);
        // By way of its text, so that the file has no tail of nines.
        format!("{:.3e}", (value / unit).round() * unit).parse().unwrap_or(value)
    };
    let mut machine = machine.clone();
    machine.issue = Seconds(digits(machine.issue.0));
    machine.turns = Turns { alone: digits(machine.turns.alone), crowded: digits(machine.turns.crowded) };
    for d in &mut machine.devices {
        d.memory_bandwidth = digits(d.memory_bandwidth);
        d.launch = Seconds(digits(d.launch.0));
        d.flops.iter_mut().for_each(|f| f.1 = digits(f.1));
        d.elements = d.elements.map(digits);
        d.under_softmax = d.under_softmax.map(digits);
        d.products.windows = d.products.windows.map(digits);
        d.products.shapes.iter_mut().for_each(|s| s.rate = digits(s.rate));
    }
    machine.resources.iter_mut().for_each(|r| r.bandwidth = digits(r.bandwidth));
    machine.links.iter_mut().for_each(|l| l.latency = Seconds(digits(l.latency.0)));
    machine
}

/// What Linux says can be had without swapping; 8 GiB where it says nothing.
fn memory() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    Bytes(kib.map_or(8 << 30, |kib| kib << 10))
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    let printed: String = line.split_once(':')?.1.trim().chars().filter(|c| !c.is_control()).collect();
    Some(printed)
}

/// A moment as `2026-11-29 23:40 UTC`: days by Hinnant's `civil_from_days`.
pub fn date(when: SystemTime) -> String {
    let seconds = when.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests;
