//! Rates by product.

use super::facts::{Gpu, NvLink, Pcie};

/// A product's rates: operations and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Dense 16-bit products with f32 sums, in TFLOP/s: bf16, unless it has no unit for that, and f16.
    pub half: f64,
    /// Whether the tensor units take bf16.
    pub bf16: bool,
    /// Plain f32, in TFLOP/s.
    pub single: f64,
    /// The better of plain and tensor f64, in TFLOP/s.
    pub double: f64,
    /// Memory, in GB/s.
    pub memory: f64,
    /// The source.
    pub source: &'static str,
}

/// Product without the maker's name, then half, f32, f64 in TFLOP/s, memory in GB/s, and where it is published.
/// Half precision is dense with f32 sums; a sheet that gives figures with sparsity is halved.
type Row = (&'static str, f64, f64, f64, f64, &'static str);

const TABLE: [Row; 31] = [
    ("A100-SXM4-40GB", 312.0, 19.5, 19.5, 1555.0, A100),
    ("A100-SXM4-80GB", 312.0, 19.5, 19.5, 2039.0, A100),
    ("A100-PCIE-40GB", 312.0, 19.5, 19.5, 1555.0, A100),
    ("A100 80GB PCIe", 312.0, 19.5, 19.5, 1935.0, A100),
    ("A30", 165.0, 10.3, 10.3, 933.0, "NVIDIA A30 data sheet"),
    ("A40", 149.7, 37.4, 0.584, 696.0, "NVIDIA A40 data sheet; f64 is 1/64 of f32"),
    ("A10", 125.0, 31.2, 0.488, 600.0, "NVIDIA A10 data sheet; f64 is 1/64 of f32"),
    ("RTX A6000", 154.8, 38.7, 0.605, 768.0, "NVIDIA RTX A6000 data sheet and GA102 white paper"),
    ("RTX 6000 Ada Generation", 364.2, 91.1, 1.42, 960.0, "NVIDIA RTX 6000 Ada data sheet"),
    ("L4", 121.0, 30.3, 0.473, 300.0, "NVIDIA L4 data sheet; f64 is 1/64 of f32"),
    ("L40", 181.0, 90.5, 1.41, 864.0, "NVIDIA L40 data sheet; f64 is 1/64 of f32"),
    ("L40S", 362.0, 91.6, 1.43, 864.0, "NVIDIA L40S data sheet; f64 is 1/64 of f32"),
    ("H100 80GB HBM3", 989.0, 67.0, 67.0, 3350.0, "NVIDIA H100 data sheet, SXM"),
    ("H100 PCIe", 756.0, 51.0, 51.0, 2000.0, "NVIDIA H100 data sheet, PCIe"),
    ("H100 NVL", 835.0, 60.0, 60.0, 3900.0, "NVIDIA H100 data sheet, NVL"),
    ("H200", 989.0, 67.0, 67.0, 4800.0, "NVIDIA H200 data sheet, SXM"),
    ("H200 NVL", 835.0, 60.0, 60.0, 4800.0, "NVIDIA H200 data sheet, NVL"),
    ("GH200 480GB", 989.0, 67.0, 67.0, 4000.0, "NVIDIA GH200 data sheet, HBM3"),
    ("B200", 2250.0, 75.0, 37.0, 8000.0, "NVIDIA DGX B200 and HGX B200 data sheets, an eighth"),
    ("GB200", 2500.0, 80.0, 40.0, 8000.0, "NVIDIA GB200 NVL72 data sheet, a 72nd"),
    ("V100-SXM2-16GB", 125.0, 15.7, 7.8, 900.0, V100),
    ("V100-SXM2-32GB", 125.0, 15.7, 7.8, 900.0, V100),
    ("V100-PCIE-16GB", 112.0, 14.0, 7.0, 900.0, V100),
    ("V100-PCIE-32GB", 112.0, 14.0, 7.0, 900.0, V100),
    ("V100S-PCIE-32GB", 130.0, 16.4, 8.2, 1134.0, V100),
    ("T4", 65.0, 8.1, 0.253, 320.0, "NVIDIA T4 data sheet; f64 is 1/32 of f32"),
    ("P100-SXM2-16GB", 21.2, 10.6, 5.3, 732.0, "NVIDIA P100 data sheet"),
    ("P100-PCIE-16GB", 18.7, 9.3, 4.7, 732.0, "NVIDIA P100 data sheet"),
    ("GeForce RTX 3090", 71.0, 35.6, 0.556, 936.0, "NVIDIA GA102 white paper"),
    ("GeForce RTX 4090", 165.2, 82.6, 1.29, 1008.0, "NVIDIA Ada white paper"),
    ("GeForce RTX 5090", 209.5, 104.8, 1.64, 1792.0, "NVIDIA RTX Blackwell white paper"),
];
const A100: &str = "NVIDIA A100 Tensor Core GPU data sheet";
const V100: &str = "NVIDIA V100 data sheet";

