//! `ein machine list|show`.

use crate::args::Machine as Asked;
use crate::asked::named;
use crate::failure::Failure;
use ein_task::machine::Machine;
use serde_json::json;

/// Lists or draws machines.
pub fn machine(asked: &Asked) -> Result<(), Failure> {
    match asked {
        Asked::List { json } => {
            let names = Machine::names();
            if *json {
                println!("{}", json!({ "machines": names }));
            } else {
                for name in names {
                    println!("{name}");
                }
                println!("Nxcpu (N virtual devices on this host, such as 8xcpu)");
            }
        }
        Asked::Show { machine, json } => {
            let machine = named(machine)?;
            if *json {
                println!("{:#}", as_json(&machine));
            } else {
                print!("{}", ein_task::describe::describe(&machine));
            }
        }
    }
    Ok(())
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
