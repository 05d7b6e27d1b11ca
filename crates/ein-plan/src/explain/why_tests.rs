use super::*;
use crate::explain::{Explanation, explain};
use crate::options::{Options, Strategy};
use crate::plan::plan;
use crate::price::price;
use crate::strategies::strategies_tests::{Sizes, model};
use ein_ir::graph::Graph;

const SMALL: Sizes = Sizes { batch: 4, tokens: 8, heads: 4, kv: 2, dim: 4, inner: 12, labels: true };

fn machine(name: &str, devices: usize) -> Machine {
    Machine::by_name(name).unwrap().first(devices).unwrap()
}

fn text(text: &str) -> Graph {
    ein_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn two_products() -> Graph {
    text(
        "x: input f32[64, 512]\nw: param f32[512, 2048]\nv: param f32[2048, 512]\n\
         a = einsum f32 (i: 64, n: 2048 | k: 512) sum x[i, k] * w[k, n]\nb = einsum f32 (i: 64, n: 2048) map max(a[i, n], 0.0)\n\
         y = einsum f32 (i: 64, m: 512 | n: 2048) sum b[i, n] * v[n, m]\nreturn y\n",
    )
}

fn explained(graph: &Graph, machine: &Machine, options: &Options) -> (Plan, Explanation) {
    let plan = plan(graph, machine, options).unwrap_or_else(|e| panic!("{e}"));
    let explained = explain(&plan).unwrap_or_else(|e| panic!("{e}"));
    (plan, explained)
}

/// What operations cost, split, is what the plan costs.
#[test]
fn the_split_adds_up() {
    let check = |graph: &Graph, machine: &Machine, options: &Options| {
        let plan = match plan(graph, machine, options) {
            // A model of four heads on eight devices.
            Err(PlanError::Strategy(_)) => return,
            other => other.unwrap_or_else(|e| panic!("{e}")),
        };
        let explained = explain(&plan).unwrap_or_else(|e| panic!("{e}"));
        let rows: f64 = explained.operations.iter().map(|o| o.cost().0).sum();
        let unread = explained
            .exchanges
            .iter()
            .filter(|m| m.stage == "hand-out" && m.readers.iter().all(|r| r.starts_with("output ")));
        let whole = rows + unread.map(|m| m.seconds.0).sum::<f64>();
        let wanted = plan.report.seconds.0;
        assert!((whole - wanted).abs() <= 1e-9 * wanted, "{whole} instead of {wanted}\n{explained}");
        for o in &explained.operations {
            let Split { compute, memory, .. } = o.split;
            assert!(compute.0.max(memory.0) <= o.seconds.0 + 1e-15, "{o:?}");
            assert!(o.seconds.0 <= compute.0 + memory.0 + 1e-4, "{o:?}");
        }
    };
    for machine in [machine("8xa100", 8), machine("dgx-1v", 3), machine("4xcpu", 4)] {
        for strategy in [None, Some(Strategy::Tensor), Some(Strategy::Data)] {
            let options = Options { strategy, ..Options::default() };
            check(&two_products(), &machine, &options);
            check(&model(SMALL), &machine, &options);
        }
        let outputs = Placement::Device(DeviceId(1));
        check(&two_products(), &machine, &Options { outputs, ..Options::default() });
    }
}

/// Every other candidate with each of the homes that are tried, in the whole plan: none costs less than the runner-up, which
/// is one of them.
#[test]
fn no_other_decomposition_of_the_row_costs_less() {
    let check = |graph: &Graph, machine: &Machine, options: &Options| {
        let (plan, explained) = explained(graph, machine, options);
        let rivals = Rivals::new(&plan);
        let whole = price(&plan.graph, &plan.choice, machine, options).unwrap().seconds.0;
        for (operation, (&id, chosen)) in explained.operations.iter().zip(&plan.choice.decompositions) {
            let spec = plan.graph.spec(id).unwrap();
            let place = rivals.place(id, &spec);
            let mut least: Option<f64> = None;
            for candidate in candidates(&spec, machine, Richness::of(machine)) {
                if candidate.decomposition == *chosen {
                    continue;
                }
                let case = rivals.case(id, &spec, &place, &candidate.decomposition, true);
                for (home, _) in rivals.homes(id, &place, &case) {
                    let mut choice = plan.choice.clone();
                    for (source, list) in operand_needs_of(&plan.graph, id, &spec, &candidate.decomposition) {
                        if rivals.is_resident(source) {
                            let whole = plan.graph.ty(source).whole();
                            choice.homes.insert(source, Home::At(refined(&list, &whole, DeviceId(0))));
                        }
                    }
                    choice.decompositions.insert(id, candidate.decomposition.clone());
                    choice.homes.insert(id, home);
                    let other = price(&plan.graph, &choice, machine, options).unwrap().seconds.0 - whole;
                    least = Some(least.map_or(other, |l: f64| l.min(other)));
                }
            }
            let found = operation.runner_up.as_ref().map(|r| r.worse_seconds.0);
            let near = match (found, least) {
                (None, None) => true,
                // Where exchanges meet that are neither equal nor apart, the sum of the row's own is a little more.
                (Some(found), Some(least)) => (found - least).abs() <= 0.02 * least.abs() + 1e-9,
                _ => false,
            };
            assert!(near, "`{}`: {found:?} where {least:?} is the least\n{explained}", operation.name);
        }
    };
    for machine in [machine("8xa100", 1), machine("8xa100", 2), machine("dgx-1v", 3)] {
        check(&two_products(), &machine, &Options::default());
        check(&two_products(), &machine, &Options { strategy: Some(Strategy::Tensor), ..Options::default() });
    }
}

/// Where the search proves its plan the best, no row alone could do better.
#[test]
fn what_is_best_has_no_better_row() {
    let check = |graph: &Graph, machine: &Machine| {
        let (plan, explained) = explained(graph, machine, &Options::default());
        if plan.report.gap > 0.0 {
            return;
        }
        for o in &explained.operations {
            let worse = o.runner_up.as_ref().map_or(0.0, |r| r.worse_seconds.0);
            assert!(worse >= -1e-9 * plan.report.seconds.0, "{o:?}");
        }
    };
    for machine in [machine("8xa100", 8), machine("8xa100", 3), machine("pcie-8", 8), machine("8xcpu", 5)] {
        check(&two_products(), &machine);
        check(&model(SMALL), &machine);
    }
}

#[test]
fn what_is_cut_is_said() {
    let graph = text(
        "a: input f32[8, 64]\nb: input f32[64, 8]\nc = einsum f32 (i: 8, j: 8 | k: 64) sum a[i, k] * b[k, j]\nreturn c\n",
    );
    let spec = graph.spec(graph.find("c").unwrap()).unwrap();
    let machine = machine("8xa100", 4);
    let said: BTreeSet<String> = candidates(&spec, &machine, Richness::of(&machine))
        .iter()
        .map(|c| describe::words(&spec, &c.decomposition))
        .collect();
    for wanted in [
        "cuts i in 4",
        "cuts i in 2; cuts j in 2",
        "cuts the fold over k in 4, which leaves partials",
        "cuts j in 2; cuts the fold over k in 2, which leaves partials",
        "cuts j in 2; repeats each block on 2 devices",
        "not cut: all on one device, {0}",
        "not cut: each of 4 devices does all of it",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in {said:#?}");
    }
}
