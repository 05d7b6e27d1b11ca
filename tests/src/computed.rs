//! Running a task graph on the CPU device: the outputs of the graph behind it.

use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::InputKind;
use ein_ir::reference::run_from;
use ein_run::{Executor, Order};
use ein_task::task::TaskGraph;
use std::collections::BTreeMap;
use std::time::Duration;

/// Tensors by name.
pub type Values = BTreeMap<String, Dense>;

/// How long a device waits for another before a test counts as hung.
const LIMIT: Duration = Duration::from_mins(1);

/// The outputs of one run for every order. What is run in random order is also run with no message buffered, and
/// must give the same bits.
pub fn computed(graph: &Graph, tasks: &TaskGraph, inputs: &Values, orders: &[Order]) -> Result<Vec<Values>, String> {
    let named = |parameters: bool| -> Values {
        let kinds = [InputKind::Parameter, InputKind::Input, InputKind::State];
        let ids =
            kinds.into_iter().filter(|&k| (k == InputKind::Parameter) == parameters).flat_map(|k| graph.inputs(k));
        let given = ids.filter_map(|id| inputs.get_key_value(&graph.node(id).name));
        given.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let mut executor = Executor::new(tasks.clone(), &named(true)).map_err(|e| e.to_string())?;
    let mut unbuffered = None;
    let mut found = Vec::new();
    for &order in orders {
        executor.set_order(order);
        let run = executor.run(&named(false)).map_err(|e| e.to_string())?;
        if matches!(order, Order::Random(_)) {
            let again = match &mut unbuffered {
                Some(known) => known,
                none => none
                    .insert(Executor::unbuffered(tasks.clone(), &named(true), Some(LIMIT)).map_err(|e| e.to_string())?),
            };
            again.set_order(order);
            let outputs = again.run(&named(false)).map_err(|e| format!("with no message buffered: {e}"))?.outputs;
            if outputs != run.outputs && !same_bits(&outputs, &run.outputs) {
                return Err(format!("{order:?}: other bits where no message is buffered"));
            }
        }
        let of = |(name, value): (String, Dense)| (graph.find(&name).expect("a row of the graph"), value);
        let sources: BTreeMap<TensorId, Dense> = run.outputs.into_iter().map(of).collect();
        found.push(run_from(graph, &sources).map_err(|e| e.to_string())?);
    }
    Ok(found)
}

/// Whether values are equal, NaN included.
fn same_bits(a: &Values, b: &Values) -> bool {
    let bits = |v: &Values| -> Vec<(String, Vec<u64>)> {
        v.iter().map(|(name, d)| (name.clone(), d.to_f64().iter().map(|x| x.to_bits()).collect())).collect()
    };
    bits(a) == bits(b)
}

/// The outputs of one run.
pub fn once(graph: &Graph, tasks: &TaskGraph, inputs: &Values) -> Result<Values, String> {
    Ok(computed(graph, tasks, inputs, &[Order::Listed])?.remove(0))
}
