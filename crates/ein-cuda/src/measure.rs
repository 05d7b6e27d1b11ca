//! What this host's GPUs reach, as figures of a machine file: copies over every link, passes over memory, products,
//! attention, and what a task costs in a replay.
//!
//! Everything is a small task graph, made ready as any other and replayed between two events. Of a graph with many equal
//! tasks, one after the other, and one with a single task, the difference says what one takes.

mod grouped;
mod rates;
mod timing;
mod ways;

use crate::devices::{Seat, Settings};
use crate::gpus::{Gpus, GpusError, Selection};
use ein_ir::dtype::DType;
use ein_run::RunError;
use ein_run::measure::{date, rounded};
use ein_task::machine::{DeviceKind, Machine, Resource};
use ein_task::machine_error::MachineError;
use ein_task::units::Seconds;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;
use timing::Timing;

pub use grouped::Grouped;
pub(crate) use grouped::WGMMA;
pub use rates::{Product, Rates};
pub use ways::Ways;

/// A link whose copies are slower by more than this part than what it shares with others carries has a bound of its own.
const SAME: f64 = 0.05;

/// How much is done of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Amount {
    /// As much as figures need that are to be planned with.
    #[default]
    Full,
    /// Little, to try it: what is started counts for more than what is done.
    Small,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// There are no such GPUs.
    #[error(transparent)]
    Gpus(#[from] GpusError),
    /// A task graph did not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The figures make no machine: the GPUs did something else while they were measured.
    #[error("what was measured is not a machine ({0}); measure again while nothing else runs on the GPUs")]
    Machine(#[from] MachineError),
}

/// What was measured of this host's GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The machine as its driver tells of it.
    pub machine: Machine,
    /// What the GPUs are, by device.
    pub names: Vec<String>,
    /// By GPU.
    pub rates: Vec<Rates>,
    /// Links, and what they share.
    pub ways: Ways,
    /// By GPU, of one that has `wgmma` (Hopper): attention by it, beside that by `mma`, which is in its rates.
    pub grouped: Vec<Option<Grouped>>,
    /// Replays of which medians were taken.
    pub runs: usize,
}

/// Measures this host's GPUs, each once whatever is selected, by medians of `runs` replays (at least one).
///
/// # Errors
///
/// No driver, no such GPUs, a run that failed.
pub fn measure(selection: Selection<'_>, runs: usize, amount: Amount) -> Result<Figures, MeasureError> {
    let Gpus { machine, seats } = Gpus::new(selection)?;
    let timing = Timing { runs, settings: Settings::default() };
    let on_gpus = seats.iter().filter(|seat| matches!(seat, Seat::Gpu(_)));
    let rates = on_gpus.map(|seat| rates::rates(*seat, timing, amount)).collect::<Result<_, _>>()?;
    let ways = ways::ways(&machine, &seats, timing, amount)?;
    // Last, since a GPU that fails at it does nothing more in this process.
    let on_gpus = seats.iter().filter(|seat| matches!(seat, Seat::Gpu(_)));
    let grouped = on_gpus.map(|seat| grouped::grouped(*seat, timing, amount)).collect::<Result<_, _>>()?;
    Ok(Figures { names: crate::gpus::names(&seats)?, machine, rates, ways, grouped, runs })
}

impl Figures {
    /// The machine with what was measured in the place of what was assumed. `tf32`: the rate of f32 is that of products
    /// whose factors are rounded to TF32.
    ///
    /// # Errors
    ///
    /// A figure that is not positive.
    pub fn measured(&self, tf32: bool) -> Result<Machine, MeasureError> {
        let mut machine = self.machine.clone();
        machine.name = format!("{}-measured", machine.name);
        machine.issue = Seconds(self.ways.issue);
        let gpus = machine.devices.iter_mut().filter(|d| d.kind == DeviceKind::Gpu);
        for ((device, rates), grouped) in gpus.zip(&self.rates).zip(&self.grouped) {
            device.memory_bandwidth = rates.memory;
            device.launch = Seconds(rates.launch);
            let better = grouped.as_ref().and_then(Grouped::rate).filter(|rate| *rate > rates.attention);
            device.under_softmax = Some(better.unwrap_or(rates.attention));
            device.prefers = if better.is_some() { vec![WGMMA.to_owned()] } else { Vec::new() };
            let types = [DType::BF16, DType::F16, DType::F32, DType::F64];
            device.flops = types.map(|dtype| (dtype, rates.of(dtype, tf32))).to_vec();
            device.products.shapes = rates.shapes(tf32);
        }
        let through = |resource: usize| {
            let links = machine.links.iter().zip(&self.ways.bandwidth);
            links.filter(move |(link, _)| link.resources.contains(&resource)).map(|(_, bandwidth)| *bandwidth)
        };
        let carried: Vec<f64> =
            (0..machine.resources.len()).map(|n| through(n).fold(self.ways.together[n], f64::max)).collect();
        for (resource, carried) in machine.resources.iter_mut().zip(carried).filter(|(_, carried)| *carried > 0.0) {
            resource.bandwidth = carried;
        }
        for (n, &bandwidth) in self.ways.bandwidth.iter().enumerate() {
            let link = &machine.links[n];
            if bandwidth < (1.0 - SAME) * machine.bandwidth(link) {
                let [from, to] = [link.from, link.to].map(|d| machine.devices[d.index()].name.as_str());
                machine.resources.push(Resource { name: format!("{from} to {to}"), bandwidth });
                let own = machine.resources.len() - 1;
                machine.links[n].resources.push(own);
            }
            machine.links[n].latency = Seconds(self.ways.latency[n]);
        }
        machine.check()?;
        Ok(machine)
    }

