//! The command line: what can be asked, in words.

use clap::{Args, Parser, Subcommand, ValueEnum};
use ein_plan::options::Strategy;
use std::path::PathBuf;

/// Runs AI computations on all devices of a server: no device assignment, no annotation, no collective.
#[derive(Debug, Parser)]
#[command(name = "ein", version, about, after_help = EXAMPLES, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ein plan --workload llama-7b-block:1x4096 --machine 8xa100
  ein explain --workload gemm:8192,8192,8192,f32 --machine 8xa100 --devices 7 --objective bytes
  ein run models/all-MiniLM-L6-v2 --text \"A sentence.\" --text \"Another one.\" --machine 8xcpu --check
  ein machine show dgx-1v

Exit codes:
  0  done
  1  a run failed
  2  the request cannot be understood, or what it names cannot be read or written
  3  the computation does not fit the memory
  4  the result differs from the reference, a text from its layout, or a plan from another";

const BENCHES: &str = "\
Weights of a workload and all inputs follow from their names, the same on every side; sides are timed in turns on the \
same number of cores, and a ratio is the median over turns. Peers are Python packages of the Python that is named: \
torch (eager, and compiled by torch.compile), jax (jit), transformers for a folder of an encoder.

Examples:
  ein bench block:1x512,1024,8,8,2816 --compare torch,jax
  ein bench block:8x128,2048,16,16,5632 --devices 8
  ein bench models/all-MiniLM-L6-v2 --batch-seq 32x52 --compare torch:eager --python venv/bin/python";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a computation and run it: embeds texts (BERT and its like), continues them (Llama, Qwen, GPT-2 and
    /// other decoders) or classifies images (vision transformers)
    #[command(after_help = "Examples:\n  ein run models/all-MiniLM-L6-v2 --text \"One.\" --text \"Two.\" --check\n  \
                            ein run tests/fixtures/llama-tiny/model --text \"the cat\" --new-tokens 8 --devices 3\n  \
                            ein run synthetic:llama --text \"Once\" --machine 8xcpu")]
    Run(Run),
    /// Choose a decomposition for every operation and print what it costs, beside every fixed strategy
    #[command(after_help = "Examples:\n  ein plan --workload llama-70b-block:1x4096 --machine 8xa100 --json\n  \
                            ein plan model/config.json --batch-seq 8x512 --memory-per-device 20GB\n  \
                            ein plan graph.ein --machine dgx-1v")]
    Plan(Plan),
    /// Say, for every operation and exchange, what was chosen and what it costs
    #[command(
        after_help = "Example:\n  ein explain --workload gemm:8192,8192,8192 --machine 8xa100 --devices 7 --programs"
    )]
    Explain(Explain),
    /// Execute the plan on a simulated machine and print how long it takes
    #[command(
        after_help = "Example:\n  ein simulate --workload llama-7b-block:1x4096 --machine dgx-1v --trace trace.json"
    )]
    Simulate(Simulate),
    /// Time a computation: its seconds, what one device takes, what is possible, and what other programs take
    #[command(after_help = BENCHES)]
    Bench(Bench),
    /// Lay out graphs in text form: prints them, or writes them back
    #[command(
        after_help = "Comments and blank lines stay, and no meaning changes.\n\nExamples:\n  ein format graph.ein\n  \
                      ein format --write graph.ein other.ein\n  ein format --check graph.ein\n  \
                      ein format - < graph.ein"
    )]
    Format(Format),
    /// List, draw, detect or measure machines
    #[command(
        subcommand,
        after_help = "Examples:\n  ein machine list\n  ein machine show dgx-1v\n  ein machine show my-machine.toml --json\n  \
                      ein machine detect --out server.toml\n  ein machine measure --devices 4 --out host.toml\n  ein machine measure --machine cuda --out gpus.toml"
    )]
    Machine(Machine),
}

