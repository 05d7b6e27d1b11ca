//! A machine as text: what [`Machine::parse`] reads.

use crate::machine::{Device, Machine};
use crate::quantity::{BANDWIDTH, DURATION, FLOPS, MEMORY};
use std::fmt::Write;

impl Machine {
    /// The text form: [`Machine::parse`] gives this machine back, its links in order of devices.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "name = {}", quoted(&self.name));
        let _ = writeln!(out, "issue = \"{}\"", DURATION.text(self.issue.0));
        if let Some(processors) = self.processors {
            let _ = writeln!(out, "processors = {processors}");
        }
        for (what, times) in [("alone", self.turns.alone), ("crowded", self.turns.crowded)] {
            if times != 1.0 {
                let _ = writeln!(out, "{what} = {times:?}");
            }
        }
        for (first, count) in self.runs() {
            let d = &self.devices[first];
            let _ = writeln!(out, "\n[[devices]]");
            match count {
                None => drop(writeln!(out, "name = {}", quoted(&d.name))),
                Some(n) => drop(writeln!(out, "name = {}\ncount = {n}", quoted(d.name.trim_end_matches('0')))),
            }
            let flops: Vec<String> = d.flops.iter().map(|(t, f)| format!("{t} = \"{}\"", FLOPS.text(*f))).collect();
            let _ = writeln!(out, "kind = \"{}\"", d.kind);
            let _ = writeln!(out, "memory = \"{}\"", MEMORY.text(d.memory.0 as f64));
            let _ = writeln!(out, "memory_bandwidth = \"{}\"", BANDWIDTH.text(d.memory_bandwidth));
            if !flops.is_empty() {
                let _ = writeln!(out, "flops = {{ {} }}", flops.join(", "));
            }
            let _ = writeln!(out, "launch = \"{}\"", DURATION.text(d.launch.0));
            if d.free_elementwise {
                let _ = writeln!(out, "free_elementwise = true");
            }
            let others =
                [("elements", d.elements), ("under_softmax", d.under_softmax), ("windows", d.products.windows)];
            for (what, rate) in others {
                if let Some(rate) = rate {
                    let _ = writeln!(out, "{what} = \"{}\"", FLOPS.text(rate));
                }
            }
            if !d.prefers.is_empty() {
                let all: Vec<String> = d.prefers.iter().map(|way| quoted(way)).collect();
                let _ = writeln!(out, "prefers = [{}]", all.join(", "));
            }
            if !d.products.shapes.is_empty() {
                let _ = writeln!(out, "products = [");
                for s in &d.products.shapes {
                    let (side, points, rate) = (s.side, s.points, FLOPS.text(s.rate));
                    let (open, close) = ("{", "}");
                    let _ = writeln!(
                        out,
                        "  {open} dtype = \"{}\", side = {side}, points = {points}, rate = \"{rate}\" {close},",
                        s.dtype
                    );
                }
                let _ = writeln!(out, "]");
            }
            if let Some(engines) = d.engines {
                let _ = writeln!(out, "engines = {engines}");
            }
        }
        for r in &self.resources {
            let (name, bandwidth) = (quoted(&r.name), BANDWIDTH.text(r.bandwidth));
            let _ = writeln!(out, "\n[[resources]]\nname = {name}\nbandwidth = \"{bandwidth}\"");
        }
        for l in &self.links {
            let resources: Vec<String> = l.resources.iter().map(|&r| quoted(&self.resources[r].name)).collect();
            let (from, to) = (quoted(&self.devices[l.from.index()].name), quoted(&self.devices[l.to.index()].name));
            let _ = writeln!(out, "\n[[links]]\nfrom = {from}\nto = {to}\nresources = [{}]", resources.join(", "));
            let _ = writeln!(out, "latency = \"{}\"", DURATION.text(l.latency.0));
        }
        out
    }

    /// Runs of equal devices that one group can say: position of the first, and the count if numbered.
    fn runs(&self) -> Vec<(usize, Option<usize>)> {
        let mut runs = Vec::new();
        let mut at = 0;
        while at < self.devices.len() {
            let first = &self.devices[at];
            let stem =
                first.name.strip_suffix('0').filter(|s| !s.is_empty() && !s.ends_with(|c: char| c.is_ascii_digit()));
            let count = stem.map(|stem| {
                let same = |n: &usize| {
                    let like = Device { name: format!("{stem}{n}"), ..first.clone() };
                    self.devices.get(at + n) == Some(&like)
                };
                (0..self.devices.len()).take_while(same).count()
            });
            runs.push((at, count));
            at += count.unwrap_or(1);
        }
        runs
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}
