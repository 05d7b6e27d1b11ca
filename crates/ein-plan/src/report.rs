//! What is printed of a plan.

use crate::overlap::Overlap;
use ein_task::units::{Bytes, Seconds};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes of every device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerDevice {
    /// What each sends.
    pub sent: Vec<Bytes>,
    /// What each receives.
    pub received: Vec<Bytes>,
}

/// What a plan rests on that the graph does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumptions {
    /// Where inputs are held.
    pub inputs: String,
    /// Where outputs are held.
    pub outputs: String,
    /// In which type partials of 16-bit tensors cross.
    pub partials: String,
    /// What parameters cost.
    pub parameters: String,
}

/// How much the search did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Rows that differ in structure.
    pub row_classes: usize,
    /// Tensors that differ in structure.
    pub tensor_classes: usize,
    /// Candidates of all classes of rows.
    pub candidates: usize,
    /// Exchange patterns that were priced.
    pub patterns: usize,
    /// Entries of the largest table that was minimised.
    pub largest_table: usize,
    /// Times that the tables were solved.
    pub rounds: usize,
    /// Whether the time limit ended it, so that more time may find better.
    pub stopped: bool,
}

/// A plan in figures, by the counting page. The field names are the keys of its JSON form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine's name.
    pub machine: String,
    /// Its number of devices that compute.
    pub devices: usize,
    /// Its number of hosts, which store and relay; they follow in the lists of figures for each device.
    pub hosts: usize,
    /// Rows that compute.
    pub operations: usize,
    /// What was minimised: `time`, `bytes` or `memory`.
    pub objective: String,
    /// The fixed strategy, if the plan is one.
    pub strategy: Option<String>,
    /// How exchanges are answered: `quickest`, `lean` (they store as little at once as they can, because the quickest
    /// need more memory than there is, or because that was asked) or `naive`.
    pub exchanges: Cow<'static, str>,
    /// Bytes over all link crossings.
    pub bytes_total: Bytes,
    /// Bytes without those of relays.
    pub bytes_delivered: Bytes,
    /// Bytes of every device.
    pub bytes_per_device: PerDevice,
    /// The objective's value.
    pub cost: f64,
    /// Its unit: `s` or `B`.
    pub cost_unit: String,
    /// Serial seconds, whatever the objective.
    pub seconds: Seconds,
    /// The part of `seconds` that is computing.
    pub compute_seconds: Seconds,
    /// Makespan with overlap, from the simulator.
    pub simulated_seconds: Seconds,
    /// What was cut so that exchanges hide behind it.
    pub overlap: Overlap,
    /// No choice of candidates costs less.
    pub lower_bound: f64,
    /// `(cost - lower_bound) / cost`, 0 where the cost is 0.
    pub gap: f64,
    /// The same against a bound that knows no candidates.
    pub gap_absolute: f64,
    /// That bound.
    pub lower_bound_absolute: f64,
    /// Operations of contractions: the largest device's over the mean.
    pub balance: f64,
    /// Bytes of every device's arena.
    pub peak_memory_per_device: Vec<Bytes>,
    /// How long planning took.
    pub planning_seconds: Seconds,
    /// What the figures rest on.
    pub assumptions: Assumptions,
    /// How much the search did; nothing for a fixed strategy.
    pub effort: Effort,
}

/// A fixed strategy beside the plan: its figures, or why it is not one for this graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategyReport {
    /// Its name.
    pub strategy: String,
    /// Why it does not apply; the figures are absent then.
    pub refused: Option<String>,
    /// The objective's value.
    pub cost: Option<f64>,
    /// Serial seconds.
    pub seconds: Option<Seconds>,
    /// Makespan with overlap, from the simulator.
    pub simulated_seconds: Option<Seconds>,
    /// Bytes over all link crossings.
    pub bytes_total: Option<Bytes>,
    /// Bytes of every device.
    pub bytes_per_device: Option<PerDevice>,
    /// Bytes of every device's arena.
    pub peak_memory_per_device: Option<Vec<Bytes>>,
    /// Whether it fits the machine's memory.
    pub fits: Option<bool>,
    /// Whether every device has its share of every contraction.
    pub balanced: Option<bool>,
    /// The largest device's operations over the mean.
    pub balance: Option<f64>,
}
