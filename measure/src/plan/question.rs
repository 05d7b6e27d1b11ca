//! One plan, asked of a process of its own.

use clap::Args;
use ein_plan::options::{Objective, Options, Placement, Strategy};
use ein_task::machine::Machine;
use ein_task::units::Bytes;
use serde_json::Value;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What to plan: the options of `measure one`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Question {
    /// A workload of the library, `operations:N`, `train:IN,HIDDEN,OUT,BATCH` or `d1024:BATCHxSEQ,HEADS,KV`
    pub workload: String,
    /// A machine that comes with the program; `8xa100:6` is the first six devices of `8xa100`
    pub machine: String,
    /// What a device has of memory, such as 80GB, instead of what the machine says
    #[arg(long)]
    pub memory: Option<String>,
    /// time, bytes or memory
    #[arg(long, default_value = "time")]
    pub objective: String,
    /// Where inputs are held: anywhere or replicated
    #[arg(long, default_value = "anywhere")]
    pub inputs: String,
    /// Where outputs are held: anywhere or replicated
    #[arg(long, default_value = "anywhere")]
    pub outputs: String,
    /// A fixed strategy instead of the search
    #[arg(long)]
    pub strategy: Option<String>,
    /// Leave blocks and memory as the search chose them
    #[arg(long)]
    pub no_overlap: bool,
    /// Parameters may stay at a host
    #[arg(long)]
    pub offload: bool,
    /// Instead of a plan, as many plans drawn from the candidates
    #[arg(long, default_value_t = 0)]
    pub draws: u64,
    /// Price every fixed strategy, too
    #[arg(long)]
    pub compare: bool,
}

impl Question {
    /// Plans by time.
    pub fn new(workload: &str, machine: &str) -> Self {
        let anywhere = || "anywhere".to_string();
        let (workload, machine, objective) = (workload.into(), machine.into(), "time".into());
        Self { workload, machine, objective, inputs: anywhere(), outputs: anywhere(), ..Self::default() }
    }

    /// The command line that asks it.
    fn arguments(&self) -> Vec<String> {
        let mut words = vec!["one".into(), self.workload.clone(), self.machine.clone()];
        let named = [("--objective", &self.objective), ("--inputs", &self.inputs), ("--outputs", &self.outputs)];
        // What is so anyway is not said.
        let usual = ["time", "anywhere"];
        let named = named.iter().filter(|n| !usual.contains(&n.1.as_str())).map(|&(name, value)| (name, value));
        let given = [("--memory", &self.memory), ("--strategy", &self.strategy)];
        let given = given.iter().filter_map(|&(name, value)| Some((name, value.as_ref()?)));
        words.extend(named.chain(given).flat_map(|(name, value)| [name.to_string(), value.clone()]));
        if self.draws > 0 {
            words.extend(["--draws".into(), self.draws.to_string()]);
        }
        let flags = [("--no-overlap", self.no_overlap), ("--compare", self.compare), ("--offload", self.offload)];
        words.extend(flags.iter().filter(|f| f.1).map(|f| f.0.to_string()));
        words
    }

    /// The machine.
    pub fn place(&self) -> Result<Machine, String> {
        let mut machine = place(&self.machine)?;
        if let Some(memory) = &self.memory {
            let memory = Bytes::parse(memory).ok_or(format!("`{memory}` is no size such as 80GB"))?;
            machine.devices.iter_mut().for_each(|d| d.memory = memory);
        }
        Ok(machine)
    }

    /// The options.
    pub fn options(&self) -> Result<Options, String> {
        let objective = match self.objective.as_str() {
            "time" => Objective::Time,
            "makespan" => Objective::Makespan,
            "bytes" => Objective::Bytes,
            "memory" => Objective::Memory,
            other => return Err(format!("`{other}` is no objective; there are time, makespan, bytes and memory")),
        };
        let named = |name: &String| Strategy::parse(name).ok_or(format!("there is no strategy `{name}`"));
        let held = |place: &str| match place {
            "anywhere" => Ok(Placement::Anywhere),
            "replicated" => Ok(Placement::Replicated),
            other => Err(format!("`{other}` is no place; there are anywhere and replicated")),
        };
        Ok(Options {
            objective,
            inputs: held(&self.inputs)?,
            outputs: held(&self.outputs)?,
            strategy: self.strategy.as_ref().map(named).transpose()?,
            overlap: !self.no_overlap,
            offload: self.offload,
            ..Options::default()
        })
    }

