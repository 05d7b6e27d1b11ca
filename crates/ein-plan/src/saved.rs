//! A plan as text, and back: what the cache keeps and what `ein plan --save` writes.
//!
//! ```text
//! einsummable plan 1
//! planner 0.1.0 9f86d081884c7d65
//! graph 12        so many lines follow: the graph that was planned, in text form
//! machine 40      its machine file
//! options 1       JSON
//! choice 20       `row "y" [0:4,0:4]@0 [4:8,0:4]@1`, `home "x" [0:8]@0,1`, `home "y" produced`
//! report 1        JSON
//! tasks 300       the task graph in text form
//! sum 5d41402abc4b2a76b9719d911017c592
//! ```
//!
//! The same plan is the same text: how long planning took is not part of it.
//!
//! Nothing that is read is trusted: the sum shows what was cut short or changed, operations come from the graph, the blocks of
//! every row must tile it, and the task graph must pass the gatekeeper.

use crate::choice::{Block, Choice, Decomposition, Home};
use crate::exchanges::validate;
use crate::needs::output_sources;
use crate::options::Options;
use crate::plan::Plan;
use crate::report::Report;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::{Interval, Region};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::memory::check_capacity;
use ein_task::relation::Held;
use ein_task::task::{OpRow, TaskGraph};
use ein_task::task_text;
use ein_task::units::Seconds;
use ein_task::verify::verify;
use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use xxhash_rust::xxh3::xxh3_128;

/// How every saved plan begins.
pub const FIRST_LINE: &str = "einsummable plan 1";

/// The planner: its version, and a number that changes with its sources.
pub const PLANNER: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("EIN_PLANNER"));

/// Why a text is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    /// It begins otherwise.
    #[error("it is not a saved plan: those begin with `{FIRST_LINE}`; `ein plan --save FILE` writes one")]
    NotAPlan,
    /// It is not what was written.
    #[error("it was cut short or changed after it was written; plan afresh and save again")]
    Damaged,
    /// A part of it does not read, or is not what the others say.
    #[error("its {part} is wrong: {reason}")]
    Part {
        /// Which part.
        part: &'static str,
        /// Why.
        reason: String,
    },
}

fn wrong(part: &'static str) -> impl Fn(&dyn Display) -> SavedError {
    move |reason| SavedError::Part { part, reason: reason.to_string() }
}

/// The text of a plan.
pub fn print(plan: &Plan) -> String {
    let mut text = format!("{FIRST_LINE}\nplanner {PLANNER}\n");
    let mut part = |name: &str, body: &str| {
        let _ = writeln!(text, "{name} {}", body.lines().count());
        for line in body.lines() {
            let _ = writeln!(text, "{line}");
        }
    };
    part("graph", &ein_ir::text::print(&plan.graph));
    part("machine", &plan.machine.to_text());
    part("options", &json(&plan.options));
    part("choice", &choice_text(&plan.graph, &plan.choice));
    part("report", &json(&Report { planning_seconds: Seconds(0.0), ..plan.report.clone() }));
    part("tasks", &task_text::print(&plan.tasks));
    let sum = xxh3_128(text.as_bytes());
    let _ = writeln!(text, "sum {sum:032x}");
    text
}

/// What derives its JSON form has one.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a value whose keys are texts")
}

/// The planner that wrote a plan, if the text is one.
pub fn planner(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
    rest.lines().next()?.strip_prefix("planner ")
}

/// The plan of a text.
pub fn read(text: &str) -> Result<Plan, SavedError> {
    planner(text).ok_or(SavedError::NotAPlan)?;
    let sum = text.rfind("sum ").ok_or(SavedError::Damaged)?;
    let (body, sum) = text.split_at(sum);
    if sum != format!("sum {:032x}\n", xxh3_128(body.as_bytes())) {
        return Err(SavedError::Damaged);
    }
    let mut lines = Parts { rest: body.splitn(3, '\n').nth(2).unwrap_or_default() };
    let graph = ein_ir::text::parse(lines.part("graph")?).map_err(|e| wrong("graph")(&e))?;
    let machine = Machine::parse(lines.part("machine")?).map_err(|e| wrong("machine")(&e))?;
    let options: Options = serde_json::from_str(lines.part("options")?.trim_end()).map_err(|e| wrong("options")(&e))?;
    let choice = read_choice(&graph, lines.part("choice")?)?;
    validate(&graph, &choice, &machine).map_err(|e| wrong("choice")(&e))?;
    let report: Report = serde_json::from_str(lines.part("report")?.trim_end()).map_err(|e| wrong("report")(&e))?;
    let tasks = read_tasks(&graph, &machine, lines.part("tasks")?)?;
    check_capacity(&tasks, &machine, options.memory).map_err(|e| wrong("tasks")(&format!("{e:?}")))?;
    Ok(Plan { graph, machine, options, choice, tasks, report })
}

/// The parts of a text, one after the other.
struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn part(&mut self, name: &'static str) -> Result<&'a str, SavedError> {
        let damaged = || SavedError::Damaged;
        let (head, rest) = self.rest.split_once('\n').ok_or_else(damaged)?;
        let lines = head.strip_prefix(name).and_then(|n| n.trim().parse::<usize>().ok()).ok_or_else(damaged)?;
        let end = match lines {
            0 => 0,
            n => rest.match_indices('\n').nth(n - 1).ok_or_else(damaged)?.0 + 1,
        };
        let (own, rest) = rest.split_at(end);
        self.rest = rest;
        Ok(own)
    }
}

