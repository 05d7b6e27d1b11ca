//! One run of `ein bench`.

use super::Arguments;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What it found.
#[derive(Clone, Debug)]
pub struct Row {
    /// The computation.
    pub workload: String,
    /// Ours, the median.
    pub seconds: f64,
    /// Billions of operations per second.
    pub gflops: f64,
    /// How many times the floor.
    pub over_floor: f64,
    /// Ours over one device's.
    pub over_one: Option<f64>,
    /// The name of every peer and our time over its.
    pub peers: Vec<(String, f64)>,
    /// Why others could not be compared with.
    pub missing: Vec<String>,
    /// Bytes moved between devices.
    pub moved: u64,
    /// Tasks of the task graph.
    pub tasks: u64,
    /// Bytes of the parameters, each once.
    pub weights: u64,
    /// Bytes of the arenas.
    pub arenas: u64,
    /// Bytes of the largest set of values that live at once, parameters included.
    pub live: u64,
    /// Bytes that the process took for loading and running.
    pub peak: u64,
}

impl Row {
    /// The columns of [`Row::line`].
    pub const HEAD: [&'static str; 5] = ["workload", "ours, ms", "GFLOP/s", "× floor", "our time ÷ theirs"];

    /// Runs `ein bench` on so many devices.
    pub fn measure(workload: &str, devices: usize, arguments: &Arguments) -> Result<Self, String> {
        let mut command = Command::new(program()?);
        command.arg("bench");
        Self::of(command, workload, devices, arguments)
    }

    /// As [`Row::measure`], planned for a machine of a file.
    pub fn on(machine: &Path, workload: &str, devices: usize, arguments: &Arguments) -> Result<Self, String> {
        let mut command = Command::new(program()?);
        command.arg("bench").arg("--machine").arg(machine);
        Self::of(command, workload, devices, arguments)
    }

    /// A command that has said `bench` and perhaps a machine.
    fn of(mut command: Command, workload: &str, devices: usize, arguments: &Arguments) -> Result<Self, String> {
        command.args([workload, "--devices", &devices.to_string(), "--json"]);
        command.args(["--threads", &arguments.threads.to_string(), "--runs", &arguments.runs.to_string()]);
        if arguments.model.to_str() == Some(workload) {
            // A word is about 1.3 pieces.
            command.args(["--batch-seq", "32x52"]);
        }
        if !arguments.compare.is_empty() {
            command.args(["--compare", &arguments.compare]).arg("--python").arg(&arguments.python);
        }
        let output =
            command.output().map_err(|e| format!("cannot start `{}`: {e}", command.get_program().display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let found = serde_json::from_slice(&output.stdout).map_err(|e| format!("its answer is no JSON: {e}"))?;
        Ok(Self::read(workload, &found))
    }

    fn read(workload: &str, found: &Value) -> Self {
        let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
        let count = |key: &str| found[key].as_u64().unwrap_or_default();
        let list = |key: &str| found[key].as_array().cloned().unwrap_or_default();
        let text = |v: &Value| v.as_str().unwrap_or("?").to_owned();
        Self {
            workload: workload.into(),
            seconds: number(&found["seconds"]),
            gflops: number(&found["gflops"]),
            over_floor: number(&found["floor"]["over"]),
            over_one: found["one_device"]["ratio"].as_f64(),
            peers: list("peers").iter().map(|p| (text(&p["name"]), number(&p["ratio"]))).collect(),
            missing: list("missing").iter().map(|m| format!("{}: {}", text(&m["name"]), text(&m["reason"]))).collect(),
            moved: count("bytes_moved"),
            tasks: count("tasks"),
            weights: count("weight_bytes"),
            arenas: count("arena_bytes"),
            live: count("live_bytes"),
            peak: count("peak_bytes"),
        }
    }

    /// The peer that is fastest, and our time over its.
    pub fn fastest(&self) -> Option<(&str, f64)> {
        self.peers.iter().map(|(name, ratio)| (name.as_str(), *ratio)).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Our time over every peer's, in words.
    pub fn told(&self) -> String {
        let fastest = self.fastest().map(|f| f.0.to_owned());
        let one = |(name, ratio): &(String, f64)| {
            if fastest.as_ref() == Some(name) { format!("**{name} {ratio:.3}**") } else { format!("{name} {ratio:.3}") }
        };
        self.peers.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// A line of the table.
    pub fn line(&self) -> Vec<String> {
        vec![
            format!("`{}`", self.workload),
            format!("{:.3}", self.seconds * 1e3),
            format!("{:.1}", self.gflops),
            format!("{:.2}", self.over_floor),
            self.told(),
        ]
    }
}

/// This host as a machine of so many virtual devices, measured now: its file.
pub fn machine(devices: usize) -> Result<PathBuf, String> {
    let file = std::env::temp_dir().join(format!("ein-measure-{}.toml", std::process::id()));
    let mut command = Command::new(program()?);
    command.args(["machine", "measure", "--devices", &devices.to_string(), "--out"]).arg(&file);
    let output = command.output().map_err(|e| format!("`ein machine measure` does not start: {e}"))?;
    if output.status.success() { Ok(file) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// The `ein` beside this program.
fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| format!("where this program lies is not known: {e}"))?;
    let ein = own.with_file_name("ein");
    if ein.is_file() { Ok(ein) } else { Err(format!("{} is missing: cargo build --release -p ein-cli", ein.display())) }
}

/// The mean of logarithms, as a ratio; 1 of none.
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    if count == 0 { 1.0 } else { (sum / f64::from(count)).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_fastest_peer_is_the_one_that_we_take_longest_beside() {
        let found = json!({
            "seconds": 0.002, "gflops": 50.0, "floor": { "over": 4.0 }, "one_device": { "ratio": 1.5 },
            "peers": [{ "name": "a", "ratio": 0.5 }, { "name": "b", "ratio": 1.25 }],
            "missing": [{ "name": "c", "reason": "not there" }], "tasks": 7,
        });
        let row = Row::read("w", &found);
        assert_eq!((row.fastest(), row.over_one, row.tasks), (Some(("b", 1.25)), Some(1.5), 7));
        assert_eq!((row.told().as_str(), row.missing), ("a 0.500, **b 1.250**", vec!["c: not there".to_owned()]));
    }

    #[test]
    fn means_are_geometric() {
        let mean = geometric_mean([0.5, 2.0, 4.0].into_iter());
        assert!((mean - 4.0_f64.powf(1.0 / 3.0)).abs() < 1e-12);
        assert_eq!(geometric_mean(std::iter::empty()), 1.0);
    }
}
