//! Other programs that compute the same, each a Python process that stays warm while sides are timed in turns.

use crate::failure::Failure;
use einsummable::session::Runner;
use serde_json::{Value, json};
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The scripts, which travel with the program.
const SCRIPTS: [(&str, &str); 3] = [
    ("values.py", include_str!("../../../../peers/values.py")),
    ("torch_peer.py", include_str!("../../../../peers/torch_peer.py")),
    ("jax_peer.py", include_str!("../../../../peers/jax_peer.py")),
];

/// A way of another program to run a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What `--compare` calls the program.
    pub program: &'static str,
    /// How it runs.
    pub mode: &'static str,
}

/// All there are.
const KINDS: [Kind; 3] = [
    Kind { program: "torch", mode: "eager" },
    Kind { program: "torch", mode: "compile" },
    Kind { program: "jax", mode: "jit" },
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.program, self.mode)
    }
}

/// What `--compare` names: programs, or one way of a program as in `torch:compile`.
pub fn kinds(names: &[String]) -> Result<Vec<Kind>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let (program, mode) = name.split_once(':').map_or((name.as_str(), None), |(p, m)| (p, Some(m)));
        let meant = KINDS.iter().filter(|k| k.program == program && mode.is_none_or(|m| m == k.mode));
        let before = found.len();
        found.extend(meant);
        if found.len() == before {
            let known = "torch, torch:eager, torch:compile and jax";
            return Err(Failure::request(format!("--compare {name}: there is no such peer; there are {known}")));
        }
    }
    Ok(found)
}

/// The scripts as files, gone when this is.
pub struct Scripts(PathBuf);

