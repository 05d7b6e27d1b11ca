//! Task graphs on GPUs that are not there.

use ein_cuda::devices::{Devices, Seat, Settings};
use ein_ir::dense::Dense;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::InputKind;
use ein_ir::reference::run_from;
use ein_run::{Executor, RunError};
use ein_task::machine::{DeviceKind, Machine};
use ein_task::task::TaskGraph;
use ein_tests::computed::Values;
use std::collections::BTreeMap;

/// Seats of a machine's devices on so many GPUs, by turns.
pub fn seats(machine: &Machine, gpus: usize) -> Vec<Seat> {
    let seat = |(n, kind)| if kind == DeviceKind::Host { Seat::Host } else { Seat::Gpu(n % gpus) };
    machine.devices.iter().map(|d| d.kind).enumerate().map(seat).collect()
}

/// A task graph, ready.
pub fn executor(tasks: &TaskGraph, parameters: &Values, seats: &[Seat]) -> Result<Executor, RunError> {
    Executor::on(tasks.clone(), |tasks| Ok(Box::new(Devices::new(tasks, parameters, seats, Settings::default())?)))
}

/// The values of parameters, or those of all others.
pub fn given(graph: &Graph, tasks: &TaskGraph, inputs: &Values, parameters: bool) -> Values {
    let kinds = [InputKind::Parameter, InputKind::Input, InputKind::State];
    let ids = kinds.into_iter().filter(|&k| (k == InputKind::Parameter) == parameters).flat_map(|k| graph.inputs(k));
    let named = ids.map(|id| &graph.node(id).name).filter(|n| tasks.externals.iter().any(|e| e.name == **n));
    named.filter_map(|name| Some((name.clone(), inputs.get(name)?.clone()))).collect()
}

/// The outputs of the graph, with the views that end it.
pub fn outputs(graph: &Graph, found: BTreeMap<String, Dense>) -> Values {
    let of = |(name, value): (String, Dense)| (graph.find(&name).expect("a row of the graph"), value);
    let sources: BTreeMap<TensorId, Dense> = found.into_iter().map(of).collect();
    run_from(graph, &sources).expect("views of what came out")
}

/// The outputs of the second run: the first finds everything as it was made, the second as it was left.
pub fn computed(graph: &Graph, tasks: &TaskGraph, inputs: &Values, seats: &[Seat]) -> Result<Values, RunError> {
    let mut executor = executor(tasks, &given(graph, tasks, inputs, true), seats)?;
    let inputs = given(graph, tasks, inputs, false);
    executor.run(&inputs)?;
    Ok(outputs(graph, executor.run(&inputs)?.outputs))
}
