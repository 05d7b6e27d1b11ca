//! Random graphs by random choices on random machines: what no search would choose still computes the graph.
//!
//! `EIN_TEST_SEEDS` raises the number of seeds; `EIN_TEST_SEED` runs one of them alone.

use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_ir::simplify::simplify;
use ein_ir::text;
use ein_plan::choice::{Choice, Home};
use ein_plan::exchanges::exchanges;
use ein_plan::lower::lower;
use ein_plan::options::{Options, Placement};
use ein_plan::synthesis::{Aim, synthesize_for};
use ein_run::Order;
use ein_task::check::{check, check_rendezvous};
use ein_task::machine::{DeviceId, Machine};
use ein_task::memory::{peak, plan_memory};
use ein_task::simulate::simulate;
use ein_task::task::{TaskGraph, Verb};
use ein_task::verify::verify;
use ein_tests::choices::{self, Rng};
use ein_tests::computed::{Values, computed};
use ein_tests::interpret::{self, interpret};
use ein_tests::same::{difference, variable};
use ein_tests::{machines, random};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One draw: everything that a seed stands for.
struct Case {
    seed: u64,
    exact: bool,
    graph: Graph,
    inputs: Values,
    machine: Machine,
    choice: Choice,
    options: Options,
}

impl Case {
    /// What this seed stands for.
    fn new(seed: u64) -> Self {
        let exact = !seed.is_multiple_of(3);
        let (graph, inputs) = random::graph(seed, exact);
        let graph = if seed.is_multiple_of(2) { simplify(&graph) } else { graph };
        let mut rng = Rng::new(seed ^ 0x00c0_ffee);
        let devices = 1 + rng.below(8);
        let machine = machines::drawn(&mut rng, devices);
        let options = Options {
            outputs: match rng.below(4) {
                0 => Placement::Replicated,
                1 => Placement::Device(DeviceId(rng.below(devices) as u16)),
                _ => Placement::Anywhere,
            },
            wide_partials: rng.chance(30),
            ..Options::default()
        };
        let choice = choices::drawn(&graph, devices, seed);
        Self { seed, exact, graph, inputs, machine, choice, options }
    }

    /// Lowers, checks, simulates and runs; what is wrong, if anything is.
    fn check(&self) -> Result<(), String> {
        self.check_programs()?;
        let mut tasks = lower(&self.graph, &self.choice, &self.machine, &self.options).map_err(|e| e.to_string())?;
        plan_memory(&mut tasks);
        verify(&tasks).map_err(|e| e.to_string())?;
        for (least, arena) in peak(&tasks).iter().zip(&tasks.arenas) {
            if least > arena {
                return Err(format!("{least} are live at once in an arena of {arena}"));
            }
        }
        self.check_links(&tasks)?;
        let seconds = simulate(&tasks, &self.machine).makespan().0;
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(format!("it is simulated to take {seconds} s"));
        }
        let expected = run(&self.graph, &self.inputs).map_err(|e| format!("the reference: {e}"))?;
        let mut orders = vec![Order::Listed];
        if self.seed.is_multiple_of(4) {
            orders.extend([Order::Random(self.seed), Order::Random(self.seed + 1)]);
        }
        for (order, found) in orders.iter().zip(computed(&self.graph, &tasks, &self.inputs, &orders)?) {
            self.compare(&format!("executed, {order:?}"), &found, &expected)?;
        }
        if self.seed.is_multiple_of(3) {
            let order = interpret::Order::Drawn(self.seed);
            let found = interpret(&self.graph, &tasks, &self.inputs, order).map_err(|e| e.to_string())?;
            self.compare("interpreted", &found, &expected)?;
        }
        Ok(())
    }

    /// Nothing is sent where there is no link.
    fn check_links(&self, tasks: &TaskGraph) -> Result<(), String> {
        for (id, task) in tasks.rows() {
            if let Verb::Send { to } = task.verb
                && self.machine.link(task.device, to).is_none()
            {
                return Err(format!("{id:?} sends from {} to {to}, which have no link", task.device));
            }
        }
        Ok(())
    }

    /// Every exchange of the choice has a program that the checker takes, whatever the aim.
    fn check_programs(&self) -> Result<(), String> {
        let planned = exchanges(&self.graph, &self.choice, &self.options, &self.machine).map_err(|e| e.to_string())?;
        for p in planned {
            for aim in [Aim::Seconds, Aim::Bytes] {
                let at = |e: String| format!("{:?} of `{}`, {aim:?}: {e}", p.stage, self.graph.node(p.tensor).name);
                let program = synthesize_for(&p.exchange, &self.machine, aim).map_err(|e| at(e.to_string()))?;
                let pieces = check(&p.exchange, &program, &self.machine).map_err(|e| at(e.to_string()))?;
                check_rendezvous(&program, &pieces, &self.machine).map_err(|e| at(e.to_string()))?;
            }
        }
        Ok(())
    }

    fn compare(&self, how: &str, found: &Values, expected: &Values) -> Result<(), String> {
        let tolerance = if self.exact { 0.0 } else { random::tolerance(&self.graph) };
        match difference(found, expected, tolerance) {
            Some(what) => Err(format!("{how}: {what}")),
            None => Ok(()),
        }
    }

    /// [`Case::check`], panics included.
    fn wrong(&self) -> Option<String> {
        let caught = catch_unwind(AssertUnwindSafe(|| self.check()));
        caught
            .unwrap_or_else(|p| {
                let text = p.downcast_ref::<String>().cloned();
                let text = text.or_else(|| p.downcast_ref::<&str>().map(ToString::to_string));
                Err(format!("panic: {}", text.unwrap_or_default()))
            })
            .err()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}{}", self.seed, if self.exact { ", exact" } else { "" })?;
        write!(f, "{}", text::print(&self.graph))?;
        writeln!(f, "{} of {} devices, {:?}", self.machine.name, self.machine.len(), self.options)?;
        for id in self.graph.ids() {
            let name = &self.graph.node(id).name;
            if let Some(d) = self.choice.decompositions.get(&id) {
                let blocks: Vec<String> = d.blocks().iter().map(|b| format!("{}@{}", b.region, b.devices)).collect();
                writeln!(f, "{name} by {}", blocks.join(" "))?;
            }
            match self.choice.homes.get(&id) {
                None => {}
                Some(Home::AsProduced) => writeln!(f, "{name} as produced")?,
                Some(Home::At(held)) => {
                    let held: Vec<String> = held.iter().map(|h| format!("{}@{}", h.region, h.devices)).collect();
                    writeln!(f, "{name} at {}", held.join(" "))?;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn any_choice_on_any_machine_computes_the_graph() {
    let seeds = match variable("EIN_TEST_SEED") {
        Some(one) => one..one + 1,
        None => 0..variable("EIN_TEST_SEEDS").unwrap_or(300),
    };
    let mut wrong: Vec<(Case, String)> = Vec::new();
    for seed in seeds {
        let case = Case::new(seed);
        if let Some(what) = case.wrong() {
            wrong.push((case, what));
        }
    }
    // The smallest graph says most.
    wrong.sort_by_key(|(case, _)| (case.graph.nodes().len(), case.seed));
    if let Some((case, what)) = wrong.first() {
        let others: Vec<String> = wrong.iter().map(|(c, w)| format!("{}: {w}", c.seed)).collect();
        panic!("{what}\n\n{case}\n{} seeds are wrong:\n{}", wrong.len(), others.join("\n"));
    }
}
