//! Numbers with units, as people write them in machine files: `300 GB/s`, `40 GB`, `3 us`, `312 TFLOP/s`.
//!
//! Strict: the unit is required and its case matters, so that `200 Gb/s` is not read as gigabytes.

/// A unit and its size: multiplied by it or, for parts of a second, divided, so that `3 us` is exactly `3e-6`.
type Unit = (&'static str, f64, bool);

/// A kind of quantity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    units: &'static [Unit],
    /// What would be right, for messages.
    pub expected: &'static str,
}

const KIB: f64 = 1024.0;

/// An amount of memory.
pub(crate) const MEMORY: Quantity = Quantity {
    units: &[
        ("TB", 1e12, false),
        ("GB", 1e9, false),
        ("MB", 1e6, false),
        ("KB", 1e3, false),
        ("B", 1.0, false),
        ("TiB", KIB * KIB * KIB * KIB, false),
        ("GiB", KIB * KIB * KIB, false),
        ("MiB", KIB * KIB, false),
        ("KiB", KIB, false),
    ],
    expected: "an amount of memory such as \"40 GB\" or \"16 GiB\" (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)",
};

/// A bandwidth.
pub(crate) const BANDWIDTH: Quantity = Quantity {
    units: &[
        ("TB/s", 1e12, false),
        ("GB/s", 1e9, false),
        ("MB/s", 1e6, false),
        ("KB/s", 1e3, false),
        ("B/s", 1.0, false),
        ("Tbit/s", 1.25e11, false),
        ("Gbit/s", 1.25e8, false),
        ("Mbit/s", 1.25e5, false),
    ],
    expected: "a bandwidth such as \"300 GB/s\" (B/s, KB/s, MB/s, GB/s, TB/s, or Mbit/s, Gbit/s, Tbit/s)",
};

/// Arithmetic operations per second.
pub(crate) const FLOPS: Quantity = Quantity {
    units: &[
        ("PFLOP/s", 1e15, false),
        ("TFLOP/s", 1e12, false),
        ("GFLOP/s", 1e9, false),
        ("MFLOP/s", 1e6, false),
        ("FLOP/s", 1.0, false),
    ],
    expected: "a rate such as \"312 TFLOP/s\" (FLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s)",
};

/// A duration.
pub(crate) const DURATION: Quantity = Quantity {
    units: &[("s", 1.0, true), ("ms", 1e3, true), ("us", 1e6, true), ("µs", 1e6, true), ("ns", 1e9, true)],
    expected: "a duration such as \"3 us\" (s, ms, us, ns)",
};

impl Quantity {
    /// The number in the base unit, or `None` when the text is not a plain number and a known unit.
    pub fn parse(&self, text: &str) -> Option<f64> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
        // An exponent, as in `1e-7 s`, belongs to the number.
        let exponent = text[end..].strip_prefix('e').map_or(0, |rest| {
            let sign = usize::from(rest.starts_with('-'));
            let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 { 0 } else { 1 + sign + digits }
        });
        let (number, unit) = text.split_at(end + exponent);
        let value: f64 = number.parse().ok()?;
        let (_, size, divide) = self.units.iter().find(|u| u.0 == unit.trim())?;
        Some(if *divide { value / size } else { value * size })
    }

    /// The shortest text that [`parse`](Self::parse) reads as exactly this number.
    pub fn text(&self, value: f64) -> String {
        self.units
            .iter()
            .filter(|u| u.0 != "µs")
            .map(|(unit, size, divide)| format!("{} {unit}", if *divide { value * size } else { value / size }))
            .filter(|text| self.parse(text) == Some(value))
            .min_by_key(String::len)
            .unwrap_or_else(|| format!("{value:e} {}", self.units.iter().find(|u| u.1 == 1.0).map_or("", |u| u.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_strictly_and_print_back() {
        let check = |kind: &Quantity, text: &str, expected: Option<f64>| {
            assert_eq!(kind.parse(text), expected, "{text}");
            if let Some(value) = expected {
                assert_eq!(kind.parse(&kind.text(value)), expected, "{} of {text}", kind.text(value));
            }
        };
        check(&BANDWIDTH, "300 GB/s", Some(3e11));
        check(&BANDWIDTH, "1.555 TB/s", Some(1.555e12));
        check(&BANDWIDTH, "200 Gbit/s", Some(2.5e10));
        check(&BANDWIDTH, "200 Gb/s", None);
        check(&BANDWIDTH, "300", None);
        check(&BANDWIDTH, "GB/s", None);
        check(&BANDWIDTH, "3 0 GB/s", None);
        check(&BANDWIDTH, "-1 GB/s", Some(-1e9));
        check(&MEMORY, "40 GB", Some(4e10));
        check(&MEMORY, "40GiB", Some(42949672960.0));
        check(&MEMORY, "40 gb", None);
        check(&DURATION, "3 us", Some(3e-6));
        check(&DURATION, "3µs", Some(3e-6));
        check(&DURATION, "1e-7 s", Some(1e-7));
        check(&DURATION, "1e s", None);
        check(&DURATION, "0.1 ms", Some(1e-4));
        check(&FLOPS, "312 TFLOP/s", Some(3.12e14));
        check(&FLOPS, "312 TFLOPS", None);
        check(&FLOPS, "0.1 FLOP/s", Some(0.1));
        let thirds = 1e12 / 3.0;
        assert_eq!(FLOPS.parse(&FLOPS.text(thirds)), Some(thirds));
    }
}
