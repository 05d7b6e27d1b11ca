//! What the caller may ask of a plan.

use ein_task::machine::DeviceId;
use ein_task::units::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the search minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Objective {
    /// Serial seconds of the counting page: compute plus exchanges.
    #[default]
    Time,
    /// Simulated seconds from the first task to the end of the last, with what can run at once running at once. The search
    /// has no price for that: it finds the cheapest plans by [`Objective::Time`] where exchanges count in full and where
    /// they count for less, and the simulator judges between them.
    Makespan,
    /// Bytes over links, with contractions balanced.
    Bytes,
    /// The largest device's peak memory.
    Memory,
}

/// Where inputs or outputs of the graph are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Placement {
    /// Once, in any layout the plan likes.
    #[default]
    Anywhere,
    /// Whole on every device.
    Replicated,
    /// Whole on one device.
    Device(DeviceId),
}

/// A fixed strategy, for comparison only: the search knows none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Strategy {
    /// Everything on one device.
    OneDevice,
    /// The batch cut, weights whole everywhere.
    Data,
    /// Heads and hidden features cut, activations whole (Megatron-LM).
    Tensor,
    /// `Tensor`, with tokens cut between the products.
    TensorSequence,
    /// The batch cut, weights cut and gathered where used.
    FullyShardedData,
    /// Tokens cut outside attention, heads cut inside (DeepSpeed-Ulysses).
    Ulysses,
    /// Tokens cut everywhere: queries stay, and every device folds what one block of keys after the other says of them
    /// (ring attention). Keys and values are handed out to all, in whatever order is quickest, which moves as many bytes as
    /// passing them round does. Where queries see earlier keys only, a device has tokens of both ends.
    Ring,
    /// Groups of `tensor` devices, each as `Tensor` does with its part of the batch, which is cut over `data` groups.
    DataTensor {
        /// Groups.
        data: usize,
        /// Devices of a group.
        tensor: usize,
    },
    /// Products alone, each cut on both axes of its result: in as many parts as moves least.
    Grid2d,
    /// Products alone, each cut on both axes of its result and on what it sums over: in as many parts as moves least.
    Grid3d,
    /// For every row any one of the search's candidates, drawn with this seed, and homes where it is made or needed.
    Random(u64),
}

impl Strategy {
    /// Those that need no number, in listing order.
    pub const ALL: [Strategy; 9] = [
        Self::OneDevice,
        Self::Data,
        Self::Tensor,
        Self::TensorSequence,
        Self::FullyShardedData,
        Self::Ulysses,
        Self::Ring,
        Self::Grid2d,
        Self::Grid3d,
    ];

    /// Those that a plan for so many devices is compared with, in listing order: [`Self::ALL`] and every product of data and
    /// tensor.
    pub fn compared(devices: usize) -> Vec<Strategy> {
        let split = |data: usize| devices.is_multiple_of(data).then(|| devices / data).filter(|&tensor| tensor > 1);
        let products = (2..devices).filter_map(|data| Some(Self::DataTensor { data, tensor: split(data)? }));
        Self::ALL.into_iter().chain(products).collect()
    }

    /// The name on the command line.
    pub fn name(self) -> String {
        match self {
            Self::OneDevice => "one-device".into(),
            Self::Data => "data".into(),
            Self::Tensor => "tensor".into(),
            Self::TensorSequence => "tensor-sequence".into(),
            Self::FullyShardedData => "fsdp".into(),
            Self::Ulysses => "ulysses".into(),
            Self::Ring => "ring".into(),
            Self::DataTensor { data, tensor } => format!("data-{data}-tensor-{tensor}"),
            Self::Grid2d => "grid-2d".into(),
            Self::Grid3d => "grid-3d".into(),
            Self::Random(seed) => format!("random:{seed}"),
        }
    }

