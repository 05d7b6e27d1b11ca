//! Plans whose exchanges store as little at once as they can, where the quickest do not fit.

use ein_ir::graph::Graph;
use ein_plan::error::PlanError;
use ein_plan::lower::lower;
use ein_plan::options::{ExchangeStyle, Options, Placement, Strategy};
use ein_plan::plan::{Plan, plan};
use ein_plan::price::price;
use ein_task::machine::Machine;
use ein_task::memory::{ALIGN, plan_memory};
use ein_task::units::Bytes;
use ein_task::verify::verify;
use ein_tests::plans::computes;
use ein_tests::small::products;

fn computed(plan: &Plan, what: &str) {
    verify(&plan.tasks).unwrap_or_else(|e| panic!("{what}: {e}"));
    computes(&plan.graph, &plan.tasks, 0.0, what);
}

/// Plans with all memory, then with what the quickest exchanges lack little of, with just what lean ones need, and with less.
fn check(graph: &Graph, machine: &Machine, options: &Options) {
    let with = |options: &Options| plan(graph, machine, options);
    let within = |bytes: u64| with(&Options { memory: Some(Bytes(bytes)), ..options.clone() });
    let what = format!("{:?} on {} of {}", options.strategy, machine.len(), machine.name);
    // Without overlap, which takes memory where there is some.
    let asked = Options { overlap: false, ..options.clone() };
    let quickest = with(&asked).expect("there is memory enough");
    let lean = with(&Options { exchange: ExchangeStyle::Lean, ..asked }).expect("there is memory enough");
    let (most, least) = (quickest.peak_memory().0, lean.peak_memory().0);
    assert_eq!((&*quickest.report.exchanges, &*lean.report.exchanges), ("quickest", "lean"), "{what}");
    assert!(least < most, "{what}: lean exchanges need {least} bytes, the quickest {most}");

    let unlimited = with(options).expect("there is memory enough");
    assert_eq!(within(most).expect("the quickest fit").report.exchanges, "quickest", "{what}");
    for limit in [least, least.midpoint(most), most - ALIGN] {
        let plan = within(limit).unwrap_or_else(|e| panic!("{what} in {limit} bytes: {e}"));
        assert_eq!(plan.options.exchange, ExchangeStyle::Lean, "{what} in {limit} bytes");
        assert_eq!(plan.report.exchanges, "lean", "{what} in {limit} bytes");
        assert!(plan.peak_memory().0 <= limit, "{what} in {limit} bytes: {}", plan.peak_memory());
        assert_eq!(plan.report.peak_memory_per_device, plan.tasks.arenas, "{what}");
        let (seconds, fewest) = (plan.report.seconds, unlimited.report.seconds);
        assert!(seconds >= fewest, "{what} in {limit} bytes: {seconds}, with all memory {fewest}");
        computed(&plan, &format!("{what} in {limit} bytes"));
    }

    let error = within(least - ALIGN).expect_err("not even lean exchanges fit");
    let told = error.to_string();
    let PlanError::DoesNotFit { limit, needed, device, largest } = error else { panic!("{what}: {told}") };
    assert_eq!((limit, needed), (Bytes(least - ALIGN), Bytes(least)), "{what}");
    assert!(machine.devices.iter().any(|d| d.name == device), "{what}: {device}");
    assert!(largest.iter().any(|l| l.tensor == "y"), "{what}: {largest:?}");
    for part in [limit.to_string(), needed.to_string(), device, format!("({least} B)")] {
        assert!(told.contains(&part), "{what}: no {part} in {told}");
    }
}

#[test]
fn lean_exchanges_fit_where_the_quickest_do_not() {
    for (name, devices) in [("8xa100", 3), ("8xa100", 4), ("dgx-1v", 4), ("pcie-4", 4)] {
        let machine = Machine::by_name(name).and_then(|m| m.first(devices)).expect("it ships");
        let options = Options { strategy: Some(Strategy::Tensor), ..Options::default() };
        check(&products(64, 64, 64, 2), &machine, &options);
        check(&products(16, 256, 48, 2), &machine, &options);
    }
}

/// Lean exchanges are not taken as soon as they fit: here another choice's quickest ones fit as well and take less time.
#[test]
fn another_choice_may_be_quicker_than_lean_exchanges() {
    let machine = Machine::by_name("8xa100").and_then(|m| m.first(4)).expect("it ships");
    let graph = products(16, 512, 4096, 2);
    let asked = Options::default();
    let quickest = plan(&graph, &machine, &Options { overlap: false, ..asked.clone() }).expect("a plan");
    let limit = Bytes(quickest.peak_memory().0 - ALIGN);
    // The same choice would fit with lean exchanges.
    let lean = Options { exchange: ExchangeStyle::Lean, ..asked.clone() };
    let mut tasks = lower(&quickest.graph, &quickest.choice, &machine, &lean).expect("it was lowered");
    plan_memory(&mut tasks);
    assert!(tasks.arenas.iter().all(|&a| a <= limit), "{:?} and {limit}", tasks.arenas);
    let lean = price(&quickest.graph, &quickest.choice, &machine, &lean).expect("it was planned");
    let found = plan(&graph, &machine, &Options { memory: Some(limit), ..asked }).expect("a plan fits");
    assert_eq!(found.report.exchanges, "quickest");
    assert!(found.peak_memory() <= limit && found.choice != quickest.choice);
    assert!(found.report.seconds < lean.seconds, "{} and {}", found.report.seconds, lean.seconds);
}

/// The least memory in which the search finds a plan: there its exchanges may have to be lean.
#[test]
fn searched_plans_in_the_least_memory() {
    let mut lean = 0;
    for (name, devices, graph, outputs) in [
        ("8xa100", 4, products(64, 32, 128, 2), Placement::Anywhere),
        ("8xa100", 3, products(64, 32, 128, 2), Placement::Replicated),
        ("pcie-4", 4, products(64, 32, 128, 2), Placement::Anywhere),
    ] {
        let machine = Machine::by_name(name).and_then(|m| m.first(devices)).expect("it ships");
        let within = |slots: u64| {
            let memory = Some(Bytes(slots * ALIGN));
            plan(&graph, &machine, &Options { outputs, memory, ..Options::default() })
        };
        let (mut small, mut large) = (0_u64, 4096_u64);
        while large - small > 1 {
            let middle = small.midpoint(large);
            if within(middle).is_ok() { large = middle } else { small = middle }
        }
        let found = within(large).expect("a plan fits");
        let what = format!("{name} with {devices} devices in {} bytes", large * ALIGN);
        lean += usize::from(found.report.exchanges == "lean");
        assert!(found.peak_memory().0 <= large * ALIGN, "{what}");
        let ample = within(4 * large).expect("a plan fits");
        assert_eq!(ample.report.exchanges, "quickest", "{what}");
        assert!(found.report.seconds >= ample.report.seconds, "{what}");
        computed(&found, &what);
        let error = within(small).expect_err("no plan fits");
        let PlanError::DoesNotFit { limit, needed, .. } = error else { panic!("{what}: {error}") };
        assert_eq!(limit.0, small * ALIGN, "{what}");
        let enough = within(needed.0 / ALIGN).unwrap_or_else(|e| panic!("{what}: {needed} would do, but {e}"));
        assert!(enough.peak_memory() <= needed && needed > limit, "{what}");
    }
    assert!(lean > 0, "nowhere did exchanges have to be lean");
}
