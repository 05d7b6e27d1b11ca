//! Machines from facts that were written down, as the driver tells them of well-known servers.

use super::*;
use ein_ir::dtype::DType;
use ein_task::machine::{DeviceId, DeviceKind, Machine};
use ein_task::units::Bytes;

const GIB: u64 = 1 << 30;

fn bus(n: usize) -> Bus {
    Bus { domain: 0, bus: 16 * n as u32 + 7, device: 0 }
}

/// A chip behind an NVSwitch.
fn switch(n: u32) -> Bus {
    Bus { domain: 8, bus: n, device: 0 }
}

fn gpu(n: usize, name: &str, gib: u64, generation: u32) -> Gpu {
    Gpu {
        name: name.into(),
        bus: bus(n),
        memory: Bytes(gib * GIB),
        links: Vec::new(),
        pcie: Some(Pcie { generation, width: 16 }),
        instances: false,
        chip: Chip::default(),
    }
}

/// GPUs and, for each pair, what `of` says: ancestor, peers, peers over NVLink.
fn facts(gpus: Vec<Gpu>, of: impl Fn(usize, usize) -> (Ancestor, bool, bool)) -> Facts {
    let mut pairs = Vec::new();
    for first in 0..gpus.len() {
        for second in first + 1..gpus.len() {
            let (ancestor, peers, nvlink) = of(first, second);
            pairs.push(Pair { first, second, ancestor: Some(ancestor), peers, nvlink });
        }
    }
    Facts { driver: "550.54".into(), host: Bytes(1024 * GIB), gpus, pairs }
}

fn links(remotes: impl IntoIterator<Item = Bus>, version: u32) -> Vec<NvLink> {
    remotes.into_iter().map(|remote| NvLink { remote, version: Some(version), speed: None }).collect()
}

/// Pairs of one PCIe switch, fours of one socket.
fn twos(a: usize, b: usize) -> Ancestor {
    match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => Ancestor::Switch,
        (_, true) => Ancestor::Bridge,
        _ => Ancestor::System,
    }
}

fn dgx_a100() -> Facts {
    let gpus = (0..8)
        .map(|n| Gpu { links: links((0..12).map(|l| switch(l / 2)), 4), ..gpu(n, "NVIDIA A100-SXM4-40GB", 40, 4) });
    facts(gpus.collect(), |a, b| (twos(a, b), true, true))
}

fn dgx_1v() -> Facts {
    let single = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)];
    let double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];
    let joined = move |a: usize, b: usize| {
        let is = |&(x, y): &(usize, usize)| (x, y) == (a.min(b), a.max(b));
        usize::from(single.iter().any(is)) + 2 * usize::from(double.iter().any(is))
    };
    let gpus = (0..8).map(|n| {
        let remotes = (0..8).flat_map(|other| vec![bus(other); joined(n, other)]);
        Gpu { links: links(remotes, 2), ..gpu(n, "Tesla V100-SXM2-16GB", 16, 3) }
    });
    facts(gpus.collect(), |a, b| (twos(a, b), joined(a, b) > 0, joined(a, b) > 0))
}

/// Two PCIe switches of four, at one root; `peers` says which pairs are.
fn pcie_8(peers: impl Fn(usize, usize) -> bool) -> Facts {
    let gpus = (0..8).map(|n| gpu(n, "NVIDIA L40S", 48, 4)).collect();
    facts(gpus, |a, b| (if a / 4 == b / 4 { Ancestor::Switches } else { Ancestor::Socket }, peers(a, b), false))
}

fn detected(facts: &Facts) -> Detected {
    let detected = describe(facts).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(Machine::parse(&detected.text).as_ref(), Ok(&detected.machine));
    detected
}

/// Bandwidth in GB/s and the resources of a link, or nothing.
fn link(machine: &Machine, from: u16, to: u16) -> Option<(f64, String)> {
    let link = machine.link(DeviceId(from), DeviceId(to))?;
    let names: Vec<&str> = link.resources.iter().map(|&r| machine.resources[r].name.as_str()).collect();
    Some((machine.bandwidth(link) / 1e9, names.join(" ")))
}

fn way(bandwidth: f64, names: &str) -> (f64, String) {
    (bandwidth, names.into())
}