    /// All names, those with numbers as forms.
    pub fn names() -> String {
        let fixed = Self::ALL.map(Self::name);
        fixed.join(", ") + ", data-GROUPS-tensor-DEVICES, random:SEED"
    }

    /// The strategy of this name.
    pub fn parse(name: &str) -> Option<Strategy> {
        if let Some(seed) = name.strip_prefix("random:") {
            return seed.parse().ok().map(Self::Random);
        }
        if let Some((data, tensor)) = name.strip_prefix("data-").and_then(|rest| rest.split_once("-tensor-")) {
            let (data, tensor) = (data.parse().ok()?, tensor.parse().ok()?);
            return (data > 0 && tensor > 0).then_some(Self::DataTensor { data, tensor });
        }
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// How exchanges are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExchangeStyle {
    /// By synthesised programs.
    #[default]
    Synthesized,
    /// By synthesised programs that store as little at once as they can: slower, taken where others do not fit.
    Lean,
    /// Every reader fetches each piece from its first holder and folds for itself: for comparison.
    Naive,
}

/// What the caller asks.
// Switches that have nothing to do with one another.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// What to minimise.
    pub objective: Objective,
    /// With `Objective::Bytes`: every device does at most 1.02 of its share of the contractions.
    pub balance: bool,
    /// A limit below the machine's own memory.
    pub memory: Option<Bytes>,
    /// Whether partials of 16-bit types cross in f32.
    pub wide_partials: bool,
    /// Where inputs of kind `Input` are held.
    pub inputs: Placement,
    /// Where outputs are held.
    pub outputs: Placement,
    /// A fixed strategy instead of the search.
    pub strategy: Option<Strategy>,
    /// How exchanges are answered.
    pub exchange: ExchangeStyle,
    /// Whether parameters and state may stay in a host's memory and be sent in every run to where they are read, where the
    /// memory of the devices that compute does not suffice otherwise (or, by `Objective::Memory`, holds less then).
    pub offload: bool,
    /// How long the search may go on: it then ends with the best plan so far. The one way in which a clock decides
    /// anything; without a limit the same question always has the same answer.
    pub time_limit: Option<Duration>,
    /// With `Objective::Time` and `Objective::Makespan`: whether blocks are cut once more on their devices, and memory is spread, where the
    /// simulator says that exchanges then hide behind what is computed. Never where devices are threads.
    pub overlap: bool,
    /// Whether a row that reads the result of another element by element, alone and on the same device, becomes a part
    /// of it where the device can do that.
    #[serde(default = "yes")]
    pub fuse: bool,
}

fn yes() -> bool {
    true
}

impl Default for Options {
    fn default() -> Self {
        Self {
            objective: Objective::Time,
            balance: true,
            memory: None,
            wide_partials: false,
            inputs: Placement::Anywhere,
            outputs: Placement::Anywhere,
            strategy: None,
            exchange: ExchangeStyle::Synthesized,
            offload: false,
            time_limit: None,
            overlap: true,
            fuse: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let all = Strategy::compared(8).into_iter().chain([Strategy::Random(7)]);
        for strategy in all {
            assert_eq!(Strategy::parse(&strategy.name()), Some(strategy));
        }
        for wrong in
            ["", "rings", "random:", "random:-1", "data-2", "data-0-tensor-8", "data-2-tensor-x", "data-2-tensor-"]
        {
            assert_eq!(Strategy::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn products_of_data_and_tensor_use_all_devices() {
        let check = |devices: usize, expected: &[&str]| {
            let names: Vec<String> =
                Strategy::compared(devices)[Strategy::ALL.len()..].iter().map(|s| s.name()).collect();
            assert_eq!(names, expected, "{devices}");
        };
        check(1, &[]);
        check(7, &[]);
        check(8, &["data-2-tensor-4", "data-4-tensor-2"]);
        check(12, &["data-2-tensor-6", "data-3-tensor-4", "data-4-tensor-3", "data-6-tensor-2"]);
    }
}
