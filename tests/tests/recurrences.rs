//! Linear recurrences whose axis is cut: maps are folded in the order of the axis, wherever its parts lie.

use ein_ir::dense::Dense;
use ein_ir::graph::Graph;
use ein_ir::reference::run;
use ein_ir::region::Region;
use ein_ir::text;
use ein_plan::choice::{Block, Choice, Decomposition, Home};
use ein_plan::lower::lower;
use ein_plan::options::Options;
use ein_plan::plan::plan;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::memory::plan_memory;
use ein_task::relation::Held;
use ein_task::task::Verb;
use ein_task::verify::verify;
use ein_tests::choices::{Rng, even, everywhere, strips};
use ein_tests::computed::{Values, once};

/// Factors and what is added, of -1, 0, 1 and 2: all states of `steps` steps are integers below `2^(steps + 2)`.
fn values(graph: &Graph, seed: u64) -> Values {
    let mut rng = Rng::new(seed);
    let mut values = Values::new();
    for name in ["a", "b"] {
        let ty = graph.ty(graph.find(name).expect("an input"));
        let drawn: Vec<f64> = (0..ty.elements()).map(|_| rng.below(4) as f64 - 1.0).collect();
        values.insert(name.into(), Dense::from_f64(ty.dtype, ty.shape.clone(), &drawn));
    }
    values
}

/// The axis in parts, dealt to `devices` devices: one each in order; two each, of which none are neighbours; listed backwards; cut
/// across another axis, too, at another place in each half.
fn decompositions(space: &Region, devices: usize) -> Vec<Decomposition> {
    let time = space.rank() - 1;
    let parts = |space: &Region, n: usize| strips(space, time, &even(space.0[time].len(), n));
    let at = |n: usize| DeviceSet::one(DeviceId((n % devices) as u16));
    let dealt = |regions: Vec<Region>| -> Vec<Block> {
        regions.into_iter().enumerate().map(|(n, region)| Block { region, devices: at(n) }).collect()
    };
    let mut backwards = dealt(parts(space, devices));
    backwards.reverse();
    let (low, high) = space.split(0, 1);
    let mut halves = dealt(parts(&low, devices));
    halves.extend(dealt(parts(&high, devices + 1)));
    let lists = [dealt(parts(space, devices)), dealt(parts(space, 2 * devices)), backwards, halves];
    lists.into_iter().map(|list| Decomposition::new(space, list).expect("parts tile the space")).collect()
}

#[test]
fn parts_on_one_to_eight_devices_give_the_same_bits() {
    let mut folds = 0;
    for dtype in ["f64", "i32", "f32"] {
        // So many steps that every state is exact.
        let steps = if dtype == "f32" { 17 } else { 40 };
        let text = format!(
            "a: input {dtype}[3, {steps}, 5]\nb: input {dtype}[3, {steps}, 5]\nh = last_state(a, b) axis 1\nreturn h\n"
        );
        let graph = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let h = graph.find("h").expect("the result");
        let inputs = values(&graph, steps as u64);
        let expected = run(&graph, &inputs).expect("the reference");
        let space = graph.spec(h).expect("it computes").space();
        for devices in 1..=8 {
            let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
            for (n, decomposition) in decompositions(&space, devices).into_iter().enumerate() {
                let last = DeviceSet::one(DeviceId(devices as u16 - 1));
                let at_last = Home::At(vec![Held { region: graph.ty(h).whole(), devices: last }]);
                let strips = strips(&graph.ty(h).whole(), 1, &even(5, devices.min(5))).into_iter().enumerate();
                let held = |(n, region)| Held { region, devices: DeviceSet::one(DeviceId(n as u16)) };
                for home in [at_last, everywhere(&graph, h, devices), Home::At(strips.map(held).collect())] {
                    let mut choice = Choice::default();
                    for name in ["a", "b"] {
                        let id = graph.find(name).expect("an input");
                        choice.homes.insert(id, everywhere(&graph, id, devices));
                    }
                    choice.decompositions.insert(h, decomposition.clone());
                    choice.homes.insert(h, home);
                    let how = format!("{dtype} on {devices}, decomposition {n}");
                    let mut tasks =
                        lower(&graph, &choice, &machine, &Options::default()).unwrap_or_else(|e| panic!("{how}: {e}"));
                    plan_memory(&mut tasks);
                    verify(&tasks).unwrap_or_else(|e| panic!("{how}: {e}"));
                    folds += tasks.tasks.iter().filter(|t| matches!(t.verb, Verb::Fold { .. })).count();
                    assert_eq!(once(&graph, &tasks, &inputs).as_ref(), Ok(&expected), "{how}");
                }
            }
        }
    }
    assert!(folds > 1000, "{folds}");
}

/// One line has nothing but its axis to cut: the search cuts it, and the carries alone cross.
#[test]
fn the_search_cuts_a_long_axis() {
    let text = "a: input f32[67108864]\nb: input f32[67108864]\nh = last_state(a, b)\nreturn h\n";
    let graph = text::parse(text).expect("a graph");
    let machine = Machine::by_name("8xa100").expect("it ships");
    let plan = plan(&graph, &machine, &Options::default()).expect("a plan");
    verify(&plan.tasks).expect("a task graph");
    let h = plan.graph.find("h").expect("the result");
    assert_eq!(plan.choice.decompositions[&h].blocks().len(), 8);
    // Seven maps of two numbers of four bytes for whoever has the result, and nothing else.
    let moved = |t: &ein_task::task::Task| {
        if matches!(t.verb, Verb::Receive { .. }) { t.value.form.bytes(&t.value.region) } else { 0 }
    };
    let bytes: usize = plan.tasks.tasks.iter().map(moved).sum();
    assert!((7 * 8..=8 * 7 * 8).contains(&bytes), "{bytes}");
}
