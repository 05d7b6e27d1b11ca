//! `ein machine list|show`.

use crate::args::Machine as Asked;
use crate::asked::named;
use crate::failure::Failure;
use crate::output::print;
use ein_task::describe::describe;
use ein_task::machine::{DeviceKind, Machine};
use serde_json::json;
use std::fmt::Write as _;

/// Lists or draws machines.
pub fn machine(asked: &Asked) -> Result<(), Failure> {
    match asked {
        Asked::List { json: true } => print(&format!("{:#}\n", json!({ "machines": Machine::names() }))),
        Asked::List { json: false } => print(&list()?),
        Asked::Show { machine, json } => {
            let machine = named(machine)?;
            print(&if *json { format!("{:#}\n", as_json(&machine)) } else { describe(&machine) })
        }
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
            let kind = format!("{:?}", device.kind).to_lowercase();
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

fn as_json(machine: &Machine) -> serde_json::Value {
    let devices: Vec<_> = machine
        .devices
        .iter()
        .map(|d| {
            let flops: serde_json::Map<_, _> = d.flops.iter().map(|(t, f)| (t.name().to_string(), json!(f))).collect();
            json!({
                "name": d.name,
                "kind": format!("{:?}", d.kind).to_lowercase(),
                "memory": d.memory.0,
                "flops": flops,
                "memory_bandwidth": d.memory_bandwidth,
                "launch_seconds": d.launch.0,
            })
        })
        .collect();
    let links: Vec<_> = machine
        .links
        .iter()
        .map(|l| {
            let resources: Vec<_> = l.resources.iter().map(|&r| machine.resources[r].name.as_str()).collect();
            json!({ "from": l.from.0, "to": l.to.0, "resources": resources, "latency_seconds": l.latency.0 })
        })
        .collect();
    let resources: Vec<_> =
        machine.resources.iter().map(|r| json!({ "name": r.name, "bandwidth": r.bandwidth })).collect();
    json!({ "name": machine.name, "devices": devices, "resources": resources, "links": links })
}
