//! Every kernel of a broad corpus, compiled for every architecture that is meant to run: what each takes of registers and
//! shared memory, and whether one keeps values outside of registers that must not. No GPU is needed, but NVIDIA's
//! run-time compiler is.

mod corpus;
mod resources;

use crate::report::Section;
use clap::Args;
use ein_cuda::compile::{Arch, compile_anew, version};
use ein_cuda::generate::PRELUDE;
use resources::Resources;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Kernels compiled together: the prelude is read once for all of them, and units are what threads share.
const TOGETHER: usize = 24;

/// Whether a kernel may keep values outside of registers: one that takes heads of any size, whole, and those of f64,
/// bytes and bools, in which no model spends its time.
fn may_spill(name: &str, source: &str) -> bool {
    name.starts_with("attention_rows") || ["double", "<unsigned char>", "<bool>"].iter().any(|of| source.contains(of))
}

/// The options of `measure kernels`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Compute capabilities times ten
    #[arg(long, value_delimiter = ',', default_values_t = [80, 90, 100])]
    arch: Vec<u32>,
    /// Only kernels whose names begin so
    #[arg(long, default_value = "")]
    only: String,
    /// Print every kernel, not only the largest of each kind
    #[arg(long)]
    all: bool,
}

/// Compiles the corpus.
pub fn run(arguments: &Arguments) -> ExitCode {
    match compile(arguments) {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in faults {
                eprintln!("{fault}");
            }
            ExitCode::FAILURE
        }
        Err(reason) => {
            eprintln!("kernels: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// What is wrong with kernels, a line each.
fn compile(arguments: &Arguments) -> Result<Vec<String>, String> {
    let ((major, minor), path) = version().map_err(|e| e.to_string())?;
    let started = Instant::now();
    let (kernels, mut faults) = corpus::kernels();
    let kernels: Vec<(String, String)> = kernels.into_iter().filter(|k| k.0.starts_with(&arguments.only)).collect();
    println!(
        "NVRTC {major}.{minor} ({path}); {} kernels, generated in {:.1} s",
        kernels.len(),
        started.elapsed().as_secs_f64()
    );
    let (of_one, of_all): (Vec<_>, Vec<_>) = kernels.iter().cloned().partition(|k| corpus::is_of_one(&k.0));
    let units: Vec<(Arch, &[(String, String)])> = arguments
        .arch
        .iter()
        .flat_map(|&capability| {
            let own = if capability == 90 { &of_one[..] } else { &[] };
            let units = of_all.chunks(TOGETHER).chain(own.chunks(TOGETHER));
            units.map(move |some| (Arch::of(capability), some))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<(String, Arch), Resources>> = Mutex::default();
    let refused: Mutex<Vec<String>> = Mutex::default();
    let compiling = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&(arch, some)) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let texts: Vec<&str> = some.iter().map(|k| k.1.as_str()).collect();
                    match compile_anew(&[PRELUDE, &texts.concat()].concat(), arch, &["--ptxas-options=-v"]) {
                        Ok(image) => {
                            let resources = resources::read(&image.log);
                            // `wgmma` that does not run in the background, or registers that are not handed over, as
                            // they are meant to.
                            let waits = |line: &&str| {
                                line.contains("instructions are serialized") || line.contains("setmaxnreg")
                            };
                            let waiting = image.log.lines().filter(waits);
                            refused.lock().expect("no thread panics").extend(waiting.map(str::to_owned));
                            let mut found = found.lock().expect("no thread panics");
                            for (name, _) in some {
                                let own = resources.get(name).copied().unwrap_or_default();
                                found.insert((name.clone(), arch), own);
                            }
                        }
                        Err(e) => refused.lock().expect("no thread panics").push(e.to_string()),
                    }
                }
            });
        }
    });
    faults.extend(refused.into_inner().expect("no thread panics"));
    let found = found.into_inner().expect("no thread panics");
    println!("compiled in {:.1} s", compiling.elapsed().as_secs_f64());
    table(&found, arguments.all);
    for ((name, arch), own) in &found {
        if own.registers == 0 {
            faults.push(format!("{name} for {arch}: the compiler does not say what it takes"));
        }
        let source = kernels.iter().find(|k| k.0 == *name).map_or("", |k| k.1.as_str());
        if own.spilled() && !may_spill(name, source) {
            faults.push(format!("{name} for {arch} keeps values outside of registers: {own}"));
        }
    }
    Ok(faults)
}

/// What kernels take: the largest of each kind, or all.
fn table(found: &BTreeMap<(String, Arch), Resources>, all: bool) {
    let mut rows: BTreeMap<(String, Arch), (usize, Resources)> = BTreeMap::new();
    for ((name, arch), own) in found {
        // The name without the sum of its text.
        let kind = if all { name.clone() } else { name.rsplit_once('_').map_or(name.as_str(), |n| n.0).to_owned() };
        let row = rows.entry((kind, *arch)).or_default();
        row.0 += 1;
        row.1 = row.1.largest(*own);
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|((kind, arch), (count, own))| {
            let numbers = [own.registers, own.shared, own.stack, own.stores + own.loads].map(|n| n.to_string());
            [vec![kind, arch.to_string(), count.to_string()], numbers.to_vec()].concat()
        })
        .collect();
    let mut section = Section::default();
    section.table(&["kind", "arch", "kernels", "registers", "shared", "stack", "spilled"], &rows);
    println!("{}", section.body);
}