/// The GPUs of a machine are joined as those of one that ships.
fn like(found: &Machine, preset: &str, tolerance: f64) {
    let known = Machine::by_name(preset).unwrap();
    let gpus = |m: &Machine| m.devices.iter().filter(|d| d.kind == DeviceKind::Gpu).count();
    assert_eq!(gpus(found), gpus(&known), "{preset}");
    for a in 0..gpus(found) {
        for t in [DType::BF16, DType::F16, DType::F32, DType::F64] {
            assert_eq!(found.devices[a].rate(t), known.devices[a].rate(t), "{preset}: {t} of {a}");
        }
        assert_eq!(found.devices[a].memory_bandwidth, known.devices[a].memory_bandwidth, "{preset}");
        for b in 0..gpus(found) {
            let width = |m: &Machine| link(m, a as u16, b as u16).map_or(0.0, |l| l.0);
            let (ours, theirs) = (width(found), width(&known));
            assert!((ours - theirs).abs() <= tolerance * theirs, "{preset}: {ours} and {theirs} from {a} to {b}");
        }
    }
}

#[test]
fn a_dgx_a100_is_eight_gpus_on_a_switch() {
    let Detected { machine, text } = detected(&dgx_a100());
    like(&machine, "8xa100", 0.0);
    assert_eq!(link(&machine, 0, 7), Some(way(300.0, "nvswitch.gpu0.out nvswitch.gpu7.in")));
    // Two GPUs share the way to the host.
    assert_eq!(link(&machine, 2, 8), Some(way(25.2, "pcie1.gpu2.out pcie1.list0.out pcie1.list1.in pcie1.host.in")));
    assert_eq!(link(&machine, 3, 8), Some(way(25.2, "pcie1.gpu3.out pcie1.list0.out pcie1.list1.in pcie1.host.in")));
    for said in
        ["count = 8", "# gpu7: NVIDIA A100-SXM4-40GB at 0000:77:00", "A100 Tensor Core GPU data sheet", "Assumed"]
    {
        assert!(text.contains(said), "`{said}` is not in\n{text}");
    }
}

#[test]
fn a_dgx_1v_is_a_cube_mesh() {
    let Detected { machine, text } = detected(&dgx_1v());
    like(&machine, "dgx-1v", 0.0);
    assert_eq!(link(&machine, 0, 5), None);
    assert_eq!(link(&machine, 5, 8).map(|l| l.0), Some(12.6));
    assert!(text.contains("No peer access between GPUs 0\u{2013}5, 0\u{2013}6, 0\u{2013}7"), "{text}");
}

#[test]
fn pcie_switches_share_their_uplinks() {
    let machine = detected(&pcie_8(|_, _| true)).machine;
    like(&machine, "pcie-8", 0.01);
    assert_eq!(link(&machine, 0, 3), Some(way(25.2, "pcie0.gpu0.out pcie0.gpu3.in")));
    assert_eq!(link(&machine, 1, 6), Some(way(25.2, "pcie0.gpu1.out pcie0.up pcie1.down pcie1.gpu6.in")));
    assert_eq!(link(&machine, 1, 8), Some(way(25.2, "pcie0.gpu1.out pcie0.up root.host.in")));
    // Switches within switches, and sockets.
    let nested = |a: usize, b: usize| match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => Ancestor::Switch,
        (_, true) => Ancestor::Switches,
        _ => Ancestor::System,
    };
    let gpus = (0..8).map(|n| gpu(n, "NVIDIA L40S", 48, 4)).collect();
    let machine = detected(&facts(gpus, |a, b| (nested(a, b), true, false))).machine;
    assert_eq!(link(&machine, 0, 1), Some(way(25.2, "pcie2.gpu0.out pcie2.gpu1.in")));
    assert_eq!(link(&machine, 0, 2), Some(way(25.2, "pcie2.gpu0.out pcie2.up pcie3.down pcie3.gpu2.in")));
    let far = "pcie2.gpu0.out pcie2.up pcie1.up socket0.up socket4.down pcie5.down pcie7.down pcie7.gpu7.in";
    assert_eq!(link(&machine, 0, 7), Some(way(25.2, far)));
}

