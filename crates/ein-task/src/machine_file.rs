//! Machine files: a machine as text that people write, and its text form.
//!
//! ```toml
//! name = "four"
//! issue = "1 us"                   # fixed cost of issuing one transfer; 0 when absent
//! # processors = 2                 # what devices of kind cpu share; absent: each has one of its own
//! # alone = 1.2                    # how much faster such a device is while no other works; 1 when absent
//! # crowded = 0.9                  # what is left of their time where more work than there are processors; 1 when absent
//!
//! [[devices]]                      # gpu0 to gpu3; without `count`, one device called just `gpu`
//! name = "gpu"
//! count = 4
//! kind = "gpu"                     # gpu, cpu or host (memory that stores and relays)
//! memory = "40 GB"
//! memory_bandwidth = "1.5 TB/s"
//! flops = { bf16 = "312 TFLOP/s", f32 = "19.5 TFLOP/s" }   # other types run at the rate of f32
//! launch = "3 us"                  # 0 when absent
//! free_elementwise = false         # whether maps and reductions cost nothing; false when absent
//! # elements = "400 MFLOP/s"       # of maps and folds beside bytes, on a thread; absent: bytes alone count
//! # under_softmax = "20 GFLOP/s"   # products under a softmax; absent: as other products
//! # prefers = ["wgmma"]            # ways to compute that were measured to be the quicker ones here
//! # windows = "20 GFLOP/s"         # contractions through a window, such as convolutions; absent: as other products
//! # products = [                   # products by shape; see `rates`
//! #   { dtype = "f32", side = 32, points = 1048576, rate = "200 GFLOP/s" },
//! # ]
//! engines = 2                      # transfers that may leave a device at once; absent: no limit
//!
//! [[switches]]                     # links all pairs of its devices; each has a port in and a port out
//! name = "left"
//! devices = ["gpu0-1"]             # `gpu` (the whole group), `gpu3` or `gpu0-3` (inclusive)
//! port = "25 GB/s"
//! latency = "3 us"                 # 0 when absent; a transfer pays every switch it crosses
//! parent = "root"                  # switches make a tree; crossing loads the uplink, which is shared
//! uplink = "25 GB/s"               # each way
//!
//! [[switches]]
//! name = "root"
//!
//! [[switches]]                     # links devices of different lists only (the network of two nodes)
//! name = "network"
//! across = [["gpu0-1"], ["gpu2-3"]]
//! port = "25 GB/s"                 # one of each device, each way,
//! shared = "100 GB/s"              # or one of each list, each way; or both
//!
//! [[cables]]                       # direct links
//! pairs = [["gpu0", "gpu1"], ["gpu2", "gpu3"]]
//! bandwidth = "50 GB/s"
//! duplex = "full"                  # full (each way, the default), half (both ways share it) or one-way
//! latency = "3 us"
//! ```
//!
//! [`Machine::to_text`] writes what these expand to, with `[[resources]]` (name, bandwidth) and `[[links]]`
//! (from, to, resources, latency), which a file may also use directly.

