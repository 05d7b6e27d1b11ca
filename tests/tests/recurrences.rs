//! Linear recurrences whose axis is cut: maps are folded in the order of the axis, wherever its parts lie.

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
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
use einsummable::Tensor;
use einsummable::trace::trace;

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

/// States of 0 stay 0, although the products of factors overflow in every part of the axis.
#[test]
fn scales_that_overflow_make_no_nan() {
    for dtype in ["f64", "f32", "bf16"] {
        let text =
            format!("a: input {dtype}[2, 6000]\nb: input {dtype}[2, 6000]\nh = last_state(a, b) axis 1\nreturn h\n");
        let graph = text::parse(&text).expect("a graph");
        let h = graph.find("h").expect("the result");
        let mut inputs = Values::new();
        for (name, value) in [("a", 2.0), ("b", 0.0)] {
            let ty = graph.ty(graph.find(name).expect("an input"));
            inputs.insert(name.into(), Dense::from_f64(ty.dtype, ty.shape.clone(), &vec![value; ty.elements()]));
        }
        let zeros = Dense::from_f64(graph.ty(h).dtype, [2], &[0.0, 0.0]);
        assert_eq!(run(&graph, &inputs).expect("the reference")["h"], zeros, "{dtype}");
        let space = graph.spec(h).expect("it computes").space();
        for devices in [1, 2, 3] {
            let machine = Machine::by_name(&format!("{devices}xcpu")).expect("it ships");
            for decomposition in decompositions(&space, devices) {
                let mut choice = Choice::default();
                for name in ["a", "b", "h"] {
                    let id = graph.find(name).expect("a row");
                    choice.homes.insert(id, everywhere(&graph, id, devices));
                }
                choice.decompositions.insert(h, decomposition);
                let mut tasks = lower(&graph, &choice, &machine, &Options::default()).expect("a task graph");
                plan_memory(&mut tasks);
                assert_eq!(once(&graph, &tasks, &inputs).expect("it runs")["h"], zeros, "{dtype} on {devices}");
            }
        }
    }
}

/// The states of a long axis are computed in parts: neither a first factor, which nothing reads, nor products that overflow
/// make NaN of them.
#[test]
fn parts_of_a_long_axis_make_no_nan() {
    let n = 65_536;
    let run_once = |dtype: DType, factors: Vec<f64>, shifts: Vec<f64>, initial: Option<f64>| -> Vec<f64> {
        let [a, b] = ["a", "b"].map(|name| Tensor::input(name, [n], dtype));
        let start = Tensor::input("start", [], dtype);
        let h = a.linear_recurrence(&b, 0, initial.map(|_| &start));
        let graph = trace(&[("h", &h)]).unwrap_or_else(|e| panic!("{e}")).graph;
        let mut inputs = Values::new();
        inputs.insert("a".into(), Dense::from_f64(dtype, [n], &factors));
        inputs.insert("b".into(), Dense::from_f64(dtype, [n], &shifts));
        inputs.extend(initial.map(|value| ("start".into(), Dense::from_f64(dtype, [], &[value]))));
        run(&graph, &inputs).unwrap_or_else(|e| panic!("{e}"))["h"].to_f64()
    };
    for dtype in [DType::F32, DType::BF16] {
        let zeros = vec![0.0; n];
        for initial in [None, Some(0.0)] {
            assert_eq!(run_once(dtype, vec![2.0; n], zeros.clone(), initial), zeros, "{dtype} {initial:?}");
        }
        // Nothing is read of the first factor; the others are 1 and -1 in turn, what is added 1 and then 0.
        for first in [f64::INFINITY, f64::NAN] {
            let mut factors: Vec<f64> = (0..n).map(|t| if t % 2 == 0 { 1.0 } else { -1.0 }).collect();
            factors[0] = first;
            let mut shifts = zeros.clone();
            shifts[0] = 1.0;
            let mut expected = vec![1.0];
            for &factor in &factors[1..] {
                expected.push(factor * expected[expected.len() - 1]);
            }
            for initial in [None, Some(0.0)] {
                let found = run_once(dtype, factors.clone(), shifts.clone(), initial);
                assert!(found == expected, "{dtype} {first} {initial:?}");
            }
        }
        // From 3, with 0 in the middle: 3 up to there, 0 behind it.
        let mut factors = vec![1.0; n];
        factors[n / 2] = 0.0;
        factors[n / 2 + 1..].fill(2.0);
        let expected: Vec<f64> = (0..n).map(|t| if t < n / 2 { 3.0 } else { 0.0 }).collect();
        assert!(run_once(dtype, factors, zeros, Some(3.0)) == expected, "{dtype} from 3");
    }
}

/// With an initial state the first state is not rounded to 16 bits before the second is computed.
#[test]
fn the_first_state_is_not_rounded_early() {
    let dtype = DType::BF16;
    let [a, b] = ["a", "b"].map(|name| Tensor::input(name, [2], dtype));
    let start = Tensor::input("start", [], dtype);
    let h = a.linear_recurrence(&b, 0, Some(&start));
    let last = a.linear_recurrence_last(&b, 0, Some(&start));
    let graph = trace(&[("h", &h), ("last", &last)]).unwrap_or_else(|e| panic!("{e}")).graph;
    let mut inputs = Values::new();
    // 256 + 1 has nine bits, of which bf16 keeps eight: 257 - 256 = 1, and 0 where 257 is rounded first.
    for (name, shape, values) in
        [("a", vec![2], vec![1.0, 1.0]), ("b", vec![2], vec![1.0, -256.0]), ("start", vec![], vec![256.0])]
    {
        inputs.insert(name.into(), Dense::from_f64(dtype, shape, &values));
    }
    let found = run(&graph, &inputs).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found["h"].to_f64(), [256.0, 1.0]);
    assert_eq!(found["last"].to_f64(), [1.0]);
}