/// The task graph of a text, if it does what the graph says on this machine.
fn read_tasks(graph: &Graph, machine: &Machine, text: &str) -> Result<TaskGraph, SavedError> {
    let part = wrong("tasks");
    let tasks = task_text::parse(text, &operations(graph)).map_err(|e| part(&e))?;
    if tasks.devices != machine.len() {
        return Err(part(&format!("it is for {} devices, not {}", tasks.devices, machine.len())));
    }
    let given: Vec<(&str, InputKind, &TensorType)> = inputs(graph).collect();
    if !tasks.externals.iter().map(|e| (e.name.as_str(), e.kind, &e.ty)).eq(given) {
        return Err(part(&"it takes other inputs than the graph"));
    }
    let named = |id: TensorId| (graph.node(id).name.clone(), graph.ty(id).clone());
    if !tasks.outputs.iter().cloned().eq(output_sources(graph).into_iter().map(named)) {
        return Err(part(&"it gives other outputs than the graph"));
    }
    if !tasks.labels.iter().eq(graph.nodes().iter().map(|n| &n.name)) {
        return Err(part(&"it names other tensors than the graph"));
    }
    verify(&tasks).map_err(|e| part(&e))?;
    Ok(tasks)
}

fn inputs(graph: &Graph) -> impl Iterator<Item = (&str, InputKind, &TensorType)> {
    graph.nodes().iter().filter_map(|n| match n.op {
        Op::Input(kind) => Some((n.name.as_str(), kind, &n.ty)),
        Op::Einsum(_) | Op::View(_) | Op::Kernel(_) => None,
    })
}

/// Every row that tasks may name.
fn operations(graph: &Graph) -> Vec<OpRow> {
    let rows = graph.ids().filter(|&id| !matches!(graph.node(id).op, Op::Input(_)));
    rows.map(|id| OpRow::of(graph, id)).collect()
}

fn choice_text(graph: &Graph, choice: &Choice) -> String {
    let mut text = String::new();
    let name = |id: TensorId| json(&graph.node(id).name);
    let block = |text: &mut String, region: &Region, devices: DeviceSet| {
        let devices: Vec<String> = devices.iter().map(|d| d.0.to_string()).collect();
        let _ = write!(text, " {region}@{}", devices.join(","));
    };
    for (&id, decomposition) in &choice.decompositions {
        let _ = write!(text, "row {}", name(id));
        decomposition.blocks().iter().for_each(|b| block(&mut text, &b.region, b.devices));
        text.push('\n');
    }
    for (&id, home) in &choice.homes {
        let _ = write!(text, "home {}", name(id));
        match home {
            Home::AsProduced => text.push_str(" produced"),
            Home::At(held) => held.iter().for_each(|h| block(&mut text, &h.region, h.devices)),
        }
        text.push('\n');
    }
    text
}

fn read_choice(graph: &Graph, text: &str) -> Result<Choice, SavedError> {
    let mut choice = Choice::default();
    for line in text.lines() {
        let bad = |reason: &str| wrong("choice")(&format!("{reason}: `{line}`"));
        let (word, rest) = line.split_once(' ').ok_or_else(|| bad("a row or a home is expected"))?;
        let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let name = names.next().and_then(Result::ok).ok_or_else(|| bad("a name is expected"))?;
        let rest = rest[names.byte_offset()..].trim_start();
        let id = graph.find(&name).ok_or_else(|| bad("the graph has no such row"))?;
        let blocks = || -> Result<Vec<(Region, DeviceSet)>, SavedError> {
            rest.split_whitespace().map(|word| read_block(word).ok_or_else(|| bad("a block is expected"))).collect()
        };
        match word {
            "row" => {
                let spec = graph.spec(id).ok_or_else(|| bad("the row computes nothing"))?;
                let rank = spec.labels.len();
                let blocks: Vec<Block> =
                    blocks()?.into_iter().map(|(region, devices)| Block { region, devices }).collect();
                let fits = blocks.iter().all(|b| b.region.rank() == rank);
                let decomposition = match blocks.as_slice() {
                    [only] if only.region == spec.space() => Some(Decomposition::whole(&only.region, only.devices)),
                    _ => Decomposition::new(&spec.space(), blocks).filter(|_| fits),
                };
                choice.decompositions.insert(id, decomposition.ok_or_else(|| bad("the blocks do not tile the row"))?);
            }
            "home" if rest == "produced" => {
                choice.homes.insert(id, Home::AsProduced);
            }
            "home" => {
                let held = blocks()?.into_iter().map(|(region, devices)| Held { region, devices }).collect();
                choice.homes.insert(id, Home::At(held));
            }
            _ => return Err(bad("a row or a home is expected")),
        }
    }
    let known: BTreeSet<TensorId> = choice.homes.keys().copied().collect();
    match choice.decompositions.keys().find(|id| !known.contains(id)) {
        Some(&id) => Err(wrong("choice")(&format!("`{}` has no home", graph.node(id).name))),
        None => Ok(choice),
    }
}

/// `[0:4,0:8]@0,1`.
fn read_block(word: &str) -> Option<(Region, DeviceSet)> {
    let (region, devices) = word.split_once('@')?;
    let inner = region.strip_prefix('[')?.strip_suffix(']')?;
    let interval = |text: &str| {
        let (lo, hi) = text.split_once(':')?;
        let (lo, hi) = (lo.parse().ok()?, hi.parse().ok()?);
        (lo <= hi).then(|| Interval::new(lo, hi))
    };
    let axes: Option<Vec<Interval>> = inner.split(',').filter(|t| !t.is_empty()).map(interval).collect();
    let device = |text: &str| text.parse::<u16>().ok().filter(|&d| usize::from(d) < DeviceSet::MAX).map(DeviceId);
    let devices: Option<DeviceSet> = devices.split(',').map(device).collect();
    Some((Region(axes?), devices?))
}