use crate::machine::{Device, DeviceId, DeviceKind, DeviceSet, Link, Machine, Resource};
use crate::machine_error::MachineError;
use crate::quantity::{BANDWIDTH, DURATION, FLOPS, MEMORY, Quantity};
use crate::rates::{Products, ShapeRate, Turns};
use crate::units::{Bytes, Seconds};
use ein_ir::dtype::DType;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    issue: Option<String>,
    processors: Option<i64>,
    alone: Option<f64>,
    crowded: Option<f64>,
    devices: Vec<GroupRow>,
    #[serde(default)]
    switches: Vec<SwitchRow>,
    #[serde(default)]
    cables: Vec<CableRow>,
    #[serde(default)]
    resources: Vec<ResourceRow>,
    #[serde(default)]
    links: Vec<LinkRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupRow {
    name: String,
    count: Option<usize>,
    kind: String,
    memory: String,
    memory_bandwidth: String,
    #[serde(default)]
    flops: BTreeMap<String, String>,
    launch: Option<String>,
    #[serde(default)]
    free_elementwise: bool,
    elements: Option<String>,
    under_softmax: Option<String>,
    #[serde(default)]
    prefers: Vec<String>,
    windows: Option<String>,
    #[serde(default)]
    products: Vec<ShapeRow>,
    engines: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeRow {
    dtype: String,
    side: u32,
    points: u32,
    rate: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchRow {
    name: String,
    #[serde(default)]
    devices: Vec<String>,
    #[serde(default)]
    across: Vec<Vec<String>>,
    port: Option<String>,
    shared: Option<String>,
    latency: Option<String>,
    parent: Option<String>,
    uplink: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CableRow {
    pairs: Vec<(String, String)>,
    bandwidth: String,
    duplex: Option<String>,
    latency: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceRow {
    name: String,
    bandwidth: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkRow {
    from: String,
    to: String,
    resources: Vec<String>,
    latency: Option<String>,
}

impl Machine {
    /// Reads a machine file (see the [module](self)).
    pub fn parse(text: &str) -> Result<Machine, MachineError> {
        let file: File = toml::from_str(text).map_err(|e| syntax(text, &e))?;
        let mut builder = Builder::default();
        for group in &file.devices {
            builder.group(&file.name, group)?;
        }
        for row in &file.resources {
            builder.named_resource(row)?;
        }
        builder.switches(&file.switches)?;
        for row in &file.cables {
            builder.cables(row)?;
        }
        for row in &file.links {
            builder.link_row(row)?;
        }
        builder.links.sort_by_key(|(link, _)| (link.from, link.to));
        for pair in builder.links.windows(2) {
            let [(a, first), (b, second)] = pair else { continue };
            if (a.from, a.to) == (b.from, b.to) {
                let (from, to) = (builder.name(a.from), builder.name(a.to));
                return Err(MachineError::TwoLinks { from, to, first: first.clone(), second: second.clone() });
            }
        }
        let issue = file.issue.as_deref().map_or(Ok(0.0), |t| not_negative("issue", t, DURATION))?;
        let machine = Machine {
            name: file.name,
            devices: builder.devices,
            resources: builder.resources,
            links: builder.links.into_iter().map(|(link, _)| link).collect(),
            issue: Seconds(issue),
            processors: file.processors.map(|n| count("processors", n)).transpose()?,
            turns: Turns { alone: file.alone.unwrap_or(1.0), crowded: file.crowded.unwrap_or(1.0) },
        };
        machine.check()?;
        Ok(machine)
    }
}

/// A type by its name.
fn dtype(place: &str, found: &str) -> Result<DType, MachineError> {
    let known = || DType::ALL.map(DType::name).join(", ");
    DType::parse(found).ok_or_else(|| MachineError::Unknown {
        place: place.into(),
        found: found.into(),
        known: known(),
    })
}

/// A number of things of which there is at least one.
fn count(place: &str, found: i64) -> Result<u32, MachineError> {
    let count = u32::try_from(found).ok().filter(|n| *n > 0);
    count.ok_or_else(|| MachineError::NotPositive { place: place.into(), found: found as f64 })
}

#[derive(Default)]
struct Builder {
    devices: Vec<Device>,
    names: BTreeMap<String, DeviceId>,
    groups: BTreeMap<String, Vec<DeviceId>>,
    resources: Vec<Resource>,
    resource_names: BTreeMap<String, usize>,
    /// With what made each, for messages.
    links: Vec<(Link, String)>,
}

impl Builder {
    fn name(&self, device: DeviceId) -> String {
        self.devices[device.index()].name.clone()
    }

    fn group(&mut self, machine: &str, row: &GroupRow) -> Result<(), MachineError> {
        check_name("group of devices", &row.name)?;
        if row.count.is_some() && row.name.ends_with(|c: char| c.is_ascii_digit()) {
            // `gpu1` and a count would make `gpu10`, which also is the eleventh of `gpu`.
            return Err(MachineError::Name {
                what: "numbered group of devices (it may not end in a digit)",
                name: row.name.clone(),
            });
        }
        if self.groups.contains_key(&row.name) {
            return Err(MachineError::SameName { what: "group", name: row.name.clone() });
        }
        let count = row.count.unwrap_or(1);
        if self.devices.len().saturating_add(count) > DeviceSet::MAX {
            let found = self.devices.len().saturating_add(count);
            return Err(MachineError::TooMany { name: machine.into(), found });
        }
        let place = |what: &str| format!("{what} of `{}`", row.name);
        let kind = DeviceKind::ALL.into_iter().find(|k| k.name() == row.kind);
        let kind = kind.ok_or_else(|| MachineError::Unknown {
            place: place("kind"),
            found: row.kind.clone(),
            known: DeviceKind::ALL.map(DeviceKind::name).join(", "),
        })?;
        let mut flops = Vec::new();
        for (name, rate) in &row.flops {
            let place = place("flops");
            flops.push((dtype(&place, name)?, positive(&format!("{name} {place}"), rate, FLOPS)?));
        }
        flops.sort_by_key(|f| f.0);
        let memory = positive(&place("memory"), &row.memory, MEMORY)?;
        let memory_bandwidth = positive(&place("memory_bandwidth"), &row.memory_bandwidth, BANDWIDTH)?;
        let launch = row.launch.as_deref().map_or(Ok(0.0), |t| not_negative(&place("launch"), t, DURATION))?;
        let rate =
            |what: &str, text: &Option<String>| text.as_deref().map(|t| positive(&place(what), t, FLOPS)).transpose();
        let (elements, under_softmax) = (rate("elements", &row.elements)?, rate("under_softmax", &row.under_softmax)?);
        let mut products = Products { shapes: Vec::new(), windows: rate("windows", &row.windows)? };
        for shape in &row.products {
            let place = place("products");
            products.shapes.push(ShapeRate {
                dtype: dtype(&place, &shape.dtype)?,
                side: f64::from(shape.side),
                points: f64::from(shape.points),
                rate: positive(&place, &shape.rate, FLOPS)?,
            });
        }
        let engines = row.engines.map(|n| self::count(&place("engines"), n)).transpose()?;
        let mut members = Vec::new();
        for n in 0..count {
            let name = if row.count.is_some() { format!("{}{n}", row.name) } else { row.name.clone() };
            let id = DeviceId(self.devices.len() as u16);
            if self.names.insert(name.clone(), id).is_some() {
                return Err(MachineError::SameName { what: "device", name });
            }
            members.push(id);
            self.devices.push(Device {
                name,
                kind,
                memory: Bytes(memory as u64),
                flops: flops.clone(),
                memory_bandwidth,
                launch: Seconds(launch),
                free_elementwise: row.free_elementwise,
                elements,
                under_softmax,
                prefers: row.prefers.clone(),
                products: products.clone(),
                engines,
            });
        }
        self.groups.insert(row.name.clone(), members);
        Ok(())
    }

    fn named_resource(&mut self, row: &ResourceRow) -> Result<(), MachineError> {
        let bandwidth = positive(&format!("bandwidth of resource `{}`", row.name), &row.bandwidth, BANDWIDTH)?;
        if self.resource_names.contains_key(&row.name) {
            return Err(MachineError::SameName { what: "resource", name: row.name.clone() });
        }
        self.resource(row.name.clone(), bandwidth);
        Ok(())
    }

    /// The resource of this name, made if need be.
    fn resource(&mut self, name: String, bandwidth: f64) -> usize {
        if let Some(&known) = self.resource_names.get(&name) {
            return known;
        }
        self.resource_names.insert(name.clone(), self.resources.len());
        self.resources.push(Resource { name, bandwidth });
        self.resources.len() - 1
    }

    /// The devices that selectors name, in their order.
    fn select(&self, place: &str, selectors: &[String]) -> Result<Vec<DeviceId>, MachineError> {
        let mut found = Vec::new();
        for s in selectors {
            let devices = self.one_selector(s).ok_or_else(|| MachineError::Unknown {
                place: place.into(),
                found: s.clone(),
                known: self.known(),
            })?;
            for d in devices {
                if found.contains(&d) {
                    return Err(MachineError::Repeated { place: place.into(), device: self.name(d) });
                }
                found.push(d);
            }
        }
        Ok(found)
    }

    fn one_selector(&self, text: &str) -> Option<Vec<DeviceId>> {
        if let Some(d) = self.names.get(text) {
            return Some(vec![*d]);
        }
        if let Some(group) = self.groups.get(text) {
            return Some(group.clone());
        }
        let (first, last) = text.split_once('-')?;
        let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
        let (lo, hi): (usize, usize) = (first[stem.len()..].parse().ok()?, last.parse().ok()?);
        let members = self.groups.get(stem)?;
        members.get(lo..=hi).filter(|m| !m.is_empty()).map(<[_]>::to_vec)
    }

    fn known(&self) -> String {
        let groups = self.groups.iter().map(|(name, members)| match members.as_slice() {
            [one] if self.name(*one) == *name => name.clone(),
            many => format!("{name} ({name}0 to {name}{})", many.len().saturating_sub(1)),
        });
        groups.collect::<Vec<_>>().join(", ")
    }

    fn switches(&mut self, rows: &[SwitchRow]) -> Result<(), MachineError> {
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for (n, row) in rows.iter().enumerate() {
            check_name("switch", &row.name)?;
            if by_name.insert(&row.name, n).is_some() {
                return Err(MachineError::SameName { what: "switch", name: row.name.clone() });
            }
        }
        let chains = rows.iter().map(|row| chain(row, rows, &by_name)).collect::<Result<Vec<_>, _>>()?;
        let mut latencies = Vec::new();
        let mut attached: Vec<(usize, DeviceId, f64)> = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            let place = |what: &str| format!("{what} of switch `{}`", row.name);
            let latency = row.latency.as_deref();
            latencies.push(latency.map_or(Ok(0.0), |t| not_negative(&place("latency"), t, DURATION))?);
            let refuse = |reason: &str| Err(MachineError::Switch { name: row.name.clone(), reason: reason.into() });
            if !row.across.is_empty() {
                if !row.devices.is_empty() || row.parent.is_some() {
                    return refuse("`across` excludes `devices` and `parent`");
                }
                self.across(row, latencies[n])?;
                continue;
            }
            if row.shared.is_some() {
                return refuse("`shared` needs `across`; `parent` and `uplink` share one link of a whole switch");
            }
            let devices = self.select(&format!("devices of switch `{}`", row.name), &row.devices)?;
            let Some(port) = &row.port else {
                if devices.is_empty() {
                    continue;
                }
                return refuse("it has devices but no `port`, the bandwidth of each of them, each way");
            };
            let port = positive(&place("port"), port, BANDWIDTH)?;
            attached.extend(devices.into_iter().map(|d| (n, d, port)));
        }
        let uplinks = rows
            .iter()
            .map(|row| {
                row.uplink
                    .as_deref()
                    .map_or(Ok(0.0), |t| positive(&format!("uplink of switch `{}`", row.name), t, BANDWIDTH))
            })
            .collect::<Result<Vec<_>, _>>()?;
        for &(s, from, out) in &attached {
            for &(t, to, into) in &attached {
                if from == to {
                    continue;
                }
                let Some(top) = chains[s].iter().find(|n| chains[t].contains(n)) else { continue };
                let up: Vec<usize> = chains[s].iter().copied().take_while(|n| n != top).collect();
                let down: Vec<usize> = chains[t].iter().copied().take_while(|n| n != top).collect();
                let mut resources = vec![self.resource(format!("{}.{}.out", rows[s].name, self.name(from)), out)];
                resources.extend(up.iter().map(|&n| self.resource(format!("{}.up", rows[n].name), uplinks[n])));
                resources
                    .extend(down.iter().rev().map(|&n| self.resource(format!("{}.down", rows[n].name), uplinks[n])));
                resources.push(self.resource(format!("{}.{}.in", rows[t].name, self.name(to)), into));
                let crossed = up.iter().chain(&down).chain([top]);
                let latency = Seconds(crossed.map(|&n| latencies[n]).sum());
                let place = format!("switch `{}`", rows[*top].name);
                self.links.push((Link { from, to, resources, latency }, place));
            }
        }
        Ok(())
    }

    fn across(&mut self, row: &SwitchRow, latency: f64) -> Result<(), MachineError> {
        let place = |what: &str| format!("{what} of switch `{}`", row.name);
        let rate = |text: &Option<String>, what: &str| {
            text.as_deref().map(|t| positive(&place(what), t, BANDWIDTH)).transpose()
        };
        let (port, shared) = (rate(&row.port, "port")?, rate(&row.shared, "shared")?);
        if port.is_none() && shared.is_none() {
            let reason = "`across` needs `port` (of each device), `shared` (of each list), or both".into();
            return Err(MachineError::Switch { name: row.name.clone(), reason });
        }
        let lists = row.across.iter().map(|list| self.select(&place("across"), list)).collect::<Result<Vec<_>, _>>()?;
        for (n, list) in lists.iter().enumerate() {
            if let Some(&d) = list.iter().find(|d| lists[..n].iter().any(|l| l.contains(d))) {
                return Err(MachineError::Repeated { place: place("across"), device: self.name(d) });
            }
        }
        for (a, senders) in lists.iter().enumerate() {
            for (b, receivers) in lists.iter().enumerate().filter(|(b, _)| *b != a) {
                for &from in senders {
                    for &to in receivers {
                        let s = &row.name;
                        let (out, into) = (self.name(from), self.name(to));
                        let mut resources = Vec::new();
                        resources.extend(port.map(|p| self.resource(format!("{s}.{out}.out"), p)));
                        resources.extend(shared.map(|p| self.resource(format!("{s}.list{a}.out"), p)));
                        resources.extend(shared.map(|p| self.resource(format!("{s}.list{b}.in"), p)));
                        resources.extend(port.map(|p| self.resource(format!("{s}.{into}.in"), p)));
                        let link = Link { from, to, resources, latency: Seconds(latency) };
                        self.links.push((link, format!("switch `{s}`")));
                    }
                }
            }
        }
        Ok(())
    }

    fn cables(&mut self, row: &CableRow) -> Result<(), MachineError> {
        for (a, b) in &row.pairs {
            let place = format!("cable {a}\u{2013}{b}");
            let (from, to) = (self.device(&place, a)?, self.device(&place, b)?);
            if from == to {
                return Err(MachineError::Loop { place, device: a.clone() });
            }
            let bandwidth = positive(&format!("bandwidth of {place}"), &row.bandwidth, BANDWIDTH)?;
            let latency = row.latency.as_deref();
            let latency = latency.map_or(Ok(0.0), |t| not_negative(&format!("latency of {place}"), t, DURATION))?;
            let (there, back) = (format!("{a}>{b}"), format!("{b}>{a}"));
            let (there, back) = match row.duplex.as_deref().unwrap_or("full") {
                "full" => (self.resource(there, bandwidth), Some(self.resource(back, bandwidth))),
                "half" => {
                    let both = self.resource(format!("{a}={b}"), bandwidth);
                    (both, Some(both))
                }
                "one-way" => (self.resource(there, bandwidth), None),
                other => {
                    let (place, known) = (format!("duplex of {place}"), "full, half and one-way".into());
                    return Err(MachineError::Unknown { place, found: other.into(), known });
                }
            };
            let link = |from, to, r| Link { from, to, resources: vec![r], latency: Seconds(latency) };
            self.links.push((link(from, to, there), place.clone()));
            self.links.extend(back.map(|r| (link(to, from, r), place)));
        }
        Ok(())
    }

    fn link_row(&mut self, row: &LinkRow) -> Result<(), MachineError> {
        let place = format!("link {}>{}", row.from, row.to);
        let (from, to) = (self.device(&place, &row.from)?, self.device(&place, &row.to)?);
        if from == to {
            return Err(MachineError::Loop { place, device: row.from.clone() });
        }
        let mut resources = Vec::new();
        for name in &row.resources {
            let found = self.resource_names.get(name).copied();
            resources.push(found.ok_or_else(|| MachineError::Unknown {
                place: format!("resources of {place}"),
                found: name.clone(),
                known: self.resource_names.keys().cloned().collect::<Vec<_>>().join(", "),
            })?);
        }
        let latency = row.latency.as_deref();
        let latency = latency.map_or(Ok(0.0), |t| not_negative(&format!("latency of {place}"), t, DURATION))?;
        self.links.push((Link { from, to, resources, latency: Seconds(latency) }, place));
        Ok(())
    }

    fn device(&self, place: &str, name: &str) -> Result<DeviceId, MachineError> {
        self.names.get(name).copied().ok_or_else(|| MachineError::Unknown {
            place: place.into(),
            found: name.into(),
            known: self.known(),
        })
    }
}

/// A switch and those above it, from below.
fn chain(row: &SwitchRow, rows: &[SwitchRow], by_name: &BTreeMap<&str, usize>) -> Result<Vec<usize>, MachineError> {
    let mut chain = vec![by_name[row.name.as_str()]];
    let mut at = row;
    loop {
        let refuse = |reason: String| MachineError::Switch { name: at.name.clone(), reason };
        match (&at.parent, &at.uplink) {
            (None, None) => return Ok(chain),
            (Some(_), None) => return Err(refuse("`parent` needs `uplink`, the bandwidth to it, each way".into())),
            (None, Some(_)) => return Err(refuse("`uplink` needs `parent`, the switch it leads to".into())),
            (Some(parent), Some(_)) => {
                let known = || rows.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", ");
                let up = *by_name.get(parent.as_str()).ok_or_else(|| MachineError::Unknown {
                    place: format!("parent of switch `{}`", at.name),
                    found: parent.clone(),
                    known: known(),
                })?;
                if chain.contains(&up) {
                    return Err(refuse(format!("its parents lead back to `{}`", rows[up].name)));
                }
                if !rows[up].across.is_empty() {
                    return Err(refuse(format!("its parent `{parent}` has `across`; only plain switches make a tree")));
                }
                chain.push(up);
                at = &rows[up];
            }
        }
    }
}

fn quantity(place: &str, text: &str, kind: Quantity) -> Result<f64, MachineError> {
    let refuse = || MachineError::Quantity { place: place.into(), text: text.into(), expected: kind.expected };
    kind.parse(text).filter(|v| v.is_finite()).ok_or_else(refuse)
}

fn positive(place: &str, text: &str, kind: Quantity) -> Result<f64, MachineError> {
    let found = quantity(place, text, kind)?;
    if found > 0.0 { Ok(found) } else { Err(MachineError::NotPositive { place: place.into(), found }) }
}

fn not_negative(place: &str, text: &str, kind: Quantity) -> Result<f64, MachineError> {
    let found = quantity(place, text, kind)?;
    if found >= 0.0 { Ok(found) } else { Err(MachineError::Negative { place: place.into(), found }) }
}

fn check_name(what: &'static str, name: &str) -> Result<(), MachineError> {
    let mut chars = name.chars();
    let good =
        chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if good { Ok(()) } else { Err(MachineError::Name { what, name: name.into() }) }
}

/// The parser's complaint on one line, with its place.
fn syntax(text: &str, error: &toml::de::Error) -> MachineError {
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    let place =
        error.span().filter(|s| s.start > 0).and_then(|s| text.get(..s.start)).map_or(String::new(), |before| {
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            format!("line {line}, column {column}: ")
        });
    MachineError::Syntax { reason: format!("{place}{message}") }
}