    /// The measured machine's file: in comments when and how it was measured and the rates of all products, then what
    /// [`Machine::parse`] reads.
    ///
    /// # Errors
    ///
    /// As [`Figures::measured`].
    pub fn file(&self, tf32: bool, when: SystemTime) -> Result<String, MeasureError> {
        let machine = rounded(&self.measured(tf32)?);
        let mut out = format!(
            "# Measured by `ein machine measure --machine cuda` on {}: medians of {} replays, by events.\n",
            date(when),
            self.runs.max(1)
        );
        for (n, (name, rates)) in self.names.iter().zip(&self.rates).enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "# {}: {name}. TFLOP/s of products, rows x columns x sum:", machine.devices[n].name);
            let mut lines: BTreeMap<(DType, bool), Vec<String>> = BTreeMap::new();
            for Product { dtype, tf32, shape: [m, n, k], rate } in &rates.products {
                lines.entry((*dtype, *tf32)).or_default().push(format!("{m}x{n}x{k} {:.4}", rate / 1e12));
            }
            for ((dtype, tf32), all) in lines {
                let name = if tf32 { "tf32" } else { dtype.name() };
                let _ = writeln!(out, "#   {name:<5} {}", all.join(", "));
            }
            let _ = writeln!(out, "#   copies within its memory {:.1} GB/s", rates.copies / 1e9);
            if let Some(grouped) = &self.grouped[n] {
                let _ = writeln!(out, "#   attention by mma {:.4}; {grouped}", rates.attention / 1e12);
            }
        }
        out += if tf32 {
            "# The rate of f32 below is that with TF32.\n"
        } else {
            "# The rate of f32 below is without TF32.\n"
        };
        out += "# Assumed, as it is not measured: the bandwidth of the host's own memory.\n";
        Ok(out + &machine.to_text())
    }
}

impl Amount {
    /// Tasks that follow one another.
    fn times(self) -> usize {
        match self {
            Self::Full => 16,
            Self::Small => 4,
        }
    }

    /// Bytes of copies, the least first: copy engines do them all.
    fn copies(self) -> &'static [usize] {
        match self {
            Self::Full => &[64 << 10, 1 << 20, 16 << 20, 64 << 20],
            Self::Small => &[36 << 10, 128 << 10, 512 << 10],
        }
    }

    /// Bytes of each copy where several go at once.
    fn together(self) -> usize {
        match self {
            Self::Full => 16 << 20,
            Self::Small => 64 << 10,
        }
    }

    /// Elements of what is added: far more than caches hold.
    fn elements(self) -> usize {
        match self {
            Self::Full => 64 << 20,
            Self::Small => 16 << 10,
        }
    }

    /// Rows, columns and what is summed over. The largest is of what GPUs do best; types that many GPUs are slow at get
    /// fewer and smaller ones. Of every shortest side there is a small and a large one, since a block gets a rate between
    /// those of its side: what is left of a large matrix when many devices share it is flat.
    fn products(self, dtype: DType, tf32: bool) -> &'static [[usize; 3]] {
        let wide = dtype == DType::F64 || dtype == DType::F32 && !tf32;
        match self {
            Self::Full if wide => &[[4096; 3], [1024; 3], [512, 4096, 4096], [64, 4096, 4096]],
            Self::Full => &[
                [8192; 3],
                [4096; 3],
                [2048; 3],
                [2048, 8192, 8192],
                [1024; 3],
                [1024, 8192, 8192],
                [512; 3],
                [512, 8192, 8192],
                [256, 1024, 1024],
                [256, 8192, 8192],
                [64, 1024, 1024],
                [64, 8192, 8192],
            ],
            Self::Small => &[[96, 80, 64], [32; 3], [32, 96, 64]],
        }
    }

    /// Heads, tokens, elements of a head.
    fn attention(self) -> [usize; 3] {
        match self {
            Self::Full => [32, 4096, 128],
            Self::Small => [2, 96, 32],
        }
    }

    /// The same, where results of two ways are compared: tokens that fill no tile.
    fn compared(self) -> [usize; 3] {
        match self {
            Self::Full => [8, 4097, 128],
            Self::Small => [2, 301, 72],
        }
    }
}
