//! Task graphs for GPUs that are not at hand.

use super::Settings;
use crate::nodes::{Nodes, Site, Sites};
use crate::program::Target;
use ein_ir::dtype::DType;
use ein_run::RunError;
use ein_task::machine::{Device, DeviceId, DeviceKind, Machine};
use ein_task::task::TaskGraph;
use ein_task::units::Bytes;

/// Operations per second of bf16 from which on a GPU is taken for a Hopper or later: no Ampere has half of that.
const HOPPER: f64 = 500e12;

/// By device of a machine, the bytes of memory that its GPU would need besides its arena, as
/// [`Prepared::scratch`](super::Prepared::scratch) says it of GPUs that are there.
///
/// A machine does not say how many multiprocessors its GPUs have, or how much shared memory: they are taken for A100s, or
/// for H200s where they multiply as quickly.
///
/// # Errors
///
/// A row that no kernel is generated for.
pub fn scratch(graph: &TaskGraph, machine: &Machine, settings: Settings) -> Result<Vec<Bytes>, RunError> {
    let gpu = |d: usize| machine.devices[..d].iter().filter(|d| d.kind == DeviceKind::Gpu).count();
    let site = |d: usize| {
        let (device, host) = (&machine.devices[d], machine.devices[d].kind == DeviceKind::Host);
        Site { gpu: if host { 0 } else { gpu(d) }, host, target: target(device, settings) }
    };
    let gpus: Vec<usize> = (0..machine.len()).filter(|&d| machine.devices[d].kind == DeviceKind::Gpu).collect();
    let direct = |a: usize, b: usize| a == b || machine.link(DeviceId(a as u16), DeviceId(b as u16)).is_some();
    let sites = Sites {
        devices: (0..graph.devices).map(site).collect(),
        reach: gpus.iter().map(|&a| gpus.iter().map(|&b| direct(a, b)).collect()).collect(),
        staging: settings.staging,
        workspace: settings.workspace,
    };
    let nodes = Nodes::generated(graph, &sites)?;
    let of = |(site, (whole, arena)): (&Site, (&u64, &Bytes))| Bytes(if site.host { 0 } else { whole - arena.0 });
    Ok(sites.devices.iter().zip(nodes.devices.iter().zip(&graph.arenas)).map(of).collect())
}

fn target(device: &Device, settings: Settings) -> Target {
    let hopper = device.rate(DType::BF16) >= HOPPER;
    let of = if hopper { Target::H200 } else { Target::A100 };
    Target { tf32: settings.tf32, wgmma: hopper && settings.wgmma, ..of }
}
