//! Machines, their files and selections, as data.

use crate::describe::describe;
use crate::machine::{DeviceId, DeviceKind, Machine};
use crate::machine_error::MachineError;
use crate::rates::{ShapeRate, Turns};
use crate::units::Bytes;
use ein_ir::dtype::DType;

fn ids(numbers: &[u16]) -> Vec<DeviceId> {
    numbers.iter().map(|&n| DeviceId(n)).collect()
}

/// A file of four GPUs and what stands below.
fn four(rest: &str) -> String {
    format!(
        "name = \"four\"\n[[devices]]\nname = \"gpu\"\ncount = 4\nkind = \"gpu\"\nmemory = \"40 GB\"\n\
         memory_bandwidth = \"1 TB/s\"\nflops = {{ f32 = \"10 TFLOP/s\" }}\n{rest}"
    )
}

const SWITCH: &str = "[[switches]]\nname = \"s\"\ndevices = [\"gpu\"]\nport = \"100 GB/s\"\nlatency = \"2 us\"\n";

#[test]
fn every_shipped_machine_parses_prints_and_reads_back() {
    for name in Machine::names().into_iter().filter(|n| *n != "Nxcpu").chain(["1xcpu", "3xcpu", "16xcpu"]) {
        let machine = Machine::by_name(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(machine.name, name);
        assert_eq!(Machine::parse(&machine.to_text()).as_ref(), Ok(&machine), "{name}");
        let half = machine.first(machine.workers().len().div_ceil(2)).unwrap();
        assert_eq!(Machine::parse(&half.to_text()), Ok(half), "half of {name}");
    }
}

#[test]
fn bounds_know_the_quickest_shape() {
    let mut device = Machine::by_name("1xcpu").unwrap().devices[0].clone();
    let rate = device.rate(DType::F32);
    assert_eq!(device.fastest(DType::F32), rate);
    let of = |dtype, rate| ShapeRate { dtype, side: 32.0, points: 1e6, rate };
    device.products.shapes = vec![of(DType::F32, 0.5 * rate), of(DType::F32, 3.0 * rate), of(DType::F64, 9.0 * rate)];
    assert_eq!(device.fastest(DType::F32), 3.0 * rate);
    device.products.windows = Some(4.0 * rate);
    assert_eq!((device.fastest(DType::F32), device.rate(DType::F32)), (4.0 * rate, rate));
}

#[test]
fn shipped_machines_have_the_published_figures() {
    let check = |name: &str, devices: usize, memory: f64, bf16: f64, f32: f64, bandwidth: f64, link: f64| {
        let m = Machine::by_name(name).unwrap();
        let d = &m.devices[0];
        assert_eq!(m.workers().len(), devices, "{name}");
        assert_eq!(d.memory, Bytes(memory as u64), "{name}");
        assert_eq!((d.rate(DType::BF16), d.rate(DType::F32)), (bf16, f32), "{name}");
        assert_eq!(d.memory_bandwidth, bandwidth, "{name}");
        assert_eq!(m.bandwidth(m.link(DeviceId(0), DeviceId(1)).unwrap()), link, "{name}");
    };
    check("8xa100", 8, 40e9, 312e12, 19.5e12, 1.555e12, 300e9);
    check("8xa100-host", 8, 40e9, 312e12, 19.5e12, 1.555e12, 300e9);
    let with_host = Machine::by_name("8xa100-host").unwrap();
    assert_eq!((with_host.len(), with_host.devices[8].memory), (9, Bytes(1_000_000_000_000)));
    assert_eq!(with_host.bandwidth(with_host.link(DeviceId(8), DeviceId(3)).unwrap()), 25e9);
    check("8xa100-80", 8, 80e9, 312e12, 19.5e12, 2.039e12, 300e9);
    check("8xa100-ideal", 8, 80e9, 312e12, 312e12, 2e12, 300e9);
    check("8xh100", 8, 80e9, 989e12, 67e12, 3.35e12, 450e9);
    check("8xh200", 8, 141e9, 989e12, 67e12, 4.8e12, 450e9);
    check("dgx-1v", 8, 16e9, 15.7e12, 15.7e12, 900e9, 25e9);
    check("pcie-4", 4, 48e9, 362e12, 91.6e12, 864e9, 25e9);
    check("pcie-8", 8, 48e9, 362e12, 91.6e12, 864e9, 25e9);
    check("nvl72", 72, 186e9, 2.5e15, 80e12, 8e12, 900e9);
    check("2x8xa100", 16, 40e9, 312e12, 19.5e12, 1.555e12, 300e9);
    check("unequal", 4, 80e9, 312e12, 19.5e12, 1.935e12, 25e9);
    check("2xcpu", 2, 8.0 * 1073741824.0, 150e9, 150e9, 24e9, 5e9);
    check("4xcpu", 4, 4.0 * 1073741824.0, 75e9, 75e9, 12e9, 5e9);
}

#[test]
fn the_cube_mesh_has_six_lanes_a_gpu_and_relays() {
    let m = Machine::by_name("dgx-1v").unwrap();
    let host = DeviceId(8);
    assert_eq!(m.devices[8].name, "host");
    for gpu in 0..8 {
        let out = m.links.iter().filter(|l| l.from == DeviceId(gpu) && l.to != host);
        assert_eq!(out.map(|l| m.bandwidth(l)).sum::<f64>(), 150e9, "gpu{gpu}");
    }
    let check = |from: u16, to: u16, expected: &[u16]| {
        assert_eq!(m.path(DeviceId(from), DeviceId(to)), Some(ids(expected)), "{from} to {to}");
    };
    check(0, 0, &[0]);
    check(0, 3, &[0, 3]);
    // Over 1 (25 then 50 GB/s) and over 4 (50 then 25) and over the host (10): equal bottlenecks, lowest id.
    check(0, 5, &[0, 1, 5]);
    // Over 4 at 50 GB/s both ways.
    check(0, 7, &[0, 4, 7]);
    check(0, 6, &[0, 2, 6]);
    check(0, 8, &[0, 8]);
}

#[test]
fn links_load_what_they_share() {
    let names = |m: &Machine, from: u16, to: u16| {
        let link = m.link(DeviceId(from), DeviceId(to)).unwrap();
        let names: Vec<&str> = link.resources.iter().map(|&r| m.resources[r].name.as_str()).collect();
        format!("{} in {:.0} us", names.join(" "), link.latency.0 * 1e6)
    };
    let pcie = Machine::by_name("pcie-8").unwrap();
    assert_eq!(names(&pcie, 0, 3), "left.gpu0.out left.gpu3.in in 5 us");
    assert_eq!(names(&pcie, 1, 6), "left.gpu1.out left.up right.down right.gpu6.in in 10 us");
    let nodes = Machine::by_name("2x8xa100").unwrap();
    assert_eq!(names(&nodes, 1, 9), "network.gpu1.out network.gpu9.in in 8 us");
    assert_eq!(names(&nodes, 9, 10), "node1.gpu9.out node1.gpu10.in in 3 us");
    let text = four(
        "[[switches]]\nname = \"n\"\nacross = [[\"gpu0-1\"], [\"gpu2-3\"]]\nshared = \"50 GB/s\"\n\
        [[cables]]\npairs = [[\"gpu0\", \"gpu1\"], [\"gpu2\", \"gpu3\"]]\nbandwidth = \"10 GB/s\"\nduplex = \"half\"\n",
    );
    let shared = Machine::parse(&text).unwrap();
    assert_eq!(names(&shared, 0, 3), "n.list0.out n.list1.in in 0 us");
    assert_eq!((names(&shared, 0, 1), names(&shared, 1, 0)), ("gpu0=gpu1 in 0 us".into(), "gpu0=gpu1 in 0 us".into()));
}

#[test]
fn mistakes_are_named() {
    let check = |text: &str, expected: &str| {
        let error = Machine::parse(text).expect_err(expected).to_string();
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    };
    check(&four(&SWITCH.replace("port", "prt")), "unknown field `prt`");
    check(&four("speed = 3\n"), "unknown field `speed`");
    check("devices = []", "missing field `name`");
    check("name = \"none\"\ndevices = []", "machine `none` has no device that computes");
    check(&four("").replace("count = 4", "count = 0"), "machine `four` has no device that computes");
    check(&four("").replace("count = 4", "count = 129"), "machine `four` has 129 devices; at most 128");
    check(&four("").replace("count = 4", "count = -4"), "invalid value");
    check(
        &four("").replace("kind = \"gpu\"", "kind = \"tpu\""),
        "kind of `gpu`: `tpu` is not known; known are cpu, gpu, host",
    );
    check(&four("").replace("40 GB", "40"), "memory of `gpu`: `40` is not an amount of memory");
    check(&four("").replace("40 GB", "0 GB"), "memory of `gpu` is 0; it must be");
    check(&four("").replace("f32", "f33"), "`f33` is not known; known are f64, f32");
    check(&four("").replace("flops = { f32 = \"10 TFLOP/s\" }", ""), "`gpu0` computes but has no `flops`");
    check(&four(&SWITCH.replace("100 GB/s", "-1 GB/s")), "port of switch `s` is -1000000000; it must be");
    check(&four(&SWITCH.replace("100 GB/s", "100 Gb/s")), "`100 Gb/s` is not a bandwidth");
    check(&four(&SWITCH.replace("2 us", "-2 us")), "latency of switch `s` is -0.000002");
    check(
        &four(&SWITCH.replace("\"gpu\"", "\"gpu7\"")),
        "devices of switch `s`: `gpu7` is not known; known are gpu (gpu0 to gpu3)",
    );
    check(&four(&SWITCH.replace("\"gpu\"", "\"gpu2-9\"")), "`gpu2-9` is not known");
    check(&four(&SWITCH.replace("\"gpu\"", "\"gpu\", \"gpu1\"")), "devices of switch `s` names `gpu1` twice");
    check(&four(&SWITCH.replace("port = \"100 GB/s\"\n", "")), "switch `s`: it has devices but no `port`");
    check(&four(&format!("{SWITCH}parent = \"t\"\n")), "switch `s`: `parent` needs `uplink`");
    check(&four(&format!("{SWITCH}parent = \"t\"\nuplink = \"1 GB/s\"\n")), "parent of switch `s`: `t` is not known");
    check(&four(&format!("{SWITCH}parent = \"s\"\nuplink = \"1 GB/s\"\n")), "its parents lead back to `s`");
    let cable = "[[cables]]\npairs = [[\"gpu0\", \"gpu1\"]]\nbandwidth = \"5 GB/s\"\n";
    check(&four(&format!("{SWITCH}{cable}")), "switch `s` and cable gpu0\u{2013}gpu1 both link `gpu0` to `gpu1`");
    check(&four(&cable.replace("gpu1", "gpu0")), "cable gpu0\u{2013}gpu0 joins `gpu0` with itself");
    check(&four(&cable.replace("gpu1", "gpu9")), "cable gpu0\u{2013}gpu9: `gpu9` is not known");
    check(&four(&format!("{cable}duplex = \"both\"\n")), "`both` is not known; known are full, half and one-way");
    check(
        &four(cable),
        "nothing can move from `gpu0` to `gpu2`, not even over other devices; a link from one of \
        [gpu0, gpu1] to one of [gpu2] would join them",
    );
    let one_way = four(
        &cable.replace("[[\"gpu0\", \"gpu1\"]]", "[[\"gpu0\", \"gpu1\"], [\"gpu1\", \"gpu2\"], [\"gpu2\", \"gpu3\"]]"),
    );
    check(&format!("{one_way}duplex = \"one-way\"\n"), "nothing can move from `gpu1` to `gpu0`");
}

#[test]
fn spoiled_files_are_refused_or_read_back_and_never_panic() {
    let mut state = 7_u64;
    let mut draw = |n: usize| {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let (mut good, mut bad) = (0, 0);
    for name in ["dgx-1v", "pcie-8", "2x8xa100", "unequal"] {
        let file = Machine::file(name).unwrap();
        let lines: Vec<&str> = file.lines().filter(|l| !l.starts_with('#')).collect();
        for _ in 0..200 {
            let mut spoiled: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let (at, other) = (draw(lines.len()), draw(lines.len()));
            match draw(4) {
                0 => drop(spoiled.remove(at)),
                1 => spoiled.insert(at, lines[other].into()),
                2 => spoiled.swap(at, other),
                _ => {
                    let digit = ["0", "1", "9", "-", "18446744073709551616", "e9"][draw(6)];
                    spoiled[at] = spoiled[at].replacen(|c: char| c.is_ascii_digit(), digit, 1);
                }
            }
            match Machine::parse(&spoiled.join("\n")) {
                Ok(machine) => {
                    good += 1;
                    assert_eq!(Machine::parse(&machine.to_text()).as_ref(), Ok(&machine));
                }
                Err(error) => {
                    bad += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} were read and {bad} refused: the test tries both");
}

#[test]
fn selections_keep_relaying_hosts() {
    let dgx = Machine::by_name("dgx-1v").unwrap();
    let check = |m: &Machine, devices: &[u16], expected: &[&str]| {
        let selected = m.select(&ids(devices)).unwrap();
        assert_eq!(selected.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), expected);
        selected
    };
    let pair = check(&dgx, &[5, 0], &["gpu5", "gpu0", "host"]);
    assert_eq!(pair.name, "dgx-1v/5,0,8");
    assert_eq!(pair.path(DeviceId(0), DeviceId(1)), Some(ids(&[0, 2, 1])));
    assert_eq!((pair.links.len(), pair.resources.len()), (4, 16));
    check(&dgx, &[0, 1, 2, 3, 4, 5, 6, 7], &["gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7", "host"]);
    let a100 = Machine::by_name("8xa100").unwrap();
    check(&a100, &[3, 6], &["gpu3", "gpu6"]);
    assert_eq!(a100.first(8), Ok(a100.clone()));
    assert_eq!(a100.first(3).unwrap().len(), 3);
    assert_eq!(dgx.first(2).unwrap().workers().len(), 2);

    let refuse = |result: Result<Machine, MachineError>, expected: &str| {
        assert_eq!(result.expect_err(expected).to_string(), expected);
    };
    refuse(a100.first(0), "no device is selected; machine `8xa100` has 8 that compute");
    refuse(a100.first(9), "9 devices are asked for, but machine `8xa100` has 8 that compute");
    refuse(a100.select(&ids(&[8])), "device 8 is asked for, but machine `8xa100` has devices 0 to 7");
    refuse(a100.select(&ids(&[1, 1])), "device 1 is selected twice");
    refuse(dgx.select(&ids(&[8])), "no device is selected; machine `dgx-1v` has 8 that compute");
    refuse(
        Machine::by_name("8xa101"),
        "there is no machine `8xa101`; known are 8xa100, 8xa100-host, 8xa100-80, 8xa100-ideal, 8xh100, 8xh200, dgx-1v, pcie-4, \
         pcie-8, nvl72, 2x8xa100, unequal, Nxcpu, or give the path of a machine file",
    );
    refuse(
        Machine::by_name("0xcpu"),
        "machine `0xcpu` has no device that computes; it needs at least one of kind `gpu` or `cpu`",
    );
    refuse(Machine::by_name("129xcpu"), "machine `129xcpu` has 129 devices; at most 128 are supported");
}

#[test]
fn machines_are_described() {
    let shipped = Machine::names().into_iter().filter(|n| *n != "Nxcpu").chain(["1xcpu", "3xcpu"]);
    let mut machines: Vec<Machine> = shipped.map(|name| Machine::by_name(name).unwrap()).collect();
    machines.push(Machine::by_name("pcie-8").unwrap().first(6).unwrap());
    machines.push(Machine::by_name("dgx-1v").unwrap().select(&ids(&[0, 5])).unwrap());
    machines.push(
        Machine::parse(&four(
            "[[cables]]\npairs = [[\"gpu0\", \"gpu1\"], [\"gpu1\", \"gpu2\"], [\"gpu2\", \"gpu3\"], [\"gpu3\", \"gpu0\"]]\n\
             bandwidth = \"5 GB/s\"\nduplex = \"half\"\n",
        ))
        .unwrap(),
    );
    // As measured on some host: threads that share processors, and what binds them beside bytes.
    let mut threads = Machine::by_name("2xcpu").unwrap();
    threads.processors = Some(2);
    for d in &mut threads.devices {
        (d.elements, d.under_softmax) = (Some(0.4e9), Some(21.5e9));
    }
    machines.push(threads);
    let texts: Vec<String> = machines.iter().map(describe).collect();
    let lines = |name: &str| texts.iter().find(|t| t.starts_with(name)).map(|t| t.lines().count());
    assert!(lines("machine nvl72").is_some_and(|n| n < 16), "72 devices are described in a few lines");
    insta::assert_snapshot!("machines", texts.join("\n"));
}

#[test]
fn threads_share_processors_and_other_devices_do_not() {
    let mut threads = Machine::by_name("8xcpu").unwrap().first(4).unwrap();
    let equal = [1.0; 4];
    assert_eq!((threads.together(&equal).0, threads.rate_together(|_| 3.0)), (1.0, 12.0));
    threads.processors = Some(2);
    threads.turns = Turns { alone: 1.25, crowded: 0.8 };
    assert_eq!((threads.together(&equal).0, threads.rate_together(|_| 3.0)), (2.5, 6.0));
    // Alone, on two processors, and more than that.
    assert_eq!(threads.together(&[0.0, 1.0, 0.0, 0.0]).0, 0.8);
    assert_eq!(threads.together(&[2.0, 1.0, 0.0, 0.0]).0, 1.0 + 0.8);
    // A device of another kind has what it needs to itself.
    threads.devices[3].kind = DeviceKind::Gpu;
    assert_eq!(threads.together(&[1.0, 1.0, 0.0, 3.0]).0, 3.0);
    assert_eq!(threads.together(&[1.0, 1.0, 1.0, 1.0]).0, 1.0 / (1.6 / 3.0));
    assert_eq!(threads.rate_together(|_| 3.0), 3.0 + 6.0);
}

#[test]
fn engines_and_processors_are_read_printed_and_kept() {
    let cpus = four("engines = 2\n")
        .replace("kind = \"gpu\"", "kind = \"cpu\"")
        .replace("[[devices]]", "processors = 3\n[[devices]]");
    let machine = Machine::parse(&format!("{cpus}{SWITCH}")).unwrap();
    assert_eq!((machine.processors, machine.devices[3].engines), (Some(3), Some(2)));
    assert_eq!(Machine::parse(&machine.to_text()).as_ref(), Ok(&machine));
    let half = machine.first(2).unwrap();
    assert_eq!((half.processors, half.devices[1].engines), (Some(3), Some(2)));
    assert_eq!(Machine::parse(&half.to_text()), Ok(half));
    let text = describe(&machine);
    assert!(text.contains("on 3 processors") && text.contains("2 copy engines"), "{text}");
    assert!(machine.copies_by_thread(DeviceId(0), DeviceId(1)));
    let none = Machine::parse(&four(SWITCH)).unwrap();
    assert_eq!((none.processors, none.devices[0].engines), (None, None));
    assert!(!none.copies_by_thread(DeviceId(0), DeviceId(1)));
    let check = |text: String, expected: &str| {
        let found = Machine::parse(&text).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    };
    check(four(&format!("elements = \"0 FLOP/s\"\n{SWITCH}")), "elements of `gpu` is 0; it must be");
    check(four(&format!("under_softmax = \"5\"\n{SWITCH}")), "under_softmax of `gpu`: `5` is not a rate");
    let lines = "elements = \"400 MFLOP/s\"\nunder_softmax = \"20 GFLOP/s\"\nprefers = [\"one way\", \"another\"]\n";
    let rates = Machine::parse(&four(&format!("{lines}{SWITCH}"))).unwrap();
    assert_eq!((rates.devices[0].prefers.len(), none.devices[0].prefers.len()), (2, 0));
    assert_eq!((rates.devices[3].elements, rates.devices[3].under_softmax), (Some(4e8), Some(2e10)));
    assert_eq!(Machine::parse(&rates.to_text()), Ok(rates));
    check(four(&format!("engines = 0\n{SWITCH}")), "engines of `gpu` is 0; it must be a finite number above 0");
    check(four(&format!("engines = -1\n{SWITCH}")), "engines of `gpu` is -1;");
    check(cpus.replace("processors = 3", "processors = 0") + SWITCH, "processors is 0;");
    let gpus = four(SWITCH).replace("[[devices]]", "processors = 3\n[[devices]]");
    check(gpus, "`processors` are what devices of kind `cpu` share, and it has none");
}