#[test]
fn without_peer_access_the_host_relays() {
    let two = || vec![gpu(0, "NVIDIA L40S", 48, 4), gpu(1, "NVIDIA L40S", 48, 4)];
    let machine = detected(&facts(two(), |_, _| (Ancestor::Switch, false, false))).machine;
    assert_eq!(link(&machine, 0, 1), None);
    assert_eq!(machine.path(DeviceId(0), DeviceId(1)), Some(vec![DeviceId(0), DeviceId(2), DeviceId(1)]));
    // Within the switches, but not from one to the other.
    let machine = detected(&pcie_8(|a, b| a / 4 == b / 4)).machine;
    assert_eq!(link(&machine, 0, 3), Some(way(25.2, "pcie0.gpu0.out pcie0.gpu3.in")));
    assert_eq!(link(&machine, 3, 4), None);
    assert_eq!(link(&machine, 3, 8), Some(way(25.2, "pcie0.gpu3.out pcie0.up root.host.in")));
    let lone = detected(&facts(vec![gpu(0, "NVIDIA L40S", 48, 4)], |_, _| (Ancestor::Switch, false, false))).machine;
    assert_eq!(link(&lone, 0, 1).map(|l| l.0), Some(25.2));
}

#[test]
fn bridged_cards_have_cables_and_pcie() {
    let gpus = (0..4).map(|n| Gpu { links: links(vec![bus(n ^ 1); 12], 4), ..gpu(n, "NVIDIA A100 80GB PCIe", 80, 4) });
    let machine = detected(&facts(gpus.collect(), |a, b| (Ancestor::Bridge, true, a / 2 == b / 2))).machine;
    assert_eq!(link(&machine, 0, 1), Some(way(300.0, "gpu0>gpu1")));
    assert_eq!(link(&machine, 1, 2), Some(way(25.2, "root.gpu1.out root.gpu2.in")));
    assert_eq!(link(&machine, 1, 4), Some(way(25.2, "root.gpu1.out memory.down memory.host.in")));
}

#[test]
fn cards_may_differ() {
    let gpus = vec![gpu(0, "NVIDIA A100 80GB PCIe", 80, 4), gpu(1, "NVIDIA A10", 24, 4), gpu(2, "NVIDIA A10", 24, 3)];
    let Detected { machine, text } = detected(&facts(gpus, |_, _| (Ancestor::Bridge, true, false)));
    let rates: Vec<f64> = machine.devices.iter().map(|d| d.rate(DType::F32) / 1e12).collect();
    assert_eq!(rates, [19.5, 31.2, 31.2, 0.0]);
    assert_eq!(machine.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["gpu0", "gpu1", "gpu2", "host"]);
    // One width a switch: that of the narrowest port.
    assert_eq!(link(&machine, 0, 2), Some(way(12.6, "root.gpu0.out root.gpu2.in")));
    assert!(text.contains("Rates of NVIDIA A10: NVIDIA A10 data sheet"), "{text}");
}

#[test]
fn divided_gpus_are_left_out() {
    let mut some_divided = dgx_a100();
    some_divided.gpus[1].instances = true;
    let Detected { machine, text } = detected(&some_divided);
    assert_eq!(machine.workers().len(), 7);
    assert!(text.contains("left out: NVIDIA A100-SXM4-40GB at 0000:17:00, which is in MIG mode"), "{text}");
    assert!(text.contains("# gpu1: NVIDIA A100-SXM4-40GB at 0000:27:00"), "{text}");
    // The first one is alone at its PCIe switch now.
    assert_eq!(link(&machine, 0, 7).map(|l| l.0), Some(25.2));
    for gpu in &mut some_divided.gpus {
        gpu.instances = true;
    }
    assert_eq!(describe(&some_divided), Err(DetectError::OnlyInstances));
}

#[test]
fn a_switch_that_joins_nobody_is_not_used() {
    let mut facts = dgx_a100();
    for pair in &mut facts.pairs {
        (pair.peers, pair.nvlink) = (false, false);
    }
    let Detected { machine, text } = detected(&facts);
    assert_eq!(link(&machine, 0, 1), None);
    assert!(text.contains("fabric manager"), "{text}");
}

