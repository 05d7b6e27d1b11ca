//! From facts to a machine.

use super::error::DetectError;
use super::facts::{Bus, Facts, Gpu, Pair};
use super::figures::{Figures, figures, nvlink, pcie};
use super::tree::{Place, tree};
use ein_task::machine::{DeviceId, DeviceSet, Link, Machine, Resource};
use ein_task::units::Seconds;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A machine and its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Detected {
    /// The machine.
    pub machine: Machine,
    /// The file, with what was found, what was assumed and where rates come from in comments.
    pub text: String,
}

/// What no driver tells: assumed, of the usual size.
const ASSUMED: &str = "\
# Assumed, because no driver tells it, and to be replaced by measured figures: launch, issue and latencies; copies
# over PCIe at four fifths of what its lanes carry; 40 GB/s between sockets; 100 GB/s of the host's memory.
";
const NVLINK_LATENCY: &str = "3 us";
const SWITCH_LATENCY: &str = "5 us";
const HOST_LATENCY: &str = "8 us";
const BRIDGE_LATENCY: &str = "3 us";
const SOCKETS: f64 = 40.0;
const HOST: f64 = 100.0;

/// The machine that `facts` tell of: its GPUs, and the host, over which those reach each other that have no other way.
///
/// Two GPUs get a direct link only if each may read and write the other's memory.
///
/// # Errors
///
/// No GPU, only divided ones, or one without figures.
pub fn describe(facts: &Facts) -> Result<Detected, DetectError> {
    if facts.gpus.is_empty() {
        return Err(DetectError::NoGpu { driver: facts.driver.clone() });
    }
    let found = Found::new(facts)?;
    let mut text = found.comments();
    let devices = found.devices();
    let all = found.pairs(|_| true);
    let over_nvlink: BTreeSet<_> = found.cables.keys().copied().chain(found.switched.pairs()).collect();
    let over_pcie: BTreeSet<_> = found.pairs(|p| p.peers).difference(&over_nvlink).copied().collect();
    if over_nvlink.is_empty() && over_pcie == all {
        text += &(devices + &found.tree_rows());
    } else if over_pcie.is_empty() {
        text += &(devices + &found.nvlink_rows() + &found.host_rows());
    } else {
        let tree = Machine::parse(&(devices + &found.tree_rows()))?;
        text += &found.mixed(tree, &over_pcie)?.to_text();
    }
    let machine = Machine::parse(&text)?;
    Ok(Detected { machine, text })
}

/// The GPUs on an NVSwitch, and what each sends and receives, in GB/s.
#[derive(Default)]
struct Switched {
    gpus: Vec<usize>,
    port: f64,
}

impl Switched {
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let upper = move |n: usize| self.gpus[n + 1..].iter().map(move |&b| (self.gpus[n], b));
        (0..self.gpus.len()).flat_map(upper)
    }
}

/// The GPUs that can be used, renumbered, and how they are joined.
struct Found<'a> {
    facts: &'a Facts,
    gpus: Vec<&'a Gpu>,
    figures: Vec<Figures>,
    pairs: BTreeMap<(usize, usize), Pair>,
    /// NVLinks from GPU to GPU: GB/s each way.
    cables: BTreeMap<(usize, usize), f64>,
    switched: Switched,
    tree: Vec<Place>,
    /// Remarks on what was found.
    remarks: Vec<String>,
}

impl<'a> Found<'a> {
    fn new(facts: &'a Facts) -> Result<Self, DetectError> {
        let mut remarks = Vec::new();
        let whole: Vec<usize> = (0..facts.gpus.len()).filter(|&n| !facts.gpus[n].instances).collect();
        if whole.is_empty() {
            return Err(DetectError::OnlyInstances);
        }
        if whole.len() >= DeviceSet::MAX {
            return Err(DetectError::TooMany { found: whole.len(), most: DeviceSet::MAX });
        }
        for gpu in facts.gpus.iter().filter(|g| g.instances) {
            remarks.push(format!("left out: {} at {}, which is in MIG mode", gpu.name, gpu.bus));
        }
        let gpus: Vec<&Gpu> = whole.iter().map(|&n| &facts.gpus[n]).collect();
        let figures: Vec<Figures> = gpus
            .iter()
            .map(|g| figures(g).ok_or_else(|| DetectError::NoFigures { name: g.name.clone() }))
            .collect::<Result<_, _>>()?;
        let position = |n: usize| whole.binary_search(&n).ok();
        let pairs: BTreeMap<(usize, usize), Pair> =
            facts.pairs.iter().filter_map(|p| Some(((position(p.first)?, position(p.second)?), *p))).collect();
        let all: BTreeSet<Bus> = facts.gpus.iter().map(|g| g.bus).collect();
        let cables = cables(&gpus, &pairs);
        let switched = switched(&gpus, &pairs, &all, &mut remarks);
        let ancestor = |a: usize, b: usize| pairs.get(&(a, b)).and_then(|p| p.ancestor);
        let tree = tree(gpus.len(), &ancestor);
        Ok(Self { facts, gpus, figures, pairs, cables, switched, tree, remarks })
    }

