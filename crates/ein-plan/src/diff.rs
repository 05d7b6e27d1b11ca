//! Two plans side by side: what is cut otherwise, what lives elsewhere, and what that costs.

use crate::choice::{Decomposition, Home};
use crate::error::PlanError;
use crate::explain::{Explanation, Operation, facts};
use crate::plan::Plan;
use ein_ir::graph::TensorId;
use ein_task::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The figures of one plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The machine's name.
    pub machine: String,
    /// The objective.
    pub objective: String,
    /// Its value.
    pub cost: f64,
    /// Its unit.
    pub cost_unit: String,
    /// Serial seconds.
    pub seconds: Seconds,
    /// Makespan with overlap, from the simulator.
    pub simulated_seconds: Seconds,
    /// Bytes over all link crossings.
    pub bytes_total: Bytes,
    /// The most that a device sends.
    pub sent: Bytes,
    /// The fullest device's memory.
    pub memory: Bytes,
}

/// An operation of both plans that is not cut alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CutOtherwise {
    /// The row.
    pub name: String,
    /// How each plan cuts it.
    pub decompositions: [String; 2],
    /// Its seconds in each, with the exchanges that bring it its operands and its result home.
    pub seconds: [Seconds; 2],
    /// Bytes that are moved for it in each.
    pub bytes: [Bytes; 2],
}

/// A tensor of both plans that does not live in the same blocks at the same devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LivesElsewhere {
    /// The tensor.
    pub name: String,
    /// Where it lives in each plan.
    pub homes: [String; 2],
    /// Bytes of all its exchanges in each.
    pub bytes: [Bytes; 2],
    /// Bytes of all its blocks at all their devices in each; of a tensor that stays as it is produced, none.
    pub kept: [Bytes; 2],
}

/// What two plans differ in, the largest differences first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Whether graph, machine, decisions and task graph are the same.
    pub equal: bool,
    /// Whether the task graphs are.
    pub equal_tasks: bool,
    /// The figures of both.
    pub sides: [Side; 2],
    /// Rows that only one plan computes or takes in.
    pub only: [Vec<String>; 2],
    /// Operations that both compute, and how many of them are cut alike.
    pub cut_alike: usize,
    /// Operations that are not.
    pub operations: Vec<CutOtherwise>,
    /// Tensors that both have and that live alike.
    pub live_alike: usize,
    /// Tensors that do not.
    pub tensors: Vec<LivesElsewhere>,
}

/// Compares two plans, by the names of their rows.
pub fn diff(a: &Plan, b: &Plan) -> Result<Difference, PlanError> {
    let explained = [facts(a)?, facts(b)?];
    let plans = [a, b];
    let names = |plan: &Plan| -> BTreeMap<String, TensorId> {
        plan.choice.homes.keys().map(|&id| (plan.graph.node(id).name.clone(), id)).collect()
    };
    let ids = [names(a), names(b)];
    let only = |own: usize| -> Vec<String> {
        ids[own].keys().filter(|name| !ids[1 - own].contains_key(*name)).cloned().collect()
    };
    let both: Vec<(&String, [TensorId; 2])> =
        ids[0].iter().filter_map(|(name, &id)| Some((name, [id, *ids[1].get(name)?]))).collect();
    let rows = explained.each_ref().map(|e| operations(e));
    let moved = explained.each_ref().map(|e| moved(e));
    let (mut operations, mut tensors) = (Vec::new(), Vec::new());
    let (mut cut_alike, mut live_alike) = (0, 0);
    for (name, pair) in both {
        let cuts: [Option<&Decomposition>; 2] = [0, 1].map(|n| plans[n].choice.decompositions.get(&pair[n]));
        if let (Some(first), Some(second)) = (cuts[0], cuts[1]) {
            if blocks(first) == blocks(second) {
                cut_alike += 1;
            } else {
                let own = rows.each_ref().map(|rows| rows.get(name.as_str()).copied());
                let of = |n: usize, f: &dyn Fn(&Operation) -> f64| own[n].map_or(0.0, f);
                operations.push(CutOtherwise {
                    name: name.clone(),
                    decompositions: [0, 1].map(|n| own[n].map_or_else(String::new, |o| o.decomposition.clone())),
                    seconds: [0, 1].map(|n| Seconds(of(n, &|o| o.cost().0))),
                    bytes: [0, 1].map(|n| own[n].map_or(Bytes(0), |o| Bytes(o.bytes_in.0 + o.bytes_out.0))),
                });
            }
        }
        let homes: [&Home; 2] = [0, 1].map(|n| &plans[n].choice.homes[&pair[n]]);
        if held(homes[0]) == held(homes[1]) {
            live_alike += 1;
        } else {
            tensors.push(LivesElsewhere {
                name: name.clone(),
                homes: homes.map(|home| crate::explain::home(Some(home))),
                bytes: moved.each_ref().map(|m| m.get(name.as_str()).copied().unwrap_or_default()),
                kept: [0, 1].map(|n| kept(plans[n], pair[n])),
            });
        }
    }
    // Names break ties, as they come in order.
    operations.sort_by(|x, y| by(y).total_cmp(&by(x)).then(apart(y.bytes).cmp(&apart(x.bytes))));
    tensors.sort_by_key(|t| std::cmp::Reverse((apart(t.bytes), apart(t.kept))));
    let equal_tasks = a.tasks == b.tasks;
    Ok(Difference {
        equal: equal_tasks && a.graph == b.graph && a.machine == b.machine && a.choice == b.choice,
        equal_tasks,
        sides: plans.map(side),
        only: [only(0), only(1)],
        cut_alike,
        operations,
        live_alike,
        tensors,
    })
}