/// `ein machine`.
#[derive(Debug, Subcommand)]
pub enum Machine {
    /// The machines that come with the program
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One machine: devices, memory, rates, links, and what binds
    Show {
        /// A name from the list, `Nxcpu`, `cuda` (this host's GPUs), or a machine file
        machine: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print the machine file, to change and use
        #[arg(long, conflicts_with = "json")]
        file: bool,
    },
    /// Run small task graphs on this host's devices, and print a machine file that tells how long they take
    ///
    /// Takes some seconds. Other work on the host, or on its GPUs, makes the figures worse.
    Measure {
        /// `cpu`: virtual devices of this host; `cuda`: its GPUs
        #[arg(long, value_enum, default_value_t = Measured::Cpu)]
        machine: Measured,
        /// Virtual devices of the machine (8 if it is not said), or the first N GPUs (all of them)
        #[arg(long, value_name = "N")]
        devices: Option<usize>,
        /// Products of f32 on GPUs round their factors to TF32, for the rate of f32 in the file
        #[arg(long)]
        tf32: bool,
        /// Little of everything on GPUs, to try it: figures are too low to plan with
        #[arg(long)]
        quick: bool,
        /// Runs of each task graph of which the median is taken
        #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// Write the machine file here
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask NVIDIA's driver for this host's GPUs and their links, and print them as a machine file
    ///
    /// `--machine cuda` plans for the same machine without a file.
    Detect {
        /// Write the machine file here
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Where the computation comes from.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("computation").required(true).multiple(false))]
pub struct Source {
    /// A Hugging Face folder, its config.json, or a graph in text form
    #[arg(group = "computation", value_name = "SOURCE")]
    pub place: Option<String>,
    /// A named workload instead, such as gemm:4096,4096,4096
    #[arg(long, group = "computation", value_name = "NAME:SIZES", long_help = workloads())]
    pub workload: Option<String>,
    /// Batch and sequence length for a folder or config.json; 1x128 if not given, or as much as the model takes
    #[arg(long, conflicts_with = "workload", value_name = "BATCHxSEQ")]
    pub batch_seq: Option<String>,
}

fn workloads() -> String {
    let list = einsummable::workloads::usage();
    format!("A named workload instead; DTYPE is one of f64, f32, bf16, f16, i64, i32, u8:\n{list}")
}

/// The machine and what is asked of the plan.
// Flags of a command line, each for itself.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
pub struct Asked {
    /// A machine's name (`ein machine list`), `Nxcpu`, `cuda` (this host's GPUs), or a machine file
    #[arg(long, default_value = "8xcpu", value_name = "NAME|FILE", allow_hyphen_values = true)]
    pub machine: String,
    /// The first N devices, a list such as 0,2,3, or GPUs of this host such as cuda:0,cuda:1: one that is named
    /// several times is several devices, which share it
    #[arg(long, value_name = "N|LIST", allow_hyphen_values = true)]
    pub devices: Option<String>,
    /// On GPUs, let products of f32 round their factors to TF32, which is several times faster
    #[arg(long)]
    pub tf32: bool,
    /// On GPUs that have them (Hopper), do attention by products of four warps at once (`wgmma`)
    #[arg(long)]
    pub wgmma: bool,
    /// What to minimise
    #[arg(long, value_enum, default_value = "time")]
    pub objective: Objective,
    /// Lift the rule of `--objective bytes` that every device does its share of the products
    #[arg(long, value_enum)]
    pub balance: Option<Balance>,
    /// A limit below the machine's own memory, such as 40MiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub memory_per_device: Option<String>,
    /// Let parameters stay in the memory of a host that the machine has, where the devices' own does not suffice; they are
    /// then sent to where they are read in every run
    #[arg(long)]
    pub offload: bool,
    /// End the search after so many seconds with the best plan so far
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub time_limit: Option<String>,
    /// The type in which partials of 16-bit tensors cross between devices
    #[arg(long, value_enum, default_value = "same")]
    pub partials: Partials,
    /// Where the inputs are held: anywhere, replicated or device:N
    #[arg(long, default_value = "anywhere", value_name = "PLACE")]
    pub inputs: String,
    /// Where the outputs are held: anywhere, replicated or device:N
    #[arg(long, default_value = "anywhere", value_name = "PLACE")]
    pub outputs: String,
    /// A fixed strategy instead of the search
    #[arg(long, value_name = "NAME", help = strategies())]
    pub strategy: Option<String>,
    /// Leave blocks and memory as the search chose them. Otherwise, for `--objective time`, blocks are cut once more and
    /// memory is spread where, as simulated, exchanges then hide behind what is computed (never where devices are
    /// threads, as those of `Nxcpu`)
    #[arg(long)]
    pub no_overlap: bool,
    /// Plan afresh, and keep nothing. Otherwise plans are kept in `EIN_CACHE_DIR`, `XDG_CACHE_HOME/einsummable` or
    /// `~/.cache/einsummable`, and a question that was asked before is answered from there
    #[arg(long)]
    pub no_cache: bool,
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

fn strategies() -> String {
    format!("A fixed strategy instead of the search: {}", Strategy::names())
}

/// `ein run`.
#[derive(Debug, Args)]
pub struct Run {
    /// A Hugging Face folder, a graph in text form, or `synthetic:llama` for a small model with seeded weights
    pub model: String,
    /// A text to embed or continue; may be given more than once
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Vec<String>,
    /// The value of a graph's input: `x=1,2,3`, `x=0..12`, `x=6*0.5`, or a list of these; may be given more than once
    #[arg(long, value_name = "NAME=VALUES", allow_hyphen_values = true)]
    pub set: Vec<String>,
    /// A safetensors file with values of a graph's inputs, by name
    #[arg(long, value_name = "FILE")]
    pub tensors: Option<PathBuf>,
    /// Images to classify: `pixel_values` [images, channels, height, width] of a safetensors file
    #[arg(long, conflicts_with_all = ["text", "new_tokens"], value_name = "FILE")]
    pub pixels: Option<PathBuf>,
    /// Tokens to append to each text (decoders only); 16 if not given
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = at_least_one)]
    pub new_tokens: Option<usize>,
    /// Compare with the dense reference on one device
    #[arg(long)]
    pub check: bool,
    /// Print the explained plan too
    #[arg(long)]
    pub explain: bool,
    /// Print each fixed strategy's price beside ours
    #[arg(long)]
    pub compare: bool,
    /// Write the measured timeline as a Chrome/Perfetto trace
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Machine and plan.
    #[command(flatten)]
    pub asked: Asked,
}