impl Scripts {
    /// Writes them to a folder that was not there before: what somebody else has put in its place is not run.
    pub fn write() -> Result<Self, Failure> {
        let place = |n: u32| std::env::temp_dir().join(format!("ein-peers-{}-{n}", std::process::id()));
        let mut made = Err(std::io::ErrorKind::AlreadyExists.into());
        let mut folder = place(0);
        for n in 0..100 {
            folder = place(n);
            made = std::fs::create_dir(&folder);
            if !matches!(&made, Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        let failed = |e: std::io::Error| Failure::run(format!("{} cannot be written: {e}", folder.display()));
        made.map_err(failed)?;
        let scripts = Self(folder.clone());
        for (name, text) in SCRIPTS {
            std::fs::write(folder.join(name), text).map_err(failed)?;
        }
        Ok(scripts)
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        // A folder of temporary files may outlive the program where it cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A peer that has run once and waits.
pub struct Peer {
    /// Which.
    pub kind: Kind,
    /// Its version.
    pub version: String,
    /// Seconds of its first run, in which it may compile.
    pub first_seconds: f64,
    /// Two numbers for each of its results (see [`figures`]).
    pub figures: Vec<[f64; 2]>,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Reads what it prints besides, and keeps the last line of it.
    errors: Option<JoinHandle<Option<String>>>,
}

impl Peer {
    /// Starts a peer where our side runs and has it run once; `Err` says why it cannot.
    pub fn start(
        scripts: &Scripts,
        python: &Path,
        kind: Kind,
        threads: usize,
        runner: &Runner,
        request: &Value,
    ) -> Result<Self, String> {
        let device = match runner {
            Runner::Cpu => "cpu",
            #[cfg(feature = "cuda")]
            Runner::Cuda { .. } | Runner::Elsewhere { .. } => "cuda",
        };
        let mut child = Command::new(python)
            .arg(scripts.0.join(format!("{}_peer.py", kind.program)))
            .args(["--threads", &threads.to_string(), "--mode", kind.mode, "--device", device])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("`{}` does not start: {e}; name a Python with --python", python.display()))?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        // What a peer prints besides is kept for when it fails, and must not fill its pipe.
        let errors = child.stderr.take().expect("it is piped");
        let errors = std::thread::spawn(move || BufReader::new(errors).lines().map_while(Result::ok).last());
        let (version, first_seconds, figures) = (String::new(), 0.0, Vec::new());
        let errors = Some(errors);
        let mut peer = Self { kind, version, first_seconds, figures, child, requests, answers, errors };
        match peer.ask(&request.to_string()) {
            Ok(answer) => {
                answer["version"].as_str().unwrap_or("?").clone_into(&mut peer.version);
                peer.first_seconds = answer["first_seconds"].as_f64().unwrap_or(f64::NAN);
                let pair = |v: &Value| [v[0].as_f64().unwrap_or(f64::NAN), v[1].as_f64().unwrap_or(f64::NAN)];
                peer.figures = answer["figures"].as_array().into_iter().flatten().map(pair).collect();
                Ok(peer)
            }
            Err(Some(reason)) => Err(reason),
            Err(None) => {
                let last = peer.last_words();
                let install = format!("`{} -m pip install {}` installs it", python.display(), kind.program);
                Err(if last.contains("No module named") { format!("{last}; {install}") } else { last })
            }
        }
    }

    /// Seconds of so many runs.
    pub fn run(&mut self, count: usize) -> Result<Vec<f64>, Failure> {
        let answer = self.ask(&count.to_string()).map_err(|reason| {
            let reason = reason.unwrap_or_else(|| format!("it ended: {}", self.last_words()));
            Failure::run(format!("{}: {reason}", self.kind))
        })?;
        let seconds: Vec<f64> = answer["seconds"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        if seconds.len() == count {
            return Ok(seconds);
        }
        Err(Failure::run(format!("{}: {} times of {count} runs came back", self.kind, seconds.len())))
    }

    /// The last line that a peer printed besides, which has ended or is ended now.
    fn last_words(&mut self) -> String {
        self.end();
        let errors = self.errors.take();
        // A process of its own that it leaves behind may keep the pipe open.
        let is_read = || errors.as_ref().is_none_or(JoinHandle::is_finished);
        (0..20).take_while(|_| !is_read()).for_each(|_| std::thread::sleep(Duration::from_millis(100)));
        let last = errors.filter(JoinHandle::is_finished).and_then(|errors| errors.join().ok().flatten());
        last.unwrap_or_else(|| "it says nothing".into())
    }

    fn end(&mut self) {
        // The end of its input ends it. One that is stuck in a run is stopped.
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// One line there and one back; `Err(None)` where the process has ended.
    fn ask(&mut self, line: &str) -> Result<Value, Option<String>> {
        let requests = self.requests.as_mut().ok_or(None)?;
        writeln!(requests, "{line}").and_then(|()| requests.flush()).map_err(|_| None)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|e| Some(e.to_string()))?;
        let answer: Value = serde_json::from_str(&answer).map_err(|_| None)?;
        match answer["error"].as_str() {
            Some(reason) => Err(Some(reason.to_owned())),
            None => Ok(answer),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is asked of a peer: a workload by its line, or a folder with texts.
pub fn request(workload: Option<&str>, folder: &str, texts: &Value) -> Value {
    if let Some(line) = workload {
        return json!({ "workload": line });
    }
    let mut request = texts.clone();
    request["folder"] = json!(std::fs::canonicalize(folder).unwrap_or_else(|_| folder.into()));
    request
}

/// Two numbers that tell results apart: the sum of sizes, and a sum with signs that depend on the place.
pub fn figures(values: &[f64]) -> [f64; 2] {
    let weight = |n: usize| (n * 7919 % 101) as f64 / 50.0 - 1.0;
    let sizes = values.iter().map(|v| v.abs()).sum();
    [sizes, values.iter().enumerate().map(|(n, v)| v * weight(n)).sum()]
}

/// How far two results' figures are apart, in parts of the sum of sizes; NaN where one of them is.
pub fn apart(ours: [f64; 2], theirs: [f64; 2]) -> f64 {
    let size = theirs[0].abs().max(f64::MIN_POSITIVE);
    larger((ours[0] - theirs[0]).abs() / size, (ours[1] - theirs[1]).abs() / size)
}

/// How far all results are apart at most; NaN where a result is missing or not a number.
pub fn all_apart(ours: &[[f64; 2]], theirs: &[[f64; 2]]) -> f64 {
    if ours.len() != theirs.len() {
        return f64::NAN;
    }
    ours.iter().zip(theirs).map(|(&ours, &theirs)| apart(ours, theirs)).fold(0.0, larger)
}

/// The larger of two numbers, or NaN if one of them is.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
