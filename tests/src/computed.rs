//! Running a task graph on the CPU device: the outputs of the graph behind it.

use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::InputKind;
use ein_ir::reference::run_from;
use ein_run::{Executor, Order};
use ein_task::task::TaskGraph;
use std::collections::BTreeMap;

/// Tensors by name.
pub type Values = BTreeMap<String, Dense>;

/// The outputs of one run for every order.
pub fn computed(graph: &Graph, tasks: &TaskGraph, inputs: &Values, orders: &[Order]) -> Result<Vec<Values>, String> {
    let named = |parameters: bool| -> Values {
        let kinds = [InputKind::Parameter, InputKind::Input, InputKind::State];
        let ids =
            kinds.into_iter().filter(|&k| (k == InputKind::Parameter) == parameters).flat_map(|k| graph.inputs(k));
        let given = ids.filter_map(|id| inputs.get_key_value(&graph.node(id).name));
        given.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let mut executor = Executor::new(tasks.clone(), &named(true)).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for &order in orders {
        executor.set_order(order);
        let run = executor.run(&named(false)).map_err(|e| e.to_string())?;
        let of = |(name, value): (String, Dense)| (graph.find(&name).expect("a row of the graph"), value);
        let sources: BTreeMap<TensorId, Dense> = run.outputs.into_iter().map(of).collect();
        found.push(run_from(graph, &sources).map_err(|e| e.to_string())?);
    }
    Ok(found)
}

/// The outputs of one run.
pub fn once(graph: &Graph, tasks: &TaskGraph, inputs: &Values) -> Result<Values, String> {
    Ok(computed(graph, tasks, inputs, &[Order::Listed])?.remove(0))
}