#[test]
fn products_that_are_not_known_are_worked_out() {
    let chip = Chip {
        capability: Some((8, 0)),
        cores: Some(6912),
        clock: Some(1410),
        memory_clock: Some(1215),
        memory_bits: Some(5120),
    };
    let check = |name: &str, chip: Chip, expected: Option<(f64, f64, bool)>| {
        let found = figures(&Gpu { chip, ..gpu(0, name, 40, 4) });
        let rounded = found.map(|f| (f.single.round(), f.memory.round(), f.bf16));
        assert_eq!(rounded, expected, "{name}");
    };
    // What an A100 tells of itself: 19.5 TFLOP/s and 1555 GB/s.
    check("NVIDIA Something New", chip, Some((19.0, 1555.0, true)));
    check("NVIDIA Something New", Chip { capability: Some((7, 0)), ..chip }, Some((19.0, 1555.0, false)));
    check("NVIDIA Something New", Chip { cores: None, ..chip }, None);
    check("NVIDIA A10", Chip::default(), Some((31.0, 600.0, true)));
    // Not one of the known products, though their names begin it.
    check("NVIDIA A100X", Chip::default(), None);
    check("NVIDIA H100 80GB HBM3e-96", Chip::default(), None);
    check("Tesla T4", Chip::default(), Some((8.0, 320.0, false)));
    let unknown = facts(vec![gpu(0, "NVIDIA Something New", 8, 4)], |_, _| (Ancestor::Board, true, false));
    assert_eq!(describe(&unknown), Err(DetectError::NoFigures { name: "NVIDIA Something New".into() }));
}

#[test]
fn any_facts_make_a_machine_without_links_that_are_not_there() {
    let mut state = 11_u64;
    let mut draw = move |n: usize| {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let (mut direct, mut relayed) = (0, 0);
    for _ in 0..300 {
        let count = 1 + draw(8);
        let names = ["NVIDIA L40S", "NVIDIA A100 80GB PCIe", "Tesla V100-SXM2-16GB"];
        let mixed = draw(3) == 0;
        let mut gpus: Vec<Gpu> =
            (0..count).map(|n| gpu(n, names[if mixed { draw(3) } else { 0 }], 16, 3 + draw(3) as u32)).collect();
        for (a, gpu) in gpus.iter_mut().enumerate() {
            gpu.instances = draw(12) == 0;
            for _ in 0..draw(4) {
                let other = draw(count + 2);
                if other != a {
                    let remote = if other < count { bus(other) } else { switch(other as u32) };
                    gpu.links.push(NvLink { remote, version: [Some(2), Some(7), None][draw(3)], speed: Some(25781) });
                }
            }
        }
        let levels = [Ancestor::Switch, Ancestor::Switches, Ancestor::Bridge, Ancestor::Socket, Ancestor::System];
        let chance = 1 + draw(4);
        let drawn: Vec<(Ancestor, bool, bool)> =
            (0..count * count).map(|_| (levels[draw(5)], draw(chance) == 0, draw(2) == 0)).collect();
        let facts = facts(gpus, |a, b| drawn[a * count + b]);
        let whole: Vec<usize> = (0..count).filter(|&n| !facts.gpus[n].instances).collect();
        if whole.is_empty() {
            assert_eq!(describe(&facts), Err(DetectError::OnlyInstances));
            continue;
        }
        let machine = detected(&facts).machine;
        assert_eq!(machine.len(), whole.len() + 1);
        for pair in &facts.pairs {
            let at = |n: usize| whole.binary_search(&n).ok().map(|n| DeviceId(n as u16));
            let (Some(a), Some(b)) = (at(pair.first), at(pair.second)) else { continue };
            let linked = (machine.link(a, b).is_some(), machine.link(b, a).is_some());
            assert_eq!(linked, (pair.peers, pair.peers), "{a} and {b} in\n{}", machine.to_text());
            let relays = machine.path(a, b).map(|p| p.len() - 2);
            assert!(relays.is_some_and(|n| (n == 0) == pair.peers));
            *if pair.peers { &mut direct } else { &mut relayed } += 1;
        }
    }
    assert!(direct > 300 && relayed > 300, "{direct} pairs have a link and {relayed} have none: the test tries both");
}

#[test]
fn where_there_is_no_gpu_the_message_says_what_would_work() {
    // On a GPU server this describes it; elsewhere the message must help.
    match read().and_then(|facts| describe(&facts)) {
        Ok(found) => assert!(found.machine.len() > 1),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("driver") && text.contains("ein machine"), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
    let none = Facts { driver: "1".into(), host: Bytes(1), gpus: Vec::new(), pairs: Vec::new() };
    assert_eq!(describe(&none), Err(DetectError::NoGpu { driver: "1".into() }));
}