    fn pairs(&self, keep: impl Fn(&Pair) -> bool) -> BTreeSet<(usize, usize)> {
        self.pairs.iter().filter(|(_, p)| keep(p)).map(|(ab, _)| *ab).collect()
    }

    fn comments(&self) -> String {
        let mut out = format!("# Detected by `ein machine detect`: NVIDIA driver {}.\n", self.facts.driver);
        for (n, gpu) in self.gpus.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "# gpu{n}: {} at {}", gpu.name, gpu.bus);
        }
        let sources: BTreeSet<(&str, &str)> =
            self.gpus.iter().zip(&self.figures).map(|(g, f)| (g.name.as_str(), f.source)).collect();
        for (name, source) in sources {
            let _ = writeln!(out, "# Rates of {name}: {source}.");
        }
        let apart: Vec<String> = self.pairs(|p| !p.peers).into_iter().map(|(a, b)| format!("{a}\u{2013}{b}")).collect();
        if !apart.is_empty() {
            let _ = writeln!(out, "# No peer access between GPUs {}: no direct link.", apart.join(", "));
        }
        for remark in &self.remarks {
            let _ = writeln!(out, "# {remark}.");
        }
        out + ASSUMED
    }

    /// Name, issue, GPUs, host.
    fn devices(&self) -> String {
        let mut out = "name = \"cuda\"\nissue = \"1 us\"\n".to_owned();
        let rows: Vec<String> = self.gpus.iter().zip(&self.figures).map(|(gpu, f)| rates(gpu, f)).collect();
        if self.alike() {
            let _ = write!(out, "\n[[devices]]\nname = \"gpu\"\ncount = {}\n{}", rows.len(), rows[0]);
        } else {
            for (n, row) in rows.iter().enumerate() {
                let _ = write!(out, "\n[[devices]]\nname = \"gpu{n}\"\n{row}");
            }
        }
        let memory = self.facts.host.0 >> 20;
        let _ = write!(
            out,
            "\n[[devices]]\nname = \"host\"\nkind = \"host\"\nmemory = \"{memory} MiB\"\nmemory_bandwidth = \"{HOST} GB/s\"\n"
        );
        out
    }

    /// Whether one group of devices says all.
    fn alike(&self) -> bool {
        let of = |n: usize| (self.gpus[n].memory, self.figures[n]);
        (1..self.gpus.len()).all(|n| of(n) == of(0))
    }

    /// `"gpu0-3"` where one group says all and they stand in a row, else every one by name.
    fn selected(&self, gpus: &[usize]) -> String {
        let row = gpus.windows(2).all(|w| w[1] == w[0] + 1);
        match gpus {
            [first, .., last] if row && self.alike() => format!("\"gpu{first}-{last}\""),
            _ => gpus.iter().map(|n| format!("\"gpu{n}\"")).collect::<Vec<_>>().join(", "),
        }
    }

    fn nvlink_rows(&self) -> String {
        let mut out = String::new();
        let Switched { gpus, port } = &self.switched;
        if !gpus.is_empty() {
            let devices = self.selected(gpus);
            let _ = write!(
                out,
                "\n[[switches]]\nname = \"nvswitch\"\ndevices = [{devices}]\nport = \"{port} GB/s\"\nlatency = \"{NVLINK_LATENCY}\"\n"
            );
        }
        let mut widths: Vec<f64> = self.cables.values().copied().collect();
        widths.sort_by(f64::total_cmp);
        widths.dedup();
        for width in widths {
            let _ = writeln!(out, "\n[[cables]]\npairs = [");
            for (a, b) in self.cables.iter().filter(|c| *c.1 == width).map(|c| c.0) {
                let _ = writeln!(out, "  [\"gpu{a}\", \"gpu{b}\"],");
            }
            let _ = write!(out, "]\nbandwidth = \"{width} GB/s\"\nlatency = \"{NVLINK_LATENCY}\"\n");
        }
        out
    }

    /// Every GPU's way to the host, those of one PCIe switch over its uplink; none from GPU to GPU.
    fn host_rows(&self) -> String {
        let tops = self.tree.iter().flat_map(|place| match place {
            Place::Socket(below) => below.clone(),
            Place::Gpu(_) | Place::Switch(_) => vec![place.clone()],
        });
        let mut out = String::new();
        for (n, place) in tops.enumerate() {
            let gpus = place.gpus();
            let (devices, port) = (self.selected(&gpus), self.port(&gpus));
            let shared = if gpus.len() > 1 { format!("shared = \"{port} GB/s\"\n") } else { String::new() };
            let _ = write!(
                out,
                "\n[[switches]]\nname = \"pcie{n}\"\nacross = [[{devices}], [\"host\"]]\nport = \"{port} GB/s\"\n{shared}latency = \"{HOST_LATENCY}\"\n"
            );
        }
        out
    }

    /// The PCIe tree with the host at its root.
    fn tree_rows(&self) -> String {
        let mut rows = Vec::new();
        let direct = self.place_rows(&self.tree, "root", &mut rows);
        let latency = if rows.is_empty() { SWITCH_LATENCY } else { BRIDGE_LATENCY };
        let mut out = rows.concat();
        if direct.is_empty() {
            let _ = write!(
                out,
                "\n[[switches]]\nname = \"root\"\ndevices = [\"host\"]\nport = \"{HOST} GB/s\"\nlatency = \"{latency}\"\n"
            );
            return out;
        }
        // A switch has one width of port; the host's is wider than a GPU's, so it gets a switch of its own.
        let (devices, port) = (self.selected(&direct), self.port(&direct));
        let _ = write!(
            out,
            "\n[[switches]]\nname = \"root\"\ndevices = [{devices}]\nport = \"{port} GB/s\"\nlatency = \"{latency}\"\n\
             \n[[switches]]\nname = \"memory\"\ndevices = [\"host\"]\nport = \"{HOST} GB/s\"\nparent = \"root\"\nuplink = \"{HOST} GB/s\"\n"
        );
        out
    }

    /// Writes the switches among `places`, outer ones last, and returns the GPUs among them.
    fn place_rows(&self, places: &[Place], parent: &str, rows: &mut Vec<String>) -> Vec<usize> {
        let mut direct = Vec::new();
        for place in places {
            let (below, stem, uplink, latency) = match place {
                Place::Gpu(n) => {
                    direct.push(*n);
                    continue;
                }
                Place::Switch(below) => (below, "pcie", self.port(&place.gpus()), SWITCH_LATENCY),
                Place::Socket(below) => (below, "socket", SOCKETS, "0 us"),
            };
            let name = format!("{stem}{}", rows.len());
            // Its place is kept before those below it take theirs, so that no name comes twice.
            let at = rows.len();
            rows.push(String::new());
            let inside = self.place_rows(below, &name, rows);
            let mut row = format!("\n[[switches]]\nname = \"{name}\"\n");
            if !inside.is_empty() {
                let (devices, port) = (self.selected(&inside), self.port(&inside));
                let _ = write!(row, "devices = [{devices}]\nport = \"{port} GB/s\"\n");
            }
            let _ = write!(row, "latency = \"{latency}\"\nparent = \"{parent}\"\nuplink = \"{uplink} GB/s\"\n");
            rows[at] = row;
        }
        direct
    }

    /// The narrowest PCIe port among `gpus`, in GB/s: a switch has one width.
    fn port(&self, gpus: &[usize]) -> f64 {
        gpus.iter().map(|&n| pcie(self.gpus[n].pcie)).fold(f64::INFINITY, f64::min)
    }

    /// The tree without the links that are not there, and with the NVLinks.
    fn mixed(&self, tree: Machine, over_pcie: &BTreeSet<(usize, usize)>) -> Result<Machine, DetectError> {
        let mut machine = tree;
        let host = self.gpus.len();
        let there = |l: &Link| {
            let (a, b) = (l.from.index().min(l.to.index()), l.from.index().max(l.to.index()));
            b == host || over_pcie.contains(&(a, b))
        };
        machine.links.retain(there);
        let latency = Seconds(3e-6);
        let add = |machine: &mut Machine, a: usize, b: usize, resources: Vec<usize>| {
            let (from, to) = (DeviceId(a as u16), DeviceId(b as u16));
            machine.links.push(Link { from, to, resources, latency });
        };
        for (&(a, b), width) in &self.cables {
            for (a, b) in [(a, b), (b, a)] {
                machine.resources.push(Resource { name: format!("gpu{a}>gpu{b}"), bandwidth: width * 1e9 });
                let resource = machine.resources.len() - 1;
                add(&mut machine, a, b, vec![resource]);
            }
        }
        let mut ports = BTreeMap::new();
        for &gpu in &self.switched.gpus {
            for way in ["out", "in"] {
                ports.insert((gpu, way), machine.resources.len());
                let name = format!("nvswitch.gpu{gpu}.{way}");
                machine.resources.push(Resource { name, bandwidth: self.switched.port * 1e9 });
            }
        }
        for (a, b) in self.switched.pairs() {
            for (a, b) in [(a, b), (b, a)] {
                add(&mut machine, a, b, vec![ports[&(a, "out")], ports[&(b, "in")]]);
            }
        }
        machine.links.sort_by_key(|l| (l.from, l.to));
        machine.check()?;
        Ok(machine)
    }
}

