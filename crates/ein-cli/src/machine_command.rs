//! `ein machine list|show|detect|measure`.

use crate::args::{Machine as Asked, Measured};
use crate::asked::{detected, named};
use crate::failure::Failure;
use crate::gpus;
use crate::output::{print, writable, write};
use crate::progress::Progress;
use ein_run::measure::{MeasureError, measure};
use ein_task::describe::describe;
use ein_task::machine::{DeviceKind, Machine};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

/// Virtual devices of a measured machine, unless the caller says how many.
const DEVICES: usize = 8;

/// Lists, draws, detects or measures machines.
pub fn machine(asked: &Asked) -> Result<(), Failure> {
    match asked {
        Asked::List { json: true } => print(&format!("{:#}\n", json!({ "machines": Machine::names() }))),
        Asked::List { json: false } => print(&list()?),
        Asked::Show { machine, file: true, .. } => match Machine::file(machine) {
            Some(text) => print(text),
            None => print(&named(machine)?.to_text()),
        },
        Asked::Show { machine, json, file: false } => {
            let machine = named(machine)?;
            print(&if *json { as_json(&machine) } else { describe(&machine) })
        }
        Asked::Measure { machine, devices, runs, tf32, quick, out, json } => {
            writable(out.as_ref())?;
            let runs = usize::from(*runs);
            let text = match machine {
                Measured::Cpu if *tf32 || *quick => {
                    let option = if *tf32 { "--tf32" } else { "--quick" };
                    return Err(Failure::request(format!("{option} is about GPUs: add --machine cuda")));
                }
                Measured::Cpu => threads(devices.unwrap_or(DEVICES), runs)?,
                Measured::Cuda => gpus::measured(*devices, runs, *tf32, *quick)?,
            };
            made(&Machine::parse(&text).map_err(Failure::run)?, &text, out.as_ref(), *json)
        }
        Asked::Detect { out, json } => {
            writable(out.as_ref())?;
            let found = detected()?;
            made(&found.machine, &found.text, out.as_ref(), *json)
        }
    }
}

/// The machine file of this host's virtual devices.
fn threads(devices: usize, runs: usize) -> Result<String, Failure> {
    let _progress = Progress::start("measuring this host");
    let text = measure(devices, runs).and_then(|figures| figures.file(devices, SystemTime::now()));
    text.map_err(|e| match e {
        MeasureError::Devices { .. } => Failure::request(e),
        MeasureError::Run(_) | MeasureError::Machine(_) => Failure::run(e),
    })
}

/// Prints or writes the file of a machine that was made here.
fn made(machine: &Machine, text: &str, out: Option<&PathBuf>, json: bool) -> Result<(), Failure> {
    if let Some(path) = out {
        write(path, text)?;
    }
    match (json, out) {
        (true, _) => print(&as_json(machine)),
        (false, Some(path)) => print(&format!("{}\n  written to {}\n", describe(machine), path.display())),
        (false, None) => print(text),
    }
}

/// One line a machine.
fn list() -> Result<String, Failure> {
    let mut text = format!("{:<14}{:>7}  {:>20}  {}\n", "name", "devices", "memory each", "kind");
    for name in Machine::names() {
        // A pattern rather than a machine.
        if name.starts_with('N') {
            let _ = writeln!(text, "{name:<14}{:>7}  {:>20}  N virtual devices on this host, such as 8xcpu", "N", "");
            continue;
        }
        let machine = named(name)?;
        let (mut memory, mut kinds): (Vec<String>, Vec<String>) = (vec![], vec![]);
        for device in &machine.devices {
            let kind = device.kind.name().to_string();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            let size = device.memory.to_string();
            if device.kind != DeviceKind::Host && !memory.contains(&size) {
                memory.push(size);
            }
        }
        let (count, memory) = (machine.workers().len(), memory.join(", "));
        let _ = writeln!(text, "{name:<14}{count:>7}  {memory:>20}  {}", kinds.join(", "));
    }
    Ok(text)
}

fn as_json(machine: &Machine) -> String {
    let row = |n: usize| {
        let d = &machine.devices[n];
        let flops: serde_json::Map<_, _> = d.flops.iter().map(|(t, f)| (t.name().to_string(), json!(f))).collect();
        json!({
            "id": n,
            "name": d.name,
            "kind": d.kind.name(),
            "memory": d.memory.0,
            "flops": flops,
            "memory_bandwidth": d.memory_bandwidth,
            "launch_seconds": d.launch.0,
        })
    };
    let (hosts, devices): (Vec<usize>, Vec<usize>) =
        (0..machine.len()).partition(|&n| machine.devices[n].kind == DeviceKind::Host);
    let rows = |of: Vec<usize>| of.into_iter().map(row).collect::<Vec<_>>();
    let links: Vec<_> = machine
        .links
        .iter()
        .map(|l| {
            let resources: Vec<_> = l.resources.iter().map(|&r| machine.resources[r].name.as_str()).collect();
            json!({
                "from": l.from.0,
                "to": l.to.0,
                "bandwidth": machine.bandwidth(l),
                "resources": resources,
                "latency_seconds": l.latency.0,
            })
        })
        .collect();
    let resources: Vec<_> =
        machine.resources.iter().map(|r| json!({ "name": r.name, "bandwidth": r.bandwidth })).collect();
    let value = json!({
        "name": machine.name,
        "issue_seconds": machine.issue.0,
        "devices": rows(devices),
        "hosts": rows(hosts),
        "resources": resources,
        "links": links,
    });
    format!("{value:#}\n")
}