/// The rates of a GPU: from its data sheet where the product is known, else worked out from cores and clocks.
/// `None` if the driver does not tell those either.
pub fn figures(gpu: &Gpu) -> Option<Figures> {
    known(&gpu.name).or_else(|| computed(gpu))
}

/// The row whose name the product begins with, the longest one: `H100 80GB HBM3` for that, `A10` not for `A100`.
fn known(name: &str) -> Option<Figures> {
    let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
    let name = name.strip_prefix("Tesla ").unwrap_or(name);
    let begins = |row: &&Row| {
        let rest = name.strip_prefix(row.0);
        rest.is_some_and(|r| !r.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let row = TABLE.iter().filter(begins).max_by_key(|r| r.0.len())?;
    let bf16 = !["V100", "T4", "P100"].iter().any(|old| row.0.starts_with(old));
    Some(Figures { half: row.1, bf16, single: row.2, double: row.3, memory: row.4, source: row.5 })
}

/// Two operations a core and clock; the tensor units do a multiple of that and f64 a fraction, both by
/// generation. Memory of both edges of its clock.
fn computed(gpu: &Gpu) -> Option<Figures> {
    let chip = &gpu.chip;
    let single = 2.0 * f64::from(chip.cores?) * f64::from(chip.clock?) / 1e6;
    let memory = 2.0 * f64::from(chip.memory_clock?) * f64::from(chip.memory_bits?) / 8.0 / 1e3;
    let (times, fraction) = match chip.capability? {
        (..=5, _) | (6, 1..) => (1.0, 32.0),
        (6, 0) => (2.0, 2.0),
        (7, 0 | 2) => (8.0, 2.0),
        (7, _) => (8.0, 32.0),
        (8, 0) => (16.0, 1.0),
        (9, _) => (14.0, 1.0),
        (10, _) => (30.0, 2.0),
        (8 | 11.., _) | (6, i32::MIN..=-1) => (4.0, 64.0),
    };
    let bf16 = chip.capability? >= (8, 0);
    let source = "worked out from the cores and clocks that the driver tells, the product not being known";
    Some(Figures { half: single * times, bf16, single, double: single / fraction, memory, source })
}

/// Bytes per second of an NVLink each way, in GB/s: by its version, else what it signals.
pub(crate) fn nvlink(link: &NvLink) -> f64 {
    match link.version {
        Some(1) => 20.0,
        // Of the third and fourth generation too: more links, not faster ones.
        Some(2..=6) => 25.0,
        Some(7) => 50.0,
        // Lines carry a few per cent more than what arrives.
        _ => link.speed.map_or(20.0, |mb| (mb as f64 / 1e3 / 5.0).floor().max(1.0) * 5.0),
    }
}

/// Bytes per second of a PCIe port each way, in GB/s, as copies reach it: four fifths of what the lanes carry. Where
/// the driver tells nothing, PCIe 3.0 x16.
pub(crate) fn pcie(port: Option<Pcie>) -> f64 {
    let port = port.unwrap_or(Pcie { generation: 3, width: 16 });
    let lane = match port.generation {
        0 | 1 => 0.25,
        2 => 0.5,
        // 8 GT/s, a byte a nanosecond, with 128 bits in 130; doubled each generation.
        later => 128.0 / 130.0 * f64::from(1_u32 << (later - 3).min(4)),
    };
    (lane * f64::from(port.width.clamp(1, 32)) * 0.8 * 10.0).round() / 10.0
}