/// A number, or a list of GPUs, which is looked at later.
fn some_devices(text: &str) -> Result<String, &'static str> {
    if text.contains(':') { Ok(text.to_owned()) } else { at_least_one(text).map(|n| n.to_string()) }
}

fn at_least_one(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|&n| n > 0).ok_or("a number of at least 1 is expected")
}

/// `ein plan`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Plan {
    /// What else can be done with plans.
    #[command(subcommand)]
    pub also: Option<AlsoPlan>,
    /// The computation.
    #[command(flatten)]
    pub source: Source,
    /// Write the task graph in text form
    #[arg(long, value_name = "FILE")]
    pub write_tasks: Option<PathBuf>,
    /// Write the whole plan, for `ein plan diff`
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Machine and plan.
    #[command(flatten)]
    pub asked: Asked,
}

/// `ein plan diff`.
#[derive(Debug, Subcommand)]
pub enum AlsoPlan {
    /// Compare two plans: what is cut otherwise, what lives elsewhere, and what that costs; exit code 4 if they differ
    #[command(
        after_help = "Examples:\n  ein plan --workload gemm:4096,4096,4096 --machine 8xa100 --save a.plan\n  ein plan diff a.plan \
                      \"--workload gemm:4096,4096,4096 --machine 8xa100 --devices 7\"\n  ein plan diff \"graph.ein --machine \
                      dgx-1v\" \"graph.ein --machine dgx-1v --objective bytes\" --json"
    )]
    Diff(Diff),
}

