//! An explanation as text.

use super::why::signed;
use super::{Explanation, Operation};
use ein_task::units::{Bytes, Seconds};
use std::fmt::{self, Write as _};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.operations.iter().map(|o| o.name.chars().count()).max().unwrap_or(0).clamp(9, 34);
        let cut = |text: &str, n: usize| {
            let long = text.chars().count() > n;
            if long { text.chars().take(n - 1).chain(['…']).collect() } else { text.to_string() }
        };
        writeln!(
            f,
            "{:<width$}  {:<11}  {:<44}  {:>10}  {:>10}  {:>10}",
            "operation", "kind", "decomposition", "compute", "bytes in", "bytes out"
        )?;
        for o in &self.operations {
            let (name, how) = (cut(&o.name, width), cut(&o.decomposition, 44));
            let (s, i, u) = (o.seconds.to_string(), dash(o.bytes_in), dash(o.bytes_out));
            writeln!(f, "{name:<width$}  {:<11}  {how:<44}  {s:>10}  {i:>10}  {u:>10}", o.kind)?;
        }
        self.reasons(f, width)?;
        if self.exchanges.is_empty() {
            writeln!(f, "\nno exchange moves anything")?;
        } else {
            writeln!(
                f,
                "\n{:<width$}  {:<9}  {:>10}  {:>5}  {:>13}  {:>10}  {:>10}  {:<4}  {:>5}  read by",
                "exchange of", "stage", "bytes", "moves", "depth (least)", "time", "bound", "by", "over"
            )?;
            for m in &self.exchanges {
                let (name, mut readers) = (cut(&m.tensor, width), cut(&m.readers.join(", "), 40));
                if !m.views.is_empty() {
                    let _ = write!(readers, " through {}", cut(&m.views.join(", "), 60));
                }
                let (b, t, l) = (m.bytes.to_string(), m.seconds.to_string(), m.bound.to_string());
                writeln!(
                    f,
                    "{name:<width$}  {:<9}  {b:>10}  {:>5}  {:>13}  {t:>10}  {l:>10}  {:<4}  {:>5.2}  {readers}",
                    m.stage,
                    m.moves,
                    format!("{} ({})", m.depth, m.depth_bound),
                    m.binds,
                    m.over_bound
                )?;
            }
        }
        if !self.replicated.is_empty() {
            writeln!(f, "\n{:<width$}  {:<10}  {:>6}  {:>11}", "replicated", "kind", "copies", "extra bytes")?;
            for r in &self.replicated {
                let (name, bytes) = (cut(&r.tensor, width), r.bytes.to_string());
                writeln!(f, "{name:<width$}  {:<10}  {:>6}  {bytes:>11}", r.kind, r.copies)?;
            }
        }
        writeln!(
            f,
            "\n{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}",
            "device", "memory", "parameters", "sent", "received", "operations"
        )?;
        for d in &self.devices {
            let (m, p, s, r) =
                (d.memory.to_string(), d.parameters.to_string(), d.sent.to_string(), d.received.to_string());
            writeln!(f, "{:<8}  {m:>10}  {p:>10}  {s:>10}  {r:>10}  {:>12.3e}", d.device, d.operations)?;
        }
        Ok(())
    }
}

fn dash(bytes: Bytes) -> String {
    if bytes.0 == 0 { "-".into() } else { bytes.to_string() }
}

fn spent(seconds: Seconds) -> String {
    if seconds.0 == 0.0 { "-".into() } else { seconds.to_string() }
}

impl Explanation {
    /// Why each operation is cut as it is. Rows that differ in their names alone are one line.
    fn reasons(&self, f: &mut fmt::Formatter<'_>, width: usize) -> fmt::Result {
        let mut groups: Vec<(&Operation, usize)> = Vec::new();
        for o in &self.operations {
            let like = |g: &Operation| g.words == o.words && g.split == o.split && g.runner_up == o.runner_up;
            match groups.iter_mut().find(|g| like(g.0)) {
                Some(group) => group.1 += 1,
                None => groups.push((o, 1)),
            }
        }
        writeln!(
            f,
            "\n{:<width$}  {:>10}  {:>10}  {:>10}  {:>10}  and the best other one of the row alone",
            "why so", "arithmetic", "memory", "moves", "folds"
        )?;
        for (o, count) in groups {
            let more = if count > 1 { format!(" +{}", count - 1) } else { String::new() };
            let room = width.saturating_sub(more.len());
            let long = o.name.chars().count() > room;
            let name: String = if long {
                o.name.chars().take(room.saturating_sub(1)).chain(['…']).chain(more.chars()).collect()
            } else {
                format!("{}{more}", o.name)
            };
            let s = &o.split;
            let [c, m, v, p] = [s.compute, s.memory, s.moved, s.fold].map(spent);
            writeln!(f, "{name:<width$}  {c:>10}  {m:>10}  {v:>10}  {p:>10}  {}", o.words)?;
            match &o.runner_up {
                None => writeln!(f, "{:<width$}  {:>46}  there is no other", "", "")?,
                Some(r) => {
                    let than = if r.worse_seconds.0 < 0.0 { "quicker" } else { "slower" };
                    let by = Seconds(r.worse_seconds.0.abs());
                    let by = format!("{by} ({:.1} %) {than}", r.worse_percent.abs());
                    let some = |bytes: i64, what: &str| match bytes {
                        0 => String::new(),
                        _ => format!("; {} {what}", signed(bytes)),
                    };
                    let (moved, kept) = (some(r.more_bytes, "moved"), some(r.more_memory, "kept on a device"));
                    writeln!(f, "{:<width$}  {by:>46}  {}{moved}{kept}", "", r.words)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
