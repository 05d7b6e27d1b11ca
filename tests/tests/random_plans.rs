//! Random graphs under random choices: what the plan computes is what the reference computes, to the bit where
//! every operation is exact.

use ein_ir::reference::run;
use ein_plan::lower::lower;
use ein_plan::options::{Options, Placement};
use ein_task::machine::Machine;
use ein_task::memory::plan_memory;
use ein_task::task_text::print;
use ein_task::verify::verify;
use ein_tests::choices::drawn;
use ein_tests::interpret::{Order, interpret};
use ein_tests::random;

#[test]
fn plans_compute_what_the_graph_means() {
    for seed in 0..300 {
        let exact = seed % 2 == 0;
        let devices = 1 + seed as usize % 8;
        let (graph, inputs) = random::graph(seed, exact);
        let expected = run(&graph, &inputs).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
        let outputs = if seed % 3 == 0 { Placement::Replicated } else { Placement::Anywhere };
        let options = Options { outputs, wide_partials: seed % 4 < 2, ..Options::default() };
        let choice = drawn(&graph, devices, seed);
        let mut tasks = lower(&graph, &choice, &machine, &options)
            .unwrap_or_else(|e| panic!("seed {seed}, {devices} devices: {e}"));
        plan_memory(&mut tasks);
        verify(&tasks).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&tasks)));
        let found = interpret(&graph, &tasks, &inputs, Order::Drawn(seed)).expect("it runs");
        let tolerance = if exact { 0.0 } else { random::tolerance(&graph) };
        for (name, value) in &expected {
            let scale = value.to_f64().iter().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
            let off = found[name].max_abs_difference(value);
            assert!(off <= tolerance * scale, "seed {seed}: `{name}` is off by {off}\n{}", print(&tasks));
        }
    }
}
