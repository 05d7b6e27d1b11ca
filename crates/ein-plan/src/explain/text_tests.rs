//! What an explanation prints of its exchanges.

use crate::exchanges::exchanges;
use crate::explain::explain;
use crate::options::{Objective, Options};
use crate::plan::plan;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::InputKind;
use ein_task::bounds::bound;
use ein_task::machine::Machine;
use std::collections::BTreeSet;

/// Two products in a row, so that something has to move.
fn chain(n: usize) -> Graph {
    let mut g = Graph::new();
    let ty = TensorType::new(DType::F32, [n, n]);
    let [a, b, c] = ["a", "b", "c"].map(|name| g.input(name, InputKind::Input, ty.clone()).unwrap());
    let d = g.contraction("d", "ij,jk->ik", &[a, b]).unwrap();
    let e = g.contraction("e", "ij,jk->ik", &[c, d]).unwrap();
    g.output("e", e).unwrap();
    g
}

/// Every exchange stands beside the least time of any program, which of the bounds that is, and the fewest moves.
#[test]
fn every_program_is_printed_beside_its_bound() {
    let (graph, mut binding) = (chain(2048), BTreeSet::new());
    for (name, objective) in [("8xa100", Objective::Bytes), ("dgx-1v", Objective::Bytes), ("dgx-1v", Objective::Time)] {
        let machine = Machine::by_name(name).unwrap();
        let options = Options { objective, ..Options::default() };
        let plan = plan(&graph, &machine, &options).unwrap();
        let explanation = explain(&plan).unwrap();
        let text = explanation.to_string();
        let asked = exchanges(&plan.graph, &plan.choice, &options, &machine).unwrap();
        let bounds = asked.iter().map(|p| bound(&p.exchange, &p.exchange.atoms(), &machine));
        let bounds: Vec<_> = bounds.filter(|b| b.depth > 0).collect();
        assert_eq!(bounds.len(), explanation.exchanges.len(), "{name}\n{text}");
        let mut rows = text.lines().skip_while(|l| !l.starts_with("exchange of")).skip(1);
        for (moved, bound) in explanation.exchanges.iter().zip(&bounds) {
            assert_eq!((moved.bound, moved.depth_bound), (bound.total(), bound.depth), "{text}");
            assert_eq!((moved.binds.as_str(), moved.bandwidth_bound), (bound.binds(), bound.bandwidth()), "{text}");
            assert!(moved.seconds.0 >= bound.total().0 * 0.999_999 && moved.depth >= bound.depth, "{text}");
            let row = rows.next().unwrap();
            let printed = format!(
                "{:>13}  {:>10}  {:>10}  {:<4}  {:>5.2}",
                format!("{} ({})", moved.depth, bound.depth),
                moved.seconds.to_string(),
                bound.total().to_string(),
                bound.binds(),
                moved.seconds.0 / bound.total().0
            );
            assert!(row.starts_with(&moved.tensor) && row.contains(&printed), "{printed}\n{row}");
            binding.insert(bound.binds());
        }
    }
    assert!(!binding.is_empty() && !binding.contains("none"), "{binding:?}");
}