    /// Has it answered by another process, within `limit` seconds. The error says why there are no figures.
    pub fn ask(&self, limit: f64) -> Result<Answer, String> {
        let start = Instant::now();
        let answer = self.spawn(start, limit);
        let seconds = start.elapsed().as_secs_f64();
        let name = self.arguments()[1..].join(" ");
        match &answer {
            Ok(a) if self.draws > 0 => eprintln!("  {name}: {} fit, {seconds:.1} s", a.list("/draws").len()),
            Ok(a) => {
                let (cost, unit) = (a.number("/report/cost"), a.text("/report/cost_unit"));
                eprintln!("  {name}: {cost:.6} {unit}, {seconds:.1} s");
            }
            Err(reason) => eprintln!("  {name}: {reason}"),
        }
        answer
    }

    /// The same on devices that have only the memory that a fixed strategy takes.
    pub fn with_memory_of(self, strategy: &str, limit: f64) -> Result<Self, String> {
        let known = Question { strategy: Some(strategy.into()), ..self.clone() }.ask(limit)?;
        let memory = known.largest("/report/peak_memory_per_device");
        Ok(Question { memory: Some(format!("{memory}B")), ..self })
    }

    fn spawn(&self, start: Instant, limit: f64) -> Result<Answer, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.args(self.arguments()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start: {e}"))?;
        let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        std::thread::scope(|scope| {
            let text = scope.spawn(move || {
                let mut text = String::new();
                out.read_to_string(&mut text).map(|_| text)
            });
            let faults = scope.spawn(move || {
                let mut text = String::new();
                err.read_to_string(&mut text).map(|_| text)
            });
            let status = loop {
                match child.try_wait().map_err(|e| e.to_string())? {
                    Some(status) => break status,
                    None if start.elapsed().as_secs_f64() > limit => {
                        let _ = child.kill();
                        let _ = child.wait();
                        return Err(format!("no plan within {limit:.0} s"));
                    }
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            let text = text.join().expect("a reader ends").map_err(|e| e.to_string())?;
            if !status.success() {
                let faults = faults.join().expect("a reader ends").unwrap_or_default();
                return Err(format!("{status}: {}", faults.lines().next().unwrap_or("it said nothing")));
            }
            let value: Value = serde_json::from_str(&text).map_err(|e| format!("not an answer: {e}"))?;
            match value["refused"].as_str() {
                Some(reason) => Err(format!("refused: {reason}")),
                None => Ok(Answer(value)),
            }
        })
    }
}

/// A machine by name, or the first devices of one.
pub fn place(text: &str) -> Result<Machine, String> {
    let (name, devices) = match text.split_once(':') {
        Some((name, devices)) => {
            (name, Some(devices.parse().map_err(|_| format!("`{devices}` is no number of devices"))?))
        }
        None => (text, None),
    };
    let machine = Machine::by_name(name).map_err(|e| e.to_string())?;
    devices.map_or(Ok(machine.clone()), |n| machine.first(n).map_err(|e| e.to_string()))
}

/// The figures of a plan.
#[derive(Clone, Debug)]
pub struct Answer(pub Value);

impl Answer {
    /// A number by its path; not a number if there is none.
    pub fn number(&self, path: &str) -> f64 {
        self.0.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// A text by its path; empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.0.pointer(path).and_then(Value::as_str).unwrap_or("")
    }

    /// The items of a list by its path.
    pub fn list(&self, path: &str) -> &[Value] {
        self.0.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The largest number of a list.
    pub fn largest(&self, path: &str) -> f64 {
        self.list(path).iter().filter_map(Value::as_f64).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_with_their_devices() {
        assert_eq!(place("8xa100").unwrap().workers().len(), 8);
        assert_eq!(place("8xa100:6").unwrap().workers().len(), 6);
        assert!(place("8xa100:9").is_err());
        assert!(place("8xa100:x").unwrap_err().contains("`x`"));
        let larger = Question { memory: Some("80GB".into()), ..Question::new("", "8xa100-ideal") };
        assert_eq!(larger.place().unwrap().devices[0].memory, Bytes(80_000_000_000));
    }

    #[test]
    fn what_is_asked_is_said_on_the_command_line() {
        let plain = Question::new("gemm:1,2,3", "8xa100");
        assert_eq!(plain.arguments(), ["one", "gemm:1,2,3", "8xa100"]);
        let more = Question { memory: Some("1GB".into()), objective: "bytes".into(), compare: true, ..plain };
        assert_eq!(more.arguments()[3..], ["--objective", "bytes", "--memory", "1GB", "--compare"]);
    }
}
