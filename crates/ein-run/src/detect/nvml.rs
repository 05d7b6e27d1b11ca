//! Asking NVML: the only part that needs a driver. The library is loaded at run time.

use super::error::DetectError;
use super::facts::{Ancestor, Bus, Chip, Facts, Gpu, NvLink, Pair, Pcie};
use ein_task::units::Bytes;
use nvml_wrapper::enum_wrappers::device::{Clock, P2pCapabilitiesIndex, P2pStatus, TopologyLevel};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::PciInfo;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON;
use nvml_wrapper::{Device, Nvml};

/// More links than any GPU has.
const MOST_LINKS: u32 = 36;

/// Asks the driver for all GPUs of this host and how they are joined.
///
/// # Errors
///
/// No library, no driver, or a question without which there is no machine left unanswered.
pub fn read() -> Result<Facts, DetectError> {
    let nvml = load()?;
    let driver = nvml.sys_driver_version().unwrap_or_else(|_| "unknown".into());
    let count = nvml.device_count().map_err(|e| query("the number of GPUs", &e))?;
    let devices: Vec<Device<'_>> = (0..count)
        .map(|n| nvml.device_by_index(n).map_err(|e| query(&format!("what GPU {n} is"), &e)))
        .collect::<Result<_, _>>()?;
    let gpus = devices.iter().enumerate().map(|(n, d)| gpu(n, d)).collect::<Result<Vec<_>, _>>()?;
    let mut pairs = Vec::new();
    for (first, a) in devices.iter().enumerate() {
        for (second, b) in devices.iter().enumerate().skip(first + 1) {
            pairs.push(pair(first, a, second, b));
        }
    }
    Ok(Facts { driver, host: host_memory(), gpus, pairs })
}

fn load() -> Result<Nvml, DetectError> {
    Nvml::init().map_err(|e| match e {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            DetectError::NoLibrary { reason: one_line(&e.to_string()) }
        }
        other => DetectError::NoDriver { reason: one_line(&other.to_string()) },
    })
}

fn gpu(n: usize, device: &Device<'_>) -> Result<Gpu, DetectError> {
    let ask = |what: &str| format!("the {what} of GPU {n}");
    let name = device.name().map_err(|e| query(&ask("product"), &e))?;
    let memory = device.memory_info().map_err(|e| query(&ask("memory"), &e))?.total;
    let pci = device.pci_info().map_err(|e| query(&ask("address"), &e))?;
    let width =
        device.max_pcie_link_width().ok().map(|most| most.min(device.current_pcie_link_width().unwrap_or(most)));
    let pcie = device.max_pcie_link_gen().ok().zip(width).map(|(generation, width)| Pcie { generation, width });
    let instances = device.mig_mode().is_ok_and(|m| m.current == 1);
    let capability = device.cuda_compute_capability().ok();
    let chip = Chip {
        capability: capability.map(|c| (c.major, c.minor)),
        cores: device.num_cores().ok(),
        clock: device.max_clock_info(Clock::SM).ok(),
        memory_clock: device.max_clock_info(Clock::Memory).ok(),
        memory_bits: device.memory_bus_width().ok(),
    };
    Ok(Gpu { name, bus: bus(&pci), memory: Bytes(memory), links: links(device), pcie, instances, chip })
}

/// The active NVLinks. What a GPU does not have, or an old driver does not know, is an error and no link.
fn links(device: &Device<'_>) -> Vec<NvLink> {
    let speed = speed(device);
    (0..MOST_LINKS)
        .map(|n| device.link_wrapper_for(n))
        .filter(|link| link.is_active().unwrap_or(false))
        .filter_map(|link| {
            let remote = bus(&link.remote_pci_info().ok()?);
            Some(NvLink { remote, version: link.version().ok(), speed })
        })
        .collect()
}

fn speed(device: &Device<'_>) -> Option<u64> {
    let values = device.field_values_for(&[FieldId(NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON)]).ok()?;
    match values.into_iter().next()?.ok()?.value.ok()? {
        SampleValue::U32(v) => Some(u64::from(v)),
        SampleValue::U64(v) => Some(v),
        SampleValue::I64(v) => u64::try_from(v).ok(),
        SampleValue::F64(_) => None,
    }
    .filter(|v| *v > 0)
}

fn pair(first: usize, a: &Device<'_>, second: usize, b: &Device<'_>) -> Pair {
    let can = |what: P2pCapabilitiesIndex| {
        let both = [a.p2p_status(b, what), b.p2p_status(a, what)];
        both.into_iter().all(|s| s.is_ok_and(|s| s == P2pStatus::Ok))
    };
    let peers = can(P2pCapabilitiesIndex::Read) && can(P2pCapabilitiesIndex::Write);
    Pair { first, second, ancestor: ancestor(a, b), peers, nvlink: can(P2pCapabilitiesIndex::NvLink) }
}

#[cfg(target_os = "linux")]
fn ancestor(a: &Device<'_>, b: &Device<'_>) -> Option<Ancestor> {
    // The library takes the other device by value, and a device may not be copied: it is fetched again.
    let other = b.nvml().device_by_index(b.index().ok()?).ok()?;
    Some(match a.topology_common_ancestor(other).ok()? {
        TopologyLevel::Internal => Ancestor::Board,
        TopologyLevel::Single => Ancestor::Switch,
        TopologyLevel::Multiple => Ancestor::Switches,
        TopologyLevel::HostBridge => Ancestor::Bridge,
        TopologyLevel::Node => Ancestor::Socket,
        TopologyLevel::System => Ancestor::System,
    })
}

#[cfg(not(target_os = "linux"))]
fn ancestor(_: &Device<'_>, _: &Device<'_>) -> Option<Ancestor> {
    None
}

fn bus(pci: &PciInfo) -> Bus {
    Bus { domain: pci.domain, bus: pci.bus, device: pci.device }
}

/// What Linux says it has; where it says nothing, 64 GiB are assumed.
fn host_memory() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    Bytes(kib.map_or(64 << 30, |kib| kib << 10))
}

fn query(what: &str, error: &NvmlError) -> DetectError {
    DetectError::Query { what: what.into(), reason: one_line(&error.to_string()) }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