/// `ein plan diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// A file of `ein plan --save`, or what would be asked of `ein plan`, in quotes
    #[arg(value_name = "A", allow_hyphen_values = true)]
    pub a: String,
    /// The other one
    #[arg(value_name = "B", allow_hyphen_values = true)]
    pub b: String,
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// `ein explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The computation.
    #[command(flatten)]
    pub source: Source,
    /// Print every exchange program
    #[arg(long)]
    pub programs: bool,
    /// Machine and plan.
    #[command(flatten)]
    pub asked: Asked,
}

/// `ein simulate`.
#[derive(Debug, Args)]
pub struct Simulate {
    /// The computation.
    #[command(flatten)]
    pub source: Source,
    /// Write the simulated timeline as a Chrome/Perfetto trace
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Machine and plan.
    #[command(flatten)]
    pub asked: Asked,
}

/// `ein bench`.
// Flags of a command line, each for itself.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
pub struct Bench {
    /// A Hugging Face folder, its config.json, a graph in text form, or a named workload such as gemm:4096,4096,4096
    #[arg(value_name = "MODEL|WORKLOAD", long_help = workloads())]
    pub computation: String,
    /// Batch and sequence length of a folder or config.json; 1x128 if not given, or as much as the model takes
    #[arg(long, value_name = "BATCHxSEQ")]
    pub batch_seq: Option<String>,
    /// Virtual devices of this host to cut it over; with `--machine cuda`, its first N GPUs, or a list such as
    /// cuda:0,cuda:0
    #[arg(long, default_value = "1", value_name = "N|LIST", value_parser = some_devices)]
    pub devices: String,
    /// On GPUs, let products of f32 round their factors to TF32
    #[arg(long)]
    pub tf32: bool,
    /// On GPUs that have them (Hopper), do attention by products of four warps at once (`wgmma`)
    #[arg(long)]
    pub wgmma: bool,
    /// Threads that compute at once, of every side; as many as there are processors if not given
    #[arg(long, value_name = "T", value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// Turns of which the median is taken
    #[arg(long, default_value_t = 9, value_name = "R", value_parser = at_least_one)]
    pub runs: usize,
    /// Runs of every side before its turns: at least one, which says how many runs a turn is
    #[arg(long, default_value_t = 3, value_name = "W", value_parser = at_least_one)]
    pub warmup: usize,
    /// Other programs to compare with: torch, jax, or one way of one such as torch:compile
    #[arg(long, value_delimiter = ',', value_name = "PEERS")]
    pub compare: Vec<String>,
    /// The Python that has the peers' packages
    #[arg(long, default_value = "python3", value_name = "FILE")]
    pub python: PathBuf,
    /// A machine to plan for instead of `Nxcpu`, whose figures are assumptions: a file of `ein machine measure` has this
    /// host's. `cuda`: this host's GPUs, and run there
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// A fixed strategy instead of the search
    #[arg(long, value_name = "NAME", help = strategies())]
    pub strategy: Option<String>,
    /// Write the measured timeline of our last run as a Chrome/Perfetto trace
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Plan afresh, and keep nothing
    #[arg(long)]
    pub no_cache: bool,
    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// `ein format`.
#[derive(Debug, Args)]
pub struct Format {
    /// Graphs in text form; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,
    /// Write each file back instead of printing it
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Only say whether each is laid out: exit code 4 if one is not
    #[arg(long)]
    pub check: bool,
}

/// `--objective`.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)]
pub enum Objective {
    /// Serial seconds: the slowest device of every operation, and every exchange
    Time,
    /// Simulated seconds, with what can run at once running at once
    Makespan,
    /// Bytes over links
    Bytes,
    /// The fullest device's memory
    Memory,
}

/// What `machine measure` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Measured {
    Cpu,
    Cuda,
}

/// `--balance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Balance {
    None,
}

/// `--partials`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Partials {
    /// In the tensor's own type
    Same,
    /// In f32
    F32,
}
