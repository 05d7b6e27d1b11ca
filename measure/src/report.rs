//! Sections with a verdict, printed as Markdown.

use std::fmt::Write;
use std::process::ExitCode;

/// One line of the table of bars: what was measured, the bar, and whether it is passed.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What.
    pub what: String,
    /// What must hold.
    pub bar: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub passed: bool,
}

/// A part of the report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Its bars.
    pub verdicts: Vec<Verdict>,
    /// Markdown below them.
    pub body: String,
}

impl Section {
    /// A section without bars.
    pub fn new(title: &str) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a bar.
    pub fn verdict(&mut self, what: impl Into<String>, bar: impl Into<String>, found: impl Into<String>, passed: bool) {
        self.verdicts.push(Verdict { what: what.into(), bar: bar.into(), found: found.into(), passed });
    }

    /// Adds a paragraph.
    pub fn say(&mut self, text: &str) {
        let _ = write!(self.body, "\n{text}\n");
    }

    /// Adds a table; nothing if it has no row.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        if rows.is_empty() {
            return;
        }
        let _ = write!(self.body, "\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
        for row in rows {
            let _ = writeln!(self.body, "| {} |", row.join(" | "));
        }
    }

    /// Whether all its bars are passed.
    pub fn passed(&self) -> bool {
        self.verdicts.iter().all(|v| v.passed)
    }

    /// The section as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n", self.title);
        if !self.verdicts.is_empty() {
            text.push_str("\n| what | bar | found | |\n|---|---|---|---|\n");
            for v in &self.verdicts {
                let verdict = if v.passed { "PASS" } else { "FAIL" };
                let _ = writeln!(text, "| {} | {} | {} | {verdict} |", v.what, v.bar, v.found);
            }
        }
        text.push_str(&self.body);
        text
    }
}

/// Calls `work` on every item, on all cores, and keeps the order of the items: threads decide nothing.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(item) = items.get(n) else { return done };
                done.push((n, work(item)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a worker ends")).collect()
    });
    done.sort_by_key(|d| d.0);
    done.into_iter().map(|d| d.1).collect()
}

/// Seconds as microseconds.
pub fn micros(seconds: f64) -> String {
    let us = seconds * 1e6;
    if us >= 1e4 {
        format!("{:.2} ms", us / 1e3)
    } else if us >= 100.0 {
        format!("{us:.0} µs")
    } else {
        format!("{us:.2} µs")
    }
}

/// Bytes as a power of 1024 where they are one.
pub fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b % (1 << 30) == 0 => format!("{} GB", b >> 30),
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MB", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{} KB", b >> 10),
        b => format!("{b} B"),
    }
}

/// Prints sections as they are measured, and whether all their bars are passed; fails if not, unless only a report is asked
/// for, and where there was nothing to measure, for which `nothing` is the reason.
pub fn judged(sections: impl Iterator<Item = Section>, report: bool, nothing: &str) -> ExitCode {
    let (mut passed, mut bars) = (true, 0);
    for section in sections {
        println!("{}", section.markdown());
        passed &= section.passed();
        bars += section.verdicts.len();
    }
    if bars == 0 {
        println!("Nothing was measured: {nothing}.");
        return ExitCode::FAILURE;
    }
    println!("{}", if passed { "All bars are passed." } else { "Some bars are missed." });
    if passed || report { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
