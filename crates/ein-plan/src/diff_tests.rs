use super::*;
use crate::options::{Objective, Options, Strategy};
use crate::plan::plan;
use ein_ir::graph::Graph;
use ein_task::machine::Machine;

fn graph(last: &str) -> Graph {
    let text = format!(
        "x: input f32[64, 512]\nw: param f32[512, 1024]\nv: param f32[1024, 512]\n\
         a = einsum f32 (i: 64, n: 1024 | k: 512) sum x[i, k] * w[k, n]\n\
         {last} = einsum f32 (i: 64, m: 512 | n: 1024) sum a[i, n] * v[n, m]\nreturn {last}\n"
    );
    ein_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn planned(last: &str, devices: usize, options: &Options) -> Plan {
    let machine = Machine::by_name("8xa100").unwrap().first(devices).unwrap();
    plan(&graph(last), &machine, options).unwrap_or_else(|e| panic!("{e}"))
}

fn fixed(strategy: Strategy) -> Plan {
    planned("y", 4, &Options { strategy: Some(strategy), ..Options::default() })
}

#[test]
fn a_plan_is_itself() {
    let options = Options::default();
    let difference = diff(&planned("y", 4, &options), &planned("y", 4, &options)).unwrap();
    assert!(difference.equal && difference.equal_tasks);
    assert_eq!((difference.cut_alike, difference.live_alike), (2, 5));
    assert!(difference.operations.is_empty() && difference.tensors.is_empty(), "{difference}");
    assert!(difference.to_string().contains("the plans are the same"), "{difference}");
}

#[test]
fn what_is_cut_otherwise_comes_by_what_it_costs() {
    let difference = diff(&fixed(Strategy::Data), &fixed(Strategy::Tensor)).unwrap();
    assert!(!difference.equal);
    assert_eq!(difference.only, [Vec::<String>::new(), vec![]]);
    // Both products: rows here, features there; both weights, whole here and cut there.
    let names: BTreeSet<&str> = difference.operations.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["a", "y"]));
    let of = |name: &str| difference.operations.iter().find(|o| o.name == name).unwrap();
    assert_eq!(of("a").decompositions, ["i 4×16", "n 4×256"]);
    assert!(difference.operations.is_sorted_by(|x, y| by(x) >= by(y)));
    let tensors: Vec<&str> = difference.tensors.iter().map(|t| t.name.as_str()).collect();
    assert!(tensors.contains(&"w") && tensors.contains(&"v"), "{tensors:?}");
    let w = difference.tensors.iter().find(|t| t.name == "w").unwrap();
    assert_eq!(w.kept, [Bytes(4 * 512 * 1024 * 4), Bytes(512 * 1024 * 4)]);
    // The other way round it is the same, turned.
    let turned = diff(&fixed(Strategy::Tensor), &fixed(Strategy::Data)).unwrap();
    for (o, t) in difference.operations.iter().zip(&turned.operations) {
        assert_eq!((&o.name, o.seconds), (&t.name, [t.seconds[1], t.seconds[0]]));
    }
    let text = difference.to_string();
    for part in ["2 of 2 operations are cut otherwise", "a: ", "A  i 4×16", "B  n 4×256", "tensors live elsewhere"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn other_questions_compare_too() {
    let options = Options::default();
    let other = diff(&planned("y", 4, &options), &planned("z", 3, &options)).unwrap();
    assert!(!other.equal);
    assert_eq!(other.only, [vec!["y".to_owned()], vec!["z".to_owned()]]);
    assert_eq!(other.sides.each_ref().map(|s| s.machine.as_str()), ["8xa100/0,1,2,3", "8xa100/0,1,2"]);
    assert!(other.to_string().contains("only in B: z"), "{other}");
    let bytes = Options { objective: Objective::Bytes, ..Options::default() };
    let other = diff(&planned("y", 4, &options), &planned("y", 4, &bytes)).unwrap();
    assert_eq!(other.sides.each_ref().map(|s| s.cost_unit.as_str()), ["s", "B"]);
}