fn by(row: &CutOtherwise) -> f64 {
    (row.seconds[0].0 - row.seconds[1].0).abs()
}

fn apart(bytes: [Bytes; 2]) -> u64 {
    bytes[0].0.abs_diff(bytes[1].0)
}

/// The blocks whatever their order, which is that in which partials are folded.
fn blocks(decomposition: &Decomposition) -> BTreeSet<&crate::choice::Block> {
    decomposition.blocks().iter().collect()
}

fn held(home: &Home) -> Option<BTreeSet<&ein_task::relation::Held>> {
    match home {
        Home::AsProduced => None,
        Home::At(held) => Some(held.iter().collect()),
    }
}

fn kept(plan: &Plan, id: TensorId) -> Bytes {
    let Home::At(held) = &plan.choice.homes[&id] else { return Bytes(0) };
    let elements: usize = held.iter().map(|h| h.region.volume() * h.devices.len()).sum();
    Bytes((elements * plan.graph.ty(id).dtype.bytes()) as u64)
}

fn operations(explained: &Explanation) -> BTreeMap<&str, &Operation> {
    explained.operations.iter().map(|o| (o.name.as_str(), o)).collect()
}

/// Bytes of all exchanges of each tensor.
fn moved(explained: &Explanation) -> BTreeMap<&str, Bytes> {
    let mut moved: BTreeMap<&str, Bytes> = BTreeMap::new();
    for exchange in &explained.exchanges {
        *moved.entry(exchange.tensor.as_str()).or_default() += exchange.bytes;
    }
    moved
}

fn side(plan: &Plan) -> Side {
    let r = &plan.report;
    Side {
        machine: r.machine.clone(),
        objective: r.objective.clone(),
        cost: r.cost,
        cost_unit: r.cost_unit.clone(),
        seconds: r.seconds,
        simulated_seconds: r.simulated_seconds,
        bytes_total: r.bytes_total,
        sent: r.bytes_per_device.sent.iter().max().copied().unwrap_or_default(),
        memory: plan.peak_memory(),
    }
}

/// Rows of a list that are shown to people; JSON has all.
const SHOWN: usize = 20;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.sides;
        let cut = |text: &str, n: usize| {
            let long = text.chars().count() > n;
            if long { text.chars().take(n - 1).chain(['…']).collect() } else { text.to_string() }
        };
        writeln!(f, "  {:<10} {:>24} {:>24} {:>10}", "", "A", "B", "B to A")?;
        let mut row = |what: &str, a: String, b: String, ratio: Option<f64>| {
            let ratio = ratio.map_or(String::new(), |r| format!("{r:.3} ×"));
            writeln!(f, "  {what:<10} {:>24} {:>24} {ratio:>10}", cut(&a, 24), cut(&b, 24))
        };
        let over = |a: f64, b: f64| (a > 0.0).then(|| b / a);
        row("machine", a.machine.clone(), b.machine.clone(), None)?;
        row("objective", a.objective.clone(), b.objective.clone(), None)?;
        let mut seconds = |what: &str, of: fn(&Side) -> Seconds| {
            row(what, of(a).to_string(), of(b).to_string(), over(of(a).0, of(b).0))
        };
        seconds("serial", |s| s.seconds)?;
        seconds("simulated", |s| s.simulated_seconds)?;
        let mut bytes = |what: &str, of: fn(&Side) -> Bytes| {
            row(what, of(a).to_string(), of(b).to_string(), over(of(a).0 as f64, of(b).0 as f64))
        };
        bytes("moved", |s| s.bytes_total)?;
        bytes("most sent", |s| s.sent)?;
        bytes("memory", |s| s.memory)?;
        if self.equal {
            return writeln!(f, "\nthe plans are the same");
        }
        for (name, only) in ["A", "B"].iter().zip(&self.only).filter(|(_, only)| !only.is_empty()) {
            let some: Vec<&str> = only.iter().take(SHOWN).map(String::as_str).collect();
            let more = if only.len() > SHOWN { format!(" and {} more", only.len() - SHOWN) } else { String::new() };
            writeln!(f, "\nonly in {name}: {}{more}", some.join(", "))?;
        }
        let more = |f: &mut fmt::Formatter<'_>, all: usize| match all.saturating_sub(SHOWN) {
            0 => Ok(()),
            rest => writeln!(f, "and {rest} more; --json has all"),
        };
        let all = self.operations.len() + self.cut_alike;
        writeln!(f, "\n{} of {all} operations are cut otherwise", self.operations.len())?;
        for o in self.operations.iter().take(SHOWN) {
            let ([x, y], [s, t]) = (&o.decompositions, o.seconds);
            let bytes =
                if apart(o.bytes) > 0 { format!(", {} or {} moved", o.bytes[0], o.bytes[1]) } else { String::new() };
            writeln!(f, "{}: {s} or {t}{bytes}\n  A  {}\n  B  {}", o.name, cut(x, 100), cut(y, 100))?;
        }
        more(f, self.operations.len())?;
        let all = self.tensors.len() + self.live_alike;
        writeln!(f, "\n{} of {all} tensors live elsewhere", self.tensors.len())?;
        for t in self.tensors.iter().take(SHOWN) {
            let ([x, y], [m, n]) = (&t.homes, t.bytes);
            writeln!(f, "{}: {m} or {n} moved\n  A  {}\n  B  {}", t.name, cut(x, 100), cut(y, 100))?;
        }
        more(f, self.tensors.len())?;
        if self.operations.is_empty() && self.tensors.is_empty() && !self.equal_tasks {
            writeln!(
                f,
                "\nthe decisions are the same; the task graphs differ in order, memory or what hides exchanges"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