/// Kind, memory and rates of a GPU, as a file's keys.
fn rates(gpu: &Gpu, f: &Figures) -> String {
    let bf16 = if f.bf16 { format!("bf16 = \"{} TFLOP/s\", ", f.half) } else { String::new() };
    format!(
        "kind = \"gpu\"\nmemory = \"{} MiB\"\nmemory_bandwidth = \"{} GB/s\"\n\
         flops = {{ {bf16}f16 = \"{} TFLOP/s\", f32 = \"{} TFLOP/s\", f64 = \"{} TFLOP/s\" }}\nlaunch = \"2 us\"\n",
        gpu.memory.0 >> 20,
        f.memory,
        f.half,
        f.single,
        f.double
    )
}

/// GB/s each way between GPUs that NVLinks join without a switch.
fn cables(gpus: &[&Gpu], pairs: &BTreeMap<(usize, usize), Pair>) -> BTreeMap<(usize, usize), f64> {
    let toward = |a: usize, b: usize| gpus[a].links.iter().filter(|l| l.remote == gpus[b].bus).map(nvlink).sum::<f64>();
    let peers = pairs.iter().filter(|(_, p)| p.peers).map(|(ab, _)| *ab);
    peers.map(|(a, b)| ((a, b), toward(a, b).min(toward(b, a)))).filter(|(_, width)| *width > 0.0).collect()
}

/// The GPUs that an NVSwitch joins. Links that lead to no GPU lead to a switch, or to a processor: the driver then
/// does not say that the GPUs are peers over NVLink.
fn switched(
    gpus: &[&Gpu],
    pairs: &BTreeMap<(usize, usize), Pair>,
    all: &BTreeSet<Bus>,
    remarks: &mut Vec<String>,
) -> Switched {
    let port = |n: usize| gpus[n].links.iter().filter(|l| !all.contains(&l.remote)).map(nvlink).sum::<f64>();
    let on: Vec<usize> = (0..gpus.len()).filter(|&n| port(n) > 0.0).collect();
    let joined = |a: usize, b: usize| pairs.get(&(a, b)).is_some_and(|p| p.peers && p.nvlink);
    let candidate = Switched { port: on.iter().map(|&n| port(n)).fold(f64::INFINITY, f64::min), gpus: on };
    if candidate.gpus.len() < 2 {
        return Switched::default();
    }
    if candidate.pairs().all(|(a, b)| joined(a, b)) {
        return candidate;
    }
    remarks.push(
        "NVLinks lead to a switch, but the driver does not make all its GPUs peers over it (is the fabric manager \
         running?): not used"
            .into(),
    );
    Switched::default()
}
